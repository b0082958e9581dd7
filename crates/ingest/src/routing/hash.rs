//! Hash of Message-IDs by which feeds share articles, as computed by INN and Diablo: four bytes of the MD5
//! digest, the last ones or those `offset` before, as a number in network order.

use md5::Md5;
use site_config::HashSplit;

/// The MD5 digest of a Message-ID.
pub(super) type Digest = [u8; 16];

pub(super) fn digest_of(message_id: &[u8]) -> Digest {
    <Md5 as md5::Digest>::digest(message_id).into()
}

/// Returns the part that an article with this digest is in, from 1.
pub(super) fn part_in(digest: &Digest, split: &HashSplit) -> u32 {
    let start = 12_usize.saturating_sub(usize::from(split.offset));
    let bytes = digest.get(start..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
    u32::from_be_bytes(bytes) % split.of.max(1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of ten at the offsets 0, 4, 8 and 12, computed by the formula of INN's `HashFeedMD5`
    /// (innd/art.c) in another language with another MD5.
    const GOLDEN: &[(&str, [u32; 4])] = &[
        ("<1993Apr5.012345@example.org>", [8, 9, 9, 1]),
        ("<a@b>", [4, 4, 6, 2]),
        ("<abc.def$123@news.example.net>", [2, 8, 10, 3]),
        ("<20260731100000.42@Example.COM>", [8, 8, 1, 7]),
        ("<x%y@z.invalid>", [3, 5, 9, 2]),
        ("<0@0.0>", [1, 10, 8, 5]),
        (
            "<very.long.message.id.with.many.parts.and.a.tail.1780000000.1.2.3@host.sub.domain.example>",
            [2, 6, 1, 5],
        ),
    ];

    #[test]
    fn parts_are_computed_as_in_inn() {
        for (message_id, parts) in GOLDEN {
            for (part, offset) in parts.iter().zip([0, 4, 8, 12]) {
                let split = HashSplit { first: 1, last: 1, of: 10, offset };
                assert_eq!(
                    part_in(&digest_of(message_id.as_bytes()), &split),
                    *part,
                    "{message_id} {offset}"
                );
            }
        }
    }
}
