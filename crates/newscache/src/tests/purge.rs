//! Tests of purging: what was named is not cached any more, also after a restart, and all else is.

use super::*;
use crate::reading::group::CacheGroup;
use disk::CrashKind;
use netnews::GroupMarks;

const SMALL: usize = 900;
const LARGE: usize = 100_000;

fn has(group: &CacheGroup, number: u64) -> bool {
    let mut bytes = Vec::new();
    let found = group.article(number, &mut bytes, 9).unwrap();
    assert!(found.is_none() || bytes == article(number, if number == 4 { LARGE } else { SMALL }));
    found.is_some()
}

/// Caches articles 1 to 6, of which 4 is large, and the rows of 1 to 9.
fn filled(sim: &SimDisk) -> (Cache, CacheGroup) {
    let (cache, _) = open(sim, settings(4 << 20), 5);
    let group = cache.group("isp", b"a.b", 5);
    let _none = group.set_marks(GroupMarks { low: 1, high: 9, count: 9 }, 5).unwrap();
    for n in 1..=6 {
        let text = article(n, if n == 4 { LARGE } else { SMALL });
        let _none = group.put_article(n, &id(n), &text, 5).unwrap();
    }
    let _none = group.put_rows(1..=9, &rows(1..=9), 5).unwrap();
    (cache, group)
}

/// Returns how many files have these bytes.
fn files_with(sim: &SimDisk, bytes: &[u8]) -> usize {
    let all = files(sim, Path::new(DIR));
    let has = |path: &&PathBuf| {
        let content = disk::read_small(sim, path, 64 << 20).unwrap().unwrap_or_default();
        memchr::memmem::find(&content, bytes).is_some()
    };
    all.iter().filter(has).count()
}

#[test]
fn a_purged_article_leaves_the_disk_and_all_others_stay() {
    for purged in [3, 4] {
        let sim = SimDisk::new();
        let (cache, group) = filled(&sim);
        let other = cache.group("second", b"c.d", 5);
        let _none = other.put_article(purged, &id(purged), &article(purged, SMALL), 5).unwrap();
        cache.put_head("isp", &id(purged), b"Subject: head\r\n\r\n", 5).unwrap();
        assert!(cache.purge_article(&id(purged), 6).unwrap());
        let body = format!("Subject: article {purged}\r\n");
        assert_eq!(files_with(&sim, [body.as_bytes(), b"Date"].concat().as_slice()), 0, "{purged}");
        let check = |cache: &Cache| {
            let (group, other) = (cache.group("isp", b"a.b", 7), cache.group("second", b"c.d", 7));
            let here: Vec<u64> = (1..=9).filter(|n| has(&group, *n)).collect();
            let all: Vec<u64> = (1..=6).filter(|n| *n != purged).collect();
            assert_eq!((here, has(&other, purged)), (all, false));
            assert!(!cache.has_id(&id(purged), 7).unwrap() && !cache.has_head(&id(purged), 7).unwrap());
        };
        check(&cache);
        assert!(!cache.purge_article(&id(purged), 6).unwrap(), "it is not here any more");
        assert!(!cache.purge_article(&id(77), 6).unwrap(), "it never was");
        drop((cache, group, other));
        let (cache, _) = open(&sim, settings(4 << 20), 7);
        check(&cache);
        // It is fetched again.
        let group = cache.group("isp", b"a.b", 7);
        let text = article(purged, if purged == 4 { LARGE } else { SMALL });
        let _none = group.put_article(purged, &id(purged), &text, 8).unwrap();
        assert!(has(&group, purged));
    }
}

#[test]
fn a_purged_group_is_empty_and_others_are_as_before() {
    let sim = SimDisk::new();
    let (cache, group) = filled(&sim);
    let (other, same) = (cache.group("isp", b"c.d", 5), cache.group("second", b"a.b", 5));
    let _none = other.put_article(1, &id(7), &article(7, SMALL), 5).unwrap();
    let _none = same.put_rows(1..=2, &rows(1..=2), 5).unwrap();
    let purged = cache.purge_group(b"a.b", 6).unwrap();
    let mut origins: Vec<&str> = purged.iter().map(|origin| &**origin).collect();
    origins.sort_unstable();
    assert_eq!(origins, ["isp", "second"]);
    assert_eq!(cache.purge_group(b"a.b", 6).unwrap(), [], "nothing of it is left");
    assert_eq!(cache.purge_group(b"x.y", 6).unwrap(), []);
    assert!((1..=9).all(|n| !has(&group, n)) && group.marks().is_none());
    assert_eq!(files_with(&sim, b"Subject: article 4\r\n"), 0);
    let mut bytes = Vec::new();
    assert!(cache.by_id(&id(7), &mut bytes, 7).unwrap());
    drop((cache, group, other, same));
    let (cache, _) = open(&sim, settings(4 << 20), 7);
    assert!(!has(&cache.group("isp", b"a.b", 7), 1));
    assert!(cache.by_id(&id(7), &mut bytes, 7).unwrap());
}

#[test]
fn a_purge_that_is_killed_at_any_step_loses_nothing_else_and_a_finished_one_survives_a_power_cut() {
    for (kind, purged) in [(CrashKind::Kill, 3), (CrashKind::Kill, 4), (CrashKind::Power, 3)] {
        for step in 0.. {
            let sim = SimDisk::new();
            let (cache, group) = filled(&sim);
            cache.save().unwrap();
            sim.crash_at(sim.steps() + step, kind, step * 7919);
            let is_done = cache.purge_article(&id(purged), 6).is_ok() && !sim.crashed();
            drop((cache, group));
            let image = sim.image().unwrap();
            let (cache, _) = open(&image, settings(4 << 20), 7);
            let group = cache.group("isp", b"a.b", 7);
            let what = format!("{kind:?} at step {step}");
            assert!(!is_done || !has(&group, purged), "{what}");
            if kind == CrashKind::Kill {
                let others = (1..=6).filter(|n| *n != purged);
                assert_eq!(others.filter(|n| !has(&group, *n)).count(), 0, "{what}");
            }
            if is_done {
                assert!(step > 1, "nothing was tried");
                break;
            }
        }
    }
}
