//! Decoder for the format of compress(1), LZW in `.Z` files, used by `#! cunbatch` batches.
//!
//! Codes have 9 or more bits, least significant bit first, in groups of eight; at a change of width the
//! rest of a group is skipped. The table has at most 65,536 entries, so memory does not depend on the
//! input. The format has neither length nor checksum: input that ends early looks like a shorter file.
//! Called by `unpack`. Source: compress(1) of 4.3BSD, as published.

use std::io::{self, Read};

/// First octets of such a file.
pub(super) const MAGIC: &[u8] = b"\x1f\x9d";

/// Code that empties the table, if the file uses it.
pub(super) const CLEAR: u16 = 256;
/// Width of the first codes, in bits.
pub(super) const BITS_FIRST: u8 = 9;
/// Largest width of a code, in bits.
pub(super) const BITS_MAX: u8 = 16;
/// Flag of files that use [`CLEAR`].
pub(super) const BLOCK_MODE: u8 = 0x80;
/// Bits of the third octet with the largest width of a code.
const BITS_MASK: u8 = 0x1f;

/// Decompresses the data of `source`, which begins after [`MAGIC`].
pub(super) struct LzwDecoder<R> {
    source: R,
    /// `None` until the third octet is read.
    table: Option<Box<LzwTable>>,
    /// Output not taken yet, last octet first.
    stack: Vec<u8>,
    group: CodeGroup,
    /// Error met after some octets were decoded; the next read returns it.
    failed: Option<io::Error>,
}

/// Codes of one width, at most eight of them.
#[derive(Default)]
struct CodeGroup {
    octets: [u8; BITS_MAX as usize],
    bits: usize,
    at: usize,
}

struct LzwTable {
    /// By code from 256 on: the code that it extends, and the octet that it adds.
    prefix: Vec<u16>,
    suffix: Vec<u8>,
    bits_max: u8,
    uses_clear: bool,
    width: u8,
    /// Next code to be assigned; one past the last entry.
    free: usize,
    /// Previous code, and the first octet of its expansion.
    old: Option<(u16, u8)>,
}

impl<R: Read> LzwDecoder<R> {
    pub fn new(source: R) -> Self {
        Self { source, table: None, stack: Vec::new(), group: CodeGroup::default(), failed: None }
    }

    /// Pushes the octets of the next code onto the stack; returns false at the end.
    fn next(&mut self) -> io::Result<bool> {
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let mut flags = [0];
                self.source.read_exact(&mut flags)?;
                self.table.insert(Box::new(LzwTable::new(u8::from_le_bytes(flags))?))
            }
        };
        loop {
            if table.widens() {
                self.group = CodeGroup::default();
            }
            let code = match self.group.next(table.width) {
                Some(code) => code,
                None if self.group.fill(&mut self.source, table.width)? => continue,
                None => return Ok(false),
            };
            if code == CLEAR && table.uses_clear && table.old.is_some() {
                table.clear();
                self.group = CodeGroup::default();
                continue;
            }
            table.expand(code, &mut self.stack)?;
            return Ok(true);
        }
    }
}

