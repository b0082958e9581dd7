//! Entries of a message: changes with names in place of the numbers of a spool (`docs/formats/log.md`).
//!
//! [`SectionWriter`] turns the changes of a batch into sections, [`read_body`] reads them again. Invariant:
//! what was read borrows from the message and is valid, so a fold need not check it again.

use crate::agreement::WindowDigest;
use crate::message::{FRAME_BYTES, MESSAGE_BYTES_MAX, MessageError};
use crate::position::PARTS_MAX;
use netnews::overview_row::OverviewFields;
use netnews::{Article, Known};
use spool::{
    ArticleGroups, ArticleIdent, ArticleKey, ArticleKind, ByteReader, Change, ChangeRefusal, Criteria,
    GroupChange, GroupFlag, GroupUpdate, NewArticle, NewGroup, NoteKind, RowFacts, TaggedFields, put_bytes,
    put_varint,
};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Maximum number of names in a section.
const NAMES_MAX: usize = 1 << 16;
/// Maximum length of a name.
const NAME_BYTES_MAX: usize = 1024;
/// Maximum number of entries in a section.
pub const ENTRIES_MAX: usize = 1 << 16;
/// Articles up to this length are in their entry; larger ones come in parts.
pub const ARTICLE_INLINE_BYTES_MAX: usize = if cfg!(test) { 1_500 } else { 900_000 };
/// Length of a part of a large article. In the simulation even small ones have parts.
pub const PART_BYTES: usize = if cfg!(test) { 700 } else { 512 << 10 };
/// Sections end once they are so long. In the simulation most batches have several.
const SECTION_BYTES_USUAL: usize = if cfg!(test) { 1_200 } else { 256 << 10 };
/// Maximum length of a section, so that a message can hold it.
pub const SECTION_BYTES_MAX: usize = MESSAGE_BYTES_MAX - FRAME_BYTES;
/// Maximum length of what a section has beside names, payloads and their kinds: the numbers of names and
/// entries, and the length of one more payload.
const COUNTS_BYTES_MAX: usize = 3 * 5;

mod kind {
    pub const ARTICLE: u8 = 1;
    pub const REMEMBER: u8 = 2;
    pub const FORGET: u8 = 3;
    pub const CANCEL: u8 = 4;
    pub const HIDE: u8 = 5;
    pub const UNHIDE: u8 = 6;
    pub const GROUPS: u8 = 7;
    pub const SITE: u8 = 8;
    pub const NOTE: u8 = 9;
    pub const EXPIRE: u8 = 10;
    pub const MEMBER: u8 = 16;
    pub const PART: u8 = 17;
    pub const MARK: u8 = 18;
    /// May be skipped.
    pub const DIGEST: u8 = 0x81;
    /// Bit of kinds that a program may skip if it does not know them.
    pub const MAY_BE_SKIPPED: u8 = 0x80;
}

