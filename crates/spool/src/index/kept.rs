//! Retained articles: the contents of a volume that displaces nothing, with arrival and expiry data
//! (`docs/formats/kept.md`).
//!
//! A queue in files of whole pages. The writer appends the articles it stores. A pass of expiry
//! ([`crate::write::expire`]) leaves full files alone if none of their articles is due, takes the entries of
//! the others, removes those that are due and appends the rest again. On a full disk the rest waits in
//! memory; when much does, entries are handed out in place and stay in their file, even if their articles are
//! then removed; a later pass drops them. A fold of the journal: the replay writes again what follows the
//! checkpoint. Invariant: an entry that is taken and not put back belongs to an article that was removed.
//! [`KeptSnapshot`] reads the entries while the writer continues.

use crate::index::ages::ArrivalHistogram;
use crate::index::weights::GroupWeights;
use disk::{Disk, DiskFile, OpenMode};
use spool_base::codec::{ByteReader, put_bytes, put_u64, put_varint};
use spool_base::ids::GroupId;
use spool_base::key::{ArticleKey, KeyHasher};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length at which a file is full.
const FILE_BYTES: u64 = 256 << 10;
/// Number of unwritten bytes at which a page is written.
const PAGE_BYTES: usize = 16 << 10;
/// Length and checksum before each page.
const FRAME_BYTES: usize = 8;
/// Flag in the length of a page whose entries have a thread.
const HAS_THREADS: u32 = 1 << 31;
/// Flag in the length of a page whose checksum covers the length, too.
const COVERS_LENGTH: u32 = 1 << 30;
/// Bytes of entries in memory above which a pass leaves the others in their files.
const MEMORY_BYTES_MAX: usize = 16 << 20;

/// Entry of a retained article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptEntry {
    pub place: u64,
    pub key: ArticleKey,
    /// Storage class.
    pub class: u8,
    /// Time of arrival, in Unix seconds.
    pub arrived: u32,
    /// Value of its Expires header, Unix seconds; 0 for none (CN-21).
    pub expires: u32,
    pub stored_bytes: u64,
    /// Identifier of the thread; see [`thread_of`].
    pub thread: u64,
    pub numbers: Vec<(GroupId, u64)>,
}

/// Returns the thread of an article: a part of the key of the first Message-ID in its References, which is
/// that of the thread's first article, or of its own Message-ID.
pub(crate) fn thread_of(hasher: &KeyHasher, key: ArticleKey, references: &[u8]) -> u64 {
    let mut words = references.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.next().filter(|id| id.starts_with(b"<") && id.ends_with(b">"));
    first.map_or(key, |id| hasher.key(id)).0 as u64
}

/// The files of a queue, oldest first: number and length.
pub(crate) type KeptState = Vec<(u64, u64)>;

/// The queue of one volume; owned by the writer.
#[derive(Debug)]
pub(crate) struct KeptList {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: VecDeque<(u64, u64)>,
    next_file: u64,
    open: Option<Arc<dyn DiskFile>>,
    unwritten: Vec<u8>,
    dirty: Vec<Arc<dyn DiskFile>>,
    /// Entries of the pass that were not handed out yet.
    taken: VecDeque<KeptEntry>,
    /// Whether `taken`, and entries already handed out from the same file, stay in it.
    in_place: bool,
    memory_bytes_max: usize,
    /// Encoded entries that were in no file when the pass began; the pass takes them last.
    waiting: Vec<u8>,
    /// Whether the disk was full for the last write; the next one is at [`KeptList::write_late`] or a
    /// checkpoint.
    is_late: bool,
    dead: Vec<PathBuf>,
    /// Files that the pass has not reached.
    pass: VecDeque<u64>,
    /// Entries of the next file, if it was examined before being taken.
    looked_at: Option<(u64, Vec<KeptEntry>)>,
    /// Files that were left alone, with the time until which nothing in them is due (Unix seconds).
    quiet: HashMap<u64, u64>,
    /// Cloned by every snapshot.
    read_by: Arc<()>,
    /// Damaged pages: their articles stay until a rebuild.
    pub damaged: u64,
    /// Bytes of articles in the queue.
    pub bytes: u64,
    pub entries: u64,
    /// Arrival times of the articles.
    pub ages: ArrivalHistogram,
    /// Articles and bytes by group.
    pub weights: GroupWeights,
}

