//! `status`: state of the server and its spool.

use super::archive;
use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say, say_json};
use super::table::{Columns, age};
use operators::report::{
    BatchesStatus, BufferReport, CacheCounts, CacheStatus, ClassReport, FeedStatus, FilterStatus,
    OutputStatus, Overhead, PullStatus, Report, ServerStatus, SpoolStatus, UnnumberedSavings, UpstreamStatus,
};
use operators::request::{Reply, Request};
use site_base::clock::unix_secs;
use site_base::units::{about_size, about_span, counted, grouped};

/// Text for figures that take time to measure.
const NOT_KNOWN: &str = "not known yet";
/// Age from which measurements are marked, in seconds.
const MEASURED_SECS_MAX: u64 = 60;

pub(super) fn status(at: &SiteLocation, json: bool) -> Result<(), CliError> {
    let mut report = None;
    reach::ask_at(at, &Request::STATUS, &mut |reply| {
        if let Reply::Status(told) = reply {
            report = Some(told);
        }
    })?;
    let report = report.ok_or_else(|| CliError::Problem("the server sent no status".into()))?;
    if json {
        say_json(&report)?;
    } else {
        say(text(&report, unix_secs()))?;
    }
    let is_well = report.spool.stopped.is_none() && report.spool.unopened.is_none();
    if is_well { Ok(()) } else { Err(CliError::Told) }
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
    texts.extend(server.cache.as_ref().map(cache_text));
    if !server.pulls.is_empty() {
        texts.push(pulls_text(&server.pulls, now));
    }
    if !server.archives.is_empty() {
        texts.push(archive::text(&server.archives, now));
    }
    texts.push(filters_text(&server.filters));
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

/// Returns the tables about feeds to peers.
fn feeds_text(server: &ServerStatus) -> [String; 4] {
    type Fed<'a> = (&'a str, &'a FeedStatus);
    let feeds: Vec<Fed<'_>> =
        server.peers.iter().filter_map(|peer| Some((peer.name.as_str(), peer.feed.as_ref()?))).collect();
    let state = |(_, feed): &Fed<'_>| match feed.retry_secs {
        Some(secs) => format!("{}, again in {}", feed.state, about_span(secs)),
        None => feed.state.clone(),
    };
    let behind = |(_, feed): &Fed<'_>| match feed.lag_secs {
        0 => String::new(),
        secs => about_span(secs),
    };
    let now = Columns::of(&feeds)
        .left("feed to", |(name, _)| (*name).to_owned())
        .left("state", state)
        .right("connections", |(_, feed)| grouped(feed.connections))
        .right("articles behind", |(_, feed)| grouped(feed.lag_articles))
        .right("journal", |(_, feed)| about_size(feed.lag_bytes))
        .right("time", behind)
        .right("later", |(_, feed)| grouped(feed.waiting))
        .left("last error", |(_, feed)| feed.last_error.clone().unwrap_or_default())
        .text_if_any();
    let done = Columns::of(&feeds)
        .left("sent to", |(name, _)| (*name).to_owned())
        .right("offered", |(_, feed)| grouped(feed.offered))
        .right("wanted", |(_, feed)| grouped(feed.wanted))
        .right("refused", |(_, feed)| grouped(feed.refused))
        .right("accepted", |(_, feed)| grouped(feed.accepted))
        .right("rejected", |(_, feed)| grouped(feed.rejected))
        .right("deferred", |(_, feed)| grouped(feed.deferred))
        .right("missed", |(_, feed)| grouped(feed.missed))
        .right("sent", |(_, feed)| about_size(feed.sent_bytes))
        .right("articles/s", |(_, feed)| grouped(feed.articles_per_sec as u64))
        .text_if_any();
    let outputs: Vec<(&str, &OutputStatus)> =
        feeds.iter().filter_map(|(name, feed)| Some((*name, feed.output.as_ref()?))).collect();
    let waiting = Columns::of(&outputs)
        .left("taken away for", |(name, _)| (*name).to_owned())
        .right("files waiting", |(_, output)| grouped(output.waiting_files))
        .right("bytes", |(_, output)| about_size(output.waiting_bytes))
        .right("batches made", |(_, output)| grouped(output.batches_made))
        .right("handed over", |(_, output)| grouped(output.batches_handed_over))
        .left("at", |(_, output)| output.to.clone())
        .text_if_any();
    let aside: Vec<Fed<'_>> =
        feeds.iter().filter(|(_, feed)| feed.set_aside + feed.given_up > 0).copied().collect();
    let last = |feed: &FeedStatus| feed.set_aside_articles.last().cloned().unwrap_or_default();
    let aside = Columns::of(&aside)
        .left("odd answers from", |(name, _)| (*name).to_owned())
        .right("set aside", |(_, feed)| grouped(feed.set_aside))
        .right("given up", |(_, feed)| grouped(feed.given_up))
        .left("the last to", |(_, feed)| last(feed).message_id)
        .left("answer", |(_, feed)| last(feed).answer)
        .text_if_any();
    [now, done, waiting, aside]
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

