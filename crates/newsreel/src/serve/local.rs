//! The local spool as a source of news.
//!
//! What is in memory is read at once; what the disk must be waited for is read without holding up the other sessions of
//! this thread. Called by `Reader`.

use super::source::{Found, NewsSource, Place, Side};
use netnews::MessageId;
use spool::{ArticleBuf, Group, GroupId, Lookup, Marks, Patience, ReadError, Spool};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::task::block_in_place;

/// The local spool.
#[derive(Debug, Clone)]
pub(crate) struct LocalSpool(pub Arc<Spool>);

/// Reads from memory if possible, else waits for the disk.
fn read<T>(mut read: impl FnMut(Patience) -> Found<T>) -> Found<T> {
    match read(Patience::CacheOnly) {
        Err(ReadError::WouldBlock) => block_in_place(|| read(Patience::Wait)),
        other => other,
    }
}

impl NewsSource for LocalSpool {
    async fn group(&self, name: &[u8]) -> Found<Option<(GroupId, Marks)>> {
        let id = self.0.group_id(name);
        Ok(id.and_then(|id| self.0.marks(id).map(|marks| (id, marks))))
    }

    async fn named(&self, group: GroupId) -> Found<Option<(Arc<Group>, Marks)>> {
        Ok(self.0.group(group).map(|group| {
            let marks = group.marks();
            (group, marks)
        }))
    }

    async fn groups(&self) -> Found<Arc<[Arc<Group>]>> {
        Ok(self.0.groups())
    }

    async fn list_active(&self) -> Found<Arc<Vec<u8>>> {
        Ok(self.0.list_active())
    }

    async fn article(&self, place: Place<'_>, into: &mut ArticleBuf) -> Found<bool> {
        let (token, expect) = match place {
            Place::Number(group, number) => {
                (read(|patience| self.0.token_of(group, number, patience))?, None)
            }
            Place::MessageId(id) => {
                let key = self.0.key(id.as_bytes());
                match self.0.lookup(&key) {
                    Lookup::Present(token) => (Some(token), Some(key)),
                    _ => (None, None),
                }
            }
        };
        let Some(token) = token else { return Ok(false) };
        read(|patience| self.0.read(&token, expect.as_ref(), patience, into))
    }

    async fn has(&self, id: MessageId<'_>) -> Found<bool> {
        Ok(matches!(self.0.lookup(&self.0.key(id.as_bytes())), Lookup::Present(_)))
    }

    async fn numbers(
        &self,
        group: GroupId,
        range: RangeInclusive<u64>,
        max: usize,
        into: &mut Vec<u64>,
    ) -> Found<()> {
        self.0.numbers(group, range, max, into);
        Ok(())
    }

    async fn neighbour(&self, group: GroupId, number: u64, side: Side) -> Found<Option<u64>> {
        Ok(match side {
            Side::Previous => self.0.previous_number(group, number),
            Side::Next => self.0.next_number(group, number),
        })
    }

    async fn over(
        &self,
        group: GroupId,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> Found<Option<u64>> {
        read(|patience| self.0.over(group, range.clone(), limit_bytes, patience, into))
    }

    async fn arrived_since(&self, group: GroupId, since: u64, into: &mut Vec<u8>) -> Found<()> {
        let mut visit = |id: &[u8]| {
            into.extend_from_slice(id);
            into.extend_from_slice(b"\r\n");
        };
        block_in_place(|| self.0.arrived_since(group, since, &mut visit))
    }
}
