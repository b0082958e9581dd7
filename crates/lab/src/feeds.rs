//! What feeding peers costs, and how fast it is: fan-out to null peers, INN with innfeed beside it, many
//! peers with one down, idle cursors, and how soon an article leaves for an idle peer; and what a flood of
//! newgroup messages costs a feed.
//!
//! Every figure is the median of some runs, of which those that are compared alternate. The peers
//! (`null_peers`) and whoever feeds the server are in this process, on the same machine: ratios mean more
//! than rates.

pub mod inn;
mod null_peers;

use crate::articles::{Generator, Shape, group_name};
use crate::client::Client;
use crate::feeder::Feed;
use crate::memory::Memory;
use crate::site::{Plan, Site, processor_time};
use crate::{Place, Verdict};
use clap::{Args, ValueEnum};
use inn::Inn;
use null_peers::NullPeers;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
/// What a flood of control messages may cost a feed that comes after it.
const FLOOD_COST_MAX: f64 = 0.01;
/// How many there are.
const FLOOD: u64 = 10_000;
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
    /// Seconds of a feed that comes after a flood: long against what the flood may cost at once
    #[arg(long, default_value_t = 12)]
    flood_secs: u64,
    /// Articles sent one by one to an idle peer
    #[arg(long, default_value_t = 500)]
    single: u64,
    /// Only these parts; without any, all
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// The directory of inn.sh; without it, or without INN and root, INN is left out
    #[arg(long)]
    inn: Option<PathBuf>,
}

/// A part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What idle cursors cost
    Idle,
    /// Fan-out to four peers
    Four,
    /// INN beside it
    Inn,
    /// 45 and 70 peers, one of them down
    Many,
    /// How soon an article leaves for an idle peer
    Latency,
    /// What a flood of newgroup messages costs a feed
    Flood,
}

/// How long a feed is.
#[derive(Debug, Clone, Copy)]
enum Length {
    Articles(u64),
    Time(Duration),
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
    /// Microseconds of processor time that the server took for an article.
    cpu_us: f64,
}

/// Runs all of it.
pub fn run(options: &Options) -> Verdict {
    let generator = Generator::new(1, GROUPS, SHAPE);
    let trial = Trial { options, generator };
    let (mut alone, mut idle, mut four, mut inn) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut ordinary, mut flooded) = (Vec::new(), Vec::new());
    for _ in 0..options.runs {
        if options.has_more_than_flood() {
            alone.push(trial.newsreel(0, "")?);
        }
        if options.has(Part::Idle) {
            idle.push(trial.newsreel(0, &idle_peers(50))?);
        }
        if options.has(Part::Four) {
            four.push(trial.newsreel(4, "")?);
        }
        if options.has(Part::Inn) {
            inn.extend(trial.inn(4)?);
        }
        if options.has(Part::Flood) {
            trial.floods(&mut ordinary, &mut flooded)?;
        }
    }
    let columns = ("ingest/s", "fan-out/s", "memory MB", "CPU us");
    let title = format!("feed of {} articles", options.articles);
    println!("{title:34} {:>12} {:>12} {:>10} {:>8}", columns.0, columns.1, columns.2, columns.3);
    row("no peers", &alone);
    row("50 idle cursors", &idle);
    row("4 null peers", &four);
    row("INN, 4 null peers", &inn);
    row("after ordinary articles", &ordinary);
    row("after a flood of newgroups", &flooded);
    let ingest = median_of(&alone, |run| run.ingest);
    let mut bars = Bars { held: true };
    if !four.is_empty() {
        let share = median_of(&four, |run| run.ingest) / ingest;
        bars.judge("ingest with 4 peers, of that without", share, share >= INGEST_SHARE_MIN);
    }
    if !idle.is_empty() {
        let cost = 1.0 - median_of(&idle, |run| run.ingest) / ingest;
        bars.judge("cost of 50 idle cursors", cost, cost < IDLE_COST_MAX);
    }
    if !inn.is_empty() && !four.is_empty() {
        let times = median_of(&four, |run| run.fan_out) / median_of(&inn, |run| run.fan_out);
        bars.judge("times INN's fan-out", times, times >= INN_TIMES_MIN);
    }
    if !flooded.is_empty() {
        let cost_of = |of: fn(&Run, &Run) -> f64| {
            median(flooded.iter().zip(&ordinary).map(|(flooded, ordinary)| of(flooded, ordinary)).collect())
        };
        let more = cost_of(|flooded, ordinary| flooded.cpu_us / ordinary.cpu_us - 1.0);
        println!("       processor time beside a flood, more by: {more:.3}");
        let cost = cost_of(|flooded, ordinary| 1.0 - flooded.ingest / ordinary.ingest);
        bars.judge("cost of a flood of newgroups", cost, cost < FLOOD_COST_MAX);
    }
    if options.has(Part::Many) {
        let growth_kb = trial.many()?;
        let holds = growth_kb < GROWTH_KB_MAX;
        bars.judge("growth of memory from 45 to 70 peers, in MB", (growth_kb >> 10) as f64, holds);
    }
    if options.has(Part::Latency) {
        let (median, p99) = trial.latency()?;
        bars.judge("latency, median, in ms", median.as_secs_f64() * 1e3, median <= LATENCY_MEDIAN_MAX);
        bars.judge("latency, p99, in ms", p99.as_secs_f64() * 1e3, p99 <= LATENCY_P99_MAX);
    }
    Ok(bars.held)
}

