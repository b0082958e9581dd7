//! kill -9 under full feed: guarantees G1 to G4 on the real binary (durability "process").
//!
//! A round: feed at full speed, kill at a random moment (and sometimes once more during the restart), start,
//! audit; feed on for two more wraps of the buffers, audit again. `ledger` knows what was acknowledged and
//! what may have been overwritten since, `audit` asks the server for everything, `watch` reads while it is
//! fed.

mod audit;
mod ledger;
mod watch;

use crate::articles::{Generator, Shape, group_name};
use crate::feeder::{Feed, Sent};
use crate::rng::Rng;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use audit::{Audit, Findings};
use clap::Args;
use ledger::Ledger;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Groups of the site.
const GROUPS: u64 = 40;
/// Unanswered articles of a connection.
const WINDOW: usize = 200;
/// Milliseconds from the start of the feed to the kill.
const KILL_MS: (u64, u64) = (5, 700);
/// A restart that is killed too is killed within this many milliseconds.
const RESTART_KILL_MS_MAX: u64 = 40;
/// One in this many restarts is killed too.
const RESTART_KILL_EVERY: u64 = 3;
/// Streams of random numbers of the rounds begin here, those of articles below.
const ROUND_STREAMS: u64 = 1 << 60;
const SHAPE: Shape = Shape { bytes: (200, 4_000), large_every: 500, large_bytes: (100_000, 300_000) };

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// How often to kill
    #[arg(long, default_value_t = 50)]
    rounds: u64,
    /// Seed of the articles and the moments of the kills; printed, so that a run can be repeated [default:
    /// the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Feeding connections
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Size of each of the two buffers, in MiB
    #[arg(long, default_value_t = 16)]
    buffer_mib: u64,
}

/// The state of a whole run.
struct Trial {
    generator: Generator,
    site: Site,
    ledger: Ledger,
    audit: Audit,
    next: AtomicU64,
    clock: AtomicU64,
    connections: usize,
    /// Articles that were in flight at a crash and are not there: sent again.
    again: Vec<u64>,
}

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    let seed = options.seed.unwrap_or_else(disk::clock::unix_secs);
    println!(
        "seed {seed}: {} rounds, {} connections, 2 buffers of {} MiB",
        options.rounds, options.connections, options.buffer_mib
    );
    let generator = Generator::new(seed, GROUPS, SHAPE);
    let buffer_bytes = options.buffer_mib << 20;
    let plan = Plan { groups: GROUPS, buffer_bytes, durability: Some("process") };
    let mut site = Site::make(&options.place, "crash", options.place.port, plan)?;
    site.start(&group_name(0))?;
    let mut trial = Trial {
        ledger: Ledger::new(2 * buffer_bytes),
        audit: Audit::new(GROUPS),
        next: AtomicU64::new(0),
        clock: AtomicU64::new(0),
        connections: options.connections,
        again: Vec::new(),
        generator,
        site,
    };
    let mut all = Findings::default();
    for round in 1..=options.rounds {
        let found = trial.round(round, &mut Rng::new(seed, ROUND_STREAMS + round))?;
        found.texts.iter().for_each(|text| println!("  VIOLATION {text}"));
        all.add(&found);
    }
    trial.site.stop()?;
    let crosspoints = trial.audit.numbers_seen();
    println!(
        "{} rounds, {} articles sent, {crosspoints} group:number pairs seen, seed {seed}",
        options.rounds,
        trial.next.load(Ordering::Relaxed)
    );
    println!("{all}");
    if all.violations() == 0 {
        std::fs::remove_dir_all(trial.site.dir())?;
    } else {
        println!("the site is left in {}; repeat with --seed {seed}", trial.site.dir().display());
    }
    Ok(all.violations() == 0)
}

impl Trial {
    fn round(&mut self, round: u64, rng: &mut Rng) -> Result<Findings, std::io::Error> {
        let mut found = Findings::default();
        let delay = Duration::from_millis(rng.between(KILL_MS.0, KILL_MS.1));
        let sent = self.feed(u64::MAX, Some(delay), &mut found)?;
        let acknowledged = sent.iter().filter(|article| article.code == 239).count();
        let in_flight = sent.iter().filter(|article| article.code == 0).count();
        self.note(&sent, &mut found);
        let mut kills = 1;
        if rng.below(RESTART_KILL_EVERY) == 0 {
            self.site.spawn()?;
            std::thread::sleep(Duration::from_millis(rng.below(RESTART_KILL_MS_MAX)));
            self.site.kill()?;
            kills += 1;
        }
        let start = self.site.start(&group_name(0))?;
        self.again = self.audit(&mut found)?;
        let after_crash = found.violations();
        let again = self.again.len();
        let budget = self.ledger.articles_of_wraps(2) + self.again.len() as u64;
        let sent = self.feed(budget, None, &mut found)?;
        self.note(&sent, &mut found);
        self.audit(&mut found)?;
        println!(
            "round {round:3}: killed after {:3} ms ({kills}x), {acknowledged:6} acknowledged, {in_flight:4} \
                in flight ({again:4} not there), up in {:4} ms, \
             {:6} read exactly, {:6} overwritten, {after_crash} + {} violations",
            delay.as_millis(),
            start.as_millis(),
            found.exact,
            found.overwritten,
            found.violations() - after_crash
        );
        Ok(found)
    }

    /// Feeds `budget` articles, or until the server is killed after `kill`; somebody reads meanwhile.
    fn feed(
        &mut self,
        budget: u64,
        kill: Option<Duration>,
        found: &mut Findings,
    ) -> std::io::Result<Vec<Sent>> {
        let feed = Feed {
            address: self.site.address(),
            generator: &self.generator,
            first: Mutex::new(std::mem::take(&mut self.again)),
            next: &self.next,
            clock: &self.clock,
            budget: AtomicU64::new(budget),
            stop: AtomicBool::new(false),
            connections: self.connections,
            window: WINDOW,
        };
        let site = &mut self.site;
        let (sent, seen) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch::watch(&feed));
            let feeder = scope.spawn(|| feed.run());
            if let Some(delay) = kill {
                std::thread::sleep(delay);
                site.kill()?;
            }
            let sent = feeder.join().map_err(|_| std::io::Error::other("the feeder failed"))?;
            feed.stop.store(true, Ordering::Relaxed);
            let seen = watcher.join().map_err(|_| std::io::Error::other("the watcher failed"))?;
            Ok::<_, std::io::Error>((sent?, seen))
        })?;
        self.again = feed.first.into_inner().unwrap_or_default();
        for text in seen.wrong {
            found.torn(text);
        }
        for (group, number, index) in seen.numbers {
            self.audit.number(&group, number, index, found);
        }
        Ok(sent)
    }

    fn audit(&mut self, found: &mut Findings) -> std::io::Result<Vec<u64>> {
        let stamp = self.clock.fetch_add(1, Ordering::SeqCst);
        self.audit.all(&self.site.address(), &self.generator, &mut self.ledger, stamp, found)
    }

    fn note(&mut self, sent: &[Sent], found: &mut Findings) {
        for article in sent.iter().filter(|article| !matches!(article.code, 0 | 239)) {
            found.refused(format!("{} answered {}", self.generator.message_id(article.index), article.code));
        }
        self.ledger.add(sent);
    }
}
