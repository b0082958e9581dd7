//! Another configuration for an open spool: with a crash at every step, with calls that fail, and refused.
//!
//! The configuration is durable before the spool is asked, so whatever a crash leaves is opened by the new
//! one.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::path::Path;
use std::sync::Arc;

const GROUPS: u64 = 3;
const CHANGES: &[&str] = &["add", "grow", "leave out", "classes", "identity"];

fn base() -> SpoolConfig {
    let mut config = config("/s", &[("a", 70_000), ("b", 60_000)]);
    config.checkpoint_rows = 50;
    config.article_bytes_max = 4096;
    config
}

fn buffer(name: &str) -> BufferConfig {
    BufferConfig {
        name: name.into(),
        path: format!("/s/{name}.cyc").into(),
        size_bytes: 80_000,
        block_bytes: 512,
        retired: false,
    }
}

fn tree(path: &str) -> ClassConfig {
    ClassConfig {
        name: "tree".into(),
        method: MethodKind::AppendOnly,
        tree: TreeConfig { path: path.into(), ..TreeConfig::default() },
        ..ClassConfig::default()
    }
}

fn before(what: &str) -> SpoolConfig {
    let mut config = base();
    if what == "leave out" {
        config.buffers.insert(1, buffer("empty"));
    }
    config
}

fn after(what: &str) -> SpoolConfig {
    let mut config = base();
    match what {
        "add" => {
            config.buffers.push(buffer("c"));
            config.classes[0].buffers.push("c".into());
        }
        "grow" => config.buffers[0].size_bytes = 150_000,
        "leave out" => {}
        // The numbers of classes shift.
        "classes" => {
            config.classes.insert(0, tree("/s/tree"));
            let groups = Some("test.g1".into());
            config.rules.insert(0, RuleConfig { class: "tree".into(), groups, ..RuleConfig::default() });
        }
        "identity" => config.path_identity = "other.example".into(),
        other => panic!("{other}"),
    }
    config
}

fn feed(spool: &Spool, numbers: std::ops::Range<u64>) -> TestResult {
    for n in numbers.step_by(5) {
        let news: Vec<News> = (n..n + 5).map(|n| News::new(n, GROUPS, 900)).collect();
        commit(spool, &news)?;
    }
    let ticket = spool.ticket();
    while !spool.is_durable(ticket) {
        if let Some(trouble) = spool.trouble() {
            return Err(trouble.into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

fn take(spool: &Spool, config: &SpoolConfig) -> TestResult {
    let prepared = spool.reconfiguration().prepare(config.clone()).map_err(|all| format!("{all:?}"))?;
    Ok(prepared.switch()?)
}

/// Progress of a run.
#[derive(Default)]
struct Told {
    /// Whether the configuration was changed.
    changed: bool,
    /// How far the feeding was acknowledged.
    acknowledged: u64,
}

/// Feeds, takes another configuration, feeds.
fn run(sim: &SimDisk, what: &str, told: &mut Told) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, before(what), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    feed(&spool, 0..40)?;
    told.acknowledged = 40;
    told.changed = !sim.crashed();
    take(&spool, &after(what))?;
    feed(&spool, 40..60)?;
    told.acknowledged = 60;
    Ok(spool.close()?)
}

fn check(image: SimDisk, what: &str, told: &Told, tale: &str) {
    let Told { changed, acknowledged } = *told;
    let disk: Arc<dyn Disk> = Arc::new(image);
    let config = if changed { after(what) } else { before(what) };
    let (spool, recovery) = Spool::open(disk, config, &()).unwrap_or_else(|e| panic!("{tale}: {e}"));
    agree(&spool);
    for n in acknowledged.saturating_sub(20)..acknowledged {
        let news = News::new(n, GROUPS, 900);
        assert_eq!(fetch(&spool, &news.id), Some(news.wire), "{tale}: {n} is lost ({recovery})");
    }
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>()).unwrap();
    take(&spool, &after(what)).unwrap_or_else(|e| panic!("{tale}: {e}"));
    feed(&spool, 60..120).unwrap_or_else(|e| panic!("{tale}: {e}"));
    agree(&spool);
    let report = spool.verifier().verify(&());
    assert!(report.findings.is_empty(), "{tale}: {:?}", report.findings);
}

fn crash_everywhere(kind: CrashKind) {
    for what in CHANGES {
        let start = {
            let sim = SimDisk::new();
            let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &before(what));
            add_groups(&spool, GROUPS);
            feed(&spool, 0..40).unwrap();
            sim.steps()
        };
        let sim = SimDisk::new();
        run(&sim, what, &mut Told::default()).unwrap();
        crashed_at(
            (start.saturating_sub(4)..sim.steps() + 2).step_by(crash_every(13)),
            kind,
            |sim, told| run(sim, what, told),
            |image, told, tale| check(image, what, told, &format!("{what}: {tale}")),
        );
    }
}

#[test]
fn killed_at_every_step_of_a_switch() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_of_a_switch() {
    crash_everywhere(CrashKind::Power);
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &base());
    add_groups(&spool, GROUPS);
    feed(&spool, 0..20).unwrap();
    // The buffer can be made, the class's directory holds something else.
    disk.create_dir(Path::new("/foreign")).unwrap();
    disk.open(Path::new("/foreign/file"), OpenMode::Create).unwrap();
    let mut config = after("add");
    config.classes.push(tree("/foreign"));
    let objections = spool.reconfiguration().prepare(config.clone()).map(drop).unwrap_err();
    assert_eq!(objections[0].subject, ObjectionSubject::Class("tree".into()));
    assert!(objections[0].text.contains("left alone"), "{objections:?}");
    assert!(disk.open(Path::new("/s/c.cyc"), OpenMode::ReadOnly).is_err(), "left behind");
    // All objections are reported at once.
    config.buffers[0].size_bytes = 65_000;
    config.buffers[1].path = "/s/moved.cyc".into();
    config.classes[0].method = MethodKind::Trash;
    let told: Vec<ObjectionSubject> =
        spool.reconfiguration().judge(&config).into_iter().map(|objection| objection.subject).collect();
    let named = |name: &str| ObjectionSubject::Buffer(name.into());
    assert_eq!(told, [named("a"), named("b"), ObjectionSubject::Class("all".into())]);
    let without = SpoolConfig { buffers: Vec::new(), ..base() };
    assert!(
        spool
            .reconfiguration()
            .judge(&without)
            .iter()
            .all(|objection| objection.text.contains("holds articles"))
    );
    feed(&spool, 20..40).unwrap();
    agree(&spool);
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &base());
    assert!(!recovery.crashed);
    agree(&spool);
}

#[test]
fn what_is_kept_is_due_by_the_name_of_its_class_wherever_that_stands() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &after("classes"));
    add_groups(&spool, GROUPS);
    feed(&spool, 0..30).unwrap();
    let due = |spool: &Spool, class: &str, config: &SpoolConfig| {
        let keep = Retention::Secs { min: 0, default: 0, max: 0 };
        let rule = ExpireConfig { class: Some(class.into()), keep, ..ExpireConfig::default() };
        take(spool, &SpoolConfig { expire: vec![rule], ..config.clone() }).unwrap();
        spool.expiry().expire(NOW + 1_000_000, true).unwrap().articles
    };
    let mut config = after("classes");
    config.classes.reverse();
    assert_eq!(due(&spool, "all", &config), 0);
    let all = due(&spool, "tree", &config);
    assert!(all > 0);
    config.classes.reverse();
    assert_eq!(due(&spool, "tree", &config), all);
}
