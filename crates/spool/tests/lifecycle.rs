//! A spool from its making over wraps, restarts, cancels and lost index files to its rebuilding.

use crate::news::*;
use disk::{Disk, OpenMode, SimDisk};
use spool::*;
use std::path::Path;
use std::sync::Arc;

fn disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

#[test]
fn wraps_many_times_and_stays_exact() {
    let (_, disk) = disk();
    let config = SpoolConfig {
        durability: Durability::Process,
        checkpoint_rows: 300,
        ..config("/s", &[("a", 120_000), ("b", 200_000)])
    };
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.new);
    add_groups(&spool, 7);
    let mut last = 0;
    for batch in 0..60u64 {
        let news: Vec<News> = (batch * 25..batch * 25 + 25).map(|n| News::new(n, 7, 1500)).collect();
        let (_, outcomes) = commit(&spool, &news).unwrap();
        assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))));
        let (_, again) = commit(&spool, &news[..3]).unwrap();
        assert_eq!(again, [ChangeOutcome::Duplicate; 3]);
        last = agree(&spool).len();
    }
    // Two buffers of some 310 KB of room, records of 1 to 3 KB.
    assert!((100..320).contains(&last), "{last}");
    let status = spool.meter().status().unwrap();
    assert!(status.buffers.iter().all(|b| b.cycle > 3 && b.used_bytes <= b.area_bytes));
    assert_eq!(status.history_entries, 1500);
    let before = agree(&spool);
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(!recovery.crashed && recovery.rows == 0, "{recovery}");
    assert_eq!(agree(&spool), before);
}

#[test]
fn a_killed_process_loses_nothing() {
    let (_, disk) = disk();
    let config = SpoolConfig {
        durability: Durability::Process,
        checkpoint_rows: 200,
        ..config("/s", &[("a", 400_000)])
    };
    let mut named = Vec::new();
    for life in 0..6u64 {
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(recovery.crashed, life > 0);
        assert!(!recovery.power_lost);
        add_groups(&spool, 5);
        assert_eq!(agree(&spool), named, "life {life}");
        for batch in 0..5 {
            let from = life * 100 + batch * 20;
            commit(&spool, &(from..from + 20).map(|n| News::new(n, 5, 1500)).collect::<Vec<_>>()).unwrap();
        }
        named = agree(&spool);
        // Dropped without closing: as if killed.
    }
}

#[test]
fn a_cancelled_article_is_gone_everywhere_and_stays_known() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    let news: Vec<News> = (0..40).map(|n| News::new(n, 3, 900)).collect();
    commit(&spool, &news).unwrap();
    assert_eq!(spool.cancel(news[7].id.as_bytes()), Ok(true));
    assert_eq!(spool.cancel(news[7].id.as_bytes()), Ok(false));
    assert_eq!(spool.cancel(b"<never@seen>"), Ok(false));
    let check = |spool: &Spool| {
        assert_eq!(spool.lookup(&spool.key(news[7].id.as_bytes())), Lookup::Remembered);
        assert_eq!(fetch(spool, &news[7].id), None);
        assert!(agree(spool).iter().all(|(_, _, id)| *id != news[7].id));
        assert_eq!(commit(spool, &news[7..8]).unwrap().1, [ChangeOutcome::Duplicate]);
    };
    check(&spool);
    drop(spool);
    let (spool, _) = open(&disk, &config);
    check(&spool);
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    check(&spool);
}

