//! Bugs planted in the writer's own state: inconsistent state is not acknowledged, and nothing acknowledged
//! is lost. Changes that are refused.

use crate::index::change::{
    ArticleGroups, ArticleIdent, Change, ChangeOutcome, Criteria, GroupUpdate, NewArticle,
};
use crate::index::groups::{GroupChange, NewGroup};
use crate::index::hidden::COUNT_MAX;
use crate::index::refusal::{ChangeRefusal, SITES_MAX};
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::spool::Spool;
use crate::spool::maker::ChangeMaker as _;
use crate::spool::snapshot::restore::{RestoreTarget, restore};
use crate::write::leaving::ExpiryRow;
use disk::ReadMode;
use disk::{Disk, SimDisk};
use netnews::Article;
use netnews::overview_row::OverviewFields;
use spool_base::bug::planted;
use spool_base::config::{BufferConfig, ClassConfig, Durability, RuleConfig, SpoolConfig, TreeConfig};
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::facts::{RowFacts, TaggedFields};
use spool_base::token::MethodKind;
use spool_journal::JournalRow;
use std::sync::Arc;

fn config(method: MethodKind) -> SpoolConfig {
    let mut config = SpoolConfig::new(std::path::Path::new("/spool"));
    config.path_identity = "news.test.example".into();
    config.buffers = vec![BufferConfig {
        name: "one".into(),
        path: "/spool/one.cyc".into(),
        size_bytes: 1 << 20,
        block_bytes: 512,
        retired: false,
    }];
    let buffers = if method == MethodKind::Cnfs { vec!["one".to_owned()] } else { Vec::new() };
    let tree = TreeConfig { path: "/spool/kept".into(), ..TreeConfig::default() };
    config.classes =
        vec![ClassConfig { name: "all".into(), method, buffers, tree, ..ClassConfig::default() }];
    config.rules = vec![RuleConfig { class: "all".into(), ..RuleConfig::default() }];
    config.durability = Durability::Always;
    config
}

fn open(disk: &SimDisk, config: &SpoolConfig) -> Spool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Spool::open(disk, config.clone(), &()).unwrap().0
}

fn id(n: u64) -> String {
    format!("<{n}@test.example>")
}

/// Applies the filing of articles of these groups, of which some are hidden; returns the outcomes.
fn file(
    spool: &Spool,
    groups: &[&[u8]],
    all: impl IntoIterator<Item = (u64, bool)>,
) -> Result<Vec<ChangeOutcome>, SpoolTrouble> {
    let texts = |(n, is_hidden): (u64, bool)| {
        let id = id(n);
        let wire = format!("Message-ID: {id}\r\nSubject: {n}\r\nNewsgroups: test\r\n\r\nBody {n}.\r\n");
        let mut tagged = Vec::new();
        if is_hidden {
            RowFacts { hidden: Some(("a filter", "")), ..RowFacts::default() }.put(&mut tagged);
        }
        (id, wire, tagged)
    };
    let texts: Vec<_> = all.into_iter().map(texts).collect();
    let pieces: Vec<[&[u8]; 1]> = texts.iter().map(|(_, wire, _)| [wire.as_bytes()]).collect();
    let mut changes = Vec::with_capacity(texts.len());
    for ((id, wire, tagged), pieces) in texts.iter().zip(&pieces) {
        let article = Article::parse(wire.as_bytes()).unwrap();
        changes.push(Change::Article(NewArticle {
            key: None,
            message_id: id.as_bytes(),
            pieces,
            header_bytes: wire.find("\r\n\r\n").unwrap() + 4,
            message_id_at: wire.find('<').unwrap(),
            groups: ArticleGroups::Named(groups),
            numbers: &[],
            fields: OverviewFields::of(&article, id.as_bytes()),
            arrived: 1_795_000_000,
            expires: None,
            tagged: TaggedFields::new(tagged).unwrap(),
            criteria: Criteria::default(),
        }));
    }
    let mut outcomes = Vec::new();
    spool.commit(&changes, &mut outcomes)?;
    Ok(outcomes)
}

/// Commits article `n` of the group with number 0, and waits until it may be acknowledged.
fn commit(spool: &Spool, n: u64) -> Result<(), SpoolTrouble> {
    commit_to(spool, n, &[b"test"])
}

