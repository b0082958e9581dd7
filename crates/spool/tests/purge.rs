//! A purge with a crash at every step, and with calls that fail: it is done in part, every index is right,
//! and it can be done again.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use netnews::wildmat::Wildmat;
use spool::*;
use std::collections::HashMap;
use std::sync::Arc;

const GROUPS: u64 = 3;
const FED: u64 = 150;
const PURGED: &str = "test.g1";

fn purge_config() -> SpoolConfig {
    SpoolConfig {
        checkpoint_rows: 60,
        article_bytes_max: 4096,
        journal_file_bytes: 16 << 10,
        overview: OverviewShape { block_text_bytes: 1024, segment_bytes: 4096 },
        ..config("/s", &[("a", 300_000)])
    }
}

/// Progress of a run.
#[derive(Default)]
struct Told {
    /// Articles shown before the purge: group, number, Message-ID.
    named: Vec<(String, u64, String)>,
    /// Whether the purge was reported as done.
    purged: bool,
}

fn feed(spool: &Spool, numbers: std::ops::Range<u64>) -> TestResult {
    for n in numbers.step_by(10) {
        let news: Vec<News> = (n..n + 10).map(|n| News::new(n, GROUPS, 700)).collect();
        let (ticket, _) = commit(spool, &news)?;
        while !spool.is_durable(ticket) {
            if let Some(trouble) = spool.trouble() {
                return Err(trouble.into());
            }
            std::thread::yield_now();
        }
    }
    Ok(())
}

fn purge(spool: &Spool) -> TestResult<PurgeReport> {
    Ok(spool.purge(&Wildmat::parse(PURGED.as_bytes()).unwrap(), false, &())?)
}

fn run(sim: &SimDisk, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, purge_config(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    feed(&spool, 0..FED)?;
    if sim.crashed() {
        return Err("the machine has ended".into());
    }
    told.named = agree(&spool);
    let report = purge(&spool)?;
    assert!(report.articles > 20 && report.crossposts > 5, "{report:?}");
    told.purged = true;
    feed(&spool, FED..FED + 20)?;
    Ok(spool.close()?)
}

fn check(image: SimDisk, told: &Told, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) = Spool::open(disk, purge_config(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let is_old = |row: &(String, u64, String)| told.named.contains(row);
    if told.purged {
        let left: Vec<_> = agree(&spool).into_iter().filter(|row| row.0 == PURGED && is_old(row)).collect();
        assert!(left.is_empty(), "{what}: {left:?} came back ({recovery})");
    }
    add_groups(&spool, GROUPS);
    // The steps that were not completed are done now.
    purge(&spool).unwrap_or_else(|e| panic!("{what}: {e}"));
    feed(&spool, FED..FED + 60).unwrap_or_else(|e| panic!("{what}: {e}"));
    let now = agree(&spool);
    assert!(!now.iter().any(|row| row.0 == PURGED && is_old(row)), "{what}");
    // Articles of other groups stay, with their bytes; all others are removed, and stay known.
    for (group, number, id) in &told.named {
        let stays = told.named.iter().any(|row| row.2 == *id && row.0 != PURGED);
        let n = id[1..].split('.').next().unwrap().parse().unwrap();
        let wire = stays.then(|| News::new(n, GROUPS, 700).wire);
        assert_eq!(fetch(&spool, id), wire, "{what}: {group}:{number} {id}");
        assert!(spool.is_known(&spool.key(id.as_bytes())), "{what}: {id} is forgotten");
        assert!(
            !stays || group == PURGED || now.iter().any(|row| row.2 == *id),
            "{what}: {id} has no number"
        );
    }
    // No number names two articles.
    let old: HashMap<_, _> = told.named.iter().map(|(group, n, id)| ((group, n), id)).collect();
    let is_other = |row: &&(String, u64, String)| old.get(&(&row.0, &row.1)).is_some_and(|id| **id != row.2);
    assert_eq!(now.iter().find(is_other), None, "{what}");
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
}

/// Steps of the purge and what follows.
fn steps() -> std::ops::Range<u64> {
    let sim = SimDisk::new();
    let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &purge_config());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..FED).unwrap();
    let start = sim.steps();
    let sim = SimDisk::new();
    run(&sim, &mut Told::default()).unwrap();
    start.saturating_sub(4)..sim.steps() + 2
}

#[test]
fn killed_at_every_step_of_a_purge() {
    crashed_at(steps().step_by(crash_every(3)), CrashKind::Kill, run, check);
}

#[test]
fn power_cut_at_every_step_of_a_purge() {
    crashed_at(steps().step_by(crash_every(3)), CrashKind::Power, run, check);
}

#[test]
fn power_cut_that_loses_all_unsynced_of_a_purge() {
    crashed_at(steps().step_by(crash_every(3)), CrashKind::Lost, run, check);
}

#[test]
fn every_call_of_a_purge_may_fail() {
    failed_at(steps().step_by(crash_every(3)), run, check);
}
