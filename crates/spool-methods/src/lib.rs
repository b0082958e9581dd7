//! Storage methods: the ways in which article bytes are kept.
//!
//! All but `trash`, which stores nothing, have *volumes* ([`Volume`]). Those of `cnfs` and `memory` displace
//! their oldest articles when they are full ([`Cyclic`]); the others retain theirs until they are due
//! ([`Retained`]). The storage manager chooses class and volume of an article; a method does not know the
//! policy, and the floors above do not depend on a particular method.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod appendonly;
pub mod cnfs;
mod memory;
pub mod packing;
pub mod rates;
pub mod scan;
mod tree;
pub mod tree_header;
mod volume;

pub use appendonly::AppendOnly;
pub use memory::MemoryVolume;
pub use tree::FileTree;
#[cfg(feature = "testing")]
pub use tree::{file_again as tree_file_again, files_of as tree_files_of};
pub use volume::{
    ArticleRemoval, Cyclic, Inventory, LivingLookup, PlacementRequest, Retained, Stray, StrayKind, Volume,
    VolumeBase, VolumeKind,
};

use arc_swap::ArcSwap;
use cnfs::Cycbuff;
use cnfs::record::RecordHeader;
use disk::ReadMode;
use spool_base::error::ReadError;
use spool_base::token::Token;
use std::sync::Arc;

/// Reads a whole living record into `buf` and checks it: place, checksum, and that it was not displaced
/// meanwhile. `None`: the article does not exist (any more).
pub fn read_record(
    volume: &dyn Volume,
    place: u64,
    patience: ReadMode,
    buf: &mut Vec<u8>,
) -> Result<Option<RecordHeader>, ReadError> {
    if !volume.is_alive(place) {
        return Ok(None);
    }
    let header = match volume.fetch(place, patience, buf)? {
        Some((header, true)) => header,
        _ => return Ok(None),
    };
    // The bytes may have been overwritten while they were read; then the place is already dead.
    Ok((volume.is_alive(place) && cnfs::record::is_whole(buf)).then_some(header))
}

/// All volumes by number, as of one moment.
#[derive(Debug, Default)]
pub struct VolumeTable {
    all: Vec<Arc<dyn Volume>>,
    /// Index in `all` by volume number.
    by_id: Vec<Option<usize>>,
}

impl VolumeTable {
    /// Makes a table of these volumes.
    pub fn new(all: Vec<Arc<dyn Volume>>) -> Self {
        let mut by_id = Vec::new();
        for (i, volume) in all.iter().enumerate() {
            let id = usize::from(volume.id());
            if by_id.len() <= id {
                by_id.resize(id + 1, None);
            }
            by_id[id] = Some(i);
        }
        Self { all, by_id }
    }

    /// Returns all volumes, in the order in which they were added.
    pub fn all(&self) -> &[Arc<dyn Volume>] {
        &self.all
    }

    /// Returns the index among [`all`](Self::all) of the volume with a number.
    pub fn index(&self, id: u16) -> Option<usize> {
        self.by_id.get(usize::from(id)).copied().flatten()
    }

    /// Returns the volume with a number.
    pub fn get(&self, id: u16) -> Option<&dyn Volume> {
        self.all.get(self.index(id)?).map(|v| &**v)
    }

    /// Returns the volume of a name.
    pub fn named(&self, name: &str) -> Option<&dyn Volume> {
        self.all.iter().map(|v| &**v).find(|v| v.name() == name)
    }

    /// Returns the volumes whose articles stay until they are due.
    pub fn retained(&self) -> impl Iterator<Item = &dyn Retained> {
        self.all.iter().filter_map(|volume| volume.retained())
    }

    /// Returns the cyclic buffers in files.
    pub fn cycbuffs(&self) -> impl Iterator<Item = &Cycbuff> {
        self.all.iter().filter_map(|volume| volume.cycbuff())
    }

    /// Returns the cyclic buffer of this name.
    pub fn cycbuff(&self, name: &str) -> Option<&Cycbuff> {
        self.cycbuffs().find(|buffer| buffer.name() == name)
    }

    /// Returns a token's text form (CNFS-10): buffer name, offset in its article area, cycle number.
    pub fn token_text(&self, token: &Token) -> String {
        match self.get(token.volume) {
            Some(v) => format!("{}:{}", v.name(), v.place_text(token.place)),
            None => token.to_string(),
        }
    }

    /// Reports whether the place of a token is still the article's.
    pub fn is_alive(&self, token: &Token) -> bool {
        self.get(token.volume).is_some_and(|v| v.method() == token.method && v.is_alive(token.place))
    }
}

/// The volumes, shared by writer and readers. The writer replaces the table when buffers are added, grow,
/// move or are removed; readers that have loaded the old one finish with it.
#[derive(Debug, Default)]
pub struct Volumes {
    table: ArcSwap<VolumeTable>,
}

impl Volumes {
    /// Shares these volumes.
    pub fn new(all: Vec<Arc<dyn Volume>>) -> Self {
        Self { table: ArcSwap::from_pointee(VolumeTable::new(all)) }
    }

    /// Replaces the volume with its number, or appends it to the others. Called by the writer only.
    pub fn put(&self, volume: Arc<dyn Volume>) {
        let old = self.table.load();
        let mut all = old.all.clone();
        match old.index(volume.id()).and_then(|index| all.get_mut(index)) {
            Some(place) => *place = volume,
            None => all.push(volume),
        }
        self.table.store(Arc::new(VolumeTable::new(all)));
    }

    /// Removes a volume. Called by the writer only.
    pub fn take(&self, id: u16) {
        let all = self.table.load().all.iter().filter(|v| v.id() != id).cloned().collect();
        self.table.store(Arc::new(VolumeTable::new(all)));
    }

    /// Returns the current volumes, to be kept for a while.
    pub fn load_full(&self) -> Arc<VolumeTable> {
        self.table.load_full()
    }

    /// Returns the current volumes. Cheap, but must not be kept for long.
    pub fn load(&self) -> arc_swap::Guard<Arc<VolumeTable>> {
        self.table.load()
    }
}
