//! Figure 7 as a table and as a plot.

use super::{Day, Figure};
use crate::drawing::{self, Axes, Curve};
use std::fmt::Write as _;

/// The paper's mean times of a build, in seconds: flat, and with six managed groups.
const PAPERS: (f64, f64) = (243.0, 200.0);

impl Day {
    fn mean(&self) -> f64 {
        mean(self.builds.iter().map(|(from, to)| to - from))
    }

    fn slowest(&self) -> f64 {
        self.builds.iter().map(|(from, to)| to - from).fold(0.0, f64::max)
    }

    /// The mean of the builds that an expiration fell into.
    fn expiring(&self) -> f64 {
        let meets = |build: &&(f64, f64)| self.expirations.iter().any(|e| e.0 < build.1 && build.0 < e.1);
        mean(self.builds.iter().filter(meets).map(|(from, to)| to - from))
    }

    /// How long expirations took, together.
    fn expired(&self) -> f64 {
        self.expirations.iter().map(|(from, to)| to - from).sum()
    }
}

fn mean(seconds: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = seconds.fold((0.0, 0u32), |(sum, count), one| (sum + one, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// The table, and whether all days were the same to the server.
pub fn markdown(figure: &Figure) -> String {
    let flat = figure.days.first().map_or(0.0, Day::mean);
    let mut text = format!(
        "| INN 1.7.2 with {} articles, ext4 without dir_index | builds | mean s | of flat | slowest s | \
         while expiring s | expirations s | sent |\n|---|{}\n",
        figure.articles,
        "---:|".repeat(7)
    );
    for day in &figure.days {
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {} |",
            day.way,
            day.builds.len(),
            day.mean(),
            day.mean() / flat,
            day.slowest(),
            day.expiring(),
            day.expired(),
            day.sent
        );
    }
    let _ = writeln!(text, "| *the paper, flat* | - | {:.0} | 1.00 | - | - | - | - |", PAPERS.0);
    let _ = writeln!(
        text,
        "| *the paper, managed* | - | {:.0} | {:.2} | - | a half to a third | - | - |",
        PAPERS.1,
        PAPERS.1 / PAPERS.0
    );
    if let Some(other) = figure.days.iter().find(|day| Some(day.left) != figure.days.first().map(|d| d.left))
    {
        let _ =
            writeln!(text, "\n- {}: {} old articles are left, otherwise than flat", other.way, other.left);
    }
    text
}

/// Whether the same articles expired in all days.
pub fn is_fair(figure: &Figure) -> bool {
    figure.days.windows(2).all(|two| two[0].left == two[1].left)
}

/// Times of builds, as parts of the flat spool's mean, in the course of the day.
pub fn plot(figure: &Figure) -> String {
    let flat = figure.days.first().map_or(1.0, Day::mean).max(f64::MIN_POSITIVE);
    let length = figure.days.iter().flat_map(|day| &day.builds).map(|build| build.1).fold(1.0, f64::max);
    let mut drawn: Vec<Curve> = figure
        .days
        .iter()
        .map(|day| Curve {
            name: day.way.clone(),
            points: day.builds.iter().map(|(from, to)| (*from, (to - from) / flat)).collect(),
        })
        .collect();
    for (name, value) in [("the paper, flat", 1.0), ("the paper, managed", PAPERS.1 / PAPERS.0)] {
        drawn.push(Curve { name: name.into(), points: vec![(0.0, value), (length, value)] });
    }
    drawing::curves(&drawing::Figure {
        title: "Figure 7: builds while INN files, sends and expires",
        x: "seconds of the day",
        y: "a build's time, as a part of the flat spool's mean",
        curves: drawn,
        mark: None,
        axes: Axes::Linear,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(way: &str, seconds: f64, left: u64) -> Day {
        let builds = (0..4).map(|n| (f64::from(n) * seconds, f64::from(n + 1) * seconds)).collect();
        Day { way: way.into(), builds, expirations: vec![(0.5, 0.75)], left, fed: 1, sent: 2 }
    }

    #[test]
    fn days_are_compared_with_the_flat_one_and_the_papers() {
        let figure =
            |left| Figure { articles: 28, days: vec![day("flat", 2.0, 7), day("mount, 345", 1.0, left)] };
        let text = markdown(&figure(7));
        assert!(text.contains("| flat | 4 | 2.00 | 1.00 | 2.00 | 2.00 | 0.2 | 2 |"), "{text}");
        assert!(
            text.contains("| mount, 345 | 4 | 1.00 | 0.50 |") && text.contains("| 200 | 0.82 |"),
            "{text}"
        );
        assert!(is_fair(&figure(7)) && !is_fair(&figure(8)) && !text.contains("are left"));
        assert!(markdown(&figure(8)).contains("mount, 345: 8 old articles are left"));
        let drawn = plot(&figure(7));
        assert_eq!(drawn.matches("<polyline").count(), 4);
        assert!(!drawn.contains("NaN") && drawn.contains("the paper, managed"));
    }
}
