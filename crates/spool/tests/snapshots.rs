//! Snapshots: a site is made of one in other buffers, classes and methods, and is the same.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, Progress, SimDisk};
use netnews::wildmat::Wildmat;
use spool::*;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = "/t/news.snapshot";
const ARTICLES: u64 = 700;

fn disk() -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    disk.create_dir(Path::new("/t")).unwrap();
    disk
}

/// A buffer that is too small for all, and a class that keeps.
fn source() -> SpoolConfig {
    with_kept(config("/s", &[("a", 256 << 10)]), MethodKind::AppendOnly)
}

/// Other buffers and another method.
fn target(dir: &str) -> SpoolConfig {
    with_kept(config(dir, &[("b", 1 << 20), ("c", 512 << 10)]), MethodKind::Hashed)
}

fn with_kept(mut config: SpoolConfig, method: MethodKind) -> SpoolConfig {
    let tree = TreeConfig { path: config.dir.join("kept"), file_bytes: 64 << 10, ..TreeConfig::default() };
    let size_bytes = if method == MethodKind::AppendOnly { 4 << 20 } else { 0 };
    let name = "kept".to_owned();
    config.classes.push(ClassConfig { name, method, size_bytes, tree, ..ClassConfig::default() });
    let rule = RuleConfig { class: "kept".into(), groups: Some("*.g1".into()), ..RuleConfig::default() };
    config.rules.insert(0, rule);
    config.durability = Durability::Process;
    config
}

fn news(n: u64) -> News {
    News::new(n, 4, 400)
}

/// Fills a spool with whatever a snapshot has to carry.
fn fill(spool: &Spool) {
    add_groups(spool, 5);
    for n in 0..ARTICLES {
        commit_at(spool, &[News { is_hidden: n % 97 == 0, ..news(n) }], NOW + n).unwrap();
        if n % 31 == 0 {
            spool.commit_one(Change::Remember { id: ArticleIdent::Id(b"<r@x>"), arrived: NOW + n }).unwrap();
        }
    }
    // The last article of each group among them, whose number stays used.
    for n in [3, 650, 651].into_iter().chain(ARTICLES - 5..ARTICLES) {
        spool.cancel(news(n).id.as_bytes()).unwrap();
    }
    spool.hide_all(&[news(660).id.as_bytes()], "operator", "why").unwrap();
    let note =
        Change::Note { kind: NoteKind::EarlyCancel, key: b"key", value: Some(b"sha256:a"), since: NOW };
    spool.commit_one(note).unwrap();
    let change = GroupChange { flag: Some(GroupFlag::Moderated), description: Some("for a test".into()) };
    spool.change_group("test.g2", &change).unwrap();
    spool.raise_high(&[("test.g4".into(), 900)]).unwrap();
    spool.add_groups(&[NewGroup { name: "old.group".into(), high: 77, ..NewGroup::default() }]).unwrap();
    spool.remove_group("old.group").unwrap();
}

/// What readers are answered, and what is known.
fn answers(spool: &Spool) -> Vec<String> {
    let mut all: Vec<String> =
        agree(spool).iter().map(|(group, n, id)| format!("{group}:{n} {id}")).collect();
    for group in spool.groups().iter() {
        let (marks, flag) = (group.marks(), group.flag());
        all.push(format!("{} {marks:?} {flag} {} {:?}", group.name, group.created, group.description()));
        let mut rows = Vec::new();
        spool.over(group.id, 0..=u64::MAX, usize::MAX, disk::ReadMode::Wait, &mut rows).unwrap();
        all.extend(String::from_utf8(rows).unwrap().lines().map(str::to_owned));
    }
    all.extend((0..ARTICLES + 10).filter_map(|n| fetch(spool, &news(n).id)).map(|wire| format!("{wire:?}")));
    for n in 0..ARTICLES + 10 {
        all.push(format!("{n} {:?}", spool.seen(&spool.key(news(n).id.as_bytes()))));
    }
    let hidden = |h: Arc<HiddenArticle>| format!("{} {} {} {}", h.message_id, h.since, h.by, h.reason);
    all.extend(spool.hidden().into_iter().map(hidden));
    all
}

