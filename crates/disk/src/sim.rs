//! [`SimDisk`]: a disk in memory that counts, fails and crashes, for tests.
//!
//! Each `write_all_at`, `set_len`, `allocate`, `sync`, `rename`, `remove`, `link`, `make_dirs`, `sync_dir`
//! and `sync_tree`, and each file created with `OpenMode::CreateNew`, is a *step*, counted from 0. A step can
//! be made to fail, or to be the moment of a crash or power cut; [`SimDisk::image`] is then the disk as the
//! next start finds it. Files hold one content for calls and mappings. Invariant: stores to a mapping after a
//! crash never get into the image, which is taken at the crash.

mod memory;
mod names;
mod node;
mod random;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Disk, DiskFile, FileMetadata, FileSystem, Mapping, OpenMode};
use memory::{PAGE_BYTES, SimMemory};
use names::{NodeId, SimNames};
use node::SimNode;
pub use random::SimRandom;

/// Default free space of a simulated disk.
const SIM_FREE_BYTES: u64 = 1 << 30;
/// Total size that it reports.
const SIM_TOTAL_BYTES: u64 = 1 << 40;

/// Way in which a simulated machine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// The process dies, but the machine keeps running: all completed writes are there, and part of the
    /// interrupted one. The boot id stays the same.
    Kill,
    /// Power cut: synced data is there, and any part of the rest, torn at sectors and pages, including names
    /// and lengths.
    Power,
    /// Power cut that loses everything not synced.
    Lost,
    /// The machine keeps running, but the disk was detached and its file systems mounted again: like `Power`,
    /// but the boot id stays the same.
    Remount,
}

/// A disk in memory. Clones share the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
    syncs: Arc<CallGate>,
    removals: Arc<CallGate>,
}

/// Gate at which calls wait while it is closed.
#[derive(Default)]
struct CallGate {
    /// Whether calls are held, and the number of calls that have arrived since.
    held: Mutex<(bool, u64)>,
    changed: Condvar,
}

impl CallGate {
    fn hold(&self, hold: bool) {
        *self.held.lock() = (hold, 0);
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut held = self.held.lock();
        held.1 += 1;
        self.changed.notify_all();
        while held.0 {
            self.changed.wait(&mut held);
        }
    }

    fn wait_for_one(&self) {
        let mut held = self.held.lock();
        while held.1 == 0 {
            self.changed.wait(&mut held);
        }
    }
}

struct SimState {
    boot: u64,
    steps: u64,
    /// Number of reads, and of bytes read.
    reads: (u64, u64),
    cached: Option<CachedPages>,
    names: SimNames,
    nodes: BTreeMap<NodeId, SimNode>,
    next_id: NodeId,
    locked: BTreeSet<PathBuf>,
    locked_nodes: BTreeSet<NodeId>,
    marked: BTreeSet<PathBuf>,
    failure: Option<InjectedFailure>,
    /// Step from which on no space is left.
    full_from: Option<u64>,
    /// Maximum total of the bytes written or reserved in all files.
    capacity_bytes: Option<u64>,
    crash: Option<Crash>,
    image: Option<SimDisk>,
    free_bytes: u64,
    /// Counter that increases whenever a mapping may have lost pages.
    lost_pages: u64,
}

/// Pages of files in the machine's memory, if not all of them are there.
#[derive(Default)]
struct CachedPages {
    pages: BTreeSet<(NodeId, u64)>,
    /// Pages that the disk was asked for: they are there after the next read that waits.
    begun: BTreeSet<(NodeId, u64)>,
    /// Number of reads that have waited.
    waits: u64,
}

