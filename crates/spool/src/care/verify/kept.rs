//! Checks of volumes of retained articles: the list of each volume against history, files against articles.
//!
//! Findings that may be commits or expiries in progress are checked again with the writer held.

use crate::care::finding::{SpoolDamage, VerifyReport};
use crate::index::fold::SharedIndexes;
use crate::write::commit::SpoolWriter;
use crate::write::locked::LockedWriter;
use disk::Progress;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_history::{HistoryLookup, HistoryRecord};
use spool_methods::{Retained, Stray, StrayKind, tree_header};
use std::collections::HashMap;
use std::io;

/// Checks volumes of retained articles.
pub(super) struct KeptCheck<'s> {
    pub shared: &'s SharedIndexes,
    pub writer: &'s LockedWriter,
}

impl KeptCheck<'_> {
    /// Checks lists and files.
    pub fn check(&self, progress: &dyn Progress, report: &mut VerifyReport) {
        let volumes = self.shared.volumes.load();
        for (index, volume) in volumes.all().iter().enumerate() {
            let Some(volume) = volume.retained() else { continue };
            let place = || format!("class {}", volume.name());
            let listed = match self.listed(index, report) {
                Ok(listed) => listed,
                Err(e) => {
                    report.found(place(), format!("the list of what is kept cannot be read: {e}"), None);
                    continue;
                }
            };
            self.check_listed(index, volume, &listed, report);
            progress.start(&format!("checking the files of class {}", volume.name()), 0);
            if let Err(e) = self.check_strays(volume, &listed, report) {
                report.found(place(), format!("its files cannot be looked through: {e}"), None);
            }
            progress.finish();
        }
        let current = self.shared.current.load();
        for class in current.classes.iter().filter(|c| c.method.keeps()) {
            let dir = &class.tree.path;
            for path in tree_header::damaged(&*self.shared.disk, dir) {
                let what = "is damaged or missing; the next start writes it again from the other copy";
                report.found(
                    path.display().to_string(),
                    what,
                    Some(SpoolDamage::TreeFile { dir: dir.clone() }),
                );
            }
        }
    }

    /// Checks the lists of retained articles, without the files.
    pub fn check_lists(&self, report: &mut VerifyReport) {
        let volumes = self.shared.volumes.load();
        for (index, volume) in volumes.all().iter().enumerate() {
            let Some(volume) = volume.retained() else { continue };
            match self.listed(index, report) {
                Ok(listed) => self.check_listed(index, volume, &listed, report),
                Err(e) => {
                    let place = format!("class {}", volume.name());
                    report.found(place, format!("the list of what is kept cannot be read: {e}"), None);
                }
            }
        }
    }

    /// Returns places and keys of the articles in the list of a volume.
    fn listed(&self, index: usize, report: &mut VerifyReport) -> io::Result<HashMap<u64, ArticleKey>> {
        let mut writer = self.writer.lock();
        let (listed, damaged) = read_list(&mut writer, index)?;
        drop(writer);
        if damaged > 0 {
            let what = "pages of the list of what is kept are damaged: their articles would never expire";
            let volumes = self.shared.volumes.load();
            let name = volumes.all().get(index).map_or("", |v| v.name()).to_owned();
            report.found(format!("class {name}: {damaged}"), what, Some(SpoolDamage::KeptPages { index }));
        }
        Ok(listed)
    }

    /// Checks that every article is in the list, without which it never expires.
    fn check_listed(
        &self,
        index: usize,
        volume: &dyn Retained,
        listed: &HashMap<u64, ArticleKey>,
        report: &mut VerifyReport,
    ) {
        let is_missing = |record: &HistoryRecord, listed: &HashMap<u64, ArticleKey>| {
            let here = |t: &Token| t.volume == volume.id() && !listed.contains_key(&t.place);
            record.token.is_some_and(|t| here(&t))
        };
        let mut missing = Vec::new();
        self.shared.history.for_each(0, &mut |_, record| {
            missing.extend(record.filter(|r| is_missing(r, listed)));
        });
        if missing.is_empty() {
            return;
        }
        let mut writer = self.writer.lock();
        let Ok((listed, _)) = read_list(&mut writer, index) else { return };
        for record in missing {
            let key = ArticleKey(record.key_bits);
            if let HistoryLookup::At(token, _) = self.shared.history.lookup(&key)
                && is_missing(&HistoryRecord { token: Some(token), ..record }, &listed)
            {
                let what = "is not in the list of what is kept: it would never expire";
                report.found(
                    self.shared.volumes.load().token_text(&token),
                    what,
                    Some(SpoolDamage::Unlisted { index, key, token }),
                );
            }
        }
    }

    /// Finds files that belong to no living article.
    fn check_strays(
        &self,
        volume: &dyn Retained,
        listed: &HashMap<u64, ArticleKey>,
        report: &mut VerifyReport,
    ) -> io::Result<()> {
        let strays = self.strays(volume, listed)?;
        if strays.is_empty() {
            return Ok(());
        }
        let _writer = self.writer.lock();
        // Some may be articles that were just being stored or removed.
        let now = self.strays(volume, listed)?;
        for stray in strays.into_iter().filter(|stray| now.contains(stray)) {
            let place = stray.path.display().to_string();
            match stray.kind {
                StrayKind::Left => {
                    let what = "no number and no Message-ID leads to it: left by a crash";
                    let damage = SpoolDamage::Stray { volume: volume.id(), path: stray.path };
                    report.found(place, what, Some(damage));
                }
                StrayKind::Unknown { .. } => {
                    let what = "is a whole article that no index knows: indexes are older than it, \
                        or a crash left it";
                    let damage = SpoolDamage::NotIndexed { volume: volume.id(), path: stray.path };
                    report.found(place, what, Some(damage));
                }
                StrayKind::Foreign => {
                    report.found(place, "is no article of this class; nothing reads it: move it away", None);
                }
                StrayKind::Unreadable => {
                    report.found(place, "cannot be read, and no index knows it: move it away", None);
                }
            }
        }
        Ok(())
    }

    fn strays(&self, volume: &dyn Retained, listed: &HashMap<u64, ArticleKey>) -> io::Result<Vec<Stray>> {
        let mut strays = Vec::new();
        self.shared
            .with_living(volume, listed, |living| volume.strays(living, &mut |stray| strays.push(stray)))?;
        // Sorted by arrival, in which unknown articles are taken in.
        strays.sort_by_key(|stray| match stray.kind {
            StrayKind::Unknown { sequence } => sequence,
            StrayKind::Left | StrayKind::Foreign | StrayKind::Unreadable => 0,
        });
        Ok(strays)
    }
}

fn read_list(writer: &mut SpoolWriter, index: usize) -> io::Result<(HashMap<u64, ArticleKey>, u64)> {
    let mut listed = HashMap::new();
    let Some(list) = writer.folds.kept.get_mut(index).and_then(Option::as_mut) else {
        return Ok((listed, 0));
    };
    let damaged = list.verify(&mut |e| _ = listed.insert(e.place, e.key))?;
    Ok((listed, damaged))
}
