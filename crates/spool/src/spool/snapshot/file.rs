//! The file of a snapshot: a magic number, then frames, each compressed and with a checksum.

use super::arrival::SnapshotArrival;
#[cfg(feature = "testing")]
use super::entry::SnapshotEntry;
use disk::crc::crc32c;
use disk::{Disk, DiskFile, OpenMode, read_around};
use spool_base::codec::ByteReader;
use spool_methods::packing::{put_frame, read_frame};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

const MAGIC: &[u8; 8] = b"NSnapsh1";
/// Length of the fields before a frame: its length, that of its content, its checksum.
const HEAD_BYTES: usize = 12;
/// Length of the place that a frame's checksum covers.
const PLACE_BYTES: usize = 8;
/// Size at which a frame ends; an entry that is longer has one of its own.
pub(crate) const FRAME_BYTES_USUAL: usize = 1 << 20;
/// Largest content of a frame: a frame of usual size and the longest article.
const CONTENT_BYTES_MAX: usize = (1 << 30) + (64 << 20);
/// Level of compression: a fast one, since a member that joins waits for it.
const LEVEL: i32 = 1;
/// Frames that wait to be compressed, or to be applied.
const FRAMES_AHEAD: usize = 2;

/// A snapshot that is being written.
pub(crate) struct SnapshotWriter {
    file: Arc<dyn DiskFile>,
    end: u64,
    /// Entries of the frame that is not written yet.
    pub content: Vec<u8>,
    compressor: Option<FrameCompressor>,
}

/// The thread that compresses frames and writes them to the file.
struct FrameCompressor {
    frames: SyncSender<Vec<u8>>,
    /// Returns the end of the file.
    thread: JoinHandle<io::Result<u64>>,
}

impl FrameCompressor {
    /// Starts the thread; the first frame begins at `end`.
    fn start(file: Arc<dyn DiskFile>, end: u64) -> io::Result<Self> {
        let (frames, waiting) = sync_channel(FRAMES_AHEAD);
        let thread = std::thread::Builder::new()
            .name("snapshot".into())
            .spawn(move || write_frames(&*file, end, &waiting))?;
        Ok(Self { frames, thread })
    }

    /// Waits until all frames are written; returns the end of the file.
    fn end(self) -> io::Result<u64> {
        drop(self.frames);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
    }
}

/// Writes frames of these contents, one after the other.
fn write_frames(file: &dyn DiskFile, mut end: u64, contents: &Receiver<Vec<u8>>) -> io::Result<u64> {
    for content in contents {
        // The checksum counts at the frame's own place only.
        let mut placed = end.to_le_bytes().to_vec();
        if !put_frame(&content, LEVEL, &mut placed) {
            return Err(io::Error::other("a part of the snapshot cannot be compressed"));
        }
        let (_, frame) = placed.split_at(PLACE_BYTES);
        let lengths = [frame.len() as u32, content.len() as u32];
        let mut head: Vec<u8> = lengths.iter().flat_map(|len| len.to_le_bytes()).collect();
        head.extend_from_slice(&crc32c(&placed).to_le_bytes());
        file.write_all_at(&[IoSlice::new(&head), IoSlice::new(frame)], end)?;
        end += (head.len() + frame.len()) as u64;
    }
    Ok(end)
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        // What is not written yet follows when the snapshot is continued.
        let _ = self.compressor.take().map(FrameCompressor::end);
    }
}

impl SnapshotWriter {
    /// Opens the file at `path`, and creates it if need be. `ResourceBusy` while another one writes it.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::CreatePrivate)?;
        let busy = || io::Error::new(ErrorKind::ResourceBusy, "another command is writing it");
        file.try_lock().map_err(|e| if e.kind() == ErrorKind::WouldBlock { busy() } else { e })?;
        // Another one may have finished it before it was locked.
        if disk.identity(path)? != Some(file.identity()?) {
            return Err(busy());
        }
        Ok(Self { file, end: 0, content: Vec::new(), compressor: None })
    }

    /// Begins the file.
    pub fn begin(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(&[IoSlice::new(MAGIC)], 0)?;
        self.end = MAGIC.len() as u64;
        Ok(())
    }

    /// Continues the file after `end`.
    pub fn continue_at(&mut self, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        self.end = end;
        Ok(())
    }

    /// Writes the frame if it has its usual size.
    pub fn write_full(&mut self) -> io::Result<()> {
        if self.content.len() >= FRAME_BYTES_USUAL { self.write() } else { Ok(()) }
    }

    /// Hands over the frame to be written.
    pub fn write(&mut self) -> io::Result<()> {
        if self.content.is_empty() {
            return Ok(());
        }
        let compressor = match self.compressor.take() {
            Some(compressor) => compressor,
            None => FrameCompressor::start(self.file.clone(), self.end)?,
        };
        let content = std::mem::replace(&mut self.content, Vec::with_capacity(FRAME_BYTES_USUAL));
        if compressor.frames.send(content).is_err() {
            // It ends early only with an error.
            return compressor.end().map(drop);
        }
        self.compressor = Some(compressor);
        Ok(())
    }

    /// Writes the rest; returns the file, which is not synced yet, and its length.
    pub fn finish(mut self) -> io::Result<(Arc<dyn DiskFile>, u64)> {
        self.write()?;
        let end = self.compressor.take().map_or(Ok(self.end), FrameCompressor::end)?;
        Ok((self.file.clone(), end))
    }
}

/// A snapshot that is being read.
pub(crate) struct SnapshotReader<'a> {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    /// Length of the file, as far as it is known to have arrived.
    len: u64,
    arrival: Option<&'a SnapshotArrival>,
    /// Place of the next frame.
    pub at: u64,
    /// Place of the frame, and the frame.
    placed: Vec<u8>,
}

