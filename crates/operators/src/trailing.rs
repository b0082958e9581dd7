//! Positions in the journal by time, for work along the journal that another member of the cluster does.
//!
//! Journals of members differ, so a position in one means nothing to another member. The member that does the
//! work therefore publishes a time before which everything is done; the one that continues starts at a
//! position that it has recorded before that time.

use site_base::clock::unix_secs;
use spool::{JobLead, JournalMark, Spool, TailStart};
use std::collections::VecDeque;
use std::io;

/// Interval at which positions are recorded.
const NOTE_EVERY_SECS: u64 = 10;
/// Maximum number of recorded positions, which is those of about two days.
const MARKS_MAX: usize = 16_384;
/// Seconds by which a time may be older than what it was noted with.
const CLOCKS_SECS: u64 = 60;

/// Returns the time that work along the journal goes by, in Unix seconds: in a cluster that of the log, which
/// articles have and all members share, whatever the clock of this machine says.
pub(crate) fn job_time(spool: &Spool) -> u64 {
    spool.shared_log().map_or_else(unix_secs, |log| log.status().time)
}

/// Positions recorded while another member does the work, oldest first.
#[derive(Debug, Default)]
pub(crate) struct TrailingMarks(VecDeque<(u64, JournalMark)>);

impl TrailingMarks {
    /// Records the end of the journal at a time, in Unix seconds, unless one was recorded shortly before.
    pub fn note(&mut self, now: u64, end: impl FnOnce() -> io::Result<JournalMark>) -> io::Result<()> {
        if self.0.back().is_none_or(|(last, _)| now.saturating_sub(*last) >= NOTE_EVERY_SECS) {
            self.0.push_back((now, end()?));
            if self.0.len() > MARKS_MAX {
                self.0.pop_front();
            }
        }
        Ok(())
    }

    /// Returns the last recorded end of the journal before a time, less the difference that clocks may have;
    /// removes the older ones.
    pub fn before(&mut self, time: u64) -> Option<JournalMark> {
        let is_before = |(noted, _): &(u64, JournalMark)| noted + CLOCKS_SECS <= time;
        let count = self.0.iter().take_while(|place| is_before(place)).count();
        self.0.drain(..count.saturating_sub(1));
        self.0.front().filter(|place| is_before(place)).map(|(_, mark)| *mark)
    }
}

/// A reader of the journal whose work one member of a cluster does.
#[derive(Debug)]
pub(crate) struct SharedJournalWork {
    job: String,
    /// Time before which everything is done here; 0: not known yet.
    settled: u64,
    marks: TrailingMarks,
}

/// What a member is to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkTurn {
    /// The work, from where it is.
    Work,
    /// Nothing: another member does the work, and has done everything before this position.
    Wait(Option<JournalMark>),
}

impl SharedJournalWork {
    /// Creates the work of this name.
    pub fn of(job: String) -> Self {
        Self { job, settled: 0, marks: TrailingMarks::default() }
    }

    /// Notes that everything that was in the journal at a time of [`job_time`] is done.
    pub fn settle(&mut self, before: u64) {
        self.settled = self.settled.max(before);
    }

    /// Asks whether this member does the work. Blocks for a moment at most.
    pub fn turn(&mut self, spool: &Spool) -> io::Result<WorkTurn> {
        let Some(log) = spool.shared_log() else { return Ok(WorkTurn::Work) };
        let JobLead::Elsewhere { reached } = log.lead(&self.job, self.settled) else {
            return Ok(WorkTurn::Work);
        };
        // Until the job has been done once, nothing is known to be done.
        self.marks.note(log.status().time, || spool.journal().mark(TailStart::Now))?;
        Ok(WorkTurn::Wait(self.marks.before(reached.unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(position: u64) -> JournalMark {
        JournalMark { position, sequence: None }
    }

    #[test]
    fn the_next_member_continues_where_the_journal_ended_before_everything_was_done() {
        let mut marks = TrailingMarks::default();
        for now in 1_000..1_100 {
            marks.note(now, || Ok(mark(now))).unwrap();
        }
        assert_eq!(marks.0.len(), 10);
        assert_eq!(marks.before(0), None);
        assert_eq!(marks.before(1_059), None, "clocks may differ by a minute");
        assert_eq!(marks.before(1_105), Some(mark(1_040)));
        assert_eq!(marks.before(1_105), Some(mark(1_040)));
        assert_eq!(marks.0.len(), 6);
        assert_eq!(marks.before(9_999), Some(mark(1_090)));
    }
}
