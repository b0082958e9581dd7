//! Spare article buffers, so that an idle reader holds none and a busy one does not allocate.
//!
//! Each thread keeps a few. Called by the article commands.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use upstreams::ArticleBytes;

/// Maximum capacity of a buffer that is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of buffers kept per thread.
const KEPT_MAX: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<ArticleBytes>> = const { RefCell::new(Vec::new()) };
}

/// A buffer, which becomes spare when it is dropped.
pub(super) struct SpareArticle(ArticleBytes);

impl SpareArticle {
    /// Returns a spare or new buffer.
    pub fn take() -> Self {
        Self(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Deref for SpareArticle {
    type Target = ArticleBytes;

    fn deref(&self) -> &ArticleBytes {
        &self.0
    }
}

impl DerefMut for SpareArticle {
    fn deref_mut(&mut self) -> &mut ArticleBytes {
        &mut self.0
    }
}

impl Drop for SpareArticle {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_BYTES_MAX {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < KEPT_MAX {
                    spare.push(std::mem::take(&mut self.0));
                }
            });
        }
    }
}
