//! Journal rows: the events from which all indexes are folded (`docs/formats/journal.md`).

use spool_base::codec::{ByteReader, put_bytes, put_u64, put_varint};
use spool_base::facts::TaggedFields;
use spool_base::hidden::HiddenArticle;
use spool_base::ids::{GroupFlag, GroupId};
use spool_base::key::ArticleKey;
use spool_base::note::NoteKind;
use spool_base::token::Token;
use std::io;

/// A group as recorded in the journal; applying it again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupRow {
    /// Number of the group in this spool.
    pub id: u32,
    /// Name of the group.
    pub name: String,
    /// Rule for posts in it.
    pub flag: GroupFlag,
    /// Description, as `LIST NEWSGROUPS` shows it.
    pub description: String,
    /// Address of its creator, as `LIST ACTIVE.TIMES` shows it.
    pub creator: String,
    /// Time of its creation in Unix seconds.
    pub created: u64,
    /// Highest number that was assigned.
    pub high: u64,
    /// Number up to which articles may have been filed before a crash.
    pub promised: u64,
}

/// A volume as recorded in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRow {
    /// Number of the volume in tokens.
    pub id: u16,
    /// Storage method, as in tokens.
    pub method: u8,
    /// Name of the volume.
    pub name: String,
    /// Write position.
    pub head: u64,
}

/// An accepted article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArticleRow<'a> {
    /// Sequence number: counts the articles of the spool, without gaps.
    pub sequence: u64,
    /// Hash of the Message-ID.
    pub key: ArticleKey,
    /// Token of the stored article.
    pub token: Token,
    /// Length of the record on its volume, including padding.
    pub stored_bytes: u64,
    /// Arrival time in Unix seconds.
    pub arrived: u32,
    /// Value of the Expires header in Unix seconds, 0 for none.
    pub expires: u32,
    /// Message-ID.
    pub message_id: &'a [u8],
    /// Overview fields from the subject to the line count, in wire form.
    pub fields: &'a [u8],
    /// Encoded group:number pairs; see [`ArticleRow::numbers`].
    pub numbers: &'a [u8],
    /// Further facts.
    pub tagged: TaggedFields<'a>,
}

impl ArticleRow<'_> {
    /// Decodes the groups in which the article was filed, in the order of its Xref, with its numbers there.
    pub fn numbers(&self, out: &mut Vec<(GroupId, u64)>) -> bool {
        read_numbers(self.numbers, out)
    }
}

/// Returns the sequence number in an article row's payload; `None` for other rows.
pub(super) fn sequence_of(payload: &[u8]) -> Option<u64> {
    let mut r = ByteReader(payload);
    match r.u8()? {
        kind::ARTICLE => r.u8().and_then(|_version| r.u64()),
        kind::ARTICLE_OLD => r.u64(),
        _ => None,
    }
}

/// Appends group:number pairs.
pub fn put_numbers(numbers: &[(GroupId, u64)], out: &mut Vec<u8>) {
    for (group, number) in numbers {
        put_varint(u64::from(group.0), out);
        put_varint(*number, out);
    }
}

/// Reads group:number pairs to the end of `bytes`; returns false if they are invalid.
pub fn read_numbers(bytes: &[u8], out: &mut Vec<(GroupId, u64)>) -> bool {
    out.clear();
    let mut r = ByteReader(bytes);
    while !r.is_empty() {
        match (r.varint().and_then(|g| u32::try_from(g).ok()), r.varint()) {
            (Some(group), Some(number)) => out.push((GroupId(group), number)),
            _ => return false,
        }
    }
    true
}

