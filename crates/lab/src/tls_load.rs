//! Readers over plain, encrypted and compressed connections: the same load for all, so that the rows compare.
//!
//! Every connection has a thread, selects groups at random and reads articles by number, many commands at a
//! time. The first connection asks which groups there are. Prints one JSON line. `bench/bench.sh` runs it
//! against newsreel and INN and takes the servers' processor time from the system.

mod stream;

use crate::Verdict;
use crate::rng::Rng;
use clap::{Args, ValueEnum};
use netnews::nntp::wire::{End, NextLine, find_end, next_line_within};
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stream::{Layers, Settings, Stream};

/// Longest line of an answer, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Articles read in a group before the next GROUP.
const PER_GROUP: usize = 48;

/// What is measured.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Where the server listens
    #[arg(long)]
    addr: String,
    /// What is between NNTP and TCP
    #[arg(long, value_enum, default_value = "plain")]
    layers: Layers,
    /// The certificate that the server shows, in PEM; TLS needs it
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// What is asked for
    #[arg(long, value_enum, default_value = "article")]
    op: Op,
    /// Connections at once
    #[arg(long, default_value_t = 64)]
    conns: u64,
    /// Commands sent before their answers are read
    #[arg(long, default_value_t = 16)]
    pipeline: usize,
    /// How long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seed of the order of groups and articles
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Op {
    /// ARTICLE by number
    Article,
    /// OVER of a hundred numbers
    Over,
    /// Connecting, with the handshake, and QUIT
    Connect,
}

/// A group with articles.
struct Group {
    name: String,
    low: u64,
    high: u64,
}

/// What was read.
#[derive(Default, Clone, Copy)]
struct Count {
    ops: u64,
    missing: u64,
    /// Octets of the answers as NNTP has them, and as they came over TCP.
    bytes: u64,
    wire_bytes: u64,
}

/// Reads, and prints what came of it.
pub fn run(options: &Options) -> Verdict {
    let settings = Settings::new(options.layers, options.certificate.as_deref())?;
    let groups = groups(&mut open(options, &settings)?)?;
    if groups.is_empty() {
        return Err("the server has no articles".into());
    }
    // Connecting is not in the time.
    let streams = in_threads((0..options.conns).collect(), |_| {
        (options.op != Op::Connect).then(|| open(options, &settings)).transpose()
    })?;
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(options.seconds);
    let jobs: Vec<_> = (0..options.conns).zip(streams).collect();
    let counts = in_threads(jobs, |(number, stream)| match stream {
        Some(stream) => read(options, stream, &groups, number, until),
        None => connect(options, &settings, until),
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut sum = Count::default();
    for count in counts {
        sum.ops += count.ops;
        sum.missing += count.missing;
        sum.bytes += count.bytes;
        sum.wire_bytes += count.wire_bytes;
    }
    println!(
        "{{\"op\":\"{:?}\",\"layers\":\"{:?}\",\"conns\":{},\"seconds\":{seconds:.3},\"ops\":{},\
         \"ops_per_s\":{:.1},\
         \"missing\":{},\"bytes\":{},\"wire_bytes\":{}}}",
        options.op,
        options.layers,
        options.conns,
        sum.ops,
        sum.ops as f64 / seconds,
        sum.missing,
        sum.bytes,
        sum.wire_bytes,
    );
    Ok(sum.ops > 0)
}

/// Does each job in a thread of its own.
fn in_threads<J: Send, T: Send>(
    jobs: Vec<J>,
    work: impl Fn(J) -> io::Result<T> + Sync,
) -> Result<Vec<T>, Box<dyn Error + Send + Sync>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().map(|job| scope.spawn(|| work(job))).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err("a reader failed".into()),
        });
        ended.collect()
    })
}

fn open(options: &Options, settings: &Settings) -> io::Result<Stream> {
    let mut stream = settings.connect(&options.addr)?;
    let mode = stream.ask("MODE READER")?;
    if mode != 200 && mode != 201 {
        return Err(io::Error::other(format!("MODE READER: {mode}")));
    }
    settings.compress(&mut stream)?;
    Ok(stream)
}

/// The groups that have articles.
fn groups(stream: &mut Stream) -> Result<Vec<Group>, Box<dyn Error + Send + Sync>> {
    stream.send(b"LIST ACTIVE\r\n")?;
    let mut groups = Vec::new();
    take_answer(stream, |line| {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        if let (Some(name), Some(Ok(high)), Some(Ok(low))) =
            (words.next(), words.next().map(str::parse), words.next().map(str::parse))
            && low <= high
        {
            groups.push(Group { name: name.to_owned(), low, high });
        }
    })?;
    Ok(groups)
}

/// Connects again and again.
fn connect(options: &Options, settings: &Settings, until: Instant) -> io::Result<Count> {
    let mut count = Count::default();
    while Instant::now() < until {
        open(options, settings)?.ask("QUIT")?;
        count.ops += 1;
    }
    Ok(count)
}

/// One connection's reading.
fn read(
    options: &Options,
    mut stream: Stream,
    groups: &[Group],
    number: u64,
    until: Instant,
) -> io::Result<Count> {
    let mut count = Count::default();
    let mut rng = Rng::new(options.seed, number);
    let mut commands = String::new();
    while Instant::now() < until {
        let Some(group) = groups.get(rng.below(groups.len() as u64) as usize) else { break };
        if stream.ask(&format!("GROUP {}", group.name))? != 211 {
            continue;
        }
        for _ in 0..PER_GROUP.div_ceil(options.pipeline) {
            commands.clear();
            for _ in 0..options.pipeline {
                let number = rng.between(group.low, group.high);
                // Writing to a String does not fail.
                let _infallible = match options.op {
                    Op::Over => write!(commands, "OVER {number}-{}\r\n", number + 99),
                    _ => write!(commands, "ARTICLE {number}\r\n"),
                };
            }
            stream.send(commands.as_bytes())?;
            for _ in 0..options.pipeline {
                let code = take_answer(&mut stream, |_| {})?;
                match code {
                    220 | 224 => count.ops += 1,
                    423 => count.missing += 1,
                    other => return Err(io::Error::other(format!("answered {other}"))),
                }
            }
        }
    }
    count.bytes = stream.bytes;
    count.wire_bytes = stream.wire_bytes;
    stream.ask("QUIT")?;
    Ok(count)
}

/// Takes one answer, with its block if it has one, whose lines `visit` sees; returns the code.
fn take_answer(stream: &mut Stream, mut visit: impl FnMut(&[u8])) -> io::Result<u16> {
    let code = stream.code()?;
    if !matches!(code, 215 | 220 | 224) {
        return Ok(code);
    }
    let mut from = 0;
    loop {
        match find_end(stream.arrived(), from) {
            End::Found { article_len, next } => {
                let block = stream.arrived().get(..article_len).unwrap_or_default();
                let mut at = 0;
                while let NextLine::Line { line, next } = next_line_within(block, at, LINE_BYTES_MAX) {
                    visit(line);
                    at = next;
                }
                stream.consume(next);
                return Ok(code);
            }
            End::More { resume_from } => {
                from = resume_from;
                stream.hear()?;
            }
        }
    }
}
