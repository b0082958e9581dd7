//! The pass over every octet of an article: line ends, NULs, dots.
//!
//! Written for automatic vectorization: each octet of a block has a lane, there are no branches, and lanes
//! are summed up before their counters overflow. Where the processor has wider vectors than the baseline, the
//! same pass is compiled for them (`wide`). Called by `Article::parse` only. Source: RFC 3977 section 3.1.1,
//! RFC 5536 section 2.2.

mod wide;

use super::MalformedArticle;
use memchr::{memchr, memchr_iter, memmem};

/// Octets of a block: one of the widest vectors, or two or four narrower ones.
const LANES: usize = 32;

/// Maximum number of blocks before the lanes are summed up: their counters are `u8`.
const BLOCKS_MAX: usize = 255;

/// Counts made by the pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    /// Lines, including header lines and the blank line.
    pub(super) lines: u64,
    /// Lines that begin with a dot and therefore have one octet of dot-stuffing.
    pub(super) dots: u64,
}

/// Counts the lines of `wire`, if every LF follows a CR, every CR precedes a LF, and no octet is NUL.
pub(super) fn scan(wire: &[u8]) -> Result<LineCounts, MalformedArticle> {
    let Some(counts) = wide::count(wire) else {
        return Err(why(wire));
    };
    if counts.dots > 0 && has_lone_dot(wire) {
        return Err(MalformedArticle::LoneDot);
    }
    Ok(counts)
}

/// The pass itself. Returns `None` if some octet is out of place.
#[inline(always)]
fn count(wire: &[u8]) -> Option<LineCounts> {
    let mut counts = LineCounts { lines: 0, dots: u64::from(wire.first() == Some(&b'.')) };
    let mut bad = matches!(wire.first(), Some(b'\n' | 0)) | (wire.last() == Some(&b'\r'));
    // Compares each octet with the one before it.
    let before = wire.get(..wire.len().saturating_sub(1)).unwrap_or_default();
    let here = wire.get(1..).unwrap_or_default();
    let (before, before_rest) = before.as_chunks::<LANES>();
    let (here, here_rest) = here.as_chunks::<LANES>();
    for (before, here) in before.chunks(BLOCKS_MAX).zip(here.chunks(BLOCKS_MAX)) {
        let mut lanes = LaneCounters::new();
        before.iter().zip(here).for_each(|(before, here)| lanes.add(before, here));
        bad |= lanes.sum_up(&mut counts);
    }
    // The remaining octets form a block of their own, padded with octets that count for nothing.
    let (mut last_before, mut last_here) = ([b'x'; LANES], [b'x'; LANES]);
    last_before.iter_mut().zip(before_rest).for_each(|(lane, octet)| *lane = *octet);
    last_here.iter_mut().zip(here_rest).for_each(|(lane, octet)| *lane = *octet);
    let mut lanes = LaneCounters::new();
    lanes.add(&last_before, &last_here);
    bad |= lanes.sum_up(&mut counts);
    (!bad).then_some(counts)
}

/// Results for each position of a block.
struct LaneCounters {
    lines: [u8; LANES],
    dots: [u8; LANES],
    /// Not 0 where a CR or LF stood alone.
    mixed: [u8; LANES],
    smallest: [u8; LANES],
}

impl LaneCounters {
    #[inline(always)]
    fn new() -> Self {
        Self { lines: [0; LANES], dots: [0; LANES], mixed: [0; LANES], smallest: [0xff; LANES] }
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "one loop over six arrays is what becomes vectors")]
    fn add(&mut self, before: &[u8; LANES], here: &[u8; LANES]) {
        for i in 0..LANES {
            let (p, b) = (before[i], here[i]);
            let (cr, lf) = (all_bits(p == b'\r'), all_bits(b == b'\n'));
            self.mixed[i] |= cr ^ lf;
            self.smallest[i] = self.smallest[i].min(b);
            self.lines[i] = self.lines[i].wrapping_sub(lf);
            self.dots[i] = self.dots[i].wrapping_sub(all_bits(p == b'\n') & all_bits(b == b'.'));
        }
    }

    /// Adds the lanes to `counts`. Returns true if some octet was out of place.
    #[inline(always)]
    fn sum_up(&self, counts: &mut LineCounts) -> bool {
        let sum = |lanes: &[u8; LANES]| lanes.iter().map(|&lane| u64::from(lane)).sum::<u64>();
        counts.lines += sum(&self.lines);
        counts.dots += sum(&self.dots);
        let mixed = self.mixed.iter().fold(0, |all, lane| all | lane);
        let smallest = self.smallest.iter().fold(0xff, |least, lane| least.min(*lane));
        (mixed != 0) | (smallest == 0)
    }
}

