//! Share of the processors for feeds while articles are filed as fast as the machine can.
//!
//! A feed is a position in the journal and may fall behind; a peer that feeds us must not be delayed. While
//! very many articles arrive, and go to many peers, the threads of feeds therefore rest after working, down
//! to a quarter of their time (decision 49). Tasks that send call [`CpuShare::rest`] between two pieces of
//! work.

use rustix::time::{ClockId, clock_gettime};
use site_base::lock::Leaf;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Articles a second that take a processor or more to file and to send here.
const FULL_SPEED_PER_S: u128 = 50_000;
/// Interval for measuring the rate of arrival.
const LOOK: Duration = Duration::from_millis(10);
/// Number of feeds for which a thread rests once as long as it has worked, and the most such rests. Fewer
/// feeds leave enough for filing without rests.
const FEEDS_PER_PAUSE: usize = 8;
const REST_TIMES_MAX: usize = 3;
/// Work after which a rest is worthwhile, and the most of it that counts, as others wait in the meantime.
const WORK_MIN: Duration = Duration::from_micros(200);
const WORK_MAX: Duration = Duration::from_millis(1);

thread_local! {
    /// CPU time of this thread at its last rest.
    static RESTED_AT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Whether feeds are limited to their share.
#[derive(Debug, Default)]
pub(super) struct CpuShare {
    is_limited: AtomicBool,
    feeds: AtomicUsize,
    last: Leaf<Option<(Instant, u64)>>,
}

impl CpuShare {
    /// Sets the number of feeds.
    pub fn among(&self, feeds: usize) {
        self.feeds.store(feeds, Ordering::Relaxed);
    }

    /// Pauses the calling thread, which does nothing but feed, if articles arrive too fast for it to have a
    /// processor. `sequence` returns the number of the next article.
    pub fn rest(&self, sequence: impl FnOnce() -> u64) {
        self.look(Instant::now(), sequence);
        if !self.is_limited.load(Ordering::Relaxed) {
            return;
        }
        let times = (self.feeds.load(Ordering::Relaxed) / FEEDS_PER_PAUSE).min(REST_TIMES_MAX) as u32;
        if times == 0 {
            return;
        }
        let taken = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let worked = taken.saturating_sub(RESTED_AT.get());
        if worked >= WORK_MIN {
            thread::sleep(worked.min(WORK_MAX) * times);
            RESTED_AT.set(taken);
        }
    }

    /// Measures the rate of arrival at intervals.
    fn look(&self, now: Instant, sequence: impl FnOnce() -> u64) {
        // Another thread may measure at the same moment.
        let since = |last: &Option<(Instant, u64)>| {
            last.map(|(at, before)| (now.saturating_duration_since(at), before))
        };
        let is_due = |last: &Option<(Instant, u64)>| since(last).is_none_or(|(since, _)| since >= LOOK);
        if !self.last.try_lock().is_some_and(|last| is_due(&last)) {
            return;
        }
        // Called without the lock, as the journal has one of its own.
        let sequence = sequence();
        let Some(mut last) = self.last.try_lock().filter(|last| is_due(last)) else { return };
        let since = since(&last);
        if let Some((since, before)) = since {
            let arrived = u128::from(sequence.saturating_sub(before));
            let is_full_speed = arrived * 1_000_000 >= FULL_SPEED_PER_S * since.as_micros();
            self.is_limited.store(is_full_speed, Ordering::Relaxed);
        }
        *last = Some((now, sequence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_are_limited_while_very_many_articles_arrive() {
        let (share, start) = (CpuShare::default(), Instant::now());
        let look = |ms: u64, sequence| {
            share.look(start + Duration::from_millis(ms), || sequence);
            share.is_limited.load(Ordering::Relaxed)
        };
        assert!(!look(0, 1_000_000), "nothing to compare with");
        assert!(!look(9, 2_000_000), "too soon to say");
        assert!(look(10, 1_000_500), "50,000 a second");
        assert!(look(19, 1_000_500), "still");
        assert!(!look(20, 1_000_999), "49,900 a second");
        assert!(!look(1_020, 1_001_500), "in a second");
    }

    #[test]
    fn a_thread_rests_three_quarters_of_the_time_if_there_are_many() {
        let share = CpuShare::default();
        share.among(70);
        share.is_limited.store(true, Ordering::Relaxed);
        *share.last.lock() = Some((Instant::now() + Duration::from_secs(3_600), 0));
        let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        RESTED_AT.set(cpu());
        let (begun, before) = (Instant::now(), cpu());
        while cpu() - before < Duration::from_millis(20) {
            share.rest(|| 0);
        }
        assert!(begun.elapsed() >= Duration::from_millis(70), "{:?}", begun.elapsed());
        share.among(FEEDS_PER_PAUSE - 1);
        let (begun, before) = (Instant::now(), cpu());
        while cpu() - before < Duration::from_millis(1) {
            share.rest(|| 0);
        }
        assert_eq!(RESTED_AT.get().max(before), before, "few feeds do not rest");
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}
