//! Retention floors: a flood goes to the overflow, and what was promised to stay stays.

use crate::news::*;
use disk::{Disk, SimDisk};
use spool::*;
use std::sync::Arc;

const DAY: u64 = 86_400;

/// Class `kept` of two buffers keeps its articles for ten days; class `flood` takes what would break that.
fn floored(order: BufferOrder, overflow: Option<&str>) -> SpoolConfig {
    let mut config = config("/s", &[("a", 200_000), ("b", 150_000), ("f", 100_000)]);
    config.classes[0].name = "kept".into();
    config.classes[0].buffers = vec!["a".into(), "b".into()];
    config.classes[0].order = order;
    config.classes[0].floor =
        Some(Floor { keep_at_least_secs: 10 * DAY, overflow: overflow.map(str::to_owned) });
    config.classes.push(ClassConfig {
        name: "flood".into(),
        buffers: vec!["f".into()],
        ..ClassConfig::default()
    });
    config.rules[0].class = "kept".into();
    config
}

fn news(range: std::ops::Range<u64>) -> Vec<News> {
    range.map(|n| News::new(n, 3, 1500)).collect()
}

/// Files articles one by one; returns the classes they went to, `None` for those that found no place.
fn file(spool: &Spool, news: &[News], at: u64, batch: usize) -> Vec<Option<u8>> {
    let mut classes = Vec::new();
    for part in news.chunks(batch) {
        let (_, outcomes) = commit_at(spool, part, at).unwrap();
        classes.extend(outcomes.iter().map(|o| match o {
            ChangeOutcome::Filed(filed) => Some(filed.token.class),
            ChangeOutcome::Unfit => None,
            other => panic!("{other:?}"),
        }));
    }
    classes
}

#[test]
fn a_flood_goes_to_the_overflow_and_what_was_promised_stays() {
    for (order, batch) in
        [(BufferOrder::Interleave, 1), (BufferOrder::Interleave, 40), (BufferOrder::Sequential, 7)]
    {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let config = floored(order, Some("flood"));
        let (spool, _) = open(&disk, &config);
        add_groups(&spool, 3);
        // Two years of one article an hour: each finds its place, the oldest are old enough.
        let mut at = NOW;
        for n in 0..600 {
            at = NOW + n * 3600 * 2;
            assert_eq!(file(&spool, &news(n..n + 1), at, 1), [Some(0)], "{n}");
        }
        let kept = |spool: &Spool, from: u64| {
            (from..600).filter(|n| fetch(spool, &News::new(*n, 3, 1500).id).is_some()).count()
        };
        let promised = 600 - 10 * 12;
        assert_eq!(kept(&spool, promised), 120);
        // Then a thousand at once.
        let classes = file(&spool, &news(1000..2000), at, batch);
        let spilled = classes.iter().filter(|c| **c == Some(1)).count();
        assert!(classes.iter().all(Option::is_some) && spilled > 800, "{spilled}");
        assert_eq!(kept(&spool, promised), 120, "{order:?}");
        agree(&spool);
        let status = spool.meter().status().unwrap();
        assert_eq!((status.classes[0].spilled, status.classes[0].turned_away), (spilled as u64, 0));
        // A restart forgets nothing of it.
        spool.close().unwrap();
        drop(spool);
        let (spool, _) = open(&disk, &config);
        assert!(file(&spool, &news(2000..2200), at, batch).iter().all(|c| *c == Some(1)));
        assert_eq!(kept(&spool, promised), 120);
        // Days later the same class takes articles again.
        let classes = file(&spool, &news(2200..2220), at + 11 * DAY, batch);
        assert!(classes.iter().all(|c| *c == Some(0)), "{classes:?}");
        agree(&spool);
    }
}

#[test]
fn without_an_overflow_the_promise_is_kept_and_the_article_is_not_stored() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &floored(BufferOrder::Interleave, None));
    add_groups(&spool, 3);
    let classes = file(&spool, &news(0..600), NOW, 20);
    let stored = classes.iter().filter(|c| c.is_some()).count();
    assert!((100..500).contains(&stored), "{stored}");
    let all = news(0..600);
    for (news, class) in all.iter().zip(&classes) {
        assert_eq!(fetch(&spool, &news.id).is_some(), class.is_some());
        // An article that was not stored is not remembered: it may come again.
        assert_eq!(spool.is_known(&spool.key(news.id.as_bytes())), class.is_some());
    }
    let status = spool.meter().status().unwrap();
    assert_eq!(status.classes[0].turned_away, 600 - stored as u64);
    assert!(file(&spool, &news(700..720), NOW + 10 * DAY + 1, 20).iter().all(Option::is_some));
}
