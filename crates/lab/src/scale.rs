//! Thousands of readers and feeders on one server: all are answered, an idle reader costs little, and long
//! articles that stream in do not pile up in memory.

use crate::articles::{Generator, Shape, group_name};
use crate::client::Client;
use crate::feeder::feed;
use crate::memory::Memory;
use crate::site::{Plan, Site};
use crate::{Place, Verdict};
use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GROUPS: u64 = 50;
const BUFFER_BYTES: u64 = 1 << 30;
/// Articles that are there before anybody reads.
const ARTICLES: u64 = 5_000;
const SHAPE: Shape = Shape { bytes: (500, 4_000), large_every: 0, large_bytes: (0, 0) };
/// As long as articles of binaries groups.
const LARGE: Shape = Shape { bytes: (750_000, 750_000), large_every: 0, large_bytes: (0, 0) };
const LARGE_CONNECTIONS: usize = 8;
const LARGE_WINDOW: usize = 8;
/// Limit: what an idle reader may cost.
const READER_KB_MAX: f64 = 40.0;
/// Limit: how much memory may grow while long articles stream in. Each of the connections may hold a few of
/// them.
const STREAMING_GROWTH_KB_MAX: u64 = 200 << 10;
const SAMPLE: Duration = Duration::from_millis(20);
/// Let the server's own clean-up happen before it is weighed.
const SETTLE: Duration = Duration::from_millis(1500);

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Reader connections
    #[arg(long, default_value_t = 5_000)]
    readers: usize,
    /// Feeder connections
    #[arg(long, default_value_t = 2_000)]
    feeders: usize,
    /// Articles of 750 KB to stream in
    #[arg(long, default_value_t = 1_600)]
    large: u64,
}

/// Runs the trial.
pub fn run(options: &Options) -> Verdict {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let generator = Generator::new(1, GROUPS, SHAPE);
    let plan = Plan { groups: GROUPS, buffer_bytes: BUFFER_BYTES, durability: None };
    let mut site = Site::make(&options.place, "scale", options.place.port, plan)?;
    site.start(&group_name(0))?;
    let next = AtomicU64::new(0);
    feed(&site, &generator, &next, ARTICLES, 4, 100)?;
    drop(readers(&site, 200)?); // what is made once, at the first readers, is not counted
    std::thread::sleep(SETTLE);

    let before = Memory::of(site.pid())?;
    println!("{:28} {before:?}", "before");
    let began = Instant::now();
    let mut readers = readers(&site, options.readers)?;
    println!("{} readers connected, in a group, one article each: {:.2?}", readers.len(), began.elapsed());
    std::thread::sleep(SETTLE);
    let after = Memory::of(site.pid())?;
    println!("{:28} {after:?}", "with idle readers");
    let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / options.readers.max(1) as f64;
    let reader_kb = each(after.pss_kb, before.pss_kb);
    println!(
        "an idle reader: {reader_kb:.1} KB PSS, {:.1} KB RSS (bar {READER_KB_MAX})",
        each(after.rss_kb, before.rss_kb)
    );

    let began = Instant::now();
    let mut feeders = feeders(&site, &generator, &next, options.feeders)?;
    println!("{} feeders connected, one article each: {:.2?}", feeders.len(), began.elapsed());
    println!("{:28} {:?}", "with readers and feeders", Memory::of(site.pid())?);
    let began = Instant::now();
    all_at_once(&mut readers, &mut feeders, &generator, &next)?;
    println!(
        "all {} asked at once and were answered: {:.2?}",
        readers.len() + feeders.len(),
        began.elapsed()
    );
    drop((readers, feeders));

    std::thread::sleep(SETTLE);
    let growth_kb = stream_large(&site, options.large)?;
    println!("bar: at most {} MB more while they stream in", STREAMING_GROWTH_KB_MAX >> 10);
    site.stop()?;
    std::fs::remove_dir_all(site.dir())?;
    let held = reader_kb <= READER_KB_MAX && growth_kb <= STREAMING_GROWTH_KB_MAX;
    println!("{}", if held { "ok" } else { "MISSED" });
    Ok(held)
}

