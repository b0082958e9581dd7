//! Findings of checks, with the data that repairs need.

use crate::index::groups::Group;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use std::collections::HashMap;
use std::path::PathBuf;

/// A problem found by a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Group and number concerned, or name of a buffer and place.
    pub place: String,
    /// Problem and its consequence.
    pub what: String,
    pub(crate) damage: Option<SpoolDamage>,
}

impl Finding {
    /// Returns the action of `--repair`; `None`: no repair is possible.
    pub fn repair(&self) -> Option<&'static str> {
        self.damage.as_ref().map(SpoolDamage::repair)
    }
}

/// Results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Groups checked.
    pub groups: u64,
    /// Group:number pairs checked.
    pub numbers: u64,
    /// History entries checked.
    pub history: u64,
    /// Hidden articles checked.
    pub hidden: u64,
    /// Records of the buffers checked, and articles stored in other ways.
    pub records: u64,
    /// Problems, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Number of further problems.
    pub more: u64,
    /// Maximum number of findings kept.
    pub(super) most: usize,
    /// Articles among the findings that cannot be read, with the numbers that are reported with each.
    pub(super) unreadable: HashMap<(u16, u64), Vec<(GroupId, u64)>>,
}

/// Maximum number of findings kept; further ones are only counted.
pub const FINDINGS_MAX: usize = 1000;

impl VerifyReport {
    /// Returns the number of problems.
    pub fn problems(&self) -> u64 {
        self.findings.len() as u64 + self.more
    }

    /// Returns an empty report that keeps all findings.
    pub(super) fn keeping_all() -> Self {
        Self { most: usize::MAX, ..Self::default() }
    }

    pub(super) fn found(
        &mut self,
        place: impl Into<String>,
        what: impl Into<String>,
        damage: Option<SpoolDamage>,
    ) {
        if self.findings.len() < self.most {
            self.findings.push(Finding { place: place.into(), what: what.into(), damage });
        } else {
            self.more += 1;
        }
    }

    /// Remembers that the next finding is an article that cannot be read, with all of these numbers. Beyond
    /// the findings that are kept nothing is remembered either.
    pub(super) fn note_unreadable(&mut self, token: Token, numbers: Vec<(GroupId, u64)>) {
        if self.findings.len() < self.most {
            self.unreadable.insert((token.volume, token.place), numbers);
        }
    }

    /// Returns true if an article is among the findings as one that cannot be read.
    pub(super) fn is_unreadable(&self, token: &Token) -> bool {
        self.unreadable.contains_key(&(token.volume, token.place))
    }

    /// Returns true if an article is among the findings as one that cannot be read, with this number.
    pub(super) fn is_unreadable_at(&self, token: &Token, number: (GroupId, u64)) -> bool {
        self.unreadable.get(&(token.volume, token.place)).is_some_and(|numbers| numbers.contains(&number))
    }

    pub(super) fn found_block(&mut self, group: &Group, first: u64, last: u64) {
        let place = format!("{}:{first}-{last}", group.name);
        let what = "the block of overview rows is damaged: OVER of these numbers fails";
        self.found(place, what, Some(SpoolDamage::Block { group: group.id, first, last }));
    }
}

/// Damaged part, with all data needed to repair it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpoolDamage {
    /// Bytes of an article.
    Article { key: ArticleKey, token: Token, numbers: Vec<(GroupId, u64)> },
    /// A living article whose usage bit is clear.
    UsageBit { token: Token },
    /// A usage bit without an article.
    StrayBit { token: Token },
    /// A living article that is missing from history.
    Unknown { key: ArticleKey, token: Token, arrived: u32 },
    /// A record of history.
    HistoryRecord { number: u64 },
    /// A record of history without a slot in the index.
    HistoryIndex { number: u64, key: ArticleKey },
    /// A word of the history's index.
    HistoryWord { word: (usize, usize) },
    /// A block of overview rows.
    Block { group: GroupId, first: u64, last: u64 },
    /// A living number without article or row.
    Number { group: GroupId, number: u64 },
    /// A file that the next checkpoint rewrites or makes obsolete.
    Checkpointed,
    /// A file of the journal.
    Journal { start: u64 },
    /// The file `secret`.
    Secret,
    /// A copy of a dictionary.
    Dictionary,
    /// A retained article that is missing in its place and whole under another of its names.
    Misplaced { key: ArticleKey, token: Token, numbers: Vec<(GroupId, u64)> },
    /// The name of a number that does not lead to its article.
    Name { token: Token, group: GroupId, number: u64 },
    /// A retained article that is missing from the list of its volume.
    Unlisted { index: usize, key: ArticleKey, token: Token },
    /// Pages of a volume's list of retained articles.
    KeptPages { index: usize },
    /// A page of a volume's residents.
    ResidentsPage { volume: u16, page: u64 },
    /// A file that belongs to no article.
    Stray { volume: u16, path: PathBuf },
    /// A whole article that no index knows.
    NotIndexed { volume: u16, path: PathBuf },
    /// Damage that was repaired when it was found.
    Rebuilt,
    /// A copy of `newsreel.tree`.
    TreeFile { dir: PathBuf },
    /// The file of a durable reader of the journal.
    Cursor { name: String },
    /// The names of the readers' files.
    ReaderNames,
}

impl SpoolDamage {
    /// Returns the action of a repair.
    fn repair(&self) -> &'static str {
        match self {
            Self::Article { .. } => "give the article up: its numbers end, its Message-ID stays known",
            Self::UsageBit { .. } => "set the bit: the article can be read again",
            Self::StrayBit { .. } => "clear the bit",
            Self::Unknown { .. } => "enter the Message-ID into history",
            Self::HistoryRecord { .. } => "make it an empty record, which a living article gets back",
            Self::HistoryIndex { .. } => "enter it into the index",
            Self::HistoryWord { .. } => "make it one that leads nowhere astray",
            Self::Block { .. } => "rebuild the rows from the articles",
            Self::Number { .. } => "end the number",
            Self::Checkpointed => "take a checkpoint, which rewrites it or makes it obsolete",
            Self::Journal { .. } => "take a checkpoint, which makes it obsolete, and remove it",
            Self::Secret => "write it again",
            Self::Dictionary | Self::TreeFile { .. } => "write it again from the other copy",
            Self::Misplaced { .. } => "put the article in its place again from another of its names",
            Self::Name { .. } => "link it to the article again",
            Self::Unlisted { .. } => "enter it into the list",
            Self::KeptPages { .. } => "write the list again without them",
            Self::ResidentsPage { .. } => "write it again from the buffer",
            Self::Stray { .. } => "remove it",
            Self::NotIndexed { .. } => "enter the article into journal and indexes",
            Self::Rebuilt => "rebuilt already",
            Self::Cursor { .. } => {
                "write it again from the other copy, or from what is claimed for the reader"
            }
            Self::ReaderNames => "write them again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_beyond_the_most_kept_are_counted() {
        let mut report = VerifyReport { most: FINDINGS_MAX, ..VerifyReport::default() };
        (0..FINDINGS_MAX + 3).for_each(|n| report.found(format!("a:{n}"), "is wrong", None));
        assert_eq!((report.findings.len(), report.problems()), (FINDINGS_MAX, FINDINGS_MAX as u64 + 3));
    }
}
