//! Rebuilding in regions finds what one pass would find, whatever articles hold.

use crate::news::*;
use disk::{Disk, ReadMode, SimDisk};
use netnews::wildmat::Wildmat;
use spool::*;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 700_000;
const FORGED_EVERY: usize = 1024;

/// A record as the spool writes it, for an article of an attacker's choice.
fn record(place: u64, sequence: u64) -> Vec<u8> {
    let xref = b"Xref: news.test.example test.g0:7\r\n";
    let article =
        b"Path: x\r\nFrom: f\r\nNewsgroups: test.g0\r\nSubject: forged\r\nMessage-ID: <forged@x>\r\n\
                    Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\nbody\r\n.\r\n";
    let data = [xref.as_slice(), article].concat();
    let head = data.windows(4).position(|w| w == b"\r\n\r\n").unwrap() as u32 + 4;
    let id_at = data.windows(10).position(|w| w == b"<forged@x>").unwrap() as u32;
    let mut r = vec![0; 8];
    r.extend_from_slice(&(data.len() as u32).to_le_bytes());
    r.extend_from_slice(&head.to_le_bytes());
    r.extend_from_slice(&place.to_le_bytes());
    r.extend_from_slice(&sequence.to_le_bytes());
    r.extend_from_slice(&[7; 16]);
    r.extend_from_slice(&(NOW as u32).to_le_bytes());
    r.extend_from_slice(&[0; 4]);
    r.extend_from_slice(&id_at.to_le_bytes());
    r.extend_from_slice(&10u16.to_le_bytes());
    r.extend_from_slice(&[0, 1]);
    r.extend_from_slice(&data);
    let crc = crc_fast::crc32_iscsi(&r[8..]);
    r[..4].copy_from_slice(b"NRec");
    r[4..8].copy_from_slice(&crc.to_le_bytes());
    r
}

/// Stores 40 articles, one with this body, and 40 more; returns the one's token, and its article as read.
fn fill(spool: &Spool, body: &[u8]) -> (Token, Vec<u8>) {
    add_groups(spool, 2);
    commit(spool, &(0..40).map(|n| News::new(n, 2, 1500)).collect::<Vec<_>>()).unwrap();
    let mut news = News::new(40, 2, 100);
    news.wire.truncate(news.header_bytes());
    news.wire.extend_from_slice(body);
    news.wire.extend_from_slice(b"\r\n");
    let names: Vec<&[u8]> = news.groups.iter().map(String::as_bytes).collect();
    let fields = netnews::overview_row::OverviewFields {
        subject: b"s",
        from: b"f",
        date: b"d",
        message_id: news.id.as_bytes(),
        references: b"",
        bytes: 1,
        lines: 1,
    };
    let filing = NewArticle {
        key: None,
        message_id: news.id.as_bytes(),
        pieces: &[&news.wire],
        header_bytes: news.header_bytes(),
        message_id_at: news.wire.windows(news.id.len()).position(|w| w == news.id.as_bytes()).unwrap(),
        groups: ArticleGroups::Named(&names),
        numbers: &[],
        fields,
        arrived: NOW,
        expires: None,
        criteria: Criteria::default(),
        tagged: TaggedFields::default(),
    };
    let mut outcomes = Vec::new();
    spool.commit(&[Change::Article(filing)], &mut outcomes).unwrap();
    let ChangeOutcome::Filed(FiledArticle { token, .. }) = outcomes[0] else { panic!() };
    commit(spool, &(41..80).map(|n| News::new(n, 2, 1500)).collect::<Vec<_>>()).unwrap();
    let mut buf = ArticleBuf::default();
    assert!(spool.read(&token, None, ReadMode::Wait, &mut buf).unwrap());
    (token, buf.article().to_vec())
}

