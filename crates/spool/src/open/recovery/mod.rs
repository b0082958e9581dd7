//! Opening a spool: checkpoint, replay, and recovery from a crash (`docs/states.md`).
//!
//! 1. Read the checkpoint; without a usable one and without the whole journal, rebuild from the buffers.
//! 2. Survey the journal from the checkpoint on: its end, the durable position, the end of the last run.
//!    If rows are lost in its middle, rebuild from the buffers.
//! 3. Replay. After any crash the articles after the last durable position are checked. If the marks have
//!    survived (`marks.rs`), all of them are whole; otherwise, or if one is not, this counts as a power cut:
//!    rows of articles that are not whole are declared void. All other rows remain valid.
//! 4. Buffers may hold bytes without a row; old articles damaged by them are given up, so that no index leads
//!    to an unreadable article.

pub(crate) mod marks;
mod parts;
pub(crate) mod presence;
mod replay;
mod report;
mod suspects;
pub(crate) mod trees;
pub(crate) mod unjournaled;

use crate::index::checkpoint::{self, Checkpoint};
use crate::index::fold::{Folds, SharedIndexes};
use crate::index::rings::RingClass;
use crate::open::paths::SpoolPaths;
use crate::open::rebuild::{self, OldIndexes};
use crate::open::space;
use crate::write::commit::SpoolWriter;
use crate::write::manager::Class;
use crate::write::policy::ExpiryPolicy;
use crate::write::syncer::SyncState;
use disk::Disk;
use disk::Progress;
use disk::clock::unix_secs;
use disk::duplicate_aside;
use parts::OpeningSource;
pub(crate) use parts::{not_configured, read_secret, read_secret_file, same_secret, secret_of, secret_text};
use presence::PresentVolumes;
use replay::{JournalSurvey, cut_of, push_voids, replay, survey};
pub use report::{GivenUp, LossReason, RecoveryReport};
use spool_base::config::{BufferConfig, ClassConfig, SpoolConfig};
use spool_base::error::SpoolError;
use spool_base::token::MethodKind;
use spool_history::{History, OldLog};
use spool_journal::{GroupsFile, GroupsFound, JournalReader, JournalRow, JournalWriter, go_back};
use spool_methods::VolumeTable;
use spool_methods::cnfs::FoundBuffer;
use std::io;
use std::path::Path;
use std::sync::Arc;
use suspects::give_up_damaged;
use tracing::{error, warn};

/// Creates the spool's directory and takes its lock.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Send + Sync>, SpoolError> {
    disk.create_dir(dir).map_err(SpoolError::io("make directory", dir))?;
    let path = dir.join("lock");
    disk.lock(&path).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => SpoolError::Locked(dir.into()),
        _ => SpoolError::io("lock", path)(e),
    })
}

/// Opens all parts and brings them up to date.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    progress: &dyn Progress,
) -> Result<(SpoolWriter, RecoveryReport), SpoolError> {
    let unmade = presence::absent(&*disk, &config);
    let mut new = false;
    let opened = open(&disk, &config, None, progress, &mut new);
    if opened.is_err() && new {
        presence::remove_made(&*disk, &config, &unmade);
    }
    opened
}

/// Opens all parts with indexes rebuilt from the buffers, giving up the articles of the missing volumes in
/// `without`.
pub(crate) fn recover_from_buffers(
    disk: Arc<dyn Disk>,
    config: SpoolConfig,
    without: &[String],
    progress: &dyn Progress,
) -> Result<(SpoolWriter, RecoveryReport), SpoolError> {
    open(&disk, &config, Some(without), progress, &mut false)
}

/// Checks whether a rebuild may leave out these volumes; changes nothing.
pub(crate) fn check_rebuild(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    without: &[String],
) -> Result<(), SpoolError> {
    let checkpoint = Checkpoint::read(&**disk, &SpoolPaths::new(&config.dir).index)?;
    let found: Vec<_> =
        config.buffers.iter().map(|b| FoundBuffer::look(&**disk, &b.path)).collect::<Result<_, _>>()?;
    config
        .buffers
        .iter()
        .zip(&found)
        .filter_map(|(buffer, found)| Some((buffer, found.as_ref()?)))
        .try_for_each(|(buffer, found)| found.header.as_ref().map_or(Ok(()), |_| found.check(buffer)))?;
    presence::check_all(disk, config, &found, checkpoint.as_ref(), Some(without)).map(drop)
}

