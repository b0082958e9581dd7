//! The syncing thread: makes writes durable, shared by all waiting threads (group commit), and writes
//! checkpoints.
//!
//! Order of a sync: record the written end of the journal, sync the buffers, sync the journal; only then is
//! that position durable. A failed sync stops accepting for good (the kernel may have dropped the pages): see
//! [`SyncState::stop`].
//!
//! With `durability = "interval(T)"` all data that is not durable arrived within T: a sync begins early
//! enough to end by then, as far as the last one can predict, and if the disk is slower the writer waits for
//! it (`lateness.rs`).

use crate::index::checkpoint::TakenCheckpoint;
use crate::index::fold::{SharedIndexes, is_full};
use crate::write::lateness::UnsyncedAge;
use parking_lot::Condvar;
use spool_base::config::Durability;
use spool_base::error::{SpoolError, SpoolTrouble, TroubleKind};
use spool_base::key::ArticleKey;
use spool_base::latency::LatencyHistogram;
use spool_base::ordered::{Ordered, rank};
use spool_journal::{GroupsFile, GroupsState, SyncSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Number of unsynced stored bytes at which a sync begins with any durability.
const UNSYNCED_BYTES_SOFT: u64 = 64 << 20;
/// Number of unsynced stored bytes at which the writer waits; bounds what a start after a power cut must
/// check.
pub(crate) const UNSYNCED_BYTES_MAX: u64 = 2 << 30;
/// Interval between syncs with `durability = "process"`.
const PROCESS_INTERVAL: Duration = Duration::from_secs(5);

/// Duration above which a sync is logged.
const SYNC_TIME_USUAL: Duration = Duration::from_secs(10);

/// A checkpoint that is passed to the syncing thread, with the files to be removed once it is written.
#[derive(Debug)]
pub(crate) struct CheckpointHandover {
    pub taken: TakenCheckpoint,
    /// File and state of all groups at the same moment.
    pub groups: (Arc<GroupsFile>, GroupsState),
    pub dead_journals: Vec<PathBuf>,
    /// Number of the first history record to be kept.
    pub forget_before: u64,
}

/// Returns the trouble for a failed sync, even on a full disk: written data may be lost, and a retry would
/// not show it.
pub(crate) fn failed_sync(e: &io::Error) -> SpoolTrouble {
    let text = format!(
        "a sync failed: {e}; what was written may be lost, so nothing is accepted until a restart has \
         checked it"
    );
    SpoolTrouble::caused_by(TroubleKind::Io, text, e)
}

type Callback = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct SyncWork {
    sync: bool,
    stop: bool,
    checkpoint: Option<CheckpointHandover>,
    /// Start of the next timed sync.
    due: Option<Instant>,
}

/// State that writer, sessions and the syncing thread share.
pub(crate) struct SyncState {
    journal: Arc<SyncSet>,
    durability: AtomicDurability,
    wanted: Ordered<SyncWork, { rank::WANTED }>,
    wake: Condvar,
    room: Condvar,
    durable: AtomicU64,
    /// Number below which all history records belong to durable rows.
    durable_records: AtomicU64,
    unsynced: AtomicU64,
    ages: UnsyncedAge,
    /// Durations of syncs.
    pub latency: LatencyHistogram,
    checkpointing: AtomicBool,
    /// Whether a checkpoint waits for space.
    checkpoint_late: AtomicBool,
    /// Position of the checkpoint on the disk; 0 if there is none.
    checkpointed: AtomicU64,
    /// Interval between attempts after a full disk.
    retry_interval: Duration,
    /// Held during a sync: two at once would both count the same bytes as synced.
    syncing: Ordered<(), { rank::SYNCING }>,
    stopped: AtomicBool,
    trouble: Ordered<Option<(SpoolTrouble, Instant)>, { rank::INNERMOST }>,
    on_durable: Ordered<Vec<Callback>, { rank::INNERMOST }>,
}

/// A durability that is read for each offered article and rarely changes: microseconds of an interval, or one
/// of two other values.
#[derive(Debug)]
struct AtomicDurability(AtomicU64);

impl AtomicDurability {
    const ALWAYS: u64 = 0;
    const PROCESS: u64 = u64::MAX;

    fn new(durability: Durability) -> Self {
        let this = Self(AtomicU64::default());
        this.store(durability);
        this
    }

    fn load(&self) -> Durability {
        match self.0.load(Ordering::Relaxed) {
            Self::ALWAYS => Durability::Always,
            Self::PROCESS => Durability::Process,
            micros => Durability::Interval(Duration::from_micros(micros)),
        }
    }

    fn store(&self, durability: Durability) {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let value = match durability {
            Durability::Always => Self::ALWAYS,
            Durability::Process => Self::PROCESS,
            Durability::Interval(limit) => micros(limit).clamp(Self::ALWAYS + 1, Self::PROCESS - 1),
        };
        self.0.store(value, Ordering::Relaxed);
    }
}

impl fmt::Debug for SyncState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncState").field("durable", &self.durable).field("stopped", &self.stopped).finish()
    }
}

