//! Tables 1 and 2 of the NewsCache paper: four jobs of a reader, directly at a server, and through a cache
//! that has nothing of them and one that has all; on loopback and over a thin line; newsreel, and the paper's
//! own NewsCache and leafnode beside it. And what many clients read from a cache at the same time, and what a
//! full one takes of memory.

mod caches;
mod clients;
mod full;
mod jobs;
#[path = "../../../newsreel/tests/main/leafnode_home.rs"]
mod leafnode_home;
#[path = "../../../newsreel/tests/main/link.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "it is shared with the server's tests")]
mod link;
mod report;

use crate::articles::{Generator, Shape, group_name};
use crate::feeder;
use crate::page::put_table;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use caches::{Kind, Server};
use clap::{Args, ValueEnum};
use jobs::{Done, Figures};
use link::Link;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What makes the tables.
const BENCH: &str = "make bench-newscache";
/// With its headers an article has 2,350 bytes, as in the paper.
const SHAPE: Shape = Shape { bytes: (2_140, 2_140), large_every: 0, large_bytes: (0, 0) };
const BUFFER_BYTES: u64 = 256 << 20;
/// The thin line: a modem of 56 kbit/s, and a tenth of a second there and back.
const THIN_BYTES_PER_SEC: u32 = 7_000;
const THIN_ONE_WAY: Duration = Duration::from_millis(50);

/// Limits: of what a hit takes on the thin line, how many times it takes directly; what a miss adds to the
/// bytes of a job that moves this many, and to the first answer beside a round trip.
const HIT_TIMES_MIN: f64 = 10.0;
const MISS_BYTES_TIMES_MAX: f64 = 1.05;
const MISS_BYTES_LEAST: u64 = 100_000;
const MISS_DELAY_MAX: f64 = 0.002;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Groups that the upstream has
    #[arg(long, default_value_t = 2_000)]
    groups: u64,
    /// Groups that are selected one after the other
    #[arg(long, default_value_t = 350)]
    selections: u64,
    /// Articles that are read on loopback, and whose overview is read, in five groups
    #[arg(long, default_value_t = 1_000)]
    articles: u64,
    /// The same on the thin line
    #[arg(long, default_value_t = 200)]
    thin_articles: u64,
    /// Clients that read cached articles at the same time
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// Articles that they read; of those of 750 KB a hundredth of that
    #[arg(long, default_value_t = 20_000)]
    cached_articles: u64,
    /// How long they read each time
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Idle readers of a full cache
    #[arg(long, default_value_t = 1_000)]
    idle_readers: u64,
    /// What is measured; the plot is of the jobs
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// The directory of newscache.sh; without it NewsCache is left out
    #[arg(long)]
    newscache: Option<PathBuf>,
    /// Where newscache.sh has installed NewsCache; installed there first if it is not
    #[arg(long)]
    prefix: Option<PathBuf>,
    /// The directory of leafnode and fetchnews; without it leafnode is left out
    #[arg(long)]
    leafnode: Option<PathBuf>,
    /// The directory for the page and the plot
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// What is measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The four jobs of the paper
    Jobs,
    /// Many clients at the same time
    Clients,
    /// Memory of a full cache
    Memory,
}

impl Part {
    const ALL: [Self; 3] = [Self::Jobs, Self::Clients, Self::Memory];
}

/// What was measured of one way to read, over one line.
#[derive(Debug)]
pub struct Measured {
    /// `None`: directly.
    pub cache: Option<Kind>,
    pub is_hit: bool,
    pub is_thin: bool,
    /// Seconds that a round trip takes over the line.
    pub round_trip: f64,
    pub done: Vec<Done>,
}

/// Runs everything.
pub fn run(options: &Options) -> Verdict {
    let mut held = true;
    for part in &options.parts {
        let (name, table, holds) = match part {
            Part::Jobs => {
                let all = jobs_of_all(options)?;
                if let Some(docs) = &options.docs {
                    fs::write(docs.join("newscache.svg"), report::plot(&all))?;
                }
                (BENCH.to_owned(), report::page(options, &all), verdict(&all))
            }
            Part::Clients => {
                let rates = clients::measure(options)?;
                (format!("{BENCH} (clients)"), report::clients(options, &rates), report::judged(&rates))
            }
            Part::Memory => {
                let resident = full::measure(options)?;
                (format!("{BENCH} (memory)"), report::memory(&resident), report::fits(&resident))
            }
        };
        if *part != Part::Jobs {
            println!("{table}");
        }
        if let Some(docs) = &options.docs {
            put_table(&docs.join("newscache.md"), &name, &table)?;
        }
        held &= holds;
    }
    Ok(held)
}

