//! How long a session waits: for the next command long, for the rest of one begun not.
//!
//! A command line must be whole within a time, however it dribbles in; an article may pause for no longer, and must
//! come at a least rate, so that nobody can hold memory by sending an octet now and then. Called by the session's loop.
//! Source: guarantee G6; RFC 3977 section 3.1 (inactivity timers).

use super::input::Until;
use super::rounds::Expecting;
use crate::config::Limits;
use std::time::{Duration, Instant};

/// Slower than so many bytes per second, on average, an article is not waited for.
const ARTICLE_BYTES_PER_SEC_MIN: u64 = 1024;

/// What has been heard, and when.
#[derive(Debug)]
pub(super) struct Pace {
    idle_timeout: Duration,
    command_timeout: Duration,
    /// When anything was heard last.
    heard: Instant,
    /// When the command or article at hand began, and what arrived since then.
    begun: Instant,
    bytes: u64,
    /// Bytes in the buffer after the last round.
    left: usize,
    /// No wait goes beyond this: the server stops.
    last: Option<Instant>,
}

impl Pace {
    pub fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            idle_timeout: limits.idle_timeout,
            command_timeout: limits.command_timeout,
            heard: now,
            begun: now,
            bytes: 0,
            left: 0,
            last: None,
        }
    }

    /// A round is over: of `arrived` bytes in the buffer `consumed` were done with.
    pub fn heard(&mut self, expecting: &Expecting, arrived: usize, consumed: usize) {
        self.heard = Instant::now();
        let fresh = arrived.saturating_sub(self.left) as u64;
        self.left = arrived.saturating_sub(consumed);
        if consumed > 0 && !expecting.is_skipping() {
            self.begun = self.heard;
            self.bytes = self.left as u64;
        } else {
            self.bytes += fresh;
        }
    }

    /// Waits from now on end soon, whatever comes.
    pub fn hurry(&mut self, grace: Duration) {
        self.last.get_or_insert(Instant::now() + grace);
    }

    /// How long to wait with `unfinished` bytes in the buffer.
    pub fn until(&self, expecting: &Expecting, unfinished: usize) -> Until {
        Until { deadline: self.deadline(expecting, unfinished), heed_stop: self.last.is_none() }
    }

    /// When a wait with `unfinished` bytes in the buffer ends.
    pub fn deadline(&self, expecting: &Expecting, unfinished: usize) -> Instant {
        let deadline = if expecting.is_article() {
            let earned = Duration::from_secs(self.bytes / ARTICLE_BYTES_PER_SEC_MIN);
            (self.heard + self.command_timeout).min(self.begun + self.command_timeout + earned)
        } else if unfinished > 0 || expecting.is_skipping() {
            self.begun + self.command_timeout
        } else {
            self.heard + self.idle_timeout
        };
        self.last.map_or(deadline, |last| last.min(deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dribbling_earns_no_time() {
        let limits = Limits {
            connections_max: 1,
            connections_per_address_max: 1,
            idle_timeout: Duration::from_secs(600),
            command_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
        };
        let mut pace = Pace::new(&limits);
        let start = pace.begun;
        let after = |deadline: Instant| (deadline - start).as_secs();
        assert_eq!(after(pace.deadline(&Expecting::Command, 0)), 600);
        for arrived in 1..100 {
            pace.heard(&Expecting::Command, arrived, 0);
            assert_eq!(after(pace.deadline(&Expecting::Command, arrived)), 60);
        }
        let article = Expecting::article_behind(0);
        for arrived in 100..1000 {
            pace.heard(&article, arrived, 0);
            assert_eq!(after(pace.deadline(&article, arrived)), 60);
        }
        pace.heard(&article, 1 << 20, 0);
        assert!(after(pace.begun + Duration::from_secs(60 + 1024)) >= 1084);
        pace.heard(&Expecting::Command, 1 << 20, 1 << 20);
        assert!(pace.deadline(&Expecting::Command, 0) >= start + Duration::from_secs(600));
        pace.hurry(Duration::from_secs(5));
        assert!(pace.deadline(&Expecting::Command, 0) <= Instant::now() + Duration::from_secs(5));
    }
}
