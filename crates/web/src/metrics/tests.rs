//! Tests of a scrape's text: complete, well-formed, and safe with any names.

use super::encode::text;
use super::latencies::TimedOperation;
use super::plain::of_open_metrics;
use super::strict::{MetricFamily, parse};
use super::wants_plain_text;
use operators::pull::PullCounts;
use operators::report::*;
use serde_json::Value;
use site_base::figures::{Figure, FigureTable, FigureType};
use spool::LatencyHistogram;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Returns a report with an element in every list, and with every optional part.
pub(crate) fn full_report(name: &str) -> Report {
    let name = || name.to_owned();
    let counts = || CacheCounts { of: name(), requests: 9, ..CacheCounts::default() };
    let cache = CacheStatus {
        kinds: vec![counts()],
        upstreams: vec![counts()],
        groups: vec![counts()],
        ..CacheStatus::default()
    };
    let output = Some(OutputStatus { to: name(), ..OutputStatus::default() });
    let feed = FeedStatus { state: "idle".into(), lag_secs: 7, output, ..FeedStatus::default() };
    let peers = vec![
        PeerStatus { name: name(), offered: 12, feed: Some(feed), ..PeerStatus::default() },
        PeerStatus { name: "other".into(), ..PeerStatus::default() },
    ];
    let server = ServerStatus {
        peers,
        pulls: vec![PullStatus { name: name(), run: PullCounts::default(), ..PullStatus::default() }],
        upstreams: vec![UpstreamStatus { name: name(), ..UpstreamStatus::default() }],
        cache: Some(cache),
        cluster: Some(MemberFigures {
            member: name(),
            log_reach_secs: Some(1),
            members: vec![ClusterMemberFigures {
                name: name(),
                silent_secs: Some(1),
                agrees: Some(true),
                ..ClusterMemberFigures::default()
            }],
            nodes: vec![LogNodeFigures { name: name(), ..LogNodeFigures::default() }],
            ..MemberFigures::default()
        }),
        search: Some(SearchStatus::default()),
        spam: vec![SpamCheckStatus { name: name(), ..SpamCheckStatus::default() }],
        filters: vec![FilterStatus { name: name(), down: true, ..FilterStatus::default() }],
        archives: vec![ArchiveStatus { name: name(), problem: "full".into(), ..ArchiveStatus::default() }],
        ..ServerStatus::default()
    };
    let spool = SpoolStatus {
        unopened: Some(name()),
        readers: vec![JournalReaderReport {
            name: name(),
            damage: Some(name()),
            ..JournalReaderReport::default()
        }],
        hot_memory_bytes: Some(0),
        digest: Some(name()),
        digest_start: Some(1),
        unnumbered: Some(UnnumberedSavings::default()),
        overhead: Some(Overhead::default()),
        classes: vec![ClassReport { name: name(), ..ClassReport::default() }],
        buffers: vec![BufferReport { name: name(), away: true, ..BufferReport::default() }],
        kept: vec![KeptVolumeReport { name: name(), ..KeptVolumeReport::default() }],
        ..SpoolStatus::default()
    };
    Report { version: "1".into(), path_identity: "x".into(), server: Some(server), spool }
}

/// Collects the paths of all figures, each with its figure.
fn figures(table: &'static [Figure], path: &str, found: &mut Vec<(String, &'static Figure)>) {
    for figure in table {
        let path = if path.is_empty() { figure.name.to_owned() } else { format!("{path}.{}", figure.name) };
        match figure.of {
            FigureType::Part(inner) | FigureType::List(_, inner) => figures(inner, &path, found),
            _ => found.push((path, figure)),
        }
    }
}

fn all_figures() -> Vec<(String, &'static Figure)> {
    let mut found = Vec::new();
    figures(Report::FIGURES, "", &mut found);
    found
}

