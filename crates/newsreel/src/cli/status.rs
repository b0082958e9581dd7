//! `status`: state of the server and its spool.

mod feed_tables;
mod spool_tables;
#[cfg(test)]
mod tests;

pub(super) use spool_tables::{buffers_text, classes_text};

use super::archive;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, complain, problem, say, say_json};
use super::table::Columns;
use super::typed::TypedOperation;
use feed_tables::feeds_text;
use operators::reply::Reply;
use operators::report::{
    BatchesStatus, CacheCounts, CacheStatus, FilterStatus, MemberFigures, PullStatus, Report, ServerStatus,
    SpamCheckStatus, SpamSource, UpstreamStatus,
};
use operators::status::StatusOperation;
use site_base::clock::unix_secs;
use site_base::units::{about_size, about_span, counted, grouped};
use spool_tables::{kept_text, readers_text, spool_text};

/// Sources of refused articles that are shown, of each kind.
const SOURCES_SHOWN: usize = 5;

impl TypedOperation for StatusOperation {
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        let json = self.json;
        let mut report = None;
        let ok = reach::ask_at(at, self, &mut |reply| match reply {
            Reply::Status(told) => report = Some(told),
            Reply::Error(text) => complain(format_args!("newsreel: {text}")),
            _ => {}
        })?;
        let Some(report) = report else {
            return Err(if ok { problem("the server sent no status") } else { CliError::Told });
        };
        if json {
            say_json(&report)?;
        } else {
            say(text(&report, unix_secs()))?;
        }
        let is_well = report.spool.stopped.is_none() && report.spool.unopened.is_none();
        if is_well { Ok(()) } else { Err(CliError::Told) }
    }
}

