//! Paths of article files, by method; and places, from which the path follows without a table.
//!
//! Sources: INN's tradspool and timehash, CNFS-40 (hashed), UFS-02 to UFS-05 (bucketed).

use md5::{Digest, Md5};
use netnews::bucket::{self, BucketScheme};
use spool_base::ids::GroupId;
use std::path::{Path, PathBuf};

/// Bits of a place that hold the number; the others hold the group.
const NUMBER_BITS: u32 = 40;
/// Bits of a hashed place that count earlier articles with the same digest.
const COLLISION_BITS: u32 = 20;

/// Returns the place of a number in a group; `None` beyond 2^24 groups or 2^40 numbers.
pub(super) fn number_place(group: GroupId, number: u64) -> Option<u64> {
    (group.0 < 1 << (64 - NUMBER_BITS) && number < 1 << NUMBER_BITS)
        .then_some(u64::from(group.0) << NUMBER_BITS | number)
}

/// Returns group and number of a place.
pub(super) fn number_of(place: u64) -> (GroupId, u64) {
    (GroupId((place >> NUMBER_BITS) as u32), place & ((1 << NUMBER_BITS) - 1))
}

/// Returns the directory of a group. A component of digits alone could be mistaken for an article: in a plain
/// spool it gets a final dot, in a bucketed one it lies in `aaa` like all other non-articles (UFS-05).
pub(super) fn group_dir(root: &Path, group: &str, bucketed: bool) -> PathBuf {
    let mut dir = root.to_path_buf();
    for (depth, part) in group.split('.').enumerate() {
        if bucketed && depth > 0 {
            dir.push(bucket::OTHERS);
        }
        let digits = !bucketed && depth > 0 && part.bytes().all(|b| b.is_ascii_digit());
        if digits { dir.push(format!("{part}.")) } else { dir.push(part) }
    }
    dir
}

/// Returns the path of an article's file by group and number.
pub(super) fn number_path(root: &Path, group: &str, number: u64, bucketed: bool) -> PathBuf {
    let mut path = group_dir(root, group, bucketed);
    if bucketed {
        path.push(BucketScheme::default().bucket_of_number(number).as_str());
    }
    path.push(number.to_string());
    path
}

/// Returns the path of an article's file once its number is due while others live: the number with a dot
/// before it, which is no article's name. It is in the same directory, so that a power cut leaves the file
/// under one name or the other.
pub(super) fn held_path(root: &Path, group: &str, number: u64, bucketed: bool) -> PathBuf {
    let mut path = number_path(root, group, number, bucketed);
    path.set_file_name(format!(".{number}"));
    path
}

/// Returns group and number of an article's file from its directories and its name. The path may be one that
/// [`number_path`] returns.
pub(super) fn group_and_number(parts: &[String], name: &str, bucketed: bool) -> Option<(String, u64)> {
    let number = name.parse().ok()?;
    let names: Vec<&str> = if bucketed {
        let (_bucket, dirs) = parts.split_last()?;
        dirs.iter().step_by(2).map(String::as_str).collect()
    } else {
        let plain = |part: &'_ String| part.strip_suffix('.').map_or(part.len(), str::len);
        parts.iter().filter_map(|part| part.get(..plain(part))).collect()
    };
    Some((names.join("."), number))
}

/// Returns the first place for a Message-ID's digest: the MD5 of the id with a newline (CNFS-41).
pub(super) fn hashed_place(message_id: &[u8]) -> u64 {
    let mut md5 = Md5::new();
    md5.update(message_id);
    md5.update(b"\n");
    let d = md5.finalize();
    let byte = |at: usize| u64::from(d.get(at).copied().unwrap_or_default());
    let last = (2..6).fold(0, |n, at| n << 8 | byte(at));
    ((byte(0) & 63) << 38 | (byte(1) & 63) << 32 | last) << COLLISION_BITS
}

/// Number of places per digest.
pub(super) const COLLISIONS_MAX: u64 = 200;

/// Reports whether a hashed place may belong to a Message-ID.
pub(super) fn is_hashed_of(place: u64, message_id: &[u8]) -> bool {
    place >> COLLISION_BITS == hashed_place(message_id) >> COLLISION_BITS
}

