//! Overview segments: append-only files of closed blocks, in time order.
//!
//! A segment is removed as a whole when its last block with a living row has died and no checkpoint names it any
//! more. The writer is the only one that appends; readers hold the open file through an [`Arc`].

use crate::disk::{Disk, DiskFile, Open};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Length at which a segment is sealed.
const SEGMENT_BYTES: u64 = 64 << 20;

/// One segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub number: u32,
    pub file: Arc<dyn DiskFile>,
    /// Blocks in it that have a living row.
    pub live_blocks: AtomicU32,
    dirty: AtomicBool,
}

impl Segment {
    pub fn sync(&self) -> io::Result<()> {
        if self.dirty.swap(false, Ordering::AcqRel) {
            self.file.sync().inspect_err(|_| self.dirty.store(true, Ordering::Release))?;
        }
        Ok(())
    }
}

/// A segment's state in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentState {
    pub number: u32,
    pub len: u64,
}

/// All segments; owned by the writer.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    all: Vec<(Arc<Segment>, u64)>,
    next: u32,
    /// Segments without living blocks, to be removed after the next checkpoint is durable.
    dead: Vec<u32>,
    scratch: Vec<u8>,
}

impl Segments {
    /// Opens the segments of a checkpoint and removes all other files.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, states: &[SegmentState]) -> io::Result<Self> {
        disk.create_dir(dir)?;
        let mut all = Vec::new();
        for name in disk.list(dir)? {
            let number = name.strip_suffix(".seg").and_then(|n| n.parse::<u32>().ok());
            if !number.is_some_and(|n| states.iter().any(|s| s.number == n)) {
                disk.remove(&dir.join(name))?;
            }
        }
        for state in states {
            let file = disk.open(&dir.join(file_name(state.number)), Open::Existing)?;
            let segment = Segment {
                number: state.number,
                file,
                live_blocks: AtomicU32::new(0),
                dirty: AtomicBool::new(false),
            };
            all.push((Arc::new(segment), state.len));
        }
        let next = states.iter().map(|s| s.number + 1).max().unwrap_or(0);
        Ok(Self { disk: disk.clone(), dir: dir.into(), all, next, dead: Vec::new(), scratch: Vec::new() })
    }

    pub fn get(&self, number: u32) -> Option<&Arc<Segment>> {
        self.all.iter().map(|(s, _)| s).find(|s| s.number == number)
    }

    /// Appends one encoded block, made by `encode`; returns where it lies.
    pub fn append(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<(Arc<Segment>, u64, u32)> {
        if self.all.last().is_none_or(|(_, len)| *len >= SEGMENT_BYTES) {
            self.start_segment()?;
        }
        self.scratch.clear();
        encode(&mut self.scratch);
        let Some((segment, len)) = self.all.last_mut() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        segment.file.write_all_at(&[IoSlice::new(&self.scratch)], *len)?;
        segment.dirty.store(true, Ordering::Release);
        let at = *len;
        *len += self.scratch.len() as u64;
        segment.live_blocks.fetch_add(1, Ordering::Relaxed);
        Ok((segment.clone(), at, self.scratch.len() as u32))
    }

    fn start_segment(&mut self) -> io::Result<()> {
        let number = self.next;
        let file = self.disk.open(&self.dir.join(file_name(number)), Open::Create)?;
        file.set_len(0)?;
        self.next += 1;
        let segment = Segment { number, file, live_blocks: AtomicU32::new(0), dirty: AtomicBool::new(true) };
        self.all.push((Arc::new(segment), 0));
        Ok(())
    }

    /// Forgets sealed segments without a living block and returns the state for a checkpoint.
    pub fn checkpoint(&mut self) -> Vec<SegmentState> {
        let sealed = self.all.len().saturating_sub(1);
        let mut i = 0;
        let dead = &mut self.dead;
        self.all.retain(|(segment, _)| {
            i += 1;
            let keep = i > sealed || segment.live_blocks.load(Ordering::Relaxed) > 0;
            if !keep {
                dead.push(segment.number);
            }
            keep
        });
        self.all.iter().map(|(s, len)| SegmentState { number: s.number, len: *len }).collect()
    }

    /// The segments to sync before the checkpoint may be written.
    pub fn to_sync(&self) -> Vec<Arc<Segment>> {
        self.all.iter().map(|(s, _)| s.clone()).filter(|s| s.dirty.load(Ordering::Acquire)).collect()
    }

    /// Files that no checkpoint names any more once the one just made is durable.
    pub fn take_dead(&mut self) -> Vec<PathBuf> {
        self.dead.drain(..).map(|n| self.dir.join(file_name(n))).collect()
    }

    /// Bytes in all segments.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, len)| len).sum()
    }

    /// Directory of the files, to be synced with them.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

fn file_name(number: u32) -> String {
    format!("{number:08}.seg")
}
