//! The checkpoint: all folds as of one journal position (`docs/formats/checkpoint.md`).
//!
//! One file, `index/checkpoint`, and its copy, each replaced by rename after everything it speaks of is durable. Opening loads it and
//! replays the journal from its position. Taking one ([`take`]) is a copy in memory under the writer's lock; writing
//! it ([`Taken::write`]) happens in the syncing thread.

use crate::base::codec::{Reader, put_bytes, put_u64, put_varint};
use crate::base::ids::GroupId;
use crate::disk::{Disk, DiskFile, Open};
use crate::index::fold::Folds;
use crate::index::groups::{Group, LiveSet};
use crate::index::history;
use crate::index::kept::KeptState;
use crate::index::overview::{BlockRef, Rows, Segment, SegmentState, Segments};
use crate::index::residents::ResidentsState;
use crate::journal::{GroupRow, VolumeRow, put_group, put_volume, read_group, read_volume};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MAGIC: &[u8; 8] = b"NCheckp1";
/// The two copies, in the order in which they are written.
pub(crate) const NAMES: [&str; 2] = ["checkpoint", "checkpoint.copy"];
/// Row text left in open blocks by a checkpoint, over all groups; beyond it the biggest are closed.
const OPEN_TEXT_BYTES_MAX: usize = 8 << 20;

/// A closed block in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockState {
    pub first: u64,
    pub last: u64,
    pub segment: u32,
    pub offset: u64,
    pub len: u32,
    pub count: u32,
    pub live: u32,
    pub arrived_max: u32,
}

/// A group in a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct GroupCheckpoint {
    pub row: GroupRow,
    pub assigned: u64,
    pub live: LiveSet,
    pub blocks: Vec<BlockState>,
    pub open: Rows,
}

/// A volume that keeps, in a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct KeptCheckpoint {
    pub volume: u16,
    pub files: KeptState,
    /// What the volume itself wants to know again.
    pub own: Vec<u8>,
}

/// A checkpoint as read from disk.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    pub position: u64,
    pub next_sequence: u64,
    pub articles: u64,
    pub boot_id: [u8; 16],
    pub closed: bool,
    pub identity: String,
    pub history: history::Checkpoint,
    pub volumes: Vec<(VolumeRow, ResidentsState)>,
    pub segments: Vec<SegmentState>,
    pub retired: Vec<(String, u64)>,
    /// The id that the next new group gets.
    pub next_group: u32,
    pub groups: Vec<GroupCheckpoint>,
    pub kept: Vec<KeptCheckpoint>,
    /// Removed groups' names by number.
    pub gone_names: Vec<(u32, String)>,
    /// Length of the file.
    pub bytes: u64,
    /// Its other copy is damaged, missing or older.
    pub alone: bool,
}

/// A checkpoint taken in memory: the file's bytes and what must be durable before it.
#[derive(Debug)]
pub(crate) struct Taken {
    bytes: Vec<u8>,
    dir: PathBuf,
    pub position: u64,
    files: Vec<Arc<dyn DiskFile>>,
    segments: Vec<Arc<Segment>>,
    dirs: Vec<PathBuf>,
    dead: Vec<PathBuf>,
}

/// Takes a checkpoint of the folds at journal position `position`.
/// History records below `kept_from` are given up with it.
pub(crate) fn take(
    folds: &mut Folds,
    dir: &Path,
    position: u64,
    kept_from: u64,
    now: u64,
) -> io::Result<Taken> {
    write_out(folds, now)?;
    let shared = folds.shared.clone();
    let mut out = Vec::with_capacity(1 << 20);
    put_u64(position, &mut out);
    put_u64(folds.next_sequence, &mut out);
    put_u64(shared.articles.load(Ordering::Relaxed), &mut out);
    out.extend_from_slice(&folds.boot_id);
    out.push(u8::from(folds.closed));
    put_bytes(folds.identity.as_bytes(), &mut out);
    let history = shared.history.checkpoint();
    put_u64(history.first_record.max(kept_from).min(history.next_record), &mut out);
    put_u64(history.next_record, &mut out);
    let mut taken = Taken {
        bytes: Vec::new(),
        dir: dir.into(),
        position,
        files: Vec::new(),
        segments: Vec::new(),
        dirs: vec![folds.segments.dir().into()],
        dead: Vec::new(),
    };
    let volumes = shared.volumes.load();
    let gone = folds.last_volume();
    put_varint(volumes.all().len() as u64 + u64::from(gone.is_some()), &mut out);
    for (volume, residents) in volumes.all().iter().zip(&mut folds.residents) {
        let (method, name) = (volume.method() as u8, volume.name().to_owned());
        put_volume(&VolumeRow { id: volume.id(), method, name, head: volume.head() }, &mut out);
        let state = residents.checkpoint()?;
        put_u64(state.read, &mut out);
        put_u64(state.written, &mut out);
        taken.files.extend(residents.take_dirty());
        taken.dead.extend(residents.take_dead(state));
        taken.dirs.push(residents.dir().into());
    }
    if let Some(row) = gone {
        put_volume(&row, &mut out);
        put_u64(0, &mut out);
        put_u64(0, &mut out);
    }
    let segments = folds.segments.checkpoint();
    taken.segments = folds.segments.to_sync();
    taken.dead.extend(folds.segments.take_dead());
    put_varint(segments.len() as u64, &mut out);
    for segment in segments {
        put_varint(u64::from(segment.number), &mut out);
        put_varint(segment.len, &mut out);
    }
    put_varint(folds.retired.len() as u64, &mut out);
    for (name, high) in &folds.retired {
        put_bytes(name.as_bytes(), &mut out);
        put_varint(*high, &mut out);
    }
    let table = shared.groups.snapshot();
    put_varint(folds.numbers.len() as u64, &mut out);
    put_varint(table.sorted().len() as u64, &mut out);
    for group in table.sorted().iter() {
        put_group_state(folds, group, &mut out);
    }
    put_kept(folds, &mut taken, &mut out)?;
    taken.bytes = out;
    Ok(taken)
}