fn text(report: &Report, now: u64) -> String {
    let mut parts = match &report.server {
        Some(server) => server_parts(report, server, now),
        None => vec![format!("{}: no server runs", report.path_identity)],
    };
    parts.push(spool_text(&report.spool, now));
    parts.push(classes_text(&report.spool, now));
    parts.push(buffers_text(&report.spool, now));
    parts.push(kept_text(&report.spool, now));
    parts.push(readers_text(&report.spool));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn server_parts(report: &Report, server: &ServerStatus, now: u64) -> Vec<String> {
    let head = server_text(report, server, now);
    let mut texts = vec![head];
    if !server.upstreams.is_empty() {
        texts.push(upstreams_text(&server.upstreams));
    }
    texts.extend(server.cluster.as_ref().map(member_text));
    texts.extend(server.cache.as_ref().map(cache_text));
    if !server.pulls.is_empty() {
        texts.push(pulls_text(&server.pulls, now));
    }
    if !server.archives.is_empty() {
        texts.push(archive::text(&server.archives, now));
    }
    texts.push(filters_text(&server.filters));
    texts.push(spam_text(&server.spam));
    texts.push(sources_text("injecting site", &server.spam_sources.sites));
    texts.push(sources_text("posting address", &server.spam_sources.addresses));
    if server.peers.is_empty() {
        return texts;
    }
    let peers = Columns::of(&server.peers)
        .left("peer", |peer| peer.name.clone())
        .right("connections", |peer| grouped(peer.connections))
        .right("offered", |peer| grouped(peer.offered))
        .right("accepted", |peer| grouped(peer.accepted))
        .right("rejected", |peer| grouped(peer.rejected))
        .text();
    texts.push(peers);
    texts.extend(feeds_text(server));
    texts
}

fn filters_text(filters: &[FilterStatus]) -> String {
    Columns::of(filters)
        .left("filter", |filter| filter.name.clone())
        .left("state", |filter| if filter.down { "cannot judge" } else { "judges" }.into())
        .right("judged", |filter| grouped(filter.judged))
        .right("not judged", |filter| grouped(filter.unjudged))
        .right("started", |filter| grouped(filter.starts))
        .text_if_any()
}

fn spam_text(checks: &[SpamCheckStatus]) -> String {
    let found = |check: &SpamCheckStatus, is_shadow: bool| match (check.mode == "shadow") == is_shadow {
        true => grouped(check.found),
        false => "-".to_owned(),
    };
    Columns::of(checks)
        .left("built-in filter", |check| check.name.clone())
        .left("mode", |check| check.mode.clone())
        .right("found", |check| found(check, false))
        .right("would have refused", |check| found(check, true))
        .text_if_any()
}

/// Renders the sources of which articles were refused in the last day, or would have been.
fn sources_text(kind: &'static str, sources: &[SpamSource]) -> String {
    let is_found = |source: &&SpamSource| source.day.refused + source.day.would_refuse > 0;
    let found: Vec<&SpamSource> = sources.iter().filter(is_found).take(SOURCES_SHOWN).collect();
    Columns::of(&found)
        .left(kind, |source| source.name.clone())
        .right("articles", |source| grouped(source.day.articles))
        .right("refused", |source| grouped(source.day.refused))
        .right("would have refused", |source| grouped(source.day.would_refuse))
        .right("in the last hour", |source| grouped(source.hour.articles))
        .text_if_any()
}

fn upstreams_text(upstreams: &[UpstreamStatus]) -> String {
    let mut text = Columns::of(upstreams)
        .left("upstream", |upstream| upstream.name.clone())
        .left("server", |upstream| upstream.host.clone())
        .left("state", |upstream| if upstream.problem.is_empty() { "answers" } else { "away" }.into())
        .right("connections", |upstream| grouped(upstream.connections))
        .right("at most", |upstream| match upstream.connections_limit {
            0 => "-".into(),
            limit => grouped(limit),
        })
        .right("questions", |upstream| grouped(upstream.questions))
        .right("failures", |upstream| grouped(upstream.failures))
        .right("wrong", |upstream| grouped(upstream.wrong))
        .right("received", |upstream| about_size(upstream.bytes))
        .right("posts", |upstream| grouped(upstream.posts_waiting))
        .right("refused", |upstream| grouped(upstream.posts_refused))
        .text();
    for upstream in upstreams.iter().filter(|upstream| !upstream.problem.is_empty()) {
        text.push_str(&format!("\n  {}: {}", upstream.name, upstream.problem));
    }
    text
}

/// Returns the requests to the cache as a table; rows without a name are of requests by Message-ID.
pub(super) fn counts_text(head: &'static str, rows: &[CacheCounts]) -> String {
    let percent = |counts: &CacheCounts| match counts.requests {
        0 => "-".into(),
        requests => format!("{} %", counts.hits * 100 / requests),
    };
    let name = |counts: &CacheCounts| match counts.of.as_str() {
        "" => "by Message-ID".into(),
        name => name.to_owned(),
    };
    Columns::of(rows)
        .left(head, name)
        .right("requests", |counts| grouped(counts.requests))
        .right("hits", |counts| grouped(counts.hits))
        .right("share", percent)
        .right("from cache", |counts| about_size(counts.cache_bytes))
        .right("from upstream", |counts| about_size(counts.upstream_bytes))
        .text()
}

/// Returns the requests to the cache by kind, and the cache's size.
pub(super) fn cache_text(cache: &CacheStatus) -> String {
    let table = counts_text("cached", &cache.kinds);
    let (used, size) = (about_size(cache.used_bytes), about_size(cache.size_bytes));
    format!("{table}\n  {used} of {size} in {}", counted(cache.files, "file"))
}

fn member_text(member: &MemberFigures) -> String {
    format!(
        "member {} of a cluster: {}{}\n  {} of {} messages of the log applied, {} on their way, {} sent again",
        member.member,
        member.state,
        if member.accepting { "" } else { "; NOTHING IS ACCEPTED" },
        grouped(member.position),
        grouped(member.log_last),
        grouped(member.in_flight),
        grouped(member.retries),
    )
}

fn pulls_text(pulls: &[PullStatus], now: u64) -> String {
    let ago = |at: Option<u64>, never: &str| match at {
        Some(at) => format!("{} ago", about_span(now.saturating_sub(at))),
        None => never.to_owned(),
    };
    let mut text = Columns::of(pulls)
        .left("pull", |pull| pull.name.clone())
        .left("from", |pull| pull.from.clone())
        .left("last run", |pull| match pull.running_since {
            Some(_) => "running".into(),
            None => ago(pull.last_run, "not yet"),
        })
        .left("complete", |pull| ago(pull.complete, "never"))
        .right("to do", |pull| grouped(pull.run.total.saturating_sub(pull.run.done)))
        .right("fetched", |pull| grouped(pull.fetched))
        .right("accepted", |pull| grouped(pull.accepted))
        .text();
    for pull in pulls.iter().filter(|pull| !pull.last_error.is_empty()) {
        text.push_str(&format!("\n  {}: {}", pull.name, pull.last_error));
    }
    for pull in pulls {
        for line in pull.details.lines() {
            text.push_str(&format!("\n  {}: {line}", pull.name));
        }
    }
    text
}

/// Describes how long no articles have been accepted, why, and what ends it.
fn paused_text(since: u64, reason: &str, now: u64) -> String {
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    format!("for {}{reason}; newsreel ctl go", about_span(now.saturating_sub(since)))
}

fn server_text(report: &Report, server: &ServerStatus, now: u64) -> String {
    let logins = &server.logins;
    let moderation = &server.moderation;
    let mut text = format!(
        "{}: newsreel {}, process {}, up {}",
        report.path_identity,
        report.version,
        server.pid,
        about_span(server.uptime_secs)
    );
    let mut line = |label: &str, value: String| text.push_str(&format!("\n  {label:<12} {value}"));
    line("listens on", server.listen.join(", "));
    if !server.web.is_empty() {
        line("web on", server.web.join(", "));
    }
    line(
        "connections",
        format!(
            "{} now, {} of them compressed; {} refused, {} readers served",
            grouped(server.connections),
            grouped(server.compressed),
            grouped(server.refused),
            grouped(server.readers_served)
        ),
    );
    line(
        "logins",
        format!(
            "{} succeeded, {} failed; {} lock-outs, {} refused by them",
            grouped(logins.succeeded),
            grouped(logins.failed),
            grouped(logins.lock_outs),
            grouped(logins.refused)
        ),
    );
    if let Some(expires) = server.certificate_expires {
        let left = u64::try_from(expires).unwrap_or_default().checked_sub(now);
        let left = left.map_or("EXPIRED".into(), |secs| format!("expires in {}", about_span(secs)));
        line("certificate", left);
    }
    if let Some(since) = server.paused_since {
        line("PAUSED", paused_text(since, &server.paused_reason, now));
    }
    line(
        "articles",
        format!(
            "{} accepted, {} rejected, {} to be tried later; {} of receive buffers",
            grouped(server.accepted),
            grouped(server.rejected),
            grouped(server.try_later),
            about_size(server.receive_bytes)
        ),
    );
    line("cancels", format!("{} waiting for their article", grouped(server.early_cancels)));
    line("hides", format!("{} listed by notices before they came", counted(server.early_hides, "article")));
    line(
        "moderation",
        format!(
            "{} waiting, {} sent, {} put aside; {} to approve",
            counted(moderation.waiting, "mail"),
            grouped(moderation.sent),
            grouped(moderation.failed),
            counted(moderation.held, "post")
        ),
    );
    line("batches", batches_text(&server.batches));
    line("reloads", grouped(server.reloads));
    text
}

fn batches_text(batches: &BatchesStatus) -> String {
    let mut text = format!(
        "{} waiting ({}), {} filed with {}, {} in quarantine",
        grouped(batches.waiting),
        about_size(batches.waiting_bytes),
        grouped(batches.filed),
        counted(batches.accepted, "article"),
        counted(batches.damaged, "damaged piece")
    );
    if batches.waiting > 0 && !batches.problem.is_empty() {
        text.push_str(&format!("\n               NOT FILED: {}", batches.problem));
    }
    text
}