fn spool_text(spool: &SpoolStatus, now: u64) -> String {
    let mut text = format!("spool {}, durability {}", spool.dir, spool.durability);
    if let Some(reason) = &spool.unopened {
        text.push_str(&format!(
            "\n  at its last checkpoint: {} in {}\n  CANNOT BE OPENED: {reason}",
            counted(spool.articles, "article"),
            counted(spool.groups, "group"),
        ));
        return text;
    }
    text.push_str(&format!(
        "\n  {}{} in {}; history {}, {} requested from peers",
        counted(spool.articles, "article"),
        if spool.hidden > 0 { format!(" ({} hidden)", grouped(spool.hidden)) } else { String::new() },
        counted(spool.groups, "group"),
        counted(spool.history_entries, "Message-ID"),
        grouped(spool.offers),
    ));
    text.push_str(&format!(
        "\n  journal {}, {} of it not durable yet; {} to replay after a crash",
        about_size(spool.journal_bytes),
        about_size(spool.undurable_bytes),
        counted(spool.rows_to_replay, "row"),
    ));
    text.push_str(&format!(
        "\n  history {}, overview {}, residents {}, checkpoints {}",
        about_size(spool.history_bytes),
        about_size(spool.overview_bytes),
        about_size(spool.residents_bytes),
        about_size(spool.checkpoint_bytes),
    ));
    text.push_str(&hot_memory_text(spool));
    text.push_str(&spool.overhead.as_ref().map_or_else(overhead_unknown, overhead_text));
    if spool.mended_pages > 0 {
        text.push_str(&format!("\n  {} unreadable pages rebuilt", grouped(spool.mended_pages)));
    }
    if spool.passed_over > 0 {
        let names = counted(spool.passed_over, "name");
        text.push_str(&format!("\n  {names} passed over: files that no index knows have them"));
    }
    text.push_str(&spool.unnumbered.as_ref().map_or_else(String::new, unnumbered_text));
    let age = now.saturating_sub(spool.measured);
    if age > MEASURED_SECS_MAX {
        text.push_str(&format!("\n  MEASURED {} AGO: the disk does not answer", about_span(age)));
    }
    if let Some(reason) = &spool.stopped {
        text.push_str(&format!("\n  ACCEPTS NOTHING: {reason}"));
    }
    text
}

/// Describes the memory of data that busy feeds write.
fn hot_memory_text(spool: &SpoolStatus) -> String {
    let (Some(bytes), released) = (spool.hot_memory_bytes, spool.released_bytes) else {
        return String::new();
    };
    format!(
        "\n  of what busy feeds write the newest {} stay in memory; {} given back since the start",
        about_size(bytes),
        about_size(released),
    )
}

fn unnumbered_text(saved: &UnnumberedSavings) -> String {
    format!(
        "\n  {} without numbers since the start, which saved {} of overview and at least {:.1} us an article",
        counted(saved.articles, "article"),
        about_size(saved.overview_bytes),
        saved.nanos as f64 / 1_000.0 / saved.articles.max(1) as f64,
    )
}

fn overhead_unknown() -> String {
    format!("\n  on disk for each article beyond its own bytes: {NOT_KNOWN}")
}

fn overhead_text(o: &Overhead) -> String {
    format!(
        "\n  on disk for each article beyond its own bytes: {} (record {}, journal {}, history {}, overview {}, residents {}, \
         checkpoint {})",
        o.sum(),
        o.record_bytes,
        o.journal_bytes,
        o.history_bytes,
        o.overview_bytes,
        o.residents_bytes,
        o.checkpoint_bytes
    )
}

