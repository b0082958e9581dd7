//! [`Deferrals`]: articles that a durable reader of the journal has put off, so that its cursor can pass them
//! (`docs/formats/deferred.md`).
//!
//! A small log: each entry is added when an article is put off and removed when it is settled. Written after
//! every change, so that it survives the process, and synced before the cursor is saved, so that it survives
//! the machine. Rewritten once most of it is obsolete. Damaged entries are skipped; their reader has to go
//! back to the oldest row ([`Deferrals::is_damaged`]), since these articles are recorded nowhere else.

use super::context::ReaderContext;
use super::known::{DEFERRED as EXTENSION, KnownFiles};
use disk::crc::crc32c;
use disk::{Disk, DiskFile, OpenMode, read_around, set_aside};
use spool_base::codec::{ByteReader, put_u64, put_varint};
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::error;

const MAGIC: &[u8; 8] = b"NDefer02";
/// Magic of files without a head.
const HEADLESS_MAGIC: &[u8; 8] = b"NDefer01";
/// The head: the length that was durable when it was written, and its checksum.
const HEAD_BYTES: usize = 12;
/// Position of the first entry.
const ENTRIES_START: u64 = (MAGIC.len() + HEAD_BYTES) as u64;
/// Number of attempts to read a file that may be in the middle of a write.
const TRIES: usize = 3;
/// Length and checksum before each entry.
const FRAME_BYTES: usize = 8;
/// Maximum length of an entry.
const ENTRY_BYTES_MAX: usize = 4_096;
/// Most bytes of an odd answer that are kept.
pub const ODD_ANSWER_BYTES_MAX: usize = 500;
/// Number of obsolete entries, beyond twice the live ones, that are tolerated before the file is rewritten.
const ENTRIES_SPARE: usize = 1_024;

/// An article that was put off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredArticle {
    /// Hash of the Message-ID.
    pub key: ArticleKey,
    /// Token of the stored article.
    pub token: Token,
    /// Message-ID.
    pub message_id: Box<[u8]>,
    /// Length in wire format.
    pub wire_bytes: u64,
    /// Time of arrival here, in Unix seconds.
    pub arrived: u32,
    /// Time of the next attempt, in Unix milliseconds.
    pub due_ms: u64,
    /// Number of times it was put off.
    pub tries: u32,
    /// Odd answers to it, if it was put off for them.
    pub odd: Option<OddAnswerRecord>,
}

/// Odd answers of a reader's peer to one article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddAnswerRecord {
    /// Answers about the article.
    pub count: u8,
    /// Answers about our rights.
    pub about_us: u8,
    /// The last answer, cut to [`ODD_ANSWER_BYTES_MAX`].
    pub answer: Arc<str>,
}

mod op {
    pub const ADD: u8 = 1;
    pub const REMOVE: u8 = 2;
    pub const ADD_ODD: u8 = 3;
}

impl DeferredArticle {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(if self.odd.is_some() { op::ADD_ODD } else { op::ADD });
        out.extend_from_slice(&self.key.0.to_le_bytes());
        out.extend_from_slice(&self.token.to_bytes());
        put_u64(self.due_ms, out);
        out.extend_from_slice(&self.arrived.to_le_bytes());
        put_varint(u64::from(self.tries), out);
        put_varint(self.wire_bytes, out);
        if let Some(OddAnswerRecord { count, about_us, answer }) = &self.odd {
            let answer = answer.get(..answer.floor_char_boundary(ODD_ANSWER_BYTES_MAX)).unwrap_or_default();
            out.extend_from_slice(&[*count, *about_us]);
            put_varint(answer.len() as u64, out);
            out.extend_from_slice(answer.as_bytes());
        }
        out.extend_from_slice(&self.message_id);
    }

    fn decode(key: ArticleKey, mut r: ByteReader<'_>, is_odd: bool) -> Option<Self> {
        Some(Self {
            key,
            token: Token::from_bytes(&r.array()?)?,
            due_ms: r.u64()?,
            arrived: r.u32()?,
            tries: u32::try_from(r.varint()?).ok()?,
            wire_bytes: r.varint()?,
            odd: if is_odd { Some(OddAnswerRecord::decode(&mut r)?) } else { None },
            message_id: r.0.into(),
        })
    }
}