#[test]
fn bytes_that_look_like_records_within_an_article_are_no_articles() {
    let mut config = config("/s", &[("a", SIZE)]);
    config.buffers[0].block_bytes = 64;
    let plain = vec![b'A'; 50_000];
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (token, article) = fill(&open(&disk, &config).0, &plain);
    let body_at = token.place + 64 + article.windows(9).position(|w| w == b"AAAAAAAAA").unwrap() as u64;

    let mut body = plain;
    let first = body_at.next_multiple_of(64);
    for at in ((first - body_at) as usize..body.len() - 600).step_by(FORGED_EVERY) {
        let forged = record(body_at + at as u64, 1_000_000 + at as u64);
        body[at..at + forged.len()].copy_from_slice(&forged);
    }
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &config);
    let (there, _) = fill(&spool, &body);
    assert_eq!(there.place, token.place);
    // It is stored as it came, and an attacker's record is one by every check but where it stands.
    let inner = Token { place: first, ..there };
    let mut buf = ArticleBuf::default();
    assert!(!spool.read(&inner, None, ReadMode::Wait, &mut buf).unwrap());
    let told = spool.tokens().explain(&inner, None);
    assert!(told.lines.iter().any(|(label, text)| *label == "checksum" && text == "right"), "{told:?}");
    spool.close().unwrap();
    drop(spool);

    let report = rebuild(disk.clone(), config.clone(), &()).unwrap();
    // The article itself holds NULs, which makes it none for a rebuild.
    assert_eq!(report.articles, 79);
    let (spool, _) = open(&disk, &config);
    assert!(spool.is_known(&spool.key(News::new(40, 2, 100).id.as_bytes())));
    assert_eq!(spool.meter().status().unwrap().history_entries, 80);
    for n in (0..40).chain(41..80) {
        assert_eq!(fetch(&spool, &News::new(n, 2, 1500).id).unwrap(), News::new(n, 2, 1500).wire);
    }
    assert_eq!(spool.verifier().verify(&()).findings, []);
}

/// Only the history log, and rows of the journal that were removed long ago, have the ids of removed
/// articles.
#[test]
fn a_rebuild_keeps_what_only_the_history_log_remembers() {
    for method in [MethodKind::Cnfs, MethodKind::AppendOnly, MethodKind::Tradspool, MethodKind::Bucketed] {
        let mut config = config("/s", &[("a", 120_000)]);
        config.durability = Durability::Process;
        if method != MethodKind::Cnfs {
            config.buffers.clear();
            let class = &mut config.classes[0];
            (class.method, class.size_bytes) = (method, 1 << 20);
            class.buffers.clear();
            class.tree = TreeConfig { path: "/s/kept".into(), file_bytes: 16 << 10, ..TreeConfig::default() };
            class.tree.lines_end_in_lf = method == MethodKind::Bucketed;
            let keep = Retention::Secs { min: 0, default: 1, max: 1 };
            config.expire =
                vec![ExpireConfig { groups: Some("test.g0".into()), keep, ..ExpireConfig::default() }];
        }
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 2);
        let news = |n: u64| News::new(n, 2, 500);
        for n in 0..300 {
            commit(&spool, &[news(n)]).unwrap();
        }
        (250..260).for_each(|n| assert!(spool.cancel(news(n).id.as_bytes()).is_ok()));
        spool.expiry().expire(NOW + 1, false).unwrap();
        let living: Vec<bool> = (0..300).map(|n| fetch(&spool, &news(n).id).is_some()).collect();
        assert!(living.iter().filter(|l| !**l).count() > 50, "{method:?}");
        // Rows that tell of them go with the journal's files.
        spool.checkpoint().unwrap();
        for n in 300..420 {
            commit(&spool, &[news(n)]).unwrap();
        }
        spool.checkpoint().unwrap();
        spool.close().unwrap();
        drop(spool);
        rebuild(disk.clone(), config.clone(), &()).unwrap();
        let (spool, _) = open(&disk, &config);
        for n in 0..420 {
            let id = news(n).id;
            assert!(spool.is_known(&spool.key(id.as_bytes())), "{method:?}: {id} is forgotten");
            if method != MethodKind::Cnfs && n < 300 && living[n as usize] {
                assert_eq!(fetch(&spool, &id), Some(news(n).wire), "{method:?}: {id} is lost");
            }
        }
        assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
    }
}

