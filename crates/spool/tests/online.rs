//! Buffers added, grown, retired, moved and removed while the spool serves; with a crash at every step of
//! each.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const GROUPS: u64 = 3;

fn base() -> SpoolConfig {
    let mut config = config("/s", &[("a", 70_000), ("b", 60_000)]);
    config.checkpoint_rows = 50;
    config.article_bytes_max = 4096;
    config.overview = OverviewShape { block_text_bytes: 1024, segment_bytes: 4096 };
    config.overview_cold_secs = 0;
    config
}

fn feed(spool: &Spool, numbers: std::ops::Range<u64>) -> TestResult {
    for n in numbers.step_by(5) {
        let news: Vec<News> = (n..n + 5).map(|n| News::new(n, GROUPS, 900)).collect();
        let (_, outcomes) = commit(spool, &news)?;
        assert!(
            outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_) | ChangeOutcome::Duplicate)),
            "{outcomes:?}"
        );
    }
    Ok(())
}

fn alive(spool: &Spool, upto: u64) -> Vec<u64> {
    let lives = |n: &u64| {
        let news = News::new(*n, GROUPS, 900);
        let wire = fetch(spool, &news.id);
        assert!(wire.as_ref().is_none_or(|wire| *wire == news.wire), "{}", news.id);
        wire.is_some()
    };
    (0..upto).filter(lives).collect()
}

/// The changes; each is carried out on an open spool, and made in the configuration at its moment.
const CHANGES: &[&str] = &["add", "grow", "retire", "move", "remove"];

fn new_buffer() -> BufferConfig {
    BufferConfig {
        name: "c".into(),
        path: "/s/c.cyc".into(),
        size_bytes: 80_000,
        block_bytes: 512,
        retired: false,
    }
}

/// The configuration after a change.
fn after(change: &str, old: &SpoolConfig) -> SpoolConfig {
    let mut config = old.clone();
    match change {
        "add" => {
            config.buffers.push(new_buffer());
            config.classes[0].buffers.push("c".into());
        }
        "grow" => config.buffers[0].size_bytes = 150_000,
        "retire" => config.buffers[0].retired = true,
        "move" => config.buffers[0].path = "/elsewhere/a.cyc".into(),
        "remove" => {
            config.buffers.remove(0);
            config.classes[0].buffers.remove(0);
        }
        other => panic!("{other}"),
    }
    config
}

fn change(spool: &Spool, change: &str, commit: Commit<'_>) -> Result<(), SpoolError> {
    match change {
        "add" => spool.buffers().add(&new_buffer(), "all", commit),
        "grow" => spool.buffers().grow("a", 150_000, commit),
        "retire" => spool.buffers().retire("a", true, commit),
        "move" => spool.buffers().move_to("a", Path::new("/elsewhere/a.cyc"), &(), commit),
        "remove" => spool.buffers().remove("a", true, commit),
        other => panic!("{other}"),
    }
}

fn before(what: &str) -> SpoolConfig {
    let config = base();
    // A buffer must be retired before it is removed.
    if what == "remove" { after("retire", &config) } else { config }
}

/// Progress of a run.
#[derive(Default)]
struct Told {
    /// Whether the configuration was changed.
    committed: bool,
    /// How far the feeding was acknowledged.
    acknowledged: u64,
}