/// Restores the snapshot and compares the site with another.
fn assert_restored(disk: &Arc<dyn Disk>, dir: &str, expected: &[String], digest: Option<SiteDigest>) {
    let report = restore(disk.clone(), target(dir), Path::new(FILE), RestoreTarget::New, &()).unwrap();
    assert_eq!((report.unfit, report.displaced, report.is_same), (0, 0, Some(true)), "{report:?}");
    assert_eq!(report.digest, digest);
    let (spool, _) = open(disk, &target(dir));
    assert_eq!(answers(&spool), expected);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    // A group of a removed one's name continues its numbers.
    spool.add_groups(&[NewGroup { name: "old.group".into(), ..NewGroup::default() }]).unwrap();
    assert_eq!(spool.group(spool.group_id(b"old.group").unwrap()).unwrap().marks().high, 77);
    spool.close().unwrap();
}

#[test]
fn a_site_restored_in_other_buffers_and_classes_is_the_same() {
    let disk = disk();
    let (spool, _) = open(&disk, &source());
    fill(&spool);
    let report = spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    let (expected, digest) = (answers(&spool), spool.digest());
    assert!(expected.iter().any(|line| line.contains("test.g1:")) && report.articles > 300, "{report:?}");
    assert!(report.articles < ARTICLES && report.ids > 100, "{report:?}");
    assert_eq!((report.unreadable, report.is_continued), (0, false));
    spool.close().unwrap();
    drop(spool);
    assert_restored(&disk, "/r", &expected, digest);
    // Done again, it changes nothing.
    let report = restore(disk.clone(), target("/q"), Path::new(FILE), RestoreTarget::New, &()).unwrap();
    let refused = restore(disk.clone(), target("/q"), Path::new(FILE), RestoreTarget::New, &());
    assert!(refused.unwrap_err().to_string().contains("/q has the news of this site already"));
    let again = restore(disk.clone(), target("/q"), Path::new(FILE), RestoreTarget::Restored, &());
    assert_eq!(report.known, 0);
    let again = again.unwrap();
    assert_eq!((again.known, again.is_same), (again.articles, Some(true)));
    let text = restore(disk.clone(), source(), Path::new("/t/other"), RestoreTarget::New, &())
        .unwrap_err()
        .to_string();
    assert!(text.contains("/t/other"), "{text}");
}

#[test]
fn a_snapshot_is_restored_as_it_arrives_and_continued_after_an_interruption() {
    let disk = disk();
    let (spool, _) = open(&disk, &source());
    fill(&spool);
    spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    let (expected, digest) = (answers(&spool), spool.digest());
    spool.close().unwrap();
    drop(spool);
    let whole = disk.open(Path::new(FILE), OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; whole.len().unwrap() as usize];
    whole.read_exact_at(&mut bytes, 0).unwrap();

    let path = Path::new("/t/arriving");
    for method in [MethodKind::Hashed, MethodKind::Tradspool] {
        let dir = format!("/{method:?}");
        let to = with_kept(config(&dir, &[("b", 1 << 20), ("c", 512 << 10)]), method);
        let arrive = |upto: usize, end: ArrivalEnd| {
            let file = disk.open(path, OpenMode::Create).unwrap();
            let arrival = SnapshotArrival::default();
            std::thread::scope(|scope| {
                let restoring = scope.spawn(|| {
                    let new = RestoreTarget::Restored;
                    restore_arriving(disk.clone(), to.clone(), path, &arrival, new)
                });
                for (n, piece) in bytes[..upto].chunks(5_000).enumerate() {
                    file.write_all_at(&[IoSlice::new(piece)], n as u64 * 5_000).unwrap();
                    arrival.reached((n * 5_000 + piece.len()) as u64);
                    std::thread::yield_now();
                }
                arrival.ended(end);
                restoring.join().unwrap()
            })
        };
        for upto in [3, bytes.len() / 3, bytes.len() - 1] {
            let error =
                arrive(upto, ArrivalEnd::Failed("the link is broken".into())).unwrap_err().to_string();
            assert!(error.contains("the link is broken"), "{error}");
        }
        let error = arrive(bytes.len() - 1, ArrivalEnd::Whole).unwrap_err().to_string();
        assert!(error.contains("its end is missing"), "{error}");
        let report = arrive(bytes.len(), ArrivalEnd::Whole).unwrap();
        assert_eq!((report.is_same, report.digest), (Some(true), digest), "{report:?}");
        let (spool, _) = open(&disk, &to);
        assert_eq!(answers(&spool), expected);
        spool.close().unwrap();
    }
}

/// Changes the site after the first part of a snapshot.
struct Meanwhile<'s> {
    spool: &'s Spool,
    is_done: AtomicBool,
}

