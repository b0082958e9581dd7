//! Snapshots while Message-IDs are forgotten and come again, the journal and history are damaged, and
//! restorations that are killed and repeated.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, Progress, SimDisk};
use spool::*;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = "/t/news.snapshot";
const HOUR: u64 = 3_600;
/// Time of the changes before a snapshot, in the middle of an hour.
const THEN: u64 = NOW - NOW % HOUR + HOUR / 2;
/// Articles that are filed before it: more than are left for its end.
const ARTICLES: u64 = 320;

fn news(n: u64) -> News {
    News::new(n, 3, 400)
}

/// Articles are as old as ids may become, and overwritten by the next 70 or so.
fn source() -> SpoolConfig {
    SpoolConfig { remember_secs: 1_000, durability: Durability::Process, ..config("/s", &[("a", 200 << 10)]) }
}

fn target(dir: &str) -> SpoolConfig {
    SpoolConfig { durability: Durability::Process, ..config(dir, &[("b", 8 << 20)]) }
}

fn on(sim: &SimDisk) -> Arc<dyn Disk> {
    sim.create_dir(Path::new("/t")).unwrap();
    Arc::new(sim.clone())
}

/// Files articles at a time, at which they arrive.
fn file(spool: &Spool, time: u64, articles: impl Iterator<Item = News>) {
    file_older(spool, time, articles.map(|article| (article, time)));
}

/// Files articles at a time, with those of their arrival.
fn file_older(spool: &Spool, time: u64, articles: impl Iterator<Item = (News, u64)>) {
    for (article, arrived) in articles {
        let (draft, mut outcomes) = (NewsDraft::of(&article), Vec::new());
        spool.apply(time, &[Change::Article(draft.article(arrived, &[]))], &mut outcomes).unwrap();
        assert!(matches!(outcomes[..], [ChangeOutcome::Filed(_)]), "{}: {outcomes:?}", article.id);
    }
}

fn remember(spool: &Spool, n: u64, arrived: u64) {
    let id = ArticleIdent::Key(spool.key(news(n).id.as_bytes()));
    spool.apply(THEN, &[Change::Remember { id, arrived }], &mut Vec::new()).unwrap();
}

fn forget(spool: &Spool, n: u64) {
    let (id, mut outcomes) = (ArticleIdent::Key(spool.key(news(n).id.as_bytes())), Vec::new());
    spool.apply(THEN, &[Change::Forget { id, arrived: THEN as u32 }], &mut outcomes).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::Changed(1)]);
}

fn is_known(spool: &Spool, n: u64) -> bool {
    spool.is_known(&spool.key(news(n).id.as_bytes()))
}

/// A site whose ids are forgotten at the next full hour, up to the first article that lives.
fn filled(disk: &Arc<dyn Disk>) -> Spool {
    let (spool, _) = open(disk, &source());
    let new = |i| GroupUpdate::Add(NewGroup { name: format!("test.g{i}"), ..NewGroup::default() });
    let groups: Vec<GroupUpdate> = (0..3).map(new).collect();
    spool.apply(THEN, &[Change::Groups(&groups)], &mut Vec::new()).unwrap();
    remember(&spool, 9_000, THEN - ARTICLES);
    file_older(&spool, THEN, (0..ARTICLES).map(|n| (news(n), THEN - ARTICLES + n)));
    spool
}

/// Acts once, after the first part of a snapshot.
struct Meanwhile<'a> {
    act: &'a (dyn Fn() + Send + Sync),
    is_done: AtomicBool,
}

impl Progress for Meanwhile<'_> {
    fn start(&self, _: &str, _: u64) {}
    fn finish(&self) {}
    fn step(&self, _: u64) {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            (self.act)();
        }
    }
}

fn snapshot(spool: &Spool, act: &(dyn Fn() + Send + Sync)) -> Result<SnapshotReport, SpoolError> {
    let meanwhile = Meanwhile { act, is_done: AtomicBool::new(false) };
    let written = spool.snapshots().write(Path::new(FILE), &|| false, &meanwhile);
    assert!(meanwhile.is_done.into_inner());
    written
}

fn assert_restored(disk: &Arc<dyn Disk>, spool: Spool) -> Spool {
    let (digest, known) = (spool.digest(), spool.history_entries());
    spool.close().unwrap();
    drop(spool);
    let report = restore(disk.clone(), target("/r"), Path::new(FILE), RestoreTarget::New, &()).unwrap();
    assert_eq!((report.is_same, report.digest), (Some(true), digest), "{report:?}");
    let (restored, _) = open(disk, &target("/r"));
    assert_eq!(restored.history_entries(), known);
    assert_eq!(restored.verifier().verify(&()).findings, []);
    restored
}

#[test]
fn ids_that_are_forgotten_while_a_snapshot_is_written_are_forgotten_in_it() {
    // Articles are overwritten before the full hour, after it, or both.
    for (before, after) in [(60, 0), (0, 60), (50, 40)] {
        let disk = on(&SimDisk::new());
        let spool = filled(&disk);
        let known = spool.history_entries();
        let act = || {
            file(&spool, THEN, (1_000..1_000 + before).map(news));
            file(&spool, THEN + HOUR, (2_000..2_001 + after).map(news));
            spool.checkpoint().unwrap();
        };
        snapshot(&spool, &act).unwrap();
        let forgotten = known + before + after + 1 - spool.history_entries();
        assert!(forgotten > before / 2 && is_known(&spool, ARTICLES - 1), "{forgotten}");
        assert_restored(&disk, spool);
    }
}

