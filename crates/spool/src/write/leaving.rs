//! Expiry rows that are written but not applied yet: they wait for a sync. Created and used by
//! [`crate::write::expire`], held by the writer.

use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;

/// Contents of an expiry row: whether the article is removed, or only some of its numbers.
#[derive(Debug)]
pub(crate) struct ExpiryRow {
    pub key: ArticleKey,
    pub token: Token,
    pub gone: bool,
    pub numbers: Vec<(GroupId, u64)>,
}
