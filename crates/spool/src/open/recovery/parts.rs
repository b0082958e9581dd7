//! Opening the parts of a spool: secret, volumes, index files; as of a checkpoint, or with empty indexes.

use super::trees::TreeInfo;
use crate::index::checkpoint::{Checkpoint, restore_blocks};
use crate::index::fold::{Folds, SharedIndexes};
use crate::index::groups::SharedGroups;
use crate::index::kept::KeptList;
use crate::index::overview::OverviewSegments;
use crate::index::residents::{Residents, ResidentsState};
use crate::index::rings::{RingClass, Rings};
use crate::index::row_headers::RowHeaders;
use crate::index::rules::{CLASSES_MAX, StorageRules};
use crate::open::paths::SpoolPaths;
use arc_swap::ArcSwap;
use disk::Progress;
use disk::clock::unix_secs;
use disk::copy_aside;
use disk::{Disk, FileAccess, OpenMode, durable_replace, hex, read_around};
use spool_base::config::SpoolConfig;
use spool_base::error::SpoolError;
use spool_base::ids::{GroupId, GroupNames};
use spool_base::key::KeyHasher;
use spool_base::ordered::Ordered;
use spool_base::token::MethodKind;
use spool_history::History;
use spool_journal::{GroupsFile, VolumeRow};
use spool_methods::cnfs::header::BufferHeader;
use spool_methods::cnfs::{Cycbuff, FoundBuffer};
use spool_methods::packing::ArticlePacker;
use spool_methods::{MemoryVolume, Retained, Volume, Volumes};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tracing::error;

/// Sources from which the parts are opened.
pub(super) struct OpeningSource<'a> {
    pub disk: &'a Arc<dyn Disk>,
    pub config: &'a SpoolConfig,
    pub found: &'a [Option<FoundBuffer>],
    pub groups_file: &'a Arc<GroupsFile>,
    /// Checkpoint to start from; `None` leaves the indexes empty.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Volumes named by the journal, or by a checkpoint of no other use, with the first write position known.
    /// A new volume must have the number of none of them.
    pub named: &'a [VolumeRow],
    /// Whether the indexes are rebuilt from the buffers, which continues with new headers of buffers.
    pub is_rebuild: bool,
}

/// An index that does not match the checkpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum LostIndex {
    #[error("history is lost ({0})")]
    History(io::Error),
    #[error("overview is lost ({0})")]
    Overview(io::Error),
    /// A segment that the checkpoint names is missing from the overview.
    #[error("overview is lost")]
    OverviewSegment,
    /// The list of the articles in a volume.
    #[error("the list of what {volume} holds is damaged")]
    Articles {
        /// Name of the volume.
        volume: String,
    },
}

