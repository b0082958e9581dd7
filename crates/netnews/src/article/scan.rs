//! The pass over every octet of an article: line ends, NULs, dots.
//!
//! Written so that the compiler vectorizes it: no branches in the inner loop, counts in bytes that are summed
//! up per chunk. Called by `Article::parse` only. Source: RFC 3977 section 3.1.1, RFC 5536 section 2.2.

use super::Malformed;
use memchr::{memchr, memchr_iter, memmem};

/// Octets per chunk: the counters are `u8`, so at most 255.
const CHUNK_BYTES: usize = 240;

/// What the pass counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Lines, header lines and the blank line among them.
    pub(super) lines: u64,
    /// Lines that begin with a dot, so that carry one octet of dot-stuffing.
    pub(super) dots: u64,
}

/// Counts the lines of `wire`, if every LF follows a CR, every CR precedes a LF, and no octet is NUL.
pub(super) fn scan(wire: &[u8]) -> Result<Counts, Malformed> {
    let mut counts = Counts { lines: 0, dots: u64::from(wire.first() == Some(&b'.')) };
    let bad_first = matches!(wire.first(), Some(b'\n' | 0));
    let bad_last = wire.last() == Some(&b'\r');
    let mut bad = bad_first | bad_last;
    let after = wire.get(1..).unwrap_or_default();
    for (before, here) in wire.chunks(CHUNK_BYTES).zip(after.chunks(CHUNK_BYTES)) {
        let (mut lines, mut dots, mut mixed, mut smallest) = (0u8, 0u8, 0u8, 0xffu8);
        for (&p, &b) in before.iter().zip(here) {
            let (cr, lf) = (all_bits(p == b'\r'), all_bits(b == b'\n'));
            mixed |= cr ^ lf;
            smallest = smallest.min(b);
            lines = lines.wrapping_sub(lf);
            dots = dots.wrapping_sub(all_bits(p == b'\n') & all_bits(b == b'.'));
        }
        counts.lines += u64::from(lines);
        counts.dots += u64::from(dots);
        bad |= (mixed != 0) | (smallest == 0);
    }
    if bad {
        return Err(why(wire));
    }
    if counts.dots > 0 && has_lone_dot(wire) {
        return Err(Malformed::LoneDot);
    }
    Ok(counts)
}

/// 0xff or 0, the result of a vector comparison; subtracting 0xff from a counter adds one to it.
fn all_bits(yes: bool) -> u8 {
    if yes { 0xff } else { 0 }
}

/// Which rule an invalid article breaks; slow and rarely called.
fn why(wire: &[u8]) -> Malformed {
    if memchr(0, wire).is_some() {
        return Malformed::Nul;
    }
    let bare_cr = memchr_iter(b'\r', wire).any(|at| wire.get(at + 1) != Some(&b'\n'));
    if bare_cr { Malformed::BareCr } else { Malformed::BareLf }
}

fn has_lone_dot(wire: &[u8]) -> bool {
    wire.starts_with(b".\r\n") || memmem::find(wire, b"\n.\r\n").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(wire: &[u8]) -> Result<Counts, ()> {
        let text: String = wire.iter().map(|&b| b as char).collect();
        let rest = text.replace("\r\n", "\u{100}");
        if rest.contains(['\r', '\n', '\0'])
            || rest.split('\u{100}').any(|line| line == ".") && has_lone_dot(wire)
        {
            return Err(());
        }
        let lines = rest.matches('\u{100}').count() as u64;
        let dots = rest.split('\u{100}').filter(|line| line.starts_with('.')).count() as u64;
        Ok(Counts { lines, dots })
    }

    #[test]
    fn each_damage_is_named() {
        for (wire, expected) in [
            (&b"a\0b\r\n"[..], Malformed::Nul),
            (b"\0\r\n", Malformed::Nul),
            (b"a\rb\r\n", Malformed::BareCr),
            (b"a\r\n\r", Malformed::BareCr),
            (b"a\r\r\n", Malformed::BareCr),
            (b"a\nb\r\n", Malformed::BareLf),
            (b"\na\r\n", Malformed::BareLf),
            (b"a\r\n.\r\nb\r\n", Malformed::LoneDot),
            (b".\r\n", Malformed::LoneDot),
        ] {
            assert_eq!(scan(wire), Err(expected), "{wire:?}");
        }
    }

    #[test]
    fn damage_is_seen_at_every_offset_of_a_chunk() {
        for at in 0..CHUNK_BYTES * 2 + 5 {
            for damage in [b'\r', b'\n', 0] {
                let mut wire = vec![b'x'; CHUNK_BYTES * 2 + 5];
                wire[at] = damage;
                wire.extend_from_slice(b"y\r\n");
                assert!(scan(&wire).is_err(), "{damage} at {at}");
            }
            let mut wire = vec![b'x'; at];
            wire.extend_from_slice(b"\r\n..\r\n");
            assert_eq!(scan(&wire), Ok(Counts { lines: 2, dots: 1 }));
        }
    }

    proptest! {
        #[test]
        fn same_as_naive(parts in prop::collection::vec(prop_oneof![
            8 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 6 => Just("."),
            6 => Just("abc"), 1 => Just("\0"),
        ], 0..40)) {
            let wire = parts.concat().into_bytes();
            prop_assert_eq!(scan(&wire).map_err(|_| ()), naive(&wire));
        }
    }
}