/// Opens the spool. Sets `new`, also after an error, if the spool is new.
fn open(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    without: Option<&[String]>,
    progress: &dyn Progress,
    new: &mut bool,
) -> Result<(SpoolWriter, RecoveryReport), SpoolError> {
    let mut loss = marks::first_lost(&**disk, config).map(LossReason::Remount);
    loop {
        if loss.is_some() {
            marks::remove(&**disk, config);
            let history = SpoolPaths::new(&config.dir).history;
            History::remove_index(&**disk, &history).map_err(SpoolError::io("clear", history))?;
        }
        // After a loss at most the journal's incomplete end has been cut off, so the opening is repeated as
        // after a power cut.
        match try_to_open(disk, config, without, loss.as_ref(), progress, new)? {
            SpoolOpening::Opened(opened) => return Ok(*opened),
            SpoolOpening::Lost(found) => loss = Some(found),
        }
    }
}

/// Result of an opening.
enum SpoolOpening {
    Opened(Box<(SpoolWriter, RecoveryReport)>),
    /// A loss was found that was not known before.
    Lost(LossReason),
}

/// Opens the spool, unless a loss is found that was not known before.
fn try_to_open(
    disk: &Arc<dyn Disk>,
    config: &SpoolConfig,
    without: Option<&[String]>,
    loss: Option<&LossReason>,
    progress: &dyn Progress,
    new: &mut bool,
) -> Result<SpoolOpening, SpoolError> {
    let paths = SpoolPaths::new(&config.dir);
    let io = |doing: &'static str| SpoolError::io(doing, paths.dir.clone());
    let mut recovery = RecoveryReport::default();
    let from_buffers = without.is_some();
    let journal_oldest =
        JournalReader::open(disk, &paths.journal, None).map_err(io("read journal in"))?.oldest();
    let checkpoint = Checkpoint::read(&**disk, &paths.index)?;
    let found = open_buffers(&**disk, config)?;
    let used = found.iter().flatten().any(|f| f.header.as_ref().is_some_and(|h| h.written > 2));
    recovery.lone_header = found.iter().flatten().any(|f| f.is_alone);
    recovery.lone_checkpoint = checkpoint.as_ref().is_some_and(|c| c.alone);
    let (groups_file, groups) = GroupsFile::open(disk, &paths.dir).map_err(io("read groups file in"))?;
    let used = used || groups.exists || !trees::headers(&**disk, config)?.is_empty();
    recovery.new = checkpoint.is_none() && journal_oldest.is_none() && !used;
    *new = recovery.new;
    let PresentVolumes { known, left_out } = match recovery.new {
        true => PresentVolumes::default(),
        false => presence::check_all(disk, config, &found, checkpoint.as_ref(), without)?,
    };
    space::check(&**disk, &space::of_opening(&**disk, config, &found, recovery.new))?;
    let groups_file = Arc::new(groups_file);
    let source = OpeningSource {
        disk,
        config,
        found: &found,
        groups_file: &groups_file,
        checkpoint: None,
        named: &known,
        is_rebuild: false,
    };
    // A checkpoint is usable only if the journal still has the rows after it.
    let usable = |c: &&Checkpoint| !from_buffers && journal_oldest.is_some_and(|oldest| oldest <= c.position);
    if let Some(c) = checkpoint.as_ref().filter(usable) {
        // If an index file is missing or damaged, the checkpoint is ignored.
        match parts::start(&OpeningSource { checkpoint: Some(c), ..source }, progress)? {
            Ok(folds) => {
                let survey = survey(disk, &paths, c.position, &folds, loss.is_some())
                    .map_err(io("read journal in"))?;
                if survey.is_whole(&folds, &groups) {
                    rebuild::hidden::forget(&**disk, &paths.dir);
                    let at = ReplayStart {
                        position: c.position,
                        checkpoint_bytes: c.bytes,
                        survey,
                        loss,
                        groups: &groups,
                    };
                    return finish_recovery(folds, config, &paths, at, recovery, progress);
                }
                recovery.lost = Some("the journal lacks rows".to_owned());
            }
            Err(lost) => recovery.lost = Some(lost.to_string()),
        }
    } else if !recovery.new && !from_buffers {
        let what = if checkpoint.is_none() { "the checkpoint is lost" } else { "the journal is lost" };
        recovery.lost = Some(what.to_owned());
    }
    let old = old_log(&**disk, &paths, config, checkpoint.as_ref());
    recovery.lost_history = old.lost_records();
    let left_out = presence::tails(disk, config, checkpoint.as_ref(), &left_out);
    let kept = rebuild::hidden::before(&**disk, &paths.dir, checkpoint.as_ref());
    let kept = kept.map_err(io("keep the list of what is hidden in"))?;
    wipe_indexes(&**disk, &paths, recovery.lost.as_deref()).map_err(io("clear indexes in"))?;
    if recovery.new || journal_oldest == Some(0) && !from_buffers {
        let named =
            rebuild::volumes_named(disk, &paths.journal, None).map_err(io("read journal in"))?.volumes;
        let folds = fresh(&OpeningSource { named: &named, ..source }, progress)?;
        let survey = survey(disk, &paths, 0, &folds, loss.is_some()).map_err(io("read journal in"))?;
        if recovery.new || survey.is_whole(&folds, &groups) && tells_all(&survey, &found) {
            let at = ReplayStart { position: 0, checkpoint_bytes: 0, survey, loss, groups: &groups };
            return finish_recovery(folds, config, &paths, at, recovery, progress);
        }
    }
    let (checkpoint, kept, groups, history) = (checkpoint.as_ref(), &kept, &groups, &old);
    let old = OldIndexes { checkpoint, kept, groups, history, without: &left_out };
    open_rebuilt(&source, &old, loss, recovery, progress)
}

