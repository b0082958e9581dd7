//! Tests of a group against an upstream that is a table: reads always match the upstream.

use std::collections::BTreeMap;

use super::*;
use crate::reading::group::{CacheGroup, GroupOutcome, RowCoverage};
use netnews::GroupMarks;

/// The upstream: numbers with the sizes of their articles.
struct Upstream {
    there: BTreeMap<u64, usize>,
    removed: Vec<(u64, usize)>,
    low: u64,
    high: u64,
    /// True if it is asked for its numbers, so that cancelled articles are noticed.
    lists: bool,
}

impl Upstream {
    fn rows(&self, first: u64, last: u64) -> Vec<u8> {
        self.there.range(first..=last).flat_map(|(n, size)| row(*n, *size)).collect()
    }

    fn tell(&self, group: &CacheGroup, now: u64) {
        let marks = GroupMarks { low: self.low, high: self.high, count: self.there.len() as u64 };
        assert_eq!(group.set_marks(marks, now).unwrap(), GroupOutcome::None);
        if !self.lists {
            return;
        }
        let numbers: Vec<u64> = self.there.keys().copied().collect();
        let told = group.set_numbers(self.low..=self.high, &numbers, now).unwrap();
        assert!(told.is_kept);
        assert_eq!(group.count(self.low..=self.high).unwrap(), Some(numbers.len() as u64));
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Reads rows as a reader's session does; returns the number of questions to upstream.
fn read_rows(group: &CacheGroup, upstream: &Upstream, first: u64, last: u64) -> u64 {
    let (mut text, mut at, mut asked) = (Vec::new(), first, 0);
    loop {
        match group.rows(at..=last, 2000, &mut text, 5).unwrap() {
            RowCoverage::Done => break,
            RowCoverage::Limit { next } => at = next,
            RowCoverage::Missing { range } => {
                let rows = upstream.rows(*range.start(), *range.end());
                at = *range.start();
                assert_eq!(group.put_rows(range, &rows, 5).unwrap(), GroupOutcome::None);
                asked += 1;
                assert!(asked < 500, "it asks again and again for {at}");
            }
        }
    }
    assert_eq!(
        String::from_utf8(text).unwrap(),
        String::from_utf8(upstream.rows(first, last)).unwrap(),
        "rows {first} to {last}"
    );
    asked
}

fn step(random: &mut Random, upstream: &mut Upstream, group: &CacheGroup, now: u64) {
    match random.below(12) {
        0..=2 => {
            for _ in 0..random.below(6) {
                upstream.high += 1 + random.below(2);
                let size = 400 + random.below(3000) as usize + if random.below(12) == 0 { 20_000 } else { 0 };
                upstream.there.insert(upstream.high, size);
            }
        }
        3 if upstream.lists => {
            let any = upstream.there.keys().nth(random.below(upstream.there.len() as u64 + 1) as usize);
            if let Some((n, size)) = any.copied().and_then(|n| upstream.there.remove_entry(&n)) {
                upstream.removed.push((n, size));
            }
        }
        4 if random.below(2) == 0 => {
            upstream.removed.retain(|(n, _)| *n >= upstream.low);
            upstream.there.extend(upstream.removed.pop());
        }
        5 if random.below(4) == 0 => {
            upstream.low = (upstream.low + random.below(10)).min(upstream.high);
            upstream.there = upstream.there.split_off(&upstream.low);
        }
        _ => {}
    }
    upstream.tell(group, now);
    let span = upstream.high + 1 - upstream.low;
    let first = upstream.low + random.below(span);
    let last = (first + random.below(30)).min(upstream.high);
    if random.below(3) == 0 {
        read_rows(group, upstream, first, last);
        assert!(read_rows(group, upstream, first, last) == 0 || !group.cell().is_kept, "asked again");
    }
    for (n, size) in upstream.there.range(first..=last).take(3) {
        let mut bytes = Vec::new();
        match group.article(*n, &mut bytes, now).unwrap() {
            Some(found) => assert_eq!((found, &bytes), (id(*n), &article(*n, *size))),
            None => {
                let text = article(*n, *size);
                assert_eq!(group.put_article(*n, &id(*n), &text, now).unwrap(), GroupOutcome::None);
            }
        }
    }
    let gone = upstream.removed.iter().filter(|(n, _)| !upstream.there.contains_key(n));
    for (n, _) in gone {
        assert!(group.article(*n, &mut Vec::new(), now).unwrap().is_none(), "{n} was cancelled");
    }
}

#[test]
fn group_matches_upstream_after_any_changes() {
    for seed in 0..10 {
        let sim = SimDisk::new();
        let mut random = Random(seed);
        let (there, removed, lists) = (BTreeMap::new(), Vec::new(), seed < 6);
        let mut upstream = Upstream { there, removed, low: 1, high: 1, lists };
        upstream.there.insert(1, 500);
        // Half of the rounds use a cache so small that files are removed all the time.
        let size = if seed % 2 == 0 { 1 << 20 } else { 8 << 20 };
        let (mut cache, _) = open(&sim, settings(size), 5);
        for now in 10..260 {
            let group = cache.group("isp", b"a.b", now);
            step(&mut random, &mut upstream, &group, now);
            if random.below(40) == 0 {
                drop((group, cache));
                let opened;
                (cache, opened) = open(&sim, settings(size), now);
                assert!(opened.removed.is_empty(), "{opened:?}");
            }
        }
    }
}
