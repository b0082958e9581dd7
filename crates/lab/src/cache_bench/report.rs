//! The figures as tables and as a plot.

use super::clients::{Rates, Work};
use super::full::Resident;
use super::jobs::Figures;
use super::{Measured, Options};
use crate::drawing::{Label, Panel, bars};
use std::fmt::Write as _;

/// Limit: what is read at least of articles of 750 KB.
const LARGE_BYTES_PER_SEC_MIN: f64 = 1.5e9;

fn name(measured: &Measured) -> String {
    let Some(cache) = measured.cache else { return "directly".into() };
    format!("{}, {}", cache.name(), if measured.is_hit { "hit" } else { "miss" })
}

fn on(all: &[Measured], is_thin: bool) -> impl Iterator<Item = &Measured> {
    all.iter().filter(move |measured| measured.is_thin == is_thin)
}

/// One table of a line, in Markdown.
pub fn markdown(all: &[Measured], is_thin: bool) -> String {
    let mut text = String::from("| seconds (first answer; KB over the line) |");
    let Some(first) = on(all, is_thin).next() else { return String::new() };
    first.done.iter().for_each(|done| text += &format!(" {} |", done.job));
    text += &format!("\n|---|{}\n", "---:|".repeat(first.done.len()));
    for measured in on(all, is_thin) {
        let _ = write!(text, "| {} |", name(measured));
        for done in &measured.done {
            let _ = match &done.figures {
                Some(Figures { seconds, first_byte, upstream_bytes }) => {
                    let kb = *upstream_bytes as f64 / 1000.0;
                    write!(text, " {seconds:.3} ({first_byte:.3}; {kb:.1}) |")
                }
                None => write!(text, " - |"),
            };
        }
        text.push('\n');
    }
    text
}

/// Both tables, with the sizes of the jobs.
pub fn page(options: &Options, all: &[Measured]) -> String {
    let sizes = |is_thin: bool| {
        let plan = options.plan(is_thin);
        format!(
            "active: {} groups; selections: {} groups;\n\
             overview: {} numbers of 5 groups; articles: {} of 2.35 KB",
            options.groups,
            plan.selections,
            plan.articles_per_group,
            5 * plan.articles_per_group
        )
    };
    format!(
        "On loopback ({}):\n\n{}\nOver 56 kbit/s with 100 ms there and back ({}):\n\n{}",
        sizes(false),
        markdown(all, false),
        sizes(true),
        markdown(all, true)
    )
}

/// What many clients read.
pub fn clients(options: &Options, rates: &[Rates]) -> String {
    let mut text = format!("| {} clients at once | at the server | cached | times |\n", options.clients);
    text += "|---|---:|---:|---:|\n";
    for Rates { work, direct, cached } in rates {
        let cell = |(articles, bytes): (f64, f64)| match work {
            Work::Large => format!("{:.0} MB/s", bytes / 1e6),
            _ => format!("{articles:.0}/s"),
        };
        let times = cached.0 / direct.0;
        let _ = writeln!(text, "| {} | {} | {} | {times:.2} |", work.name(), cell(*direct), cell(*cached));
    }
    text
}

/// Whether they read as fast as they are to.
pub fn judged(rates: &[Rates]) -> bool {
    let mut held = true;
    for Rates { work, direct, cached } in rates {
        let holds = match work {
            Work::Large => cached.1 >= LARGE_BYTES_PER_SEC_MIN,
            _ => cached.0 >= direct.0,
        };
        let name = work.name();
        println!("{} many clients at once: {name}", if holds { "ok    " } else { "MISSED" });
        held &= holds;
    }
    held
}

/// What a full cache takes of memory.
pub fn memory(resident: &Resident) -> String {
    let Resident { files, bytes, start_kb, readers_kb, end_kb, readers } = resident;
    let mib = |kb: u64| format!("{:.1} MiB", kb as f64 / 1024.0);
    format!(
        "| a cache of {:.1} GB in {files} files, 55,000 groups | resident | at most |\n|---|---:|---:|\n\
         | after the start | {} | {} |\n| with {readers} idle readers | {} | {} |\n\
         | and after reading in 20,000 groups | {} | {} |\n",
        *bytes as f64 / 1e9,
        mib(*start_kb),
        mib(Resident::limit_kb(0)),
        mib(*readers_kb),
        mib(Resident::limit_kb(*readers)),
        mib(*end_kb),
        mib(Resident::limit_kb(*readers)),
    )
}

/// Whether it takes no more than it may.
pub fn fits(resident: &Resident) -> bool {
    let most = resident.readers_kb.max(resident.end_kb);
    let holds = resident.start_kb <= Resident::limit_kb(0) && most <= Resident::limit_kb(resident.readers);
    println!("{} memory of a full cache", if holds { "ok    " } else { "MISSED" });
    holds
}

/// Seconds of each job on the thin line.
pub fn plot(all: &[Measured]) -> String {
    let rows: Vec<&Measured> = on(all, true).collect();
    let is_ours = |measured: &Measured| measured.cache == Some(super::Kind::Newsreel);
    let label = |measured: &&Measured| Label { text: name(measured), is_ours: is_ours(measured) };
    let labels: Vec<Label> = rows.iter().map(label).collect();
    let jobs = rows.first().map_or(0, |measured| measured.done.len());
    let panel = |at: usize| {
        let value = |measured: &&Measured| -> Option<f64> {
            measured.done.get(at)?.figures.as_ref().map(|f| f.seconds)
        };
        let job = rows.first().and_then(|measured| measured.done.get(at)).map_or("", |done| done.job);
        Panel { title: format!("{job}, s"), values: rows.iter().map(value).collect() }
    };
    let panels: Vec<Panel> = (0..jobs).map(panel).collect();
    bars("Seconds of four jobs over 56 kbit/s", &labels, &panels)
}
