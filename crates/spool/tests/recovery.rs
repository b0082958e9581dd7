//! Losses that no crash explains: missing or damaged files, unreadable sectors, a changed configuration.
//! Everything is recovered that the rest shows, and the loss is reported.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Result of [`agree`]: group, number, Message-ID.
type Named = Vec<(String, u64, String)>;

fn disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

fn feed(spool: &Spool, range: std::ops::Range<u64>, groups: u64, scale: u64) {
    let news: Vec<News> = range.map(|n| News::new(n, groups, scale)).collect();
    for part in news.chunks(20) {
        let (ticket, outcomes) = commit(spool, part).unwrap();
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))), "{outcomes:?}");
        while !spool.is_durable(ticket) {
            std::thread::yield_now();
        }
    }
}

fn close(spool: Spool) {
    spool.close().unwrap();
}

fn files(disk: &Arc<dyn Disk>, dir: &str) -> Vec<PathBuf> {
    disk.list(Path::new(dir)).unwrap().into_iter().map(|n| Path::new(dir).join(n)).collect()
}

fn remove_all(disk: &Arc<dyn Disk>, dir: &str) {
    files(disk, dir).iter().for_each(|path| disk.remove(path).unwrap());
}

fn overwrite(disk: &Arc<dyn Disk>, path: &Path, at: u64, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Existing).unwrap();
    file.write_all_at(&[IoSlice::new(bytes)], at).unwrap();
}

/// Where in the file of buffer `a` a token's record lies.
fn offset(spool: &Spool, config: &SpoolConfig, token: Token) -> u64 {
    let area = spool.meter().status().unwrap().buffers[0].area_bytes;
    let len = config.buffers[0].size_bytes / 512 * 512;
    len - area + token.place % area
}

fn token(spool: &Spool, n: u64, groups: u64, scale: u64) -> Token {
    let id = News::new(n, groups, scale).id;
    let Lookup::Present(token) = spool.lookup(&spool.key(id.as_bytes())) else { panic!("{id}") };
    token
}

fn error(disk: &Arc<dyn Disk>, config: &SpoolConfig) -> String {
    Spool::open(disk.clone(), config.clone(), &()).unwrap_err().to_string()
}

#[test]
fn an_index_lost_after_the_journal_was_lost() {
    for checkpoint_too in [false, true] {
        let (_, disk) = disk();
        let config = config("/s", &[("a", 400_000)]);
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 2);
        feed(&spool, 0..50, 2, 900);
        let before = agree(&spool);
        close(spool);
        remove_all(&disk, "/s/journal");
        if checkpoint_too {
            remove_all(&disk, "/s/index");
        }
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(agree(&spool), before, "{recovery}");
        close(spool);
        lose_checkpoint(&disk);
        let (spool, recovery) = open(&disk, &config);
        assert!(recovery.rebuilt.is_some(), "{recovery}");
        assert_eq!(agree(&spool), before, "{recovery}");
    }
}

#[test]
fn groups_are_known_without_the_journal() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    let old = NewGroup { name: "test.empty".into(), high: 500, ..NewGroup::default() };
    spool.add_groups(&[old]).unwrap();
    let change = GroupChange { flag: Some(GroupFlag::Moderated), description: Some("two words".into()) };
    assert_eq!(spool.change_group("test.g1", &change), Ok(true));
    feed(&spool, 0..40, 3, 900);
    let high = spool.marks(spool.group_id(b"test.g2").unwrap()).unwrap().high;
    assert_eq!(spool.remove_group("test.g2"), Ok(true));
    let before = agree(&spool);
    close(spool);
    remove_all(&disk, "/s/journal");
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.rebuilt.is_some() && !recovery.power_lost, "{recovery}");
    assert_eq!(agree(&spool), before);
    let group = spool.group(spool.group_id(b"test.g1").unwrap()).unwrap();
    assert_eq!((group.flag(), group.description()), (GroupFlag::Moderated, "two words".to_owned()));
    let marks = spool.marks(spool.group_id(b"test.empty").unwrap()).unwrap();
    // The numbers of the lost rows are unknown; readers may have seen them.
    assert!(marks.high >= 500 && marks.count == 0, "{marks:?}");
    assert_eq!(spool.group_id(b"test.g2"), None);
    add_groups(&spool, 3);
    assert!(spool.marks(spool.group_id(b"test.g2").unwrap()).unwrap().high >= high);
}

