//! Bars on a logarithmic scale: a row for each thing measured, a panel for each figure.

use super::{Anchor, DARK, Drawing, FONT, GREY, MARGIN, OTHERS, OURS, bold_width, short, widest};
use std::fmt::Write as _;

const BARS_WIDTH: f64 = 140.0;
const BAR_HEIGHT: f64 = 16.0;
const ROW_HEIGHT: f64 = 24.0;
/// Where the panels' titles are, and the first row.
const TITLES: f64 = 64.0;
const TOP: f64 = 76.0;
/// Between two panels, and between a bar and its number.
const GAP: f64 = 16.0;
const NUMBER_GAP: f64 = 4.0;

/// What a row is of.
#[derive(Debug)]
pub struct Label {
    /// Its name.
    pub text: String,
    /// Drawn in the colour of newsreel.
    pub is_ours: bool,
}

/// One figure of all rows; no bar where there is none, or it is 0.
#[derive(Debug)]
pub struct Panel {
    /// What it is of.
    pub title: String,
    /// One value a row.
    pub values: Vec<Option<f64>>,
}

impl Panel {
    fn width(&self) -> f64 {
        let numbers: Vec<String> = self.values.iter().flatten().map(|value| short(*value)).collect();
        let bars = BARS_WIDTH + NUMBER_GAP + widest(numbers.iter().map(String::as_str));
        bars.max(bold_width(&self.title)) + GAP
    }
}

/// The whole file.
pub fn bars(title: &str, labels: &[Label], panels: &[Panel]) -> String {
    let names = MARGIN + widest(labels.iter().map(|label| label.text.as_str())) + NUMBER_GAP;
    let width = names + panels.iter().map(Panel::width).sum::<f64>() + MARGIN;
    let height = TOP + ROW_HEIGHT * labels.len() as f64 + MARGIN;
    let scale = "Lengths are logarithmic: each panel begins at a power of ten below its least value.";
    let mut out = Drawing::begin(title, scale, width, height);
    for (at, label) in labels.iter().enumerate() {
        let y = TOP + ROW_HEIGHT * at as f64 + FONT;
        out.text((names - NUMBER_GAP, y), Anchor::End, DARK, &label.text);
    }
    let mut x = names;
    for panel in panels {
        out.bold((x, TITLES), &panel.title);
        put_bars(&mut out, x, panel, labels);
        x += panel.width();
    }
    out.end()
}

fn put_bars(out: &mut Drawing, x: f64, panel: &Panel, labels: &[Label]) {
    let values: Vec<Option<f64>> = panel.values.iter().map(|v| v.filter(|v| *v > 0.0)).collect();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.iter().flatten() {
        (low, high) = (low.min(*value), high.max(*value));
    }
    let (low, high) = (low.log10().floor(), high.log10());
    for (at, (value, label)) in values.iter().zip(labels).enumerate() {
        let y = TOP + ROW_HEIGHT * at as f64;
        let Some(value) = value else { continue };
        let bar = (BARS_WIDTH * (value.log10() - low) / (high - low).max(0.1)).clamp(2.0, BARS_WIDTH);
        let fill = if label.is_ours { OURS } else { OTHERS };
        let _ = writeln!(
            out.0,
            "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{bar:.1}\" height=\"{BAR_HEIGHT:.0}\" rx=\"2\" \
                fill=\"{fill}\"/>"
        );
        out.text((x + bar + NUMBER_GAP, y + FONT), Anchor::Start, GREY, &short(*value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::faults;
    use super::*;

    #[test]
    fn a_value_that_is_not_there_has_no_bar() {
        let labels = ["a", "b"].map(|text| Label { text: text.into(), is_ours: text == "a" });
        let panels = [Panel { title: "figure".into(), values: vec![Some(10.0), None] }];
        let drawn = bars("title", &labels, &panels);
        assert_eq!(drawn.matches("rx=").count(), 1, "{drawn}");
    }

    #[test]
    fn long_names_titles_and_numbers_are_not_cut() {
        let labels = ["newsreel with everything that a site may have", "MMMMMMMMMMMMMMMM"]
            .map(|text| Label { text: text.into(), is_ours: false });
        let panel =
            |title: &str| Panel { title: title.into(), values: vec![Some(1234.5), Some(12_345_678.0)] };
        let panels = [panel("a figure of which there is much to be said in its title"), panel("x")];
        let drawn = bars("A title that is longer than two rows of bars are wide", &labels, &panels);
        assert_eq!(faults::of(&drawn), Vec::<String>::new(), "{drawn}");
        assert!(drawn.contains("logarithmic"));
    }
}
