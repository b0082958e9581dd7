//! Sectors that cannot be read, one at a time, in every file of a spool: each costs at most the article it
//! hit.

use crate::news::*;
use disk::{Disk, OpenMode, ReadMode, RealDisk, SimDisk};
use spool::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GROUPS: u64 = 2;
const ARTICLES: u64 = 220;
const SCALE: u64 = 900;

fn spool_config() -> SpoolConfig {
    SpoolConfig {
        durability: Durability::Process,
        checkpoint_rows: 100,
        journal_keep_bytes: 1 << 30,
        overview: OverviewShape { block_text_bytes: 4096, segment_bytes: 16 << 10 },
        ..config("/s", &[("a", 150_000)])
    }
}

fn open_sim(sim: &SimDisk) -> (Spool, RecoveryReport) {
    open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &spool_config())
}

pub fn filled() -> (SimDisk, Spool) {
    let sim = SimDisk::new();
    let (spool, _) = open_sim(&sim);
    add_groups(&spool, GROUPS);
    for n in (0..ARTICLES).step_by(20) {
        commit(&spool, &(n..n + 20).map(|n| News::new(n, GROUPS, SCALE)).collect::<Vec<_>>()).unwrap();
    }
    (sim, spool)
}

/// The articles that can be read by Message-ID.
pub fn readable(spool: &Spool) -> BTreeSet<u64> {
    let mut buf = ArticleBuf::default();
    let is_there = |n: &u64| {
        let key = spool.key(News::new(*n, GROUPS, SCALE).id.as_bytes());
        let Lookup::Present(token) = spool.lookup(&key) else { return false };
        spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap_or(false)
    };
    (0..ARTICLES).filter(is_there).collect()
}

fn files(sim: &SimDisk, dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = sim.list(dir).unwrap().into_iter().map(|name| dir.join(name)).collect();
    for name in sim.list_dirs(dir).unwrap() {
        all.extend(files(sim, &dir.join(name)));
    }
    all
}

/// One repair puts everything right that can be, and a second has nothing to do.
fn mends_at_once(spool: &Spool, what: &str) {
    let report = spool.repairer().repair(false, &());
    assert!(report.repaired.iter().all(|r| r.result.is_ok()), "{what}: {:?}", report.repaired);
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    agree(spool);
}