#[test]
fn many_are_cancelled_by_few_syncs() {
    let (sim, disk) = disk();
    let config = config("/s", &[("a", 2_000_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    let news: Vec<News> = (0..1000).map(|n| News::new(n, 3, 900)).collect();
    news.chunks(50).for_each(|news| drop(commit(&spool, news).unwrap()));
    let is_cancelled = |n: usize| n.is_multiple_of(2);
    let mut keys: Vec<ArticleKey> =
        (0..1000).filter(|n| is_cancelled(*n)).map(|n| spool.key(news[n].id.as_bytes())).collect();
    let mut want = vec![true; keys.len()];
    // Not twice, and not what is not here.
    keys.extend([keys[499], keys[0], spool.key(b"<never@seen>")]);
    want.extend([false; 3]);
    let before = sim.steps();
    assert_eq!(spool.cancel_all(&keys), Ok(want));
    let steps = sim.steps() - before;
    // One marks the place of each.
    assert!(steps < 550, "{steps} writes and syncs for 500 articles");
    let check = |spool: &Spool| {
        agree(spool);
        for (n, news) in news.iter().enumerate() {
            assert_eq!(fetch(spool, &news.id).is_none(), is_cancelled(n), "{}", news.id);
        }
    };
    check(&spool);
    drop(spool);
    let (spool, _) = open(&disk, &config);
    check(&spool);
    assert_eq!(spool.cancel_all(&keys[..3]), Ok(vec![false; 3]));
}

/// Guarantee G8, and G2 through every loss.
#[test]
fn every_index_file_may_be_deleted() {
    let (_, disk) = disk();
    let config = SpoolConfig { checkpoint_rows: 150, ..config("/s", &[("a", 300_000), ("b", 300_000)]) };
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 4);
    for batch in 0..20u64 {
        commit(&spool, &(batch * 30..batch * 30 + 30).map(|n| News::new(n, 4, 1500)).collect::<Vec<_>>())
            .unwrap();
    }
    spool.cancel(News::new(599, 4, 1500).id.as_bytes()).unwrap();
    let before = agree(&spool);
    let high: Vec<u64> = spool.groups().iter().map(|g| g.marks().high).collect();
    spool.close().unwrap();
    drop(spool);
    let mut files = Vec::new();
    for dir in ["/s/index", "/s/index/history", "/s/index/overview", "/s/index/residents/00000", "/s/journal"]
    {
        files.extend(disk.list(Path::new(dir)).unwrap().into_iter().map(|n| Path::new(dir).join(n)));
    }
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        // A rebuild on the way may have made other files.
        if disk.remove(&file).is_err() {
            continue;
        }
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(agree(&spool), before, "without {} ({recovery})", file.display());
        let now: Vec<u64> = spool.groups().iter().map(|g| g.marks().high).collect();
        assert!(now.iter().zip(&high).all(|(now, high)| now >= high), "{now:?} {high:?}");
        spool.close().unwrap();
    }
}

#[test]
fn verify_finds_a_flipped_bit_and_nothing_else() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 3);
    let news: Vec<News> = (0..50).map(|n| News::new(n, 3, 900)).collect();
    let (_, outcomes) = commit(&spool, &news).unwrap();
    assert_eq!(spool.verifier().verify(&()).findings, []);
    let ChangeOutcome::Filed(filed) = outcomes[11] else { panic!() };
    let file = disk.open(Path::new("/s/a.cyc"), OpenMode::Existing).unwrap();
    let area = spool.meter().status().unwrap().buffers[0].area_bytes;
    let at = 400_000 / 512 * 512 - area + filed.token.place % area + 300;
    let at = at.min(400_000 - 1);
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_all_at(&[std::io::IoSlice::new(&[byte[0] ^ 4])], at).unwrap();
    assert_eq!(fetch(&spool, &news[11].id), None);
    let report = spool.verifier().verify(&());
    assert!((1..=4).contains(&report.findings.len()), "{:?}", report.findings);
    assert!(news.iter().enumerate().all(|(i, n)| i == 11 || fetch(&spool, &n.id).as_ref() == Some(&n.wire)));
}

#[test]
fn a_removed_group_that_comes_back_goes_on_behind_its_numbers() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    commit(&spool, &(0..10).map(|n| News::new(n, 1, 900)).collect::<Vec<_>>()).unwrap();
    assert_eq!(spool.remove_group("test.g0"), Ok(true));
    assert_eq!(spool.remove_group("test.g0"), Ok(false));
    assert!(fetch(&spool, &News::new(3, 1, 900).id).is_some());
    drop(spool);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    commit(&spool, &[News::new(10, 1, 900)]).unwrap();
    let marks = spool.groups()[0].marks();
    assert!(marks.low > 10 && marks.count == 1, "{marks:?}");
}

