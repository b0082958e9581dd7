//! The cache: one handle for all of it, shared by all readers.
//!
//! Locks, outer first: a group's index (`GroupCell`); the table of cells; the books; counters and the log are
//! innermost. No thread holds the indexes of two groups. Files are removed after the books have dropped them,
//! without a lock. Called by the crate's users, and by `group` and `large`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use disk::{Disk, DiskFile, FileAccess, OpenMode, ReadMode, durable_replace};
use lock_order::{Innermost, Ordered};
use rustix::process::{Resource, getrlimit};

use crate::base::rank;
use crate::books::access_log::AccessLog;
use crate::books::bookkeeping::{Bookkeeping, CacheFile, DatedAnswer, GroupSlot, key_of};
use crate::books::lanes::{FileUse, ThreadLanes};
use crate::books::stats::{CacheAccess, CacheCounters, CacheStats, ReadGroup};
use crate::books::wanted::{MissedArticle, MissedList};
use crate::files::open_files::{OpenFiles, open_files_max};
use crate::files::opening::{self, OpeningReport};
use crate::files::slots::{NAMES_BYTES_MAX, SlotsFile, SlotsItem};
use crate::index::answers::AnswerTable;
use crate::index::cells::{GroupCell, GroupCells};
use crate::index::ids::IdTable;
use crate::index::recent::{RecentLinks, RecentLocations};
use crate::settings::{CacheSettings, CacheSizes};
use netnews::GroupMarks;

/// State shared by all handles.
pub(crate) struct CacheInner {
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub books: Ordered<Bookkeeping, { rank::BOOKS }>,
    /// Shared with [`Bookkeeping::changes`].
    pub changes: Arc<AtomicU64>,
    pub ids: IdTable,
    pub recent: RecentLocations,
    pub links: RecentLinks,
    slots_file: SlotsFile,
    pub cells: GroupCells,
    pub files: OpenFiles,
    missing: AnswerTable,
    present: AnswerTable,
    pub counters: Innermost<CacheCounters>,
    pub lanes: ThreadLanes,
    wanted: Innermost<MissedList>,
    log: Innermost<Option<AccessLog>>,
    /// True if there is a log.
    is_logging: AtomicBool,
    settings: Innermost<CacheSettings>,
    overview_headers: Innermost<Arc<[String]>>,
    /// Number of the next file that is being written.
    pub unfinished: AtomicU64,
    _lock: Box<dyn Send + Sync>,
}

/// A cache of other servers' articles. Clones are handles of the same cache.
#[derive(Clone)]
pub struct Cache(pub(crate) Arc<CacheInner>);

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.0.dir.display())
    }
}

/// Reserved room; released when dropped.
pub(crate) struct CacheRoom<'a> {
    inner: &'a CacheInner,
    bytes: u64,
}

impl CacheRoom<'_> {
    /// Converts the reservation to an entry in the books.
    pub fn settle<T>(mut self, enter: impl FnOnce(&mut Bookkeeping) -> T) -> T {
        let mut books = self.inner.books.lock();
        books.release(std::mem::take(&mut self.bytes));
        enter(&mut books)
    }

    /// Keeps the reservation, for a later [`CacheRoom::of`].
    pub fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl<'a> CacheRoom<'a> {
    /// Restores a reservation that was kept.
    pub fn of(inner: &'a CacheInner, bytes: u64) -> Self {
        Self { inner, bytes }
    }
}

impl Drop for CacheRoom<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.inner.books.lock().release(self.bytes);
        }
    }
}

