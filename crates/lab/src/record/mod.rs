//! The results of benches, kept for each release as JSON in `docs/bench/records` and drawn over releases.
//!
//! One file a version, one table in it for each bench; a run takes the place of its bench's last one. The
//! form is in `docs/bench/README.md`. Called by `speed` and `spool_bench`.

mod machine;

pub use machine::{Machine, Spent};

use crate::drawing::{Line, Release, Series, releases};
use serde_json::{Map, Value, json};
use site_base::units::day_text;
use std::fs;
use std::io;
use std::path::Path;

/// Where they are, below the directory of the pages.
const DIR: &str = "records";
/// The form of the files.
const FORM: u64 = 1;

/// What a bench has measured.
#[derive(Debug)]
pub struct Table {
    /// The bench: `speed` for `make bench`, `spool` for `make bench-spool`.
    pub bench: &'static str,
    /// When it began, in Unix seconds.
    pub began: i64,
    pub machine: Machine,
    /// How often each was measured.
    pub runs: usize,
    /// Row, server, value.
    pub values: Vec<(String, String, f64)>,
}

/// A file that is drawn: a panel for each of its rows.
#[derive(Debug)]
pub struct Group {
    /// `speed-feeding` for `speed-feeding.svg`.
    pub file: &'static str,
    pub title: &'static str,
    /// Rows, and the titles of their panels.
    pub rows: Vec<(&'static str, String)>,
}

/// Keeps a table for this version, and draws all that are kept.
pub fn keep(docs: &Path, table: &Table, groups: &[Group]) -> io::Result<()> {
    let dir = docs.join(DIR);
    fs::create_dir_all(&dir)?;
    let version = env!("CARGO_PKG_VERSION");
    let file = dir.join(format!("{version}.json"));
    let before = match fs::read_to_string(&file) {
        Ok(text) => parse(&text).map_err(|what| fault(&file, &what))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
        Err(error) => return Err(error),
    };
    let text = serde_json::to_string_pretty(&with_table(before, version, table)).map_err(io::Error::other)?;
    fs::write(&file, text + "\n")?;
    let records = read(&dir)?;
    for group in groups {
        fs::write(docs.join(group.file).with_extension("svg"), draw(&records, table.bench, group))?;
    }
    Ok(())
}

fn fault(file: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{}: {what}", file.display()))
}

/// The record of a version with this table.
fn with_table(mut record: Value, version: &str, table: &Table) -> Value {
    let mut rows = Map::new();
    for (row, server, value) in &table.values {
        let value = (value * 1e4).round() / 1e4;
        let of_row = rows.entry(row.clone()).or_insert_with(|| json!({}));
        if let Some(of_row) = of_row.as_object_mut() {
            of_row.insert(server.clone(), json!(value));
        }
    }
    if !record.is_object() {
        record = json!({ "form": FORM, "version": version, "tables": {} });
    }
    if let Some(tables) = record.get_mut("tables").and_then(Value::as_object_mut) {
        let one = json!({
            "date": day_text(table.began),
            "machine": table.machine.json(),
            "runs": table.runs,
            "rows": rows,
        });
        tables.insert(table.bench.to_owned(), one);
    }
    record
}

/// A record, if its form is known.
fn parse(text: &str) -> Result<Value, String> {
    let record: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match record.get("form").and_then(Value::as_u64) {
        Some(FORM) if record.get("tables").is_some_and(Value::is_object) => Ok(record),
        _ => Err(format!("no record of form {FORM}")),
    }
}

/// All records, oldest version first.
fn read(dir: &Path) -> io::Result<Vec<Value>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(dir)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            records.push(parse(&fs::read_to_string(&file)?).map_err(|what| fault(&file, &what))?);
        }
    }
    records.sort_by_key(|record| order(record["version"].as_str().unwrap_or_default()));
    Ok(records)
}

/// `0.10.0` is after `0.9.0`.
fn order(version: &str) -> (Vec<u64>, String) {
    let numbers = version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    (numbers, version.to_owned())
}

