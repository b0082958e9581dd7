//! The body of a checkpoint: sections with a tag and a version (`docs/formats/checkpoint.md`).
//!
//! A section that may be ignored by a program that does not know it has [`MAY_BE_IGNORED`] in its tag; with
//! any other unknown section, or a known one of a later version, the spool is refused. Fields may be added at
//! the end of a section, of a volume and of a group; readers skip everything after the fields that they know.

use super::{BlockState, Checkpoint, GroupCheckpoint, KeptCheckpoint, TakenCheckpoint};
use crate::index::fold::Folds;
use crate::index::groups::{Group, LiveSet};
use crate::index::notes::{KeyedNote, put_notes, read_notes};
use crate::index::overview::SegmentState;
use crate::index::residents::ResidentsState;
use crate::index::rings::{put_places, put_rings, read_places, read_rings};
use spool_base::codec::{ByteReader, put_bytes, put_sized, put_u64, put_varint};
use spool_base::digest::SetSum;
use spool_base::ids::GroupId;
use spool_base::note::NoteKind;
use spool_journal::{
    GroupRow, VolumeRow, put_group, put_hidden, put_volume, read_group, read_hidden, read_volume,
};
use std::io;
use std::sync::atomic::Ordering;

/// Bit of sections that a program may ignore if it does not know them.
const MAY_BE_IGNORED: u8 = 0x80;
/// Returns the version in which a section is written. Version 2 of the section of retained articles keeps out
/// programs that do not know about list pages with threads, version 3 those that do not know about pages
/// whose checksum covers their length (`docs/formats/kept.md`).
fn version(tag: u8) -> u8 {
    if tag == tag::KEPT { 3 } else { 1 }
}

mod tag {
    pub const STATE: u8 = 1;
    pub const HISTORY: u8 = 2;
    pub const VOLUMES: u8 = 3;
    pub const SEGMENTS: u8 = 4;
    pub const GROUPS: u8 = 5;
    pub const KEPT: u8 = 6;
    pub const GONE_NAMES: u8 = 7;
    pub const SITES: u8 = 8;
    pub const HIDDEN: u8 = 9;
    pub const NOTES: u8 = 10;
    pub const POSITION: u8 = 11;
    pub const RINGS: u8 = 12;
    /// Highest tag that must be known.
    pub const LAST: u8 = RINGS;
    /// Sections that every checkpoint has.
    pub const ALWAYS: [u8; 5] = [STATE, HISTORY, VOLUMES, SEGMENTS, GROUPS];
}

/// Appends one section.
fn put_section<T>(tag: u8, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    out.extend_from_slice(&[tag, version(tag)]);
    let start = out.len();
    put_u64(0, out);
    let result = put(out);
    let len = (out.len() - start) as u64 - 8;
    if let Some(field) = out.get_mut(start..start + 8) {
        field.copy_from_slice(&len.to_le_bytes());
    }
    result
}