/// One event in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRow<'a> {
    /// An article was accepted.
    Article(ArticleRow<'a>),
    /// A Message-ID is remembered without an article.
    Remember {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Arrival time in Unix seconds.
        arrived: u32,
    },
    /// An article was cancelled.
    Cancel {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Token of the article.
        token: Token,
        /// Its groups, with its numbers there.
        numbers: Vec<(GroupId, u64)>,
    },
    /// Numbers of a retained article are due; with `gone` the article is removed with them.
    Expire {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Token of the article.
        token: Token,
        /// Whether the article is removed with these numbers.
        gone: bool,
        /// Groups in which it expires, with its numbers there.
        numbers: Vec<(GroupId, u64)>,
    },
    /// Current state of a group.
    Group(GroupRow),
    /// A group was removed; a later one of this name continues after `high`.
    GroupRemoved {
        /// Name of the group.
        name: String,
        /// Highest number that was assigned.
        high: u64,
    },
    /// Numbers up to these may have been assigned.
    Promise(Vec<(GroupId, u64)>),
    /// Current state of a volume.
    Volume(VolumeRow),
    /// The write position of a volume advanced without an article.
    Skip {
        /// Number of the volume.
        volume: u16,
        /// New write position.
        head: u64,
    },
    /// Everything up to this journal position, articles included, is durable.
    Synced {
        /// Position in the journal.
        upto: u64,
    },
    /// The machine went down: every group's numbers continue after what was promised.
    PowerLost,
    /// The spool was opened, with the boot id of the machine.
    Opened {
        /// Boot id of the machine.
        boot_id: [u8; 16],
    },
    /// The spool was closed properly.
    Closed,
    /// Path identity of Xref from here on.
    Identity(String),
    /// No event: proves that the journal can be written.
    Probe,
    /// The article rows at these positions are void: a power cut kept their articles from the disk.
    Void(Vec<u64>),
    /// The article at a place of a volume was damaged by a crash and is given up, with its numbers.
    Lost {
        /// Number of the volume.
        volume: u16,
        /// Place of the article.
        place: u64,
        /// Its groups, with its numbers there.
        numbers: Vec<(GroupId, u64)>,
    },
    /// The number that stands for a site in article rows.
    Site {
        /// Number of the site in article rows.
        number: u32,
        /// Path identity of the site.
        name: String,
    },
    /// An article is hidden from here on.
    Hide(HiddenArticle),
    /// A hidden article is shown again.
    Unhide {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Token of the article.
        token: Token,
    },
    /// The next article of this Message-ID is hidden as it is filed.
    HideAhead {
        /// Hash of the Message-ID.
        key: ArticleKey,
        /// Operator or rule that hides it.
        by: String,
        /// Reason, for operators.
        reason: String,
    },
    /// A Message-ID that was remembered without an article is forgotten.
    Forget {
        /// Hash of the Message-ID.
        key: ArticleKey,
    },
    /// A small fact is noted since a time in Unix seconds, or, without a value, no longer.
    Note {
        /// Kind of the note.
        kind: NoteKind,
        /// Time since which it holds, in Unix seconds.
        since: u32,
        /// Subject of the note.
        key: &'a [u8],
        /// The fact, `None` to remove the note.
        value: Option<&'a [u8]>,
    },
    /// The oldest Message-IDs were forgotten, and the oldest notes about Message-IDs.
    Forgotten {
        /// Time of this row, in Unix seconds.
        at: u32,
        /// Arrival time before which Message-IDs were forgotten, in Unix seconds.
        ids_before: u32,
        /// Time before which notes were forgotten, in Unix seconds.
        notes_before: u32,
    },
    /// Start time of the journal file that has this row among its first, in Unix seconds.
    Begun {
        /// Time in Unix seconds.
        at: u32,
    },
    /// Everything before this row is what a shared log has up to a position, of which this is the record.
    Position {
        /// Record of the position, which the log alone understands.
        record: Vec<u8>,
    },
    /// Payload of a row of an unknown kind that may be ignored.
    Ignored(&'a [u8]),
}

mod kind {
    /// Bit of kinds that a program may ignore if it does not know them.
    pub const MAY_BE_IGNORED: u8 = 0x80;
    /// Article without tagged fields; no longer written.
    pub const ARTICLE_OLD: u8 = 1;
    pub const REMEMBER: u8 = 2;
    pub const CANCEL: u8 = 3;
    pub const GROUP: u8 = 4;
    pub const GROUP_REMOVED: u8 = 5;
    pub const PROMISE: u8 = 6;
    pub const VOLUME: u8 = 7;
    pub const SKIP: u8 = 8;
    pub const SYNCED: u8 = 9;
    pub const POWER_LOST: u8 = 10;
    pub const IDENTITY: u8 = 11;
    pub const PROBE: u8 = 12;
    pub const OPENED: u8 = 13;
    pub const CLOSED: u8 = 14;
    pub const VOID: u8 = 15;
    pub const EXPIRE: u8 = 16;
    pub const LOST: u8 = 17;
    pub const ARTICLE: u8 = 18;
    pub const SITE: u8 = 19;
    pub const HIDE: u8 = 20;
    pub const UNHIDE: u8 = 21;
    pub const HIDE_AHEAD: u8 = 22;
    pub const FORGET: u8 = 23;
    pub const NOTE: u8 = 24;
    pub const FORGOTTEN: u8 = 25;
    pub const POSITION: u8 = 26;
    /// Highest kind that must be known.
    pub const LAST: u8 = POSITION;
    pub const BEGUN: u8 = MAY_BE_IGNORED | 1;
}

/// Version of article rows.
const ARTICLE_VERSION: u8 = 1;

impl<'a> JournalRow<'a> {
    /// Reports whether this row may alter what readers, peers or history see. Rows that restate something
    /// alter nothing, but look alike.
    pub fn may_alter_news(&self) -> bool {
        match self {
            Self::Article(_)
            | Self::Remember { .. }
            | Self::Cancel { .. }
            | Self::Expire { .. }
            | Self::Hide(_)
            | Self::Unhide { .. }
            | Self::HideAhead { .. }
            | Self::Note { .. }
            | Self::Forgotten { .. }
            | Self::Forget { .. } => true,
            _ => self.may_restate(),
        }
    }

    /// Reports whether journal files begin with rows of this kind, which then restate what is known.
    pub fn may_restate(&self) -> bool {
        matches!(self, Self::Group(_) | Self::GroupRemoved { .. } | Self::Site { .. })
    }

    /// Appends the row's payload (without frame).
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Article(a) => put_article(a, out),
            Self::Remember { key, arrived } => {
                put_key(kind::REMEMBER, key, out).extend_from_slice(&arrived.to_le_bytes());
            }
            Self::Cancel { key, token, numbers } => put_ended(kind::CANCEL, *key, token, &[], numbers, out),
            Self::Expire { key, token, gone, numbers } => {
                put_ended(kind::EXPIRE, *key, token, &[u8::from(*gone)], numbers, out);
            }
            Self::Group(g) => put_group(g, begin(kind::GROUP, out)),
            Self::GroupRemoved { name, high } => {
                put_name(kind::GROUP_REMOVED, name, out);
                put_varint(*high, out);
            }
            Self::Promise(numbers) => {
                out.push(kind::PROMISE);
                put_numbers(numbers, out);
            }
            Self::Volume(v) => put_volume(v, begin(kind::VOLUME, out)),
            Self::Skip { volume, head } => {
                out.push(kind::SKIP);
                out.extend_from_slice(&volume.to_le_bytes());
                put_u64(*head, out);
            }
            Self::Synced { upto } => {
                out.push(kind::SYNCED);
                put_u64(*upto, out);
            }
            Self::PowerLost => out.push(kind::POWER_LOST),
            Self::Opened { boot_id } => {
                out.push(kind::OPENED);
                out.extend_from_slice(boot_id);
            }
            Self::Closed => out.push(kind::CLOSED),
            Self::Identity(name) => put_name(kind::IDENTITY, name, out),
            Self::Probe => out.push(kind::PROBE),
            Self::Void(positions) => {
                out.push(kind::VOID);
                positions.iter().for_each(|p| put_varint(*p, out));
            }
            Self::Lost { volume, place, numbers } => {
                out.push(kind::LOST);
                out.extend_from_slice(&volume.to_le_bytes());
                put_u64(*place, out);
                put_numbers(numbers, out);
            }
            Self::Site { number, name } => {
                out.push(kind::SITE);
                put_varint(u64::from(*number), out);
                put_bytes(name.as_bytes(), out);
            }
            Self::Hide(hidden) => put_hidden(hidden, begin(kind::HIDE, out)),
            Self::Unhide { key, token } => put_ended(kind::UNHIDE, *key, token, &[], &[], out),
            Self::HideAhead { key, by, reason } => {
                put_bytes(by.as_bytes(), put_key(kind::HIDE_AHEAD, key, out));
                put_bytes(reason.as_bytes(), out);
            }
            Self::Forget { key } => {
                put_key(kind::FORGET, key, out);
            }
            Self::Note { kind: of, since, key, value } => {
                out.extend_from_slice(&[kind::NOTE, of.code()]);
                out.extend_from_slice(&since.to_le_bytes());
                put_bytes(key, out);
                out.push(u8::from(value.is_some()));
                put_bytes(value.unwrap_or_default(), out);
            }
            Self::Forgotten { at, ids_before, notes_before } => {
                out.push(kind::FORGOTTEN);
                [at, ids_before, notes_before]
                    .iter()
                    .for_each(|time| out.extend_from_slice(&time.to_le_bytes()));
            }
            Self::Begun { at } => {
                out.push(kind::BEGUN);
                out.extend_from_slice(&at.to_le_bytes());
            }
            Self::Position { record } => {
                out.push(kind::POSITION);
                put_bytes(record, out);
            }
            Self::Ignored(payload) => out.extend_from_slice(payload),
        }
    }

    /// Reads a payload that must be understood to open the spool; the error says why it cannot be.
    pub fn read(position: u64, payload: &'a [u8]) -> io::Result<Self> {
        Self::decode(payload).ok_or_else(|| not_understood(position, payload))
    }

    /// Reads a payload; `None` if it is invalid, or from a later version.
    pub fn decode(payload: &'a [u8]) -> Option<Self> {
        let mut r = ByteReader(payload);
        let r = &mut r;
        let mut numbers = Vec::new();
        Some(match r.u8()? {
            kind::ARTICLE => {
                (r.u8()? == ARTICLE_VERSION).then_some(())?;
                let mut article = read_article(r)?;
                article.numbers = r.bytes()?;
                article.tagged = TaggedFields::new(r.0)?;
                Self::Article(article)
            }
            kind::ARTICLE_OLD => {
                let article = read_article(r)?;
                Self::Article(ArticleRow { numbers: r.0, ..article })
            }
            kind::REMEMBER => Self::Remember { key: ArticleKey(r.u128()?), arrived: r.u32()? },
            kind::CANCEL => {
                let (key, token) = (ArticleKey(r.u128()?), Token::from_bytes(&r.array()?)?);
                read_numbers(r.0, &mut numbers).then_some(Self::Cancel { key, token, numbers })?
            }
            kind::EXPIRE => {
                let (key, token, gone) =
                    (ArticleKey(r.u128()?), Token::from_bytes(&r.array()?)?, r.u8()? == 1);
                read_numbers(r.0, &mut numbers).then_some(Self::Expire { key, token, gone, numbers })?
            }
            kind::GROUP => Self::Group(read_group(r)?),
            kind::GROUP_REMOVED => Self::GroupRemoved { name: r.text()?, high: r.varint()? },
            kind::PROMISE => read_numbers(r.0, &mut numbers).then_some(Self::Promise(numbers))?,
            kind::VOLUME => Self::Volume(read_volume(r)?),
            kind::SKIP => Self::Skip { volume: u16::from_le_bytes(r.array()?), head: r.u64()? },
            kind::SYNCED => Self::Synced { upto: r.u64()? },
            kind::POWER_LOST => Self::PowerLost,
            kind::OPENED => Self::Opened { boot_id: r.array()? },
            kind::CLOSED => Self::Closed,
            kind::IDENTITY => Self::Identity(r.text()?),
            kind::PROBE => Self::Probe,
            kind::VOID => {
                let mut positions = Vec::new();
                while !r.is_empty() {
                    positions.push(r.varint()?);
                }
                Self::Void(positions)
            }
            kind::LOST => {
                let (volume, place) = (u16::from_le_bytes(r.array()?), r.u64()?);
                read_numbers(r.0, &mut numbers).then_some(Self::Lost { volume, place, numbers })?
            }
            kind::SITE => Self::Site { number: u32::try_from(r.varint()?).ok()?, name: r.text()? },
            kind::HIDE => Self::Hide(read_hidden(r)?),
            kind::UNHIDE => {
                Self::Unhide { key: ArticleKey(r.u128()?), token: Token::from_bytes(&r.array()?)? }
            }
            kind::HIDE_AHEAD => {
                Self::HideAhead { key: ArticleKey(r.u128()?), by: r.text()?, reason: r.text()? }
            }
            kind::FORGET => Self::Forget { key: ArticleKey(r.u128()?) },
            kind::NOTE => {
                let (kind, since, key) = (NoteKind::of(r.u8()?)?, r.u32()?, r.bytes()?);
                let (has_value, value) = (r.u8()? == 1, r.bytes()?);
                Self::Note { kind, since, key, value: has_value.then_some(value) }
            }
            kind::FORGOTTEN => Self::Forgotten { at: r.u32()?, ids_before: r.u32()?, notes_before: r.u32()? },
            kind::BEGUN => Self::Begun { at: r.u32()? },
            kind::POSITION => Self::Position { record: r.bytes()?.to_vec() },
            unknown if unknown & kind::MAY_BE_IGNORED != 0 => Self::Ignored(payload),
            _ => return None,
        })
    }
}

