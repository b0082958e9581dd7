//! Copies articles after their arrival: a durable reader of the journal for each archive.

use super::copy::{ArchiveCopy, CopyOutcome, fetch};
use super::section::ArchiveSection;
use spool::{ArticleBuf, ArticleRow, Cursor, JournalBatch, JournalEvent, JournalMark, Spool, TailStart};
use std::io;

/// Bytes of articles that are copied together.
const CHUNK_BYTES: usize = 8 << 20;

/// Reader of an archive.
pub(super) struct ArrivalCopier {
    pub cursor: Cursor,
    /// Position up to which all articles are done.
    mark: JournalMark,
    batch: JournalBatch,
    buf: ArticleBuf,
}

impl ArrivalCopier {
    /// Continues at the cursor; a new archive begins with articles that arrive now.
    pub fn open(spool: &Spool, section: &ArchiveSection) -> io::Result<Self> {
        let cursor = spool.journal().cursor(&section.reader(), TailStart::Now)?;
        Ok(Self { mark: cursor.mark(), cursor, batch: JournalBatch::default(), buf: ArticleBuf::default() })
    }

    /// Copies the next articles; returns false if there are none yet. After an error they are read again.
    pub fn step(&mut self, spool: &Spool, section: &ArchiveSection) -> io::Result<bool> {
        let done = self.try_step(spool, section);
        if done.is_err() {
            self.cursor.seek(self.mark);
        }
        done
    }

    /// Passes over the articles before a place, which another member of the cluster has copied.
    pub fn pass_to(&mut self, done: JournalMark) -> io::Result<()> {
        if done.position > self.mark.position {
            self.cursor.seek(done);
            self.mark = done;
            self.cursor.save_at(done)?;
        }
        Ok(())
    }

    fn try_step(&mut self, spool: &Spool, section: &ArchiveSection) -> io::Result<bool> {
        self.cursor.next(&mut self.batch)?;
        if self.batch.is_empty() {
            return Ok(false);
        }
        let (mut copies, mut bytes, mut lost) = (Vec::new(), 0, Vec::new());
        for (_, event) in self.batch.events() {
            let JournalEvent::Article(row) = event else { continue };
            let numbers = section.wanted(&named(spool, &row));
            if numbers.is_empty() {
                continue;
            }
            match fetch(&spool.reader(), section.config.honor_no_archive, &row.key, &row.token, &mut self.buf)
            {
                CopyOutcome::Here => {
                    let copy = ArchiveCopy::of(row.key, numbers, &self.buf);
                    bytes += copy.text.len();
                    copies.push(copy);
                }
                CopyOutcome::Withdrawn => {}
                CopyOutcome::Lost => lost.push(numbers),
            }
            if bytes >= CHUNK_BYTES {
                section.put(&copies)?;
                copies.clear();
                bytes = 0;
            }
        }
        section.put(&copies)?;
        section.missed(lost.len() as u64, "it was overwritten, expired or could not be read", &lost);
        self.cursor.save()?;
        self.mark = self.cursor.mark();
        Ok(true)
    }
}

/// Returns the groups of an article that are still carried, with its numbers.
fn named(spool: &Spool, row: &ArticleRow<'_>) -> Vec<(String, u64)> {
    let mut numbers = Vec::new();
    if !row.numbers(&mut numbers) {
        return Vec::new();
    }
    let name = |(id, number)| Some((spool.group(id)?.name.to_string(), number));
    numbers.into_iter().filter_map(name).collect()
}
