//! The checkpoint: all folds as of one journal position (`docs/formats/checkpoint.md`).
//!
//! One file, `index/checkpoint`, and its copy, each replaced by rename after everything it refers to is
//! durable. Opening loads it and replays the journal from its position. Taking a checkpoint ([`take`]) is a
//! copy in memory under the writer's lock; the syncing thread writes it ([`TakenCheckpoint::write`]).

mod old;
mod sections;

use crate::index::fold::Folds;
use crate::index::groups::{Group, LiveSet};
use crate::index::kept::KeptState;
use crate::index::notes::KeyedNote;
use crate::index::overview::{BlockRef, BlockRows, OverviewSegment, OverviewSegments, SegmentState};
use crate::index::residents::ResidentsState;
use crate::index::rings::Ring;
use disk::{Disk, DiskFile, FileAccess, OpenMode, durable_replace};
use sections::CheckpointError;
use spool_base::digest::SetSum;
use spool_base::error::SpoolError;
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_journal::{GroupRow, VolumeRow};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"NCheckp2";
/// Magic of checkpoints without sections.
const MAGIC_OLD: &[u8; 8] = b"NCheckp1";
/// Length of magic and checksum.
const HEAD_BYTES: usize = 12;
/// The two copies, in the order in which they are written.
pub(crate) const NAMES: [&str; 2] = ["checkpoint", "checkpoint.copy"];
/// Maximum row text left in open blocks by a checkpoint, over all groups; beyond it the largest are closed.
const OPEN_TEXT_BYTES_MAX: usize = 8 << 20;

/// A closed block in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockState {
    pub first: u64,
    pub last: u64,
    pub segment: u32,
    pub offset: u64,
    pub len: u32,
    pub count: u32,
    pub live: u32,
    pub arrived_max: u32,
}

/// A group in a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct GroupCheckpoint {
    pub row: GroupRow,
    pub assigned: u64,
    pub live: LiveSet,
    pub blocks: Vec<BlockState>,
    pub open: BlockRows,
    /// When the active entry last changed, Unix seconds; 0: not recorded.
    pub changed: u64,
    /// Sum of the living numbers with their articles, if sums are recorded.
    pub sum: SetSum,
}

/// A volume of retained articles in a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct KeptCheckpoint {
    pub volume: u16,
    pub files: KeptState,
    /// State saved by the volume itself.
    pub own: Vec<u8>,
}

/// A checkpoint as read from disk.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub position: u64,
    pub next_sequence: u64,
    pub articles: u64,
    pub boot_id: [u8; 16],
    pub closed: bool,
    pub identity: String,
    pub history: spool_history::RecordRange,
    /// When Message-IDs were last forgotten, Unix seconds; 0: not recorded.
    pub forgotten_at: u32,
    /// Sum of the known Message-IDs; `None`: sums are not recorded.
    pub known_ids: Option<SetSum>,
    pub volumes: Vec<(VolumeRow, ResidentsState)>,
    pub segments: Vec<SegmentState>,
    /// Removed groups, including those that exist again; see [`Folds::removals`].
    pub retired: Vec<(String, u64)>,
    /// Names of sites, by their number.
    pub sites: Vec<String>,
    pub hidden: Vec<HiddenArticle>,
    /// Notes, by kind, the newest last.
    pub notes: Vec<KeyedNote>,
    /// Record of the position in a shared log; empty without one.
    pub log_position: Vec<u8>,
    /// Id of the next new group.
    pub next_group: u32,
    pub groups: Vec<GroupCheckpoint>,
    pub kept: Vec<KeptCheckpoint>,
    /// Rings of classes.
    pub rings: Vec<Ring>,
    /// Places before which everything has left its ring, by number of the volume.
    pub left_to: Vec<(u16, u64)>,
    /// Names of removed groups by number.
    pub gone_names: Vec<(u32, String)>,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Whether its other copy is damaged, missing or older.
    pub alone: bool,
    /// Whether an older version wrote it, in the form without sections.
    pub is_old_form: bool,
}

/// A checkpoint taken in memory: the file's bytes, and the files that must be durable before it.
#[derive(Debug)]
pub(crate) struct TakenCheckpoint {
    bytes: Vec<u8>,
    dir: PathBuf,
    pub position: u64,
    files: Vec<Arc<dyn DiskFile>>,
    segments: Vec<Arc<OverviewSegment>>,
    dirs: Vec<PathBuf>,
    dead: Vec<PathBuf>,
}

/// Takes a checkpoint of the folds at journal position `position`.
pub(crate) fn take(folds: &mut Folds, dir: &Path, position: u64, now: u64) -> io::Result<TakenCheckpoint> {
    write_out(folds, now)?;
    let mut taken = TakenCheckpoint {
        bytes: Vec::with_capacity(1 << 20),
        dir: dir.into(),
        position,
        files: Vec::new(),
        segments: Vec::new(),
        dirs: vec![folds.segments.dir().into()],
        dead: Vec::new(),
    };
    sections::put_all(folds, &mut taken)?;
    Ok(taken)
}

