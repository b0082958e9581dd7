//! Write-back behind a busy feed: its data is written to the medium step by step, and the memory released.
//!
//! The machine caches written data in memory. A busy feed touches new memory for all of it, which costs more
//! than everything else in filing where that memory has to be found first, and it displaces what readers use.
//! Step by step of a file, a thread therefore has the machine write back what is complete. The newest steps
//! of all files together, up to [`HotMemory::bytes`], stay in memory for readers and feeds; the memory of
//! older ones is released, and the next steps are written into it. That has a cost as well, so a feed is left
//! to the machine unless it is busy and the machine is short of free memory, as the processor time of its
//! writes shows. A file in memory only is also left alone.
//!
//! Everything here is a hint: the kernel releases only what the medium has, so no state of an article
//! (`docs/states.md`) changes, and nothing depends on whether or when it happens. Used by the writer; see
//! `docs/decisions/0042-hot-memory.md`.

use disk::DiskFile;
use disk::clock::thread_time;
use parking_lot::Condvar;
use spool_base::config::HotMemory;
use spool_base::ordered::{Ordered, rank};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::warn;

/// Maximum number of steps that wait for the thread; the memory of further ones is left to the machine.
const STEPS_WAITING_MAX: usize = 4096;

/// Number of a volume; `None`: the journal.
type StepOwner = Option<u16>;

/// State owned by the writer.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    shape: HotMemory,
    trails: Vec<(StepOwner, FlushProgress)>,
    hot: Arc<WriteBehindQueue>,
    /// Started with the first step of a busy feed.
    thread: Option<JoinHandle<()>>,
}

/// Progress in one file.
#[derive(Debug)]
struct FlushProgress {
    /// Start of the step that is being written.
    from: u64,
    since: Instant,
    /// Processor time spent on writing it.
    took: Duration,
    /// Whether memory was short since the feed became busy.
    is_slow: bool,
    in_memory: bool,
}

/// Processor time of the thread before a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteTimer(Duration);

/// State that writer and thread share.
#[derive(Debug)]
struct WriteBehindQueue {
    bytes: AtomicU64,
    released: AtomicU64,
    waiting: Ordered<QueuedSteps, { rank::INNERMOST }>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct QueuedSteps {
    steps: VecDeque<FlushRange>,
    stop: bool,
}

/// A complete part of a file. The file may have been removed when its turn comes: a buffer that was moved, or
/// a journal file.
#[derive(Debug)]
struct FlushRange {
    file: Weak<dyn DiskFile>,
    range: Range<u64>,
}

impl WriteBehind {
    pub fn new(shape: HotMemory) -> Self {
        let hot = WriteBehindQueue {
            bytes: AtomicU64::new(shape.bytes),
            released: AtomicU64::new(0),
            waiting: Ordered::default(),
            wake: Condvar::new(),
        };
        Self { shape, trails: Vec::new(), hot: Arc::new(hot), thread: None }
    }

