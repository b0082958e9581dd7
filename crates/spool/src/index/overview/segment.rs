//! Overview segments: append-only files of closed blocks, in time order.
//!
//! Two kinds: plain segments take blocks as they close, packed segments take the compressed blocks of cold
//! plain ones ([`crate::care::overview`]). A segment is removed as a whole when its last block with a
//! living row has died or moved and no checkpoint refers to it any more. Only the writer appends to plain
//! segments; readers hold the open file through an [`Arc`].

use disk::{Disk, DiskFile, OpenMode, STEP_BYTES_MAX, ZeroFill};
use spool_base::config::OverviewShape;
use spool_base::ids::GroupId;
use spool_base::ordered::{Ordered, rank};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A segment that accepts blocks is replaced by a new one if it is cold and at least this fraction of a full
/// one.
const COLD_PART: u64 = 64;

/// Form in which the blocks of a segment are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Rows as they are sent.
    Plain,
    /// Compressed rows.
    Packed,
}

impl SegmentKind {
    const ALL: [Self; 2] = [Self::Plain, Self::Packed];

    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "seg",
            Self::Packed => "packed",
        }
    }
}

/// One segment file.
#[derive(Debug)]
pub(crate) struct OverviewSegment {
    pub number: u32,
    pub kind: SegmentKind,
    /// Id that no other segment of any spool has in this process.
    pub id: u64,
    pub file: Arc<dyn DiskFile>,
    /// Number of blocks that have a living row.
    pub live_blocks: AtomicU32,
    /// For a plain segment: group and first number of every block appended to it, until it has been packed.
    blocks: Ordered<Vec<(GroupId, u64)>, { rank::BLOCKS }>,
    /// Latest arrival in the segment, Unix seconds.
    newest: AtomicU32,
    dirty: AtomicBool,
    ahead: ZeroFill,
}

impl OverviewSegment {
    fn new(number: u32, kind: SegmentKind, file: Arc<dyn DiskFile>, dirty: bool) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            number,
            kind,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            file,
            live_blocks: AtomicU32::new(0),
            blocks: Ordered::default(),
            newest: AtomicU32::new(0),
            dirty: AtomicBool::new(dirty),
            ahead: ZeroFill::default(),
        })
    }

    /// Records that the segment contains a block with a living row.
    pub fn holds(&self, group: GroupId, first: u64, arrived_max: u32) {
        self.live_blocks.fetch_add(1, Ordering::Relaxed);
        if self.kind == SegmentKind::Plain {
            self.newest.fetch_max(arrived_max, Ordering::Relaxed);
            self.blocks.lock().push((group, first));
        }
    }

    /// Takes the blocks that [`OverviewSegment::holds`] recorded: group by group, in number order.
    pub fn take_blocks(&self) -> Vec<(GroupId, u64)> {
        let mut blocks = std::mem::take(&mut *self.blocks.lock());
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Puts back blocks that could not be moved now.
    pub fn put_blocks_back(&self, blocks: &[(GroupId, u64)]) {
        self.blocks.lock().extend_from_slice(blocks);
    }

    /// Writes `bytes` at `offset`; there is nothing of value at or after it.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let spare = self.ahead.spare(offset, bytes.len() as u64, STEP_BYTES_MAX, STEP_BYTES_MAX);
        let written = self.file.write_all_at(&[IoSlice::new(bytes), IoSlice::new(spare)], offset);
        written.inspect_err(|_| self.ahead.reset())?;
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        if self.dirty.swap(false, Ordering::AcqRel) {
            self.file.sync().inspect_err(|_| self.dirty.store(true, Ordering::Release))?;
        }
        Ok(())
    }
}

/// State of a segment in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentState {
    pub number: u32,
    pub len: u64,
}

/// All segments; owned by the writer.
#[derive(Debug)]
pub(crate) struct OverviewSegments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    shape: OverviewShape,
    /// Ascending by number.
    all: Vec<(Arc<OverviewSegment>, u64)>,
    next: u32,
    /// Number of the last plain segment, if it still accepts blocks.
    open: Option<u32>,
    /// Segments without living blocks, to be removed after the next checkpoint is durable.
    dead: Vec<PathBuf>,
    scratch: Vec<u8>,
}