#[test]
fn a_checkpoint_never_comes_back_beside_new_indexes() {
    let (sim, disk) = disk();
    let config = SpoolConfig { checkpoint_rows: 60, ..config("/s", &[("a", 60_000)]) };
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    feed(&spool, 0..200, 3, 900);
    let before = agree(&spool);
    close(spool);
    let mut lost = files(&disk, "/s/index/history");
    lost.retain(|path| path.extension().is_some_and(|e| e == "ring"));
    let lost = lost.remove(0);
    drop(disk);
    let sim = sim.image().unwrap();
    sim.remove(&lost).unwrap();
    sim.sync_dir(lost.parent().unwrap()).unwrap();
    let opened = |sim: &SimDisk| {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        Spool::open(disk, config.clone(), &())
    };
    let whole = sim.image().unwrap();
    let from = whole.steps();
    let (spool, recovery) = opened(&whole).unwrap();
    assert!(recovery.rows > 0, "{recovery}");
    close(spool);
    let steps = whole.steps() - from;
    assert!(steps > 20);
    for step in 0..steps {
        for seed in 0..6 {
            let sim = sim.image().unwrap();
            sim.crash_at(sim.steps() + step, CrashKind::Power, seed);
            let _ = opened(&sim).map(|(spool, _)| spool.close());
            let sim = sim.image().unwrap();
            let (spool, recovery) = opened(&sim).unwrap();
            assert_eq!(agree(&spool), before, "step {step} seed {seed}: {recovery}");
            let findings = spool.verifier().verify(&()).findings;
            assert!(findings.is_empty(), "step {step} seed {seed}: {findings:?}");
        }
    }
}

#[test]
fn an_unreadable_sector_costs_what_lies_there() {
    let (sim, disk) = disk();
    let config = config("/s", &[("a", 16 << 20)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    feed(&spool, 0..40, 2, 900);
    let bad = [token(&spool, 7, 2, 900), token(&spool, 20, 2, 900)];
    for token in bad {
        let at = offset(&spool, &config, token);
        sim.spoil(Path::new("/s/a.cyc"), at..at + 512).unwrap();
    }
    let lost = [7, 20].map(|n| News::new(n, 2, 900).id);
    assert!(spool.cancel(lost[0].as_bytes()).is_err());
    drop(spool);
    // Not even after a power cut does another go with them.
    let cut: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Power, 3).unwrap());
    let (spool, recovery) = open(&cut, &config);
    assert!(recovery.power_lost && recovery.given_up == 0, "{recovery}");
    for n in (0..20).filter(|n| *n != 7) {
        assert!(fetch(&spool, &News::new(n, 2, 900).id).is_some(), "{n}");
    }
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    agree(&spool);
    for n in (0..40).filter(|n| ![7, 20].contains(n)) {
        let news = News::new(n, 2, 900);
        assert_eq!(fetch(&spool, &news.id).as_ref(), Some(&news.wire), "{n}");
    }
}

