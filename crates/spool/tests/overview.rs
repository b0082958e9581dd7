//! Overview that is compressed once it is cold tells the same as before, whatever becomes of its articles,
//! its files and the process.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, ReadMode, SimDisk};
use spool::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const GROUPS: u64 = 3;

fn cold_config() -> SpoolConfig {
    let mut config = config("/s", &[("a", 240_000), ("b", 200_000)]);
    config.durability = Durability::Process;
    config.overview = OverviewShape { block_text_bytes: 2048, segment_bytes: 16 << 10 };
    config.overview_cold_secs = 0;
    config
}

fn feed(spool: &Spool, numbers: std::ops::Range<u64>) {
    for n in numbers.step_by(10) {
        commit(spool, &(n..n + 10).map(|n| News::new(n, GROUPS, 600)).collect::<Vec<_>>()).unwrap();
    }
}

fn pack(spool: &Spool) -> PackReport {
    spool.overview().pack(&mut |_| true).unwrap()
}

fn files(disk: &Arc<dyn Disk>, suffix: &str) -> usize {
    let names = disk.list(Path::new("/s/index/overview")).unwrap();
    names.iter().filter(|name| name.ends_with(suffix)).count()
}

/// All that OVER tells of every group.
fn rows(spool: &Spool) -> Vec<u8> {
    let mut out = Vec::new();
    for group in spool.groups().iter() {
        out.extend_from_slice(group.name.as_bytes());
        spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut out).unwrap();
    }
    out
}

#[test]
fn packed_rows_are_the_same_and_take_less_room() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &cold_config());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..400);
    let (before, names, bytes) =
        (rows(&spool), agree(&spool), spool.meter().status().unwrap().overview_bytes);
    assert!(files(&disk, ".seg") > 3 && files(&disk, ".packed") == 0);
    let report = pack(&spool);
    assert!(report.blocks > 30 && report.damaged == 0 && !report.stopped, "{report:?}");
    assert!(report.packed_bytes * 2 < report.plain_bytes, "{report:?}");
    assert_eq!(pack(&spool).blocks, 0);
    spool.checkpoint().unwrap();
    assert!(files(&disk, ".seg") <= 1 && files(&disk, ".packed") > 0);
    assert!(spool.meter().status().unwrap().overview_bytes * 2 < bytes);
    assert!(rows(&spool) == before && agree(&spool) == names);
    // Row by row, backwards, and by Message-ID.
    for group in spool.groups().iter() {
        let mut numbers = Vec::new();
        spool.numbers(group.id, 0..=u64::MAX, usize::MAX, &mut numbers);
        let mut whole = Vec::new();
        spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut whole).unwrap();
        let mut single: Vec<Vec<u8>> = Vec::new();
        for number in numbers.iter().rev() {
            single.push(Vec::new());
            assert!(spool.row(group.id, *number, ReadMode::Wait, single.last_mut().unwrap()).unwrap());
            assert!(spool.token_of(group.id, *number, ReadMode::CacheOnly).unwrap().is_some());
        }
        single.reverse();
        assert!(single.concat() == whole, "{}", group.name);
        let mut ids = 0;
        spool.arrived_since(group.id, 0, &mut |_| ids += 1).unwrap();
        assert_eq!(ids, numbers.len());
    }
    assert_eq!(spool.verifier().verify(&()).findings, []);
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &cold_config());
    assert!(recovery.rebuilt.is_none() && recovery.rows == 0, "{recovery}");
    assert!(rows(&spool) == before && agree(&spool) == names);
}

