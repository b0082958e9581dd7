//! Hidden articles, notes, and where rings have got to, in a rebuild: records have none of them, so they are
//! taken from the checkpoint and from the remaining rows of the journal.
//!
//! The checkpoint is removed before a rebuild begins, so its lists are kept in the file `hidden` until
//! another checkpoint exists (`docs/formats/hidden.md`).

use crate::index::checkpoint::Checkpoint;
use crate::index::fold::Folds;
use crate::index::notes::{KeyedNote, put_notes, read_notes};
use crate::index::rings::{put_places, read_places};
use crate::read::article::ArticleBuf;
use disk::ReadMode;
use disk::crc::crc32c;
use disk::{Disk, FileAccess, OpenMode, durable_replace, read_small};
use spool_base::codec::{ByteReader, put_sized, put_varint};
use spool_base::hidden::HiddenArticle;
use spool_base::key::ArticleKey;
use spool_history::HistoryLookup;
use spool_journal::{put_hidden, read_hidden};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;

const MAGIC: &[u8; 8] = b"NHidden2";
/// Magic of files without notes.
const MAGIC_OLD: &[u8; 8] = b"NHidden1";
const NAME: &str = "hidden";
/// Maximum length of the file: a million entries of a kilobyte and more.
const FILE_BYTES_MAX: u64 = 2 << 30;

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// State of a checkpoint that nothing else has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CheckpointRemains {
    pub hidden: Vec<HiddenArticle>,
    pub notes: Vec<KeyedNote>,
    /// Places before which everything has left its ring, by number of the volume.
    pub left_to: Vec<(u16, u64)>,
}

/// Returns the state of before a rebuild. That in the checkpoint, which will be removed, is saved in the
/// file.
pub(crate) fn before(
    disk: &dyn Disk,
    dir: &Path,
    checkpoint: Option<&Checkpoint>,
) -> io::Result<CheckpointRemains> {
    let Some(c) = checkpoint else { return kept(disk, dir) };
    let Checkpoint { hidden, notes, left_to, .. } = c;
    let state = CheckpointRemains { hidden: hidden.clone(), notes: notes.clone(), left_to: left_to.clone() };
    keep(disk, dir, &state).map(|()| state)
}

fn keep(disk: &dyn Disk, dir: &Path, state: &CheckpointRemains) -> io::Result<()> {
    if *state == CheckpointRemains::default() {
        forget(disk, dir);
        return Ok(());
    }
    let mut list = Vec::new();
    put_varint(state.hidden.len() as u64, &mut list);
    state.hidden.iter().for_each(|hidden| put_sized(&mut list, |out| put_hidden(hidden, out)));
    put_notes(&state.notes, &mut list);
    put_places(&state.left_to, &mut list);
    let crc = crc32c(&list).to_le_bytes();
    durable_replace(disk, &path(dir), &[MAGIC, &crc, &list], FileAccess::Group)
}

/// Returns the lists saved by an earlier rebuild that did not complete.
fn kept(disk: &dyn Disk, dir: &Path) -> io::Result<CheckpointRemains> {
    let Some(bytes) = read_small(disk, &path(dir), FILE_BYTES_MAX)? else {
        return Ok(CheckpointRemains::default());
    };
    let state = read(&bytes);
    if state.is_none() {
        warn!("spool {}: the file \"{NAME}\" is damaged: what was hidden may be shown again", dir.display());
    }
    Ok(state.unwrap_or_default())
}

fn read(bytes: &[u8]) -> Option<CheckpointRemains> {
    let old = bytes.strip_prefix(MAGIC_OLD);
    let mut r = ByteReader(old.or_else(|| bytes.strip_prefix(MAGIC))?);
    let crc: [u8; 4] = r.array()?;
    (crc == crc32c(r.0).to_le_bytes()).then_some(())?;
    let hidden = (0..r.count(4)?).map(|_| read_hidden(&mut r.sized()?)).collect::<Option<_>>()?;
    let notes = if old.is_some() { Vec::new() } else { read_notes(&mut r)? };
    let left_to = if r.is_empty() { Vec::new() } else { read_places(&mut r)? };
    Some(CheckpointRemains { hidden, notes, left_to })
}

/// Removes the saved lists, which are now in a checkpoint. Failing to remove it is harmless.
pub(crate) fn forget(disk: &dyn Disk, dir: &Path) {
    if disk.open(&path(dir), OpenMode::ReadOnly).is_ok() {
        let _stays = disk.remove(&path(dir));
    }
}

/// Hides articles that were found again. Groups may have other ids than before; their names are in the
/// articles.
pub(super) fn hide_again(folds: &mut Folds, hidden: BTreeMap<ArticleKey, HiddenArticle>) {
    let shared = folds.shared.clone();
    let mut buf = ArticleBuf::default();
    for (key, hidden) in hidden {
        let HistoryLookup::At(token, _) = shared.history.lookup(&key) else { continue };
        if let Ok(true) = shared.read(&token, Some(&key), ReadMode::Wait, &mut buf) {
            let numbers = shared.groups.table().numbers_in(buf.head());
            let message_id = String::from_utf8_lossy(buf.message_id()).into_owned();
            folds.hide(HiddenArticle { token, numbers, message_id, ..hidden });
        }
    }
}
