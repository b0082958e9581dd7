//! Damaged pages of the residents: any of them, alone or with others, is written again by one repair,
//! whatever stops that on its way.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

const GROUPS: u64 = 2;
const ARTICLES: u64 = 220;
const SCALE: u64 = 900;
/// Articles between two checkpoints, each of which ends a page.
const PER_PAGE: u64 = 20;
const PAGE_BYTES: u64 = 16 << 10;
const FILE: &str = "/s/index/residents/00000/0000000000.res";

fn residents_config() -> SpoolConfig {
    SpoolConfig { checkpoint_rows: 1 << 20, article_bytes_max: 16 << 10, ..config("/s", &[("a", 150_000)]) }
}

fn feed(spool: &Spool, range: std::ops::Range<u64>) -> TestResult {
    let news: Vec<News> = range.map(|n| News::new(n, GROUPS, SCALE)).collect();
    let (ticket, _) = commit(spool, &news)?;
    while !spool.is_durable(ticket) {
        if let Some(trouble) = spool.trouble() {
            return Err(trouble.into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// A spool whose residents lie in many pages, read from somewhere among them.
fn filled(sim: &SimDisk) -> TestResult<Spool> {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, residents_config(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in (0..ARTICLES).step_by(PER_PAGE as usize) {
        feed(&spool, n..n + PER_PAGE)?;
        spool.checkpoint()?;
    }
    Ok(spool)
}

fn pages(sim: &SimDisk) -> u64 {
    sim.open(Path::new(FILE), OpenMode::ReadOnly).unwrap().len().unwrap() / PAGE_BYTES
}

#[derive(Debug, Clone, Copy)]
enum Harm {
    Unreadable,
    Bit,
}

fn harm(sim: &SimDisk, page: u64, harm: Harm) -> std::io::Result<()> {
    let at = page * PAGE_BYTES;
    match harm {
        Harm::Unreadable => sim.spoil(Path::new(FILE), at..at + 512),
        Harm::Bit => {
            let file = sim.open(Path::new(FILE), OpenMode::Existing)?;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at + 20)?;
            file.write_all_at(&[IoSlice::new(&[byte[0] ^ 1])], at + 20)
        }
    }
}

/// The findings, each of which must be mended by one repair; then there are none, now and after a restart,
/// and whatever is displaced leaves all indexes.
fn one_repair_is_enough(sim: &SimDisk, spool: Spool, what: &str) -> usize {
    let named = agree(&spool);
    let report = spool.repairer().repair(false, &());
    assert!(report.repaired.iter().all(|r| r.result.is_ok()), "{what}: {:?}", report.repaired);
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    assert_eq!(agree(&spool), named, "{what}");
    // A start finds them, too, while this one continues.
    let image = sim.image_after(CrashKind::Kill, 5).unwrap();
    let (again, recovery) = open(&(Arc::new(image) as Arc<dyn Disk>), &residents_config());
    assert_eq!(recovery.rebuilt, None, "{what}: {recovery}");
    for spool in [spool, again] {
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        (300..360).step_by(10).for_each(|n| feed(&spool, n..n + 10).unwrap());
        agree(&spool);
        (360..600).step_by(10).for_each(|n| feed(&spool, n..n + 10).unwrap());
        agree(&spool);
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    }
    report.before.findings.len()
}

#[test]
fn every_damaged_page_is_written_again() {
    let sim = SimDisk::new();
    drop(filled(&sim).unwrap());
    let count = pages(&sim);
    assert_eq!(count, ARTICLES / PER_PAGE);
    let mut mended = 0;
    for kind in [Harm::Unreadable, Harm::Bit] {
        let ranges = (0..count).map(|page| page..page + 1);
        let ranges = ranges.chain([count - 3..count - 1, count - 2..count, 0..count]);
        for range in ranges {
            let image = sim.image().unwrap();
            // Opened before it is damaged: a start rebuilds the indexes if the first page is.
            let (spool, _) = open(&(Arc::new(image.clone()) as Arc<dyn Disk>), &residents_config());
            range.clone().for_each(|page| harm(&image, page, kind).unwrap());
            let what = format!("{kind:?} pages {range:?}");
            let findings = one_repair_is_enough(&image, spool, &what);
            assert!(findings <= range.count(), "{what}: {findings}");
            mended += findings;
        }
    }
    assert!(mended >= 20, "{mended}");
}

/// Damages the pages from the first that is in use, has some articles displace those of it, repairs and feeds
/// on.
fn damage_and_repair(sim: &SimDisk, first_page: u64, told: &mut u64) -> TestResult {
    let spool = filled(sim)?;
    (first_page..ARTICLES / PER_PAGE).try_for_each(|page| harm(sim, page, Harm::Unreadable))?;
    feed(&spool, 220..230)?;
    *told = 230;
    let report = spool.repairer().repair(false, &());
    let failed = report.repaired.iter().find_map(|r| r.result.as_ref().err());
    failed.map_or(Ok(()), |error| Err(error.to_string()))?;
    feed(&spool, 230..240)?;
    *told = 240;
    Ok(spool.close()?)
}

fn check(image: SimDisk, told: u64, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) =
        Spool::open(disk, residents_config(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    agree(&spool);
    for n in told.saturating_sub(20)..told {
        let news = News::new(n, GROUPS, SCALE);
        assert!(spool.is_known(&spool.key(news.id.as_bytes())), "{what}: {n} is forgotten ({recovery})");
    }
    add_groups(&spool, GROUPS);
    let report = spool.repairer().repair(false, &());
    assert!(report.repaired.iter().all(|r| r.result.is_ok()), "{what}: {:?}", report.repaired);
    for n in (300..600).step_by(10) {
        feed(&spool, n..n + 10).unwrap_or_else(|e| panic!("{what}: {e}"));
        agree(&spool);
    }
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
}

/// The steps of the repair and what follows, and the first page that has an article which is still there.
fn repair_steps() -> (std::ops::Range<u64>, u64) {
    let sim = SimDisk::new();
    let spool = filled(&sim).unwrap();
    let start = sim.steps();
    let lives = |n: &u64| fetch(&spool, &News::new(*n, GROUPS, SCALE).id).is_some();
    let first_page = (0..ARTICLES).find(lives).unwrap() / PER_PAGE;
    let sim = SimDisk::new();
    damage_and_repair(&sim, first_page, &mut 0).unwrap();
    (start..sim.steps() + 2, first_page)
}

fn crash_everywhere(kind: CrashKind) {
    let (steps, page) = repair_steps();
    crashed_at(
        steps.step_by(crash_every(3)),
        kind,
        |sim, told| damage_and_repair(sim, page, told),
        |image, told, what| check(image, *told, what),
    );
}

#[test]
fn killed_at_every_step_of_a_repair() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_of_a_repair() {
    crash_everywhere(CrashKind::Power);
}

#[test]
fn every_call_of_a_repair_may_fail() {
    let (steps, page) = repair_steps();
    failed_at(
        steps.step_by(crash_every(2)),
        |sim, told| damage_and_repair(sim, page, told),
        |image, told, what| check(image, *told, what),
    );
}
