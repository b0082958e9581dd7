//! `newsreel expire`, and automatic expiry in a running server.

mod explain;
mod what_if;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use site_log::SiteLog;
use spool::{ArticleIdent, Change, ChangeMaker as _, DueArticle, ExpireReport, Spool, SpoolTrouble};
use tokio::sync::Notify;
use tracing::{info, warn};

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use clap::Args;
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;
use site_base::units;

/// Shortest time between two passes of a running server.
const PAUSE_MIN: Duration = Duration::from_secs(600);
/// Interval of checks whether a class must give up articles for room.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// The job of expiry in a cluster.
const JOB: &str = "expiry";
/// Articles that leave with one message to the log of a cluster.
const CHANGES_AT_ONCE: usize = 500;
/// Longest time between two passes; bounds the delay for articles with a short Expires header.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Delete expired articles, or show when articles go
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Delete the articles that have expired by the [[expire]] rules, in classes with files (not cyclic \
    buffers). A running server does so by itself at least once an hour.\n\n\
    With --explain: show when an article goes and why, also one in a cyclic buffer. With --what-if: show what the \
    [[expire]] rules of another configuration file would delete, for each of its sections; nothing is deleted, and \
    a running server is not affected."
)]
#[command(after_long_help = "Examples:\n  newsreel expire --explain '<1993Apr5.012345@example.org>'\n  \
    newsreel expire --what-if shorter.toml --days 30")]
pub struct ExpireOperation {
    /// Only show what would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Show when this article goes, and why
    #[arg(long, value_name = "MESSAGE-ID", conflicts_with_all = ["dry_run", "what_if"])]
    pub explain: Option<String>,
    /// Show what the rules of this configuration file would delete
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub what_if: Option<PathBuf>,
    /// Contents of the file.
    #[arg(skip)]
    pub text: Option<String>,
    /// With --what-if: also show what would be removed within N days
    #[arg(long, value_name = "N", requires = "what_if", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: Option<u32>,
    /// With --what-if: print JSON
    #[arg(long, requires = "what_if")]
    #[serde(skip)]
    pub json: bool,
}

impl Operation for ExpireOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let spool = site.spool();
        if let Some(message_id) = &self.explain {
            return explain::explain(spool, message_id, sink);
        }
        match &self.what_if {
            Some(file) => {
                what_if::what_if(spool, file, self.text.as_deref().unwrap_or_default(), self.days, sink)
            }
            None => expire(&site.log(), self.dry_run, sink),
        }
    }
}

/// Expires the articles that are due, or only reports how many would be.
fn expire(log: &SiteLog, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let is_shared = !dry_run && log.spool().shared_log().is_some();
    let done =
        if is_shared { expire_for_all(log) } else { log.spool().expiry().expire(unix_secs(), dry_run) };
    match done {
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
pub async fn keep_expiring(log: Arc<SiteLog>, now: Arc<Notify>) {
    let mut pause = PAUSE_MIN;
    // A pass that frees nothing is not repeated at once.
    let mut may_help = true;
    loop {
        await_pass(log.spool(), &now, pause, may_help).await;
        let own = log.clone();
        pause = PAUSE_MAX;
        match tokio::task::spawn_blocking(move || pass(&own)).await {
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

/// Runs a pass; as a member of a cluster, if this one does so for all.
fn pass(log: &SiteLog) -> Result<ExpireReport, SpoolTrouble> {
    let now = unix_secs();
    if log.spool().shared_log().is_none() {
        return log.spool().expiry().expire_due(now);
    }
    let done = if log.spool().leads(JOB) { expire_for_all(log) } else { Ok(ExpireReport::default()) };
    // Another member may have to do it by then.
    done.map(|report| ExpireReport { next_due: Some(now), ..report })
}

/// Returns the change by which an article leaves the groups in which it is due.
fn leaving(due: &DueArticle) -> Change<'_> {
    Change::Expire { id: ArticleIdent::Key(due.key), groups: &due.groups }
}

/// Has the articles that are due leave at all members of a cluster.
fn expire_for_all(log: &SiteLog) -> Result<ExpireReport, SpoolTrouble> {
    let mut report = ExpireReport::default();
    for some in log.spool().expiry().due(unix_secs())?.chunks(CHANGES_AT_ONCE) {
        report.looked_at += some.len() as u64;
        let left = log.change_each(some.iter().map(leaving))?;
        for (due, _) in some.iter().zip(left).filter(|(_, has_left)| *has_left) {
            report.articles += 1;
            report.numbers += due.groups.len() as u64;
        }
    }
    Ok(report)
}

/// Waits until a pass is due: after `pause`, at a notice, or when room is short and a pass may help.
async fn await_pass(spool: &Spool, now: &Notify, pause: Duration, may_help: bool) {
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
        if may_help && tokio::task::block_in_place(|| spool.expiry().is_short_of_room()) {
            return;
        }
    }
}
