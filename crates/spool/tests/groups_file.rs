//! The groups file: without journal and indexes no group is lost and no number names another article
//! (guarantee G2); what it costs; and that a spool without it opens.

use crate::news::*;
use disk::read_small;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::collections::HashMap;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

const SCALE: u64 = 900;
const COPIES: [&str; 2] = ["/s/groups", "/s/groups.copy"];

fn disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

fn remove_all(disk: &Arc<dyn Disk>, dir: &str) {
    for name in disk.list(Path::new(dir)).unwrap() {
        disk.remove(&Path::new(dir).join(name)).unwrap();
    }
}

fn lose_journal_and_index(disk: &Arc<dyn Disk>) {
    for dir in ["/s/journal", "/s/index", "/s/index/history", "/s/index/overview", "/s/index/residents/00000"]
    {
        remove_all(disk, dir);
    }
}

/// Everything LIST shows of the groups but their marks.
fn described(spool: &Spool) -> Vec<(String, GroupFlag, String, String, u64)> {
    let one =
        |g: &Arc<Group>| (g.name.to_string(), g.flag(), g.description(), g.creator.to_string(), g.created);
    spool.groups().iter().map(one).collect()
}

fn high_marks(spool: &Spool) -> HashMap<String, u64> {
    spool.groups().iter().map(|g| (g.name.to_string(), g.marks().high)).collect()
}

fn feed(spool: &Spool, range: std::ops::Range<u64>, groups: u64) {
    let news: Vec<News> = range.map(|n| News::new(n, groups, SCALE)).collect();
    for part in news.chunks(9) {
        let (ticket, outcomes) = commit(spool, part).unwrap();
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))), "{outcomes:?}");
        while !spool.is_durable(ticket) {
            std::thread::yield_now();
        }
    }
}

/// Nine groups of all kinds: with articles, emptied, never used, changed, removed and made again.
fn nine_groups(spool: &Spool) {
    let new = |n: u64, flag: &str| NewGroup {
        name: format!("test.g{n}"),
        flag: GroupFlag::parse(flag).unwrap(),
        description: format!("group {n}"),
        creator: "who@made.example".into(),
        created: NOW + n,
        high: n * 100,
    };
    let flags = ["y", "n", "m", "j", "x", "=test.g0", "y", "y", "y"];
    let groups: Vec<NewGroup> = (0..).zip(flags).map(|(n, flag)| new(n, flag)).collect();
    spool.add_groups(&groups).unwrap();
    let change = GroupChange { flag: Some(GroupFlag::Moderated), description: Some("changed".into()) };
    assert!(spool.change_group("test.g6", &change).unwrap());
    assert_eq!(spool.raise_high(&[("test.g7".into(), 7_000)]).unwrap(), 1);
    let back = NewGroup { name: "test.g8".into(), created: NOW, ..NewGroup::default() };
    assert!(spool.remove_group("test.g8").unwrap());
    spool.add_groups(&[back]).unwrap();
    let gone = NewGroup { name: "test.gone".into(), high: 40, ..NewGroup::default() };
    spool.add_groups(&[gone]).unwrap();
    assert!(spool.remove_group("test.gone").unwrap());
}

/// Numbers seen before name the same article, or none.
fn same_names(spool: &Spool, before: &[(String, u64, String)], what: &str) {
    let named: HashMap<_, _> = before.iter().map(|(g, number, id)| ((g, *number), id)).collect();
    for (group, number, id) in &agree(spool) {
        let old = named.get(&(group, *number));
        assert!(old.is_none_or(|old| *old == id), "{what}: {group}:{number} names another article now");
    }
}