/// Opens volumes and folds, as of a checkpoint or empty. The inner error is an index that does not match the
/// checkpoint: without it the folds must be rebuilt.
pub(super) fn start(
    source: &OpeningSource<'_>,
    progress: &dyn Progress,
) -> Result<Result<Folds, LostIndex>, SpoolError> {
    let OpeningSource { disk, config, checkpoint, .. } = *source;
    if config.classes.len() > CLASSES_MAX {
        let n = config.classes.len();
        return Err(SpoolError::Unfit(format!("{n} storage classes; at most {CLASSES_MAX} are possible")));
    }
    let paths = SpoolPaths::new(&config.dir);
    let secret = secret(source)?;
    let names = Arc::default();
    let (volumes, next_volume) = open_volumes(source, &secret, &names)?;
    let records = checkpoint.map(|c| c.history).unwrap_or_default();
    let history = match History::open(disk.clone(), &paths.history, records, progress, config.history) {
        Ok(history) => history,
        Err(e) if checkpoint.is_some() && is_unfit(&e) => return Ok(Err(LostIndex::History(e))),
        Err(e) => return Err(SpoolError::io("open history in", &paths.history)(e)),
    };
    let states = checkpoint.map(|c| c.segments.as_slice()).unwrap_or_default();
    let segments = match OverviewSegments::open(disk, &paths.overview, states, config.overview) {
        Ok(segments) => segments,
        Err(e) if checkpoint.is_some() && is_unfit(&e) => return Ok(Err(LostIndex::Overview(e))),
        Err(e) => return Err(SpoolError::io("open overview in", &paths.overview)(e)),
    };
    let (residents, kept) = match open_lists(source, &volumes, &paths)? {
        Ok(lists) => lists,
        Err(lost) => return Ok(Err(lost)),
    };
    let packing = ArticlePacker::open(disk, &paths.dictionaries, &config.classes)
        .map_err(SpoolError::io("open dictionaries in", &paths.dictionaries))?;
    let classes: Vec<&str> = config.classes.iter().map(|c| c.name.as_str()).collect();
    let rules = StorageRules::new(&config.rules, |name| classes.iter().position(|c| *c == name))?;
    let shared = Arc::new(SharedIndexes {
        config: config.clone(),
        current: ArcSwap::from_pointee(config.clone()),
        disk: disk.clone(),
        hasher: KeyHasher::new(secret),
        groups: SharedGroups::default(),
        groups_file: source.groups_file.clone(),
        volumes: Volumes::new(volumes),
        history,
        packing: Arc::new(packing),
        hidden: crate::index::hidden::HiddenIndex::default(),
        notes: Default::default(),
        overtaken: Default::default(),
        checked_blocks: Default::default(),
        generation: AtomicU64::new(1),
        list: Ordered::default(),
        withdrawals: AtomicU64::new(0),
        articles: AtomicU64::new(0),
        lost_pages: AtomicU64::new(0),
        mended_pages: AtomicU64::new(0),
        passed_over: AtomicU64::new(0),
        unnumbered: Default::default(),
        removals: Default::default(),
        is_digest_vague: AtomicBool::new(false),
        row_headers: RowHeaders::open(&**disk, &paths.dir, &config.overview_headers)?,
    });
    let mut folds = Folds::new(shared, rules, residents, segments, unix_secs());
    folds.next_volume = next_volume;
    (folds.kept, folds.names) = (kept, names);
    let rings = checkpoint.map_or_else(Vec::new, |c| c.rings.clone());
    let volumes = folds.shared.volumes.load_full();
    folds.rings = Rings::new(rings, &RingClass::all(config), &volumes, checkpoint.is_none());
    match checkpoint {
        Some(c) if !load(&mut folds, c) => Ok(Err(LostIndex::OverviewSegment)),
        _ => Ok(Ok(folds)),
    }
}

type Lists = (Vec<Residents>, Vec<Option<KeptList>>);

/// Opens the lists of residents and retained articles, or returns which list is damaged.
fn open_lists(
    source: &OpeningSource<'_>,
    volumes: &[Arc<dyn Volume>],
    paths: &SpoolPaths,
) -> Result<Result<Lists, LostIndex>, SpoolError> {
    let OpeningSource { disk, checkpoint, .. } = *source;
    let (mut residents, mut kept) = (Vec::new(), Vec::new());
    for volume in volumes {
        let saved = checkpoint.and_then(|c| c.volumes.iter().find(|(v, _)| v.id == volume.id()));
        let state = saved.map_or(ResidentsState::default(), |(_, state)| *state);
        let lost = || LostIndex::Articles { volume: volume.name().to_owned() };
        let dir = paths.residents.join(format!("{:05}", volume.id()));
        let mut stream = match Residents::open(disk, dir, state) {
            Ok(stream) => stream,
            Err(e) if checkpoint.is_some() && is_unfit(&e) => return Ok(Err(lost())),
            Err(e) => return Err(SpoolError::io("open residents in", &paths.residents)(e)),
        };
        if state.written > state.read && stream.front().is_err() {
            return Ok(Err(lost()));
        }
        residents.push(stream);
        let list = match volume.retained().map(|volume| open_kept(volume, source, paths)) {
            Some(Err(e)) if checkpoint.is_some() && is_unfit(&e) => {
                return Ok(Err(lost()));
            }
            Some(list) => Some(list.map_err(SpoolError::io("open residents in", &paths.kept))?),
            None => None,
        };
        kept.push(list);
    }
    Ok(Ok((residents, kept)))
}

