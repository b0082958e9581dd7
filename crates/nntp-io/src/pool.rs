//! Spare buffers, so that an idle connection holds none and a busy one does not allocate.
//!
//! Each thread keeps a few. A buffer may be returned on another thread than the one that took it, and some
//! threads return more than they take: their surplus is shared by all threads. Called by [`ServerOutput`], by
//! the layers of a [`Transport`] and by its readers.
//!
//! [`ServerOutput`]: crate::ServerOutput
//! [`Transport`]: crate::Transport

use std::cell::RefCell;

use lock_order::Innermost;

/// Size of a new buffer.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Largest buffer that is pooled at all, in bytes.
pub const LARGE_BUFFER_BYTES_MAX: usize = 512 << 10;
/// Longest buffer kept with the small ones, in bytes.
const KEPT_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Maximum number of bytes in small buffers kept per thread: where sessions wait for the disk, buffers move
/// from thread to thread, and there are many threads now and then.
const KEPT_BYTES_MAX: usize = 128 << 10;
/// Maximum number of bytes in small buffers kept for all threads.
const SHARED_BYTES_MAX: usize = 2 << 20;
/// Maximum number of large buffers kept per thread: feeds return theirs whenever they wait, and without these
/// the allocator would return the memory to the system and get it back, zeroed, a hundred times a second.
const KEPT_LARGE_MAX: usize = 4;

/// Spare buffers, and their total size in bytes.
struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl SpareBuffers {
    const NONE: Self = Self { buffers: Vec::new(), bytes: 0 };

    fn take(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer, unless the total would exceed `bytes_max`: then it is returned.
    fn keep(&mut self, buffer: Vec<u8>, bytes_max: usize) -> Option<Vec<u8>> {
        if self.bytes + buffer.capacity() > bytes_max {
            return Some(buffer);
        }
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
        None
    }
}

/// Surplus buffers of all threads.
static SHARED: Innermost<SpareBuffers> = Innermost::new(SpareBuffers::NONE);

thread_local! {
    static SPARE: RefCell<SpareBuffers> = const { RefCell::new(SpareBuffers::NONE) };
    static LARGE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer with room for at least [`BUFFER_BYTES`].
pub fn take() -> Vec<u8> {
    let kept = SPARE.with_borrow_mut(SpareBuffers::take);
    // Uses the shared buffers only if no other thread holds their lock.
    let kept = kept.or_else(|| SHARED.try_lock()?.take());
    kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Returns an empty buffer with room for at least `bytes`, at most [`LARGE_BUFFER_BYTES_MAX`].
pub fn take_large(bytes: usize) -> Vec<u8> {
    let kept = LARGE.with_borrow_mut(|large| {
        let at = large.iter().rposition(|buffer| buffer.capacity() >= bytes)?;
        Some(large.swap_remove(at))
    });
    kept.unwrap_or_else(|| Vec::with_capacity(bytes))
}

/// Takes a buffer back; its content is dropped.
pub fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    let bytes = buffer.capacity();
    if bytes > KEPT_BUFFER_BYTES_MAX && bytes <= LARGE_BUFFER_BYTES_MAX {
        LARGE.with_borrow_mut(|large| {
            if large.len() < KEPT_LARGE_MAX {
                large.push(buffer);
            }
        });
    } else if (BUFFER_BYTES..=KEPT_BUFFER_BYTES_MAX).contains(&bytes) {
        let more = SPARE.with_borrow_mut(|spare| spare.keep(buffer, KEPT_BYTES_MAX));
        if let Some(buffer) = more
            && let Some(mut shared) = SHARED.try_lock()
        {
            let _too_many = shared.keep(buffer, SHARED_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_kept_per_thread_are_bounded_in_bytes() {
        let kept = || SPARE.with_borrow(|spare| (spare.buffers.len(), spare.bytes));
        (0..1_000).for_each(|_| give(Vec::with_capacity(BUFFER_BYTES)));
        assert_eq!(kept(), (8, KEPT_BYTES_MAX));
        assert!(take().capacity() >= BUFFER_BYTES);
        assert_eq!(kept(), (7, KEPT_BYTES_MAX - BUFFER_BYTES));
        (0..7).for_each(|_| drop(take()));
        assert_eq!(kept(), (0, 0));
        // Buffers that have grown take more.
        (0..1_000).for_each(|_| give(Vec::with_capacity(KEPT_BUFFER_BYTES_MAX)));
        assert_eq!(kept(), (2, KEPT_BYTES_MAX));
        give(vec![0; BUFFER_BYTES - 1]);
        assert_eq!(kept(), (2, KEPT_BYTES_MAX), "too small");
    }

    #[test]
    fn surplus_buffers_are_passed_to_other_threads() {
        // Other tests take some of them too.
        const BYTES: usize = BUFFER_BYTES + 4321;
        let is_passed_on = || {
            (0..100).for_each(|_| give(Vec::with_capacity(BYTES)));
            let taken = std::thread::spawn(|| (0..4).map(|_| take().capacity()).collect::<Vec<_>>());
            taken.join().unwrap().contains(&BYTES)
        };
        assert!((0..1_000).any(|_| is_passed_on()));
        let mut spare = SpareBuffers::NONE;
        assert!(
            (0..1_000).all(|_| spare.keep(Vec::with_capacity(10), 1_000).is_none() || spare.bytes == 1_000)
        );
        assert_eq!((spare.buffers.len(), spare.take().map(|buffer| buffer.capacity())), (100, Some(10)));
        assert_eq!(spare.bytes, 990);
    }
}
