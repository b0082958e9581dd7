//! Curves with logarithmic axes, as an SVG of its own.

use std::fmt::Write as _;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 40.0;
const KEY_WIDTH: f64 = 170.0;
const COLOURS: [&str; 9] =
    ["#1a202c", "#a0aec0", "#dd6b20", "#805ad5", "#2b6cb0", "#63b3ed", "#38b2ac", "#9f7aea", "#e53e3e"];

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
pub fn svg(figure: &Figure<'_>) -> String {
    let points = || figure.curves.iter().flat_map(|curve| &curve.points).filter(|point| point.1 > 0.0);
    let (x, y) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
    let at_x = |value: f64| LEFT + WIDTH * (value.log10() - x.0) / (x.1 - x.0);
    let at_y = |value: f64| TOP + HEIGHT * (1.0 - (value.log10() - y.0) / (y.1 - y.0));
    let (width, height) = (LEFT + WIDTH + KEY_WIDTH, TOP + HEIGHT + 50.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT:.0}\" y=\"20\" font-weight=\"bold\" fill=\"#1a202c\">{0}</text>\n",
        figure.title
    );
    let bottom = TOP + HEIGHT;
    for decade in x.0 as i32..=x.1 as i32 {
        let at = at_x(10f64.powi(decade));
        line(&mut out, (at, TOP), (at, bottom), "#e2e8f0");
        text(&mut out, (at, bottom + 16.0), "middle", &power(decade));
    }
    for decade in y.0 as i32..=y.1 as i32 {
        let at = at_y(10f64.powi(decade));
        line(&mut out, (LEFT, at), (LEFT + WIDTH, at), "#e2e8f0");
        text(&mut out, (LEFT - 6.0, at + 4.0), "end", &power(decade));
    }
    text(&mut out, (LEFT + WIDTH / 2.0, bottom + 36.0), "middle", figure.x);
    text(&mut out, (4.0, TOP - 8.0), "start", figure.y);
    if let Some((value, name)) = figure.mark {
        line(&mut out, (at_x(value), TOP), (at_x(value), bottom), "#718096");
        text(&mut out, (at_x(value) + 4.0, TOP + 12.0), "start", name);
    }
    for (at, (curve, colour)) in figure.curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let drawn = curve.points.iter().filter(|point| point.1 > 0.0);
        let drawn: Vec<String> =
            drawn.map(|point| format!("{:.1},{:.1}", at_x(point.0), at_y(point.1))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            drawn.join(" ")
        );
        let (left, middle) = (LEFT + WIDTH + 12.0, TOP + 8.0 + 18.0 * at as f64);
        line(&mut out, (left, middle), (left + 18.0, middle), colour);
        text(&mut out, (left + 24.0, middle + 4.0), "start", &curve.name);
    }
    out + "</svg>\n"
}

/// The decades that have all values.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (0.0, 1.0);
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (low, high.max(low + 1.0))
}

fn power(decade: i32) -> String {
    match decade {
        0..=6 => format!("{}", 10f64.powi(decade)),
        -3..=-1 => format!("{:.*}", decade.unsigned_abs() as usize, 10f64.powi(decade)),
        _ => format!("1e{decade}"),
    }
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
         stroke-width=\"1.5\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, at: (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"#4a5568\">{text}</text>",
        at.0, at.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_hold_all_points_and_each_curve_is_drawn() {
        assert_eq!(range([3.0, 900.0].into_iter()), (0.0, 3.0));
        assert_eq!(range(std::iter::empty()), (0.0, 1.0));
        let curve =
            |name: &str| Curve { name: name.into(), points: vec![(1.0, 0.5), (8.0, 0.0), (64.0, 20.0)] };
        let figure = Figure {
            title: "title",
            x: "articles",
            y: "ms",
            curves: vec![curve("a"), curve("b")],
            mark: Some((10.0, "here")),
        };
        let drawn = svg(&figure);
        assert_eq!(drawn.matches("<polyline").count(), 2, "{drawn}");
        assert!(drawn.contains(">0.1<") && drawn.contains(">100<") && !drawn.contains("NaN"));
    }
}
