//! Opening a spool: checkpoint, replay, and what a crash calls for (`docs/states.md`).
//!
//! 1. Read the checkpoint; without a usable one and without the whole journal, rebuild from the buffers.
//! 2. Look over the journal from the checkpoint on: where it ends, what is known to be durable, how the last run ended.
//! 3. Replay. If the machine went down since, articles behind the last durable position are checked; rows of those that
//!    are not whole are declared void. All other rows stand.
//! 4. Buffers may hold bytes that no row speaks of; old articles damaged by them are given up (the write position moves
//!    past them), so that nothing names an article that cannot be read.

use crate::checkpoint::{Checkpoint, restore_blocks};
use crate::commit::{PART_BYTES_MAX, Writer};
use crate::config::{ClassConfig, SpoolConfig};
use crate::disk::Disk;
use crate::error::{ReadError, SpoolError};
use crate::fold::{Folds, Shared};
use crate::groups::Groups;
use crate::history::History;
use crate::journal::{ArticleRow, JournalReader, JournalWriter, Row};
use crate::key::KeyHasher;
use crate::manager::Class;
use crate::method::cnfs::{Cycbuff, Found, record};
use crate::method::{MemoryVolume, Volume, Volumes, read_bytes};
use crate::overview::Segments;
use crate::progress::Progress;
use crate::reading::Patience;
use crate::rebuild;
use crate::residents::{Residents, ResidentsState};
use crate::rules::Rules;
use crate::syncer::{SyncState, UNSYNCED_BYTES_MAX};
use crate::token::MethodKind;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What opening found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The spool is new.
    pub new: bool,
    /// The last run did not close it in order.
    pub crashed: bool,
    /// The machine went down since the last run.
    pub power_lost: bool,
    /// Journal rows replayed.
    pub rows: u64,
    /// Articles whose rows were dropped because their bytes had not reached the disk.
    pub torn: u64,
    /// Old articles given up because bytes without a row lie over them.
    pub given_up: u64,
    /// Articles found by rebuilding the indexes from the buffers.
    pub rebuilt: Option<u64>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.new {
            return f.write_str("new spool");
        }
        let how = match (self.power_lost, self.crashed) {
            (true, _) => "the machine went down",
            (false, true) => "the last run was cut off",
            (false, false) => "closed in order",
        };
        write!(f, "{how}; {} journal rows replayed", self.rows)?;
        if let Some(n) = self.rebuilt {
            write!(f, "; indexes rebuilt from the buffers, {n} articles")?;
        }
        if self.torn > 0 {
            write!(f, "; {} last articles had not reached the disk", self.torn)?;
        }
        if self.given_up > 0 {
            write!(f, "; {} old articles were half overwritten and are gone", self.given_up)?;
        }
        Ok(())
    }
}

/// Makes the spool's directory and takes its lock.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Send + Sync>, SpoolError> {
    disk.create_dir(dir).map_err(SpoolError::io("make directory", dir))?;
    let path = dir.join("lock");
    disk.lock(&path).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => SpoolError::Locked(dir.into()),
        _ => SpoolError::io("lock", path)(e),
    })
}

/// What a first pass over the journal tells.
#[derive(Debug, Default, Clone)]
struct Survey {
    end: u64,
    rows: u64,
    /// Everything before is durable, articles included.
    durable: u64,
    boot_id: [u8; 16],
    closed: bool,
    /// Last write positions by volume.
    heads: BTreeMap<u16, u64>,
    /// Positions of article rows that do not count.
    voids: HashSet<u64>,
}

/// Opens everything and brings it up to date.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<(Writer, Recovery), SpoolError> {
    open(disk, config, false, progress)
}

