//! Curves with logarithmic axes.

use super::{Anchor, COLOURS, Drawing, FONT, GREY, LINE_HEIGHT, MARGIN, PALE, decades, power, widest, width};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
/// Space for the numbers of the y axis.
const LEFT: f64 = 64.0;
const TOP: f64 = 72.0;
/// The stroke of the key, with the space around it.
const STROKE_WIDTH: f64 = 36.0;

/// A curve.
#[derive(Debug)]
pub struct Curve {
    pub name: String,
    /// Ascending in x; what is not above 0 is left out.
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
}

/// The whole file.
pub fn curves(figure: &Figure<'_>) -> String {
    let points = || figure.curves.iter().flat_map(|curve| &curve.points).filter(|point| point.1 > 0.0);
    let (x, y) = (decades(points().map(|point| point.0)), decades(points().map(|point| point.1)));
    let at_x = |value: f64| LEFT + WIDTH * (value.log10() - x.0) / (x.1 - x.0);
    let at_y = |value: f64| TOP + HEIGHT * (1.0 - (value.log10() - y.0) / (y.1 - y.0));
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let key = STROKE_WIDTH + widest(figure.curves.iter().map(|curve| curve.name.as_str()));
    let lines = LINE_HEIGHT * (figure.curves.len() as f64 + 1.0);
    let size = (right + MARGIN + key.max(width(&power(x.1 as i32))), (bottom + 50.0).max(TOP + lines));
    let mut out = Drawing::begin(figure.title, "Both axes are logarithmic.", size);
    for decade in x.0 as i32..=x.1 as i32 {
        let at = at_x(10f64.powi(decade));
        out.line((at, TOP), (at, bottom), PALE);
        out.text((at, bottom + 16.0), Anchor::Middle, GREY, &power(decade));
    }
    for decade in y.0 as i32..=y.1 as i32 {
        let at = at_y(10f64.powi(decade));
        out.line((LEFT, at), (right, at), PALE);
        out.text((LEFT - 6.0, at + 4.0), Anchor::End, GREY, &power(decade));
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
        let drawn = curve.points.iter().filter(|point| point.1 > 0.0);
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
        let figure = |mark| Figure {
            title: "title",
            x: "articles",
            y: "milliseconds for each article",
            curves: (0..20).map(|n| curve(&format!("a way with a long name, number {n}"))).collect(),
            mark: Some((mark, "the paper's gain")),
        };
        for mark in [10.0, 99.0] {
            let drawn = curves(&figure(mark));
            assert_eq!(drawn.matches("<polyline").count(), 20, "{drawn}");
            assert!(drawn.contains(">0.1<") && drawn.contains(">100<") && !drawn.contains("NaN"));
            assert_eq!(faults::of(&drawn), Vec::<String>::new(), "{drawn}");
        }
    }
}
