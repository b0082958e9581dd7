//! What cancels cost the feed that they arrive with: a feed of which a part are valid cancels of what it has
//! brought before, beside the same feed with as many ordinary articles in their place.
//!
//! The feeds alternate, and the medians count. A feed ends with its last answer; how long it takes after that
//! until no cancelled article is left is shown, and must end. The feeder is on the same machine: the ratio
//! means more than the rates.

use crate::articles::{Generator, Shape, group_name};
use crate::client::Client;
use crate::feeder;
use crate::rates::median;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use std::fs;
use std::io;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const GROUPS: u64 = 40;
const BUFFER_BYTES: u64 = 1 << 30;
/// With its headers an article has about 2,450 bytes, a cancel too.
const SHAPE: Shape = Shape { bytes: (2_140, 2_140), large_every: 0, large_bytes: (0, 0) };
const CONNECTIONS: usize = 4;
const WINDOW: usize = 100;
/// STAT commands sent together.
const STATS: u64 = 500;
/// Until all cancels are carried out.
const CARRIED_OUT_MAX: Duration = Duration::from_secs(120);
/// What cancels may cost the feed.
const COST_MAX: f64 = 0.10;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles of a feed, cancels among them
    #[arg(long, default_value_t = 420_004)]
    articles: u64,
    /// One in this many articles is a cancel
    #[arg(long, default_value_t = 4)]
    every: u64,
    /// Runs of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// Runs all of it.
pub fn run(options: &Options) -> Verdict {
    let (mut plain, mut cancelling) = (Vec::new(), Vec::new());
    println!("{:30} {:>10} {:>12} {:>16}", "feed", "seconds", "articles/s", "cancels done");
    for _ in 0..options.runs {
        plain.push(feed(options, false)?);
        cancelling.push(feed(options, true)?);
    }
    let generator = Generator::new(1, GROUPS, SHAPE).locked(options.every);
    let cancels = (0..options.articles).filter(|index| generator.target(*index).is_some()).count();
    let (plain, cancelling) = (median(plain), median(cancelling));
    let cost = cancelling / plain - 1.0;
    let holds = cost <= COST_MAX;
    println!(
        "{} cost of {cancels} cancels to a feed of {} articles: {:.1} % (at most {:.0} %)",
        if holds { "ok    " } else { "MISSED" },
        options.articles,
        100.0 * cost,
        100.0 * COST_MAX
    );
    Ok(holds)
}

/// How long a feed took, in seconds.
fn feed(options: &Options, cancels: bool) -> io::Result<f64> {
    let place = &options.place;
    let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
    let mut site = Site::make(place, "cancels", place.port, plan)?;
    site.start(&group_name(0))?;
    let generator = Generator::new(1, GROUPS, SHAPE).locked(if cancels { options.every } else { 0 });
    let begun = Instant::now();
    feeder::feed(&site, &generator, &AtomicU64::new(0), options.articles, CONNECTIONS, WINDOW)?;
    let took = begun.elapsed().as_secs_f64();
    let mut done = String::new();
    if cancels {
        let answered = Instant::now();
        while living(&site.address(), &generator, options.articles)? > 0 {
            if answered.elapsed() > CARRIED_OUT_MAX {
                return Err(io::Error::other("cancels are not carried out"));
            }
        }
        done = format!("{:.1} s later", answered.elapsed().as_secs_f64());
    }
    let name = if cancels { "with cancels" } else { "ordinary articles" };
    println!("{name:30} {took:10.2} {:12.0} {done:>16}", options.articles as f64 / took);
    site.stop()?;
    fs::remove_dir_all(site.dir())?;
    Ok(took)
}

/// How many articles are still here that were cancelled.
fn living(address: &str, generator: &Generator, articles: u64) -> io::Result<u64> {
    let mut client = Client::connect(address)?;
    let targets: Vec<u64> = (0..articles).filter_map(|index| generator.target(index)).collect();
    let mut living = 0;
    for targets in targets.chunks(STATS as usize) {
        for target in targets {
            let command = format!("STAT {}\r\n", generator.message_id(*target));
            client.queue(command.as_bytes()).map_err(io::Error::other)?;
        }
        client.flush()?;
        for _ in targets {
            living += u64::from(client.answer()?.starts_with("223"));
        }
    }
    Ok(living)
}