impl Options {
    fn has_more_than_flood(&self) -> bool {
        self.only.iter().any(|part| *part != Part::Flood) || self.only.is_empty()
    }

    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// What is held to the limits.
struct Bars {
    held: bool,
}

impl Bars {
    fn judge(&mut self, what: &str, figure: f64, holds: bool) {
        println!("{} {what}: {figure:.3}", if holds { "ok    " } else { "MISSED" });
        self.held &= holds;
    }
}

/// Prints the medians of some runs.
fn row(name: &str, runs: &[Run]) {
    if runs.is_empty() {
        return;
    }
    let (ingest, fan_out) = (median_of(runs, |run| run.ingest), median_of(runs, |run| run.fan_out));
    let memory = runs.iter().map(|run| run.memory_kb).max().unwrap_or_default() >> 10;
    let cpu = median_of(runs, |run| run.cpu_us);
    println!("{name:34} {ingest:12.0} {fan_out:12.0} {memory:10} {cpu:8.1}");
}

fn median_of(runs: &[Run], of: fn(&Run) -> f64) -> f64 {
    median(runs.iter().map(of).collect())
}

struct Trial<'a> {
    options: &'a Options,
    generator: Generator,
}

impl Trial<'_> {
    /// Feeds 45 and 70 peers, one of them down; by how many KB the server's memory grows between the two.
    fn many(&self) -> io::Result<u64> {
        let mut memory_kb = Vec::new();
        for peers in [45, 70] {
            let run = self.newsreel(peers - 1, &section("down.example", NOWHERE, ""))?;
            row(&format!("{peers} null peers, one of them down"), &[run]);
            memory_kb.push(run.memory_kb);
        }
        Ok(memory_kb.iter().max().unwrap_or(&0) - memory_kb.first().unwrap_or(&0))
    }

    /// Two pairs of feeds, one after newgroups and one after ordinary articles each. Who goes first changes
    /// within the round: the first of a pair finds the machine otherwise than the second, which alone is more
    /// than a flood may cost.
    fn floods(&self, ordinary: &mut Vec<Run>, flooded: &mut Vec<Run>) -> io::Result<()> {
        flooded.push(self.after(&newgroup)?);
        ordinary.push(self.after(&ordinary_article)?);
        ordinary.push(self.after(&ordinary_article)?);
        flooded.push(self.after(&newgroup)?);
        Ok(())
    }

    /// A feed that comes right after [`FLOOD`] articles of another kind, on a site that obeys newgroups.
    fn after(&self, article: &dyn Fn(u64) -> String) -> io::Result<Run> {
        let peers = NullPeers::start(0, false)?;
        let mut site = self.site(&peers, OBEDIENT)?;
        let mut client = Client::connect(&site.address())?;
        for from in (0..FLOOD).step_by(WINDOW) {
            for n in from..from + WINDOW as u64 {
                let id = format!("<{n}@flood.example>");
                client.queue_article(id.as_bytes(), article(n).into_bytes()).map_err(io::Error::other)?;
            }
            for _ in 0..WINDOW {
                let answer = client.answer()?;
                if !answer.starts_with("239 ") {
                    return Err(io::Error::other(answer));
                }
            }
        }
        let time = Duration::from_secs(self.options.flood_secs);
        let run = self.feed(&site.address(), &peers, Some(site.pid()), Length::Time(time))?;
        site.stop()?;
        fs::remove_dir_all(site.dir())?;
        Ok(run)
    }

    /// A new newsreel that feeds this many null peers, and knows those of `sections`.
    fn newsreel(&self, peers: usize, sections: &str) -> io::Result<Run> {
        let peers = NullPeers::start(peers, false)?;
        let mut site = self.site(&peers, sections)?;
        let run = self.feed(&site.address(), &peers, Some(site.pid()), self.length())?;
        site.stop()?;
        fs::remove_dir_all(site.dir())?;
        Ok(run)
    }

    fn site(&self, peers: &NullPeers, sections: &str) -> io::Result<Site> {
        let place = &self.options.place;
        let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
        let mut site = Site::make(place, "feeds", place.port, plan)?;
        let all: String =
            peers.addresses.iter().enumerate().map(|(n, address)| null_section(n, address)).collect();
        let text = fs::read_to_string(site.config())?;
        fs::write(site.config(), text + &all + sections)?;
        site.start(&group_name(0))?;
        Ok(site)
    }

    /// INN with this many null peers, if there is one.
    fn inn(&self, peers: usize) -> io::Result<Option<Run>> {
        let Some(scripts) = &self.options.inn else { return Ok(None) };
        let peers = NullPeers::start(peers, false)?;
        let groups: Vec<String> = (0..GROUPS).map(group_name).collect();
        let place = &self.options.place;
        let inn = Inn::start(scripts, &place.dir.join("inn"), place.port + 10, &groups, &peers.addresses)?;
        let Some(inn) = inn else { return Ok(None) };
        // The first innfeed finds buffers that were never used and gives up; INN starts another, and what it
        // was written before is lost.
        if !peers.wait_for_connections(PATIENCE) {
            return Err(io::Error::other("innfeed does not connect to its peers"));
        }
        self.feed(&inn.address(), &peers, None, self.length()).map(Some)
    }

    fn length(&self) -> Length {
        Length::Articles(self.options.articles)
    }

    fn feed(&self, address: &str, peers: &NullPeers, pid: Option<u32>, length: Length) -> io::Result<Run> {
        let budget = match length {
            Length::Articles(articles) => articles,
            Length::Time(_) => u64::MAX,
        };
        let feed = Feed {
            address: address.to_owned(),
            generator: &self.generator,
            first: Mutex::default(),
            next: &AtomicU64::new(0),
            clock: &AtomicU64::new(0),
            budget: AtomicU64::new(budget),
            stop: AtomicBool::new(false),
            connections: CONNECTIONS,
            window: WINDOW,
        };
        let mut memory_kb = 0;
        let mut look = || {
            let anonymous = pid.and_then(|pid| Memory::of(pid).ok()).map_or(0, |memory| memory.anonymous_kb);
            memory_kb = anonymous.max(memory_kb);
        };
        let cpu = || pid.and_then(|pid| processor_time(pid).ok()).unwrap_or_default();
        let (begun, cpu_begun) = (Instant::now(), cpu());
        let sent = std::thread::scope(|scope| {
            if let Length::Time(time) = length {
                let stop = &feed.stop;
                scope.spawn(move || {
                    std::thread::sleep(time);
                    stop.store(true, Ordering::Relaxed);
                });
            }
            feed.run()
        })?;
        let accepted = sent.iter().filter(|article| article.code == 239).count() as u64;
        let articles = sent.len() as u64;
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
        let cpu_us = (cpu() - cpu_begun).as_secs_f64() * 1e6 / articles as f64;
        Ok(Run { ingest, fan_out, memory_kb, cpu_us })
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

/// Who asks for groups gets them.
const OBEDIENT: &str = "\n[[control]]\ntype = [\"newgroup\"]\nfrom = \"admin@flood.example\"\n\
                        groups = \"flood.*\"\naction = \"do\"\n";

fn newgroup(n: u64) -> String {
    let head = format!("Control: newgroup flood.group{n}\r\nApproved: admin@flood.example\r\n");
    small_article(n, &head)
}

fn ordinary_article(n: u64) -> String {
    small_article(n, "X-Nothing: of the kind that asks for something\r\n")
}

/// A small article of now.
fn small_article(n: u64, head: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut date = Vec::new();
    netnews::date::format_rfc5322(i64::try_from(now).unwrap_or_default(), &mut date);
    let (date, group) = (String::from_utf8_lossy(&date), group_name(0));
    format!(
        "Path: flood.example!not-for-mail\r\nFrom: admin@flood.example\r\nNewsgroups: {group}\r\nSubject: \
         cmsg\r\nMessage-ID: <{n}@flood.example>\r\nDate: {date}\r\n{head}\r\nFor your newsgroups \
         file:\r\nflood.group{n}\tOne of many\r\n"
    )
}

fn null_section(number: usize, address: &SocketAddr) -> String {
    section(&format!("null{number}.example"), &address.to_string(), "")
}

/// Peers that want nothing that comes.
fn idle_peers(count: usize) -> String {
    let one = |number| section(&format!("idle{number}.example"), NOWHERE, "groups = \"nothing.*\"");
    (0..count).map(one).collect()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() % 2 {
        0 => figures.get(middle.wrapping_sub(1)..=middle).map_or(0.0, |both| both.iter().sum::<f64>() / 2.0),
        _ => figures.get(middle).copied().unwrap_or_default(),
    }
}
