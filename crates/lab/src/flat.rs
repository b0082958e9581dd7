//! Flat cost: the same figures on a server with a hundred thousand articles and on one with millions of them
//! and a long history, taken in turns.

use crate::articles::{Generator, Shape, group_name};
use crate::rates::{Rate, Subject};
use crate::rng::Rng;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use std::io;
use std::time::Instant;

const GROUPS: u64 = 300;
/// What is in the spools: small, so that millions of them fit on a disk.
const OLD: Shape = Shape { bytes: (40, 140), large_every: 0, large_bytes: (0, 0) };
/// What is fed: 2.35 KB with its headers.
const NEW: Shape = Shape { bytes: (1_100, 3_100), large_every: 0, large_bytes: (0, 0) };
/// Articles of the small server: enough for OVER of a hundred rows. "Newest" are as many on the big one;
/// "any" are all of its articles, more than the processor's caches and page tables reach.
const FEW: u64 = 100_000;
/// Limit: how much more the big server may cost.
const RATIO_MIN: f64 = 0.85;
const TAKETHIS: u64 = 50_000;
const CHECK: u64 = 400_000;
const ARTICLE: usize = 50_000;
const GROUP: usize = 15_000;
const OVER: usize = 3_000;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles in the big spool
    #[arg(long, default_value_t = 5_000_000)]
    articles: u64,
    /// Entries in its history, the articles among them
    #[arg(long, default_value_t = 20_000_000)]
    history: u64,
    /// Size of each of its two buffers, in MiB
    #[arg(long, default_value_t = 2560)]
    buffer_mib: u64,
    /// How often each figure is measured
    #[arg(long, default_value_t = 9)]
    rounds: u64,
}

/// A figure of the table.
type Figure = (&'static str, fn(&Subject<'_>, u64, &mut Rng) -> io::Result<Rate>);

const FIGURES: [Figure; 10] = [
    ("TAKETHIS", |s, round, _| s.takethis(round * TAKETHIS, TAKETHIS)),
    ("CHECK, known, newest", |s, _, rng| s.check_known(CHECK, FEW, rng)),
    ("CHECK, known, any", |s, _, rng| s.check_known(CHECK, u64::MAX, rng)),
    ("CHECK, new", |s, _, rng| s.check_new(CHECK / 4, rng)),
    ("ARTICLE by Message-ID, newest", |s, _, rng| s.article_by_id(ARTICLE, FEW, rng)),
    ("ARTICLE by Message-ID, any", |s, _, rng| s.article_by_id(ARTICLE, u64::MAX, rng)),
    ("ARTICLE by number, newest", |s, _, rng| s.article_by_number(ARTICLE, FEW, rng)),
    ("ARTICLE by number, any", |s, _, rng| s.article_by_number(ARTICLE, u64::MAX, rng)),
    ("GROUP", |s, _, rng| s.group(GROUP, rng)),
    ("OVER, 100 rows", |s, _, rng| s.over(OVER, rng)),
];

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    let old = Generator::new(1, GROUPS, OLD);
    let new = Generator::new(2, GROUPS, NEW);
    let port = options.place.port;
    let plan = |buffer_bytes| Plan { groups: GROUPS, buffer_bytes, durability: None };
    let mut small = Site::make(&options.place, "small", port, plan(1 << 30))?;
    let mut big = Site::make(&options.place, "big", port + 1, plan(options.buffer_mib << 20))?;
    crate::filling::fill(&small, &old, FEW, 0)?;
    crate::filling::fill(&big, &old, options.articles, options.history - options.articles)?;
    println!("started in {:.0?} and {:.0?}", small.start(&group_name(0))?, big.start(&group_name(0))?);
    let subject = |site: &Site, old_articles| Subject {
        address: site.address(),
        pid: site.pid(),
        groups: GROUPS,
        old: &old,
        old_articles,
        old_last: Vec::new(),
        new: &new,
    };
    let mut subjects = [subject(&small, FEW), subject(&big, options.articles)];
    subjects.iter_mut().try_for_each(Subject::note_marks)?;
    let mut taken = vec![[Vec::new(), Vec::new()]; FIGURES.len()];
    // The first round warms up and is not counted.
    for round in 0..=options.rounds {
        let began = Instant::now();
        // Both are measured shortly after each other, in changing order: the machine is not the same all the
        // time.
        for ((_, figure), both) in FIGURES.iter().zip(&mut taken) {
            let mut turns: Vec<_> = subjects.iter().zip(both.iter_mut()).collect();
            turns.rotate_left((round % 2) as usize);
            for (subject, rates) in turns {
                let rate = figure(subject, round, &mut Rng::new(round, 3))?;
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        println!("round {round} of {}: {:.1?}", options.rounds, began.elapsed());
    }
    let held = table(&taken);
    for site in [&mut small, &mut big] {
        site.stop()?;
        std::fs::remove_dir_all(site.dir())?;
    }
    Ok(held)
}

fn table(taken: &[[Vec<Rate>; 2]]) -> bool {
    println!(
        "{:30} {:>11} {:>11} {:>6}   {:>9} {:>9} {:>6}",
        "", "small /s", "big /s", "ratio", "small us", "big us", "ratio"
    );
    let mut held = true;
    for ((name, _), [small, big]) in FIGURES.iter().zip(taken) {
        let rate = |rates: &[Rate]| median(rates.iter().map(|rate| rate.per_second));
        let cpu =
            |rates: &[Rate]| rates.iter().map(|rate| rate.cpu_us).sum::<f64>() / rates.len().max(1) as f64;
        let pairs = small.iter().zip(big).map(|(small, big)| big.per_second / small.per_second);
        let (ratio, cpu_ratio) = (median(pairs), cpu(small) / cpu(big));
        let ok = ratio >= RATIO_MIN;
        held &= ok;
        println!(
            "{name:30} {:11.0} {:11.0} {ratio:6.2}   {:9.2} {:9.2} {cpu_ratio:6.2} {}",
            rate(small),
            rate(big),
            cpu(small),
            cpu(big),
            if ok { "ok" } else { "MISSED" }
        );
    }
    println!(
        "medians, also of the rounds' ratios; mean server CPU an operation; bar: ratio at least {RATIO_MIN}"
    );
    held
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