#[test]
fn groups_change_and_survive() {
    let (_, disk) = disk();
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    let change = GroupChange { flag: Some(GroupFlag::Moderated), description: Some("two words".into()) };
    assert_eq!(spool.change_group("test.g1", &change), Ok(true));
    assert_eq!(spool.change_group("test.g9", &change), Ok(false));
    let bad = NewGroup { name: "../../etc".into(), ..NewGroup::default() };
    assert!(spool.add_groups(&[bad]).is_err());
    drop(spool);
    let (spool, _) = open(&disk, &config);
    let group = spool.group(spool.group_id(b"test.g1").unwrap()).unwrap();
    assert_eq!((group.flag(), group.description()), (GroupFlag::Moderated, "two words".to_owned()));
    assert_eq!(spool.groups().len(), 2);
}

#[test]
fn classes_by_rule_order_and_method() {
    let (_, disk) = disk();
    let mut config = config("/s", &[("a", 100_000), ("b", 100_000), ("c", 100_000)]);
    config.classes[0].buffers = vec!["a".into(), "b".into()];
    config.classes[0].order = BufferOrder::Sequential;
    let class = |name: &str, method, buffers: &[&str], size_bytes| ClassConfig {
        name: name.into(),
        method,
        buffers: buffers.iter().map(|b| (*b).to_owned()).collect(),
        size_bytes,
        ..ClassConfig::default()
    };
    config.classes.push(class("ram", MethodKind::Memory, &[], 1 << 16));
    config.classes.push(class("none", MethodKind::Trash, &[], 0));
    config.classes.push(class("own", MethodKind::Cnfs, &["c"], 0));
    let rule = |class: &str, groups: &str| RuleConfig {
        class: class.into(),
        groups: Some(groups.into()),
        ..RuleConfig::default()
    };
    config.rules =
        vec![rule("ram", "test.g0"), rule("none", "test.g1"), rule("own", "test.g2"), rule("all", "*")];
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 5);
    let mut first = Vec::new();
    for n in 0..200 {
        let (_, outcomes) = commit(&spool, &[News::new(n, 5, 1500)]).unwrap();
        let ChangeOutcome::Filed(filed) = outcomes[0] else { panic!("{outcomes:?}") };
        first.push(filed.token);
    }
    agree(&spool);
    let names: Vec<String> = first.iter().filter(|t| t.class == 0).map(|t| spool.tokens().text(t)).collect();
    let names: Vec<&str> = names.iter().filter_map(|text| Some(text.split_once(':')?.0)).collect();
    let changes = names.windows(2).filter(|w| w[0] != w[1]).count();
    assert!(names[0] == "a" && names.contains(&"b") && (1..=6).contains(&changes), "{names:?}");
    let news = |group: &str| {
        (0..200).map(|n| News::new(n, 5, 1500)).filter(|n| n.groups[0] == group).collect::<Vec<_>>()
    };
    assert!(
        news("test.g1")
            .iter()
            .all(|n| fetch(&spool, &n.id).is_none() && spool.is_known(&spool.key(n.id.as_bytes())))
    );
    assert!(fetch(&spool, &news("test.g0").last().unwrap().id).is_some());
    drop(spool);
    let (spool, _) = open(&disk, &config);
    agree(&spool);
    assert!(
        news("test.g0").iter().all(|n| fetch(&spool, &n.id).is_none()),
        "memory is empty after a restart"
    );
    commit(&spool, &[News::new(777, 5, 1500)]).unwrap();
    agree(&spool);
}