/// Returns the error for a whole row that cannot be decoded.
fn not_understood(position: u64, payload: &[u8]) -> io::Error {
    let kind = payload.first().copied().unwrap_or_default();
    let version = payload.get(1).copied().unwrap_or_default();
    let what = match kind {
        kind::ARTICLE if version > ARTICLE_VERSION => format!("an article row of version {version}"),
        kind::NOTE if NoteKind::of(version).is_none() => format!("a note of kind {version}"),
        1..=kind::LAST => {
            let text = format!("the row at position {position}, of kind {kind}, makes no sense");
            return io::Error::new(io::ErrorKind::InvalidData, text);
        }
        kind => format!("a row of kind {kind}"),
    };
    let text =
        format!("position {position} has {what}: a newer version of newsreel wrote it; use that version");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Appends an article row's payload.
fn put_article(a: &ArticleRow<'_>, out: &mut Vec<u8>) {
    out.push(kind::ARTICLE);
    out.push(ARTICLE_VERSION);
    put_u64(a.sequence, out);
    out.extend_from_slice(&a.key.0.to_le_bytes());
    out.extend_from_slice(&a.token.to_bytes());
    put_varint(a.stored_bytes, out);
    out.extend_from_slice(&a.arrived.to_le_bytes());
    out.extend_from_slice(&a.expires.to_le_bytes());
    put_bytes(a.message_id, out);
    put_bytes(a.fields, out);
    put_bytes(a.numbers, out);
    out.extend_from_slice(a.tagged.as_bytes());
}

/// Appends a kind.
fn begin(kind: u8, out: &mut Vec<u8>) -> &mut Vec<u8> {
    out.push(kind);
    out
}

/// Appends a kind and a key.
fn put_key<'o>(kind: u8, key: &ArticleKey, out: &'o mut Vec<u8>) -> &'o mut Vec<u8> {
    out.push(kind);
    out.extend_from_slice(&key.0.to_le_bytes());
    out
}