/// An entry as read.
#[derive(Debug, Clone)]
pub enum LogEntry<'a> {
    /// An article is accepted.
    Article(Box<ArticleEntry<'a>>),
    /// A Message-ID is remembered, at this time at the latest.
    Remember {
        /// The Message-ID.
        id: ArticleIdent<'a>,
        /// Arrival in Unix seconds.
        arrived: u32,
    },
    /// A Message-ID that was remembered at this time is forgotten.
    Forget {
        /// The Message-ID.
        id: ArticleIdent<'a>,
        /// Arrival in Unix seconds.
        arrived: u32,
    },
    /// An article is cancelled.
    Cancel {
        /// The article.
        id: ArticleIdent<'a>,
    },
    /// An article is hidden.
    Hide {
        /// The Message-ID.
        message_id: &'a [u8],
        /// Name of the hider.
        by: &'a str,
        /// Reason.
        reason: &'a str,
    },
    /// An article is shown again.
    Unhide {
        /// The article.
        id: ArticleIdent<'a>,
    },
    /// Groups are created, changed and removed together.
    Groups(Vec<GroupUpdate>),
    /// A site is named.
    Site {
        /// Name of the site.
        name: &'a str,
    },
    /// A small fact is noted, or, without a value, no longer.
    Note {
        /// Kind of the note.
        kind: NoteKind,
        /// Name of the note.
        key: &'a [u8],
        /// What is noted.
        value: Option<&'a [u8]>,
    },
    /// A kept article leaves groups.
    Expire {
        /// The article.
        id: ArticleIdent<'a>,
        /// Names of the groups.
        groups: Vec<String>,
    },
    /// A process of a member begins, or the member leaves.
    Member(MemberEntry<'a>),
    /// Part of a large article.
    Part(PartEntry<'a>),
    /// Place in the log that a reader waits for.
    Mark,
    /// What the member has made of a window of messages, which ends with this one.
    Digest {
        /// Last message of the window.
        upto: u64,
        /// The digest.
        digest: WindowDigest,
    },
    /// An entry of a kind that may be skipped.
    Skipped,
}

/// A member of the cluster as an entry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberEntry<'a> {
    /// Number of the member.
    pub number: u16,
    /// Incarnation that begins.
    pub incarnation: u64,
    /// Whether the member has left the cluster.
    pub has_left: bool,
    /// Name of the member.
    pub name: &'a str,
}

/// Part of a large article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartEntry<'a> {
    /// Number of the upload, drawn by the member.
    pub upload: u64,
    /// Number of the part, from 0 on.
    pub number: u32,
    /// Number of all parts.
    pub of: u32,
    /// Bytes of the article.
    pub bytes: &'a [u8],
}

/// Article of an entry.
#[derive(Debug, Clone)]
pub struct ArticleEntry<'a> {
    /// Message-ID.
    pub message_id: &'a [u8],
    /// Length of the headers, with the blank line.
    pub header_bytes: usize,
    /// Offset of the Message-ID.
    pub message_id_at: usize,
    /// Names of the groups; `None`: filed in no group.
    pub groups: Option<Vec<&'a [u8]>>,
    /// Numbers in the groups; empty: all new.
    pub numbers: Vec<u64>,
    /// Expires header in Unix seconds.
    pub expires: Option<u64>,
    /// Verdict of a filter.
    pub verdict: Option<&'a str>,
    /// Facts of the journal's row, without sites.
    facts: RowFacts<'a>,
    sites: Vec<&'a str>,
    /// Bytes of the article.
    pub body: ArticleBody<'a>,
}

/// Place of an article's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArticleBody<'a> {
    /// In the entry.
    Inline(&'a [u8]),
    /// In the parts of an upload.
    Upload {
        /// Number of the upload.
        upload: u64,
        /// Length of the article.
        bytes: usize,
    },
}

/// Reason why a change cannot be an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsharedChange {
    /// Changes of this kind are not shared.
    Kind(&'static str),
    /// It is longer than an entry may be.
    TooLong,
    /// Every member would refuse it.
    Refused(ChangeRefusal),
    /// Its bytes are not the article that it describes.
    OtherArticle,
}

impl fmt::Display for UnsharedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "{kind} cannot go through the log of a cluster"),
            Self::TooLong => f.write_str("it is too long for the log of a cluster"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::OtherArticle => f.write_str("the article is not what the log of a cluster would say of it"),
        }
    }
}

impl std::error::Error for UnsharedChange {}

/// A section: names and entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// Encoded section.
    pub bytes: Vec<u8>,
    /// Number of its entries.
    pub entries: usize,
    /// Whether it may be appended only once all sections of its batch before it are in the log: it has an
    /// article whose parts they are.
    pub follows: bool,
}

/// Writer of the sections of a batch.
#[derive(Debug, Default)]
pub struct SectionWriter {
    names: HashMap<Vec<u8>, usize>,
    /// Encoded names of the section that is being written.
    name_bytes: Vec<u8>,
    entry_bytes: Vec<u8>,
    entries: usize,
    follows: bool,
    sections: Vec<Section>,
}

