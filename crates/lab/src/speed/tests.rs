//! Tests of the speed table: the script's lines become medians, ratios and verdicts.

use super::*;
use std::collections::BTreeSet;

fn lines(values: &[(&str, &str, &[f64])]) -> String {
    let mut text = "{\"machine\":{\"cores\":2,\"busy_percent\":3.0},\"began\":1795453200}\n".to_owned();
    for (row, server, values) in values {
        for value in *values {
            text +=
                &format!("{{\"row\":\"{row}\",\"server\":\"{server}\",\"value\":{value},\"load\":{{}}}}\n");
        }
    }
    text
}

#[test]
fn medians_are_compared_and_a_row_below_its_limit_is_missed() {
    let fed = |ours: &[f64]| {
        let text = lines(&[
            ("takethis-1", "inn", &[9.0, 10.0, 1000.0]),
            ("takethis-1", "sink", &[900.0, 1100.0, 1000.0]),
            ("takethis-1", "newsreel", ours),
            ("takethis-1-cpu", "inn", &[80.0]),
            ("takethis-1-cpu", "newsreel", &[10.0]),
        ]);
        Runs::parse(&text).unwrap()
    };
    let (text, held) = fed(&[70.0, 80.0, 90.0]).table();
    assert!(held, "{text}");
    let words = |start: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap();
        line.get(46..).unwrap().split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(words("TAKETHIS, 1 connection"), ["10.0", "1000.0", "80.0", "8.00", "8", "ok"]);
    assert_eq!(words("  server CPU"), ["80.0", "-", "10.0", "8.00", "8", "ok"]);
    assert_eq!(words("GROUP"), ["-", "-", "-", "-", "2"]);
    assert!(text.contains("medians of 3;"));
    let (text, held) = fed(&[79.9]).table();
    assert!(!held && text.contains("MISSED"), "{text}");
}

#[test]
fn a_client_that_lets_its_window_run_low_must_not_be_stalled() {
    let table = |refilled: f64| {
        let text = lines(&[("check", "newsreel", &[100.0]), ("check-refill-25", "newsreel", &[refilled])]);
        Runs::parse(&text).unwrap().table().1
    };
    assert_eq!((table(50.0), table(49.0)), (true, false));
}

#[test]
fn beside_an_older_binary_every_row_has_the_same_limit() {
    let table = |ours: f64| {
        let runs = lines(&[("layers-tls", "base", &[100.0]), ("layers-tls", "newsreel", &[ours])]);
        Runs::parse(&runs).unwrap().table()
    };
    assert!(table(95.0).1 && !table(94.0).1);
    assert!(table(95.0).0.contains("BASE"));
}

#[test]
fn medians_are_kept_by_row_and_server() {
    let runs =
        lines(&[("big", "newsreel", &[3.0, 1.0, 2.0]), ("big", "sink", &[9.0]), ("new", "inn", &[1.0])]);
    let kept = Runs::parse(&runs).unwrap().kept();
    let values: Vec<_> = kept.values.iter().map(|(r, s, v)| (r.as_str(), s.as_str(), *v)).collect();
    assert_eq!(values, [("big", "newsreel", 2.0), ("big", "null sink", 9.0)]);
    assert_eq!((kept.machine.cores, kept.began), (2, 1_795_453_200));
}

#[test]
fn the_script_measures_the_rows_of_the_table_and_each_is_drawn_once() {
    let script = include_str!("../../bench/bench.sh");
    let drawn: Vec<_> = groups().into_iter().flat_map(|group| group.rows).collect();
    assert_eq!(drawn.len(), ROWS.len());
    for row in &ROWS {
        let of_layers = row.name.strip_prefix("layers-").map(|rest| rest.trim_end_matches("-cpu"));
        let is_measured = match of_layers {
            Some(layers) => {
                script.contains("result \"layers-$layers") && script.contains(&format!(" {layers}"))
            }
            None => script.lines().any(|line| line.split(' ').any(|word| word == row.name)),
        };
        assert!(is_measured, "{}", row.name);
    }
    let titles: BTreeSet<&str> = drawn.iter().map(|(_, title)| title.as_str()).collect();
    assert_eq!(titles.len(), ROWS.len(), "{titles:?}");
    assert!(titles.contains("TAKETHIS, 4 connections: server CPU, us/article"), "{titles:?}");
}