impl OddAnswerRecord {
    fn decode(r: &mut ByteReader<'_>) -> Option<Self> {
        let (count, about_us) = (r.u8()?, r.u8()?);
        Some(Self { count, about_us, answer: String::from_utf8_lossy(r.bytes()?).into() })
    }
}

/// Contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct DeferralFile {
    live: BTreeMap<ArticleKey, DeferredArticle>,
    entries: usize,
    /// End of the last whole entry.
    len: u64,
    /// Length of the data after that.
    rest: u64,
    /// Whether the file is of the version without a head.
    is_headless: bool,
    /// Whether the head cannot be read, as after a crash that tore it.
    is_head_damaged: bool,
    /// Whether entries, or the beginning of the file, are damaged, or the end is lost.
    is_damaged: bool,
}

impl DeferralFile {
    fn read(bytes: &[u8]) -> Self {
        let is_headless = bytes.starts_with(HEADLESS_MAGIC);
        let start = if is_headless { HEADLESS_MAGIC.len() } else { ENTRIES_START as usize };
        let (beginning, entries) = bytes.split_at_checked(start).unwrap_or((bytes, &[]));
        let durable = beginning.strip_prefix(MAGIC).and_then(durable_bytes);
        let mut r = ByteReader(entries);
        let mut content = Self {
            len: beginning.len() as u64,
            is_headless,
            is_head_damaged: !is_headless && durable.is_none(),
            is_damaged: !is_headless && !beginning.starts_with(MAGIC) || beginning.len() < start,
            ..Self::default()
        };
        loop {
            while let Some(payload) = next_entry(&mut r) {
                content.take(payload);
                content.len = (bytes.len() - r.0.len()) as u64;
            }
            // A whole entry further on shows that this one was once whole as well.
            match (1..r.0.len()).find_map(|skipped| {
                let mut further = ByteReader(r.0.get(skipped..)?);
                let at = further.0;
                next_entry(&mut further).map(|_| at)
            }) {
                Some(at) => (r.0, content.is_damaged) = (at, true),
                None => break,
            }
        }
        content.rest = r.0.len() as u64;
        content.is_damaged |= durable.is_some_and(|durable| content.len < durable);
        content
    }

    /// Reports whether the file is as a run leaves it that was not cut off.
    fn is_whole(&self) -> bool {
        !self.is_damaged && !self.is_head_damaged && self.rest == 0
    }

    fn take(&mut self, payload: &[u8]) {
        let mut payload = ByteReader(payload);
        match (payload.u8(), payload.u128().map(ArticleKey)) {
            (Some(op @ (op::ADD | op::ADD_ODD)), Some(key)) => {
                match DeferredArticle::decode(key, payload, op == op::ADD_ODD) {
                    Some(deferred) => _ = self.live.insert(key, deferred),
                    None => self.is_damaged = true,
                }
            }
            (Some(op::REMOVE), Some(key)) => _ = self.live.remove(&key),
            // Of a later version, for example: articles may be missing.
            _ => self.is_damaged = true,
        }
        self.entries += 1;
    }
}

/// The articles that one reader has put off.
#[derive(Debug)]
pub struct Deferrals {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    known: Arc<KnownFiles>,
    /// Created with the first entry.
    file: Option<Arc<dyn DiskFile>>,
    len: u64,
    entries: usize,
    live: BTreeMap<ArticleKey, DeferredArticle>,
    is_synced: bool,
    /// False after a failed write or sync: the file may lack some of `live`, and is rewritten as a whole.
    is_whole: bool,
    /// The file lacked articles when it was opened; it is rewritten as a whole.
    is_damaged: bool,
}

impl Deferrals {
    pub(super) fn open(readers: &ReaderContext, name: &str) -> io::Result<Self> {
        let file_name = file_name(name);
        let mut new = Self {
            disk: readers.disk.clone(),
            dir: readers.dir.clone(),
            path: readers.dir.join(&file_name),
            known: readers.known.clone(),
            file: None,
            len: 0,
            entries: 0,
            live: BTreeMap::new(),
            is_synced: true,
            is_whole: true,
            is_damaged: false,
        };
        match read(&*readers.disk, &new.path)? {
            Some((file, content)) => new.load(file, content, readers.crashed)?,
            None => new.is_damaged = readers.known.has(&file_name),
        }
        if new.is_damaged {
            new.is_whole = false;
            let (file, articles) = (new.path.display(), new.live.len());
            error!(%file, articles, "articles that were put off are damaged or missing: these are left");
        }
        Ok(new)
    }

