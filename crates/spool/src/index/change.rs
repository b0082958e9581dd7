//! Changes: everything that alters what readers, peers or history can see, and what became of it.
//!
//! A change names groups, sites and articles as the world does. How a spool stores, numbers and hashes them
//! is its own affair, so the same changes, in the same order and with the same times, make the same site on
//! any machine. Applied by [`crate::Spool::apply`]; made by [`crate::ChangeMaker`].

use crate::index::groups::{GroupChange, GroupTable, NewGroup};
use crate::index::notes::is_storable;
use crate::index::refusal::{ChangeRefusal, DESCRIPTION_BYTES_MAX, SITE_NAME_BYTES_MAX};
use netnews::overview_row::OverviewFields;
use spool_base::error::SpoolTrouble;
use spool_base::facts::TaggedFields;
use spool_base::hidden::{HIDER_BYTES_MAX, REASON_BYTES_MAX};
use spool_base::ids::GroupId;
use spool_base::key::{ArticleKey, KeyHasher};
use spool_base::moved::hash_key;
use spool_base::note::NoteKind;
use spool_base::token::Token;

/// One change.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "batches are of articles; all other changes are rare")]
pub enum Change<'a> {
    /// An article is accepted.
    Article(NewArticle<'a>),
    /// A Message-ID is remembered without an article, as that was rejected or is not to come.
    Remember {
        /// The Message-ID.
        id: ArticleIdent<'a>,
        /// Arrival time in Unix seconds.
        arrived: u64,
    },
    /// A Message-ID that was remembered at this time without an article is forgotten. The time distinguishes
    /// it from one whose article was withdrawn, which must not be forgotten: the record may still be in a
    /// buffer.
    Forget {
        /// The Message-ID.
        id: ArticleIdent<'a>,
        /// Arrival time in Unix seconds.
        arrived: u32,
    },
    /// An article is cancelled, for good (CNFS-12).
    Cancel {
        /// The article.
        id: ArticleIdent<'a>,
    },
    /// An article leaves these groups, in which it is due or purged; without any other group it is removed.
    Expire {
        /// The article.
        id: ArticleIdent<'a>,
        /// Names of the groups.
        groups: &'a [String],
    },
    /// An article is no longer shown.
    Hide {
        /// The Message-ID.
        message_id: &'a [u8],
        /// Name of the hider, 1 to [`crate::HIDER_BYTES_MAX`] bytes.
        by: &'a str,
        /// Reason, at most [`crate::REASON_BYTES_MAX`] bytes.
        reason: &'a str,
        /// Time since which it is hidden, in Unix seconds.
        since: u64,
    },
    /// A hidden article is shown again, under its old numbers.
    Unhide {
        /// The article.
        id: ArticleIdent<'a>,
    },
    /// Groups are created, changed and removed together, or not at all; of several updates of one group the
    /// first counts. A shared log applies a set that is longer than a message in several steps.
    Groups(&'a [GroupUpdate]),
    /// A small fact is noted, or, without a value, no longer.
    Note {
        /// Kind of the note.
        kind: NoteKind,
        /// Name of the note, at most [`crate::NOTE_KEY_BYTES_MAX`] bytes.
        key: &'a [u8],
        /// What is noted, at most [`crate::NOTE_VALUE_BYTES_MAX`] bytes.
        value: Option<&'a [u8]>,
        /// Time since which it is so, in Unix seconds.
        since: u64,
    },
    /// A site is to be named in the rows of articles that it gets; it has a number from here on.
    Site {
        /// Name of the site.
        name: &'a str,
    },
    /// All changes so far are those of a log that several machines share, up to a position in it. A crash
    /// takes back what was applied after the last position, so that it can be applied again.
    Position {
        /// Record of the position, at most [`crate::POSITION_BYTES_MAX`] bytes. An empty one ends it: from
        /// here on changes come from no shared log.
        record: &'a [u8],
    },
}

/// Kinds of changes that are applied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Filing,
    Withdrawing,
    Forgetting,
    Hiding,
    Unhiding,
    Groups,
    Noting,
    Site,
    Position,
}

