//! Accepted articles as the folds publish them in the indexes. Used by [`super::fold`].

use crate::base::hidden::HiddenArticle;
use crate::base::ids::GroupId;
use crate::base::key::{ArticleKey, KeyHasher};
use crate::base::token::Token;
use crate::index::groups::{GroupState, GroupTable};
use crate::index::kept::{KeptEntry, thread_of};
use crate::index::overview::RowEntry;
use crate::method::VolumeTable;
use netnews::overview_row::{append_row, field, index};
use std::sync::atomic::AtomicU64;

/// An accepted article that is being entered into the indexes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedArticle<'a> {
    pub key: ArticleKey,
    pub token: Token,
    pub arrived: u32,
    /// Value of the Expires header in Unix seconds, 0 for none.
    pub expires: u32,
    pub stored_bytes: u64,
    pub numbers: &'a [(GroupId, u64)],
    /// Value of the Xref header.
    pub xref: &'a [u8],
    /// Overview fields from subject to line count, and the additional headers that are kept.
    pub fields: &'a [u8],
    /// Second Message-ID that is remembered for the article.
    pub stands_for: Option<ArticleKey>,
    /// Entry of an article that is hidden from the start.
    pub hidden: Option<&'a HiddenArticle>,
}

impl PublishedArticle<'_> {
    /// Returns its entry in the list of the volume's retained articles.
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
