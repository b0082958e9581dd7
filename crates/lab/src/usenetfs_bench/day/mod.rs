//! Figure 7: what is left of a machine for others while INN 1.7.2, the paper's server, has its day: it files
//! articles, lets old ones expire four times, and sends many to its neighbours. Measured is how long a
//! package takes to be built, again and again, on one processor that it shares with all of this.
//!
//! The same spool is used three times: flat, through a mount that manages nothing, and through one that
//! manages its six groups. The history goes back to the beginning each time.

mod package;
mod report;
mod server;

use super::way::{Reached, Way};
use crate::rng::Rng;
use crate::volume::{Kind, Volume, run};
use clap::Args;
use netnews::bucket::BucketScheme;
use package::Package;
pub use report::{is_fair, markdown, plot};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use server::{GROUPS, Server};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use usenetfs::DirectoryForm;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// When, in parts of the day, articles expire, and which part of them is due by then.
pub const EXPIRATIONS: [(f64, f64); 4] = [(0.12, 0.2), (0.37, 0.6), (0.62, 0.8), (0.87, 1.0)];
/// Which of them has the marks of groups follow, as the paper's at 7 in the morning.
const RENUMBERS: usize = 1;
/// When articles are sent to neighbours.
const TRANSFERS: [f64; 4] = [0.02, 0.27, 0.52, 0.77];
/// Articles of all that are sent each time, one in this many.
const SENT_PART: u64 = 10;
/// How often the feed brings articles.
const FEED_INTERVAL: Duration = Duration::from_millis(500);
/// Articles that it brings in a second.
const FEED_RATE: u64 = 20;
/// Numbers of articles that are filed in the day, above all others.
const FIRST_FED: u64 = 1 << 32;

/// What the day is like.
#[derive(Debug, Args)]
pub struct DayOptions {
    /// The directory of inn17/inn17.sh, which runs INN 1.7.2; without it figure 7 is left out
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Articles in its six groups [default: 28000; with --full 280000, the largest group has 120,000]
    #[arg(long)]
    articles: Option<u64>,
    /// How long the day takes, in seconds [default: 60; with --full 1200]
    #[arg(long)]
    day: Option<u64>,
}

impl DayOptions {
    fn articles(&self, is_full: bool) -> u64 {
        self.articles.unwrap_or(if is_full { 280_000 } else { 28_000 })
    }

    fn length(&self, is_full: bool) -> Duration {
        Duration::from_secs(self.day.unwrap_or(if is_full { 1200 } else { 60 }))
    }
}

/// What was seen of a day, in seconds since its beginning.
#[derive(Debug, Clone, Default)]
pub struct Day {
    pub way: String,
    /// Builds: begin and end.
    pub builds: Vec<(f64, f64)>,
    /// Expirations: begin and end.
    pub expirations: Vec<(f64, f64)>,
    /// Articles that are left, which must be as many each time, beside those of the feed.
    pub left: u64,
    /// Articles that the feed brought.
    pub fed: u64,
    /// Articles that were sent.
    pub sent: u64,
}

/// All of figure 7.
#[derive(Debug)]
pub struct Figure {
    pub articles: u64,
    pub days: Vec<Day>,
}

/// Measures; `None`, with a word, if the server cannot be had here.
pub fn measure(options: &DayOptions, dir: &Path, port: u16, is_full: bool) -> Result<Option<Figure>> {
    let Some(server) = Server::set_up(options.peers.as_deref(), dir, port)? else { return Ok(None) };
    let articles = options.articles(is_full);
    // The article, its copies, the map of inodes, and room for what the feed brings.
    let files = (articles + FEED_RATE * options.length(is_full).as_secs()) * 4;
    let mut volume = Volume::make(Kind::Unindexed, dir, files * 4096 * 3 / 2 + (600 << 20), files + 50_000)?;
    let trees = fill(&server, volume.point(), articles)?;
    volume.drop_index()?;
    let package = Package::make(&dir.join("package"))?;
    let all = sched_getaffinity(None)?;
    let _one = OneProcessor::take(all)?;
    let mut days = Vec::new();
    for (way, tree) in trees {
        volume.cool()?;
        let reached = Reached::new(way, &tree, &dir.join("mount"))?;
        server.put_spool(reached.root())?;
        server.restore()?;
        server.start()?;
        eprintln!("lab: a day of INN 1.7.2, {}", way.name());
        let lived = live(&server, &package, options.length(is_full), articles);
        server.stop()?;
        let mut day = lived?;
        day.way = if way == Way::Flat { "flat".into() } else { way.name() };
        day.left = server.articles(reached.root())?.saturating_sub(day.fed);
        drop(reached);
        days.push(day);
    }
    server.forget_spool()?;
    drop(volume);
    fs::remove_dir_all(dir.join("package"))?;
    // It is empty, or somebody else's.
    let _left = fs::remove_dir(dir.join("mount"));
    Ok(Some(Figure { articles, days }))
}

