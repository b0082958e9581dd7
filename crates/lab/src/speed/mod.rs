//! The speed table of `bench/bench.sh`: medians of its runs, ratios to INN, and the limits that must hold.
//!
//! The script measures and writes a JSON line for each run; what its rows are called, what they must reach
//! and how they are shown is here alone. Kept for each release, and drawn (`record`).

mod rows;

use crate::Verdict;
use crate::record::{self, Group, Machine, Table};
use clap::Args;
use rows::{BASE_RATIO_MIN, Better, GROUPS, NOT_STALLED_MIN, ROWS, Row};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// The options of `lab speed`.
#[derive(Debug, Args)]
pub struct Options {
    /// The JSON lines of the script
    #[arg(long)]
    runs: PathBuf,
    /// Where the record and the plots go; without it they are not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Default)]
struct Runs {
    machine: Machine,
    began: i64,
    /// Row, server, value.
    values: Vec<(String, String, f64)>,
}

/// Prints what the script puts at the head of its lines: the machine, and whether others use it.
pub fn machine() -> Verdict {
    let began = disk::clock::unix_now();
    println!("{}", serde_json::json!({ "machine": Machine::look().json(), "began": began }));
    Ok(true)
}

/// Prints the table, and keeps it.
pub fn run(options: &Options) -> Verdict {
    let runs = Runs::parse(&fs::read_to_string(&options.runs)?)?;
    if runs.values.is_empty() {
        return Err("nothing was measured".into());
    }
    let (text, held) = runs.table();
    print!("{text}");
    if let Some(docs) = &options.docs {
        record::keep(docs, &runs.kept(), &groups())?;
    }
    Ok(held)
}

fn groups() -> Vec<Group> {
    let of = |group: &str| -> Vec<(&'static str, String)> {
        ROWS.iter().filter(|row| row.group == group).map(|row| (row.name, row.title())).collect()
    };
    GROUPS.iter().map(|(name, file, title)| Group { file, title, rows: of(name) }).collect()
}

impl Runs {
    fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut runs = Self::default();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line)?;
            if let Some(machine) = line.get("machine") {
                runs.machine = Machine::of(machine);
                runs.began = line["began"].as_i64().unwrap_or_default();
            }
            if let (Some(row), Some(server), Some(value)) =
                (line["row"].as_str(), line["server"].as_str(), line["value"].as_f64())
            {
                runs.values.push((row.to_owned(), server.to_owned(), value));
            }
        }
        Ok(runs)
    }

    fn of<'a>(&'a self, row: &'a str, server: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.values.iter().filter(move |(r, s, _)| r == row && s == server).map(|(.., value)| *value)
    }

    fn median(&self, row: &str, server: &str) -> Option<f64> {
        let mut values: Vec<f64> = self.of(row, server).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied()
    }

    fn has(&self, server: &str) -> bool {
        self.values.iter().any(|(_, s, _)| s == server)
    }

    /// What newsreel is compared with.
    fn peer(&self) -> &'static str {
        if self.has("base") { "base" } else { "inn" }
    }

    /// How often each was measured.
    fn times(&self) -> usize {
        self.of("takethis-1", "newsreel").count()
    }

    /// The table, and whether every limit holds.
    fn table(&self) -> (String, bool) {
        let peer = self.peer();
        let mut text = format!(
            "\nmedians of {}; each server in its default durability; others took {:.0} % of the processors \
             before\n{:<46} {:>12} {:>12} {:>12} {:>8} {:>5}\n",
            self.times(),
            self.machine.busy_percent,
            "",
            peer.to_uppercase(),
            "null sink",
            "newsreel",
            "ratio",
            "bar"
        );
        let mut held = true;
        for row in &ROWS {
            held &= self.put(&mut text, row, peer);
        }
        let both = self.median("check", "newsreel").zip(self.median("check-refill-25", "newsreel"));
        if let Some((check, refilled)) = both {
            let name = "CHECK not stalled: refill 25 to refill 1";
            let ratio = refilled / check;
            let holds = ratio >= NOT_STALLED_MIN;
            let _ = writeln!(
                text,
                "{name:<85} {ratio:>8.2} {NOT_STALLED_MIN:>5} {}",
                if holds { "ok" } else { "MISSED" }
            );
            held &= holds;
        }
        (text, held)
    }

    fn put(&self, text: &mut String, row: &Row, peer: &str) -> bool {
        let shown = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
        let (theirs, ours) = (self.median(row.name, peer), self.median(row.name, "newsreel"));
        let ratio = theirs.zip(ours).map(|(theirs, ours)| match row.better {
            Better::More => ours / theirs,
            Better::Less => theirs / ours.max(0.01),
        });
        let bar = if peer == "base" { Some(BASE_RATIO_MIN) } else { row.ratio_min };
        let holds = ratio.zip(bar).map(|(ratio, bar)| ratio >= bar);
        let _ = writeln!(
            text,
            "{:<46} {:>12} {:>12} {:>12} {:>8} {:>5} {}",
            row.text,
            shown(theirs),
            shown(self.median(row.name, "sink")),
            shown(ours),
            ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            bar.map_or_else(|| "-".into(), |bar| bar.to_string()),
            holds.map_or("", |holds| if holds { "ok" } else { "MISSED" })
        );
        holds != Some(false)
    }

    /// The medians, for the record.
    fn kept(&self) -> Table {
        let mut values = Vec::new();
        for row in &ROWS {
            for (server, name) in [("newsreel", "newsreel"), ("inn", "INN"), ("sink", "null sink")] {
                let median = self.median(row.name, server);
                values.extend(median.map(|median| (row.name.to_owned(), name.to_owned(), median)));
            }
        }
        let (machine, runs) = (self.machine.clone(), self.times());
        Table { bench: "speed", began: self.began, machine, runs, values }
    }
}

#[cfg(test)]
mod tests;
