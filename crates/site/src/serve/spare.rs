//! Spare article buffers, so that an idle reader holds none and a busy one does not allocate.
//!
//! Each thread keeps a few. Called by the article commands.

use std::cell::RefCell;
use upstreams::ArticleBytes;

/// A buffer that a large article has made larger than this many bytes is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Buffers kept per thread at most.
const KEPT_MAX: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<ArticleBytes>> = const { RefCell::new(Vec::new()) };
}

/// A buffer.
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
