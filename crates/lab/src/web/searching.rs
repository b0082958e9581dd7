//! The search index: how fast it is built, what it takes on disk, and what it costs a feed.

use super::{Options, SHAPE, site};
use crate::articles::{Generator, group_name};
use crate::feeder;
use crate::rates::median;
use crate::site::{Site, processor_time};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Until the index of a spool is complete.
const BUILT_MAX: Duration = Duration::from_secs(3600);
/// Between two looks: each costs the server something.
const LOOK: Duration = Duration::from_millis(500);
/// Articles a second that the index is built with, at least.
const RATE_MIN: f64 = 10_000.0;
/// What it may cost a feed.
const COST_MAX: f64 = 0.10;
const CONNECTIONS: usize = 4;
const WINDOW: usize = 100;

/// Turns search on, after what this program does with the site: it has no search itself.
pub fn turn_on(site: &Site) -> io::Result<()> {
    let text = fs::read_to_string(site.config())?;
    fs::write(site.config(), text + "\n[search]\nenabled = true\ndelay = \"1 s\"\n")
}

/// Waits until the index knows every article of the spool.
pub fn built(options: &Options, site: &Site) -> io::Result<bool> {
    let begun = Instant::now();
    wait_until_complete(site, options.articles)?;
    let rate = options.articles as f64 / begun.elapsed().as_secs_f64();
    let each = processor_time(site.pid())? / u32::try_from(options.articles.max(1)).unwrap_or(u32::MAX);
    let per_article = bytes_below(&site.dir().join("search"))? / options.articles.max(1);
    let holds = rate >= RATE_MIN;
    println!(
        "{} index of {} articles built at {rate:.0} articles/s (at least {RATE_MIN:.0}); \
         for each {each:.1?} of \
         the processor and {per_article} bytes on disk",
        if holds { "ok    " } else { "MISSED" },
        options.articles
    );
    Ok(holds)
}

/// Waits until the index knows so many articles.
pub fn wait_until_complete(site: &Site, articles: u64) -> io::Result<()> {
    let begun = Instant::now();
    while !is_complete(site, articles)? {
        if begun.elapsed() > BUILT_MAX {
            return Err(io::Error::other("the index is not built"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn is_complete(site: &Site, articles: u64) -> io::Result<bool> {
    let output = Command::new(site.binary()).args(["status", "--json", "--dir"]).arg(site.dir()).output()?;
    let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let search = status.pointer("/server/search");
    let get = |key: &str| search.and_then(|search| search.get(key)).cloned().unwrap_or_default();
    Ok(get("is_complete") == true && get("articles").as_u64() >= Some(articles))
}

fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        // A file of the index may go while this looks.
        bytes += entry?.metadata().map_or(0, |found| found.len());
    }
    Ok(bytes)
}

/// Feeds with search on and off, in turns.
pub fn fed(options: &Options) -> io::Result<bool> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(1) {
        without.push(feed(options, false)?);
        with.push(feed(options, true)?);
    }
    let (without, with) = (median(without), median(with));
    let cost = 1.0 - with / without;
    let holds = cost <= COST_MAX;
    println!(
        "{} a feed of {} articles: {without:.0} articles/s, {with:.0} with search on: {:.1} % \
         (at most {:.0} %)",
        if holds { "ok    " } else { "MISSED" },
        options.feed,
        100.0 * cost,
        100.0 * COST_MAX
    );
    Ok(holds)
}

/// Articles a second.
fn feed(options: &Options, has_search: bool) -> io::Result<f64> {
    let mut site = site(options, options.feed)?;
    if has_search {
        turn_on(&site)?;
    }
    site.start(&group_name(0))?;
    let generator = Generator::new(2, options.groups, SHAPE).of_words();
    let begun = Instant::now();
    feeder::feed(&site, &generator, &AtomicU64::new(0), options.feed, CONNECTIONS, WINDOW)?;
    let rate = options.feed as f64 / begun.elapsed().as_secs_f64();
    site.stop()?;
    fs::remove_dir_all(site.dir())?;
    Ok(rate)
}