/// Fills the folds from a checkpoint; returns false if an overview segment is missing.
fn load(folds: &mut Folds, c: &Checkpoint) -> bool {
    folds.next_sequence = c.next_sequence;
    folds.boot_id = c.boot_id;
    folds.closed = c.closed;
    folds.is_upgrade = c.is_old_form;
    folds.identity.clone_from(&c.identity);
    folds.sites.clone_from(&c.sites);
    folds.position.clone_from(&c.log_position);
    folds.retired = c.retired.iter().cloned().collect();
    c.gone_names.iter().for_each(|(id, name)| folds.names.put(GroupId(*id), name));
    let rows: Vec<_> = c.groups.iter().map(|g| g.row.clone()).collect();
    folds.add_groups(&rows);
    folds.numbers.resize(c.next_group as usize, Default::default());
    let table = folds.shared.groups.snapshot();
    for g in &c.groups {
        let Some(group) = table.get(GroupId(g.row.id)) else { return false };
        let Some(blocks) = restore_blocks(group.id, &g.blocks, &folds.segments) else { return false };
        let mut state = group.state();
        state.live = g.live.clone();
        state.overview.blocks = blocks.into();
        state.overview.open = g.open.clone();
        state.sum = g.sum;
        if g.changed > 0 {
            state.changed = g.changed;
        }
        if let Some(numbers) = folds.numbers.get_mut(g.row.id as usize) {
            numbers.assigned = g.assigned;
        }
    }
    folds.shared.articles.store(c.articles, Ordering::Relaxed);
    c.hidden.iter().cloned().for_each(|hidden| folds.load_hidden(hidden));
    folds.forgotten_at = c.forgotten_at;
    match c.known_ids {
        Some(sum) => folds.shared.history.set_sum(sum),
        // Sums were not kept, or are not known.
        None => folds.shared.is_digest_vague.store(true, Ordering::Release),
    }
    folds.note_all(&c.notes);
    let volumes = folds.shared.volumes.load();
    for (id, place) in &c.left_to {
        if let Some(volume) = volumes.get(*id).and_then(|volume| volume.cyclic()) {
            volume.leave_to(*place);
        }
    }
    true
}

/// The secret of the Message-ID hash: from the file `secret`, else from a volume's header, else a new one. A
/// file that is damaged is kept aside, and logged with what that costs.
fn secret(source: &OpeningSource<'_>) -> Result<[u8; 16], SpoolError> {
    let OpeningSource { disk, config, found, checkpoint, .. } = *source;
    let path = config.dir.join("secret");
    let io = |doing: &'static str| SpoolError::io(doing, path.clone());
    let mut text = vec![0; SECRET_FILE_BYTES];
    let read = match disk.open(&path, OpenMode::ReadOnly) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        file => Some(read_around(&*file.map_err(io("open"))?, &mut text, 0).map_err(io("read"))?),
    };
    let headers = || found.iter().flatten().filter_map(|f| f.header.as_ref());
    let trees = super::trees::headers(&**disk, config)?;
    if let Some(secret) = read.and_then(|n| text.get(..n)).and_then(read_secret) {
        same_secret(&path, &secret, headers())?;
        return Ok(secret);
    }
    let known =
        headers().map(|h| &h.secret).chain(trees.iter().map(|t| &t.secret)).find_map(|s| parse_secret(s));
    let costs = if known.is_some() { SECRET_KNOWN } else { SECRET_LOST };
    if read.is_some() {
        let aside = copy_aside(&**disk, &path).map_err(io("keep the damaged"))?;
        error!(file = %path.display(), set_aside = %aside.display(), "a file is damaged: {costs}");
    } else if known.is_some() || checkpoint.is_some() {
        error!(file = %path.display(), "a file is missing: {costs}");
    }
    let secret = known.or(config.secret).unwrap_or_else(random_secret);
    let text = secret_text(&secret);
    durable_replace(&**disk, &path, &[text.as_bytes()], FileAccess::Owner).map_err(io("write"))?;
    Ok(secret)
}

/// Consequence of the loss of the file `secret` if a volume's header has the secret, too.
const SECRET_KNOWN: &str = "it is written again from a volume's header, and nothing is lost";
/// Consequence if no header has it.
const SECRET_LOST: &str = "no volume has the secret either, so there is a new one: articles stored before \
                           are found by group and number alone, and are accepted again if they come again";

/// Refuses buffers that were created with another secret than the one in the file `path`.
pub(crate) fn same_secret<'a>(
    path: &Path,
    secret: &[u8; 16],
    mut headers: impl Iterator<Item = &'a BufferHeader>,
) -> Result<(), SpoolError> {
    match headers.find(|h| parse_secret(&h.secret).is_some_and(|s| s != *secret)) {
        None => Ok(()),
        Some(other) => Err(SpoolError::Unfit(format!(
            "the secret in {} is not the one that buffer \"{}\" was made with; put the right file back, or \
             remove it to have it written again from the buffer, or empty that buffer if it belongs to \
             another spool",
            path.display(),
            other.name
        ))),
    }
}

fn parse_secret(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text.trim(), 16).ok().map(u128::to_be_bytes)
}

