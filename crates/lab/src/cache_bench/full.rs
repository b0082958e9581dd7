//! What a full cache takes of memory: 55,000 groups with an article each, which the upstream has, too, and as
//! many large articles as 50 GB have, of which only the beginnings are on disk.
//!
//! The files are made by `newscache` itself in a cache that is small enough for articles of a few octets to
//! be large ones, then made as long as they are in a cache of 50 GB, and moved there.

use super::{Options, caches};
use crate::articles::group_name;
use crate::client::Client;
use crate::memory::Memory;
use crate::rng::Rng;
use crate::site::{Plan, Site};
use disk::{Disk, RealDisk};
use netnews::GroupMarks;
use newscache::{Cache, CacheSettings};
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 50_000_000_000;
const GROUPS: u64 = 55_000;
/// How the upstream is called in the configuration.
const ORIGIN: &str = "upstream";
/// A cache of this size has files of their own for articles above 8 KiB.
const SMALL_CACHE_BYTES: u64 = 1 << 30;
const SMALL_ARTICLE_BYTES: usize = 8300;
/// How long the article of each group is.
const GROUP_ARTICLE_BYTES: usize = 2_350;
/// Articles that are sent before their answers are read.
const IN_FLIGHT: usize = 100;
/// Articles that fit into it.
const AT_ONCE: u64 = 50_000;
/// How long those articles are made.
const LARGE_BYTES: u64 = 420_000;
/// Of what there is in the end, large articles take this many hundredths: groups take the rest.
const LARGE_PERCENT: u64 = 92;
/// Articles by Message-ID are in one of 256 groups of the cache; after this many each of them is there.
const UNNUMBERED: u64 = 5_000;
/// Groups and articles that readers look at.
const LOOKS: u64 = 20_000;
/// Limits: resident, and more for each connection.
const RSS_KB_MAX: u64 = 64 << 10;
const CONNECTION_KB_MAX: u64 = 4;
/// Let the server's own clean-up happen before it is weighed.
const SETTLE: Duration = Duration::from_millis(1500);

/// What was found.
#[derive(Debug)]
pub struct Resident {
    /// Files of the cache, and bytes that they stand for.
    pub files: u64,
    pub bytes: u64,
    /// After the start, with idle readers, and after much was read; kilobytes.
    pub start_kb: u64,
    pub readers_kb: u64,
    pub end_kb: u64,
    pub readers: u64,
}

impl Resident {
    /// What it may take with this many readers, in kilobytes.
    pub fn limit_kb(readers: u64) -> u64 {
        RSS_KB_MAX + CONNECTION_KB_MAX * readers
    }
}

/// Measures it.
pub fn measure(options: &Options) -> io::Result<Resident> {
    let plan = Plan { groups: GROUPS, buffer_bytes: 64 << 20, durability: None };
    let mut upstream = Site::make(&options.place, "upstream", options.place.port, plan)?;
    upstream.start(&group_name(0))?;
    let date = date();
    feed(&upstream.address(), &date)?;
    let address: SocketAddr = upstream.address().parse().map_err(io::Error::other)?;
    let mut site = caches::newsreel_of(options, address, options.place.port + 1, SIZE_BYTES / 1024)?;
    let (files, bytes) = fill(&site.dir().join("cache"), &options.place.dir.join("filling"), &date)?;
    site.spawn()?;
    let mut probe = connected(&site.address())?;
    probe.expect("MODE READER", "20")?;
    std::thread::sleep(SETTLE);
    let start = Memory::of(site.pid())?;
    let mut readers = Vec::new();
    for n in 0..options.idle_readers {
        let mut reader = Client::connect(&site.address())?;
        reader.group(&group_name(n % GROUPS))?;
        reader.expect("ARTICLE 1", "220")?;
        reader.block()?;
        reader.settle();
        readers.push(reader);
    }
    std::thread::sleep(SETTLE);
    let with_readers = Memory::of(site.pid())?;
    look_around(&mut probe)?;
    std::thread::sleep(SETTLE);
    let end = Memory::of(site.pid())?;
    drop(readers);
    site.stop()?;
    upstream.stop()?;
    fs::remove_dir_all(site.dir())?;
    fs::remove_dir_all(upstream.dir())?;
    Ok(Resident {
        files,
        bytes,
        start_kb: start.rss_kb,
        readers_kb: with_readers.rss_kb,
        end_kb: end.rss_kb,
        readers: options.idle_readers,
    })
}

