//! Outcome of a batch: each article in order, damaged pieces put into quarantine, articles that cannot be
//! filed now kept.
//!
//! Called for each answered parcel, by `newsreel rnews` and by the task that files waiting batches.

use std::fmt;
use std::io;

use super::incoming::{ArrivingBatch, BatchNotKept, BatchSender, IncomingDir};
use super::quarantine::Quarantine;
use super::reader::{BatchParcel, ParcelPiece};
use crate::{BatchOutcome, BatchResult};
use netnews::batch::{BatchFault, append_rnews_line};
use site_base::units::counted;
use site_base::units::grouped;

/// Most lines reported for one batch on damaged pieces and articles; the rest are counted.
const LINES_MAX: u64 = 100;

/// Counts of articles and pieces of a batch, by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct BatchTally {
    /// Articles that were filed.
    pub accepted: u64,
    /// Articles that were rejected, including those that are too large.
    pub rejected: u64,
    /// Articles whose Message-ID was known.
    pub duplicates: u64,
    /// Articles that could not be filed now.
    pub try_later: u64,
    /// Damaged pieces, including those that are not articles.
    pub damaged: u64,
}

/// Handling of articles that cannot be filed now.
pub enum UnfiledPolicy {
    /// They are only counted: the batch is submitted again.
    Not,
    /// They are kept here, as another batch of this sender.
    In(IncomingDir, Option<BatchSender>),
}

/// The ledger of one batch.
pub struct BatchLedger<'a> {
    name: String,
    quarantine: Quarantine,
    keep: UnfiledPolicy,
    kept: Option<ArrivingBatch>,
    /// Reason why they could not be kept.
    not_kept: Option<BatchNotKept>,
    say: &'a mut (dyn FnMut(fmt::Arguments<'_>) + Send),
    lines: u64,
    /// Counts so far.
    pub tally: BatchTally,
}

