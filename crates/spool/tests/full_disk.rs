//! A full disk: nothing more is accepted until there is room, then everything is, without a restart; nothing
//! that was acknowledged is lost, and every index is right (guarantee G7).

use crate::news::*;
use disk::{CrashKind, Disk, RealDisk, SimDisk};
use netnews::wildmat::Wildmat;
use spool::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GROUPS: u64 = 4;
const BATCHES: u64 = 40;
const PER_BATCH: u64 = 9;
/// Waiting for something that happens at once, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Failed tries on the full disk before an operator makes room.
const TRIES: u64 = 3;

fn small(mut config: SpoolConfig, durability: Durability) -> SpoolConfig {
    config.durability = durability;
    config.checkpoint_rows = 60;
    config.article_bytes_max = 4096;
    config.journal_file_bytes = 16 << 10;
    config.overview = OverviewShape { block_text_bytes: 1024, segment_bytes: 8 << 10 };
    // Segments of 64 records, and index files that grow with a few hundred.
    config.history = HistoryShape::small(6, 0);
    config.full_disk_retry = Duration::from_millis(1);
    config
}

fn cyclic(durability: Durability) -> SpoolConfig {
    small(config("/s", &[("a", 300_000), ("b", 300_000)]), durability)
}

/// A class that compresses, with a dictionary that is trained after some batches.
fn compressing(durability: Durability) -> SpoolConfig {
    let mut config = small(config("/s", &[("a", 150_000), ("b", 150_000)]), durability);
    config.classes[0].compress = Some(CompressConfig { level: 3, samples: 60 });
    config.buffers.iter_mut().for_each(|b| b.block_bytes = 64);
    config
}

fn kept(method: MethodKind) -> SpoolConfig {
    let mut config = config("/s", &[]);
    let class = &mut config.classes[0];
    class.method = method;
    class.tree = TreeConfig { path: PathBuf::from("/s/kept"), file_bytes: 64 << 10, ..TreeConfig::default() };
    small(config, Durability::Process)
}

fn batch(n: u64) -> Vec<News> {
    (n * PER_BATCH..(n + 1) * PER_BATCH).map(|i| News::new(i, GROUPS, 700)).collect()
}

/// Does something again and again: a full disk must say so, and let it be done once there is room. Returns
/// whether it was met.
fn once_there_is_room<T>(
    sim: &SimDisk,
    what: &str,
    mut work: impl FnMut() -> Result<T, SpoolTrouble>,
) -> (T, bool) {
    let (mut failed, begun) = (0, Instant::now());
    loop {
        match work() {
            Ok(done) => return (done, failed > 0),
            Err(trouble) => {
                assert_eq!(trouble.kind, TroubleKind::Full, "{what}: {trouble}");
                assert!(begun.elapsed() < PATIENCE, "{what}: still {trouble}");
                failed += 1;
                if failed > TRIES {
                    sim.free();
                }
                std::thread::yield_now();
            }
        }
    }
}

fn file(sim: &SimDisk, spool: &Spool, news: &[News], what: &str) -> bool {
    let ((_, outcomes), met) = once_there_is_room(sim, what, || commit(spool, news));
    let known =
        |outcome: &ChangeOutcome| matches!(outcome, ChangeOutcome::Filed(_) | ChangeOutcome::Duplicate);
    assert!(outcomes.iter().all(known), "{what}: {outcomes:?}");
    met
}