impl CachedPages {
    /// Returns the pages of a range that are not in memory.
    fn missing(&self, id: NodeId, range: &Range<u64>) -> Vec<(NodeId, u64)> {
        let pages = (range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)).map(|page| (id, page));
        pages.filter(|page| !self.pages.contains(page)).collect()
    }

    /// Begins to read a range; returns whether it is not in memory.
    fn begin(&mut self, id: NodeId, range: &Range<u64>) -> bool {
        let missing = self.missing(id, range);
        self.begun.extend(&missing);
        !missing.is_empty()
    }

    /// Waits for a range, if it is not in memory.
    fn wait(&mut self, id: NodeId, range: &Range<u64>) {
        if self.begin(id, range) {
            self.waits += 1;
            self.pages.append(&mut self.begun);
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct InjectedFailure {
    step: u64,
    raw_os_error: i32,
    sticky: bool,
}

#[derive(Debug, Clone, Copy)]
struct Crash {
    step: u64,
    kind: CrashKind,
    seed: u64,
}

/// Result of a step.
enum StepResult {
    Done,
    Fails(io::Error),
    Crashes(Crash),
}

impl SimDisk {
    /// Error `EIO`, for [`SimDisk::fail_at`].
    pub const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
    /// Error `ENOSPC`, for [`SimDisk::fail_at`].
    pub const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();

    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::with(1, SimNames::default(), BTreeMap::new(), 0)
    }

    fn with(boot: u64, names: SimNames, nodes: BTreeMap<NodeId, SimNode>, next_id: NodeId) -> Self {
        let state = SimState {
            boot,
            steps: 0,
            reads: (0, 0),
            cached: None,
            names,
            nodes,
            next_id,
            locked: BTreeSet::new(),
            locked_nodes: BTreeSet::new(),
            marked: BTreeSet::new(),
            failure: None,
            full_from: None,
            capacity_bytes: None,
            crash: None,
            image: None,
            lost_pages: 0,
            free_bytes: SIM_FREE_BYTES,
        };
        Self { state: Arc::new(Mutex::new(state)), syncs: Arc::default(), removals: Arc::default() }
    }

    /// Returns the number of reads of files so far, and of bytes read; mapped memory is not counted.
    pub fn reads(&self) -> (u64, u64) {
        self.state.lock().reads
    }

    /// Takes what has been written to files so far, and will be, out of memory: it is there only once it was
    /// read, or asked for before a read that waits. Mapped files stay.
    pub fn take_from_memory(&self) {
        self.state.lock().cached = Some(CachedPages::default());
    }

    /// Returns the number of reads since then that had to wait.
    pub fn waits(&self) -> u64 {
        self.state.lock().cached.as_ref().map_or(0, |cached| cached.waits)
    }

    /// Returns the number of steps so far, including failed ones.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Makes step `step` fail with this error, and, if `sticky`, all later ones. A failed write may have
    /// written a part.
    pub fn fail_at(&self, step: u64, raw_os_error: i32, sticky: bool) {
        self.state.lock().failure = Some(InjectedFailure { step, raw_os_error, sticky });
    }

    /// Changes the reported free space; nothing else is affected.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.state.lock().free_bytes = free_bytes;
    }

    /// Ends the failures set by [`SimDisk::fail_at`].
    pub fn stop_failing(&self) {
        self.state.lock().failure = None;
    }

    /// Fills the disk at step `step`: from then on any call that needs more space fails with `ENOSPC`:
    /// creating a file, name or directory, and writing or reserving beyond what a file has been written or
    /// reserved to.
    pub fn fill_at(&self, step: u64) {
        self.state.lock().full_from = Some(step);
    }

    /// Frees the space again.
    pub fn free(&self) {
        let mut state = self.state.lock();
        (state.full_from, state.capacity_bytes) = (None, None);
    }

    /// Limits the disk so that this many bytes are left: calls that need more fail as after
    /// [`SimDisk::fill_at`], until files are removed or truncated.
    pub fn leave_bytes(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.capacity_bytes = Some(state.used_bytes() + bytes);
    }

    /// Copies the capacity of the disk that this one is an image of.
    pub fn be_as_large_as(&self, other: &Self) {
        let capacity_bytes = other.state.lock().capacity_bytes;
        self.state.lock().capacity_bytes = capacity_bytes;
    }

    /// Ends the machine at step `step`: that one and every later call fail, and [`SimDisk::image`] returns
    /// what is left. Randomness derives from `seed`.
    pub fn crash_at(&self, step: u64, kind: CrashKind, seed: u64) {
        self.state.lock().crash = Some(Crash { step, kind, seed });
    }

    /// Makes every read that touches these bytes of a file fail, as an unreadable sector does; the damage
    /// survives a crash.
    ///
    /// # Errors
    /// If the file does not exist.
    pub fn spoil(&self, path: &Path, bytes: std::ops::Range<u64>) -> io::Result<()> {
        let mut state = self.running()?;
        let id = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        state.node(id)?.spoil(bytes);
        state.lost_pages += 1;
        Ok(())
    }

    /// Returns the ranges of a file that were written back early, and those released from memory.
    ///
    /// # Errors
    /// If the file does not exist.
    pub fn early_and_released(&self, path: &Path) -> io::Result<[Vec<Range<u64>>; 2]> {
        let mut state = self.state.lock();
        let id = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let node = state.node(id)?;
        Ok([node.written_back.clone(), node.released.clone()])
    }

    /// With `true`, every sync of a file's bytes waits, as on a slow disk, until this is called with `false`.
    pub fn hold_syncs(&self, hold: bool) {
        self.syncs.hold(hold);
    }

    /// Like [`SimDisk::hold_syncs`], for removals of files.
    pub fn hold_removals(&self, hold: bool) {
        self.removals.hold(hold);
    }

    /// Waits until a removal has arrived since they were held.
    pub fn wait_for_removal(&self) {
        self.removals.wait_for_one();
    }

    /// Reports whether the crash has happened.
    pub fn crashed(&self) -> bool {
        self.state.lock().image.is_some()
    }

    /// Returns the disk as the next start finds it, without pending failures and crashes. Before any crash,
    /// returns it as after a kill now.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn image(&self) -> io::Result<Self> {
        let state = self.state.lock();
        match &state.image {
            // Each caller gets a copy, and so starts from the same disk.
            Some(image) => image.state.lock().after(CrashKind::Kill, 0),
            None => state.after(CrashKind::Kill, 0),
        }
    }

    /// Returns the disk as the next start would find it if the machine ended like this now.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn image_after(&self, kind: CrashKind, seed: u64) -> io::Result<Self> {
        self.state.lock().after(kind, seed)
    }

    /// Locks the state, for calls that are not steps.
    fn running(&self) -> io::Result<MutexGuard<'_, SimState>> {
        let state = self.state.lock();
        if state.image.is_some() { Err(gone()) } else { Ok(state) }
    }

    /// Fails, as a step, if the disk is full and the call needs more bytes, or a name (`Some`).
    fn check_space(&self, needs: impl FnOnce(&mut SimState) -> io::Result<Option<u64>>) -> io::Result<()> {
        let mut state = self.running()?;
        if state.full_from.is_none() && state.capacity_bytes.is_none() {
            return Ok(());
        }
        let Some(more) = needs(&mut state)? else { return Ok(()) };
        let has_none = state.full_from.is_some_and(|step| state.steps >= step);
        if has_none || state.capacity_bytes.is_some_and(|capacity| state.used_bytes() + more > capacity) {
            state.steps += 1;
            return Err(io::Error::from_raw_os_error(Self::ENOSPC));
        }
        Ok(())
    }

    /// Runs one step. `part` runs in place of `work` if the step fails or the machine ends here.
    fn step<T>(
        &self,
        work: impl FnOnce(&mut SimState) -> io::Result<T>,
        part: impl FnOnce(&mut SimState, &mut SimRandom) -> io::Result<()>,
    ) -> io::Result<T> {
        let mut state = self.running()?;
        let step = state.steps;
        state.steps += 1;
        match state.fate(step) {
            StepResult::Done => work(&mut state),
            StepResult::Fails(error) => {
                part(&mut state, &mut SimRandom::new(step))?;
                Err(error)
            }
            StepResult::Crashes(crash) => {
                part(&mut state, &mut SimRandom::new(crash.seed))?;
                state.image = Some(state.after(crash.kind, crash.seed)?);
                Err(gone())
            }
        }
    }
}

