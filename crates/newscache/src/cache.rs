//! The cache: one handle for all of it, shared by all readers.
//!
//! Locks, outer first: a group's index (`Cell`); the table of cells; the books; open files, counters and the
//! log are innermost. Nobody holds the indexes of two groups. Files are removed after the books have let go
//! of them, without a lock. Called by the crate's users, and by `group` and `large`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use lock_order::{Innermost, Ordered};
use spool::{Access as FileAccess, Disk, DiskFile, Open, Patience, durable_replace};

use crate::access_log::AccessLog;
use crate::answers::Answers;
use crate::bookkeeping::{Asked, Books, File, Marks, Slot, key_of};
use crate::ids::Ids;
use crate::loaded::Loaded;
use crate::opening::{self, Opened};
use crate::recent::{Links, Recent};
use crate::settings::{Settings, Shape};
use crate::slots::{At, NAMES_BYTES_MAX, SlotsFile};
use crate::stats::{Access, Counters, ReadGroup, Stats};
use crate::wanted::{Want, Wanted};

/// Bytes of indexes that are in memory, over all groups.
pub(crate) const INDEX_BYTES_MAX: usize = 4 << 20;
/// What a group takes beside its index while that is in memory, with parts of the allocator's pages. It is
/// counted amply, so that there are no more than 3,000 small ones: each is one small file to be read.
const CELL_BYTES: usize = 1024;
/// Files that are open.
const OPEN_FILES_MAX: usize = 2048;
/// Cells that may be there before idle ones are dropped.
const CELLS_SPARE: usize = 1024;

/// One group's index, while it is in use.
#[derive(Debug)]
pub(crate) struct Cell {
    pub slot: u32,
    pub key: u64,
    pub origin: Arc<str>,
    pub name: Box<[u8]>,
    /// Whether anything is kept of it: its name is not too long.
    pub is_kept: bool,
    pub index: Ordered<Option<Box<Loaded>>, { rank::INDEX }>,
    /// Bytes of memory.
    weight: AtomicUsize,
    used: AtomicU64,
}

/// The order of locks, outermost first; whoever holds one of them uses no spool. All others are innermost.
mod rank {
    /// A group's index. Nobody waits for a second one.
    pub const INDEX: u8 = 32;
    /// The table of indexes.
    pub const CELLS: u8 = 33;
    /// The books.
    pub const BOOKS: u8 = 34;
}

/// A file that is open, and when it was used.
type OpenFile = (File, Arc<dyn DiskFile>, u64);

/// All that handles share.
pub(crate) struct Inner {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub books: Ordered<Books, { rank::BOOKS }>,
    /// As [`Books::changes`].
    pub changes: Arc<AtomicU64>,
    pub ids: Ids,
    pub recent: Recent,
    pub links: Links,
    slots_file: SlotsFile,
    cells: Ordered<HashMap<u32, Arc<Cell>>, { rank::CELLS }>,
    files: Innermost<HashMap<u32, OpenFile>>,
    missing: Answers,
    present: Answers,
    counters: Innermost<Counters>,
    wanted: Innermost<Wanted>,
    log: Innermost<Option<AccessLog>>,
    /// Whether there is one.
    is_logging: AtomicBool,
    settings: Innermost<Settings>,
    overview_headers: Innermost<Arc<[String]>>,
    weight: AtomicUsize,
    tick: AtomicU64,
    /// Numbers files that are being written.
    pub unfinished: AtomicU64,
    _lock: Box<dyn Send + Sync>,
}

/// A cache of other servers' articles. Clones are handles of the same one.
#[derive(Clone)]
pub struct Cache(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.0.dir.display())
    }
}

/// Room that is reserved; released when dropped.
pub(crate) struct Room<'a> {
    inner: &'a Inner,
    bytes: u64,
}