/// The disk is full from a step on. Returns whether anybody noticed.
fn fills_at(step: u64, config: &SpoolConfig) -> bool {
    let what = format!("full at step {step}, {:?}, {:?}", config.durability, config.classes[0].method);
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    sim.fill_at(step);
    let Ok((spool, _)) = Spool::open(disk.clone(), config.clone(), &()) else {
        sim.free();
        let opened = Spool::open(disk, config.clone(), &());
        assert!(opened.is_ok(), "{what}: {opened:?}");
        return true;
    };
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    let groups: Vec<NewGroup> = (0..GROUPS).map(new).collect();
    let (_, mut met) = once_there_is_room(&sim, &what, || spool.add_groups(&groups));
    let mut fed = 0;
    // Errors of the syncing thread may show only later.
    while fed < BATCHES || spool.trouble().is_some() {
        met |= file(&sim, &spool, &batch(fed), &what);
        fed += 1;
    }
    sim.free();
    // A dictionary for which there was no room is trained again from what comes later.
    let compresses = config.classes[0].compress.is_some();
    wait_until(&what, || {
        let waits = compresses && spool.meter().dictionaries().is_empty();
        if waits {
            file(&sim, &spool, &batch(fed), &what);
            fed += 1;
        }
        !waits
    });
    check(&disk, spool, config, fed, &what);
    met
}

/// All that was acknowledged is there, now and after a restart that replays nothing and rebuilds nothing.
fn check(disk: &Arc<dyn Disk>, spool: Spool, config: &SpoolConfig, fed: u64, what: &str) {
    let named = agree(&spool);
    let all: BTreeMap<String, News> = (0..fed).flat_map(batch).map(|news| (news.id.clone(), news)).collect();
    for news in all.values() {
        assert!(spool.is_known(&spool.key(news.id.as_bytes())), "{what}: {} is forgotten", news.id);
        let wire = fetch(&spool, &news.id);
        assert!(wire.as_ref().is_none_or(|wire| *wire == news.wire), "{what}: {} has other bytes", news.id);
        let may_be_displaced = config.classes[0].method == MethodKind::Cnfs;
        assert!(wire.is_some() || may_be_displaced, "{what}: {} is lost", news.id);
    }
    assert!(named.len() > 300, "{what}: {}", named.len());
    // Attempts that failed have used up no numbers: members of a cluster have the same ones.
    for group in (0..GROUPS).map(|n| format!("test.g{n}")) {
        let filed = all.values().filter(|news| news.groups.contains(&group)).count() as u64;
        let id = spool.group_id(group.as_bytes()).unwrap();
        assert_eq!(spool.group(id).unwrap().marks().high, filed, "{what}: {group}");
    }
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    let closed = spool.close();
    assert!(closed.is_ok(), "{what}: {closed:?}");
    drop(spool);
    let (spool, recovery) = open(disk, config);
    assert!(!recovery.crashed && recovery.rebuilt.is_none(), "{what}: {recovery}");
    assert_eq!(agree(&spool), named, "{what}: {recovery}");
    assert_eq!(spool.verifier().verify(&()).findings, [], "{what}: {recovery}");
}

fn fills_at_every_step(config: &SpoolConfig, every: usize) {
    let sim = SimDisk::new();
    let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), config);
    add_groups(&spool, GROUPS);
    (0..BATCHES).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
    drop(spool);
    let steps = sim.steps() as usize;
    let met = (0..steps as u64).step_by(every).filter(|step| fills_at(*step, config)).count();
    assert!(met * every * 2 > steps, "{met} of {steps}");
}

#[test]
fn acceptance_resumes_after_a_disk_that_filled_at_any_step() {
    fills_at_every_step(&cyclic(Durability::Process), 5);
}

#[test]
fn acceptance_resumes_with_durability_always() {
    fills_at_every_step(&cyclic(Durability::Always), 19);
}

#[test]
fn acceptance_resumes_with_a_class_that_compresses() {
    fills_at_every_step(&compressing(Durability::Process), 23);
    fills_at_every_step(&compressing(Durability::Always), 61);
}

#[test]
fn acceptance_resumes_with_methods_that_keep() {
    for method in [MethodKind::AppendOnly, MethodKind::Tradspool, MethodKind::Hashed, MethodKind::Timehash] {
        fills_at_every_step(&kept(method), 61);
    }
}