impl SimState {
    /// Returns the total of bytes written or reserved in files that have a name.
    fn used_bytes(&self) -> u64 {
        self.names.live_ids().iter().filter_map(|id| self.nodes.get(id)).map(|node| node.space).sum()
    }

    fn fate(&self, step: u64) -> StepResult {
        match (self.crash, self.failure) {
            (Some(crash), _) if step >= crash.step => StepResult::Crashes(crash),
            (_, Some(f)) if step == f.step || (f.sticky && step > f.step) => {
                StepResult::Fails(io::Error::from_raw_os_error(f.raw_os_error))
            }
            _ => StepResult::Done,
        }
    }

    /// Returns the disk after a machine ended like this.
    fn after(&self, kind: CrashKind, seed: u64) -> io::Result<SimDisk> {
        let mut random = SimRandom::new(seed ^ self.steps.rotate_left(32));
        let (boot, names) = match kind {
            CrashKind::Kill => (self.boot, self.names.clone()),
            CrashKind::Power => (self.boot + 1, self.names.after_power_cut(&mut random)),
            CrashKind::Remount => (self.boot, self.names.after_power_cut(&mut random)),
            CrashKind::Lost => (self.boot + 1, self.names.as_synced()),
        };
        let mut nodes = BTreeMap::new();
        for id in names.ids() {
            let Some(node) = self.nodes.get(&id) else { continue };
            let node = match kind {
                CrashKind::Kill => node.after_kill(),
                CrashKind::Power | CrashKind::Remount => node.after_power_cut(&mut random),
                CrashKind::Lost => node.as_synced(),
            };
            nodes.insert(id, node?);
        }
        let disk = SimDisk::with(boot, names, nodes, self.next_id);
        if kind == CrashKind::Kill {
            disk.state.lock().marked.clone_from(&self.marked);
        }
        Ok(disk)
    }

