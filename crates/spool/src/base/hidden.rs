//! A hidden article: stored, and shown to nobody (`docs/hiding.md`).

use super::ids::GroupId;
use super::key::Key;
use super::token::Token;

/// Articles hidden at once, at most; each takes some 400 bytes of memory.
pub const HIDDEN_MAX: usize = 1_000_000;
/// Longest name of who hides, in bytes.
pub const HIDER_BYTES_MAX: usize = 255;
/// Longest reason, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;

/// An article that is hidden, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenArticle {
    /// Hash of its Message-ID.
    pub key: Key,
    /// Where it is stored.
    pub token: Token,
    /// Unix seconds.
    pub since: u32,
    /// Its Message-ID.
    pub message_id: String,
    /// Who hid it.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
    /// Its groups and its numbers there.
    pub numbers: Vec<(GroupId, u64)>,
}
