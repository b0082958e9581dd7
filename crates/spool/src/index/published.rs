//! Accepted articles as the folds publish them in the indexes. Used by [`super::fold`].

use crate::index::groups::{GroupState, GroupTable};
use crate::index::kept::{KeptEntry, thread_of};
use crate::index::overview::RowEntry;
use netnews::overview_row::{append_row, field, index};
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_base::key::KeyHasher;
use spool_journal::ArticleRow;
use spool_methods::VolumeTable;
use std::sync::atomic::AtomicU64;

/// An accepted article that is being entered into the indexes: its row, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedArticle<'a> {
    pub row: ArticleRow<'a>,
    /// Numbers of the row, decoded.
    pub numbers: &'a [(GroupId, u64)],
    /// Value of the Xref header.
    pub xref: &'a [u8],
    /// Entry of an article that is hidden from the start.
    pub hidden: Option<&'a HiddenArticle>,
}

impl PublishedArticle<'_> {
    /// Returns its entry in the list of the volume's retained articles.
    pub(super) fn kept(&self, hasher: &KeyHasher) -> KeptEntry {
        let row = &self.row;
        let references = field(row.fields, index::REFERENCES - index::SUBJECT).unwrap_or_default();
        KeptEntry {
            place: row.token.place,
            key: row.key,
            class: row.token.class,
            arrived: row.arrived,
            expires: row.expires,
            stored_bytes: row.stored_bytes,
            thread: thread_of(hasher, row.key, references),
            numbers: self.numbers.to_vec(),
        }
    }

    /// Adds its overview row to a group.
    pub(super) fn put_row(&self, number: u64, row_bytes_max: usize, state: &mut GroupState) {
        let entry = RowEntry { number, end: 0, token: self.row.token, arrived: self.row.arrived };
        state.overview.push(entry, row_bytes_max, |text| {
            append_row(number, self.row.fields, self.xref, text);
        });
    }
}

/// Savings by filing articles without numbers.
#[derive(Debug, Default)]
pub(crate) struct UnnumberedCounts {
    pub articles: AtomicU64,
    /// Overview rows that those articles would have.
    pub rows: AtomicU64,
    /// Size of those rows in bytes.
    pub row_bytes: AtomicU64,
}

/// Context that stays the same while the articles of a part are published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishContext<'a> {
    pub groups: &'a GroupTable,
    pub volumes: &'a VolumeTable,
    /// Current time in Unix seconds.
    pub now: u64,
}