    fn node(&mut self, id: NodeId) -> io::Result<&mut SimNode> {
        self.nodes.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns how many more bytes a file needs to be written or reserved to `end`, if any.
    fn more_space(&mut self, id: NodeId, end: u64) -> io::Result<Option<u64>> {
        Ok(end.checked_sub(self.node(id)?.space).filter(|more| *more > 0))
    }

    fn create(&mut self, path: &Path) -> io::Result<NodeId> {
        let id = self.next_id;
        self.names.create(path, id)?;
        self.next_id += 1;
        self.nodes.insert(id, SimNode::new()?);
        Ok(id)
    }
}

/// Returns the error of every call once the machine has ended.
fn gone() -> io::Error {
    io::Error::other("the simulated machine has ended")
}

/// Does nothing: the partial work of a step that is done wholly or not at all.
fn nothing(_: &mut SimState, _: &mut SimRandom) -> io::Result<()> {
    Ok(())
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let makes = !matches!(how, OpenMode::Existing | OpenMode::ReadOnly);
        self.check_space(|state| Ok((makes && state.names.get(path).is_none()).then_some(0)))?;
        let mut state = self.running()?;
        let id = match (state.names.get(path), how) {
            (Some(_), OpenMode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(id), _) => id,
            (
                None,
                OpenMode::Create | OpenMode::CreatePrivate | OpenMode::CreatePublic | OpenMode::CreateNew,
            ) => {
                if how == OpenMode::CreateNew {
                    drop(state);
                    self.step(|_| Ok(()), nothing)?;
                    state = self.running()?;
                }
                state.create(path)?
            }
            (None, OpenMode::Existing | OpenMode::ReadOnly) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            id,
            read_only: how == OpenMode::ReadOnly,
            locked: AtomicBool::new(false),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|state| state.names.rename(from, to), nothing)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.removals.pass();
        let remove = |state: &mut SimState| {
            state.marked.remove(path);
            state.names.remove(path)
        };
        self.step(remove, nothing)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.running()?.names.create_dir(path);
        Ok(())
    }

    fn make_dirs(&self, path: &Path, _bucketed: bool) -> io::Result<()> {
        if self.running()?.names.is_dir(path) {
            return Ok(());
        }
        self.check_space(|_| Ok(Some(0)))?;
        self.step(|state| state.names.make_dirs(path), nothing)
    }

    fn link(&self, file: &Path, new: &Path) -> io::Result<()> {
        self.check_space(|_| Ok(Some(0)))?;
        self.step(|state| state.names.link(file, new), nothing)
    }

