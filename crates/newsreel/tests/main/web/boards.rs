//! Alert rules and the dashboard against a server's metrics: every metric they name exists.

use super::http::get;
use super::site;
use crate::clients::installed;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Returns the names of our metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_word(c)).filter(|word| word.starts_with("newsreel_"));
    words.map(str::to_owned).collect()
}

#[test]
fn alerts_and_dashboard_name_existing_metrics() {
    let (_server, address) = site("");
    let scraped = get(address, "/metrics").body;
    // Families without samples yet, such as archives, have a type.
    let typed = scraped.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let suffixes = |kind: &str| match kind {
        "counter" => vec!["_total"],
        "histogram" => vec!["_bucket", "_sum", "_count"],
        "info" => vec!["_info"],
        _ => vec![""],
    };
    let there: BTreeSet<String> = typed
        .filter_map(|line| line.split_once(' '))
        .flat_map(|(name, kind)| suffixes(kind).into_iter().map(move |suffix| format!("{name}{suffix}")))
        .collect();
    assert!(there.len() > 100, "{there:?}");
    for file in ["prometheus/newsreel.rules.yml", "grafana/newsreel.json"] {
        let named = names(&fs::read_to_string(packaging(file)).unwrap());
        assert!(named.len() > 10, "{file}: {named:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{file} names {missing:?}");
    }
}

#[test]
fn dashboard_is_valid_for_grafana() {
    let text = fs::read_to_string(packaging("grafana/newsreel.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(board["schemaVersion"].as_u64().unwrap() >= 36 && board["title"] == "newsreel");
    let panels = board["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && taken.insert((x, y)), "panels overlap: {panel}");
            }
        }
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${source}");
            let expr = target["expr"].as_str().unwrap();
            assert!(expr.matches('(').count() == expr.matches(')').count() && expr.contains("$instance"));
        }
    }
}

#[test]
fn promtool_accepts_metrics_and_alerts() {
    if !installed(&[("promtool", "prometheus")]) {
        return;
    }
    let rules = packaging("prometheus/newsreel.rules.yml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(rules).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let (_server, address) = site("");
    let mut child = Command::new("promtool");
    child.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // promtool reads the older form, which has no end mark and no type for information.
    let text = get(address, "/metrics").body.replace("# EOF\n", "").replace(" info\n", " gauge\n");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let checked = child.wait_with_output().unwrap();
    // Exit code 1 means a parse error. Complaints about abbreviated units and the help of counters are
    // ignored.
    let said = String::from_utf8(checked.stderr).unwrap();
    let is_taste = |line: &str| line.ends_with("no help text") || line.ends_with("abbreviated units");
    assert!(checked.status.code() == Some(3) && said.lines().all(is_taste), "{said}");
}
