//! Numbers that articles bring from another server: kept if they lie above all that was given out, and never
//! else.

use crate::news::*;
use disk::{CrashKind, Disk, SimDisk};
use spool::*;
use std::sync::Arc;

fn marks(spool: &Spool, group: &str) -> (u64, u64, u64) {
    let marks = spool.marks(spool.group_id(group.as_bytes()).unwrap()).unwrap();
    (marks.low, marks.high, marks.count)
}

#[test]
fn given_numbers_are_kept_across_restart_kill_and_rebuild() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim);
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 7);
    let mut news: Vec<News> = (0..9).map(|n| News::new(n, 7, 700)).collect();
    news.iter_mut().for_each(|n| n.groups = vec!["test.g1".into(), "test.g2".into()]);
    let numbers = vec![vec![900, 0], vec![901, 70_000], vec![901, 0], vec![5_000_000, 70_003], vec![7, 0]];
    let (_, outcomes) = commit_numbered(&spool, &news[..5], &numbers).unwrap();
    let filed = |o: &ChangeOutcome| matches!(o, ChangeOutcome::Filed(_));
    assert_eq!(outcomes.iter().map(filed).collect::<Vec<_>>(), [true, true, false, true, false]);
    assert_eq!((outcomes[2], outcomes[4]), (ChangeOutcome::NumberTaken, ChangeOutcome::NumberTaken));
    assert_eq!((marks(&spool, "test.g1"), marks(&spool, "test.g2")), ((900, 5_000_000, 3), (1, 70_003, 3)));
    // An article that was not filed is not known either, and takes a new number.
    commit(&spool, &news[2..3]).unwrap();
    assert_eq!((marks(&spool, "test.g1"), marks(&spool, "test.g2")), ((900, 5_000_001, 4), (1, 70_004, 4)));
    let raised = [("test.g1".into(), 6_000_000), ("test.g2".into(), 9), ("no.such".into(), 5)];
    assert_eq!(spool.raise_high(&raised).unwrap(), 1);
    let (_, outcomes) = commit_numbered(&spool, &news[5..6], &[vec![5_999_999, 0]]).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::NumberTaken]);
    let before = agree(&spool);
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed);
    assert_eq!(agree(&spool), before);
    assert_eq!(marks(&spool, "test.g1"), (900, 6_000_000, 4));
    commit(&spool, &news[6..7]).unwrap();
    assert_eq!(marks(&spool, "test.g1"), (900, 6_000_001, 5));
    let before = agree(&spool);
    spool.close().unwrap();
    drop(spool);
    rebuild(disk.clone(), config.clone(), &()).unwrap();
    let (spool, _) = open(&disk, &config);
    assert_eq!(agree(&spool), before);
    assert_eq!(marks(&spool, "test.g1"), (900, 6_000_001, 5));
}

#[test]
fn a_number_out_of_all_measure_is_taken_by_nobody() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &config("/s", &[("a", 400_000)]));
    add_groups(&spool, 7);
    let mut news = News::new(1, 7, 700);
    news.groups = vec!["test.g1".into()];
    let (_, outcomes) = commit_numbered(&spool, &[news], &[vec![u64::MAX]]).unwrap();
    assert_eq!(outcomes, [ChangeOutcome::NumberTaken]);
    assert_eq!(spool.raise_high(&[("test.g1".into(), u64::MAX)]).unwrap(), 0);
    assert_eq!(marks(&spool, "test.g1"), (1, 0, 0));
}

/// Articles one by one, each durable before the next comes.
fn quiet_feed(spool: &Spool, range: std::ops::Range<u64>) {
    for n in range {
        let (ticket, _) = commit(spool, &[News::new(n, 1, 300)]).unwrap();
        while !spool.is_durable(ticket) {
            std::thread::yield_now();
        }
    }
}

fn high(spool: &Spool) -> u64 {
    spool.marks(spool.group_id(b"test.g0").unwrap()).unwrap().high
}

/// A rebuild made each group's next article jump to 513 or more, which newsreaders show as so many unread
/// articles.
#[test]
fn a_rebuild_with_a_whole_journal_skips_no_number() {
    for killed in [false, true] {
        for keep_index in [false, true] {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
            let config = SpoolConfig { checkpoint_rows: 20, ..config("/s", &[("a", 60_000)]) };
            let (spool, _) = open(&disk, &config);
            add_groups(&spool, 2);
            quiet_feed(&spool, 0..150);
            if !killed {
                spool.close().unwrap();
            }
            drop(spool);
            if !keep_index {
                for name in disk.list(std::path::Path::new("/s/index")).unwrap() {
                    disk.remove(&std::path::Path::new("/s/index").join(name)).unwrap();
                }
            }
            let report = rebuild(disk.clone(), config.clone(), &()).unwrap();
            assert!(report.articles > 20, "{report:?}");
            let (spool, recovery) = open(&disk, &config);
            let marks = |group: &[u8]| spool.marks(spool.group_id(group).unwrap()).unwrap().high;
            assert_eq!((marks(b"test.g0"), marks(b"test.g1")), (150, 0), "{recovery}");
            quiet_feed(&spool, 200..201);
            assert_eq!(high(&spool), 151, "{recovery}");
        }
    }
}

/// A power cut makes a quiet group skip promised numbers; a rebuild after it makes it skip no more.
#[test]
fn a_power_cut_skips_no_more_than_was_promised() {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let config = config("/s", &[("a", 400_000)]);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 2);
    quiet_feed(&spool, 0..20);
    for rebuilt in [false, true] {
        let disk: Arc<dyn Disk> = Arc::new(sim.image_after(CrashKind::Lost, 1).unwrap());
        if rebuilt {
            rebuild(disk.clone(), config.clone(), &()).unwrap();
        }
        let (spool, recovery) = open(&disk, &config);
        assert_eq!(recovery.power_lost, !rebuilt, "{recovery}");
        quiet_feed(&spool, 100..101);
        let skipped = high(&spool) - 21;
        assert!(skipped <= 64, "{skipped}: {recovery}");
    }
}