impl SectionWriter {
    /// Adds a change, unless the members would refuse it or could not read it. `sites` are the names of sites
    /// by their numbers here; `uploads` draws the number of an upload. Returns the number of its entries,
    /// which is more than one for a set of updates that is too long for a message; parts of articles do not
    /// count.
    pub fn push(
        &mut self,
        change: &Change<'_>,
        sites: &[String],
        mut draw_upload: impl FnMut() -> u64,
    ) -> Result<usize, UnsharedChange> {
        match change.refusal() {
            Some(refusal) => Err(UnsharedChange::Refused(refusal)),
            None => self.add(change, sites, &mut draw_upload),
        }
    }

    /// Adds a change to this section, or to the next one if it has no room.
    fn add(
        &mut self,
        change: &Change<'_>,
        sites: &[String],
        draw_upload: &mut dyn FnMut() -> u64,
    ) -> Result<usize, UnsharedChange> {
        let (names, name_bytes) = (self.names.len(), self.name_bytes.len());
        let mut payload = Vec::new();
        let put = self.put_change(change, sites, draw_upload, &mut payload);
        let Err(error) = put.and_then(|kind| self.put_entry(kind, &payload)) else { return Ok(1) };
        // Names are those of the entries of their section. Parts of an article may have begun another one.
        let (names, name_bytes) = if self.entries > 0 { (names, name_bytes) } else { (0, 0) };
        self.names.retain(|_, at| *at < names);
        self.name_bytes.truncate(name_bytes);
        match change {
            _ if error != UnsharedChange::TooLong => Err(error),
            _ if self.entries > 0 => {
                self.end_section();
                self.add(change, sites, draw_upload)
            }
            Change::Groups(updates) if updates.len() > 1 => {
                let (some, others) = updates.split_at(updates.len() / 2);
                // Of several updates of one group the first counts.
                let updated: HashSet<&str> = some.iter().map(GroupUpdate::name).collect();
                let others = others.iter().filter(|update| !updated.contains(update.name()));
                let others: Vec<GroupUpdate> = others.cloned().collect();
                let entries = self.add(&Change::Groups(some), sites, draw_upload)?;
                Ok(entries + self.add(&Change::Groups(&others), sites, draw_upload)?)
            }
            _ => Err(error),
        }
    }

    /// Writes the payload of a change; returns the kind of its entry.
    fn put_change(
        &mut self,
        change: &Change<'_>,
        sites: &[String],
        draw_upload: &mut dyn FnMut() -> u64,
        payload: &mut Vec<u8>,
    ) -> Result<u8, UnsharedChange> {
        Ok(match change {
            Change::Article(article) => {
                self.put_article(article, sites, draw_upload, payload)?;
                kind::ARTICLE
            }
            Change::Remember { id, arrived } => {
                put_ident(id, payload);
                put_seconds(*arrived, payload);
                kind::REMEMBER
            }
            Change::Forget { id, arrived } => {
                put_ident(id, payload);
                payload.extend_from_slice(&arrived.to_le_bytes());
                kind::FORGET
            }
            Change::Cancel { id } => {
                put_ident(id, payload);
                kind::CANCEL
            }
            // Its time is that of the message.
            Change::Hide { message_id, by, reason, since: _ } => {
                put_bytes(message_id, payload);
                put_bytes(by.as_bytes(), payload);
                put_bytes(reason.as_bytes(), payload);
                kind::HIDE
            }
            Change::Unhide { id } => {
                put_ident(id, payload);
                kind::UNHIDE
            }
            Change::Groups(updates) => {
                put_varint(updates.len() as u64, payload);
                for update in *updates {
                    self.put_update(update, payload)?;
                }
                kind::GROUPS
            }
            Change::Site { name } => {
                self.put_name(name.as_bytes(), payload)?;
                kind::SITE
            }
            Change::Note { kind, key, value, .. } => {
                payload.push(kind.code());
                put_bytes(key, payload);
                put_optional(*value, payload);
                kind::NOTE
            }
            Change::Expire { id, groups } => {
                put_ident(id, payload);
                put_varint(groups.len() as u64, payload);
                for group in *groups {
                    self.put_name(group.as_bytes(), payload)?;
                }
                kind::EXPIRE
            }
            Change::Position { .. } => return Err(UnsharedChange::Kind("a position")),
        })
    }

