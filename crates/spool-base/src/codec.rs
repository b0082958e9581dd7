//! Little-endian and varint encoding for journal rows, residents and checkpoints.
//! Reading never panics: a [`ByteReader`] that runs out returns `None` from then on.

/// Appends an unsigned LEB128 varint.
pub fn put_varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Maps a signed number to an unsigned one that is small if it is near 0: 0, -1, 1, -2 become 0, 1, 2, 3.
pub fn zigzag(n: u64) -> u64 {
    (n << 1) ^ ((n as i64 >> 63) as u64)
}

/// Undoes [`zigzag`].
pub fn unzigzag(n: u64) -> u64 {
    (n >> 1) ^ (n & 1).wrapping_neg()
}

/// Appends a length and the bytes.
pub fn put_bytes(b: &[u8], out: &mut Vec<u8>) {
    put_varint(b.len() as u64, out);
    out.extend_from_slice(b);
}

/// Appends a fixed 64-bit number.
pub fn put_u64(n: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&n.to_le_bytes());
}

/// Appends a length (4 bytes) and what `put` appends.
pub fn put_sized<T>(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let result = put(out);
    let len = (out.len() - start - 4) as u32;
    if let Some(field) = out.get_mut(start..start + 4) {
        field.copy_from_slice(&len.to_le_bytes());
    }
    result
}

/// Returns the bytes up to the last one that is not zero: the written part of a file that was allocated
/// ahead. Compares many bytes at a time.
pub fn without_trailing_zeros(mut bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 4096] = [0; 4096];
    while let Some(rest) = bytes.strip_suffix(&ZEROS) {
        bytes = rest;
    }
    let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    bytes.get(..used).unwrap_or(bytes)
}

/// Reader of the encodings that the `put_` functions write.
#[derive(Debug, Clone)]
pub struct ByteReader<'a>(
    /// Bytes still to be read.
    pub &'a [u8],
);

impl<'a> ByteReader<'a> {
    /// Reads so many bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    /// Reads an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    /// Reads a fixed 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    /// Reads a fixed 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    /// Reads a fixed 128-bit number.
    pub fn u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.array()?))
    }

    /// Reads what [`put_varint`] wrote.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        match self.0.split_first() {
            Some((b, rest)) if *b < 0x80 => {
                self.0 = rest;
                Some(u64::from(*b))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.u8()?;
            let bits = u64::from(b & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            n |= bits << shift;
            if b < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// Reads a varint that counts things of at least `each` bytes still to come, which bounds allocations.
    pub fn count(&mut self, each: usize) -> Option<usize> {
        let n = usize::try_from(self.varint()?).ok()?;
        (n <= self.0.len() / each.max(1)).then_some(n)
    }

    /// Reads what [`put_bytes`] wrote.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.varint()?).ok()?;
        self.take(n)
    }

    /// Reads what [`put_sized`] wrote.
    pub fn sized(&mut self) -> Option<Self> {
        let len = self.u32()? as usize;
        self.take(len).map(Self)
    }

    /// Reads what [`put_bytes`] wrote, as text.
    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    /// Reports whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zeros_at_the_end_are_left_out() {
        for len in [0, 1, 4095, 4096, 4097, 3 * 4096 + 5] {
            let mut bytes = vec![0; len];
            assert_eq!(without_trailing_zeros(&bytes), []);
            for last in [0, 1, 4095, 4096, len.saturating_sub(1)] {
                if let Some(byte) = bytes.get_mut(last) {
                    *byte = 7;
                    assert_eq!(without_trailing_zeros(&bytes).len(), last + 1);
                    bytes[last] = 0;
                }
            }
        }
    }

    #[test]
    fn varints_round_trip_and_refuse_overflow() {
        for n in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut b = Vec::new();
            put_varint(n, &mut b);
            let mut r = ByteReader(&b);
            assert_eq!(r.varint(), Some(n));
            assert!(r.is_empty());
        }
        assert_eq!(ByteReader(&[0xff; 10]).varint(), None);
        assert_eq!(ByteReader(&[0x80]).varint(), None);
        assert_eq!(ByteReader(&[200, 1, 2]).bytes(), None);
    }
}