pub(super) fn classes_text(spool: &SpoolStatus, now: u64) -> String {
    let rate = |bytes: f64| format!("{}/s", about_size(bytes as u64));
    let span = |secs: Option<u64>| secs.map_or_else(String::new, about_span);
    let stay = |class: &ClassReport| {
        let unknown = if class.keeps_nothing() { "" } else { NOT_KNOWN };
        class.stays_secs.map_or_else(|| unknown.to_owned(), about_span)
    };
    let note = |class: &ClassReport| {
        let mut notes = Vec::new();
        if class.is_below_target() {
            let from = class.target_missed.filter(|at| *at > now);
            let from = from.map(|at| format!(" in {}", about_span(at - now)));
            notes.push(format!("BELOW TARGET{}", from.unwrap_or_default()));
        }
        if class.spilled > 0 {
            notes.push(format!("{} to overflow", grouped(class.spilled)));
        }
        if class.turned_away > 0 {
            notes.push(format!("{} REJECTED", grouped(class.turned_away)));
        }
        notes.join(", ")
    };
    Columns::of(&spool.classes)
        .left("class", |class| class.name.clone())
        .left("method", |class| class.method.clone())
        .right("oldest article", |class| age(class.oldest_arrival, now))
        .right("last hour", |class| rate(class.hour_bytes_per_sec))
        .right("last day", |class| rate(class.day_bytes_per_sec))
        .right("articles stay", stay)
        .right("worst day", |class| span(class.stays_worst_secs))
        .right("target", |class| span(class.keep_target_secs))
        .right("promise", |class| span(class.keep_at_least_secs))
        .left("", note)
        .text_if_any()
}

pub(super) fn buffers_text(spool: &SpoolStatus, now: u64) -> String {
    // Unknown if the spool is not open; nothing is known of a buffer that is away.
    let oldest = |buffer: &BufferReport| match buffer.oldest_arrival {
        None if spool.unopened.is_some() => String::new(),
        arrival => age(arrival, now),
    };
    let of_here = |buffer: &BufferReport, text: String| if buffer.away { String::new() } else { text };
    let percent = |buffer: &BufferReport| {
        let percent = u128::from(buffer.used_bytes) * 100 / u128::from(buffer.area_bytes.max(1));
        percent.to_string()
    };
    Columns::of(&spool.buffers)
        .left("buffer", |buffer| buffer.name.clone())
        .right("size", |buffer| about_size(buffer.size_bytes))
        .right("used", |buffer| of_here(buffer, about_size(buffer.used_bytes)))
        .right("%", |buffer| of_here(buffer, percent(buffer)))
        .right("cycle", |buffer| of_here(buffer, buffer.cycle.to_string()))
        .right("oldest article", oldest)
        .left("", |buffer| if buffer.away { "AWAY".into() } else { String::new() })
        .text_if_any()
}

fn kept_text(spool: &SpoolStatus, now: u64) -> String {
    Columns::of(&spool.kept)
        .left("kept by class", |kept| kept.name.clone())
        .left("method", |kept| kept.method.clone())
        .right("articles", |kept| grouped(kept.articles))
        .right("size", |kept| about_size(kept.bytes))
        .right("room", |kept| about_size(kept.room_bytes))
        .right("oldest article", |kept| age(kept.oldest_arrival, now))
        .left("", |kept| if kept.full { "FULL".into() } else { String::new() })
        .text_if_any()
}

fn readers_text(spool: &SpoolStatus) -> String {
    Columns::of(&spool.readers)
        .left("reader of the journal", |reader| reader.name.clone())
        .right("position", |reader| grouped(reader.position))
        .right("backlog", |reader| about_size(reader.backlog_bytes))
        .right("articles lost", |reader| grouped(reader.lost_articles))
        .left("", |reader| match &reader.damage {
            Some(damage) => format!("DAMAGED: {damage}"),
            None if reader.durable => String::new(),
            None => "until it ends".into(),
        })
        .text_if_any()
}

#[cfg(test)]
mod tests {
    use super::*;
    use operators::report::{
        JournalReaderReport, KeptVolumeReport, LoginStatus, ModerationStatus, PeerStatus,
    };

