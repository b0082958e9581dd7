//! Where a reader's news comes from.
//!
//! The local spool is one source; a cache of other servers' articles is meant to be another. So everything is
//! asynchronous and may fail, even where the spool answers at once. Implemented by `local`, called by the commands.

use netnews::MessageId;
use spool::{ArticleBuf, Group, GroupId, Marks, ReadError};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// How an article is found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// By group and number.
    Number(GroupId, u64),
    /// By Message-ID.
    MessageId(MessageId<'a>),
}

/// A result of a source.
pub(crate) type Found<T> = Result<T, ReadError>;

/// A source of news.
pub(crate) trait NewsSource: Send + Sync {
    /// The group called `name`, with its marks.
    fn group(&self, name: &[u8]) -> impl Future<Output = Found<Option<(GroupId, Marks)>>> + Send;
    /// A group's name and marks.
    fn named(&self, group: GroupId) -> impl Future<Output = Found<Option<(Arc<Group>, Marks)>>> + Send;
    /// All groups, by name.
    fn groups(&self) -> impl Future<Output = Found<Arc<[Arc<Group>]>>> + Send;
    /// The text of LIST ACTIVE for all groups.
    fn list_active(&self) -> impl Future<Output = Found<Arc<Vec<u8>>>> + Send;
    /// Reads an article; false: there is none (any more).
    fn article(&self, place: Place<'_>, into: &mut ArticleBuf) -> impl Future<Output = Found<bool>> + Send;
    /// Whether there is an article with this Message-ID.
    fn has(&self, id: MessageId<'_>) -> impl Future<Output = Found<bool>> + Send;
    /// Appends numbers of articles in a range, ascending, at most `max`.
    fn numbers(
        &self,
        group: GroupId,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> impl Future<Output = Found<()>> + Send;
    /// The first number after, or the last before, this one.
    fn neighbour(
        &self,
        group: GroupId,
        number: u64,
        side: Side,
    ) -> impl Future<Output = Found<Option<u64>>> + Send;
    /// Appends overview rows until `limit_bytes` are exceeded; `Some(n)`: go on at `n`.
    fn over(
        &self,
        group: GroupId,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Found<Option<u64>>> + Send;
    /// Appends the Message-IDs of a group's articles that arrived since then (Unix seconds), each with CRLF.
    fn arrived_since(
        &self,
        group: GroupId,
        since: u64,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Found<()>> + Send;
}

/// Which neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The article before.
    Previous,
    /// The article after.
    Next,
}
