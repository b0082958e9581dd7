//! A flipped bit anywhere in any file of a spool is found, and costs at most the article it hit.
//!
//! A small spool with every kind of file is closed; then, again and again, one bit of one file is flipped in
//! a copy, which is opened, read whole, verified, repaired and read again.

use crate::meaning::{Meaning, SHARD_BITS, Told, level, shards};
use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, ReadMode, SimDisk};
use spool::*;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const GROUPS: u64 = 2;
const FLIPS_PER_FILE: u64 = 4;

pub fn spool_config() -> SpoolConfig {
    let mut config = config("/s", &[("plain", 150_000), ("packed", 70_000)]);
    config.buffers.iter_mut().for_each(|b| b.block_bytes = 64);
    config.classes[0].buffers = vec!["plain".into()];
    config.classes.push(ClassConfig {
        name: "text".into(),
        buffers: vec!["packed".into()],
        compress: Some(CompressConfig { level: 3, samples: 40 }),
        ..config.classes[0].clone()
    });
    let text = RuleConfig { class: "text".into(), smaller_than: Some(800), ..RuleConfig::default() };
    config.rules.insert(0, text);
    for (name, method, smaller_than) in
        [("log", MethodKind::AppendOnly, 600), ("files", MethodKind::Tradspool, 550)]
    {
        let path = Path::new("/s").join(name);
        config.classes.push(ClassConfig {
            name: name.into(),
            method,
            size_bytes: 1 << 20,
            tree: TreeConfig { path, file_bytes: 8 << 10, ..TreeConfig::default() },
            ..ClassConfig::default()
        });
        let rule =
            RuleConfig { class: name.into(), smaller_than: Some(smaller_than), ..RuleConfig::default() };
        config.rules.insert(0, rule);
    }
    config.durability = Durability::Process;
    config.journal_keep_bytes = 1 << 30;
    config.checkpoint_rows = 100;
    config.overview = OverviewShape { block_text_bytes: 4096, segment_bytes: 16 << 10 };
    config.overview_cold_secs = 0;
    config.history = HistoryShape::small(8, SHARD_BITS);
    config
}

/// Fills a spool until the first buffer has wrapped and a dictionary is in use; how many articles were
/// stored.
///
/// At least `least`: what lies where, and which files there are, depends on it, and on how long the training
/// of a dictionary takes.
fn fill(spool: &Spool, least: u64) -> u64 {
    add_groups(spool, GROUPS);
    let began = Instant::now();
    let mut n = 0;
    while n < least || spool.meter().dictionaries().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "no dictionary");
        commit(spool, &(n..n + 20).map(|n| News::new(n, GROUPS, 900)).collect::<Vec<_>>()).unwrap();
        n += 20;
        std::thread::sleep(Duration::from_millis(if n > least { 20 } else { 0 }));
    }
    commit(spool, &(n..n + 20).map(|n| News::new(n, GROUPS, 900)).collect::<Vec<_>>()).unwrap();
    spool.cancel(News::new(n + 3, GROUPS, 900).id.as_bytes()).unwrap();
    n + 20
}

/// The articles that can be read by Message-ID; each with the bytes it was stored with.
pub fn readable(spool: &Spool, all: u64) -> BTreeSet<u64> {
    let mut buf = ArticleBuf::default();
    let is_whole = |n: &u64| {
        let news = News::new(*n, GROUPS, 900);
        let key = spool.key(news.id.as_bytes());
        let Lookup::Present(token) = spool.lookup(&key) else { return false };
        let there = matches!(spool.read(&token, Some(&key), ReadMode::Wait, &mut buf), Ok(true));
        let article = buf.article().strip_suffix(b".\r\n").filter(|_| there);
        article.inspect(|a| assert!(a.ends_with(&news.wire), "{} has other bytes", news.id)).is_some()
    };
    (0..all).filter(is_whole).collect()
}

/// All files of the spool.
pub fn files(disk: &Arc<dyn Disk>) -> Vec<PathBuf> {
    let (mut files, mut dirs) = (Vec::new(), vec![PathBuf::from("/s")]);
    while let Some(dir) = dirs.pop() {
        files.extend(disk.list(&dir).unwrap().into_iter().map(|name| dir.join(name)));
        dirs.extend(disk.list_dirs(&dir).unwrap().into_iter().map(|name| dir.join(name)));
    }
    files
}

