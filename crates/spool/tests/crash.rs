//! Crash at every write and sync of a workload that wraps the buffers twice, then look at what the next start
//! finds (guarantees G1 to G4, G7, CNFS-B1).
//!
//! Pass 1 runs the workload and counts the disk's steps. Then, for each step and each kind of crash, the
//! workload runs up to there, the disk's image after the crash is opened, and everything that was
//! acknowledged or shown is checked; then feeding goes on, and everything is checked again.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use spool::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const GROUPS: u64 = 3;
const BATCHES: u64 = 14;
const PER_BATCH: u64 = 9;

fn test_config(durability: Durability) -> SpoolConfig {
    let mut config = config("/s", &[("a", 8192 + 4096 + 48 * 512), ("b", 8192 + 4096 + 40 * 512)]);
    config.durability = durability;
    config.checkpoint_rows = 40;
    config.article_bytes_max = 4096;
    // Blocks of three or four rows, compressed as soon as they are closed.
    config.overview = OverviewShape { block_text_bytes: 1024, segment_bytes: 4096 };
    config.overview_cold_secs = 0;
    // Every feed is a busy one, and every write is slow.
    let (busy_step, slow_step) = (Duration::MAX, Duration::ZERO);
    config.hot_memory = HotMemory { bytes: 4096, step_bytes: 1024, busy_step, slow_step };
    config
}

fn batch(n: u64) -> Vec<News> {
    (n * PER_BATCH..(n + 1) * PER_BATCH).map(|i| News::new(i, GROUPS, 700)).collect()
}

/// Answers that were given before the crash.
#[derive(Default)]
struct Told {
    /// Ids acknowledged, in the order of acceptance.
    acknowledged: Vec<u64>,
    /// Which Message-ID each group and number named.
    named: HashMap<(String, u64), String>,
    high: HashMap<String, u64>,
    cancelled: Vec<String>,
}

impl Told {
    fn note(&mut self, spool: &Spool) {
        for (group, number, id) in agree(spool) {
            let old = self.named.insert((group.clone(), number), id.clone());
            assert!(old.is_none_or(|old| old == id), "{group}:{number} named two articles");
        }
        for group in spool.groups().iter() {
            let high = self.high.entry(group.name.to_string()).or_default();
            let now = group.marks().high;
            assert!(now >= *high, "{}: high mark went from {high} to {now}", group.name);
            *high = now;
        }
    }

    /// Numbers shown may be missing after a power cut, but never name another article, and high marks never
    /// fall.
    fn check_names(&self, spool: &Spool) {
        for group in spool.groups().iter() {
            let (shown, now) = (self.high.get(&*group.name).copied().unwrap_or(0), group.marks().high);
            assert!(now >= shown, "{}: the high mark fell from {shown} to {now}", group.name);
        }
        for (group, number, id) in agree(spool) {
            if let Some(old) = self.named.get(&(group.clone(), number)) {
                assert_eq!(*old, id, "{group}:{number} names another article now");
            }
        }
    }
}

/// Runs the workload until it is through or the disk fails.
fn run(sim: &SimDisk, config: &SpoolConfig, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk.clone(), config.clone(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in 0..BATCHES {
        let (ticket, outcomes) = commit(&spool, &batch(n))?;
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))));
        // Readers see the articles from here on, whether the sender is answered yet or not.
        // A reader on a machine that ends just now learns nothing.
        let noted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| told.note(&spool)));
        if let Err(panic) = noted {
            if sim.crashed() {
                return Err("the machine has ended".into());
            }
            std::panic::resume_unwind(panic);
        }
        while !spool.is_durable(ticket) {
            if let Some(trouble) = spool.trouble() {
                return Err(trouble.into());
            }
            std::thread::yield_now();
        }
        told.acknowledged.extend(n * PER_BATCH..(n + 1) * PER_BATCH);
        if n % 4 == 2 {
            spool.overview().rest(0);
        }
        // A pass that fails has changed nothing; what it asked of the disk fails, or not, in what follows.
        if n % 3 == 1 {
            let _ = spool.overview().pack(&mut |_| true);
        }
        if n == 5 {
            let ids = [1, 2].map(|at| batch(n)[at].id.clone());
            let keys = ids.each_ref().map(|id| spool.key(id.as_bytes()));
            spool.cancel_all(&keys)?;
            told.cancelled.extend(ids);
        }
    }
    Ok(spool.close()?)
}

