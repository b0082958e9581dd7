//! Thread numbers, for data that each thread keeps apart from the others.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the number of the calling thread; threads are numbered in the order in which they first ask.
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_keeps_a_number_of_its_own() {
        let own = thread_number();
        let other = std::thread::spawn(|| (thread_number(), thread_number())).join().unwrap();
        assert!(other.0 == other.1 && other.0 != own && thread_number() == own);
    }
}
