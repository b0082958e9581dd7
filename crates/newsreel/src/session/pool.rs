//! Spare buffers, so that an idle session holds none and a busy one does not allocate.
//!
//! Each thread keeps a few; a buffer may come back on another thread than it was taken on. Called by `Input` and
//! `Output`.

use std::cell::RefCell;

/// Size of a new buffer.
pub(super) const BUFFER_BYTES: usize = 16 << 10;
/// Larger buffers are not kept, in bytes.
const KEPT_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Buffers kept per thread at most.
const KEPT_BUFFERS_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least [`BUFFER_BYTES`].
pub(super) fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Takes a buffer back, with whatever is in it.
pub(super) fn give(mut buffer: Vec<u8>) {
    if !(BUFFER_BYTES..=KEPT_BUFFER_BYTES_MAX).contains(&buffer.capacity()) {
        return;
    }
    buffer.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < KEPT_BUFFERS_MAX {
            spare.push(buffer);
        }
    });
}