#[test]
fn an_unreadable_article_is_given_up_by_one_repair() {
    let (sim, disk) = disk();
    let config = config("/s", &[("a", 100_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    feed(&spool, 0..200, 2, 900);
    let living: Vec<u64> = (0..200).filter(|n| fetch(&spool, &News::new(*n, 2, 900).id).is_some()).collect();
    // The oldest, next to the write position, and one in the middle.
    let lost = [living[0], living[20]];
    for n in lost {
        let at = offset(&spool, &config, token(&spool, n, 2, 900));
        sim.spoil(Path::new("/s/a.cyc"), at..at + 512).unwrap();
    }
    // Dropped without closing: as if killed.
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed && recovery.given_up == 0, "{recovery}");
    let report = spool.repairer().repair(false, &());
    assert!(report.repaired.iter().all(|r| r.result.is_ok()), "{:?}", report.repaired);
    assert_eq!(report.after.unwrap().findings, []);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    let named = agree(&spool);
    for n in living.iter().filter(|n| !lost.contains(n)) {
        assert!(named.iter().any(|(_, _, id)| *id == News::new(*n, 2, 900).id), "{n}");
    }
    close(spool);
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    assert_eq!(agree(&spool), named);
}

#[test]
fn a_journal_lost_after_wraps_and_a_kill() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 100_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    feed(&spool, 0..400, 2, 900);
    let before: Vec<String> = agree(&spool).into_iter().map(|(_, _, id)| id).collect();
    assert!(before.len() > 40);
    drop(spool);
    remove_all(&disk, "/s/journal");
    let (spool, recovery) = open(&disk, &config);
    // The oldest may be given up: they lie next to the write position.
    assert_eq!(agree(&spool).into_iter().map(|(_, _, id)| id).collect::<Vec<_>>(), before, "{recovery}");
    feed(&spool, 400..600, 2, 900);
    agree(&spool);
}

/// A spool of several journal files, all kept, closed in order or killed; a row in the first file behind its
/// head rows is damaged.
fn damaged_journal(config: &SpoolConfig, killed: bool) -> (Arc<dyn Disk>, Named) {
    let (_, disk) = disk();
    let (spool, _) = open(&disk, config);
    add_groups(&spool, 2);
    feed(&spool, 0..900, 2, 900);
    let before = agree(&spool);
    if !killed {
        spool.close().unwrap();
    }
    drop(spool);
    let all = files(&disk, "/s/journal");
    assert!(all.len() > 2, "{all:?}");
    overwrite(&disk, &all[0], 40_000, &[0xff; 64]);
    (disk, before)
}

fn lose_checkpoint(disk: &Arc<dyn Disk>) {
    ["checkpoint", "checkpoint.copy"]
        .iter()
        .for_each(|name| disk.remove(&Path::new("/s/index").join(name)).unwrap());
}

#[test]
fn a_damaged_row_amid_the_journal_is_no_end() {
    let config = SpoolConfig {
        journal_keep_bytes: 1 << 40,
        checkpoint_rows: 1 << 40,
        ..config("/s", &[("a", 400_000)])
    };
    let (disk, before) = damaged_journal(&config, false);
    lose_checkpoint(&disk);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.rebuilt.is_some(), "{recovery}");
    assert_eq!(agree(&spool), before, "{recovery}");
    let change = GroupChange { flag: Some(GroupFlag::Closed), ..GroupChange::default() };
    spool.change_group("test.g1", &change).unwrap();
    close(spool);
    // And what comes after the loss is never taken for all there ever was, by whatever end.
    lose_checkpoint(&disk);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.rebuilt.is_some(), "{recovery}");
    assert_eq!(agree(&spool), before, "{recovery}");
    assert_eq!(spool.group(spool.group_id(b"test.g1").unwrap()).unwrap().flag(), GroupFlag::Closed);
}

#[test]
fn a_damaged_row_among_those_to_be_replayed_is_no_end() {
    let config = SpoolConfig { checkpoint_rows: 1 << 40, ..config("/s", &[("a", 400_000)]) };
    let (disk, before) = damaged_journal(&config, true);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.rebuilt.is_some() && !recovery.power_lost, "{recovery}");
    assert_eq!(agree(&spool), before, "{recovery}");
}

#[test]
fn a_missing_journal_file_is_no_end() {
    let config = SpoolConfig {
        journal_keep_bytes: 1 << 40,
        checkpoint_rows: 1 << 40,
        ..config("/s", &[("a", 400_000)])
    };
    let (disk, before) = damaged_journal(&config, false);
    disk.remove(&files(&disk, "/s/journal")[1]).unwrap();
    lose_checkpoint(&disk);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.rebuilt.is_some(), "{recovery}");
    assert_eq!(agree(&spool), before, "{recovery}");
}

#[test]
fn a_rebuild_makes_damaged_headers_anew() {
    let (_, disk) = disk();
    for keep_journal in [true, false] {
        let dir = format!("/s{keep_journal}");
        let config = config(&dir, &[("z", 300_000), ("a", 100_000)]);
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 2);
        feed(&spool, 0..300, 2, 900);
        let before = agree(&spool);
        close(spool);
        for at in [100, 4196] {
            overwrite(&disk, &config.buffers[1].path, at, b"X");
        }
        assert!(error(&disk, &config).contains("newsreel rebuild"));
        if !keep_journal {
            remove_all(&disk, &format!("{dir}/journal"));
            remove_all(&disk, &format!("{dir}/index"));
        }
        let report = rebuild(disk.clone(), config.clone(), &()).unwrap();
        assert!(report.articles > 40, "{report:?}");
        let (spool, _) = open(&disk, &config);
        assert_eq!(agree(&spool), before, "{keep_journal}");
        assert_eq!(spool.verifier().verify(&()).findings, []);
        feed(&spool, 300..400, 2, 900);
        close(spool);
        let (spool, _) = open(&disk, &config);
        agree(&spool);
    }
}

