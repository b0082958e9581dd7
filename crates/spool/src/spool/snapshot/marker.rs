//! The file `restoring`: which snapshot is restored, and how much of it is applied.
//!
//! It is not synced as it grows: a kill leaves what was written, and after a power cut nothing is continued.

use disk::{Disk, DiskFile, FileAccess, OpenMode, durable_replace, read_around};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// Length of a line: 16 and 8 hexadecimal digits, a blank between them, LF.
const LINE_BYTES: u64 = 26;

/// How far a restoration has come: the end of a frame in the file, and how many of its entries are applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    pub frame_end: u64,
    pub entries: u32,
}

impl Reached {
    /// Everything is applied.
    pub const WHOLE: Self = Self { frame_end: u64::MAX, entries: 0 };

    /// Returns how many of a frame's entries are applied.
    pub fn entries_of(&self, frame_end: u64) -> usize {
        match frame_end.cmp(&self.frame_end) {
            std::cmp::Ordering::Less => usize::MAX,
            std::cmp::Ordering::Equal => self.entries as usize,
            std::cmp::Ordering::Greater => 0,
        }
    }
}

/// Returns a line of the file.
pub(super) fn line(long: u64, short: u32) -> String {
    format!("{long:016x} {short:08x}\n")
}

/// The file of a restoration that runs.
#[derive(Debug)]
pub(super) struct RestoringMarker {
    file: Arc<dyn DiskFile>,
    end: u64,
}

impl RestoringMarker {
    /// Reads how far the restoration of the snapshot with this name has come; `None` if the file names
    /// another one.
    pub fn read(disk: &dyn Disk, path: &Path, name: &str) -> io::Result<Option<Reached>> {
        let file = disk.open(path, OpenMode::ReadOnly)?;
        let read_line = |number: u64| {
            let mut line = [0; LINE_BYTES as usize];
            let read = read_around(&*file, &mut line, number * LINE_BYTES)?;
            Ok::<_, io::Error>(line.get(..read).and_then(|line| str::from_utf8(line).ok()).map(str::to_owned))
        };
        if read_line(0)?.as_deref() != Some(name) {
            return Ok(None);
        }
        // The last line may be cut off. Earlier versions wrote no other than the first.
        match (file.len()? / LINE_BYTES).saturating_sub(1) {
            0 => Ok(Some(Reached::default())),
            last => Ok(read_line(last)?.as_deref().and_then(reached_in)),
        }
    }

    /// Replaces the file, durably.
    pub fn begin(disk: &dyn Disk, path: &Path, name: &str, reached: Reached) -> io::Result<Self> {
        let first = line(reached.frame_end, reached.entries);
        durable_replace(disk, path, &[name.as_bytes(), first.as_bytes()], FileAccess::Owner)?;
        Ok(Self { file: disk.open(path, OpenMode::Existing)?, end: 2 * LINE_BYTES })
    }

    /// Notes how far the restoration has come.
    pub fn note(&mut self, reached: Reached) -> io::Result<()> {
        let line = line(reached.frame_end, reached.entries);
        self.file.write_all_at(&[IoSlice::new(line.as_bytes())], self.end)?;
        self.end += LINE_BYTES;
        Ok(())
    }

    /// Makes what is noted durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn reached_in(line: &str) -> Option<Reached> {
    let (frame_end, entries) = line.strip_suffix('\n')?.split_once(' ')?;
    let frame_end = u64::from_str_radix(frame_end, 16).ok()?;
    Some(Reached { frame_end, entries: u32::from_str_radix(entries, 16).ok()? })
}
