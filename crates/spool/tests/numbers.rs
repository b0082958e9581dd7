//! Numbers that articles bring from another server: kept if they lie above all that was given out, and never else.

use crate::news::*;
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
    let filed = |o: &Outcome| matches!(o, Outcome::Filed(_));
    assert_eq!(outcomes.iter().map(filed).collect::<Vec<_>>(), [true, true, false, true, false]);
    assert_eq!((outcomes[2], outcomes[4]), (Outcome::NumberTaken, Outcome::NumberTaken));
    assert_eq!((marks(&spool, "test.g1"), marks(&spool, "test.g2")), ((900, 5_000_000, 3), (1, 70_003, 3)));
    // What was not filed is not known either, and takes a new number.
    commit(&spool, &news[2..3]).unwrap();
    assert_eq!((marks(&spool, "test.g1"), marks(&spool, "test.g2")), ((900, 5_000_001, 4), (1, 70_004, 4)));
    let raised = [("test.g1".into(), 6_000_000), ("test.g2".into(), 9), ("no.such".into(), 5)];
    assert_eq!(spool.raise_high(&raised).unwrap(), 1);
    let (_, outcomes) = commit_numbered(&spool, &news[5..6], &[vec![5_999_999, 0]]).unwrap();
    assert_eq!(outcomes, [Outcome::NumberTaken]);
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
    assert_eq!(outcomes, [Outcome::NumberTaken]);
    assert_eq!(spool.raise_high(&[("test.g1".into(), u64::MAX)]).unwrap(), 0);
    assert_eq!(marks(&spool, "test.g1"), (1, 0, 0));
}