#[test]
fn an_article_goes_where_it_fits() {
    for order in [BufferOrder::Interleave, BufferOrder::Sequential] {
        let (_, disk) = disk();
        let mut config =
            config("/s", &[("a", 8192 + 4096 + 16 * 512), ("b", 400_000), ("c", 8192 + 4096 + 16 * 512)]);
        config.classes[0].order = order;
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 2);
        for n in 0..30 {
            let scale = if n % 3 == 0 { 40_000 } else { 900 };
            let (_, outcomes) = commit(&spool, &[News::new(n, 2, scale)]).unwrap();
            assert!(matches!(outcomes[0], ChangeOutcome::Filed(_)), "{n}: {outcomes:?}");
        }
        agree(&spool);
        assert_eq!(commit(&spool, &[News::new(99, 2, 900_000)]).unwrap().1, [ChangeOutcome::Unfit]);
    }
}

/// Ids that only the journal's rows tell are remembered on, however the history is searched by time.
#[test]
fn what_a_rebuild_remembers_is_not_forgotten_too_early() {
    let (_, disk) = disk();
    // From `NOW` to the date of today, and 400 days.
    let past = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().saturating_sub(NOW);
    let config = SpoolConfig {
        journal_keep_bytes: 1 << 40,
        remember_secs: past + 400 * 86_400,
        checkpoint_rows: 50,
        ..config("/s", &[("a", 60_000)])
    };
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    feed(&spool, 0..60, 2, 300);
    for n in 0..60 {
        spool.cancel(News::new(n, 2, 300).id.as_bytes()).unwrap();
    }
    feed(&spool, 60..140, 2, 900);
    close(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    feed(&spool, 140..240, 2, 900);
    close(spool);
    let (spool, _) = open(&disk, &config);
    for n in (0..40).chain(140..240) {
        let scale = if n < 60 { 300 } else { 900 };
        assert!(spool.is_known(&spool.key(News::new(n, 2, scale).id.as_bytes())), "{n}");
    }
}

#[test]
fn a_rebuild_takes_records_as_they_are() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    let mut folded = News::new(1, 1, 900);
    let text = String::from_utf8(folded.wire).unwrap();
    folded.wire = text.replace("Message-ID: ", "Message-ID:\r\n ").into_bytes();
    commit(&spool, &[folded.clone()]).unwrap();
    // Bytes that are no article, as another program may have let in.
    let wire = b"no header at all\r\n\r\n";
    let filing = NewArticle {
        key: None,
        message_id: b"<odd@test.example>",
        pieces: &[wire],
        header_bytes: wire.len(),
        message_id_at: 0,
        groups: ArticleGroups::Named(&[b"test.g0"]),
        numbers: &[],
        fields: netnews::overview_row::OverviewFields {
            subject: b"",
            from: b"",
            date: b"",
            message_id: b"<odd@test.example>",
            references: b"",
            bytes: wire.len() as u64,
            lines: 0,
        },
        arrived: NOW,
        expires: None,
        criteria: Criteria::default(),
        tagged: TaggedFields::default(),
    };
    let mut outcomes = Vec::new();
    spool.commit(&[Change::Article(filing)], &mut outcomes).unwrap();
    assert!(matches!(outcomes[0], ChangeOutcome::Filed(_)), "{outcomes:?}");
    close(spool);
    remove_all(&disk, "/s/journal");
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(spool.verifier().verify(&()).findings, []);
    assert_eq!(fetch(&spool, &folded.id), Some(folded.wire));
    assert_eq!(spool.lookup(&spool.key(b"<odd@test.example>")), Lookup::Remembered);
}