/// Cancels, displacement by two wraps and a removed group, with and without compressing, tell the same.
#[test]
fn rows_die_in_packed_blocks_as_in_plain_ones() {
    let plain_disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let packed_disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    // In sequential order an article goes to the same buffer in both, whichever was opened last.
    let mut config = cold_config();
    config.classes[0].order = BufferOrder::Sequential;
    let (plain, _) = open(&plain_disk, &config);
    let (mut packed, _) = open(&packed_disk, &config);
    add_groups(&plain, GROUPS);
    add_groups(&packed, GROUPS);
    let mut most = 0;
    for n in (0..2000).step_by(100) {
        for spool in [&plain, &packed] {
            feed(spool, n..n + 100);
        }
        pack(&packed);
        let id = News::new(n + 30, GROUPS, 600).id;
        for spool in [&plain, &packed] {
            assert!(spool.cancel(id.as_bytes()).unwrap());
            if n == 1000 {
                assert!(spool.remove_group("test.g2").unwrap());
                add_groups(spool, GROUPS);
            }
        }
        assert!(rows(&plain) == rows(&packed), "at {n}");
        assert!(agree(&packed) == agree(&plain), "at {n}");
        most = most.max(files(&packed_disk, ""));
        if n % 500 == 400 {
            // As a crash would leave it, and in order.
            if n % 1000 == 400 {
                packed.close().unwrap();
            }
            drop(packed);
            packed = open(&packed_disk, &config).0;
            assert!(rows(&plain) == rows(&packed), "opened at {n}");
        }
    }
    assert!(packed.meter().status().unwrap().buffers.iter().all(|b| b.cycle > 2));
    assert!(
        packed.meter().status().unwrap().overview_bytes * 2 < plain.meter().status().unwrap().overview_bytes
    );
    // Segments without living rows are removed.
    packed.checkpoint().unwrap();
    assert!(most < 40 && files(&packed_disk, "") < 8, "{most} {}", files(&packed_disk, ""));
    assert_eq!(packed.verifier().verify(&()).findings, []);
}

#[test]
fn only_what_is_cold_is_packed_and_a_pass_can_be_stopped() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = cold_config();
    config.overview_cold_secs = 3600;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let commit_from = |from: u64, arrived: u64| {
        for n in (from..from + 200).step_by(10) {
            commit_at(&spool, &(n..n + 10).map(|n| News::new(n, GROUPS, 600)).collect::<Vec<_>>(), arrived)
                .unwrap();
        }
    };
    commit_from(0, now - 7200);
    commit_from(200, now);
    let before = rows(&spool);
    let mut steps = 0;
    let stopped = spool.overview().pack(&mut |_| {
        steps += 1;
        false
    });
    assert!(stopped.unwrap().stopped && steps == 1);
    let report = pack(&spool);
    assert!(report.plain_bytes > 10_000, "{report:?}");
    spool.checkpoint().unwrap();
    // The segment with rows of both times is not cold, and the later ones are not.
    assert!(files(&disk, ".seg") > 2, "{}", files(&disk, ".seg"));
    assert!(rows(&spool) == before);
}

