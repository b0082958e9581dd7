//! Volumes that keep, damaged in every way an operator may find them: reported by verify, mended by repair,
//! and nothing is lost but articles whose bytes are.

use crate::damage;
use crate::news::*;
use disk::{Disk, OpenMode, ReadMode, SimDisk};
use spool::*;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GROUPS: u64 = 3;
const ARTICLES: u64 = 60;
const TREES: [MethodKind; 4] =
    [MethodKind::Tradspool, MethodKind::Bucketed, MethodKind::Hashed, MethodKind::Timehash];

fn kept_config(method: MethodKind) -> SpoolConfig {
    let mut config = config("/s", &[("a", 1 << 20)]);
    config.durability = Durability::Process;
    config.buffers.clear();
    let class = &mut config.classes[0];
    (class.method, class.size_bytes) = (method, 1 << 20);
    class.buffers.clear();
    class.tree = TreeConfig { path: "/s/kept".into(), file_bytes: 16 << 10, ..TreeConfig::default() };
    class.tree.lines_end_in_lf = method == MethodKind::Bucketed;
    config
}

fn news(n: u64) -> News {
    News::new(n, GROUPS, 700)
}

/// Cancelled articles are not counted among those that a pass of expiry checks.
#[test]
fn expiry_counts_what_lives() {
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        let mut config = kept_config(method);
        let keep = Retention::Secs { min: 0, default: 1_000, max: 1_000 };
        config.expire = vec![ExpireConfig { keep, ..ExpireConfig::default() }];
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        commit_at(&spool, &(0..10).map(news).collect::<Vec<_>>(), NOW).unwrap();
        for n in [2, 7] {
            assert!(spool.cancel(news(n).id.as_bytes()).unwrap());
        }
        for (now, dry_run) in [(NOW, true), (NOW, false), (NOW + 2_000, true), (NOW + 2_000, false)] {
            let report = spool.expiry().expire(now, dry_run).unwrap();
            let due = if now > NOW { 8 } else { 0 };
            assert_eq!((report.looked_at, report.articles), (8, due), "{method:?} {now} {dry_run}");
        }
        assert_eq!(spool.expiry().expire(NOW + 2_000, true).unwrap().looked_at, 0, "{method:?}");
    }
}

/// No read would find it whole.
#[test]
fn an_article_longer_than_any_record_is_not_stored() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &kept_config(MethodKind::Tradspool));
    add_groups(&spool, GROUPS);
    let (small, piece) = (news(0), vec![b'x'; 1 << 20]);
    let draft = NewsDraft::of(&small);
    let pieces: Vec<&[u8]> =
        [&small.wire[..]].into_iter().chain(std::iter::repeat_n(&piece[..], 1 << 11)).collect();
    let article = NewArticle { pieces: &pieces, ..draft.article(NOW, &[]) };
    let mut outcomes = Vec::new();
    spool.commit(&[Change::Article(article)], &mut outcomes).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::Unfit]);
    assert_eq!(agree(&spool), []);
}

struct Subject {
    disk: Arc<dyn Disk>,
    spool: Spool,
}

fn filled(method: MethodKind) -> Subject {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &kept_config(method));
    add_groups(&spool, GROUPS);
    commit(&spool, &(0..ARTICLES).map(news).collect::<Vec<_>>()).unwrap();
    assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
    Subject { disk, spool }
}