/// Fills `taken` with all sections, and with the files to be synced before it and those to be removed after
/// it.
pub(super) fn put_all(folds: &mut Folds, taken: &mut TakenCheckpoint) -> io::Result<()> {
    let mut out = std::mem::take(&mut taken.bytes);
    let shared = folds.shared.clone();
    put_section(tag::STATE, &mut out, |out| {
        put_u64(taken.position, out);
        put_u64(folds.next_sequence, out);
        put_u64(shared.articles.load(Ordering::Relaxed), out);
        out.extend_from_slice(&folds.boot_id);
        out.push(u8::from(folds.closed));
        put_bytes(folds.identity.as_bytes(), out);
    });
    put_section(tag::HISTORY, &mut out, |out| {
        let history = shared.history.checkpoint();
        put_u64(history.first_record, out);
        put_u64(history.next_record, out);
        out.extend_from_slice(&folds.forgotten_at.to_le_bytes());
        if !shared.is_digest_vague.load(Ordering::Acquire) {
            out.extend_from_slice(&shared.history.sum().0.to_le_bytes());
        }
    });
    put_section(tag::VOLUMES, &mut out, |out| put_volumes(folds, taken, out))?;
    put_section(tag::SEGMENTS, &mut out, |out| {
        let segments = folds.segments.checkpoint();
        taken.segments = folds.segments.to_sync();
        taken.dead.extend(folds.segments.take_dead());
        put_varint(segments.len() as u64, out);
        for segment in segments {
            put_varint(u64::from(segment.number), out);
            put_varint(segment.len, out);
        }
    });
    put_section(tag::GROUPS, &mut out, |out| put_groups(folds, out));
    if folds.kept.iter().flatten().next().is_some() {
        put_section(tag::KEPT, &mut out, |out| put_kept(folds, taken, out))?;
    }
    let table = shared.groups.snapshot();
    let gone = folds.names.gone(|id| table.get(id).is_none());
    if !gone.is_empty() {
        put_section(tag::GONE_NAMES, &mut out, |out| {
            put_varint(gone.len() as u64, out);
            for (id, name) in gone {
                put_varint(u64::from(id), out);
                put_bytes(name.as_bytes(), out);
            }
        });
    }
    if !folds.sites.is_empty() {
        put_section(tag::SITES, &mut out, |out| {
            put_varint(folds.sites.len() as u64, out);
            folds.sites.iter().for_each(|name| put_bytes(name.as_bytes(), out));
        });
    }
    let hidden = shared.hidden.all();
    if !hidden.is_empty() {
        put_section(tag::HIDDEN, &mut out, |out| {
            put_varint(hidden.len() as u64, out);
            hidden.iter().for_each(|hidden| put_sized(out, |out| put_hidden(hidden, out)));
        });
    }
    let notes: Vec<KeyedNote> = NoteKind::ALL.into_iter().flat_map(|kind| shared.notes.all(kind)).collect();
    if !notes.is_empty() {
        put_section(tag::NOTES, &mut out, |out| put_notes(&notes, out));
    }
    if !folds.position.is_empty() {
        put_section(tag::POSITION, &mut out, |out| put_bytes(&folds.position, out));
    }
    let volumes = shared.volumes.load();
    let cyclic = volumes.all().iter().filter_map(|volume| volume.cyclic());
    let left = cyclic.filter(|v| v.left_to() > v.tail_at(v.head()));
    let left: Vec<(u16, u64)> = left.map(|v| (v.id(), v.left_to())).collect();
    if !folds.rings.is_empty() || !left.is_empty() {
        put_section(tag::RINGS, &mut out, |out| {
            put_rings(folds.rings.all(), out);
            put_places(&left, out);
        });
    }
    taken.bytes = out;
    Ok(())
}

fn put_volumes(folds: &mut Folds, taken: &mut TakenCheckpoint, out: &mut Vec<u8>) -> io::Result<()> {
    let volumes = folds.shared.volumes.load();
    let gone = folds.last_volume();
    put_varint(volumes.all().len() as u64 + u64::from(gone.is_some()), out);
    let put = |row: &VolumeRow, state: ResidentsState, out: &mut Vec<u8>| {
        put_sized(out, |out| {
            put_volume(row, out);
            put_u64(state.read, out);
            put_u64(state.written, out);
        });
    };
    for (volume, residents) in volumes.all().iter().zip(&mut folds.residents) {
        let (method, name) = (volume.method() as u8, volume.name().to_owned());
        let state = residents.checkpoint()?;
        put(&VolumeRow { id: volume.id(), method, name, head: volume.head() }, state, out);
        taken.files.extend(residents.take_dirty());
        taken.dead.extend(residents.take_dead(state));
        taken.dirs.push(residents.dir().into());
    }
    if let Some(row) = gone {
        put(&row, ResidentsState::default(), out);
    }
    Ok(())
}