impl KeptList {
    /// Opens the queue as of a checkpoint; `NotFound` or `InvalidData` if one of its files is missing or
    /// short.
    pub fn open(disk: &Arc<dyn Disk>, dir: PathBuf, state: &KeptState) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        for name in disk.list(&dir)? {
            let known = number_of(&name).is_some_and(|n| state.iter().any(|(number, _)| *number == n));
            if !known {
                disk.remove(&dir.join(name))?;
            }
        }
        let mut new = Self {
            disk: disk.clone(),
            dir,
            files: state.iter().copied().collect(),
            next_file: state.iter().map(|(n, _)| n + 1).max().unwrap_or(0),
            open: None,
            unwritten: Vec::new(),
            dirty: Vec::new(),
            taken: VecDeque::new(),
            in_place: false,
            memory_bytes_max: MEMORY_BYTES_MAX,
            waiting: Vec::new(),
            is_late: false,
            dead: Vec::new(),
            pass: VecDeque::new(),
            looked_at: None,
            quiet: HashMap::new(),
            read_by: Arc::default(),
            damaged: 0,
            bytes: 0,
            entries: 0,
            ages: ArrivalHistogram::default(),
            weights: GroupWeights::default(),
        };
        for (number, len) in state {
            let damaged =
                visit_file(&**disk, &new.dir.clone(), *number, *len, &mut |entry| new.count(entry))?;
            new.damaged += damaged;
        }
        Ok(new)
    }

    fn count(&mut self, entry: &KeptEntry) {
        self.bytes += entry.stored_bytes;
        self.entries += 1;
        self.ages.add(entry.arrived, entry.stored_bytes);
        self.weights.add(&entry.numbers, entry.stored_bytes);
    }

    /// Adds an article.
    pub fn push(&mut self, entry: &KeptEntry) -> io::Result<()> {
        self.count(entry);
        encode(entry, &mut self.unwritten);
        if self.unwritten.len() >= PAGE_BYTES && !self.is_late { self.write_out() } else { Ok(()) }
    }

    /// Puts back the entry handed out last, whose article stays.
    pub fn put_back(&mut self, entry: &KeptEntry) -> io::Result<()> {
        if self.in_place { Ok(()) } else { self.push(entry) }
    }

    /// Undoes handing out the last entry, which becomes the next one again.
    pub fn hand_back(&mut self, entry: KeptEntry) {
        if !self.in_place {
            self.count(&entry);
        }
        self.taken.push_front(entry);
    }

    /// Reports whether the entry handed out last is still in its file.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Writes the data that an earlier push could not write.
    pub fn write_late(&mut self) -> io::Result<()> {
        if self.unwritten.len() >= PAGE_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Writes out all entries, including those that a pass has taken and not yet handed out: they get a file
    /// of their own, which the pass reaches next.
    pub fn write_all(&mut self) -> io::Result<()> {
        let mut of_pass = Vec::new();
        if !self.in_place {
            self.taken.drain(..).for_each(|entry| encode(&entry, &mut of_pass));
        }
        of_pass.append(&mut self.waiting);
        if !of_pass.is_empty() {
            let others = std::mem::replace(&mut self.unwritten, of_pass);
            self.open = None;
            let written = self.write_out();
            self.waiting = std::mem::replace(&mut self.unwritten, others);
            written?;
            self.pass.extend(self.files.back().map(|(number, _)| *number));
            self.pass.rotate_right(1);
            self.open = None;
        }
        self.write_out()
    }

    fn write_out(&mut self) -> io::Result<()> {
        let written = self.write_page();
        self.is_late = written.is_err();
        written
    }

    fn write_page(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let full = self.files.back().is_none_or(|(_, len)| *len >= FILE_BYTES);
        if self.open.is_none() || full {
            let file = self.disk.open(&self.dir.join(file_name(self.next_file)), OpenMode::Create)?;
            file.set_len(0)?;
            self.files.push_back((self.next_file, 0));
            self.next_file += 1;
            self.open = Some(file.clone());
            self.dirty.push(file);
        }
        let (Some(file), Some((_, len))) = (&self.open, self.files.back_mut()) else { return Ok(()) };
        let page = KeptPage::of(&self.unwritten);
        let frame = [page.length.to_le_bytes(), page.crc.to_le_bytes()].concat();
        file.write_all_at(&[IoSlice::new(&frame), IoSlice::new(&self.unwritten)], *len)?;
        if !self.dirty.iter().any(|f| Arc::ptr_eq(f, file)) {
            self.dirty.push(file.clone());
        }
        *len += (FRAME_BYTES + self.unwritten.len()) as u64;
        self.unwritten.clear();
        Ok(())
    }

    fn read_file(&mut self, number: u64, len: u64) -> io::Result<Vec<KeptEntry>> {
        let mut entries = Vec::new();
        let mut push = |entry: &KeptEntry| entries.push(entry.clone());
        self.damaged += visit_file(&*self.disk, &self.dir, number, len, &mut push)?;
        Ok(entries)
    }

    /// Begins a pass over the current entries; [`KeptList::take`] ends after the last of them. Writes
    /// nothing: a pass must be able to free space on a full disk.
    pub fn begin_pass(&mut self) {
        self.looked_at = None;
        self.put_back_taken();
        self.waiting = std::mem::take(&mut self.unwritten);
        self.open = None;
        self.pass = self.files.iter().map(|(number, _)| *number).collect();
    }

    /// Returns the entries of the next file of the pass, if it is a full one and all entries taken before are
    /// handed out: [`KeptList::leave`] then leaves the file alone, [`KeptList::take`] takes it. With `now`
    /// (Unix seconds), files without entries due by then are skipped unread.
    pub fn look_ahead(&mut self, now: Option<u64>) -> io::Result<Option<&[KeptEntry]>> {
        if !self.taken.is_empty() {
            return Ok(None);
        }
        while let Some(number) = self.pass.front().copied() {
            if now.is_some_and(|now| self.quiet.get(&number).is_some_and(|until| *until > now)) {
                self.pass.pop_front();
                continue;
            }
            let file = self.files.iter().find(|(n, _)| *n == number).copied();
            // Short files are rewritten, so that there are never many of them.
            let Some(file) = file.filter(|(_, len)| *len >= FILE_BYTES) else { break };
            if self.looked_at.as_ref().is_none_or(|(number, _)| *number != file.0) {
                self.looked_at = Some((file.0, self.read_file(file.0, file.1)?));
            }
            return Ok(self.looked_at.as_ref().map(|(_, entries)| entries.as_slice()));
        }
        Ok(None)
    }

    /// Leaves the examined file alone; nothing in it is due before `until` (Unix seconds).
    pub fn leave(&mut self, until: u64) {
        if let Some((number, _)) = self.looked_at.take() {
            self.pass.retain(|n| *n != number);
            self.quiet.insert(number, until);
        }
    }

    /// Returns the earliest time at which a file that was left alone must be examined again, Unix seconds.
    pub fn first_quiet(&self) -> Option<u64> {
        self.quiet.values().copied().min()
    }

    /// Forgets when files must be examined again: the policy or the groups have changed.
    pub fn forget_quiet(&mut self) {
        self.quiet.clear();
    }

    /// Takes the next entry of the pass, or hands it out in place.
    pub fn take(&mut self) -> io::Result<Option<KeptEntry>> {
        loop {
            if let Some(entry) = self.taken.pop_front() {
                if !self.in_place {
                    self.bytes = self.bytes.saturating_sub(entry.stored_bytes);
                    self.entries = self.entries.saturating_sub(1);
                    self.ages.take(entry.arrived, entry.stored_bytes);
                    self.weights.take(&entry.numbers, entry.stored_bytes);
                }
                return Ok(Some(entry));
            }
            let next = self.pass.front().and_then(|n| self.files.iter().position(|(number, _)| number == n));
            let Some((at, (number, len))) = next.and_then(|at| Some((at, *self.files.get(at)?))) else {
                self.in_place = false;
                self.taken = decode_all(&std::mem::take(&mut self.waiting), true).into();
                if self.taken.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            let looked_at = self.looked_at.take().filter(|(n, _)| *n == number);
            self.taken = match looked_at {
                Some((_, entries)) => entries.into(),
                None => self.read_file(number, len)?.into(),
            };
            self.pass.pop_front();
            self.in_place = self.memory_bytes() >= self.memory_bytes_max;
            if !self.in_place {
                self.files.remove(at);
                self.quiet.remove(&number);
                self.dead.push(self.dir.join(file_name(number)));
            }
        }
    }

    /// Calls `visit` with every entry, those in files oldest first; takes none and writes nothing.
    pub fn each(&mut self, visit: &mut dyn FnMut(&KeptEntry)) -> io::Result<()> {
        if !self.in_place {
            self.taken.iter().for_each(&mut *visit);
        }
        for (number, len) in &self.files {
            self.damaged += visit_file(&*self.disk, &self.dir, *number, *len, visit)?;
        }
        visit_all(&self.waiting, true, visit);
        visit_all(&self.unwritten, true, visit);
        Ok(())
    }

    /// Returns the current entries, to be read while the list changes; their files stay until the snapshot is
    /// dropped.
    pub fn snapshot(&self) -> KeptSnapshot {
        let mut in_memory = Vec::new();
        if !self.in_place {
            self.taken.iter().for_each(|entry| encode(entry, &mut in_memory));
        }
        in_memory.extend_from_slice(&self.waiting);
        in_memory.extend_from_slice(&self.unwritten);
        KeptSnapshot {
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            files: self.files.iter().copied().collect(),
            in_memory,
            entries: self.entries,
            _files_stay: self.read_by.clone(),
        }
    }

    /// Calls `visit` with every entry, oldest first; returns the number of damaged pages.
    pub fn verify(&mut self, visit: &mut dyn FnMut(&KeptEntry)) -> io::Result<u64> {
        let before = std::mem::take(&mut self.damaged);
        let each = self.each(visit);
        let damaged = std::mem::replace(&mut self.damaged, before);
        each.map(|()| damaged)
    }

    /// Writes all entries to new files, without the damaged pages.
    pub fn renew(&mut self) -> io::Result<()> {
        self.begin_pass();
        while let Some(entry) = self.take()? {
            self.put_back(&entry)?;
        }
        self.damaged = 0;
        Ok(())
    }

    /// Puts back the entries that the pass has not handed out.
    fn put_back_taken(&mut self) {
        if std::mem::take(&mut self.in_place) {
            self.taken.clear();
        }
        self.taken.drain(..).for_each(|entry| encode(&entry, &mut self.unwritten));
        self.unwritten.append(&mut self.waiting);
    }

    /// Writes out everything in memory and returns the state for a checkpoint.
    pub fn checkpoint(&mut self) -> io::Result<KeptState> {
        self.write_all()?;
        Ok(self.files.iter().copied().collect())
    }

    /// Returns the files to sync before a checkpoint may be written.
    pub fn take_dirty(&mut self) -> Vec<Arc<dyn DiskFile>> {
        std::mem::take(&mut self.dirty)
    }

    /// Returns the files to remove once the checkpoint is durable; files that a snapshot may be reading wait
    /// for a later one.
    pub fn take_dead(&mut self) -> Vec<PathBuf> {
        if Arc::strong_count(&self.read_by) > 1 { Vec::new() } else { std::mem::take(&mut self.dead) }
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the size of the queue itself in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| len).sum::<u64>() + self.memory_bytes() as u64
    }

    /// Returns the size of the entries that are in no file, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.unwritten.len() + self.waiting.len()
    }
}

