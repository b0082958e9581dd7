//! The parts of the operator's page.
//!
//! Each is a function from figures to markup; a part without data is left out.

use super::figures::{self, BufferRing};
use super::samples::{HistorySpan, LoadHistory, LoadSeries};
use maud::{Markup, html};
use operators::report::{
    BufferReport, ClassReport, ClusterMemberFigures, FeedStatus, MemberFigures, PeerStatus, Report,
    ServerStatus, SpoolStatus,
};
use operators::trouble::{ReportedProblem, Severity};
use site::log::recent::LoggedEvent;
use site_base::units::{about_size, about_span, counted, grouped};
use tracing::Level;

/// Events shown at once; the others on request.
const EVENTS_SHOWN: usize = 20;

/// Renders name, version, and start time.
pub(super) fn heading(report: &Report, server: &ServerStatus) -> Markup {
    html! {
        div.heading {
            h1 { (report.path_identity) }
            p.quiet {
                "newsreel " (report.version) " \u{b7} up " (about_span(server.uptime_secs))
                " \u{b7} " (server.listen.join(", "))
            }
        }
    }
}

/// Renders the problems and their remedies.
pub(super) fn troubles(troubles: &[ReportedProblem]) -> Markup {
    html! {
        section aria-labelledby="troubles" {
            h2.hidden #troubles { "What is wrong" }
            @if troubles.is_empty() {
                p.well { "Nothing is wrong that shows here." }
            } @else {
                ul.troubles {
                    @for ReportedProblem { weight, what, advice } in troubles {
                        li.(class_of(*weight)) {
                            span.badge { (word_of(*weight)) }
                            div { strong { (what) "." } " " span.advice { (with_commands(advice)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Renders text with commands between backquotes.
fn with_commands(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn class_of(weight: Severity) -> &'static str {
    match weight {
        Severity::Bad => "bad",
        Severity::Warn => "warn",
        Severity::Note => "note",
    }
}

fn word_of(weight: Severity) -> &'static str {
    match weight {
        Severity::Bad => "Broken",
        Severity::Warn => "Warning",
        Severity::Note => "Note",
    }
}

/// Renders the most important figures.
pub(super) fn tiles(report: &Report, server: &ServerStatus, samples: &LoadHistory) -> Markup {
    let hour = |of| samples.series(of, HistorySpan::Hour);
    let now = |values: &[f64]| values.last().copied().unwrap_or_default();
    let (accepted, rejected) = (hour(LoadSeries::Accepted), hour(LoadSeries::Rejected));
    let (connections, undurable) = (hour(LoadSeries::Connections), hour(LoadSeries::Undurable));
    let logins = &server.logins;
    html! {
        section.tiles aria-label="At a glance" {
            (tile("Articles in", &per_sec(now(&accepted)), &accepted,
                &format!("{} accepted since the start", grouped(server.accepted))))
            (tile("Rejected", &per_sec(now(&rejected)), &rejected,
                &format!("{} rejected, {} to be tried later", grouped(server.rejected), grouped(server.try_later))))
            (tile("Connections", &grouped(server.connections), &connections,
                &format!("{} readers served, {} refused", grouped(server.readers_served), grouped(server.refused))))
            (tile("Not yet on disk", &about_size(report.spool.undurable_bytes), &undurable,
                &format!("of journal; durability {}", report.spool.durability)))
            (tile("Articles", &grouped(report.spool.articles), &[],
                &format!("in {}", counted(report.spool.groups, "group"))))
            (tile("Logins", &grouped(logins.succeeded), &[],
                &format!("{} failed, {}", grouped(logins.failed), counted(logins.lock_outs, "lock-out"))))
            (tile("For moderators", &grouped(server.moderation.held + server.moderation.waiting), &[],
                &format!("{} held here, {} to be mailed", grouped(server.moderation.held), grouped(server.moderation.waiting))))
        }
    }
}

fn tile(title: &str, value: &str, series: &[f64], below: &str) -> Markup {
    html! {
        div.card.tile {
            h3 { (title) }
            p.value { (value) }
            @if !series.is_empty() { (figures::line(series, &format!("{title}, the last hour"))) }
            p.quiet { (below) }
        }
    }
}

/// Returns a rate per second with a readable number of digits.
fn per_sec(rate: f64) -> String {
    match rate {
        0.0 => "0/s".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}/s"),
        rate => format!("{}/s", grouped(rate.round() as u64)),
    }
}

/// Renders each buffer as a ring.
pub(super) fn buffers(spool: &SpoolStatus, now: u64) -> Markup {
    if spool.buffers.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="buffers" {
            h2 #buffers { "Buffers" }
            p.legend {
                span.key.hour { "last hour" } span.key.day { "last day" } span.key.old { "older" }
                span.key.free { "free" } span.key.head { "write position, moving clockwise" }
            }
            div.buffers { @for buffer in &spool.buffers { (one_buffer(buffer, now)) } }
        }
    }
}

fn one_buffer(buffer: &BufferReport, now: u64) -> Markup {
    let share =
        |bytes: u64| if buffer.area_bytes == 0 { 0.0 } else { bytes as f64 / buffer.area_bytes as f64 };
    let turn = BufferRing {
        head: share(buffer.head_bytes),
        used: share(buffer.used_bytes),
        day: share(buffer.written_day_bytes),
        hour: share(buffer.written_hour_bytes),
    };
    let full = percent(turn.used);
    let cycle = format!("cycle {}", grouped(buffer.cycle));
    let label = format!("Buffer {}: {full} holds articles, {cycle}", buffer.name);
    let oldest = buffer.oldest_arrival.map(|at| about_span(now.saturating_sub(at)));
    // Until the buffer is full nothing is overwritten.
    let is_next = turn.used > 0.97;
    html! {
        div.card.buffer {
            (figures::ring(turn, &label, (&full, &cycle)))
            div {
                h3 { (buffer.name) }
                dl {
                    dt { "size" } dd { (about_size(buffer.size_bytes)) }
                    dt { "oldest" }
                    dd {
                        @if let Some(oldest) = &oldest { (oldest) } @else { "\u{2013}" }
                        @if is_next { span.next { "overwritten next" } }
                    }
                    dt { "last day" } dd { (about_size(buffer.written_day_bytes)) }
                    @if let Some(packed) = buffer.compressed_share { dt { "compressed" } dd { (percent(packed)) } }
                    @if let Some(holes) = buffer.holes_share { dt { "holes" } dd { (percent(holes)) } }
                }
            }
        }
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        share if share > 0.0 && share < 9.95 => format!("{share:.1} %"),
        share => format!("{share:.0} %"),
    }
}

/// Renders how long articles stay.
pub(super) fn classes(spool: &SpoolStatus, now: u64) -> Markup {
    let kept: Vec<&ClassReport> = spool.classes.iter().filter(|class| !class.keeps_nothing()).collect();
    if kept.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="classes" {
            h2 #classes { "How long articles stay" }
            div.classes { @for class in kept { (one_class(class, now)) } }
        }
    }
}

fn one_class(class: &ClassReport, now: u64) -> Markup {
    let oldest = class.oldest_arrival.map(|at| now.saturating_sub(at));
    let longest = [class.stays_secs, class.keep_target_secs, oldest].into_iter().flatten().max();
    let share = |secs: u64| secs as f64 / longest.unwrap_or(1).max(1) as f64;
    html! {
        div.card.class.below[class.is_below_target()] {
            h3 { (class.name) " " span.quiet { (class.method) } }
            @match class.stays_secs {
                Some(stays) => {
                    p.value { (about_span(stays)) }
                    (figures::bar(share(stays), class.keep_target_secs.map(share),
                        &format!("{} of a target of {}", about_span(stays),
                            class.keep_target_secs.map_or("none".into(), about_span))))
                    p.quiet { "at today\u{2019}s rate of " (about_size(class.day_bytes_per_sec as u64)) "/s" }
                }
                None => p.quiet { "Too little was written to tell yet." }
            }
            dl {
                @if let Some(oldest) = oldest { dt { "oldest" } dd { (about_span(oldest)) } }
                @if let (Some(worst), Some(day)) = (class.stays_worst_secs, &class.worst_day) {
                    dt { "if all days were like " (day) } dd { (about_span(worst)) }
                }
                @if let Some(target) = class.keep_target_secs { dt { "target" } dd { (about_span(target)) } }
                @if let Some(least) = class.keep_at_least_secs { dt { "promised" } dd { (about_span(least)) } }
            }
        }
    }
}

/// Renders the members of the cluster, and the nodes of its log.
pub(super) fn cluster(member: Option<&MemberFigures>) -> Markup {
    let Some(member) = member.filter(|member| !member.members.is_empty()) else { return html! {} };
    html! {
        section aria-labelledby="cluster" {
            h2 #cluster { "Cluster" }
            p {
                "Log on "
                @for (at, node) in member.nodes.iter().enumerate() {
                    @if at > 0 { ", " }
                    (node.name)
                    @if node.leads { " (leads)" }
                    @if !node.current { " " span.bad { "(behind)" } }
                }
                @if let Some(reach) = member.log_reach_secs {
                    "; a member may be away for " (about_span(reach))
                }
            }
            div.card.table { table {
                thead { tr {
                    th scope="col" { "member" } th scope="col" { "state" }
                    th.n scope="col" { "behind by" } th.n scope="col" { "seen" }
                    th scope="col" { "version" } th scope="col" { "same news" } th scope="col" { "does" }
                } }
                tbody { @for one in &member.members { (one_member(one)) } }
            } }
        }
    }
}

fn one_member(member: &ClusterMemberFigures) -> Markup {
    let seen = member.silent_secs.map_or("never".to_owned(), |secs| about_span(secs) + " ago");
    let same = match member.agrees {
        None => "\u{2013}",
        Some(true) => "yes",
        Some(false) => "NO",
    };
    html! {
        tr {
            th scope="row" { (member.name) }
            td data-label="state" { @if member.running { (member.state) } @else { span.bad { "away" } } }
            (number("behind by", member.lag_messages))
            td.n data-label="seen" { (seen) }
            td data-label="version" { (member.version) }
            td data-label="same news" { (same) }
            td data-label="does" { (member.jobs) }
        }
    }
}

/// Renders the articles received from peers.
pub(super) fn peers_in(server: &ServerStatus, samples: &LoadHistory) -> Markup {
    if server.peers.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="peers-in" {
            h2 #peers-in { "Coming in" }
            div.card.table { table {
                thead { tr {
                    th scope="col" { "peer" }
                    @for title in ["connections", "offered", "accepted", "refused", "rejected"] { th.n scope="col" { (title) } }
                    th scope="col" { "last hour" } th scope="col" { "last day" }
                } }
                tbody { @for peer in &server.peers { (one_peer_in(peer, samples)) } }
            } }
        }
    }
}

fn one_peer_in(peer: &PeerStatus, samples: &LoadHistory) -> Markup {
    // Offers that were neither accepted nor rejected were not requested.
    let refused = peer.offered.saturating_sub(peer.accepted).saturating_sub(peer.rejected);
    html! {
        tr {
            th scope="row" { (peer.name) }
            (number("connections", peer.connections)) (number("offered", peer.offered))
            (number("accepted", peer.accepted)) (number("refused", refused)) (number("rejected", peer.rejected))
            (both_spans(samples, LoadSeries::From(&peer.name), &format!("accepted from {}", peer.name)))
        }
    }
}

/// Renders the articles sent to peers.
pub(super) fn peers_out(server: &ServerStatus, samples: &LoadHistory) -> Markup {
    let feeds = || server.peers.iter().filter_map(|peer| Some((peer, peer.feed.as_ref()?)));
    if feeds().next().is_none() {
        return html! {};
    }
    html! {
        section aria-labelledby="peers-out" {
            h2 #peers-out { "Going out" }
            div.card.table { table {
                thead { tr {
                    th scope="col" { "peer" } th scope="col" { "state" }
                    @for title in ["behind", "offered", "accepted", "refused", "rejected", "deferred"] { th.n scope="col" { (title) } }
                    th scope="col" { "behind, last hour" } th scope="col" { "sent, last hour" } th scope="col" { "sent, last day" }
                } }
                tbody { @for (peer, feed) in feeds() { (one_peer_out(&peer.name, feed, samples)) } }
            } }
        }
    }
}

fn one_peer_out(name: &str, feed: &FeedStatus, samples: &LoadHistory) -> Markup {
    let behind = match feed.lag_articles {
        0 => "\u{2013}".to_owned(),
        articles => format!("{}, {}", about_span(feed.lag_secs), counted(articles, "article")),
    };
    html! {
        tr {
            th scope="row" { (name) }
            td data-label="state" { span.state.(feed.state) { (feed.state) } }
            td.n data-label="behind" { (behind) }
            (number("offered", feed.offered)) (number("accepted", feed.accepted)) (number("refused", feed.refused))
            (number("rejected", feed.rejected)) (number("deferred", feed.deferred))
            td.spark data-label="behind, last hour" {
                (figures::line(&samples.series(LoadSeries::Lag(name), HistorySpan::Hour), &format!("{name} behind, the last hour")))
            }
            (both_spans(samples, LoadSeries::To(name), &format!("sent to {name}")))
        }
    }
}

fn number(label: &str, value: u64) -> Markup {
    html! { td.n data-label=(label) { (grouped(value)) } }
}

/// Renders the last hour and the last day of a figure.
fn both_spans(samples: &LoadHistory, of: LoadSeries<'_>, label: &str) -> Markup {
    html! {
        @for (span, words) in [(HistorySpan::Hour, "last hour"), (HistorySpan::Day, "last day")] {
            td.spark data-label=(words) { (figures::line(&samples.series(of, span), &format!("{label}, the {words}"))) }
        }
    }
}

/// Renders the last logged events.
pub(super) fn events(events: &[LoggedEvent], now: u64) -> Markup {
    if events.is_empty() {
        return html! {};
    }
    let (shown, rest) = events.split_at(events.len().min(EVENTS_SHOWN));
    html! {
        section aria-labelledby="events" {
            h2 #events { "Events" }
            div.card {
                ol.events { @for event in shown { (one_event(event, now)) } }
                @if !rest.is_empty() {
                    details #more-events {
                        summary { (rest.len()) " earlier" }
                        ol.events { @for event in rest { (one_event(event, now)) } }
                    }
                }
            }
        }
    }
}

fn one_event(event: &LoggedEvent, now: u64) -> Markup {
    let (class, word) = match event.level {
        Level::ERROR => ("bad", "error"),
        Level::WARN => ("warn", "warning"),
        _ => ("info", "info"),
    };
    html! {
        li.(class) {
            span.when { (about_span(now.saturating_sub(event.at))) " ago" }
            span.level { (word) }
            span.what { (event.message) @if !event.fields.is_empty() { " " code { (event.fields) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_says_how_long_articles_stay_and_whether_that_is_enough() {
        let class = |stays_secs, keep_target_secs| ClassReport {
            name: "text<".into(),
            method: "cnfs".into(),
            stays_secs,
            keep_target_secs,
            day_bytes_per_sec: 2048.0,
            ..ClassReport::default()
        };
        let text = |class: ClassReport| {
            let trash = ClassReport { method: "trash".into(), ..ClassReport::default() };
            let spool = SpoolStatus { classes: vec![class, trash], ..SpoolStatus::default() };
            classes(&spool, 100).into_string()
        };
        let below = text(class(Some(86_400), Some(172_800)));
        assert!(below.contains("class below\"") && below.contains("<p class=\"value\">1 d</p>"), "{below}");
        assert!(
            below.contains("text&lt;")
                && below.contains("2.00 KiB/s")
                && below.contains("1 d of a target of 2 d")
        );
        // Half of the bar, as the target is the longest.
        assert!(below.contains("class=\"filled\" width=\"60\""), "{below}");
        assert_eq!(below.matches("<h3>").count(), 1, "what is thrown away does not stay");
        assert!(!text(class(Some(86_400), Some(60))).contains("below"));
        assert!(text(class(None, None)).contains("Too little was written"));
    }

    #[test]
    fn a_buffer_shows_the_age_of_its_oldest_articles() {
        let buffer = BufferReport {
            name: "b".into(),
            area_bytes: 100,
            used_bytes: 100,
            head_bytes: 25,
            written_day_bytes: 50,
            cycle: 3,
            oldest_arrival: Some(10),
            holes_share: Some(0.004),
            ..BufferReport::default()
        };
        let text = |buffer: &BufferReport| one_buffer(buffer, 3_610).into_string();
        let full = text(&buffer);
        for shown in ["overwritten next", "1 h", "cycle 3", "100 %", "0.4 %"] {
            assert!(full.contains(shown), "{shown} is not in {full}");
        }
        assert!(!full.contains("compressed"), "nothing is known of that");
        assert!(!text(&BufferReport { used_bytes: 50, ..buffer }).contains("overwritten next"));
        assert!(text(&BufferReport::default()).contains("0 %"));
    }

    #[test]
    fn text_of_others_is_escaped() {
        let event = LoggedEvent {
            at: 5,
            level: Level::WARN,
            message: "<script>".into(),
            fields: "user=\"<b>\"".into(),
        };
        let shown = events(&vec![event; EVENTS_SHOWN + 3], 10).into_string();
        assert!(
            !shown.contains("<script>") && !shown.contains("<b>") && shown.contains("3 earlier"),
            "{shown}"
        );
        let trouble =
            ReportedProblem { weight: Severity::Bad, what: "<i>".into(), advice: "Do `a <b>` now.".into() };
        let shown = troubles(&[trouble]).into_string();
        assert!(shown.contains("&lt;i&gt;") && shown.contains("Do <code>a &lt;b&gt;</code> now."), "{shown}");
    }
}