impl Change<'_> {
    pub(crate) fn kind(&self) -> ChangeKind {
        match self {
            Self::Article(_) | Self::Remember { .. } => ChangeKind::Filing,
            Self::Cancel { .. } | Self::Expire { .. } => ChangeKind::Withdrawing,
            Self::Forget { .. } => ChangeKind::Forgetting,
            Self::Hide { .. } => ChangeKind::Hiding,
            Self::Unhide { .. } => ChangeKind::Unhiding,
            Self::Groups(_) => ChangeKind::Groups,
            Self::Note { .. } => ChangeKind::Noting,
            Self::Site { .. } => ChangeKind::Site,
            Self::Position { .. } => ChangeKind::Position,
        }
    }

    /// Returns the key of the article that it is about; that of no article for groups,
    /// notes and sites.
    pub(crate) fn key(&self, hasher: &KeyHasher) -> ArticleKey {
        match self {
            Self::Article(article) => article.key.unwrap_or_else(|| hasher.key(article.message_id)),
            Self::Remember { id, .. }
            | Self::Forget { id, .. }
            | Self::Cancel { id }
            | Self::Expire { id, .. }
            | Self::Unhide { id } => id.key(hasher),
            Self::Hide { message_id, .. } => hasher.key(message_id),
            Self::Groups(_) | Self::Note { .. } | Self::Site { .. } | Self::Position { .. } => {
                ArticleKey::default()
            }
        }
    }
}

impl Change<'_> {
    /// Returns why the change is refused, as far as that follows from the change alone.
    pub fn refusal(&self) -> Option<ChangeRefusal> {
        match self {
            Self::Groups(updates) => updates.iter().find_map(GroupUpdate::refusal),
            Self::Hide { by, reason, .. } => {
                let is_named = (1..=HIDER_BYTES_MAX).contains(&by.len()) && reason.len() <= REASON_BYTES_MAX;
                (!is_named).then_some(ChangeRefusal::Hider)
            }
            Self::Site { name } => {
                let is_named = (1..=SITE_NAME_BYTES_MAX).contains(&name.len());
                (!is_named).then_some(ChangeRefusal::SiteName)
            }
            Self::Note { key, value, .. } => (!is_storable(key, *value)).then_some(ChangeRefusal::Note),
            Self::Article(_)
            | Self::Remember { .. }
            | Self::Forget { .. }
            | Self::Cancel { .. }
            | Self::Expire { .. }
            | Self::Unhide { .. }
            | Self::Position { .. } => None,
        }
    }
}

impl GroupUpdate {
    /// Returns why the update is refused, if it has anything to change.
    pub(crate) fn refusal(&self) -> Option<ChangeRefusal> {
        let is_long = |text: &str| text.len() > DESCRIPTION_BYTES_MAX;
        match self {
            Self::Add(group) if !netnews::newsgroups::valid_name(group.name.as_bytes()) => {
                Some(ChangeRefusal::GroupName)
            }
            Self::Add(group) => {
                (is_long(&group.description) || is_long(&group.creator)).then_some(ChangeRefusal::GroupText)
            }
            Self::Change(_, change) => {
                change.description.as_deref().is_some_and(is_long).then_some(ChangeRefusal::GroupText)
            }
            Self::Remove(_) | Self::RaiseHigh(..) => None,
        }
    }
}

/// A Message-ID, or what stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArticleIdent<'a> {
    /// The id itself, with its angle brackets.
    Id(&'a [u8]),
    /// Hash of the id under the site's secret.
    Key(ArticleKey),
    /// INN's hash of the id: see [`crate::inn_hash`].
    InnHash([u8; 16]),
    /// An article that was looked up already.
    Located(&'a LocatedArticle),
}

impl ArticleIdent<'_> {
    pub(crate) fn key(&self, hasher: &KeyHasher) -> ArticleKey {
        match self {
            Self::Id(id) => hasher.key(id),
            Self::Key(key) => *key,
            Self::InnHash(hash) => hash_key(hasher, *hash),
            Self::Located(article) => article.key,
        }
    }
}

/// A stored article: what a look-up found, so that it need not be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedArticle {
    pub(crate) key: ArticleKey,
    pub(crate) token: Token,
    /// Groups and numbers according to its Xref.
    pub(crate) numbers: Vec<(GroupId, u64)>,
}

impl LocatedArticle {
    /// Returns the hash of the Message-ID.
    pub fn key(&self) -> ArticleKey {
        self.key
    }
}