/// Entries of a list at one moment.
#[derive(Debug)]
pub(crate) struct KeptSnapshot {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: KeptState,
    in_memory: Vec<u8>,
    /// Maximum number of entries.
    pub entries: u64,
    _files_stay: Arc<()>,
}

impl KeptSnapshot {
    /// Calls `visit` with every entry, file by file.
    pub fn each(&self, visit: &mut dyn FnMut(&KeptEntry)) -> io::Result<()> {
        for (number, len) in &self.files {
            visit_file(&*self.disk, &self.dir, *number, *len, visit)?;
        }
        visit_all(&self.in_memory, true, visit);
        Ok(())
    }
}

/// Calls `visit` with the entries of a file; returns the number of its damaged pages.
fn visit_file(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    len: u64,
    visit: &mut dyn FnMut(&KeptEntry),
) -> io::Result<u64> {
    let file = disk.open(&dir.join(file_name(number)), OpenMode::Existing)?;
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let mut r = ByteReader(&bytes);
    let mut damaged = 0;
    while !r.is_empty() {
        match KeptPage::read(&mut r) {
            Some(page) if page.is_whole() => _ = visit_all(page.entries, page.has_threads(), visit),
            Some(_) => damaged += 1,
            // No page follows a length that exceeds the file.
            None => return Ok(damaged + 1),
        }
    }
    Ok(damaged)
}