/// This process and those that it starts share one processor, until this is dropped: today's machines would
/// do the build on one of their others.
struct OneProcessor(CpuSet);

impl OneProcessor {
    fn take(all: CpuSet) -> Result<Self> {
        let mut one = CpuSet::new();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).ok_or("no processor")?;
        one.set(first);
        sched_setaffinity(None, &one)?;
        Ok(Self(all))
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // It was so before.
        let _as_before = sched_setaffinity(None, &self.0);
    }
}

/// Has the server file the articles, and copies its spool for each way.
fn fill(server: &Server, volume: &Path, articles: u64) -> Result<Vec<(Way, PathBuf)>> {
    let first = volume.join("flat");
    server.move_spool(&first)?;
    server.start()?;
    let filled = server.file(0..articles, articles);
    server.stop()?;
    filled?;
    server.keep()?;
    let mut trees = vec![(Way::Flat, first.clone())];
    for (way, name) in [(Way::Unmanaged, "unmanaged"), (Way::Managed(BucketScheme::Tens), "managed")] {
        let tree = volume.join(name);
        run("cp", &["-a", path_text(&first)?, path_text(&tree)?])?;
        if way != Way::Unmanaged {
            for group in GROUPS {
                let dir = tree.join(group.0.replace('.', "/"));
                usenetfs::convert(&dir, DirectoryForm::Managed, BucketScheme::Tens, false, &mut |_, _| ())
                    .map_err(|error| format!("{}: {error}", dir.display()))?;
            }
        }
        trees.push((way, tree));
    }
    Ok(trees)
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| "a path that is not UTF-8".into())
}

/// A day: the server is kept at work by threads, and the package is built here.
fn live(server: &Server, package: &Package, length: Duration, articles: u64) -> Result<Day> {
    let begun = Instant::now();
    let now = || begun.elapsed().as_secs_f64();
    let is_over = || begun.elapsed() >= length;
    let until = |part: f64| {
        let at = length.mul_f64(part);
        std::thread::sleep(at.saturating_sub(begun.elapsed()));
    };
    std::thread::scope(|scope| {
        let feed = scope.spawn(|| -> Result<u64> {
            let each = (FEED_RATE * FEED_INTERVAL.as_millis() as u64) / 1000;
            let mut fed = 0;
            while !is_over() {
                server.file(FIRST_FED + fed..FIRST_FED + fed + each, articles)?;
                fed += each;
                let next = FEED_INTERVAL * u32::try_from(fed / each)?;
                std::thread::sleep(next.saturating_sub(begun.elapsed()));
            }
            Ok(fed)
        });
        let expirations = scope.spawn(|| -> Result<Vec<(f64, f64)>> {
            let mut done = Vec::new();
            for (n, (part, _)) in EXPIRATIONS.into_iter().enumerate() {
                until(part);
                let from = now();
                server.expire(n, n == RENUMBERS)?;
                done.push((from, now()));
            }
            Ok(done)
        });
        let transfers = scope.spawn(|| -> Result<u64> {
            let (mut sent, mut rng) = (0, Rng::new(3, 0));
            for part in TRANSFERS {
                until(part);
                sent += server.send(articles / SENT_PART, &mut rng)?;
            }
            Ok(sent)
        });
        let mut builds = Vec::new();
        while !is_over() {
            let from = now();
            package.build()?;
            builds.push((from, now()));
        }
        let join = |_| "a thread of the day panicked";
        Ok(Day {
            builds,
            fed: feed.join().map_err(join)??,
            expirations: expirations.join().map_err(join)??,
            sent: transfers.join().map_err(join)??,
            ..Day::default()
        })
    })
}