    /// Adds an entry about a member.
    pub fn push_member(&mut self, member: &MemberEntry<'_>) -> Result<(), UnsharedChange> {
        let mut payload = Vec::new();
        payload.extend_from_slice(&member.number.to_le_bytes());
        payload.extend_from_slice(&member.incarnation.to_le_bytes());
        payload.push(u8::from(member.has_left));
        put_bytes(member.name.as_bytes(), &mut payload);
        self.put_entry(kind::MEMBER, &payload)
    }

    /// Adds a mark.
    pub fn push_mark(&mut self) -> Result<(), UnsharedChange> {
        self.put_entry(kind::MARK, &[])
    }

    /// Adds the digest of a window.
    pub fn push_digest(&mut self, upto: u64, digest: &WindowDigest) -> Result<(), UnsharedChange> {
        let mut payload = upto.to_le_bytes().to_vec();
        payload.extend_from_slice(digest);
        self.put_entry(kind::DIGEST, &payload)
    }

    fn put_entry(&mut self, kind: u8, payload: &[u8]) -> Result<(), UnsharedChange> {
        let bytes = self.name_bytes.len() + self.entry_bytes.len() + 1 + payload.len();
        if bytes + COUNTS_BYTES_MAX > SECTION_BYTES_MAX {
            return Err(UnsharedChange::TooLong);
        }
        self.entry_bytes.push(kind);
        put_bytes(payload, &mut self.entry_bytes);
        self.entries += 1;
        if self.name_bytes.len() + self.entry_bytes.len() >= SECTION_BYTES_USUAL
            || self.entries >= ENTRIES_MAX
        {
            self.end_section();
        }
        Ok(())
    }

    /// Ends the current section.
    fn end_section(&mut self) {
        if self.entries == 0 {
            return;
        }
        let mut bytes = Vec::with_capacity(self.name_bytes.len() + self.entry_bytes.len() + 10);
        put_varint(self.names.len() as u64, &mut bytes);
        bytes.append(&mut self.name_bytes);
        put_varint(self.entries as u64, &mut bytes);
        bytes.append(&mut self.entry_bytes);
        let follows = std::mem::take(&mut self.follows);
        self.sections.push(Section { bytes, entries: std::mem::take(&mut self.entries), follows });
        self.names.clear();
    }

    /// Returns the sections.
    pub fn finish(mut self) -> Vec<Section> {
        self.end_section();
        self.sections
    }

    fn put_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Result<(), UnsharedChange> {
        let next = self.names.len();
        let at = match self.names.get(name) {
            Some(at) => *at,
            None if next >= NAMES_MAX || name.len() > NAME_BYTES_MAX => return Err(UnsharedChange::TooLong),
            None => {
                put_bytes(name, &mut self.name_bytes);
                self.names.insert(name.to_vec(), next);
                next
            }
        };
        put_varint(at as u64, out);
        Ok(())
    }

