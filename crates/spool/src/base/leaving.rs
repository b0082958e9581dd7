//! Articles that are about to leave the spool for good, as those hear of it who may hold them back.

use crate::base::key::Key;
use crate::base::token::Token;
use std::fmt::Debug;

/// A kept article that expiry would remove now.
#[derive(Debug, Clone, Copy)]
pub struct Leaving<'a> {
    /// Hash of its Message-ID.
    pub key: Key,
    /// Where it is stored.
    pub token: Token,
    /// Its groups that are still carried, with its numbers there.
    pub numbers: &'a [(&'a str, u64)],
    /// It is not due, but given up for room.
    pub is_given_up: bool,
}

/// Who is asked before expiry removes an article.
pub trait MayLeave: Debug + Send + Sync {
    /// Whether the article may go now; otherwise a later pass asks again. Called with the writer's lock held:
    /// it must return at once, and call nothing of the spool.
    fn may_leave(&self, article: &Leaving<'_>) -> bool;
}
