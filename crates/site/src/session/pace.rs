//! Timeouts of a session: long for the next command, short for the rest of one that has begun.
//!
//! The clock of a command line or an article starts when its first byte arrives, however long the client was
//! silent before. A command line must be complete within a fixed time, however slowly it comes; an article
//! may pause for no longer than that, and must come at a minimum rate, so that a client cannot hold memory by
//! sending an octet now and then. While the session is not reading, because it sends answers or waits for the
//! disk or for memory, no clock runs. Instants come from the caller. Called by the session's loop. Source:
//! guarantee G6; RFC 3977 section 3.1 (inactivity timers).

use super::expecting::ExpectedInput;
use super::input::WaitLimits;
use site_config::Limits;
use std::time::{Duration, Instant};

/// Average rate below which an arriving article is not waited for.
const ARTICLE_BYTES_PER_SEC_MIN: u64 = 1024;

/// Effect of a round on the receive buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// Bytes in the buffer when the round began.
    pub arrived: usize,
    /// Bytes that were handled.
    pub consumed: usize,
    /// A command or an article was completed, so that the remaining bytes began in this round.
    pub completed: bool,
}

/// The clocks of a session.
#[derive(Debug)]
pub(super) struct SessionTimers {
    idle_timeout: Duration,
    command_timeout: Duration,
    /// Time since which the session has been reading.
    reading: Instant,
    /// The command or article at hand; `None` until its first byte has arrived.
    begun: Option<UnfinishedInput>,
    /// Bytes in the buffer after the last round.
    left: usize,
    /// Latest end of any wait, once the server stops.
    last: Option<Instant>,
}

/// A command or an article of which some bytes have arrived.
#[derive(Debug, Clone, Copy)]
struct UnfinishedInput {
    at: Instant,
    bytes: u64,
}