/// A page of a file.
struct KeptPage<'a> {
    /// Length of the entries, with flags.
    length: u32,
    crc: u32,
    entries: &'a [u8],
}

impl<'a> KeptPage<'a> {
    /// Creates the page of these entries, as it is written today.
    fn of(entries: &'a [u8]) -> Self {
        let mut page = Self { length: entries.len() as u32 | HAS_THREADS | COVERS_LENGTH, crc: 0, entries };
        page.crc = page.checksum();
        page
    }

    /// Reads a page that may be damaged; `None` if it is longer than what is left.
    fn read(r: &mut ByteReader<'a>) -> Option<Self> {
        let (length, crc) = (r.u32()?, r.u32()?);
        let entries = r.take((length & !(HAS_THREADS | COVERS_LENGTH)) as usize)?;
        Some(Self { length, crc, entries })
    }

    fn has_threads(&self) -> bool {
        self.length & HAS_THREADS != 0
    }

    fn checksum(&self) -> u32 {
        match self.length & COVERS_LENGTH {
            0 => disk::crc::crc32c(self.entries),
            _ => disk::crc::crc32c_of_two(&self.length.to_le_bytes(), self.entries),
        }
    }

    /// Reports whether the page is as it was written. That of an earlier version is also judged by its
    /// entries, as its checksum knows nothing of the flags. No page was ever written without entries.
    fn is_whole(&self) -> bool {
        let decodes = || visit_all(self.entries, self.has_threads(), &mut |_| {});
        !self.entries.is_empty() && self.checksum() == self.crc && decodes()
    }
}