/// Returns the path by digest: 6 bits, 6 bits, 4 bytes, and a `+` for each earlier article with the same
/// (CNFS-40).
pub(super) fn hashed_path(root: &Path, place: u64) -> PathBuf {
    let digest = place >> COLLISION_BITS;
    let collisions = (place & ((1 << COLLISION_BITS) - 1)).min(COLLISIONS_MAX) as usize;
    let name = format!("{:08x}{}", digest & 0xffff_ffff, "+".repeat(collisions));
    root.join(format!("{:02x}", digest >> 38 & 63)).join(format!("{:02x}", digest >> 32 & 63)).join(name)
}

/// Returns the path by arrival (seconds 0xaabbccdd) and number within the second: `time-nn/bb/cc/yyyy-aadd`,
/// as in INN; nn is the number of the volume (the class in INN).
pub(super) fn timehash_path(root: &Path, volume: u16, place: u64) -> PathBuf {
    let (time, n) = (place >> 32, place & 0xffff_ffff);
    let (aa, bb, cc, dd) = (time >> 24 & 255, time >> 16 & 255, time >> 8 & 255, time & 255);
    root.join(format!("time-{volume:02x}"))
        .join(format!("{bb:02x}"))
        .join(format!("{cc:02x}"))
        .join(format!("{n:04x}-{aa:02x}{dd:02x}"))
}

/// Returns the place of a path made by [`hashed_path`] or [`timehash_path`], from its last three components.
pub(super) fn place_of(parts: &[&str], hashed: bool) -> Option<u64> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let [.., first, second, name] = parts else { return None };
    let (first, second) = (hex(first)?, hex(second)?);
    if hashed {
        let digits = name.trim_end_matches('+');
        let digest = first << 38 | second << 32 | hex(digits)?;
        return Some(digest << COLLISION_BITS | (name.len() - digits.len()) as u64);
    }
    let (n, aadd) = name.split_once('-')?;
    let (n, aadd) = (hex(n)?, hex(aadd)?);
    let time = (aadd >> 8) << 24 | first << 16 | second << 8 | aadd & 255;
    Some(time << 32 | n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_places_match_the_example_of_the_paper() {
        let place = hashed_place(b"<foo87692.bar85-97@no.where>");
        assert_eq!(hashed_path(Path::new("/s"), place), Path::new("/s/20/02/77ebdad1"));
        assert_eq!(hashed_path(Path::new("/s"), place + 2), Path::new("/s/20/02/77ebdad1++"));
        assert_eq!(place_of(&["20", "02", "77ebdad1++"], true), Some(place + 2));
        assert!(is_hashed_of(place + 2, b"<foo87692.bar85-97@no.where>"));
    }

    #[test]
    fn bucketed_paths_name_group_and_number() {
        let path = |group, number, bucketed| {
            number_path(Path::new("/s"), group, number, bucketed).display().to_string()
        };
        assert_eq!(path("control.cancel", 123_456, true), "/s/control/aaa/cancel/345/123456");
        assert_eq!(path("a", 987, true), "/s/a/098/987");
        assert_eq!(path("alt.2600", 7, true), "/s/alt/aaa/2600/000/7");
        assert_eq!(path("alt.2600", 7, false), "/s/alt/2600./7");
        assert_eq!(path("comp.lang.c", 7, false), "/s/comp/lang/c/7");
        assert_eq!(held_path(Path::new("/s"), "alt.2600", 7, false), Path::new("/s/alt/2600./.7"));
        assert_eq!(held_path(Path::new("/s"), "alt.2600", 7, true), Path::new("/s/alt/aaa/2600/000/.7"));
        for (group, bucketed) in
            [("control.cancel", true), ("alt.2600", true), ("alt.2600", false), ("comp.lang.c", false)]
        {
            let path = path(group, 4711, bucketed);
            let mut parts: Vec<String> = path.split('/').skip(2).map(str::to_owned).collect();
            let name = parts.pop().unwrap();
            assert_eq!(group_and_number(&parts, &name, bucketed), Some((group.to_owned(), 4711)));
        }
        assert_eq!(number_of(number_place(GroupId(9), 1 << 35).unwrap()), (GroupId(9), 1 << 35));
        assert_eq!(number_place(GroupId(1 << 24), 1), None);
    }

    #[test]
    fn timehash_paths_are_those_of_inn() {
        let place = 0x12ab_34cd_u64 << 32 | 0x7;
        assert_eq!(timehash_path(Path::new("/s"), 3, place), Path::new("/s/time-03/ab/34/0007-12cd"));
        assert_eq!(place_of(&["time-03", "ab", "34", "0007-12cd"], false), Some(place));
    }
}
