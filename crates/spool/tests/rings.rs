//! Logical rings: what leaves a class follows from what was filed in it, and from nothing else.

use crate::news::*;
use disk::{Disk, ReadMode, SimDisk};
use spool::*;
use std::path::Path;
use std::sync::Arc;

const GROUPS: u64 = 3;
const RING_BYTES: u64 = 20 << 10;
/// Length of header and final `.` line of a record.
const FRAME_BYTES: u64 = 64 + 3;
const FILE: &str = "/t/news.snapshot";

fn ringed(dir: &str, buffers: &[(&str, u64)]) -> SpoolConfig {
    let mut config = config(dir, buffers);
    config.classes[0].ring_bytes = Some(RING_BYTES);
    config.checkpoint_rows = 50;
    config.article_bytes_max = 8 << 10;
    config
}

fn news(n: u64) -> News {
    News::new(n, GROUPS, 900)
}

fn disk() -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    disk.create_dir(Path::new("/t")).unwrap();
    disk
}

/// What a ring should have: sizes of articles in their order.
#[derive(Default)]
struct Model {
    filed: Vec<(u64, u64)>,
    cancelled: Vec<u64>,
}

impl Model {
    /// Files articles in batches of this many.
    fn file(&mut self, spool: &Spool, numbers: std::ops::Range<u64>, batch: usize) {
        let numbers: Vec<u64> = numbers.collect();
        for part in numbers.chunks(batch) {
            let news: Vec<News> = part.iter().map(|n| news(*n)).collect();
            let (_, outcomes) = commit(spool, &news).unwrap();
            assert!(outcomes.iter().all(|o| matches!(o, ChangeOutcome::Filed(_))));
            self.filed.extend(part.iter().map(|n| (*n, size(spool, *n))));
        }
    }

    fn cancel(&mut self, spool: &Spool, n: u64) {
        assert!(spool.cancel(news(n).id.as_bytes()).unwrap());
        self.cancelled.push(n);
    }

    /// Returns the articles that a ring of this size has.
    fn living(&self, ring_bytes: u64) -> Vec<u64> {
        let mut after = 0;
        let newest = self.filed.iter().rev().take_while(|(_, size)| {
            let lives = after <= ring_bytes;
            after += size;
            lives
        });
        let mut living: Vec<u64> = newest.map(|(n, _)| *n).collect();
        living.reverse();
        living.retain(|n| !self.cancelled.contains(n));
        living
    }

    fn assert_has(&self, spool: &Spool, living: &[u64], what: &str) {
        let found = |(n, _): &&(u64, u64)| fetch(spool, &news(*n).id).is_some();
        let found: Vec<u64> = self.filed.iter().filter(found).map(|(n, _)| *n).collect();
        assert_eq!(found, living, "{what}");
        let mut named: Vec<String> = agree(spool).into_iter().map(|(.., id)| id).collect();
        named.sort();
        named.dedup();
        assert_eq!(named.len(), living.len(), "{what}");
        assert!(self.filed.iter().all(|(n, _)| spool.is_known(&spool.key(news(*n).id.as_bytes()))), "{what}");
        assert_eq!(spool.meter().report().articles, living.len() as u64, "{what}");
        assert_eq!(spool.verifier().verify(&()).findings, [], "{what}");
    }
}