/// A file system of our own in memory, removed at the end.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where this user may not mount.
    fn new(bytes: u64) -> Option<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("newsreel-full-disk-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "newsreel-test"])
            .arg(&dir)
            .output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        std::fs::remove_dir(&dir).unwrap();
        None
    }

    /// Fills it as another program would, up to this many bytes.
    fn fill(&self, leave_bytes: u64) {
        use std::io::Write;
        let path = self.0.join("somebody-elses");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(leave_bytes)).unwrap();
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("somebody-elses")).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Like the test above, on a real file system that another program fills and frees again; with a little room
/// left now and then, so that one file or another meets the end first.
#[test]
fn a_real_file_system_that_somebody_else_fills() {
    for durability in
        [Durability::Process, Durability::Interval(Duration::from_millis(5)), Durability::Always]
    {
        for leave_bytes in [0, 4 << 10, 20 << 10, 36 << 10, 100 << 10, 400 << 10] {
            let what = format!("{durability:?}, {leave_bytes} left");
            let Some(mounted) = Mounted::new(16 << 20) else {
                eprintln!("skipped: only root may mount a file system");
                return;
            };
            let dir = mounted.0.to_str().unwrap().to_owned();
            let config = small(config(&dir, &[("a", 300_000), ("b", 300_000)]), durability);
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
            let (spool, _) = open(&disk, &config);
            add_groups(&spool, GROUPS);
            let mut fed = 0;
            while fed < 5 {
                commit(&spool, &batch(fed)).unwrap();
                fed += 1;
            }
            mounted.fill(leave_bytes);
            let trouble = loop {
                match commit(&spool, &batch(fed)) {
                    Ok(_) => fed += 1,
                    Err(trouble) => break trouble,
                }
                assert!(fed < 10_000, "{what}: nothing was met");
            };
            assert_eq!(trouble.kind, TroubleKind::Full, "{what}: {trouble}");
            mounted.free();
            let begun = Instant::now();
            while fed < BATCHES || spool.trouble().is_some() {
                match commit(&spool, &batch(fed)) {
                    Ok(_) => fed += 1,
                    Err(trouble) => assert!(begun.elapsed() < PATIENCE, "{what}: still {trouble}"),
                }
            }
            check(&disk, spool, &config, fed, &what);
        }
    }
}

/// The first batches are due at [`DUE`], the others are not.
const OLD_BATCHES: u64 = 5;
const DUE: u64 = NOW + 5_000;

/// Articles are kept for 1000 seconds; the journal's files are long enough for rows that expire
/// [`OLD_BATCHES`] after their end.
fn expiring(mut config: SpoolConfig) -> SpoolConfig {
    config.journal_file_bytes = 64 << 10;
    let keep = Retention::Secs { min: 0, default: 1_000, max: 1_000 };
    config.expire = vec![ExpireConfig { keep, ..ExpireConfig::default() }];
    config
}

/// Files batches until the disk is full; returns how many were filed.
fn feed_until_full(spool: &Spool, what: &str) -> u64 {
    feed_until_full_from(spool, 0, what)
}

/// Like [`feed_until_full`], from the batch `first` on.
fn feed_until_full_from(spool: &Spool, first: u64, what: &str) -> u64 {
    for n in 0.. {
        assert!(n < 2_000, "{what}: nothing was met");
        let arrived = if n < OLD_BATCHES { NOW } else { NOW + 100_000 };
        if let Err(trouble) = commit_at(spool, &batch(first + n), arrived) {
            assert_eq!(trouble.kind, TroubleKind::Full, "{what}: {trouble}");
            return n;
        }
    }
    0
}