fn commit_to(spool: &Spool, n: u64, groups: &[&[u8]]) -> Result<(), SpoolTrouble> {
    let outcomes = file(spool, groups, [(n, false)])?;
    assert!(matches!(outcomes.as_slice(), [ChangeOutcome::Filed(_)]), "{outcomes:?}");
    spool.settle()
}

/// Creates a spool in which articles 0 to 9 are acknowledged; returns it with its disk.
fn filled(method: MethodKind) -> (Spool, SimDisk, SpoolConfig) {
    let (disk, config) = (SimDisk::new(), config(method));
    let spool = open(&disk, &config);
    spool.add_groups(&[NewGroup { name: "test".into(), ..NewGroup::default() }]).unwrap();
    (0..10).for_each(|n| commit(&spool, n).unwrap());
    (spool, disk, config)
}

fn is_readable(spool: &Spool, n: u64) -> bool {
    let key = spool.key(id(n).as_bytes());
    let Lookup::Present(token) = spool.lookup(&key) else { return false };
    spool.read(&token, Some(&key), ReadMode::Wait, &mut ArticleBuf::default()).unwrap()
}

/// Checks that a bug has stopped accepting, that all acknowledged articles can be read, now and after a
/// restart, and that the spool then accepts again.
fn stops_and_loses_nothing(spool: Spool, disk: &SimDisk, config: &SpoolConfig, acknowledged: u64) {
    for n in [acknowledged, acknowledged + 1] {
        let trouble = commit(&spool, n).unwrap_err();
        assert!(trouble.text.contains("a bug in newsreel"), "{trouble}");
    }
    assert!(spool.trouble().is_some());
    let all = |spool: &Spool| (0..acknowledged).all(|n| is_readable(spool, n));
    assert!(all(&spool));
    drop(spool);
    let spool = open(disk, config);
    assert!(all(&spool), "after a restart");
    assert!(!is_readable(&spool, acknowledged), "what was refused is not there");
    assert!(commit(&spool, acknowledged).is_ok());
    spool.close().unwrap();
}

#[test]
fn a_bug_before_the_commit_point_stores_nothing_and_stops_accepting() {
    let (spool, disk, config) = filled(MethodKind::Cnfs);
    spool.writer.lock().folds.residents.clear();
    let trouble = planted(|| commit(&spool, 10)).unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::Bug, "{trouble}");
    stops_and_loses_nothing(spool, &disk, &config, 10);
}

#[test]
fn a_bug_while_an_article_is_prepared_stores_nothing_and_stops_accepting() {
    let (spool, disk, config) = filled(MethodKind::Cnfs);
    spool.writer.lock().classes.clear();
    let trouble = planted(|| commit(&spool, 10)).unwrap_err();
    assert_eq!(trouble.kind, TroubleKind::Bug, "{trouble}");
    stops_and_loses_nothing(spool, &disk, &config, 10);
}

#[test]
fn a_bug_after_the_commit_point_keeps_articles_that_have_their_row() {
    let (spool, disk, config) = filled(MethodKind::AppendOnly);
    spool.writer.lock().folds.kept.iter_mut().for_each(|list| *list = None);
    // The row is durable, so the article is accepted; the replay completes the index that lacks it.
    planted(|| commit(&spool, 10)).unwrap();
    assert!(commit(&spool, 11).unwrap_err().text.contains("a bug in newsreel"));
    drop(spool);
    let spool = open(&disk, &config);
    assert!((0..=10).all(|n| is_readable(&spool, n)));
    assert!(!is_readable(&spool, 11));
    spool.close().unwrap();
}

#[test]
fn a_bug_in_the_replay_leaves_a_spool_that_is_read_and_accepts_nothing() {
    let (spool, disk, config) = filled(MethodKind::Cnfs);
    {
        let mut writer = spool.writer.lock();
        let volume = spool.shared.volumes.load().all()[0].id();
        let head = spool.shared.volumes.load().all()[0].head();
        writer.folds.residents.clear();
        planted(|| writer.folds.apply(&JournalRow::Skip { volume, head })).unwrap();
    }
    stops_and_loses_nothing(spool, &disk, &config, 10);
}

