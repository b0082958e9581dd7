//! An article offered to peers, as in the journal.

use spool::{ArticleRow, Key, Mark, Token};
use std::sync::Arc;

/// An article to be offered.
#[derive(Debug)]
pub(super) struct Offer {
    pub key: Key,
    pub token: Token,
    pub message_id: Box<[u8]>,
    pub wire_bytes: u64,
    /// Unix seconds.
    pub arrived: u32,
    /// Position of its row in the journal.
    pub mark: Mark,
}

impl Offer {
    pub fn of(position: u64, row: &ArticleRow<'_>) -> Arc<Self> {
        Arc::new(Self {
            key: row.key,
            token: row.token,
            message_id: row.message_id.into(),
            wire_bytes: row.tagged.wire_bytes().unwrap_or(row.stored_bytes),
            arrived: row.arrived,
            mark: Mark { position, sequence: Some(row.sequence) },
        })
    }
}