/// Returns 0xff or 0, like a vector comparison; subtracting 0xff from a counter adds one to it.
#[inline(always)]
fn all_bits(yes: bool) -> u8 {
    if yes { 0xff } else { 0 }
}

/// Returns the rule that an invalid article breaks; slow and rarely called.
fn why(wire: &[u8]) -> MalformedArticle {
    if memchr(0, wire).is_some() {
        return MalformedArticle::Nul;
    }
    let bare_cr = memchr_iter(b'\r', wire).any(|at| wire.get(at + 1) != Some(&b'\n'));
    if bare_cr { MalformedArticle::BareCr } else { MalformedArticle::BareLf }
}

fn has_lone_dot(wire: &[u8]) -> bool {
    wire.starts_with(b".\r\n") || memmem::find(wire, b"\n.\r\n").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(wire: &[u8]) -> Result<LineCounts, ()> {
        let text: String = wire.iter().map(|&b| b as char).collect();
        let rest = text.replace("\r\n", "\u{100}");
        if rest.contains(['\r', '\n', '\0'])
            || rest.split('\u{100}').any(|line| line == ".") && has_lone_dot(wire)
        {
            return Err(());
        }
        let lines = rest.matches('\u{100}').count() as u64;
        let dots = rest.split('\u{100}').filter(|line| line.starts_with('.')).count() as u64;
        Ok(LineCounts { lines, dots })
    }

    #[test]
    fn each_defect_has_its_error() {
        for (wire, expected) in [
            (&b"a\0b\r\n"[..], MalformedArticle::Nul),
            (b"\0\r\n", MalformedArticle::Nul),
            (b"a\rb\r\n", MalformedArticle::BareCr),
            (b"a\r\n\r", MalformedArticle::BareCr),
            (b"a\r\r\n", MalformedArticle::BareCr),
            (b"a\nb\r\n", MalformedArticle::BareLf),
            (b"\na\r\n", MalformedArticle::BareLf),
            (b"a\r\n.\r\nb\r\n", MalformedArticle::LoneDot),
            (b".\r\n", MalformedArticle::LoneDot),
        ] {
            assert_eq!(scan(wire), Err(expected), "{wire:?}");
        }
    }

    #[test]
    fn defects_are_found_at_every_offset_of_a_block() {
        for at in 0..LANES * 2 + 5 {
            for damage in [b'\r', b'\n', 0] {
                let mut wire = vec![b'x'; LANES * 2 + 5];
                wire[at] = damage;
                wire.extend_from_slice(b"y\r\n");
                assert!(scan(&wire).is_err(), "{damage} at {at}");
            }
            let mut wire = vec![b'x'; at];
            wire.extend_from_slice(b"\r\n..\r\n");
            assert_eq!(scan(&wire), Ok(LineCounts { lines: 2, dots: 1 }));
        }
    }

    #[test]
    fn lanes_are_summed_up_before_they_overflow() {
        let lines = LANES * BLOCKS_MAX;
        let wire = b".\r\n".repeat(lines);
        assert_eq!(count(&wire), Some(LineCounts { lines: lines as u64, dots: lines as u64 }));
        assert_eq!(wide::count(&wire), count(&wire));
        // Every line end falls in the same lane.
        let line = [&[b'x'; LANES - 2][..], &b"\r\n"[..]].concat();
        let wire = line.repeat(BLOCKS_MAX * 2 + 1);
        assert_eq!(count(&wire), Some(LineCounts { lines: BLOCKS_MAX as u64 * 2 + 1, dots: 0 }));
        assert_eq!(wide::count(&wire), count(&wire));
    }

    proptest! {
        #[test]
        fn same_as_naive(parts in prop::collection::vec(prop_oneof![
            8 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 6 => Just("."),
            6 => Just("abc"), 1 => Just("\0"),
        ], 0..40)) {
            let wire = parts.concat().into_bytes();
            prop_assert_eq!(scan(&wire).map_err(|_| ()), naive(&wire));
            prop_assert_eq!(count(&wire), wide::count(&wire));
        }
    }
}
