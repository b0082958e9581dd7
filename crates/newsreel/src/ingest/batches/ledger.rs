//! What became of a batch: each article of it in order, what is damaged in quarantine, what cannot be filed
//! now kept.
//!
//! Called for each parcel when it is answered, by `newsreel rnews` and by the task that files what waits.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::incoming::{Arriving, Incoming, NotKept};
use super::quarantine::Quarantine;
use super::reader::{Parcel, Piece};
use crate::base::units::{counted, grouped};
use crate::ingest::{BatchOutcome, Fate};
use netnews::batch::{BatchFault, append_rnews_line};
use spool::Disk;

/// Lines about damaged pieces and about articles that are said of one batch; the others are counted.
const LINES_MAX: u64 = 100;

/// How many articles and pieces of a batch had which fate.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub accepted: u64,
    pub rejected: u64,
    pub duplicates: u64,
    pub try_later: u64,
    /// Damaged pieces, articles that are none among them.
    pub damaged: u64,
}

/// What becomes of articles that cannot be filed now.
pub(crate) enum Keep {
    /// They are only counted: the batch is given again.
    Not,
    /// They are kept here, as another batch.
    In(Incoming),
}

/// The ledger of one batch.
pub(crate) struct Ledger<'a> {
    name: String,
    quarantine: Quarantine,
    keep: Keep,
    kept: Option<Arriving>,
    /// Why they could not be kept.
    not_kept: Option<NotKept>,
    say: &'a mut (dyn FnMut(fmt::Arguments<'_>) + Send),
    lines: u64,
    pub tally: Tally,
}

impl<'a> Ledger<'a> {
    /// For the batch called `name`, of the site whose spool is in `data` on `disk`. `say` gets a line for
    /// each article that is rejected and each piece that is damaged.
    pub fn new(
        name: String,
        (data, disk): (&Path, &Arc<dyn Disk>),
        keep: Keep,
        say: &'a mut (dyn FnMut(fmt::Arguments<'_>) + Send),
    ) -> Self {
        let (quarantine, tally) = (Quarantine::of(data, disk), Tally::default());
        Self { name, quarantine, keep, kept: None, not_kept: None, say, lines: 0, tally }
    }

    /// Notes what became of the articles of a parcel, in order; those without a fate cannot be filed now.
    ///
    /// # Errors
    /// If something damaged cannot be put into quarantine.
    pub fn settle(&mut self, parcel: &Parcel, fates: &[Fate]) -> io::Result<()> {
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

    fn article(&mut self, piece: &Piece<'_>, fate: &Fate) -> io::Result<()> {
        let name = match fate.message_id.as_str() {
            "" => "article without Message-ID",
            name => name,
        };
        match fate.outcome {
            BatchOutcome::Accepted => self.tally.accepted += 1,
            // Batches from several neighbours are full of them.
            BatchOutcome::Duplicate => self.tally.duplicates += 1,
            BatchOutcome::Rejected => {
                self.tally.rejected += 1;
                self.line(format_args!("{name}: rejected: {}", fate.reason));
            }
            BatchOutcome::TryLater => {
                // Of many, one says why.
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
    fn later(&mut self, piece: &Piece<'_>) {
        self.tally.try_later += 1;
        if let (Keep::In(incoming), None) = (&self.keep, &self.not_kept) {
            let kept = match &mut self.kept {
                Some(kept) => Ok(kept),
                None => incoming.begin(None, None).map(|kept| self.kept.insert(kept)),
            };
            let mut line = Vec::new();
            append_rnews_line(piece.raw.len() as u64, &mut line);
            let kept = kept.and_then(|kept| kept.write(&line).and_then(|()| kept.write(piece.raw)));
            self.not_kept = kept.err();
        }
    }

    /// Puts a piece into quarantine and says so.
    fn set_aside(&mut self, piece: &Piece<'_>, why: &str) -> io::Result<()> {
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

    /// The batch ends early, since the rest of it cannot be decompressed.
    pub fn not_decompressed(&mut self, why: &str) {
        self.tally.damaged += 1;
        let name = self.name.clone();
        self.line(format_args!("damaged: {name}: what follows cannot be decompressed: {why}"));
    }

    /// Nothing of the batch is filed.
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

    /// The batch is dealt with; returns whether what could not be filed is kept, and else why it is not.
    pub fn end(self) -> Result<bool, NotKept> {
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

impl Tally {
    /// One line about it all.
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