    fn report(server: Option<ServerStatus>) -> Report {
        Report {
            version: "1.0".into(),
            path_identity: "news.example.org".into(),
            server,
            spool: SpoolStatus {
                dir: "data".into(),
                durability: "always".into(),
                stopped: None,
                articles: 1_234,
                groups: 7,
                history_entries: 5_000,
                journal_bytes: 1 << 20,
                measured: 8_200,
                overhead: Some(Overhead { record_bytes: 90, history_bytes: 50, ..Overhead::default() }),
                classes: vec![ClassReport {
                    name: "text".into(),
                    method: "cnfs".into(),
                    oldest_arrival: Some(1_000),
                    hour_bytes_per_sec: 2048.0,
                    day_bytes_per_sec: 1024.0,
                    stays_secs: Some(7_200),
                    keep_target_secs: Some(86_400),
                    stays_worst_secs: Some(21_600),
                    ..ClassReport::default()
                }],
                buffers: vec![BufferReport {
                    name: "text0".into(),
                    size_bytes: 2 << 30,
                    area_bytes: 2 << 30,
                    used_bytes: 1 << 30,
                    cycle: 2,
                    oldest_arrival: Some(1_000),
                    ..BufferReport::default()
                }],
                kept: vec![KeptVolumeReport {
                    name: "archive".into(),
                    method: "tradspool".into(),
                    articles: 12,
                    bytes: 1_024,
                    room_bytes: 2_048,
                    full: true,
                    oldest_arrival: Some(1_000),
                }],
                ..SpoolStatus::default()
            },
        }
    }

    #[test]
    fn a_stopped_site_is_reported() {
        let expected = "news.example.org: no server runs\n\n\
                        spool data, durability always\n  \
                        1,234 articles in 7 groups; history 5,000 Message-IDs, 0 requested from peers\n  \
                        journal 1.00 MiB, 0 B of it not durable yet; 0 rows to replay after a crash\n  \
                        history 0 B, overview 0 B, residents 0 B, checkpoints 0 B\n  \
                        on disk for each article beyond its own bytes: 140 (record 90, journal 0, history 50, overview 0, \
                        residents 0, checkpoint 0)\n\n\
                        class  method  oldest article   last hour    last day  articles stay  worst day  target  promise\n\
                        text   cnfs               2 h  2.00 KiB/s  1.00 KiB/s            2 h        6 h     1 d           BELOW \
                        TARGET\n\n\
                        buffer      size      used   %  cycle  oldest article\n\
                        text0   2.00 GiB  1.00 GiB  50      2             2 h\n\n\
                        kept by class  method     articles      size      room  oldest article\n\
                        archive        tradspool        12  1.00 KiB  2.00 KiB             2 h  FULL";
        assert_eq!(text(&report(None), 8_205), expected);
    }

    #[test]
    fn spool_whose_disk_is_away_is_shown_in_part() {
        let mut report = report(None);
        report.spool.unopened = Some("buffer \"text1\" is missing".into());
        let away = BufferReport { name: "text1".into(), away: true, ..BufferReport::default() };
        report.spool.buffers.push(away);
        (report.spool.classes, report.spool.kept) = (Vec::new(), Vec::new());
        let expected = "news.example.org: no server runs\n\n\
                        spool data, durability always\n  \
                        at its last checkpoint: 1,234 articles in 7 groups\n  \
                        CANNOT BE OPENED: buffer \"text1\" is missing\n\n\
                        buffer      size      used   %  cycle  oldest article\n\
                        text0   2.00 GiB  1.00 GiB  50      2             2 h\n\
                        text1        0 B                                       AWAY";
        assert_eq!(text(&report, 8_205), expected);
    }

