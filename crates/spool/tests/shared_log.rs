//! Changes of a shared log: a crash takes back what was applied after the last position, and applying the log
//! again from there gives the same numbers and answers as if there had been none.

use crate::news::*;
use disk::{CrashKind, Disk, ReadMode, SimDisk, SimRandom};
use spool::*;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

const GROUPS: u64 = 5;
const MESSAGES: u64 = 60;

/// One entry of a message.
#[derive(Debug, Clone)]
enum Entry {
    Article(u64),
    Remember(u64),
    Forget(u64, u32),
    Cancel(u64),
    Hide(u64),
    AddGroup(u64),
    RemoveGroup(u64),
}

/// Returns the messages of a seed.
fn messages(seed: u64) -> Vec<Vec<Entry>> {
    let random = &mut SimRandom::new(seed);
    let (mut fresh, mut remembered) = (0, Vec::new());
    let groups = (0..GROUPS).map(Entry::AddGroup).collect();
    let mut messages = vec![groups];
    for at in 1..MESSAGES {
        let mut message = Vec::new();
        for _ in 0..1 + random.below(8) {
            let any = random.below(fresh + 2);
            message.push(match random.below(40) {
                0..26 => {
                    fresh += 1;
                    Entry::Article(fresh)
                }
                26..29 => Entry::Article(any),
                29..31 => {
                    remembered.push((any, (NOW + at) as u32));
                    Entry::Remember(any)
                }
                31 if !remembered.is_empty() => {
                    let (n, time) = remembered[random.up_to(remembered.len() - 1)];
                    Entry::Forget(n, time)
                }
                32..36 => Entry::Cancel(any),
                36..38 => Entry::Hide(any),
                38 => Entry::AddGroup(random.below(GROUPS)),
                _ => Entry::RemoveGroup(random.below(GROUPS)),
            });
        }
        messages.push(message);
    }
    messages
}

/// A record: the message, and how many of its entries are applied; 0: all.
fn record(message: u64, entries: usize) -> Vec<u8> {
    let mut record = message.to_le_bytes().to_vec();
    record.extend_from_slice(&(entries as u64).to_le_bytes());
    record
}

fn position(spool: &Spool) -> Option<(u64, usize)> {
    let record = spool.position()?;
    let (message, entries) = record.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*message), u64::from_le_bytes(entries.try_into().ok()?) as usize))
}

/// Applies the entries of a message from one on, as a member of a cluster does.
fn apply(spool: &Spool, at: u64, message: &[Entry], from: usize) -> TestResult {
    let time = NOW + at;
    for (entry, done) in message.iter().zip(1..).skip(from) {
        let next = record(at, if done == message.len() { 0 } else { done });
        let position = Change::Position { record: &next };
        let news = match entry {
            Entry::Article(n)
            | Entry::Remember(n)
            | Entry::Forget(n, _)
            | Entry::Cancel(n)
            | Entry::Hide(n) => News::new(*n, GROUPS, 300),
            Entry::AddGroup(_) | Entry::RemoveGroup(_) => News::new(0, GROUPS, 300),
        };
        let draft = NewsDraft::of(&news);
        let id = ArticleIdent::Id(news.id.as_bytes());
        let mut outcomes = Vec::new();
        let name = |n: &u64| format!("test.g{n}");
        match entry {
            Entry::Article(_) => {
                spool.apply(time, &[Change::Article(draft.article(time, &[]))], &mut outcomes)?
            }
            Entry::Remember(_) => {
                spool.apply(time, &[Change::Remember { id, arrived: time }], &mut outcomes)?
            }
            Entry::Forget(_, arrived) => {
                spool.sync()?;
                let forget = Change::Forget { id, arrived: *arrived };
                spool.apply(time, &[forget, position], &mut outcomes)?
            }
            // Some leave one of their groups only.
            Entry::Cancel(n) if n % 3 == 0 => {
                spool.sync()?;
                let expire = Change::Expire { id, groups: &news.groups[..1] };
                spool.apply(time, &[expire, position], &mut outcomes)?
            }
            Entry::Cancel(_) => {
                spool.sync()?;
                spool.apply(time, &[Change::Cancel { id }, position], &mut outcomes)?
            }
            Entry::Hide(_) => {
                let hide = Change::Hide { message_id: news.id.as_bytes(), by: "x", reason: "y", since: 0 };
                spool.apply(time, &[hide], &mut outcomes)?
            }
            Entry::AddGroup(n) => {
                let new = NewGroup { name: name(n), created: time, ..NewGroup::default() };
                spool.apply(time, &[Change::Groups(&[GroupUpdate::Add(new)])], &mut outcomes)?
            }
            Entry::RemoveGroup(n) => {
                spool.apply(time, &[Change::Groups(&[GroupUpdate::Remove(name(n))])], &mut outcomes)?
            }
        };
    }
    spool.apply(time, &[Change::Position { record: &record(at, 0) }], &mut Vec::new())?;
    Ok(())
}

