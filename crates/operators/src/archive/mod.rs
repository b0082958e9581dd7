//! Copies of articles that outlive them: the `[[archive]]` sections (`docs/archive.md`; CN-25, CN-46, CN-47).
//!
//! With `when = "arrival"` a durable cursor follows the journal ([`arrivals`]). With `when = "expiry"`
//! articles of cyclic volumes are copied when the write position approaches ([`overwriting`]), and expiry
//! asks before it removes a kept one ([`Archives`] is the spool's [`Archivist`]): an article without a copy
//! is held back, copied between two passes, and removed by the next. An archive that fails is retried and
//! delays nothing else; after `wait_max` articles that are due are removed without a copy, counted and
//! listed.

mod arrivals;
mod copy;
pub mod maildir;
mod mbox;
mod missed;
pub mod operation;
mod overwriting;
mod run;
mod section;
mod state;
#[cfg(test)]
mod tests;
mod tree;

pub use run::keep_archiving;

use super::report::ArchiveStatus;
pub use copy::ArchiveCopy;
use copy::{CopyOutcome, fetch};
use disk::Disk;
use lock_order::Ordered;
use missed::MissedLog;
use section::ArchiveSection;
use site::Site;
use site_base::lock::rank;
use site_config::Config;
use spool::{Archivist, ArticleBuf, ArticleKey, ExpiryHook, LeavingArticle, Spool, SpoolReader, Token};
pub(super) use state::is_whole as is_state_whole;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Articles held back in one pass of expiry; further ones follow in the next.
const HELD_MAX: usize = 4_096;
/// Bytes of articles that are copied together.
const CHUNK_BYTES: usize = 8 << 20;
/// Reason for articles removed without a copy.
const NO_ARCHIVE: &str = "its archive could not be written";

/// An article that waits to be copied.
#[derive(Debug, Clone)]
struct DueArticle {
    key: ArticleKey,
    token: Token,
    numbers: Vec<(String, u64)>,
}

/// State of articles that are due.
#[derive(Debug, Default)]
struct DueArticles {
    held: Vec<DueArticle>,
    /// Articles that have been copied, by archive.
    done: HashSet<(String, ArticleKey)>,
    /// Articles removed without a copy and not counted yet, by archive.
    missed: Vec<(String, Vec<(String, u64)>)>,
}

/// The archives of a site.
#[derive(Debug)]
pub struct Archives {
    disk: Arc<dyn Disk>,
    data: PathBuf,
    log: Arc<MissedLog>,
    sections: Ordered<Vec<Arc<ArchiveSection>>, { rank::ARCHIVES }>,
    due: Ordered<DueArticles, { rank::ARCHIVES_DUE }>,
}

impl Archives {
    /// Creates the archives of a configuration.
    pub fn of(config: &Config, disk: &Arc<dyn Disk>) -> Self {
        let data = config.site.data.clone();
        let log = Arc::new(MissedLog::of(disk.clone(), &data));
        let archives =
            Self { disk: disk.clone(), data, log, sections: Ordered::default(), due: Ordered::default() };
        archives.apply(config);
        archives
    }

    /// Creates the archives of a server, and registers them with the spool's expiry.
    pub fn of_site(site: &Site) -> Arc<Self> {
        let archives = Arc::new(Self::of(&site.config.load(), site.spool.disk()));
        site.spool.expiry().set_archivist(Some(archives.clone()));
        archives
    }

    /// Applies another configuration; archives that are unchanged continue.
    pub fn apply(&self, config: &Config) {
        let mut sections = self.sections.lock();
        let section = |config: &site_config::Archive| {
            let same = sections.iter().find(|section| section.config == *config).cloned();
            same.unwrap_or_else(|| {
                let (disk, log) = (self.disk.clone(), self.log.clone());
                Arc::new(ArchiveSection::new(config.clone(), disk, &self.data, log))
            })
        };
        *sections = config.archives.iter().map(section).collect();
    }

    fn sections(&self) -> Vec<Arc<ArchiveSection>> {
        self.sections.lock().clone()
    }

    /// Returns whether articles that are due wait for a failing archive.
    pub fn are_awaited(&self) -> bool {
        self.sections().iter().any(|section| section.is_awaited())
    }

    /// Returns the status of all archives, in the order of the configuration.
    pub fn status(&self, spool: &Spool) -> Vec<ArchiveStatus> {
        self.sections().iter().map(|section| section.status(spool)).collect()
    }

