//! Rebuilding all indexes: one sequential pass over the buffers (`docs/states.md`).
//!
//! Every record carries its Xref, arrival time, sequence and Message-ID hash, so nothing else is needed; what is left
//! of the journal adds groups' flags, promised numbers and remembered ids. Records of several buffers are taken in the
//! order of their sequence, so that the folds see the articles as they came.

use crate::config::SpoolConfig;
use crate::disk::Disk;
use crate::error::SpoolError;
use crate::fold::{Folds, Published, Shared};
use crate::groups::{Flag, GroupId};
use crate::journal::{GroupRow, JournalReader, Row};
use crate::key::Key;
use crate::method::Volume;
use crate::method::cnfs::record::{END, HEADER_BYTES, RecordHeader, is_whole};
use crate::progress::Progress;
use crate::reading::Patience;
use crate::recovery::{self, Paths};
use crate::token::{MethodKind, Token};
use netnews::article::{Article, Known};
use netnews::overview_row::{Fields, append_fields};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// What a rebuild found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Living articles found.
    pub articles: u64,
    /// Groups carried.
    pub groups: u64,
}

/// Makes all indexes anew from the buffers. The spool must not be open.
pub fn rebuild(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<RebuildReport, SpoolError> {
    let paths = Paths::new(&config.dir);
    let _lock = recovery::lock(&*disk, &config.dir)?;
    recovery::wipe_indexes(&*disk, &paths).map_err(SpoolError::io("clear indexes in", &paths.index))?;
    let (mut writer, recovery) = recovery::recover_from_buffers(disk, config, progress)?;
    let shared = writer.folds.shared.clone();
    writer.close().map_err(SpoolError::io("write indexes in", &paths.index))?;
    writer.sync.end();
    writer.sync.run(&shared);
    if let Some(trouble) = writer.sync.trouble() {
        return Err(SpoolError::Unfit(format!("the rebuilt indexes could not be written: {trouble}")));
    }
    let groups = shared.groups.snapshot().sorted().len() as u64;
    Ok(RebuildReport { articles: recovery.rebuilt.unwrap_or(0), groups })
}

/// Group:number pairs of the Xref line that a stored article begins with; groups not carried are left out.
pub(crate) fn xref_numbers(shared: &Shared, head: &[u8]) -> Vec<(GroupId, u64)> {
    let table = shared.groups.table();
    let pairs = xref_pairs(head);
    pairs.filter_map(|(name, number)| Some((table.id(name)?, number))).collect()
}

fn xref_pairs(head: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let line = head.split(|b| *b == b'\r').next().and_then(|l| l.strip_prefix(b"Xref: ")).unwrap_or_default();
    let pair = |p: &'_ [u8]| {
        let colon = memchr::memrchr(b':', p)?;
        Some((p.get(..colon)?.len(), netnews::decimal::parse_decimal(p.get(colon + 1..)?)?))
    };
    line.split(|b| *b == b' ').skip(1).filter_map(move |p| {
        let (len, number) = pair(p)?;
        Some((p.get(..len)?, number))
    })
}

/// Fills empty folds from the buffers; returns the number of living articles and the journal's end.
pub(crate) fn from_buffers(
    folds: &mut Folds,
    journal: &Path,
    progress: &dyn Progress,
) -> Result<(u64, u64), SpoolError> {
    let io = |doing: &'static str| SpoolError::io(doing, journal);
    let shared = folds.shared.clone();
    let mut leftovers = Leftovers::default();
    let end = leftovers.collect(folds, journal).map_err(io("read journal in"))?;
    let mut scans = Vec::new();
    for volume in shared.volumes.all().iter().filter(|v| v.method() == MethodKind::Cnfs) {
        let known = leftovers.heads.get(&volume.id()).copied();
        let head = match known {
            Some(head) => head,
            None => walk_to_head(&**volume)?,
        };
        // Clears the usage bitmap; publishing sets it again.
        volume.advance(volume.head() + 2 * volume.area());
        volume.reset_head(head);
        scans.push(Scan::new(volume.clone()));
    }
    let total: u64 = scans.iter().map(|s| s.end - s.at).sum();
    progress.start("reading the buffers", total);
    let mut articles = 0;
    let mut fronts: Vec<Option<RecordHeader>> = Vec::new();
    for scan in &mut scans {
        fronts.push(scan.next()?);
    }
    let mut taken = 0u64;
    while let Some(i) = oldest(&fronts) {
        let (Some(scan), Some(Some(header))) = (scans.get_mut(i), fronts.get(i).copied()) else { break };
        articles += u64::from(publish_record(folds, &header, scan));
        taken += 1;
        if taken.is_multiple_of(16_384) {
            progress.step(total - scans.iter().map(|s| s.end - s.at).sum::<u64>());
        }
        if let (Some(front), Some(scan)) = (fronts.get_mut(i), scans.get_mut(i)) {
            *front = scan.next()?;
        }
    }
    for (key, arrived) in leftovers.remembered {
        if matches!(shared.history.lookup(&key), crate::history::Found::None) {
            folds.remember(key, arrived);
        }
    }
    for numbers in &mut folds.numbers {
        numbers.assigned = numbers.assigned.max(numbers.promised());
    }
    progress.finish();
    Ok((articles, end))
}