    fn make_like(&self, new: &Path, _old: &Path, _mode: bool) -> io::Result<()> {
        let names = &self.running()?.names;
        let exists = names.get(new).is_some() || names.is_dir(new);
        if exists { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.running()?.names.list_dirs(dir))
    }

    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        self.syncs.pass();
        let sync = |state: &mut SimState| {
            for id in state.names.sync_tree(dir) {
                state.node(id)?.sync();
            }
            Ok(())
        };
        self.step(sync, nothing)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.running()?.names.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step(|state| state.names.sync_dir(dir), nothing)
    }

    fn lost_pages(&self) -> u64 {
        self.state.lock().lost_pages
    }

    fn boot_id(&self) -> [u8; 16] {
        u128::from(self.state.lock().boot).to_le_bytes()
    }

    fn has_dir(&self, dir: &Path) -> io::Result<bool> {
        Ok(self.running()?.names.is_dir(dir))
    }

    /// The simulated disk has no clock: files are as old as their order says, and all very old.
    fn about(&self, path: &Path) -> io::Result<Option<FileMetadata>> {
        let state = self.running()?;
        let id = state.names.get(path);
        let node = id.and_then(|id| Some((id, state.nodes.get(&id)?)));
        Ok(node.map(|(id, node)| FileMetadata {
            bytes: node.len,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(id),
        }))
    }

    fn has_name(&self, path: &Path) -> io::Result<bool> {
        Ok(self.identity(path)?.is_some() || self.has_dir(path)?)
    }

    fn identity(&self, path: &Path) -> io::Result<Option<(u64, u64)>> {
        Ok(self.running()?.names.get(path).map(|id| (0, id)))
    }

    fn file_system(&self, _path: &Path) -> io::Result<FileSystem> {
        let free_bytes = self.running()?.free_bytes;
        Ok(FileSystem { id: 0, dir: PathBuf::from("/"), free_bytes, total_bytes: SIM_TOTAL_BYTES })
    }

    fn mark(&self, path: &Path) -> io::Result<()> {
        self.is_marked(path)?;
        self.state.lock().marked.insert(path.to_path_buf());
        Ok(())
    }

    fn unmark(&self, path: &Path) -> io::Result<()> {
        self.is_marked(path)?;
        self.state.lock().marked.remove(path);
        Ok(())
    }

    fn is_marked(&self, path: &Path) -> io::Result<bool> {
        let state = self.running()?;
        if state.names.get(path).is_none() && !state.names.is_dir(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state.marked.contains(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.running()?;
        if state.names.get(path).is_none() {
            state.create(path)?;
        }
        if !state.locked.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_path_buf() }))
    }
}

/// A held lock, released when dropped.
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state.lock().locked.remove(&self.path);
    }
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: NodeId,
    read_only: bool,
    locked: AtomicBool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if self.locked.load(Ordering::Acquire) {
            self.disk.state.lock().locked_nodes.remove(&self.id);
        }
    }
}