impl Cache {
    /// Opens the cache in a directory, which is made if it is missing, in any state after a crash.
    ///
    /// # Errors
    /// If another process has it open, or the directory cannot be used.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        settings: CacheSettings,
        now: u64,
    ) -> io::Result<(Self, OpeningReport)> {
        disk.create_dir(dir)?;
        let lock = disk.lock(&dir.join("lock"))?;
        for part in ["groups", "large", "lists"] {
            disk.create_dir(&dir.join(part))?;
        }
        let mut books = Bookkeeping::new(settings.strategy, settings.shape());
        let mut opened = OpeningReport::default();
        let slots_file = SlotsFile::open(&*disk, &dir.join("groups.table"), |found| match found {
            SlotsItem::Places(places) => books.reserve_slots(places),
            SlotsItem::Slot(at, slot) => books.restore_slot(at, slot),
        })?;
        opening::enter_files(&*disk, dir, &mut books, &mut opened, now)?;
        let mut gone = Vec::new();
        let limit = books.shape.limit_bytes;
        books.shrink(limit, &mut gone);
        let ids = IdTable::open(&*disk, &dir.join("ids"), settings.size_bytes)?;
        let counters = opening::read_text(&*disk, &dir.join("stats"))?;
        let wanted = opening::read_text(&*disk, &dir.join("wanted"))?;
        opened.groups = books.slots.iter().filter(|slot| slot.has_files()).count() as u64;
        (opened.files, opened.bytes) = (books.files(), books.used());
        let inner = CacheInner {
            disk,
            dir: dir.to_owned(),
            changes: books.changes.clone(),
            books: Ordered::new(books),
            ids,
            recent: RecentLocations::default(),
            links: RecentLinks::default(),
            slots_file,
            cells: GroupCells::default(),
            files: OpenFiles::new(open_files_max(getrlimit(Resource::Nofile).current)),
            missing: AnswerTable::new(),
            present: AnswerTable::new(),
            counters: Innermost::new(CacheCounters::take(&counters)),
            lanes: ThreadLanes::default(),
            wanted: Innermost::new(MissedList::take(wanted.as_bytes())),
            log: Innermost::new(None),
            is_logging: AtomicBool::new(false),
            settings: Innermost::new(settings),
            overview_headers: Innermost::default(),
            unfinished: AtomicU64::new(0),
            _lock: lock,
        };
        inner.discard(&gone);
        Ok((Self(Arc::new(inner)), opened))
    }

    /// Returns the current settings.
    pub fn settings(&self) -> CacheSettings {
        *self.0.settings.lock()
    }

    /// Returns the further headers that overview rows keep.
    pub fn overview_headers(&self) -> Arc<[String]> {
        self.0.overview_headers.lock().clone()
    }

    /// Sets the headers of rows made of articles from now on.
    pub fn keep_overview_headers(&self, names: &[String]) {
        *self.0.overview_headers.lock() = names.into();
    }

    /// Changes the settings. A smaller cache shrinks at once; the table of Message-IDs keeps its size until
    /// the cache is opened again.
    ///
    /// # Errors
    /// Errors of removing files; the cache stays usable.
    pub fn set(&self, settings: CacheSettings) -> io::Result<()> {
        *self.0.settings.lock() = settings;
        self.0.settle_uses();
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

    /// Saves the order in which files were used, and the statistics. Without this call they are lost, which
    /// does no other harm.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn save(&self) -> io::Result<()> {
        self.0.settle_uses();
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
        inner.gather_all();
        let text = inner.counters.lock().put();
        replace("stats", text.as_bytes())
    }

    /// Records that the servers of an owner do not have this article, until a time (Unix seconds).
    pub fn missing(&self, owner: &str, id: &[u8], until: u64) {
        self.0.missing.add(owner, id, until);
        self.not_present(id);
    }

    /// Records that the article came from a server of this owner after all.
    pub fn not_missing(&self, owner: &str, id: &[u8]) {
        self.0.missing.remove(owner, id);
    }

    /// Returns whether the servers of an owner are known not to have an article.
    pub fn is_missing(&self, owner: &str, id: &[u8], now: u64) -> bool {
        self.0.missing.has(owner, id, now)
    }

    /// Records that some server has this article, until a time (Unix seconds).
    pub fn present(&self, id: &[u8], until: u64) {
        self.0.present.add("", id, until);
    }

    /// Forgets that some server has this article.
    pub(crate) fn not_present(&self, id: &[u8]) {
        self.0.present.remove("", id);
    }

    /// Returns whether some server is known to have an article.
    pub fn is_present(&self, id: &[u8], now: u64) -> bool {
        self.0.present.has("", id, now)
    }

    /// Returns the groups of an upstream with known water marks, in the order of their names.
    pub fn known_groups(&self, origin: &str) -> Vec<(Box<[u8]>, GroupMarks)> {
        let books = self.0.books.lock();
        let of_origin = books.slots.iter().filter(|slot| *slot.origin == *origin);
        let known = of_origin.filter_map(|slot| Some((slot.name.clone(), slot.marks()?.value)));
        let mut groups: Vec<_> = known.collect();
        drop(books);
        groups.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        groups
    }

    /// Returns the last known water marks of a group. Unlike [`Cache::group`] it does not create the group.
    pub fn known_marks(&self, origin: &str, name: &[u8]) -> Option<DatedAnswer<GroupMarks>> {
        let books = self.0.books.lock();
        let slot = books.slots.get(books.slot_of_key(key_of(origin, name))? as usize)?;
        slot.marks().filter(|_| *slot.origin == *origin && *slot.name == *name)
    }

    /// Marks the known water marks of a group as outdated.
    pub fn marks_are_old(&self, origin: &str, name: &[u8]) {
        let mut books = self.0.books.lock();
        let Some(at) = books.slot_of_key(key_of(origin, name)) else { return };
        if let Some(slot) = books.slots.get_mut(at as usize) {
            slot.set_marks(slot.marks().map(|marks| DatedAnswer { at: 0, ..marks }));
        }
    }

    /// Returns the groups that readers read, as far as they are counted.
    pub fn read_groups(&self) -> Vec<ReadGroup> {
        self.0.gather_all();
        self.0.counters.lock().read_groups()
    }

    /// Remembers that a reader wanted an article that is not available now.
    pub fn want(&self, want: MissedArticle) {
        self.0.wanted.lock().add(want);
    }

    /// Forgets an article that has arrived, or is not wanted any more.
    pub fn not_wanted(&self, want: &MissedArticle) {
        self.0.wanted.lock().remove(want);
    }

    /// Returns the remembered articles, the oldest first.
    pub fn wanted(&self) -> Vec<MissedArticle> {
        self.0.wanted.lock().all()
    }

    /// Counts a request of a reader, and logs it if the log is enabled.
    pub fn record(&self, access: &CacheAccess<'_>) {
        if access.group.is_empty() && access.upstream.is_empty() {
            self.0.lanes.count(access);
        } else {
            self.0.counters.lock().record(access);
        }
        self.0.log(access);
    }

    /// Returns the counters, and the fill level of the cache.
    pub fn stats(&self) -> CacheStats {
        self.0.gather_all();
        let stats = self.0.counters.lock().stats();
        let books = self.0.books.lock();
        let size_bytes = self.0.settings.lock().size_bytes;
        CacheStats { used_bytes: books.used(), size_bytes, files: books.files(), ..stats }
    }

    /// Writes a line for each request to a file from now on, or to none. At `bytes_max` it is renamed to
    /// NAME.1, and a new one is begun.
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

    /// Writes the buffered lines of the access log.
    ///
    /// # Errors
    /// Errors of the disk since the last call.
    pub fn flush_log(&self) -> io::Result<()> {
        self.0.log.lock().as_mut().map_or(Ok(()), AccessLog::flush)
    }
}