fn encode(e: &KeptEntry, out: &mut Vec<u8>) {
    put_u64(e.place, out);
    out.extend_from_slice(&e.key.0.to_le_bytes());
    out.push(e.class);
    out.extend_from_slice(&e.arrived.to_le_bytes());
    out.extend_from_slice(&e.expires.to_le_bytes());
    put_u64(e.thread, out);
    put_varint(e.stored_bytes, out);
    let mut numbers = Vec::new();
    spool_journal::put_numbers(&e.numbers, &mut numbers);
    put_bytes(&numbers, out);
}

/// Decodes the entries of a page.
fn decode_all(page: &[u8], has_threads: bool) -> Vec<KeptEntry> {
    let mut entries = Vec::new();
    visit_all(page, has_threads, &mut |entry| entries.push(entry.clone()));
    entries
}

/// Calls `visit` with the entries of a page; returns whether they decode to its end.
fn visit_all(page: &[u8], has_threads: bool, visit: &mut dyn FnMut(&KeptEntry)) -> bool {
    let (mut rest, mut numbers) = (ByteReader(page), Vec::new());
    while !rest.is_empty() {
        let Some(entry) = decode(&mut rest, has_threads, numbers) else { return false };
        visit(&entry);
        numbers = entry.numbers;
    }
    true
}

/// Decodes an entry. Without a thread the article is one of its own. `numbers` is memory to be reused.
fn decode(r: &mut ByteReader<'_>, has_thread: bool, numbers: Vec<(GroupId, u64)>) -> Option<KeptEntry> {
    let (place, key) = (r.u64()?, ArticleKey(r.u128()?));
    let mut e = KeptEntry {
        place,
        key,
        class: r.u8()?,
        arrived: r.u32()?,
        expires: r.u32()?,
        thread: if has_thread { r.u64()? } else { key.0 as u64 },
        stored_bytes: r.varint()?,
        numbers,
    };
    spool_journal::read_numbers(r.bytes()?, &mut e.numbers).then_some(e)
}

