//! How fast all indexes of a big spool are rebuilt, against the time INN's makehistory takes for history
//! alone.

use crate::articles::{Generator, Shape};
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const GROUPS: u64 = 3_000;
/// Mean article: 2.35 KB with its headers.
const SHAPE: Shape = Shape { bytes: (1_100, 3_100), large_every: 0, large_bytes: (0, 0) };
/// Bar, in articles a second.
const RATE_MIN: f64 = 300_000.0;
/// The speed of INN 2.7.1's makehistory on this kind of machine, for history alone, in articles a second.
const MAKEHISTORY_RATE: f64 = 69_000.0;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles in the spool
    #[arg(long, default_value_t = 2_000_000)]
    articles: u64,
    /// Size of each of the two buffers, in MiB
    #[arg(long, default_value_t = 3 * 1024)]
    buffer_mib: u64,
    /// How often to rebuild; the fastest counts
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Makes the articles
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the spool there
    #[arg(long)]
    keep: bool,
}

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    let generator = Generator::new(options.seed, GROUPS, SHAPE);
    let plan = Plan { groups: GROUPS, buffer_bytes: options.buffer_mib << 20, durability: None };
    let site = Site::make(&options.place, "rebuild", options.place.port, plan)?;
    crate::filling::fill(&site, &generator, options.articles, 0)?;
    let mut best = f64::INFINITY;
    for round in 1..=options.rounds {
        let bytes = warm(site.dir())?;
        let began = Instant::now();
        let output =
            Command::new(site.binary()).arg("rebuild").arg("--config").arg(site.config()).output()?;
        let secs = began.elapsed().as_secs_f64();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        best = best.min(secs);
        println!(
            "round {round}: {:.2} GB in {secs:.2} s, {:.0} articles/s: {}",
            bytes as f64 / 1e9,
            options.articles as f64 / secs,
            String::from_utf8_lossy(&output.stdout).trim()
        );
    }
    if !options.keep {
        fs::remove_dir_all(site.dir())?;
    }
    let rate = options.articles as f64 / best;
    println!(
        "{rate:.0} articles/s for all indexes, from exec to the last sync, {:.1} x makehistory's \
            {MAKEHISTORY_RATE:.0}; \
         bar {RATE_MIN:.0}: {}",
        rate / MAKEHISTORY_RATE,
        if rate >= RATE_MIN { "ok" } else { "MISSED" }
    );
    Ok(rate >= RATE_MIN)
}

/// Reads the buffers, so that they are in the page cache if there is room; returns their length.
fn warm(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut chunk = vec![0; 4 << 20];
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            bytes += warm(&path)?;
        } else if path.extension().is_some_and(|e| e == "cyc") {
            let mut file = File::open(path)?;
            loop {
                match file.read(&mut chunk)? {
                    0 => break,
                    n => bytes += n as u64,
                }
            }
        }
    }
    Ok(bytes)
}