/// Returns the error for a volume with articles that the configuration does not mention.
pub(crate) fn not_configured(volume: &VolumeRow) -> SpoolError {
    let what = if volume.method == MethodKind::Cnfs as u8 { "buffer" } else { "class" };
    let name = &volume.name;
    SpoolError::Unfit(format!(
        "{what} \"{name}\" holds articles but is not in the configuration; put it back, or run `newsreel \
         rebuild --without {name}` to go on without its articles"
    ))
}

/// Length of the file `secret`: digits, space, checksum, LF.
const SECRET_FILE_BYTES: usize = 42;

/// Returns the contents of the file `secret`.
pub(crate) fn secret_text(secret: &[u8; 16]) -> String {
    let digits = hex::digits(secret);
    format!("{digits} {:08x}\n", disk::crc::crc32c(digits.as_bytes()))
}

/// Parses the contents; `None` if a single bit has changed.
pub(crate) fn read_secret(text: &[u8]) -> Option<[u8; 16]> {
    let digits = std::str::from_utf8(text.get(..32)?).ok()?;
    let secret = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
    (secret_text(&secret).as_bytes() == text).then_some(secret)
}

/// Reads the file `secret`; `None` if there is none.
pub(crate) fn read_secret_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<[u8; 16]>> {
    let mut text = vec![0; SECRET_FILE_BYTES];
    match disk.open(path, OpenMode::ReadOnly) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?.read_exact_at(&mut text, 0)?,
    }
    let secret = read_secret(&text);
    secret.map(Some).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it is damaged"))
}

/// Returns the secret of an open spool, as in the buffers' headers.
pub(crate) fn secret_of(disk: &dyn Disk, dir: &Path) -> Result<String, SpoolError> {
    let path = dir.join("secret");
    let mut text = vec![0; SECRET_FILE_BYTES];
    let read = disk.open(&path, OpenMode::ReadOnly).and_then(|file| file.read_exact_at(&mut text, 0));
    read.map_err(SpoolError::io("read", &path))?;
    let secret = read_secret(&text);
    let secret = secret.ok_or_else(|| SpoolError::Unfit(format!("{} is damaged", path.display())))?;
    Ok(hex::digits(&secret))
}

/// Returns random bytes of the system, as used by the standard library for hashing.
fn random_secret() -> [u8; 16] {
    let half = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8);
    (u128::from(half()) << 64 | u128::from(half())).to_be_bytes()
}

/// Opens or creates the volumes: buffers by the configuration, and one for each `memory` class. Also returns
/// the number of the next new volume.
fn open_volumes(
    source: &OpeningSource<'_>,
    secret: &[u8; 16],
    names: &Arc<GroupNames>,
) -> Result<(Vec<Arc<dyn Volume>>, u16), SpoolError> {
    let OpeningSource { disk, config, found, checkpoint, named, is_rebuild, .. } = *source;
    let saved = checkpoint.map(|c| c.volumes.as_slice()).unwrap_or_default();
    let on_disk = found.iter().flatten().filter_map(|f| f.header.as_ref()).map(|h| h.volume);
    let in_trees = super::trees::headers(&**disk, config)?;
    let in_trees = in_trees.iter().map(|h| h.volume);
    let ids =
        saved.iter().map(|(v, _)| v.id).chain(named.iter().map(|v| v.id)).chain(on_disk).chain(in_trees);
    let mut next = ids.max().map_or(0, |id| id + 1);
    let mut fresh = || {
        next += 1;
        next - 1
    };
    let mut volumes: Vec<Arc<dyn Volume>> = Vec::new();
    for (buffer, found) in config.buffers.iter().zip(found) {
        let known = saved.iter().find(|(v, _)| v.name == buffer.name && v.method == MethodKind::Cnfs as u8);
        volumes.push(match (found, known) {
            (Some(found), _) if found.header.is_none() && is_rebuild => {
                let row = named.iter().find(|v| v.name == buffer.name && v.method == MethodKind::Cnfs as u8);
                let id = row.map_or_else(&mut fresh, |v| v.id);
                Arc::new(Cycbuff::reconstruct(found, buffer, id, &hex::digits(secret))?)
            }
            (Some(found), _) if is_rebuild => Arc::new(Cycbuff::open(found, buffer, None)?),
            (Some(found), Some((known, _))) => Arc::new(Cycbuff::open(found, buffer, Some(known.head))?),
            (Some(found), None) => {
                // A kill may have interrupted its creation before its name was durable; rows will name it.
                let dir = buffer.path.parent().unwrap_or(Path::new(""));
                disk.sync_dir(dir).map_err(SpoolError::io("sync directory", dir))?;
                Arc::new(Cycbuff::open(found, buffer, first_head(found, named))?)
            }
            (None, Some((v, _))) if v.head > 0 && used(saved, v.id) => {
                return Err(super::presence::missing(buffer));
            }
            (None, known) => {
                let id = known.map_or_else(&mut fresh, |(v, _)| v.id);
                Arc::new(Cycbuff::create(&**disk, buffer, id, &hex::digits(secret))?)
            }
        });
    }
    open_memories(config, saved, &mut fresh, &mut volumes);
    for class in config.classes.iter().filter(|c| c.method.keeps()) {
        let known = saved.iter().find(|(v, _)| v.name == class.name && v.method == class.method as u8);
        let used = known.is_some_and(|(v, _)| checkpoint.is_some_and(|c| c.keeps_in(v.id)));
        let id = known.map_or_else(&mut fresh, |(v, _)| v.id);
        let known = TreeInfo { head: known.map(|(v, _)| v.head), id, secret: &hex::digits(secret), used };
        volumes.push(super::trees::open(disk, names, class, known)?);
    }
    for (gone, _) in saved {
        let used = used(saved, gone.id) || checkpoint.is_some_and(|c| c.keeps_in(gone.id));
        if volumes.iter().any(|v| v.id() == gone.id) || !used {
            continue;
        }
        if gone.method == MethodKind::Memory as u8 {
            // Opened once more, without a class, so that its articles are displaced like all others in
            // memory.
            volumes.push(Arc::new(MemoryVolume::new(gone.id, &gone.name, 0, Some(gone.head))));
            continue;
        }
        return Err(not_configured(gone));
    }
    check_ids(&volumes)?;
    Ok((volumes, next))
}