/// Opens everything with indexes made anew from the buffers.
pub(crate) fn recover_from_buffers(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<(Writer, Recovery), SpoolError> {
    open(disk, config, true, progress)
}

fn open(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    from_buffers: bool,
    progress: &dyn Progress,
) -> Result<(Writer, Recovery), SpoolError> {
    let paths = Paths::new(&config.dir);
    let io = |doing: &'static str| SpoolError::io(doing, paths.dir.clone());
    let mut recovery = Recovery::default();
    let journal_oldest =
        JournalReader::open(&disk, &paths.journal, None).map_err(io("read journal in"))?.oldest();
    let mut checkpoint = Checkpoint::read(&*disk, &paths.index).map_err(io("read checkpoint in"))?;
    // A checkpoint is of use only if the journal still has what follows it.
    checkpoint = checkpoint.filter(|c| journal_oldest.is_some_and(|oldest| oldest <= c.position));
    let found = open_buffers(&*disk, &config)?;
    let used = found.iter().flatten().any(|f| f.header.as_ref().is_some_and(|h| h.written > 2));
    recovery.new = checkpoint.is_none() && journal_oldest.is_none() && !used;

    if let Some(c) = checkpoint.take() {
        // An index file may be missing or damaged: then it is as if there were no checkpoint.
        if let Some(folds) = start(&disk, &config, &found, Some(&c), progress)? {
            return go_on(folds, config, &paths, c.position, c.bytes, recovery, progress);
        }
    }
    wipe_indexes(&*disk, &paths).map_err(io("clear indexes in"))?;
    let Some(mut folds) = start(&disk, &config, &found, None, progress)? else {
        return Err(SpoolError::Unfit(format!(
            "fresh indexes in {} cannot be opened",
            paths.index.display()
        )));
    };
    if recovery.new || journal_oldest == Some(0) && !from_buffers {
        return go_on(folds, config, &paths, 0, 0, recovery, progress);
    }
    let (articles, position) = rebuild::from_buffers(&mut folds, &paths.journal, progress)?;
    recovery.rebuilt = Some(articles);
    go_on(folds, config, &paths, position, 0, recovery, progress)
}

/// The spool's directories.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub dir: PathBuf,
    pub journal: PathBuf,
    pub index: PathBuf,
    pub history: PathBuf,
    pub overview: PathBuf,
    pub residents: PathBuf,
}

impl Paths {
    pub fn new(dir: &Path) -> Self {
        let index = dir.join("index");
        Self {
            dir: dir.into(),
            journal: dir.join("journal"),
            history: index.join("history"),
            overview: index.join("overview"),
            residents: index.join("residents"),
            index,
        }
    }
}

fn open_buffers(disk: &dyn Disk, config: &SpoolConfig) -> Result<Vec<Option<Found>>, SpoolError> {
    config.buffers.iter().map(|b| Found::open(disk, &b.path)).collect()
}

