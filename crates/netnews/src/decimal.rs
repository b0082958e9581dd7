//! Decimal numbers as NNTP and news headers write them.
//!
//! Overview rows, article numbers and byte counts are formatted for every article, so this avoids
//! `core::fmt`. Called by `overview_row`, `date`, `nntp` and the server's response writers. Source: RFC 3977
//! section 9.8.

const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839\
4041424344454647484950515253545556575859606162636465666768697071727374757677787980818283848586878889\
90919293949596979899";

/// Maximum number of digits of a `u64`.
pub const DECIMAL_DIGITS_MAX: usize = 20;

/// Appends `n` in decimal, without leading zeros.
pub fn append_decimal(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; DECIMAL_DIGITS_MAX];
    let mut at = DECIMAL_DIGITS_MAX;
    while n >= 100 {
        let pair = (n % 100) as usize * 2;
        n /= 100;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    }
    if n >= 10 {
        let pair = n as usize * 2;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    } else {
        at -= 1;
        digits[at] = b'0' + n as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Reads a number of digits only (leading zeros allowed); `None` when empty, not all digits, or above
/// `u64::MAX`.
pub fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut n: u64 = 0;
    for &b in digits {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(n: u64) -> Vec<u8> {
        let mut out = Vec::new();
        append_decimal(n, &mut out);
        out
    }

    #[test]
    fn edges() {
        for n in
            [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12345, u64::from(u32::MAX), u64::MAX - 1, u64::MAX]
        {
            assert_eq!(text(n), n.to_string().into_bytes());
        }
    }

    #[test]
    fn rejects_text_that_is_not_a_number() {
        for bad in [&b""[..], b" 1", b"1 ", b"+1", b"-1", b"1a", b"0x1", b"18446744073709551616", b"\xb2"] {
            assert_eq!(parse_decimal(bad), None, "{bad:?}");
        }
        assert_eq!(parse_decimal(b"000000000000000000000000000000042"), Some(42));
        assert_eq!(parse_decimal(b"18446744073709551615"), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn round_trip(n: u64) {
            prop_assert_eq!(parse_decimal(&text(n)), Some(n));
        }
    }
}