/// The four jobs, over both lines.
fn jobs_of_all(options: &Options) -> Result<Vec<Measured>, Box<dyn std::error::Error + Send + Sync>> {
    let mut all = Vec::new();
    for is_thin in [false, true] {
        let plan = options.plan(is_thin);
        let mut upstream = upstream(options, &plan)?;
        let server: SocketAddr = upstream.address().parse()?;
        let link = match is_thin {
            true => Link::with_rate(server, THIN_ONE_WAY, THIN_BYTES_PER_SEC),
            false => Link::to(server, Duration::ZERO),
        };
        let round_trip = jobs::round_trip(link.address())?;
        let done = jobs::all(link.address(), &link, &plan)?;
        all.push(Measured { cache: None, is_hit: false, is_thin, round_trip, done });
        for kind in Kind::ALL {
            let Some(cache) = Server::start(options, kind, link.address())? else { continue };
            for is_hit in [false, true] {
                let done = match kind.asks() {
                    true => jobs::all(cache.address(), &link, &plan)?,
                    false if is_hit => jobs::possible(cache.address(), &link, &plan),
                    false => jobs::none(),
                };
                all.push(Measured { cache: Some(kind), is_hit, is_thin, round_trip, done });
            }
        }
        println!("{}", report::markdown(&all, is_thin));
        upstream.stop()?;
        fs::remove_dir_all(upstream.dir())?;
    }
    Ok(all)
}

impl Options {
    fn plan(&self, is_thin: bool) -> jobs::Plan {
        let articles = if is_thin { self.thin_articles } else { self.articles };
        jobs::Plan {
            selections: self.selections.min(self.groups),
            articles_per_group: articles / jobs::GROUPS,
        }
    }
}

/// A server with all groups, and articles in five of them.
fn upstream(options: &Options, jobs: &jobs::Plan) -> io::Result<Site> {
    let plan = Plan { groups: options.groups, buffer_bytes: BUFFER_BYTES, durability: None };
    let mut site = Site::make(&options.place, "upstream", options.place.port, plan)?;
    site.start(&group_name(0))?;
    let generator = Generator::new(1, jobs::GROUPS, SHAPE);
    let articles = jobs.articles_per_group * jobs::GROUPS;
    feeder::feed(&site, &generator, &AtomicU64::new(0), articles, 1, 50)?;
    Ok(site)
}

/// The jobs of a way to read, each with what it took, beside those of another way.
fn beside(
    all: &[Measured],
    is_thin: bool,
    one: (Option<Kind>, bool),
    other: (Option<Kind>, bool),
) -> impl Iterator<Item = (&'static str, &Figures, &Figures)> {
    let of = move |(cache, is_hit): (Option<Kind>, bool)| {
        let found = all.iter().find(|m| (m.cache, m.is_hit, m.is_thin) == (cache, is_hit, is_thin));
        found.map(|measured| measured.done.as_slice()).unwrap_or_default()
    };
    let pairs = of(one).iter().zip(of(other));
    pairs.filter_map(|(one, other)| Some((one.job, one.figures.as_ref()?, other.figures.as_ref()?)))
}

/// Whether the limits hold.
fn verdict(all: &[Measured]) -> bool {
    let mut held = true;
    let mut say = |holds: bool, what: String| {
        println!("{} {what}", if holds { "ok    " } else { "MISSED" });
        held &= holds;
    };
    let (direct, hits, misses) = ((None, false), (Some(Kind::Newsreel), true), (Some(Kind::Newsreel), false));
    for (job, direct, hit) in beside(all, true, direct, hits) {
        let times = direct.seconds / hit.seconds;
        say(times >= HIT_TIMES_MIN, format!("{job}: hits are {times:.0} times as fast on the thin line"));
        say(hit.upstream_bytes == 0, format!("{job}: {} bytes of hits from upstream", hit.upstream_bytes));
    }
    for is_thin in [false, true] {
        let line = if is_thin { "thin line" } else { "loopback" };
        for kind in [Kind::NewsCache, Kind::Leafnode] {
            for (job, ours, theirs) in beside(all, is_thin, hits, (Some(kind), true)) {
                let text = format!("{:.3} s, {} {:.3} s", ours.seconds, kind.name(), theirs.seconds);
                say(ours.seconds <= theirs.seconds * 1.02, format!("{job}, hits, {line}: {text}"));
            }
        }
        let round_trip =
            all.iter().find(|measured| measured.is_thin == is_thin).map_or(0.0, |m| m.round_trip);
        for (job, ours, direct) in beside(all, is_thin, misses, direct) {
            let added = ours.first_byte - direct.first_byte;
            let text = format!("{job}, misses, {line}: {:+.1} ms to the first answer", added * 1e3);
            say(added <= round_trip + MISS_DELAY_MAX, text);
            let times = ours.upstream_bytes as f64 / direct.upstream_bytes.max(1) as f64;
            if direct.upstream_bytes >= MISS_BYTES_LEAST {
                let text = format!("{job}, misses, {line}: {times:.3} times the bytes");
                say(times <= MISS_BYTES_TIMES_MAX, text);
            }
        }
    }
    held
}
