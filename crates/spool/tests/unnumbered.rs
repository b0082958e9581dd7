//! Articles that are filed without numbers: found by their Message-IDs alone, and as safe as all others.

use crate::news::*;
use disk::{CrashKind, Disk, ReadMode, SimDisk};
use spool::*;
use std::sync::Arc;

const GROUPS: u64 = 3;
const BATCHES: u64 = 12;
const PER_BATCH: u64 = 9;

fn sim_disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

fn plain(range: std::ops::Range<u64>) -> Vec<News> {
    range.map(|n| News::new(n, GROUPS, 700).unnumbered()).collect()
}

/// Every third batch is numbered, as if the key had been switched.
fn batch(n: u64) -> Vec<News> {
    let range = n * PER_BATCH..(n + 1) * PER_BATCH;
    if n % 3 == 2 { range.map(|n| News::new(n, GROUPS, 700)).collect() } else { plain(range) }
}

/// The articles of a range that can be read; each has its own bytes.
fn readable(spool: &Spool, range: std::ops::Range<u64>) -> Vec<u64> {
    let is_there = |n: &u64| {
        let news = News::new(*n, GROUPS, 700);
        fetch(spool, &news.id)
            .inspect(|wire| assert!(*wire == news.wire, "{} has other bytes", news.id))
            .is_some()
    };
    range.filter(is_there).collect()
}

fn small(durability: Durability) -> SpoolConfig {
    let mut config = config("/s", &[("a", 8192 + 4096 + 48 * 512), ("b", 8192 + 4096 + 40 * 512)]);
    config.durability = durability;
    config.checkpoint_rows = 40;
    config.article_bytes_max = 4096;
    config
}

#[test]
fn they_are_found_by_message_id_and_take_no_overview() {
    let (_, disk) = sim_disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.meter().status().unwrap().unnumbered, None);
    let (_, outcomes) = commit(&spool, &plain(0..40)).unwrap();
    assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))), "{outcomes:?}");
    assert_eq!(commit(&spool, &plain(0..2)).unwrap().1, [ChangeOutcome::Duplicate; 2]);
    assert_eq!(readable(&spool, 0..40).len(), 40);
    assert!(spool.groups().is_empty());
    let status = spool.meter().status().unwrap();
    assert_eq!((status.articles, status.overview_bytes), (40, 0));
    let saved = status.unnumbered.unwrap();
    assert!(saved.articles == 40 && saved.overview_bytes > 40 * 100 && saved.nanos > 0, "{saved:?}");

    // Readers get no Xref without a place in it.
    let news = News::new(7, GROUPS, 700);
    let key = spool.key(news.id.as_bytes());
    let Lookup::Present(token) = spool.lookup(&key) else { panic!() };
    let mut buf = ArticleBuf::default();
    assert!(spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap());
    let (article_at, _, _) = buf.layout();
    assert_eq!(buf.into_buffers().0[article_at..], [news.wire.as_slice(), b".\r\n"].concat());

    assert_eq!(spool.cancel(news.id.as_bytes()), Ok(true));
    assert_eq!(fetch(&spool, &news.id), None);
    assert!(spool.is_known(&key));
    assert_eq!(spool.meter().status().unwrap().articles, 39);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(!recovery.crashed && recovery.rows == 0, "{recovery}");
    assert_eq!((readable(&spool, 0..40).len(), spool.meter().status().unwrap().articles), (39, 39));
}

#[test]
fn storage_rules_go_by_newsgroups_and_kept_classes_do_not_take_them() {
    let (_, disk) = sim_disk();
    let mut config = config("/s", &[("a", 200_000), ("b", 200_000)]);
    let class = |name: &str, method, buffer: Option<&str>| ClassConfig {
        name: name.into(),
        method,
        buffers: buffer.into_iter().map(str::to_owned).collect(),
        ..ClassConfig::default()
    };
    config.classes = vec![
        class("one", MethodKind::Cnfs, Some("a")),
        class("rest", MethodKind::Cnfs, Some("b")),
        class("kept", MethodKind::AppendOnly, None),
    ];
    config.classes[2].tree.path = "/s/kept".into();
    let rule = |class: &str, groups: &str, any_group| RuleConfig {
        class: class.into(),
        groups: Some(groups.into()),
        any_group,
        ..RuleConfig::default()
    };
    config.rules =
        vec![rule("kept", "test.g2", false), rule("one", "test.g1", true), rule("rest", "*", false)];
    let (spool, _) = open(&disk, &config);
    let (mut seen, mut passed_on) = ([0; 2], 0);
    for n in 0..60 {
        let news = News::new(n, GROUPS, 700);
        let groups = news.groups.clone();
        let (_, outcomes) = commit(&spool, &[news.unnumbered()]).unwrap();
        // Kept articles are due in their groups: the next rule decides.
        let expected = usize::from(!groups.iter().any(|g| g == "test.g1"));
        let ChangeOutcome::Filed(filed) = outcomes[0] else { panic!("{groups:?}: {outcomes:?}") };
        assert_eq!(usize::from(filed.token.class), expected, "{groups:?}");
        seen[expected] += 1;
        passed_on += u64::from(groups[0] == "test.g2");
    }
    assert!(seen.iter().all(|n| *n > 5) && passed_on > 5, "{seen:?} {passed_on}");
    spool.close().unwrap();
    drop(spool);
    // Without another rule it goes to the first class that has buffers.
    config.rules.truncate(1);
    config.rules[0].groups = None;
    let (spool, _) = open(&disk, &config);
    let (_, outcomes) = commit(&spool, &[News::new(60, GROUPS, 700).unnumbered()]).unwrap();
    assert!(matches!(outcomes[0], ChangeOutcome::Filed(filed) if filed.token.class == 0), "{outcomes:?}");
}

