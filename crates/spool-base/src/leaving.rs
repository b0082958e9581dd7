//! Articles about to leave the spool for good, and the hook that may hold them back.

use crate::key::ArticleKey;
use crate::token::Token;
use std::fmt::Debug;

/// A retained article that expiry would remove now.
#[derive(Debug, Clone, Copy)]
pub struct LeavingArticle<'a> {
    /// Hash of the Message-ID.
    pub key: ArticleKey,
    /// Token of the stored article.
    pub token: Token,
    /// Groups that are still carried, with the article's numbers there.
    pub numbers: &'a [(&'a str, u64)],
    /// Whether the article is given up for space before it is due.
    pub is_given_up: bool,
}

/// Hook that is called before expiry removes an article.
pub trait ExpiryHook: Debug + Send + Sync {
    /// Returns whether the article may be removed now; otherwise a later pass asks again. Called with the
    /// writer's lock held: it must return at once, and call nothing of the spool.
    fn may_leave(&self, article: &LeavingArticle<'_>) -> bool;
}