/// Writes the parts of a checkpoint that are in files. After a failure no checkpoint is taken, and the next
/// attempt starts over.
fn write_out(folds: &mut Folds, now: u64) -> io::Result<()> {
    close_big_blocks(folds)?;
    let volumes = folds.shared.volumes.load();
    volumes.cycbuffs().try_for_each(|volume| volume.write_header(now))?;
    folds.residents.iter_mut().try_for_each(|residents| residents.write_out())?;
    folds.kept.iter_mut().flatten().try_for_each(|list| list.write_all())
}

/// Limits the text in open blocks, closing the largest.
fn close_big_blocks(folds: &mut Folds) -> io::Result<()> {
    let table = folds.shared.groups.snapshot();
    let mut sizes: Vec<(usize, &Arc<Group>)> = table
        .sorted()
        .iter()
        .map(|g| (g.state().overview.open.text.len(), g))
        .filter(|(n, _)| *n > 0)
        .collect();
    let mut total: usize = sizes.iter().map(|(n, _)| n).sum();
    if total <= OPEN_TEXT_BYTES_MAX {
        return Ok(());
    }
    sizes.sort_unstable_by_key(|(n, _)| std::cmp::Reverse(*n));
    for (n, group) in sizes {
        if total <= OPEN_TEXT_BYTES_MAX {
            break;
        }
        let state = &mut *group.state();
        state.overview.close(group.id, &state.live, &mut folds.segments)?;
        total -= n;
    }
    Ok(())
}

impl TakenCheckpoint {
    /// Syncs the files that the checkpoint refers to (the caller syncs buffers and journal), writes it, and
    /// removes files that are no longer referenced.
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        self.files.iter().try_for_each(|f| f.sync())?;
        self.segments.iter().try_for_each(|s| s.sync())?;
        self.dirs.iter().try_for_each(|d| disk.sync_dir(d))?;
        let crc = disk::crc::crc32c(&self.bytes).to_le_bytes();
        // One copy is whole at every moment.
        for name in NAMES {
            durable_replace(disk, &self.dir.join(name), &[MAGIC, &crc, &self.bytes], FileAccess::Group)?;
        }
        for path in &self.dead {
            match disk.remove(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the length of the checkpoint's file.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Checkpoint {
    /// Reads the newer of the two copies; `None` if there is none, or both are damaged. A checkpoint of a
    /// later version of the program is an error.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, SpoolError> {
        let mut copies = Vec::new();
        for path in NAMES.map(|name| dir.join(name)) {
            match Self::read_copy(disk, &path) {
                Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                    return Err(SpoolError::Unfit(format!("{}: {e}", path.display())));
                }
                copy => copies.extend(copy.ok().flatten()),
            }
        }
        let alone = copies.len() < NAMES.len() || copies.windows(2).any(|w| w[0].position != w[1].position);
        Ok(copies.into_iter().max_by_key(|c| c.position).map(|c| Self { alone, ..c }))
    }

    /// Reads one copy; `Ok(None)` if it is damaged. If a later version wrote it, the error is of kind
    /// `Unsupported`.
    pub fn read_copy(disk: &dyn Disk, path: &Path) -> io::Result<Option<Self>> {
        let file = disk.open(path, OpenMode::ReadOnly)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let Some((head, body)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
        let (magic, crc) = head.split_at(MAGIC.len());
        if crc != disk::crc::crc32c(body).to_le_bytes() {
            return Ok(None);
        }
        let read = match magic {
            magic if magic == MAGIC => sections::read_all(body),
            magic if magic == MAGIC_OLD => old::read_all(body).ok_or(CheckpointError::Damaged),
            _ => Err(CheckpointError::Damaged),
        };
        match read {
            Ok(c) => Ok(Some(Self { bytes: bytes.len() as u64, is_old_form: magic == MAGIC_OLD, ..c })),
            Err(CheckpointError::Damaged) => Ok(None),
            Err(CheckpointError::Newer(what)) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("it has {what}: a newer version of newsreel wrote it; use that version"),
            )),
        }
    }

    /// Reports whether the checkpoint refers to articles in a volume of retained articles.
    pub fn keeps_in(&self, volume: u16) -> bool {
        self.kept.iter().any(|k| k.volume == volume && !k.files.is_empty())
    }
}

/// Converts a group's saved blocks to references, counting the living blocks of each segment.
pub(crate) fn restore_blocks(
    group: GroupId,
    blocks: &[BlockState],
    segments: &OverviewSegments,
) -> Option<Vec<BlockRef>> {
    let restore = |b: &BlockState| {
        let segment = segments.get(b.segment)?.clone();
        segment.holds(group, b.first, b.arrived_max);
        let BlockState { first, last, offset, len, count, live, arrived_max, .. } = *b;
        Some(BlockRef { first, last, segment, offset, len, count, live, arrived_max })
    };
    blocks.iter().map(restore).collect()
}