/// Removes all files of the indexes, as a copy of a site without `index/` lacks them.
fn lose_indexes(disk: &Arc<dyn Disk>) {
    let lists = (0..4).flat_map(|id| [format!("index/residents/{id:05}"), format!("index/kept/{id:05}")]);
    for dir in ["index", "index/history", "index/overview"].map(str::to_owned).into_iter().chain(lists) {
        let dir = Path::new("/s").join(dir);
        disk.list(&dir).unwrap().iter().for_each(|name| disk.remove(&dir.join(name)).unwrap());
    }
}

fn lose_journal(disk: &Arc<dyn Disk>) {
    let dir = Path::new("/s/journal");
    disk.list(dir).unwrap().iter().for_each(|name| disk.remove(&dir.join(name)).unwrap());
}

/// Only rows of the journal have the ids of overwritten, cancelled and refused articles then.
#[test]
fn a_rebuild_without_indexes_knows_the_ids_that_a_start_does() {
    let config = SpoolConfig { journal_keep_bytes: 1 << 40, ..config("/s", &[("a", 64 << 10)]) };
    let disk = SimDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (spool, _) = open(&shared, &config);
    add_groups(&spool, 3);
    let news = |n: u64| News::new(n, 3, 900);
    for n in 0..200 {
        commit(&spool, &[news(n)]).unwrap();
    }
    assert!(fetch(&spool, &news(0).id).is_none(), "overwritten");
    spool.cancel(news(195).id.as_bytes()).unwrap();
    for id in ["<refused@x>", "<released@x>"] {
        spool.remember(ArticleIdent::Id(id.as_bytes())).unwrap();
    }
    let released = spool.key(b"<released@x>");
    let (arrived, _) = spool.seen(&released).unwrap();
    assert!(spool.forget(&released, arrived).unwrap());
    let (all, digest) = (agree(&spool), spool.digest());
    assert!(digest.is_some());
    spool.close().unwrap();
    drop(spool);
    for by_command in [false, true] {
        let disk: Arc<dyn Disk> = Arc::new(disk.image().unwrap());
        lose_indexes(&disk);
        if by_command {
            rebuild(disk.clone(), config.clone(), &()).unwrap();
        }
        let (spool, recovery) = open(&disk, &config);
        let what = format!("by command: {by_command}; {recovery}");
        let forgotten = (0..200).find(|n| !spool.is_known(&spool.key(news(*n).id.as_bytes())));
        assert_eq!(forgotten, None, "{what}");
        assert!(spool.is_known(&spool.key(b"<refused@x>")) && !spool.is_known(&released), "{what}");
        assert_eq!((agree(&spool), spool.digest()), (all.clone(), digest), "{what}");
    }
}

