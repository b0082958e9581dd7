//! How fast articles are accepted with more or fewer processors: the server may use a part of the machine's
//! (cgroups), and those that feed it stay on one of them.
//!
//! What a machine with more processors could do follows from what an article costs: as many articles as they
//! have time for, and no more than pass the spool's one writer, whose lock only one thread has at a time.

mod quota;

use crate::articles::{Generator, Shape, group_name};
use crate::feeder::feed;
use crate::page;
use crate::site::{Plan, Site, processor_time};
use crate::web::get;
use crate::{Place, Verdict};
use clap::Args;
use quota::{Pinned, Quota};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

const GROUPS: u64 = 300;
/// 2.35 KB with its headers.
const SHAPE: Shape = Shape { bytes: (1_100, 3_100), large_every: 0, large_bytes: (0, 0) };
const BUFFER_BYTES: u64 = 1 << 30;
/// Articles that are fed before the clock starts.
const FIRST: u64 = 10_000;
const WINDOW: usize = 100;
/// Limit: how long an article may hold the writer, in microseconds.
const HELD_US_MAX: f64 = 1.0;
/// More processors than are here, for what would be possible.
const MORE: [f64; 4] = [4.0, 8.0, 16.0, 32.0];

/// The options of `lab cores`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// How many processors the server may use, in turn
    #[arg(long, value_delimiter = ',', default_values_t = [0.25, 0.5, 1.0, 1.5, 2.0])]
    cores: Vec<f64>,
    /// Articles of each measurement
    #[arg(long, default_value_t = 200_000)]
    articles: u64,
    /// Connections that feed
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How often each is measured; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Where cores.md's table goes; without it it is not written
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
struct Measured {
    cores: f64,
    /// Articles a second.
    rate: f64,
    /// Processor time of the server for an article, and how long it held the writer, in microseconds.
    cpu_us: f64,
    held_us: f64,
    /// What the feeders took.
    feeder_us: f64,
}

/// Measures with each number of processors.
pub fn run(options: &Options) -> Verdict {
    let here = std::thread::available_parallelism()?.get() as f64;
    let generator = Generator::new(1, GROUPS, SHAPE);
    let mut all = Vec::new();
    for cores in options.cores.iter().copied().filter(|cores| *cores <= here) {
        let mut best: Option<Measured> = None;
        for _ in 0..options.runs.max(1) {
            let one = measure(options, &generator, cores)?;
            best = best.filter(|best| best.rate >= one.rate).or(Some(one));
        }
        all.extend(best);
    }
    let table = table(&all);
    print!("{table}");
    if let Some(docs) = &options.docs {
        page::put_table(&docs.join("cores.md"), "make bench-cores", &table)?;
    }
    let held = all.last().is_some_and(|last| last.held_us <= HELD_US_MAX);
    println!("{} at most {HELD_US_MAX} us at the writer", if held { "ok    " } else { "MISSED" });
    Ok(held)
}

fn measure(options: &Options, generator: &Generator, cores: f64) -> io::Result<Measured> {
    let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
    // Goes after the server.
    let quota;
    let mut site = Site::make(&options.place, "cores", options.place.port, plan)?;
    let web = SocketAddr::from(([127, 0, 0, 1], options.place.port + 1));
    site.add_pages(web)?;
    site.start(&group_name(0))?;
    quota = Quota::new(site.pid(), cores)?;
    // After the server was started, which would stay there with us.
    let pinned = Pinned::to_the_last()?;
    let next = AtomicU64::new(0);
    feed(&site, generator, &next, FIRST, options.connections, WINDOW)?;
    let before = (processor_time(site.pid())?, held(web)?, processor_time(std::process::id())?);
    let began = Instant::now();
    feed(&site, generator, &next, options.articles, options.connections, WINDOW)?;
    let seconds = began.elapsed().as_secs_f64();
    let after = (processor_time(site.pid())?, held(web)?, processor_time(std::process::id())?);
    drop(pinned);
    site.stop()?;
    drop(quota);
    fs::remove_dir_all(site.dir())?;
    let each = |seconds: f64| seconds * 1e6 / options.articles as f64;
    Ok(Measured {
        cores,
        rate: options.articles as f64 / seconds,
        cpu_us: each((after.0 - before.0).as_secs_f64()),
        held_us: each(after.1 - before.1),
        feeder_us: each((after.2 - before.2).as_secs_f64()),
    })
}

/// Seconds that the writer was held since the start.
fn held(web: SocketAddr) -> io::Result<f64> {
    let answer = String::from_utf8_lossy(&get(web, "/metrics")?).into_owned();
    let line = answer.lines().find_map(|line| line.strip_prefix("newsreel_writer_held_seconds_sum "));
    let seconds = line.and_then(|value| value.trim().parse().ok());
    seconds.ok_or_else(|| io::Error::other("/metrics has no newsreel_writer_held_seconds_sum"))
}

/// What was measured, and what follows for more processors from the last row.
fn table(all: &[Measured]) -> String {
    let mut text = String::from(
        "| processors | articles/s | for each processor | server CPU, us | at the writer, us | \
         feeders' CPU, us |\n|---:|---:|---:|---:|---:|---:|\n",
    );
    for one in all {
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} |",
            one.cores,
            one.rate,
            one.rate / one.cores,
            one.cpu_us,
            one.held_us,
            one.feeder_us
        );
    }
    let Some(last) = all.last() else { return text };
    text += "\n| processors of the server alone | articles/s at most | bound by |\n|---:|---:|---|\n";
    for cores in MORE {
        let (rate, is_writer) = last.possible(cores);
        let bound = if is_writer { "the writer" } else { "processors" };
        let _ = writeln!(text, "| {cores} | {rate:.0} | {bound} |");
    }
    text
}

impl Measured {
    /// Articles a second with this many processors, and whether the writer is what allows no more.
    fn possible(&self, cores: f64) -> (f64, bool) {
        let (processors, writer) = (cores * 1e6 / self.cpu_us, 1e6 / self.held_us);
        (processors.min(writer), writer < processors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_is_the_bound_where_processors_have_time_left() {
        let one = Measured { cores: 1.0, rate: 150_000.0, cpu_us: 6.0, held_us: 2.0, feeder_us: 3.0 };
        assert_eq!(one.possible(1.5), (250_000.0, false));
        assert_eq!(one.possible(30.0), (500_000.0, true));
        let text = table(&[Measured { cores: 0.5, rate: 80_000.0, ..one }, one]);
        assert!(text.contains("| 0.5 | 80000 | 160000 | 6.00 | 2.00 | 3.00 |\n"), "{text}");
        assert!(text.contains("| 4 | 500000 | the writer |\n"), "{text}");
    }
}
