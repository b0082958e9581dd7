//! Many clients that read articles at the same time: from the server that has them, and from a cache that has
//! all of them, in turns.
//!
//! A client has a connection and a thread, and sends a command when the answer to the last one is whole.

use super::caches::{Kind, Server};
use super::{Options, SHAPE};
use crate::articles::{Generator, Shape, group_name};
use crate::client::Client;
use crate::feeder;
use crate::rng::Rng;
use crate::site::{Plan, Site};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// As long as articles of binaries groups.
const LARGE: Shape = Shape { bytes: (750_000, 750_000), large_every: 0, large_bytes: (0, 0) };
const BUFFER_BYTES: u64 = 1 << 30;
/// Articles read in a group before the next one is selected.
const PER_GROUP: u64 = 50;
const READ_BYTES: usize = 256 << 10;
/// Each is measured so often; the median counts.
const ROUNDS: usize = 3;

/// What the clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Numbers,
    Ids,
    Large,
}

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Self::Numbers => "2.35 KB by number",
            Self::Ids => "2.35 KB by Message-ID",
            Self::Large => "750 KB by Message-ID",
        }
    }
}

/// What was measured of a kind of work, in articles a second and in bytes a second.
#[derive(Debug)]
pub struct Rates {
    pub work: Work,
    pub direct: (f64, f64),
    pub cached: (f64, f64),
}

/// The articles that are read.
struct Stock {
    generator: Generator,
    articles: u64,
    groups: u64,
}

/// Measures all of it.
pub fn measure(options: &Options) -> io::Result<Vec<Rates>> {
    let small = (SHAPE, options.cached_articles, 100, &[Work::Numbers, Work::Ids][..]);
    let large = (LARGE, options.cached_articles / 100, 20, &[Work::Large][..]);
    let mut rates = Vec::new();
    for (shape, articles, groups, works) in [small, large] {
        let stock = Stock { generator: Generator::new(1, groups, shape), articles, groups };
        let plan = Plan { groups, buffer_bytes: BUFFER_BYTES, durability: None };
        let mut site = Site::make(&options.place, "upstream", options.place.port, plan)?;
        site.start(&group_name(0))?;
        feeder::feed(&site, &stock.generator, &AtomicU64::new(0), articles, 1, 20)?;
        let upstream: SocketAddr = site.address().parse().map_err(io::Error::other)?;
        let Some(cache) = Server::start(options, Kind::Newsreel, upstream)? else { continue };
        fill(cache.address(), groups)?;
        for work in works {
            let both = [upstream, cache.address()];
            let [direct, cached] = in_turns(both, |at| all_clients(at, *work, &stock, options))?;
            rates.push(Rates { work: *work, direct, cached });
        }
        drop(cache);
        site.stop()?;
        std::fs::remove_dir_all(site.dir())?;
    }
    Ok(rates)
}

/// Reads every article once.
fn fill(at: SocketAddr, groups: u64) -> io::Result<()> {
    let mut client = Client::connect(&at.to_string())?;
    for group in 0..groups {
        let (_, low, high) = client.group(&group_name(group))?;
        for number in low..=high {
            client.expect(&format!("ARTICLE {number}"), "220")?;
            client.block()?;
        }
    }
    Ok(())
}

/// The medians of both, measured in turns.
fn in_turns(
    both: [SocketAddr; 2],
    measure: impl Fn(SocketAddr) -> io::Result<(f64, f64)>,
) -> io::Result<[(f64, f64); 2]> {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, all) in both.iter().zip(&mut all) {
            all.push(measure(*at)?);
        }
    }
    Ok(all.map(|mut rates| {
        rates.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        rates.get(ROUNDS / 2).copied().unwrap_or_default()
    }))
}

/// Articles and bytes a second that all clients read together.
fn all_clients(at: SocketAddr, work: Work, stock: &Stock, options: &Options) -> io::Result<(f64, f64)> {
    let connections = (0..options.clients).map(|_| Reader::connect(at)).collect::<io::Result<Vec<_>>>()?;
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(options.seconds);
    let read: Vec<io::Result<(u64, u64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(connections)
            .map(|(n, mut reader)| scope.spawn(move || reader.read(work, stock, n, until)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|read| read.unwrap_or_else(|_| Err(io::Error::other("a client failed")))).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let (mut articles, mut bytes) = (0, 0);
    for read in read {
        let (some, of_them) = read?;
        (articles, bytes) = (articles + some, bytes + of_them);
    }
    Ok((articles as f64 / seconds, bytes as f64 / seconds))
}

/// A client that looks at no more of an answer than how it begins and where it ends.
struct Reader {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Reader {
    fn connect(at: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut reader = Self { stream, buffer: vec![0; READ_BYTES] };
        reader.answer(b"20", b"\r\n")?;
        Ok(reader)
    }

    /// Reads an answer, which begins and ends so; its bytes.
    fn answer(&mut self, begin: &[u8], end: &[u8]) -> io::Result<u64> {
        let (mut bytes, mut kept) = (0, 0);
        loop {
            let free = self.buffer.get_mut(kept..).unwrap_or_default();
            let len = kept + self.stream.read(free)?;
            if len == kept {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let text = self.buffer.get(..len).unwrap_or_default();
            if bytes == 0 && len >= begin.len() && !text.starts_with(begin) {
                let line = String::from_utf8_lossy(text.get(..len.min(60)).unwrap_or_default()).into_owned();
                return Err(io::Error::other(format!("unexpected answer: {line}")));
            }
            let is_whole = text.ends_with(end);
            // The end may come in two parts.
            let next = if is_whole { 0 } else { end.len().min(len) };
            bytes += (len - next) as u64;
            self.buffer.copy_within(len - next..len, 0);
            kept = next;
            if is_whole {
                return Ok(bytes);
            }
        }
    }

    fn ask(&mut self, command: &str, begin: &[u8], end: &[u8]) -> io::Result<u64> {
        self.stream.write_all(command.as_bytes())?;
        self.answer(begin, end)
    }

    /// Reads articles at random until then: how many, and their bytes.
    fn read(&mut self, work: Work, stock: &Stock, n: u64, until: Instant) -> io::Result<(u64, u64)> {
        let mut rng = Rng::new(2, n);
        let (mut articles, mut bytes, mut range) = (0_u64, 0, 0..1);
        while Instant::now() < until {
            let command = match work {
                Work::Numbers if articles.is_multiple_of(PER_GROUP) => {
                    range = self.select(rng.below(stock.groups))?;
                    format!("ARTICLE {}\r\n", rng.between(range.start, range.end - 1))
                }
                Work::Numbers => format!("ARTICLE {}\r\n", rng.between(range.start, range.end - 1)),
                Work::Ids | Work::Large => {
                    format!("ARTICLE {}\r\n", stock.generator.message_id(rng.below(stock.articles)))
                }
            };
            bytes += self.ask(&command, b"220", b"\r\n.\r\n")?;
            articles += 1;
        }
        Ok((articles, bytes))
    }

    /// Selects a group; its numbers.
    fn select(&mut self, group: u64) -> io::Result<std::ops::Range<u64>> {
        let len = self.ask(&format!("GROUP {}\r\n", group_name(group)), b"211", b"\r\n")?;
        let line = String::from_utf8_lossy(self.buffer.get(..len as usize).unwrap_or_default()).into_owned();
        let mut numbers = line.split(' ').skip(2).map_while(|word| word.parse::<u64>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(low), Some(high)) if low <= high => Ok(low..high + 1),
            _ => Err(io::Error::other(format!("unexpected answer to GROUP: {line}"))),
        }
    }
}
