//! Filing beside expiry: how fast a peer that waits for each answer is served while many articles are due at
//! once, each a file, and how fast without.
//!
//! Newsreel and INN take turns, each with a new site in every round. Figures: `docs/bench/expiry.md`.

use super::batch::GROUPS;
use super::expiring::Ground;
use super::sites::{Kind, Site};
use crate::articles::{Generator, Shape};
use crate::client::{Client, unexpected};
use crate::others::Inn;
use crate::rates::median;
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Storage methods of newsreel, and of INN, with a file for each article.
const KINDS: [Kind; 2] = [Kind::Newsreel("tradspool"), Kind::Inn(Inn::New("tradspool"))];
/// Time for which articles are kept; longer than a measurement, so that what the peer sends is not due.
const KEEP: Duration = Duration::from_secs(30);
/// Time for which a peer is served before expiry begins, and at least while it runs.
const SERVED: Duration = Duration::from_secs(2);
const SHAPE: Shape = Shape { bytes: (1_700, 1_700), large_every: 0, large_bytes: (0, 0) };

/// What a peer gets that waits for each answer.
#[derive(Debug, Clone, Copy)]
struct Service {
    per_second: f64,
    /// The slowest of a hundred answers takes at least so long, in milliseconds.
    p99_ms: f64,
}

/// A round of one server.
#[derive(Debug, Clone, Copy)]
struct Round {
    alone: Service,
    beside: Service,
    /// Seconds that the expiry took.
    expiry: f64,
}

/// Measures `runs` rounds with `articles` that are due; returns a table, and whether newsreel files beside
/// expiry at least as fast as INN, if both can be had.
pub fn run(ground: &Ground, articles: u64, runs: usize) -> io::Result<(String, Option<bool>)> {
    let mut rounds: [Vec<Round>; KINDS.len()] = Default::default();
    for run in 0..runs {
        for (kind, rounds) in KINDS.iter().zip(&mut rounds) {
            if let Some(round) = round(ground, *kind, articles, run as u64)? {
                eprintln!("lab: {}: {round:?}", kind.name());
                rounds.push(round);
            }
        }
    }
    let mut text = format!(
        "| {articles} articles due, each a file | filed/s alone | filed/s beside expiry | p99 alone | \
         p99 beside expiry | expiry s |\n|---|---:|---:|---:|---:|---:|\n"
    );
    for (kind, rounds) in KINDS.iter().zip(&rounds).filter(|(_, rounds)| !rounds.is_empty()) {
        let of = |figure: fn(&Round) -> f64| Spread::new(rounds.iter().map(figure).collect());
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.2} ms | {:.2} ms | {:.2} |",
            kind.name(),
            of(|round| round.alone.per_second),
            of(|round| round.beside.per_second),
            of(|round| round.alone.p99_ms),
            of(|round| round.beside.p99_ms),
            of(|round| round.expiry)
        );
    }
    let [ours, inn] = rounds.map(|rounds| {
        (!rounds.is_empty()).then(|| median(rounds.iter().map(|round| round.beside.per_second).collect()))
    });
    Ok((text, ours.zip(inn).map(|(ours, inn)| ours >= inn)))
}

/// A median with the least and the most.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn new(figures: Vec<f64>) -> Self {
        let (least, most) =
            (figures.iter().copied().fold(f64::MAX, f64::min), figures.iter().copied().fold(0.0, f64::max));
        Self { least, median: median(figures), most }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.least, self.most)
    }
}

fn round(ground: &Ground, kind: Kind, articles: u64, run: u64) -> io::Result<Option<Round>> {
    let Some(site) = ground.filled(kind, articles)? else { return Ok(None) };
    std::thread::sleep(KEEP + Duration::from_secs(1));
    let mut peer = Peer::connect(&site, run)?;
    let alone = peer.send(&AtomicBool::new(true))?;
    let task = site.expire_beside(KEEP)?;
    let is_over = AtomicBool::new(false);
    let (expiry, beside) = std::thread::scope(|scope| {
        let expiry = scope.spawn(|| {
            let begun = Instant::now();
            let ran = task.run();
            is_over.store(true, Ordering::Relaxed);
            ran.map(|()| begun.elapsed().as_secs_f64())
        });
        let beside = peer.send(&is_over);
        (expiry.join().unwrap_or_else(|_| Err(io::Error::other("the expiry failed"))), beside)
    });
    Ok(Some(Round { alone, beside: beside?, expiry: expiry? }))
}

/// A peer that sends one article after the other.
struct Peer {
    client: Client,
    generator: Generator,
    next: u64,
}

impl Peer {
    fn connect(site: &Site, seed: u64) -> io::Result<Self> {
        let mut client = Client::connect(&site.address())?;
        client.expect("MODE STREAM", "203")?;
        Ok(Self { client, generator: Generator::new(100 + seed, GROUPS, SHAPE), next: 0 })
    }

    /// Sends articles until it `is_over`, and at least for [`SERVED`].
    fn send(&mut self, is_over: &AtomicBool) -> io::Result<Service> {
        let begun = Instant::now();
        let mut answers = Vec::new();
        while !is_over.load(Ordering::Relaxed) || begun.elapsed() < SERVED {
            let (id, mut article) = (self.generator.message_id(self.next), Vec::new());
            self.generator.put(self.next, &mut article);
            self.next += 1;
            let sent = Instant::now();
            self.client.queue_article(id.as_bytes(), article).map_err(io::Error::other)?;
            let answer = self.client.answer()?;
            if !answer.starts_with("239") {
                return Err(unexpected("TAKETHIS", &answer));
            }
            answers.push(sent.elapsed());
        }
        let took = begun.elapsed().as_secs_f64();
        answers.sort_unstable();
        let p99 = answers.get(answers.len() * 99 / 100).copied().unwrap_or_default();
        Ok(Service { per_second: answers.len() as f64 / took, p99_ms: 1000.0 * p99.as_secs_f64() })
    }
}
