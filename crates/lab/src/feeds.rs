//! What feeding peers costs, and how fast it is: fan-out to null peers, INN with innfeed beside it, many
//! peers with one down, idle cursors, and how soon an article leaves for an idle peer.
//!
//! Every figure is the median of some runs, of which those that are compared alternate. The peers
//! (`null_peers`) and whoever feeds the server are in this process, on the same machine: ratios mean more
//! than rates.

mod inn;
mod null_peers;

use crate::articles::{Generator, Shape, group_name};
use crate::client::Client;
use crate::feeder::Feed;
use crate::memory::Memory;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use inn::Inn;
use null_peers::NullPeers;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

const GROUPS: u64 = 40;
const BUFFER_BYTES: u64 = 1 << 30;
/// With its headers an article has 2,350 bytes, as in the papers.
const SHAPE: Shape = Shape { bytes: (2_140, 2_140), large_every: 0, large_bytes: (0, 0) };
const CONNECTIONS: usize = 4;
const WINDOW: usize = 100;
/// A peer that gets nothing more for so long gets nothing more at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";

/// Limits: times INN's fan-out; of the rate of ingest without peers; what idle cursors may cost of it.
const INN_TIMES_MIN: f64 = 5.0;
const INGEST_SHARE_MIN: f64 = 0.60;
const IDLE_COST_MAX: f64 = 0.03;
/// How much memory may grow between 45 and 70 peers, with one down.
const GROWTH_KB_MAX: u64 = 64 << 10;
/// Limits: until an idle peer has an article.
const LATENCY_MEDIAN_MAX: Duration = Duration::from_millis(5);
const LATENCY_P99_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles of a feed
    #[arg(long, default_value_t = 100_000)]
    articles: u64,
    /// Runs of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Articles sent one by one to an idle peer
    #[arg(long, default_value_t = 500)]
    single: u64,
    /// The directory of inn.sh; without it, or without INN and root, INN is left out
    #[arg(long)]
    inn: Option<PathBuf>,
}

/// What a feed took.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Articles accepted a second.
    ingest: f64,
    /// Articles a second that each peer has got, from the first that was accepted on.
    fan_out: f64,
    /// The most that the server had, in KB.
    memory_kb: u64,
}

/// Runs all of it.
pub fn run(options: &Options) -> Verdict {
    let generator = Generator::new(1, GROUPS, SHAPE);
    let trial = Trial { options, generator };
    let rates = |runs: &[Run], of: fn(&Run) -> f64| median(runs.iter().map(of).collect());
    let (mut alone, mut idle, mut four, mut inn) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs {
        alone.push(trial.newsreel(0, "")?);
        idle.push(trial.newsreel(0, &idle_peers(50))?);
        four.push(trial.newsreel(4, "")?);
        inn.extend(trial.inn(4)?);
    }
    let ingest = rates(&alone, |run| run.ingest);
    println!(
        "{:34} {:>12} {:>12} {:>10}",
        format!("feed of {} articles", options.articles),
        "ingest/s",
        "fan-out/s",
        "memory MB"
    );
    let row = |name: &str, runs: &[Run]| {
        let memory = runs.iter().map(|run| run.memory_kb).max().unwrap_or_default() >> 10;
        println!(
            "{name:34} {:12.0} {:12.0} {memory:10}",
            rates(runs, |run| run.ingest),
            rates(runs, |run| run.fan_out)
        );
    };
    row("no peers", &alone);
    row("50 idle cursors", &idle);
    row("4 null peers", &four);
    if !inn.is_empty() {
        row("INN, 4 null peers", &inn);
    }
    let mut many = Vec::new();
    for peers in [45, 70] {
        let down = section("down.example", NOWHERE, "");
        let runs = vec![trial.newsreel(peers - 1, &down)?];
        row(&format!("{peers} null peers, one of them down"), &runs);
        many.extend(runs);
    }
    let growth = match many.as_slice() {
        [few, more] => more.memory_kb.saturating_sub(few.memory_kb),
        _ => 0,
    };
    let (median, p99) = trial.latency()?;
    println!("an idle peer has an article after {median:.2?} (median), {p99:.2?} (p99)");
    let mut held = true;
    let mut bar = |what: &str, figure: f64, holds: bool| {
        println!("{} {what}: {figure:.3}", if holds { "ok    " } else { "MISSED" });
        held &= holds;
    };
    let share = rates(&four, |run| run.ingest) / ingest;
    bar("ingest with 4 peers, of that without", share, share >= INGEST_SHARE_MIN);
    let cost = 1.0 - rates(&idle, |run| run.ingest) / ingest;
    bar("cost of 50 idle cursors", cost, cost < IDLE_COST_MAX);
    if !inn.is_empty() {
        let times = rates(&four, |run| run.fan_out) / rates(&inn, |run| run.fan_out);
        bar("times INN's fan-out", times, times >= INN_TIMES_MIN);
    }
    bar("growth of memory from 45 to 70 peers, in MB", (growth >> 10) as f64, growth < GROWTH_KB_MAX);
    bar("latency, median, in ms", median.as_secs_f64() * 1e3, median <= LATENCY_MEDIAN_MAX);
    bar("latency, p99, in ms", p99.as_secs_f64() * 1e3, p99 <= LATENCY_P99_MAX);
    Ok(held)
}