/// The scan whose record comes first in the spool's order.
fn oldest(fronts: &[Option<RecordHeader>]) -> Option<usize> {
    let sequence = |(i, h): (usize, &Option<RecordHeader>)| Some((h.as_ref()?.sequence, i));
    fronts.iter().enumerate().filter_map(sequence).min().map(|(_, i)| i)
}

/// What the journal still knows that records do not.
#[derive(Default)]
struct Leftovers {
    heads: BTreeMap<u16, u64>,
    remembered: Vec<(Key, u32)>,
}

impl Leftovers {
    fn collect(&mut self, folds: &mut Folds, journal: &Path) -> io::Result<u64> {
        let disk = folds.shared.disk.clone();
        let mut reader = JournalReader::open(&disk, journal, None)?;
        while let Some((_, payload)) = reader.next()? {
            let Some(row) = Row::decode(payload) else { continue };
            match &row {
                Row::Article(a) => self.head(a.token.volume, a.token.place + a.stored_bytes),
                Row::Skip { volume, head } => self.head(*volume, *head),
                Row::Volume(v) => self.head(v.id, v.head),
                Row::Remember { key, arrived } => self.remembered.push((*key, *arrived)),
                Row::Cancel { key, .. } => self.remembered.push((*key, 0)),
                Row::Group(_)
                | Row::GroupRemoved { .. }
                | Row::Promise(_)
                | Row::PowerLost
                | Row::Identity(_)
                | Row::Opened { .. }
                | Row::Closed => folds.apply(&row)?,
                Row::Synced { .. } | Row::Probe | Row::Void(_) => {}
            }
        }
        Ok(reader.position())
    }

    fn head(&mut self, volume: u16, head: u64) {
        let known = self.heads.entry(volume).or_default();
        *known = head.max(*known);
    }
}

/// Without a journal: from the header's write position on, records that follow each other without a gap.
fn walk_to_head(volume: &dyn Volume) -> Result<u64, SpoolError> {
    let mut head = volume.head();
    let mut raw = [0; HEADER_BYTES];
    let parse = |place: u64, raw: &mut [u8; HEADER_BYTES]| {
        let n = volume.read_at(place, Patience::Wait, raw)?;
        Ok(RecordHeader::parse(raw.get(..n).unwrap_or_default()).filter(|(h, _)| h.place == place))
    };
    let fail = |e: io::Error| SpoolError::io("read buffer", volume.name())(e);
    loop {
        let wrapped = (head / volume.area() + 1) * volume.area();
        let mut found = parse(head, &mut raw).map_err(fail)?;
        if found.is_none() {
            found = parse(wrapped, &mut raw).map_err(fail)?;
        }
        match found {
            Some((h, _)) => head = h.place + volume.padded(h.record_bytes()),
            None => return Ok(head),
        }
    }
}

/// Reads a volume's records in place order.
struct Scan {
    volume: Arc<dyn Volume>,
    at: u64,
    end: u64,
    chunk: Vec<u8>,
    chunk_at: u64,
    live: bool,
    record: std::ops::Range<usize>,
}

impl Scan {
    fn new(volume: Arc<dyn Volume>) -> Self {
        // The first cycle has number 1: nothing lies below it.
        let (at, end) = (volume.tail().max(volume.area()), volume.head());
        Self { volume, at, end, chunk: Vec::new(), chunk_at: 0, live: false, record: 0..0 }
    }