/// The class in memory has another volume number after the loss if a class that keeps has a greater one.
#[test]
fn high_marks_of_groups_in_memory_survive_the_loss_of_the_indexes() {
    let mut config = config("/s", &[("a", 400_000)]);
    config.journal_keep_bytes = 1 << 40;
    let class = |name: &str, method| ClassConfig {
        name: name.into(),
        method,
        size_bytes: 1 << 18,
        tree: TreeConfig { path: format!("/s/{name}").into(), ..TreeConfig::default() },
        ..ClassConfig::default()
    };
    config.classes.extend([class("ram", MethodKind::Memory), class("kept", MethodKind::Timehash)]);
    let rule = |class: &str, group: &str| RuleConfig {
        class: class.into(),
        groups: Some(group.into()),
        ..RuleConfig::default()
    };
    config.rules.splice(..0, [rule("ram", "test.g0"), rule("kept", "test.g1")]);
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (mut spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    let marks = |spool: &Spool| spool.groups().iter().map(|group| group.marks()).collect::<Vec<_>>();
    let mut without = config.clone();
    without.classes.remove(1);
    without.rules.remove(0);
    for (round, config) in (0..).zip([&config, &config, &without]) {
        let news: Vec<News> = (round * 60..round * 60 + 60).map(|n| News::new(n, 3, 900)).collect();
        commit(&spool, &news).unwrap();
        spool.close().unwrap();
        drop(spool);
        // What was in memory has left.
        (spool, _) = open(&disk, config);
        let before = marks(&spool);
        assert!(before.iter().all(|group| group.high > 10 * (round + 1)), "{before:?}");
        spool.close().unwrap();
        drop(spool);
        lose_indexes(&disk);
        let recovery;
        (spool, recovery) = open(&disk, config);
        assert_eq!(marks(&spool), before, "{round}: {recovery}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{round}");
    }
}

/// Numbers of the earlier group are in the Xref of articles that are still there.
#[test]
fn a_group_that_was_removed_and_added_again_stays_without_its_earlier_articles() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Left {
        All,
        NoIndexes,
        NoJournal,
        GroupsFile,
    }
    for method in [MethodKind::Cnfs, MethodKind::Tradspool, MethodKind::AppendOnly] {
        let mut config = config("/s", &[("a", 400_000)]);
        config.checkpoint_rows = 50;
        if method != MethodKind::Cnfs {
            config.buffers.clear();
            let class = &mut config.classes[0];
            (class.method, class.size_bytes) = (method, 1 << 20);
            class.buffers.clear();
            class.tree = TreeConfig { path: "/s/kept".into(), ..TreeConfig::default() };
        }
        let disk = SimDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (spool, _) = open(&shared, &config);
        add_groups(&spool, 2);
        let news = |n: u64| News::new(n, 2, 500);
        commit(&spool, &(0..30).map(news).collect::<Vec<_>>()).unwrap();
        assert!(spool.remove_group("test.g0").unwrap());
        commit(&spool, &(30..40).map(|n| News::new(n, 1, 500).unnumbered()).collect::<Vec<_>>()).unwrap();
        add_groups(&spool, 2);
        assert_eq!(spool.groups()[0].marks().count, 0);
        for n in 40..50 {
            commit(&spool, &[news(n)]).unwrap();
        }
        let marks = |spool: &Spool| spool.groups().iter().map(|group| group.marks()).collect::<Vec<_>>();
        let (before, all) = (marks(&spool), agree(&spool));
        spool.close().unwrap();
        drop(spool);
        for left in [Left::All, Left::NoIndexes, Left::NoJournal, Left::GroupsFile] {
            let disk: Arc<dyn Disk> = Arc::new(disk.image().unwrap());
            let what = format!("{method:?}, {left:?}");
            if matches!(left, Left::NoIndexes | Left::GroupsFile) {
                lose_indexes(&disk);
            }
            if matches!(left, Left::NoJournal | Left::GroupsFile) {
                lose_journal(&disk);
            }
            for _ in 0..2 {
                rebuild(disk.clone(), config.clone(), &()).unwrap();
                let (spool, _) = open(&disk, &config);
                assert_eq!(agree(&spool), all, "{what}");
                let lows = |marks: Vec<netnews::GroupMarks>| marks.iter().map(|m| m.low).collect::<Vec<_>>();
                assert_eq!(lows(marks(&spool)), lows(before.clone()), "{what}");
                let read = |n: &u64| fetch(&spool, &news(*n).id) == Some(news(*n).wire);
                assert_eq!((0..30).find(|n| !read(n)), None, "{what}: reachable by Message-ID as before");
                assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
                spool.close().unwrap();
            }
        }
    }
}