/// On the full disk, due articles can be expired, and others cancelled or purged.
fn is_emptied(spool: &Spool, fed: u64, what: &str) {
    let due = fed.min(OLD_BATCHES) * PER_BATCH;
    let dry = spool.expiry().expire(DUE, true).unwrap_or_else(|e| panic!("{what}: dry run: {e}"));
    let done = spool.expiry().expire(DUE, false).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!((dry.articles, done.articles), (due, due), "{what}");
    let gone = |news: &News| assert!(fetch(spool, &news.id).is_none(), "{what}: {}", news.id);
    (0..fed.min(OLD_BATCHES)).flat_map(batch).for_each(|news| gone(&news));
    if fed > OLD_BATCHES {
        let news = batch(OLD_BATCHES).remove(0);
        assert!(spool.cancel(news.id.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}")), "{what}");
        gone(&news);
    }
}

#[test]
fn a_full_disk_is_emptied_by_expiry_and_cancels() {
    let config = expiring(kept(MethodKind::AppendOnly));
    let steps = {
        let sim = SimDisk::new();
        let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &config);
        add_groups(&spool, GROUPS);
        let begun = sim.steps();
        (0..BATCHES).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
        sim.steps() - begun
    };
    for step in (0..steps).step_by(41) {
        let what = format!("full {step} steps after the start");
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        sim.fill_at(sim.steps() + step);
        let fed = feed_until_full(&spool, &what);
        is_emptied(&spool, fed, &what);
        sim.free();
        file(&sim, &spool, &batch(5_000), &what);
        wait_until(&what, || spool.trouble().is_none() || commit(&spool, &batch(5_001)).is_ok());
        let named = agree(&spool);
        spool.close().unwrap();
        drop(spool);
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(agree(&spool), named, "{what}: {recovery}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}: {recovery}");
    }
}