/// Applies the messages on a machine that crashes at these steps, each counted from its start; returns all
/// answers, the number of crashes and that of steps.
fn play(
    config: &SpoolConfig,
    messages: &[Vec<Entry>],
    planned: &[(CrashKind, u64)],
) -> (Vec<String>, u64, u64) {
    play_with(config, messages, planned, false)
}

/// Like [`play`]; with `joins_again`, a spool that a crash has left without its position is emptied, as a
/// member's is that joins again.
fn play_with(
    config: &SpoolConfig,
    messages: &[Vec<Entry>],
    planned: &[(CrashKind, u64)],
    joins_again: bool,
) -> (Vec<String>, u64, u64) {
    let mut sim = SimDisk::new();
    let mut next = planned.iter();
    let mut crashes = 0;
    loop {
        if let Some((kind, step)) = next.next() {
            sim.crash_at(sim.steps() + step, *kind, step * 7919);
        }
        let played = catch_unwind(AssertUnwindSafe(|| -> TestResult<Option<Vec<String>>> {
            let (spool, recovery) = Spool::open(Arc::new(sim.clone()), config.clone(), &())?;
            let is_lost = position(&spool).is_none() && spool.groups().iter().next().is_some();
            if joins_again && (recovery.rebuilt.is_some() || is_lost) {
                return Ok(None);
            }
            assert_eq!((recovery.taken_in, recovery.rebuilt), (0, None), "{:?}", recovery.lost);
            if position(&spool).is_none() {
                spool.sync()?;
                spool.apply(NOW, &[Change::Position { record: &record(u64::MAX, 0) }], &mut Vec::new())?;
                spool.sync()?;
            }
            let (reached, done) = position(&spool).unwrap();
            let first = if done > 0 { reached } else { reached.wrapping_add(1) };
            for (message, at) in messages.iter().zip(0..).skip(first as usize) {
                apply(&spool, at, message, if at == reached { done } else { 0 })?;
            }
            let told = answers(&spool);
            agree(&spool);
            assert_eq!(spool.verifier().verify(&()).findings, []);
            spool.close()?;
            Ok(Some(told))
        }));
        if sim.crashed() {
            sim = sim.image().unwrap();
            crashes += 1;
            continue;
        }
        match played {
            Ok(Ok(Some(answers))) => return (answers, crashes, sim.steps()),
            Ok(Ok(None)) => sim = SimDisk::new(),
            Ok(Err(error)) => panic!("after {crashes} of the crashes {planned:?}: {error}"),
            Err(panic) => {
                eprintln!("after {crashes} of the crashes {planned:?}");
                resume_unwind(panic)
            }
        }
    }
}

fn answers(spool: &Spool) -> Vec<String> {
    let mut all: Vec<String> =
        String::from_utf8(spool.list_active().to_vec()).unwrap().lines().map(str::to_owned).collect();
    for group in spool.groups().iter() {
        let mut rows = Vec::new();
        spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap();
        all.extend(String::from_utf8(rows).unwrap().lines().map(str::to_owned));
    }
    for n in 0..MESSAGES * 8 {
        let id = News::new(n, GROUPS, 300).id;
        let key = spool.key(id.as_bytes());
        let mut line = String::new();
        let kind = format!("{:?}", spool.lookup(&key));
        let _ = write!(line, "{id} {} {:?}", kind.split('(').next().unwrap(), spool.seen(&key));
        all.push(line);
    }
    all
}