impl CacheInner {
    /// Returns the cell of a group.
    pub fn cell(&self, origin: &str, name: &[u8], now: u64) -> Arc<GroupCell> {
        let mut cells = self.cells.by_slot.lock();
        let (slot, origin) = {
            let is_idle = |slot: u32| !cells.contains_key(&slot);
            let mut books = self.books.lock();
            let slot = books.slot(origin, name, now, is_idle).0;
            (slot, books.slots.get(slot as usize).map_or_else(|| origin.into(), |slot| slot.origin.clone()))
        };
        if let Some(cell) = cells.get(&slot) {
            return cell.clone();
        }
        if GroupCells::is_to_shrink(cells.len()) {
            self.gather(cells.values());
            cells.retain(|_, cell| GroupCell::is_in_use(cell));
        }
        let is_kept = origin.len() + name.len() <= NAMES_BYTES_MAX;
        let key = key_of(&origin, name);
        let cell = Arc::new(GroupCell::new(slot, key, origin, name, is_kept));
        cells.insert(slot, cell.clone());
        cell
    }

    /// Returns the cell of the group with this key; `None` if nothing of it is cached.
    pub fn cell_of_key(&self, key: u64, now: u64) -> Option<Arc<GroupCell>> {
        let recent = self.cells.recent(key)?;
        if let Some(cell) = &*recent.load()
            && cell.key == key
        {
            return Some(cell.clone());
        }
        let (origin, name) = {
            let books = self.books.lock();
            let slot: &GroupSlot = books.slots.get(books.slot_of_key(key)? as usize)?;
            if !slot.has_files() {
                return None;
            }
            (slot.origin.clone(), slot.name.clone())
        };
        let cell = self.cell(&origin, &name, now);
        recent.store(Some(cell.clone()));
        Some(cell)
    }

