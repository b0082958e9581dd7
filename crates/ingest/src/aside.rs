//! Articles set aside by filters: filed as another article, from which the operator may restore the
//! original.
//!
//! That article has a Message-ID of ours; the original one follows in a header of another name. The
//! original article is therefore known by its Message-ID alone, like a refused one, and there is never a
//! second record of the same Message-ID (`docs/decisions/0047`). Called by `drafts`, `release` and
//! `withdraw`. Format: `docs/formats/aside.md`.

use super::Origin;
use super::checks::XREF_BYTES_MIN;
use disk::ReadMode;
use netnews::article::{HEADER_BYTES_MAX, HEADER_LINES_MAX};
use netnews::{Article, newsgroups};
use spool::{ArticleBuf, ArticleKey, GroupTable, Lookup, ReadError, Spool};

/// Header name before our Message-ID.
const ID_HEADER: &[u8] = b"Message-ID: ";
/// Header with the origin of the article.
const ORIGIN_HEADER: &[u8] = b"X-Newsreel-Aside: ";
/// Prefix of the header name for the original Message-ID.
const NAME_PREFIX: &[u8] = b"X-Newsreel-Aside-";
/// Marks an article that may be filed in all groups it names.
const ALL_GROUPS: &[u8] = b"*";
/// Marks an article that may be filed in none of its groups.
const NO_GROUPS: &[u8] = b"-";
/// Room for the header lines inserted here, and for an Xref line of one group.
const HEAD_LINES_SPARE: u64 = 4;
const HEAD_BYTES_SPARE: usize = 1536 + XREF_BYTES_MIN;

/// Context in which articles of a batch may be set aside.
#[derive(Clone, Copy)]
pub(super) struct AsideContext<'a> {
    pub spool: &'a Spool,
    pub origin: &'a Origin,
    /// Groups in which articles may be set aside.
    pub table: &'a GroupTable,
}

/// Text inserted into an article that is set aside.
#[derive(Debug)]
pub(super) struct AsideLabel {
    pub key: ArticleKey,
    pub message_id: String,
    /// Inserted before the Message-ID line of the article.
    pub text: Vec<u8>,
}

impl AsideLabel {
    /// Offset of our Message-ID in the text.
    pub const ID_AT: usize = ID_HEADER.len();

    /// Returns the label of the article with this Message-ID and origin, which may be filed in `groups`.
    pub fn of(spool: &Spool, id: &[u8], groups: &[u8], origin: &str) -> Self {
        let (message_id, key) = own_id(spool, id);
        Self::with(message_id, key, groups, origin)
    }

    fn with(message_id: String, key: ArticleKey, groups: &[u8], origin: &str) -> Self {
        let parts = [ID_HEADER, message_id.as_bytes(), b"\r\n", ORIGIN_HEADER, groups, b" "];
        let text = [&parts.concat(), origin.as_bytes(), b"\r\n", NAME_PREFIX].concat();
        Self { key, message_id, text }
    }
}

/// Returns the Message-ID under which an article is set aside. It depends on the site's secret, so no other
/// site can use it first.
pub(super) fn own_id(spool: &Spool, id: &[u8]) -> (String, ArticleKey) {
    let message_id = format!("<{:032x}@aside.invalid>", spool.key(&[b"aside ", id].concat()).0);
    let key = spool.key(message_id.as_bytes());
    (message_id, key)
}

/// Returns the groups of a Newsgroups header that the sender may post to, in the form of the label.
pub(super) fn accepted(newsgroups: &[u8], accepts: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    if newsgroups::split(newsgroups).all(&accepts) {
        return ALL_GROUPS.to_vec();
    }
    let is_accepted = |name: &&[u8]| newsgroups::valid_name(name) && accepts(name);
    let names: Vec<&[u8]> = newsgroups::split(newsgroups).filter(is_accepted).collect();
    if names.is_empty() { NO_GROUPS.to_vec() } else { names.join(&b',') }
}

/// Returns whether an article with these header lines can be set aside: it stays within limits with a
/// label.
pub(super) fn fits(head: &[u8], groups: &[u8]) -> bool {
    let lines = memchr::memchr_iter(b'\n', head).count() as u64;
    head.len() + groups.len() + HEAD_BYTES_SPARE <= HEADER_BYTES_MAX
        && lines + HEAD_LINES_SPARE <= HEADER_LINES_MAX
}

/// Returns `pieces` with `text` inserted at an offset of their concatenation.
pub(super) fn put_in<'s>(pieces: &[&'s [u8]], at: usize, text: &'s [u8]) -> Vec<&'s [u8]> {
    let (mut all, mut start) = (Vec::with_capacity(pieces.len() + 2), 0);
    for piece in pieces {
        match at.checked_sub(start).and_then(|cut| piece.split_at_checked(cut)) {
            Some((before, after)) if !after.is_empty() => all.extend([before, text, after]),
            _ => all.push(*piece),
        }
        start += piece.len();
    }
    all
}