/// Compares answers, and shows where they differ.
fn assert_same(answers: &[String], expected: &[String], when: &str) {
    let differs = |(answer, right): &(&String, &String)| answer != right;
    let first: Vec<_> = answers.iter().zip(expected).filter(differs).take(3).collect();
    assert!(first.is_empty() && answers.len() == expected.len(), "{when}: {first:#?}");
}

fn shared(buffers: &[(&str, u64)]) -> SpoolConfig {
    let mut config = config("/s", buffers);
    config.durability = Durability::Process;
    config.checkpoint_rows = 40;
    config.journal_file_bytes = 16 << 10;
    config
}

/// Crashes at every `every`-th step, and compares with a machine that does not.
fn crashes_change_nothing(kind: CrashKind, buffers: &[(&str, u64)], every: usize) {
    let (config, messages) = (shared(buffers), messages(11));
    let (expected, _, steps) = play(&config, &messages, &[]);
    assert!(steps > 200, "{steps}");
    let mut crashes = 0;
    for step in (30..steps).step_by(every) {
        let (answers, n, _) = play(&config, &messages, &[(kind, step)]);
        assert_same(&answers, &expected, &format!("{kind:?} at step {step}"));
        crashes += n;
    }
    assert!(crashes > 5, "{crashes}");
}

#[test]
fn a_power_cut_at_any_step_takes_back_whole_messages_and_changes_no_number() {
    crashes_change_nothing(CrashKind::Power, &[("a", 1 << 20)], crash_every(7));
    crashes_change_nothing(CrashKind::Lost, &[("a", 512 << 10), ("b", 512 << 10)], crash_every(11));
}

#[test]
fn a_kill_at_any_step_takes_back_whole_messages_and_changes_no_number() {
    crashes_change_nothing(CrashKind::Kill, &[("a", 1 << 20)], crash_every(7));
}

/// The journal is cut off on purpose there, also before rows that were durable, and nothing is lost by that.
#[test]
fn a_crash_in_the_start_after_a_kill_changes_no_number() {
    let (config, messages) = (shared(&[("a", 1 << 20)]), messages(11));
    let (expected, _, steps) = play(&config, &messages, &[]);
    for step in (100..steps).step_by(crash_every(97)) {
        for later in 0..40 {
            for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
                let crashes = [(CrashKind::Kill, step), (kind, later)];
                let (answers, ..) = play(&config, &messages, &crashes);
                assert_same(&answers, &expected, &format!("{crashes:?}"));
            }
        }
    }
}

#[test]
fn crashes_of_any_kind_in_a_row_change_no_number() {
    const KINDS: [CrashKind; 4] = [CrashKind::Kill, CrashKind::Power, CrashKind::Lost, CrashKind::Remount];
    let buffers: [&[_]; 2] = [&[("a", 1 << 20)], &[("a", 512 << 10), ("b", 512 << 10)]];
    let random = &mut SimRandom::new(7);
    for seed in 0..8 {
        let (config, messages) = (shared(buffers[random.up_to(1)]), messages(seed));
        let (expected, _, steps) = play(&config, &messages, &[]);
        for _ in 0..1 + 200 / crash_every(10) {
            let mut crashes = vec![(KINDS[random.up_to(3)], 100 + random.below(steps - 100))];
            // Starts take about as many steps.
            crashes.extend((0..=random.below(3)).map(|_| (KINDS[random.up_to(3)], random.below(40))));
            let (answers, ..) = play(&config, &messages, &crashes);
            assert_same(&answers, &expected, &format!("seed {seed}: {crashes:?}"));
        }
    }
}

/// Without a checkpoint all begins with the journal, of which a cut may leave nothing, while the header of
/// the buffer already has the write position of articles.
#[test]
fn crashes_in_a_row_while_a_spool_is_new_change_no_number() {
    const KINDS: [CrashKind; 4] = [CrashKind::Kill, CrashKind::Power, CrashKind::Lost, CrashKind::Remount];
    let random = &mut SimRandom::new(5);
    let (mut config, messages) = (shared(&[("a", 1 << 20)]), messages(11));
    config.checkpoint_rows = 100_000;
    let messages = &messages[..6];
    let (expected, _, steps) = play(&config, messages, &[]);
    for _ in 0..12_000 / crash_every(10) {
        let planned = 1 + random.below(4);
        let crashes: Vec<_> =
            (0..planned).map(|_| (KINDS[random.up_to(3)], random.below(steps.min(150)))).collect();
        let (answers, ..) = play_with(&config, messages, &crashes, true);
        assert_same(&answers, &expected, &format!("{crashes:?}"));
    }
}

