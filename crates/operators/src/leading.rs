//! Jobs that one member of a cluster does at a time: feeding a peer.
//!
//! All members have the same peers configured. The member that holds the lease of a peer feeds it, and
//! records with the lease the time before which every article is settled. The next member starts there, so it
//! repeats only offers of later articles. Times of arrival are the log's, so they are the same on all
//! members.

use crate::running::Server;
use crate::trailing::job_time;
use feeds::{FeedStartPoint, OperatorOrder};
use spool::{JobLead, TailStart, settled_time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{info, warn};

/// Interval at which leases are asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of times that are noted, which is those of some two hours at the most.
const TIMES_MAX: usize = 8_192;

/// Has each peer fed by one member, until the server stops; returns at once if the server is no member of a
/// cluster.
pub async fn keep_leading(server: Arc<Server>) {
    if server.site.spool.shared_log().is_none() {
        return;
    }
    let mut stopping = std::pin::pin!(server.site.stopping());
    let (mut settled, mut times) = (BTreeMap::new(), NotedTimes::default());
    loop {
        block_in_place(|| lead_feeds(&server, &mut settled, &mut times));
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(ASK_EVERY) => {}
        }
    }
}

/// Returns the name of the job of feeding a peer.
pub(crate) fn feed_job(peer: &str) -> String {
    format!("feed.{peer}")
}

/// Times of the log, each with the end of the journal at that time: whatever arrived before the time is
/// before that position.
#[derive(Debug, Default)]
struct NotedTimes(VecDeque<(u64, u64)>);

impl NotedTimes {
    /// Notes a time, and where the journal ended when the log had just come to it.
    fn note(&mut self, time: u64, end: u64) {
        if self.0.back().is_none_or(|(last, _)| *last < time) {
            self.0.push_back((time, end));
            if self.0.len() > TIMES_MAX {
                self.0.pop_front();
            }
        }
    }

    /// Returns the last time of which everything is before a position.
    fn before(&self, position: u64) -> Option<u64> {
        let count = self.0.partition_point(|(_, end)| *end <= position);
        self.0.get(count.checked_sub(1)?).map(|(time, _)| *time)
    }
}

/// Starts and stops feeds by their leases. `settled` has, for each peer that is fed here, the time before
/// which all of its articles are settled. Times are those that the log gives to articles, as clocks may be
/// wrong.
fn lead_feeds(server: &Server, settled: &mut BTreeMap<String, u64>, times: &mut NotedTimes) {
    let spool = &server.site.spool;
    let Some(log) = spool.shared_log() else { return };
    // The time first: what is filed until the end is looked at is then taken to be older than it is.
    let time = job_time(spool);
    match spool.journal().mark(TailStart::Now) {
        Ok(end) => times.note(time, end.position),
        Err(error) => warn!(%error, "cannot see where the journal ends"),
    }
    for peer in server.feeds.names() {
        let settled_now = |before: &u64| {
            let now = server.feeds.settled(&peer).and_then(|position| times.before(position));
            now.map_or(*before, |now| settled_time(*before, now, None))
        };
        let reached = settled.get(&peer).map_or(0, settled_now);
        match log.lead(&feed_job(&peer), reached) {
            JobLead::Held => {
                // A feed that a reload has made again, or that paused while this member's clock was wrong.
                if server.feeds.is_elsewhere(&peer) {
                    order(server, &peer, OperatorOrder::Here);
                }
                settled.insert(peer, reached);
            }
            JobLead::Taken { reached } => {
                info!(peer, "fed by this member");
                let from = reached.map(|since| OperatorOrder::From(FeedStartPoint::Since(since)));
                from.into_iter().chain([OperatorOrder::Here]).for_each(|it| order(server, &peer, it));
                settled.insert(peer, reached.unwrap_or_default());
            }
            JobLead::Elsewhere { .. } => {
                if settled.remove(&peer).is_some() {
                    info!(peer, "fed by another member");
                }
                order(server, &peer, OperatorOrder::Elsewhere);
            }
        }
    }
}

fn order(server: &Server, peer: &str, order: OperatorOrder) {
    if let Some(Err(error)) = server.feeds.order(peer, order) {
        warn!(peer, %error, "cannot move the feed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_settled_up_to_a_time_of_the_log_of_which_all_is_before_its_place_in_the_journal() {
        let mut times = NotedTimes::default();
        assert_eq!(times.before(900), None);
        for (time, end) in [(100, 10), (100, 20), (101, 30), (101, 30), (99, 30), (500, 30), (501, 70)] {
            times.note(time, end);
        }
        // Articles of time 100 may be anywhere after 10.
        assert_eq!((times.before(9), times.before(10), times.before(29)), (None, Some(100), Some(100)));
        assert_eq!((times.before(30), times.before(69), times.before(70)), (Some(500), Some(500), Some(501)));
        for time in 0..2 * TIMES_MAX as u64 {
            times.note(1_000 + time, 100 + time);
        }
        assert_eq!(times.0.len(), TIMES_MAX);
        assert_eq!(times.before(99), None, "it is not known any more");
    }
}
