//! One archive: its directory, its memory and its status.

use super::copy::ArchiveCopy;
use super::missed::MissedLog;
use super::state::{ArchiveMemory, ArchiveMemoryFile};
use super::{maildir, mbox, tree};
use crate::report::ArchiveStatus;
use disk::{Disk, FileAccess, durable_create};
use lock_order::Ordered;
use site_base::clock::unix_secs;
use site_base::lock::{Leaf, rank};
use site_config::{Archive, ArchiveForm, ArchiveTrigger};
use spool::Spool;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tracing::{error, info, warn};

/// File that marks a directory as an archive.
const MARKER: &str = ".newsreel-archive";
/// Contents of this file.
const MARKER_TEXT: &[u8] =
    b"This directory is an archive of newsreel. Where this file is missing, nothing is copied.\n";

/// Reason why an archive cannot be written, and since when.
#[derive(Debug, Clone)]
struct ArchiveTrouble {
    since: Instant,
    text: String,
}

/// State of the copying.
#[derive(Debug)]
struct ArchiveStore {
    memory: Option<ArchiveMemory>,
    /// Whether the next articles may have been copied already: set at the start and after an error.
    again: bool,
}

/// An archive of the configuration.
#[derive(Debug)]
pub(super) struct ArchiveSection {
    pub config: Archive,
    disk: Arc<dyn Disk>,
    file: ArchiveMemoryFile,
    log: Arc<MissedLog>,
    store: Ordered<ArchiveStore, { rank::ARCHIVE_STORE }>,
    trouble: Leaf<Option<ArchiveTrouble>>,
    counts: Leaf<ArchiveCounts>,
    /// Articles due that the last pass of expiry held back, because they could not be copied.
    held: AtomicU64,
}

/// Figures for the status, kept apart from the memory, which is locked during copying.
#[derive(Debug, Clone, Copy, Default)]
struct ArchiveCounts {
    archived: u64,
    missed: u64,
    /// Time of the last copy since the start, in Unix seconds.
    last: Option<u64>,
}

impl ArchiveSection {
    pub fn new(config: Archive, disk: Arc<dyn Disk>, data: &Path, log: Arc<MissedLog>) -> Self {
        let file = ArchiveMemoryFile::of(disk.clone(), data, &config.name);
        // A file that cannot be read is tried again at the next copy.
        let memory = file.read().ok();
        let counts = memory.as_ref().map(|memory| {
            let ArchiveMemory { archived, missed, .. } = *memory;
            ArchiveCounts { archived, missed, last: None }
        });
        let (store, counts) = (ArchiveStore { memory, again: true }, Leaf::new(counts.unwrap_or_default()));
        let (trouble, held) = Default::default();
        Self { config, disk, file, log, store: Ordered::new(store), trouble, counts, held }
    }

    /// Returns the name of the archive's cursor and of its reader of cyclic volumes.
    pub fn reader(&self) -> String {
        reader_of(&self.config.name)
    }

    /// Returns whether the archive copies articles on expiry.
    pub fn is_for_expiry(&self) -> bool {
        self.config.when == ArchiveTrigger::Expiry
    }

    /// Returns the numbers in groups that the archive is for.
    pub fn wanted(&self, numbers: &[(String, u64)]) -> Vec<(String, u64)> {
        let is_wanted = |(group, _): &&(String, u64)| self.config.groups.matches(group.as_bytes());
        numbers.iter().filter(is_wanted).cloned().collect()
    }