/// Writes what a checkpoint needs in files. Whatever of it fails, nothing of the checkpoint is taken, and it can be tried again.
fn write_out(folds: &mut Folds, now: u64) -> io::Result<()> {
    close_big_blocks(folds)?;
    let volumes = folds.shared.volumes.load();
    volumes.all().iter().try_for_each(|volume| volume.write_header(now))?;
    folds.residents.iter_mut().try_for_each(|residents| residents.write_out())?;
    folds.kept.iter_mut().flatten().try_for_each(|list| list.write_all())
}

/// What volumes that keep, and removed groups, need. Left out where there is neither.
fn put_kept(folds: &mut Folds, taken: &mut Taken, out: &mut Vec<u8>) -> io::Result<()> {
    let volumes = folds.shared.volumes.load();
    let table = folds.shared.groups.snapshot();
    let gone = folds.names.gone(|id| table.get(id).is_none());
    let count = folds.kept.iter().flatten().count();
    if count == 0 && gone.is_empty() {
        return Ok(());
    }
    put_varint(count as u64, out);
    for (volume, list) in volumes.all().iter().zip(&mut folds.kept) {
        let Some(list) = list else { continue };
        let files = list.checkpoint()?;
        taken.files.extend(list.take_dirty());
        taken.dead.extend(list.take_dead());
        taken.dirs.push(list.dir().into());
        put_varint(u64::from(volume.id()), out);
        put_varint(files.len() as u64, out);
        files.iter().for_each(|(number, len)| {
            put_varint(*number, out);
            put_varint(*len, out);
        });
        let mut own = Vec::new();
        volume.save(&mut own);
        put_bytes(&own, out);
    }
    put_varint(gone.len() as u64, out);
    for (id, name) in gone {
        put_varint(u64::from(id), out);
        put_bytes(name.as_bytes(), out);
    }
    Ok(())
}

/// Keeps the text in open blocks within bounds, closing the biggest.
fn close_big_blocks(folds: &mut Folds) -> io::Result<()> {
    let table = folds.shared.groups.snapshot();
    let mut sizes: Vec<(usize, &Arc<Group>)> = table
        .sorted()
        .iter()
        .map(|g| (g.state().overview.open.text.len(), g))
        .filter(|(n, _)| *n > 0)
        .collect();
    let mut total: usize = sizes.iter().map(|(n, _)| n).sum();
    if total <= OPEN_TEXT_BYTES_MAX {
        return Ok(());
    }
    sizes.sort_unstable_by_key(|(n, _)| std::cmp::Reverse(*n));
    for (n, group) in sizes {
        if total <= OPEN_TEXT_BYTES_MAX {
            break;
        }
        let state = &mut *group.state();
        state.overview.close(group.id, &state.live, &mut folds.segments)?;
        total -= n;
    }
    Ok(())
}

fn put_group_state(folds: &Folds, group: &Group, out: &mut Vec<u8>) {
    put_group(&folds.group_row(group), out);
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
}