impl Room<'_> {
    /// Ends the reservation with an entry in the books.
    pub fn settle<T>(mut self, enter: impl FnOnce(&mut Books) -> T) -> T {
        let mut books = self.inner.books.lock();
        books.release(std::mem::take(&mut self.bytes));
        enter(&mut books)
    }

    /// Leaves the reservation to somebody who ends it with [`Room::of`].
    pub fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl<'a> Room<'a> {
    /// A reservation that was kept.
    pub fn of(inner: &'a Inner, bytes: u64) -> Self {
        Self { inner, bytes }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.inner.books.lock().release(self.bytes);
        }
    }
}

impl Cache {
    /// Opens the cache in a directory, which is made if it is missing, after whatever has happened to it.
    ///
    /// # Errors
    /// If another process has it open, or the directory cannot be used.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, settings: Settings, now: u64) -> io::Result<(Self, Opened)> {
        disk.create_dir(dir)?;
        let lock = disk.lock(&dir.join("lock"))?;
        for part in ["groups", "large", "lists"] {
            disk.create_dir(&dir.join(part))?;
        }
        let mut books = Books::new(settings.strategy, settings.shape());
        let mut opened = Opened::default();
        let slots_file = SlotsFile::open(&*disk, &dir.join("groups.table"), |found| match found {
            At::Places(places) => books.reserve_slots(places),
            At::Slot(at, slot) => books.restore_slot(at, slot),
        })?;
        opening::enter_files(&*disk, dir, &mut books, &mut opened, now)?;
        let mut gone = Vec::new();
        let limit = books.shape.limit_bytes;
        books.shrink(limit, &mut gone);
        let ids = Ids::open(&*disk, &dir.join("ids"), settings.size_bytes)?;
        let counters = opening::read_text(&*disk, &dir.join("stats"))?;
        let wanted = opening::read_text(&*disk, &dir.join("wanted"))?;
        opened.groups = books.slots.iter().filter(|slot| slot.has_files()).count() as u64;
        (opened.files, opened.bytes) = (books.files(), books.used());
        let inner = Inner {
            disk,
            dir: dir.to_owned(),
            changes: books.changes.clone(),
            books: Ordered::new(books),
            ids,
            recent: Recent::default(),
            links: Links::default(),
            slots_file,
            cells: Ordered::default(),
            files: Innermost::default(),
            missing: Answers::new(),
            present: Answers::new(),
            counters: Innermost::new(Counters::take(&counters)),
            wanted: Innermost::new(Wanted::take(wanted.as_bytes())),
            log: Innermost::new(None),
            is_logging: AtomicBool::new(false),
            settings: Innermost::new(settings),
            overview_headers: Innermost::default(),
            weight: AtomicUsize::new(0),
            tick: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            _lock: lock,
        };
        inner.discard(&gone);
        Ok((Self(Arc::new(inner)), opened))
    }

    /// What is configured now.
    pub fn settings(&self) -> Settings {
        *self.0.settings.lock()
    }

    /// The further headers that overview rows keep.
    pub fn overview_headers(&self) -> Arc<[String]> {
        self.0.overview_headers.lock().clone()
    }

    /// Makes rows of articles with these headers from now on.
    pub fn keep_overview_headers(&self, names: &[String]) {
        *self.0.overview_headers.lock() = names.into();
    }

    /// Changes what is configured. A smaller cache shrinks at once; the table of Message-IDs keeps its size
    /// until the cache is opened again.
    ///
    /// # Errors
    /// None that leave it unusable: of files that could not be removed.
    pub fn set(&self, settings: Settings) -> io::Result<()> {
        *self.0.settings.lock() = settings;
        let mut gone = Vec::new();
        {
            let mut books = self.0.books.lock();
            books.shape = settings.shape();
            books.set_strategy(settings.strategy);
            let limit = books.shape.limit_bytes;
            books.shrink(limit, &mut gone);
        }
        self.0.discard(&gone);
        Ok(())
    }

    /// Writes down in which order things were used, and the statistics. Whatever is lost when this is not
    /// called, nothing is wrong after it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn save(&self) -> io::Result<()> {
        let (uses, slots) = {
            let books = self.0.books.lock();
            (opening::uses(&books), books.slots.len() as u32)
        };
        for at in 0..slots {
            let slot = self.0.books.lock().slots.get(at as usize).filter(|slot| slot.has_files()).cloned();
            if let Some(slot) = slot {
                self.0.slots_file.write(at, &slot)?;
            }
        }
        let inner = &self.0;
        let replace = |name: &str, bytes: &[u8]| {
            durable_replace(&*inner.disk, &inner.dir.join(name), &[bytes], FileAccess::Group)
        };
        replace("uses", &uses)?;
        let wanted = inner.wanted.lock().put();
        replace("wanted", &wanted)?;
        let text = inner.counters.lock().put();
        replace("stats", text.as_bytes())
    }

    /// The servers of an owner do not have this article until then (Unix seconds).
    pub fn missing(&self, owner: &str, id: &[u8], until: u64) {
        self.0.missing.add(owner, id, until);
        self.0.present.remove("", id);
    }

    /// The article came from a server of this owner after all.
    pub fn not_missing(&self, owner: &str, id: &[u8]) {
        self.0.missing.remove(owner, id);
    }

    /// Whether the servers of an owner are known not to have an article.
    pub fn is_missing(&self, owner: &str, id: &[u8], now: u64) -> bool {
        self.0.missing.has(owner, id, now)
    }

    /// Some server has this article, as far as is known until then (Unix seconds).
    pub fn present(&self, id: &[u8], until: u64) {
        self.0.present.add("", id, until);
    }

    /// Whether some server is known to have an article.
    pub fn is_present(&self, id: &[u8], now: u64) -> bool {
        self.0.present.has("", id, now)
    }

    /// The groups of an upstream whose marks are known, in the order of their names.
    pub fn known_groups(&self, origin: &str) -> Vec<(Box<[u8]>, Marks)> {
        let books = self.0.books.lock();
        let of_origin = books.slots.iter().filter(|slot| *slot.origin == *origin);
        let known = of_origin.filter_map(|slot| Some((slot.name.clone(), slot.marks()?.value)));
        let mut groups: Vec<_> = known.collect();
        drop(books);
        groups.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        groups
    }

    /// The marks of a group that upstream told last. Unlike [`Cache::group`] it makes no group known.
    pub fn known_marks(&self, origin: &str, name: &[u8]) -> Option<Asked<Marks>> {
        let books = self.0.books.lock();
        let slot = books.slots.get(books.slot_of_key(key_of(origin, name))? as usize)?;
        slot.marks().filter(|_| *slot.origin == *origin && *slot.name == *name)
    }

    /// Nobody takes the marks of a group that are known for new ones any more.
    pub fn marks_are_old(&self, origin: &str, name: &[u8]) {
        let mut books = self.0.books.lock();
        let Some(at) = books.slot_of_key(key_of(origin, name)) else { return };
        if let Some(slot) = books.slots.get_mut(at as usize) {
            slot.set_marks(slot.marks().map(|marks| Asked { at: 0, ..marks }));
        }
    }

    /// The groups that readers read, as far as they are counted.
    pub fn read_groups(&self) -> Vec<ReadGroup> {
        self.0.counters.lock().read_groups()
    }

    /// Remembers that a reader wanted an article that cannot be had now.
    pub fn want(&self, want: Want) {
        self.0.wanted.lock().add(want);
    }

    /// It came, or is not wanted any more.
    pub fn not_wanted(&self, want: &Want) {
        self.0.wanted.lock().remove(want);
    }

    /// What is remembered, the oldest first.
    pub fn wanted(&self) -> Vec<Want> {
        self.0.wanted.lock().all()
    }

    /// Counts a request of a reader, and logs it if a log is asked for.
    pub fn record(&self, access: &Access<'_>) {
        self.0.counters.lock().record(access);
        if self.0.is_logging.load(Ordering::Relaxed)
            && let Some(log) = self.0.log.lock().as_mut()
        {
            log.add(access);
        }
    }

    /// What was counted, and how full the cache is.
    pub fn stats(&self) -> Stats {
        let stats = self.0.counters.lock().stats();
        let books = self.0.books.lock();
        let size_bytes = self.0.settings.lock().size_bytes;
        Stats { used_bytes: books.used(), size_bytes, files: books.files(), ..stats }
    }

    /// Writes a line for each request to a file from now on, or to none. At `bytes_max` it becomes NAME.1,
    /// and another one is begun.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn log_to(&self, path: Option<&Path>, bytes_max: u64) -> io::Result<()> {
        let log = match path {
            Some(path) => Some(AccessLog::open(self.0.disk.clone(), path, bytes_max)?),
            None => None,
        };
        let mut kept = self.0.log.lock();
        self.0.is_logging.store(log.is_some(), Ordering::Relaxed);
        *kept = log;
        Ok(())
    }

    /// Writes what is still buffered of the access log.
    ///
    /// # Errors
    /// Those of the disk since the last call.
    pub fn flush_log(&self) -> io::Result<()> {
        self.0.log.lock().as_mut().map_or(Ok(()), AccessLog::flush)
    }
}