    /// Adds separately counted requests to the counters.
    pub fn gather_all(&self) {
        self.gather(self.cells.by_slot.lock().values());
        for requests in self.lanes.take_requests() {
            self.counters.lock().add_requests("", &requests);
        }
    }

    fn gather<'c>(&self, cells: impl Iterator<Item = &'c Arc<GroupCell>>) {
        for cell in cells {
            let counted = std::mem::take(&mut *cell.counted.lock());
            if !counted.is_empty() {
                self.counters.lock().add(&cell.origin, &cell.name, &counted);
            }
        }
    }

    /// Records the use of a file.
    pub fn hit(&self, unit: u32, file: CacheFile, now: u64) {
        if let Some(uses) = self.lanes.note(FileUse { unit, file, now }) {
            self.enter_uses(uses);
        }
    }

    /// Reports all uses to the books.
    fn settle_uses(&self) {
        self.lanes.take_uses().for_each(|uses| self.enter_uses(uses));
    }

    fn enter_uses(&self, uses: Vec<FileUse>) {
        let mut books = self.books.lock();
        for FileUse { unit, file, now } in uses {
            books.hit(unit, file, now);
        }
    }

    /// Logs a request if the log is enabled.
    pub fn log(&self, access: &CacheAccess<'_>) {
        if self.is_logging.load(Ordering::Relaxed)
            && let Some(log) = self.log.lock().as_mut()
        {
            log.add(access);
        }
    }

    pub fn shape(&self) -> CacheSizes {
        self.books.lock().shape
    }

    /// Reserves room; returns `None` if there is none.
    pub fn reserve(&self, bytes: u64) -> Option<CacheRoom<'_>> {
        self.settle_uses();
        let mut gone = Vec::new();
        let is_reserved = self.books.lock().reserve(bytes, &mut gone);
        self.discard(&gone);
        is_reserved.then_some(CacheRoom { inner: self, bytes })
    }

    /// Removes files that the books have dropped.
    pub fn discard(&self, gone: &[(u32, CacheFile)]) {
        if gone.is_empty() {
            return;
        }
        for (unit, file) in gone {
            self.files.close(*unit, Some(*file));
            let path = file.path(&self.dir);
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("cannot remove {} from the cache: {error}", path.display());
                }
                _ => {}
            }
        }
    }

    /// Closes a file that another one of its name has replaced.
    pub fn close_file(&self, unit: u32) {
        self.files.close(unit, None);
    }

    /// Removes a damaged file.
    pub fn drop_damaged(&self, unit: u32, file: CacheFile) {
        let gone = {
            let mut books = self.books.lock();
            if books.is_file(unit, file) { books.remove(unit) } else { None }
        };
        if let Some(file) = gone {
            tracing::warn!("{} of the cache is damaged and was removed", file.path(&self.dir).display());
            self.discard(&[(unit, file)]);
        }
    }

    /// Opens a file. Without patience `WouldBlock` if it is not open already.
    pub fn open_file(&self, unit: u32, file: CacheFile, patience: ReadMode) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(open) = self.files.with(unit, file, Arc::clone) {
            return Ok(open);
        }
        if patience == ReadMode::CacheOnly {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let open = self.disk.open(&file.path(&self.dir), OpenMode::Existing)?;
        self.files.put(unit, file, open.clone());
        Ok(open)
    }

    /// Writes a group's place in the file of groups, unless it is up to date.
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

    /// Writes the slot of a group whose file is about to be created, and makes the file's directory.
    pub fn prepare_file(&self, slot: u32, path: &Path) -> io::Result<()> {
        self.write_slot(slot, false)?;
        self.disk.make_dirs(path.parent().unwrap_or(&self.dir), false)
    }

    /// Makes the file of groups durable.
    pub fn sync_slots(&self) -> io::Result<()> {
        self.slots_file.sync()
    }
}