fn put_groups(folds: &Folds, out: &mut Vec<u8>) {
    let removals = folds.removals();
    put_varint(removals.len() as u64, out);
    for (name, high) in &removals {
        put_bytes(name.as_bytes(), out);
        put_varint(*high, out);
    }
    let table = folds.shared.groups.snapshot();
    put_varint(folds.numbers.len() as u64, out);
    put_varint(table.sorted().len() as u64, out);
    for group in table.sorted().iter() {
        put_sized(out, |out| put_group_state(folds, group, out));
    }
}

fn put_group_state(folds: &Folds, group: &Group, out: &mut Vec<u8>) {
    // This row's field holds the highest number shown; the highest assigned number follows in a field of its
    // own.
    let high = group.state().high;
    put_group(&GroupRow { high, ..folds.group_row(group) }, out);
    put_varint(folds.numbers.get(group.id.0 as usize).map_or(0, |n| n.assigned), out);
    let state = group.state();
    let chunks = state.live.save();
    put_varint(chunks.len() as u64, out);
    for (first, words) in chunks {
        put_varint(first, out);
        words.iter().for_each(|w| put_u64(*w, out));
    }
    put_varint(state.overview.blocks.iter().filter(|b| b.live > 0).count() as u64, out);
    for b in state.overview.blocks.iter().filter(|b| b.live > 0) {
        let numbers = [b.first, b.last - b.first, u64::from(b.segment.number), b.offset];
        let small = [b.len, b.count, b.live, b.arrived_max].map(u64::from);
        numbers.iter().chain(&small).for_each(|n| put_varint(*n, out));
    }
    let mut open = Vec::new();
    if !state.overview.open.entries.is_empty() {
        state.overview.open.encode(group.id, &mut open);
    }
    put_bytes(&open, out);
    put_varint(state.changed, out);
    out.extend_from_slice(&state.sum.0.to_le_bytes());
}

fn put_kept(folds: &mut Folds, taken: &mut TakenCheckpoint, out: &mut Vec<u8>) -> io::Result<()> {
    let volumes = folds.shared.volumes.load();
    put_varint(folds.kept.iter().flatten().count() as u64, out);
    for (volume, list) in volumes.all().iter().zip(&mut folds.kept) {
        let Some(list) = list else { continue };
        let files = list.checkpoint()?;
        taken.files.extend(list.take_dirty());
        taken.dead.extend(list.take_dead());
        taken.dirs.push(list.dir().into());
        put_sized(out, |out| {
            put_varint(u64::from(volume.id()), out);
            put_varint(files.len() as u64, out);
            files.iter().for_each(|(number, len)| {
                put_varint(*number, out);
                put_varint(*len, out);
            });
            let mut own = Vec::new();
            if let Some(volume) = volume.retained() {
                volume.save(&mut own);
            }
            put_bytes(&own, out);
        });
    }
    Ok(())
}

/// Reason why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CheckpointError {
    /// No version writes such a body.
    Damaged,
    /// Part that a later version wrote and that is not known here.
    Newer(String),
}

/// Reads a body.
pub(super) fn read_all(body: &[u8]) -> Result<Checkpoint, CheckpointError> {
    let mut r = ByteReader(body);
    let (mut c, mut seen) = (Checkpoint::default(), Vec::new());
    while !r.is_empty() {
        let (tag, found, content) = read_section(&mut r).ok_or(CheckpointError::Damaged)?;
        if !(tag::STATE..=tag::LAST).contains(&tag) {
            if tag & MAY_BE_IGNORED != 0 {
                continue;
            }
            return Err(CheckpointError::Newer(format!("a section {tag}")));
        }
        if found > version(tag) {
            return Err(CheckpointError::Newer(format!("section {tag} in version {found}")));
        }
        c.read_section(tag, &mut ByteReader(content)).ok_or(CheckpointError::Damaged)?;
        seen.push(tag);
    }
    if tag::ALWAYS.iter().all(|tag| seen.contains(tag)) { Ok(c) } else { Err(CheckpointError::Damaged) }
}