#[test]
fn no_group_is_lost_with_journal_and_index() {
    for (killed, checkpoint_rows) in [(true, 30), (true, 1 << 40), (false, 1 << 40)] {
        let (_, disk) = disk();
        let config = SpoolConfig { checkpoint_rows, ..config("/s", &[("a", 60_000)]) };
        let (spool, _) = open(&disk, &config);
        nine_groups(&spool);
        // The buffer wraps: of most numbers that were shown no record is left.
        let mut before = Vec::new();
        for n in 0..40 {
            feed(&spool, n * 9..n * 9 + 9, 3);
            before.extend(agree(&spool));
        }
        let (groups, high) = (described(&spool), high_marks(&spool));
        assert_eq!(groups.len(), 9);
        if !killed {
            spool.close().unwrap();
        }
        drop(spool);
        lose_journal_and_index(&disk);
        let (spool, recovery) = open(&disk, &config);
        let what = format!("killed {killed}, {checkpoint_rows}: {recovery}");
        assert_eq!(described(&spool), groups, "{what}");
        for (group, high) in &high {
            let now = high_marks(&spool)[group];
            assert!(now >= *high, "{what}: {group} went from {high} to {now}");
        }
        feed(&spool, 1000..1100, 3);
        same_names(&spool, &before, &what);
        // A removed group that comes back continues after its numbers.
        spool.add_groups(&[NewGroup { name: "test.gone".into(), ..NewGroup::default() }]).unwrap();
        assert!(high_marks(&spool)["test.gone"] >= 40, "{what}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        spool.close().unwrap();
        // A rebuild is not repeated by the next start.
        drop(spool);
        let (spool, recovery) = open(&disk, &config);
        assert_eq!((recovery.rebuilt, recovery.rows), (None, 0), "{recovery}");
        assert_eq!(described(&spool).len(), 10);
    }
}

#[test]
fn an_emptied_group_keeps_its_high_mark_through_a_rebuild() {
    // Few journal files are kept, so the articles of the emptied group are in none of them.
    let config = SpoolConfig { checkpoint_rows: 50, journal_keep_bytes: 0, ..config("/s", &[("a", 60_000)]) };
    for by_command in [false, true] {
        let (_, disk) = disk();
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 4);
        feed(&spool, 0..100, 4);
        let high = high_marks(&spool)["test.g3"];
        let cancelled: Vec<String> =
            agree(&spool).into_iter().filter(|(g, ..)| g == "test.g3").map(|(.., id)| id).collect();
        cancelled.iter().for_each(|id| assert!(spool.cancel(id.as_bytes()).unwrap()));
        feed(&spool, 1000..1600, 3);
        let (before, marks) = (agree(&spool), high_marks(&spool));
        assert_eq!(marks["test.g3"], high);
        spool.close().unwrap();
        drop(spool);
        if by_command {
            rebuild(disk.clone(), config.clone(), &()).unwrap();
        } else {
            for dir in ["/s/index", "/s/index/history", "/s/index/overview", "/s/index/residents/00000"] {
                remove_all(&disk, dir);
            }
        }
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(recovery.rebuilt.is_some(), !by_command, "{recovery}");
        assert_eq!(agree(&spool), before);
        // Numbers are not skipped either: the journal is whole.
        assert_eq!(high_marks(&spool), marks, "{recovery}");
        feed(&spool, 2000..2001, 1);
        assert_eq!(high_marks(&spool)["test.g0"], marks["test.g0"] + 1);
    }
}

/// A crash at any step of a workload, after which journal and indexes are lost: groups that were acknowledged
/// are there, and numbers that were shown are not given again.
#[test]
fn a_crash_and_then_the_loss_of_journal_and_index() {
    let config =
        SpoolConfig { checkpoint_rows: 25, article_bytes_max: 4096, ..config("/s", &[("a", 50_000)]) };
    #[derive(Default)]
    struct Told {
        groups: Vec<String>,
        named: Vec<(String, u64, String)>,
        high: HashMap<String, u64>,
    }
    let run = |sim: &SimDisk, told: &mut Told| -> TestResult {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = Spool::open(disk, config.clone(), &())?;
        for n in 0..12u64 {
            let new = NewGroup { name: format!("test.g{n}"), created: NOW, ..NewGroup::default() };
            spool.add_groups(&[new])?;
            told.groups.push(format!("test.g{n}"));
            let news: Vec<News> = (n * 9..n * 9 + 9).map(|i| News::new(i, 1, 700)).collect();
            let (ticket, _) = commit(&spool, &news)?;
            while !spool.is_durable(ticket) {
                if let Some(trouble) = spool.trouble() {
                    return Err(trouble.into());
                }
                std::thread::yield_now();
            }
            // A reader on a machine that ends just now learns nothing.
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| agree(&spool)));
            match seen {
                Ok(seen) => told.named.extend(seen),
                Err(_) if sim.crashed() => return Err("the machine has ended".into()),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            told.high = high_marks(&spool);
        }
        Ok(spool.close()?)
    };
    let sim = SimDisk::new();
    run(&sim, &mut Told::default()).unwrap();
    let steps = sim.steps();
    let mut tried = 0;
    for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
        tried += crashed_at((0..steps).step_by(3), kind, run, |image, told: &Told, what| {
            let disk: Arc<dyn Disk> = Arc::new(image);
            lose_journal_and_index(&disk);
            let (spool, recovery) = open(&disk, &config);
            for group in &told.groups {
                assert!(spool.group_id(group.as_bytes()).is_some(), "{what}: {group} is lost ({recovery})");
            }
            for (group, high) in &told.high {
                assert!(high_marks(&spool)[group] >= *high, "{what}: high mark of {group}");
            }
            add_groups(&spool, 12);
            feed(&spool, 500..560, 1);
            same_names(&spool, &told.named, what);
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
        });
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn a_damaged_copy_costs_nothing_and_is_repaired() {
    let config = config("/s", &[("a", 400_000)]);
    for damaged in COPIES {
        for at in [0, 9, 20, 40, 120] {
            let (_, disk) = disk();
            let (spool, _) = open(&disk, &config);
            nine_groups(&spool);
            feed(&spool, 0..60, 3);
            let (groups, high) = (described(&spool), high_marks(&spool));
            let flip = || {
                let file = disk.open(Path::new(damaged), OpenMode::Existing).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[IoSlice::new(&[byte[0] ^ 16])], at).unwrap();
            };
            flip();
            let findings = spool.verifier().verify(&()).findings;
            assert!(findings.len() == 1 && findings[0].place == damaged, "{findings:?}");
            let report = spool.repairer().repair(false, &());
            assert_eq!(
                (report.before.problems(), report.after.as_ref().unwrap().problems()),
                (1, 0),
                "{report:?}"
            );
            assert_eq!(spool.verifier().verify(&()).findings, []);
            spool.close().unwrap();
            drop(spool);
            flip();
            lose_journal_and_index(&disk);
            let (spool, _) = open(&disk, &config);
            assert_eq!(described(&spool), groups, "{damaged} {at}");
            assert!(high.iter().all(|(group, high)| high_marks(&spool)[group] >= *high), "{damaged} {at}");
        }
    }
}