    /// Copies the held articles that one archive wants; returns whether any may now be removed.
    fn copy_held(&self, reader: &SpoolReader<'_>, section: &ArchiveSection, held: &[DueArticle]) -> bool {
        let is_done = {
            let due = self.due.lock();
            let of_section = due.done.iter().filter(|(name, _)| *name == section.config.name);
            of_section.map(|(_, key)| *key).collect::<HashSet<ArticleKey>>()
        };
        let (mut buf, mut copies, mut bytes, mut keys) = (ArticleBuf::default(), Vec::new(), 0, Vec::new());
        let mut lost = Vec::new();
        let mut all = held.iter().filter(|article| !is_done.contains(&article.key)).peekable();
        while let Some(article) = all.next() {
            let numbers = section.wanted(&article.numbers);
            if !numbers.is_empty() {
                keys.push(article.key);
                match fetch(reader, section.config.honor_no_archive, &article.key, &article.token, &mut buf) {
                    CopyOutcome::Here => {
                        let copy = ArchiveCopy::of(article.key, numbers, &buf);
                        bytes += copy.text.len();
                        copies.push(copy);
                    }
                    CopyOutcome::Withdrawn => {}
                    CopyOutcome::Lost => lost.push(numbers),
                }
            }
            if bytes >= CHUNK_BYTES || all.peek().is_none() {
                if section.put(&copies).is_err() {
                    // Articles that could not be read are tried again with the rest.
                    return false;
                }
                copies.clear();
                bytes = 0;
            }
        }
        section.missed(lost.len() as u64, "it could not be read", &lost);
        let mut due = self.due.lock();
        due.done.extend(keys.iter().map(|key| (section.config.name.clone(), *key)));
        !keys.is_empty()
    }

    /// Counts the articles that were removed without a copy.
    fn count_missed(&self) {
        let missed = std::mem::take(&mut self.due.lock().missed);
        for section in self.sections() {
            let of_section = missed.iter().filter(|(name, _)| *name == section.config.name);
            let numbers: Vec<_> = of_section.map(|(_, numbers)| numbers.clone()).collect();
            section.missed(numbers.len() as u64, NO_ARCHIVE, &numbers);
        }
    }
}

impl ExpiryHook for Archives {
    fn may_leave(&self, article: &LeavingArticle<'_>) -> bool {
        let sections = self.sections.lock();
        if !sections.iter().any(|section| section.is_for_expiry()) {
            return true;
        }
        let named = |(group, number): &(&str, u64)| ((*group).to_owned(), *number);
        let numbers: Vec<(String, u64)> = article.numbers.iter().map(named).collect();
        let mut due = self.due.lock();
        let mut missed = Vec::new();
        for section in sections.iter().filter(|section| section.is_for_expiry()) {
            let wanted = section.wanted(&numbers);
            let name = &section.config.name;
            if wanted.is_empty() || due.done.contains(&(name.clone(), article.key)) {
                continue;
            }
            // An article whose space is needed now does not wait for a failing archive.
            if section.has_failed_long() || article.is_given_up && section.is_failing() {
                missed.push((name.clone(), wanted));
                continue;
            }
            if due.held.len() < HELD_MAX {
                let (key, token) = (article.key, article.token);
                due.held.push(DueArticle { key, token, numbers });
            }
            return false;
        }
        due.missed.extend(missed);
        if !due.done.is_empty() {
            sections.iter().for_each(|section| {
                due.done.remove(&(section.config.name.clone(), article.key));
            });
        }
        true
    }
}

impl Archivist for Archives {
    fn archive_held(&self, reader: &SpoolReader<'_>) -> bool {
        self.count_missed();
        let held = {
            let mut due = self.due.lock();
            let held = std::mem::take(&mut due.held);
            // Articles that this pass did not ask about again have been removed in another way.
            let keys: HashSet<ArticleKey> = held.iter().map(|article| article.key).collect();
            due.done.retain(|(_, key)| keys.contains(key));
            held
        };
        let mut may_go = false;
        for section in self.sections().iter().filter(|section| section.is_for_expiry()) {
            may_go |= self.copy_held(reader, section, &held);
            let waits = |article: &&DueArticle| !section.wanted(&article.numbers).is_empty();
            let waiting = if section.is_failing() { held.iter().filter(waits).count() } else { 0 };
            section.set_held(waiting as u64);
        }
        may_go
    }
}
