//! The figures as a table, as JSON and as Markdown.

use super::Measured;
use super::batches::Batches;
use std::fmt::Write as _;

/// One figure of a server.
pub struct Figure {
    pub head: &'static str,
    pub value: fn(&Measured, f64) -> Option<f64>,
    /// Digits after the decimal point.
    pub digits: usize,
}

/// The figures, given the number of articles.
pub const FIGURES: [Figure; 12] = [
    Figure { head: "articles/s", value: |m, n| Some(n / m.total()), digits: 0 },
    Figure { head: "CPU us", value: |m, n| Some(m.counters.ticks as f64 * 1e6 / ticks() / n), digits: 1 },
    Figure { head: "calls", value: |m, n| Some(m.calls?.all as f64 / n), digits: 2 },
    Figure { head: "reads", value: |m, n| Some(m.calls?.read as f64 / n), digits: 2 },
    Figure { head: "writes", value: |m, n| Some(m.calls?.write as f64 / n), digits: 2 },
    Figure { head: "paths", value: |m, n| Some(m.calls?.path as f64 / n), digits: 2 },
    Figure { head: "syncs", value: |m, n| Some(m.calls?.sync as f64 / n), digits: 4 },
    Figure { head: "faults", value: |m, n| Some(m.counters.faults as f64 / n), digits: 2 },
    Figure {
        head: "dirtied KB",
        value: |m, n| Some(m.counters.written_bytes as f64 / 1024.0 / n),
        digits: 2,
    },
    Figure { head: "disk KB", value: |m, n| Some(m.counters.disk_bytes as f64 / 1024.0 / n), digits: 2 },
    Figure { head: "disk writes", value: |m, n| Some(m.counters.disk_writes as f64 / n), digits: 3 },
    Figure { head: "sync s", value: |m, _| Some(m.sync_seconds), digits: 2 },
];

impl Measured {
    /// Seconds for all batches.
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

/// Clock ticks a second.
fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Articles of all batches.
pub fn articles(made: &Batches) -> f64 {
    made.batches.iter().map(|batch| batch.ends.len()).sum::<usize>() as f64
}

fn cells(measured: &Measured, articles: f64) -> Vec<String> {
    let figure = |f: &Figure| {
        (f.value)(measured, articles).map_or_else(|| "-".into(), |v| format!("{v:.*}", f.digits))
    };
    std::iter::once(measured.subject.name()).chain(FIGURES.iter().map(figure)).collect()
}

fn rows(all: &[Measured], made: &Batches) -> Vec<Vec<String>> {
    let head = std::iter::once("").chain(FIGURES.iter().map(|f| f.head)).map(str::to_owned).collect();
    let count = articles(made);
    std::iter::once(head).chain(all.iter().map(|m| cells(m, count))).collect()
}

/// The batches in a line.
fn what(made: &Batches) -> String {
    let kb: u64 = made.batches.iter().map(|batch| batch.article_bytes).sum::<u64>() >> 10;
    format!(
        "{} articles, {kb} KB, {} groups, in {} batches",
        articles(made),
        made.groups.len(),
        made.batches.len()
    )
}

/// How often each was measured.
fn runs(all: &[Measured]) -> String {
    let most = all.iter().map(|m| m.runs).max().unwrap_or(0);
    let times = |n| if n == 1 { "once".to_owned() } else { format!("{n} times") };
    let fewer: Vec<String> = all
        .iter()
        .filter(|m| m.runs < most)
        .map(|m| format!("{} {}", m.subject.name(), times(m.runs)))
        .collect();
    let but = if fewer.is_empty() { String::new() } else { format!(" ({})", fewer.join(", ")) };
    format!("each measured {}{but}", times(most))
}

/// For a terminal.
pub fn table(all: &[Measured], made: &Batches) -> String {
    let rows = rows(all, made);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(String::len).max().unwrap_or(0);
    let mut text =
        format!("{}; {}; all but articles/s and sync s are for one article\n\n", what(made), runs(all));
    for row in &rows {
        for (at, cell) in row.iter().enumerate() {
            let _ = if at == 0 {
                write!(text, "{cell:<0$}", width(0))
            } else {
                write!(text, "  {cell:>0$}", width(at))
            };
        }
        text.push('\n');
    }
    text
}

/// For the record of the release: figure, server, value.
pub fn values(all: &[Measured], made: &Batches) -> Vec<(String, String, f64)> {
    let count = articles(made);
    let of = |m: &Measured, f: &Figure| {
        (f.value)(m, count).map(|value| (f.head.to_owned(), m.subject.name(), value))
    };
    all.iter().flat_map(|m| FIGURES.iter().filter_map(move |f| of(m, f))).collect()
}

/// For programs: one object, a list of servers in it.
pub fn json(all: &[Measured], made: &Batches, seed: u64) -> String {
    let count = articles(made);
    let one = |m: &Measured| {
        let mut text = format!("{{\"server\":\"{}\",\"batch_seconds\":{:?}", m.subject.name(), m.seconds);
        for figure in &FIGURES {
            let name = figure.head.replace([' ', '/'], "_").to_lowercase();
            let value = (figure.value)(m, count).map_or_else(|| "null".into(), |v| format!("{v:.4}"));
            let _ = write!(text, ",\"{name}\":{value}");
        }
        text + "}"
    };
    let list: Vec<String> = all.iter().map(one).collect();
    let sizes: Vec<String> = made
        .batches
        .iter()
        .map(|b| format!("{{\"articles\":{},\"bytes\":{}}}", b.ends.len(), b.article_bytes))
        .collect();
    format!(
        "{{\"seed\":{seed},\"batches\":[{}],\n\"servers\":[\n{}\n]}}\n",
        sizes.join(","),
        list.join(",\n")
    )
}

/// For the page.
pub fn markdown(all: &[Measured], made: &Batches) -> String {
    let mut text = format!("{}; {}.\n\n", what(made), runs(all));
    for (at, row) in rows(all, made).iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if at == 0 {
            let _ = writeln!(text, "|---|{}", "---:|".repeat(FIGURES.len()));
        }
    }
    text
}