    fn put_article(
        &mut self,
        article: &NewArticle<'_>,
        sites: &[String],
        draw_upload: &mut dyn FnMut() -> u64,
        out: &mut Vec<u8>,
    ) -> Result<(), UnsharedChange> {
        let bytes = article.pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let is_large = bytes > ARTICLE_INLINE_BYTES_MAX;
        // Parts come before the article, in sections of their own, so that no name is lost.
        let upload =
            if is_large { Some(self.put_parts(&article.pieces.concat(), draw_upload())?) } else { None };
        put_bytes(article.message_id, out);
        put_varint(article.header_bytes as u64, out);
        put_varint(article.message_id_at as u64, out);
        match article.groups {
            ArticleGroups::None => put_varint(0, out),
            ArticleGroups::Named(names) => {
                put_varint(names.len() as u64 + 1, out);
                names.iter().try_for_each(|name| self.put_name(name, out))?;
            }
            ArticleGroups::Resolved { table, ids } => {
                put_varint(ids.len() as u64 + 1, out);
                for id in ids {
                    let name = table.get(*id).map_or(&b""[..], |group| group.name.as_bytes());
                    self.put_name(name, out)?;
                }
            }
        }
        put_varint(article.numbers.len() as u64, out);
        article.numbers.iter().for_each(|number| put_varint(*number, out));
        put_varint(article.expires.map_or(0, |expires| expires.saturating_add(1)), out);
        put_optional(article.criteria.verdict.map(str::as_bytes), out);
        self.put_facts(article.tagged, sites, out)?;
        match upload {
            None => {
                out.push(0);
                put_varint(bytes as u64, out);
                let begin = out.len();
                article.pieces.iter().for_each(|piece| out.extend_from_slice(piece));
                let NewArticle { message_id, message_id_at, header_bytes, .. } = *article;
                let is_read = |written: &[u8]| is_article(written, message_id, message_id_at, header_bytes);
                if !out.get(begin..).is_some_and(is_read) {
                    return Err(UnsharedChange::OtherArticle);
                }
            }
            Some(upload) => {
                out.push(1);
                out.extend_from_slice(&upload.to_le_bytes());
                put_varint(bytes as u64, out);
            }
        }
        Ok(())
    }

    fn put_facts(
        &mut self,
        tagged: TaggedFields<'_>,
        sites: &[String],
        out: &mut Vec<u8>,
    ) -> Result<(), UnsharedChange> {
        put_varint(tagged.wire_bytes().map_or(0, |bytes| bytes.saturating_add(1)), out);
        put_bytes(tagged.path().unwrap_or_default(), out);
        put_bytes(tagged.distribution().unwrap_or_default(), out);
        put_bytes(tagged.origin().unwrap_or_default(), out);
        out.push(tagged.kind().unwrap_or_default().0);
        let wanting = || sites.iter().zip(0..).filter(|(_, number)| tagged.is_wanted_by(*number));
        put_varint(wanting().count() as u64, out);
        for (name, _) in wanting() {
            self.put_name(name.as_bytes(), out)?;
        }
        match tagged.hidden() {
            None => out.push(0),
            Some((by, reason)) => {
                out.push(1);
                put_bytes(by.as_bytes(), out);
                put_bytes(reason.as_bytes(), out);
            }
        }
        match tagged.stands_for() {
            None => out.push(0),
            Some(key) => {
                out.push(1);
                out.extend_from_slice(&key.0.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Writes the parts of a large article, each as a section; returns the upload.
    fn put_parts(&mut self, article: &[u8], upload: u64) -> Result<u64, UnsharedChange> {
        self.end_section();
        let parts = article.chunks(PART_BYTES);
        let of =
            u32::try_from(parts.len()).ok().filter(|of| *of <= PARTS_MAX).ok_or(UnsharedChange::TooLong)?;
        for (number, bytes) in (0..of).zip(parts) {
            let mut payload = Vec::with_capacity(bytes.len() + 24);
            payload.extend_from_slice(&upload.to_le_bytes());
            put_varint(u64::from(number), &mut payload);
            put_varint(u64::from(of), &mut payload);
            put_bytes(bytes, &mut payload);
            self.put_entry(kind::PART, &payload)?;
            self.end_section();
        }
        self.follows = true;
        Ok(upload)
    }

    fn put_update(&mut self, update: &GroupUpdate, out: &mut Vec<u8>) -> Result<(), UnsharedChange> {
        let kind = match update {
            GroupUpdate::Add(_) => 0,
            GroupUpdate::Change(..) => 1,
            GroupUpdate::Remove(_) => 2,
            GroupUpdate::RaiseHigh(..) => 3,
        };
        out.push(kind);
        self.put_name(update.name().as_bytes(), out)?;
        match update {
            GroupUpdate::Add(group) => {
                put_bytes(group.flag.to_string().as_bytes(), out);
                put_bytes(group.description.as_bytes(), out);
                put_bytes(group.creator.as_bytes(), out);
                put_varint(group.created, out);
                put_varint(group.high, out);
            }
            GroupUpdate::Change(_, change) => {
                put_optional(
                    change.flag.as_ref().map(ToString::to_string).as_deref().map(str::as_bytes),
                    out,
                );
                put_optional(change.description.as_deref().map(str::as_bytes), out);
            }
            GroupUpdate::Remove(_) => {}
            GroupUpdate::RaiseHigh(_, high) => put_varint(*high, out),
        }
        Ok(())
    }
}

fn put_optional(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            put_bytes(value, out);
        }
    }
}

fn put_seconds(seconds: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(seconds).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_ident(id: &ArticleIdent<'_>, out: &mut Vec<u8>) {
    let mut put_key = |key: ArticleKey| {
        out.push(1);
        out.extend_from_slice(&key.0.to_le_bytes());
    };
    match id {
        ArticleIdent::Key(key) => put_key(*key),
        ArticleIdent::Located(article) => put_key(article.key()),
        ArticleIdent::Id(id) => {
            out.push(0);
            put_bytes(id, out);
        }
        ArticleIdent::InnHash(hash) => {
            out.push(2);
            out.extend_from_slice(hash);
        }
    }
}

/// Reads the entries of a body, in order.
pub fn read_body(body: &[u8]) -> Result<Vec<LogEntry<'_>>, MessageError> {
    let mut entries = Vec::new();
    let mut r = ByteReader(body);
    while !r.is_empty() {
        let names = read_names(&mut r).ok_or(MessageError::Malformed("names of a section"))?;
        let count = r.count(2).filter(|count| *count <= ENTRIES_MAX);
        for _ in 0..count.ok_or(MessageError::Malformed("a count of entries"))? {
            let kind = r.u8().ok_or(MessageError::Malformed("the kind of an entry"))?;
            let payload = r.bytes().ok_or(MessageError::Malformed("the payload of an entry"))?;
            entries.push(read_entry(kind, payload, &names)?);
        }
    }
    Ok(entries)
}

fn read_names<'a>(r: &mut ByteReader<'a>) -> Option<Vec<&'a [u8]>> {
    let count = r.count(1).filter(|count| *count <= NAMES_MAX)?;
    (0..count).map(|_| r.bytes().filter(|name| name.len() <= NAME_BYTES_MAX)).collect()
}

