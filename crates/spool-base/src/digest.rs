//! Sums by which two sites are compared: equal if the same members were added, and others with the chance of
//! any two numbers of 128 bits.
//!
//! Members are hashed under the site's secret, so outsiders cannot construct others with the same sum. A sum
//! does not depend on the order of its members, and one that leaves is subtracted.

use crate::key::{ArticleKey, KeyHasher};
use std::fmt;

/// Low bits of a key that history does not keep.
const KEY_BITS_LEFT_OUT: u32 = 32;

/// Sum of the hashes of a set's members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetSum(pub u128);

impl SetSum {
    /// Adds a member.
    pub fn add(&mut self, member: u128) {
        self.0 = self.0.wrapping_add(member);
    }

    /// Subtracts a member.
    pub fn take(&mut self, member: u128) {
        self.0 = self.0.wrapping_sub(member);
    }
}

/// Returns the hash of an article's number in its group. The key is a secret hash already; history keeps its
/// upper 96 bits.
pub fn of_number(key: ArticleKey, number: u64) -> u128 {
    mixed((key.0 >> KEY_BITS_LEFT_OUT << KEY_BITS_LEFT_OUT).wrapping_add(u128::from(number) + 1))
}

/// Returns the hash of a known Message-ID.
pub fn of_id(key: ArticleKey) -> u128 {
    mixed(key.0 >> KEY_BITS_LEFT_OUT << KEY_BITS_LEFT_OUT)
}

/// Returns the hash of a member that consists of these parts.
pub fn of_parts(hasher: &KeyHasher, parts: &[&[u8]]) -> u128 {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    hasher.key(&bytes).0
}

/// Spreads each bit over all (the finalizer of MurmurHash, for 128 bits).
fn mixed(bits: u128) -> u128 {
    const ODD: [u128; 2] =
        [0xff51_afd7_ed55_8ccd_9e37_79b9_7f4a_7c15, 0xc4ce_b9fe_1a85_ec53_d1b5_4a32_d192_ed03];
    let once = (bits ^ (bits >> 65)).wrapping_mul(ODD[0]);
    let twice = (once ^ (once >> 67)).wrapping_mul(ODD[1]);
    twice ^ (twice >> 65)
}

/// Digest of a site: of all that readers, peers and history can see. Equal for sites with one secret that
/// have applied the same changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteDigest(pub u128);

impl SiteDigest {
    /// Returns its first 48 bits, which a figure can have.
    pub fn first_bits(self) -> u64 {
        (self.0 >> 80) as u64
    }
}

impl fmt::Display for SiteDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_depends_on_its_members_alone() {
        let keys = (1..=100u128).map(|n| ArticleKey(n << 90));
        let members: Vec<u128> = keys.clone().map(|key| of_number(key, 7)).chain(keys.map(of_id)).collect();
        let sum = |members: &mut dyn Iterator<Item = &u128>| {
            let mut sum = SetSum::default();
            members.for_each(|member| sum.add(*member));
            sum
        };
        let mut all = sum(&mut members.iter());
        assert_eq!(all, sum(&mut members.iter().rev()));
        all.take(members[3]);
        assert_eq!(all, sum(&mut members[..3].iter().chain(&members[4..])));
        assert_ne!(of_number(ArticleKey(5 << 64), 1), of_number(ArticleKey(5 << 64), 2));
        let hasher = KeyHasher::new([1; 16]);
        assert_ne!(of_parts(&hasher, &[b"ab", b"c"]), of_parts(&hasher, &[b"a", b"bc"]));
    }
}
