//! Compares the history with a model under random operations, kills, reboots and damage; and measures its
//! speed (NEWSREEL_BENCH=1).

use std::collections::{HashMap, HashSet};
use std::io::{IoSlice, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::*;
use disk::{CrashKind, OpenMode, RealDisk, SimDisk};
use spool_base::token::MethodKind;

/// 64 records per segment and 4 shards, so that growth and expiry really happen.
const SMALL: Shape = Shape::small(6, 2);

/// A temporary directory for each test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("newsreel-history-{}-{n}", std::process::id())))
    }

    fn open(&self, boot: u8, from: RecordRange, shape: Shape) -> io::Result<History> {
        let disk = Arc::new(RealDisk::with_boot_id([boot; 16]));
        History::open(disk, &self.0, from, &(), shape)
    }

    fn names(&self) -> Vec<String> {
        RealDisk::new().list(&self.0).unwrap()
    }

    /// Overwrites a part of a file of the history.
    fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) {
        let file = RealDisk::new().open(&self.0.join(name), OpenMode::Existing).unwrap();
        file.write_all_at(&[IoSlice::new(bytes)], offset).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// SplitMix64 generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn key(n: u64) -> ArticleKey {
    let mut random = Random(n);
    ArticleKey(u128::from(random.next()) << 64 | u128::from(random.next()))
}

fn token(n: u64) -> Token {
    Token { method: MethodKind::Cnfs, class: n as u8, volume: (n >> 3) as u16, place: n * 64 }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Known {
    number: u64,
    token: Option<Token>,
    arrived: u32,
}

impl Known {
    fn found(known: Option<&Self>, first: u64) -> HistoryLookup {
        match known {
            Some(k) if k.number >= first => {
                k.token.map_or(HistoryLookup::Remembered { arrived: k.arrived }, |t| {
                    HistoryLookup::At(t, k.arrived)
                })
            }
            _ => HistoryLookup::None,
        }
    }
}

/// A row of the journal.
#[derive(Debug, Clone, Copy)]
enum Row {
    Insert(u64, Option<Token>, u32),
    Replace(u64, Option<Token>),
    Expire(u64),
}

/// Expected state of the history, and the journal since the checkpoint.
#[derive(Debug, Default, Clone)]
struct Model {
    known: HashMap<u64, Known>,
    first: u64,
    next: u64,
}

impl Model {
    fn apply(&mut self, row: Row) {
        match row {
            Row::Insert(id, token, arrived) => {
                self.known.insert(id, Known { number: self.next, token, arrived });
                self.next += 1;
            }
            Row::Replace(id, token) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.token = token;
                }
            }
            Row::Expire(first) => {
                self.first = first;
                self.known.retain(|_, known| known.number >= first);
            }
        }
    }
}

fn apply(history: &History, row: Row) {
    match row {
        Row::Insert(id, token, arrived) => {
            history.insert(key(id), token, arrived).unwrap();
        }
        Row::Replace(id, token) => {
            assert!(history.replace(&key(id), token));
        }
        Row::Expire(first) => history.expire_before(first).unwrap(),
    }
}

const IDS: u64 = 6000;

fn check_all(history: &History, model: &Model, seed: u64) {
    for id in 0..IDS {
        let want = Known::found(model.known.get(&id), model.first);
        assert_eq!(history.lookup(&key(id)), want, "id {id}, seed {seed}");
    }
    assert_eq!((history.entries(), history.checkpoint().next_record), (model.next - model.first, model.next));
    let mut numbers = HashSet::new();
    history.for_each(0, &mut |number, record| {
        assert!(history.is_indexed(number, &record.unwrap()) && numbers.insert(number));
    });
    assert_eq!(numbers.len() as u64, history.entries());
}

/// Returns a random row that the model allows.
fn random_row(random: &mut Random, model: &Model, checkpoint: RecordRange) -> Option<Row> {
    let id = random.below(IDS);
    let some_token = (random.below(4) > 0).then(|| token(random.below(1 << 40)));
    match random.below(100) {
        0..85 if !model.known.contains_key(&id) => Some(Row::Insert(id, some_token, random.next() as u32)),
        85..97 if model.known.contains_key(&id) => Some(Row::Replace(id, some_token)),
        97 if model.next - model.first > random.below(IDS) => {
            let first = model.first + random.below(model.next - model.first + 1) / 4;
            Some(Row::Expire(first.min(checkpoint.next_record).max(model.first)))
        }
        _ => None,
    }
}