fn read_entry<'a>(kind: u8, payload: &'a [u8], names: &[&'a [u8]]) -> Result<LogEntry<'a>, MessageError> {
    if kind & kind::MAY_BE_SKIPPED != 0 && kind != kind::DIGEST {
        return Ok(LogEntry::Skipped);
    }
    let r = &mut EntryReader { r: ByteReader(payload), names };
    let entry = match kind {
        kind::ARTICLE => r.article().map(|article| LogEntry::Article(Box::new(article))),
        kind::REMEMBER => r.ident().zip(r.r.u32()).map(|(id, arrived)| LogEntry::Remember { id, arrived }),
        kind::FORGET => r.ident().zip(r.r.u32()).map(|(id, arrived)| LogEntry::Forget { id, arrived }),
        kind::CANCEL => r.ident().map(|id| LogEntry::Cancel { id }),
        kind::HIDE => r.hide(),
        kind::UNHIDE => r.ident().map(|id| LogEntry::Unhide { id }),
        kind::GROUPS => r.updates().map(LogEntry::Groups),
        kind::SITE => r.name_text().map(|name| LogEntry::Site { name }),
        kind::NOTE => r.note(),
        kind::EXPIRE => r.expire(),
        kind::MEMBER => r.member().map(LogEntry::Member),
        kind::PART => r.part().map(LogEntry::Part),
        kind::MARK => Some(LogEntry::Mark),
        kind::DIGEST => {
            r.r.u64()
                .zip(r.r.take(16))
                .and_then(|(upto, digest)| Some(LogEntry::Digest { upto, digest: digest.try_into().ok()? }))
        }
        number => return Err(MessageError::Newer { what: "an entry of kind", number }),
    };
    entry.filter(|_| r.r.is_empty()).ok_or(MessageError::Malformed("the fields of an entry"))
}

/// Reader of the fields of an entry.
struct EntryReader<'a, 'n> {
    r: ByteReader<'a>,
    names: &'n [&'a [u8]],
}