/// Appends a kind and a name.
fn put_name(kind: u8, name: &str, out: &mut Vec<u8>) {
    out.push(kind);
    put_bytes(name.as_bytes(), out);
}

/// Appends the row of an article that is withdrawn or due.
fn put_ended(
    kind: u8,
    key: ArticleKey,
    token: &Token,
    more: &[u8],
    numbers: &[(GroupId, u64)],
    out: &mut Vec<u8>,
) {
    out.push(kind);
    out.extend_from_slice(&key.0.to_le_bytes());
    out.extend_from_slice(&token.to_bytes());
    out.extend_from_slice(more);
    put_numbers(numbers, out);
}

/// Reads the fields at the beginning of article rows of all versions.
fn read_article<'a>(r: &mut ByteReader<'a>) -> Option<ArticleRow<'a>> {
    Some(ArticleRow {
        sequence: r.u64()?,
        key: ArticleKey(r.u128()?),
        token: Token::from_bytes(&r.array()?)?,
        stored_bytes: r.varint()?,
        arrived: r.u32()?,
        expires: r.u32()?,
        message_id: r.bytes()?,
        fields: r.bytes()?,
        numbers: &[],
        tagged: TaggedFields::default(),
    })
}

/// Appends a group's fields; also used by the checkpoint.
pub fn put_group(g: &GroupRow, out: &mut Vec<u8>) {
    put_varint(u64::from(g.id), out);
    put_bytes(g.name.as_bytes(), out);
    put_bytes(g.flag.to_string().as_bytes(), out);
    put_bytes(g.description.as_bytes(), out);
    put_bytes(g.creator.as_bytes(), out);
    put_varint(g.created, out);
    put_varint(g.high, out);
    put_varint(g.promised, out);
}