/// Collects the paths of all values of a report.
fn values(value: &Value, path: &str, figures: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    match value {
        _ if figures.contains(path) => {
            found.insert(path.to_owned());
        }
        Value::Object(object) => {
            for (key, value) in object {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                values(value, &path, figures, found);
            }
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| values(element, path, figures, found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn scrape(name: &str) -> BTreeMap<String, MetricFamily> {
    let latency = LatencyHistogram::default();
    latency.observe_many(Duration::from_millis(3), 5);
    latency.observe(Duration::from_secs(60));
    let timed = vec![TimedOperation { name: "filing_seconds", help: "x", counts: latency.counts() }];
    parse(&text(&full_report(name), timed).unwrap()).unwrap()
}

#[test]
fn every_value_of_a_report_has_a_row_and_every_row_a_value() {
    let rows: BTreeSet<String> = all_figures().into_iter().map(|(path, _)| path).collect();
    let mut found = BTreeSet::new();
    values(&serde_json::to_value(full_report("x")).unwrap(), "", &rows, &mut found);
    assert_eq!(found, rows);
    assert!(all_figures().iter().all(|(_, figure)| !figure.help().is_empty()));
}

#[test]
fn a_scrape_has_every_figure_under_the_name_of_the_report() {
    let families = scrape("peer");
    for (path, figure) in all_figures() {
        let name = format!("newsreel_{}", path.replace('.', "_"));
        let family = families.get(&name);
        let expected = match figure.of {
            FigureType::Counter => "counter",
            FigureType::Gauge | FigureType::Trouble(_) => "gauge",
            _ => continue,
        };
        assert_eq!(family.map(|family| family.kind.as_str()), Some(expected), "{name}");
        assert_eq!(family.map(|family| family.help.as_str()), Some(figure.help().as_str()), "{name}");
    }
    let offered = &families["newsreel_server_peers_offered"].samples;
    assert_eq!(offered.len(), 2);
    assert_eq!((offered[0].name.as_str(), offered[0].value), ("newsreel_server_peers_offered_total", 12.0));
    assert_eq!(offered[0].labels, [("peer".into(), "peer".into())]);
    assert_eq!(families["newsreel_server_peers_feed_lag_secs"].samples.len(), 1, "one has no feed");
    assert_eq!(families["newsreel_server_archives_problem"].samples[0].value, 1.0);
    assert_eq!(families["newsreel_server_filters_down"].samples[0].value, 1.0);
    assert_eq!(families["newsreel_spool_stopped"].samples[0].value, 0.0);
    let state = &families["newsreel_server_peers_feed"].samples[0];
    assert_eq!(state.labels, [("peer".into(), "peer".into()), ("state".into(), "idle".into())]);
    assert_eq!(families["newsreel_site"].samples[0].labels.len(), 2);
    let filing = &families["newsreel_filing_seconds"].samples;
    assert!(filing.iter().any(|sample| sample.name.ends_with("_count") && sample.value == 6.0));
}

#[test]
fn a_scrape_grows_with_peers_and_not_with_groups() {
    let samples = |peers: usize, groups: usize| {
        let mut report = full_report("x");
        let server = report.server.as_mut().unwrap();
        let peer = server.peers[0].clone();
        server.peers = (0..peers).map(|n| PeerStatus { name: format!("peer{n}"), ..peer.clone() }).collect();
        let counts = |n| CacheCounts { of: format!("group{n}"), ..CacheCounts::default() };
        server.cache.as_mut().unwrap().groups = (0..groups).map(counts).collect();
        report.spool.groups = groups as u64;
        let families = parse(&text(&report, Vec::new()).unwrap()).unwrap();
        families.values().map(|family| family.samples.len()).sum::<usize>()
    };
    let (none, one) = (samples(0, 1), samples(1, 1));
    let each = one - none;
    assert!((5..60).contains(&each), "{each} of each peer");
    assert_eq!(samples(100, 3_000), none + 100 * each);
}

#[test]
fn a_name_cannot_break_out_of_its_label() {
    let name = "a\"} 1\n# EOF\n\\n\u{1f4a3}";
    let families = scrape(name);
    let peer = &families["newsreel_server_peers_offered"].samples[0];
    assert_eq!(peer.labels, [("peer".to_owned(), name.to_owned())]);
}

#[test]
fn the_text_format_has_the_same_samples_and_their_families_are_called_like_them() {
    let open = text(&full_report("peer"), Vec::new()).unwrap();
    let plain = of_open_metrics(&open);
    let samples = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(samples(&plain), samples(&open));
    for line in plain.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
        assert!(plain.contains(&format!("# HELP {name} ")), "{line}");
        let has_samples = open.lines().any(|line| line.starts_with(name));
        assert!(has_samples || !open.contains(&format!("\n{name}")), "{line}");
    }
    assert!(plain.contains("# TYPE newsreel_server_peers_offered_total counter\n"), "{plain}");
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"), "{plain}");
}

#[test]
fn clients_that_prefer_the_text_format_get_it() {
    let wants = |accept: &str| wants_plain_text(std::iter::once(accept));
    let prometheus =
        "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for accept in [
        "text/plain",
        "text/plain;version=0.0.4;q=0.3, */*;q=0.1",
        "Text/Plain; q=1.000",
        "text/*",
        "application/openmetrics-text;q=0, text/plain;q=0.001",
    ] {
        assert!(wants(accept), "{accept}");
    }
    for accept in [
        prometheus,
        "",
        "*/*",
        "application/openmetrics-text",
        "text/html",
        "text/plain;q=0",
        "text/plain;q=2",
        "text/plain;q=0.5,application/*",
    ] {
        assert!(!wants(accept), "{accept}");
    }
}

#[test]
fn the_parser_of_these_tests_is_strict() {
    let good = "# HELP a x\n# TYPE a counter\na_total{x=\"1\"} 1.0\n# EOF\n";
    assert!(parse(good).is_ok());
    for (wrong, with) in [
        ("# EOF\n", ""),
        ("a_total", "a"),
        ("{x=\"1\"}", "{x=\"1\",}"),
        ("{x=\"1\"}", "{x=1}"),
        ("x=\"1\"", "x=\"1\",x=\"2\""),
        ("1.0", "one"),
        ("1.0", "-1"),
        ("counter", "count"),
        ("1.0\n", "1.0\na_total{x=\"1\"} 2\n"),
        ("1.0\n", "1.0\n# TYPE b gauge\nb 1\n# TYPE a gauge\n"),
        ("\"1\"", "\"\\q\""),
    ] {
        assert!(parse(&good.replacen(wrong, with, 1)).is_err(), "{with}");
    }
}
