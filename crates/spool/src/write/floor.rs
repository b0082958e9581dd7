//! The retention floor of a class: whether a write would displace an article that was promised to stay.
//!
//! Residents know the arrival of every article in the order they will be displaced, so only the next ones are
//! checked, once for each MiB written: what is known to be old enough stays so. Called by the writer for
//! classes that have a floor; the others pay nothing.

use crate::index::residents::Residents;
use std::io;

/// How far ahead of the tail residents are checked, in bytes.
const AHEAD_BYTES: u64 = 1 << 20;

/// What is known of one volume.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Articles before this place are older than the floor.
    old_to: u64,
    /// Arrival of the article there, if it was too young when last checked.
    young: Option<u32>,
}

/// What is known of the articles next to be displaced, by volume index.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    known: Vec<Known>,
}

impl Floors {
    /// Whether moving a volume's tail to `tail` would displace an article that arrived after `arrived_max`
    /// (Unix seconds). `head` is the volume's write position.
    pub fn would_break(
        &mut self,
        volume: usize,
        residents: &mut Residents,
        (tail, head): (u64, u64),
        arrived_max: u64,
    ) -> io::Result<bool> {
        if self.known.len() <= volume {
            self.known.resize(volume + 1, Known::default());
        }
        let Some(known) = self.known.get_mut(volume) else { return Ok(false) };
        if tail <= known.old_to {
            return Ok(false);
        }
        if known.young.is_some_and(|arrived| u64::from(arrived) > arrived_max) {
            return Ok(true);
        }
        let mut seen = Known { old_to: tail.saturating_add(AHEAD_BYTES).min(head), young: None };
        residents.peek_before(seen.old_to, &mut |r| {
            if seen.young.is_none() && u64::from(r.arrived) > arrived_max {
                seen = Known { old_to: r.place, young: Some(r.arrived) };
            }
        })?;
        *known = seen;
        Ok(tail > seen.old_to && seen.young.is_some())
    }
}
