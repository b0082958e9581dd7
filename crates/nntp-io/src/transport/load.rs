//! Detection of the bottleneck: the processors of this machine, or a client's line.
//!
//! Called by [`super::deflate`], and by feeds before they open another connection.

use lock_order::Innermost;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for which a result is reused: some ticks of the system's clock of processor time for each processor.
const HOLDS: Duration = Duration::from_millis(100);
/// Idle percentage of the processors below which the machine becomes busy, and above which it is no longer
/// busy: being busy frees time.
const IDLE_BEGINS: u64 = 10;
const IDLE_ENDS: u64 = 40;

/// Load of the machine, measured again by a caller when it is old.
#[derive(Debug)]
pub struct MachineLoad {
    is_busy: AtomicBool,
    last: Innermost<LastMeasurement>,
}

#[derive(Debug)]
struct LastMeasurement {
    at: Instant,
    times: Option<ProcessorTimes>,
}

/// Processor time of the machine since its start, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProcessorTimes {
    all: u64,
    idle: u64,
    /// Time of programs of low priority.
    nice: u64,
    /// Time of this process, part of which may be at low priority too.
    own: u64,
}

impl Default for MachineLoad {
    fn default() -> Self {
        let last = LastMeasurement { at: Instant::now(), times: None };
        Self { is_busy: AtomicBool::new(false), last: Innermost::new(last) }
    }
}

impl MachineLoad {
    /// Returns whether all processors were busy a moment ago; false where the system does not report it.
    pub fn is_busy(&self, now: Instant) -> bool {
        if let Some(mut last) = self.last.try_lock()
            && (last.times.is_none() || now.saturating_duration_since(last.at) >= HOLDS)
        {
            let times = fs::read_to_string("/proc/stat").ok().and_then(|stat| ProcessorTimes::parse(&stat));
            let own = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| own_time(&stat));
            let times = times.map(|times| ProcessorTimes { own: own.unwrap_or(times.nice), ..times });
            if let (Some(before), Some(times)) = (last.times, times) {
                let limit = if self.is_busy.load(Ordering::Relaxed) { IDLE_ENDS } else { IDLE_BEGINS };
                self.is_busy.store(times.idle_since(before) < limit, Ordering::Relaxed);
            }
            *last = LastMeasurement { at: now, times: times.or(Some(ProcessorTimes::default())) };
        }
        self.is_busy.load(Ordering::Relaxed)
    }
}

impl ProcessorTimes {
    /// Parses the first line of `/proc/stat` (proc_stat(5)): `cpu user nice system idle iowait irq softirq
    /// steal ...`, in which time of guests is part of the first two.
    fn parse(stat: &str) -> Option<Self> {
        let mut fields = stat.lines().next()?.split_ascii_whitespace();
        if fields.next()? != "cpu" {
            return None;
        }
        let fields: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
        let idle = fields.get(3)?.saturating_add(*fields.get(4)?);
        let all = fields.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        Some(Self { all, idle, nice: *fields.get(1)?, own: 0 })
    }

    /// Returns the percentage of time since `before` that was idle, or of other programs at low priority.
    fn idle_since(self, before: Self) -> u64 {
        let own = self.own.saturating_sub(before.own);
        let gives_way = self.nice.saturating_sub(before.nice).saturating_sub(own);
        let idle = self.idle.saturating_sub(before.idle).saturating_add(gives_way);
        idle.saturating_mul(100).checked_div(self.all.saturating_sub(before.all)).unwrap_or(100)
    }
}

/// Returns the processor time of a process in ticks, from its `/proc/PID/stat` (proc_pid_stat(5)): `utime`
/// and `stime`, the twelfth and thirteenth field after the name in brackets.
fn own_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(times.next()?.saturating_add(times.next()?))
}

/// Speed of a client in reading its output.
#[derive(Debug, Default)]
pub(super) struct LineSpeed {
    /// Bytes since the last measurement.
    bytes: u64,
    looked: Option<Instant>,
    is_fast: bool,
}

/// Time between two measurements of a line.
const LOOK: Duration = Duration::from_millis(100);
/// Minimum speed of a line that is not its client's bottleneck, in compressed bytes a second: more than 4
/// Mbit/s.
const FAST_BYTES_PER_S: u64 = 512 << 10;

impl LineSpeed {
    /// Counts bytes that the client has accepted.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Returns whether the line was fast at the last measurement.
    pub(super) fn is_fast(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(*self.looked.get_or_insert(now));
        if since >= LOOK {
            let per_second = u128::from(self.bytes) * 1000 / since.as_millis().max(1);
            self.is_fast = per_second >= u128::from(FAST_BYTES_PER_S);
            (self.bytes, self.looked) = (0, Some(now));
        }
        self.is_fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fast_while_it_takes_much() {
        let (mut line, start) = (LineSpeed::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(!line.is_fast(at(0)), "nothing is known");
        line.sent(60 << 10);
        assert!(!line.is_fast(at(99)));
        assert!(line.is_fast(at(100)));
        line.sent(10 << 10);
        assert!(line.is_fast(at(199)));
        assert!(!line.is_fast(at(200)), "100 KiB a second");
        line.sent(600 << 10);
        assert!(!line.is_fast(at(1900)), "much, in a long time");
    }

    #[test]
    fn load_depends_on_idle_time() {
        let stat = "cpu  500 20 150 200 100 10 15 5 7 0\ncpu0 1 2 3 4 5\n";
        let (before, times) = (ProcessorTimes::default(), ProcessorTimes::parse(stat).unwrap());
        assert_eq!(times, ProcessorTimes { all: 1000, idle: 300, nice: 20, own: 0 });
        assert_eq!(times.idle_since(before), 32, "20 of others that give way");
        assert_eq!(ProcessorTimes { own: 15, ..times }.idle_since(before), 30);
        assert_eq!(ProcessorTimes { own: 99, ..times }.idle_since(before), 30, "of its own none gives way");
        let own = "7 (a (b) c) S 1 7 7 0 -1 4194304 1 2 3 4 120 30 5 6 20 0 1 0";
        assert_eq!((own_time(own), own_time("7 (x"), own_time("7 (x) S 1")), (Some(150), None, None));
        assert_eq!(times.idle_since(times), 100, "no time has passed");
        for bad in ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5", "cpu x 2 3 4 5 6"] {
            assert_eq!(ProcessorTimes::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn result_is_reused_for_a_moment() {
        let (load, start) = (MachineLoad::default(), Instant::now());
        assert!(!load.is_busy(start), "nothing to compare with");
        let taken = load.last.lock().times;
        load.is_busy(start + HOLDS / 2);
        assert_eq!(load.last.lock().at, start);
        load.is_busy(start + HOLDS);
        assert_eq!(load.last.lock().at, start + HOLDS);
        assert!(taken.is_some());
    }
}