pub fn bytes(disk: &Arc<dyn Disk>, path: &Path) -> Vec<u8> {
    let Ok(file) = disk.open(path, OpenMode::ReadOnly) else { return Vec::new() };
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub fn flip(disk: &Arc<dyn Disk>, path: &Path, bit: u64) {
    let file = disk.open(path, OpenMode::Existing).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[IoSlice::new(&[byte[0] ^ 1 << (bit % 8)])], bit / 8).unwrap();
}

/// Effect of a flipped bit.
struct Outcome {
    lost: usize,
    /// By the opening, or by verify.
    noticed: bool,
    rebuilt: bool,
}

/// Flips one bit in a copy, opens, reads, verifies, repairs, reads again.
fn trial(sim: &SimDisk, path: &Path, bit: u64, want: &BTreeSet<u64>, all: u64) -> Outcome {
    let what = format!("{} bit {bit}", path.display());
    let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Kill, 1).unwrap());
    flip(&disk, path, bit);
    let flipped = bytes(&disk, path);
    let (spool, recovery) =
        Spool::open(disk.clone(), spool_config(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    // Some files are written again if they are damaged, at the latest by a checkpoint of the opening's own.
    let at = (bit / 8) as usize;
    let is_waited_for = what.contains("checkpoint") || what.contains("newsreel.");
    if is_waited_for {
        wait_until(&what, || bytes(&disk, path) != flipped);
    }
    let mended = is_waited_for || bytes(&disk, path).get(at) != flipped.get(at);
    let first = readable(&spool, all);
    assert!(first.is_subset(want), "{what}: what was gone is back");
    let report = spool.repairer().repair(false, &());
    // After an orderly end rows are replayed only where indexes were given up.
    let replayed = recovery.rows > 0 && !recovery.crashed;
    let looked_over = recovery.mended > 0;
    let noticed =
        recovery.rebuilt.is_some() || replayed || mended || looked_over || report.before.problems() > 0;
    assert!(noticed || first == *want, "{what}: an article is lost and nothing noticed it");
    if let Some(after) = &report.after {
        let left: Vec<_> = after.findings.iter().filter(|f| f.repair().is_some()).collect();
        assert!(left.is_empty(), "{what}: still {left:?} after {:?}", report.repaired);
    }
    // Whatever it was, all views agree now.
    agree(&spool);
    let now = readable(&spool, all);
    assert!(now.is_subset(want) && now.len() + 1 >= want.len(), "{what}: {} of {}", now.len(), want.len());
    spool.close().unwrap_or_else(|e| panic!("{what}: {e}"));
    drop(spool);
    let (spool, _) = Spool::open(disk, spool_config(), &()).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(readable(&spool, all), now, "{what}: after a restart");
    agree(&spool);
    Outcome { lost: want.len() - now.len(), noticed, rebuilt: recovery.rebuilt.is_some() }
}

pub fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 20
}

/// A spool that was filled and closed, and what its files must hold.
pub struct Filled {
    pub sim: SimDisk,
    pub disk: Arc<dyn Disk>,
    pub all: u64,
    pub want: BTreeSet<u64>,
    pub meaning: Meaning,
}

