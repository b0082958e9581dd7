//! Seeded rounds of trouble for a cache in use: killed, with damaged files, with an upstream that stalls,
//! breaks off and lies, with a reader that stalls, on a full disk. No reader ever gets wrong or torn data,
//! the cache stays within its size, and works again when the trouble is over.

use super::fake::{Fake, Fault, id};
use super::{CACHE, article_of, fake_article, section};
use crate::client::Client;
use crate::operated::{Operated, Serving};
use crate::running::Server;
use crate::waiting::{PATIENCE, let_pass};
use disk::SimDisk;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const ARTICLES: u64 = 40;
/// Size of the cache, small enough that articles are replaced all the time.
const SIZE_BYTES: u64 = 1 << 20;
/// Number of times that the server is killed in a round.
const LIVES: usize = 3;
const READERS: u64 = 3;
const READS: u64 = 24;
/// Faults, except those detected only by an overview row, as rows leave the cache, too.
const FAULTS: [Fault; 8] = [
    Fault::None,
    Fault::None,
    Fault::None,
    Fault::Silent,
    Fault::Dead,
    Fault::BreaksOff,
    Fault::Garbage,
    Fault::OtherArticle,
];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

fn bytes_of(number: u64) -> usize {
    if number.is_multiple_of(5) { 150_000 } else { 3_000 }
}

/// Returns the line read; `None` if the connection has ended. Fails on a timeout.
fn come(line: std::io::Result<String>) -> Option<String> {
    line.map_err(|error| assert!(error.kind() != ErrorKind::WouldBlock, "a reader was left waiting")).ok()
}

/// Reads a random article from a server that may end at any time; a complete one must be right.
fn read_one(address: SocketAddr, fake: &Fake, random: &mut Random) -> std::io::Result<()> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines().map_while(come);
    let number = 1 + random.below(ARTICLES);
    let which = if random.below(3) == 0 { id("comp.a", number) } else { number.to_string() };
    write!(&stream, "GROUP comp.a\r\nARTICLE {which}\r\n")?;
    let answer = lines.by_ref().nth(2).unwrap_or_default();
    if !answer.starts_with("220 ") {
        let_pass(Duration::from_millis(50), "an upstream is unused for a while after a failure");
        return Ok(());
    }
    let mut block: Vec<String> = lines.by_ref().take_while(|line| line != ".").collect();
    // Only the response to the next command shows whether the last line was complete.
    write!(&stream, "DATE\r\n")?;
    let is_whole = lines.next().is_some_and(|line| line.starts_with("111 "));
    let right: Vec<String> = fake_article(fake, number).lines().map(str::to_owned).collect();
    let own = |line: &String| !line.starts_with("Xref: ");
    block.retain(own);
    let right: Vec<String> = right.into_iter().filter(own).collect();
    assert!(!is_whole || block == right, "{which}: {} lines of {}", block.len(), right.len());
    assert!(right.starts_with(block.get(..block.len().saturating_sub(1)).unwrap_or_default()), "{which}");
    Ok(())
}

/// Requests an article and does not read it.
fn stalled(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GROUP comp.a\r\nARTICLE 5\r\n").ok()?;
    Some(stream)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn bytes_in(dir: &Path) -> u64 {
    files(dir).iter().filter_map(|path| fs::metadata(path).ok()).map(|about| about.len()).sum()
}

/// Alters, truncates or removes some files.
fn damage(dir: &Path, random: &mut Random) {
    let all = files(dir);
    for _ in 0..random.below(4) {
        let path = &all[random.below(all.len() as u64) as usize];
        let Ok(mut bytes) = fs::read(path) else { continue };
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.clear(),
            _ if bytes.is_empty() => {}
            _ => bytes[at] ^= 1 << random.below(8),
        }
        fs::write(path, bytes).unwrap();
    }
}

