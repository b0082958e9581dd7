//! The figures as a table, as JSON and as Markdown.

use super::batches::Batches;
use super::measuring::Measured;
use std::fmt::Write as _;

/// One figure of a server.
pub struct Figure {
    pub head: &'static str,
    pub value: fn(&Measured, f64) -> Option<f64>,
    /// Digits after the decimal point.
    pub digits: usize,
}

/// The figures, given the number of articles.
pub const FIGURES: [Figure; 14] = [
    Figure { head: "articles/s", value: |m, n| Some(n / m.total()), digits: 0 },
    Figure { head: "CPU us", value: |m, n| Some(m.processor_seconds() * 1e6 / n), digits: 1 },
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
    Figure { head: "disk reads", value: |m, n| Some(m.counters.disk_reads as f64 / n), digits: 4 },
    Figure { head: "read KB", value: |m, n| Some(m.counters.disk_read_bytes as f64 / 1024.0 / n), digits: 3 },
    Figure { head: "sync s", value: |m, _| Some(m.sync_seconds), digits: 2 },
];

impl Measured {
    /// Seconds for all batches.
    pub fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Of the server.
    pub fn processor_seconds(&self) -> f64 {
        (self.counters.user_ticks + self.counters.system_ticks) as f64 / ticks()
    }
}

/// Clock ticks a second.
fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn cells(measured: &Measured, articles: f64) -> Vec<String> {
    let figure = |f: &Figure| {
        (f.value)(measured, articles).map_or_else(|| "-".into(), |v| format!("{v:.*}", f.digits))
    };
    std::iter::once(measured.subject.name()).chain(FIGURES.iter().map(figure)).collect()
}

fn rows(all: &[Measured], made: &Batches) -> Vec<Vec<String>> {
    let head = std::iter::once("").chain(FIGURES.iter().map(|f| f.head)).map(str::to_owned).collect();
    let count = made.articles() as f64;
    std::iter::once(head).chain(all.iter().map(|m| cells(m, count))).collect()
}

/// The batches in a line.
fn what(made: &Batches) -> String {
    let kb: u64 = made.batches.iter().map(|batch| batch.article_bytes).sum::<u64>() >> 10;
    format!(
        "{} articles, {kb} KB, {} groups, in {} batches",
        made.articles(),
        made.groups,
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

/// For the record of the release: figure, server, value; of each batch its articles a second as well.
pub fn values(all: &[Measured], made: &Batches) -> Vec<(String, String, f64)> {
    let count = made.articles() as f64;
    let mut values = Vec::new();
    for measured in all {
        let name = measured.subject.name();
        let of = |f: &Figure| Some((f.head.to_owned(), name.clone(), (f.value)(measured, count)?));
        values.extend(FIGURES.iter().filter_map(of));
        for (at, (batch, seconds)) in made.batches.iter().zip(&measured.seconds).enumerate() {
            let rate = batch.articles() as f64 / seconds;
            values.push((format!("batch {}, articles/s", at + 1), name.clone(), rate));
        }
    }
    values
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