    /// Reports whether the file of this reader is damaged or missing.
    pub(super) fn is_damaged(readers: &ReaderContext, name: &str) -> io::Result<bool> {
        let file_name = file_name(name);
        for _ in 0..TRIES {
            let is_whole = match read(&*readers.disk, &readers.dir.join(&file_name))? {
                Some((_, content)) => content.is_whole(),
                None => !readers.known.has(&file_name),
            };
            if is_whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports whether deferred articles may be missing. Their rows lie before the reader's position, so the
    /// reader must go back to the oldest row and then call [`Deferrals::mend`].
    pub fn lacks_articles(&self) -> bool {
        self.is_damaged
    }

    /// Sets the damaged file aside and writes the surviving entries to a new one, durably. Does nothing if
    /// nothing is damaged.
    pub fn mend(&mut self) -> io::Result<()> {
        if !self.is_damaged {
            return Ok(());
        }
        if self.file.take().is_some() {
            set_aside(&*self.disk, &self.path)?;
        }
        self.rewrite()?;
        self.is_damaged = false;
        Ok(())
    }

    pub(super) fn remove(readers: &ReaderContext, name: &str) -> io::Result<()> {
        let file_name = file_name(name);
        readers.known.remove(&[&file_name]);
        match readers.disk.remove(&readers.dir.join(&file_name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Returns all deferred articles.
    pub fn all(&self) -> impl Iterator<Item = &DeferredArticle> {
        self.live.values()
    }

    /// Reports whether the article with this key is deferred.
    pub fn has(&self, key: &ArticleKey) -> bool {
        self.live.contains_key(key)
    }

    /// Returns the number of deferred articles.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Reports whether no articles are deferred.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Adds or updates articles, and removes others. The change survives the process once this returns.
    ///
    /// # Errors
    /// If the change cannot be written. It is not forgotten: the next call, even without changes, writes
    /// everything.
    pub fn change(&mut self, add: &[DeferredArticle], remove: &[ArticleKey]) -> io::Result<()> {
        let mut frames = Vec::new();
        for deferred in add {
            frame(&mut frames, |out| deferred.encode(out));
            self.live.insert(deferred.key, deferred.clone());
            self.entries += 1;
        }
        for key in remove {
            if self.live.remove(key).is_some() {
                frame(&mut frames, |out| {
                    out.push(op::REMOVE);
                    out.extend_from_slice(&key.0.to_le_bytes());
                });
                self.entries += 1;
            }
        }
        if frames.is_empty() && self.is_whole {
            return Ok(());
        }
        self.is_synced = false;
        let is_long = self.entries > 2 * self.live.len() + ENTRIES_SPARE;
        let Some(file) = self.file.as_ref().filter(|_| self.is_whole && !is_long) else {
            return self.rewrite();
        };
        self.is_whole = false;
        file.write_all_at(&[IoSlice::new(&frames)], self.len)?;
        self.len += frames.len() as u64;
        self.is_whole = true;
        Ok(())
    }

    /// Makes all changes durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.is_whole {
            return self.rewrite();
        }
        if let Some(file) = self.file.as_ref().filter(|_| !self.is_synced) {
            // A second sync would not write what a failed sync has dropped.
            self.is_whole = false;
            file.sync()?;
            // Durable with the next sync: the head never counts bytes that a crash may take.
            file.write_all_at(&[IoSlice::new(&head(self.len))], MAGIC.len() as u64)?;
            self.is_whole = true;
        }
        self.is_synced = true;
        Ok(())
    }

    /// Takes over the contents of the file. An unfinished entry left by a crash is not needed: the cursor has
    /// not passed its row, which will be returned again.
    fn load(&mut self, file: Arc<dyn DiskFile>, content: DeferralFile, crashed: bool) -> io::Result<()> {
        self.is_damaged = content.is_damaged || !crashed && !content.is_whole();
        // The next change or sync writes a head.
        self.is_whole = !content.is_headless && !content.is_head_damaged;
        (self.live, self.entries, self.len) = (content.live, content.entries, content.len);
        if content.rest > 0 && !self.is_damaged {
            // The remnant must not reappear once the entry before it is overwritten.
            file.set_len(self.len)?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.is_whole = false;
        let mut entries = Vec::new();
        for deferred in self.live.values() {
            frame(&mut entries, |out| deferred.encode(out));
        }
        let len = ENTRIES_START + entries.len() as u64;
        let new = self.path.with_extension("deferred-new");
        let file = self.disk.open(&new, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_all_at(&[IoSlice::new(MAGIC), IoSlice::new(&head(len)), IoSlice::new(&entries)], 0)?;
        file.sync()?;
        self.disk.rename(&new, &self.path)?;
        self.disk.sync_dir(&self.dir)?;
        self.known.add(&self.path.file_name().unwrap_or_default().to_string_lossy());
        (self.file, self.len, self.entries) = (Some(file), len, self.live.len());
        (self.is_synced, self.is_whole) = (true, true);
        Ok(())
    }
}

fn file_name(name: &str) -> String {
    format!("{name}{EXTENSION}")
}

/// Opens the file at `path` and reads its contents; `None` if it does not exist.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<(Arc<dyn DiskFile>, DeferralFile)>> {
    let file = match disk.open(path, OpenMode::Existing) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = vec![0; file.len()? as usize];
    let read = read_around(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    let content = DeferralFile::read(&bytes);
    Ok(Some((file, content)))
}

/// Encodes the head of a file of which this many bytes are durable.
fn head(durable_bytes: u64) -> Vec<u8> {
    let mut head = durable_bytes.to_le_bytes().to_vec();
    head.extend_from_slice(&crc32c(&head).to_le_bytes());
    head
}

/// Returns the length that a head says was durable; `None` if it is damaged.
fn durable_bytes(head: &[u8]) -> Option<u64> {
    let mut r = ByteReader(head);
    let durable_bytes = r.u64()?;
    (r.u32()? == crc32c(&durable_bytes.to_le_bytes())).then_some(durable_bytes)
}

fn frame(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    put(&mut payload);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
}

/// Reads the next whole entry.
fn next_entry<'a>(r: &mut ByteReader<'a>) -> Option<&'a [u8]> {
    let (head, rest) = r.0.split_at_checked(FRAME_BYTES)?;
    let mut head = ByteReader(head);
    let (len, crc) = (head.u32()? as usize, head.u32()?);
    let payload = rest.get(..len)?;
    // Zeros are not an entry.
    if !(1..=ENTRY_BYTES_MAX).contains(&len) || crc32c(payload) != crc {
        return None;
    }
    r.0 = rest.get(len..)?;
    Some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, FileAccess, SimDisk, durable_replace, read_small};
    use spool_base::token::MethodKind;

    fn deferred(n: u64) -> DeferredArticle {
        DeferredArticle {
            key: ArticleKey(u128::from(n)),
            token: Token { method: MethodKind::Cnfs, class: 0, volume: 1, place: n * 64 },
            message_id: format!("<{n}@x.example>").into_bytes().into(),
            wire_bytes: 2_350,
            arrived: 1_780_000_000,
            due_ms: 1_780_000_000_000 + n,
            tries: 3,
            odd: None,
        }
    }

    #[test]
    fn an_entry_that_makes_no_sense_is_damage() {
        let file = |payload: &[u8]| {
            let mut entries = Vec::new();
            frame(&mut entries, |out| deferred(1).encode(out));
            frame(&mut entries, |out| out.extend_from_slice(payload));
            let len = ENTRIES_START + entries.len() as u64;
            DeferralFile::read(&[MAGIC, &head(len)[..], &entries].concat())
        };
        let remove = [&[op::REMOVE], &[2; 16][..]].concat();
        assert!(file(&remove).is_whole());
        let cut_off = [&[op::ADD], &[2; 20][..]].concat();
        let unknown = [&[op::ADD_ODD + 1], &[2; 16][..]].concat();
        for payload in [&cut_off, &unknown, &remove[..9].to_vec()] {
            let content = file(payload);
            assert!(content.is_damaged && content.live.len() == 1, "{payload:?}");
        }
    }

    #[test]
    fn odd_answers_survive_a_restart() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        disk.create_dir(Path::new("/j")).unwrap();
        let mut list = open(&disk);
        let odd = |answer: &str| Some(OddAnswerRecord { count: 2, about_us: 1, answer: answer.into() });
        let all = [deferred(1), DeferredArticle { odd: odd("501 no \u{fffd}"), ..deferred(2) }];
        list.change(&all, &[]).unwrap();
        list.change(&[DeferredArticle { odd: odd(&"x".repeat(9_000)), ..deferred(3) }], &[]).unwrap();
        let read: Vec<_> = open(&disk).all().cloned().collect();
        assert_eq!(read[..2], all);
        assert_eq!(read[2], DeferredArticle { odd: odd(&"x".repeat(ODD_ANSWER_BYTES_MAX)), ..deferred(3) });
    }

    fn readers(disk: &Arc<dyn Disk>, crashed: bool) -> ReaderContext {
        let (dir, known) = (Path::new("/j"), KnownFiles::open(disk, Path::new("/j"), &[EXTENSION]).unwrap());
        let (follow, set) = Default::default();
        ReaderContext {
            disk: disk.clone(),
            dir: dir.into(),
            follow,
            set,
            known: Arc::new(known),
            power_lost: crashed,
            crashed,
        }
    }

    fn open(disk: &Arc<dyn Disk>) -> Deferrals {
        Deferrals::open(&readers(disk, false), "peer").unwrap()
    }

    #[test]
    fn changes_survive_the_process_and_synced_ones_the_machine() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        disk.create_dir(Path::new("/j")).unwrap();
        let mut list = open(&disk);
        assert!(list.is_empty());
        list.change(&[deferred(1), deferred(2), deferred(3)], &[]).unwrap();
        list.change(&[DeferredArticle { tries: 4, ..deferred(3) }], &[ArticleKey(2), ArticleKey(9)]).unwrap();
        let expected = vec![deferred(1), DeferredArticle { tries: 4, ..deferred(3) }];
        assert_eq!(open(&disk).all().cloned().collect::<Vec<_>>(), expected);
        list.sync().unwrap();
        // A torn entry ends the list; later additions overwrite it.
        let file = disk.open(Path::new("/j/peer.deferred"), OpenMode::Existing).unwrap();
        file.write_all_at(&[IoSlice::new(&[9, 0, 0, 0, 1, 2])], list.len).unwrap();
        assert!(open(&disk).lacks_articles(), "only a crash tears an entry");
        let mut again = Deferrals::open(&readers(&disk, true), "peer").unwrap();
        assert_eq!(again.all().cloned().collect::<Vec<_>>(), expected);
        assert!(!again.lacks_articles());
        again.change(&[deferred(7)], &[]).unwrap();
        assert_eq!(open(&disk).len(), 3);
    }