struct Trial<'a> {
    options: &'a Options,
    generator: Generator,
}

impl Trial<'_> {
    /// A new newsreel that feeds so many null peers, and knows those of `sections`.
    fn newsreel(&self, peers: usize, sections: &str) -> io::Result<Run> {
        let peers = NullPeers::start(peers, false)?;
        let mut site = self.site(&peers, sections)?;
        let run = self.feed(&site.address(), &peers, Some(site.pid()))?;
        site.stop()?;
        fs::remove_dir_all(site.dir())?;
        Ok(run)
    }

    fn site(&self, peers: &NullPeers, sections: &str) -> io::Result<Site> {
        let place = &self.options.place;
        let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
        let mut site = Site::make(place, "feeds", place.port, plan)?;
        let all: String = peers.addresses.iter().enumerate().map(null_section).collect();
        let text = fs::read_to_string(site.config())?;
        fs::write(site.config(), text + &all + sections)?;
        site.start(&group_name(0))?;
        Ok(site)
    }

    /// INN with so many null peers, if there is one.
    fn inn(&self, peers: usize) -> io::Result<Option<Run>> {
        let Some(scripts) = &self.options.inn else { return Ok(None) };
        let peers = NullPeers::start(peers, false)?;
        let groups: Vec<String> = (0..GROUPS).map(group_name).collect();
        let place = &self.options.place;
        let inn = Inn::start(scripts, &place.dir.join("inn"), place.port + 10, &groups, &peers.addresses)?;
        inn.map(|inn| self.feed(&inn.address(), &peers, None)).transpose()
    }

    fn feed(&self, address: &str, peers: &NullPeers, pid: Option<u32>) -> io::Result<Run> {
        let articles = self.options.articles;
        let feed = Feed {
            address: address.to_owned(),
            generator: &self.generator,
            first: Mutex::default(),
            next: &AtomicU64::new(0),
            clock: &AtomicU64::new(0),
            budget: AtomicU64::new(articles),
            stop: AtomicBool::new(false),
            connections: CONNECTIONS,
            window: WINDOW,
        };
        let mut memory_kb = 0;
        let mut look = || {
            let anonymous = pid.and_then(|pid| Memory::of(pid).ok()).map_or(0, |memory| memory.anonymous_kb);
            memory_kb = anonymous.max(memory_kb);
        };
        let begun = Instant::now();
        let accepted = feed.run()?.iter().filter(|article| article.code == 239).count() as u64;
        let ingest = articles as f64 / begun.elapsed().as_secs_f64();
        if accepted != articles {
            return Err(io::Error::other(format!("{accepted} of {articles} articles were accepted")));
        }
        look();
        if !peers.addresses.is_empty() && !peers.wait_for(articles, PATIENCE, &mut look) {
            return Err(io::Error::other(format!("a peer of {address} got {} articles", peers.least())));
        }
        let fan_out = articles as f64 / begun.elapsed().as_secs_f64();
        look();
        Ok(Run { ingest, fan_out, memory_kb })
    }

    /// From the answer to an article until an idle peer has it: median and 99th percentile.
    fn latency(&self) -> io::Result<(Duration, Duration)> {
        let peers = NullPeers::start(1, true)?;
        let mut site = self.site(&peers, "")?;
        let mut client = Client::connect(&site.address())?;
        let mut times = Vec::new();
        for index in 0..self.options.single {
            let mut article = Vec::new();
            self.generator.put(index, &mut article);
            let id = self.generator.message_id(index);
            client.queue_article(id.as_bytes(), article).map_err(io::Error::other)?;
            let answer = client.answer()?;
            let accepted = Instant::now();
            if !answer.starts_with("239 ") {
                return Err(io::Error::other(answer));
            }
            let came = loop {
                match peers.next_sight(PATIENCE) {
                    Some(sight) if sight.is_whole && sight.message_id == id.as_bytes() => break sight.when,
                    Some(_) => {}
                    None => return Err(io::Error::other(format!("{id} did not come"))),
                }
            };
            times.push(came.saturating_duration_since(accepted));
            // It is idle again.
            std::thread::sleep(Duration::from_millis(5));
        }
        site.stop()?;
        fs::remove_dir_all(site.dir())?;
        times.sort_unstable();
        let at = |of: usize| times.get(times.len() * of / 100).copied().unwrap_or_default();
        Ok((at(50), at(99)))
    }
}

fn section(name: &str, to: &str, keys: &str) -> String {
    format!("\n[[peer]]\nname = \"{name}\"\n[peer.send]\nto = \"{to}\"\n{keys}\n")
}

fn null_section((number, address): (usize, &SocketAddr)) -> String {
    section(&format!("null{number}.example"), &address.to_string(), "")
}

/// Peers that want nothing that comes.
fn idle_peers(count: usize) -> String {
    let one = |number| section(&format!("idle{number}.example"), NOWHERE, "groups = \"nothing.*\"");
    (0..count).map(one).collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