/// Feeds, changes, feeds.
fn run(sim: &SimDisk, what: &str, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    disk.create_dir(Path::new("/elsewhere"))?;
    let (spool, _) = Spool::open(disk, before(what), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    feed(&spool, 0..120)?;
    wait(&spool)?;
    told.acknowledged = 120;
    let mut commit = || {
        told.committed = !sim.crashed();
        Ok(())
    };
    change(&spool, what, &mut commit)?;
    // A pass that fails has changed nothing.
    let _ = spool.overview().pack(&mut |_| true);
    feed(&spool, 120..150)?;
    wait(&spool)?;
    told.acknowledged = 150;
    Ok(spool.close()?)
}

fn wait(spool: &Spool) -> TestResult {
    let ticket = spool.ticket();
    while !spool.is_durable(ticket) {
        if let Some(trouble) = spool.trouble() {
            return Err(trouble.into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

fn check(image: SimDisk, what: &str, told: &Told, tale: &str) {
    let Told { committed, acknowledged } = *told;
    let disk: Arc<dyn Disk> = Arc::new(image);
    let config = if committed { after(what, &before(what)) } else { before(what) };
    let (spool, recovery) =
        Spool::open(disk.clone(), config.clone(), &()).unwrap_or_else(|e| panic!("{tale}: {e}"));
    agree(&spool);
    for n in 0..acknowledged {
        let key = spool.key(News::new(n, GROUPS, 900).id.as_bytes());
        assert!(spool.is_known(&key), "{tale}: {n} is forgotten ({recovery})");
    }
    let living = alive(&spool, acknowledged);
    if what != "remove" {
        // Each of the two buffers holds more than forty, and one alone may have taken thirty since.
        let last = if what == "retire" { 5 } else { 20 };
        let last: Vec<u64> = (acknowledged.saturating_sub(last)..acknowledged).collect();
        assert!(living.ends_with(&last), "{tale}: {living:?} of {acknowledged} ({recovery})");
    }
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>()).unwrap();
    feed(&spool, 0..260).unwrap_or_else(|e| panic!("{tale}: {e}"));
    assert!(alive(&spool, 260).len() > 30, "{tale}");
    agree(&spool);
    let report = spool.verifier().verify(&());
    assert!(report.findings.is_empty(), "{tale}: {:?}", report.findings);
    // A change that was not carried out can be tried again.
    if !committed {
        let again = change(&spool, what, &mut || Ok(()));
        let text = again.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(text.is_empty() || text.contains("is a newsreel buffer already"), "{tale}: {text}");
    }
}

fn crash_everywhere(kind: CrashKind) {
    for what in CHANGES {
        let (sim, mut told) = (SimDisk::new(), Told::default());
        let start = {
            // Steps before the change are the business of other tests.
            let sim = SimDisk::new();
            let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &before(what));
            add_groups(&spool, GROUPS);
            feed(&spool, 0..120).unwrap();
            sim.steps()
        };
        run(&sim, what, &mut told).unwrap();
        assert_eq!(told.acknowledged, 150);
        crashed_at(
            (start.saturating_sub(4)..sim.steps() + 2).step_by(crash_every(11)),
            kind,
            |sim, told| run(sim, what, told),
            |image, told, tale| check(image, what, told, &format!("{what}: {tale}")),
        );
    }
}

#[test]
fn killed_at_every_step_of_a_change() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_of_a_change() {
    crash_everywhere(CrashKind::Power);
}

#[test]
fn every_call_of_a_change_may_fail() {
    for what in CHANGES {
        let sim = SimDisk::new();
        run(&sim, what, &mut Told::default()).unwrap();
        failed_at(
            (sim.steps().saturating_sub(110)..sim.steps()).step_by(17),
            |sim, told| run(sim, what, told),
            |image, told, tale| check(image, what, told, &format!("{what}: {tale}")),
        );
    }
}

#[test]
fn a_buffer_moves_while_articles_arrive_and_are_cancelled() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config("/s", &[("a", 3_000_000)]);
    config.durability = Durability::Process;
    let (spool, _) = open(&disk, &config);
    disk.create_dir(Path::new("/t")).unwrap();
    add_groups(&spool, GROUPS);
    feed(&spool, 0..500).unwrap();
    let stop = AtomicBool::new(false);
    let fed = std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            let mut n = 500;
            while !stop.load(Ordering::Relaxed) || n < 600 {
                feed(&spool, n..n + 5).unwrap();
                spool.cancel(News::new(n - 300, GROUPS, 900).id.as_bytes()).unwrap();
                n += 5;
            }
            n
        });
        for to in ["/t/a1.cyc", "/t/a2.cyc", "/t/a3.cyc"] {
            spool.buffers().move_to("a", Path::new(to), &(), &mut || Ok(())).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        feeding.join().unwrap()
    });
    let named = agree(&spool);
    assert!(spool.verifier().verify(&()).findings.is_empty());
    let living = alive(&spool, fed);
    assert!(living.iter().all(|n| *n < 200 || *n % 5 != 0 || *n + 300 >= fed), "cancelled ones live");
    assert_eq!(spool.buffers().list().unwrap()[0].config.path, Path::new("/t/a3.cyc"));
    let error =
        spool.buffers().move_to("a", Path::new("/t/a1.cyc"), &(), &mut || Ok(())).unwrap_err().to_string();
    assert!(error.contains("moved to /t/a2.cyc"), "{error}");
    spool.close().unwrap();
    drop(spool);
    let error = Spool::open(disk.clone(), config.clone(), &()).unwrap_err().to_string();
    assert!(error.contains("moved to /t/a1.cyc"), "{error}");
    config.buffers[0].path = "/t/a3.cyc".into();
    let (spool, recovery) = open(&disk, &config);
    assert!(!recovery.crashed, "{recovery}");
    assert_eq!(agree(&spool), named);
}

#[test]
fn a_removed_buffers_number_is_not_given_again() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &base());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..60).unwrap();
    let error = |r: Result<(), SpoolError>| r.unwrap_err().to_string();
    let fine = &mut || Ok(());
    assert!(error(spool.buffers().remove("b", true, fine)).contains("retire it first"));
    spool.buffers().retire("b", true, fine).unwrap();
    assert!(error(spool.buffers().retire("a", true, fine)).contains("last buffer of its class"));
    assert!(error(spool.buffers().remove("b", false, fine)).contains("--articles"));
    assert!(error(spool.buffers().grow("x", 1, fine)).contains("there are: a, b"));
    assert!(error(spool.buffers().grow("a", 70_001, fine)).contains("cannot grow"));
    assert!(error(spool.buffers().grow("a", 4_096, fine)).contains("bytes and cannot shrink to 4096"));
    assert!(error(spool.buffers().add(&new_buffer(), "none", fine)).contains("no class"));
    let mut refused = || Err("the file cannot be written".into());
    assert!(error(spool.buffers().add(&new_buffer(), "all", &mut refused)).contains("cannot be written"));
    assert!(disk.open(Path::new("/s/c.cyc"), OpenMode::ReadOnly).is_err(), "left behind");
    let before = alive(&spool, 60).len();
    spool.buffers().remove("b", true, fine).unwrap();
    let after = alive(&spool, 60).len();
    assert!(after > 10 && after < before, "{after} of {before}");
    agree(&spool);
    spool.close().unwrap();
    drop(spool);
    let mut config = base();
    config.buffers.truncate(1);
    config.classes[0].buffers.truncate(1);
    let (spool, _) = open(&disk, &config);
    assert_eq!(alive(&spool, 60).len(), after);
    spool.buffers().add(&new_buffer(), "all", fine).unwrap();
    feed(&spool, 60..120).unwrap();
    let volumes: std::collections::BTreeSet<u16> = (60..120)
        .filter_map(|n| match spool.lookup(&spool.key(News::new(n, GROUPS, 900).id.as_bytes())) {
            Lookup::Present(token) => Some(token.volume),
            _ => None,
        })
        .collect();
    // One number went to the buffer whose making was refused.
    assert_eq!(volumes.into_iter().collect::<Vec<_>>(), [0, 3]);
    agree(&spool);
}
