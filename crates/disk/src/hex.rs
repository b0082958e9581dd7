//! Octets as hexadecimal digits: secrets, hashes and the names of files made of them.

/// Returns two digits for each octet, in lower case.
pub fn digits(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the first `count` octets of a hash as digits.
pub fn start_of(hash: impl AsRef<[u8]>, count: usize) -> String {
    let hash = hash.as_ref();
    digits(hash.get(..count).unwrap_or(hash))
}

/// Reads what [`digits`] wrote; `None` if there are others, or another number of digits.
pub fn octets<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut octets = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for (octet, pair) in octets.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *octet = digit(high)? << 4 | digit(low)?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_read_back_and_nothing_else_is() {
        let text = digits(&[0, 0x0a, 0xff]);
        assert_eq!((text.as_str(), octets(text.as_bytes())), ("000aff", Some([0, 0x0a, 0xff])));
        assert_eq!(start_of([0x12, 0x34], 1), "12");
        assert_eq!(octets::<2>(b"+1ff"), None);
        assert_eq!(octets::<2>(b"0102ff"), None);
        assert_eq!(octets::<2>(b"010"), None);
    }
}
