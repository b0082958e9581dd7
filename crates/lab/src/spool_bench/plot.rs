//! The figures as a plot.

use super::batches::Batches;
use super::measuring::Measured;
use super::report::FIGURES;
use super::subject::Subject;
use crate::drawing::{Label, Panel, bars};
use crate::record::Group;

/// Figures that are drawn, with their titles.
const PANELS: [(&str, &str); 4] = [
    ("articles/s", "articles a second"),
    ("calls", "system calls an article"),
    ("disk KB", "KB written to disk an article"),
    ("disk writes", "disk writes an article"),
];

/// The same over releases.
pub fn over_releases() -> Group {
    Group {
        file: "spool-releases",
        title: "Storage methods under the CNFS paper's batches, over releases",
        rows: PANELS.iter().map(|(head, title)| (*head, (*title).to_owned())).collect(),
    }
}

/// The whole file.
pub fn svg(all: &[Measured], made: &Batches) -> String {
    let count = made.articles() as f64;
    let label = |measured: &Measured| Label {
        text: measured.subject.name(),
        is_ours: matches!(measured.subject, Subject::Newsreel(_)),
    };
    let panels = PANELS.iter().filter_map(|(head, title)| {
        let figure = FIGURES.iter().find(|figure| figure.head == *head)?;
        let values = all.iter().map(|measured| (figure.value)(measured, count)).collect();
        Some(Panel { title: (*title).to_owned(), values })
    });
    bars(
        "Storage methods under the CNFS paper's batches",
        &all.iter().map(label).collect::<Vec<_>>(),
        &panels.collect::<Vec<_>>(),
    )
}