fn run_against_model(seed: u64, operations: u64) {
    let scratch = Scratch::new();
    let mut random = Random(seed);
    let mut boot = 1;
    let (mut model, mut at_checkpoint, mut rows) = (Model::default(), Model::default(), Vec::new());
    let mut checkpoint = RecordRange::default();
    let mut history = scratch.open(boot, checkpoint, SMALL).unwrap();
    let mut reopened = [0; 3];
    for _ in 0..operations {
        let id = random.below(IDS);
        assert_eq!(history.lookup(&key(id)), Known::found(model.known.get(&id), model.first), "seed {seed}");
        if let Some(row) = random_row(&mut random, &model, checkpoint) {
            apply(&history, row);
            model.apply(row);
            rows.push(row);
            if let Row::Expire(first) = row {
                // The stored checkpoint forgets records before their files are removed.
                checkpoint.first_record = checkpoint.first_record.max(first);
                at_checkpoint.first = at_checkpoint.first.max(first);
            }
        }
        if random.below(700) == 0 {
            checkpoint = history.checkpoint();
            history.sync().unwrap();
            at_checkpoint = model.clone();
            rows.clear();
        }
        if random.below(3000) > 0 {
            continue;
        }
        // The process ends here. Either the page cache survives, or the machine boots again and the index is
        // not trusted.
        drop(history);
        let how = random.below(3);
        reopened[how as usize] += 1;
        if how == 2 {
            boot += 1;
        }
        history = scratch.open(boot, checkpoint, SMALL).unwrap();
        if how == 0 {
            // The journal has lost its tail: its inserts are forgotten, but not the changes written in place.
            model = at_checkpoint.clone();
            rows.retain(|row| !matches!(row, Row::Insert(..)));
            rows.retain(|row| !matches!(row, Row::Replace(id, _) if !model.known.contains_key(id)));
            assert_eq!(history.checkpoint().next_record, model.next);
        } else {
            model = at_checkpoint.clone();
        }
        for &row in &rows {
            // A row may name a record whose segment was removed before the crash.
            match row {
                Row::Replace(id, token) => {
                    let _ = history.replace(&key(id), token);
                }
                row => apply(&history, row),
            }
            model.apply(row);
        }
        assert_eq!(history.checkpoint(), RecordRange { first_record: model.first, next_record: model.next });
        check_all(&history, &model, seed);
    }
    check_all(&history, &model, seed);
    assert!(reopened.iter().all(|&n| n > 3), "{reopened:?}");
    assert!(model.first > 64, "segments were dropped");
    assert!(!scratch.names().contains(&"0000000000.ring".to_owned()));
    assert!(!scratch.names().contains(&"index-04".to_owned()), "shards grew: {:?}", scratch.names());
}

#[test]
fn equals_a_model_under_random_operations() {
    for seed in [1, 2, 3] {
        run_against_model(seed, 100_000);
    }
}

/// Creates 300 entries, all `sync`ed; every third is remembered.
fn filled(scratch: &Scratch) -> RecordRange {
    let history = scratch.open(1, RecordRange::default(), SMALL).unwrap();
    for n in 0..300 {
        history.insert(key(n), (!n.is_multiple_of(3)).then(|| token(n)), n as u32).unwrap();
    }
    let checkpoint = history.checkpoint();
    history.sync().unwrap();
    checkpoint
}

fn expected(n: u64) -> HistoryLookup {
    if n.is_multiple_of(3) {
        HistoryLookup::Remembered { arrived: n as u32 }
    } else {
        HistoryLookup::At(token(n), n as u32)
    }
}

#[test]
fn a_torn_record_is_not_believed_and_a_replayed_cancel_heals_it() {
    let scratch = Scratch::new();
    let checkpoint = filled(&scratch);
    // Record 70 is the seventh of segment 1; its token is half written.
    scratch.overwrite("0000000001.ring", 6 * 32 + 14, &[0x55; 8]);
    for boot in [1, 2] {
        let history = scratch.open(boot, checkpoint, SMALL).unwrap();
        assert_eq!(history.lookup(&key(70)), HistoryLookup::None);
        assert_eq!(history.lookup(&key(71)), expected(71));
        let mut damaged = Vec::new();
        history.for_each(0, &mut |number, record| damaged.extend(record.is_none().then_some(number)));
        assert_eq!(damaged, [70]);
    }
    let history = scratch.open(2, checkpoint, SMALL).unwrap();
    assert!(history.replace(&key(70), None));
    assert_eq!(history.lookup(&key(70)), HistoryLookup::Remembered { arrived: 70 });
    assert!(!history.replace(&key(1_000_000), None));
}