#[test]
fn what_is_refused_is_an_outcome_and_the_other_changes_are_applied() {
    let (spool, ..) = filled(MethodKind::Cnfs);
    let long = "x".repeat(2_000);
    let change = GroupChange { description: Some(long.clone()), ..GroupChange::default() };
    let add = |name: &str| GroupUpdate::Add(NewGroup { name: name.into(), ..NewGroup::default() });
    let creator = NewGroup { name: "c".into(), creator: long.clone(), ..NewGroup::default() };
    let hide = |by, reason| Change::Hide { message_id: b"<1@test.example>", by, reason, since: 1 };
    let value = vec![0; 20_000];
    let note = Change::Note {
        kind: spool_base::note::NoteKind::ControlDate,
        key: b"key",
        value: Some(&value),
        since: 1,
    };
    let sets = [
        vec![add("a"), GroupUpdate::Change("test".into(), change)],
        vec![add("b"), add("not..valid")],
        vec![GroupUpdate::Add(creator)],
        // Nothing is to be changed.
        vec![GroupUpdate::Add(NewGroup {
            name: "test".into(),
            creator: long.clone(),
            ..NewGroup::default()
        })],
        vec![add("d")],
    ];
    let mut changes: Vec<Change<'_>> = sets.iter().map(|set| Change::Groups(set)).collect();
    changes.extend([hide("", "why"), hide("x", &long), hide("x", "why"), Change::Site { name: "" }, note]);
    let mut outcomes = Vec::new();
    spool.apply(1_795_000_000, &changes, &mut outcomes).unwrap();
    let refused = ChangeOutcome::Refused;
    let expected = [
        refused(ChangeRefusal::GroupText),
        refused(ChangeRefusal::GroupName),
        refused(ChangeRefusal::GroupText),
        ChangeOutcome::Changed(0),
        ChangeOutcome::Changed(1),
        refused(ChangeRefusal::Hider),
        refused(ChangeRefusal::Hider),
        ChangeOutcome::Changed(1),
        refused(ChangeRefusal::SiteName),
        refused(ChangeRefusal::Note),
    ];
    assert_eq!(outcomes, expected);
    let names: Vec<String> = spool.groups().iter().map(|group| group.name.to_string()).collect();
    assert_eq!(names, ["d", "test"]);
    // A caller that waits for one of them learns of it.
    let refusal = spool.update_groups(sets[1].clone()).unwrap_err();
    assert_eq!(refusal, ChangeRefusal::GroupName.into());
    assert_eq!(spool.trouble(), None);
}

#[test]
fn one_site_too_many_is_refused() {
    let (spool, ..) = filled(MethodKind::Cnfs);
    let names: Vec<String> = (0..=SITES_MAX).map(|n| format!("site{n}")).collect();
    let changes: Vec<Change<'_>> = names.iter().map(|name| Change::Site { name }).collect();
    let mut outcomes = Vec::new();
    spool.apply(1_795_000_000, &changes, &mut outcomes).unwrap();
    let (last, others) = outcomes.split_last().unwrap();
    assert!(others.iter().all(|outcome| *outcome == ChangeOutcome::Changed(1)));
    assert_eq!(*last, ChangeOutcome::Refused(ChangeRefusal::SitesMax));
    assert_eq!(spool.site(&names[0]).unwrap(), 0);
    assert_eq!(spool.site(&names[SITES_MAX]).unwrap_err(), ChangeRefusal::SitesMax.into());
}

/// In a cluster the members must agree, and each may apply other entries of the log together.
#[test]
fn what_one_too_many_hidden_articles_become_depends_not_on_what_is_applied_together() {
    let hides = |at_once: usize| {
        let (spool, ..) = filled(MethodKind::Cnfs);
        let ids: Vec<String> = (0..10).map(id).collect();
        let mut outcomes = Vec::new();
        for some in ids.chunks(at_once) {
            let ids = some.iter().map(String::as_bytes);
            let hides = ids.map(|message_id| Change::Hide { message_id, by: "x", reason: "", since: 1 });
            let changes: Vec<Change<'_>> = hides.collect();
            spool.apply(1_795_000_000, &changes, &mut outcomes).unwrap();
        }
        outcomes
    };
    let apart = hides(1);
    let hidden = apart.iter().filter(|outcome| outcome.changed() == 1).count();
    assert_eq!(hidden, COUNT_MAX);
    assert_eq!(apart[COUNT_MAX], ChangeOutcome::Refused(ChangeRefusal::HiddenMax));
    assert_eq!((hides(3), hides(10)), (apart.clone(), apart));

    let filings = |at_once: usize| {
        let (spool, ..) = filled(MethodKind::Cnfs);
        let all: Vec<(u64, bool)> = (20..50).map(|n| (n, n % 3 == 0)).collect();
        let outcomes =
            all.chunks(at_once).flat_map(|some| file(&spool, &[b"test"], some.iter().copied()).unwrap());
        let is_filed = |outcome| matches!(outcome, ChangeOutcome::Filed(_));
        outcomes.map(is_filed).collect::<Vec<bool>>()
    };
    let apart = filings(1);
    assert_eq!(apart.iter().filter(|is_filed| **is_filed).count(), 20 + COUNT_MAX);
    assert_eq!((filings(4), filings(30)), (apart.clone(), apart));
}

