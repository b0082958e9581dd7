//! Refused connections in the log: enough lines to see who is trying, never a flood.
//!
//! A stranger's address is logged once a minute, and at most [`LINES_MAX`] lines are written for all of them
//! together; omitted ones are counted in the next line. Called by `server` for connections over NNTP.

use site_base::lock::Leaf;
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// Time during which one line stands for all refusals of an address.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of lines in such a period.
const LINES_MAX: usize = 30;

/// The reason why a connection was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// No `[[peer]]` and no `[[access]]` section matches the client.
    Unknown,
    /// The server is about to stop.
    Draining,
    /// A limit is reached; its description.
    Full(String),
}

impl fmt::Display for ConnectionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no [[peer]] or [[access]] section is for this address"),
            Self::Draining => f.write_str("the server is being drained"),
            Self::Full(reason) => f.write_str(reason),
        }
    }
}

/// Refusals of the current period.
#[derive(Debug, Default)]
pub struct RefusalLog(Leaf<RefusalPeriod>);

#[derive(Debug, Default)]
struct RefusalPeriod {
    begun: Option<Instant>,
    logged: HashSet<IpAddr>,
    left_out: u64,
}

impl RefusalLog {
    /// Logs a refusal, unless there are too many.
    pub fn log(&self, address: IpAddr, why: &ConnectionRefusal) {
        match self.0.lock().count(address, Instant::now()) {
            Some(left_out) => info!(%address, %why, left_out, "connection refused"),
            None => debug!(%address, %why, "connection refused"),
        }
    }
}

impl RefusalPeriod {
    /// Returns the number of refusals omitted before this one, if this one is to be logged.
    fn count(&mut self, address: IpAddr, now: Instant) -> Option<u64> {
        if self.begun.is_none_or(|begun| now.duration_since(begun) >= PERIOD) {
            (self.begun, self.logged) = (Some(now), HashSet::new());
        }
        if self.logged.len() >= LINES_MAX || !self.logged.insert(address) {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_once_a_minute_for_each_address_and_never_in_floods() {
        let (mut period, now) = (RefusalPeriod::default(), Instant::now());
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        assert_eq!(period.count(address(1), now), Some(0));
        assert_eq!(period.count(address(1), now), None);
        assert_eq!(period.count(address(2), now), Some(1));
        let flood = (3..200).filter_map(|n| period.count(address(n), now));
        assert_eq!(flood.count(), LINES_MAX - 2);
        assert_eq!(period.count(address(1), now + PERIOD), Some(197 - (LINES_MAX as u64 - 2)));
    }
}