impl Subject {
    /// All files below the class's directory.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut found, mut dirs) = (BTreeMap::new(), vec![PathBuf::from("/s/kept")]);
        while let Some(dir) = dirs.pop() {
            dirs.extend(self.disk.list_dirs(&dir).unwrap().into_iter().map(|name| dir.join(name)));
            for path in self.disk.list(&dir).unwrap().into_iter().map(|name| dir.join(name)) {
                let bytes = self.bytes(&path);
                found.insert(path, bytes);
            }
        }
        found
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.disk.open(path, OpenMode::ReadOnly).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        self.disk.make_dirs(path.parent().unwrap(), false).unwrap();
        let file = self.disk.open(path, OpenMode::CreateNew).unwrap();
        file.write_all_at(&[IoSlice::new(bytes)], 0).unwrap();
    }

    /// The files of an article.
    fn files_of(&self, n: u64) -> Vec<PathBuf> {
        let id = format!("Message-ID: {}", news(n).id);
        let has = |bytes: &[u8]| bytes.windows(id.len()).any(|w| w == id.as_bytes());
        self.files().into_iter().filter(|(_, bytes)| has(bytes)).map(|(path, _)| path).collect()
    }

    fn living(&self) -> Vec<u64> {
        (0..ARTICLES).filter(|n| fetch(&self.spool, &news(*n).id) == Some(news(*n).wire)).collect()
    }

    /// A dry run names the repairs and changes nothing; then they are done, and all is well, also after a
    /// restart.
    fn repair(self, method: MethodKind, told: impl Fn(&[Finding]), lost: &[u64]) {
        let before = self.files();
        let dry = self.spool.repairer().repair(true, &());
        told(&dry.before.findings);
        assert!(self.files() == before, "{method:?}: the dry run changed something");
        let done = self.spool.repairer().repair(false, &());
        assert!(done.repaired.iter().all(|r| r.result.is_ok()), "{method:?}: {:?}", done.repaired);
        assert_eq!(done.after.unwrap().findings, [], "{method:?}");
        let want: Vec<u64> = (0..ARTICLES).filter(|n| !lost.contains(n)).collect();
        assert_eq!(self.living(), want, "{method:?}");
        agree(&self.spool);
        for n in lost {
            assert!(self.spool.is_known(&self.spool.key(news(*n).id.as_bytes())), "{method:?}");
            assert_eq!(self.files_of(*n), [] as [&Path; 0], "{method:?}");
        }
        self.spool.close().unwrap();
        drop(self.spool);
        let (spool, recovery) = open(&self.disk, &kept_config(method));
        assert!(!recovery.crashed && recovery.rebuilt.is_none(), "{recovery}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?} after a restart");
    }
}

/// All overview rows; `None` if some cannot be read.
fn rows(spool: &Spool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for group in spool.groups().iter() {
        spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut out).ok()?;
    }
    Some(out)
}

/// A closed spool with a cancelled article and several blocks of overview, and its rows.
fn filled_with_blocks(method: MethodKind) -> (Arc<dyn Disk>, Vec<u8>) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &kept_config(method));
    add_groups(&spool, GROUPS);
    commit(&spool, &(0..300).map(news).collect::<Vec<_>>()).unwrap();
    assert!(spool.cancel(news(5).id.as_bytes()).unwrap());
    let rows = rows(&spool).unwrap();
    spool.close().unwrap();
    (disk, rows)
}

/// Damages a block of overview, and the list of what is kept.
fn damage_overview(disk: &Arc<dyn Disk>, is_list_damaged: bool) {
    damage::flip(disk, Path::new("/s/index/overview/00000000.seg"), 8 * 600);
    let lists = damage::files(disk).into_iter().filter(|p| p.starts_with("/s/index/kept"));
    lists.filter(|_| is_list_damaged).for_each(|list| damage::flip(disk, &list, 8 * 100));
}

#[test]
fn repair_of_damaged_overview_rows_keeps_the_numbers_of_kept_articles() {
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        for is_list_damaged in [false, true] {
            let what = format!("{method:?}, list damaged: {is_list_damaged}");
            let (disk, before) = filled_with_blocks(method);
            let (spool, _) = open(&disk, &kept_config(method));
            damage_overview(&disk, is_list_damaged);
            assert!(rows(&spool).is_none(), "{what}");
            let done = spool.repairer().repair(false, &());
            assert_eq!(done.repaired.len() > 1, is_list_damaged, "{what}: {:?}", done.repaired);
            assert_eq!(done.after.unwrap().findings, [], "{what}");
            assert!(rows(&spool).as_ref() == Some(&before), "{what}");
            agree(&spool);
        }
    }
}

#[test]
fn the_start_rebuilds_damaged_overview_rows_of_kept_articles() {
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        for is_list_damaged in [false, true] {
            let what = format!("{method:?}, list damaged: {is_list_damaged}");
            let (disk, before) = filled_with_blocks(method);
            damage_overview(&disk, is_list_damaged);
            let (spool, recovery) = open(&disk, &kept_config(method));
            assert!(recovery.mended > u64::from(is_list_damaged), "{what}: {recovery}");
            assert!(rows(&spool).as_ref() == Some(&before), "{what}: {recovery}");
            assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
            agree(&spool);
        }
    }
}