fn file_name(number: u64) -> String {
    format!("{number:010}.kept")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".kept")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    fn entry(n: u64) -> KeptEntry {
        let numbers = (0..1 + n % 3).map(|k| (GroupId(k as u32), n * 7 + k)).collect();
        let (key, class, arrived) = (ArticleKey(u128::from(n) << 70), (n % 5) as u8, n as u32);
        let thread = n / 3;
        KeptEntry { place: n << 20, key, class, arrived, expires: 9, stored_bytes: n % 1000, thread, numbers }
    }

    #[test]
    fn a_pass_takes_existing_entries_and_a_restart_continues_at_the_checkpoint() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
        (0..20_000).for_each(|n| list.push(&entry(n)).unwrap());
        list.begin_pass();
        let mut taken = 0;
        while let Some(e) = list.take().unwrap() {
            assert_eq!(e, entry(taken));
            taken += 1;
            if e.arrived % 2 == 0 {
                list.push(&e).unwrap();
            }
            if taken == 7000 {
                // An entry that is taken and neither removed nor put back is still in the checkpoint.
                let state = list.checkpoint().unwrap();
                let mut again = KeptList::open(&disk, "/k".into(), &state).unwrap();
                assert_eq!(again.entries, 20_000 - 3500);
                let mut seen = Vec::new();
                again.each(&mut |e| seen.push(e.arrived)).unwrap();
                seen.sort_unstable();
                assert!((0..7000).step_by(2).chain(7000..20_000).eq(seen));
                break;
            }
        }
        assert_eq!(taken, 7000);
        assert!(list.take_dead().len() >= 2);
    }

    #[test]
    fn a_pass_takes_every_entry_once_despite_concurrent_writes() {
        for in_place in [false, true] {
            for memory_only in [false, true] {
                let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
                let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
                let count = if memory_only { 200 } else { 20_000 };
                (0..count).for_each(|n| list.push(&entry(n)).unwrap());
                if in_place {
                    list.memory_bytes_max = 0;
                }
                list.begin_pass();
                let mut seen = Vec::new();
                let mut state = list.checkpoint().unwrap();
                while let Some(e) = list.take().unwrap() {
                    if e.arrived % 2 == 0 {
                        list.put_back(&e).unwrap();
                    }
                    seen.push(e.arrived);
                    if seen.len() % (count as usize / 20) == 7 {
                        state = list.checkpoint().unwrap();
                        let again = KeptList::open(&disk, "/k".into(), &state).unwrap();
                        assert_eq!((again.entries, again.bytes), (list.entries, list.bytes));
                    }
                }
                seen.sort_unstable();
                assert!((0..count as u32).eq(seen), "{in_place} {memory_only}");
                assert!(!state.is_empty());
            }
        }
    }

    #[test]
    fn examining_entries_and_beginning_a_pass_write_nothing() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
        (0..1000).for_each(|n| list.push(&entry(n)).unwrap());
        let steps = sim.steps();
        let seen = |list: &mut KeptList| {
            let mut seen = Vec::new();
            list.each(&mut |e| seen.push(e.arrived)).unwrap();
            seen.sort_unstable();
            seen
        };
        assert!((0..1000).eq(seen(&mut list)));
        list.begin_pass();
        list.take().unwrap();
        assert!((1..1000).eq(seen(&mut list)));
        list.begin_pass();
        assert_eq!(std::iter::from_fn(|| list.take().unwrap()).count(), 999);
        assert_eq!((sim.steps(), list.entries, list.memory_bytes()), (steps, 0, 0));
    }

    #[test]
    fn full_files_without_due_articles_are_left_alone() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
        (0..30_000).for_each(|n| list.push(&entry(n)).unwrap());
        let state = list.checkpoint().unwrap();
        let full = state.iter().filter(|(_, len)| *len >= FILE_BYTES).count();
        assert!(full >= 5 && full + 1 >= state.len(), "{state:?}");
        // Articles that arrived before 7000 are due; files without such articles are left alone until then.
        let pass = |list: &mut KeptList, now| {
            let (mut looked_at, mut taken) = (0, 0);
            list.begin_pass();
            loop {
                while let Some(entries) = list.look_ahead(Some(now)).unwrap() {
                    looked_at += entries.len();
                    if entries.iter().any(|e| u64::from(e.arrived) < now) {
                        break;
                    }
                    let until = entries.iter().map(|e| u64::from(e.arrived) + 1).min().unwrap();
                    list.leave(until);
                }
                let Some(e) = list.take().unwrap() else { return (looked_at, taken) };
                taken += 1;
                if u64::from(e.arrived) >= now {
                    list.put_back(&e).unwrap();
                }
            }
        };
        let (looked_at, taken) = pass(&mut list, 7000);
        assert!(looked_at > 20_000 && (7000..15_000).contains(&taken), "{looked_at} {taken}");
        // Entries written by the first pass are examined once, too.
        assert!(pass(&mut list, 7000).0 < 12_000);
        let steps = sim.steps();
        let (looked_at, again) = pass(&mut list, 7000);
        assert!(looked_at == 0 && again < 6000 && sim.steps() - steps <= 12, "{looked_at} {again}");
        list.forget_quiet();
        assert!(pass(&mut list, 7000).0 > 15_000);
        let mut seen = Vec::new();
        list.each(&mut |e| seen.push(e.arrived)).unwrap();
        seen.sort_unstable();
        assert!((7000..30_000).eq(seen));
        assert_eq!(pass(&mut list, 40_000).1, 23_000);
        assert_eq!((list.entries, list.bytes), (0, 0));
    }

    #[test]
    fn a_snapshot_is_read_during_a_pass() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
        (0..20_000).for_each(|n| list.push(&entry(n)).unwrap());
        list.begin_pass();
        for _ in 0..3000 {
            list.take().unwrap().unwrap();
        }
        let snapshot = list.snapshot();
        while list.take().unwrap().is_some() {}
        list.checkpoint().unwrap();
        assert_eq!(list.take_dead(), [] as [PathBuf; 0], "somebody reads them");
        let mut seen = Vec::new();
        snapshot.each(&mut |e| seen.push(e.clone())).unwrap();
        seen.sort_unstable_by_key(|e| e.arrived);
        assert!((3000..20_000).map(entry).eq(seen));
        drop(snapshot);
        assert!(list.take_dead().len() >= 2);
    }

    /// Writes a file with one page; returns its state.
    fn file_of(disk: &Arc<dyn Disk>, page: &KeptPage<'_>) -> KeptState {
        disk.create_dir(Path::new("/k")).unwrap();
        let frame = [page.length.to_le_bytes(), page.crc.to_le_bytes()].concat();
        let open = disk.open(Path::new("/k/0000000007.kept"), OpenMode::Create).unwrap();
        open.write_all_at(&[IoSlice::new(&frame), IoSlice::new(page.entries)], 0).unwrap();
        vec![(7, (FRAME_BYTES + page.entries.len()) as u64)]
    }

    /// Returns the content of pages in all forms that were ever written, with the flags and whether they have
    /// threads.
    fn pages_of_all_forms() -> [(Vec<u8>, u32); 3] {
        let (mut page, mut without_threads) = (Vec::new(), Vec::new());
        for n in 1..4 {
            let mut bytes = Vec::new();
            encode(&entry(n), &mut bytes);
            page.extend_from_slice(&bytes);
            bytes.drain(33..41);
            without_threads.append(&mut bytes);
        }
        [(without_threads, 0), (page.clone(), HAS_THREADS), (page, HAS_THREADS | COVERS_LENGTH)]
    }

    /// Returns the page of this content in a form.
    fn page_in((entries, flags): &(Vec<u8>, u32)) -> KeptPage<'_> {
        let mut page = KeptPage { length: entries.len() as u32 | flags, crc: 0, entries };
        page.crc = page.checksum();
        page
    }

    #[test]
    fn pages_of_all_forms_are_read() {
        for form in &pages_of_all_forms() {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
            let state = file_of(&disk, &page_in(form));
            let mut list = KeptList::open(&disk, "/k".into(), &state).unwrap();
            let mut seen = Vec::new();
            assert_eq!(list.verify(&mut |e| seen.push(e.clone())).unwrap(), 0);
            let alone = |e: KeptEntry| KeptEntry { thread: e.key.0 as u64, ..e };
            let want = |n| if form.1 == 0 { alone(entry(n)) } else { entry(n) };
            assert!((1..4).map(want).eq(seen), "{:x}", form.1);
        }
        assert_eq!(page_in(&pages_of_all_forms()[2]).crc, KeptPage::of(&pages_of_all_forms()[2].0).crc);
    }

    /// The checksum did not cover the length: entries were taken for those of the other form.
    #[test]
    fn a_flipped_bit_makes_a_page_a_damaged_one() {
        for form in &pages_of_all_forms() {
            let page = page_in(form);
            for bit in 0..(FRAME_BYTES + page.entries.len()) * 8 {
                let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
                let state = file_of(&disk, &page);
                let file = disk.open(Path::new("/k/0000000007.kept"), OpenMode::Existing).unwrap();
                let (at, mut byte) = (bit as u64 / 8, [0]);
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[IoSlice::new(&[byte[0] ^ 1 << (bit % 8)])], at).unwrap();
                let mut list = KeptList::open(&disk, "/k".into(), &state).unwrap();
                let damaged = list.verify(&mut |e| panic!("bit {bit} of {:x}: {e:?}", form.1)).unwrap();
                assert!(damaged > 0 && list.damaged == damaged, "bit {bit} of {:x}", form.1);
                list.begin_pass();
                assert_eq!(list.take().unwrap(), None, "bit {bit} of {:x}", form.1);
            }
        }
    }

    #[test]
    fn what_is_no_page_is_damage() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let form = &pages_of_all_forms()[2];
        let state = file_of(&disk, &page_in(form));
        let file = disk.open(Path::new("/k/0000000007.kept"), OpenMode::Existing).unwrap();
        for zeros in [1, FRAME_BYTES - 1, FRAME_BYTES] {
            file.write_all_at(&[IoSlice::new(&vec![0; zeros])], state[0].1).unwrap();
            let longer = vec![(7, state[0].1 + zeros as u64)];
            let mut list = KeptList::open(&disk, "/k".into(), &longer).unwrap();
            let mut seen = 0;
            assert_eq!((list.verify(&mut |_| seen += 1).unwrap(), seen), (1, 3), "{zeros}");
        }
    }

    #[test]
    fn the_first_reference_determines_the_thread() {
        let hasher = KeyHasher::new([7; 16]);
        let thread =
            |id: &str, references: &str| thread_of(&hasher, hasher.key(id.as_bytes()), references.as_bytes());
        let first = thread("<1@x>", "");
        assert_eq!(first, hasher.key(b"<1@x>").0 as u64);
        for references in ["<1@x>", "<1@x> <2@x>", " <1@x>  <3@x>"] {
            assert_eq!(thread("<9@x>", references), first, "{references}");
        }
        for references in ["", "-", "1@x <1@x>", "<2@x> <1@x>"] {
            assert_ne!(thread("<9@x>", references), first, "{references}");
        }
        assert_eq!(thread_of(&hasher, ArticleKey(5), b""), 5);
    }

    #[test]
    fn on_a_full_disk_entries_wait_in_memory() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
        sim.fill_at(sim.steps());
        let failed = (0..2000).filter(|n| list.push(&entry(*n)).is_err()).count();
        assert_eq!(failed, 1, "one try, and no other before there is room");
        sim.free();
        list.write_late().unwrap();
        assert_eq!((list.memory_bytes(), list.entries), (0, 2000));
        let mut seen = 0;
        list.each(&mut |_| seen += 1).unwrap();
        assert_eq!(seen, 2000);
    }

    #[test]
    fn a_pass_leaves_entries_in_their_files_when_many_wait_in_memory() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let mut list = KeptList::open(&disk, "/k".into(), &Vec::new()).unwrap();
        (0..30_000).for_each(|n| list.push(&entry(n)).unwrap());
        let state = list.checkpoint().unwrap();
        assert!(state.len() >= 5, "{state:?}");
        list.memory_bytes_max = 200_000;
        sim.fill_at(sim.steps());
        list.begin_pass();
        let mut seen = Vec::new();
        while let Some(e) = list.take().unwrap() {
            seen.push(e.arrived);
            // In the first file nothing is due, in the others every second article.
            if (e.arrived < 5_000 || e.arrived.is_multiple_of(2)) && list.put_back(&e).is_err() {
                assert!(list.is_late);
            }
        }
        assert!((0..30_000).eq(seen), "each is handed out once");
        assert!(list.memory_bytes() < 200_000 + 2 * FILE_BYTES as usize, "{}", list.memory_bytes());
        sim.free();
        list.write_late().unwrap();
        let mut left = Vec::new();
        list.each(&mut |e| left.push(e.arrived)).unwrap();
        left.sort_unstable();
        assert_eq!((left.len() as u64, list.bytes), (list.entries, list.bytes));
        left.dedup();
        assert_eq!(left.len() as u64, list.entries, "no entry is there twice");
        let staying = (0..30_000_u32).filter(|n| *n < 5_000 || n.is_multiple_of(2));
        assert!(staying.clone().all(|n| left.binary_search(&n).is_ok()), "what stays is there");
        // A pass with enough memory takes all of them.
        list.begin_pass();
        let taken = std::iter::from_fn(|| list.take().unwrap()).count();
        assert_eq!((taken, list.entries, list.bytes), (left.len(), 0, 0));
    }
}