impl OverviewSegments {
    /// Opens the segments of a checkpoint and removes all other files.
    pub fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        states: &[SegmentState],
        shape: OverviewShape,
    ) -> io::Result<Self> {
        disk.create_dir(dir)?;
        let names = disk.list(dir)?;
        let is_of = |name: &str, state: &SegmentState| {
            SegmentKind::ALL.into_iter().find(|kind| name == file_name(state.number, *kind))
        };
        for name in &names {
            if !states.iter().any(|s| is_of(name, s).is_some()) {
                disk.remove(&dir.join(name))?;
            }
        }
        let mut all = Vec::new();
        for state in states {
            let kind = names.iter().find_map(|name| is_of(name, state));
            let kind = kind.ok_or(io::ErrorKind::NotFound)?;
            let file = disk.open(&dir.join(file_name(state.number, kind)), OpenMode::Existing)?;
            all.push((OverviewSegment::new(state.number, kind, file, false), state.len));
        }
        all.sort_by_key(|(s, _)| s.number);
        // Numbers of removed files count as well: a power cut may restore them.
        let numbers = states.iter().map(|s| s.number).chain(names.iter().filter_map(|name| number_of(name)));
        let next = numbers.max().map_or(0, |number| number.saturating_add(1));
        let mut segments = Self {
            disk: disk.clone(),
            dir: dir.into(),
            shape,
            all,
            next,
            open: None,
            dead: Vec::new(),
            scratch: Vec::new(),
        };
        segments.open = segments.last(SegmentKind::Plain).map(|(s, _)| s.number);
        Ok(segments)
    }

    fn last(&mut self, kind: SegmentKind) -> Option<&mut (Arc<OverviewSegment>, u64)> {
        self.all.iter_mut().rev().find(|(s, _)| s.kind == kind)
    }

    pub fn get(&self, number: u32) -> Option<&Arc<OverviewSegment>> {
        let at = self.all.binary_search_by_key(&number, |(s, _)| s.number).ok()?;
        self.all.get(at).map(|(s, _)| s)
    }

    /// Appends one encoded block, produced by `encode`; returns its location. The caller records it in the
    /// segment.
    pub fn append(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<(Arc<OverviewSegment>, u64, u32)> {
        let limit = self.shape.segment_bytes;
        let open = self.open;
        if self.last(SegmentKind::Plain).is_none_or(|(s, len)| Some(s.number) != open || *len >= limit) {
            self.open = Some(self.start_segment(SegmentKind::Plain)?);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        encode(&mut scratch);
        let Some((segment, len)) = self.last(SegmentKind::Plain) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let (segment, at) = (segment.clone(), *len);
        let written = segment.write(&scratch, at);
        if written.is_ok() {
            *len += scratch.len() as u64;
        }
        let bytes = scratch.len() as u32;
        self.scratch = scratch;
        written.map(|()| (segment, at, bytes))
    }

    fn start_segment(&mut self, kind: SegmentKind) -> io::Result<u32> {
        // A failed attempt still uses up the number: its file may exist, and no segment of the other kind may
        // have the same number.
        let number = self.next;
        self.next += 1;
        let file = self.disk.open(&self.dir.join(file_name(number, kind)), OpenMode::Create)?;
        file.set_len(0)?;
        self.all.push((OverviewSegment::new(number, kind, file, true), 0));
        Ok(number)
    }

    /// Returns the oldest plain segment that has blocks to be packed and holds no row that arrived after
    /// `before` (Unix seconds), and stops appending to it.
    pub fn cold(&mut self, before: u64) -> Option<Arc<OverviewSegment>> {
        let (open, enough) = (self.open, self.shape.segment_bytes / COLD_PART);
        let is_cold = |(s, len): &&(Arc<OverviewSegment>, u64)| {
            s.kind == SegmentKind::Plain
                && u64::from(s.newest.load(Ordering::Relaxed)) <= before
                && (Some(s.number) != open || *len >= enough)
                && !s.blocks.lock().is_empty()
        };
        let (segment, _) = self.all.iter().find(is_cold)?;
        if self.open == Some(segment.number) {
            self.open = None;
        }
        Some(segment.clone())
    }

    /// Returns the packed segment that accepts blocks, and its end.
    pub fn packed(&mut self) -> io::Result<(Arc<OverviewSegment>, u64)> {
        let limit = self.shape.segment_bytes;
        if self.last(SegmentKind::Packed).is_none_or(|(_, len)| *len >= limit) {
            self.start_segment(SegmentKind::Packed)?;
        }
        self.last(SegmentKind::Packed)
            .map(|(s, len)| (s.clone(), *len))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Records that blocks lie in a packed segment up to `end`.
    pub fn packed_up_to(&mut self, number: u32, end: u64) {
        if let Some((_, len)) = self.all.iter_mut().find(|(s, _)| s.number == number) {
            *len = end;
        }
    }

    /// Reports whether a segment accepts blocks, and so stays even without living ones.
    fn takes_blocks(&self, segment: &OverviewSegment) -> bool {
        match segment.kind {
            SegmentKind::Plain => self.open == Some(segment.number),
            SegmentKind::Packed => {
                let last = self.all.iter().rev().find(|(s, _)| s.kind == SegmentKind::Packed);
                last.is_some_and(|(s, _)| s.number == segment.number)
            }
        }
    }

    /// Returns the size of segments that only wait for a checkpoint to be removed.
    pub fn idle_bytes(&self) -> u64 {
        let idle = |s: &OverviewSegment| s.live_blocks.load(Ordering::Relaxed) == 0 && !self.takes_blocks(s);
        self.all.iter().filter(|(s, _)| idle(s)).map(|(_, len)| len).sum()
    }

    /// Forgets sealed segments without a living block and returns the state for a checkpoint.
    pub fn checkpoint(&mut self) -> Vec<SegmentState> {
        let stays = |s: &OverviewSegment| s.live_blocks.load(Ordering::Relaxed) > 0 || self.takes_blocks(s);
        let stay: Vec<bool> = self.all.iter().map(|(s, _)| stays(s)).collect();
        let mut stay = stay.into_iter();
        let gone = self.all.extract_if(.., |_| !stay.next().unwrap_or(true));
        self.dead.extend(gone.map(|(s, _)| self.dir.join(file_name(s.number, s.kind))));
        self.all.iter().map(|(s, len)| SegmentState { number: s.number, len: *len }).collect()
    }

    /// Returns the segments to sync before the checkpoint may be written.
    pub fn to_sync(&self) -> Vec<Arc<OverviewSegment>> {
        self.all.iter().map(|(s, _)| s.clone()).filter(|s| s.dirty.load(Ordering::Acquire)).collect()
    }

    /// Returns files that are unreferenced once the current checkpoint is durable.
    pub fn take_dead(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.dead)
    }

    /// Returns the total size of all segments in bytes.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, len)| len).sum()
    }

    /// Returns the directory of the files, to be synced with them.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Returns the number in a segment's file name.
fn number_of(name: &str) -> Option<u32> {
    let (number, suffix) = name.split_once('.')?;
    SegmentKind::ALL.iter().any(|kind| kind.suffix() == suffix).then(|| number.parse().ok())?
}

fn file_name(number: u32, kind: SegmentKind) -> String {
    format!("{number:08}.{}", kind.suffix())
}
