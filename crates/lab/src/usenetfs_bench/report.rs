//! The figures as tables and as plots.

use super::Measured;
use super::way::Way;
use super::work::{TIMES, Times};
use crate::drawing::{Axes, Curve, Figure, curves};
use crate::volume::Kind;
use netnews::bucket::BucketScheme;
use std::fmt::Write as _;

/// Table 1: operations of a server in a day, in hundredths of a per cent.
const MIX: [(&str, f64); 4] = [("lookup", 88.41), ("unlink", 5.41), ("create", 4.32), ("readdir", 0.48)];
/// From this size on the paper's promises are checked.
const LARGE: u64 = 10_000;
/// What buckets may add to the time in which a directory of any size is read, in seconds: what the paper's
/// thousand directories added.
const LISTED_MORE_MAX: f64 = 0.5;

/// One of the paper's figures.
struct Plot {
    word: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&Times, &Times) -> f64,
    /// From which size on the paper found its file system to win.
    papers: f64,
}

const PLOTS: [Plot; 6] = [
    Plot {
        word: "random",
        title: "Figure 3: 1000 random look-ups",
        unit: "ms",
        value: |warm, _| warm.random * 1e3,
        papers: 2000.0,
    },
    Plot {
        word: "sequential",
        title: "Figure 3: 1000 sequential look-ups",
        unit: "ms",
        value: |warm, _| warm.sequential * 1e3,
        papers: 1000.0,
    },
    Plot {
        word: "cold",
        title: "Figure 3: 1000 random look-ups, nothing cached",
        unit: "ms",
        value: |_, cold| cold.random * 1e3,
        papers: 2000.0,
    },
    Plot {
        word: "changes",
        title: "Figure 4: 1000 additions, and 1000 deletions of the oldest",
        unit: "ms",
        value: |warm, _| (warm.added + warm.removed) * 1e3,
        papers: 1000.0,
    },
    Plot {
        word: "readdir",
        title: "Figure 5: reading the directory",
        unit: "ms",
        value: |warm, _| warm.listed * 1e3,
        papers: 100_000.0,
    },
    Plot {
        word: "mix",
        title: "Figure 6: an operation of a server's day",
        unit: "us",
        value: |warm, _| mixed(warm) * 1e6,
        papers: 10_000.0,
    },
];

/// Seconds of an operation by table 1.
fn mixed(times: &Times) -> f64 {
    let each = TIMES as f64;
    let costs = [times.random / each, times.removed / each, times.added / each, times.listed];
    let all: f64 = MIX.iter().map(|(_, share)| share).sum();
    MIX.iter().zip(costs).map(|((_, share), cost)| share * cost).sum::<f64>() / all
}

fn cell(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A table for each file system with the largest directories, table 2, and what came of the promises.
pub fn markdown(all: &[Measured]) -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        let of_kind: Vec<&Measured> = all.iter().filter(|measured| measured.kind == kind).collect();
        let Some(largest) = of_kind.first().and_then(|measured| measured.sizes.last()) else { continue };
        let _ = writeln!(
            text,
            "| {}, {} articles | random ms | cold ms | sequential ms | missing ms | added ms | removed ms | \
             readdir ms | mix us | build ms |\n|---|{}",
            kind.name(),
            largest.0,
            "---:|".repeat(9)
        );
        for measured in of_kind {
            let Some((_, warm, cold)) = measured.sizes.last() else { continue };
            let times = [
                warm.random,
                cold.random,
                warm.sequential,
                warm.missing,
                warm.added,
                warm.removed,
                warm.listed,
            ];
            let mut cells: Vec<String> = times.into_iter().map(|time| cell(time * 1e3)).collect();
            cells.push(cell(mixed(warm) * 1e6));
            cells.push(measured.builds.map_or("-".into(), |time| cell(time * 1e3)));
            let _ = writeln!(text, "| {} | {} |", measured.way.name(), cells.join(" | "));
        }
        text.push('\n');
    }
    for (what, holds) in promises(all) {
        let _ = writeln!(text, "- {what}: {}", if holds { "holds" } else { "does not hold" });
    }
    text
}