impl Progress for Meanwhile<'_> {
    fn start(&self, _: &str, _: u64) {}
    fn finish(&self) {}
    fn step(&self, _: u64) {
        if self.is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        for n in [500, 501, 502] {
            self.spool.cancel(news(n).id.as_bytes()).unwrap();
        }
        self.spool.unhide_all(&[self.spool.key(news(660).id.as_bytes())]).unwrap();
        self.spool.hide_all(&[news(661).id.as_bytes()], "operator", "later").unwrap();
        self.spool.purge(&Wildmat::parse(b"test.g3").unwrap(), false, &()).unwrap();
        self.spool.remove_group("test.g0").unwrap();
        let more: Vec<News> = (ARTICLES..ARTICLES + 9).map(|n| News::new(n, 3, 400)).collect();
        for article in more {
            commit_at(self.spool, &[article], NOW + ARTICLES).unwrap();
        }
    }
}

#[test]
fn what_changes_while_a_snapshot_is_written_is_in_it() {
    let disk = disk();
    let (spool, _) = open(&disk, &source());
    fill(&spool);
    let meanwhile = Meanwhile { spool: &spool, is_done: AtomicBool::new(false) };
    spool.snapshots().write(Path::new(FILE), &|| false, &meanwhile).unwrap();
    assert!(meanwhile.is_done.into_inner());
    let (expected, digest) = (answers(&spool), spool.digest());
    spool.close().unwrap();
    drop(spool);
    assert_restored(&disk, "/r", &expected, digest);
}

#[test]
fn a_snapshot_and_a_restoration_that_were_killed_are_continued() {
    let sim = SimDisk::new();
    sim.create_dir(Path::new("/t")).unwrap();
    let whole: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&whole, &source());
    fill(&spool);
    let (expected, digest) = (answers(&spool), spool.digest());
    spool.close().unwrap();
    drop(spool);
    let begun = sim.steps();
    let copy = sim.image().unwrap();
    let run = |sim: &SimDisk| -> TestResult {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let (spool, _) = Spool::open(disk.clone(), source(), &())?;
        if disk.open(Path::new(FILE), OpenMode::ReadOnly).is_err() {
            spool.snapshots().write(Path::new(FILE), &|| false, &())?;
        }
        spool.close()?;
        drop(spool);
        restore(disk, target("/r"), Path::new(FILE), RestoreTarget::Restored, &())?;
        Ok(())
    };
    run(&sim).unwrap();
    let steps = sim.steps() - begun;
    let (mut tried, mut begun_again) = (0, 0);
    for step in (0..steps).step_by(crash_every(211)) {
        let sim = copy.image().unwrap();
        sim.crash_at(sim.steps() + step, CrashKind::Kill, step);
        let _killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&sim)));
        let image = sim.image().unwrap();
        tried += 1;
        if let Err(error) = run(&image) {
            // Killed before the new spool has a note of the machine's start, it has no article either.
            assert!(error.to_string().contains("it must begin again"), "killed at step {step}: {error}");
            begun_again += 1;
            continue;
        }
        let disk: Arc<dyn Disk> = Arc::new(image);
        let (spool, _) = open(&disk, &target("/r"));
        assert_eq!(spool.digest(), digest, "killed at step {step}");
        assert_eq!(answers(&spool), expected, "killed at step {step}");
    }
    // Some thirty steps make the spool, of 1,365.
    assert!(tried > 3 && begun_again * 40 <= tried, "{begun_again} of {tried}");
}

#[test]
fn a_restoration_during_which_the_machine_went_down_begins_again() {
    let sim = SimDisk::new();
    sim.create_dir(Path::new("/t")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &source());
    fill(&spool);
    spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    let digest = spool.digest();
    spool.close().unwrap();
    drop(spool);
    let copy = sim.image().unwrap();
    let run = |sim: &SimDisk| {
        restore(Arc::new(sim.clone()), target("/r"), Path::new(FILE), RestoreTarget::New, &())
    };
    let begun = sim.steps();
    run(&sim).unwrap();
    let steps = sim.steps() - begun;
    let mut refused = 0;
    for step in (0..steps).step_by(crash_every(131)) {
        let sim = copy.image().unwrap();
        sim.crash_at(sim.steps() + step, CrashKind::Power, step);
        let _down = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&sim)));
        let image = sim.image().unwrap();
        match run(&image).map_err(|error| error.to_string()) {
            Ok(report) => assert_eq!(report.digest, digest, "down at step {step}"),
            Err(why) if why.contains("has the news of this site already") => {}
            Err(why) => {
                assert!(why.contains("it must begin again: rm -rf /r/secret "), "down at step {step}: {why}");
                refused += 1;
            }
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn no_damaged_byte_of_a_snapshot_passes() {
    let sim = SimDisk::new();
    sim.create_dir(Path::new("/t")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &source());
    add_groups(&spool, 4);
    commit(&spool, &(0..5).map(news).collect::<Vec<_>>()).unwrap();
    spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    let file = disk.open(Path::new(FILE), OpenMode::Existing).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(spool::fuzzing::snapshot(&bytes).unwrap(), 1 + 4 + 5 + 4 + 2);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(spool::fuzzing::snapshot(&flipped).is_err(), "byte {at}");
    }
    let dir = PathBuf::from("/cut");
    for cut in [0, 5, 12, bytes.len() - 1] {
        let path = dir.join(format!("{cut}"));
        disk.create_dir(&dir).unwrap();
        disk::durable_replace(&*disk, &path, &[&bytes[..cut]], disk::FileAccess::Owner).unwrap();
        let error =
            restore(disk.clone(), target("/r"), &path, RestoreTarget::New, &()).unwrap_err().to_string();
        assert!(error.contains("is not a whole snapshot"), "{error}");
    }
}