#[test]
fn unfit_buffers_are_told_apart() {
    let (_, disk) = disk();
    let good = config("/s", &[("a", 200_000)]);
    let (spool, _) = open(&disk, &good);
    add_groups(&spool, 1);
    commit(&spool, &[News::new(1, 1, 900)]).unwrap();
    assert!(matches!(Spool::open(disk.clone(), good.clone(), &()), Err(SpoolError::Locked(_))));
    spool.close().unwrap();
    drop(spool);
    let error =
        |config: &SpoolConfig| Spool::open(disk.clone(), config.clone(), &()).unwrap_err().to_string();
    let mut bad = good.clone();
    bad.buffers[0].size_bytes = 100_000;
    assert!(error(&bad).contains("set size = 200000"), "{}", error(&bad));
    let mut bad = good.clone();
    bad.buffers[0].name = "other".into();
    bad.classes[0].buffers = vec!["other".into()];
    assert!(error(&bad).contains("is buffer \"a\""), "{}", error(&bad));
    let mut bad = good.clone();
    bad.buffers[0].path = "/s/elsewhere".into();
    assert!(error(&bad).contains("is missing"), "{}", error(&bad));
    let file = disk.open(Path::new("/s/foreign"), OpenMode::Create).unwrap();
    file.write_all_at(&[std::io::IoSlice::new(b"precious data")], 0).unwrap();
    bad.buffers[0].path = "/s/foreign".into();
    assert!(error(&bad).contains("left alone"), "{}", error(&bad));
    open(&disk, &good);
}

#[test]
fn a_group_knows_when_its_active_entry_last_changed() {
    let (_, disk) = disk();
    let (spool, _) = open(&disk, &config("/s", &[("a", 120_000)]));
    add_groups(&spool, 2);
    let changed = || spool.groups().iter().map(|group| group.changed()).collect::<Vec<_>>();
    let news = News::new(0, 1, 500);
    let made = changed();
    assert!(made.iter().all(|at| *at > 1_700_000_000), "{made:?}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    commit(&spool, std::slice::from_ref(&news)).unwrap();
    let filed = changed();
    let moved = filed.iter().zip(&made).filter(|(after, before)| after > before).count();
    assert_eq!(moved, 1, "{made:?} {filed:?}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(spool.cancel(news.id.as_bytes()).unwrap());
    let cancelled = changed();
    let moved = cancelled.iter().zip(&filed).filter(|(after, before)| after > before).count();
    assert_eq!(moved, 1, "{filed:?} {cancelled:?}");
}

/// Each takes more than half of the buffer, so what it is written over ends in the part that stayed free
/// before the end.
#[test]
fn articles_longer_than_half_a_buffer_follow_each_other() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut config = config("/s", &[("a", 70_000)]);
    config.article_bytes_max = 50_000;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    for n in 0..40 {
        let news = News::new(n, 1, if n % 3 == 0 { 36_000 } else { 400 });
        let (_, outcomes) = commit(&spool, std::slice::from_ref(&news)).unwrap();
        assert!(matches!(outcomes[..], [ChangeOutcome::Filed(_)]), "{n}: {outcomes:?}");
        assert_eq!(fetch(&spool, &news.id), Some(news.wire), "{n}");
    }
    agree(&spool);
}

/// Writes of a full buffer reach to the end of a step, so that no page need be read first, and overwrite no
/// living article.
#[test]
fn writes_end_with_zeros_up_to_the_next_step() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &config("/s", &[("a", 100_000)]));
    add_groups(&spool, 1);
    // As `docs/formats/cnfs.md` says it of blocks of 512 bytes.
    let (area_start, step) = (12_288, 2048);
    let file = disk.open(Path::new("/s/a.cyc"), OpenMode::Existing).unwrap();
    for n in 0..300 {
        commit(&spool, &[News::new(n, 1, 900)]).unwrap();
        let status = &spool.meter().status().unwrap().buffers[0];
        let head = area_start + status.free;
        let end = u64::next_multiple_of(head, step).min(area_start + status.area_bytes);
        let mut ahead = vec![1; (end - head) as usize];
        file.read_exact_at(&mut ahead, head).unwrap();
        assert!(ahead.iter().all(|b| *b == 0), "{n}: behind {head}");
    }
    assert!(spool.meter().status().unwrap().buffers[0].cycle >= 3);
    agree(&spool);
    assert_eq!(spool.verifier().verify(&()).findings, []);
}