/// All articles are in one file, after which no other can begin on the full disk.
#[test]
fn the_last_file_of_an_appendonly_class_is_removed_when_nothing_in_it_lives() {
    for (files_max, crashes) in [(0, false), (0, true), (1, false), (1, true), (2, true)] {
        let what = format!("at most {files_max} files, crashes {crashes}");
        let mut config = expiring(kept(MethodKind::AppendOnly));
        config.classes[0].tree.file_bytes = 1 << 30;
        config.classes[0].tree.files_max = files_max;
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (mut spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        sim.leave_bytes(300 << 10);
        for round in 0..3 {
            wait_until(&what, || commit(&spool, &batch(8_000 + round)).is_ok());
            let fed = 1 + feed_until_full_from(&spool, round * 2_000, &what);
            assert!(fed > OLD_BATCHES, "{what}: {fed}");
            let removed = spool.expiry().expire(2 * DUE, false).unwrap().articles;
            assert_eq!(removed, fed * PER_BATCH, "{what}");
            let names = disk.list("/s/kept".as_ref()).unwrap();
            assert!(names.iter().all(|name| !name.ends_with(".app")), "{what}: {names:?}");
            if crashes {
                drop(spool);
                (spool, _) = open(&disk, &config);
            }
        }
        wait_until(&what, || commit(&spool, &batch(9_000)).is_ok());
        let named = agree(&spool);
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        spool.close().unwrap();
        drop(spool);
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(agree(&spool), named, "{what}: {recovery}");
    }
}

/// On a real file system that another program fills: in the server that met it, and after a restart.
#[test]
fn expiry_makes_room_on_a_real_file_system() {
    for (restarted, leave_bytes) in [(false, 0), (true, 0), (false, 20 << 10), (true, 100 << 10)] {
        let what = format!("restarted {restarted}, {leave_bytes} left");
        let Some(mounted) = Mounted::new(16 << 20) else {
            eprintln!("skipped: only root may mount a file system");
            return;
        };
        let mut config = expiring(kept(MethodKind::AppendOnly));
        config.dir = mounted.0.clone();
        config.classes[0].tree =
            TreeConfig { path: mounted.0.join("kept"), file_bytes: 16 << 10, ..TreeConfig::default() };
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let (mut spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        (0..OLD_BATCHES).for_each(|n| drop(commit_at(&spool, &batch(n), NOW).unwrap()));
        mounted.fill(leave_bytes);
        let fed = feed_until_full(&spool, &what).max(OLD_BATCHES);
        if restarted {
            drop(spool);
            (spool, _) = open(&disk, &config);
        }
        is_emptied(&spool, fed, &what);
        wait_until(&what, || commit(&spool, &batch(5_000)).is_ok());
        mounted.free();
    }
}

fn purge_all(spool: &Spool, _fed: u64) -> u64 {
    spool.purge(&Wildmat::parse(b"test.*").unwrap(), false, &()).unwrap().articles
}

fn cancel_all(spool: &Spool, fed: u64) -> u64 {
    let articles = (0..fed).flat_map(batch);
    articles.map(|news| u64::from(spool.cancel(news.id.as_bytes()).unwrap())).sum()
}

fn expire_old(spool: &Spool, _fed: u64) -> u64 {
    spool.expiry().expire(DUE, false).unwrap().articles
}

/// The disk is as full as its files are long: whatever removes articles makes room for others at once.
#[test]
fn purges_and_cancels_remove_files() {
    type Remove = fn(&Spool, u64) -> u64;
    let ways: [(&str, Remove); 3] = [("purge", purge_all), ("cancel", cancel_all), ("expire", expire_old)];
    for method in [MethodKind::AppendOnly, MethodKind::Tradspool, MethodKind::Hashed] {
        for (name, remove) in ways {
            let what = format!("{name}, {method:?}");
            let mut config = expiring(kept(method));
            config.classes[0].tree.file_bytes = 4 << 10;
            let sim = SimDisk::new();
            let disk: Arc<dyn Disk> = Arc::new(sim.clone());
            let (spool, _) = open(&disk, &config);
            add_groups(&spool, GROUPS);
            sim.leave_bytes(100 << 10);
            let fed = feed_until_full(&spool, &what);
            assert!(fed > OLD_BATCHES, "{what}: {fed}");
            let trouble = commit(&spool, &batch(4_000)).unwrap_err();
            assert_eq!(trouble.kind, TroubleKind::Full, "{what}: {trouble}");
            let removed = remove(&spool, fed);
            let expected = if name == "expire" { OLD_BATCHES } else { fed } * PER_BATCH;
            assert_eq!(removed, expected, "{what}");
            wait_until(&what, || commit(&spool, &batch(5_000)).is_ok());
            let named = agree(&spool);
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
            spool.close().unwrap();
            drop(spool);
            let (spool, recovery) = open(&disk, &config);
            assert_eq!(agree(&spool), named, "{what}: {recovery}");
        }
    }
}

/// After a request that freed room the spool accepts, whether an article comes or not.
#[test]
fn what_frees_room_ends_the_trouble() {
    let mut config = expiring(kept(MethodKind::Tradspool));
    // No try for room by itself.
    config.full_disk_retry = Duration::from_secs(24 * 3600);
    config.checkpoint_rows = 100_000;
    let sim = SimDisk::new();
    let (spool, _) = open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), &config);
    add_groups(&spool, GROUPS);
    sim.leave_bytes(40 << 10);
    let fed = feed_until_full(&spool, "tradspool");
    assert!(spool.trouble().is_some());
    assert_eq!(purge_all(&spool, fed), fed * PER_BATCH);
    assert_eq!(spool.trouble(), None);
    commit(&spool, &batch(5_000)).unwrap();
}

