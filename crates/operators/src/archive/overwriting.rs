//! Copies articles of cyclic volumes before they are overwritten: a reader that stays ahead of the write
//! position.

use super::copy::{ArchiveCopy, declines};
use super::section::ArchiveSection;
use spool::{ArticleBuf, CyclicVolume, Spool};
use std::io;

/// Fraction of the volume (one part of this many) that is copied in advance of the write position.
const AHEAD_PARTS: u64 = 8;
/// Bytes of articles that are copied together.
const CHUNK_BYTES: usize = 8 << 20;
/// Maximum number of articles examined in a step.
const ARTICLES_MAX: usize = 2_000;

/// Reader of an archive.
#[derive(Default)]
pub(super) struct OverwriteCopier {
    buf: ArticleBuf,
}

/// Articles read from a part of a volume.
#[derive(Default)]
struct VolumePart {
    copies: Vec<ArchiveCopy>,
    unreadable: u64,
    /// Offset up to which the volume has been read.
    to: u64,
}

impl OverwriteCopier {
    /// Copies the next articles; returns false if none is near enough. After an error they are read again.
    pub fn step(&mut self, spool: &Spool, section: &ArchiveSection) -> io::Result<bool> {
        let mut more = Ok(false);
        for volume in spool.cyclic_articles().volumes() {
            more = more.and_then(|more| Ok(self.step_in(spool, section, &volume)? || more));
        }
        let reader = section.reader();
        let gone = spool.cyclic_articles().overwritten_unread(&reader);
        let known = gone.numbers.len() as u64;
        let wanted: Vec<_> =
            gone.numbers.iter().map(|numbers| section.wanted(numbers)).filter(|n| !n.is_empty()).collect();
        let unlisted = gone.articles.saturating_sub(known);
        section.missed(wanted.len() as u64 + unlisted, "it was overwritten first", &wanted);
        more
    }

    fn step_in(
        &mut self,
        spool: &Spool,
        section: &ArchiveSection,
        volume: &CyclicVolume,
    ) -> io::Result<bool> {
        let reader = section.reader();
        let from = section.place(volume.id)?.unwrap_or(volume.tail).max(volume.tail);
        let target = volume.tail.saturating_add(volume.area_bytes / AHEAD_PARTS).min(volume.head);
        // From here on, overwritten articles are counted.
        spool.cyclic_articles().watch(&reader, volume.id, from);
        if from >= target {
            return Ok(false);
        }
        let part = self.read(spool, section, volume.id, from, target);
        section.put(&part.copies)?;
        section.missed(part.unreadable, "it could not be read", &[]);
        section.set_places(&[(volume.id, part.to)])?;
        spool.cyclic_articles().watch(&reader, volume.id, part.to);
        Ok(part.to < target)
    }

    fn read(
        &mut self,
        spool: &Spool,
        section: &ArchiveSection,
        volume: u16,
        from: u64,
        to: u64,
    ) -> VolumePart {
        let (mut part, mut bytes, mut articles) = (VolumePart { to: from, ..VolumePart::default() }, 0, 0);
        while bytes < CHUNK_BYTES && articles < ARTICLES_MAX {
            articles += 1;
            match spool.cyclic_articles().read_next(volume, part.to..to, &mut self.buf) {
                Ok(None) => {
                    part.to = to;
                    break;
                }
                Ok(Some(found)) => {
                    part.to = found.place + 1;
                    let numbers = section.wanted(&found.numbers);
                    let is_declined = section.config.honor_no_archive && declines(self.buf.head());
                    if !numbers.is_empty() && !found.is_hidden && !is_declined {
                        let copy = ArchiveCopy::of(found.key, numbers, &self.buf);
                        bytes += copy.text.len();
                        part.copies.push(copy);
                    }
                }
                Err((place, _)) => {
                    part.to = place + 1;
                    part.unreadable += 1;
                }
            }
        }
        part
    }
}
