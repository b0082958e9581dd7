//! How soon a server with a big spool answers after kill -9: from exec to the answer to GROUP.

use crate::articles::{Generator, Shape, group_name};
use crate::feeder::Feed;
use crate::rng::Rng;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

const GROUPS: u64 = 3_000;
/// Mean article: 2.35 KB with its headers.
const SHAPE: Shape = Shape { bytes: (1_100, 3_100), large_every: 0, large_bytes: (0, 0) };
/// Bar.
const START_MAX: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 4;
const WINDOW: usize = 200;
/// Duration of the feed before a kill, in milliseconds.
const FEED_MS: (u64, u64) = (300, 4_000);

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Articles in the spool
    #[arg(long, default_value_t = 2_000_000)]
    articles: u64,
    /// Size of each of the two buffers, in MiB
    #[arg(long, default_value_t = 5 * 1024)]
    buffer_mib: u64,
    /// How often to kill
    #[arg(long, default_value_t = 6)]
    rounds: u64,
    /// Seed of the articles and the moments of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    let generator = Generator::new(options.seed, GROUPS, SHAPE);
    let plan = Plan { groups: GROUPS, buffer_bytes: options.buffer_mib << 20, durability: None };
    let mut site = Site::make(&options.place, "recover", options.place.port, plan)?;
    crate::filling::fill(&site, &generator, options.articles, 0)?;
    println!("start after a clean stop: {:.0?}", site.start(&group_name(0))?);
    let mut rng = Rng::new(options.seed, u64::MAX);
    let mut worst = Duration::ZERO;
    let next = AtomicU64::new(options.articles);
    for round in 1..=options.rounds {
        let feed = Feed {
            address: site.address(),
            generator: &generator,
            first: Mutex::default(),
            next: &next,
            clock: &AtomicU64::new(0),
            budget: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            connections: CONNECTIONS,
            window: WINDOW,
        };
        let delay = Duration::from_millis(rng.between(FEED_MS.0, FEED_MS.1));
        let sent = std::thread::scope(|scope| {
            let feeder = scope.spawn(|| feed.run());
            std::thread::sleep(delay);
            site.kill()?;
            feeder.join().map_err(|_| std::io::Error::other("the feeder failed"))?
        })?;
        let accepted = sent.iter().filter(|article| article.code == 239).count();
        let took = site.start(&group_name(0))?;
        worst = worst.max(took);
        println!(
            "round {round}: killed after {delay:.1?} and {accepted} more articles; answers {took:.0?} after \
                exec: {}",
            site.recovery()
        );
    }
    site.stop()?;
    std::fs::remove_dir_all(site.dir())?;
    println!("slowest {worst:.0?}, bar {START_MAX:.0?}: {}", if worst < START_MAX { "ok" } else { "MISSED" });
    Ok(worst < START_MAX)
}
