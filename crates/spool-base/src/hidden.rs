//! Hidden articles: stored, but not shown to any reader (`docs/hiding.md`).

use super::ids::GroupId;
use super::key::ArticleKey;
use super::token::Token;

/// Maximum number of hidden articles; each takes some 400 bytes of memory.
pub const HIDDEN_MAX: usize = 1_000_000;
/// Maximum length of a hider's name, in bytes.
pub const HIDER_BYTES_MAX: usize = 255;
/// Maximum length of a reason, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;

/// A hidden article, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenArticle {
    /// Hash of the Message-ID.
    pub key: ArticleKey,
    /// Token of the stored article.
    pub token: Token,
    /// Time of hiding, in Unix seconds.
    pub since: u32,
    /// Message-ID.
    pub message_id: String,
    /// Name of the hider.
    pub by: String,
    /// Reason; may be empty.
    pub reason: String,
    /// Groups of the article and its numbers there.
    pub numbers: Vec<(GroupId, u64)>,
}