/// A member whose class is full does what the others did once it has room.
#[test]
fn an_article_of_a_log_that_has_no_room_keeps_all_after_it_from_being_filed() {
    let mut config = config(MethodKind::AppendOnly);
    let tree = &mut config.classes[0].tree;
    (tree.file_bytes, tree.files_max) = (4 << 10, 1);
    let spool = open(&SimDisk::new(), &config);
    spool.add_groups(&[NewGroup { name: "test".into(), ..NewGroup::default() }]).unwrap();
    let alone = file(&spool, &[b"test"], (0..40).map(|n| (n, false))).unwrap();
    let filed = alone.iter().take_while(|outcome| matches!(outcome, ChangeOutcome::Filed(_))).count();
    assert!((4..30).contains(&filed) && alone[filed..].iter().all(|outcome| *outcome == ChangeOutcome::Full));

    let spool = open(&SimDisk::new(), &config);
    spool.add_groups(&[NewGroup { name: "test".into(), ..NewGroup::default() }]).unwrap();
    spool.apply(1, &[Change::Position { record: b"here" }], &mut Vec::new()).unwrap();
    for _ in 0..2 {
        assert_eq!(
            file(&spool, &[b"test"], (0..40).map(|n| (n, false))).unwrap_err().kind,
            TroubleKind::Full
        );
        let is_known = |n: &u64| spool.is_known(&spool.key(id(*n).as_bytes()));
        assert_eq!((0..40).filter(is_known).collect::<Vec<u64>>(), (0..filed as u64).collect::<Vec<_>>());
    }
}

/// Acts when the first records of a snapshot are written.
struct AtFirstRecords<'a>(&'a (dyn Fn() + Send + Sync));

impl disk::Progress for AtFirstRecords<'_> {
    fn start(&self, _: &str, _: u64) {}
    fn step(&self, _: u64) {
        (self.0)();
    }
    fn finish(&self) {}
}

#[test]
fn expiry_rows_that_wait_are_applied_before_a_snapshot_begins_and_ends() {
    for is_at_the_end in [false, true] {
        let (spool, disk, mut config) = filled(MethodKind::AppendOnly);
        spool.add_groups(&[NewGroup { name: "other".into(), ..NewGroup::default() }]).unwrap();
        let (groups, article): (&[&[u8]], u64) = (&[b"test", b"other"], 10);
        commit_to(&spool, article, groups).unwrap();
        // More than are left for the end.
        for n in 1_000..1_300 {
            let id = id(n);
            let id = ArticleIdent::Id(id.as_bytes());
            spool.commit_one(Change::Remember { id, arrived: 1_795_000_000 }).unwrap();
        }
        let key = spool.key(id(article).as_bytes());
        let Lookup::Present(token) = spool.lookup(&key) else { panic!("the article is not there") };
        let expire = || {
            let (gone, numbers) = (false, vec![(spool.group_id(b"other").unwrap(), 1)]);
            let mut writer = spool.writer.lock();
            writer.journal.push(&JournalRow::Expire { key, token, gone, numbers: numbers.clone() });
            writer.write_unsynced().unwrap();
            writer.leaving.push_back(ExpiryRow { key, token, gone, numbers });
            writer.leaving_upto = writer.journal.end();
        };
        let let_go = || spool.writer.lock().let_all_go().unwrap();
        let (before, meanwhile): (&dyn Fn(), &(dyn Fn() + Send + Sync)) =
            if is_at_the_end { (&|| (), &expire) } else { (&expire, &let_go) };
        before();
        let file = std::path::Path::new("/snapshot");
        spool.snapshots().write(file, &|| false, &AtFirstRecords(meanwhile)).unwrap();
        let digest = spool.digest();
        drop(spool);
        config.dir = "/r".into();
        config.classes[0].tree.path = "/r/kept".into();
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let report = restore(disk, config, file, RestoreTarget::New, &()).unwrap();
        assert_eq!((report.is_same, report.digest), (Some(true), digest), "{is_at_the_end}: {report:?}");
    }
}
