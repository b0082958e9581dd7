//! CRC-32C, the checksum of every format of the spool (RFC 3720 section 12.1 has the polynomial).

/// Returns the checksum of `bytes`. Nothing else of the crate is used: its functions for arbitrary
/// polynomials would bring the tables of all of them into the binary, 650 KiB.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Returns the checksum of `first` followed by `rest`. Both are copied, so they should be short.
pub fn crc32c_of_two(first: &[u8], rest: &[u8]) -> u32 {
    crc32c(&[first, rest].concat())
}

/// Reports whether one flipped bit, in `bytes` or in their `stored` checksum, explains the mismatch. By
/// chance this holds for one in 2^32 / (8 x length) of all other damage.
pub fn one_bit_explains(bytes: &[u8], stored: u32) -> bool {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let difference = crc32c(bytes) ^ stored;
    if difference.is_power_of_two() {
        return true;
    }
    // Difference made by a flip of the last bit, then of the one before it, and so on.
    let mut flipped = POLYNOMIAL;
    (0..bytes.len() * 8).any(|_| {
        let found = flipped == difference;
        flipped = (flipped >> 1) ^ if flipped & 1 == 1 { POLYNOMIAL } else { 0 };
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flipped_bit_is_distinguished_from_other_damage() {
        let bytes: Vec<u8> = (0..2000u32).map(|n| (n * 31) as u8).collect();
        let told = crc32c(&bytes);
        assert!(!one_bit_explains(&bytes, told));
        for bit in (0..bytes.len() * 8).step_by(97) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(one_bit_explains(&bad, told), "bit {bit}");
            bad[(bit / 8 + 700) % 2000] ^= 4;
            assert!(!one_bit_explains(&bad, told), "bit {bit} and another");
        }
        assert!((0..32).all(|bit| one_bit_explains(&bytes, told ^ 1 << bit)));
        let torn = [&bytes[..512], &vec![7; 512][..], &bytes[1024..]].concat();
        assert!(!one_bit_explains(&torn, told));
    }

    #[test]
    fn checksums_match_the_published_values() {
        // RFC 3720 appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46DD_794E);
        let (first, rest) = ascending.split_at(8);
        assert_eq!(crc32c_of_two(first, rest), 0x46DD_794E);
        assert_eq!(crc32c_of_two(&[], &ascending), 0x46DD_794E);
    }
}