/// Reads what [`put_group`] wrote.
pub fn read_group(r: &mut ByteReader<'_>) -> Option<GroupRow> {
    Some(GroupRow {
        id: u32::try_from(r.varint()?).ok()?,
        name: r.text()?,
        flag: GroupFlag::parse(&r.text()?)?,
        description: r.text()?,
        creator: r.text()?,
        created: r.varint()?,
        high: r.varint()?,
        promised: r.varint()?,
    })
}

/// Appends a hidden article's fields; also used by the checkpoint.
pub fn put_hidden(hidden: &HiddenArticle, out: &mut Vec<u8>) {
    out.extend_from_slice(&hidden.key.0.to_le_bytes());
    out.extend_from_slice(&hidden.token.to_bytes());
    out.extend_from_slice(&hidden.since.to_le_bytes());
    for text in [&hidden.message_id, &hidden.by, &hidden.reason] {
        put_bytes(text.as_bytes(), out);
    }
    let mut numbers = Vec::new();
    put_numbers(&hidden.numbers, &mut numbers);
    put_bytes(&numbers, out);
}

/// Reads what [`put_hidden`] wrote.
pub fn read_hidden(r: &mut ByteReader<'_>) -> Option<HiddenArticle> {
    let mut hidden = HiddenArticle {
        key: ArticleKey(r.u128()?),
        token: Token::from_bytes(&r.array()?)?,
        since: r.u32()?,
        message_id: r.text()?,
        by: r.text()?,
        reason: r.text()?,
        numbers: Vec::new(),
    };
    read_numbers(r.bytes()?, &mut hidden.numbers).then_some(hidden)
}

