//! Entries of a snapshot (`docs/formats/snapshot.md`).

use spool_base::codec::{ByteReader, put_bytes, put_varint};
use spool_base::key::ArticleKey;
use spool_base::note::NoteKind;

mod kind {
    pub const BEGIN: u8 = 1;
    pub const GROUP: u8 = 2;
    pub const ARTICLE: u8 = 3;
    pub const REMEMBER: u8 = 4;
    pub const WITHDRAW: u8 = 5;
    pub const LEAVE: u8 = 6;
    pub const FORGET: u8 = 7;
    pub const GROUP_NOW: u8 = 8;
    pub const GROUP_REMOVED: u8 = 9;
    pub const HIDE: u8 = 10;
    pub const NOTE: u8 = 11;
    pub const END: u8 = 12;
    /// Bit of kinds that a program may ignore if it does not know them.
    pub const MAY_BE_IGNORED: u8 = 0x80;
    pub const POSITION: u8 = MAY_BE_IGNORED | 1;
    pub const FORGOTTEN: u8 = MAY_BE_IGNORED | 2;
}

/// A group as a snapshot has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotGroup<'a> {
    pub name: &'a [u8],
    pub flag: &'a [u8],
    pub description: &'a [u8],
    pub creator: &'a [u8],
    pub created: u64,
    pub high: u64,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SnapshotEntry<'a> {
    /// First entry: the secret of the Message-ID hash; position of the journal and time of the last change,
    /// in Unix seconds, when the snapshot was begun.
    Begin { secret: [u8; 16], position: u64, time: u32 },
    /// A group that the articles after it may name; its high mark is 0.
    Group(SnapshotGroup<'a>),
    /// A living article, from a record of history: names of groups with numbers, and the article in wire
    /// format, without Xref and final `.` line.
    Article { record: u64, arrived: u32, expires: u32, places: Vec<(&'a [u8], u64)>, wire: &'a [u8] },
    /// A Message-ID without an article, from a record of history.
    Remember { record: u64, key: ArticleKey, arrived: u32 },
    /// An article that came before in this file is not there any more.
    Withdraw { key: ArticleKey },
    /// An article that came before has left these groups.
    Leave { key: ArticleKey, groups: Vec<&'a [u8]> },
    /// A Message-ID that came before without an article is forgotten.
    Forget { key: ArticleKey },
    /// A group as it is at the end.
    GroupNow(SnapshotGroup<'a>),
    /// A group that was removed; one of this name that is created later continues after `high`.
    GroupRemoved { name: &'a [u8], high: u64 },
    /// An article is hidden.
    Hide { message_id: &'a [u8], since: u32, by: &'a [u8], reason: &'a [u8] },
    /// A note.
    Note { kind: NoteKind, since: u32, key: &'a [u8], value: &'a [u8] },
    /// Last entry: numbers of articles and Message-IDs, when ids were last forgotten, and the digest, if
    /// known.
    End { articles: u64, ids: u64, forgotten_at: u32, digest: Option<u128> },
    /// Record of the position in a shared log at the end.
    Position { record: &'a [u8] },
    /// Message-IDs of this file that arrived before this time were forgotten while it was written, if it is
    /// not 0. Without this entry they follow from the time of the last entry.
    Forgotten { ids_before: u32 },
    /// An entry of a kind that may be ignored.
    Ignored,
}

impl<'a> SnapshotEntry<'a> {
    /// Appends the entry with its length.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.put_body(&mut body);
        put_bytes(&body, out);
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin { secret, position, time } => {
                out.push(kind::BEGIN);
                out.extend_from_slice(secret);
                put_varint(*position, out);
                out.extend_from_slice(&time.to_le_bytes());
            }
            Self::Group(group) => put_group(kind::GROUP, group, out),
            Self::Article { record, arrived, expires, places, wire } => {
                out.push(kind::ARTICLE);
                put_varint(*record, out);
                out.extend_from_slice(&arrived.to_le_bytes());
                out.extend_from_slice(&expires.to_le_bytes());
                put_varint(places.len() as u64, out);
                for (group, number) in places {
                    put_bytes(group, out);
                    put_varint(*number, out);
                }
                out.extend_from_slice(wire);
            }
            Self::Remember { record, key, arrived } => {
                out.push(kind::REMEMBER);
                put_varint(*record, out);
                out.extend_from_slice(&key.0.to_le_bytes());
                out.extend_from_slice(&arrived.to_le_bytes());
            }
            Self::Withdraw { key } => put_key(kind::WITHDRAW, *key, out),
            Self::Leave { key, groups } => {
                put_key(kind::LEAVE, *key, out);
                put_varint(groups.len() as u64, out);
                groups.iter().for_each(|group| put_bytes(group, out));
            }
            Self::Forget { key } => put_key(kind::FORGET, *key, out),
            Self::GroupNow(group) => put_group(kind::GROUP_NOW, group, out),
            Self::GroupRemoved { name, high } => {
                out.push(kind::GROUP_REMOVED);
                put_bytes(name, out);
                put_varint(*high, out);
            }
            Self::Hide { message_id, since, by, reason } => {
                out.push(kind::HIDE);
                out.extend_from_slice(&since.to_le_bytes());
                [message_id, by, reason].iter().for_each(|text| put_bytes(text, out));
            }
            Self::Note { kind: of, since, key, value } => {
                out.extend_from_slice(&[kind::NOTE, of.code()]);
                out.extend_from_slice(&since.to_le_bytes());
                put_bytes(key, out);
                put_bytes(value, out);
            }
            Self::End { articles, ids, forgotten_at, digest } => {
                out.push(kind::END);
                put_varint(*articles, out);
                put_varint(*ids, out);
                out.extend_from_slice(&forgotten_at.to_le_bytes());
                digest.iter().for_each(|digest| out.extend_from_slice(&digest.to_le_bytes()));
            }
            Self::Position { record } => {
                out.push(kind::POSITION);
                put_bytes(record, out);
            }
            Self::Forgotten { ids_before } => {
                out.push(kind::FORGOTTEN);
                out.extend_from_slice(&ids_before.to_le_bytes());
            }
            Self::Ignored => {}
        }
    }

    /// Reads the next entry; `None` if it is invalid, or of a kind of a later version.
    pub fn read(r: &mut ByteReader<'a>) -> Option<Self> {
        let mut r = ByteReader(r.bytes()?);
        let r = &mut r;
        let key = |r: &mut ByteReader<'a>| Some(ArticleKey(r.u128()?));
        Some(match r.u8()? {
            kind::BEGIN => Self::Begin { secret: r.array()?, position: r.varint()?, time: r.u32()? },
            kind::GROUP => Self::Group(read_group(r)?),
            kind::ARTICLE => {
                let (record, arrived, expires) = (r.varint()?, r.u32()?, r.u32()?);
                let places = (0..r.count(2)?).map(|_| Some((r.bytes()?, r.varint()?)));
                let places = places.collect::<Option<_>>()?;
                Self::Article { record, arrived, expires, places, wire: r.0 }
            }
            kind::REMEMBER => Self::Remember { record: r.varint()?, key: key(r)?, arrived: r.u32()? },
            kind::WITHDRAW => Self::Withdraw { key: key(r)? },
            kind::LEAVE => {
                let key = key(r)?;
                let groups = (0..r.count(1)?).map(|_| r.bytes()).collect::<Option<_>>()?;
                Self::Leave { key, groups }
            }
            kind::FORGET => Self::Forget { key: key(r)? },
            kind::GROUP_NOW => Self::GroupNow(read_group(r)?),
            kind::GROUP_REMOVED => Self::GroupRemoved { name: r.bytes()?, high: r.varint()? },
            kind::HIDE => {
                let since = r.u32()?;
                Self::Hide { since, message_id: r.bytes()?, by: r.bytes()?, reason: r.bytes()? }
            }
            kind::NOTE => {
                let (kind, since) = (NoteKind::of(r.u8()?)?, r.u32()?);
                Self::Note { kind, since, key: r.bytes()?, value: r.bytes()? }
            }
            kind::END => {
                let (articles, ids, forgotten_at) = (r.varint()?, r.varint()?, r.u32()?);
                let digest = if r.is_empty() { None } else { Some(r.u128()?) };
                Self::End { articles, ids, forgotten_at, digest }
            }
            kind::POSITION => Self::Position { record: r.bytes()? },
            kind::FORGOTTEN => Self::Forgotten { ids_before: r.u32()? },
            unknown if unknown & kind::MAY_BE_IGNORED != 0 => Self::Ignored,
            _ => return None,
        })
    }
}

fn put_key(kind: u8, key: ArticleKey, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&key.0.to_le_bytes());
}

fn put_group(kind: u8, group: &SnapshotGroup<'_>, out: &mut Vec<u8>) {
    let SnapshotGroup { name, flag, description, creator, created, high } = group;
    out.push(kind);
    [name, flag, description, creator].iter().for_each(|text| put_bytes(text, out));
    put_varint(*created, out);
    put_varint(*high, out);
}

fn read_group<'a>(r: &mut ByteReader<'a>) -> Option<SnapshotGroup<'a>> {
    Some(SnapshotGroup {
        name: r.bytes()?,
        flag: r.bytes()?,
        description: r.bytes()?,
        creator: r.bytes()?,
        created: r.varint()?,
        high: r.varint()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_round_trips_and_no_prefix_passes_as_whole() {
        let key = ArticleKey(7 << 90);
        let group = SnapshotGroup {
            name: b"a.b",
            flag: b"y",
            description: b"what it is about",
            creator: b"me",
            created: 1_795_000_000,
            high: 9,
        };
        let entries = [
            SnapshotEntry::Begin { secret: [9; 16], position: 1 << 40, time: 5 },
            SnapshotEntry::Group(group),
            SnapshotEntry::Article {
                record: 5,
                arrived: 6,
                expires: 7,
                places: vec![(b"a.b", 1), (b"c", 1 << 40)],
                wire: b"Message-ID: <a@b>\r\n\r\nbody\r\n",
            },
            SnapshotEntry::Remember { record: 6, key, arrived: 8 },
            SnapshotEntry::Withdraw { key },
            SnapshotEntry::Leave { key, groups: vec![b"a.b"] },
            SnapshotEntry::Forget { key },
            SnapshotEntry::GroupNow(group),
            SnapshotEntry::GroupRemoved { name: b"x", high: 3 },
            SnapshotEntry::Hide { message_id: b"<a@b>", since: 5, by: b"operator", reason: b"" },
            SnapshotEntry::Note { kind: NoteKind::EarlyHide, since: 5, key: b"k", value: b"v" },
            SnapshotEntry::Position { record: b"here" },
            SnapshotEntry::Forgotten { ids_before: 9 },
            SnapshotEntry::End { articles: 1, ids: 2, forgotten_at: 3, digest: Some(1 << 100) },
            SnapshotEntry::End { articles: 1, ids: 2, forgotten_at: 3, digest: None },
        ];
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.put(&mut bytes));
        let mut r = ByteReader(&bytes);
        for entry in &entries {
            assert_eq!(SnapshotEntry::read(&mut r).as_ref(), Some(entry));
        }
        assert!(r.is_empty());
        for entry in &entries {
            let mut one = Vec::new();
            entry.put(&mut one);
            for cut in 0..one.len() {
                assert_eq!(SnapshotEntry::read(&mut ByteReader(&one[..cut])), None, "{entry:?} cut at {cut}");
            }
        }
        assert_eq!(SnapshotEntry::read(&mut ByteReader(&[2, 200, 1])), Some(SnapshotEntry::Ignored));
        assert_eq!(SnapshotEntry::read(&mut ByteReader(&[2, 100, 1])), None);
    }
}