fn read_section<'a>(r: &mut ByteReader<'a>) -> Option<(u8, u8, &'a [u8])> {
    let (tag, version) = (r.u8()?, r.u8()?);
    let len = usize::try_from(r.u64()?).ok()?;
    Some((tag, version, r.take(len)?))
}

impl Checkpoint {
    fn read_section(&mut self, tag: u8, r: &mut ByteReader<'_>) -> Option<()> {
        match tag {
            tag::STATE => self.read_state(r)?,
            tag::HISTORY => {
                self.history = spool_history::RecordRange { first_record: r.u64()?, next_record: r.u64()? };
                self.forgotten_at = if r.is_empty() { 0 } else { r.u32()? };
                self.known_ids = if r.is_empty() { None } else { Some(SetSum(r.u128()?)) };
            }
            tag::VOLUMES => {
                for _ in 0..r.count(4)? {
                    let mut r = r.sized()?;
                    let state =
                        |r: &mut ByteReader<'_>| Some(ResidentsState { read: r.u64()?, written: r.u64()? });
                    self.volumes.push((read_volume(&mut r)?, state(&mut r)?));
                }
            }
            tag::SEGMENTS => self.read_segments(r)?,
            tag::GROUPS => {
                self.read_retired(r)?;
                let count = r.count(4)?;
                self.groups.reserve_exact(count);
                for _ in 0..count {
                    self.groups.push(read_sized_group(&mut r.sized()?)?);
                }
            }
            tag::KEPT => {
                for _ in 0..r.count(4)? {
                    self.kept.push(read_kept(&mut r.sized()?)?);
                }
            }
            tag::GONE_NAMES => self.read_gone_names(r)?,
            tag::HIDDEN => {
                for _ in 0..r.count(4)? {
                    self.hidden.push(read_hidden(&mut r.sized()?)?);
                }
            }
            tag::NOTES => self.notes = read_notes(r)?,
            tag::POSITION => self.log_position = r.bytes()?.to_vec(),
            tag::RINGS => {
                self.rings = read_rings(r)?;
                self.left_to = read_places(r)?;
            }
            _ => {
                for _ in 0..r.count(1)? {
                    self.sites.push(r.text()?);
                }
            }
        }
        Some(())
    }

    pub(super) fn read_state(&mut self, r: &mut ByteReader<'_>) -> Option<()> {
        self.position = r.u64()?;
        self.next_sequence = r.u64()?;
        self.articles = r.u64()?;
        self.boot_id = r.array()?;
        self.closed = r.u8()? == 1;
        self.identity = r.text()?;
        Some(())
    }

    pub(super) fn read_segments(&mut self, r: &mut ByteReader<'_>) -> Option<()> {
        for _ in 0..r.count(2)? {
            self.segments.push(SegmentState { number: u32::try_from(r.varint()?).ok()?, len: r.varint()? });
        }
        Some(())
    }

    /// Reads the removed groups, and the id of the next new one.
    pub(super) fn read_retired(&mut self, r: &mut ByteReader<'_>) -> Option<()> {
        for _ in 0..r.count(2)? {
            self.retired.push((r.text()?, r.varint()?));
        }
        self.next_group = u32::try_from(r.varint()?).ok()?;
        Some(())
    }

    pub(super) fn read_gone_names(&mut self, r: &mut ByteReader<'_>) -> Option<()> {
        for _ in 0..r.count(2)? {
            self.gone_names.push((u32::try_from(r.varint()?).ok()?, r.text()?));
        }
        Some(())
    }
}

pub(super) fn read_kept(r: &mut ByteReader<'_>) -> Option<KeptCheckpoint> {
    let mut kept = KeptCheckpoint { volume: u16::try_from(r.varint()?).ok()?, ..KeptCheckpoint::default() };
    for _ in 0..r.count(2)? {
        kept.files.push((r.varint()?, r.varint()?));
    }
    kept.own = r.bytes()?.to_vec();
    Some(kept)
}