/// An article ready to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewArticle<'a> {
    /// Message-ID.
    pub message_id: &'a [u8],
    /// Hash of the Message-ID under the site's secret, if it is computed already.
    pub key: Option<ArticleKey>,
    /// The article in wire format, without Xref and without the final `.` line, as consecutive pieces.
    pub pieces: &'a [&'a [u8]],
    /// Length of the headers in the pieces, including the blank line.
    pub header_bytes: usize,
    /// Offset of the Message-ID in the pieces.
    pub message_id_at: usize,
    /// The groups to file it in.
    pub groups: ArticleGroups<'a>,
    /// Article numbers in `groups`, 0 for a new one; empty: all new. Each must be higher than all numbers its
    /// group has handed out, since numbers are never reused: see [`ChangeOutcome::NumberTaken`].
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

/// The groups of a new article, without duplicates. Groups that do not exist are left out.
#[derive(Debug, Clone, Copy)]
pub enum ArticleGroups<'a> {
    /// No group: the article has no numbers, no overview and no place in Xref, and is found by its
    /// Message-ID alone; only cyclic buffers take such articles.
    None,
    /// Groups by name.
    Named(&'a [&'a [u8]]),
    /// Groups looked up by name in a table. If it is the current one, nothing is looked up again.
    Resolved {
        /// The table.
        table: &'a GroupTable,
        /// Numbers of the groups in that table.
        ids: &'a [GroupId],
    },
}

impl<'a> ArticleGroups<'a> {
    /// Returns the numbers of the groups if they were looked up in this table.
    pub(crate) fn ids_in(&self, current: &GroupTable) -> Option<&'a [GroupId]> {
        match self {
            Self::None => Some(&[]),
            Self::Resolved { table, ids } => std::ptr::eq(*table, current).then_some(*ids),
            Self::Named(_) => None,
        }
    }

    /// Looks the groups up in this table; `None` for one that does not exist.
    pub(crate) fn look_up(&self, current: &GroupTable) -> Vec<Option<GroupId>> {
        match self {
            Self::None => Vec::new(),
            Self::Named(names) => names.iter().map(|name| current.id(name)).collect(),
            Self::Resolved { table, ids } => {
                let named = |id: &GroupId| current.id(table.get(*id)?.name.as_bytes());
                ids.iter().map(named).collect()
            }
        }
    }
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

/// One change to the groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupUpdate {
    /// Creates the group; an existing one is left unchanged.
    Add(NewGroup),
    /// Changes the flag or description, if the group exists.
    Change(String, GroupChange),
    /// Removes the group, if it exists. Its articles stay readable by Message-ID, and if it is created again,
    /// its numbers continue where they ended.
    Remove(String),
    /// Raises the high water mark of the group, if it exists, so that numbers continue after those of the
    /// server it comes from; marks never fall.
    RaiseHigh(String, u64),
}

impl GroupUpdate {
    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        match self {
            Self::Add(group) => &group.name,
            Self::Change(name, _) | Self::Remove(name) | Self::RaiseHigh(name, _) => name,
        }
    }
}

/// Location of a filed article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiledArticle {
    /// Token of the article.
    pub token: Token,
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Stored, journaled and published.
    Filed(FiledArticle),
    /// The Message-ID is already known.
    Duplicate,
    /// The Message-ID is now remembered.
    Remembered,
    /// No buffer of the class can hold the article, or no rule matches it.
    Unfit,
    /// The class accepts no more until articles there are due or an operator makes room: try later. In a
    /// spool that follows a shared log an error instead, since nothing after the article may be applied
    /// before it.
    Full,
    /// A given number is not above all that its group has handed out; nothing was filed.
    NumberTaken,
    /// None of the article's groups exists; nothing was filed.
    NoGroup,
    /// The article to be hidden is not stored here.
    NotHere,
    /// Parts of the article got lost on their way to a shared log; nothing was filed: try later.
    NoBody,
    /// The change cannot be carried out for what it contains, or for a limit; nothing was changed.
    Refused(ChangeRefusal),
    /// So many articles or groups, or whether a Message-ID, note or site, were changed; 0: all was so
    /// already.
    Changed(usize),
}

impl ChangeOutcome {
    /// Returns how many articles, groups, Message-IDs or sites were changed.
    pub fn changed(&self) -> usize {
        match self {
            Self::Changed(count) => *count,
            _ => 0,
        }
    }
}

/// Returns the first refusal among outcomes as an error.
pub(crate) fn none_refused(outcomes: &[ChangeOutcome]) -> Result<(), SpoolTrouble> {
    let refusal = outcomes.iter().find_map(|outcome| match outcome {
        ChangeOutcome::Refused(refusal) => Some(*refusal),
        _ => None,
    });
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
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