impl SimFile {
    /// Runs a step that changes this file wholly or not at all.
    fn change(&self, change: impl FnOnce(&mut SimNode) -> io::Result<()>) -> io::Result<()> {
        self.check_writable()?;
        self.disk.step(|state| change(state.node(self.id)?), nothing)
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.running()?.node(self.id)?.len)
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((0, self.id))
    }

    fn try_lock(&self) -> io::Result<()> {
        let mut state = self.disk.running()?;
        let mine = self.locked.load(Ordering::Acquire);
        if !state.locked_nodes.insert(self.id) && !mine {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.locked.store(true, Ordering::Release);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|node| node.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.check_space(|state| state.more_space(self.id, len))?;
        self.change(|node| node.allocate(len))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.running()?;
        let node = state.node(self.id)?;
        let there = usize::try_from(node.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (buf, _) = buf.split_at_mut(there.min(buf.len()));
        state.reads = (state.reads.0 + 1, state.reads.1 + buf.len() as u64);
        let end = offset + buf.len() as u64;
        if let Some(cached) = &mut state.cached {
            cached.wait(self.id, &(offset..end));
        }
        let node = state.node(self.id)?;
        if node.is_unreadable(&(offset..end)) {
            return Err(io::Error::from_raw_os_error(SimDisk::EIO));
        }
        node.live.read(buf, offset);
        Ok(buf.len())
    }

    fn read_at_cached(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = offset..self.len()?.min(offset.saturating_add(buf.len() as u64)).max(offset);
        if let Some(cached) = &mut self.disk.running()?.cached
            && cached.begin(self.id, &range)
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.read_at(buf, offset)
    }

    fn begin_read(&self, range: Range<u64>) -> io::Result<()> {
        if let Some(cached) = &mut self.disk.running()?.cached {
            cached.begin(self.id, &range);
        }
        Ok(())
    }

    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        // Copied as a whole, not byte by byte: crash tests spend their time here.
        let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
        let bytes = parts.concat();
        let end = offset + bytes.len() as u64;
        self.disk.check_space(|state| state.more_space(self.id, end))?;
        let prefix = |state: &mut SimState, random: &mut SimRandom| {
            let (prefix, _) = bytes.split_at(random.up_to(bytes.len()));
            state.node(self.id)?.write(prefix.to_vec(), offset)
        };
        self.disk.step(|state| state.node(self.id)?.write(bytes.clone(), offset), prefix)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.syncs.pass();
        self.disk.step(
            |state| {
                state.node(self.id)?.sync();
                Ok(())
            },
            nothing,
        )
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn write_back(&self, range: Range<u64>) -> io::Result<()> {
        // Unsynced data may survive a power cut whether or not it was written back.
        self.disk.running()?.node(self.id)?.written_back.push(range);
        Ok(())
    }

    fn release(&self, range: Range<u64>) -> io::Result<()> {
        self.disk.running()?.node(self.id)?.released.push(range);
        Ok(())
    }

    fn map_words(&self, offset: u64, words: usize) -> io::Result<Arc<dyn Mapping>> {
        self.check_writable()?;
        let mut state = self.disk.running()?;
        let node = state.node(self.id)?;
        let end = (words as u64).checked_mul(8).and_then(|bytes| bytes.checked_add(offset));
        if words == 0 || !offset.is_multiple_of(PAGE_BYTES) || end.is_none_or(|end| end > node.len) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "mapping is not page-aligned within the file",
            ));
        }
        let pages = offset / PAGE_BYTES..end.unwrap_or_default().div_ceil(PAGE_BYTES);
        let memory = node.map(pages.clone());
        state.lost_pages += 1;
        let (disk, first_word) = (self.disk.clone(), (offset / 8) as usize);
        Ok(Arc::new(SimMapping { memory, first_word, words, disk, id: self.id, pages }))
    }
}

/// A mapped part of a simulated file.
#[derive(Debug)]
struct SimMapping {
    memory: SimMemory,
    first_word: usize,
    words: usize,
    disk: SimDisk,
    id: NodeId,
    pages: Range<u64>,
}

impl SimMapping {
    fn lost_pages(&self) -> Vec<u64> {
        let state = self.disk.state.lock();
        let node = state.nodes.get(&self.id);
        node.map_or_else(Vec::new, |node| node.lost.range(self.pages.clone()).copied().collect())
    }
}

impl Mapping for SimMapping {
    fn words(&self) -> &[AtomicU64] {
        self.memory.words().get(self.first_word..self.first_word + self.words).unwrap_or_default()
    }

    fn lost(&self) -> Vec<Range<usize>> {
        const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;
        let first = |page: u64| (page - self.pages.start) as usize * PAGE_WORDS;
        self.lost_pages().into_iter().map(first).map(|at| at..(at + PAGE_WORDS).min(self.words)).collect()
    }

    fn restore(&self) -> io::Result<()> {
        for page in self.lost_pages() {
            let mut bytes = vec![0; PAGE_BYTES as usize];
            self.memory.read(&mut bytes, page * PAGE_BYTES);
            let mut state = self.disk.running()?;
            let node = state.node(self.id)?;
            node.write(bytes, page * PAGE_BYTES)?;
            node.lost.remove(&page);
        }
        Ok(())
    }
}
