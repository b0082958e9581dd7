//! Checks of the files that have checksums of their own: secret, buffers' headers, checkpoint, journal,
//! residents, dictionaries, and the files of the journal's readers.

use crate::care::finding::{SpoolDamage, VerifyReport};
use crate::index::checkpoint::{Checkpoint, NAMES};
use crate::index::fold::SharedIndexes;
use crate::open::paths::SpoolPaths;
use crate::open::recovery::read_secret;
use crate::write::locked::LockedWriter;
use disk::OpenMode;
use spool_base::status::CursorDamage;
use spool_journal::{JournalReader, ReaderDamage, Readers};
use spool_methods::Volume;
use std::io;
use std::sync::Arc;

/// Number of attempts to read a file that may just have been replaced.
const TRIES: usize = 3;

/// Checks files.
pub(super) struct FileCheck<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
    readers: &'s Readers,
    paths: SpoolPaths,
}

impl<'s> FileCheck<'s> {
    pub fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter, readers: &'s Readers) -> Self {
        Self { shared, writer, readers, paths: SpoolPaths::new(&shared.config.dir) }
    }

    /// Checks all files.
    pub fn check(&self, report: &mut VerifyReport) {
        self.check_secret(report);
        self.check_checkpoint(report);
        self.check_groups(report);
        self.check_journal(report);
        for volume in self.shared.volumes.load().cycbuffs() {
            volume.verify(&mut |what| {
                report.found(format!("buffer {}", volume.name()), what, Some(SpoolDamage::Checkpointed));
            });
        }
        check_residents(self.shared, self.writer, report);
        self.check_readers(report);
        self.shared.packing.verify(&mut |place, what, mendable| {
            report.found(place, what, mendable.then_some(SpoolDamage::Dictionary))
        });
    }

    fn check_secret(&self, report: &mut VerifyReport) {
        let path = self.paths.dir.join("secret");
        let read = || {
            let file = self.shared.disk.open(&path, OpenMode::ReadOnly)?;
            let mut text = vec![0; file.len()?.min(4096) as usize];
            file.read_exact_at(&mut text, 0)?;
            Ok::<_, io::Error>(text)
        };
        if read().ok().as_deref().and_then(read_secret).is_none() {
            let what = "is damaged or missing; the next start writes it again from a volume's header; where \
                        none has it, articles stored before are no longer found by Message-ID";
            report.found(path.display().to_string(), what, Some(SpoolDamage::Secret));
        }
    }

    fn check_checkpoint(&self, report: &mut VerifyReport) {
        let is_there =
            |name: &str| self.shared.disk.open(&self.paths.index.join(name), OpenMode::ReadOnly).is_ok();
        // A checkpoint may be in progress; before the first one is taken there is no file.
        let _trouble_is_no_damage = self.writer.sync().await_checkpoint();
        if !NAMES.iter().any(|name| is_there(name)) {
            return;
        }
        for name in NAMES {
            let path = self.paths.index.join(name);
            // Files are replaced by rename: each attempt reads a whole file.
            let whole = || Checkpoint::read_copy(&*self.shared.disk, &path).ok().flatten().is_some();
            if !(0..TRIES).any(|_| whole()) {
                let what = "is damaged or missing; a start uses the other copy, or rebuilds the indexes";
                report.found(path.display().to_string(), what, Some(SpoolDamage::Checkpointed));
            }
        }
    }

    fn check_groups(&self, report: &mut VerifyReport) {
        for path in self.shared.groups_file.damaged() {
            let what = "is damaged or missing; the other copy has all groups, and so has the journal";
            report.found(path.display().to_string(), what, Some(SpoolDamage::Checkpointed));
        }
    }

    /// Checks that every file of the journal is whole, and that the last one reaches the written position.
    fn check_journal(&self, report: &mut VerifyReport) {
        for _ in 0..TRIES {
            // A checkpoint may remove files while they are read.
            match self.look_over_journal() {
                Ok(damaged) => {
                    for (start, end) in damaged {
                        let what = format!(
                            "is damaged at position {end}: a start after a crash could not replay what \
                                follows, nor a rebuild use it"
                        );
                        let place = self.paths.journal.join(spool_journal::file_name(start));
                        report.found(place.display().to_string(), what, Some(SpoolDamage::Journal { start }));
                    }
                    return;
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => {
                    let place = self.paths.journal.display().to_string();
                    return report.found(place, format!("cannot be read: {e}"), None);
                }
            }
        }
    }

    /// Returns the damaged files: the start of each, and the position of its damage.
    fn look_over_journal(&self) -> io::Result<Vec<(u64, u64)>> {
        let disk = Arc::clone(&self.shared.disk);
        let starts = JournalReader::open(&disk, &self.paths.journal, None)?.starts().to_vec();
        let mut damaged = Vec::new();
        for (i, start) in starts.iter().enumerate() {
            let written = self.writer.sync().written();
            let (end, bad) = JournalReader::look_over(&disk, &self.paths.journal, *start)?;
            // In the last file a row may be incomplete at the moment; the rows written before must be there.
            let last = i + 1 == starts.len();
            if if last { end < written || bad && end == *start } else { bad } {
                damaged.push((*start, end));
            }
        }
        Ok(damaged)
    }

    /// Checks cursors, deferred articles, and files of both that were set aside.
    fn check_readers(&self, report: &mut VerifyReport) {
        let damaged = match self.readers.damaged() {
            Ok(damaged) => damaged,
            Err(e) => {
                let place = self.paths.journal.display().to_string();
                return report.found(place, format!("files of readers cannot be read: {e}"), None);
            }
        };
        for damage in damaged {
            let (file, what, damage) = match damage {
                ReaderDamage::Cursor(name, what) => {
                    let text = match what {
                        CursorDamage::OneCopy => {
                            "a copy of where the reader is is damaged; the other one counts"
                        }
                        CursorDamage::BothCopies => {
                            "where the reader is is damaged: after a start it goes back to the oldest row"
                        }
                        CursorDamage::Missing => {
                            "where the reader is is missing: after a start it goes back to the oldest row"
                        }
                    };
                    (format!("{name}.cursor"), text, Some(SpoolDamage::Cursor { name }))
                }
                ReaderDamage::Deferred(name) => {
                    let text = "articles that were put off are damaged or missing: after a start the reader \
                        goes back to the oldest row";
                    (format!("{name}.deferred"), text, None)
                }
                ReaderDamage::Names => {
                    let text = "the names of the readers are damaged or missing; a start takes those that \
                        have files";
                    ("readers".to_owned(), text, Some(SpoolDamage::ReaderNames))
                }
                ReaderDamage::SetAside(name) => {
                    (name, "was damaged and set aside; remove it when nothing of it is needed", None)
                }
            };
            report.found(self.paths.journal.join(file).display().to_string(), what, damage);
        }
    }
}

/// Checks the pages of all residents.
pub(super) fn check_residents(shared: &SharedIndexes, writer: &LockedWriter, report: &mut VerifyReport) {
    let mut writer = writer.lock();
    let volumes = shared.volumes.load();
    for (volume, residents) in volumes.all().iter().zip(&mut writer.folds.residents) {
        residents.verify(&mut |page| {
            let what =
                "is damaged; its content is read from the buffer when it is needed, so nothing is lost";
            let damage = SpoolDamage::ResidentsPage { volume: volume.id(), page };
            let place = format!("residents of {}, page at {page}", volume.name());
            report.found(place, what, Some(damage));
        });
    }
}