    /// Sets the amount of memory that stays from now on.
    pub fn set_bytes(&self, bytes: u64) {
        self.hot.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes whose memory was released.
    pub fn released_bytes(&self) -> u64 {
        self.hot.released.load(Ordering::Relaxed)
    }

    /// Begins the measurement of a write.
    pub fn begin(&self) -> WriteTimer {
        WriteTimer(if self.is_off() { Duration::ZERO } else { thread_time() })
    }

    /// Reports whether everything is left to the machine.
    fn is_off(&self) -> bool {
        self.hot.bytes.load(Ordering::Relaxed) == u64::MAX
    }

    /// Records that the file of a volume, or of the journal, has been written up to `end`.
    pub fn wrote(&mut self, begun: WriteTimer, of: StepOwner, file: &Arc<dyn DiskFile>, end: u64) {
        if self.is_off() {
            return;
        }
        let took = thread_time().saturating_sub(begun.0);
        let Some(trail) = self.trails.iter_mut().find(|(id, _)| *id == of).map(|(_, trail)| trail) else {
            self.trails.push((of, FlushProgress::new(end, file.is_in_memory(), &self.shape)));
            return;
        };
        if let Some(range) = trail.wrote(end, took, &self.shape) {
            self.follow(FlushRange { file: Arc::downgrade(file), range });
        }
    }

    fn follow(&mut self, step: FlushRange) {
        if self.thread.is_none() {
            let hot = self.hot.clone();
            match std::thread::Builder::new().name("write-behind".into()).spawn(move || hot.run()) {
                Ok(thread) => self.thread = Some(thread),
                Err(e) => return warn!("cannot start a thread, so memory is not given back: {e}"),
            }
        }
        let mut waiting = self.hot.waiting.lock();
        if waiting.steps.len() < STEPS_WAITING_MAX {
            waiting.steps.push_back(step);
            self.hot.wake.notify_one();
        }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.hot.waiting.lock().stop = true;
        self.hot.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A failed thread loses nothing but its hints.
            let _failed = thread.join();
        }
    }
}

impl FlushProgress {
    fn new(end: u64, in_memory: bool, shape: &HotMemory) -> Self {
        let from = end / shape.step_bytes * shape.step_bytes;
        Self { from, since: Instant::now(), took: Duration::ZERO, is_slow: false, in_memory }
    }

    /// Records that the file has been written up to `end`, with this much processor time; returns the
    /// completed range to be followed.
    fn wrote(&mut self, end: u64, took: Duration, shape: &HotMemory) -> Option<Range<u64>> {
        self.took += took;
        let upto = end / shape.step_bytes * shape.step_bytes;
        let steps = upto.checked_sub(self.from).map(|bytes| bytes / shape.step_bytes);
        if steps == Some(0) {
            return None;
        }
        let (done, now) = (self.from..upto, Instant::now());
        let (lasted, took) = (now.duration_since(self.since), self.took);
        (self.from, self.since, self.took) = (upto, now, Duration::ZERO);
        // An end before the start of the step: the buffer has wrapped, or the journal has begun a file.
        let steps = u32::try_from(steps?).unwrap_or(u32::MAX);
        let is_busy = lasted <= shape.busy_step.saturating_mul(steps);
        self.is_slow = is_busy && (self.is_slow || took > shape.slow_step.saturating_mul(steps));
        (self.is_slow && !self.in_memory).then_some(done)
    }
}

impl WriteBehindQueue {
    /// Runs the thread's loop.
    fn run(&self) {
        let (mut held, mut held_bytes) = (VecDeque::new(), 0);
        while let Some(step) = self.next() {
            if let Some(file) = step.file.upgrade() {
                // An error is reported again by the next sync.
                let _comes_again = file.write_back(step.range.clone());
            }
            held_bytes += step.len();
            held.push_back(step);
            while held_bytes > self.bytes.load(Ordering::Relaxed)
                && let Some(oldest) = held.pop_front()
            {
                held_bytes -= oldest.len();
                self.release(&oldest);
            }
        }
    }

    /// Waits for the next step; `None` at the end.
    fn next(&self) -> Option<FlushRange> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.stop {
                return None;
            }
            if let Some(step) = waiting.steps.pop_front() {
                return Some(step);
            }
            waiting.wait(&self.wake);
        }
    }

    fn release(&self, step: &FlushRange) {
        if step.file.upgrade().is_some_and(|file| file.release(step.range.clone()).is_ok()) {
            self.released.fetch_add(step.len(), Ordering::Relaxed);
        }
    }
}