/// Removes a group and adds it again after the first part of a snapshot, with other articles.
struct AddedAgain<'s> {
    spool: &'s Spool,
    is_done: AtomicBool,
    /// Articles filed in it then.
    articles: u64,
}

impl Progress for AddedAgain<'_> {
    fn start(&self, _: &str, _: u64) {}
    fn finish(&self) {}
    fn step(&self, _: u64) {
        if self.is_done.swap(true, Ordering::Relaxed) {
            return;
        }
        self.spool.remove_group("test.g3").unwrap();
        self.spool.add_groups(&[NewGroup { name: "test.g3".into(), ..NewGroup::default() }]).unwrap();
        for n in 0..self.articles {
            let article = News { groups: vec!["test.g3".into()], ..news(ARTICLES + n) };
            commit_at(self.spool, &[article], NOW + ARTICLES).unwrap();
        }
    }
}

#[test]
fn a_group_that_is_added_again_meanwhile_has_none_of_the_old_articles() {
    // With more articles, new ones are in the file before the end is written.
    for articles in [0, 5, 600] {
        let disk = disk();
        let (spool, _) = open(&disk, &source());
        fill(&spool);
        let again = AddedAgain { spool: &spool, is_done: AtomicBool::new(false), articles };
        spool.snapshots().write(Path::new(FILE), &|| false, &again).unwrap();
        assert!(again.is_done.into_inner());
        let digest = spool.digest();
        spool.close().unwrap();
        drop(spool);
        let report = restore(disk.clone(), target("/r"), Path::new(FILE), RestoreTarget::New, &()).unwrap();
        assert_eq!((report.is_same, report.digest), (Some(true), digest), "{articles}: {report:?}");
    }
}

/// A spool whose snapshot has several frames.
fn long(disk: &Arc<dyn Disk>) -> Spool {
    let (spool, _) = open(disk, &config("/s", &[("a", 16 << 20)]));
    add_groups(&spool, 5);
    for n in 0..1_500 {
        commit_at(&spool, &[News::new(n, 4, 2_000)], NOW + n).unwrap();
    }
    spool
}

#[test]
fn an_interrupted_snapshot_is_continued_unless_a_group_was_removed_meanwhile() {
    let disk = disk();
    let spool = long(&disk);
    let error = spool.snapshots().write(Path::new(FILE), &|| true, &()).unwrap_err().to_string();
    assert!(error.contains("the next call continues"), "{error}");
    assert_eq!(disk.list(Path::new("/t")).unwrap(), ["news.snapshot.part"]);
    spool.remove_group("test.g3").unwrap();
    spool.add_groups(&[NewGroup { name: "test.g3".into(), ..NewGroup::default() }]).unwrap();
    let report = spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    assert!(!report.is_continued, "{report:?}");
    let other = Path::new("/t/other.snapshot");
    spool.snapshots().write(other, &|| true, &()).unwrap_err();
    assert!(spool.snapshots().write(other, &|| false, &()).unwrap().is_continued);
    let digest = spool.digest();
    spool.close().unwrap();
    drop(spool);
    for (dir, file) in [("/r", Path::new(FILE)), ("/o", other)] {
        let config = config(dir, &[("b", 16 << 20)]);
        let report = restore(disk.clone(), config, file, RestoreTarget::New, &()).unwrap();
        assert_eq!(report.digest, digest, "{report:?}");
    }
}