#[test]
fn buffers_that_wrap_are_whole_once_the_log_is_applied_again() {
    let (config, messages) = (shared(&[("a", 40_000)]), messages(12));
    let (expected, _, steps) = play(&config, &messages, &[]);
    for step in (30..steps).step_by(crash_every(13)) {
        for kind in [CrashKind::Kill, CrashKind::Power] {
            let (answers, ..) = play(&config, &messages, &[(kind, step)]);
            assert_eq!(answers.len(), expected.len(), "{kind:?} at step {step}");
        }
    }
}

#[test]
fn kept_articles_are_whole_once_the_log_is_applied_again() {
    let mut config = shared(&[("a", 1 << 20)]);
    let path = std::path::PathBuf::from("/s/kept");
    // So small that files are removed, as everything in them is withdrawn.
    config.classes.push(ClassConfig {
        name: "kept".into(),
        method: MethodKind::AppendOnly,
        tree: TreeConfig { path, file_bytes: 1_500, ..TreeConfig::default() },
        ..ClassConfig::default()
    });
    let of_kept = RuleConfig {
        class: "kept".into(),
        groups: Some("test.g0,test.g1,test.g2".into()),
        ..RuleConfig::default()
    };
    config.rules.insert(0, of_kept);
    let messages = messages(13);
    let (expected, _, steps) = play(&config, &messages, &[]);
    for step in (30..steps).step_by(crash_every(13)) {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            let (answers, ..) = play(&config, &messages, &[(kind, step)]);
            assert_eq!(answers, expected, "{kind:?} at step {step}");
        }
    }
}

#[test]
fn a_spool_without_a_shared_log_has_no_position() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let (spool, _) = open(&disk, &shared(&[("a", 1 << 20)]));
    assert_eq!(spool.position(), None);
    let long = vec![0; POSITION_BYTES_MAX + 1];
    let refused = spool.apply(NOW, &[Change::Position { record: &long }], &mut Vec::new());
    assert_eq!(refused.unwrap_err().kind, TroubleKind::Refused);
    spool.apply(NOW, &[Change::Position { record: b"here" }], &mut Vec::new()).unwrap();
    spool.close().unwrap();
    drop(spool);
    let (spool, recovery) = open(&disk, &shared(&[("a", 1 << 20)]));
    assert_eq!(spool.position(), Some(b"here".to_vec()));
    assert!(!recovery.crashed);
}

#[test]
fn a_spool_that_has_left_its_log_keeps_its_numbers_and_loses_nothing_in_a_kill() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let config = shared(&[("a", 1 << 20)]);
    let (spool, _) = open(&disk, &config);
    let file = |spool: &Spool, n| apply(spool, n, &[Entry::Article(n)], 0).unwrap();
    spool.apply(NOW, &[Change::Position { record: &record(0, 0) }], &mut Vec::new()).unwrap();
    apply(&spool, 1, &(0..GROUPS).map(Entry::AddGroup).collect::<Vec<_>>(), 0).unwrap();
    (2..30).for_each(|n| file(&spool, n));
    spool.sync().unwrap();
    spool.apply(NOW, &[Change::Position { record: b"" }], &mut Vec::new()).unwrap();
    assert_eq!(position(&spool), None);
    // From now on there are no positions: nothing that is durable is cut off.
    for n in 30..60 {
        let news = News::new(n, GROUPS, 300);
        let draft = NewsDraft::of(&news);
        spool.apply(NOW + n, &[Change::Article(draft.article(NOW + n, &[]))], &mut Vec::new()).unwrap();
    }
    spool.sync().unwrap();
    let before = answers(&spool);
    drop(spool);
    let (spool, recovery) = open(&disk, &config);
    assert!(recovery.crashed);
    assert_eq!((answers(&spool), position(&spool)), (before, None));
    agree(&spool);
    spool.close().unwrap();
}