impl<'a> BatchLedger<'a> {
    /// Opens the ledger of the batch called `name`, whose damaged pieces go into `quarantine`. `say` is
    /// called with a line for each rejected article and each damaged piece.
    pub fn new(
        name: String,
        quarantine: Quarantine,
        keep: UnfiledPolicy,
        say: &'a mut (dyn FnMut(fmt::Arguments<'_>) + Send),
    ) -> Self {
        let tally = BatchTally::default();
        Self { name, quarantine, keep, kept: None, not_kept: None, say, lines: 0, tally }
    }

    /// Records the results of the articles of a parcel, in order; those without a result cannot be filed
    /// now.
    ///
    /// # Errors
    /// If something damaged cannot be put into quarantine.
    pub fn settle(&mut self, parcel: &BatchParcel, fates: &[BatchResult]) -> io::Result<()> {
        let mut fates = fates.iter();
        for piece in parcel.pieces() {
            match piece.fault {
                Some(BatchFault::TooLarge { announced, present }) if announced == present => {
                    self.tally.rejected += 1;
                    let fault = BatchFault::TooLarge { announced, present };
                    let at = grouped(piece.at);
                    self.line(format_args!("rejected: {}, byte {at}: {fault}", self.name.clone()));
                }
                Some(fault) => self.set_aside(&piece, &fault.to_string())?,
                None => match fates.next() {
                    Some(fate) => self.article(&piece, fate)?,
                    None => self.later(&piece),
                },
            }
        }
        Ok(())
    }

    fn article(&mut self, piece: &ParcelPiece<'_>, fate: &BatchResult) -> io::Result<()> {
        let name = match fate.message_id.as_str() {
            "" => "article without Message-ID",
            name => name,
        };
        match fate.outcome {
            BatchOutcome::Accepted => self.tally.accepted += 1,
            // Duplicates are normal in batches from several neighbours.
            BatchOutcome::Duplicate => self.tally.duplicates += 1,
            BatchOutcome::Rejected => {
                self.tally.rejected += 1;
                self.line(format_args!("{name}: rejected: {}", fate.reason));
            }
            BatchOutcome::TryLater => {
                // One reason is reported for all of them.
                if self.tally.try_later == 0 {
                    self.line(format_args!("{name}: try later: {}", fate.reason));
                }
                self.later(piece);
            }
            BatchOutcome::Malformed => self.set_aside(piece, &fate.reason)?,
        }
        Ok(())
    }

    /// Keeps an article for later.
    fn later(&mut self, piece: &ParcelPiece<'_>) {
        self.tally.try_later += 1;
        if let (UnfiledPolicy::In(incoming, sender), None) = (&self.keep, &self.not_kept) {
            let kept = match &mut self.kept {
                Some(kept) => Ok(kept),
                None => incoming.begin(sender.as_ref(), None).map(|kept| self.kept.insert(kept)),
            };
            let mut line = Vec::new();
            append_rnews_line(piece.raw.len() as u64, &mut line);
            let kept = kept.and_then(|kept| kept.write(&line).and_then(|()| kept.write(piece.raw)));
            self.not_kept = kept.err();
        }
    }

    /// Puts a piece into quarantine and reports it.
    fn set_aside(&mut self, piece: &ParcelPiece<'_>, why: &str) -> io::Result<()> {
        self.tally.damaged += 1;
        let about = format!("{}, byte {}: {why}", self.name, grouped(piece.at));
        let kept = self.quarantine.put(piece.raw).map_err(|error| {
            let text = format!("{about}, and what is damaged cannot be put into quarantine: {error}");
            io::Error::new(error.kind(), text)
        })?;
        let bytes = grouped(piece.raw.len() as u64);
        match kept {
            Some(path) => {
                self.line(format_args!("damaged: {about}; {bytes} bytes are in {}", path.display()))
            }
            None => self.line(format_args!("damaged: {about}; {bytes} bytes are not kept")),
        }
        Ok(())
    }

    /// Records that the batch ends early, since the rest cannot be decompressed.
    pub fn not_decompressed(&mut self, why: &str) {
        self.tally.damaged += 1;
        let name = self.name.clone();
        self.line(format_args!("damaged: {name}: what follows cannot be decompressed: {why}"));
    }

    /// Records that nothing of the batch is filed.
    pub fn refused(&mut self, why: &str) {
        let name = self.name.clone();
        self.line(format_args!("rejected: {name}: {why}"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        self.lines += 1;
        if self.lines <= LINES_MAX {
            (self.say)(line);
        }
    }

    /// Closes the ledger; returns whether the articles that could not be filed are kept, or why they are
    /// not.
    pub fn end(self) -> Result<bool, BatchNotKept> {
        let unsaid = self.lines.saturating_sub(LINES_MAX);
        if unsaid > 0 {
            (self.say)(format_args!("and {} more such lines", grouped(unsaid)));
        }
        match (self.kept, self.not_kept) {
            (_, Some(why)) => Err(why),
            (Some(kept), None) => Ok(kept.finish().map(|_| true)?),
            (None, None) => Ok(false),
        }
    }
}

impl BatchTally {
    /// All articles and pieces.
    pub fn all(&self) -> u64 {
        let Self { accepted, rejected, duplicates, try_later, damaged } = *self;
        accepted + rejected + duplicates + try_later + damaged
    }

    /// Returns a one-line summary.
    pub fn summary(&self) -> String {
        let Self { accepted, rejected, duplicates, try_later, damaged } = *self;
        let total = accepted + rejected + duplicates + try_later;
        let mut text = format!(
            "{}: {} accepted, {} rejected",
            counted(total, "article"),
            grouped(accepted),
            grouped(rejected)
        );
        let mut also = |count: u64, one: &str, many: &str| {
            if count > 0 {
                text.push_str(&format!(", {} {}", grouped(count), if count == 1 { one } else { many }));
            }
        };
        also(duplicates, "duplicate", "duplicates");
        also(try_later, "to be tried later", "to be tried later");
        also(damaged, "damaged piece in quarantine", "damaged pieces in quarantine");
        text
    }
}
