//! Retention floor of a class: checks whether a write would displace an article that was promised to stay.
//!
//! Residents know the arrival of every article in the order of displacement, so only the next ones are
//! checked, once for each MiB written: an article known to be old enough stays so. Used by the writer for
//! classes with a floor; others pay nothing.

use crate::index::residents::Residents;
use std::io;

/// Distance ahead of the tail up to which residents are checked, in bytes.
const AHEAD_BYTES: u64 = 1 << 20;

/// State of one volume.
#[derive(Debug, Clone, Copy, Default)]
struct FloorState {
    /// Place before which all articles are older than the floor.
    old_to: u64,
    /// Arrival of the article there, if it was too young when last checked.
    young: Option<u32>,
}

/// State of the articles next to be displaced, by volume index.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    known: Vec<FloorState>,
}

impl Floors {
    /// Reports whether moving a volume's tail to `tail` would displace an article that arrived after
    /// `arrived_max` (Unix seconds). `head` is the volume's write position.
    pub fn would_break(
        &mut self,
        volume: usize,
        residents: &mut Residents,
        tail: u64,
        head: u64,
        arrived_max: u64,
    ) -> io::Result<bool> {
        if self.known.len() <= volume {
            self.known.resize(volume + 1, FloorState::default());
        }
        let Some(known) = self.known.get_mut(volume) else { return Ok(false) };
        if tail <= known.old_to {
            return Ok(false);
        }
        if known.young.is_some_and(|arrived| u64::from(arrived) > arrived_max) {
            return Ok(true);
        }
        let mut seen = FloorState { old_to: tail.saturating_add(AHEAD_BYTES).min(head), young: None };
        residents.peek_before(seen.old_to, &mut |r| {
            if seen.young.is_none() && u64::from(r.arrived) > arrived_max {
                seen = FloorState { old_to: r.place, young: Some(r.arrived) };
            }
        })?;
        *known = seen;
        Ok(tail > seen.old_to && seen.young.is_some())
    }
}