impl SyncState {
    pub fn new(journal: Arc<SyncSet>, durability: Durability, retry_interval: Duration) -> Self {
        let durable = AtomicU64::new(journal.synced());
        Self {
            journal,
            durability: AtomicDurability::new(durability),
            wanted: Ordered::default(),
            wake: Condvar::new(),
            room: Condvar::new(),
            durable,
            durable_records: AtomicU64::new(0),
            unsynced: AtomicU64::new(0),
            ages: UnsyncedAge::new(),
            latency: LatencyHistogram::default(),
            checkpointing: AtomicBool::new(false),
            checkpoint_late: AtomicBool::new(false),
            checkpointed: AtomicU64::new(0),
            retry_interval,
            syncing: Ordered::default(),
            stopped: AtomicBool::new(false),
            trouble: Ordered::default(),
            on_durable: Ordered::default(),
        }
    }

    /// Returns the current durability.
    pub fn durability(&self) -> Durability {
        self.durability.load()
    }

    /// Changes the durability.
    pub fn set_durability(&self, durability: Durability) {
        self.durability.store(durability);
        // The thread may be sleeping for longer than the new setting allows.
        self.ask();
    }

    /// Returns the journal position up to which rows and their articles are durable.
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Reports whether history learned a Message-ID from a row that is not durable.
    pub fn is_pending(&self, shared: &SharedIndexes, key: &ArticleKey) -> bool {
        shared.history.is_known_since(key, self.durable_records.load(Ordering::Acquire))
    }

    /// Records that everything was synced while opening.
    pub fn all_durable(&self, shared: &SharedIndexes) {
        self.durable.store(self.journal.synced(), Ordering::Release);
        self.durable_records.store(shared.history.next_record(), Ordering::Release);
    }

    /// Syncs the written rows ahead of a sync that the writer must wait for, which then has little left to
    /// do.
    pub fn sync_journal(&self) -> Result<(), SpoolTrouble> {
        if self.trouble().is_some() {
            // The writer decides whether anything may be written at all.
            return Ok(());
        }
        self.journal.sync().map(drop).map_err(|e| self.stop(failed_sync(&e)))
    }

    /// Returns the journal position up to which rows are written.
    pub fn written(&self) -> u64 {
        self.journal.written()
    }

    /// Stops accepting; returns the trouble for the caller.
    pub fn stop(&self, trouble: SpoolTrouble) -> SpoolTrouble {
        {
            let mut now = self.trouble.lock();
            // Trouble other than a full disk is permanent.
            if now.as_ref().is_none_or(|(old, _)| old.kind == TroubleKind::Full) {
                *now = Some((trouble.clone(), Instant::now()));
            }
            self.stopped.store(true, Ordering::Release);
        }
        self.room.notify_all();
        self.tell();
        trouble
    }

    /// Resumes accepting after a full disk.
    pub fn go_on(&self) {
        let mut now = self.trouble.lock();
        if now.as_ref().is_some_and(|(trouble, _)| trouble.kind == TroubleKind::Full) {
            *now = None;
            self.stopped.store(false, Ordering::Release);
        }
    }

    /// Returns why accepting is stopped, if it is.
    pub fn trouble(&self) -> Option<SpoolTrouble> {
        if !self.stopped.load(Ordering::Acquire) {
            return None;
        }
        self.trouble.lock().as_ref().map(|(t, _)| t.clone())
    }

    /// Reports whether it is time for another attempt after a full disk.
    pub fn may_probe(&self) -> bool {
        let mut trouble = self.trouble.lock();
        let Some((_, since)) = trouble.as_mut().filter(|(_, since)| since.elapsed() >= self.retry_interval)
        else {
            return false;
        };
        *since = Instant::now();
        true
    }