/// A start ends no numbers: that is left to `verify --repair`.
#[test]
fn the_start_leaves_a_damaged_block_with_a_missing_article_as_it_is() {
    let method = MethodKind::Tradspool;
    let (disk, _) = filled_with_blocks(method);
    let subject = Subject { spool: open(&disk, &kept_config(method)).0, disk };
    // The first block is of one of the groups.
    let files: Vec<PathBuf> = (0..5).flat_map(|n| subject.files_of(n)).collect();
    subject.spool.close().unwrap();
    let Subject { disk, spool } = subject;
    drop(spool);
    files.iter().for_each(|file| disk.remove(file).unwrap());
    damage_overview(&disk, false);
    let (spool, recovery) = open(&disk, &kept_config(method));
    let marks = |spool: &Spool| spool.groups().iter().map(|group| group.marks().count).sum::<u64>();
    assert!(recovery.mended == 0 && rows(&spool).is_none(), "{recovery}");
    let before = marks(&spool);
    assert_eq!(spool.repairer().repair(false, &()).after.unwrap().findings, []);
    assert!(marks(&spool) < before && rows(&spool).is_some());
    agree(&spool);
}

fn one(findings: &[Finding], what: &str, repair: Option<&str>) {
    assert!(
        findings.iter().any(|f| f.what.contains(what) && f.repair() == repair),
        "no \"{what}\" with {repair:?} in {findings:?}"
    );
}

const GIVE_UP: &str = "give the article up: its numbers end, its Message-ID stays known";

#[test]
fn a_damaged_or_missing_file_costs_its_article() {
    for method in TREES {
        for missing in [false, true] {
            let s = filled(method);
            let n = (0..ARTICLES).find(|n| news(*n).groups.len() == 1).unwrap();
            let files = s.files_of(n);
            assert_eq!(files.len(), 1);
            if missing {
                s.disk.remove(&files[0]).unwrap();
            } else {
                let at = s.bytes(&files[0]).len() as u64 / 2;
                let file = s.disk.open(&files[0], OpenMode::Existing).unwrap();
                file.write_all_at(&[IoSlice::new(b"~")], at).unwrap();
            }
            let told = |f: &[Finding]| {
                assert_eq!(f.len(), 1, "{method:?}: {f:?}");
                one(f, "its article cannot be read: damaged or missing", Some(GIVE_UP));
            };
            s.repair(method, told, &[n]);
        }
    }
}

/// Numbers, history and files lead to an article: it is one problem, and all its numbers are named.
#[test]
fn a_damaged_crosspost_is_one_problem() {
    for method in TREES {
        let s = filled(method);
        assert_eq!(s.spool.verifier().verify(&()).records, ARTICLES, "{method:?}");
        let n = (0..ARTICLES).find(|n| news(*n).groups.len() == 2).unwrap();
        for path in s.files_of(n) {
            let at = s.bytes(&path).len() as u64 / 2;
            let file = s.disk.open(&path, OpenMode::Existing).unwrap();
            file.write_all_at(&[IoSlice::new(b"~")], at).unwrap();
        }
        let told = |f: &[Finding]| {
            assert_eq!(f.len(), 1, "{method:?}: {f:?}");
            one(f, "its article cannot be read: damaged or missing", Some(GIVE_UP));
            let is_named = |group: &String| f[0].place.contains(&format!("{group}:"));
            assert!(news(n).groups.iter().all(is_named), "{:?}", f[0].place);
        };
        s.repair(method, told, &[n]);
    }
}

#[test]
fn a_missing_file_of_an_appendonly_class_costs_the_articles_in_it() {
    let s = filled(MethodKind::AppendOnly);
    assert_eq!(s.spool.verifier().verify(&()).records, ARTICLES);
    let path = Path::new("/s/kept/0000000001.app");
    let bytes = s.bytes(path);
    let in_it = |n: &u64| {
        let id = format!("Message-ID: {}", news(*n).id);
        bytes.windows(id.len()).any(|w| w == id.as_bytes())
    };
    let lost: Vec<u64> = (0..ARTICLES).filter(in_it).collect();
    assert!(lost.len() > 5 && lost.len() < 40);
    s.disk.remove(path).unwrap();
    s.spool.close().unwrap();
    let Subject { disk, spool } = s;
    drop(spool);
    let (spool, _) = open(&disk, &kept_config(MethodKind::AppendOnly));
    let told = |f: &[Finding]| {
        assert_eq!(f.len(), lost.len(), "{f:?}");
        one(f, "its article cannot be read: damaged or missing", Some(GIVE_UP));
    };
    Subject { disk, spool }.repair(MethodKind::AppendOnly, told, &lost);
}