/// A group of rows over the versions that have the bench.
fn draw(records: &[Value], bench: &str, group: &Group) -> String {
    let tables: Vec<(&Value, &Value)> = records
        .iter()
        .filter_map(|record| Some((&record["version"], record["tables"].get(bench)?)))
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let axis: Vec<Release> = tables
        .iter()
        .map(|(version, table)| Release { version: text(version), date: text(&table["date"]) })
        .collect();
    let series: Vec<Series> = group
        .rows
        .iter()
        .map(|(row, title)| {
            let of = |table: &Value, server: &str| table["rows"][*row][server].as_f64();
            let mut servers: Vec<String> = Vec::new();
            for (_, table) in &tables {
                let known = table["rows"][*row].as_object();
                servers.extend(known.into_iter().flat_map(Map::keys).cloned());
            }
            servers.sort();
            servers.dedup();
            let line = |name: String| Line {
                values: tables.iter().map(|(_, table)| of(table, &name)).collect(),
                name,
            };
            Series { title: title.clone(), lines: servers.into_iter().map(line).collect() }
        })
        .filter(|series: &Series| !series.lines.is_empty())
        .collect();
    releases(group.title, &axis, &series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::faults;

    fn table(bench: &'static str, values: &[(&str, &str, f64)]) -> Table {
        let machine = Machine { cores: 2, memory_mib: 16_000, busy_percent: 40.0, ..Machine::default() };
        let values = values.iter().map(|(row, server, value)| ((*row).into(), (*server).into(), *value));
        Table { bench, began: 1_795_453_200, machine, runs: 3, values: values.collect() }
    }

    #[test]
    fn a_bench_takes_the_place_of_its_last_run_and_leaves_the_others() {
        let first = with_table(Value::Null, "0.9.0", &table("speed", &[("check", "INN", 1.0)]));
        let both = with_table(first, "0.9.0", &table("spool", &[("calls", "INN cnfs", 2.5)]));
        let again = table("speed", &[("check", "INN", 3.0), ("check", "newsreel", 30.123_456)]);
        let last = with_table(both, "0.9.0", &again);
        assert_eq!(last["tables"]["speed"]["rows"]["check"], json!({ "INN": 3.0, "newsreel": 30.1235 }));
        assert_eq!(last["tables"]["spool"]["rows"]["calls"]["INN cnfs"], json!(2.5));
        assert_eq!(last["tables"]["speed"]["date"], json!("2026-11-23"));
        assert_eq!(last["tables"]["speed"]["machine"]["loaded"], json!(true));
        assert_eq!(parse(&last.to_string()), Ok(last));
        for wrong in ["", "[]", "{\"form\":2,\"tables\":{}}", "{\"form\":1}"] {
            parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn two_records_are_drawn_in_the_order_of_their_versions() {
        let of = |version: &str, values: &[(&str, &str, f64)]| {
            with_table(Value::Null, version, &table("speed", values))
        };
        let mut records = vec![
            of("0.10.0", &[("check", "INN", 10.0), ("check", "newsreel", 3000.0), ("over", "newsreel", 7.0)]),
            of("0.9.0", &[("check", "INN", 11.0), ("check", "newsreel", 200.0)]),
        ];
        records.sort_by_key(|record| order(record["version"].as_str().unwrap()));
        let group = Group {
            file: "speed-checking",
            title: "Message-IDs that are known",
            rows: vec![("check", "CHECK a second".into()), ("over", "OVER".into()), ("none", "none".into())],
        };
        let drawn = draw(&records, "speed", &group);
        assert_eq!(faults::of(&drawn), Vec::<String>::new(), "{drawn}");
        let (old, new) = (drawn.find(">0.9.0<").unwrap(), drawn.find(">0.10.0<").unwrap());
        // Labels are drawn from the newest on, and stand from left to right.
        assert!(new < old, "{drawn}");
        assert!(drawn.contains(">newsreel 3000<") && drawn.contains(">INN 10.0<"), "{drawn}");
        // Two of CHECK, one of OVER; what nobody measured is not drawn.
        assert_eq!((drawn.matches("<polyline").count(), drawn.contains(">none<")), (3, false));
        assert_eq!(drawn.matches("<circle").count(), 5 + 3);
    }

    #[test]
    fn what_is_kept_is_found_again_and_drawn() {
        let docs = std::env::temp_dir().join(format!("lab-record-{}", std::process::id()));
        let group = Group { file: "speed-over", title: "OVER", rows: vec![("over", "rows".into())] };
        for value in [5.0, 6.0] {
            let made = table("speed", &[("over", "newsreel", value)]);
            keep(&docs, &made, std::slice::from_ref(&group)).unwrap();
        }
        let records = read(&docs.join(DIR)).unwrap();
        let drawn = fs::read_to_string(docs.join("speed-over.svg")).unwrap();
        fs::remove_dir_all(&docs).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0]["tables"]["speed"]["rows"]["over"]["newsreel"], json!(6.0));
        assert!(drawn.contains(">newsreel 6.00<"), "{drawn}");
    }
}