    /// Makes `len` bytes from `self.at` on available; fewer at the area's end.
    fn fill(&mut self, len: usize) -> io::Result<&[u8]> {
        let have = (self.chunk_at + self.chunk.len() as u64).saturating_sub(self.at) as usize;
        if self.at < self.chunk_at || have < len {
            self.chunk.resize(len.max(CHUNK_BYTES), 0);
            let n = self.volume.read_at(self.at, Patience::Wait, &mut self.chunk)?;
            self.chunk.truncate(n);
            self.chunk_at = self.at;
        }
        let from = (self.at - self.chunk_at) as usize;
        Ok(self.chunk.get(from..(from + len).min(self.chunk.len())).unwrap_or_default())
    }

    /// Goes to the next record that is whole; `None` at the write position.
    fn next(&mut self) -> Result<Option<RecordHeader>, SpoolError> {
        let name = self.volume.name().to_owned();
        let fail = |e| SpoolError::io("read buffer", &name)(e);
        while self.at < self.end {
            let place = self.at;
            let raw = self.fill(HEADER_BYTES).map_err(fail)?;
            let found = RecordHeader::parse(raw).filter(|(h, _)| h.place == place);
            if let Some((header, live)) = found {
                let record = self.fill(header.record_bytes()).map_err(fail)?;
                if record.len() == header.record_bytes() && is_whole(record) {
                    self.live = live;
                    let from = (place - self.chunk_at) as usize;
                    self.record = from..from + header.record_bytes();
                    self.at += self.volume.padded(header.record_bytes());
                    return Ok(Some(header));
                }
            }
            self.at += self.volume.block();
        }
        Ok(None)
    }

    fn data(&self) -> &[u8] {
        self.chunk.get(self.record.clone()).and_then(|r| r.get(HEADER_BYTES..)).unwrap_or_default()
    }
}

/// Publishes the record a scan stands at; a cancelled one only tells its numbers and is remembered.
fn publish_record(folds: &mut Folds, header: &RecordHeader, scan: &Scan) -> bool {
    let data = scan.data();
    let mut numbers = Vec::new();
    for (name, number) in xref_pairs(data) {
        if let Some(id) = group_named(folds, name) {
            if let Some(n) = folds.numbers.get_mut(id.0 as usize) {
                n.assigned = n.assigned.max(number);
            }
            numbers.push((id, number));
        }
    }
    folds.next_sequence = folds.next_sequence.max(header.sequence + 1);
    if !scan.live {
        folds.remember(header.key, header.arrived);
        for (id, number) in numbers {
            if let Some(group) = folds.shared.groups.table().get(id) {
                let mut state = group.state();
                state.high = state.high.max(number);
            }
        }
        return false;
    }
    let Some(article) = data.strip_suffix(END).and_then(|wire| Article::parse(wire).ok()) else {
        return false;
    };
    let value = |known| article.header(known).unwrap_or_default();
    let fields = Fields {
        subject: value(Known::Subject),
        from: value(Known::From),
        date: value(Known::Date),
        message_id: value(Known::MessageId),
        references: value(Known::References),
        bytes: article.bytes(),
        lines: article.lines(),
    };
    let mut text = Vec::new();
    append_fields(&fields, &mut text);
    let token = Token {
        method: MethodKind::Cnfs,
        class: header.class,
        volume: scan.volume.id(),
        place: header.place,
    };
    let xref = value(Known::Xref);
    let table = folds.shared.groups.snapshot();
    folds.publish(
        &table,
        &Published {
            key: header.key,
            token,
            arrived: header.arrived,
            numbers: &numbers,
            xref,
            fields: &text,
        },
    );
    true
}

/// A group by name; one that only the articles know is made, open for posting.
fn group_named(folds: &mut Folds, name: &[u8]) -> Option<GroupId> {
    if let Some(id) = folds.shared.groups.table().id(name) {
        return Some(id);
    }
    let name = std::str::from_utf8(name).ok()?;
    if folds.retired.contains_key(name) || !netnews::newsgroups::valid_name(name.as_bytes()) {
        return None;
    }
    let id = folds.numbers.len() as u32;
    let row = GroupRow {
        id,
        name: name.into(),
        flag: Flag::Open,
        creator: "rebuild".into(),
        ..GroupRow::default()
    };
    folds.add_groups(&[row]);
    Some(GroupId(id))
}
