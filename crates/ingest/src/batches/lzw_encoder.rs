//! Encoder for the format of compress(1), for batches that every rnews can read (see `lzw` for the
//! decoder).
//!
//! A full table is kept as long as it compresses well, as compress(1) does: the ratio is checked at fixed
//! intervals, and if it has become worse the table is emptied. Memory does not depend on the input. Called
//! by `pack`. Source: compress(1) of 4.3BSD, as published.

use std::io::{self, Write};

use hashbrown::HashMap;

use super::lzw::{BITS_FIRST, BITS_MAX, BLOCK_MODE, CLEAR, MAGIC};

/// Octets between two checks of the ratio.
const CHECK_INTERVAL_BYTES: u64 = 10_000;

/// Compresses the octets written into it.
pub(super) struct LzwEncoder<W> {
    out: W,
    bits_max: u8,
    /// Codes of a prefix code extended by an octet, by a key made of both.
    table: HashMap<u32, u16>,
    /// Code of the octets not written yet.
    current: Option<u16>,
    codes: CodeWriter,
    read_bytes: u64,
    check_at: u64,
    /// Octets read per octet written, in 256ths, at the last check.
    ratio: u64,
}

/// Codes of one width, written in groups of eight.
struct CodeWriter {
    width: u8,
    /// Next free entry of the reader's table, which adds one for each code but the first.
    free: usize,
    is_first: bool,
    /// Bits that do not fill an octet yet.
    bits: u32,
    bits_len: u8,
    /// Octets of the group so far.
    group: Vec<u8>,
    written_bytes: u64,
}

impl<W: Write> LzwEncoder<W> {
    /// Creates an encoder with codes of up to 16 bits.
    pub fn new(out: W) -> io::Result<Self> {
        Self::with_bits(out, BITS_MAX)
    }

    /// Creates an encoder with codes of up to `bits_max` bits, 9 to 16.
    pub fn with_bits(mut out: W, bits_max: u8) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&[bits_max | BLOCK_MODE])?;
        let codes = CodeWriter {
            width: BITS_FIRST,
            free: usize::from(CLEAR) + 1,
            is_first: true,
            bits: 0,
            bits_len: 0,
            group: Vec::with_capacity(usize::from(BITS_MAX)),
            written_bytes: 3,
        };
        let table = HashMap::new();
        let check_at = CHECK_INTERVAL_BYTES;
        Ok(Self { out, bits_max, table, current: None, codes, read_bytes: 0, check_at, ratio: 0 })
    }

    /// Returns the number of entries in the table.
    #[cfg(test)]
    pub fn entries(&self) -> usize {
        self.table.len()
    }

    /// Empties the table.
    pub fn clear(&mut self) -> io::Result<()> {
        self.table.clear();
        self.codes.put(CLEAR, self.bits_max, &mut self.out)?;
        self.codes.end_group(&mut self.out)?;
        // The first entry after this is never used: it takes the place of the code itself.
        (self.codes.width, self.codes.free) = (BITS_FIRST, usize::from(CLEAR));
        self.ratio = 0;
        Ok(())
    }

    /// Writes the remaining octets.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(code) = self.current.take() {
            self.codes.put(code, self.bits_max, &mut self.out)?;
        }
        self.codes.flush(&mut self.out)?;
        Ok(self.out)
    }

    fn push(&mut self, octet: u8) -> io::Result<()> {
        self.read_bytes += 1;
        let Some(prefix) = self.current else {
            self.current = Some(u16::from(octet));
            return Ok(());
        };
        let key = u32::from(prefix) << 8 | u32::from(octet);
        if let Some(code) = self.table.get(&key) {
            self.current = Some(*code);
            return Ok(());
        }
        self.codes.put(prefix, self.bits_max, &mut self.out)?;
        self.current = Some(u16::from(octet));
        let next = self.table.len() + usize::from(CLEAR) + 1;
        match u16::try_from(next).ok().filter(|_| next < 1 << self.bits_max) {
            Some(code) => _ = self.table.insert(key, code),
            None if self.read_bytes >= self.check_at => self.check()?,
            None => {}
        }
        Ok(())
    }

    /// Empties a full table that compresses worse than it did.
    fn check(&mut self) -> io::Result<()> {
        self.check_at = self.read_bytes + CHECK_INTERVAL_BYTES;
        let ratio = (self.read_bytes << 8) / self.codes.written_bytes.max(1);
        if ratio > self.ratio {
            self.ratio = ratio;
            return Ok(());
        }
        self.clear()
    }
}

impl<W: Write> Write for LzwEncoder<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        octets.iter().try_for_each(|octet| self.push(*octet))?;
        Ok(octets.len())
    }

    /// Does nothing: octets that do not fill a group stay buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CodeWriter {
    fn put(&mut self, code: u16, bits_max: u8, out: &mut impl Write) -> io::Result<()> {
        if self.width < bits_max && self.free >= 1 << self.width {
            self.end_group(out)?;
            self.width += 1;
        }
        self.bits |= u32::from(code) << self.bits_len;
        self.bits_len += self.width;
        while self.bits_len >= 8 {
            self.shift();
        }
        if self.group.len() >= usize::from(self.width) {
            self.write(out)?;
        }
        self.free += usize::from(!self.is_first && self.free < 1 << bits_max);
        self.is_first = false;
        Ok(())
    }

    /// Fills an unfinished group with zeros.
    fn end_group(&mut self, out: &mut impl Write) -> io::Result<()> {
        if !self.group.is_empty() || self.bits_len > 0 {
            self.flush_bits();
            self.group.resize(usize::from(self.width), 0);
            self.write(out)?;
        }
        Ok(())
    }

    /// Writes the group as far as it is filled.
    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.flush_bits();
        self.write(out)
    }

    fn flush_bits(&mut self) {
        if self.bits_len > 0 {
            self.bits_len = self.bits_len.max(8);
            self.shift();
        }
    }

    fn shift(&mut self) {
        self.group.push(self.bits.to_le_bytes()[0]);
        self.bits >>= 8;
        self.bits_len -= 8;
    }

    fn write(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.group)?;
        self.written_bytes += self.group.len() as u64;
        self.group.clear();
        Ok(())
    }
}