/// Opens the old log of history with the records that the checkpoint knew.
fn old_log(
    disk: &dyn Disk,
    paths: &SpoolPaths,
    config: &SpoolConfig,
    checkpoint: Option<&Checkpoint>,
) -> OldLog {
    checkpoint.map_or_else(OldLog::default, |c| {
        OldLog::open(disk, &paths.history, config.history.segment_bits, c.history)
    })
}

/// Opens the spool with indexes rebuilt from the buffers, as [`try_to_open`] does.
fn open_rebuilt(
    source: &OpeningSource<'_>,
    old: &OldIndexes<'_>,
    loss: Option<&LossReason>,
    mut recovery: RecoveryReport,
    progress: &dyn Progress,
) -> Result<SpoolOpening, SpoolError> {
    let OpeningSource { disk, config, .. } = *source;
    let paths = SpoolPaths::new(&config.dir);
    let io = || SpoolError::io("read journal in", paths.dir.clone());
    let mut volumes = rebuild::volumes_named(disk, &paths.journal, None).map_err(io())?.volumes;
    volumes.extend(old.checkpoint.iter().flat_map(|c| c.volumes.iter().map(|(v, _)| v.clone())));
    let mut folds = fresh(&OpeningSource { named: &volumes, is_rebuild: true, ..*source }, progress)?;
    let rebuilt = rebuild::from_buffers(&mut folds, &paths.journal, old, progress)?;
    let position = rebuilt.position;
    (recovery.rebuilt, recovery.left_out) = (Some(rebuilt.articles), rebuilt.left_out);
    let survey = survey(disk, &paths, position, &folds, loss.is_some()).map_err(io())?;
    finish_recovery(
        folds,
        config,
        &paths,
        ReplayStart { position, checkpoint_bytes: 0, survey, loss, groups: old.groups },
        recovery,
        progress,
    )
}

/// Creates empty folds.
fn fresh(source: &OpeningSource<'_>, progress: &dyn Progress) -> Result<Folds, SpoolError> {
    parts::start(source, progress)?.map_err(|lost| {
        let index = SpoolPaths::new(&source.config.dir).index;
        SpoolError::Unfit(format!("fresh indexes in {} cannot be opened: {lost}", index.display()))
    })
}

/// Reports whether a journal that begins at position 0 has all articles that the buffers' headers account
/// for. After a power cut its unsynced end may be missing.
fn tells_all(survey: &JournalSurvey, found: &[Option<FoundBuffer>]) -> bool {
    let told = |volume: u16, first: u64| survey.heads.get(&volume).copied().unwrap_or(first);
    let headers = found.iter().flatten().filter_map(|f| f.header.as_ref());
    survey.rows > 0 && survey.power_lost
        || headers.into_iter().all(|h| {
            // A buffer is empty while its write position is the start of the first cycle.
            let first = if h.cycle == 1 { h.head - h.free } else { 0 };
            h.head <= told(h.volume, first)
        })
}