/// Appends a volume's fields; also used by the checkpoint.
pub fn put_volume(v: &VolumeRow, out: &mut Vec<u8>) {
    out.extend_from_slice(&v.id.to_le_bytes());
    out.push(v.method);
    put_bytes(v.name.as_bytes(), out);
    put_u64(v.head, out);
}

/// Reads what [`put_volume`] wrote.
pub fn read_volume(r: &mut ByteReader<'_>) -> Option<VolumeRow> {
    Some(VolumeRow { id: u16::from_le_bytes(r.array()?), method: r.u8()?, name: r.text()?, head: r.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spool_base::facts::RowFacts;
    use spool_base::token::MethodKind;

    #[test]
    fn every_kind_round_trips_and_no_prefix_passes_as_whole() {
        let token = Token { method: MethodKind::Cnfs, class: 1, volume: 2, place: 99 << 32 };
        let mut numbers = Vec::new();
        put_numbers(&[(GroupId(7), 1 << 40), (GroupId(300), 2)], &mut numbers);
        let facts = RowFacts { wire_bytes: 900, origin: "rnews", ..RowFacts::default() };
        let mut tagged = Vec::new();
        facts.put(&mut tagged);
        let group = GroupRow { id: 4, name: "a.b".into(), high: 9, promised: 300, ..GroupRow::default() };
        let rows = [
            JournalRow::Article(ArticleRow {
                sequence: 5,
                key: ArticleKey(77 << 90),
                token,
                stored_bytes: 2560,
                arrived: 1_795_000_000,
                expires: 0,
                message_id: b"<a@b>",
                fields: b"s\tf\td\t<a@b>\t\t5\t1",
                numbers: &numbers,
                tagged: TaggedFields::new(&tagged).unwrap(),
            }),
            JournalRow::Remember { key: ArticleKey(3), arrived: 5 },
            JournalRow::Cancel { key: ArticleKey(4), token, numbers: vec![(GroupId(1), 2)] },
            JournalRow::Expire { key: ArticleKey(4), token, gone: true, numbers: vec![(GroupId(1), 2)] },
            JournalRow::Group(group),
            JournalRow::GroupRemoved { name: "old.group".into(), high: 3 },
            JournalRow::Promise(vec![(GroupId(1), 256)]),
            JournalRow::Volume(VolumeRow { id: 2, method: 1, name: "text0".into(), head: 4096 }),
            JournalRow::Skip { volume: 2, head: 8192 },
            JournalRow::Synced { upto: 1 << 33 },
            JournalRow::PowerLost,
            JournalRow::Opened { boot_id: [9; 16] },
            JournalRow::Closed,
            JournalRow::Identity("news.example.org".into()),
            JournalRow::Probe,
            JournalRow::Void(vec![16, 1 << 40]),
            JournalRow::Lost { volume: 2, place: 99 << 32, numbers: vec![(GroupId(1), 2)] },
            JournalRow::Site { number: 3, name: "peer.example".into() },
            JournalRow::Hide(HiddenArticle {
                key: ArticleKey(4),
                token,
                since: 1_795_000_000,
                message_id: "<a@b>".into(),
                by: "operator".into(),
                reason: "spam".into(),
                numbers: vec![(GroupId(7), 2)],
            }),
            JournalRow::Unhide { key: ArticleKey(4), token },
            JournalRow::Note {
                kind: NoteKind::EarlyCancel,
                since: 1_795_000_000,
                key: b"key",
                value: Some(b"sha256:a"),
            },
            JournalRow::Note { kind: NoteKind::ControlDate, since: 0, key: b"", value: None },
            JournalRow::Forgotten { at: 1_795_000_000, ids_before: 5, notes_before: 6 },
            JournalRow::Begun { at: 1_795_000_000 },
            JournalRow::Position { record: vec![1, 0, 7] },
            JournalRow::Ignored(&[200, 1, 2, 3]),
        ];
        for row in &rows {
            let mut bytes = Vec::new();
            row.encode(&mut bytes);
            assert_eq!(JournalRow::decode(&bytes).as_ref(), Some(row));
            for cut in 0..bytes.len() {
                assert_ne!(JournalRow::decode(&bytes[..cut]).as_ref(), Some(row));
            }
        }
    }

    #[test]
    fn rows_of_later_versions_are_ignored_or_refused_by_their_kind() {
        let error = |payload: &[u8]| JournalRow::read(16, payload).map(|_| ()).unwrap_err();
        assert_eq!(JournalRow::read(16, &[0xfe, 9]).unwrap(), JournalRow::Ignored(&[0xfe, 9]));
        let newer = error(&[100, 1, 2]);
        assert_eq!(newer.kind(), io::ErrorKind::Unsupported);
        assert_eq!(
            newer.to_string(),
            "position 16 has a row of kind 100: a newer version of newsreel wrote it; use that version"
        );
        assert!(error(&[kind::ARTICLE, 2, 0]).to_string().contains("an article row of version 2"));
        assert!(error(&[kind::NOTE, 99, 0]).to_string().contains("a note of kind 99: a newer version"));
        let damaged = error(&[kind::ARTICLE, ARTICLE_VERSION, 0]);
        assert_eq!(damaged.kind(), io::ErrorKind::InvalidData);
    }
}
