//! The figures as a plot: bars on a logarithmic scale, as an SVG of its own.

use super::Measured;
use super::batches::Batches;
use super::report::{FIGURES, Figure, articles};
use super::subject::Subject;
use std::fmt::Write as _;

/// Figures that are drawn, with their titles.
const PANELS: [(&str, &str); 4] = [
    ("articles/s", "articles a second"),
    ("calls", "system calls an article"),
    ("disk KB", "KB written to disk an article"),
    ("disk writes", "disk writes an article"),
];
const LABEL_WIDTH: f64 = 130.0;
const PANEL_WIDTH: f64 = 210.0;
const BAR_HEIGHT: f64 = 16.0;
const ROW_HEIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
/// Space for the number after the longest bar.
const NUMBER_WIDTH: f64 = 62.0;

/// The whole file.
pub fn svg(all: &[Measured], made: &Batches) -> String {
    let (width, height) =
        (LABEL_WIDTH + PANEL_WIDTH * PANELS.len() as f64 + 10.0, TOP + ROW_HEIGHT * all.len() as f64 + 14.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
            width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>Storage methods under the CNFS paper's \
         batches</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (at, measured) in all.iter().enumerate() {
        let y = TOP + ROW_HEIGHT * at as f64 + BAR_HEIGHT - 3.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{y:.0}\" text-anchor=\"end\" fill=\"#1a202c\">{}</text>",
            LABEL_WIDTH - 8.0,
            measured.subject.name()
        );
    }
    for (at, (head, title)) in PANELS.iter().enumerate() {
        let x = LABEL_WIDTH + PANEL_WIDTH * at as f64;
        let _ =
            writeln!(out, "<text x=\"{x:.0}\" y=\"24\" font-weight=\"bold\" fill=\"#1a202c\">{title}</text>");
        if let Some(figure) = FIGURES.iter().find(|f| f.head == *head) {
            panel(&mut out, x, figure, all, articles(made));
        }
    }
    out + "</svg>\n"
}

fn panel(out: &mut String, x: f64, figure: &Figure, all: &[Measured], count: f64) {
    let values: Vec<Option<f64>> =
        all.iter().map(|m| (figure.value)(m, count).filter(|v| *v > 0.0)).collect();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.iter().flatten() {
        (low, high) = (low.min(*value), high.max(*value));
    }
    // The least bar is a tenth of the decade below it long.
    let (low, high) = (low.log10().floor(), high.log10());
    let room = PANEL_WIDTH - NUMBER_WIDTH;
    for (at, (value, measured)) in values.iter().zip(all).enumerate() {
        let y = TOP + ROW_HEIGHT * at as f64;
        let Some(value) = value else { continue };
        let bar = (room * (value.log10() - low) / (high - low).max(0.1)).max(2.0);
        let fill = match measured.subject {
            Subject::Newsreel(_) => "#2b6cb0",
            Subject::Inn(_) => "#a0aec0",
        };
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{bar:.1}\" height=\"{BAR_HEIGHT:.0}\" rx=\"2\" \
                fill=\"{fill}\"/>"
        );
        let (at, text_y) = (x + bar + 4.0, y + BAR_HEIGHT - 3.0);
        let text = short(*value);
        let _ = writeln!(out, "<text x=\"{at:.0}\" y=\"{text_y:.0}\" fill=\"#4a5568\">{text}</text>");
    }
}

/// Three digits or so.
fn short(value: f64) -> String {
    let digits = (2 - value.log10().floor() as i32).clamp(0, 3) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([123_456.0, 42.34, 5.678, 0.06789].map(short), ["123456", "42.3", "5.68", "0.068"]);
    }
}
