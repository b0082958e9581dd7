//! The clock of this machine, compared with those of the log's nodes and of other members: while it is wrong
//! nothing is proposed here, as an article's age and what is due to expire are judged by it.

use cluster::EngineTable;
use cluster::clocks::CLOCK_SECS_MAX;
use cluster::members::wrong_clock;
use lock_order::Innermost;
use site_base::clock::unix_secs;
use std::time::Instant;
use tracing::{info, warn};

/// What is known of the time.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// The right time, in Unix seconds, when it was known last; in between the clock may jump.
    known: Innermost<Option<(i64, Instant)>>,
}

impl ClockWatch {
    /// Compares the clocks, and reports a change.
    pub fn compare(&self, table: &dyn EngineTable, member: &str) {
        // What cannot be compared now is known from the last time.
        let Ok(wrong) = wrong_clock(table, member, unix_secs) else { return };
        let was_wrong = self.ahead_secs().is_some();
        *self.known.lock() = Some((own_time().saturating_sub(wrong.unwrap_or_default()), Instant::now()));
        match wrong {
            Some(ahead) if !was_wrong => warn!("{}", describe(ahead)),
            None if was_wrong => info!("the clock of this machine is right again"),
            _ => {}
        }
    }

    /// Returns why nothing may be proposed now; `None` if the clock is right.
    pub fn fault(&self) -> Option<String> {
        self.ahead_secs().map(describe)
    }

    /// Returns by how many seconds the clock is ahead of what it should be, if that is more than it may be.
    fn ahead_secs(&self) -> Option<i64> {
        let (right, at) = (*self.known.lock())?;
        let passed = i64::try_from(at.elapsed().as_secs()).unwrap_or(i64::MAX);
        let ahead = own_time().saturating_sub(right.saturating_add(passed));
        (ahead.abs() > CLOCK_SECS_MAX).then_some(ahead)
    }
}

fn own_time() -> i64 {
    i64::try_from(unix_secs()).unwrap_or(i64::MAX)
}

fn describe(ahead: i64) -> String {
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    format!(
        "the clock of this machine is {} s {side} those of the log and of the other members: set it right; until then \
         nothing is accepted here, and readers are served",
        ahead.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_clock_that_jumps_is_noticed_at_once() {
        let watch = ClockWatch::default();
        assert_eq!(watch.fault(), None, "nothing is known yet");
        let before = Instant::now() - Duration::from_secs(5);
        *watch.known.lock() = Some((own_time() - 5, before));
        assert_eq!(watch.fault(), None);
        *watch.known.lock() = Some((own_time() - 31_622_405, before));
        let fault = watch.fault().unwrap();
        assert!(
            fault.contains("is 31622400 s ahead of") || fault.contains("is 31622399 s ahead of"),
            "{fault}"
        );
        *watch.known.lock() = Some((own_time() + 95, before));
        let fault = watch.fault().unwrap();
        assert!(fault.contains("s behind those of"), "{fault}");
    }
}