    /// Records that the writer has written rows, and `bytes` into buffers.
    pub fn wrote(&self, bytes: u64) {
        let durability = self.durability();
        if self.ages.wrote() {
            let delay = match durability {
                Durability::Interval(limit) => self.ages.delay(limit),
                Durability::Process | Durability::Always => PROCESS_INTERVAL,
            };
            let mut wanted = self.wanted.lock();
            wanted.due = Some(Instant::now() + delay);
            self.wake.notify_one();
        }
        let unsynced = self.unsynced.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if durability == Durability::Always || unsynced >= UNSYNCED_BYTES_SOFT {
            self.ask();
        }
    }

    /// Asks for a sync soon.
    pub fn ask(&self) {
        let mut wanted = self.wanted.lock();
        if !wanted.sync {
            wanted.sync = true;
            self.wake.notify_one();
        }
    }

    /// Reports whether so much is unsynced, or some of it for so long, that the writer must wait for a sync.
    pub fn must_wait(&self) -> bool {
        let is_late = match self.durability() {
            Durability::Interval(limit) => self.ages.is_late(limit),
            Durability::Process | Durability::Always => false,
        };
        is_late || self.unsynced.load(Ordering::Acquire) >= UNSYNCED_BYTES_MAX
    }

    /// Waits while [`SyncState::must_wait`].
    pub fn wait_for_room(&self) {
        if !self.must_wait() {
            return;
        }
        let mut wanted = self.wanted.lock();
        while self.must_wait() && !self.stopped.load(Ordering::Acquire) {
            // The current sync is enough, if there is one.
            if !self.ages.is_being_synced() {
                wanted.sync = true;
                self.wake.notify_one();
            }
            wanted.wait_for(&self.room, Duration::from_millis(100));
        }
    }

    /// Adds a function to be called after each sync.
    pub fn on_durable(&self, callback: Callback) {
        self.on_durable.lock().push(callback);
    }

    fn tell(&self) {
        self.on_durable.lock().iter().for_each(|callback| callback());
    }

    pub fn is_checkpoint_pending(&self) -> bool {
        self.checkpointing.load(Ordering::Acquire)
    }