impl SessionTimers {
    pub fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            idle_timeout: limits.idle_timeout,
            command_timeout: limits.command_timeout,
            reading: now,
            begun: None,
            left: 0,
            last: None,
        }
    }

    /// Applies other limits from now on.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.idle_timeout = limits.idle_timeout;
        self.command_timeout = limits.command_timeout;
    }

    /// Records a finished round whose answers are sent; `expecting` is the kind of the next bytes.
    pub fn heard(&mut self, round: Round, expecting: &ExpectedInput, now: Instant) {
        let fresh = round.arrived.saturating_sub(self.left) as u64;
        self.reading = now;
        self.left = round.arrived.saturating_sub(round.consumed);
        self.begun = match self.begun {
            _ if self.left == 0 && !expecting.is_skipping() => None,
            Some(begun) if !round.completed => Some(UnfinishedInput { bytes: begun.bytes + fresh, ..begun }),
            _ => Some(UnfinishedInput { at: now, bytes: self.left as u64 }),
        };
    }

    /// Records a time during which the session could not read for reasons of its own.
    pub fn paused(&mut self, pause: Duration) {
        self.reading += pause;
        if let Some(begun) = &mut self.begun {
            begun.at += pause;
        }
    }

    /// Returns the time when the command or article at hand began, if one has.
    pub fn begun(&self) -> Option<Instant> {
        self.begun.map(|begun| begun.at)
    }

    /// Makes all waits from now on end soon.
    pub fn hurry(&mut self, until: Instant) {
        self.last.get_or_insert(until);
    }

    /// Returns the limits of the wait for more input.
    pub fn until(&self, expecting: &ExpectedInput) -> WaitLimits {
        WaitLimits { deadline: self.deadline(expecting), heed_stop: self.last.is_none() }
    }

    /// Returns the time when a wait for more input ends.
    pub fn deadline(&self, expecting: &ExpectedInput) -> Instant {
        let deadline = match self.begun {
            None => self.reading + self.idle_timeout,
            Some(UnfinishedInput { at, bytes }) if expecting.is_article() => {
                let earned = Duration::from_secs(bytes / ARTICLE_BYTES_PER_SEC_MIN);
                (self.reading + self.command_timeout).min(at + self.command_timeout + earned)
            }
            Some(UnfinishedInput { at, .. }) => at + self.command_timeout,
        };
        self.last.map_or(deadline, |last| last.min(deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::expecting::ArticleCommand;

    /// A session's clocks, and a clock for the test; times in seconds since the start.
    struct Clock {
        pace: SessionTimers,
        start: Instant,
    }

    impl Clock {
        fn new() -> Self {
            let limits = Limits {
                idle_timeout: Duration::from_secs(600),
                command_timeout: Duration::from_secs(60),
                ..site_config::testing::with_trash("").limits
            };
            let start = Instant::now();
            Self { pace: SessionTimers::new(&limits, start), start }
        }

        fn at(&self, secs: u64) -> Instant {
            self.start + Duration::from_secs(secs)
        }

        /// Handles a round that leaves something unfinished, or nothing.
        fn heard(&mut self, secs: u64, expecting: &ExpectedInput, arrived: usize, consumed: usize) {
            let round = Round { arrived, consumed, completed: consumed > 0 };
            self.pace.heard(round, expecting, self.at(secs));
        }

        fn deadline(&self, expecting: &ExpectedInput) -> u64 {
            (self.pace.deadline(expecting) - self.start).as_secs()
        }
    }

    fn post() -> ExpectedInput {
        ExpectedInput::Article { way: ArticleCommand::Post, head: 0, resume_from: 0 }
    }

    #[test]
    fn the_clock_of_a_line_starts_at_its_first_byte() {
        for expecting in [ExpectedInput::Command, ExpectedInput::SaslResponse] {
            let mut clock = Clock::new();
            assert_eq!(clock.deadline(&expecting), 600);
            clock.heard(10, &expecting, 6, 6);
            assert_eq!(clock.deadline(&expecting), 610);
            // The next line comes after a long silence, in two segments.
            clock.heard(500, &expecting, 3, 0);
            assert_eq!(clock.deadline(&expecting), 560);
            clock.heard(559, &expecting, 6, 6);
            assert_eq!(clock.deadline(&expecting), 1159);
        }
    }

    #[test]
    fn the_clock_of_an_article_starts_at_its_first_byte() {
        // TAKETHIS: the command line is kept in the buffer.
        let mut clock = Clock::new();
        let takethis = ExpectedInput::article_behind(30);
        clock.heard(500, &takethis, 80, 0);
        assert_eq!(clock.deadline(&takethis), 560);
        // POST: after 340 the client has as much time as after any other answer.
        clock.heard(510, &post(), 100, 100);
        assert_eq!(clock.deadline(&post()), 1110);
        clock.heard(1100, &post(), 2000, 0);
        assert_eq!(clock.deadline(&post()), 1160);
        clock.heard(1150, &post(), 2100, 0);
        assert_eq!(clock.deadline(&post()), 1162);
    }

    #[test]
    fn discarded_articles_are_timed_from_their_first_byte() {
        let mut clock = Clock::new();
        clock.heard(500, &ExpectedInput::LineEnd, 700, 700);
        assert_eq!(clock.deadline(&ExpectedInput::LineEnd), 560);
        for secs in 501..560 {
            let round = Round { arrived: 1, consumed: 1, completed: false };
            clock.pace.heard(round, &ExpectedInput::LineEnd, clock.at(secs));
            assert_eq!(clock.deadline(&ExpectedInput::LineEnd), 560);
        }
    }

    #[test]
    fn slow_input_earns_no_time() {
        let mut clock = Clock::new();
        for arrived in 1..60 {
            clock.heard(arrived as u64, &ExpectedInput::Command, arrived, 0);
            assert_eq!(clock.deadline(&ExpectedInput::Command), 61);
        }
        let mut clock = Clock::new();
        for arrived in 1..60 {
            clock.heard(arrived as u64, &post(), arrived, 0);
            assert_eq!(clock.deadline(&post()), 61);
        }
        // Bytes at the minimum rate earn time, but no longer pauses.
        clock.heard(60, &post(), 1 << 20, 0);
        assert_eq!(clock.deadline(&post()), 120);
        for secs in 61..1085 {
            clock.heard(secs, &post(), 1 << 20, 0);
            assert_eq!(clock.deadline(&post()), (secs + 60).min(61 + 1024));
        }
    }

    #[test]
    fn no_clock_runs_while_the_session_does_not_read() {
        let mut clock = Clock::new();
        clock.heard(1, &post(), 20_000, 0);
        clock.pace.paused(Duration::from_secs(300));
        clock.heard(302, &post(), 30_000, 0);
        assert_eq!(clock.deadline(&post()), 362);
        clock.pace.hurry(clock.at(310));
        assert_eq!(clock.deadline(&post()), 310);
        assert!(!clock.pace.until(&post()).heed_stop);
    }
}