/// The content of a frame.
pub(crate) struct FrameContent {
    pub entries: Vec<u8>,
    /// Place of the next frame.
    pub end: u64,
}

impl<'a> SnapshotReader<'a> {
    /// Opens the file at `path`.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::ReadOnly)?;
        let len = file.len()?;
        Self::begin(file, path, len, None)
    }

    /// Opens the file at `path`, which still arrives.
    pub fn open_arriving(disk: &dyn Disk, path: &Path, arrival: &'a SnapshotArrival) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::ReadOnly)?;
        let len = arrival.more_than(MAGIC.len() as u64)?;
        Self::begin(file, path, len, Some(arrival))
    }

    fn begin(
        file: Arc<dyn DiskFile>,
        path: &Path,
        len: u64,
        arrival: Option<&'a SnapshotArrival>,
    ) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        let read = read_around(&*file, &mut magic, 0)?;
        if read < MAGIC.len() || magic != *MAGIC {
            return Err(damaged(path, "it does not begin like one"));
        }
        Ok(Self { file, path: path.into(), len, arrival, at: MAGIC.len() as u64, placed: Vec::new() })
    }

    /// Returns the length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads the frames that are left on a thread of its own, ahead of `act`, which takes them; nothing
    /// follows an error.
    pub fn read_ahead<T>(
        mut self,
        act: impl FnOnce(&mut dyn Iterator<Item = io::Result<FrameContent>>) -> T,
    ) -> T {
        std::thread::scope(|scope| {
            let (to, frames) = sync_channel(FRAMES_AHEAD);
            scope.spawn(move || {
                while let Some(frame) = self.next().transpose() {
                    let is_error = frame.is_err();
                    if to.send(frame).is_err() || is_error {
                        break;
                    }
                }
            });
            act(&mut frames.into_iter())
        })
    }

    /// Reads the next frame; `None` at the end of the file. A frame that is not whole is an error of kind
    /// `InvalidData`.
    pub fn next(&mut self) -> io::Result<Option<FrameContent>> {
        if !self.has(self.at + 1)? {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        let frame_at = self.at + HEAD_BYTES as u64;
        if !self.has(frame_at)? {
            return Err(self.cut());
        }
        self.file.read_exact_at(&mut head, self.at)?;
        let mut r = ByteReader(&head);
        let (Some(frame_bytes), Some(content_bytes), Some(crc)) = (r.u32(), r.u32(), r.u32()) else {
            return Err(self.cut());
        };
        if frame_bytes.max(content_bytes) as usize > CONTENT_BYTES_MAX {
            return Err(self.damage());
        }
        if !self.has(frame_at + u64::from(frame_bytes))? {
            return Err(self.cut());
        }
        self.placed.clear();
        self.placed.extend_from_slice(&self.at.to_le_bytes());
        self.placed.resize(PLACE_BYTES + frame_bytes as usize, 0);
        let (_, frame) = self.placed.split_at_mut(PLACE_BYTES);
        self.file.read_exact_at(frame, frame_at)?;
        if crc32c(&self.placed) != crc {
            return Err(self.damage());
        }
        let mut entries = vec![0; content_bytes as usize];
        let (_, frame) = self.placed.split_at(PLACE_BYTES);
        if !read_frame(frame, &mut entries) {
            return Err(self.damage());
        }
        self.at = frame_at + u64::from(frame_bytes);
        Ok(Some(FrameContent { entries, end: self.at }))
    }

    /// Returns whether the file has this many bytes; waits for those that still arrive.
    fn has(&mut self, bytes: u64) -> io::Result<bool> {
        while self.len < bytes {
            let Some(arrival) = self.arrival else { return Ok(false) };
            let len = arrival.more_than(self.len)?;
            if len == self.len {
                return Ok(false);
            }
            self.len = len;
        }
        Ok(true)
    }

    /// Returns to the first frame.
    pub fn rewind(&mut self) {
        self.at = MAGIC.len() as u64;
    }

    fn damage(&self) -> io::Error {
        damaged(&self.path, &format!("the part at {} is damaged", self.at))
    }

    fn cut(&self) -> io::Error {
        damaged(&self.path, "its end is missing")
    }
}

/// Returns the number of entries in the whole frames of a file with these bytes, or the error that ends them.
#[cfg(feature = "testing")]
pub(crate) fn entries_in(bytes: &[u8]) -> io::Result<u64> {
    let (disk, path) = (disk::SimDisk::new(), Path::new("/snapshot"));
    disk::durable_replace(&disk, path, &[bytes], disk::FileAccess::Owner)?;
    let (mut reader, mut count) = (SnapshotReader::open(&disk, path)?, 0);
    while let Some(frame) = reader.next()? {
        let mut entries = ByteReader(&frame.entries);
        while !entries.is_empty() {
            let entry = SnapshotEntry::read(&mut entries);
            count += u64::from(
                entry.ok_or_else(|| damaged(path, "an entry is invalid"))? != SnapshotEntry::Ignored,
            );
        }
    }
    Ok(count)
}

/// Reads the entries of a frame's content and writes them again, without those that are skipped; `None` if
/// one is invalid.
#[cfg(feature = "testing")]
pub(crate) fn entries_again(content: &[u8]) -> Option<Vec<u8>> {
    let (mut entries, mut again) = (ByteReader(content), Vec::new());
    while !entries.is_empty() {
        match SnapshotEntry::read(&mut entries)? {
            SnapshotEntry::Ignored => {}
            entry => entry.put(&mut again),
        }
    }
    Some(again)
}

/// Returns the error for a file that is no whole snapshot.
pub(crate) fn damaged(path: &Path, why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{} is not a whole snapshot: {why}", path.display()))
}
