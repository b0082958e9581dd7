//! `newsreel expire`, and automatic expiry in a running server.

mod explain;
mod what_if;

pub(super) use explain::explain;
pub(super) use what_if::what_if;

use std::sync::Arc;
use std::time::Duration;

use spool::{ExpireReport, Spool};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::Sink;
use super::request::Reply;
use site_base::clock::unix_secs;
use site_base::units;

/// Shortest time between two passes of a running server.
const PAUSE_MIN: Duration = Duration::from_secs(600);
/// Interval of checks whether a class must give up articles for room.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time between two passes; bounds the delay for articles with a short Expires header.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Expires the articles that are due, or only reports how many would be.
pub(super) fn expire(spool: &Spool, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    match spool.expire(dry_run) {
        Ok(report) => {
            sink(Reply::Text(text(&report, dry_run)));
            true
        }
        Err(trouble) => {
            sink(Reply::Error(trouble.to_string()));
            false
        }
    }
}

fn text(report: &ExpireReport, dry_run: bool) -> String {
    let ExpireReport { looked_at, articles, numbers, bytes, capped, given_up, next_due, .. } = report;
    let verb = if dry_run { "would be expired" } else { "expired" };
    let mut text = format!(
        "{articles} of {} {verb}, with {} and {} as stored",
        units::counted(*looked_at, "article"),
        units::counted(*numbers, "article number"),
        units::about_size(*bytes)
    );
    if *capped > 0 {
        text += &format!("; {capped} of them because of articles_max or bytes_max");
    }
    if *given_up > 0 {
        text += &format!("; {given_up} of them given up because of free_min");
    }
    let now = unix_secs();
    if let Some(secs) = next_due.and_then(|due| due.checked_sub(now)) {
        text += &format!("; the next is due in {}", units::about_span(secs));
    }
    text
}

/// Expires as long as the server runs; aborted with its task, between two steps. `now` is notified when a
/// pass should begin at once.
pub async fn keep_expiring(spool: Arc<Spool>, now: Arc<Notify>) {
    let mut pause = PAUSE_MIN;
    // A pass that frees nothing is not repeated at once.
    let mut may_help = true;
    loop {
        await_pass(&spool, &now, pause, may_help).await;
        let own = spool.clone();
        pause = PAUSE_MAX;
        match tokio::task::spawn_blocking(move || own.expire_due(unix_secs())).await {
            Ok(Ok(report)) => {
                if report.numbers > 0 {
                    info!("expire: {}", text(&report, false));
                }
                may_help = report.articles > 0 || !report.is_short;
                if !may_help {
                    warn!("there is less room than free_min, and nothing that may be given up");
                }
                let now = unix_secs();
                let due = report.next_due.map(|due| Duration::from_secs(due.saturating_sub(now)));
                pause = due.unwrap_or(PAUSE_MAX).clamp(PAUSE_MIN, PAUSE_MAX);
            }
            Ok(Err(trouble)) => warn!(%trouble, "expiry failed"),
            Err(_) => return,
        }
    }
}

/// Waits until a pass is due: after `pause`, at a notice, or when room is short and a pass may help.
async fn await_pass(spool: &Arc<Spool>, now: &Notify, pause: Duration, may_help: bool) {
    let due = tokio::time::Instant::now() + pause;
    loop {
        let look = tokio::time::Instant::now() + LOOK_INTERVAL;
        tokio::select! {
            () = tokio::time::sleep_until(due.min(look)) => {}
            () = now.notified() => return,
        }
        if tokio::time::Instant::now() >= due {
            return;
        }
        let own = spool.clone();
        let is_short =
            may_help && tokio::task::spawn_blocking(move || own.is_short_of_room()).await.unwrap_or(false);
        if is_short {
            return;
        }
    }
}