impl FlushRange {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk, OpenMode, SimDisk};
    use std::path::Path;
    use std::time::Duration;

    /// Steps of 100 bytes; every feed is busy, and every write is slow.
    const SHAPE: HotMemory =
        HotMemory { bytes: 300, step_bytes: 100, busy_step: Duration::MAX, slow_step: Duration::ZERO };
    /// Processor time of a write.
    const TOOK: Duration = Duration::from_millis(1);

    /// Start before all activity of the thread.
    const SLOW: WriteTimer = WriteTimer(Duration::ZERO);

    /// Waits until a file was written back and released up to these offsets.
    fn settle(disk: &SimDisk, path: &Path, upto: [u64; 2]) {
        let begun = Instant::now();
        let end = |ranges: &Vec<Range<u64>>| ranges.last().map_or(0, |range| range.end);
        while disk.early_and_released(path).unwrap().each_ref().map(end) != upto {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", disk.early_and_released(path));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn file(disk: &SimDisk, path: &Path) -> Arc<dyn DiskFile> {
        disk.open(path, OpenMode::CreateNew).unwrap()
    }

    #[test]
    fn the_newest_bytes_of_all_files_stay_and_older_ones_are_released_in_order() {
        let (disk, a, b) = (SimDisk::new(), Path::new("/a"), Path::new("/b"));
        let (first, second, mut behind) = (file(&disk, a), file(&disk, b), WriteBehind::new(SHAPE));
        behind.wrote(SLOW, Some(1), &first, 50);
        behind.wrote(SLOW, None, &second, 1010);
        for end in [90, 199, 200, 420] {
            behind.wrote(SLOW, Some(1), &first, end);
        }
        behind.wrote(SLOW, None, &second, 1290);
        behind.wrote(SLOW, None, &second, 1301);
        settle(&disk, b, [1300, 0]);
        assert_eq!(behind.released_bytes(), 400);
        drop(behind);
        let [early, released] = disk.early_and_released(a).unwrap();
        assert_eq!(early, [0..100, 100..200, 200..400]);
        assert_eq!(released, [0..100, 100..200, 200..400]);
        let [early, released] = disk.early_and_released(b).unwrap();
        assert_eq!((early, released), (vec![1000..1200, 1200..1300], vec![]));
    }

    #[test]
    fn a_wrap_begins_again_and_a_quiet_feed_is_not_followed() {
        let mut trail = FlushProgress::new(950, false, &SHAPE);
        assert_eq!(trail.wrote(1001, TOOK, &SHAPE), Some(900..1000));
        assert_eq!(trail.wrote(150, TOOK, &SHAPE), None, "it has wrapped");
        assert_eq!(trail.wrote(199, TOOK, &SHAPE), None);
        assert_eq!(trail.wrote(210, TOOK, &SHAPE), Some(100..200));
        let quiet = HotMemory { busy_step: Duration::ZERO, ..SHAPE };
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(trail.wrote(320, TOOK, &quiet), None);
        assert_eq!(trail.wrote(400, TOOK, &SHAPE), Some(300..400), "busy again, from there on");
        let quick = HotMemory { slow_step: TOOK * 2, ..SHAPE };
        assert_eq!(trail.wrote(500, TOOK, &quick), Some(400..500), "memory had to be looked for before");
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(trail.wrote(610, TOOK, &quiet), None);
        assert_eq!(trail.wrote(700, TOOK, &quick), None, "memory is at hand");
        assert_eq!(trail.wrote(750, TOOK, &quick), None);
        assert_eq!(trail.wrote(780, TOOK, &quick), None);
        assert_eq!(trail.wrote(800, TOOK, &quick), Some(700..800), "all writes of a step count");
        let mut in_memory = FlushProgress::new(0, true, &SHAPE);
        assert_eq!(in_memory.wrote(100, TOOK, &SHAPE), None);
    }

    #[test]
    fn removed_files_are_skipped_and_everything_may_stay_in_memory() {
        let (disk, path) = (SimDisk::new(), Path::new("/a"));
        let (gone, mut behind) = (file(&disk, Path::new("/gone")), WriteBehind::new(SHAPE));
        behind.wrote(SLOW, Some(1), &gone, 0);
        behind.wrote(SLOW, Some(1), &gone, 100);
        drop(gone);
        let other = file(&disk, path);
        behind.wrote(SLOW, Some(2), &other, 0);
        behind.wrote(SLOW, Some(2), &other, 500);
        settle(&disk, path, [500, 500]);
        behind.set_bytes(u64::MAX);
        behind.wrote(SLOW, Some(2), &other, 900);
        drop(behind);
        let first: Vec<_> = std::iter::once(0..500).collect();
        assert_eq!(disk.early_and_released(path).unwrap(), [first.clone(), first]);
    }
}