#[test]
fn articles_of_removed_groups_are_counted_until_they_go() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 60_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    feed(&spool, 0..40, 2, 900);
    spool.remove_group("test.g1").unwrap();
    close(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    let living = (0..40).filter(|n| fetch(&spool, &News::new(*n, 2, 900).id).is_some()).count();
    assert_eq!(spool.meter().status().unwrap().articles, living as u64);
    let news: Vec<News> = (100..500).map(|n| News::new(n, 1, 900)).collect();
    news.chunks(10).for_each(|part| drop(commit(&spool, part).unwrap()));
    assert_eq!(spool.meter().status().unwrap().articles, spool.groups()[0].marks().count);
}

#[test]
fn a_memory_class_may_go() {
    let (_, disk) = disk();
    let mut with = config("/s", &[("a", 400_000)]);
    with.classes.push(ClassConfig {
        name: "ram".into(),
        method: MethodKind::Memory,
        buffers: Vec::new(),
        order: BufferOrder::Interleave,
        size_bytes: 1 << 18,
        ..ClassConfig::default()
    });
    let ram = RuleConfig { class: "ram".into(), groups: Some("test.g0".into()), ..RuleConfig::default() };
    with.rules.insert(0, ram);
    let mut without = with.clone();
    without.classes.pop();
    without.rules.remove(0);
    for killed in [false, true] {
        let (spool, _) = open(&disk, &with);
        add_groups(&spool, 2);
        let from = if killed { 100 } else { 0 };
        feed(&spool, from..from + 60, 2, 900);
        if !killed {
            spool.close().unwrap();
        }
        drop(spool);
        let (spool, recovery) = open(&disk, &without);
        assert_eq!(recovery.rebuilt, None, "{recovery}");
        assert!(agree(&spool).iter().any(|(group, ..)| group == "test.g1"));
        feed(&spool, from + 60..from + 100, 2, 900);
        assert_eq!(spool.verifier().verify(&()).findings, []);
        close(spool);
    }
}

#[test]
fn a_short_residents_file_is_noticed() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 4 << 20)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    feed(&spool, 0..300, 2, 900);
    let before = agree(&spool);
    close(spool);
    let file = files(&disk, "/s/index/residents/00000").pop().unwrap();
    let file = disk.open(&file, OpenMode::Existing).unwrap();
    file.set_len(file.len().unwrap() / 2).unwrap();
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.rows > 0, "{recovery}");
    assert_eq!(agree(&spool), before);
}

#[test]
fn another_secret_is_refused() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    feed(&spool, 0..5, 1, 900);
    close(spool);
    let path = Path::new("/s/secret");
    let digits = format!("{:032x}", 77);
    overwrite(
        &disk,
        path,
        0,
        format!("{digits} {:08x}\n", crc_fast::crc32_iscsi(digits.as_bytes())).as_bytes(),
    );
    assert!(error(&disk, &config).contains("buffer \"a\""), "{}", error(&disk, &config));
    disk.remove(path).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(agree(&spool).len(), 5);
}

#[test]
fn more_classes_than_a_token_can_name_are_refused() {
    let (_, disk) = disk();
    let mut config = config("/s", &[("a", 400_000)]);
    let class = config.classes[0].clone();
    config.classes.extend((1..256).map(|n| ClassConfig { name: format!("c{n}"), ..class.clone() }));
    assert!(error(&disk, &config).contains("at most 255"));
    config.classes.pop();
    open(&disk, &config);
}

/// A cancelled article was counted as removed once more by the replay that displaced it, if an article
/// written over it began at the same block: its usage bit is set again by then.
#[test]
fn cancelled_articles_displaced_before_a_kill_are_counted_once() {
    let mut config = config("/s", &[("a", 200_000)]);
    config.durability = Durability::Process;
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    let news = |n: u64| News::new(n, 1, 300);
    let feed = |from: u64, upto: u64| {
        for n in from..upto {
            commit(&spool, &[news(n)]).unwrap();
        }
    };
    feed(0, 150);
    (20..120).for_each(|n| assert!(spool.cancel(news(n).id.as_bytes()).unwrap()));
    spool.checkpoint().unwrap();
    feed(150, 420);
    assert!(spool.meter().status().unwrap().buffers[0].cycle > 1);
    let living = agree(&spool).len() as u64;
    assert_eq!(spool.meter().status().unwrap().articles, living);
    drop(spool);
    let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Kill, 1).unwrap());
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed && recovery.rows > 100, "{recovery}");
    assert_eq!(agree(&spool).len() as u64, living);
    assert_eq!(spool.meter().status().unwrap().articles, living);
}