fn open_buffers(disk: &dyn Disk, config: &SpoolConfig) -> Result<Vec<Option<FoundBuffer>>, SpoolError> {
    config.buffers.iter().map(|b| FoundBuffer::open(disk, &b.path)).collect()
}

/// Removes all index files, the checkpoint first: it must not be found once a rebuild begins. Logs `why`, if
/// the indexes were damaged.
fn wipe_indexes(disk: &dyn Disk, paths: &SpoolPaths, why: Option<&str>) -> io::Result<()> {
    if let Some(why) = why {
        warn!("spool {}: the indexes are rebuilt, which may take a while: {why}", paths.dir.display());
    }
    disk.create_dir(&paths.index)?;
    for name in disk.list(&paths.index)?.iter().filter(|n| checkpoint::NAMES.contains(&n.as_str())) {
        disk.remove(&paths.index.join(name))?;
    }
    disk.sync_dir(&paths.index)?;
    let mut dirs = vec![paths.index.clone(), paths.history.clone(), paths.overview.clone()];
    // Residents have one directory per volume; a volume number has 16 bits, but few are in use.
    let of_volumes = [&paths.residents, &paths.kept];
    dirs.extend((0..256).flat_map(|id| of_volumes.map(|dir| dir.join(format!("{id:05}")))));
    for dir in dirs {
        for name in disk.list(&dir)? {
            disk.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// Starting point of the replay.
struct ReplayStart<'a> {
    position: u64,
    /// Length of the checkpoint; 0 if there is none.
    checkpoint_bytes: u64,
    survey: JournalSurvey,
    /// Known loss, although the machine kept running.
    loss: Option<&'a LossReason>,
    /// The copies of the groups file.
    groups: &'a GroupsFound,
}

/// Longest copy of the groups file that is kept when it is damaged, in bytes.
const GROUPS_BYTES_MAX: u64 = 1 << 30;

/// Keeps damaged copies of the groups file aside before they are overwritten, and logs them. What a crash has
/// cut off is no damage.
fn keep_damaged_groups(disk: &dyn Disk, groups: &GroupsFound, recovery: &mut RecoveryReport) {
    recovery.lone_groups = groups.missing.is_some() || !groups.damaged.is_empty();
    if let Some(file) = &groups.missing {
        warn!(file = %file.display(), "a copy of the groups file is missing; it is written again");
    }
    for file in groups.damaged.iter().filter(|_| !recovery.crashed) {
        let what = "a file is damaged: it is written again from the journal and the other copy, which have \
                    all groups";
        match duplicate_aside(disk, file, GROUPS_BYTES_MAX) {
            Ok(aside) => error!(file = %file.display(), set_aside = %aside.display(), "{what}"),
            Err(error) => error!(file = %file.display(), not_set_aside = %error, "{what}"),
        }
    }
}

/// Replays the journal and creates the writer, as [`try_to_open`] does.
fn finish_recovery(
    mut folds: Folds,
    config: &SpoolConfig,
    paths: &SpoolPaths,
    at: ReplayStart<'_>,
    mut recovery: RecoveryReport,
    progress: &dyn Progress,
) -> Result<SpoolOpening, SpoolError> {
    let io = |doing: &'static str| SpoolError::io(doing, paths.journal.clone());
    let shared = folds.shared.clone();
    let ReplayStart { position: from, checkpoint_bytes, survey, loss, groups } = at;
    recovery.crashed = !recovery.new && !survey.closed;
    recovery.power_lost = recovery.crashed && survey.power_lost;
    // Numbers follow from a shared log: what a crash has left incomplete is cut off and comes again.
    let is_shared = survey.is_of_shared_log(&folds);
    let cut = match is_shared && recovery.crashed {
        true => cut_of(&folds, paths, from, &survey).map_err(io("read journal in"))?,
        false => survey.end,
    };
    if cut < survey.end {
        if loss.is_none() {
            return Ok(SpoolOpening::Lost(LossReason::Amid));
        }
        go_back(&*shared.disk, &paths.journal, cut).map_err(io("move readers back in"))?;
    }
    let loss = if survey.rebooted { Some(&LossReason::Reboot) } else { loss };
    recovery.loss = loss.filter(|_| recovery.power_lost).cloned();
    // Makes the rows durable: the replay carries cancels out, which must not be there without their rows.
    let mut journal = JournalWriter::open(&shared.disk, &paths.journal, cut, config.journal_file_bytes)
        .map_err(io("open journal in"))?;
    let check_from = if recovery.crashed && !is_shared { survey.durable } else { u64::MAX };
    let (end, torn) = replay(&mut folds, paths, from..cut, &survey, check_from, &mut recovery, progress)
        .map_err(io("replay journal in"))?;
    if !recovery.power_lost && !torn.is_empty() {
        return Ok(SpoolOpening::Lost(LossReason::Bytes));
    }
    let rows_end = folds.next_sequence;
    if !is_shared {
        recovery.taken_in = unjournaled::take_in(&mut folds, &mut journal, end, recovery.crashed, progress)
            .map_err(io("replay journal in"))?;
    }
    if recovery.power_lost && !is_shared {
        push_voids(&mut journal, &torn);
        journal.push(&JournalRow::PowerLost);
        folds.power_lost();
    }
    if recovery.crashed {
        recovery.given_up = give_up_damaged(&mut folds, &mut journal, rows_end, recovery.power_lost)?;
    }
    settle_volumes(&mut folds, &mut journal, &recovery, survey.power_lost)
        .map_err(io("bring the volumes up to date with"))?;
    folds.settle_count().map_err(io("count articles after reading"))?;
    grow(&shared, config)?;
    let has_other_rings = folds.rings.configure(&RingClass::all(config), &shared.volumes.load());
    let mut writer = writer_of(folds, journal, config)?;
    recovery.mended_pages = writer.mend_lost_pages().map_err(|t| SpoolError::Unfit(t.to_string()))?;
    writer.folds.settle_digest().map_err(io("count articles after reading"))?;
    writer.push_state();
    writer.journal.write().and_then(|()| writer.journal.sync_set().sync()).map_err(io("write journal in"))?;
    keep_damaged_groups(&*shared.disk, groups, &mut recovery);
    // Both copies: one may be missing or damaged.
    (0..2)
        .try_for_each(|_| writer.write_groups())
        .map_err(SpoolError::io("write groups file in", &paths.dir))?;
    writer.sync.all_durable(&shared);
    record_positions(&shared.volumes.load(), writer.journal.end());
    sweep(&shared.volumes.load());
    marks::set(&*shared.disk, config, &config.buffers);
    writer.rows = recovery.rows;
    writer.checkpointed = (from, checkpoint_bytes);
    writer.sync.set_checkpointed(if checkpoint_bytes > 0 { from } else { 0 });
    writer.journal.reveal(writer.folds.next_sequence);
    if has_other_rings {
        // A replay turns the rings as the checkpoint has them.
        writer.checkpoint_unless_pending();
    }
    Ok(SpoolOpening::Opened(Box::new((writer, recovery))))
}

/// Brings the volumes to the state that the replayed rows describe: memory is empty, and after a crash the
/// headers of buffers are whole and everything found is durable.
fn settle_volumes(
    folds: &mut Folds,
    journal: &mut JournalWriter,
    recovery: &RecoveryReport,
    power_lost: bool,
) -> io::Result<()> {
    let shared = folds.shared.clone();
    let volumes = shared.volumes.load();
    for (index, volume) in volumes.all().iter().enumerate().filter(|(_, v)| v.method() == MethodKind::Memory)
    {
        let Some(volume) = volume.cyclic() else { continue };
        let head = volume.next_cycle(volume.next_cycle(volume.head()));
        journal.push(&JournalRow::Skip { volume: volume.id(), head });
        folds.displace(index, head)?;
    }
    if recovery.crashed || recovery.lone_header || recovery.rebuilt.is_some() || power_lost {
        // Overwrites the copy of each header that is damaged or may have been cut off, perhaps after the last
        // durable row; a rebuild may have found no copy at all.
        let now = disk::clock::unix_secs();
        volumes.cycbuffs().try_for_each(|v| v.write_header(now))?;
    }
    if recovery.crashed || recovery.rebuilt.is_some() {
        // Everything found must be durable before readers see it, and a gap in the journal must be recorded.
        volumes.all().iter().try_for_each(|v| v.sync())?;
        journal.push(&JournalRow::Synced { upto: journal.end() });
    }
    Ok(())
}

/// Creates the writer of an open spool.
fn writer_of(
    mut folds: Folds,
    journal: JournalWriter,
    config: &SpoolConfig,
) -> Result<SpoolWriter, SpoolError> {
    folds.boot_id = folds.shared.disk.boot_id();
    folds.closed = false;
    folds.identity.clone_from(&config.path_identity);
    folds.overview_headers.clone_from(&config.overview_headers);
    let classes = classes_of(config, &folds.shared.volumes.load());
    let policy = Arc::new(ExpiryPolicy::new(config)?);
    let sync =
        Arc::new(SyncState::new(journal.sync_set().clone(), config.durability, config.full_disk_retry));
    let mut writer = SpoolWriter::new(folds, journal, classes, sync);
    writer.policy = policy;
    Ok(writer)
}

/// Records the journal's position in trees without a readable record of it. A failure, as on a full disk, is
/// made up for by the next checkpoint.
fn record_positions(volumes: &VolumeTable, position: u64) {
    let trees = volumes.retained().filter(|v| v.method().is_file_per_article());
    trees.filter(|v| v.recorded_position().is_none()).for_each(|v| drop(v.record_position(position)));
}

/// Removes files without living articles that a crash has left, and forgets those that the checkpoint has and
/// that were removed after it: a class with a maximum number of files would count them. The rows about their
/// articles are durable.
fn sweep(volumes: &VolumeTable) {
    if let Err(error) = volumes.retained().try_for_each(|volume| volume.sweep()) {
        warn!(%error, "a file without articles cannot be removed; the next expiry tries again");
    }
}

/// Returns the storage classes of the configuration, with the volumes they write to.
fn classes_of(config: &SpoolConfig, volumes: &VolumeTable) -> Vec<Class> {
    let class = |name: &str| config.classes.iter().position(|c| c.name == name);
    let new = |c| Class::new(c, indexes(c, volumes), volumes, class);
    let mut classes: Vec<Class> = config.classes.iter().map(new).collect();
    let retired: Vec<String> = config.buffers.iter().filter(|b| b.retired).map(|b| b.name.clone()).collect();
    if !retired.is_empty() {
        classes.iter_mut().filter(|c| !c.buffers.is_empty()).for_each(|c| c.use_buffers(volumes, &retired));
    }
    classes
}

/// Grows buffers whose configured size has increased.
fn grow(shared: &SharedIndexes, config: &SpoolConfig) -> Result<(), SpoolError> {
    for buffer in &config.buffers {
        let volumes = shared.volumes.load();
        let Some(volume) = volumes.cycbuff(&buffer.name) else { continue };
        if buffer.size_bytes <= volume.file_bytes() {
            continue;
        }
        let grown = volume.grow(buffer.size_bytes, unix_secs());
        match grown.map_err(SpoolError::io("enlarge buffer", &buffer.path))? {
            Some(grown) => shared.volumes.put(Arc::new(grown)),
            None => return Err(cannot_resize(buffer, volume.file_bytes())),
        }
    }
    Ok(())
}

/// Returns the error for a buffer of `bytes` that cannot have the configured size.
pub(crate) fn cannot_resize(buffer: &BufferConfig, bytes: u64) -> SpoolError {
    let BufferConfig { name, size_bytes, .. } = buffer;
    SpoolError::Unfit(match size_bytes < &bytes {
        true => format!(
            "buffer \"{name}\" has {bytes} bytes and cannot shrink to {size_bytes}; set size = {bytes}, or \
             more"
        ),
        false => format!(
            "buffer \"{name}\" has {bytes} bytes and cannot grow to {size_bytes}: the difference would not \
             even hold its new usage bitmap; set size = {bytes}, or to clearly more"
        ),
    })
}

/// Returns the volumes of a class, as indexes into the table.
pub(crate) fn indexes(class: &ClassConfig, volumes: &VolumeTable) -> Vec<usize> {
    let index =
        |name: &str, method| volumes.all().iter().position(|v| v.name() == name && v.method() == method);
    match class.method {
        MethodKind::Cnfs => class.buffers.iter().filter_map(|b| index(b, MethodKind::Cnfs)).collect(),
        MethodKind::Trash => Vec::new(),
        method => index(&class.name, method).into_iter().collect(),
    }
}
