//! Spare article buffers, so that an idle reader holds none and a busy one does not allocate.
//!
//! Each thread keeps a few. Called by the article commands.

use std::cell::RefCell;
use upstreams::ArticleBytes;

/// Maximum capacity of a buffer that is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of buffers kept per thread.
const KEPT_MAX: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<ArticleBytes>> = const { RefCell::new(Vec::new()) };
}

/// Returns a spare or new buffer.
pub(super) fn take() -> ArticleBytes {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Takes a buffer back.
pub(super) fn give(buffer: ArticleBytes) {
    if buffer.capacity() <= KEPT_BYTES_MAX {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < KEPT_MAX {
                spare.push(buffer);
            }
        });
    }
}