pub fn filled(least: u64) -> Filled {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &spool_config());
    let all = fill(&spool, least);
    // Some of the overview is packed, some plain.
    assert!(spool.overview().pack(&mut |_| false).unwrap().blocks > 1);
    let want = readable(&spool, all);
    assert!(spool.meter().status().unwrap().buffers[0].cycle >= 2 && want.len() > 100, "{}", want.len());
    assert_eq!(spool.verifier().verify(&()).findings, []);
    let tokens = want.iter().map(|n| {
        let Lookup::Present(token) = spool.lookup(&spool.key(News::new(*n, GROUPS, 900).id.as_bytes()))
        else {
            panic!("{n}")
        };
        token
    });
    let tokens: Vec<Token> = tokens.collect();
    let kinds: BTreeSet<u8> = tokens.iter().map(|t| t.method as u8).collect();
    assert_eq!(kinds.len(), 3, "every kind of class has articles");
    let text = |volume| spool.tokens().text(&Token { volume, ..tokens[0] });
    let names = (0..4).filter_map(|v| Some((v, text(v).split_once(':')?.0.to_owned()))).collect();
    spool.close().unwrap();
    drop(spool);
    let checkpoint = Told::read(&bytes(&disk, Path::new("/s/index/checkpoint")));
    let indexes = files(&disk).into_iter().filter_map(|path| Some((level(&path.to_string_lossy())?, path)));
    let shards = indexes.map(|(level, path)| (level, shards(&bytes(&disk, &path)))).collect();
    Filled { sim, disk, all, want, meaning: Meaning { tokens, names, checkpoint, shards } }
}

/// Any bit that means something: [`Meaning`] knows which those are, and `what_means_nothing_may_be_anything`
/// that no other does.
#[test]
fn a_flipped_bit_is_noticed_and_costs_at_most_the_article_it_hit() {
    flip_some(4, 260, FLIPS_PER_FILE);
}

#[test]
#[ignore = "minutes; make soak runs it"]
fn many_flipped_bits_are_noticed_one_by_one() {
    assert!(flip_some(1997, 260, 200) > 1000);
    for least in [300, 700, 1500, 2300, 3300] {
        assert!(flip_some(least, least, 20) > 300);
    }
}

/// Returns how many were flipped.
fn flip_some(mut seed: u64, least: u64, flips_per_file: u64) -> u64 {
    let mut trials = 0;
    let Filled { sim, disk, all, want, meaning } = filled(least);
    let mut articles_files = 0;
    for path in files(&disk).iter().filter(|p| !p.ends_with("lock")) {
        let name = path.to_string_lossy().into_owned();
        if name.contains("/files/test") {
            articles_files += 1;
        }
        if articles_files > 4 && name.contains("/files/test") {
            continue;
        }
        let content = bytes(&disk, path);
        let ranges = meaning.of(&name, &content);
        let (mut lost, mut flips) = (0, 0);
        while flips < flips_per_file && !ranges.is_empty() {
            // Of a buffer headers and bitmap come first, which are small.
            let which = if flips % 4 < 2 { flips % 4 } else { random(&mut seed) };
            let range = &ranges[(which % ranges.len() as u64) as usize];
            let bit = range.start * 8 + random(&mut seed) % ((range.end - range.start) * 8);
            flips += 1;
            if !meaning.has(&name, &content, bit) {
                continue;
            }
            let outcome = trial(&sim, path, bit, &want, all);
            lost += outcome.lost;
            trials += 1;
            assert!(outcome.noticed, "{name}: bit {bit} was not noticed");
        }
        let holds_articles = name.ends_with(".cyc") || name.contains("/files/") || name.ends_with(".app");
        assert!(lost == 0 || holds_articles, "{name}: {lost} articles lost");
        println!("{name}: {} ranges, {flips} flips, {lost} articles lost", ranges.len());
    }
    trials
}

/// All bits of which the test above says that they mean nothing, changed at once: nothing is noticed or lost.
#[test]
fn what_means_nothing_may_be_anything() {
    let Filled { sim, all, want, meaning, .. } = filled(260);
    let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Kill, 1).unwrap());
    let (mut seed, mut changed) = (5, 0);
    for path in files(&disk).iter().filter(|p| !p.ends_with("lock")) {
        let name = path.to_string_lossy().into_owned();
        let content = bytes(&disk, path);
        let mut other: Vec<u8> = content.iter().map(|_| random(&mut seed) as u8).collect();
        for range in meaning.of(&name, &content) {
            let range = range.start as usize..range.end as usize;
            other[range.clone()].copy_from_slice(&content[range]);
        }
        if name.contains("/index-") {
            other = meaning.other_index(&content, &mut seed);
        }
        changed += other.iter().zip(&content).filter(|(a, b)| a != b).count();
        let file = disk.open(path, OpenMode::Existing).unwrap();
        file.write_all_at(&[IoSlice::new(&other)], 0).unwrap();
    }
    assert!(changed > 50_000, "{changed}");
    let (spool, recovery) = open(&disk, &spool_config());
    assert!(!recovery.crashed && recovery.rows == 0 && recovery.rebuilt.is_none(), "{recovery}");
    assert_eq!(readable(&spool, all), want);
    agree(&spool);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    commit(&spool, &(all..all + 40).map(|n| News::new(n, GROUPS, 900)).collect::<Vec<_>>()).unwrap();
    agree(&spool);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

