//! HTTP and search on a large spool: how long pages take, what scrapes and an open operator's page cost, how
//! fast the search index is built, and what it costs a feed.
//!
//! The spool is filled before the server starts. It has thousands of groups, and peers that nothing is sent
//! to, as figures of them are in every scrape. Search is looked at if the binary has it. The feeder is on the
//! same machine: the ratio of two rates means more than the rates.

mod beside;
mod http;
mod searching;

use crate::articles::{Generator, Shape, group_name};
use crate::filling;
use crate::site::{Plan, Site, processor_time};
use crate::{Place, Verdict};
use clap::Args;
pub use http::get;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// With its headers an article has about 2,450 bytes.
const SHAPE: Shape = Shape { bytes: (2_140, 2_140), large_every: 0, large_bytes: (0, 0) };
/// For each article of the spool, in both buffers together.
const BUFFER_BYTES_PER_ARTICLE: u64 = 2_800;
/// What a page may take at the server.
const PAGE_MAX: Duration = Duration::from_millis(50);
/// What a scrape every second and an open page may take of one processor.
const SHARE_MAX: f64 = 0.02;
/// Time for which pages that are kept are asked for, and how many a second there must be.
const KEPT_TIME: Duration = Duration::from_secs(5);
const KEPT_RATE_MIN: f64 = 2_000.0;
/// Seconds between two requests of an operator's page that is open.
const REFRESH_SECS: f64 = 5.0;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles in the spool
    #[arg(long, default_value_t = 100_000)]
    articles: u64,
    /// Groups
    #[arg(long, default_value_t = 3_000)]
    groups: u64,
    /// Peers
    #[arg(long, default_value_t = 100)]
    peers: u64,
    /// How often each page is asked for
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// How many scrapes, and pages for operators, are counted
    #[arg(long, default_value_t = 200)]
    scrapes: u32,
    /// Articles of a feed with search on, and of one with search off
    #[arg(long, default_value_t = 100_000)]
    feed: u64,
    /// Feeds, and rates of pages that are kept, of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Mails that are shown beside public-inbox
    #[arg(long, default_value_t = 20_000)]
    mails: u64,
    /// Compare with public-inbox, and do nothing else
    #[arg(long)]
    beside: bool,
    /// A directory of pages whose web.md gets the comparison
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
}

impl Options {
    /// Where the pages are.
    fn web(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.place.port + 1))
    }
}

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    if options.beside {
        return Ok(beside::run(options)?);
    }
    let generator = Generator::new(1, options.groups, SHAPE).of_words();
    let mut site = site(options, options.articles)?;
    filling::fill(&site, &generator, options.articles, 0)?;
    searching::turn_on(&site)?;
    site.start(&group_name(0))?;
    let mut holds = searching::built(options, &site)?;
    holds &= pages(options, &generator)?;
    holds &= costs(options, &site)?;
    site.stop()?;
    fs::remove_dir_all(site.dir())?;
    holds &= searching::fed(options)?;
    Ok(holds)
}

/// A site with pages for this machine, and peers, that is not served yet.
fn site(options: &Options, articles: u64) -> io::Result<Site> {
    let buffer_bytes = (articles * BUFFER_BYTES_PER_ARTICLE / 2).max(64 << 20);
    let plan = Plan { groups: options.groups, buffer_bytes, durability: None };
    let site = Site::make(&options.place, "web", options.place.port, plan)?;
    site.add_pages(options.web())?;
    let mut text = fs::read_to_string(site.config())?;
    for n in 0..options.peers {
        // Nobody listens there, and nothing is to be sent.
        let name = format!("peer{n}.lab.example");
        text +=
            &format!("\n[[peer]]\nname = \"{name}\"\n[peer.send]\nto = \"127.0.0.1:9\"\ngroups = \"none\"\n");
    }
    fs::write(site.config(), text)?;
    Ok(site)
}