/// Counts how often work was begun.
#[derive(Default)]
struct Count(AtomicU64, AtomicU64);

impl Progress for Count {
    fn start(&self, _: &str, total: u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.store(total, Ordering::Relaxed);
    }
    fn step(&self, done: u64) {
        assert!(done <= self.1.load(Ordering::Relaxed));
    }
    fn finish(&self) {}
}

#[test]
fn the_index_is_rebuilt_only_when_it_cannot_be_trusted() {
    let scratch = Scratch::new();
    let checkpoint = filled(&scratch);
    let rebuilds = |boot: u8| {
        let (disk, count) = (Arc::new(RealDisk::with_boot_id([boot; 16])), Count::default());
        let history = History::open(disk, &scratch.0, checkpoint, &count, SMALL).unwrap();
        (0..300).for_each(|n| assert_eq!(history.lookup(&key(n)), expected(n)));
        assert_eq!(history.lookup(&key(300)), HistoryLookup::None);
        count.0.into_inner()
    };
    assert_eq!(rebuilds(1), 0, "same boot");
    assert_eq!(rebuilds(2), 1, "another boot");
    assert_eq!(rebuilds(2), 0, "same boot again");
    let index = scratch.names().into_iter().rfind(|name| name.starts_with("index-")).unwrap();
    let disk = RealDisk::new();
    let length = disk.open(&scratch.0.join(&index), OpenMode::ReadOnly).unwrap().len().unwrap();
    scratch.overwrite(&index, 4096, &vec![0; length as usize - 4096]);
    assert_eq!(rebuilds(2), 1, "records not found");
    scratch.overwrite(&index, 0, b"x");
    assert_eq!(rebuilds(2), 1, "no magic");
    scratch.overwrite(&index, 64, &[0b0111]);
    assert_eq!(rebuilds(2), 1, "a shard that is nowhere");
    disk.remove(&scratch.0.join(&index)).unwrap();
    assert_eq!(rebuilds(2), 1, "removed");
    disk.open(&scratch.0.join(&index), OpenMode::Existing).unwrap().set_len(5000).unwrap();
    assert_eq!(rebuilds(2), 1, "cut");
}

#[test]
fn missing_or_short_segments_are_damage() {
    let scratch = Scratch::new();
    let checkpoint = filled(&scratch);
    let disk = RealDisk::new();
    let hidden = scratch.0.join("hidden");
    for damaged in ["0000000000.ring", "0000000002.ring", "0000000004.ring"] {
        disk.rename(&scratch.0.join(damaged), &hidden).unwrap();
        let error = scratch.open(2, checkpoint, SMALL).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(damaged), "{error}");
        disk.rename(&hidden, &scratch.0.join(damaged)).unwrap();
    }
    // The 300 records end within segment 4: as long as those exist, the file may be short.
    let last = disk.open(&scratch.0.join("0000000004.ring"), OpenMode::Existing).unwrap();
    last.set_len((300 - 256) * 32).unwrap();
    assert_eq!(scratch.open(2, checkpoint, SMALL).unwrap().lookup(&key(299)), expected(299));
    last.set_len((300 - 256) * 32 - 1).unwrap();
    assert!(scratch.open(2, checkpoint, SMALL).is_err());
    let impossible = RecordRange { first_record: 5, next_record: 4 };
    assert!(scratch.open(2, impossible, SMALL).is_err());
}