impl<'a> EntryReader<'a, '_> {
    fn str(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.r.bytes()?).ok()
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let at = usize::try_from(self.r.varint()?).ok()?;
        self.names.get(at).copied()
    }

    fn name_text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.name()?).ok()
    }

    /// Reads a flag, 0 or 1.
    fn flag(&mut self) -> Option<bool> {
        Some(self.r.u8().filter(|flag| *flag <= 1)? == 1)
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.r.varint()?).ok()
    }

    fn ident(&mut self) -> Option<ArticleIdent<'a>> {
        Some(match self.r.u8()? {
            0 => ArticleIdent::Id(self.r.bytes()?),
            1 => ArticleIdent::Key(ArticleKey(self.r.u128()?)),
            2 => ArticleIdent::InnHash(self.r.array()?),
            _ => return None,
        })
    }

    fn hide(&mut self) -> Option<LogEntry<'a>> {
        Some(LogEntry::Hide { message_id: self.r.bytes()?, by: self.str()?, reason: self.str()? })
    }

    fn note(&mut self) -> Option<LogEntry<'a>> {
        let (kind, key) = (NoteKind::of(self.r.u8()?)?, self.r.bytes()?);
        let value = if self.flag()? { Some(self.r.bytes()?) } else { None };
        Some(LogEntry::Note { kind, key, value })
    }

    fn expire(&mut self) -> Option<LogEntry<'a>> {
        let (id, count) = (self.ident()?, self.r.count(1)?);
        let groups = (0..count).map(|_| self.name_text().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
        Some(LogEntry::Expire { id, groups })
    }

    fn member(&mut self) -> Option<MemberEntry<'a>> {
        Some(MemberEntry {
            number: u16::from_le_bytes(self.r.array()?),
            incarnation: self.r.u64()?,
            has_left: self.flag()?,
            name: self.str()?,
        })
    }

    fn part(&mut self) -> Option<PartEntry<'a>> {
        let upload = self.r.u64()?;
        let number = u32::try_from(self.r.varint()?).ok()?;
        let of = u32::try_from(self.r.varint()?).ok()?;
        let bytes = self.r.bytes()?;
        (number < of && of <= PARTS_MAX && bytes.len() <= PART_BYTES).then_some(PartEntry {
            upload,
            number,
            of,
            bytes,
        })
    }

    fn updates(&mut self) -> Option<Vec<GroupUpdate>> {
        let count = self.r.count(2)?;
        (0..count).map(|_| self.update()).collect()
    }

    fn update(&mut self) -> Option<GroupUpdate> {
        let kind = self.r.u8()?;
        let name = self.name_text()?.to_owned();
        Some(match kind {
            0 => GroupUpdate::Add(NewGroup {
                name,
                flag: GroupFlag::parse(self.str()?)?,
                description: self.str()?.to_owned(),
                creator: self.str()?.to_owned(),
                created: self.r.varint()?,
                high: self.r.varint()?,
            }),
            1 => {
                let flag = if self.flag()? { Some(GroupFlag::parse(self.str()?)?) } else { None };
                let description = if self.flag()? { Some(self.str()?.to_owned()) } else { None };
                GroupUpdate::Change(name, GroupChange { flag, description })
            }
            2 => GroupUpdate::Remove(name),
            3 => GroupUpdate::RaiseHigh(name, self.r.varint()?),
            _ => return None,
        })
    }

    fn article(&mut self) -> Option<ArticleEntry<'a>> {
        let message_id = self.r.bytes()?;
        let (header_bytes, message_id_at) = (self.size()?, self.size()?);
        let groups = match self.r.count(1)? {
            0 => None,
            count => Some((1..count).map(|_| self.name()).collect::<Option<Vec<_>>>()?),
        };
        let numbers = (0..self.r.count(1)?).map(|_| self.r.varint()).collect::<Option<Vec<_>>>()?;
        if !numbers.is_empty() && groups.as_ref().map_or(0, Vec::len) != numbers.len() {
            return None;
        }
        let expires = self.r.varint()?.checked_sub(1);
        let verdict = if self.flag()? { Some(self.str()?) } else { None };
        let wire_bytes = self.r.varint()?.saturating_sub(1);
        let (path, distribution) = (self.r.bytes()?, self.r.bytes()?);
        let (origin, kind) = (self.str()?, ArticleKind(self.r.u8()?));
        let sites = (0..self.r.count(1)?).map(|_| self.name_text()).collect::<Option<Vec<_>>>()?;
        let hidden = if self.flag()? { Some((self.str()?, self.str()?)) } else { None };
        let stands_for = if self.flag()? { Some(ArticleKey(self.r.u128()?)) } else { None };
        let facts = RowFacts { wire_bytes, path, distribution, origin, kind, sites: &[], hidden, stands_for };
        let body = match self.r.u8()? {
            0 => ArticleBody::Inline(self.r.bytes()?),
            1 => ArticleBody::Upload { upload: self.r.u64()?, bytes: self.size()? },
            _ => return None,
        };
        let article = ArticleEntry {
            message_id,
            header_bytes,
            message_id_at,
            groups,
            numbers,
            expires,
            verdict,
            facts,
            sites,
            body,
        };
        match body {
            ArticleBody::Inline(bytes) if !article.fits(bytes) => None,
            _ => Some(article),
        }
    }
}