#[test]
fn an_id_that_was_forgotten_and_came_again_while_a_snapshot_was_written_is_in_it() {
    for filler in [0, 60] {
        let disk = on(&SimDisk::new());
        let spool = filled(&disk);
        remember(&spool, 9_001, THEN);
        remember(&spool, 9_002, THEN);
        file(&spool, THEN, (3_000..3_020).map(news));
        let act = || {
            // With more articles, these are in another part of the file.
            let large = |n| News::new(n, 3, 60_000);
            file(&spool, THEN, (4_000..4_000 + filler / 20).map(large));
            [9_001, 9_002].into_iter().for_each(|n| forget(&spool, n));
            file(&spool, THEN, [news(9_001)].into_iter());
            remember(&spool, 9_002, THEN + 1);
        };
        snapshot(&spool, &act).unwrap();
        let restored = assert_restored(&disk, spool);
        assert_eq!(fetch(&restored, &news(9_001).id), Some(news(9_001).wire));
        assert!(is_known(&restored, 9_002));
    }
}

#[test]
fn an_article_that_came_again_after_its_id_was_forgotten_ends_a_snapshot() {
    let disk = on(&SimDisk::new());
    let spool = filled(&disk);
    let oldest = (0..ARTICLES).find(|n| fetch(&spool, &news(*n).id).is_some()).unwrap();
    let act = || {
        file(&spool, THEN, (1_000..1_060).map(news));
        file(&spool, THEN + HOUR, (2_000..2_001).map(news));
        file(&spool, THEN + HOUR, [news(oldest)].into_iter());
    };
    let error = snapshot(&spool, &act).unwrap_err().to_string();
    assert!(error.contains("has come again meanwhile"), "{error}");
}

/// Overwrites bytes of the first file in a directory whose name ends like this.
fn damage(disk: &Arc<dyn Disk>, dir: &str, suffix: &str, at: u64) {
    let names = disk.list(Path::new(dir)).unwrap();
    let name = names.iter().filter(|name| name.ends_with(suffix)).min().unwrap();
    let file = disk.open(&Path::new(dir).join(name), OpenMode::Existing).unwrap();
    file.write_all_at(&[IoSlice::new(&[0xa5; 8])], at).unwrap();
}

#[test]
fn damage_that_a_snapshot_meets_is_reported() {
    let disk = on(&SimDisk::new());
    let spool = filled(&disk);
    // The tenth record of history, in the first file that is left.
    damage(&disk, "/s/index/history", ".ring", 10 * 32);
    assert_eq!(snapshot(&spool, &|| {}).unwrap().unreadable, 1);
    let other = Path::new("/t/other.snapshot");
    let act = || {
        let end = spool.journal().end().position;
        file(&spool, THEN, (1_000..1_003).map(news));
        let names = disk.list(Path::new("/s/journal")).unwrap();
        let start = names.iter().filter_map(|name| u64::from_str_radix(name.split('.').next()?, 16).ok());
        let start = start.filter(|start| *start <= end).max().unwrap();
        damage(&disk, "/s/journal", &format!("{start:016x}.journal"), end - start + 20);
    };
    let meanwhile = Meanwhile { act: &act, is_done: AtomicBool::new(false) };
    let error = spool.snapshots().write(other, &|| false, &meanwhile).unwrap_err().to_string();
    assert!(error.contains("the journal does not have everything"), "{error}");
}

#[test]
fn a_restoration_that_is_killed_at_any_step_and_repeated_leaves_the_same_site() {
    let sim = SimDisk::new();
    let disk = on(&sim);
    let spool = filled(&disk);
    let act = || {
        let updates = [GroupUpdate::Remove("test.g0".into())];
        spool.apply(THEN, &[Change::Groups(&updates)], &mut Vec::new()).unwrap();
        let updates = [GroupUpdate::Add(NewGroup { name: "test.g0".into(), ..NewGroup::default() })];
        spool.apply(THEN, &[Change::Groups(&updates)], &mut Vec::new()).unwrap();
        // More than are left for the end.
        file(&spool, THEN, (1_000..1_040).map(news));
        file(&spool, THEN + HOUR, (2_000..2_260).map(|n| news(n).unnumbered()));
        file(&spool, THEN + HOUR, (3_000..3_040).map(news));
    };
    snapshot(&spool, &act).unwrap();
    let digest = spool.digest();
    spool.close().unwrap();
    drop(spool);
    let run = |sim: &SimDisk, target_is: RestoreTarget| {
        restore(Arc::new(sim.clone()), target("/r"), Path::new(FILE), target_is, &())
    };
    let (begun, copy) = (sim.steps(), sim.image().unwrap());
    run(&sim, RestoreTarget::New).unwrap();
    let (steps, mut begun_again) = (sim.steps() - begun, 0);
    for step in (0..steps).step_by(crash_every(1)) {
        let sim = copy.image().unwrap();
        sim.crash_at(sim.steps() + step, CrashKind::Kill, step);
        let _killed =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&sim, RestoreTarget::New)));
        let image = sim.image().unwrap();
        match run(&image, RestoreTarget::Restored) {
            Ok(report) => assert_eq!(report.digest, digest, "killed at step {step}"),
            Err(error) => {
                assert!(error.to_string().contains("it must begin again"), "killed at step {step}: {error}");
                begun_again += 1;
                continue;
            }
        }
        // A whole site is not restored again.
        let again = run(&image, RestoreTarget::Restored).unwrap();
        assert!(again.digest == digest && again.known > 300, "killed at step {step}");
        let (spool, _) = open(&(Arc::new(image) as Arc<dyn Disk>), &target("/r"));
        assert_eq!(spool.digest(), digest, "killed at step {step}");
    }
    assert!(steps > 60 && begun_again < 30, "{begun_again} of {steps}");
}
