//! After a crash: the old articles next to each write position (`docs/states.md`, states 4 and 5).
//!
//! A crash may have left bytes over them that no row speaks of; those damaged are given up, so that nothing names an
//! article that cannot be read. Called once per opening, after the replay.

use crate::commit::PART_BYTES_MAX;
use crate::error::SpoolError;
use crate::fold::Folds;
use crate::journal::{JournalWriter, Row};
use crate::method::cnfs::record;
use crate::reading::Patience;
use crate::token::MethodKind;

/// Looks at the old articles behind each write position: a crash may have left bytes over them that no row speaks of.
/// Moves the write position past the last damaged one; returns how many were given up.
pub(super) fn give_up_damaged(
    folds: &mut Folds,
    journal: &mut JournalWriter,
    suspect: u64,
) -> Result<u64, SpoolError> {
    let shared = folds.shared.clone();
    let mut given_up = 0;
    let volumes = shared.volumes.load();
    for (index, volume) in volumes.all().iter().enumerate().filter(|(_, v)| v.method() == MethodKind::Cnfs) {
        let io = || SpoolError::io("read buffer", volume.name());
        let (mut damaged, mut buf) = (None, Vec::new());
        // Places are those of the last cycle; a wrap may have skipped up to one article's length.
        let tail = volume.tail();
        let limit = suspect + 2 * PART_BYTES_MAX + 2 * shared.config.article_bytes_max;
        let mut places = Vec::new();
        let Some(residents) = folds.residents.get_mut(index) else { continue };
        residents.peek_before(tail.saturating_add(limit), &mut |r| places.push(r.place)).map_err(io())?;
        for (n, place) in places.iter().enumerate() {
            match volume.fetch(*place, Patience::Wait, &mut buf) {
                Ok(Some((_, live))) if record::is_whole(&buf) => {
                    if live {
                        volume.mark_alive(*place);
                    }
                }
                // What the disk cannot read nobody else can either.
                Ok(_) | Err(_) => damaged = Some(n),
            }
        }
        let Some(last) = damaged else { continue };
        let behind =
            places.get(last + 1).copied().unwrap_or_else(|| places.last().map_or(0, |p| p + volume.block()));
        let head = volume.head_behind(behind).max(volume.head());
        // The next one too if it begins in the same step.
        given_up += places.iter().filter(|place| **place < volume.tail_at(head)).count() as u64;
        journal.push(&Row::Skip { volume: volume.id(), head });
        folds.displace(index, head).map_err(io())?;
    }
    Ok(given_up)
}