#[test]
fn a_flipped_bit_in_rows_still_to_be_replayed_costs_nothing() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = SpoolConfig { checkpoint_rows: 1 << 30, journal_file_bytes: 1 << 20, ..spool_config() };
    let (spool, _) = open(&disk, &config);
    let all = fill(&spool, 260);
    let want = readable(&spool, all);
    drop(spool);
    let last = disk.list(Path::new("/s/journal")).unwrap().pop().unwrap();
    let path = Path::new("/s/journal").join(last);
    let content = bytes(&disk, &path);
    let end = content.iter().rposition(|b| *b != 0).unwrap() as u64;
    let mut seed = 9;
    // The first rows are in the checkpoint that the opening took. The last ones may be taken for the end of a
    // run that was cut off.
    let replayed = 8 * 1000..8 * (end - 3000);
    for flips in 0..8 {
        let bit =
            if flips == 0 { 3 } else { replayed.start + random(&mut seed) % (replayed.end - replayed.start) };
        let outcome = trial(&sim, &path, bit, &want, all);
        // A file's name tells what a damaged head would.
        assert!(
            outcome.lost == 0 && outcome.noticed && outcome.rebuilt == replayed.contains(&bit),
            "bit {bit}: {} lost",
            outcome.lost
        );
    }
}

#[test]
fn a_dry_run_changes_nothing_and_names_each_repair() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &spool_config());
    let all = fill(&spool, 260);
    let want = readable(&spool, all);
    let segment = Path::new("/s/index/overview/00000000.seg");
    flip(&disk, segment, 8 * 600);
    let dry = spool.repairer().repair(true, &());
    assert!(dry.after.is_none() && dry.repaired.is_empty());
    assert_eq!(dry.before.problems(), 1, "{:?}", dry.before.findings);
    assert_eq!(dry.before.findings[0].repair(), Some("rebuild the rows from the articles"));
    let group = spool.groups()[0].id;
    let over = |spool: &Spool| {
        let mut rows = Vec::new();
        spool
            .groups()
            .iter()
            .all(|g| spool.over(g.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).is_ok())
    };
    assert!(!over(&spool), "the dry run mended it");
    let done = spool.repairer().repair(false, &());
    assert_eq!(done.repaired.len(), 1);
    assert!(done.repaired[0].result.is_ok(), "{:?}", done.repaired);
    assert_eq!(done.after.unwrap().findings, []);
    assert!(over(&spool) && spool.marks(group).is_some());
    assert_eq!(readable(&spool, all), want);
    agree(&spool);
}

/// It was shown by its number at once, and by its Message-ID once its record was written again.
#[test]
fn a_hidden_article_stays_hidden_without_its_record_of_history() {
    let ring = Path::new("/s/index/history/0000000000.ring");
    let config = config("/s", &[("a", 1 << 20)]);
    let (hidden, record) = (News::new(11, GROUPS, 900), 11 * 32);
    // Hidden before the last checkpoint, or after it.
    for is_closed in [true, false] {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        commit(&spool, &(0..40).map(|n| News::new(n, GROUPS, 900)).collect::<Vec<_>>()).unwrap();
        spool.checkpoint().unwrap();
        spool.hide_all(&[hidden.id.as_bytes()], "operator", "spam").unwrap();
        let shown = agree(&spool);
        if is_closed {
            spool.close().unwrap();
        }
        drop(spool);
        let check = |image: SimDisk, what: &str| {
            let disk: Arc<dyn Disk> = Arc::new(image);
            for start in 0..2 {
                let (spool, recovery) = open(&disk, &config);
                let what = format!("{what}, closed: {is_closed}, start {start}: {recovery}");
                let is_noticed = recovery.mended > 0 || recovery.rebuilt.is_some() || recovery.lost.is_some();
                assert_eq!(is_noticed, start == 0, "{what}");
                assert_eq!(agree(&spool), shown, "{what}");
                let found = spool.lookup(&spool.key(hidden.id.as_bytes()));
                assert!(matches!(found, Lookup::Hidden(_)), "{what}: {found:?}");
                assert_eq!(spool.hidden().len(), 1, "{what}");
                assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
                spool.close().unwrap();
            }
        };
        let image = || sim.image_after(CrashKind::Kill, 1).unwrap();
        for bit in (0..32 * 8).step_by(13) {
            let image = image();
            flip(&(Arc::new(image.clone()) as _), ring, record * 8 + bit);
            check(image, &format!("bit {bit}"));
        }
        let spoiled = image();
        spoiled.spoil(ring, 0..512).unwrap();
        check(spoiled, "an unreadable sector");
        let without = image();
        without.remove(ring).unwrap();
        check(without, "all of history lost");
    }
}

