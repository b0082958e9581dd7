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
/// Buffers kept per thread at most.
const KEPT_BUFFERS_MAX: usize = 64;
/// Larger ones kept per thread at most: feeds return theirs whenever they wait, and without these the
/// allocator would return the memory to the system and get it back, zeroed, a hundred times a second.
const KEPT_LARGE_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static LARGE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least [`BUFFER_BYTES`].
pub fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
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
    let keep = |kept: &mut Vec<Vec<u8>>, most: usize, buffer| {
        if kept.len() < most {
            kept.push(buffer);
        }
    };
    let bytes = buffer.capacity();
    if bytes > KEPT_BUFFER_BYTES_MAX && bytes <= LARGE_BUFFER_BYTES_MAX {
        LARGE.with_borrow_mut(|large| keep(large, KEPT_LARGE_MAX, buffer));
    } else if (BUFFER_BYTES..=KEPT_BUFFER_BYTES_MAX).contains(&bytes) {
        SPARE.with_borrow_mut(|spare| keep(spare, KEPT_BUFFERS_MAX, buffer));
    }
}
