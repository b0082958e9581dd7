//! Charts as SVG files of their own: bars of what was compared, curves over a size, and figures over
//! releases.
//!
//! Invariant: no text is cut or lies on another one. So that this holds with whatever font the reader has,
//! space is taken by [`width`], which errs to the wide side. Each chart says whether its scale is
//! logarithmic.

mod bars;
mod curves;
#[cfg(test)]
pub mod faults;
mod releases;

pub use bars::{Label, Panel, bars};
pub use curves::{Axes, Curve, Figure, curves};
pub use releases::{Line, Release, Series, releases};

use std::fmt::Write as _;

/// Size of all text, in pixels.
const FONT: f64 = 12.0;
/// Between one line of text and the next.
const LINE_HEIGHT: f64 = 16.0;
/// Space at the edges.
const MARGIN: f64 = 8.0;
/// What is newsreel's, and what is not.
const OURS: &str = "#2b6cb0";
const OTHERS: &str = "#a0aec0";
const DARK: &str = "#1a202c";
const GREY: &str = "#4a5568";
const PALE: &str = "#e2e8f0";
const COLOURS: [&str; 9] =
    ["#1a202c", "#a0aec0", "#dd6b20", "#805ad5", "#2b6cb0", "#63b3ed", "#38b2ac", "#9f7aea", "#e53e3e"];

/// How wide a text is at most, in pixels.
pub fn width(text: &str) -> f64 {
    let ems = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.36,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '/' | '-' => 0.44,
        'm' | 'w' | 'M' | 'W' | '%' => 1.0,
        c if c.is_uppercase() => 0.76,
        _ => 0.65,
    };
    FONT * text.chars().map(ems).sum::<f64>()
}

/// The same in bold.
pub fn bold_width(text: &str) -> f64 {
    width(text) * 1.12
}

/// The widest of some texts.
fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(width).fold(0.0, f64::max)
}

/// Three digits or so.
fn short(value: f64) -> String {
    if value <= 0.0 {
        return "0".into();
    }
    let digits = (2 - value.log10().floor() as i32).clamp(0, 4) as usize;
    format!("{value:.digits$}")
}

/// A power of ten as text.
fn power(decade: i32) -> String {
    match decade {
        0..=6 => format!("{}", 10f64.powi(decade)),
        -3..=-1 => format!("{:.*}", decade.unsigned_abs() as usize, 10f64.powi(decade)),
        _ => format!("1e{decade}"),
    }
}

/// The decades that have all values; those of 1 to 10 if there are none.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (0.0, 1.0);
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (low, high.max(low + 1.0))
}

/// What a text is put at: its beginning, middle or end.
#[derive(Debug, Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A file while it is drawn.
struct Drawing(String);

impl Drawing {
    /// A white sheet with a title and, below it, what the scale is.
    fn begin(title: &str, scale: &str, width: f64, height: f64) -> Self {
        let width = width.max(bold_width(title) + 2.0 * MARGIN).max(self::width(scale) + 2.0 * MARGIN);
        let mut drawing = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
             font-size=\"{FONT:.0}\">\n<title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        ));
        drawing.bold((MARGIN, 20.0), title);
        drawing.text((MARGIN, 20.0 + LINE_HEIGHT), Anchor::Start, GREY, scale);
        drawing
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"1.5\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        );
    }

    fn bold(&mut self, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"start\" font-weight=\"bold\" fill=\"{DARK}\">\
             {text}</text>"
        );
    }

    /// A curve; a point alone is a dot.
    fn curve(&mut self, points: &[(f64, f64)], colour: &str) {
        let corners: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            corners.join(" ")
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        let _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }

    fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_hold_all_values_and_numbers_have_three_digits() {
        assert_eq!(decades([3.0, 900.0].into_iter()), (0.0, 3.0));
        assert_eq!(decades(std::iter::empty()), (0.0, 1.0));
        assert_eq!([123_456.0, 42.34, 5.678, 0.06789].map(short), ["123456", "42.3", "5.68", "0.0679"]);
        assert_eq!([-4, -2, 0, 5, 7].map(power), ["1e-4", "0.01", "1", "100000", "1e7"]);
    }

    #[test]
    fn what_is_cut_or_lies_on_another_text_is_found() {
        let drawn = |texts: &str| format!("<svg viewBox=\"0 0 100 40\">\n{texts}</svg>\n");
        let text = |x: u32, y: u32, anchor: &str, text: &str| {
            format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#000\">{text}</text>\n")
        };
        let good =
            text(0, 15, "start", "abc") + &text(100, 15, "end", "abc") + &text(50, 35, "middle", "abc");
        assert_eq!(faults::of(&drawn(&good)), Vec::<String>::new());
        assert_eq!(faults::of(&drawn(&text(90, 15, "start", "abc"))), ["cut: abc"]);
        assert_eq!(faults::of(&drawn(&text(10, 45, "start", "low"))), ["cut: low"]);
        let two = text(10, 15, "start", "one") + &text(20, 18, "start", "two");
        assert_eq!(faults::of(&drawn(&two)), ["one another: one, two"]);
    }
}
