//! Thousands of random and mutated sessions: no crash, no hang, no malformed response, no effect on others.
//!
//! A session consists of pieces of the transcripts' client lines, combined and damaged at random, sent in
//! segments of random sizes, and ended by QUIT, by a half-close or by an abrupt close. A failing one is named
//! by its seed: `NEWSREEL_TEST_SEED=n` plays that one alone. `make soak` plays half a million.

use crate::answers::well_formed;
use crate::client::Client;
use crate::running::Server;
use crate::waiting::let_pass;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of sessions of the quick test, and of the long one.
const SESSIONS: u64 = 10_000;
const SESSIONS_SOAK: u64 = 500_000;
/// Simultaneous sessions.
const THREADS: u64 = 4;
/// Maximum number of client lines in a session.
const LINES_MAX: u64 = 40;
/// Time limit for the bystander's responses, however busy the machine is.
const BYSTANDER_TIMEOUT: Duration = Duration::from_secs(60);

/// Random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Returns the client lines of all transcripts, in order, without those that change the meaning of later
/// octets.
fn lines() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "txt")) {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let Some(text) = line.strip_prefix("C:") else { continue };
            let text = text.strip_prefix(' ').unwrap_or(text);
            let first = text.to_ascii_uppercase();
            if !first.starts_with("COMPRESS") && !first.starts_with("STARTTLS") {
                lines.push(text.as_bytes().to_vec());
            }
        }
    }
    assert!(lines.len() > 200, "{} lines", lines.len());
    lines
}

/// Returns the input of one session.
fn script(random: &mut Random, lines: &[Vec<u8>]) -> Vec<u8> {
    let mut script = Vec::new();
    let count = 1 + random.below(LINES_MAX);
    let mut at = random.below(lines.len() as u64) as usize;
    for _ in 0..count {
        if random.one_in(4) {
            at = random.below(lines.len() as u64) as usize;
        }
        let mut line = lines[at % lines.len()].clone();
        at += 1;
        if random.one_in(6) {
            mutate(random, &mut line);
        }
        script.extend_from_slice(&line);
        match random.below(40) {
            0 => script.push(b'\n'),
            1 => script.push(b'\r'),
            2 => {}
            _ => script.extend_from_slice(b"\r\n"),
        }
    }
    if random.one_in(30) {
        script.extend((0..random.below(70_000)).map(|i| (i * 31) as u8));
    }
    if random.one_in(2) {
        // Ends any article in progress.
        script.extend_from_slice(b"\r\n.\r\nQUIT\r\n");
    }
    script
}

fn mutate(random: &mut Random, line: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let at = random.below(line.len() as u64 + 1) as usize;
        match random.below(8) {
            0 => line.insert(at, random.next() as u8),
            1 => line.truncate(at),
            2 if at < line.len() => line[at] ^= 1 << random.below(8),
            3 => line.splice(at..at, [0, 0xff, b'\t', b' ']).for_each(drop),
            4 => line.splice(at..at, b"18446744073709551616-".iter().copied()).for_each(drop),
            5 => line.extend(std::iter::repeat_n(b'x', random.below(3_000) as usize)),
            6 => *line = line.to_ascii_lowercase(),
            _ => line.splice(at..at, b"<a@b> * !,".iter().copied()).for_each(drop),
        }
    }
}

/// Plays the session of a seed. The output must be well-formed, and the server must close when its client
/// does.
fn play(address: SocketAddr, seed: u64, lines: &[Vec<u8>]) {
    let mut random = Random::new(seed);
    let script = script(&mut random, lines);
    let mut client = Client::connect(address);
    let mut sent = 0;
    while sent < script.len() {
        let segment_bytes_max = if random.one_in(3) { 16 } else { 4_000 };
        let segment = 1 + random.below(segment_bytes_max) as usize;
        let end = (sent + segment).min(script.len());
        if !client.try_send(&script[sent..end]) {
            break;
        }
        sent = end;
    }
    if random.one_in(10) {
        return;
    }
    client.try_half_close();
    let answers = client.rest();
    well_formed(&answers).unwrap_or_else(|why| panic!("session {seed}: {why}\nof {answers}"));
}

/// Runs an undisturbed client at the same time; returns how often it was answered.
fn bystander(address: SocketAddr, done: &AtomicBool) -> u64 {
    let mut client = Client::greeted(address);
    let mut answers = 0;
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        assert!(client.ask("DATE").starts_with("111 "));
        assert!(client.ask("GROUP local.empty").starts_with("211 "));
        assert!(begun.elapsed() < BYSTANDER_TIMEOUT, "{:?}", begun.elapsed());
        answers += 1;
        let_pass(Duration::from_millis(10), "a bystander asks now and then");
    }
    answers
}

fn sessions(count: u64) {
    let lines = lines();
    let server = Server::start();
    if let Ok(seed) = std::env::var("NEWSREEL_TEST_SEED") {
        return play(server.address, seed.parse().unwrap(), &lines);
    }
    let (next, done) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
    let stop = done.clone();
    let address = server.address;
    let quiet = thread::spawn(move || bystander(address, &stop));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        break;
                    }
                    play(address, seed, &lines);
                }
            });
        }
    });
    done.store(true, Ordering::Relaxed);
    assert!(quiet.join().unwrap() > 0);
    // Input of the last sessions is processed first.
    server.wait_for_connections(0);
    consistent(&mut server.client());
}

/// Checks that GROUP, LISTGROUP and OVER of every remaining group agree (guarantee G4).
fn consistent(client: &mut Client) {
    assert!(client.ask("LIST ACTIVE").starts_with("215 "));
    for row in client.block() {
        let name = row.split(' ').next().unwrap();
        let group = client.ask(&format!("LISTGROUP {name}"));
        if !group.starts_with("211 ") {
            continue;
        }
        let numbers = client.block();
        let fields: Vec<&str> = group.split(' ').collect();
        assert_eq!(fields[1], numbers.len().to_string(), "{group}");
        if numbers.is_empty() {
            continue;
        }
        assert!(client.ask(&format!("OVER {}-{}", fields[2], fields[3])).starts_with("224 "), "{group}");
        let rows = client.block();
        let of_rows: Vec<&str> = rows.iter().filter_map(|row| row.split('\t').next()).collect();
        assert_eq!(of_rows, numbers, "{group}");
    }
}

#[test]
fn ten_thousand_random_sessions_break_nothing() {
    sessions(SESSIONS);
}

#[test]
#[ignore = "long: part of `make soak`"]
fn half_a_million_random_sessions_break_nothing() {
    sessions(SESSIONS_SOAK);
}
