//! The figures as a table and as a plot; each is for one article.

use super::{JOBS, Job, Measured};
use crate::drawing::{Label, Panel, bars};
use std::fmt::Write as _;

/// Figures of a job of the large batch, in the order of their columns.
const HEADS: [&str; 4] = ["real us", "user us", "system us", "calls"];

fn figures(measured: &Measured, job: &Job) -> [Option<f64>; 4] {
    let Some(done) = measured.done.iter().find(|done| done.job == job.name) else { return [None; 4] };
    let each = |seconds: f64| Some(seconds * 1e6 / done.articles as f64);
    let cost = done.cost;
    if job.is_small {
        // A server's processor time is counted in hundredths of a second.
        return [each(cost.real), None, None, None];
    }
    let calls = done.calls.map(|calls| calls as f64 / done.articles as f64);
    [each(cost.real), each(cost.user), each(cost.system), calls]
}

fn cell(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 1.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// One table a job, in Markdown.
pub fn markdown(all: &[Measured]) -> String {
    let mut text = String::new();
    for job in &JOBS {
        let heads: &[&str] = if job.is_small { &HEADS[..1] } else { &HEADS };
        let _ =
            writeln!(text, "| {} | {} |\n|---|{}", job.title, heads.join(" | "), "---:|".repeat(heads.len()));
        for measured in all {
            let cells: Vec<String> = figures(measured, job).into_iter().take(heads.len()).map(cell).collect();
            let _ = writeln!(text, "| {} | {} |", measured.kind.name(), cells.join(" | "));
        }
        text.push('\n');
    }
    text
}

/// Time for an article of each large job.
pub fn plot(all: &[Measured]) -> String {
    let labels: Vec<Label> = all
        .iter()
        .map(|measured| Label { text: measured.kind.name(), is_ours: measured.kind.is_ours() })
        .collect();
    let panels: Vec<Panel> = JOBS
        .iter()
        .filter(|job| !job.is_small)
        .map(|job| Panel {
            title: format!("{}, us", job.name),
            values: all.iter().map(|measured| figures(measured, job)[0]).collect(),
        })
        .collect();
    bars("Microseconds for an article", &labels, &panels)
}