#[test]
fn a_snapshot_takes_no_name_that_is_taken_and_two_do_not_write_one_file() {
    let dir = std::env::temp_dir().join(format!("newsreel-snapshot-{}", std::process::id()));
    let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk::new());
    disk.create_dir(&dir).unwrap();
    let at = |name: &str| dir.join(name);
    let (spool, _) = open(&disk, &config(at("site").to_str().unwrap(), &[("a", 256 << 10)]));
    add_groups(&spool, 4);
    commit(&spool, &(0..5).map(news).collect::<Vec<_>>()).unwrap();
    let write = |name: &str| spool.snapshots().write(&at(name), &|| false, &());
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for name in ["link", "directory", "socket"] {
        let error = write(name).unwrap_err().to_string();
        assert!(error.contains("it exists; choose another name"), "{error}");
        assert!(!at(&format!("{name}.part")).exists(), "{name}");
    }
    let other = disk.open(&at("news.part"), OpenMode::CreatePrivate).unwrap();
    other.try_lock().unwrap();
    let error = write("news").unwrap_err().to_string();
    assert!(error.contains("another command is writing it"), "{error}");
    drop(other);
    write("news").unwrap();
    assert_eq!(disk.list(&dir).unwrap(), ["news"]);
    spool.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_spool_that_is_restored_in_part_is_opened_by_the_restoration_alone() {
    let disk = disk();
    let spool = long(&disk);
    let to = config("/r", &[("b", 16 << 20)]);
    spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    spool.cancel(news(660).id.as_bytes()).unwrap();
    let later = Path::new("/t/later");
    spool.snapshots().write(later, &|| false, &()).unwrap();
    let digest = spool.digest();
    // Into its own spool neither.
    let own =
        restore(disk.clone(), config("/s", &[("a", 16 << 20)]), Path::new(FILE), RestoreTarget::New, &());
    assert!(own.unwrap_err().to_string().contains("/s has the news of this site already"));
    spool.close().unwrap();
    drop(spool);
    let file = disk.open(later, OpenMode::Existing).unwrap();
    let mut whole = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut whole, 0).unwrap();
    file.set_len(whole.len() as u64 - 1).unwrap();
    restore(disk.clone(), to.clone(), later, RestoreTarget::New, &()).unwrap_err();
    let refused = Spool::open(disk.clone(), to.clone(), &()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("repeat the newsreel restore that was interrupted"), "{refused}");
    assert!(rebuild(disk.clone(), to.clone(), &()).is_err());
    let other = restore(disk.clone(), to.clone(), Path::new(FILE), RestoreTarget::New, &());
    let other = other.unwrap_err().to_string();
    assert!(other.contains("/r has a part of another snapshot"), "{other}");
    file.write_all_at(&[std::io::IoSlice::new(&whole)], 0).unwrap();
    let report = restore(disk.clone(), to.clone(), later, RestoreTarget::New, &()).unwrap();
    assert_eq!(report.digest, digest, "{report:?}");
    Spool::open(disk, to.clone(), &()).unwrap();
}

#[test]
fn what_finds_no_class_is_known_and_what_lies_in_memory_is_named() {
    let disk = disk();
    let (spool, _) = open(&disk, &source());
    fill(&spool);
    spool.remove_group("test.g1").unwrap();
    spool.remove_group("test.g2").unwrap();
    let report = spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    assert!(report.in_no_group > 0, "{report:?}");
    let known = (0..ARTICLES).filter(|n| spool.seen(&spool.key(news(*n).id.as_bytes())).is_some()).count();
    spool.close().unwrap();
    drop(spool);
    let mut keeps = target("/k");
    keeps.buffers.clear();
    keeps.classes.retain(|class| class.name == "kept");
    keeps.rules = vec![RuleConfig { class: "kept".into(), ..RuleConfig::default() }];
    let report = restore(disk.clone(), keeps.clone(), Path::new(FILE), RestoreTarget::New, &()).unwrap();
    assert!(report.unfit > 0, "{report:?}");
    let (spool, _) = open(&disk, &keeps);
    assert_eq!(
        (0..ARTICLES).filter(|n| spool.seen(&spool.key(news(*n).id.as_bytes())).is_some()).count(),
        known
    );
    spool.close().unwrap();
    let mut memory = target("/m");
    let brief = ClassConfig {
        name: "brief".into(),
        method: MethodKind::Memory,
        size_bytes: 4 << 20,
        ..ClassConfig::default()
    };
    memory.classes.insert(0, brief);
    memory.rules.insert(0, RuleConfig { class: "brief".into(), ..RuleConfig::default() });
    let report = restore(disk, memory, Path::new(FILE), RestoreTarget::New, &()).unwrap();
    assert_eq!(report.in_memory, ["brief"], "{report:?}");
}