impl Inner {
    pub fn shape(&self) -> Shape {
        self.books.lock().shape
    }

    /// The cell of a group.
    pub fn cell(&self, origin: &str, name: &[u8], now: u64) -> Arc<Cell> {
        let mut cells = self.cells.lock();
        let (slot, origin) = {
            let is_idle = |slot: u32| !cells.contains_key(&slot);
            let mut books = self.books.lock();
            let slot = books.slot(origin, name, now, is_idle).0;
            (slot, books.slots.get(slot as usize).map_or_else(|| origin.into(), |slot| slot.origin.clone()))
        };
        if let Some(cell) = cells.get(&slot) {
            return cell.clone();
        }
        if cells.len() > CELLS_SPARE && cells.len().is_power_of_two() {
            cells.retain(|_, cell| Arc::strong_count(cell) > 1 || cell.weight.load(Ordering::Relaxed) > 0);
        }
        let cell = Arc::new(Cell {
            slot,
            key: key_of(&origin, name),
            is_kept: origin.len() + name.len() <= NAMES_BYTES_MAX,
            origin,
            name: name.into(),
            index: Ordered::new(None),
            weight: AtomicUsize::new(0),
            used: AtomicU64::new(0),
        });
        cells.insert(slot, cell.clone());
        cell
    }