#[test]
fn expiry_by_time_removes_whole_segments() {
    let scratch = Scratch::new();
    let checkpoint = filled(&scratch);
    let history = scratch.open(1, checkpoint, SMALL).unwrap();
    assert_eq!((history.first_since(0), history.first_since(130), history.first_since(999)), (0, 130, 300));
    history.expire_before(history.first_since(130)).unwrap();
    assert_eq!(scratch.names().iter().filter(|n| n.ends_with(".ring")).count(), 3);
    assert_eq!((history.lookup(&key(129)), history.lookup(&key(130))), (HistoryLookup::None, expected(130)));
    history.expire_before(5).unwrap();
    assert_eq!(history.checkpoint(), RecordRange { first_record: 130, next_record: 300 });
    // Record 150 is remembered only; 151 is the first with a token that still counts.
    assert_eq!(history.first_living(250, &|t| t.place >= token(150).place), 151);
    assert_eq!(history.first_living(250, &|_| false), 250);
    history.expire_before(9999).unwrap();
    assert_eq!(history.entries(), 0);
    assert_eq!(history.insert(key(5), None, 7).unwrap(), 300);
    assert_eq!(history.lookup(&key(5)), HistoryLookup::Remembered { arrived: 7 });
}

#[test]
fn records_that_are_held_stay_in_the_log_and_are_forgotten_all_the_same() {
    let scratch = Scratch::new();
    let checkpoint = filled(&scratch);
    let history = scratch.open(1, checkpoint, SMALL).unwrap();
    let segments = || scratch.names().iter().filter(|n| n.ends_with(".ring")).count();
    let (all, earlier) = (segments(), history.hold());
    history.forget_before(130);
    let later = history.hold();
    assert_eq!((earlier.first(), later.first()), (0, 130));
    history.expire_before(130).unwrap();
    assert_eq!((segments(), history.lookup(&key(129))), (all, HistoryLookup::None));
    assert_eq!(history.checkpoint(), RecordRange { first_record: 130, next_record: 300 });
    let places: Vec<_> = earlier
        .records([7, 128, 131])
        .map(|(n, record)| (n, record.unwrap().token == Some(token(n))))
        .collect();
    assert_eq!(places, [(7, true), (128, true), (131, true)]);
    drop(earlier);
    history.expire_before(200).unwrap();
    assert_eq!((segments(), later.records([130]).next().unwrap().1.is_some()), (3, true));
    drop(later);
    history.expire_before(200).unwrap();
    assert_eq!((segments(), history.lookup(&key(200))), (2, expected(200)));
}

