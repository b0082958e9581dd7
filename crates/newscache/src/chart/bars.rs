//! Bars on a logarithmic scale: a row for each thing measured, a panel for each figure.

use std::fmt::Write as _;

const LABEL_WIDTH: f64 = 150.0;
const PANEL_WIDTH: f64 = 210.0;
const BAR_HEIGHT: f64 = 16.0;
const ROW_HEIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
/// Space for the number after the longest bar.
const NUMBER_WIDTH: f64 = 62.0;

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

/// The whole file.
pub fn bars(title: &str, labels: &[Label], panels: &[Panel]) -> String {
    let (width, height) = (
        LABEL_WIDTH + PANEL_WIDTH * panels.len() as f64 + 10.0,
        TOP + ROW_HEIGHT * labels.len() as f64 + 14.0,
    );
    let mut out = super::begin(title, width, height);
    for (at, label) in labels.iter().enumerate() {
        let y = TOP + ROW_HEIGHT * at as f64 + BAR_HEIGHT - 3.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{y:.0}\" text-anchor=\"end\" fill=\"#1a202c\">{}</text>",
            LABEL_WIDTH - 8.0,
            label.text
        );
    }
    for (at, panel) in panels.iter().enumerate() {
        let x = LABEL_WIDTH + PANEL_WIDTH * at as f64;
        let title = &panel.title;
        let _ =
            writeln!(out, "<text x=\"{x:.0}\" y=\"24\" font-weight=\"bold\" fill=\"#1a202c\">{title}</text>");
        put_bars(&mut out, x, panel, labels);
    }
    out + "</svg>\n"
}

fn put_bars(out: &mut String, x: f64, panel: &Panel, labels: &[Label]) {
    let values: Vec<Option<f64>> = panel.values.iter().map(|v| v.filter(|v| *v > 0.0)).collect();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.iter().flatten() {
        (low, high) = (low.min(*value), high.max(*value));
    }
    // The least bar is a tenth of the decade below it long.
    let (low, high) = (low.log10().floor(), high.log10());
    let room = PANEL_WIDTH - NUMBER_WIDTH;
    for (at, (value, label)) in values.iter().zip(labels).enumerate() {
        let y = TOP + ROW_HEIGHT * at as f64;
        let Some(value) = value else { continue };
        let bar = (room * (value.log10() - low) / (high - low).max(0.1)).max(2.0);
        let fill = if label.is_ours { "#2b6cb0" } else { "#a0aec0" };
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

    #[test]
    fn a_value_that_is_not_there_has_no_bar() {
        let labels = ["a", "b"].map(|text| Label { text: text.into(), is_ours: text == "a" });
        let panels = [Panel { title: "figure".into(), values: vec![Some(10.0), None] }];
        let drawn = bars("title", &labels, &panels);
        assert_eq!(drawn.matches("rx=").count(), 1, "{drawn}");
    }
}