/// Opens a crash image and checks all promises.
fn check(image: SimDisk, config: &SpoolConfig, told: &Told, keeps_all: bool, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) =
        Spool::open(disk.clone(), config.clone(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    // A crash leaves nothing that needs repair.
    let findings = spool.verifier().verify(&()).findings;
    assert!(findings.is_empty(), "{what}: {recovery}: {findings:?}");
    let known = |spool: &Spool, i: u64| spool.is_known(&spool.key(News::new(i, GROUPS, 700).id.as_bytes()));
    told.check_names(&spool);
    for i in &told.acknowledged {
        let news = News::new(*i, GROUPS, 700);
        if keeps_all {
            assert!(known(&spool, *i), "{what}: {} was acknowledged and is forgotten ({recovery})", news.id);
        }
        if let Some(wire) = fetch(&spool, &news.id) {
            assert!(wire == news.wire, "{what}: {} has other bytes", news.id);
        }
    }
    for id in &told.cancelled {
        assert_eq!(fetch(&spool, id), None, "{what}: {id} was cancelled");
    }
    if keeps_all && let Some(last) = told.acknowledged.last() {
        // The buffers hold some twenty articles each: the last acknowledged ones cannot have been displaced.
        for i in last.saturating_sub(PER_BATCH / 2)..=*last {
            let news = News::new(i, GROUPS, 700);
            assert!(
                told.cancelled.contains(&news.id) || fetch(&spool, &news.id).is_some(),
                "{what}: {i} is lost ({recovery})"
            );
        }
    }
    // Feeding goes on over two more wraps: no id is ever answered with another article's bytes.
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>()).unwrap();
    for n in 0..BATCHES + 4 {
        commit(&spool, &batch(n)).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    told.check_names(&spool);
    for i in 0..(BATCHES + 4) * PER_BATCH {
        let news = News::new(i, GROUPS, 700);
        assert!(
            fetch(&spool, &news.id).is_none_or(|wire| wire == news.wire),
            "{what}: {} has other bytes",
            news.id
        );
        assert!(known(&spool, i), "{what}: {i}");
    }
    let report = spool.verifier().verify(&());
    assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
}

/// Of some forty articles that the buffers hold, a ring has ten.
fn ring_config(durability: Durability) -> SpoolConfig {
    let mut config = test_config(durability);
    config.classes[0].ring_bytes = Some(12 << 10);
    config
}

fn steps(config: &SpoolConfig) -> u64 {
    let sim = SimDisk::new();
    let mut told = Told::default();
    run(&sim, config, &mut told).unwrap();
    assert_eq!(told.acknowledged.len() as u64, BATCHES * PER_BATCH);
    sim.steps()
}

fn crash_everywhere(config: &SpoolConfig, kind: CrashKind) {
    let (durability, steps, every) = (config.durability, steps(config), crash_every(3));
    assert!(steps > 100, "{steps}");
    let keeps_all = matches!(kind, CrashKind::Kill) || durability == Durability::Always;
    let tried = crashed_at(
        (0..steps + 5).step_by(every),
        kind,
        |sim, told| run(sim, config, told),
        |image, told, what| check(image, config, told, keeps_all, &format!("{durability:?} {what}")),
    );
    assert!(tried * every as u64 >= steps);
}

#[test]
fn killed_at_every_step() {
    crash_everywhere(&test_config(Durability::Process), CrashKind::Kill);
}

#[test]
fn killed_at_every_step_with_a_ring() {
    crash_everywhere(&ring_config(Durability::Process), CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_with_a_ring_keeps_what_was_acknowledged() {
    crash_everywhere(&ring_config(Durability::Always), CrashKind::Power);
}

#[test]
fn power_cut_at_every_step_keeps_what_was_acknowledged() {
    crash_everywhere(&test_config(Durability::Always), CrashKind::Power);
}

#[test]
fn power_cut_that_loses_all_unsynced_keeps_what_was_acknowledged() {
    crash_everywhere(&test_config(Durability::Always), CrashKind::Lost);
}

#[test]
fn power_cut_without_syncs_tears_nothing_and_uses_no_number_twice() {
    crash_everywhere(&test_config(Durability::Process), CrashKind::Power);
}

/// The machine runs on, but the disk was away: its boot id is no proof that anything unsynced is still there.
#[test]
fn remounted_at_every_step_uses_no_number_twice() {
    crash_everywhere(&test_config(Durability::Process), CrashKind::Remount);
}

/// A start after a kill shows articles, and refuses known Message-IDs, only if they have reached the disk: a
/// power cut right after it loses none of them.
#[test]
fn what_is_known_after_a_kill_outlives_a_power_cut() {
    let config = test_config(Durability::Always);
    let mut known = 0;
    crashed_at(
        (0..steps(&config)).step_by(5 * crash_every(3)),
        CrashKind::Kill,
        |sim, told| run(sim, &config, told),
        |image, told: &Told, what| {
            let disk: Arc<dyn Disk> = Arc::new(image.clone());
            let (spool, recovery) = Spool::open(disk, config.clone(), &()).unwrap();
            assert!(told.named.is_empty() || !recovery.power_lost, "{what}: {recovery}");
            let named = agree(&spool);
            for kind in [CrashKind::Lost, CrashKind::Power, CrashKind::Remount] {
                let disk: Arc<dyn Disk> = Arc::new(image.image_after(kind, 1).unwrap());
                let (after, recovery) = Spool::open(disk, config.clone(), &()).unwrap();
                assert_eq!(agree(&after), named, "{what}, then {kind:?}: {recovery}");
                told.check_names(&after);
                known += named.len();
            }
        },
    );
    assert!(known > 0);
}

/// G7: a call that fails stops accepting with a clear trouble, and corrupts nothing.
#[test]
fn every_call_may_fail() {
    let config = test_config(Durability::Always);
    let steps = steps(&config);
    failed_at(
        (0..steps).step_by(crash_every(3)),
        |sim, told| run(sim, &config, told),
        |image, told, what| check(image, &config, told, true, what),
    );
}