#[test]
fn a_rebuild_from_the_buffers_finds_them() {
    let (_, disk) = sim_disk();
    let mut config = config("/s", &[("a", 300_000)]);
    config.classes[0].compress = Some(CompressConfig { level: 3, samples: 8 });
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    for n in 0..8 {
        commit(&spool, &batch(n)).unwrap();
    }
    let cancelled = News::new(3, GROUPS, 700).id;
    spool.cancel(cancelled.as_bytes()).unwrap();
    let (there, named) = (readable(&spool, 0..72), agree(&spool));
    assert_eq!(there.len(), 71);
    spool.close().unwrap();
    drop(spool);
    let report = rebuild(disk.clone(), config.clone(), &()).unwrap();
    assert_eq!(report.articles, 71, "{report:?}");
    let (spool, _) = open(&disk, &config);
    assert_eq!((readable(&spool, 0..72), agree(&spool)), (there, named));
    assert!(spool.is_known(&spool.key(cancelled.as_bytes())));
    assert_eq!(spool.meter().status().unwrap().articles, 71);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

#[derive(Default)]
struct Told {
    acknowledged: u64,
    cancelled: Vec<String>,
}

fn run(sim: &SimDisk, config: &SpoolConfig, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, config.clone(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in 0..BATCHES {
        let (ticket, outcomes) = commit(&spool, &batch(n))?;
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))), "{outcomes:?}");
        while !spool.is_durable(ticket) {
            if let Some(trouble) = spool.trouble() {
                return Err(trouble.into());
            }
            std::thread::yield_now();
        }
        told.acknowledged += PER_BATCH;
        if n == 4 {
            let ids = [1, 2].map(|at| batch(n)[at].id.clone());
            let keys = ids.each_ref().map(|id| spool.key(id.as_bytes()));
            spool.cancel_all(&keys)?;
            told.cancelled.extend(ids);
        }
    }
    Ok(spool.close()?)
}

/// Opens a crash image, checks what was promised, and files on over two more wraps.
fn check(image: SimDisk, config: &SpoolConfig, told: &Told, keeps_all: bool, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image);
    let (spool, recovery) = Spool::open(disk, config.clone(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let all = (BATCHES + 4) * PER_BATCH;
    let counted = |spool: &Spool| {
        if !recovery.power_lost {
            let there = readable(spool, 0..all).len() as u64;
            assert_eq!(spool.meter().status().unwrap().articles, there, "{what}: {recovery}");
        }
    };
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}: {recovery}");
    agree(&spool);
    counted(&spool);
    for id in &told.cancelled {
        assert_eq!(fetch(&spool, id), None, "{what}: {id} was cancelled");
    }
    let id = |n| News::new(n, GROUPS, 700).id;
    if keeps_all {
        for n in 0..told.acknowledged {
            assert!(spool.is_known(&spool.key(id(n).as_bytes())), "{what}: {n} is forgotten ({recovery})");
        }
        // The buffers hold some twenty articles each.
        for n in told.acknowledged.saturating_sub(PER_BATCH / 2)..told.acknowledged {
            let there = told.cancelled.contains(&id(n)) || fetch(&spool, &id(n)).is_some();
            assert!(there, "{what}: {n} is lost ({recovery})");
        }
    }
    add_groups(&spool, GROUPS);
    for n in 0..BATCHES + 4 {
        commit(&spool, &batch(n)).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    agree(&spool);
    counted(&spool);
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}: {recovery}");
}

fn crash_everywhere(durability: Durability, kind: CrashKind) {
    let config = small(durability);
    let (sim, mut told) = (SimDisk::new(), Told::default());
    run(&sim, &config, &mut told).unwrap();
    assert_eq!(told.acknowledged, BATCHES * PER_BATCH);
    let keeps_all = matches!(kind, CrashKind::Kill) || durability == Durability::Always;
    let tried = crashed_at(
        (0..sim.steps() + 5).step_by(crash_every(7)),
        kind,
        |sim, told| run(sim, &config, told),
        |image, told, what| check(image, &config, told, keeps_all, &format!("{durability:?} {what}")),
    );
    assert!(tried * crash_every(7) as u64 >= sim.steps());
}

#[test]
fn killed_at_every_step() {
    crash_everywhere(Durability::Process, CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_keeps_what_was_acknowledged() {
    crash_everywhere(Durability::Always, CrashKind::Power);
    crash_everywhere(Durability::Always, CrashKind::Lost);
}

#[test]
fn power_cut_without_syncs_tears_nothing() {
    crash_everywhere(Durability::Process, CrashKind::Power);
    crash_everywhere(Durability::Process, CrashKind::Remount);
}
