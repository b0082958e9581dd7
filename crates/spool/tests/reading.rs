//! The cost of reading, in reads of the disk. Remembered blocks never show articles that are removed.

use crate::news::*;
use disk::{Disk, ReadMode, SimDisk};
use spool::*;
use std::sync::Arc;

/// One group with closed blocks of some 20 rows; none of its articles is longer than a first read.
fn filed(articles: u64) -> (SimDisk, Spool, GroupId) {
    let sim = SimDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut config = config("/s", &[("a", 600_000)]);
    config.durability = Durability::Process;
    config.overview = OverviewShape { block_text_bytes: 4096, segment_bytes: 1 << 20 };
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    for n in (0..articles).step_by(10) {
        commit(&spool, &(n..n + 10).map(|n| News::new(n, 1, 600)).collect::<Vec<_>>()).unwrap();
    }
    let group = spool.group_id(b"test.g0").unwrap();
    (sim, spool, group)
}

fn numbers(spool: &Spool, group: GroupId) -> Vec<u64> {
    let mut numbers = Vec::new();
    spool.numbers(group, 0..=u64::MAX, usize::MAX, &mut numbers);
    numbers
}

fn over(spool: &Spool, group: GroupId) -> Vec<u8> {
    let mut rows = Vec::new();
    assert_eq!(spool.over(group, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap(), None);
    rows
}

/// Reads and bytes read by something.
fn reads<T>(sim: &SimDisk, read: impl FnOnce() -> T) -> (u64, u64, T) {
    let before = sim.reads();
    let result = read();
    let after = sim.reads();
    (after.0 - before.0, after.1 - before.1, result)
}

#[test]
fn an_article_by_number_costs_one_read() {
    let (sim, spool, group) = filed(300);
    let numbers = numbers(&spool, group);
    let mut buf = ArticleBuf::default();
    let mut read_all = || {
        for number in &numbers {
            let token = spool.token_of(group, *number, ReadMode::Wait).unwrap().unwrap();
            assert!(spool.read(&token, None, ReadMode::Wait, &mut buf).unwrap());
        }
    };
    // The first time, each block's entries are read once for all of its rows.
    let (first, _, ()) = reads(&sim, &mut read_all);
    let blocks = first - 300;
    assert!((5..40).contains(&blocks), "{blocks} reads of overview for 300 articles");
    let (again, _, ()) = reads(&sim, &mut read_all);
    assert_eq!(again, 300, "overview is read again");
}

#[test]
fn rows_are_read_again_without_what_says_that_they_are_whole() {
    let (sim, spool, group) = filed(300);
    let (_, first, before) = reads(&sim, || over(&spool, group));
    let (blocks, bytes, again) = reads(&sim, || over(&spool, group));
    assert!(again == before);
    // Of what was checked a moment ago only the rows themselves; those of the open block are in memory.
    assert!(bytes < first && bytes <= before.len() as u64, "{first} bytes, then {bytes}");
    // Each single row is one read of itself.
    let mut single = Vec::new();
    let (calls, bytes, ()) = reads(&sim, || {
        for number in numbers(&spool, group) {
            assert!(spool.row(group, number, ReadMode::Wait, &mut single).unwrap());
        }
    });
    assert!(single == before && calls <= 300 && bytes <= before.len() as u64, "{calls} reads, {bytes} bytes");
    assert!(blocks > 5 && calls > 200, "{blocks} {calls}");
}

/// Whatever is remembered of a block, of its rows those are shown that live and are not hidden.
#[test]
fn what_is_remembered_shows_nothing_that_is_gone() {
    let (_sim, spool, group) = filed(300);
    let mut buf = ArticleBuf::default();
    let before = agree(&spool);
    assert_eq!(before.len(), 300);
    let id_of = |n: usize| before[n].2.clone();
    for n in [3, 100, 101, 250] {
        assert!(spool.cancel(id_of(n).as_bytes()).unwrap());
        assert_eq!(spool.token_of(group, before[n].1, ReadMode::Wait).unwrap(), None);
    }
    spool.hide_all(&[id_of(120).as_bytes()], "spam", "a test").unwrap();
    assert_eq!(spool.token_of(group, before[120].1, ReadMode::Wait).unwrap(), None);
    let now = agree(&spool);
    let gone: Vec<_> = before.iter().filter(|article| !now.contains(article)).map(|a| a.2.clone()).collect();
    assert_eq!(gone, [3, 100, 101, 120, 250].map(id_of));
    // A rebuilt block is read again: the place of the old one is no longer asked for.
    let rows = over(&spool, group);
    spool.overview().pack(&mut |_| true).unwrap();
    assert!(over(&spool, group) == rows && agree(&spool) == now);
    // Overwritten by what comes later: the same numbers never name other articles.
    for n in (300..1500).step_by(10) {
        let news: Vec<News> = (n..n + 10).map(|n| News::new(n, 1, 600)).collect();
        let token = spool.token_of(group, numbers(&spool, group)[0], ReadMode::Wait).unwrap().unwrap();
        commit(&spool, &news).unwrap();
        if !numbers(&spool, group).contains(&1) {
            assert_eq!(spool.token_of(group, 1, ReadMode::Wait).unwrap(), None);
        }
        let _displaced_or_not = spool.read(&token, None, ReadMode::Wait, &mut buf).unwrap();
        let named = agree(&spool);
        assert!(named.iter().zip(numbers(&spool, group)).all(|(article, number)| article.1 == number));
    }
    assert!(!numbers(&spool, group).contains(&1), "nothing was overwritten");
}
