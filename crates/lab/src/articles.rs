//! Articles whose every byte follows from a seed and an index, so that what a server returns can be compared
//! without keeping anything.
//!
//! Bodies are slices of a pool of random lines: 8-bit, dot-stuffed, some empty. Called by the feeder, which
//! sends them, and by the parts that read them back.

use crate::rng::Rng;
use disk::clock::unix_now;
use memchr::memmem;
use std::fmt::Write as _;

/// Bodies start within this many bytes of the beginning of the pool.
const POOL_START_BYTES: usize = 1 << 20;
/// Longest line of a body, in bytes.
const LINE_BYTES_MAX: u64 = 120;
/// Different words in bodies of words, and how many there are in a line.
const WORDS: u64 = 100_000;
const WORDS_OF_LINE: usize = 11;
/// The Path of every article before the server adds its name.
const PATH: &str = "feeder.lab.example!not-for-mail";

/// The lock of articles that may be cancelled, and what opens it (RFC 8315 section 5.1).
const LOCK: &str = "sha256:s/pmK/3grrz++29ce2/mQydzJuc7iqHn1nqcJiQTPMc=";
const KEY: &str = "sha256:qv1VXHYiCGjkX/N1nhfYKcAeUn8bCVhrWhoKuBSnpMA=";
/// Number of articles between an article and its cancel; no multiple of `cancel_every`.
const TARGET_BEFORE: u64 = 20_001;

/// How long the bodies are.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Shortest and longest ordinary body, in bytes.
    pub bytes: (usize, usize),
    /// One in this many bodies is large (0: none) ...
    pub large_every: u64,
    /// ... and then between this many bytes.
    pub large_bytes: (usize, usize),
}

/// Generates articles.
#[derive(Debug)]
pub struct Generator {
    seed: u64,
    groups: u64,
    shape: Shape,
    /// One in this many articles is a cancel; 0: none is; `None`: articles have no locks either.
    cancel_every: Option<u64>,
    date: String,
    pool: Vec<u8>,
    /// Where the pool's lines begin.
    lines: Vec<usize>,
}

/// An article as it was found in the answer to ARTICLE.
#[derive(Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Group and article number, from Xref.
    pub numbers: Vec<(String, u64)>,
}

impl Generator {
    /// A generator of articles in `groups` groups, dated now.
    pub fn new(seed: u64, groups: u64, shape: Shape) -> Self {
        let mut rng = Rng::new(seed, 0);
        let mut pool = Vec::new();
        let mut lines = Vec::new();
        let bytes = POOL_START_BYTES + shape.bytes.1.max(shape.large_bytes.1) + 2 * LINE_BYTES_MAX as usize;
        while pool.len() < bytes {
            lines.push(pool.len());
            put_line(&mut rng, &mut pool);
        }
        let mut date = Vec::new();
        netnews::date::format_rfc5322(unix_now(), &mut date);
        let date = String::from_utf8_lossy(&date).into_owned();
        Self { seed, groups, shape, cancel_every: None, date, pool, lines }
    }

    /// The same where articles have locks, and one of `cancel_every` (0: none) is a cancel.
    pub fn locked(self, cancel_every: u64) -> Self {
        Self { cancel_every: Some(cancel_every), ..self }
    }

    /// The same with bodies of words instead of random octets, some words common and most rare.
    pub fn of_words(mut self) -> Self {
        let (bytes, mut rng) = (self.pool.len(), Rng::new(self.seed, 1));
        (self.pool, self.lines) = (Vec::new(), Vec::new());
        while self.pool.len() < bytes {
            self.lines.push(self.pool.len());
            for _ in 0..WORDS_OF_LINE {
                let bound = rng.between(1, WORDS);
                self.pool.extend_from_slice(format!("w{} ", rng.below(bound)).as_bytes());
            }
            self.pool.extend_from_slice(b"\r\n");
        }
        self
    }

    /// The article that an article cancels, if it is a cancel.
    pub fn target(&self, index: u64) -> Option<u64> {
        let is_cancel =
            |index: u64| self.cancel_every.is_some_and(|every| every > 0 && index.is_multiple_of(every));
        index.checked_sub(TARGET_BEFORE).filter(|target| is_cancel(index) && !is_cancel(*target))
    }

    /// The Message-ID of an article.
    pub fn message_id(&self, index: u64) -> String {
        format!("<{index}.{:x}@lab.example>", self.seed)
    }

    /// Which article has this Message-ID.
    pub fn index_of(&self, message_id: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(message_id).ok()?;
        let (index, rest) = text.strip_prefix('<')?.split_once('.')?;
        let index = index.parse().ok()?;
        (rest.strip_suffix("@lab.example>") == Some(&format!("{:x}", self.seed))).then_some(index)
    }

    /// Appends an article in wire format, without the final `.`-line.
    pub fn put(&self, index: u64, out: &mut Vec<u8>) {
        let mut rng = Rng::new(self.seed, index + 1);
        let mut head = String::with_capacity(300);
        let _ = write!(head, "Path: {PATH}\r\nFrom: Lab <lab@lab.example>\r\nNewsgroups: ");
        let first = rng.below(self.groups);
        let crossposts = if rng.below(8) == 0 { rng.between(1, 3).min(self.groups - 1) } else { 0 };
        for n in 0..=crossposts {
            let _ = write!(
                head,
                "{}{}",
                if n == 0 { "" } else { "," },
                group_name((first + n * 7) % self.groups)
            );
        }
        let _ = write!(head, "\r\nSubject: article {index} of {:x}\r\nDate: {}\r\n", self.seed, self.date);
        if self.cancel_every.is_some() {
            let _ = write!(head, "Cancel-Lock: {LOCK}\r\n");
        }
        if let Some(target) = self.target(index) {
            let target = self.message_id(target);
            let _ = write!(head, "Control: cancel {target}\r\nCancel-Key: {KEY}\r\n");
        }
        let _ = write!(head, "Message-ID: {}\r\n\r\n", self.message_id(index));
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(self.body(&mut rng));
    }