/// A group with the fields that only sized values have.
fn read_sized_group(r: &mut ByteReader<'_>) -> Option<GroupCheckpoint> {
    let mut group = read_group_state(r)?;
    if !r.is_empty() {
        group.changed = r.varint()?;
    }
    if !r.is_empty() {
        group.sum = SetSum(r.u128()?);
    }
    Some(group)
}

pub(super) fn read_group_state(r: &mut ByteReader<'_>) -> Option<GroupCheckpoint> {
    let mut g = GroupCheckpoint { row: read_group(r)?, assigned: r.varint()?, ..GroupCheckpoint::default() };
    for _ in 0..r.count(8 * LiveSet::CHUNK_WORDS)? {
        let first = r.varint()?;
        let mut words = [0; LiveSet::CHUNK_WORDS];
        for word in &mut words {
            *word = r.u64()?;
        }
        g.live.load(first, words).then_some(())?;
    }
    for _ in 0..r.count(8)? {
        let (first, span) = (r.varint()?, r.varint()?);
        let small = |r: &mut ByteReader<'_>| u32::try_from(r.varint()?).ok();
        g.blocks.push(BlockState {
            first,
            last: first.checked_add(span)?,
            segment: small(r)?,
            offset: r.varint()?,
            len: small(r)?,
            count: small(r)?,
            live: small(r)?,
            arrived_max: small(r)?,
        });
    }
    let open = r.bytes()?;
    if !open.is_empty() {
        g.open.decode(GroupId(g.row.id), open).then_some(())?;
    }
    Some(g)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a body with the sections that every checkpoint has, followed by what `more` appends.
    fn body(more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put_section(tag::STATE, &mut out, |out| {
            (1..=3).for_each(|n| put_u64(n, out));
            out.extend_from_slice(&[9; 16]);
            out.push(1);
            put_bytes(b"news.example", out);
            out.extend_from_slice(b"a field of a later version");
        });
        put_section(tag::HISTORY, &mut out, |out| out.extend_from_slice(&[0; 16]));
        put_section(tag::VOLUMES, &mut out, |out| put_varint(0, out));
        put_section(tag::SEGMENTS, &mut out, |out| put_varint(0, out));
        put_section(tag::GROUPS, &mut out, |out| out.extend_from_slice(&[0, 7, 0]));
        more(&mut out);
        out
    }

    #[test]
    fn unknown_sections_are_ignored_or_refused_by_their_tag() {
        let ignored = body(|out| put_section(MAY_BE_IGNORED | 70, out, |out| out.push(1)));
        let c = read_all(&ignored).unwrap();
        assert_eq!((c.position, c.articles, c.identity.as_str(), c.next_group), (1, 3, "news.example", 7));
        let refused = body(|out| put_section(70, out, |out| out.push(1)));
        assert_eq!(read_all(&refused).unwrap_err(), CheckpointError::Newer("a section 70".into()));
        let mut later = body(|_| ());
        later[1] = version(tag::STATE) + 1;
        assert_eq!(read_all(&later).unwrap_err(), CheckpointError::Newer("section 1 in version 2".into()));
        // All versions of the section of retained articles are read.
        let start = body(|_| ()).len();
        let mut kept = body(|out| put_section(tag::KEPT, out, |out| put_varint(0, out)));
        assert_eq!(kept[start..start + 2], [tag::KEPT, 3]);
        for (found, is_read) in [(1, true), (2, true), (3, true), (4, false)] {
            kept[start + 1] = found;
            assert_eq!(read_all(&kept).is_ok(), is_read, "{found}");
        }
    }

    #[test]
    fn a_body_that_lacks_anything_is_damaged() {
        let whole = body(|_| ());
        for cut in 0..whole.len() {
            assert_eq!(read_all(&whole[..cut]).unwrap_err(), CheckpointError::Damaged, "{cut}");
        }
    }
}
