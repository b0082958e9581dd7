//! Jobs that one member of a cluster does at a time: feeding a peer.
//!
//! All members have the same peers configured. The member that holds the lease of a peer feeds it, and
//! records with the lease the time before which every article is settled. The next member starts there, so it
//! repeats only offers of later articles. Times of arrival are the log's, so they are the same on all
//! members.

use crate::running::Server;
use feeds::{FeedStartPoint, FeedStatus, OperatorOrder};
use site_base::clock::unix_secs;
use spool::JobLead;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{info, warn};

/// Interval at which leases are asked for.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Maximum difference between the clocks of the members and of the log.
const CLOCKS_SECS: u64 = 60;

/// Has each peer fed by one member, until the server stops; returns at once if the server is no member of a
/// cluster.
pub async fn keep_leading(server: Arc<Server>) {
    if server.site.spool.shared_log().is_none() {
        return;
    }
    let mut stopping = std::pin::pin!(server.site.stopping());
    let mut settled = BTreeMap::new();
    loop {
        block_in_place(|| lead_feeds(&server, &mut settled));
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(ASK_EVERY) => {}
        }
    }
}

/// Starts and stops feeds by their leases. `settled` has, for each peer that is fed here, the time before
/// which all of its articles are settled.
fn lead_feeds(server: &Server, settled: &mut BTreeMap<String, u64>) {
    let Some(log) = server.site.spool.shared_log() else { return };
    for peer in server.feeds.names() {
        let Some(status) = server.feeds.status(&peer) else { continue };
        let reached = settled.get(&peer).map_or(0, |before| settled_before(&status, *before, unix_secs()));
        match log.lead(&format!("feed.{peer}"), reached) {
            JobLead::Held => {
                settled.insert(peer, reached);
            }
            JobLead::Taken { reached } => {
                info!(peer, "fed by this member");
                let since = reached.map(|reached| reached.saturating_sub(CLOCKS_SECS));
                let from = since.map(|since| OperatorOrder::From(FeedStartPoint::Since(since)));
                from.into_iter().chain([OperatorOrder::Start]).for_each(|it| order(server, &peer, it));
                settled.insert(peer, since.unwrap_or_default());
            }
            JobLead::Elsewhere { .. } => {
                if settled.remove(&peer).is_some() {
                    info!(peer, "fed by another member");
                }
                order(server, &peer, OperatorOrder::Stop);
            }
        }
    }
}

fn order(server: &Server, peer: &str, order: OperatorOrder) {
    if let Some(Err(error)) = server.feeds.order(peer, order) {
        warn!(peer, %error, "cannot move the feed");
    }
}

/// Returns the time before which all articles of a feed are settled, which was `before` the last time.
fn settled_before(status: &FeedStatus, before: u64, now: u64) -> u64 {
    // What waits for another attempt keeps it back.
    let is_held_back = status.waiting > 0 || status.set_aside > 0;
    match (status.lag_bytes, status.lag_secs) {
        _ if is_held_back => before,
        (0, _) => before.max(now),
        // Not read yet.
        (_, 0) => before,
        (_, lag) => before.max(now.saturating_sub(lag)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_or_is_not_read_yet_keeps_the_settled_time_back() {
        let status = |lag_bytes, lag_secs, waiting| FeedStatus {
            lag_bytes,
            lag_secs,
            waiting,
            ..FeedStatus::default()
        };
        assert_eq!(settled_before(&status(0, 0, 0), 100, 900), 900);
        assert_eq!(settled_before(&status(5, 200, 0), 100, 900), 700);
        assert_eq!(settled_before(&status(5, 200, 0), 800, 900), 800, "it never goes back");
        assert_eq!(settled_before(&status(5, 0, 0), 100, 900), 100);
        assert_eq!(settled_before(&status(0, 0, 1), 100, 900), 100);
    }
}
