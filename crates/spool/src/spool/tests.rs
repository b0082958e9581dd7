//! Bugs planted in the writer's own state: inconsistent state is not acknowledged, and nothing acknowledged
//! is lost.

use crate::index::change::{ArticleGroups, Change, ChangeOutcome, Criteria, NewArticle};
use crate::index::groups::NewGroup;
use crate::read::Lookup;
use crate::read::article::ArticleBuf;
use crate::spool::Spool;
use crate::spool::maker::ChangeMaker as _;
use disk::ReadMode;
use disk::{Disk, SimDisk};
use netnews::Article;
use netnews::overview_row::OverviewFields;
use spool_base::bug::planted;
use spool_base::config::{BufferConfig, ClassConfig, Durability, RuleConfig, SpoolConfig, TreeConfig};
use spool_base::error::{SpoolTrouble, TroubleKind};
use spool_base::facts::TaggedFields;
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

/// Commits article `n` of the group with number 0, and waits until it may be acknowledged.
fn commit(spool: &Spool, n: u64) -> Result<(), SpoolTrouble> {
    let id = id(n);
    let wire = format!("Message-ID: {id}\r\nSubject: {n}\r\nNewsgroups: test\r\n\r\nBody {n}.\r\n");
    let article = Article::parse(wire.as_bytes()).unwrap();
    let filing = NewArticle {
        key: None,
        message_id: id.as_bytes(),
        pieces: &[wire.as_bytes()],
        header_bytes: wire.find("\r\n\r\n").unwrap() + 4,
        message_id_at: wire.find('<').unwrap(),
        groups: ArticleGroups::Named(&[b"test"]),
        numbers: &[],
        fields: OverviewFields::of(&article, id.as_bytes()),
        arrived: 1_795_000_000,
        expires: None,
        tagged: TaggedFields::default(),
        criteria: Criteria::default(),
    };
    let mut outcomes = Vec::new();
    spool.commit(&[Change::Article(filing)], &mut outcomes)?;
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
