//! Spare buffers, so that an idle connection holds none and a busy one does not allocate.
//!
//! Each thread keeps a few; a buffer may be returned on another thread than the one that took it. Called by
//! [`Output`], by the layers of a [`Transport`] and by whoever reads from one.
//!
//! [`Output`]: crate::Output
//! [`Transport`]: crate::Transport

use std::cell::RefCell;

/// Size of a new buffer.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Largest buffer that is pooled at all, in bytes.
pub const LARGE_BUFFER_BYTES_MAX: usize = 512 << 10;
/// Longest buffer kept with the small ones, in bytes.
const KEPT_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Bytes of them kept per thread at most: feeds to many peers have many threads now and then.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Larger ones kept per thread at most: feeds return theirs whenever they wait, and without these the
/// allocator would return the memory to the system and get it back, zeroed, a hundred times a second.
const KEPT_LARGE_MAX: usize = 4;

/// Spare buffers, with the bytes that they take.
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { buffers: Vec::new(), bytes: 0 }) };
    static LARGE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least [`BUFFER_BYTES`].
pub fn take() -> Vec<u8> {
    let kept = SPARE.with_borrow_mut(|spare| {
        let buffer = spare.buffers.pop()?;
        spare.bytes -= buffer.capacity();
        Some(buffer)
    });
    kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// An empty buffer with room for at least `bytes`, at most [`LARGE_BUFFER_BYTES_MAX`].
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
        SPARE.with_borrow_mut(|spare| {
            if spare.bytes + bytes <= KEPT_BYTES_MAX {
                spare.bytes += bytes;
                spare.buffers.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_keeps_is_bounded_in_bytes() {
        let kept = || SPARE.with_borrow(|spare| (spare.buffers.len(), spare.bytes));
        (0..1_000).for_each(|_| give(Vec::with_capacity(BUFFER_BYTES)));
        assert_eq!(kept(), (64, KEPT_BYTES_MAX));
        assert!(take().capacity() >= BUFFER_BYTES);
        assert_eq!(kept(), (63, KEPT_BYTES_MAX - BUFFER_BYTES));
        (0..64).for_each(|_| drop(take()));
        assert_eq!(kept(), (0, 0));
        // Those that have grown take more.
        (0..1_000).for_each(|_| give(Vec::with_capacity(KEPT_BUFFER_BYTES_MAX)));
        assert_eq!(kept(), (16, KEPT_BYTES_MAX));
        give(vec![0; BUFFER_BYTES - 1]);
        assert_eq!(kept(), (16, KEPT_BYTES_MAX), "too small");
    }
}
