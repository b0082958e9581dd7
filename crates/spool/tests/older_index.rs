//! An older journal and older indexes put back beside newer files of articles: what no index knows is taken
//! in, and never overwritten or removed.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GROUPS: u64 = 3;
const TREES: [MethodKind; 4] =
    [MethodKind::Tradspool, MethodKind::Bucketed, MethodKind::Hashed, MethodKind::Timehash];
/// Where the articles are: next to the site's directory, so that the one goes back without the other.
const KEPT: &str = "/kept";

fn kept_config(method: MethodKind) -> SpoolConfig {
    let mut config = config("/s", &[]);
    let class = &mut config.classes[0];
    (class.method, class.size_bytes) = (method, 4 << 20);
    class.tree = TreeConfig { path: KEPT.into(), file_bytes: 16 << 10, ..TreeConfig::default() };
    class.tree.lines_end_in_lf = method == MethodKind::Bucketed;
    config
}

fn news(n: u64) -> News {
    News::new(n, GROUPS, 700)
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// All files below a directory.
fn files(disk: &SimDisk, root: &str) -> Files {
    let (mut found, mut dirs) = (Files::new(), vec![PathBuf::from(root)]);
    while let Some(dir) = dirs.pop() {
        dirs.extend(disk.list_dirs(&dir).unwrap().into_iter().map(|name| dir.join(name)));
        for path in disk.list(&dir).unwrap().into_iter().map(|name| dir.join(name)) {
            let file = disk.open(&path, OpenMode::ReadOnly).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Puts back what was below the site's directory.
fn put_back(disk: &SimDisk, old: &Files) {
    for path in files(disk, "/s").keys() {
        disk.remove(path).unwrap();
    }
    for (path, bytes) in old {
        disk.create_dir(path.parent().unwrap()).unwrap();
        let file = disk.open(path, OpenMode::Create).unwrap();
        file.write_all_at(&[IoSlice::new(bytes)], 0).unwrap();
        file.sync().unwrap();
    }
    for dir in old.keys().flat_map(|path| path.ancestors().skip(1)).filter(|dir| dir.starts_with("/s")) {
        disk.sync_dir(dir).unwrap();
    }
}

/// A spool of 30 articles, closed, and then 30 more; its indexes are those of the first 30 again. Returns the
/// articles' files as they were then.
fn with_older_indexes(disk: &SimDisk, config: &SpoolConfig) -> Files {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (spool, _) = open(&shared, config);
    add_groups(&spool, GROUPS);
    commit(&spool, &(0..30).map(news).collect::<Vec<_>>()).unwrap();
    spool.close().unwrap();
    drop(spool);
    let (old, kept) = (files(disk, "/s"), files(disk, KEPT));
    let (spool, _) = open(&shared, config);
    (30..60).for_each(|n| drop(commit_at(&spool, &[news(n)], NOW + n).unwrap()));
    spool.close().unwrap();
    drop(spool);
    put_back(disk, &old);
    kept
}

/// The files of articles, with their names and content.
fn articles(files: &Files) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
    files.iter().filter(|(_, bytes)| bytes.starts_with(b"Xref: "))
}

fn assert_there(spool: &Spool, range: std::ops::Range<u64>, what: &str) {
    for n in range {
        let article = news(n);
        assert!(fetch(spool, &article.id).as_ref() == Some(&article.wire), "{what}: {}", article.id);
    }
}

#[test]
fn articles_that_came_after_the_indexes_are_taken_in() {
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        let (disk, config) = (SimDisk::new(), kept_config(method));
        with_older_indexes(&disk, &config);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (spool, recovery) = open(&shared, &config);
        let what = format!("{method:?}: {recovery}");
        assert_eq!(recovery.taken_in, 30, "{what}");
        assert_there(&spool, 0..60, &what);
        commit(&spool, &(60..90).map(news).collect::<Vec<_>>()).unwrap();
        assert_there(&spool, 0..90, &what);
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        agree(&spool);
        spool.close().unwrap();
        drop(spool);
        let (spool, recovery) = open(&shared, &config);
        assert_eq!(recovery.taken_in, 0, "{what}");
        assert_there(&spool, 0..90, &what);
    }
}

/// Whatever of the newer articles cannot be taken in stays as it is, after new articles, a repair and a
/// rebuild too.
#[test]
fn no_article_is_overwritten_or_removed() {
    for method in [MethodKind::Tradspool, MethodKind::Bucketed] {
        let (disk, config) = (SimDisk::new(), kept_config(method));
        let old = with_older_indexes(&disk, &config);
        // Nothing shows that they are newer: neither the position, nor the first number of each group.
        disk.remove(&Path::new(KEPT).join("newsreel.position")).unwrap();
        let mut first = BTreeMap::new();
        for (path, _) in articles(&files(&disk, KEPT)).filter(|(path, _)| !old.contains_key(*path)) {
            let number: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let group = path.ancestors().nth(if method == MethodKind::Bucketed { 2 } else { 1 }).unwrap();
            let least = first.entry(group.to_owned()).or_insert((number, path.clone()));
            *least = least.clone().min((number, path.clone()));
        }
        assert_eq!(first.len() as u64, GROUPS);
        first.values().for_each(|(_, path)| disk.remove(path).unwrap());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let before = files(&disk, KEPT);
        let (spool, recovery) = open(&shared, &config);
        let what = format!("{method:?}: {recovery}");
        (60..120).for_each(|n| drop(commit_at(&spool, &[news(n)], NOW + n - 30).unwrap()));
        assert!(spool.meter().status().unwrap().passed_over > 0, "{what}");
        let repaired = spool.repairer().repair(false, &());
        let assert_same = |when: &str| {
            let after = files(&disk, KEPT);
            for (path, bytes) in articles(&before) {
                let is_same = after.get(path) == Some(bytes);
                assert!(is_same, "{what}, {when}: {} has changed ({repaired:?})", path.display());
            }
        };
        let assert_lives = |spool: &Spool, when: &str| {
            assert_there(spool, 0..30, &format!("{what}, {when}"));
            assert_there(spool, 60..120, &format!("{what}, {when}"));
            agree(spool);
        };
        assert_same("repaired");
        assert_lives(&spool, "repaired");
        spool.close().unwrap();
        drop(spool);
        rebuild(shared.clone(), config.clone(), &()).unwrap();
        let (spool, _) = open(&shared, &config);
        assert_same("rebuilt");
        assert_lives(&spool, "rebuilt");
    }
}

/// The numbers of articles that no index knows are not assigned again, although no name shows them.
#[test]
fn without_a_recorded_position_no_number_is_given_twice() {
    for method in TREES {
        for damaged in [false, true] {
            let (disk, config) = (SimDisk::new(), kept_config(method));
            with_older_indexes(&disk, &config);
            let position = Path::new(KEPT).join("newsreel.position");
            match damaged {
                true => {
                    let file = disk.open(&position, OpenMode::Existing).unwrap();
                    file.write_all_at(&[IoSlice::new(b"1")], 0).unwrap();
                }
                false => disk.remove(&position).unwrap(),
            }
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let (spool, recovery) = open(&shared, &config);
            assert_eq!(recovery.taken_in, 30, "{method:?}: {recovery}");
            (60..90).for_each(|n| drop(commit_at(&spool, &[news(n)], NOW + n).unwrap()));
            assert_there(&spool, 0..90, &format!("{method:?}"));
            assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
            agree(&spool);
        }
    }
}

/// Two spools that went on from one, and the files of both in one tree: a rebuild lets each number name one
/// article.
#[test]
fn a_rebuild_gives_no_number_twice() {
    for method in [MethodKind::Hashed, MethodKind::Timehash] {
        let (disk, config) = (SimDisk::new(), kept_config(method));
        let go_on = |disk: &SimDisk, range: std::ops::Range<u64>| {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let (spool, _) = open(&shared, &config);
            range.for_each(|n| drop(commit_at(&spool, &[news(n)], NOW + n).unwrap()));
            spool.close().unwrap();
        };
        {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let (spool, _) = open(&shared, &config);
            add_groups(&spool, GROUPS);
            spool.close().unwrap();
        }
        go_on(&disk, 0..30);
        let other = disk.image().unwrap();
        go_on(&disk, 30..60);
        go_on(&other, 60..90);
        let there = files(&other, KEPT);
        let newer = files(&disk, KEPT);
        for (path, bytes) in articles(&newer).filter(|(path, _)| !there.contains_key(*path)) {
            other.create_dir(path.parent().unwrap()).unwrap();
            let file = other.open(path, OpenMode::Create).unwrap();
            file.write_all_at(&[IoSlice::new(bytes)], 0).unwrap();
        }
        let both = files(&other, KEPT);
        let shared: Arc<dyn Disk> = Arc::new(other.clone());
        let report = rebuild(shared.clone(), config.clone(), &()).unwrap();
        let (spool, _) = open(&shared, &config);
        agree(&spool);
        assert!((45..90).contains(&report.articles), "{method:?}: {report:?}");
        assert_there(&spool, 0..30, &format!("{method:?}"));
        let after = files(&other, KEPT);
        assert!(articles(&both).all(|(path, bytes)| after.get(path) == Some(bytes)), "{method:?}");
    }
}

/// A repair takes in what no later article stands in the way of, in the order in which it came.
#[test]
fn a_repair_takes_in_what_no_index_knows() {
    for method in TREES {
        let (disk, config) = (SimDisk::new(), kept_config(method));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (spool, _) = open(&shared, &config);
        add_groups(&spool, GROUPS);
        commit(&spool, &(0..30).map(news).collect::<Vec<_>>()).unwrap();
        spool.close().unwrap();
        drop(spool);
        let old = files(&disk, "/s");
        // A copy of the spool continues elsewhere, and its new files are put beside the original.
        let elsewhere = disk.image().unwrap();
        let other: Arc<dyn Disk> = Arc::new(elsewhere.clone());
        let (spool, _) = open(&other, &config);
        (30..60).for_each(|n| drop(commit_at(&spool, &[news(n)], NOW + n).unwrap()));
        spool.close().unwrap();
        drop(spool);
        assert!(!old.is_empty());
        let (spool, _) = open(&shared, &config);
        let there = files(&disk, KEPT);
        for (path, bytes) in files(&elsewhere, KEPT).iter().filter(|(path, _)| !there.contains_key(*path)) {
            disk.create_dir(path.parent().unwrap()).unwrap();
            let file = disk.open(path, OpenMode::Create).unwrap();
            file.write_all_at(&[IoSlice::new(bytes)], 0).unwrap();
        }
        let dry = spool.repairer().repair(true, &());
        assert!(dry.before.problems() >= 30, "{method:?}: {dry:?}");
        let told = |f: &Finding| f.what.contains("is a whole article that no index knows");
        assert!(dry.before.findings.iter().all(told), "{method:?}: {dry:?}");
        let repaired = spool.repairer().repair(false, &());
        let after = repaired.after.as_ref().unwrap();
        assert_eq!(after.findings, [], "{method:?}");
        assert_there(&spool, 0..60, &format!("{method:?}"));
        agree(&spool);
        spool.close().unwrap();
        drop(spool);
        let (spool, _) = open(&shared, &config);
        assert_there(&spool, 0..60, &format!("{method:?}, opened again"));
    }
}

/// The machine stops at every step of the opening that takes articles in, and of what follows it.
fn crash_everywhere(kind: CrashKind) {
    for method in TREES {
        let config = kept_config(method);
        let prepared = SimDisk::new();
        with_older_indexes(&prepared, &config);
        let run = |disk: &SimDisk| -> TestResult {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let (spool, _) = Spool::open(shared, config.clone(), &())?;
            for n in 60..66 {
                commit_at(&spool, &[news(n)], NOW + n)?;
            }
            Ok(spool.close()?)
        };
        let whole = prepared.image().unwrap();
        let begin = whole.steps();
        run(&whole).unwrap();
        for step in (begin..whole.steps()).step_by(crash_every(3)) {
            let what = format!("{method:?} {kind:?} at step {step}");
            let disk = prepared.image().unwrap();
            disk.crash_at(step, kind, step * 7919);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&disk)));
            assert!(ended.is_ok() || disk.crashed(), "{what}");
            let left = disk.image().unwrap();
            let shared: Arc<dyn Disk> = Arc::new(left);
            let (spool, recovery) = open(&shared, &config);
            eprintln!("{what}: {recovery}");
            assert_there(&spool, 0..60, &format!("{what}: {recovery}"));
            commit_at(&spool, &[news(70)], NOW + 70).unwrap();
            assert_there(&spool, 70..71, &what);
            assert_there(&spool, 0..60, &what);
            agree(&spool);
        }
    }
}

#[test]
fn killed_at_every_step_while_articles_are_taken_in() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn power_cut_at_every_step_while_articles_are_taken_in() {
    crash_everywhere(CrashKind::Power);
}
