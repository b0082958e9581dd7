//! The durable memory of an archive (`docs/formats/archive.md`).

use disk::{Disk, FileAccess, durable_replace, read_or_set_aside};
use site_base::summed::{text_without_sum, with_sum};
use spool::ArticleKey;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory below `site.data`.
pub(super) const DIR: &str = "archive";
const FIRST_LINE: &str = "newsreel archive 1";
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Articles of an mbox that are remembered: more than are copied between two states to which a crash can
/// return.
const DONE_MAX: usize = 8_192;

/// Progress of writing an mbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MboxState {
    /// Length of the file before or after the last append.
    pub bytes: u64,
    /// Whether the append is complete; if not, data after `bytes` is partial.
    pub is_whole: bool,
}

/// The memory of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ArchiveMemory {
    /// Directory of the first copy, as configured; empty before any copy.
    pub begun: String,
    /// Number of articles ever copied.
    pub archived: u64,
    /// Number of articles ever removed without a copy.
    pub missed: u64,
    /// Offset in each cyclic volume before which all articles are done.
    pub places: BTreeMap<u16, u64>,
    /// State of the mbox.
    pub mbox: Option<MboxState>,
    /// Latest articles in the mbox.
    done: VecDeque<ArticleKey>,
    known: HashSet<ArticleKey>,
}

impl ArchiveMemory {
    /// Returns whether the mbox has the article, as far as is remembered.
    pub fn is_done(&self, key: &ArticleKey) -> bool {
        self.known.contains(key)
    }

    /// Records that the mbox has the article.
    pub fn add_done(&mut self, key: ArticleKey) {
        if self.known.insert(key) {
            self.done.push_back(key);
        }
        while self.done.len() > DONE_MAX {
            self.done.pop_front().map(|oldest| self.known.remove(&oldest));
        }
    }

    /// Clears everything that depends on the directory, if that has changed.
    pub fn forget_other(&mut self, dir: &str) {
        if self.begun != dir {
            let (archived, missed, places) = (self.archived, self.missed, std::mem::take(&mut self.places));
            *self = Self { archived, missed, places, ..Self::default() };
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\narchived {}\nmissed {}\n", self.archived, self.missed);
        if !self.begun.is_empty() {
            text.push_str(&format!("begun {}\n", self.begun));
        }
        self.places.iter().for_each(|(volume, place)| text.push_str(&format!("place {volume} {place}\n")));
        if let Some(MboxState { bytes, is_whole }) = self.mbox {
            text.push_str(&format!("mbox {bytes} {}\n", if is_whole { "whole" } else { "open" }));
        }
        self.done.iter().for_each(|key| text.push_str(&format!("done {:032x}\n", key.0)));
        with_sum(text)
    }

    fn parsed(text: &[u8]) -> Option<Self> {
        let mut lines = text_without_sum(text)?.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let mut memory = Self::default();
        for line in lines {
            if let Some(dir) = line.strip_prefix("begun ") {
                memory.begun = dir.to_owned();
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            match *words.as_slice() {
                ["archived", n] => memory.archived = n.parse().ok()?,
                ["missed", n] => memory.missed = n.parse().ok()?,
                ["place", volume, place] => {
                    memory.places.insert(volume.parse().ok()?, place.parse().ok()?);
                }
                ["mbox", bytes, state @ ("whole" | "open")] => {
                    memory.mbox = Some(MboxState { bytes: bytes.parse().ok()?, is_whole: state == "whole" });
                }
                ["done", key] => memory.add_done(ArticleKey(u128::from_str_radix(key, 16).ok()?)),
                _ => return None,
            }
        }
        Some(memory)
    }
}

/// Returns whether the file of an archive's memory is whole.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    ArchiveMemory::parsed(bytes).is_some()
}

/// File of an archive's memory.
#[derive(Debug)]
pub(super) struct ArchiveMemoryFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl ArchiveMemoryFile {
    /// Returns the file for the archive of this name, of the site in `data`.
    pub fn of(disk: Arc<dyn Disk>, data: &Path, name: &str) -> Self {
        Self { disk, path: data.join(DIR).join(format!("{name}.state")) }
    }

    /// Reads the memory. A damaged file counts as empty: articles not known to be copied are copied again.
    pub fn read(&self) -> io::Result<ArchiveMemory> {
        let costs = "what is not known to be in the archive is copied again; an mbox may get articles twice";
        let read = read_or_set_aside(&*self.disk, &self.path, FILE_BYTES_MAX, costs, ArchiveMemory::parsed)?;
        Ok(read.whole().unwrap_or_default())
    }

    /// Writes the memory; durable on return.
    pub fn write(&self, memory: &ArchiveMemory) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            self.disk.create_dir(dir)?;
        }
        durable_replace(&*self.disk, &self.path, &[memory.text().as_bytes()], FileAccess::Group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_back_and_damage_is_noticed() {
        let mut memory =
            ArchiveMemory { begun: "/an archive".into(), archived: 7, missed: 2, ..ArchiveMemory::default() };
        memory.places = [(3, 99), (4, 5)].into();
        memory.mbox = Some(MboxState { bytes: 4_096, is_whole: false });
        (0..DONE_MAX as u128 + 5).for_each(|n| memory.add_done(ArticleKey(n)));
        assert!(
            !memory.is_done(&ArticleKey(4))
                && memory.is_done(&ArticleKey(5))
                && memory.done.len() == DONE_MAX
        );
        let text = memory.text();
        assert_eq!(ArchiveMemory::parsed(text.as_bytes()), Some(memory.clone()));
        memory.forget_other("/an archive");
        assert_eq!(ArchiveMemory::parsed(text.as_bytes()), Some(memory.clone()));
        memory.forget_other("/other");
        assert_eq!((memory.archived, memory.places.len(), memory.mbox), (7, 2, None));
        assert!(memory.begun.is_empty() && !memory.is_done(&ArticleKey(5)));
        for at in (0..text.len()).step_by(997) {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert_eq!(ArchiveMemory::parsed(&damaged), None, "{at}");
            assert_eq!(ArchiveMemory::parsed(&text.as_bytes()[..at]), None, "{at}");
        }
    }
}
