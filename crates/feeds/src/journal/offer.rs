//! An article offered to peers, as in the journal.

use spool::{ArticleKey, ArticleRow, JournalMark, Token};
use std::sync::Arc;

/// An article to be offered.
#[derive(Debug)]
pub(crate) struct FeedOffer {
    pub key: ArticleKey,
    pub token: Token,
    pub message_id: Box<[u8]>,
    pub wire_bytes: u64,
    /// Unix seconds.
    pub arrived: u32,
    /// Position of its row in the journal.
    pub mark: JournalMark,
}

impl FeedOffer {
    pub fn of(position: u64, row: &ArticleRow<'_>) -> Arc<Self> {
        Arc::new(Self {
            key: row.key,
            token: row.token,
            message_id: row.message_id.into(),
            wire_bytes: row.tagged.wire_bytes().unwrap_or(row.stored_bytes),
            arrived: row.arrived,
            mark: JournalMark { position, sequence: Some(row.sequence) },
        })
    }
}
