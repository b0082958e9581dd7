//! Flat cost: the same figures on a server with a hundred thousand articles and on one with millions of them
//! and a long history, taken in turns.

use crate::articles::{Generator, Shape, group_name};
use crate::rates::{Rate, Subject};
use crate::rng::Rng;
use crate::site::{Plan, Site, take_from_memory};
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
    /// Leave the spools there
    #[arg(long)]
    keep: bool,
    /// Take the spools that an earlier run has left there, with the same numbers of articles and entries,
    /// for another binary or once more; the first round is this one, after all of theirs
    #[arg(long)]
    reuse_from: Option<u64>,
}

/// A figure of the table.
type Figure = (&'static str, fn(&Subject<'_>, u64, &mut Rng) -> io::Result<Rate>);

const FIGURES: [Figure; 13] = [
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
    ("ARTICLE by Message-ID, cold", |s, _, rng| {
        take_from_memory(&s.dir, &ARTICLES_AND_ROWS)?;
        s.article_by_id(COLD, u64::MAX, rng)
    }),
    ("ARTICLE by number, cold", |s, _, rng| {
        take_from_memory(&s.dir, &ARTICLES_AND_ROWS)?;
        s.article_by_number(COLD, u64::MAX, rng)
    }),
    ("OVER, 100 rows, cold", |s, _, rng| {
        take_from_memory(&s.dir, &ARTICLES_AND_ROWS)?;
        s.over(COLD / 5, rng)
    }),
];

/// Suffixes of buffers and of overview's segments, which the server reads and does not map.
const ARTICLES_AND_ROWS: [&str; 3] = ["cyc", "seg", "packed"];
/// Articles read while little of the spool is in memory: few of the small one's are there by the end.
const COLD: usize = 5_000;

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    let old = Generator::new(1, GROUPS, OLD);
    let new = Generator::new(2, GROUPS, NEW);
    let port = options.place.port;
    let plan = |buffer_bytes| Plan { groups: GROUPS, buffer_bytes, durability: None };
    let (mut small, mut big) = match options.reuse_from {
        Some(_) => (Site::open(&options.place, "small", port)?, Site::open(&options.place, "big", port + 1)?),
        None => {
            let small = Site::make(&options.place, "small", port, plan(1 << 30))?;
            let big = Site::make(&options.place, "big", port + 1, plan(options.buffer_mib << 20))?;
            crate::filling::fill(&small, &old, FEW, 0)?;
            crate::filling::fill(&big, &old, options.articles, options.history - options.articles)?;
            (small, big)
        }
    };
    println!("started in {:.0?} and {:.0?}", small.start(&group_name(0))?, big.start(&group_name(0))?);
    let subject = |site: &Site, old_articles| Subject {
        address: site.address(),
        pid: site.pid(),
        dir: site.dir().to_path_buf(),
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
    let first = options.reuse_from.unwrap_or_default();
    for round in first..=first + options.rounds {
        let began = Instant::now();
        // Both are measured shortly after each other, in changing order: the machine is not the same all the
        // time.
        for ((_, figure), both) in FIGURES.iter().zip(&mut taken) {
            let mut turns: Vec<_> = subjects.iter().zip(both.iter_mut()).collect();
            turns.rotate_left((round % 2) as usize);
            for (subject, rates) in turns {
                let rate = figure(subject, round, &mut Rng::new(round, 3))?;
                if round > first {
                    rates.push(rate);
                }
            }
        }
        println!("round {} of {}: {:.1?}", round - first, options.rounds, began.elapsed());
    }
    let held = table(&taken);
    for site in [&mut small, &mut big] {
        site.stop()?;
        if !options.keep {
            std::fs::remove_dir_all(site.dir())?;
        }
    }
    Ok(held)
}

fn table(taken: &[[Vec<Rate>; 2]]) -> bool {
    println!(
        "{:30} {:>11} {:>11} {:>6}   {:>9} {:>9} {:>6}   {:>9} {:>9}",
        "", "small /s", "big /s", "ratio", "small us", "big us", "ratio", "small KiB", "big KiB"
    );
    let mut held = true;
    for ((name, _), [small, big]) in FIGURES.iter().zip(taken) {
        let rate = |rates: &[Rate]| median(rates.iter().map(|rate| rate.per_second));
        let cpu = |rates: &[Rate]| median(rates.iter().map(|rate| rate.cpu_us));
        let read = |rates: &[Rate]| median(rates.iter().map(|rate| rate.read_kib));
        let pairs = small.iter().zip(big).map(|(small, big)| big.per_second / small.per_second);
        let (ratio, cpu_ratio) = (median(pairs), cpu(small) / cpu(big));
        let ok = ratio >= RATIO_MIN;
        held &= ok;
        println!(
            "{name:30} {:11.0} {:11.0} {ratio:6.2}   {:9.2} {:9.2} {cpu_ratio:6.2}   {:9.1} {:9.1} {}",
            rate(small),
            rate(big),
            cpu(small),
            cpu(big),
            read(small),
            read(big),
            if ok { "ok" } else { "MISSED" }
        );
    }
    println!(
        "medians, also of the rounds' ratios; server CPU, and KiB read from the disk, an operation; bar: \
         ratio at least {RATIO_MIN}"
    );
    held
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
