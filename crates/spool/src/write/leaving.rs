//! An expiry row that is written and not applied yet: between the two it waits for a sync. Made and used by
//! [`crate::write::expire`], held by the writer.

use crate::base::ids::GroupId;
use crate::base::key::Key;
use crate::base::token::Token;

/// What an expiry row says: whether the article goes, or only numbers.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub key: Key,
    pub token: Token,
    pub gone: bool,
    pub numbers: Vec<(GroupId, u64)>,
}