    fn body(&self, rng: &mut Rng) -> &[u8] {
        let large = self.shape.large_every > 0 && rng.below(self.shape.large_every) == 0;
        let (low, high) = if large { self.shape.large_bytes } else { self.shape.bytes };
        let bytes = rng.between(low as u64, high as u64) as usize;
        let start_lines = self.lines.partition_point(|at| *at < POOL_START_BYTES);
        let start = self.lines.get(rng.below(start_lines as u64) as usize).copied().unwrap_or_default();
        let end = self.lines.partition_point(|at| *at < start + bytes);
        let end = self.lines.get(end).copied().unwrap_or(self.pool.len());
        self.pool.get(start..end).unwrap_or_default()
    }

    /// Compares an article that a server returned (wire format, without the final `.`-line) with what was
    /// sent: the same but for Xref as first line and for `identity` and whatever diagnostic before Path.
    pub fn compare(&self, index: u64, identity: &str, got: &[u8]) -> Result<Numbered, String> {
        let mut sent = Vec::with_capacity(got.len() + 64);
        self.put(index, &mut sent);
        let (xref, got) = first_line(got).ok_or("no lines")?;
        let numbers =
            numbers_of(xref, identity).ok_or_else(|| "the first line is no Xref of ours".to_owned())?;
        let (path, got) = first_line(got).ok_or("no Path")?;
        let path = path.strip_prefix(b"Path: ").ok_or("the second line is no Path")?;
        let ours = path.strip_suffix(PATH.as_bytes()).ok_or("another Path")?;
        if !ours.starts_with(identity.as_bytes()) || !ours.ends_with(b"!") {
            return Err("our name is not before Path".into());
        }
        let (_, sent) = first_line(&sent).ok_or("nothing sent")?;
        match got.iter().zip(sent).position(|(a, b)| a != b) {
            Some(at) => {
                Err(format!("other bytes from {at} on, of {} sent and {} got", sent.len(), got.len()))
            }
            None if got.len() != sent.len() => Err(format!("{} bytes sent, {} got", sent.len(), got.len())),
            None => Ok(Numbered { numbers }),
        }
    }
}

/// The name of a group.
pub fn group_name(number: u64) -> String {
    format!("lab.g{number}")
}

fn put_line(rng: &mut Rng, pool: &mut Vec<u8>) {
    let length = if rng.below(10) == 0 { 0 } else { rng.below(LINE_BYTES_MAX) };
    let dots = if rng.below(20) == 0 { rng.between(2, 4) } else { 0 };
    pool.resize(pool.len() + dots as usize, b'.');
    for n in 0..length {
        let b = match rng.below(16) {
            0 => rng.between(0xa0, 0xff),
            _ => rng.between(0x20, 0x7e),
        } as u8;
        pool.push(if n == 0 && b == b'.' { b'x' } else { b });
    }
    pool.extend_from_slice(b"\r\n");
}

fn first_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memmem::find(bytes, b"\r\n")?;
    Some((bytes.get(..end)?, bytes.get(end + 2..)?))
}

/// The numbers of an Xref line (`Xref: identity group:number ...`).
fn numbers_of(line: &[u8], identity: &str) -> Option<Vec<(String, u64)>> {
    let text = std::str::from_utf8(line.strip_prefix(b"Xref: ")?).ok()?;
    let places = text.strip_prefix(identity)?.strip_prefix(' ')?;
    let number = |place: &str| {
        let (group, number) = place.split_once(':')?;
        Some((group.to_owned(), number.parse().ok()?))
    };
    places.split(' ').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netnews::Article;

    fn generator() -> Generator {
        let shape = Shape { bytes: (100, 3000), large_every: 10, large_bytes: (20_000, 40_000) };
        Generator::new(7, 20, shape)
    }

    #[test]
    fn articles_are_well_formed_and_all_different() {
        let generator = generator();
        for index in 0..200 {
            let (mut wire, mut again) = (Vec::new(), Vec::new());
            generator.put(index, &mut wire);
            generator.put(index, &mut again);
            let parsed = Article::parse(&wire).unwrap();
            parsed.required().unwrap();
            assert_eq!(generator.index_of(parsed.message_id().unwrap().as_bytes()), Some(index));
            assert!(wire == again);
        }
        assert_ne!(generator.message_id(1), generator.message_id(2));
    }

    #[test]
    fn only_what_was_sent_compares_equal() {
        let generator = generator();
        let mut raw = Vec::new();
        generator.put(3, &mut raw);
        let with = |xref: &str, path: &str| {
            let mut got = format!("{xref}\r\nPath: {path}").into_bytes();
            got.extend_from_slice(&raw[6..]);
            got
        };
        let good = with("Xref: me lab.g1:5 lab.g2:7", "me!");
        let numbers = vec![("lab.g1".to_owned(), 5), ("lab.g2".to_owned(), 7)];
        assert_eq!(generator.compare(3, "me", &good), Ok(Numbered { numbers }));
        generator.compare(4, "me", &good).unwrap_err();
        generator.compare(3, "me", &good[..good.len() - 2]).unwrap_err();
        generator.compare(3, "me", &with("Xref: you lab.g1:5", "me!")).unwrap_err();
        generator.compare(3, "me", &with("Xref: me lab.g1:5", "you!")).unwrap_err();
        let mut torn = good.clone();
        *torn.last_mut().unwrap() ^= 1;
        assert!(generator.compare(3, "me", &torn).unwrap_err().contains("other bytes"));
    }
}
