//! Input and results of a commit.

use crate::base::facts::TaggedFields;
use crate::base::ids::GroupId;
use crate::base::key::ArticleKey;
use crate::base::token::Token;
use netnews::overview_row::OverviewFields;

/// An article ready to be stored.
#[derive(Debug, Clone, Copy)]
pub struct ArticleFiling<'a> {
    /// Hash of the Message-ID.
    pub key: ArticleKey,
    /// Message-ID.
    pub message_id: &'a [u8],
    /// The article in wire format, without Xref and without the final `.` line, as consecutive pieces.
    pub pieces: &'a [&'a [u8]],
    /// Length of the headers in the pieces, including the blank line.
    pub header_bytes: usize,
    /// Offset of the Message-ID in the pieces.
    pub message_id_at: usize,
    /// The groups to file it in, without duplicates. Without groups the article has no numbers, no overview
    /// and no place in Xref, and is found by its Message-ID alone; only cyclic buffers take such articles.
    pub groups: &'a [GroupId],
    /// Article numbers in `groups`, 0 for a new one; empty: all new. Each must be higher than all numbers its
    /// group has handed out, since numbers are never reused: see [`CommitOutcome::NumberTaken`].
    pub numbers: &'a [u64],
    /// OVER fields; the size is without the Xref line, which is added here.
    pub fields: OverviewFields<'a>,
    /// Arrival time in Unix seconds.
    pub arrived: u64,
    /// Value of the Expires header in Unix seconds.
    pub expires: Option<u64>,
    /// Further properties that storage rules test.
    pub criteria: Criteria<'a>,
    /// Further facts recorded in the journal row.
    pub tagged: TaggedFields<'a>,
}

/// Properties of an article, besides groups, size and dates, that storage rules test. An absent property
/// meets no condition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Criteria<'a> {
    /// From header.
    pub from: &'a [u8],
    /// Path header as received.
    pub path: &'a [u8],
    /// All header lines, for rules that name other headers.
    pub head: &'a [u8],
    /// Verdict of a filter, one word; needed only if a storage rule tests it.
    pub verdict: Option<&'a str>,
    /// Origin of the article: `peer NAME`, `injected`, `rnews`.
    pub origin: &'a str,
    /// Newsgroups header: the groups that rules use for an article filed in none.
    pub newsgroups: &'a [u8],
}

/// Input of a commit.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "batches are of articles; what is remembered is rare")]
pub enum CommitEntry<'a> {
    /// An accepted article.
    Article(ArticleFiling<'a>),
    /// A rejected article whose Message-ID is remembered.
    Remember {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Arrival time in Unix seconds.
        arrived: u64,
    },
}

impl CommitEntry<'_> {
    pub(crate) fn key(&self) -> ArticleKey {
        match self {
            CommitEntry::Article(f) => f.key,
            CommitEntry::Remember { key, .. } => *key,
        }
    }
}

/// Location of a filed article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiledArticle {
    /// Token of the article.
    pub token: Token,
}

/// Result of committing an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Stored, journaled and published.
    Filed(FiledArticle),
    /// The Message-ID is already known.
    Duplicate,
    /// The Message-ID is now remembered.
    Remembered,
    /// No buffer of the class can hold the article, or no rule matches it.
    Unfit,
    /// The class accepts no more until articles there are due or an operator makes room: try later.
    Full,
    /// A given number is not above all that its group has handed out; nothing was filed.
    NumberTaken,
}

/// A journal position to wait for; see [`crate::Spool::is_durable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct CommitTicket(pub(crate) u64);

impl CommitTicket {
    /// Returns the position, in bytes of journal ever written.
    pub fn position(self) -> u64 {
        self.0
    }
}
