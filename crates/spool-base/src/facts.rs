//! Facts about an article in its journal row, besides its location: tagged fields
//! (`docs/formats/journal.md`).
//!
//! The caller of a commit encodes them before the writer's lock is taken ([`RowFacts::put`]), and the writer
//! copies the bytes into the row. Every field may be absent: rows of earlier versions have none, and rows
//! written by recovery have few. Readers of the journal decode them one by one ([`TaggedFields`]) and skip
//! unknown tags.

use crate::codec::{ByteReader, put_bytes, put_varint};
use crate::hidden::{HIDER_BYTES_MAX, REASON_BYTES_MAX};
use crate::key::ArticleKey;
use netnews::path;

/// Bytes of a Path value that are recorded, from its front.
pub const PATH_BYTES_MAX: usize = 1_024;
/// Bytes of a Distribution value that are recorded; a longer one is not recorded at all.
pub const DISTRIBUTION_BYTES_MAX: usize = 255;

mod tag {
    pub const WIRE_BYTES: u64 = 1;
    pub const PATH: u64 = 2;
    pub const DISTRIBUTION: u64 = 3;
    pub const ORIGIN: u64 = 4;
    pub const KIND: u64 = 5;
    pub const SITES: u64 = 6;
    pub const HIDDEN: u64 = 7;
    pub const STANDS_FOR: u64 = 8;
}

/// Kind of an article: any combination of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArticleKind(pub u8);

impl ArticleKind {
    /// A control message.
    pub const CONTROL: Self = Self(1);
    /// A control message that cancels an article.
    pub const CANCEL: Self = Self(2);
    /// The article supersedes another one.
    pub const SUPERSEDES: Self = Self(4);
    /// A filter keeps the article from all peers.
    pub const LOCAL: Self = Self(8);
    /// The article may be a notice that asks to hide other articles.
    pub const NOTICE: Self = Self(16);
    /// Only the headers are stored here.
    pub const HEADERS: Self = Self(32);

    /// Reports whether this includes all kinds of `other`.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds `other` if `is_so`.
    #[must_use]
    pub fn with(self, other: Self, is_so: bool) -> Self {
        if is_so { Self(self.0 | other.0) } else { self }
    }
}

/// Known facts about an article that is to be filed.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowFacts<'a> {
    /// Length as sent to peers: wire format, without Xref line and final `.` line.
    pub wire_bytes: u64,
    /// Value of the Path header as received.
    pub path: &'a [u8],
    /// Value of the Distribution header; empty without one.
    pub distribution: &'a [u8],
    /// Origin of the article: `peer NAME`, `injected`, `rnews`, `import`.
    pub origin: &'a str,
    /// Kind of the article.
    pub kind: ArticleKind,
    /// The sites that want it: bit `n` of byte `k` stands for the site with the number `8 k + n`
    /// (`ChangeMaker::site` in `spool`).
    pub sites: &'a [u8],
    /// Hider and reason, if the article is hidden as it is filed: at most [`HIDER_BYTES_MAX`] and
    /// [`REASON_BYTES_MAX`] bytes.
    pub hidden: Option<(&'a str, &'a str)>,
    /// Second Message-ID that is remembered, for which this article is stored instead.
    pub stands_for: Option<ArticleKey>,
}

impl RowFacts<'_> {
    /// Appends the tagged fields; see [`TaggedFields::new`].
    pub fn put(&self, out: &mut Vec<u8>) {
        put_number(tag::WIRE_BYTES, self.wire_bytes, out);
        if !self.path.is_empty() {
            put_field(tag::PATH, self.path.get(..PATH_BYTES_MAX).unwrap_or(self.path), out);
        }
        if (1..=DISTRIBUTION_BYTES_MAX).contains(&self.distribution.len()) {
            put_field(tag::DISTRIBUTION, self.distribution, out);
        }
        if !self.origin.is_empty() {
            put_field(tag::ORIGIN, self.origin.as_bytes(), out);
        }
        put_field(tag::KIND, &[self.kind.0], out);
        let used = self.sites.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        if let Some(sites) = self.sites.get(..used).filter(|sites| !sites.is_empty()) {
            put_field(tag::SITES, sites, out);
        }
        if let Some((by, reason)) = self.hidden {
            let mut value = Vec::new();
            put_bytes(shortened(by, HIDER_BYTES_MAX).as_bytes(), &mut value);
            put_bytes(shortened(reason, REASON_BYTES_MAX).as_bytes(), &mut value);
            put_field(tag::HIDDEN, &value, out);
        }
        if let Some(key) = self.stands_for {
            put_field(tag::STANDS_FOR, &key.0.to_le_bytes(), out);
        }
    }
}

