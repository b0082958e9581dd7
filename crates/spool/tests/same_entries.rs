//! Entries are logical: Message-IDs, groups, arrival times and bytes. Numbers and all that readers
//! see follow from the order of the entries alone, however a spool stores them, hashes Message-IDs, or
//! gathers entries into batches.

mod seeded;

use crate::news::*;
use disk::{Disk, ReadMode, SimDisk};
use spool::*;
use std::path::PathBuf;
use std::sync::Arc;

const GROUPS: u64 = 12;

/// Event in the news of a site.
enum Event {
    Article(u64),
    Cancel(u64),
    AddGroup(u64),
    RemoveGroup(u64),
}

/// Articles, some of them twice, most in several groups; cancels; groups that come and go.
fn events(entries: u64) -> impl Iterator<Item = Event> {
    let first = (0..GROUPS / 2).map(Event::AddGroup);
    first.chain((0..entries).map(|n| {
        let mix = n.wrapping_mul(0xd134_2543_de82_ef95) >> 24;
        match mix % 1_000 {
            0..30 => Event::Article(mix % (n + 1)),
            30..60 => Event::Cancel(mix % (n + 1)),
            60..64 => Event::AddGroup(mix / 1_000 % GROUPS),
            64 => Event::RemoveGroup(mix / 1_000 % GROUPS),
            _ => Event::Article(n),
        }
    }))
}

/// Gives the events to a spool, articles in batches of at most this many; returns what became of each.
fn apply(spool: &Spool, entries: u64, batch_max: usize) -> Vec<String> {
    let (mut became, mut batch) = (Vec::new(), Vec::new());
    let flush = |batch: &mut Vec<News>, became: &mut Vec<String>| {
        let (_, outcomes) = commit(spool, &std::mem::take(batch)).unwrap();
        became.extend(outcomes.iter().map(|outcome| match outcome {
            ChangeOutcome::Filed(_) => "filed".into(),
            other => format!("{other:?}"),
        }));
    };
    for event in events(entries) {
        if let Event::Article(n) = event {
            let mut news = News::new(n, GROUPS, 300);
            news.groups.retain(|name| spool.group_id(name.as_bytes()).is_some());
            if !news.groups.is_empty() {
                batch.push(news);
            }
            if batch.len() >= batch_max {
                flush(&mut batch, &mut became);
            }
            continue;
        }
        flush(&mut batch, &mut became);
        match event {
            Event::Cancel(n) => {
                let cancelled = spool.cancel(News::new(n, GROUPS, 300).id.as_bytes()).unwrap();
                became.push(format!("cancelled {cancelled}"));
            }
            Event::AddGroup(n) => {
                let name = format!("test.g{n}");
                if spool.group_id(name.as_bytes()).is_none() {
                    spool.add_groups(&[NewGroup { name, created: NOW, ..NewGroup::default() }]).unwrap();
                }
            }
            Event::RemoveGroup(n) => {
                let removed = spool.remove_group(&format!("test.g{n}")).unwrap();
                became.push(format!("removed {removed}"));
            }
            Event::Article(_) => {}
        }
    }
    flush(&mut batch, &mut became);
    became
}

/// All that readers are answered: marks, overview, and articles as stored.
fn answers(spool: &Spool) -> Vec<String> {
    let mut all = Vec::new();
    for group in spool.groups().iter() {
        let marks = group.marks();
        all.push(format!("{} {} {} {} {:?}", group.name, marks.count, marks.low, marks.high, group.flag()));
        let mut rows = Vec::new();
        spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap();
        all.extend(String::from_utf8(rows).unwrap().lines().map(str::to_owned));
    }
    let mut buf = ArticleBuf::default();
    for (_, _, id) in agree(spool) {
        let key = spool.key(id.as_bytes());
        let Lookup::Present(token) = spool.lookup(&key) else { panic!("{id} is not there") };
        assert!(spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap());
        all.push(String::from_utf8(buf.article().to_vec()).unwrap());
    }
    all
}

#[test]
fn numbers_overview_and_answers_follow_from_the_order_of_entries_alone() {
    two_spools_agree(10_000);
}

#[test]
#[ignore = "a minute; make soak runs it"]
fn numbers_overview_and_answers_follow_from_the_order_of_100_000_entries_alone() {
    two_spools_agree(100_000);
}

fn two_spools_agree(entries: u64) {
    let one = config("/s", &[("a", 96 << 20)]);
    let mut other = config("/s", &[("b", 24 << 20), ("c", 48 << 20)]);
    other.durability = Durability::Process;
    other.overview = OverviewShape { block_text_bytes: 700, segment_bytes: 64 << 10 };
    let tree = TreeConfig { path: PathBuf::from("/s/kept"), file_bytes: 1 << 20, ..TreeConfig::default() };
    let kept = ClassConfig {
        name: "kept".into(),
        method: MethodKind::AppendOnly,
        size_bytes: 96 << 20,
        tree,
        ..ClassConfig::default()
    };
    other.classes.push(kept);
    let groups = Some("*.g1,*.g3,*.g5".into());
    other.rules.insert(0, RuleConfig { class: "kept".into(), groups, ..RuleConfig::default() });

    let mut seen = Vec::new();
    for (config, batch_max) in [(one, 100), (other, 7)] {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let (spool, _) = open(&disk, &config);
        let became = apply(&spool, entries, batch_max);
        let id = News::new(1, GROUPS, 300).id;
        let key = spool.key(id.as_bytes());
        let before = answers(&spool);
        spool.close().unwrap();
        drop(spool);
        let (spool, _) = open(&disk, &config);
        assert_eq!(answers(&spool), before, "after a restart");
        seen.push((became, before, key));
    }
    let [(became, answers, key), (other_became, other_answers, other_key)] = seen.as_slice() else {
        panic!()
    };
    assert_ne!(key, other_key, "the spools have secrets of their own");
    for expected in ["filed", "Duplicate", "cancelled true", "removed true"] {
        let n = became.iter().filter(|b| *b == expected).count() as u64;
        assert!(n > 2, "{expected}: {n}");
    }
    assert!(became == other_became);
    assert_eq!(answers.len(), other_answers.len());
    for (one, other) in answers.iter().zip(other_answers) {
        assert_eq!(one, other);
    }
}
