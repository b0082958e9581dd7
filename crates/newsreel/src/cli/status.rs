//! `status`: how the server and its spool are.

use std::time::{SystemTime, UNIX_EPOCH};

use super::args::Where;
use super::table::{Side, grouped, table};
use super::{Failure, reach, say, say_json};
use crate::control_socket::protocol::{
    ClassStatus, Overhead, Reply, Request, ServerStatus, SpoolStatus, StatusReport,
};
use crate::units::{about_size, about_span};

/// What figures say that only time can tell.
const NOT_KNOWN: &str = "not known yet";

pub(super) fn status(at: &Where, json: bool) -> Result<(), Failure> {
    let mut report = None;
    reach::ask_at(at, &Request::STATUS, &mut |reply| {
        if let Reply::Status(told) = reply {
            report = Some(told);
        }
    })?;
    let report = report.ok_or_else(|| Failure::Problem("the server told no status".into()))?;
    if json {
        say_json(&report)?;
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        say(text(&report, now))?;
    }
    if report.spool.stopped.is_some() { Err(Failure::Told) } else { Ok(()) }
}

fn text(report: &StatusReport, now: u64) -> String {
    let mut parts = match &report.server {
        Some(server) => server_parts(report, server),
        None => vec![format!("{}: no server runs", report.path_identity)],
    };
    parts.push(spool_text(&report.spool));
    parts.push(classes_text(&report.spool, now));
    parts.push(buffers_text(&report.spool, now));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn server_parts(report: &StatusReport, server: &ServerStatus) -> Vec<String> {
    let head = format!(
        "{}: newsreel {}, process {}, up {}\n  listens on   {}\n  connections  {} now, {} readers served\n  \
         articles     {} accepted, {} rejected, {} to be tried later",
        report.path_identity,
        report.version,
        server.pid,
        about_span(server.uptime_secs),
        server.listen.join(", "),
        grouped(server.connections),
        grouped(server.readers_served),
        grouped(server.accepted),
        grouped(server.rejected),
        grouped(server.try_later),
    );
    if server.peers.is_empty() {
        return vec![head];
    }
    let heads = [
        ("peer", Side::Left),
        ("connections", Side::Right),
        ("offered", Side::Right),
        ("accepted", Side::Right),
        ("rejected", Side::Right),
    ];
    let rows = server.peers.iter().map(|peer| {
        let counts = [peer.connections, peer.offered, peer.accepted, peer.rejected];
        std::iter::once(peer.name.clone()).chain(counts.map(grouped)).collect()
    });
    vec![head, table(&heads, &rows.collect::<Vec<_>>())]
}

fn spool_text(spool: &SpoolStatus) -> String {
    let mut text = format!(
        "spool {}, durability {}\n  {} articles in {} groups; history {} Message-IDs; journal {}",
        spool.dir,
        spool.durability,
        grouped(spool.articles),
        grouped(spool.groups),
        grouped(spool.history_entries),
        about_size(spool.journal_bytes),
    );
    text.push_str(&spool.overhead.as_ref().map_or_else(overhead_unknown, overhead_text));
    if let Some(reason) = &spool.stopped {
        text.push_str(&format!("\n  ACCEPTS NOTHING: {reason}"));
    }
    text
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

fn classes_text(spool: &SpoolStatus, now: u64) -> String {
    let heads = [
        ("class", Side::Left),
        ("method", Side::Left),
        ("oldest article", Side::Right),
        ("last hour", Side::Right),
        ("last day", Side::Right),
        ("articles stay", Side::Right),
        ("target", Side::Right),
        ("promise", Side::Right),
        ("", Side::Left),
    ];
    let rate = |bytes: f64| format!("{}/s", about_size(bytes as u64));
    let span = |secs: Option<u64>| secs.map_or_else(String::new, about_span);
    let unknown_stay = |class: &ClassStatus| if class.keeps_nothing() { "" } else { NOT_KNOWN }.to_owned();
    let note = |class: &ClassStatus| {
        let mut notes = Vec::new();
        if class.is_below_target() {
            notes.push("BELOW TARGET".to_owned());
        }
        if class.spilled > 0 {
            notes.push(format!("{} to overflow", grouped(class.spilled)));
        }
        if class.turned_away > 0 {
            notes.push(format!("{} REJECTED", grouped(class.turned_away)));
        }
        notes.join(", ")
    };
    let cells = |class: &ClassStatus| {
        vec![
            class.name.clone(),
            class.method.clone(),
            class.oldest_arrival.map_or("none".into(), |at| about_span(now.saturating_sub(at))),
            rate(class.hour_bytes_per_sec),
            rate(class.day_bytes_per_sec),
            class.stays_secs.map_or_else(|| unknown_stay(class), about_span),
            span(class.keep_target_secs),
            span(class.keep_at_least_secs),
            note(class),
        ]
    };
    if spool.classes.is_empty() {
        return String::new();
    }
    table(&heads, &spool.classes.iter().map(cells).collect::<Vec<_>>())
}

fn buffers_text(spool: &SpoolStatus, now: u64) -> String {
    let heads = [
        ("buffer", Side::Left),
        ("size", Side::Right),
        ("used", Side::Right),
        ("%", Side::Right),
        ("cycle", Side::Right),
        ("oldest article", Side::Right),
    ];
    let rows: Vec<Vec<String>> = spool
        .buffers
        .iter()
        .map(|buffer| {
            let percent = u128::from(buffer.used_bytes) * 100 / u128::from(buffer.size_bytes.max(1));
            let oldest = buffer.oldest_arrival.map_or("none".into(), |at| about_span(now.saturating_sub(at)));
            vec![
                buffer.name.clone(),
                about_size(buffer.size_bytes),
                about_size(buffer.used_bytes),
                percent.to_string(),
                buffer.cycle.to_string(),
                oldest,
            ]
        })
        .collect();
    if rows.is_empty() { String::new() } else { table(&heads, &rows) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_socket::protocol::{BufferStatus, PeerStatus};

    fn report(server: Option<ServerStatus>) -> StatusReport {
        StatusReport {
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
                overhead: Some(Overhead { record_bytes: 90, history_bytes: 50, ..Overhead::default() }),
                classes: vec![ClassStatus {
                    name: "text".into(),
                    method: "cnfs".into(),
                    oldest_arrival: Some(1_000),
                    hour_bytes_per_sec: 2048.0,
                    day_bytes_per_sec: 1024.0,
                    stays_secs: Some(7_200),
                    keep_target_secs: Some(86_400),
                    ..ClassStatus::default()
                }],
                buffers: vec![BufferStatus {
                    name: "text0".into(),
                    size_bytes: 2 << 30,
                    used_bytes: 1 << 30,
                    cycle: 2,
                    oldest_arrival: Some(1_000),
                }],
            },
        }
    }

    #[test]
    fn a_stopped_site_is_told() {
        let expected = "news.example.org: no server runs\n\n\
                        spool data, durability always\n  \
                        1,234 articles in 7 groups; history 5,000 Message-IDs; journal 1.00 MiB\n  \
                        on disk for each article beyond its own bytes: 140 (record 90, journal 0, history 50, overview 0, \
                        residents 0, checkpoint 0)\n\n\
                        class  method  oldest article   last hour    last day  articles stay  target  promise\n\
                        text   cnfs               2 h  2.00 KiB/s  1.00 KiB/s            2 h     1 d           BELOW \
                        TARGET\n\n\
                        buffer      size      used   %  cycle  oldest article\n\
                        text0   2.00 GiB  1.00 GiB  50      2             2 h";
        assert_eq!(text(&report(None), 8_205), expected);
    }

    #[test]
    fn a_young_site_does_not_foretell() {
        let mut report = report(None);
        report.spool.overhead = None;
        report.spool.classes[0].stays_secs = None;
        let shown = text(&report, 8_205);
        assert!(
            shown.contains("\n  on disk for each article beyond its own bytes: not known yet\n"),
            "{shown}"
        );
        assert!(
            shown.contains("text   cnfs               2 h  2.00 KiB/s  1.00 KiB/s  not known yet     1 d"),
            "{shown}"
        );
    }

    #[test]
    fn a_running_server_tells_its_peers_and_its_trouble() {
        let peer =
            PeerStatus { name: "upstream".into(), connections: 4, offered: 10_000, accepted: 9, rejected: 1 };
        let server = ServerStatus {
            pid: 7,
            uptime_secs: 65,
            listen: vec!["127.0.0.1:1119".into()],
            peers: vec![peer],
            ..ServerStatus::default()
        };
        let mut report = report(Some(server));
        report.spool.stopped = Some("no space left".into());
        let shown = text(&report, 8_205);
        assert!(shown.starts_with("news.example.org: newsreel 1.0, process 7, up 1 min 5 s\n"), "{shown}");
        assert!(shown.contains("\nupstream            4   10,000         9         1\n"), "{shown}");
        assert!(shown.contains("\n  ACCEPTS NOTHING: no space left\n"), "{shown}");
    }
}