    /// The cell of a group that is known by its key.
    pub fn cell_of_key(&self, key: u64, now: u64) -> Option<Arc<Cell>> {
        let (origin, name) = {
            let cells = self.cells.lock();
            let books = self.books.lock();
            let at = books.slot_of_key(key)?;
            let slot: &Slot = books.slots.get(at as usize)?;
            if !slot.has_files() {
                return None;
            }
            if let Some(cell) = cells.get(&at).filter(|cell| cell.key == key) {
                return Some(cell.clone());
            }
            (slot.origin.clone(), slot.name.clone())
        };
        Some(self.cell(&origin, &name, now))
    }

    /// A group's index takes so many bytes now. Where all take too many, those that were not used for longest
    /// are dropped.
    pub fn weigh(&self, cell: &Cell, bytes: usize) {
        let weight = bytes + CELL_BYTES;
        cell.used.store(self.tick.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        if cell.weight.load(Ordering::Relaxed) == weight {
            return;
        }
        let before = cell.weight.swap(weight, Ordering::Relaxed);
        self.weight.fetch_add(weight, Ordering::Relaxed);
        let total = self.weight.fetch_sub(before, Ordering::Relaxed) - before;
        if total <= INDEX_BYTES_MAX {
            return;
        }
        let mut cells: Vec<Arc<Cell>> = self.cells.lock().values().cloned().collect();
        cells.retain(|other| other.weight.load(Ordering::Relaxed) > 0 && other.slot != cell.slot);
        cells.sort_unstable_by_key(|other| other.used.load(Ordering::Relaxed));
        for other in cells {
            if self.weight.load(Ordering::Relaxed) <= INDEX_BYTES_MAX * 3 / 4 {
                break;
            }
            if let Some(mut index) = other.index.try_lock() {
                *index = None;
                let weight = other.weight.swap(0, Ordering::Relaxed);
                self.weight.fetch_sub(weight, Ordering::Relaxed);
            }
        }
    }

    /// Bytes that all indexes in memory take.
    #[cfg(test)]
    pub fn index_bytes(&self) -> usize {
        self.cells.lock().values().map(|cell| cell.weight.load(Ordering::Relaxed)).sum()
    }

    /// Reserves room; `None` if there is none.
    pub fn reserve(&self, bytes: u64) -> Option<Room<'_>> {
        let mut gone = Vec::new();
        let is_reserved = self.books.lock().reserve(bytes, &mut gone);
        self.discard(&gone);
        is_reserved.then_some(Room { inner: self, bytes })
    }