    #[test]
    fn readers_of_the_journal_are_listed() {
        let mut report = report(None);
        let slow = JournalReaderReport {
            name: "feed.peer".into(),
            durable: true,
            position: 1_000_000,
            backlog_bytes: 3 << 20,
            lost_bytes: 1_024,
            lost_articles: 1_200,
            damage: None,
        };
        let memory =
            JournalReaderReport { name: "tail".into(), position: 7, ..JournalReaderReport::default() };
        let damage = Some("its file was missing; it went back to the oldest row".into());
        let back = JournalReaderReport {
            name: "days".into(),
            durable: true,
            damage,
            ..JournalReaderReport::default()
        };
        report.spool.readers = vec![slow, memory, back];
        let shown = text(&report, 8_205);
        let expected = "\n\nreader of the journal   position   backlog  articles lost\n\
                        feed.peer              1,000,000  3.00 MiB          1,200\n\
                        tail                           7       0 B              0  until it ends\n\
                        days                           0       0 B              0  DAMAGED: its file was missing; it \
                        went back to the oldest row";
        assert!(shown.ends_with(expected), "{shown}");
    }

    #[test]
    fn young_site_has_no_forecast() {
        let mut report = report(None);
        report.spool.overhead = None;
        report.spool.classes[0].stays_secs = None;
        report.spool.classes[0].stays_worst_secs = None;
        let shown = text(&report, 8_205);
        assert!(
            shown.contains("\n  on disk for each article beyond its own bytes: not known yet\n"),
            "{shown}"
        );
        assert!(
            shown.contains(
                "text   cnfs               2 h  2.00 KiB/s  1.00 KiB/s  not known yet                1 d"
            ),
            "{shown}"
        );
    }