fn round(seed: u64, lives: usize) {
    let (fake, mut random) = (Fake::start(), Random(seed));
    (1..=ARTICLES).for_each(|number| fake.put("comp.a", number, bytes_of(number)));
    let site = Operated::new();
    let patient = section("fake", fake.address, "");
    site.edit(|text| {
        text + &patient + &format!("[cache]\nsize = \"{SIZE_BYTES} B\"\nnegative_age = \"0 s\"\n")
    });
    let times = ["answer_timeout = \"1 min\"", "answer_timeout = \"1 s\"\nconnect_timeout = \"1 s\""];
    site.edit(|text| text.replace(times[0], times[1]));
    let dir = site.dir().join("cache");
    for _ in 0..lives {
        let serving = site.serve();
        live(&serving, &fake, &mut random);
        assert!(bytes_in(&dir) <= SIZE_BYTES + SIZE_BYTES / 20, "seed {seed}: {} bytes", bytes_in(&dir));
        // Killed by SIGKILL.
        drop(serving);
        damage(&dir, &mut random);
    }
    fake.fail(Fault::None);
    site.edit(|text| text.replace(times[1], times[0]));
    let serving = site.serve();
    let mut client = serving.client();
    assert_eq!(client.ask("GROUP comp.a"), format!("211 {ARTICLES} 1 {ARTICLES} comp.a"));
    assert!(client.ask("OVER 1-").starts_with("224 "));
    assert_eq!(client.block().len(), ARTICLES as usize);
    for number in (1..=ARTICLES).chain(1..=ARTICLES) {
        let right: Vec<_> = fake_article(&fake, number).lines().map(str::to_owned).collect();
        let article = article_of(&mut client, &format!("ARTICLE {number}"));
        assert_eq!(article.as_ref(), Some(&right), "seed {seed}: {number}");
    }
    assert!(bytes_in(&dir) <= SIZE_BYTES + SIZE_BYTES / 20, "seed {seed}: {} bytes", bytes_in(&dir));
    site.done(&["cache", "verify"]);
}

/// Reads with several readers, one of which stalls, while the upstream has one fault after the other.
fn live(serving: &Serving, fake: &Fake, random: &mut Random) {
    let address = serving.address;
    let _stalled = stalled(address);
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (fake, mut own) = (fake.clone(), Random(random.below(1 << 30)));
            std::thread::spawn(move || {
                (0..READS).for_each(|_| drop(read_one(address, &fake, &mut own)));
            })
        })
        .collect();
    while readers.iter().any(|reader| !reader.is_finished()) {
        fake.fail(FAULTS[random.below(FAULTS.len() as u64) as usize]);
        let_pass(Duration::from_millis(20 + random.below(60)), "faults come at any time");
    }
    // A wrong article seen by a reader fails the test.
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn cache_survives_kills_stalls_and_damage() {
    round(1, 1);
}

#[test]
#[ignore = "long: part of `make soak`"]
fn cache_survives_twenty_rounds_of_kills_stalls_and_damage() {
    (1..=20).for_each(|seed| round(seed, LIVES));
}

fn on_a_full_disk(seed: u64) {
    let (fake, mut random, sim) = (Fake::start(), Random(seed), SimDisk::new());
    (1..=ARTICLES).for_each(|number| fake.put("comp.a", number, bytes_of(number)));
    let own = section("fake", fake.address, "").replace("group_age = \"0 s\"", "group_age = \"1 h\"");
    let server = Server::start_showing_on(Arc::new(sim.clone()), |text| {
        text.replace("128 KiB", "4 MiB") + &own + CACHE
    });
    let mut client = server.client();
    assert_eq!(client.ask("GROUP comp.a"), format!("211 {ARTICLES} 1 {ARTICLES} comp.a"));
    for _ in 0..30 {
        if random.below(4) == 0 {
            sim.free();
        } else {
            sim.leave_bytes(random.below(20_000));
        }
        let number = 1 + random.below(ARTICLES);
        read_right(&mut client, &fake, number, seed);
    }
    // With room again, an article read twice is requested once.
    sim.free();
    (1..=5).for_each(|number| read_right(&mut client, &fake, number, seed));
    fake.take("");
    (1..=5).for_each(|number| read_right(&mut client, &fake, number, seed));
    assert_eq!(fake.take("ARTICLE"), [""; 0], "seed {seed}");
}

fn read_right(client: &mut Client, fake: &Fake, number: u64, seed: u64) {
    let right: Vec<_> = fake_article(fake, number).lines().map(str::to_owned).collect();
    let article = article_of(client, &format!("ARTICLE {number}"));
    assert_eq!(article.as_ref(), Some(&right), "seed {seed}: {number}");
}

#[test]
fn full_disk_costs_only_uncached_articles() {
    on_a_full_disk(1);
}

#[test]
#[ignore = "long: part of `make soak`"]
fn cache_survives_twenty_rounds_on_a_full_disk() {
    (1..=20).for_each(on_a_full_disk);
}

#[test]
fn log_names_wrong_and_unavailable_upstreams() {
    let (liar, dead) = (Fake::with("comp.a", 3, 3_000), Fake::with("comp.a", 3, 3_000));
    let site = Operated::new();
    let sections = section("liar", liar.address, "") + &section("dead", dead.address, "fill = true");
    site.edit(|text| text + &sections);
    let mut serving = site.serve();
    liar.fail(Fault::Exchanged);
    dead.fail(Fault::Dead);
    assert!(serving.client().ask(&format!("ARTICLE {}", id("comp.a", 1))).starts_with("403 "));
    let told = serving.logged(|line| line.contains("wrong answer"));
    assert!(told.contains("liar"), "{told}");
    let told = serving.logged(|line| line.contains("is away"));
    assert!(told.contains("dead"), "{told}");
}