    /// Removes files that the books have let go of.
    pub fn discard(&self, gone: &[(u32, File)]) {
        if gone.is_empty() {
            return;
        }
        {
            let mut files = self.files.lock();
            for (unit, file) in gone {
                if files.get(unit).is_some_and(|(known, ..)| known == file) {
                    files.remove(unit);
                }
            }
        }
        for (_, file) in gone {
            let path = file.path(&self.dir);
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("cannot remove {} from the cache: {error}", path.display());
                }
                _ => {}
            }
        }
    }

    /// A file has given way to another one of its name.
    pub fn close_file(&self, unit: u32) {
        self.files.lock().remove(&unit);
    }

    /// Removes a file that turned out damaged.
    pub fn drop_damaged(&self, unit: u32, file: File) {
        let gone = {
            let mut books = self.books.lock();
            if books.is_file(unit, file) { books.remove(unit) } else { None }
        };
        if let Some(file) = gone {
            tracing::warn!("{} of the cache is damaged and was removed", file.path(&self.dir).display());
            self.discard(&[(unit, file)]);
        }
    }

    /// A file, opened. Without patience `WouldBlock` if it is not open already.
    pub fn open_file(&self, unit: u32, file: File, patience: Patience) -> io::Result<Arc<dyn DiskFile>> {
        // Indexes that are used count it up, and there is one for most files.
        let tick = self.tick.load(Ordering::Relaxed);
        {
            let mut files = self.files.lock();
            if let Some((_, handle, used)) = files.get_mut(&unit).filter(|(known, ..)| *known == file) {
                *used = tick;
                return Ok(handle.clone());
            }
            if patience == Patience::CacheOnly {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if files.len() >= OPEN_FILES_MAX {
                let mut ticks: Vec<u64> = files.values().map(|(.., used)| *used).collect();
                let middle = ticks.len() / 2;
                let median = *ticks.select_nth_unstable(middle).1;
                files.retain(|_, (.., used)| *used > median);
            }
        }
        let handle = self.disk.open(&file.path(&self.dir), Open::Existing)?;
        self.files.lock().insert(unit, (file, handle.clone(), tick));
        Ok(handle)
    }

    /// Writes a group's place in the file of groups, unless it says the same already.
    pub fn write_slot(&self, at: u32, is_changed: bool) -> io::Result<()> {
        let slot = {
            let mut books = self.books.lock();
            let Some(slot) = books.slots.get_mut(at as usize) else { return Ok(()) };
            if slot.is_written && !is_changed {
                return Ok(());
            }
            slot.is_written = true;
            slot.clone()
        };
        self.slots_file.write(at, &slot).map(|_| ())
    }

    /// Makes the file of groups durable.
    pub fn sync_slots(&self) -> io::Result<()> {
        self.slots_file.sync()
    }
}