/// They went to the end of history: a snapshot left them out, as later numbers had been given out, and their
/// Message-IDs were remembered for longer.
#[test]
fn articles_get_their_records_of_history_back_in_their_places() {
    let ring = Path::new("/s/index/history/0000000000.ring");
    for (method, minutes) in [(MethodKind::Cnfs, 0), (MethodKind::Cnfs, 1), (MethodKind::Hashed, 1)] {
        let config_of = |dir: &str| config(dir, &[("a", 1 << 20), ("b", 1 << 20)]);
        let mut config = config_of("/s");
        let path = PathBuf::from("/s/kept");
        let tree = TreeConfig { path, ..TreeConfig::default() };
        let kept = ClassConfig { name: "kept".into(), method, tree, ..ClassConfig::default() };
        if method != MethodKind::Cnfs {
            config.classes.push(kept);
            let rule =
                RuleConfig { class: "kept".into(), groups: Some("*.g1".into()), ..RuleConfig::default() };
            config.rules.insert(0, rule);
        }
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        disk.create_dir(Path::new("/t")).unwrap();
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        (0..40).for_each(|n| _ = commit_at(&spool, &[News::new(n, GROUPS, 900)], NOW + n * 60 * minutes));
        let state = |spool: &Spool| {
            let seen = |n| spool.seen(&spool.key(News::new(n, GROUPS, 900).id.as_bytes()));
            ((0..40).map(seen).collect::<Vec<_>>(), spool.history_entries(), agree(spool), spool.digest())
        };
        let before = state(&spool);
        assert!(before.0.iter().all(Option::is_some) && before.3.is_some());
        spool.close().unwrap();
        drop(spool);
        let image = || sim.image_after(CrashKind::Kill, 1).unwrap();
        let flipped = |records: &[u64]| {
            let image = image();
            records.iter().for_each(|n| flip(&(Arc::new(image.clone()) as _), ring, n * 256 + 7));
            image
        };
        let spoiled = image();
        spoiled.spoil(ring, 0..512).unwrap();
        for (damage, image) in
            [flipped(&[11]), flipped(&[0]), flipped(&[39]), flipped(&[3, 4, 6, 20]), spoiled]
                .iter()
                .enumerate()
        {
            let what = format!("{method:?}, {minutes} minutes, damage {damage}");
            let disk: Arc<dyn Disk> = Arc::new(image.clone());
            let (spool, recovery) = open(&disk, &config);
            assert!(recovery.mended > 0, "{what}: {recovery}");
            spool.close().unwrap();
            drop(spool);
            let (spool, recovery) = open(&disk, &config);
            assert_eq!(recovery.mended, 0, "{what}: {recovery}");
            assert!(state(&spool) == before, "{what}: {:?}", state(&spool).0);
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
            spool.snapshots().write(Path::new("/t/snapshot"), &|| false, &()).unwrap();
            let to = config_of("/r");
            let restored = restore(disk, to, Path::new("/t/snapshot"), RestoreTarget::New, &()).unwrap();
            assert_eq!((restored.articles, restored.taken), (40, 0), "{what}");
        }
    }
}