/// Connects as soon as the server can be reached.
fn connected(address: &str) -> io::Result<Client> {
    for _ in 0..600 {
        if let Ok(client) = Client::connect(address) {
            return Ok(client);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Client::connect(address)
}

/// Lists groups, and reads all over them.
fn look_around(client: &mut Client) -> io::Result<()> {
    client.expect("LIST ACTIVE", "215")?;
    client.block()?;
    let mut rng = Rng::new(1, 1);
    for _ in 0..LOOKS {
        client.group(&group_name(rng.below(GROUPS)))?;
        client.expect("ARTICLE 1", "220")?;
        client.block()?;
    }
    Ok(())
}

fn settings(size_bytes: u64) -> CacheSettings {
    CacheSettings { size_bytes, small_max: 1024, ..CacheSettings::default() }
}

fn open(dir: &Path, size_bytes: u64) -> io::Result<Cache> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    Cache::open(disk, dir, settings(size_bytes), 1).map(|(cache, _)| cache)
}

/// Today, as in a header.
fn date() -> String {
    let mut date = Vec::new();
    netnews::date::format_rfc5322(disk::clock::unix_now(), &mut date);
    String::from_utf8_lossy(&date).into_owned()
}

/// Brings the upstream the article of each group.
fn feed(address: &str, date: &str) -> io::Result<()> {
    let mut client = Client::connect(address)?;
    client.expect("MODE STREAM", "203")?;
    for first in (0..GROUPS).step_by(IN_FLIGHT) {
        let names: Vec<String> = (first..GROUPS.min(first + IN_FLIGHT as u64)).map(group_name).collect();
        for (name, n) in names.iter().zip(first..) {
            client.queue_article(id(name, n).as_bytes(), article(name, n, GROUP_ARTICLE_BYTES, date))?;
        }
        for name in &names {
            let answer = client.answer()?;
            if !answer.starts_with("239") {
                return Err(io::Error::other(format!("unexpected answer to TAKETHIS for {name}: {answer}")));
            }
        }
    }
    Ok(())
}

fn article(group: &str, n: u64, bytes: usize, date: &str) -> Vec<u8> {
    let mut text = format!(
        "Path: x!not-for-mail\r\nFrom: a@example.org\r\nNewsgroups: {group}\r\nSubject: article {n}\r\n\
         Date: {date}\r\nMessage-ID: {}\r\nXref: h {group}:1\r\n\r\n",
        id(group, n)
    );
    while text.len() < bytes {
        text.push_str(
            "A line of text, and then another one, until it is long enough for what it is for.\r\n",
        );
    }
    text.into_bytes()
}

fn id(group: &str, n: u64) -> String {
    format!("<{n}.{group}@example.org>")
}

/// Fills a cache; how many files it has then, and how many bytes they stand for.
fn fill(dir: &Path, filling: &Path, date: &str) -> io::Result<(u64, u64)> {
    let now = disk::clock::unix_secs();
    let cache = open(dir, SIZE_BYTES)?;
    for n in 0..GROUPS {
        let name = group_name(n);
        let group = cache.group(ORIGIN, name.as_bytes(), now);
        let _as_it_was = group.set_marks(GroupMarks { low: 1, high: 1, count: 1 }, now)?;
        let text = article(&name, n, GROUP_ARTICLE_BYTES, date);
        let _as_it_was = group.put_article(1, id(&name, n).as_bytes(), &text, now)?;
    }
    for n in 0..UNNUMBERED {
        cache.put_by_id(ORIGIN, id("first", n).as_bytes(), &article("first", n, 500, date), now)?;
    }
    cache.save()?;
    drop(cache);
    let wanted = SIZE_BYTES / 100 * LARGE_PERCENT / LARGE_BYTES;
    let mut made = 0;
    while made < wanted {
        let cache = open(filling, SMALL_CACHE_BYTES)?;
        for n in made..(made + AT_ONCE).min(wanted) {
            let text = article("large", n, SMALL_ARTICLE_BYTES, date);
            cache.put_by_id(ORIGIN, id("large", n).as_bytes(), &text, now)?;
        }
        drop(cache);
        move_large(filling, dir)?;
        fs::remove_dir_all(filling)?;
        made = (made + AT_ONCE).min(wanted);
    }
    let cache = open(dir, SIZE_BYTES)?;
    cache.save()?;
    let stats = cache.stats();
    Ok((stats.files, stats.used_bytes))
}

/// Moves large articles from one cache to another one, each as long as it is to be.
fn move_large(from: &Path, to: &Path) -> io::Result<()> {
    for dir in fs::read_dir(from.join("large"))? {
        let dir = dir?;
        let target = to.join("large").join(dir.file_name());
        fs::create_dir_all(&target)?;
        for file in fs::read_dir(dir.path())? {
            let file = file?;
            File::options().write(true).open(file.path())?.set_len(LARGE_BYTES)?;
            fs::rename(file.path(), target.join(file.file_name()))?;
        }
    }
    Ok(())
}
