//! Curves with logarithmic or linear axes.

use super::{Anchor, COLOURS, Drawing, FONT, GREY, LINE_HEIGHT, MARGIN, PALE, decades, power, widest, width};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// Space for the numbers of the y axis.
const LEFT: f64 = 64.0;
const TOP: f64 = 72.0;
/// The stroke of the key, with the space around it.
const STROKE_WIDTH: f64 = 36.0;

/// How both axes are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes {
    /// In decades; what is not above 0 is left out.
    Logarithmic,
    /// From 0 on.
    Linear,
}

/// Steps of a linear axis, about.
const STEPS: f64 = 6.0;

impl Axes {
    fn words(self) -> &'static str {
        match self {
            Self::Logarithmic => "Both axes are logarithmic.",
            Self::Linear => "Both axes are linear and begin at 0.",
        }
    }

    /// Where a value is on an axis.
    fn place(self, value: f64) -> f64 {
        if self == Self::Logarithmic { value.log10() } else { value }
    }

    /// From where to where an axis goes that has all values.
    fn range(self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        match self {
            Self::Logarithmic => decades(values),
            Self::Linear => {
                let high = values.fold(0.0, f64::max);
                let step = step(high);
                (0.0, (high / step).ceil().max(1.0) * step)
            }
        }
    }

    /// Its divisions: places with what is written there.
    fn divisions(self, low: f64, high: f64) -> Vec<(f64, String)> {
        match self {
            Self::Logarithmic => {
                (low as i32..=high as i32).map(|decade| (f64::from(decade), power(decade))).collect()
            }
            Self::Linear => {
                let step = step(high);
                let digits = (-step.log10().floor()).max(0.0) as usize;
                let places = (0..=(high / step).round() as i32).map(|n| f64::from(n) * step);
                places.map(|place| (place, format!("{place:.digits$}"))).collect()
            }
        }
    }
}

/// A round step of which about [`STEPS`] go up to a value; 1 up to nothing.
fn step(high: f64) -> f64 {
    if high <= 0.0 {
        return 1.0;
    }
    let least = high / STEPS;
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|n| n * decade).find(|step| *step >= least).unwrap_or(10.0 * decade)
}

/// A curve.
#[derive(Debug)]
pub struct Curve {
    pub name: String,
    /// Ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// What is drawn.
#[derive(Debug)]
pub struct Figure<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub curves: Vec<Curve>,
    /// A place on the x axis that is marked, and what it is.
    pub mark: Option<(f64, &'a str)>,
    pub axes: Axes,
}

/// The whole file.
pub fn curves(figure: &Figure<'_>) -> String {
    let axes = figure.axes;
    let is_drawn = |point: &&(f64, f64)| axes == Axes::Linear || point.1 > 0.0;
    let points = || figure.curves.iter().flat_map(|curve| &curve.points).filter(is_drawn);
    let (x, y) = (axes.range(points().map(|point| point.0)), axes.range(points().map(|point| point.1)));
    let across = |place: f64| LEFT + WIDTH * (place - x.0) / (x.1 - x.0);
    let up = |place: f64| TOP + HEIGHT * (1.0 - (place - y.0) / (y.1 - y.0));
    let at_x = |value: f64| across(axes.place(value));
    let at_y = |value: f64| up(axes.place(value));
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let key = STROKE_WIDTH + widest(figure.curves.iter().map(|curve| curve.name.as_str()));
    let lines = LINE_HEIGHT * (figure.curves.len() as f64 + 1.0);
    let last = axes.divisions(x.0, x.1).last().map_or(0.0, |(_, written)| width(written));
    let size = (right + MARGIN + key.max(last), (bottom + 50.0).max(TOP + lines));
    let mut out = Drawing::begin(figure.title, axes.words(), size.0, size.1);
    for (place, written) in axes.divisions(x.0, x.1) {
        let at = across(place);
        out.line((at, TOP), (at, bottom), PALE);
        out.text((at, bottom + 16.0), Anchor::Middle, GREY, &written);
    }
    for (place, written) in axes.divisions(y.0, y.1) {
        let at = up(place);
        out.line((LEFT, at), (right, at), PALE);
        out.text((LEFT - 6.0, at + 4.0), Anchor::End, GREY, &written);
    }
    out.text((LEFT + WIDTH / 2.0, bottom + 36.0), Anchor::Middle, GREY, figure.x);
    out.text((MARGIN, TOP - 14.0), Anchor::Start, GREY, figure.y);
    if let Some((value, name)) = figure.mark {
        let at = at_x(value);
        out.line((at, TOP), (at, bottom), "#718096");
        let is_far = at + width(name) + 4.0 > right;
        let (at, anchor) = if is_far { (at - 4.0, Anchor::End) } else { (at + 4.0, Anchor::Start) };
        out.text((at, TOP + FONT), anchor, GREY, name);
    }
    for (at, (curve, colour)) in figure.curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let drawn = curve.points.iter().filter(is_drawn);
        let drawn: Vec<(f64, f64)> = drawn.map(|point| (at_x(point.0), at_y(point.1))).collect();
        out.curve(&drawn, colour);
        let (left, middle) = (right + 12.0, TOP + 8.0 + LINE_HEIGHT * at as f64);
        out.line((left, middle), (left + 18.0, middle), colour);
        out.text((left + 22.0, middle + 4.0), Anchor::Start, GREY, &curve.name);
    }
    out.end()
}

#[cfg(test)]
mod tests {
    use super::super::faults;
    use super::*;

    #[test]
    fn each_curve_is_drawn_and_no_label_is_cut() {
        let curve =
            |name: &str| Curve { name: name.into(), points: vec![(1.0, 0.5), (8.0, 0.0), (64.0, 20.0)] };
        let figure = |mark, axes| Figure {
            title: "title",
            x: "articles",
            y: "milliseconds for each article",
            curves: (0..20).map(|n| curve(&format!("a way with a long name, number {n}"))).collect(),
            mark: Some((mark, "the paper's gain")),
            axes,
        };
        for mark in [10.0, 99.0] {
            let drawn = curves(&figure(mark, Axes::Logarithmic));
            assert_eq!(drawn.matches("<polyline").count(), 20, "{drawn}");
            assert!(drawn.contains(">0.1<") && drawn.contains(">100<") && !drawn.contains("NaN"));
            assert_eq!(faults::of(&drawn), Vec::<String>::new(), "{drawn}");
        }
        let drawn = curves(&figure(10.0, Axes::Linear));
        assert!(drawn.contains(">60<") && drawn.contains(">15<") && !drawn.contains("NaN"), "{drawn}");
        assert_eq!(faults::of(&drawn), Vec::<String>::new(), "{drawn}");
    }

    #[test]
    fn linear_axes_have_round_steps() {
        for (high, expected) in [(60.0, 10.0), (1.3, 0.5), (1200.0, 200.0), (0.0, 1.0)] {
            assert!((step(high) - expected).abs() < 1e-9, "{high}: {}", step(high));
        }
        let divisions = |high| {
            let (low, high) = Axes::Linear.range([high].into_iter());
            Axes::Linear.divisions(low, high)
        };
        let written: Vec<String> = divisions(1.3).into_iter().map(|(_, written)| written).collect();
        assert_eq!(written, ["0.0", "0.5", "1.0", "1.5"]);
        assert_eq!(divisions(0.0).len(), 6);
    }
}