/// An article that was set aside.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AsideOriginal {
    /// Unix seconds.
    pub arrived: u32,
    /// Wire format when it was set aside: without the label, with our Xref.
    pub wire: Vec<u8>,
    /// Groups in which it may be filed; `None` for all that it names.
    pub groups: Option<Vec<Box<[u8]>>>,
    /// Origin, as storage rules know it.
    pub origin: String,
}

/// Looks up the article set aside for this Message-ID.
pub(super) fn lookup(spool: &Spool, id: &[u8]) -> Lookup {
    spool.lookup(&own_id(spool, id).1)
}

/// Returns the key that withdraws the article with this Message-ID: the key it is set aside under, if it
/// is.
pub(super) fn withdrawn_by(spool: &Spool, id: &[u8]) -> ArticleKey {
    let key = spool.key(id);
    if spool.lookup(&key) != Lookup::Remembered {
        return key;
    }
    let (_, own) = own_id(spool, id);
    if matches!(spool.lookup(&own), Lookup::Present(_)) { own } else { key }
}

/// Returns the article with this Message-ID, if it was set aside and is still present.
pub(super) fn find(spool: &Spool, id: &[u8]) -> Result<Option<AsideOriginal>, ReadError> {
    let (own, key) = own_id(spool, id);
    let Lookup::Present(token) = spool.lookup(&key) else { return Ok(None) };
    let mut buf = ArticleBuf::default();
    if !spool.read(&token, Some(&key), ReadMode::Wait, &mut buf)? {
        return Ok(None);
    }
    let arrived = u32::try_from(buf.arrived()).unwrap_or(u32::MAX);
    let stored = buf.article();
    let wire = stored.strip_suffix(b".\r\n").unwrap_or(stored);
    Ok(unlabelled(wire, own.as_bytes(), arrived).filter(|aside| {
        let article = Article::parse(&aside.wire).ok();
        article.and_then(|article| article.message_id()).is_some_and(|own| own.as_bytes() == id)
    }))
}

/// Returns the article without its label, with its groups and its origin.
fn unlabelled(wire: &[u8], own: &[u8], arrived: u32) -> Option<AsideOriginal> {
    let label = [ID_HEADER, own, b"\r\n", ORIGIN_HEADER].concat();
    let head = wire.get(..HEADER_BYTES_MAX).unwrap_or(wire);
    let start = memchr::memmem::find(head, &label)?;
    let rest = wire.get(start + label.len()..)?;
    let end = memchr::memchr(b'\r', rest)?;
    let (line, rest) = rest.split_at_checked(end)?;
    let rest = rest.strip_prefix(b"\r\n")?.strip_prefix(NAME_PREFIX)?;
    let (groups, origin) = line.split_at_checked(memchr::memchr(b' ', line)?)?;
    let names = || groups.split(|b| *b == b',').map(Box::from).collect();
    let groups = (groups != ALL_GROUPS).then(names);
    let origin = String::from_utf8(origin.trim_ascii().to_vec()).ok()?;
    Some(AsideOriginal { arrived, wire: [wire.get(..start)?, rest].concat(), groups, origin })
}

/// For the fuzz target: returns the article found under a possible label, and the article restored after
/// labelling `wire` for these groups. `None`: not an article, or one that cannot be labelled.
#[cfg(feature = "testing")]
pub fn label_and_back(wire: &[u8], groups: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    const OWN: &str = "<0123@aside.invalid>";
    let found = unlabelled(wire, OWN.as_bytes(), 0).map(|aside| aside.wire);
    let back = || {
        let article = Article::parse(wire).ok()?;
        article.message_id()?;
        if memchr::memmem::find(wire, OWN.as_bytes()).is_some() {
            // No one else knows this Message-ID.
            return None;
        }
        let at = article.header_lines(netnews::Known::MessageId)?.start;
        let groups = accepted(groups, |name| name.first() != Some(&b'x'));
        if !fits(article.head(), &groups) {
            return None;
        }
        let label = AsideLabel::with(OWN.to_owned(), ArticleKey(0), &groups, "peer some.example");
        let labelled = put_in(&[wire], at, &label.text).concat();
        assert_eq!(Article::parse(&labelled).ok()?.message_id()?.as_bytes(), OWN.as_bytes());
        let aside = unlabelled(&labelled, OWN.as_bytes(), 7)?;
        assert_eq!((aside.origin.as_str(), aside.arrived), ("peer some.example", 7));
        let listed = aside.groups.map_or_else(|| ALL_GROUPS.to_vec(), |names| names.join(&b','));
        assert_eq!(listed, groups);
        Some(aside.wire)
    };
    (found, back())
}