/// The plain files go by themselves, though hardly anything arrives.
#[test]
fn a_pass_takes_the_checkpoint_that_removes_the_plain_files() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &SpoolConfig { checkpoint_rows: 1 << 30, ..cold_config() });
    add_groups(&spool, GROUPS);
    feed(&spool, 0..400);
    assert!(files(&disk, ".seg") > 3);
    let began = std::time::Instant::now();
    while files(&disk, ".seg") > 1 {
        assert!(began.elapsed().as_secs() < 120, "{} plain segments", files(&disk, ".seg"));
        pack(&spool);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn readers_and_feed_go_on_during_passes() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &cold_config());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..100);
    let done = AtomicBool::new(false);
    let blocks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                blocks.fetch_add(pack(&spool).blocks, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let group = spool.group_id(b"test.g1").unwrap();
                while !done.load(Ordering::Relaxed) {
                    let mut out = Vec::new();
                    let rest = spool.over(group, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut out).unwrap();
                    assert_eq!(rest, None);
                    let numbers = out.split(|b| *b == b'\n').filter(|row| !row.is_empty());
                    let numbers: Vec<u64> = numbers
                        .map(|row| row.split(|b| *b == b'\t').next().unwrap())
                        .map(|n| std::str::from_utf8(n).unwrap().parse().unwrap())
                        .collect();
                    assert!(numbers.windows(2).all(|w| w[0] < w[1]), "{numbers:?}");
                }
            });
        }
        feed(&spool, 100..1500);
        // However the threads are scheduled: until passes packed a good part of it.
        for first in (1500..20_000).step_by(100).take_while(|_| blocks.load(Ordering::Relaxed) <= 50) {
            feed(&spool, first..first + 100);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(blocks.into_inner() > 50);
    agree(&spool);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

/// A damaged block stays where it is, is reported, and is rebuilt from the articles; so is a packed one.
#[test]
fn damaged_blocks_are_told_and_repaired() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &cold_config());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..400);
    let before = rows(&spool);
    let flip = |name: &str, at: u64| {
        let file = disk.open(&Path::new("/s/index/overview").join(name), OpenMode::Existing).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_all_at(&[std::io::IoSlice::new(&[byte[0] ^ 16])], at).unwrap();
    };
    flip("00000000.seg", 700);
    let report = pack(&spool);
    assert!(report.damaged == 1 && report.blocks > 20, "{report:?}");
    spool.checkpoint().unwrap();
    let names = disk.list(Path::new("/s/index/overview")).unwrap();
    assert!(names.contains(&"00000000.seg".to_owned()), "{names:?}");
    let packed: Vec<&String> = names.iter().filter(|n| n.ends_with(".packed")).collect();
    // In the entries of the first packed block, and in the text of some other.
    flip(packed[0], 45);
    flip(packed[0], 5000);
    let found = spool.verifier().verify(&()).findings;
    assert_eq!(found.len(), 3, "{found:?}");
    let done = spool.repairer().repair(false, &());
    assert_eq!(done.after.unwrap().findings, []);
    assert!(rows(&spool) == before);
    agree(&spool);
    assert!(!disk.list(Path::new("/s/index/overview")).unwrap().contains(&"00000000.seg".to_owned()));
    // Rebuilt blocks are cold, too.
    assert!(pack(&spool).blocks > 0);
    assert!(rows(&spool) == before);
}

#[test]
fn a_full_disk_stops_a_pass_and_nothing_else() {
    for errno in [SimDisk::ENOSPC, SimDisk::EIO] {
        // The syncing thread may be what meets the error.
        assert!((0..20).any(|_| passes_fail(errno) > 0), "errno {errno}");
    }
}

/// Passes that fail by an error of the disk, until it reaches the spool itself.
fn passes_fail(errno: i32) -> usize {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &cold_config());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..200);
    let before = rows(&spool);
    let mut failed = 0;
    for later in 0..4 {
        sim.fail_at(sim.steps() + later, errno, false);
        failed += usize::from(spool.overview().pack(&mut |_| true).is_err());
        assert!(rows(&spool) == before, "errno {errno}, call {later}");
        if spool.trouble().is_some() {
            break;
        }
    }
    failed
}

/// An article with a header that overview may keep.
fn keyed(n: u64, keywords: &str) -> News {
    let mut news = News::new(n, 1, 300);
    let line = format!("Keywords: {keywords}\r\n").into_bytes();
    news.wire.splice(0..0, line);
    news
}

fn keeping(names: &[&str]) -> SpoolConfig {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    SpoolConfig { overview_headers: names, ..cold_config() }
}

/// Returns the Keywords of all rows.
fn keywords(spool: &Spool) -> Vec<Option<String>> {
    let text = rows(spool);
    let text = text.strip_prefix(b"test.g0").unwrap();
    let value = |row| netnews::overview_row::further(row, b"Keywords");
    let rows = text.split_inclusive(|b| *b == b'\n');
    rows.map(|row| value(row).map(|value| String::from_utf8(value.to_vec()).unwrap())).collect()
}