/// Reports whether bytes are an article with this Message-ID there, and headers of this length.
fn is_article(bytes: &[u8], message_id: &[u8], message_id_at: usize, header_bytes: usize) -> bool {
    let end = message_id_at.saturating_add(message_id.len());
    header_bytes <= bytes.len()
        && bytes.get(message_id_at..end) == Some(message_id)
        && Article::parse(bytes).is_ok_and(|article| article.body_offset() == header_bytes)
}

impl<'a> ArticleEntry<'a> {
    /// Reports whether these bytes are the article that the entry describes.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        is_article(bytes, self.message_id, self.message_id_at, self.header_bytes)
    }

    /// Returns the sites that want the article.
    pub fn sites(&self) -> &[&'a str] {
        &self.sites
    }

    /// Encodes the facts for a journal row, with the bits of the sites in this spool.
    pub fn put_facts(&self, site_bits: &[u8], out: &mut Vec<u8>) {
        RowFacts { sites: site_bits, ..self.facts }.put(out);
    }

    /// Returns the change, of the bytes of the article and its encoded facts, at a time.
    pub fn change<'s>(
        &'s self,
        bytes: &'s [u8],
        pieces: &'s [&'s [u8]],
        tagged: &'s [u8],
        time: u64,
    ) -> Option<Change<'s>> {
        let article = Article::parse(bytes).ok()?;
        let value = |known| article.header(known).unwrap_or_default();
        Some(Change::Article(NewArticle {
            key: None,
            message_id: self.message_id,
            pieces,
            header_bytes: self.header_bytes,
            message_id_at: self.message_id_at,
            groups: self.groups.as_deref().map_or(ArticleGroups::None, ArticleGroups::Named),
            numbers: &self.numbers,
            fields: OverviewFields::of(&article, self.message_id),
            arrived: time,
            expires: self.expires,
            criteria: Criteria {
                from: value(Known::From),
                path: self.facts.path,
                head: article.head(),
                verdict: self.verdict,
                origin: self.facts.origin,
                newsgroups: value(Known::Newsgroups),
            },
            tagged: TaggedFields::new(tagged)?,
        }))
    }
}