/// Returns the write position from which rows are replayed in a buffer that the checkpoint does not have:
/// that of the first row that names it, or else the beginning of its first cycle. Its header may have that of
/// articles whose rows have been cut off since. `None` if the beginning is not known.
fn first_head(found: &FoundBuffer, named: &[VolumeRow]) -> Option<u64> {
    let header = found.header.as_ref()?;
    let row = named.iter().find(|v| v.id == header.volume).map(|v| v.head);
    row.or_else(|| header.head.checked_sub(header.free).filter(|_| header.cycle == 1))
}

/// Refuses volumes with the same number, which tokens could not distinguish.
fn check_ids(volumes: &[Arc<dyn Volume>]) -> Result<(), SpoolError> {
    let mut ids: Vec<u16> = volumes.iter().map(|v| v.id()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|w| w[0] == w[1]) {
        return Err(SpoolError::Unfit(
            "two buffers have the same volume number: one is a copy of the other".into(),
        ));
    }
    Ok(())
}

/// Creates the volumes of the classes of method `memory`.
fn open_memories(
    config: &SpoolConfig,
    saved: &[(VolumeRow, ResidentsState)],
    fresh: &mut dyn FnMut() -> u16,
    volumes: &mut Vec<Arc<dyn Volume>>,
) {
    for class in config.classes.iter().filter(|c| c.method == MethodKind::Memory) {
        let known = saved.iter().find(|(v, _)| v.name == class.name && v.method == MethodKind::Memory as u8);
        let id = known.map_or_else(&mut *fresh, |(v, _)| v.id);
        volumes.push(Arc::new(MemoryVolume::new(
            id,
            &class.name,
            class.size_bytes,
            known.map(|(v, _)| v.head),
        )));
    }
}

/// Opens the list of articles retained in a volume, and loads the volume's part of the checkpoint.
fn open_kept(volume: &dyn Retained, source: &OpeningSource<'_>, paths: &SpoolPaths) -> io::Result<KeptList> {
    let saved = source.checkpoint.and_then(|c| c.kept.iter().find(|k| k.volume == volume.id()));
    let dir = paths.kept.join(format!("{:05}", volume.id()));
    let list = KeptList::open(source.disk, dir, saved.map_or(&Vec::new(), |k| &k.files))?;
    if saved.is_some_and(|k| !volume.load(&k.own)) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(list)
}

/// Reports whether a volume has articles.
fn used(saved: &[(VolumeRow, ResidentsState)], id: u16) -> bool {
    saved.iter().any(|(v, state)| v.id == id && state.written > state.read)
}

/// Reports whether an error means that an index file is missing or damaged.
fn is_unfit(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
        || disk::is_unreadable(e)
}