/// Readers that have read one article and are idle now.
fn readers(site: &Site, count: usize) -> io::Result<Vec<Client>> {
    let reader = |n: usize| {
        let mut client = Client::connect(&site.address())?;
        client.expect("MODE READER", "20")?;
        let (_, low, _) = client.group(&group_name(n as u64 % GROUPS))?;
        client.expect(&format!("ARTICLE {low}"), "220")?;
        client.block()?;
        client.settle();
        Ok(client)
    };
    (0..count).map(reader).collect()
}

/// Feeders that have sent one article and are idle now.
fn feeders(site: &Site, generator: &Generator, next: &AtomicU64, count: usize) -> io::Result<Vec<Client>> {
    let feeder = |_| {
        let mut client = Client::connect(&site.address())?;
        client.expect("MODE STREAM", "203")?;
        let index = next.fetch_add(1, Ordering::Relaxed);
        client.expect(&format!("CHECK {}", generator.message_id(index)), "238")?;
        take_this(&mut client, generator, index)?;
        accepted(&mut client, generator, index)?;
        client.settle();
        Ok(client)
    };
    (0..count).map(feeder).collect()
}

fn take_this(client: &mut Client, generator: &Generator, index: u64) -> io::Result<()> {
    let mut article = Vec::new();
    generator.put(index, &mut article);
    client.queue_article(generator.message_id(index).as_bytes(), article)?;
    client.flush()
}

fn accepted(client: &mut Client, generator: &Generator, index: u64) -> io::Result<()> {
    let answer = client.answer()?;
    let expected = format!("239 {}", generator.message_id(index));
    if answer.starts_with(&expected) { Ok(()) } else { Err(crate::client::unexpected("TAKETHIS", &answer)) }
}

/// All of them send before any of them reads.
fn all_at_once(
    readers: &mut [Client],
    feeders: &mut [Client],
    generator: &Generator,
    next: &AtomicU64,
) -> io::Result<()> {
    let first = next.fetch_add(feeders.len() as u64, Ordering::Relaxed);
    for reader in readers.iter_mut() {
        reader.queue(b"ARTICLE")?;
        reader.flush()?;
    }
    for (index, feeder) in (first..).zip(feeders.iter_mut()) {
        take_this(feeder, generator, index)?;
    }
    for reader in readers {
        let answer = reader.answer()?;
        if !answer.starts_with("220") {
            return Err(crate::client::unexpected("ARTICLE", &answer));
        }
        reader.block()?;
    }
    (first..).zip(feeders).try_for_each(|(index, feeder)| accepted(feeder, generator, index))
}

/// Streams long articles in; by how much memory grew at most, in kilobytes.
fn stream_large(site: &Site, count: u64) -> io::Result<u64> {
    let generator = Generator::new(2, GROUPS, LARGE);
    let before = Memory::of(site.pid())?;
    println!("{:28} {before:?}", "before long articles");
    let done = AtomicBool::new(false);
    let began = Instant::now();
    let (most, fed) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut most = Memory::default();
            while !done.load(Ordering::Relaxed) {
                if let Ok(now) = Memory::of(site.pid())
                    && now.rss_kb > most.rss_kb
                {
                    most = now;
                }
                std::thread::sleep(SAMPLE);
            }
            most
        });
        let fed = feed(site, &generator, &AtomicU64::new(0), count, LARGE_CONNECTIONS, LARGE_WINDOW);
        done.store(true, Ordering::Relaxed);
        (sampler.join().unwrap_or_default(), fed)
    });
    fed?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{:28} {most:?}", "most while they stream in");
    let mb = count as f64 * LARGE.bytes.0 as f64 / 1e6;
    println!(
        "{count} articles of 750 KB on {LARGE_CONNECTIONS} connections: {:.0} MB/s, RSS grew by {} KB",
        mb / seconds,
        most.rss_kb - before.rss_kb
    );
    println!("{:28} {:?}", "after", Memory::of(site.pid())?);
    Ok(most.rss_kb.saturating_sub(before.rss_kb))
}
