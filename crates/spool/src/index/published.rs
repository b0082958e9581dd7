//! An accepted article on its way into the indexes, as the folds publish it. Called by [`super::fold`].

use crate::base::hidden::HiddenArticle;
use crate::base::ids::GroupId;
use crate::base::key::{Key, KeyHasher};
use crate::base::token::Token;
use crate::index::groups::{GroupState, GroupTable};
use crate::index::kept::{KeptEntry, thread_of};
use crate::index::overview::RowEntry;
use crate::method::VolumeTable;
use netnews::overview_row::{append_row, field, index};
use std::sync::atomic::AtomicU64;

/// An accepted article on its way into the indexes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published<'a> {
    pub key: Key,
    pub token: Token,
    pub arrived: u32,
    /// Unix seconds, 0 for none.
    pub expires: u32,
    pub stored_bytes: u64,
    pub numbers: &'a [(GroupId, u64)],
    /// Value of its Xref header.
    pub xref: &'a [u8],
    /// Overview fields from subject to line count, and the further headers that are kept.
    pub fields: &'a [u8],
    /// The Message-ID that is remembered with it.
    pub stands_for: Option<Key>,
    /// Its entry, if it is hidden from the first.
    pub hidden: Option<&'a HiddenArticle>,
}

impl Published<'_> {
    /// Its entry in the list of what its volume keeps.
    pub(super) fn kept(&self, hasher: &KeyHasher) -> KeptEntry {
        let references = field(self.fields, index::REFERENCES - index::SUBJECT).unwrap_or_default();
        KeptEntry {
            place: self.token.place,
            key: self.key,
            class: self.token.class,
            arrived: self.arrived,
            expires: self.expires,
            stored_bytes: self.stored_bytes,
            thread: thread_of(hasher, self.key, references),
            numbers: self.numbers.to_vec(),
        }
    }

    /// Adds its overview row to a group.
    pub(super) fn put_row(&self, number: u64, row_bytes_max: usize, state: &mut GroupState) {
        let entry = RowEntry { number, end: 0, token: self.token, arrived: self.arrived };
        state.overview.push(entry, row_bytes_max, |text| {
            append_row(number, self.fields, self.xref, text);
        });
    }
}

/// What was saved by filing articles without numbers.
#[derive(Debug, Default)]
pub(crate) struct Unnumbered {
    pub articles: AtomicU64,
    /// Overview rows that they would have.
    pub rows: AtomicU64,
    /// Bytes of those rows.
    pub row_bytes: AtomicU64,
}

/// What stays the same while the articles of a part are published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishContext<'a> {
    pub groups: &'a GroupTable,
    pub volumes: &'a VolumeTable,
    /// Unix seconds.
    pub now: u64,
}