#[test]
fn further_headers_are_in_the_rows_of_what_comes_while_they_are_kept() {
    let sim = SimDisk::new();
    let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &keeping(&[]));
    add_groups(&spool, 1);
    commit(&spool, &[keyed(0, "old")]).unwrap();
    assert!(!spool.rows_have_headers());
    spool.reconfiguration().prepare(keeping(&["Keywords", "Path"])).unwrap().switch().unwrap();
    commit(&spool, &[keyed(1, "new"), News::new(2, 1, 300)]).unwrap();
    let (is, none) = (|text: &str| Some(text.to_owned()), || Some(String::new()));
    let known = [None, is("new"), none()];
    assert!(spool.rows_have_headers());
    assert_eq!(keywords(&spool), known);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    // Killed, it has them from the journal; packed, from the packed blocks.
    let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Kill, 0).unwrap());
    drop(spool);
    let (spool, recovery) = open(&disk, &keeping(&["Keywords", "Path"]));
    assert!(recovery.rows > 0);
    assert_eq!(keywords(&spool), known);
    let before = rows(&spool);
    spool.close().unwrap();
    drop(spool);
    let (spool, _) = open(&disk, &keeping(&["Keywords"]));
    (100..400).for_each(|n| drop(commit(&spool, &[News::new(n, 1, 300)]).unwrap()));
    assert!(pack(&spool).blocks > 0);
    assert_eq!(keywords(&spool)[..3], known);
    assert!(rows(&spool).starts_with(&before));
    spool.close().unwrap();
    drop(spool);
    // A header that is no longer kept stays in the rows that have it, and the spool knows that.
    let (spool, _) = open(&disk, &keeping(&[]));
    commit(&spool, &[keyed(3, "none")]).unwrap();
    assert!(spool.rows_have_headers());
    assert_eq!((keywords(&spool)[1].clone(), keywords(&spool).pop().unwrap()), (is("new"), None));
    spool.close().unwrap();
    drop(spool);
    // A rebuild makes all rows by what is configured then.
    rebuild(disk.clone(), keeping(&["Keywords"]), &()).unwrap();
    let (spool, _) = open(&disk, &keeping(&["Keywords"]));
    let rebuilt = keywords(&spool);
    assert_eq!((&rebuilt[..3], rebuilt.last().unwrap()), (&[is("old"), is("new"), none()][..], &is("none")));
    assert!(rebuilt.iter().all(Option::is_some));
    spool.close().unwrap();
    drop(spool);
}

/// Whichever step it stops at, a spool whose rows have further headers knows that they may.
#[test]
fn killed_while_a_header_is_added_no_row_has_it_unknown() {
    let run = |sim: &SimDisk, _: &mut ()| -> TestResult {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let opened = Spool::open(disk, keeping(&[]), &())?;
        let spool = opened.0;
        let new = NewGroup { name: "test.g0".into(), created: NOW, ..NewGroup::default() };
        spool.add_groups(&[new])?;
        let prepared =
            spool.reconfiguration().prepare(keeping(&["Keywords"])).map_err(|e| format!("{e:?}"))?;
        prepared.switch()?;
        commit(&spool, &[keyed(1, "new")])?;
        Ok(spool.close()?)
    };
    let sim = SimDisk::new();
    run(&sim, &mut ()).unwrap();
    let steps = (0..sim.steps()).step_by(crash_every(3));
    let tried = crashed_at(steps, CrashKind::Power, run, |image, (), step| {
        let disk: Arc<dyn Disk> = Arc::new(image);
        let (spool, _) = open(&disk, &keeping(&[]));
        let is_there = spool.group_id(b"test.g0").is_some() && keywords(&spool).iter().any(Option::is_some);
        assert!(!is_there || spool.rows_have_headers(), "{step}");
    });
    assert!(tried > 10);
}
