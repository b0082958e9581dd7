//! Which bytes of a spool's files mean something: as the format pages say it, from a checkpoint and the
//! places of what lives.
//!
//! For `damage`: a flipped bit there must be noticed; anything may stand elsewhere. What means nothing: free
//! space, records that were overwritten, cancelled or forgotten, padding behind records, what was written
//! ahead, slots of the history index that lead to no living record.

use spool::{MethodKind, Token};
use std::collections::BTreeMap;
use std::ops::Range;

const BLOCK_BYTES: u64 = 64;
const RECORD_HEADER_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 16 << 10;
/// Of the spools looked at here.
pub const SHARD_BITS: u32 = 3;

/// Contents of a checkpoint (`docs/formats/checkpoint.md`), as far as the tests need them.
#[derive(Default)]
pub struct Told {
    history: Range<u64>,
    /// By number: write position, and the residents' read and written positions.
    volumes: BTreeMap<u16, (u64, Range<u64>)>,
    /// Lengths of the overview's segments by number.
    segments: BTreeMap<u64, u64>,
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut n, mut shift) = (0, 0);
    loop {
        let b = take(bytes, 1)[0];
        n |= u64::from(b & 127) << shift;
        shift += 7;
        if b < 128 {
            return n;
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(n);
    *bytes = rest;
    taken
}

fn number(bytes: &mut &[u8]) -> u64 {
    u64::from_le_bytes(take(bytes, 8).try_into().unwrap())
}

impl Told {
    pub fn read(mut c: &[u8]) -> Self {
        assert_eq!(take(&mut c, 8), b"NCheckp2");
        let mut told = Self::default();
        // After the checksum: sections of tag, version, length and content.
        take(&mut c, 4);
        while !c.is_empty() {
            let tag = take(&mut c, 2)[0];
            let len = number(&mut c) as usize;
            let mut section = take(&mut c, len);
            match tag {
                2 => told.history = number(&mut section)..number(&mut section),
                3 => told.read_volumes(section),
                4 => {
                    for _ in 0..varint(&mut section) {
                        told.segments.insert(varint(&mut section), varint(&mut section));
                    }
                }
                _ => {}
            }
        }
        told
    }

    fn read_volumes(&mut self, mut section: &[u8]) {
        for _ in 0..varint(&mut section) {
            let len = u32::from_le_bytes(take(&mut section, 4).try_into().unwrap()) as usize;
            let mut volume = take(&mut section, len);
            let id = u16::from_le_bytes(take(&mut volume, 2).try_into().unwrap());
            take(&mut volume, 1);
            let name = varint(&mut volume) as usize;
            take(&mut volume, name);
            let head = number(&mut volume);
            self.volumes.insert(id, (head, number(&mut volume)..number(&mut volume)));
        }
    }
}

/// Facts about the whole spool.
pub struct Meaning {
    /// Of all living articles.
    pub tokens: Vec<Token>,
    /// Volumes by number.
    pub names: BTreeMap<u16, String>,
    pub checkpoint: Told,
    /// By level, of each file of the history's index: a bit for each shard that it holds or once held.
    pub shards: BTreeMap<u32, u64>,
}

/// The level of a file of the history's index.
pub fn level(name: &str) -> Option<u32> {
    name.rsplit_once("/index-")?.1.parse().ok()
}

/// Returns the word about the first 64 shards in such a file.
pub fn shards(content: &[u8]) -> u64 {
    number(&mut &content[64..])
}

impl Meaning {
    /// The bytes of a file that mean something; of some not every bit ([`Meaning::has`]).
    pub fn of(&self, name: &str, content: &[u8]) -> Vec<Range<u64>> {
        let len = content.len() as u64;
        let file = name.rsplit('/').next().unwrap();
        let numbered = || file.split('.').next().unwrap().parse::<u64>().unwrap();
        if let Some(buffer) = file.strip_suffix(".cyc") {
            return self.of_buffer(buffer, content);
        }
        if name.ends_with(".app") {
            let here = |t: &&Token| t.method == MethodKind::AppendOnly && t.place >> 40 == numbered();
            let at = |t: &Token| record(content, t.place & ((1 << 40) - 1));
            return self.tokens.iter().filter(here).map(at).collect();
        }
        if name.ends_with(".ring") {
            let first = numbered() * (len / 32);
            let number = |n: u64| n.clamp(first, first + len / 32) - first;
            let living = &self.checkpoint.history;
            return some(number(living.start) * 32..number(living.end) * 32);
        }
        if name.ends_with(".res") {
            let volume = name.rsplit('/').nth(1).unwrap().parse().unwrap();
            let (_, stream) = &self.checkpoint.volumes[&volume];
            let at = |position: u64| {
                (position / PAGE_BYTES * PAGE_BYTES).saturating_sub(numbered() << 22).min(len)
            };
            return some(at(stream.start)..at(stream.end));
        }
        if name.contains("/overview/") {
            let end = self.checkpoint.segments[&numbered()].min(len);
            return if name.ends_with(".seg") { self.blocks(&content[..end as usize]) } else { some(0..end) };
        }
        some(0..len)
    }

    /// Number of a buffer, where its area begins, its length, and how many blocks were ever written.
    fn buffer(&self, name: &str, content: &[u8]) -> (u16, u64, u64, u64) {
        let len = content.len() as u64;
        let bits = (len - 8192) / BLOCK_BYTES;
        let start = 8192 + bits.div_ceil(8).next_multiple_of(4096);
        let area = (len - start) / BLOCK_BYTES * BLOCK_BYTES;
        let volume = *self.names.iter().find(|(_, n)| *n == name).unwrap().0;
        // In the first cycle nothing lies behind the write position.
        let head = self.checkpoint.volumes[&volume].0;
        let blocks = if head < 2 * area { (head - area) / BLOCK_BYTES } else { area / BLOCK_BYTES };
        (volume, start, area, blocks)
    }

    fn of_buffer(&self, name: &str, content: &[u8]) -> Vec<Range<u64>> {
        let (volume, start, area, blocks) = self.buffer(name, content);
        let mut ranges = vec![0..8192, 8192..8192 + blocks.div_ceil(8)];
        let here = self.tokens.iter().filter(|t| t.method == MethodKind::Cnfs && t.volume == volume);
        ranges.extend(here.map(|t| record(content, start + t.place % area)));
        ranges
    }

    /// Of a plain segment the blocks with rows of articles that live.
    fn blocks(&self, content: &[u8]) -> Vec<Range<u64>> {
        let (mut blocks, mut at) = (Vec::new(), 0);
        while at < content.len() {
            let length = |offset: usize| {
                u32::from_le_bytes(content[at + offset..at + offset + 4].try_into().unwrap()) as usize
            };
            let entries = at + 40..at + 40 + 24 * length(12);
            let end = entries.end + length(24);
            let token = |e: &[u8]| Token::from_bytes(e[8..20].try_into().unwrap());
            let lives = |e: &[u8]| token(e).is_some_and(|t| self.tokens.contains(&t));
            if content[entries].chunks(24).any(lives) {
                blocks.push(at as u64..end as u64);
            }
            at = end;
        }
        blocks
    }

    /// Whether a bit within those bytes means something.
    pub fn has(&self, name: &str, content: &[u8], bit: u64) -> bool {
        if let Some(buffer) = name.rsplit('/').next().and_then(|n| n.strip_suffix(".cyc")) {
            let (_, start, _, blocks) = self.buffer(buffer, content);
            return !(8192 * 8 + blocks..start * 8).contains(&bit);
        }
        let Some(level) = level(name) else { return true };
        // A shard that has moved to a higher level means nothing here.
        let has_moved = |shard: u64| self.shards.range(level + 1..).any(|(_, s)| s >> shard & 1 == 1);
        let of_shards = 64 * 8..64 * 8 + (1 << SHARD_BITS);
        if bit / 8 < 4096 {
            return !of_shards.contains(&bit) || !has_moved(bit - of_shards.start);
        }
        let shard = (bit / 8 - 4096) / (64 << level);
        if self.shards[&level] >> shard & 1 == 0 || has_moved(shard) {
            return false;
        }
        let at = (bit / 64 * 8) as usize;
        let word = u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
        // Word 0 of a bucket, or a slot that leads to a living record before or after.
        (bit / 64).is_multiple_of(8) || self.is_living(word) || self.is_living(word ^ 1 << (bit % 64))
    }

    fn is_living(&self, slot: u64) -> bool {
        (slot & ((1 << 40) - 1)).checked_sub(1).is_some_and(|n| self.checkpoint.history.contains(&n))
    }

    /// A history index with other slots where they lead to no living record.
    pub fn other_index(&self, content: &[u8], seed: &mut u64) -> Vec<u8> {
        let mut other = content.to_vec();
        for at in (4096..content.len()).step_by(8).filter(|at| at % 64 != 0) {
            let word = u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Not of a number that will soon be given.
            let far = self.checkpoint.history.end + 100_000 + (*seed >> 40);
            // One in three: a shard with too many would grow.
            if !self.is_living(word) && (*seed >> 30).is_multiple_of(3) {
                other[at..at + 8].copy_from_slice(&(*seed >> 24 << 40 | far).to_le_bytes());
            }
        }
        other
    }
}

fn some(range: Range<u64>) -> Vec<Range<u64>> {
    if range.is_empty() { Vec::new() } else { vec![range] }
}

/// A record with its header, without the padding.
fn record(content: &[u8], at: u64) -> Range<u64> {
    let len = &content[at as usize + 8..at as usize + 12];
    at..at + RECORD_HEADER_BYTES + u64::from(u32::from_le_bytes(len.try_into().unwrap()))
}
