//! Single damaged bits in every index file of a closed spool: after the start nothing is hidden, and the
//! damage is reported, or it was harmless. And an unreadable sector under a bitmap while readers read.

use crate::damage::{self, Filled, bytes, flip, random, readable};
use crate::news::*;
use disk::{CrashKind, Disk, ReadMode};
use spool::*;
use std::path::Path;
use std::sync::Arc;

/// Numbers that OVER shows, and those that the marks count.
fn shown(spool: &Spool) -> Vec<(String, u64, usize)> {
    spool.groups().iter().map(|group| shown_of(spool, group).unwrap()).collect()
}

fn shown_of(spool: &Spool, group: &Group) -> Result<(String, u64, usize), ReadError> {
    let mut rows = Vec::new();
    spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows)?;
    Ok((group.name.to_string(), group.marks().count, rows.iter().filter(|b| **b == b'\n').count()))
}

/// Whether a part of a file belongs to the indexes: all of `index`, and the usage bitmap of a buffer.
fn index_bits(name: &str, len: u64) -> Option<std::ops::Range<u64>> {
    const BITMAP: std::ops::Range<u64> = 8192..8192 + 4096;
    match name {
        _ if name.contains("/index/") => Some(0..len * 8),
        _ if name.ends_with(".cyc") => Some(BITMAP.start * 8..(BITMAP.start + 512) * 8),
        _ => None,
    }
}

#[test]
fn no_flipped_bit_of_an_index_hides_an_article_after_the_start() {
    let Filled { sim, disk, all, want, .. } = damage::filled(260);
    let config = damage::spool_config();
    let sound = shown(&open(&(Arc::new(sim.image_after(CrashKind::Kill, 1).unwrap()) as _), &config).0);
    let (mut seed, mut tried, mut mended) = (11, 0, 0);
    for path in damage::files(&disk) {
        let name = path.to_string_lossy().into_owned();
        let content = bytes(&disk, &path);
        let Some(bits) = index_bits(&name, content.len() as u64) else { continue };
        // Half of them where there is something.
        let set: Vec<u64> =
            (bits.start..bits.end).filter(|b| content[*b as usize / 8] >> (b % 8) & 1 == 1).collect();
        for n in 0..12 {
            let bit = match n % 2 == 0 && !set.is_empty() {
                true => set[(random(&mut seed) % set.len() as u64) as usize],
                false => bits.start + random(&mut seed) % (bits.end - bits.start),
            };
            let what = format!("{name} bit {bit}");
            let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Kill, 1).unwrap());
            flip(&disk, &path, bit);
            let (spool, recovery) = open(&disk, &config);
            assert_eq!(readable(&spool, all), want, "{what}: {recovery}");
            assert_eq!(shown(&spool), sound, "{what}: {recovery}");
            agree(&spool);
            // A bit too many leads to no article, and is left to `verify`.
            let left = spool.verifier().verify(&()).findings;
            assert!(left.iter().all(|f| f.repair() == Some("clear the bit")), "{what}: {recovery}, {left:?}");
            let told = recovery.to_string();
            assert_eq!(recovery.mended > 0, told.contains("of indexes rebuilt"), "{what}: {told}");
            (tried, mended) = (tried + 1, mended + u64::from(recovery.mended > 0));
        }
    }
    assert!(tried > 60 && mended > 10, "{tried} tried, {mended} mended");
}

/// It hid 281 of 600 articles until something was filed.
#[test]
fn a_bitmap_that_cannot_be_read_is_rebuilt_before_readers_are_told_that_something_is_missing() {
    let (sim, spool) = crate::unreadable::filled();
    spool.checkpoint().unwrap();
    let before = crate::unreadable::readable(&spool);
    let named = agree(&spool);
    let index = sim.list(Path::new("/s/index/history")).unwrap();
    let index = index.iter().find(|name| name.starts_with("index-")).unwrap();
    let index = Path::new("/s/index/history").join(index);
    for (path, at) in [(Path::new("/s/a.cyc"), 8192), (&index, 0), (&index, 4096), (&index, 8192)] {
        sim.spoil(path, at..at + 512).unwrap();
        let what = format!("{} at {at}", path.display());
        assert_eq!(crate::unreadable::readable(&spool), before, "{what}");
        assert_eq!(agree(&spool), named, "{what}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    }
}