    /// Copies articles; they are durable on success.
    pub fn put(&self, copies: &[ArchiveCopy]) -> io::Result<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let mut store = self.store.lock();
        let put = self.put_in(&mut store, copies);
        store.again = put.is_err();
        drop(store);
        match &put {
            Ok(()) => self.works(),
            Err(error) => self.fails(error),
        }
        put
    }

    fn put_in(&self, store: &mut ArchiveStore, copies: &[ArchiveCopy]) -> io::Result<()> {
        let again = store.again;
        let memory = self.memory(store)?;
        self.check_root(memory)?;
        let (disk, root) = (&*self.disk, &self.config.path);
        let fresh = match self.config.form {
            ArchiveForm::Tree => tree::put(disk, root, copies)?,
            ArchiveForm::Maildir => maildir::put(disk, root, copies, again)?,
            ArchiveForm::Mbox => {
                let path = root.join(format!("{}.mbox", self.config.name));
                mbox::put(disk, &path, copies, memory, &self.file)?
            }
        };
        memory.archived += fresh;
        self.file.write(memory)?;
        let mut counts = self.counts.lock();
        (counts.archived, counts.last) = (memory.archived, Some(unix_secs()));
        Ok(())
    }

    fn memory<'a>(&self, store: &'a mut ArchiveStore) -> io::Result<&'a mut ArchiveMemory> {
        match &mut store.memory {
            Some(memory) => Ok(memory),
            none => Ok(none.insert(self.file.read()?)),
        }
    }

    /// Checks that the directory is the archive, and not an empty mount point.
    fn check_root(&self, memory: &mut ArchiveMemory) -> io::Result<()> {
        let root = &self.config.path;
        let missing = |text: String| Err(io::Error::new(io::ErrorKind::NotFound, text));
        if !self.disk.has_dir(root)? {
            return missing(format!("there is no directory {}", root.display()));
        }
        // Lines of the memory must not contain line ends.
        let dir = root.to_string_lossy().replace('\n', "?");
        memory.forget_other(&dir);
        let marker = root.join(MARKER);
        if self.disk.about(&marker)?.is_some() {
            memory.begun = dir;
        } else if !memory.begun.is_empty() {
            return missing(format!(
                "{} is not the archive any more (it has no file {MARKER}): mount its disk",
                root.display()
            ));
        } else {
            durable_create(&*self.disk, &marker, &[MARKER_TEXT], FileAccess::Group)?;
            memory.begun = dir;
            self.file.write(memory)?;
        }
        Ok(())
    }

    /// Returns the offset in a cyclic volume before which all articles are done.
    pub fn place(&self, volume: u16) -> io::Result<Option<u64>> {
        let mut store = self.store.lock();
        Ok(self.memory(&mut store)?.places.get(&volume).copied())
    }

    /// Records offsets in cyclic volumes before which all articles are done; durable on return.
    pub fn set_places(&self, places: &[(u16, u64)]) -> io::Result<()> {
        let mut store = self.store.lock();
        let memory = self.memory(&mut store)?;
        let before = memory.places.clone();
        memory.places.extend(places.iter().copied());
        let written = if memory.places == before { Ok(()) } else { self.file.write(memory) };
        if written.is_err() {
            memory.places = before;
        }
        written
    }

    /// Records articles that were removed without a copy, with the numbers known.
    pub fn missed(&self, articles: u64, why: &str, numbers: &[Vec<(String, u64)>]) {
        if articles == 0 {
            return;
        }
        let name = &self.config.name;
        warn!(archive = name, articles, "articles are gone without a copy: {why}");
        let noted = self.log.add(unix_secs(), name, why, numbers).and_then(|()| {
            let mut store = self.store.lock();
            let memory = self.memory(&mut store)?;
            memory.missed += articles;
            self.counts.lock().missed = memory.missed;
            self.file.write(memory)
        });
        if let Err(error) = noted {
            error!(archive = name, %error, "cannot record which articles went without a copy");
        }
    }

    /// Records that the archive cannot be written; logs each reason once.
    pub fn fails(&self, error: &io::Error) {
        let text = error.to_string();
        let mut trouble = self.trouble.lock();
        let since = trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
        if trouble.as_ref().is_none_or(|trouble| trouble.text != text) {
            warn!(archive = self.config.name, "articles cannot be copied now: {text}");
        }
        *trouble = Some(ArchiveTrouble { since, text });
    }

    fn works(&self) {
        if self.trouble.lock().take().is_some() {
            info!(archive = self.config.name, "articles are copied again");
        }
    }

    /// Returns whether the archive fails now.
    pub fn is_failing(&self) -> bool {
        self.trouble.lock().is_some()
    }

    /// Returns whether it has failed for so long that articles due no longer wait for it.
    pub fn has_failed_long(&self) -> bool {
        self.trouble.lock().as_ref().is_some_and(|trouble| trouble.since.elapsed() >= self.config.wait_max)
    }

    /// Pretends that the archive has failed for `time`.
    #[cfg(test)]
    pub fn has_failed_for(&self, time: std::time::Duration) {
        if let (Some(trouble), Some(since)) = (&mut *self.trouble.lock(), Instant::now().checked_sub(time)) {
            trouble.since = since;
        }
    }

    /// Records how many articles the last pass of expiry held back for the archive.
    pub fn set_held(&self, articles: u64) {
        self.held.store(articles, Ordering::Relaxed);
    }

    /// Returns whether articles that are due wait for the archive.
    pub fn is_awaited(&self) -> bool {
        self.held.load(Ordering::Relaxed) > 0
    }

    /// Returns the status of the archive.
    pub fn status(&self, spool: &Spool) -> ArchiveStatus {
        let ArchiveCounts { archived, missed, last } = *self.counts.lock();
        let trouble = self.trouble.lock().clone();
        let held = self.held.load(Ordering::Relaxed);
        let gives_up =
            trouble.as_ref().map(|trouble| self.config.wait_max.saturating_sub(trouble.since.elapsed()));
        let reader = self.reader();
        let readers = spool.journal().status();
        let cursor = readers.iter().find(|of| of.name == reader);
        ArchiveStatus {
            name: self.config.name.clone(),
            path: self.config.path.display().to_string(),
            when: word_of(self.config.when),
            form: word_of(self.config.form),
            archived,
            last,
            waiting_bytes: cursor.map(|cursor| cursor.backlog_bytes),
            missed: missed + cursor.map_or(0, |cursor| cursor.lost_articles),
            held,
            gives_up_secs: gives_up.filter(|_| held > 0).map(|left| left.as_secs()),
            problem: trouble.map(|trouble| trouble.text).unwrap_or_default(),
        }
    }
}

/// Returns the name of an archive's cursor.
pub(super) fn reader_of(name: &str) -> String {
    format!("{CURSOR_PREFIX}{name}")
}

/// Prefix of the names of archives' cursors.
pub(super) const CURSOR_PREFIX: &str = "archive.";

fn word_of<W: site_config::ConfigWord + PartialEq>(value: W) -> String {
    let found = W::WORDS.iter().find(|(_, one)| *one == value);
    found.map(|(word, _)| (*word).to_owned()).unwrap_or_default()
}

/// Returns the path of the log of missed articles.
pub(super) fn log_path(data: &Path) -> PathBuf {
    data.join(super::state::DIR).join("missed")
}