/// Spools of versions that wrote no such file open as they did, and have one from then on.
#[test]
fn a_spool_without_the_file_opens() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    for killed in [false, true] {
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 3);
        let from = if killed { 100 } else { 0 };
        feed(&spool, from..from + 40, 3);
        let before = (agree(&spool), high_marks(&spool));
        if !killed {
            spool.close().unwrap();
        }
        drop(spool);
        COPIES.iter().for_each(|path| disk.remove(Path::new(path)).unwrap());
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(recovery.rebuilt, None, "{recovery}");
        assert_eq!((agree(&spool), high_marks(&spool)), before);
        assert_eq!(spool.verifier().verify(&()).findings, []);
        spool.close().unwrap();
    }
}

/// An import of many groups is one write and one sync, as that of one group is.
#[test]
fn an_import_of_many_groups_takes_as_many_steps_as_that_of_one() {
    let (sim, disk) = disk();
    let config = SpoolConfig { journal_file_bytes: 64 << 20, ..config("/s", &[("a", 400_000)]) };
    let (spool, _) = open(&disk, &config);
    let cost = |range: std::ops::Range<u64>| {
        let before = sim.steps();
        let new = |n| NewGroup { name: format!("imported.g{n}"), created: NOW, ..NewGroup::default() };
        let groups: Vec<NewGroup> = range.map(new).collect();
        assert_eq!(spool.add_groups(&groups).unwrap(), groups.len());
        sim.steps() - before
    };
    let one = cost(0..1);
    // One more for the space; and the syncing thread may have its turn.
    assert!(cost(1..20_001) <= one + 20);
}

/// The content of a file.
fn bytes_of(disk: &Arc<dyn Disk>, path: &Path) -> Vec<u8> {
    read_small(&**disk, path, 1 << 20).unwrap().unwrap()
}

/// A closed spool with groups and articles, and its configuration.
fn closed() -> (SimDisk, SpoolConfig) {
    let (sim, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    nine_groups(&spool);
    feed(&spool, 0..9, 3);
    spool.close().unwrap();
    (sim, config)
}

/// Flips a bit of each byte of a file below `/s` that `bytes` names, and opens the spool each time: what was
/// damaged must be kept aside, the file whole again, and the spool without a finding.
fn each_flip_is_kept_aside(name: &str, bytes: impl Iterator<Item = usize>) {
    let (sim, config) = closed();
    let path = Path::new("/s").join(name);
    let mut tried = 0;
    for at in bytes {
        let disk: Arc<dyn Disk> = Arc::new(sim.image().unwrap());
        let whole = bytes_of(&disk, &path);
        let Some(byte) = whole.get(at) else { break };
        let file = disk.open(&path, OpenMode::Existing).unwrap();
        file.write_all_at(&[IoSlice::new(&[byte ^ 1 << (at % 8)])], at as u64).unwrap();
        let damaged = bytes_of(&disk, &path);
        let (spool, recovery) = open(&disk, &config);
        let aside = path.with_extension(if name.contains('.') { "copy.damaged" } else { "damaged" });
        assert_eq!(bytes_of(&disk, &aside), damaged, "{name} at {at}: {recovery}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{name} at {at}");
        assert!(fetch(&spool, &News::new(3, 3, SCALE).id).is_some(), "{name} at {at}");
        tried += 1;
    }
    assert!(tried > 0);
}

#[test]
fn each_damaged_byte_of_the_groups_file_is_kept_aside_as_the_spool_opens() {
    // Each of the head and of rows, and some of the space that is reserved.
    for name in ["groups", "groups.copy"] {
        each_flip_is_kept_aside(name, (0..400).chain((400..65_536).step_by(9_973)));
    }
}

#[test]
fn each_damaged_byte_of_the_secret_is_kept_aside_as_the_spool_opens() {
    each_flip_is_kept_aside("secret", 0..42);
}

#[test]
fn a_copy_of_the_groups_file_that_is_missing_is_reported() {
    for name in COPIES {
        let (sim, config) = closed();
        let disk: Arc<dyn Disk> = Arc::new(sim);
        disk.remove(Path::new(name)).unwrap();
        let (spool, recovery) = open(&disk, &config);
        assert!(
            recovery.to_string().contains("a copy of the groups file was damaged or missing"),
            "{recovery}"
        );
        assert_eq!(spool.verifier().verify(&()).findings, [], "{name}");
    }
}