impl Taken {
    /// Syncs what the checkpoint speaks of (buffers and journal are the caller's part), writes it, and removes the
    /// files that nothing names any more.
    pub fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        self.files.iter().try_for_each(|f| f.sync())?;
        self.segments.iter().try_for_each(|s| s.sync())?;
        self.dirs.iter().try_for_each(|d| disk.sync_dir(d))?;
        let crc = crate::base::crc::crc32c(&self.bytes).to_le_bytes();
        // One whole copy is there at every moment.
        for name in NAMES {
            let (new, path) = (self.dir.join(format!("{name}.new")), self.dir.join(name));
            let file = disk.open(&new, Open::Create)?;
            file.set_len(0)?;
            file.write_all_at(&[IoSlice::new(MAGIC), IoSlice::new(&crc), IoSlice::new(&self.bytes)], 0)?;
            file.sync()?;
            disk.rename(&new, &path)?;
            disk.sync_dir(&self.dir)?;
        }
        for path in &self.dead {
            match disk.remove(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    /// Length of the checkpoint's file.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Checkpoint {
    /// Reads the newer of the checkpoint's two copies; `None` if there is none, or both are damaged.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Option<Self> {
        let copy = |name| Self::read_copy(disk, &dir.join(name)).ok().flatten();
        let copies: Vec<Self> = NAMES.into_iter().filter_map(copy).collect();
        let alone = copies.len() < NAMES.len() || copies.windows(2).any(|w| w[0].position != w[1].position);
        copies.into_iter().max_by_key(|c| c.position).map(|c| Self { alone, ..c })
    }

    /// Reads one copy; `Ok(None)` if it is damaged.
    pub fn read_copy(disk: &dyn Disk, path: &Path) -> io::Result<Option<Self>> {
        let file = disk.open(path, Open::ReadOnly)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let Some((head, body)) = bytes.split_at_checked(MAGIC.len() + 4) else { return Ok(None) };
        if !head.starts_with(MAGIC)
            || head.get(MAGIC.len()..) != Some(&crate::base::crc::crc32c(body).to_le_bytes())
        {
            return Ok(None);
        }
        Ok(Self::decode(body).map(|c| Self { bytes: bytes.len() as u64, ..c }))
    }

    /// Whether it names articles in a volume that keeps.
    pub fn keeps_in(&self, volume: u16) -> bool {
        self.kept.iter().any(|k| k.volume == volume && !k.files.is_empty())
    }

    fn read_kept(&mut self, r: &mut Reader<'_>) -> Option<()> {
        if r.is_empty() {
            return Some(());
        }
        for _ in 0..r.count(3)? {
            let mut k =
                KeptCheckpoint { volume: u16::try_from(r.varint()?).ok()?, ..KeptCheckpoint::default() };
            for _ in 0..r.count(2)? {
                k.files.push((r.varint()?, r.varint()?));
            }
            k.own = r.bytes()?.to_vec();
            self.kept.push(k);
        }
        for _ in 0..r.count(2)? {
            self.gone_names.push((u32::try_from(r.varint()?).ok()?, r.text()?));
        }
        Some(())
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let r = &mut Reader(body);
        let mut c = Self {
            position: r.u64()?,
            next_sequence: r.u64()?,
            articles: r.u64()?,
            boot_id: r.array()?,
            closed: r.u8()? == 1,
            identity: r.text()?,
            history: history::Checkpoint { first_record: r.u64()?, next_record: r.u64()? },
            ..Self::default()
        };
        for _ in 0..r.count(28)? {
            c.volumes.push((read_volume(r)?, ResidentsState { read: r.u64()?, written: r.u64()? }));
        }
        for _ in 0..r.count(2)? {
            c.segments.push(SegmentState { number: u32::try_from(r.varint()?).ok()?, len: r.varint()? });
        }
        for _ in 0..r.count(2)? {
            c.retired.push((r.text()?, r.varint()?));
        }
        c.next_group = u32::try_from(r.varint()?).ok()?;
        for _ in 0..r.count(8)? {
            c.groups.push(read_group_state(r)?);
        }
        c.read_kept(r)?;
        Some(c)
    }
}

fn read_group_state(r: &mut Reader<'_>) -> Option<GroupCheckpoint> {
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
        let small = |r: &mut Reader<'_>| u32::try_from(r.varint()?).ok();
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

/// Turns a group's saved blocks into references, counting the living ones of each segment.
pub(crate) fn restore_blocks(
    group: GroupId,
    blocks: &[BlockState],
    segments: &Segments,
) -> Option<Vec<BlockRef>> {
    let restore = |b: &BlockState| {
        let segment = segments.get(b.segment)?.clone();
        segment.holds(group, b.first, b.arrived_max);
        let BlockState { first, last, offset, len, count, live, arrived_max, .. } = *b;
        Some(BlockRef { first, last, segment, offset, len, count, live, arrived_max })
    };
    blocks.iter().map(restore).collect()
}
