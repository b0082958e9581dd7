//! The figures as tables and as a plot.

use super::jobs::Figures;
use super::{Measured, Options};
use crate::drawing::{Label, Panel, bars};
use std::fmt::Write as _;

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