    /// Collapses runs of spaces.
    fn squeezed(text: &str) -> String {
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_running_server_reports_everything() {
        let peer = PeerStatus {
            name: "upstream".into(),
            connections: 4,
            offered: 10_000,
            accepted: 9,
            rejected: 1,
            feed: Some(FeedStatus {
                connections: 2,
                state: "waiting".into(),
                retry_secs: Some(90),
                lag_articles: 1_500,
                lag_bytes: 2_048,
                lag_secs: 65,
                offered: 20,
                wanted: 21,
                refused: 22,
                accepted: 23,
                rejected: 24,
                deferred: 25,
                waiting: 26,
                missed: 27,
                articles_per_sec: 28.5,
                sent_bytes: 2_048,
                output: Some(OutputStatus {
                    to: "out/leaf".into(),
                    waiting_files: 2,
                    waiting_bytes: 3_072,
                    batches_made: 5,
                    batches_handed_over: 3,
                }),
                last_error: Some("timed out".into()),
                ..FeedStatus::default()
            }),
        };
        let server = ServerStatus {
            pid: 7,
            uptime_secs: 65,
            listen: vec!["127.0.0.1:1119".into()],
            web: vec!["127.0.0.1:8119".into()],
            peers: vec![peer],
            connections: 1_000,
            compressed: 5,
            refused: 6,
            readers_served: 7,
            logins: LoginStatus { succeeded: 8, failed: 9, lock_outs: 10, refused: 11 },
            certificate_expires: Some(8_205 + 86_400),
            reloads: 12,
            paused_since: Some(8_205 - 65),
            paused_reason: "disk".into(),
            accepted: 13,
            rejected: 14,
            try_later: 15,
            receive_bytes: 2_048,
            early_cancels: 16,
            early_hides: 21,
            moderation: ModerationStatus { waiting: 17, sent: 18, failed: 19, held: 20 },
            batches: BatchesStatus {
                waiting: 21,
                waiting_bytes: 1_024,
                filed: 22,
                accepted: 23,
                damaged: 24,
                problem: "no room".into(),
            },
            archives: Vec::new(),
            upstreams: vec![UpstreamStatus {
                name: "isp".into(),
                host: "isp.example:563".into(),
                connections: 2,
                connections_limit: 3,
                questions: 1_002,
                failures: 33,
                wrong: 34,
                bytes: 2_048,
                posts_waiting: 36,
                posts_refused: 37,
                problem: "timed out waiting for an answer".into(),
            }],
            search: None,
            cache: Some(CacheStatus {
                used_bytes: 1_024,
                size_bytes: 2_048,
                files: 35,
                kinds: vec![CacheCounts {
                    of: "article".into(),
                    requests: 1_003,
                    hits: 500,
                    cache_bytes: 3_072,
                    upstream_bytes: 4_096,
                }],
                ..CacheStatus::default()
            }),
            pulls: vec![PullStatus {
                name: "far".into(),
                from: "far.example:119".into(),
                last_run: Some(8_200),
                complete: Some(8_145),
                fetched: 2_500,
                accepted: 2_400,
                last_error: "the server closed the connection".into(),
                ..PullStatus::default()
            }],
            filters: vec![FilterStatus {
                name: "perl".into(),
                down: true,
                judged: 1_001,
                unjudged: 31,
                starts: 32,
            }],
        };
        let mut report = report(Some(server));
        report.spool.stopped = Some("no space left".into());
        report.spool.mended_pages = 20;
        (report.spool.hot_memory_bytes, report.spool.released_bytes) = (Some(48 << 20), 3 << 30);
        let shown = text(&report, 8_205);
        let head = "news.example.org: newsreel 1.0, process 7, up 1 min 5 s\n  \
                    listens on   127.0.0.1:1119\n  \
                    web on       127.0.0.1:8119\n  \
                    connections  1,000 now, 5 of them compressed; 6 refused, 7 readers served\n  \
                    logins       8 succeeded, 9 failed; 10 lock-outs, 11 refused by them\n  \
                    certificate  expires in 1 d\n  \
                    PAUSED       for 1 min 5 s (disk); newsreel ctl go\n  \
                    articles     13 accepted, 14 rejected, 15 to be tried later; 2.00 KiB of receive buffers\n  \
                    cancels      16 waiting for their article\n  \
                    hides        21 articles listed by notices before they came\n  \
                    moderation   17 mails waiting, 18 sent, 19 put aside; 20 posts to approve\n  \
                    batches      21 waiting (1.00 KiB), 22 filed with 23 articles, \
                    24 damaged pieces in quarantine\n  \
                    \x20            NOT FILED: no room\n  \
                    reloads      12\n\n";
        assert!(shown.starts_with(head), "{shown}");
        let hot = "of what busy feeds write the newest 48.0 MiB stay in memory; 3.00 GiB given back since";
        assert!(shown.contains(hot), "{shown}");
        assert!(shown.contains("\n  20 unreadable pages rebuilt\n"), "{shown}");
        assert!(shown.contains("\nupstream            4   10,000         9         1\n"), "{shown}");
        let pull = "pull  from             last run  complete   to do  fetched  accepted\n\
                    far   far.example:119  5 s ago   1 min ago      0    2,500     2,400\n  \
                    far: the server closed the connection\n";
        assert!(shown.contains(pull), "{shown}");
        let upstream = "upstream server state connections at most questions failures wrong received posts refused\n\
                        isp isp.example:563 away 2 3 1,002 33 34 2.00 KiB 36 37\n \
                        isp: timed out waiting for an answer\n";
        assert!(squeezed(&shown).contains(squeezed(upstream).trim()), "{shown}");
        let cache = "cached requests hits share from cache from upstream\n\
                     article 1,003 500 49 % 3.00 KiB 4.00 KiB\n1.00 KiB of 2.00 KiB in 35 files";
        assert!(squeezed(&shown).contains(cache), "{shown}");
        let filter = "filter  state         judged  not judged  started\n\
                      perl    cannot judge   1,001          31       32\n";
        assert!(shown.contains(filter), "{shown}");
        let feed = "feed to   state                      connections  articles behind    journal        time  \
                    later  last error\nupstream  waiting, again in 1 min 30 s            2            1,500  2.00 KiB  \
                    1 min 5 s     26  timed out";
        assert!(squeezed(&shown).contains(&squeezed(feed)), "{shown}");
        let sent = "sent to offered wanted refused accepted rejected deferred missed sent articles/s\n\
                    upstream 20 21 22 23 24 25 27 2.00 KiB 28";
        assert!(squeezed(&shown).contains(sent), "{shown}");
        let taken = "taken away for files waiting bytes batches made handed over at\n\
                     upstream 2 3.00 KiB 5 3 out/leaf";
        assert!(squeezed(&shown).contains(taken), "{shown}");
        assert!(shown.contains("\n  ACCEPTS NOTHING: no space left\n"), "{shown}");
        let late = text(&report, 8_205 + 86_400);
        assert!(late.contains("\n  certificate  expires in 0 s\n"), "{late}");
        assert!(late.contains("\n  MEASURED 1 d AGO: the disk does not answer\n"), "{late}");
        assert!(text(&report, 8_206 + 86_400).contains("\n  certificate  EXPIRED\n"));
    }
}