/// How long pages take, on a connection of their own each.
fn pages(options: &Options, generator: &Generator) -> io::Result<bool> {
    let middle = options.articles / 2;
    let mut wire = Vec::new();
    generator.put(middle, &mut wire);
    let text = String::from_utf8_lossy(&wire);
    let line = text.lines().find_map(|line| line.strip_prefix("Newsgroups: ")).unwrap_or_default();
    let group = line.split(',').next().unwrap_or_default();
    let id = generator.message_id(middle).trim_matches(['<', '>']).replace('@', "%40");
    let before = options.articles / options.groups / 2;
    let mut paths = vec![
        "/groups".to_owned(),
        "/groups?match=g9".to_owned(),
        format!("/groups/{group}"),
        format!("/groups/{group}?before={before}"),
        format!("/groups/{group}/atom"),
        format!("/groups/{group}/thread/{id}"),
        format!("/article/{id}"),
    ];
    // In all articles, in one, and in a group.
    let queries =
        ["subject:article".to_owned(), format!("subject:{middle}"), format!("article+group:{group}")];
    paths.extend(queries.map(|query| format!("/search?q={query}")));
    println!("{:60} {:>9} {:>9} {:>9}", "page", "bytes", "median", "slowest");
    let mut holds = true;
    for path in paths {
        let mut times = Vec::new();
        let mut bytes = 0;
        for round in 0..options.rounds.max(1) {
            // Another address each time, so that no page is sent again as it is.
            let mark = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{mark}round={round}");
            let begun = Instant::now();
            bytes = get(options.web(), &path)?.len();
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let at = |at: usize| times.get(at).copied().unwrap_or_default();
        let (median, slowest) = (at(times.len() / 2), at(times.len() - 1));
        println!("{path:60} {bytes:9} {median:>9.1?} {slowest:>9.1?}");
        holds &= median <= PAGE_MAX;
    }
    println!("{} pages within {PAGE_MAX:?} each", if holds { "ok    " } else { "MISSED" });
    Ok(kept(options, &format!("/groups/{group}"))? && holds)
}

/// How many pages a second are sent again as they are, on as many connections as there are processors.
fn kept(options: &Options, path: &str) -> io::Result<bool> {
    let rate = kept_rate(options.web(), path)?;
    let holds = rate >= KEPT_RATE_MIN;
    println!(
        "{} {rate:.0} kept pages a second, with their clients on this machine (at least {KEPT_RATE_MIN:.0})",
        if holds { "ok    " } else { "MISSED" }
    );
    Ok(holds)
}

fn kept_rate(address: SocketAddr, path: &str) -> io::Result<f64> {
    let connections = thread::available_parallelism().map_or(1, NonZero::get);
    let begun = Instant::now();
    let fetched: io::Result<Vec<u32>> = thread::scope(|scope| {
        let running: Vec<_> =
            (0..connections).map(|_| scope.spawn(|| http::get_for(address, path, KEPT_TIME))).collect();
        running
            .into_iter()
            .map(|one| one.join().map_err(|_| io::Error::other("a client panicked"))?)
            .collect()
    });
    Ok(f64::from(fetched?.iter().sum::<u32>()) / begun.elapsed().as_secs_f64())
}

/// What a scrape a second and an open operator's page take of a processor.
fn costs(options: &Options, site: &Site) -> io::Result<bool> {
    let each = |path: &str| -> io::Result<f64> {
        let (before, mut bytes) = (processor_time(site.pid())?, 0);
        for _ in 0..options.scrapes {
            bytes = get(options.web(), path)?.len();
        }
        let took = processor_time(site.pid())?.saturating_sub(before) / options.scrapes.max(1);
        println!("{path:60} {bytes:9} {took:>9.1?} of the processor");
        Ok(took.as_secs_f64())
    };
    let share = each("/metrics")? + each("/operator")? / REFRESH_SECS;
    let holds = share <= SHARE_MAX;
    println!(
        "{} a scrape every second and an open page: {:.2} % of one processor (at most {:.0} %)",
        if holds { "ok    " } else { "MISSED" },
        100.0 * share,
        100.0 * SHARE_MAX
    );
    Ok(holds)
}
