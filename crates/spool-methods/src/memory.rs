//! `memory`: a bounded cyclic buffer in memory, empty after a restart.
//!
//! The counterpart of `cnfs` in memory (same places, same displacement), for tests, for groups whose articles
//! need not survive, and as the model that the other methods are compared with.

use super::cnfs::record::RecordHeader;
use super::volume::{Cyclic, Volume, VolumeBase, VolumeKind, fetch_record};
use disk::ReadMode;
use lock_order::{INNERMOST, OrderedRw};
use spool_base::error::ReadError;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::MethodKind;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;

/// A cyclic volume in memory.
#[derive(Debug)]
pub struct MemoryVolume {
    base: VolumeBase,
    bytes: OrderedRw<Vec<u8>, INNERMOST>,
    live: OrderedRw<BTreeSet<u64>, INNERMOST>,
}

/// Unit in which records start.
const BLOCK_BYTES: u64 = 64;

impl MemoryVolume {
    /// Creates an empty volume with the write position `head` (places from before a restart stay dead).
    pub fn new(id: u16, name: &str, size_bytes: u64, head: Option<u64>) -> Self {
        let area = size_bytes.next_multiple_of(BLOCK_BYTES).max(1 << 16);
        let head = head.map_or(area, |h| (h / area + 2) * area);
        let bytes = OrderedRw::new(vec![0; area as usize]);
        let base = VolumeBase::new(id, name, MethodKind::Memory, head);
        Self { base, bytes, live: OrderedRw::default() }
    }
}

impl Volume for MemoryVolume {
    fn base(&self) -> &VolumeBase {
        &self.base
    }

    fn kind(&self) -> VolumeKind<'_> {
        VolumeKind::Cyclic(self)
    }

    fn advance(&self, head: u64) {
        self.base.head.fetch_max(head, Ordering::AcqRel);
        let tail = self.tail();
        let mut live = self.live.write();
        while live.first().is_some_and(|p| *p < tail) {
            live.pop_first();
        }
    }

    fn padded(&self, len: usize) -> u64 {
        (len as u64).next_multiple_of(BLOCK_BYTES)
    }

    fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.bytes.write();
        let at = (place % all.len() as u64) as usize;
        let room = all.get_mut(at..at + bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        room.copy_from_slice(bytes);
        Ok(())
    }

    fn is_alive(&self, place: u64) -> bool {
        place >= self.tail() && self.live.read().contains(&place)
    }

    fn mark_alive(&self, place: u64) {
        self.live.write().insert(place);
    }

    fn cancel(&self, place: u64, _key: ArticleKey, _numbers: &[(GroupId, u64)]) -> io::Result<()> {
        self.mark_dead(place);
        Ok(())
    }

    fn fetch(
        &self,
        place: u64,
        patience: ReadMode,
        buf: &mut Vec<u8>,
    ) -> Result<Option<(RecordHeader, bool)>, ReadError> {
        fetch_record(place, self.room(place), buf, |place, buf| self.read_at(place, patience, buf))
    }

    fn explain_place(&self, place: u64) -> String {
        self.explain_cycle(place)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Cyclic for MemoryVolume {
    fn area(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn block(&self) -> u64 {
        BLOCK_BYTES
    }

    fn mark_dead(&self, place: u64) {
        self.live.write().remove(&place);
    }

    fn next_living(&self, place: u64) -> Option<u64> {
        let from = place.max(self.tail());
        self.live.read().range(from..).next().copied()
    }

    fn read_at(&self, place: u64, _patience: ReadMode, buf: &mut [u8]) -> io::Result<usize> {
        let all = self.bytes.read();
        let rest = all.get((place % all.len() as u64) as usize..).unwrap_or_default();
        let mut rest = rest;
        io::Read::read(&mut rest, buf)
    }
}
