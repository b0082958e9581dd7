//! Figures over releases: a panel for each figure, a line for each server.

use super::{
    Anchor, Drawing, GREY, LINE_HEIGHT, MARGIN, OTHERS, OURS, PALE, bold_width, decades, power, short,
    widest, width,
};

const PLOT_WIDTH: f64 = 260.0;
const PLOT_HEIGHT: f64 = 110.0;
/// Space for the numbers of the y axis.
const LEFT: f64 = 64.0;
/// Space above the first panel.
const TOP: f64 = 52.0;
/// The title of a panel above its plot, and what is below it: version, date, space.
const TITLE_HEIGHT: f64 = 24.0;
const FOOT_HEIGHT: f64 = 52.0;
const COLUMNS: usize = 2;
/// Between the plot and its key; the dot of the key.
const KEY_GAP: f64 = 12.0;
const DOT_WIDTH: f64 = 10.0;
/// Between two labels of the x axis.
const LABEL_GAP: f64 = 8.0;
/// Lines that are not simply newsreel's or INN's.
const MORE: [&str; 14] = [
    "#dd6b20", "#805ad5", "#38b2ac", "#1a202c", "#e53e3e", "#63b3ed", "#b7791f", "#2f855a", "#d53f8c",
    "#a0aec0", "#9f7aea", "#975a16", "#68d391", "#2b6cb0",
];

/// A place on the x axis.
#[derive(Debug, Clone)]
pub struct Release {
    pub version: String,
    pub date: String,
}

/// One server's values, one a release.
#[derive(Debug)]
pub struct Line {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// A figure.
#[derive(Debug)]
pub struct Series {
    pub title: String,
    pub lines: Vec<Line>,
}

impl Line {
    /// Its name and newest value, as the key has them.
    fn key(&self) -> String {
        let newest = self.values.iter().rev().flatten().next();
        newest.map_or_else(|| self.name.clone(), |value| format!("{} {}", self.name, short(*value)))
    }
}

impl Series {
    fn plot_height(&self) -> f64 {
        PLOT_HEIGHT.max(LINE_HEIGHT * self.lines.len() as f64)
    }

    fn width(&self) -> f64 {
        let keys: Vec<String> = self.lines.iter().map(Line::key).collect();
        let plot = LEFT + PLOT_WIDTH + KEY_GAP + DOT_WIDTH + widest(keys.iter().map(String::as_str));
        plot.max(bold_width(&self.title)) + 2.0 * MARGIN
    }
}

/// The whole file.
pub fn releases(title: &str, axis: &[Release], all: &[Series]) -> String {
    let column = all.iter().map(Series::width).fold(0.0, f64::max);
    let row = all.iter().map(Series::plot_height).fold(0.0, f64::max) + TITLE_HEIGHT + FOOT_HEIGHT;
    let size = (column * all.len().min(COLUMNS) as f64, TOP + row * all.len().div_ceil(COLUMNS) as f64);
    let scale = "The scale of values is logarithmic; releases are equally far apart. Numbers: the newest.";
    let mut out = Drawing::begin(title, scale, size.0, size.1);
    for (at, series) in all.iter().enumerate() {
        put(&mut out, (column * (at % COLUMNS) as f64, TOP + row * (at / COLUMNS) as f64), axis, series);
    }
    out.end()
}

fn put(out: &mut Drawing, (x, y): (f64, f64), axis: &[Release], series: &Series) {
    out.bold((x + MARGIN, y + 14.0), &series.title);
    let (left, top) = (x + LEFT, y + TITLE_HEIGHT);
    let (right, bottom) = (left + PLOT_WIDTH, top + series.plot_height());
    let values = series.lines.iter().flat_map(|line| &line.values).flatten();
    let (low, high) = decades(values.copied().filter(|value| *value > 0.0));
    let at_y = |value: f64| bottom - (bottom - top) * (value.log10() - low) / (high - low);
    // Where there are many, every second or third has a number.
    let step = (((high - low) * LINE_HEIGHT / (bottom - top)).ceil() as usize).max(1);
    for decade in (low as i32..=high as i32).step_by(step) {
        let at = at_y(10f64.powi(decade));
        out.line((left, at), (right, at), PALE);
        out.text((left - 6.0, at + 4.0), Anchor::End, GREY, &power(decade));
    }
    let label = |release: &Release| width(&release.version).max(width(&release.date));
    let half = axis.iter().map(label).fold(0.0, f64::max) / 2.0;
    let room = PLOT_WIDTH - 2.0 * half;
    let at_x = |at: usize| left + half + room * (at as f64 + 0.5) / axis.len().max(1) as f64;
    // From the newest on, as many as have room.
    let mut free = f64::INFINITY;
    for (at, release) in axis.iter().enumerate().rev() {
        if at_x(at) + half + LABEL_GAP <= free {
            out.text((at_x(at), bottom + 18.0), Anchor::Middle, GREY, &release.version);
            out.text((at_x(at), bottom + 18.0 + LINE_HEIGHT), Anchor::Middle, GREY, &release.date);
            free = at_x(at) - half;
        }
    }
    let mut more = MORE.iter().cycle();
    for (at, line) in series.lines.iter().enumerate() {
        let colour = match line.name.as_str() {
            "newsreel" => OURS,
            "INN" => OTHERS,
            _ => more.next().copied().unwrap_or(GREY),
        };
        let known = line.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        let known: Vec<(f64, f64)> =
            known.filter(|(_, value)| *value > 0.0).map(|(at, value)| (at_x(at), at_y(value))).collect();
        out.curve(&known, colour);
        known.iter().for_each(|point| out.dot(*point, colour));
        let middle = top + LINE_HEIGHT * (at as f64 + 0.5);
        out.dot((right + KEY_GAP, middle), colour);
        out.text((right + KEY_GAP + DOT_WIDTH, middle + 4.0), Anchor::Start, GREY, &line.key());
    }
}

#[cfg(test)]
mod tests {
    use super::super::faults;
    use super::*;

    #[test]
    fn many_releases_and_long_names_are_not_cut() {
        let axis: Vec<Release> = (0..30)
            .map(|n| Release { version: format!("0.{n}.0-beta"), date: format!("2027-01-{n:02}") })
            .collect();
        let line = |name: &str, from: f64| Line {
            name: name.into(),
            values: (0..30).map(|n| (n % 7 != 3).then(|| from * 1.4f64.powi(n))).collect(),
        };
        let series = |title: &str| Series {
            title: title.into(),
            lines: (0..13).map(|n| line(&format!("a storage method called {n}"), 0.0001)).collect(),
        };
        let all = [series("articles a second"), series("something with a title of some length"), series("x")];
        let drawn = releases("Over releases", &axis, &all);
        assert_eq!(faults::of(&drawn), Vec::<String>::new(), "{drawn}");
        assert_eq!(drawn.matches("<polyline").count(), 39);
        assert!(
            drawn.contains(">0.29.0-beta<")
                && !drawn.contains(">0.28.0-beta<")
                && drawn.contains("logarithmic")
        );
    }
}
