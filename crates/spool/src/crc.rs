//! CRC-32C, the checksum of every format of the spool (RFC 3720 section 12.1 has the polynomial).

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of `first` with `rest` behind it.
pub(crate) fn crc32c_of_two(first: &[u8], rest: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(rest);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_values_come_out() {
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