/// Size of an article that was just filed, by what readers see of it.
fn size(spool: &Spool, n: u64) -> u64 {
    let news = news(n);
    let group = spool.group_id(news.groups[0].as_bytes()).unwrap();
    let mut rows = Vec::new();
    spool.over(group, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap();
    let rows = String::from_utf8(rows).unwrap();
    let row = rows.lines().find(|row| row.contains(&news.id)).unwrap();
    let bytes: u64 = row.split('\t').nth(6).unwrap().parse().unwrap();
    (bytes + FRAME_BYTES).next_multiple_of(64)
}

fn early(spool: &Spool) -> Option<u64> {
    spool.meter().status().unwrap().classes[0].overwritten_early
}

#[test]
fn articles_leave_when_more_than_the_ring_was_filed_after_them() {
    let one = [("a", 256 << 10)];
    let several = [("a", 96 << 10), ("b", 64 << 10), ("c", 80 << 10)];
    for (buffers, order, batch) in [
        (&one[..], BufferOrder::Interleave, 1),
        (&several, BufferOrder::Interleave, 4),
        (&several, BufferOrder::Sequential, 2),
    ] {
        let (disk, mut model) = (disk(), Model::default());
        let mut config = ringed("/s", buffers);
        config.classes[0].order = order;
        let what = format!("{order:?}, {} buffers", buffers.len());
        let (mut spool, _) = open(&disk, &config);
        add_groups(&spool, GROUPS);
        for at in (0..240).step_by(20) {
            model.file(&spool, at..at + 20, batch);
            model.assert_has(&spool, &model.living(RING_BYTES), &format!("{what} at {at}"));
            // Their bytes count as before.
            model.cancel(&spool, at + 12);
            model.cancel(&spool, at + 19);
            if at % 60 == 40 {
                assert_eq!(early(&spool), Some(0));
                spool.close().unwrap();
                drop(spool);
                spool = open(&disk, &config).0;
                model.assert_has(&spool, &model.living(RING_BYTES), &format!("{what}, opened at {at}"));
            }
        }
        spool.close().unwrap();
        drop(spool);
        // A rebuild finds what had left in the buffers, too.
        let report = rebuild(disk.clone(), config.clone(), &()).unwrap();
        assert_eq!(report.articles, model.living(RING_BYTES).len() as u64, "{what}");
        let (spool, _) = open(&disk, &config);
        model.assert_has(&spool, &model.living(RING_BYTES), &format!("{what}, rebuilt"));
        model.file(&spool, 240..245, batch);
        model.assert_has(&spool, &model.living(RING_BYTES), &format!("{what}, after the rebuild"));
    }
}

#[test]
fn a_ring_that_is_set_changed_or_removed_brings_nothing_back() {
    let (disk, mut model) = (disk(), Model::default());
    let mut config = ringed("/s", &[("a", 256 << 10), ("b", 256 << 10)]);
    config.classes[0].ring_bytes = None;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    let all: Vec<u64> = (0..60).collect();
    model.file(&spool, 0..60, 7);
    let take = |spool: &Spool, config: &SpoolConfig| {
        spool.reconfiguration().prepare(config.clone()).unwrap().switch().unwrap();
    };
    assert_eq!(early(&spool), None);
    config.classes[0].ring_bytes = Some(RING_BYTES);
    take(&spool, &config);
    model.assert_has(&spool, &all, "a ring is set");
    // What was there before leaves once the ring is full.
    model.file(&spool, 60..70, 3);
    model.assert_has(&spool, &(0..70).collect::<Vec<_>>(), "there is room in the ring");
    model.file(&spool, 70..110, 3);
    model.assert_has(&spool, &model.living(RING_BYTES), "the ring is full");
    config.classes[0].ring_bytes = Some(RING_BYTES / 2);
    take(&spool, &config);
    model.file(&spool, 110..111, 1);
    let smaller = model.living(RING_BYTES / 2);
    model.assert_has(&spool, &smaller, "the ring is smaller");
    config.classes[0].ring_bytes = Some(RING_BYTES);
    take(&spool, &config);
    model.assert_has(&spool, &smaller, "the ring is larger again");
    spool.close().unwrap();
    drop(spool);
    config.classes[0].ring_bytes = None;
    for _ in 0..2 {
        let (spool, _) = open(&disk, &config);
        model.assert_has(&spool, &smaller, "there is no ring any more");
        spool.close().unwrap();
    }
    let (spool, _) = open(&disk, &config);
    model.file(&spool, 111..150, 5);
    let more: Vec<u64> = smaller.into_iter().chain(111..150).collect();
    model.assert_has(&spool, &more, "articles stay without a ring");
}

#[test]
fn what_a_buffer_overwrites_within_the_ring_is_counted() {
    let (disk, mut model) = (disk(), Model::default());
    let mut config = ringed("/s", &[("a", 64 << 10)]);
    config.classes[0].ring_bytes = Some(1 << 20);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, GROUPS);
    model.file(&spool, 0..90, 3);
    let living = model.filed.iter().filter(|(n, _)| fetch(&spool, &news(*n).id).is_some()).count() as u64;
    assert!(living < 80);
    assert_eq!(early(&spool), Some(90 - living));
    // A ring that leaves the buffer room loses nothing to it.
    config.classes[0].ring_bytes = Some(RING_BYTES);
    spool.reconfiguration().prepare(config).unwrap().switch().unwrap();
    model.file(&spool, 90..91, 1);
    let before = early(&spool);
    model.file(&spool, 91..200, 3);
    model.assert_has(&spool, &model.living(RING_BYTES), "smaller");
    assert_eq!(early(&spool), before);
}

#[test]
fn a_site_restored_in_other_buffers_has_the_same_ring() {
    let (disk, mut model) = (disk(), Model::default());
    let (spool, _) = open(&disk, &ringed("/s", &[("a", 256 << 10)]));
    add_groups(&spool, GROUPS);
    model.file(&spool, 0..100, 5);
    spool.snapshots().write(Path::new(FILE), &|| false, &()).unwrap();
    let mut other = ringed("/r", &[("b", 96 << 10), ("c", 96 << 10)]);
    other.classes[0].compress = Some(CompressConfig { level: 1, samples: 0 });
    let report = restore(disk.clone(), other.clone(), Path::new(FILE), RestoreTarget::New, &()).unwrap();
    assert_eq!((report.displaced, report.is_same), (0, Some(true)), "{report:?}");
    let (restored, _) = open(&disk, &other);
    for n in 100..140 {
        commit(&spool, &[news(n)]).unwrap();
        commit(&restored, &[news(n)]).unwrap();
        assert_eq!(agree(&restored), agree(&spool), "{n}");
        assert_eq!(restored.digest(), spool.digest(), "{n}");
    }
}
