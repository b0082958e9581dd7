//! Withdrawing articles.

use super::Spool;
use crate::base::error::{ReadError, SpoolTrouble, TroubleKind};
use crate::base::ids::GroupId;
use crate::base::key::ArticleKey;
use crate::base::token::Token;
use crate::index::groups::GroupTable;
use crate::index::withdrawing::RemoveFiles;
use crate::journal::JournalRow;
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::write::commit::{SpoolWriter, trouble};
use disk::ReadMode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of rows made durable by one sync.
const AT_ONCE_MAX: usize = 1_024;
/// Maximum on a full disk, so that the rows fit into the reserved space.
const AT_ONCE_FULL_MAX: usize = 64;

/// Location of a living article.
pub(super) struct LivingArticle {
    pub token: Token,
    pub numbers: Vec<(GroupId, u64)>,
}

impl Spool {
    /// Cancels an article (CNFS-12); returns false if it does not exist.
    pub fn cancel(&self, message_id: &[u8]) -> Result<bool, SpoolTrouble> {
        Ok(self.cancel_all(&[self.key(message_id)])? == [true])
    }

    /// Cancels articles; returns for each whether it existed. One sync of the journal makes up to 1,024
    /// cancels durable, and the writer does not wait while articles are looked up. An unreadable article
    /// causes an error after the others are cancelled.
    pub fn cancel_all(&self, keys: &[ArticleKey]) -> Result<Vec<bool>, SpoolTrouble> {
        let mut cancelled = Vec::with_capacity(keys.len());
        let mut unreadable = None;
        let mut at_once = if self.trouble().is_some() { AT_ONCE_FULL_MAX } else { AT_ONCE_MAX };
        let mut rest = keys;
        while !rest.is_empty() {
            let (keys, later) = rest.split_at(rest.len().min(at_once));
            match self.cancel_some(keys, &mut unreadable) {
                // The disk has just become full.
                Err(trouble) if trouble.kind == TroubleKind::Full && at_once > AT_ONCE_FULL_MAX => {
                    at_once = AT_ONCE_FULL_MAX;
                }
                gone => {
                    let mut gone = gone?;
                    // For a key that occurs twice, only the first has found the article.
                    cancelled.extend(keys.iter().map(|key| gone.remove(key)));
                    rest = later;
                }
            }
        }
        match unreadable {
            None => Ok(cancelled),
            Some(e) => Err(SpoolTrouble::new(TroubleKind::Io, format!("cannot read what is cancelled: {e}"))),
        }
    }

    /// Cancels articles; returns those that existed.
    fn cancel_some(
        &self,
        keys: &[ArticleKey],
        unreadable: &mut Option<ReadError>,
    ) -> Result<BTreeSet<ArticleKey>, SpoolTrouble> {
        loop {
            let table = self.shared.groups.snapshot();
            let mut living = self.living(&table, keys, unreadable);
            if living.is_empty() {
                return Ok(BTreeSet::new());
            }
            self.sync.sync_journal()?;
            let mut writer = self.writer.lock();
            // The numbers belong to the groups in `table`.
            if !Arc::ptr_eq(&table, &self.shared.groups.snapshot()) {
                continue;
            }
            living.retain(|key, at| self.shared.lookup(key) == Lookup::Present(at.token));
            if !living.is_empty() {
                cancel_now(&mut writer, &living)?;
            }
            drop(writer);
            self.remove_files()?;
            if self.sync.trouble().is_some() {
                self.writer.lock().end_freeing();
            }
            return Ok(living.into_keys().collect());
        }
    }

    /// Removes the files of articles that have left the indexes. Called without the writer's lock.
    pub(crate) fn remove_files(&self) -> Result<(), SpoolTrouble> {
        let volumes = self.shared.volumes.load_full();
        let removed = self.shared.removals.finish(&volumes);
        removed.map_err(|e| self.sync.stop(trouble("remove the file of an article", &e)))
    }

    /// Returns the living ones of these articles, each once.
    pub(super) fn living(
        &self,
        table: &GroupTable,
        keys: &[ArticleKey],
        unreadable: &mut Option<ReadError>,
    ) -> BTreeMap<ArticleKey, LivingArticle> {
        let mut living = BTreeMap::new();
        let mut buf = ArticleBuf::default();
        for key in keys {
            let Lookup::Present(token) = self.shared.lookup(key) else { continue };
            match self.shared.read(&token, Some(key), ReadMode::Wait, &mut buf) {
                Ok(true) => {
                    living.insert(*key, LivingArticle { token, numbers: table.numbers_in(buf.head()) });
                }
                Ok(false) => {}
                Err(e) => *unreadable = Some(e),
            }
        }
        living
    }
}

fn cancel_now(
    writer: &mut SpoolWriter,
    living: &BTreeMap<ArticleKey, LivingArticle>,
) -> Result<(), SpoolTrouble> {
    writer.may_free()?;
    for (key, LivingArticle { token, numbers }) in living {
        writer.journal.push(&JournalRow::Cancel { key: *key, token: *token, numbers: numbers.clone() });
    }
    if let Err(trouble) = writer.write_now() {
        writer.journal.discard();
        return Err(trouble);
    }
    for (key, LivingArticle { token, numbers }) in living {
        writer.folds.cancel(*key, *token, numbers, RemoveFiles::Later);
    }
    writer.freed()
}