/// Readers concurrent with the writer find every insert, with one of its two tokens and never a mixture.
#[test]
fn readers_run_concurrently_with_the_writer() {
    const COUNT: u64 = 60_000;
    let scratch = Scratch::new();
    let history = scratch.open(1, RecordRange::default(), SMALL).unwrap();
    let (inserted, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let read = |seed| {
        let (mut random, mut hits) = (Random(seed), 0_u64);
        while !stop.load(Ordering::Relaxed) {
            let known = inserted.load(Ordering::Acquire);
            let n = random.below(known + 1);
            match history.lookup(&key(n)) {
                HistoryLookup::At(t, arrived) if arrived == n as u32 => {
                    assert!(t == token(n) || t == token(n + COUNT), "mixture {t} for {n}");
                    hits += 1;
                }
                HistoryLookup::None => {
                    assert!(n == known || n < history.checkpoint().first_record, "{n} is lost")
                }
                other => panic!("{other:?} for {n}"),
            }
            assert_eq!(history.lookup(&key(n + (1 << 40))), HistoryLookup::None);
        }
        hits
    };
    std::thread::scope(|scope| {
        let readers = [1, 2].map(|seed| scope.spawn(move || read(seed)));
        let mut random = Random(3);
        for n in 0..COUNT {
            assert_eq!(history.insert(key(n), Some(token(n)), n as u32).unwrap(), n);
            inserted.store(n + 1, Ordering::Release);
            let other = n - random.below(n.min(1000) + 1);
            assert!(history.replace(&key(other), Some(token(other + COUNT))));
            if n % 1000 == 999 {
                history.expire_before(n.saturating_sub(20_000)).unwrap();
                history.sync().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() > 100));
    });
    assert_eq!(history.checkpoint().first_record, COUNT - 1 - 20_000);
}

/// `NEWSREEL_BENCH=1 cargo test --release -p spool history::tests::pace -- --nocapture` prints the speed;
/// with `NEWSREEL_BENCH=direct` slots go to the files at once.
#[test]
fn pace() {
    let bench = std::env::var_os("NEWSREEL_BENCH");
    let direct = Shape { gathered_level_min: 64, ..Shape::USUAL };
    let shape = if bench.as_ref().is_some_and(|how| how == "direct") { direct } else { Shape::USUAL };
    let bench = bench.is_some();
    let count: u64 = if bench { 20_000_000 } else { 100_000 };
    let scratch = Scratch::new();
    let open = |boot, from| {
        let began = Instant::now();
        let disk = Arc::new(RealDisk::with_boot_id([boot; 16]));
        (History::open(disk, &scratch.0, from, &(), shape).unwrap(), began.elapsed())
    };
    let (history, _) = open(1, RecordRange::default());
    let mut lines = Vec::new();
    let mut timed = |what: &str, work: &mut dyn FnMut(u64)| {
        let began = Instant::now();
        (0..count).for_each(work);
        let seconds = began.elapsed().as_secs_f64();
        lines.push(format!("{what}: {:.2} million/s", count as f64 / seconds / 1e6));
    };
    timed("making keys alone", &mut |n| {
        std::hint::black_box(key(n));
    });
    timed("inserts", &mut |n| {
        history.insert(key(n), Some(token(n)), n as u32).unwrap();
    });
    timed("hits", &mut |n| {
        let n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % count;
        assert_eq!(history.lookup(&key(n)), HistoryLookup::At(token(n), n as u32));
    });
    timed("misses", &mut |n| assert_eq!(history.lookup(&key(n + (1 << 40))), HistoryLookup::None));
    timed("a miss and its insert", &mut |n| {
        let new = key(n + (1 << 41));
        assert_eq!(history.lookup(&new), HistoryLookup::None);
        history.insert(new, None, 0).unwrap();
    });
    // The kernel writes dirty pages back every half minute; the next slot makes its page dirty once more.
    let (mut since_written_back, few) = (std::time::Duration::ZERO, 50_000.min(count / 20));
    for n in 0..5 * few {
        if n.is_multiple_of(few) {
            let index = scratch.names().into_iter().filter(|name| name.starts_with("index-"));
            index.for_each(|name| std::fs::File::open(scratch.0.join(name)).unwrap().sync_all().unwrap());
        }
        let began = Instant::now();
        history.insert(key(n + (1 << 42)), None, 0).unwrap();
        since_written_back += began.elapsed();
    }
    let each = since_written_back.as_secs_f64() * 1e6 / (5 * few) as f64;
    lines.push(format!("an insert where the kernel writes back after every {few}: {each:.2} us"));
    lines.push(format!("log {} MB, index {} MB", history.log_bytes() >> 20, history.index_bytes() >> 20));
    let checkpoint = history.checkpoint();
    drop(history);
    lines.push(format!("opening, same boot: {:?}", open(1, checkpoint).1));
    let (history, time) = open(2, checkpoint);
    lines.push(format!("opening, other boot: {time:?}"));
    assert_eq!(history.lookup(&key(count - 1)), HistoryLookup::At(token(count - 1), (count - 1) as u32));
    assert_eq!(history.entries(), 2 * count + 5 * few);
    if bench {
        writeln!(std::io::stdout(), "{count} entries, then twice as many\n{}", lines.join("\n")).unwrap();
    }
}

/// Starts after a crash: opens at the stored checkpoint and replays the journal.
fn recover(disk: &SimDisk, checkpoint: RecordRange, rows: &[Row]) -> History {
    let history = History::open(Arc::new(disk.clone()), Path::new("/h"), checkpoint, &(), SMALL).unwrap();
    for &row in rows {
        match row {
            Row::Replace(id, token) => {
                history.replace(&key(id), token);
            }
            row => apply(&history, row),
        }
    }
    history
}

/// Runs until the machine ends. The journal and the checkpoint, which are not on this disk, survive.
fn run_until_crash(disk: &SimDisk, seed: u64) -> (Model, RecordRange, Vec<Row>) {
    let mut random = Random(seed);
    let (mut model, mut rows, mut checkpoint) = (Model::default(), Vec::new(), RecordRange::default());
    let Ok(history) = History::open(Arc::new(disk.clone()), Path::new("/h"), checkpoint, &(), SMALL) else {
        return (model, checkpoint, rows);
    };
    while !disk.crashed() && model.next < 1500 {
        if random.below(50) == 0 {
            let taken = history.checkpoint();
            if history.sync().is_ok() {
                checkpoint = taken;
                rows.clear();
            }
        }
        let Some(row) = random_row(&mut random, &model, checkpoint) else { continue };
        // The journal's row comes first, and must be in effect after recovery.
        model.apply(row);
        rows.push(row);
        if let Row::Expire(first) = row {
            checkpoint.first_record = checkpoint.first_record.max(first);
        }
        let _ = match row {
            Row::Insert(id, token, arrived) => history.insert(key(id), token, arrived).map(drop),
            Row::Replace(id, token) => {
                history.replace(&key(id), token);
                Ok(())
            }
            Row::Expire(first) => history.expire_before(first),
        };
    }
    (model, checkpoint, rows)
}

#[test]
fn the_replay_repairs_the_history_after_any_crash() {
    let quiet = SimDisk::new();
    run_until_crash(&quiet, 5);
    let steps = quiet.steps();
    assert!(steps > 60, "{steps} steps");
    for step in 0..steps {
        for (kind, seed) in
            [(CrashKind::Kill, 0), (CrashKind::Lost, 0), (CrashKind::Power, 1), (CrashKind::Power, 2)]
        {
            let disk = SimDisk::new();
            disk.crash_at(step, kind, seed + step);
            let (model, checkpoint, rows) = run_until_crash(&disk, 5);
            assert!(disk.crashed());
            let history = recover(&disk.image().unwrap(), checkpoint, &rows);
            for id in 0..IDS {
                let want = Known::found(model.known.get(&id), model.first);
                assert_eq!(history.lookup(&key(id)), want, "id {id}, {kind:?} at {step}");
            }
            assert_eq!(history.checkpoint().next_record, model.next);
        }
    }
}

/// G7: a failed insert has entered nothing, and inserting works again once there is space.
#[test]
fn a_full_disk_fails_inserts_and_nothing_else() {
    let disk = SimDisk::new();
    let history =
        History::open(Arc::new(disk.clone()), Path::new("/h"), RecordRange::default(), &(), SMALL).unwrap();
    let mut failures = 0;
    for n in 0..3000 {
        if n % 10 == 0 {
            disk.fail_at(disk.steps(), SimDisk::ENOSPC, true);
        }
        while let Err(error) = history.insert(key(n), None, 1) {
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!((history.lookup(&key(n)), history.checkpoint().next_record), (HistoryLookup::None, n));
            disk.stop_failing();
            failures += 1;
        }
        assert_eq!(history.lookup(&key(n)), HistoryLookup::Remembered { arrived: 1 });
    }
    assert!(failures > 5, "{failures}");
    (0..3000).for_each(|n| assert_ne!(history.lookup(&key(n)), HistoryLookup::None));
}

#[test]
fn an_index_that_has_grown_is_used_after_a_restart() {
    let scratch = Scratch::new();
    let mut history = scratch.open(1, RecordRange::default(), SMALL).unwrap();
    let mut levels = HashSet::new();
    for n in 0..3000 {
        history.insert(key(n), None, n as u32).unwrap();
        if n % 100 == 0 {
            let (disk, count) = (Arc::new(RealDisk::with_boot_id([1; 16])), Count::default());
            let checkpoint = history.checkpoint();
            drop(history);
            history = History::open(disk, &scratch.0, checkpoint, &count, SMALL).unwrap();
            assert_eq!(
                (count.0.into_inner(), history.lookup(&key(n))),
                (0, HistoryLookup::Remembered { arrived: n as u32 })
            );
            levels.extend(scratch.names().into_iter().filter(|name| name.starts_with("index-")));
        }
    }
    assert!(levels.len() > 3, "{levels:?}");
}

/// 16 buckets in each of 4 shards, and half as many in memory: a round is 128 inserts.
const GATHERED: Shape = Shape { gathered_shift: 1, ..SMALL };

/// Returns the first record that may be missing in the index files, and the entries that are there.
fn in_files(scratch: &Scratch, entries: u64) -> (Option<u64>, Vec<u64>) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::with_boot_id([1; 16]));
    let (index, growth) = IndexGrowth::load(&disk, &scratch.0, GATHERED).unwrap().unwrap();
    let is_there = |n: &u64| {
        index.reader().find(&key(*n), &(0..entries), |number| (number == *n).then_some(())).is_some()
    };
    (growth.missing(), (0..entries).filter(is_there).collect())
}

