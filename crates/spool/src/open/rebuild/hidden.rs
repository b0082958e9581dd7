//! Hidden articles in a rebuild: records do not say what is hidden, so it is taken from the checkpoint and
//! from the remaining rows of the journal.
//!
//! The checkpoint is removed before a rebuild begins, so its list is kept in the file `hidden` until another
//! checkpoint exists (`docs/formats/hidden.md`).

use crate::base::codec::{ByteReader, put_sized, put_varint};
use crate::base::hidden::HiddenArticle;
use crate::base::key::ArticleKey;
use crate::index::checkpoint::Checkpoint;
use crate::index::fold::Folds;
use crate::index::history::HistoryLookup;
use crate::journal::{put_hidden, read_hidden};
use crate::read::article::ArticleBuf;
use disk::ReadMode;
use disk::crc::crc32c;
use disk::{Disk, FileAccess, OpenMode, durable_replace, read_small};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;

const MAGIC: &[u8; 8] = b"NHidden1";
const NAME: &str = "hidden";
/// Maximum length of the file: a million entries of a kilobyte and more.
const FILE_BYTES_MAX: u64 = 2 << 30;

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Returns the articles hidden before a rebuild. Those in the checkpoint, which will be removed, are saved in
/// the file.
pub(crate) fn before(
    disk: &dyn Disk,
    dir: &Path,
    checkpoint: Option<&Checkpoint>,
) -> io::Result<Vec<HiddenArticle>> {
    match checkpoint {
        Some(c) => keep(disk, dir, &c.hidden).map(|()| c.hidden.clone()),
        None => kept(disk, dir),
    }
}

fn keep(disk: &dyn Disk, dir: &Path, hidden: &[HiddenArticle]) -> io::Result<()> {
    if hidden.is_empty() {
        forget(disk, dir);
        return Ok(());
    }
    let mut list = Vec::new();
    put_varint(hidden.len() as u64, &mut list);
    hidden.iter().for_each(|hidden| put_sized(&mut list, |out| put_hidden(hidden, out)));
    let crc = crc32c(&list).to_le_bytes();
    durable_replace(disk, &path(dir), &[MAGIC, &crc, &list], FileAccess::Group)
}

/// Returns the list saved by an earlier rebuild that did not complete.
fn kept(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<HiddenArticle>> {
    let Some(bytes) = read_small(disk, &path(dir), FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    let hidden = read(&bytes);
    if hidden.is_none() {
        warn!("spool {}: the file \"{NAME}\" is damaged: what was hidden may be shown again", dir.display());
    }
    Ok(hidden.unwrap_or_default())
}

fn read(bytes: &[u8]) -> Option<Vec<HiddenArticle>> {
    let mut r = ByteReader(bytes.strip_prefix(MAGIC)?);
    let crc: [u8; 4] = r.array()?;
    (crc == crc32c(r.0).to_le_bytes()).then_some(())?;
    (0..r.count(4)?).map(|_| read_hidden(&mut r.sized()?)).collect()
}

/// Removes the saved list, which is now in a checkpoint. Failing to remove it is harmless.
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