/// Numbers of crossposts end alone in expiry and in purges, where their article stays for other groups.
#[test]
fn numbers_that_ended_alone_do_not_come_back_in_a_rebuild() {
    for method in [MethodKind::Cnfs, MethodKind::Hashed, MethodKind::Tradspool] {
        let mut config = config("/s", &[("a", 400_000)]);
        if method != MethodKind::Cnfs {
            config.buffers.clear();
            let class = &mut config.classes[0];
            (class.method, class.size_bytes) = (method, 1 << 20);
            class.buffers.clear();
            class.tree = TreeConfig { path: "/s/kept".into(), ..TreeConfig::default() };
            let keep = Retention::Secs { min: 0, default: 1, max: 1 };
            config.expire =
                vec![ExpireConfig { groups: Some("test.g0".into()), keep, ..ExpireConfig::default() }];
        }
        let disk = SimDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (spool, _) = open(&shared, &config);
        add_groups(&spool, 2);
        let news = |n: u64| News::new(n, 2, 500);
        commit(&spool, &(0..60).map(news).collect::<Vec<_>>()).unwrap();
        let is_crosspost = |n: &u64| news(*n).groups.len() == 2;
        if method == MethodKind::Cnfs {
            let wildmat = Wildmat::parse(b"test.g0").unwrap();
            spool.purge(&wildmat, false, &()).unwrap();
        } else {
            spool.expiry().expire(NOW + 9, false).unwrap();
        }
        let all = agree(&spool);
        assert!(all.iter().all(|(group, ..)| group == "test.g1") && (0..60).any(|n| is_crosspost(&n)));
        spool.close().unwrap();
        drop(spool);
        for without_indexes in [false, true] {
            let disk: Arc<dyn Disk> = Arc::new(disk.image().unwrap());
            if without_indexes {
                lose_indexes(&disk);
            }
            rebuild(disk.clone(), config.clone(), &()).unwrap();
            let (spool, _) = open(&disk, &config);
            assert_eq!(agree(&spool), all, "{method:?}, without indexes: {without_indexes}");
            assert_eq!(spool.verifier().verify(&()).findings, [], "{method:?}");
        }
    }
}

/// Files of methods with names are under that of the first group, which need not be carried any more.
#[test]
fn articles_whose_first_group_was_removed_stay_in_a_rebuild() {
    for method in [MethodKind::Tradspool, MethodKind::Bucketed, MethodKind::Timehash, MethodKind::AppendOnly]
    {
        let mut config = config("/s", &[]);
        let class = &mut config.classes[0];
        (class.method, class.size_bytes) = (method, 1 << 20);
        class.tree = TreeConfig { path: "/s/kept".into(), ..TreeConfig::default() };
        class.tree.lines_end_in_lf = method == MethodKind::Bucketed;
        let disk = SimDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (spool, _) = open(&shared, &config);
        add_groups(&spool, 3);
        let news = |n: u64| News::new(n, 3, 500);
        commit(&spool, &(0..60).map(news).collect::<Vec<_>>()).unwrap();
        assert!(spool.remove_group("test.g0").unwrap());
        let all = agree(&spool);
        spool.close().unwrap();
        drop(spool);
        for lost in [&[][..], &["index"], &["journal"], &["index", "journal"]] {
            let disk: Arc<dyn Disk> = Arc::new(disk.image().unwrap());
            if lost.contains(&"index") {
                lose_indexes(&disk);
            }
            if lost.contains(&"journal") {
                lose_journal(&disk);
            }
            for _ in 0..2 {
                rebuild(disk.clone(), config.clone(), &()).unwrap();
                let (spool, _) = open(&disk, &config);
                let what = format!("{method:?}, lost: {lost:?}");
                assert_eq!(agree(&spool), all, "{what}");
                let missing = (0..60).find(|n| fetch(&spool, &news(*n).id) != Some(news(*n).wire));
                assert_eq!(missing, None, "{what}");
                assert_eq!(spool.meter().status().unwrap().articles, 60, "{what}");
                assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
                spool.close().unwrap();
            }
        }
    }
}