#[test]
fn gathered_slots_are_found_and_a_kill_loses_none() {
    let scratch = Scratch::new();
    let all_found = |history: &History, entries: u64| {
        (0..entries).for_each(|n| assert_eq!(history.lookup(&key(n)), expected(n), "{n} of {entries}"));
        assert_eq!(history.lookup(&key(entries)), HistoryLookup::None);
    };
    let insert = |history: &History, n: u64| {
        history.insert(key(n), (!n.is_multiple_of(3)).then(|| token(n)), n as u32).unwrap();
    };
    let (mut entries, mut checkpoint, mut most_missing) = (0, RecordRange::default(), 0);
    for life in 0..20 {
        let (disk, count) = (Arc::new(RealDisk::with_boot_id([1; 16])), Count::default());
        let history = History::open(disk, &scratch.0, checkpoint, &count, GATHERED).unwrap();
        assert_eq!(count.0.into_inner(), u64::from(life == 0), "index built, life {life}");
        all_found(&history, entries);
        for _ in 0..7 + 13 * life {
            insert(&history, entries);
            entries += 1;
            let (missing, there) = in_files(&scratch, entries);
            let missing = missing.unwrap_or(entries).min(entries);
            assert!(there.iter().copied().take(missing as usize).eq(0..missing), "{missing} of {entries}");
            most_missing = most_missing.max(entries - there.len() as u64);
        }
        all_found(&history, entries);
        checkpoint = history.checkpoint();
        // Killed, or stopped.
        if life % 3 == 2 {
            history.close();
            assert_eq!(in_files(&scratch, entries), (None, (0..entries).collect()));
            all_found(&history, entries);
        }
    }
    assert!((60..300).contains(&most_missing), "{most_missing}");
}

