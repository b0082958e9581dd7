//! `newsreel expire`, and the same by itself once in a while in a running server.

use std::sync::Arc;
use std::time::Duration;

use spool::{ExpireReport, Spool};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::Sink;
use super::request::Reply;
use crate::base::clock::unix_secs;
use crate::base::units;

/// Shortest time between two passes of a running server.
const PAUSE_MIN: Duration = Duration::from_secs(600);
/// Longest: articles that came with a short Expires header may be noticed this late.
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
    let ExpireReport { looked_at, articles, numbers, bytes, next_due } = report;
    let verb = if dry_run { "would be expired" } else { "expired" };
    let mut text = format!(
        "{articles} of {} {verb}, with {} and {} as stored",
        units::counted(*looked_at, "article"),
        units::counted(*numbers, "article number"),
        units::about_size(*bytes)
    );
    let now = unix_secs();
    if let Some(secs) = next_due.and_then(|due| due.checked_sub(now)) {
        text += &format!("; the next is due in {}", units::about_span(secs));
    }
    text
}

/// Expires for as long as the server runs; aborted with its task, between two steps.
/// `now` is notified when a pass should begin at once.
pub(crate) async fn keep_expiring(spool: Arc<Spool>, now: Arc<Notify>) {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = now.notified() => {}
        }
        let own = spool.clone();
        pause = PAUSE_MAX;
        match tokio::task::spawn_blocking(move || own.expire(false)).await {
            Ok(Ok(report)) => {
                if report.numbers > 0 {
                    info!("expire: {}", text(&report, false));
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
