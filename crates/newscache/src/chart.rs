//! Figures 3 and 4 of the paper as SVG files: a line for each strategy over the size of the cache. Called by
//! `newsreel cache simulate`.

use disk::about_size;
use std::fmt::Write as _;

use crate::simulate::SimulationPoint;
use crate::strategy::StrategyKind;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const PLOT_WIDTH: f64 = 520.0;
const PLOT_HEIGHT: f64 = 320.0;
/// Number of lines across the plot.
const STEPS: u32 = 5;

/// Subject of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaperFigure {
    /// Figure 3: bytes from upstream, as a share of those requested.
    Bandwidth,
    /// Figure 4: hits as a share of the requests.
    HitRate,
}

/// Returns a colour that is distinguishable from the others.
fn colour(kind: StrategyKind) -> &'static str {
    match kind {
        StrategyKind::Lrua => "#2b6cb0",
        StrategyKind::Lrug => "#2f855a",
        StrategyKind::Lfua => "#b7791f",
        StrategyKind::Lfug => "#975a16",
        StrategyKind::Baf => "#c53030",
        StrategyKind::Letf => "#6b46c1",
        StrategyKind::Hybrid => "#00838f",
        StrategyKind::S3fifo => "#b83280",
        StrategyKind::Gain => "#1a202c",
    }
}

/// Returns the whole file; the points of a strategy are connected in the order of their sizes.
pub fn figure(points: &[SimulationPoint], what: PaperFigure) -> String {
    let title = match what {
        PaperFigure::Bandwidth => "Bytes from upstream, % of bytes asked for",
        PaperFigure::HitRate => "Hits, % of requests",
    };
    let value = |point: &SimulationPoint| match what {
        PaperFigure::Bandwidth => point.upstream_part(),
        PaperFigure::HitRate => point.hit_rate(),
    };
    let low = points.iter().map(|point| point.size_bytes).min().unwrap_or(1).max(1);
    let high = points.iter().map(|point| point.size_bytes).max().unwrap_or(2).max(low + 1);
    let top = points.iter().map(value).fold(0.01, f64::max);
    let scale = (high as f64 / low as f64).ln();
    let x = |bytes: u64| LEFT + PLOT_WIDTH * (bytes.max(1) as f64 / low as f64).ln() / scale;
    let y = |part: f64| TOP + PLOT_HEIGHT * (1.0 - part / top);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {HEIGHT:.0}\" \
         width=\"{WIDTH:.0}\" height=\"{HEIGHT:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let _ = writeln!(out, "<text x=\"{LEFT:.0}\" y=\"24\" font-weight=\"bold\">{title}</text>");
    for step in 0..=STEPS {
        let part = top * f64::from(step) / f64::from(STEPS);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT:.0} {0:.1}h{PLOT_WIDTH:.0}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{1:.0}\" y=\"{2:.1}\" text-anchor=\"end\">{3:.0}</text>",
            y(part),
            LEFT - 6.0,
            y(part) + 4.0,
            100.0 * part
        );
    }
    for bytes in [low, ((low as f64) * (high as f64)).sqrt() as u64, high] {
        let at = TOP + PLOT_HEIGHT + 18.0;
        let label = about_size(bytes);
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{at:.0}\" text-anchor=\"middle\">{label}</text>", x(bytes));
    }
    let mut drawn = 0.0;
    for kind in StrategyKind::ALL {
        let mut of: Vec<&SimulationPoint> = points.iter().filter(|point| point.strategy == kind).collect();
        of.sort_by_key(|point| point.size_bytes);
        if of.is_empty() {
            continue;
        }
        let corners = of.iter().map(|point| format!("{:.1},{:.1}", x(point.size_bytes), y(value(point))));
        let corners = corners.collect::<Vec<_>>().join(" ");
        let (colour, key) = (colour(kind), TOP + 14.0 + 20.0 * drawn);
        let right = LEFT + PLOT_WIDTH + 16.0;
        let _ = writeln!(
            out,
            "<polyline points=\"{corners}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <path d=\"M{right:.0} {key:.0}h24\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{kind}</text>",
            right + 30.0,
            key + 4.0
        );
        drawn += 1.0;
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_has_a_line() {
        let point = |strategy, size_bytes, hits| SimulationPoint {
            strategy,
            size_bytes,
            requests: 100,
            hits,
            asked_bytes: 1000,
            upstream_bytes: 1000 - 10 * hits,
        };
        let points = [
            point(StrategyKind::Lrua, 1 << 20, 10),
            point(StrategyKind::Lrua, 1 << 30, 50),
            point(StrategyKind::Gain, 1 << 20, 20),
        ];
        let drawn = figure(&points, PaperFigure::HitRate);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains("60.0,296.0 580.0,40.0") && drawn.contains(">1.00 GiB<"), "{drawn}");
        assert!(figure(&[], PaperFigure::Bandwidth).ends_with("</svg>\n"));
    }
}