    /// Waits while a checkpoint is being written.
    pub fn await_checkpoint(&self) -> Result<(), SpoolError> {
        while self.is_checkpoint_pending() {
            if let Some(trouble) = self.trouble() {
                return Err(SpoolError::no_changes(&trouble));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the journal position of the checkpoint on the disk; 0 if there is none.
    pub fn checkpointed(&self) -> u64 {
        self.checkpointed.load(Ordering::Acquire)
    }

    /// Records the position of the checkpoint on the disk.
    pub fn set_checkpointed(&self, position: u64) {
        self.checkpointed.store(position, Ordering::Release);
    }

    /// Reports whether a checkpoint waits for space on a full disk.
    pub fn is_checkpoint_late(&self) -> bool {
        self.checkpoint_late.load(Ordering::Acquire)
    }

    /// Passes a checkpoint to the syncing thread.
    pub fn hand_over(&self, checkpoint: CheckpointHandover) {
        self.checkpointing.store(true, Ordering::Release);
        let mut wanted = self.wanted.lock();
        wanted.checkpoint = Some(checkpoint);
        self.wake.notify_one();
    }

    /// Syncs buffers and journal now, in the calling thread.
    pub fn sync_now(&self, shared: &SharedIndexes) -> io::Result<()> {
        let one_at_a_time = self.syncing.lock();
        let begun = self.ages.begin();
        // All records published by now belong to rows written by now.
        let records = shared.history.next_record();
        let upto = self.journal.written();
        let bytes = self.unsynced.load(Ordering::Acquire);
        let worked = upto > self.durable();
        if worked {
            let begun = Instant::now();
            shared.volumes.load().all().iter().try_for_each(|v| v.sync())?;
            self.journal.sync()?;
            self.durable.fetch_max(upto, Ordering::AcqRel);
            let took = begun.elapsed();
            self.latency.observe(took);
            if took > SYNC_TIME_USUAL {
                let dir = shared.config.dir.display();
                warn!("spool {dir}: the disk is slow: a sync of {bytes} bytes took {took:.1?}");
            }
        }
        self.ages.end(begun, worked);
        self.durable_records.fetch_max(records, Ordering::AcqRel);
        self.unsynced.fetch_sub(bytes, Ordering::AcqRel);
        drop(one_at_a_time);
        // The lock prevents a wake-up between the writer's check and its wait.
        drop(self.wanted.lock());
        self.room.notify_all();
        self.tell();
        Ok(())
    }

    /// Writes a checkpoint that was passed to the thread.
    fn write_checkpoint(&self, shared: &SharedIndexes, checkpoint: &CheckpointHandover) -> io::Result<()> {
        // Taking it changed headers and bitmaps, even if no article arrived since the last sync.
        let position = checkpoint.taken.position;
        shared.volumes.load().all().iter().try_for_each(|v| {
            v.retained().map_or(Ok(()), |v| v.record_position(position)).and_then(|()| v.sync())
        })?;
        shared.history.sync()?;
        let (file, state) = &checkpoint.groups;
        file.write(state)?;
        checkpoint.taken.write(&*shared.disk)?;
        self.set_checkpointed(position);
        shared.history.expire_before(checkpoint.forget_before)?;
        checkpoint.dead_journals.iter().try_for_each(|path| match shared.disk.remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        })
    }

    /// Asks the thread to end after a last sync.
    pub fn end(&self) {
        self.wanted.lock().stop = true;
        self.wake.notify_one();
    }

    /// Ends the thread without a sync, as a crash would.
    pub fn abandon(&self) {
        let text = "the spool has been closed".to_owned();
        self.stop(SpoolTrouble::new(TroubleKind::Io, text));
        self.end();
    }

    /// Runs the syncing thread's loop.
    pub fn run(&self, shared: &SharedIndexes) {
        let mut late = None;
        loop {
            let (checkpoint, stop) = self.await_work(late.as_ref().map(|_| self.retry_interval));
            let checkpoint = late.take().or(checkpoint);
            let broken = self.trouble().is_some_and(|t| t.kind == TroubleKind::Io);
            let synced = if broken { Ok(()) } else { self.sync_now(shared) };
            let result = match &checkpoint {
                Some(checkpoint) if !broken && synced.is_ok() => self.write_checkpoint(shared, checkpoint),
                _ => Ok(()),
            };
            let position = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.taken.position);
            if let Err(e) = &result
                && is_full(e)
            {
                if !self.checkpoint_late.load(Ordering::Acquire) {
                    let dir = shared.config.dir.display();
                    warn!(
                        "spool {dir}: the checkpoint at {position} is late, and the one before counts: {e}"
                    );
                }
                // Until there is space, the previous checkpoint is valid, with the journal from there on.
                late = checkpoint;
                self.checkpoint_late.store(true, Ordering::Release);
                self.stop(SpoolTrouble::caused_by(
                    TroubleKind::Full,
                    format!("cannot write a checkpoint: {e}"),
                    e,
                ));
            } else {
                if self.checkpoint_late.swap(false, Ordering::AcqRel) && result.is_ok() {
                    info!(
                        "spool {}: the late checkpoint at {position} is written",
                        shared.config.dir.display()
                    );
                }
                // Comes first, so that waiters for the checkpoint see that it failed.
                if let Err(e) = synced.and(result) {
                    self.stop(failed_sync(&e));
                }
                if checkpoint.is_some() {
                    self.checkpointing.store(false, Ordering::Release);
                    self.tell();
                }
            }
            if stop {
                return;
            }
        }
    }

    /// Waits for work, with `retry` at most for this long. Returns a checkpoint to be written, and whether
    /// this is the last turn.
    fn await_work(&self, retry: Option<Duration>) -> (Option<CheckpointHandover>, bool) {
        let mut wanted = self.wanted.lock();
        if let Some(retry) = retry {
            let at = Instant::now() + retry;
            wanted.due = Some(wanted.due.map_or(at, |due| due.min(at)));
        }
        while !wanted.sync && !wanted.stop && wanted.checkpoint.is_none() {
            let Some(due) = wanted.due else {
                wanted.wait(&self.wake);
                continue;
            };
            if wanted.wait_until(&self.wake, due) {
                break;
            }
        }
        (wanted.sync, wanted.due) = (false, None);
        (wanted.checkpoint.take(), wanted.stop)
    }
}