/// Truncates a text to at most `bytes_max` bytes.
fn shortened(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

fn put_field(tag: u64, value: &[u8], out: &mut Vec<u8>) {
    put_varint(tag, out);
    put_bytes(value, out);
}

fn put_number(tag: u64, n: u64, out: &mut Vec<u8>) {
    put_varint(tag, out);
    out.push(varint_bytes(n));
    put_varint(n, out);
}

/// Returns the bit of a tag; 0 for tags that this version does not know.
fn bit(tag: u64) -> u64 {
    1u64.checked_shl(u32::try_from(tag).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// Returns the length of a varint.
fn varint_bytes(n: u64) -> u8 {
    (64 - (n | 1).leading_zeros()).div_ceil(7) as u8
}

/// The tagged fields of an article row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaggedFields<'a> {
    bytes: &'a [u8],
    /// Bit `n` is set if there is a field with tag `n`.
    present: u64,
}

impl<'a> TaggedFields<'a> {
    /// Wraps what [`RowFacts::put`] appended; `None` if the bytes are not a list of tagged fields.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (mut r, mut present) = (ByteReader(bytes), 0);
        while !r.is_empty() {
            present |= bit(r.varint()?);
            r.bytes()?;
        }
        Some(Self { bytes, present })
    }

    /// Returns the encoded fields.
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    fn find(self, tag: u64) -> Option<&'a [u8]> {
        if self.present & bit(tag) == 0 {
            return None;
        }
        let mut r = ByteReader(self.bytes);
        loop {
            let (found, value) = (r.varint()?, r.bytes()?);
            if found == tag {
                return Some(value);
            }
        }
    }

    /// Returns the length in wire format, without Xref line and final `.` line.
    pub fn wire_bytes(self) -> Option<u64> {
        ByteReader(self.find(tag::WIRE_BYTES)?).varint()
    }

    /// Returns the value of the Path header as received, truncated if long.
    pub fn path(self) -> Option<&'a [u8]> {
        self.find(tag::PATH)
    }

    /// Reports whether an identity was in the Path, ignoring case. `None`: not recorded in the row; the
    /// identity may still be beyond the recorded [`PATH_BYTES_MAX`] bytes.
    pub fn has_passed(self, identity: &[u8]) -> Option<bool> {
        let path = self.find(tag::PATH)?;
        let found = path::contains_identity(path, identity);
        (found || path.len() < PATH_BYTES_MAX).then_some(found)
    }

    /// Returns the value of the Distribution header; `None` if there is none, or if it is too long.
    pub fn distribution(self) -> Option<&'a [u8]> {
        self.find(tag::DISTRIBUTION)
    }

    /// Returns the origin of the article.
    pub fn origin(self) -> Option<&'a [u8]> {
        self.find(tag::ORIGIN)
    }

    /// Returns the kind of the article.
    pub fn kind(self) -> Option<ArticleKind> {
        self.find(tag::KIND)?.first().map(|bits| ArticleKind(*bits))
    }

    /// Returns the sites that wanted the article when it was filed, as in [`RowFacts::sites`].
    pub fn sites(self) -> &'a [u8] {
        self.find(tag::SITES).unwrap_or_default()
    }

    /// Returns the hider and the reason, if the article was hidden as it was filed.
    #[inline]
    pub fn hidden(self) -> Option<(&'a str, &'a str)> {
        let mut r = ByteReader(self.find(tag::HIDDEN)?);
        let (by, reason) = (r.bytes()?, r.bytes()?);
        Some((std::str::from_utf8(by).ok()?, std::str::from_utf8(reason).ok()?))
    }

    /// Returns the second Message-ID that is remembered with the article.
    #[inline]
    pub fn stands_for(self) -> Option<ArticleKey> {
        Some(ArticleKey(u128::from_le_bytes(self.find(tag::STANDS_FOR)?.try_into().ok()?)))
    }

    /// Reports whether the site with this number wanted the article when it was filed.
    pub fn is_wanted_by(self, site: u32) -> bool {
        self.sites().get(site as usize / 8).is_some_and(|byte| byte >> (site % 8) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(facts: &RowFacts<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        facts.put(&mut bytes);
        bytes
    }

    #[test]
    fn facts_are_read_as_written_and_unknown_tags_are_skipped() {
        let facts = RowFacts {
            wire_bytes: 70_000,
            path: b"News.Example!.SEEN.192.0.2.1!a-very-long-identity.example.org!!b!not-for-mail",
            distribution: b"world",
            origin: "peer upstream",
            kind: ArticleKind::CONTROL.with(ArticleKind::CANCEL, true),
            sites: &[0, 0b101, 0],
            hidden: Some(("spam", "too many")),
            stands_for: Some(ArticleKey(7 << 100)),
        };
        let mut bytes = Vec::new();
        put_field(1 << 40, b"of a later version", &mut bytes);
        facts.put(&mut bytes);
        put_field(99, b"", &mut bytes);
        let tagged = TaggedFields::new(&bytes).unwrap();
        assert_eq!(tagged.wire_bytes(), Some(70_000));
        for (identity, has) in [
            ("news.example", true),
            ("a-very-long-identity.example.ORG", true),
            ("b", true),
            ("not-for-mail", false),
            ("a-very-long-identity.example.or", false),
            ("", false),
        ] {
            assert_eq!(tagged.has_passed(identity.as_bytes()), Some(has), "{identity}");
        }
        assert_eq!(tagged.distribution(), Some(&b"world"[..]));
        assert_eq!(tagged.stands_for(), Some(ArticleKey(7 << 100)));
        assert_eq!(tagged.origin(), Some(&b"peer upstream"[..]));
        assert_eq!(tagged.hidden(), Some(("spam", "too many")));
        let kind = tagged.kind().unwrap();
        assert!(kind.has(ArticleKind::CANCEL) && kind.has(ArticleKind::CONTROL));
        assert!(!kind.has(ArticleKind::SUPERSEDES));
        let wanted: Vec<u32> = (0..40).filter(|site| tagged.is_wanted_by(*site)).collect();
        assert_eq!(wanted, [8, 10]);
    }

    #[test]
    fn missing_facts_are_reported_as_missing() {
        let none = TaggedFields::default();
        assert_eq!((none.wire_bytes(), none.has_passed(b"a")), (None, None));
        assert_eq!((none.distribution(), none.origin(), none.kind()), (None, None, None));
        assert_eq!(none.hidden(), None);
        assert!(!none.is_wanted_by(0));
        let (path, long) =
            ("a.example!".repeat(103) + "far.example!x", "d".repeat(DISTRIBUTION_BYTES_MAX + 1));
        let bytes = encoded(&RowFacts {
            path: path.as_bytes(),
            distribution: long.as_bytes(),
            ..RowFacts::default()
        });
        let tagged = TaggedFields::new(&bytes).unwrap();
        assert_eq!(tagged.has_passed(b"A.example"), Some(true));
        assert_eq!(tagged.has_passed(b"far.example"), None);
        assert_eq!(tagged.distribution(), None);
        for cut in 1..bytes.len() {
            let read = TaggedFields::new(&bytes[..cut]);
            assert!(read.is_none_or(|t| t.as_bytes() != bytes), "{cut}");
        }
    }
}
