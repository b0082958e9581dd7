//! Tests of crashes at every step: later reads are correct, and the cache remains usable.

use std::io;

use super::*;
use crate::reading::group::{GroupOutcome, RowCoverage};
use crate::reading::large::ArticleDestination;
use crate::reading::lists::ListKind;
use disk::CrashKind;
use netnews::GroupMarks;

/// Progress of a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd)]
struct Reached {
    /// True once the group's numbers belong to other articles.
    anew: bool,
    done: bool,
}

/// Returns the article of a number, before and after the group was reset.
fn of(number: u64, is_new: bool) -> u64 {
    number + if is_new { 1000 } else { 0 }
}

fn size(number: u64) -> usize {
    if number.is_multiple_of(4) { 40_000 } else { 900 }
}

fn fill(cache: &Cache, is_new: bool, now: u64) -> io::Result<()> {
    let group = cache.group("isp", b"a.b", now);
    _ = group.set_marks(GroupMarks { low: 1, high: 9 - u64::from(is_new), count: 8 }, now)?;
    let rows: Vec<u8> = (1..=8)
        .flat_map(|n| {
            let line = row(of(n, is_new), 600);
            let digits = of(n, is_new).to_string();
            [n.to_string().as_bytes(), line.strip_prefix(digits.as_bytes()).unwrap()].concat()
        })
        .collect();
    _ = group.put_rows(1..=8, &rows, now)?;
    for n in 1..=8 {
        let (id, text) = (id(of(n, is_new)), article(of(n, is_new), size(n)));
        if n == 4 {
            let mut writer = cache.writer(ArticleDestination::Group(&group, n), &id, now)?;
            text.chunks(9000).try_for_each(|piece| writer.write(piece, now))?;
            _ = writer.finish(now)?;
        } else {
            _ = group.put_article(n, &id, &text, now)?;
        }
    }
    group.set_numbers(1..=8, &[1, 2, 3, 4, 5, 6, 7, 8], now)?;
    group.forget(3, now)?;
    Ok(())
}

fn run(sim: &SimDisk, reached: &mut Reached) -> io::Result<()> {
    let disk = Arc::new(sim.clone());
    let (cache, _) = Cache::open(disk.clone(), Path::new(DIR), settings(1 << 20), 5)?;
    fill(&cache, false, 5)?;
    let mut list = cache.put_list("isp", ListKind::Active, 5)?;
    list.append(b"a.b 9 1 y\r\n")?;
    list.finish()?;
    cache.save()?;
    drop(cache);
    let (cache, _) = Cache::open(disk, Path::new(DIR), settings(1 << 20), 7)?;
    let group = cache.group("isp", b"a.b", 7);
    if group.set_marks(GroupMarks { low: 1, high: 8, count: 8 }, 7)? == GroupOutcome::Anew {
        reached.anew = true;
    }
    fill(&cache, true, 7)?;
    cache.save()?;
    reached.done = true;
    Ok(())
}

/// Checks that every article read belongs to its number, and is a new one once those are known.
fn check(image: &SimDisk, reached: Reached, what: &str) {
    let (cache, _) = open(image, settings(1 << 20), 20);
    let group = cache.group("isp", b"a.b", 20);
    let mut found = 0;
    let mut seen_new = false;
    let mut seen_old = false;
    for n in 1..=8 {
        let mut bytes = Vec::new();
        let Some(got) = group.article(n, &mut bytes, 20).unwrap() else { continue };
        let is_new = got == id(of(n, true));
        assert!(is_new || got == id(of(n, false)), "{what}: {n} is another article");
        assert!(is_new || !reached.anew, "{what}: {n} is of before");
        assert_eq!(bytes, article(of(n, is_new), size(n)), "{what}: {n} is torn");
        (seen_new, seen_old) = (seen_new | is_new, seen_old | !is_new);
        found += 1;
    }
    assert!(!(seen_new && seen_old), "{what}: articles of before and after");
    assert!(!reached.done || found == 7 || !what.starts_with("Kill"), "{what}: only {found} articles");
    let mut text = Vec::new();
    if group.rows(1..=8, 99_999, &mut text, 20).unwrap() == RowCoverage::Done && !text.is_empty() {
        let lines = text.split_inclusive(|b| *b == b'\n').count();
        assert!(lines >= 7, "{what}: {lines} rows are said to be all");
    }
    let damaged = cache.verify(&()).unwrap().damaged;
    assert!(damaged.is_empty() || !what.starts_with("Kill"), "{what}: {damaged:?}");
    if let Some(mut list) = cache.list("isp", ListKind::Active).unwrap() {
        let mut lines = Vec::new();
        assert!(list.next(&mut lines).unwrap() && lines == b"a.b 9 1 y\r\n", "{what}");
    }
    // The cache remains usable.
    group.begin_anew(21).unwrap();
    fill(&cache, true, 21).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(group.article(8, &mut Vec::new(), 22).unwrap().is_some(), "{what}");
    assert!(bytes_on(image) <= (1 << 20) + (1 << 20) / 20, "{what}");
}

fn crash_everywhere(kind: CrashKind) {
    let every = std::env::var("NEWSREEL_CRASH_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let (sim, mut reached) = (SimDisk::new(), Reached::default());
    run(&sim, &mut reached).unwrap();
    assert!(reached.anew && reached.done);
    let steps = sim.steps();
    assert!(steps > 100, "{steps}");
    for step in (0..steps + 1).step_by(every) {
        let (sim, mut reached) = (SimDisk::new(), Reached::default());
        sim.crash_at(step, kind, step * 7919);
        // The end of the machine is an error of the current operation.
        let _ended = run(&sim, &mut reached);
        check(&sim.image().unwrap(), reached, &format!("{kind:?} at step {step}"));
    }
}

#[test]
fn killed_at_every_step() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step() {
    crash_everywhere(CrashKind::Power);
    crash_everywhere(CrashKind::Lost);
}

/// A failing disk loses only the data that is being stored.
#[test]
fn cache_remains_usable_after_a_full_disk_at_every_step() {
    let sim = SimDisk::new();
    run(&sim, &mut Reached::default()).unwrap();
    for step in (0..sim.steps()).step_by(5) {
        let (sim, mut reached) = (SimDisk::new(), Reached::default());
        sim.fail_at(step, SimDisk::ENOSPC, false);
        let _failed = run(&sim, &mut reached);
        sim.stop_failing();
        check(&sim.image().unwrap(), reached, &format!("ENOSPC at step {step}"));
    }
}