/// Removes all index files.
pub(crate) fn wipe_indexes(disk: &dyn Disk, paths: &Paths) -> io::Result<()> {
    let mut dirs = vec![paths.index.clone(), paths.history.clone(), paths.overview.clone()];
    // Residents lie in one directory a volume; a volume number has 16 bits but few are in use.
    dirs.extend((0..256).map(|id| paths.residents.join(format!("{id:05}"))));
    for dir in dirs {
        for name in disk.list(&dir)? {
            disk.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// Opens volumes and folds, as of a checkpoint or empty; `None` if an index file the checkpoint needs is unfit.
fn start(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    found: &[Option<Found>],
    checkpoint: Option<&Checkpoint>,
    progress: &dyn Progress,
) -> Result<Option<Folds>, SpoolError> {
    let paths = Paths::new(&config.dir);
    let secret = secret(&**disk, config, found)?;
    let volumes = open_volumes(&**disk, config, found, checkpoint, &secret)?;
    let from = checkpoint.map(|c| c.history).unwrap_or_default();
    let history = match History::open(disk.clone(), &paths.history, from, progress, config.history) {
        Ok(history) => history,
        Err(e) if checkpoint.is_some() && is_unfit(&e) => return Ok(None),
        Err(e) => return Err(SpoolError::io("open history in", &paths.history)(e)),
    };
    let states = checkpoint.map(|c| c.segments.as_slice()).unwrap_or_default();
    let segments = match Segments::open(disk, &paths.overview, states) {
        Ok(segments) => segments,
        Err(e) if checkpoint.is_some() && is_unfit(&e) => return Ok(None),
        Err(e) => return Err(SpoolError::io("open overview in", &paths.overview)(e)),
    };
    let mut residents = Vec::new();
    for volume in &volumes {
        let saved = checkpoint.and_then(|c| c.volumes.iter().find(|(v, _)| v.id == volume.id()));
        let state = saved.map_or(ResidentsState::default(), |(_, state)| *state);
        let dir = paths.residents.join(format!("{:05}", volume.id()));
        let mut stream = Residents::open(disk, dir, state)
            .map_err(SpoolError::io("open residents in", &paths.residents))?;
        if state.written > state.read && stream.front().is_err() {
            return Ok(None);
        }
        residents.push(stream);
    }
    let classes: Vec<&str> = config.classes.iter().map(|c| c.name.as_str()).collect();
    let rules = Rules::new(&config.rules, |name| classes.iter().position(|c| *c == name))?;
    let shared = Arc::new(Shared {
        config: config.clone(),
        disk: disk.clone(),
        hasher: KeyHasher::new(secret),
        groups: Groups::default(),
        volumes: Volumes::new(volumes),
        history,
        generation: AtomicU64::new(1),
        list: Mutex::default(),
        articles: AtomicU64::new(0),
    });
    let mut folds = Folds::new(shared, rules, residents, segments);
    match checkpoint {
        Some(c) if !load(&mut folds, c) => Ok(None),
        _ => Ok(Some(folds)),
    }
}

fn is_unfit(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Fills the folds from a checkpoint; false if an overview segment is missing.
fn load(folds: &mut Folds, c: &Checkpoint) -> bool {
    folds.next_sequence = c.next_sequence;
    folds.boot_id = c.boot_id;
    folds.closed = c.closed;
    folds.identity.clone_from(&c.identity);
    folds.retired = c.retired.iter().cloned().collect();
    let rows: Vec<_> = c.groups.iter().map(|g| g.row.clone()).collect();
    folds.add_groups(&rows);
    folds.numbers.resize(c.next_group as usize, Default::default());
    let table = folds.shared.groups.snapshot();
    for g in &c.groups {
        let Some(group) = table.get(crate::groups::GroupId(g.row.id)) else { return false };
        let Some(blocks) = restore_blocks(&g.blocks, &folds.segments) else { return false };
        let mut state = group.state();
        state.live = g.live.clone();
        state.overview.blocks = blocks.into();
        state.overview.open = g.open.clone();
        if let Some(numbers) = folds.numbers.get_mut(g.row.id as usize) {
            numbers.assigned = g.assigned;
        }
    }
    folds.shared.articles.store(c.articles, Ordering::Relaxed);
    true
}

/// The secret of the Message-ID hash: from the file `secret`, else from a buffer's header, else a new one.
fn secret(disk: &dyn Disk, config: &SpoolConfig, found: &[Option<Found>]) -> Result<[u8; 16], SpoolError> {
    let path = config.dir.join("secret");
    let io = |doing: &'static str| SpoolError::io(doing, path.clone());
    let parse = |text: &str| u128::from_str_radix(text.trim(), 16).ok().map(u128::to_be_bytes);
    let file = disk.open(&path, crate::disk::Open::Create).map_err(io("open"))?;
    let mut text = vec![0; 33];
    let n = file.read_at(&mut text, 0).map_err(io("read"))?;
    if let Some(secret) = text.get(..n).and_then(|t| std::str::from_utf8(t).ok()).and_then(parse) {
        return Ok(secret);
    }
    let known = found.iter().flatten().find_map(|f| parse(&f.header.as_ref()?.secret));
    let secret = known.unwrap_or_else(random_secret);
    let text = format!("{}\n", hex(&secret));
    file.write_all_at(&[io::IoSlice::new(text.as_bytes())], 0)
        .and_then(|()| file.sync())
        .map_err(io("write"))?;
    disk.sync_dir(&config.dir).map_err(io("sync"))?;
    Ok(secret)
}

/// From the system's random source, by way of the standard library's.
fn random_secret() -> [u8; 16] {
    let half = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8);
    (u128::from(half()) << 64 | u128::from(half())).to_be_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Opens or makes the volumes: buffers by the configuration, and one for each `memory` class.
fn open_volumes(
    disk: &dyn Disk,
    config: &SpoolConfig,
    found: &[Option<Found>],
    checkpoint: Option<&Checkpoint>,
    secret: &[u8; 16],
) -> Result<Vec<Arc<dyn Volume>>, SpoolError> {
    let saved = checkpoint.map(|c| c.volumes.as_slice()).unwrap_or_default();
    let on_disk = found.iter().flatten().filter_map(|f| f.header.as_ref()).map(|h| h.volume);
    let mut next = saved.iter().map(|(v, _)| v.id).chain(on_disk).max().map_or(0, |id| id + 1);
    let mut fresh = || {
        next += 1;
        next - 1
    };
    let mut volumes: Vec<Arc<dyn Volume>> = Vec::new();
    for (buffer, found) in config.buffers.iter().zip(found) {
        let known = saved.iter().find(|(v, _)| v.name == buffer.name && v.method == MethodKind::Cnfs as u8);
        volumes.push(match (found, known) {
            (Some(found), _) => Arc::new(Cycbuff::open(found, buffer, known.map(|(v, _)| v.head))?),
            (None, Some((v, _))) if v.head > 0 && used(saved, v.id) => {
                return Err(SpoolError::Unfit(format!(
                    "buffer \"{}\" is missing: there is no file {}; put it back, or run `newsreel rebuild` to go on without its articles",
                    buffer.name,
                    buffer.path.display()
                )));
            }
            (None, known) => {
                let id = known.map_or_else(&mut fresh, |(v, _)| v.id);
                Arc::new(Cycbuff::create(disk, buffer, id, &hex(secret))?)
            }
        });
    }
    for class in config.classes.iter().filter(|c| c.method == MethodKind::Memory) {
        let known = saved.iter().find(|(v, _)| v.name == class.name && v.method == MethodKind::Memory as u8);
        let id = known.map_or_else(&mut fresh, |(v, _)| v.id);
        volumes.push(Arc::new(MemoryVolume::new(
            id,
            &class.name,
            class.size_bytes,
            known.map(|(v, _)| v.head),
        )));
    }
    if let Some((gone, _)) =
        saved.iter().find(|(v, _)| !volumes.iter().any(|new| new.id() == v.id) && used(saved, v.id))
    {
        return Err(SpoolError::Unfit(format!(
            "buffer \"{}\" holds articles but is not in the configuration; put it back, or run `newsreel rebuild` to go on without its articles",
            gone.name
        )));
    }
    let mut ids: Vec<u16> = volumes.iter().map(|v| v.id()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|w| w[0] == w[1]) {
        return Err(SpoolError::Unfit(
            "two buffers have the same volume number: one is a copy of the other".into(),
        ));
    }
    Ok(volumes)
}

/// Whether anything was ever stored in a volume.
fn used(saved: &[(crate::journal::VolumeRow, ResidentsState)], id: u16) -> bool {
    saved.iter().any(|(v, state)| v.id == id && state.written > state.read)
}

/// Replays the journal from `from` on and makes the writer.
fn go_on(
    mut folds: Folds,
    config: SpoolConfig,
    paths: &Paths,
    from: u64,
    checkpoint_bytes: u64,
    mut recovery: Recovery,
    progress: &dyn Progress,
) -> Result<(Writer, Recovery), SpoolError> {
    let io = |doing: &'static str| SpoolError::io(doing, paths.journal.clone());
    let shared = folds.shared.clone();
    let disk = shared.disk.clone();
    let boot_id = disk.boot_id();
    let survey = survey(&disk, paths, from, &folds).map_err(io("read journal in"))?;
    recovery.crashed = !recovery.new && !survey.closed;
    recovery.power_lost = recovery.crashed && survey.boot_id != boot_id;
    let check_from = if recovery.power_lost { survey.durable } else { u64::MAX };
    let (end, torn) = replay(&mut folds, paths, from, &survey, check_from, &mut recovery, progress)
        .map_err(io("replay journal in"))?;

    let mut journal = JournalWriter::open(&disk, &paths.journal, end, config.journal_file_bytes).map_err(io("open journal in"))?;
    if recovery.power_lost {
        journal.push(&Row::Void(torn));
        journal.push(&Row::PowerLost);
        folds.power_lost();
    }
    if recovery.crashed {
        let suspect = if recovery.power_lost { UNSYNCED_BYTES_MAX } else { 0 };
        recovery.given_up = give_up_damaged(&mut folds, &mut journal, suspect)?;
    }
    for (index, volume) in
        shared.volumes.all().iter().enumerate().filter(|(_, v)| v.method() == MethodKind::Memory)
    {
        let head = volume.head().next_multiple_of(volume.area()) + volume.area();
        journal.push(&Row::Skip { volume: volume.id(), head });
        folds.displace(index, head).map_err(io("replay journal in"))?;
    }
    folds.boot_id = boot_id;
    folds.closed = false;
    folds.identity.clone_from(&config.path_identity);
    let classes =
        config.classes.iter().map(|c| Class::new(c, indexes(c, &shared.volumes), &shared.volumes)).collect();
    let sync = Arc::new(SyncState::new(journal.sync_set().clone(), config.durability));
    let mut writer = Writer::new(folds, journal, classes, sync);
    writer.push_state();
    writer.journal.write().and_then(|()| writer.journal.sync_set().sync()).map_err(io("write journal in"))?;
    writer.rows = recovery.rows;
    writer.checkpointed = (from, checkpoint_bytes);
    Ok((writer, recovery))
}

fn indexes(class: &ClassConfig, volumes: &Volumes) -> Vec<usize> {
    let index =
        |name: &str, method| volumes.all().iter().position(|v| v.name() == name && v.method() == method);
    match class.method {
        MethodKind::Cnfs => class.buffers.iter().filter_map(|b| index(b, MethodKind::Cnfs)).collect(),
        MethodKind::Memory => index(&class.name, MethodKind::Memory).into_iter().collect(),
        MethodKind::Trash => Vec::new(),
    }
}

fn survey(disk: &Arc<dyn Disk>, paths: &Paths, from: u64, folds: &Folds) -> io::Result<Survey> {
    let mut reader = JournalReader::open(disk, &paths.journal, Some(from))?;
    let mut survey =
        Survey { durable: from, boot_id: folds.boot_id, closed: folds.closed, ..Survey::default() };
    while let Some((_, payload)) = reader.next()? {
        survey.rows += 1;
        survey.closed = false;
        match Row::decode(payload) {
            Some(Row::Synced { upto }) => survey.durable = survey.durable.max(upto),
            Some(Row::Opened { boot_id }) => survey.boot_id = boot_id,
            Some(Row::Closed) => survey.closed = true,
            Some(Row::Void(positions)) => survey.voids.extend(positions),
            Some(Row::Article(a)) => {
                survey.heads.insert(a.token.volume, a.token.place + a.stored_bytes);
            }
            Some(Row::Skip { volume, head }) => {
                survey.heads.insert(volume, head);
            }
            _ => {}
        }
    }
    survey.end = reader.position();
    Ok(survey)
}

/// Applies the rows; returns where the journal ends, and the positions of article rows whose articles are not whole.
fn replay(
    folds: &mut Folds,
    paths: &Paths,
    from: u64,
    survey: &Survey,
    check_from: u64,
    recovery: &mut Recovery,
    progress: &dyn Progress,
) -> io::Result<(u64, Vec<u64>)> {
    let disk = folds.shared.disk.clone();
    let mut reader = JournalReader::open(&disk, &paths.journal, Some(from))?;
    let shown = survey.rows > 100_000;
    if shown {
        progress.start("replaying the journal", survey.rows);
    }
    let mut buf = Vec::new();
    let mut torn = Vec::new();
    while let Some((position, payload)) = reader.next()? {
        let Some(row) = Row::decode(payload) else { return Err(io::ErrorKind::InvalidData.into()) };
        match &row {
            Row::Article(a) if survey.voids.contains(&position) => folds.apply_void(a)?,
            Row::Article(a)
                if position >= check_from && !is_whole(&folds.shared, &survey.heads, a, &mut buf)? =>
            {
                folds.apply_void(a)?;
                torn.push(position);
            }
            row => folds.apply(row)?,
        }
        recovery.rows += 1;
        if shown && recovery.rows.is_multiple_of(65_536) {
            progress.step(recovery.rows);
        }
    }
    if shown {
        progress.finish();
    }
    recovery.torn = torn.len() as u64;
    Ok((reader.position(), torn))
}

/// Whether an article's bytes are on the disk as they were written, or have been displaced by later ones.
fn is_whole(
    shared: &Shared,
    heads: &BTreeMap<u16, u64>,
    a: &ArticleRow<'_>,
    buf: &mut Vec<u8>,
) -> io::Result<bool> {
    let Some(volume) = shared.volumes.get(a.token.volume).filter(|v| v.method() == MethodKind::Cnfs) else {
        return Ok(true);
    };
    // Overwritten by articles whose rows follow: nothing to check.
    if heads.get(&a.token.volume).is_some_and(|head| a.token.place + volume.area() < *head) {
        return Ok(true);
    }
    match read_bytes(volume, a.token.place, Patience::Wait, buf) {
        Ok(Some((header, _))) => Ok(header.key == a.key && record::is_whole(buf)),
        Ok(None) | Err(ReadError::WouldBlock) => Ok(false),
        Err(ReadError::Failed(text)) => Err(io::Error::other(text)),
    }
}

/// Looks at the old articles behind each write position: a crash may have left bytes over them that no row speaks of.
/// Moves the write position past the last damaged one; returns how many were given up.
fn give_up_damaged(folds: &mut Folds, journal: &mut JournalWriter, suspect: u64) -> Result<u64, SpoolError> {
    let shared = folds.shared.clone();
    let mut given_up = 0;
    for (index, volume) in
        shared.volumes.all().iter().enumerate().filter(|(_, v)| v.method() == MethodKind::Cnfs)
    {
        let io = || SpoolError::io("read buffer", volume.name());
        let (mut damaged, mut buf) = (None, Vec::new());
        // Places are those of the last cycle; a wrap may have skipped up to one article's length.
        let tail = volume.tail();
        let limit = suspect + 2 * PART_BYTES_MAX + 2 * shared.config.article_bytes_max;
        let mut places = Vec::new();
        let Some(residents) = folds.residents.get_mut(index) else { continue };
        residents.peek_before(tail.saturating_add(limit), &mut |r| places.push(r.place)).map_err(io())?;
        for (n, place) in places.iter().enumerate() {
            match read_bytes(&**volume, *place, Patience::Wait, &mut buf) {
                Ok(Some((_, live))) if record::is_whole(&buf) => {
                    if live {
                        volume.mark_alive(*place);
                    }
                }
                Ok(_) => damaged = Some(n),
                Err(e) => return Err(io()(io::Error::other(e.to_string()))),
            }
        }
        let Some(last) = damaged else { continue };
        let behind =
            places.get(last + 1).copied().unwrap_or_else(|| places.last().map_or(0, |p| p + volume.block()));
        let head = (behind + volume.area()).max(volume.head());
        given_up += last as u64 + 1;
        journal.push(&Row::Skip { volume: volume.id(), head });
        folds.displace(index, head).map_err(io())?;
    }
    Ok(given_up)
}