impl<R: Read> Read for LzwDecoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut filled = 0;
        while filled < out.len() {
            if self.stack.is_empty() {
                match self.next() {
                    Ok(true) => {}
                    Ok(false) => break,
                    // Octets decoded before the error are returned first.
                    Err(error) if filled > 0 => {
                        self.failed = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            let rest = out.get_mut(filled..).unwrap_or_default();
            for (place, octet) in rest.iter_mut().zip(std::iter::from_fn(|| self.stack.pop())) {
                *place = octet;
                filled += 1;
            }
        }
        Ok(filled)
    }
}

impl CodeGroup {
    /// Returns the next code, or `None` if none is left.
    fn next(&mut self, width: u8) -> Option<u16> {
        let width = usize::from(width);
        if self.at + width > self.bits {
            return None;
        }
        let octet = |n: usize| self.octets.get(self.at / 8 + n).copied().map_or(0, u32::from);
        let bits = octet(0) | octet(1) << 8 | octet(2) << 16;
        let code = bits >> (self.at % 8) & ((1 << width) - 1);
        self.at += width;
        u16::try_from(code).ok()
    }

    /// Reads the next group; returns false at the end.
    fn fill(&mut self, source: &mut impl Read, width: u8) -> io::Result<bool> {
        *self = Self::default();
        let mut octets = 0;
        while octets < usize::from(width) {
            let room = self.octets.get_mut(octets..usize::from(width)).unwrap_or_default();
            match source.read(room) {
                Ok(0) => break,
                Ok(read) => octets += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bits = octets * 8;
        Ok(self.bits >= usize::from(width))
    }
}

impl LzwTable {
    fn new(flags: u8) -> io::Result<Self> {
        let bits_max = flags & BITS_MASK;
        if !(BITS_FIRST..=BITS_MAX).contains(&bits_max) {
            return Err(damaged("codes of a width that compress does not have"));
        }
        let uses_clear = flags & BLOCK_MODE != 0;
        Ok(Self {
            prefix: vec![0; 1 << bits_max],
            suffix: vec![0; 1 << bits_max],
            bits_max,
            uses_clear,
            width: BITS_FIRST,
            free: if uses_clear { usize::from(CLEAR) + 1 } else { usize::from(CLEAR) },
            old: None,
        })
    }

    /// Widens the codes if the next entry needs it.
    fn widens(&mut self) -> bool {
        let widens = self.width < self.bits_max && self.free >= 1 << self.width;
        self.width += u8::from(widens);
        widens
    }

    /// Empties the table. The first entry after this is never used: it takes the place of the code itself.
    fn clear(&mut self) {
        self.free = usize::from(CLEAR);
        self.width = BITS_FIRST;
    }

    /// Pushes the expansion of a code onto the stack, last octet first, and adds an entry.
    fn expand(&mut self, code: u16, stack: &mut Vec<u8>) -> io::Result<()> {
        let Some((old, old_first)) = self.old else {
            let octet = u8::try_from(code).map_err(|_| damaged("the first code stands for no octet"))?;
            self.old = Some((code, octet));
            stack.push(octet);
            return Ok(());
        };
        let mut at = code;
        if usize::from(code) >= self.free {
            if usize::from(code) > self.free {
                return Err(damaged("a code that is not in the table"));
            }
            stack.push(old_first);
            at = old;
        }
        // The loop ends because each entry extends one with a lower code.
        while at >= CLEAR {
            stack.push(self.suffix.get(usize::from(at)).copied().unwrap_or_default());
            at = self.prefix.get(usize::from(at)).copied().unwrap_or_default();
        }
        let first = at.to_le_bytes()[0];
        stack.push(first);
        let entry = (self.prefix.get_mut(self.free), self.suffix.get_mut(self.free));
        if let (Some(prefix), Some(suffix)) = entry {
            (*prefix, *suffix) = (old, first);
            self.free += 1;
        }
        self.old = Some((code, first));
        Ok(())
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::lzw_encoder::LzwEncoder;
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// Compresses `text`, emptying the table after every `clear_every` entries.
    fn compress(text: &[u8], bits_max: u8, clear_every: usize) -> Vec<u8> {
        let mut encoder = LzwEncoder::with_bits(Vec::new(), bits_max).unwrap();
        for octet in text {
            encoder.write_all(&[*octet]).unwrap();
            if encoder.entries() >= clear_every {
                encoder.clear().unwrap();
            }
        }
        encoder.finish().unwrap()
    }

    fn decompress(octets: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        LzwDecoder::new(octets.strip_prefix(MAGIC).unwrap()).read_to_end(&mut text).map(|_| text)
    }

    /// `printf 'to be or not to be, that is to be or not\n' | compress`
    #[test]
    fn output_of_compress_is_decoded() {
        let compressed =
            b"\x1f\x9d\x90\x74\xde\x80\x10\x53\x06\xc4\x1b\x39\x20\xdc\xbc\xa1\x03\x22\xe0\xc0\x32\x2c\
            \x1a\xa2\x09\xc3\x30\xcd\x9c\x86\x02\x09\x1a\x44\xa8\x90\x8e\x02";
        let text = b"to be or not to be, that is to be or not\n";
        assert_eq!(decompress(compressed).unwrap(), text);
        assert_eq!(compress(text, 16, usize::MAX), compressed);
    }

    #[test]
    fn damage_is_an_error_or_the_end() {
        for bad in [&b"\x1f\x9d\x88"[..], b"\x1f\x9d\x91aaaa", b"\x1f\x9d", b"\x1f\x9d\x90\xff\xff\xff"] {
            assert!(decompress(bad).is_err(), "{bad:?}");
        }
        assert_eq!(decompress(b"\x1f\x9d\x90").unwrap(), b"");
        // Codes of 9 bits: "a", one that there is not, and "b".
        let codes = [u32::from(b'a'), 400, u32::from(b'b')];
        let bits = codes.iter().rev().fold(0u32, |bits, code| bits << 9 | code);
        let text = [&b"\x1f\x9d\x90"[..], &bits.to_le_bytes()].concat();
        let mut decoder = LzwDecoder::new(&text[2..]);
        let mut out = [0; 100];
        assert_eq!((decoder.read(&mut out).unwrap(), out[0]), (1, b'a'));
        assert!(decoder.read(&mut out).is_err(), "the rest is not decoded");
    }

    /// The table is full after some 200 KB of such text; the text after that is of another kind.
    #[test]
    fn a_table_that_no_longer_fits_is_emptied() {
        let word = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % 5_000;
        let of = |range: std::ops::Range<u64>, base: u64| -> String {
            range.map(|n| format!("{:x} ", word(n) + base)).collect()
        };
        let text = of(0..100_000, 0) + &of(0..100_000, 1 << 40);
        let mut encoder = LzwEncoder::new(Vec::new()).unwrap();
        text.as_bytes().chunks(777).for_each(|chunk| encoder.write_all(chunk).unwrap());
        let compressed = encoder.finish().unwrap();
        assert_eq!(decompress(&compressed).unwrap(), text.as_bytes());
        assert!(compressed.len() < compress(text.as_bytes(), BITS_MAX, usize::MAX).len() + text.len() / 50);
    }

    proptest! {
        #[test]
        fn round_trip(
            pieces in prop::collection::vec(
                prop_oneof![Just(b"news".to_vec()), prop::collection::vec(any::<u8>(), 0..200)],
                0..60,
            ),
            bits_max in BITS_FIRST..=BITS_MAX,
            clear_every in prop_oneof![Just(usize::MAX), 1..2000_usize],
        ) {
            let text = pieces.concat();
            prop_assert_eq!(decompress(&compress(&text, bits_max, clear_every)).unwrap(), text);
        }

        #[test]
        fn decoding_any_input_terminates(octets in prop::collection::vec(any::<u8>(), 0..600), flags in any::<u8>()) {
            let mut out = Vec::new();
            let input = [&[flags][..], &octets].concat();
            let read = LzwDecoder::new(input.as_slice()).read_to_end(&mut out);
            // A code expands to at most as many octets as there are entries.
            prop_assert!(read.is_err() || out.len() <= octets.len() * octets.len());
        }
    }
}
