//! `newsreel cluster drain`: a server takes no new connections, waits for those it has, and stops.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::Sink;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use site_base::units::counted;
use std::time::{Duration, Instant};
use tracing::warn;

/// Interval at which connections are counted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Take no new connections, wait for those that are open, and stop; answered by [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainOperation {
    /// Longest wait for connections, in seconds.
    pub wait_secs: u64,
}

impl Operation for DrainOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let site = &server.site;
        warn!(wait_secs = self.wait_secs, "draining: no new connections are taken, then the server stops");
        site.drain();
        // So that the other members do not retire meanwhile.
        site.spool.shared_log().into_iter().for_each(|log| log.retire());
        let (begun, wait_max) = (Instant::now(), Duration::from_secs(self.wait_secs));
        while site.permits.all() > 0 && begun.elapsed() < wait_max && !site.is_stopping() {
            std::thread::sleep(LOOK_EVERY);
        }
        let left = site.permits.all() as u64;
        let ended = match left {
            0 => "all connections have ended".to_owned(),
            left => format!("{} ended now", counted(left, "connection")),
        };
        sink(Reply::Text(format!("drained: {ended}, and the server stops")));
        // As by an operator's signal: sessions end after their command, feeds and leases after them.
        let stopped = kill_process(getpid(), Signal::TERM);
        if let Err(error) = &stopped {
            sink(Reply::Error(format!("the server cannot stop itself: {error}")));
        }
        stopped.is_ok()
    }
}