#[test]
fn a_flipped_bit_in_the_first_missing_record_is_noticed() {
    let scratch = Scratch::new();
    let checkpoint = filled(&scratch);
    let open = || {
        let (disk, count) = (Arc::new(RealDisk::with_boot_id([1; 16])), Count::default());
        let history = History::open(disk, &scratch.0, checkpoint, &count, SMALL).unwrap();
        (0..300).for_each(|n| assert_eq!(history.lookup(&key(n)), expected(n)));
        count.0.into_inner()
    };
    for bit in 0..64 {
        // Built again, it may be of another level.
        let index = scratch.names().into_iter().rfind(|name| name.starts_with("index-")).unwrap();
        let file = RealDisk::new().open(&scratch.0.join(&index), OpenMode::Existing).unwrap();
        let mut word = [0; 8];
        file.read_at(&mut word, 32).unwrap();
        word[bit / 8] ^= 1 << (bit % 8);
        drop(file);
        scratch.overwrite(&index, 32, &word);
        assert_eq!(open(), 1, "bit {bit}");
    }
    assert_eq!(open(), 0);
}

#[test]
fn an_old_log_says_by_which_arrival_its_records_are_forgotten() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let dir = Path::new("/h");
    let history = History::open(disk.clone(), dir, RecordRange::default(), &(), SMALL).unwrap();
    history.insert(key(0), Some(token(0)), 100).unwrap();
    history.insert(key(1), None, 30).unwrap();
    history.insert(key(2), None, 120).unwrap();
    (3..6).for_each(|n| _ = history.insert(key(n), Some(token(n)), 130).unwrap());
    let known = history.checkpoint();
    history.sync().unwrap();
    drop(history);
    let visit = || {
        let mut seen = Vec::new();
        let damaged = OldLog::open(&*disk, dir, SMALL.segment_bits, known)
            .for_each(&mut |record, in_order| seen.push((record.arrived, in_order)));
        (seen, damaged)
    };
    let all = vec![(100, 100), (30, 100), (120, 120), (130, 130), (130, 130), (130, 130)];
    assert_eq!(visit(), (all.clone(), 0));
    let from = |first_record| {
        let known = RecordRange { first_record, ..known };
        OldLog::open(&*disk, dir, SMALL.segment_bits, known).forgotten_before()
    };
    assert_eq!([0, 1, 2, 5, 6].map(from), [100, 100, 120, 130, 0]);
    let file = disk.open(&dir.join("0000000000.ring"), OpenMode::Existing).unwrap();
    file.write_all_at(&[IoSlice::new(&[0x5a; 40])], 4 * 32).unwrap();
    assert_eq!(visit(), (all[..4].to_vec(), 2));
}
