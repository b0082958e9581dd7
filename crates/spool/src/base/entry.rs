//! What callers pass to a commit, and what it returns.

use crate::base::facts::Tagged;
use crate::base::ids::GroupId;
use crate::base::key::Key;
use crate::base::token::Token;
use netnews::overview_row::Fields;

/// An article ready to be stored.
#[derive(Debug, Clone, Copy)]
pub struct Filing<'a> {
    /// Hash of its Message-ID.
    pub key: Key,
    /// Its Message-ID.
    pub message_id: &'a [u8],
    /// The article in wire format, without Xref and without the final `.`-line, as pieces to be put
    /// consecutively.
    pub pieces: &'a [&'a [u8]],
    /// Length of its headers in the pieces, the blank line included.
    pub header_bytes: usize,
    /// Where its Message-ID is in the pieces.
    pub message_id_at: usize,
    /// The groups to file it in, none twice. Without any it has no numbers, no overview and no place in Xref,
    /// and is found by its Message-ID alone; only cyclic buffers take such articles.
    pub groups: &'a [GroupId],
    /// Its numbers in `groups`, 0 for a new one; empty: all new. Each must be above all its group has given
    /// out, since a number once shown names nothing else: see [`Outcome::NumberTaken`].
    pub numbers: &'a [u64],
    /// Its OVER fields; its size without the Xref line, which is added here.
    pub fields: Fields<'a>,
    /// Unix seconds.
    pub arrived: u64,
    /// Unix seconds.
    pub expires: Option<u64>,
    /// What else storage rules may ask for.
    pub criteria: Criteria<'a>,
    /// What else its journal row says of it.
    pub tagged: Tagged<'a>,
}

/// What storage rules may ask of an article besides groups, size and dates. What is absent meets no
/// condition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Criteria<'a> {
    /// Its From header.
    pub from: &'a [u8],
    /// Its Path header, as it came.
    pub path: &'a [u8],
    /// All its header lines, for rules that name other headers.
    pub head: &'a [u8],
    /// What a filter says of it, in a word; needed only if a storage rule asks for it.
    pub verdict: Option<&'a str>,
    /// Where it comes from: `peer NAME`, `injected`, `rnews`.
    pub origin: &'a str,
    /// Its Newsgroups header: the groups that rules go by if it is filed in none.
    pub newsgroups: &'a [u8],
}

/// One thing to be committed.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "batches are of articles; what is remembered is rare")]
pub enum Entry<'a> {
    /// An accepted article.
    Article(Filing<'a>),
    /// A rejected one whose Message-ID is remembered.
    Remember {
        /// Hash of its Message-ID.
        key: Key,
        /// Unix seconds.
        arrived: u64,
    },
}

impl Entry<'_> {
    pub(crate) fn key(&self) -> Key {
        match self {
            Entry::Article(f) => f.key,
            Entry::Remember { key, .. } => *key,
        }
    }
}

/// Where an article was filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filed {
    /// Its token.
    pub token: Token,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Stored, journaled and published.
    Filed(Filed),
    /// Its Message-ID is known already.
    Duplicate,
    /// Its Message-ID is remembered now.
    Remembered,
    /// No buffer of its class can hold it, or no rule matches it.
    Unfit,
    /// Its class accepts no more until articles there are due or an operator makes room: try later.
    Full,
    /// One of its given numbers is not above all that its group has given out; nothing was filed.
    NumberTaken,
}

/// A journal position to wait for; see [`crate::Spool::is_durable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// The position, in bytes of journal ever written.
    pub fn position(self) -> u64 {
        self.0
    }
}