/// File name and content of each plot.
pub fn plots(all: &[Measured]) -> Vec<(String, String)> {
    let mut drawn = Vec::new();
    for kind in Kind::ALL {
        let of_kind = || all.iter().filter(|measured| measured.kind == kind);
        if of_kind().next().is_none() {
            continue;
        }
        for plot in &PLOTS {
            let curve = |measured: &Measured| Curve {
                name: measured.way.name(),
                points: measured
                    .sizes
                    .iter()
                    .map(|(files, warm, cold)| (*files as f64, (plot.value)(warm, cold)))
                    .collect(),
            };
            let figure = Figure {
                title: &format!("{}, {}", plot.title, kind.name()),
                x: "articles in the directory",
                y: plot.unit,
                curves: of_kind().map(curve).collect(),
                mark: Some((plot.papers, "the paper's gain")),
                axes: Axes::Logarithmic,
            };
            drawn.push((format!("usenetfs-{}-{}.svg", kind.word(), plot.word), curves(&figure)));
        }
    }
    drawn
}

/// Whether all that was promised holds, as far as it was measured.
pub fn holds(all: &[Measured]) -> bool {
    promises(all).iter().all(|(_, holds)| *holds)
}

fn promises(all: &[Measured]) -> Vec<(String, bool)> {
    let of = |kind: Kind, way: Way| all.iter().find(|measured| measured.kind == kind && measured.way == way);
    let mut found = Vec::new();
    let managed = of(Kind::Unindexed, Way::Managed(BucketScheme::Tens));
    if let (Some(flat), Some(managed)) = (of(Kind::Unindexed, Way::Flat), managed) {
        let sizes = flat.sizes.iter().zip(&managed.sizes);
        for ((files, slow, _), (_, quick, _)) in sizes.filter(|((files, ..), _)| *files > LARGE) {
            let (added, missing) = (slow.added / quick.added, slow.missing / quick.missing);
            found.push((
                format!(
                    "{files} articles without an index: additions {added:.1}, missing names {missing:.1} \
                     times as fast in buckets, of 10"
                ),
                added >= 10.0 && missing >= 10.0,
            ));
        }
    }
    if let (Some(flat), Some(managed)) = (of(Kind::Unindexed, Way::Unmanaged), managed) {
        let more = |(flat, managed): (&(u64, Times, Times), &(u64, Times, Times))| {
            (managed.1.listed - flat.1.listed, managed.0)
        };
        let most = flat.sizes.iter().zip(&managed.sizes).map(more).max_by(|a, b| a.0.total_cmp(&b.0));
        found.extend(most.map(|(more, files)| {
            let text = format!(
                "reading a directory of any size without an index takes at most {:.0} ms more in buckets (at \
                 {files} articles), of {:.0}",
                more * 1e3,
                LISTED_MORE_MAX * 1e3
            );
            (text, more <= LISTED_MORE_MAX)
        }));
    }
    for kind in Kind::ALL {
        if let (Some(bare), Some(ours)) = (of(kind, Way::Bare), of(kind, Way::Unmanaged))
            && let (Some(bare), Some(ours)) = (bare.builds, ours.builds)
        {
            let more = (ours / bare - 1.0) * 100.0;
            found.push((
                format!(
                    "{}: an unmanaged directory costs {more:.1} % more than bare FUSE, of 5",
                    kind.name()
                ),
                more <= 5.0,
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: Kind, way: Way, second: f64, builds: Option<f64>) -> Measured {
        let times = Times {
            random: second,
            sequential: second,
            missing: second,
            added: second,
            removed: second,
            listed: second,
        };
        Measured { kind, way, sizes: vec![(1, times, times), (65_536, times, times)], builds }
    }

    #[test]
    fn what_does_not_hold_is_said() {
        let all = |slow: f64, ours: f64| {
            vec![
                measured(Kind::Unindexed, Way::Flat, slow, None),
                measured(Kind::Unindexed, Way::Managed(BucketScheme::Tens), 1.0, None),
                measured(Kind::Ext4, Way::Bare, 1.0, Some(1.0)),
                measured(Kind::Ext4, Way::Unmanaged, 1.0, Some(ours)),
            ]
        };
        assert!(holds(&all(10.0, 1.04)) && !holds(&all(9.0, 1.04)) && !holds(&all(10.0, 1.06)));
        let text = markdown(&all(10.0, 1.06));
        assert!(text.contains("6.0 % more than bare FUSE, of 5: does not hold"), "{text}");
        assert_eq!(plots(&all(10.0, 1.0)).len(), 12);
        let listed = |seconds: f64| {
            let mut all = all(10.0, 1.0);
            all.push(measured(Kind::Unindexed, Way::Unmanaged, 1.0 - seconds, None));
            all
        };
        assert!(holds(&listed(0.4)) && !holds(&listed(0.6)));
    }

    #[test]
    fn an_operation_of_the_day_is_mostly_a_look_up() {
        let times = Times { random: 1.0, ..Times::default() };
        assert!((mixed(&times) - 0.8964e-3).abs() < 1e-6, "{}", mixed(&times));
    }
}
