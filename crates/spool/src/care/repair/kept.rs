//! Repairs in volumes of retained articles: names, lists, remaining files.

use super::error::RepairError;
use crate::care::finding::SpoolDamage;
use crate::index::fold::{Folds, SharedIndexes};
use crate::index::kept::{KeptEntry, thread_of};
use crate::open::rebuild::Region;
use crate::open::recovery::unjournaled::take_record;
use crate::write::commit::{SpoolWriter, trouble};
use crate::write::locked::LockedWriter;
use crate::write::syncer::failed_sync;
use disk::ReadMode;
use netnews::article::{Article, Known};
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_history::HistoryLookup;
use spool_journal::JournalRow;
use spool_methods::cnfs::record::{END, HEADER_BYTES, RecordHeader, is_whole};
use spool_methods::{Retained, tree_header};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Repairs of volumes of retained articles.
pub(super) struct KeptRepair<'s> {
    pub shared: &'s SharedIndexes,
    pub writer: &'s LockedWriter,
}

impl KeptRepair<'_> {
    /// Repairs damage; does nothing if it is not of such a volume.
    pub fn mend(&self, damage: &SpoolDamage) -> Result<(), RepairError> {
        let volumes = self.shared.volumes.load();
        let mut writer = self.writer.lock();
        match damage {
            SpoolDamage::Misplaced { key, token, numbers } => {
                let volume = volumes.get(token.volume).and_then(|v| v.retained());
                let restored = volume.map(|v| v.restore(token.place, *key, numbers, false));
                if restored.unwrap_or(Ok(false))? { Ok(()) } else { Err(RepairError::NoWholeName) }
            }
            SpoolDamage::Name { token, group, number } => {
                let lives = self.shared.groups.get(*group).is_some_and(|g| g.state().live.contains(*number));
                let volume = volumes.get(token.volume).and_then(|v| v.retained()).filter(|_| lives);
                Ok(volume.map_or(Ok(()), |v| v.restore_name(token.place, *group, *number))?)
            }
            SpoolDamage::KeptPages { index } => {
                let list = writer.folds.kept.get_mut(*index).and_then(Option::as_mut);
                Ok(list.map_or(Ok(()), |list| list.renew())?)
            }
            SpoolDamage::Unlisted { index, key, token } => {
                let Some(entry) = self.kept_entry(*key, token)? else { return Ok(()) };
                let list = writer.folds.kept.get_mut(*index).and_then(Option::as_mut);
                Ok(list.map_or(Ok(()), |list| list.push(&entry))?)
            }
            SpoolDamage::Stray { volume, path } => {
                let mut listed = HashMap::new();
                let volume =
                    volumes.index(*volume).and_then(|i| Some((i, volumes.all().get(i)?.retained()?)));
                let Some((index, volume)) = volume else { return Ok(()) };
                if let Some(list) = writer.folds.kept.get_mut(index).and_then(Option::as_mut) {
                    let mut enter = |e: &KeptEntry| _ = listed.insert(e.place, e.key);
                    list.verify(&mut enter)?;
                }
                let is_stray =
                    self.shared.with_living(volume, &listed, |living| volume.is_stray(path, living));
                if is_stray? { Ok(self.remove_stray(path)?) } else { Ok(()) }
            }
            SpoolDamage::NotIndexed { volume, path } => {
                let volume = volumes.get(*volume).and_then(|v| v.retained());
                let Some(volume) = volume else { return Ok(()) };
                self.take_in(&mut writer, volume, path)
            }
            SpoolDamage::TreeFile { dir } => Ok(tree_header::mend(&*self.shared.disk, dir)?),
            _ => Ok(()),
        }
    }

    /// Writes a row for a whole article that no index knows, if its numbers are higher than all assigned
    /// ones.
    fn take_in(
        &self,
        writer: &mut SpoolWriter,
        volume: &dyn Retained,
        path: &Path,
    ) -> Result<(), RepairError> {
        let table = self.shared.groups.snapshot();
        let place = volume.place_of_file(path, &mut |name| table.id(name))?;
        let region = place.map(|place| Region::of_places(self.shared, volume, &[place]));
        let record = region.as_ref().and_then(|region| Some((region, region.records.first()?)));
        let Some((region, record)) = record.filter(|(_, record)| record.resolved && record.live) else {
            return Err(RepairError::NotFirstName);
        };
        if self.shared.history.lookup(&record.header.key) != HistoryLookup::None {
            return Ok(());
        }
        writer.accepting()?;
        let SpoolWriter { folds, journal, sync, .. } = writer;
        let mut put = |folds: &mut Folds, row: &JournalRow<'_>| {
            journal.push(row);
            // The row must be durable before its numbers are shown.
            journal.write().map_err(|e| trouble("write journal", &e))?;
            journal.sync_set().sync().map_err(|e| failed_sync(&e))?;
            folds.apply(row).map_err(|e| trouble("read residents", &e))
        };
        let taken = take_record(folds, volume, region, record, &mut put);
        journal.reveal(folds.next_sequence);
        sync.wrote(0);
        match taken {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(RepairError::NumbersTaken),
            Err(trouble) => {
                journal.discard();
                Err(sync.stop(trouble).into())
            }
        }
    }

    /// Returns the thread of an article, from its record; a thread of its own if that cannot be unpacked.
    fn thread_in(&self, header: &RecordHeader, mut record: Vec<u8>) -> u64 {
        let mut unpacked = Vec::new();
        if header.packed && self.shared.packing.unpack(header, &mut record, &mut unpacked).is_ok() {
            record = unpacked;
        }
        let data = record.get(HEADER_BYTES..).unwrap_or_default();
        let article = data.strip_suffix(END).and_then(|wire| Article::parse(wire).ok());
        let references = article.as_ref().and_then(|article| article.header(Known::References));
        thread_of(&self.shared.hasher, header.key, references.unwrap_or_default())
    }

    fn remove_stray(&self, path: &Path) -> io::Result<()> {
        self.shared.disk.remove(path)?;
        path.parent().map_or(Ok(()), |dir| self.shared.disk.sync_dir(dir))
    }

    /// Reconstructs an article's entry in its volume's list, as far as possible from the article; `None` if
    /// the article does not exist.
    fn kept_entry(&self, key: ArticleKey, token: &Token) -> Result<Option<KeptEntry>, RepairError> {
        if !matches!(self.shared.history.lookup(&key), HistoryLookup::At(t, _) if t == *token) {
            return Ok(None);
        }
        let volumes = self.shared.volumes.load();
        let Some(volume) = volumes.get(token.volume) else { return Ok(None) };
        let mut buf = Vec::new();
        let fetched = volume.fetch(token.place, ReadMode::Wait, &mut buf)?;
        let Some((header, _)) = fetched.filter(|_| is_whole(&buf)) else {
            return Err(RepairError::UnreadableArticle);
        };
        let data = buf.get(HEADER_BYTES..).unwrap_or_default();
        let line = if header.packed { spool_methods::packing::xref_line(data) } else { data };
        let numbers = self.shared.groups.table().numbers_in(line);
        Ok(Some(KeptEntry {
            place: token.place,
            key: header.key,
            class: token.class,
            arrived: header.arrived,
            expires: header.expires,
            stored_bytes: header.record_bytes() as u64,
            thread: self.thread_in(&header, buf),
            numbers,
        }))
    }
}