    #[test]
    fn changes_that_could_not_be_written_are_written_by_the_next_call() {
        let steps = |fails_at: Option<u64>| {
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            disk.create_dir(Path::new("/j")).unwrap();
            let mut list = open(&disk);
            let begun = sim.steps();
            if let Some(step) = fails_at {
                sim.fail_at(begun + step, SimDisk::ENOSPC, true);
            }
            let mut failed = list.change(&[deferred(1), deferred(2)], &[]).is_err();
            failed |= list.change(&[deferred(3)], &[ArticleKey(2)]).is_err();
            failed |= list.sync().is_err();
            assert_eq!(failed, fails_at.is_some());
            let steps = sim.steps() - begun;
            sim.stop_failing();
            // No further changes.
            list.change(&[], &[]).unwrap();
            assert_eq!(open(&disk).all().cloned().collect::<Vec<_>>(), [deferred(1), deferred(3)]);
            list.sync().unwrap();
            let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Lost, 0).unwrap());
            assert_eq!(open(&disk).all().cloned().collect::<Vec<_>>(), [deferred(1), deferred(3)]);
            steps
        };
        (0..steps(None)).for_each(|step| _ = steps(Some(step)));
    }

    #[test]
    fn entries_that_were_not_synced_may_be_lost_in_a_crash() {
        let path = Path::new("/j/peer.deferred");
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        disk.create_dir(Path::new("/j")).unwrap();
        let mut list = open(&disk);
        list.change(&[deferred(1)], &[]).and_then(|()| list.sync()).unwrap();
        let synced = list.len;
        list.change(&[deferred(2)], &[]).unwrap();
        let file = disk.open(path, OpenMode::Existing).unwrap();
        file.set_len(synced).unwrap();
        assert_eq!((open(&disk).len(), open(&disk).lacks_articles()), (1, false));
        // A torn head is written again.
        file.write_all_at(&[IoSlice::new(&[0xff; 3])], MAGIC.len() as u64).unwrap();
        assert!(open(&disk).lacks_articles(), "only a crash tears a head");
        let mut again = Deferrals::open(&readers(&disk, true), "peer").unwrap();
        assert!(!again.lacks_articles());
        again.sync().unwrap();
        assert_eq!((open(&disk).len(), open(&disk).lacks_articles()), (1, false));
    }

    #[test]
    fn the_file_stays_small() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        disk.create_dir(Path::new("/j")).unwrap();
        let mut list = open(&disk);
        for n in 0..20_000 {
            list.change(&[deferred(n)], &[ArticleKey(u128::from(n))]).unwrap();
        }
        list.change(&[deferred(5)], &[]).unwrap();
        assert!(list.len < 200_000, "{}", list.len);
        assert_eq!(open(&disk).all().cloned().collect::<Vec<_>>(), [deferred(5)]);
        Deferrals::remove(&readers(&disk, false), "peer").unwrap();
        assert!(open(&disk).is_empty() && !open(&disk).lacks_articles());
    }

    #[test]
    fn each_damaged_byte_is_noticed_and_costs_one_entry_at_most() {
        let path = Path::new("/j/peer.deferred");
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        disk.create_dir(Path::new("/j")).unwrap();
        let mut list = open(&disk);
        list.change(&[deferred(1), deferred(2), deferred(3)], &[]).unwrap();
        list.change(&[], &[ArticleKey(2)]).unwrap();
        list.sync().unwrap();
        let whole = read_small(&*disk, path, 4_096).unwrap().unwrap();
        let start = ENTRIES_START as usize;
        let ends: Vec<usize> =
            (start..=whole.len()).filter(|end| DeferralFile::read(&whole[..*end]).rest == 0).collect();
        assert_eq!(ends.len(), 5, "the beginning, and four entries");
        let look = |bytes: Option<&[u8]>| {
            match bytes {
                Some(bytes) => durable_replace(&*disk, path, &[bytes], FileAccess::Group).unwrap(),
                None => disk.remove(path).unwrap(),
            }
            let all = readers(&disk, false);
            let (mut list, told) = (open(&disk), Deferrals::is_damaged(&all, "peer").unwrap());
            assert_eq!(told, list.lacks_articles());
            let (lacks, left) = (list.lacks_articles(), list.len());
            list.mend().unwrap();
            assert!(!open(&disk).lacks_articles() && open(&disk).len() == left, "it was not mended");
            (lacks, left)
        };
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            let (lacks, left) = look(Some(&flipped));
            // Without the removal, one more is left.
            assert!(lacks && (1..=3).contains(&left), "{at}: {left}");
            let (lacks, _) = look(Some(&whole[..at]));
            assert!(lacks, "cut at {at}");
            // In a file without a head, of an earlier version, an end that is lost with whole entries is not
            // noticed.
            let headless = [HEADLESS_MAGIC, &whole[start..at.max(start)]].concat();
            assert_eq!(look(Some(&headless)).0, !ends.contains(&at.max(start)), "cut at {at}");
        }
        assert_eq!(look(Some(&vec![0; whole.len()])), (true, 0));
        assert_eq!(look(None), (true, 0));
        let names = disk.list(Path::new("/j")).unwrap();
        assert!(names.contains(&"peer.deferred.damaged".to_owned()), "{names:?}");
    }
}