#[test]
fn inspection_finds_a_disk_that_is_almost_full() {
    let mut config = expiring(kept(MethodKind::AppendOnly));
    config.article_bytes_max = 8 << 10;
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    drop(open(&disk, &config));
    let problems = |free_bytes| {
        sim.set_free_bytes(free_bytes);
        let problems = inspect(&disk, &config, true).problems;
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(problems(80 << 10), [""; 0]);
    let found = problems((80 << 10) - 1);
    let expected = "the disk is almost full: 80.0 KiB needed (the next journal file 72.0 KiB, an article \
                    of class \"all\" 8.00 KiB), but";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    assert!(found[0].contains("newsreel expire"), "{found:?}");
}

/// Articles before the disk fills.
const BEFORE: u64 = OLD_BATCHES + 5;
const PURGED: &str = "test.g1";

/// Progress of a run that frees room on a full disk.
#[derive(Default)]
struct Freed {
    /// Articles on the full disk: group, number, Message-ID.
    named: Vec<(String, u64, String)>,
    expired: bool,
    cancelled: bool,
    purged: bool,
}

/// The article that is cancelled.
fn unwanted() -> News {
    batch(OLD_BATCHES).remove(0)
}

fn free_all(spool: &Spool, freed: &mut Freed) -> TestResult {
    spool.expiry().expire(DUE, false)?;
    freed.expired = true;
    spool.cancel(unwanted().id.as_bytes())?;
    freed.cancelled = true;
    spool.purge(&Wildmat::parse(PURGED.as_bytes()).unwrap(), false, &())?;
    freed.purged = true;
    Ok(())
}

fn crash_config(method: MethodKind) -> SpoolConfig {
    let mut config = expiring(kept(method));
    config.classes[0].tree.file_bytes = 4 << 10;
    config.durability = Durability::Always;
    config
}

/// Fills the disk, frees room on it, and ends. Returns the step at which freeing began.
fn fill_and_free(sim: &SimDisk, method: MethodKind, freed: &mut Freed) -> TestResult<u64> {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, crash_config(method), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    for n in 0..BEFORE {
        let arrived = if n < OLD_BATCHES { NOW } else { NOW + 100_000 };
        commit_at(&spool, &batch(n), arrived)?;
    }
    sim.fill_at(sim.steps());
    let full = (BEFORE..2_000).find(|n| commit_at(&spool, &batch(*n), NOW + 100_000).is_err());
    if sim.crashed() {
        return Err("the machine has ended".into());
    }
    assert!(full.is_some(), "nothing met the full disk");
    spool.settle()?;
    freed.named = agree(&spool);
    let begun = sim.steps();
    free_all(&spool, freed)?;
    spool.close()?;
    Ok(begun)
}

fn check_freed(image: SimDisk, method: MethodKind, freed: &Freed, what: &str) {
    let disk: Arc<dyn Disk> = Arc::new(image.clone());
    let config = crash_config(method);
    // A start on a disk that is still full works or says why not, and harms nothing.
    image.fill_at(0);
    match Spool::open(disk.clone(), config.clone(), &()) {
        Ok((spool, _)) => drop(spool),
        Err(e) => assert!(e.to_string().contains("No space left"), "{what}: {e}"),
    }
    image.free();
    let (spool, recovery) = Spool::open(disk, config, &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let what = format!("{what}: {recovery}");
    let due: Vec<String> = (0..OLD_BATCHES).flat_map(batch).map(|news| news.id).collect();
    let is_removed = |group: &str, id: &String, freed: &Freed| {
        freed.expired && due.contains(id)
            || freed.cancelled && *id == unwanted().id
            || freed.purged && group == PURGED
    };
    let gone = |named: &[(String, u64, String)], freed: &Freed| {
        let back = named.iter().find(|(group, _, id)| is_removed(group, id, freed));
        assert_eq!(back, None, "{what}: came back");
    };
    gone(&agree(&spool), freed);
    // The steps that were not completed are done now.
    let mut all = Freed::default();
    free_all(&spool, &mut all).unwrap_or_else(|e| panic!("{what}: {e}"));
    let now = agree(&spool);
    gone(&now, &all);
    // Nothing else was removed.
    let stays = |(group, _, id): &&(String, u64, String)| !is_removed(group, id, &all);
    for row in freed.named.iter().filter(stays) {
        assert!(now.contains(row), "{what}: {row:?} is lost");
        assert!(fetch(&spool, &row.2).is_some(), "{what}: {row:?} has no bytes");
    }
    for (_, _, id) in &freed.named {
        assert!(spool.is_known(&spool.key(id.as_bytes())), "{what}: {id} is forgotten");
    }
    commit(&spool, &batch(5_000)).unwrap_or_else(|e| panic!("{what}: {e}"));
    // Any crash may leave files without rows in a tree and, after a power cut, lack second names.
    let findings = spool.verifier().verify(&()).findings;
    let is_left = |f: &Finding| {
        ["left by a crash", "a crash left it", "missing or another one"].iter().any(|t| f.what.contains(t))
    };
    assert!(findings.iter().all(is_left), "{what}: {findings:?}");
}

fn crashed_while_freeing(kind: CrashKind) {
    for method in [MethodKind::AppendOnly, MethodKind::Tradspool] {
        let sim = SimDisk::new();
        let begun = fill_and_free(&sim, method, &mut Freed::default()).unwrap();
        let steps = (begun.saturating_sub(4)..sim.steps() + 2).step_by(crash_every(3));
        let run = |sim: &SimDisk, freed: &mut Freed| fill_and_free(sim, method, freed).map(drop);
        let tried =
            crashed_at(steps, kind, run, |image, freed, what| check_freed(image, method, freed, what));
        assert!(crash_every(3) > 1 || tried > 20, "{tried}");
    }
}

#[test]
fn killed_at_every_step_of_freeing() {
    crashed_while_freeing(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_of_freeing() {
    crashed_while_freeing(CrashKind::Power);
}

#[test]
fn power_cut_that_loses_all_unsynced_of_freeing() {
    crashed_while_freeing(CrashKind::Lost);
}

/// Whether it has met the full disk or not.
#[test]
fn a_spool_on_a_full_disk_is_closed_in_order() {
    for (config, has_met) in [
        (cyclic(Durability::Process), false),
        (cyclic(Durability::Process), true),
        (kept(MethodKind::AppendOnly), false),
        (kept(MethodKind::AppendOnly), true),
    ] {
        let what = format!("{:?}, met {has_met}", config.classes[0].method);
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        (0..10).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
        sim.fill_at(sim.steps());
        if has_met {
            let met = (10..2_000).find_map(|n| commit(&spool, &batch(n)).err());
            assert_eq!(met.map(|trouble| trouble.kind), Some(TroubleKind::Full), "{what}");
        }
        let named = agree(&spool);
        spool.close().unwrap_or_else(|e| panic!("{what}: {e}"));
        drop(spool);
        // Everything is durable, too.
        let image = sim.image_after(CrashKind::Lost, 1).unwrap();
        sim.free();
        for disk in [disk, Arc::new(image) as Arc<dyn Disk>] {
            let (spool, recovery) = open(&disk, &config);
            assert_eq!(agree(&spool), named, "{what}: {recovery}");
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}: {recovery}");
        }
    }
}

/// Articles of the first batches that are not there.
fn missing(spool: &Spool, batches: u64) -> Vec<String> {
    let lost = |news: &News| fetch(spool, &news.id).is_none();
    (0..batches).flat_map(batch).filter(lost).map(|news| news.id).collect()
}

/// A start needs no room to serve what there is, unless an index has to be rebuilt, and once there is some,
/// all of it is there and more is accepted.
#[test]
fn a_spool_on_a_full_disk_opens_after_any_crash() {
    let kinds = [CrashKind::Kill, CrashKind::Power, CrashKind::Lost];
    let configs = [cyclic(Durability::Always), compressing(Durability::Always), kept(MethodKind::AppendOnly)];
    for (config, kind, batches) in configs
        .iter()
        .flat_map(|config| kinds.into_iter().map(move |kind| (config, kind)))
        .flat_map(|(config, kind)| (1..14).step_by(3).map(move |batches| (config, kind, batches)))
    {
        let what = format!("{kind:?} after {batches} batches, {:?}", config.classes[0].method);
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = open(&disk, config);
        add_groups(&spool, GROUPS);
        (0..batches).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
        spool.sync().unwrap();
        sim.leave_bytes(0);
        let met = (batches..2_000).find_map(|n| commit(&spool, &batch(n)).err());
        assert_eq!(met.map(|trouble| trouble.kind), Some(TroubleKind::Full), "{what}");
        let mut image = sim.image_after(kind, batches).unwrap();
        // The second start comes before there was room for anything.
        for _ in 0..2 {
            image.be_as_large_as(&sim);
            let disk: Arc<dyn Disk> = Arc::new(image.clone());
            let (spool, _) = match Spool::open(disk, config.clone(), &()) {
                Ok(opened) => opened,
                // An index of which a power cut has taken too much is rebuilt, and may be larger. How much of
                // it was synced is a matter of when the thread that syncs has run.
                Err(e) if kind != CrashKind::Kill && e.to_string().contains("No space left") => break,
                Err(e) => panic!("{what}: {e}"),
            };
            agree(&spool);
            // An index that has to grow in a replay cannot; the journal has its rows.
            if !missing(&spool, batches).is_empty() {
                let trouble = commit(&spool, &batch(3_000)).expect_err(&what);
                assert!(trouble.text.contains("a restart makes the index whole again"), "{what}: {trouble}");
            }
            image = image.image_after(kind, batches).unwrap();
        }
        image.free();
        let disk: Arc<dyn Disk> = Arc::new(image.clone());
        let (spool, recovery) = open(&disk, config);
        assert_eq!(missing(&spool, batches), [""; 0], "{what}: {recovery}");
        commit(&spool, &batch(5_000)).unwrap_or_else(|e| panic!("{what}: {e}"));
        let named = agree(&spool);
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        spool.close().unwrap();
        drop(spool);
        let (spool, _) = open(&disk, config);
        assert_eq!(agree(&spool), named, "{what}");
    }
}

/// Where the journal ends, and where its last file begins.
fn journal_end(disk: &Arc<dyn Disk>, spool: &Spool) -> (u64, u64) {
    let names = disk.list(&spool.config().dir.join("journal")).unwrap();
    let start = |name: &String| u64::from_str_radix(name.strip_suffix(".journal").unwrap(), 16).unwrap();
    (spool.meter().status().unwrap().journal_position, names.iter().map(start).max().unwrap())
}

/// No try for room uses any of it up, and rows may fill it to the end.
#[test]
fn the_last_ninth_of_a_journal_file_is_for_rows_that_free_room() {
    let mut config = kept(MethodKind::Hashed);
    // The reserved end is not one of a page.
    config.journal_file_bytes = 16 << 10;
    config.checkpoint_rows = 100_000;
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    (0..2 * BATCHES).for_each(|n| drop(commit(&spool, &batch(n)).unwrap()));
    sim.fill_at(sim.steps());
    let met = (5_000..7_000).find_map(|n| commit(&spool, &batch(n)).err());
    assert_eq!(met.map(|trouble| trouble.kind), Some(TroubleKind::Full));
    let mut articles = (0..2 * BATCHES).flat_map(batch);
    let mut cancel = || {
        let news = articles.next().expect("the file is never full");
        spool.cancel(news.id.as_bytes()).map(|was_here| assert!(was_here))
    };
    let used = || {
        let (end, start) = journal_end(&disk, &spool);
        end - start
    };
    while used() < 16 << 10 {
        cancel().unwrap();
    }
    let before = used();
    for _ in 0..50 {
        commit(&spool, &batch(7_000)).unwrap_err();
        std::thread::sleep(2 * config.full_disk_retry);
    }
    assert_eq!(used(), before, "tries for room used up what is reserved");
    let full = loop {
        if let Err(trouble) = cancel() {
            break trouble;
        }
    };
    assert_eq!(full.kind, TroubleKind::Full);
    assert!((18_332..=18_432).contains(&used()), "{} of 18432 bytes are used", used());
}