#[test]
fn the_names_of_a_crosspost_are_put_right() {
    for method in [MethodKind::Tradspool, MethodKind::Bucketed] {
        let crosspost = (0..ARTICLES).find(|n| news(*n).groups.len() == 2).unwrap();
        for which in 0..2 {
            // Missing: the article has another name from which it can be put back.
            let s = filled(method);
            let files = s.files_of(crosspost);
            assert_eq!(files.len(), 2);
            s.disk.remove(&files[which]).unwrap();
            let is_first =
                !s.spool.verifier().verify(&()).findings.iter().any(|f| f.what.contains("other programs"));
            let told = |f: &[Finding]| match is_first {
                true => one(
                    f,
                    "its article cannot be read",
                    Some("put the article in its place again from another of its names"),
                ),
                false => one(f, "missing or another one", Some("link it to the article again")),
            };
            let (disk, kept) = (s.disk.clone(), s.bytes(&files[1 - which]));
            s.repair(method, told, &[]);
            assert!(
                disk.open(&files[which], OpenMode::ReadOnly).unwrap().len().unwrap() == kept.len() as u64
            );

            // Another file in its place: a broken link.
            let s = filled(method);
            s.disk.remove(&files[which]).unwrap();
            s.write(&files[which], b"Path: somebody else's\n\nfile\n");
            let told =
                |f: &[Finding]| assert!(!f.is_empty() && f.iter().all(|f| f.repair().is_some()), "{f:?}");
            s.repair(method, told, &[]);
        }
    }
}

#[test]
fn files_that_no_article_has_are_told_and_only_ours_are_removed() {
    for method in TREES {
        let s = filled(method);
        let n = (0..ARTICLES).find(|n| news(*n).groups.len() == 1).unwrap();
        let (path, bytes) = (s.files_of(n).remove(0), s.bytes(&s.files_of(n)[0]));
        // Cancelled, and its file is there again, as after a crash.
        assert!(s.spool.cancel(news(n).id.as_bytes()).unwrap());
        s.write(&path, &bytes);
        let told = |f: &[Finding]| {
            assert_eq!(f.len(), 1, "{f:?}");
            one(f, "left by a crash", Some("remove it"));
        };
        s.repair(method, told, &[n]);
    }
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        let s = filled(method);
        let foreign = ["/s/kept/README", "/s/kept/0000000001.app.bak"].map(Path::new);
        foreign.iter().for_each(|path| s.write(path, b"Not one of yours\n"));
        let done = s.spool.repairer().repair(false, &());
        assert_eq!(done.before.findings.len(), 2, "{method:?}: {:?}", done.before.findings);
        done.before
            .findings
            .iter()
            .for_each(|f| one(std::slice::from_ref(f), "is no article of this class", None));
        assert!(foreign.iter().all(|path| s.bytes(path) == b"Not one of yours\n"), "{method:?}");
        assert_eq!(s.living().len() as u64, ARTICLES);
    }
}

#[test]
fn what_is_not_in_the_list_of_what_is_kept_is_entered_again() {
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        let Subject { disk, spool } = filled(method);
        spool.close().unwrap();
        drop(spool);
        let dir = Path::new("/s/index/kept/00000");
        let list = dir.join(&disk.list(dir).unwrap()[0]);
        let file = disk.open(&list, OpenMode::Existing).unwrap();
        file.write_all_at(&[IoSlice::new(b"~~~")], 100).unwrap();
        let mut config = kept_config(method);
        config.expire = vec![ExpireConfig {
            keep: Retention::Secs { min: 0, default: 1, max: 1 },
            ..ExpireConfig::default()
        }];
        let (spool, recovery) = open(&disk, &config);
        assert!(recovery.mended > ARTICLES, "{method:?}: {recovery}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
        assert_eq!(spool.expiry().expire(NOW + 9, false).unwrap().articles, ARTICLES, "{method:?}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
    }
}

#[test]
fn either_copy_of_newsreel_tree_serves() {
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        for name in ["newsreel.tree", "newsreel.tree.copy"] {
            let path = Path::new("/s/kept").join(name);
            let s = filled(method);
            let whole = s.bytes(&path);
            for missing in [false, true] {
                s.disk.remove(&path).unwrap();
                if !missing {
                    s.write(&path, &[&whole[..20], b"~", &whole[21..]].concat());
                }
                let done = s.spool.repairer().repair(false, &());
                one(
                    &done.before.findings,
                    "is damaged or missing",
                    Some("write it again from the other copy"),
                );
                assert_eq!(done.after.unwrap().findings, []);
                assert_eq!(s.bytes(&path), whole);
            }
            s.disk.remove(&path).unwrap();
            let Subject { disk, spool } = s;
            drop(spool);
            let (spool, _) = open(&disk, &kept_config(method));
            let s = Subject { disk, spool };
            assert_eq!(s.bytes(&path), whole, "{method:?}");
            assert_eq!(s.living().len() as u64, ARTICLES);
        }
    }
}