#[test]
fn any_unreadable_sector_costs_at_most_the_article_there() {
    let (sim, spool) = filled();
    let before = readable(&spool);
    let named = agree(&spool);
    spool.close().unwrap();
    drop(spool);
    let mut tried = 0;
    for path in files(&sim, Path::new("/s")) {
        let len = sim.open(&path, OpenMode::ReadOnly).unwrap().len().unwrap();
        let step = (len / 6).max(1).next_multiple_of(4096);
        for at in (0..len).step_by(step as usize) {
            let image = sim.image().unwrap();
            image.spoil(&path, at..at + 512).unwrap();
            let what = format!("{} at {at}", path.display());
            let opened = Spool::open(Arc::new(image.clone()) as Arc<dyn Disk>, spool_config(), &());
            let (spool, recovery) = opened.unwrap_or_else(|e| panic!("{what}: {e}"));
            let lost = before.difference(&readable(&spool)).count();
            let is_log = path.extension().is_some_and(|e| e == "ring");
            assert!(lost <= 1 || is_log, "{what}: {lost} lost, {recovery}");
            mends_at_once(&spool, &what);
            // History relearns from the articles what it forgot.
            assert!(before.difference(&readable(&spool)).count() <= 1, "{what}");
            assert!(named.len() - agree(&spool).len() <= 2, "{what}");
            spool.close().unwrap();
            drop(spool);
            let (spool, recovery) = open_sim(&image);
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}: {recovery}");
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn a_mapped_page_that_fails_while_serving_is_rebuilt() {
    let (sim, spool) = filled();
    spool.checkpoint().unwrap();
    let named = agree(&spool);
    let index = files(&sim, Path::new("/s/index/history"));
    let index = index.iter().find(|p| p.to_string_lossy().contains("index-")).unwrap();
    let pages = [(Path::new("/s/a.cyc"), 8192), (index, 0), (index, 4096), (index, 8192)];
    for (next, (path, at)) in (ARTICLES..).zip(pages) {
        let what = format!("{} at {at}", path.display());
        sim.spoil(path, at..at + 512).unwrap();
        // Before it accepts anything the writer notices.
        commit(&spool, &[News::new(next, GROUPS, SCALE)]).unwrap();
        let now = agree(&spool);
        assert!(now.iter().any(|row| *row == named[named.len() - 1]), "{what}");
        assert!(now.len() + 20 > named.len(), "{what}: {} of {}", now.len(), named.len());
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        // Or `verify` does, and says so once.
        sim.spoil(path, at..at + 512).unwrap();
        let findings = spool.verifier().verify(&()).findings;
        assert!(findings.len() == 1 && findings[0].what.contains("rebuilt"), "{what}: {findings:?}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        assert_eq!(agree(&spool), now, "{what}");
    }
    drop(spool);
    let (spool, recovery) = open_sim(&sim);
    assert_eq!(recovery.mended_pages, 0, "{recovery}");
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

#[test]
fn either_header_slot_may_be_unreadable_and_with_both_a_rebuild_helps() {
    let (sim, spool) = filled();
    let named = agree(&spool);
    spool.close().unwrap();
    drop(spool);
    for slot in [0, 4096] {
        let image = sim.image().unwrap();
        image.spoil(Path::new("/s/a.cyc"), slot..slot + 512).unwrap();
        let (spool, _) = open_sim(&image);
        assert_eq!(agree(&spool), named);
        assert_eq!(spool.verifier().verify(&()).findings, []);
    }
    sim.spoil(Path::new("/s/a.cyc"), 0..8192).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let error = Spool::open(disk.clone(), spool_config(), &()).unwrap_err().to_string();
    assert!(error.contains("newsreel rebuild"), "{error}");
    rebuild(disk, spool_config(), &()).unwrap();
    let (spool, _) = open_sim(&sim);
    assert_eq!(agree(&spool), named);
}

/// On the machine's own files: cutting a mapped file raises the same signal as a bad sector, which used to
/// end the process.
#[test]
fn a_history_index_cut_on_a_real_disk_is_rebuilt_while_serving() {
    let dir = std::env::temp_dir().join(format!("newsreel-unreadable-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let config = SpoolConfig {
        buffers: vec![BufferConfig { path: dir.join("a.cyc"), ..spool_config().buffers[0].clone() }],
        dir: dir.clone(),
        ..spool_config()
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    let news: Vec<News> = (0..100).map(|n| News::new(n, GROUPS, SCALE)).collect();
    commit(&spool, &news).unwrap();
    let named = agree(&spool);
    let history = dir.join("index/history");
    let index = std::fs::read_dir(&history).unwrap().map(|entry| entry.unwrap().path());
    let index = index.into_iter().find(|p| p.to_string_lossy().contains("index-")).unwrap();
    std::fs::File::options().write(true).open(&index).unwrap().set_len(0).unwrap();
    // Look-ups find nothing meanwhile, and end no thread.
    news.iter().for_each(|n| _ = spool.lookup(&spool.key(n.id.as_bytes())));
    let (_, outcomes) = commit(&spool, &news).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::Duplicate; 100]);
    assert_eq!(agree(&spool), named);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert_eq!((agree(&spool), recovery.mended_pages), (named, 0));
    drop(spool);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The loss is reported, and one repair does everything.
#[test]
fn a_lost_history_is_reported_at_the_start() {
    for keep_journal in [true, false] {
        let (sim, spool) = filled();
        let named = agree(&spool);
        spool.close().unwrap();
        drop(spool);
        let mut lost = files(&sim, Path::new("/s/index/history"));
        lost.retain(|path| path.extension().is_some_and(|e| e == "ring"));
        assert!(!lost.is_empty());
        if !keep_journal {
            lost.extend(files(&sim, Path::new("/s/journal")));
        }
        lost.iter().for_each(|path| sim.remove(path).unwrap());
        let (spool, recovery) = open_sim(&sim);
        assert_eq!(agree(&spool), named, "{recovery}");
        let text = recovery.to_string();
        let why = if keep_journal { "history is lost" } else { "the journal is lost" };
        assert!(text.contains(why) && text.contains("indexes rebuilt from"), "{text}");
        assert!(text.contains(&format!("{ARTICLES} entries of history were lost")), "{text}");
        assert_eq!(recovery.lost_history, ARTICLES);
        spool.close().unwrap();
        drop(spool);
        let (_, recovery) = open_sim(&sim);
        assert_eq!((recovery.lost, recovery.lost_history), (None, 0));
    }
}

/// More is wrong than one report has room for.
#[test]
fn one_repair_is_enough_however_much_is_wrong() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = SpoolConfig { buffers: config("/s", &[("a", 3 << 20)]).buffers, ..spool_config() };
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    for n in (0..1600).step_by(40) {
        commit(&spool, &(n..n + 40).map(|n| News::new(n, GROUPS, SCALE)).collect::<Vec<_>>()).unwrap();
    }
    spool.checkpoint().unwrap();
    // All articles but the first few, and overview rows that are made again from them.
    sim.spoil(Path::new("/s/a.cyc"), 100_000..3 << 20).unwrap();
    let before = spool.verifier().verify(&());
    assert!(before.more > 0, "{}", before.problems());
    let after = spool.repairer().repair(false, &()).after.unwrap();
    assert_eq!((after.findings, after.more), (Vec::new(), 0));
    assert_eq!(spool.verifier().verify(&()).problems(), 0);
    agree(&spool);
}
