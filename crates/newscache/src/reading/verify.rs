//! Verification of everything that is cached, with removal of damaged files. Called by the crate's users.

use std::io;

use disk::{OpenMode, Progress};

use crate::base::record::{self, RecordKind, hash};
use crate::books::bookkeeping::CacheFile;
use crate::cache::Cache;
use crate::index::loaded::rows;
use crate::reading::group::CacheGroup;
use crate::reading::pieces::read_pieces;

/// Maximum size of a group's file.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheVerifyReport {
    /// Number of groups with cached data.
    pub groups: u64,
    /// Number of small articles.
    pub articles: u64,
    /// Number of overview rows.
    pub rows: u64,
    /// Number of large articles.
    pub large: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Damaged files, which were removed.
    pub damaged: Vec<String>,
}

impl Cache {
    /// Reads every file. Damaged ones are removed, and named. May run while the cache is used.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn verify(&self, progress: &dyn Progress) -> io::Result<CacheVerifyReport> {
        let (files, groups) = {
            let books = self.0.books.lock();
            let groups = books.slots.iter().filter(|slot| slot.has_files()).count() as u64;
            (books.numbered_files(), groups)
        };
        let mut report = CacheVerifyReport { groups, ..CacheVerifyReport::default() };
        progress.start("reading the cache", files.len() as u64);
        for (at, (unit, file)) in files.into_iter().enumerate() {
            progress.step(at as u64);
            let is_whole = match file {
                CacheFile::Large(key) => self.verify_large(key, &mut report),
                _ => self.verify_records(file, &mut report),
            };
            let is_whole = record::readable(is_whole)?.unwrap_or(false);
            let is_there = self.0.books.lock().is_file(unit, file);
            if !is_whole && is_there {
                report.damaged.push(file.path(&self.0.dir).display().to_string());
                self.0.drop_damaged(unit, file);
            }
        }
        progress.finish();
        Ok(report)
    }

    fn verify_large(&self, key: u128, report: &mut CacheVerifyReport) -> io::Result<bool> {
        let path = CacheFile::Large(key).path(&self.0.dir);
        let file = self.0.disk.open(&path, OpenMode::ReadOnly)?;
        let mut head = vec![0; 4096];
        let read = file.read_at(&mut head, 0)?;
        let Some((record, _)) = head.get(..read).and_then(record::parse) else { return Ok(false) };
        let mut bytes = 0;
        let is_whole =
            hash(&[record.id]) == key && read_pieces(&*file, record.id, |piece| bytes += piece.len() as u64)?;
        report.large += u64::from(is_whole);
        report.bytes += bytes;
        Ok(is_whole)
    }

    fn verify_records(&self, file: CacheFile, report: &mut CacheVerifyReport) -> io::Result<bool> {
        // A record that is being appended is not damage: its group's index is locked.
        let (CacheFile::Segment { key, .. } | CacheFile::Numbers { key, .. }) = file else { return Ok(true) };
        let cell = self.0.cell_of_key(key, 0).map(|cell| CacheGroup::of_cell(self, cell));
        let Some(group) = cell else { return Ok(true) };
        group.with(|_| {
            let bytes = disk::read_small(&*self.0.disk, &file.path(&self.0.dir), FILE_BYTES_MAX)?;
            let Some(bytes) = bytes else { return Ok(false) };
            report.bytes += bytes.len() as u64;
            let (_, ending) = record::scan(&bytes, |record, _| match record.kind {
                RecordKind::Article if record.id.starts_with(b"<") => report.articles += 1,
                RecordKind::Rows => report.rows += rows(record.payload).flatten().count() as u64,
                _ => {}
            });
            Ok(ending == record::RecordsEnd::Clean)
        })
    }
}