#[test]
fn status_tells_age_and_rate_of_what_is_kept() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for method in TREES.into_iter().chain([MethodKind::AppendOnly]) {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut config = kept_config(method);
        config.classes[0].tree.files_max = 100;
        config.expire = vec![ExpireConfig {
            keep: Retention::Secs { min: 0, default: 50_000, max: 50_000 },
            ..ExpireConfig::default()
        }];
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        for (n, age) in [100_000, 40_000, 2000, 1900].into_iter().enumerate() {
            commit_at(&spool, &[news(n as u64)], now - age).unwrap();
        }
        let check = |spool: &Spool, articles: u64, age: u64| {
            let kept = spool.meter().status().unwrap().kept.remove(0);
            assert_eq!((kept.articles, kept.oldest_arrival), (articles, Some(now - age)), "{method:?}");
            let (hour, day) = (kept.written_hour_bytes, kept.written_day_bytes);
            assert!(
                0 < hour && hour < day && day < kept.bytes || articles == 3 && day == kept.bytes,
                "{kept:?}"
            );
            let limited = method == MethodKind::AppendOnly;
            assert!(if limited { kept.room_bytes == 100 * (16 << 10) } else { kept.room_bytes > 1 << 30 });
        };
        check(&spool, 4, 100_000);
        spool.close().unwrap();
        drop(spool);
        let (spool, _) = open(&disk, &config);
        check(&spool, 4, 100_000);
        assert_eq!(spool.expiry().expire(now, false).unwrap().articles, 1);
        check(&spool, 3, 40_000);
    }
}

/// The names of an article in a group, as numbers.
fn names_in(s: &Subject, n: u64, group: &str) -> Vec<u64> {
    let part = group.rsplit('.').next().unwrap();
    let in_group = |path: &PathBuf| path.iter().any(|p| p == part);
    let number = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
    s.files_of(n).into_iter().filter(in_group).filter_map(number).collect()
}

/// A crosspost loses its name in a group when its number there is due, be it the first or not, and is read
/// under the others.
#[test]
fn the_name_of_a_number_that_is_due_goes() {
    for (method, due) in [
        (MethodKind::Tradspool, 0),
        (MethodKind::Tradspool, 1),
        (MethodKind::Bucketed, 0),
        (MethodKind::Bucketed, 1),
    ] {
        let n = (0..ARTICLES).find(|n| news(*n).groups.len() == 2).unwrap();
        let (ended, other) = (news(n).groups[due].clone(), news(n).groups[1 - due].clone());
        let keep = Retention::Secs { min: 0, default: 1, max: 1 };
        let mut config = kept_config(method);
        config.expire = vec![ExpireConfig { groups: Some(ended.clone()), keep, ..ExpireConfig::default() }];
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        commit(&spool, &(0..ARTICLES).map(news).collect::<Vec<_>>()).unwrap();
        let mut s = Subject { disk: disk.clone(), spool };
        let [number] = names_in(&s, n, &ended)[..] else { panic!("{method:?}: no name in {ended}") };
        s.spool.expiry().expire(NOW + 9, false).unwrap();
        for step in ["expired", "after a crash", "rebuilt"] {
            assert_eq!(names_in(&s, n, &ended), [] as [u64; 0], "{method:?} {due} {step}");
            assert_eq!(names_in(&s, n, &other).len(), 1, "{method:?} {due} {step}");
            assert_eq!(fetch(&s.spool, &news(n).id), Some(news(n).wire), "{method:?} {due} {step}");
            let group = s.spool.group_id(ended.as_bytes()).unwrap();
            assert_eq!(
                s.spool.token_of(group, number, ReadMode::Wait).unwrap(),
                None,
                "{method:?} {due} {step}"
            );
            agree(&s.spool);
            assert_eq!(s.spool.verifier().verify(&()).findings, [], "{method:?} {due} {step}");
            if step == "rebuilt" {
                break;
            }
            if step == "after a crash" {
                s.spool.close().unwrap();
            }
            drop(s.spool);
            if step == "after a crash" {
                rebuild(disk.clone(), config.clone(), &()).unwrap();
            }
            s = Subject { disk: disk.clone(), spool: open(&disk, &config).0 };
        }
        // With the last number the file goes too.
        s.spool.close().unwrap();
        drop(s.spool);
        config.expire = vec![ExpireConfig { keep, ..ExpireConfig::default() }];
        s = Subject { disk: disk.clone(), spool: open(&disk, &config).0 };
        s.spool.expiry().expire(NOW + 9, false).unwrap();
        assert_eq!(s.files_of(n), [] as [&Path; 0], "{method:?} {due}");
        assert_eq!(s.spool.verifier().verify(&()).findings, [], "{method:?} {due}");
    }
}
