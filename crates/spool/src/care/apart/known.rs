//! Information in the directory of another server's spool that its buffers do not have: groups, hidden
//! articles, and the locations of other articles.
//!
//! Read from the last checkpoint and the journal rows after it. While that server writes, a checkpoint may
//! replace the one that was read, and rows be removed with it; then everything is read once more.

use crate::index::checkpoint::Checkpoint;
use crate::open::paths::SpoolPaths;
use disk::Disk;
use spool_base::error::SpoolError;
use spool_base::ids::{GroupFlag, GroupId};
use spool_base::key::ArticleKey;
use spool_base::token::MethodKind;
use spool_journal::{GroupRow, JournalReader, JournalRow, VolumeRow};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of attempts to read a directory that changes meanwhile.
const READINGS_MAX: u32 = 5;

/// Information about another server's spool.
#[derive(Debug, Default)]
pub struct SpoolApart {
    /// Groups, in order of id.
    pub groups: Vec<GroupApart>,
    /// Keys of the articles that are hidden there.
    pub hidden: HashSet<ArticleKey>,
    /// Volumes: storage method and name.
    pub volumes: Vec<(MethodKind, String)>,
    /// Directory of the dictionaries.
    pub dictionaries: PathBuf,
}

/// A group of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupApart {
    /// Name of the group.
    pub name: String,
    /// Flag.
    pub flag: GroupFlag,
    /// Description; empty: none.
    pub description: String,
    /// Creator; empty: unknown.
    pub creator: String,
    /// Time of creation, in Unix seconds; 0: unknown.
    pub created: u64,
    /// Highest number assigned in the group.
    pub high: u64,
}

/// State while rows are applied.
#[derive(Default)]
struct SpoolApartBuilder {
    groups: BTreeMap<u32, GroupRow>,
    hidden: HashSet<ArticleKey>,
    ahead: HashSet<ArticleKey>,
    volumes: BTreeMap<u16, VolumeRow>,
}

impl SpoolApart {
    /// Reports whether a directory is that of a spool (`site.data` of a server).
    pub fn is_one(disk: &dyn Disk, dir: &Path) -> bool {
        let paths = SpoolPaths::new(dir);
        disk.has_dir(&paths.journal).unwrap_or(false) && disk.has_dir(&paths.index).unwrap_or(false)
    }

    /// Reads the information about the spool in `dir`.
    ///
    /// # Errors
    /// A checkpoint or journal that cannot be read, or whose server writes faster than it can be read.
    pub fn read(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Self, SpoolError> {
        let paths = SpoolPaths::new(dir);
        for _ in 0..READINGS_MAX {
            let checkpoint = Checkpoint::read(&**disk, &paths.index)?;
            let (from, mut known) = match checkpoint {
                Some(checkpoint) => (Some(checkpoint.position), SpoolApartBuilder::of(checkpoint)),
                None => (None, SpoolApartBuilder::default()),
            };
            if known.follow(disk, &paths, from)? {
                return Ok(known.told(paths.dictionaries));
            }
        }
        let text = format!("{} changes faster than it can be read; stop its server", dir.display());
        Err(SpoolError::Unfit(text))
    }
}

impl SpoolApartBuilder {
    fn of(checkpoint: Checkpoint) -> Self {
        let group = |g: crate::index::checkpoint::GroupCheckpoint| {
            (g.row.id, GroupRow { high: g.row.high.max(g.assigned), ..g.row })
        };
        Self {
            groups: checkpoint.groups.into_iter().map(group).collect(),
            hidden: checkpoint.hidden.iter().map(|hidden| hidden.key).collect(),
            ahead: HashSet::new(),
            volumes: checkpoint.volumes.into_iter().map(|(volume, _)| (volume.id, volume)).collect(),
        }
    }

    /// Applies the journal from a position on; returns false if that is no longer in the journal.
    fn follow(
        &mut self,
        disk: &Arc<dyn Disk>,
        paths: &SpoolPaths,
        from: Option<u64>,
    ) -> Result<bool, SpoolError> {
        let failed = || SpoolError::io("read journal in", &paths.journal);
        // A file was removed since the directory was listed.
        let lost = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let mut rows = match JournalReader::open(disk, &paths.journal, from) {
            Err(error) if lost(&error) => return Ok(false),
            rows => rows.map_err(failed())?,
        };
        if from.is_some() && !rows.is_open() {
            return Ok(false);
        }
        loop {
            match rows.next_row() {
                Err(error) if lost(&error) => return Ok(false),
                Err(error) => return Err(failed()(error)),
                Ok(None) => return Ok(true),
                Ok(Some((_, payload))) => {
                    if let Some(row) = JournalRow::decode(payload) {
                        self.apply(row);
                    }
                }
            }
        }
    }

    fn apply(&mut self, row: JournalRow<'_>) {
        match row {
            JournalRow::Group(row) => {
                self.groups.insert(row.id, row);
            }
            JournalRow::GroupRemoved { name, .. } => self.groups.retain(|_, group| group.name != name),
            JournalRow::Volume(row) => {
                self.volumes.insert(row.id, row);
            }
            JournalRow::Hide(hidden) => {
                self.hidden.insert(hidden.key);
            }
            JournalRow::Unhide { key, .. } => {
                self.hidden.remove(&key);
            }
            JournalRow::HideAhead { key, .. } => {
                self.ahead.insert(key);
            }
            JournalRow::Article(article) => {
                if self.ahead.remove(&article.key) || article.tagged.hidden().is_some() {
                    self.hidden.insert(article.key);
                }
                let mut numbers: Vec<(GroupId, u64)> = Vec::new();
                article.numbers(&mut numbers);
                for (group, number) in numbers {
                    if let Some(group) = self.groups.get_mut(&group.0) {
                        group.high = group.high.max(number);
                    }
                }
            }
            _ => {}
        }
    }

    fn told(self, dictionaries: PathBuf) -> SpoolApart {
        // Articles to be hidden may be recorded before their row is.
        let hidden = self.hidden.into_iter().chain(self.ahead).collect();
        let group = |row: GroupRow| GroupApart {
            name: row.name,
            flag: row.flag,
            description: row.description,
            creator: row.creator,
            created: row.created,
            high: row.high,
        };
        let volume = |row: VolumeRow| Some((MethodKind::from_u8(row.method)?, row.name));
        SpoolApart {
            groups: self.groups.into_values().map(group).collect(),
            hidden,
            volumes: self.volumes.into_values().filter_map(volume).collect(),
            dictionaries,
        }
    }
}
