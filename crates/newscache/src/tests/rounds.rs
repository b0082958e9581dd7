//! Seeded rounds of trouble: a cache that is used while its process is killed, its disk is full, its files
//! are damaged or cannot be read. It always opens again, never returns wrong or torn data, never takes more
//! room than allowed, and remains usable. `NEWSREEL_TEST_SEED=n` plays one round of each trouble; `make soak`
//! plays `NEWSREEL_TEST_ROUNDS=20`.

use std::io;

use super::*;
use crate::reading::group::{GroupOutcome, RowCoverage};
use crate::reading::large::ArticleDestination;
use crate::reading::lists::ListKind;
use disk::{CrashKind, OpenMode};
use netnews::GroupMarks;

const SIZE_BYTES: u64 = 1 << 20;
const STEPS: u64 = 250;
/// The groups, each with the number before its first one.
const GROUPS: [(&[u8], u64); 2] = [(b"a.b", 0), (b"c.d", 1000)];
/// Number of articles of each group: together three times the available room.
const NUMBERS: u64 = 150;
const LIST: &[u8] = b"a.b 150 1 y\r\nc.d 1150 1001 y\r\n";

/// Trouble in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ill {
    Killed,
    PowerCut,
    FullDisk,
    Damaged,
    Unreadable,
}

const ILLS: [Ill; 5] = [Ill::Killed, Ill::PowerCut, Ill::FullDisk, Ill::Damaged, Ill::Unreadable];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

fn size(number: u64) -> usize {
    if number.is_multiple_of(6) { 60_000 } else { 400 + (number * 37 % 3000) as usize }
}

fn marks(before: u64) -> GroupMarks {
    GroupMarks { low: before + 1, high: before + NUMBERS, count: NUMBERS }
}

struct Round {
    what: String,
    ill: Ill,
    sim: SimDisk,
    cache: Cache,
    random: Random,
    now: u64,
    /// True if reads may fail: part of the disk is unreadable, or the machine has ended.
    may_fail: bool,
}

impl Round {
    fn new(ill: Ill, seed: u64) -> Self {
        let sim = SimDisk::new();
        let (cache, _) = open(&sim, settings(SIZE_BYTES), 5);
        let what = format!("{ill:?}, seed {seed}");
        Self { what, ill, sim, cache, random: Random(seed * 101 + ill as u64), now: 5, may_fail: false }
    }

    fn play(&mut self) {
        for _ in 0..STEPS {
            self.now += 1;
            if self.random.below(12) == 0 {
                self.befall();
            }
            let done = self.step();
            if self.sim.crashed() {
                self.restart();
            } else {
                let is_expected = self.may_fail || matches!(self.ill, Ill::FullDisk);
                assert!(is_expected || done.is_ok(), "{}: {done:?}", self.what);
                let bytes = bytes_on(&self.sim);
                assert!(bytes <= SIZE_BYTES + SIZE_BYTES / 20, "{}: {bytes} bytes", self.what);
            }
        }
        self.recover();
    }

    /// Causes trouble.
    fn befall(&mut self) {
        match self.ill {
            Ill::Killed | Ill::PowerCut => {
                let kind = if self.ill == Ill::Killed { CrashKind::Kill } else { CrashKind::Power };
                let step = self.sim.steps() + self.random.below(40);
                self.sim.crash_at(step, kind, self.random.below(1 << 30));
                self.may_fail = true;
            }
            Ill::FullDisk if self.random.below(2) == 0 => self.sim.free(),
            Ill::FullDisk => self.sim.leave_bytes(self.random.below(20_000)),
            Ill::Damaged => {
                self.damage();
                if self.random.below(3) == 0 {
                    self.restart();
                }
            }
            Ill::Unreadable => {
                self.may_fail = true;
                let path = self.some_file();
                let len = self.sim.about(&path).unwrap().unwrap().bytes;
                let at = self.random.below(len);
                self.sim.spoil(&path, at..at + 1).unwrap();
            }
        }
    }

    fn some_file(&mut self) -> PathBuf {
        let all = files(&self.sim, Path::new(DIR));
        all[self.random.below(all.len() as u64) as usize].clone()
    }

    /// Damages a file: changes octets, truncates, extends or removes it, or replaces its content by
    /// another's.
    fn damage(&mut self) {
        let path = self.some_file();
        if self.random.below(8) == 0 {
            return self.sim.remove(&path).unwrap();
        }
        let file = self.sim.open(&path, OpenMode::Existing).unwrap();
        let len = file.len().unwrap();
        let at = self.random.below(len);
        let write = |bytes: &[u8], at: u64| file.write_all_at(&[io::IoSlice::new(bytes)], at).unwrap();
        match self.random.below(6) {
            0 => file.set_len(at).unwrap(),
            1 => write(&vec![0; (len - at).min(4096) as usize], at),
            2 => write(b"more than there was", len),
            3 => {
                let path = self.some_file();
                let other = self.sim.open(&path, OpenMode::ReadOnly).unwrap();
                let mut bytes = vec![0; other.len().unwrap() as usize];
                other.read_at(&mut bytes, 0).unwrap();
                write(&bytes, 0);
            }
            _ => {
                let mut byte = [0];
                if file.read_at(&mut byte, at).unwrap() == 1 {
                    write(&[byte[0] ^ (1 << self.random.below(8))], at);
                }
            }
        }
    }

    /// Simulates a restart: another process opens the remaining files.
    fn restart(&mut self) {
        let image = self.sim.image().unwrap();
        let opened = Cache::open(Arc::new(image.clone()), Path::new(DIR), settings(SIZE_BYTES), self.now);
        let (cache, _) = opened.unwrap_or_else(|error| panic!("{}: {error}", self.what));
        (self.sim, self.cache, self.may_fail) = (image, cache, self.ill == Ill::Unreadable);
    }

    /// Performs one action of a server; checks that reads are correct.
    fn step(&mut self) -> io::Result<()> {
        let (name, before) = GROUPS[self.random.below(2) as usize];
        let group = self.cache.group("isp", name, self.now);
        let number = before + 1 + self.random.below(NUMBERS);
        let last = (number + self.random.below(20)).min(before + NUMBERS);
        let (id, text) = (id(number), article(number, size(number)));
        match self.random.below(10) {
            0 => _ = group.set_marks(marks(before), self.now)?,
            1 => {
                let rows: Vec<u8> = (number..=last).flat_map(|n| row(n, size(n))).collect();
                assert_eq!(
                    group.put_rows(number..=last, &rows, self.now)?,
                    GroupOutcome::None,
                    "{}",
                    self.what
                );
            }
            2 => {
                let all: Vec<u64> = (before + 1..=before + NUMBERS).collect();
                _ = group.set_numbers(before + 1..=before + NUMBERS, &all, self.now)?;
            }
            3 => {
                let mut writer =
                    self.cache.writer(ArticleDestination::Group(&group, number), &id, self.now)?;
                text.chunks(9000).try_for_each(|piece| writer.write(piece, self.now))?;
                assert_eq!(writer.finish(self.now)?, GroupOutcome::None, "{}", self.what);
            }
            4 => self.cache.put_by_id("isp", &id, &text, self.now)?,
            5 if self.random.below(4) == 0 => {
                let mut list = self.cache.put_list("isp", ListKind::Active, self.now)?;
                list.append(LIST)?;
                list.finish()?;
            }
            6 if self.random.below(4) == 0 => self.cache.save()?,
            _ => {
                assert_eq!(
                    group.put_article(number, &id, &text, self.now)?,
                    GroupOutcome::None,
                    "{}",
                    self.what
                );
            }
        }
        self.read()
    }

    /// Reads some data of each kind.
    fn read(&mut self) -> io::Result<()> {
        let (name, before) = GROUPS[self.random.below(2) as usize];
        let group = self.cache.group("isp", name, self.now);
        if let Some(known) = group.marks() {
            assert_eq!(known.value, marks(before), "{}", self.what);
        }
        for _ in 0..5 {
            let number = before + 1 + self.random.below(NUMBERS);
            let mut bytes = Vec::new();
            if let Some(found) = group.article(number, &mut bytes, self.now)? {
                assert!(found == id(number), "{}: another article for {number}", self.what);
                assert!(bytes == article(number, size(number)), "{}: {number} is torn", self.what);
            }
            bytes.clear();
            if self.cache.by_id(&id(number), &mut bytes, self.now)? {
                assert!(bytes == article(number, size(number)), "{}: {number} by its id", self.what);
            }
        }
        let first = before + 1 + self.random.below(NUMBERS);
        let last = (first + self.random.below(40)).min(before + NUMBERS);
        let right: Vec<u8> = (first..=last).flat_map(|n| row(n, size(n))).collect();
        let mut rows = Vec::new();
        let end = group.rows(first..=last, usize::MAX, &mut rows, self.now)?;
        assert!(
            right.starts_with(&rows) && (end != RowCoverage::Done || rows == right),
            "{}: rows",
            self.what
        );
        let mut numbers = Vec::new();
        if group.numbers(first..=last, usize::MAX, &mut numbers)? {
            assert!(numbers.into_iter().eq(first..=last), "{}: numbers", self.what);
        }
        if let Some(mut list) = self.cache.list("isp", ListKind::Active)? {
            let mut lines = Vec::new();
            let end = loop {
                match list.next(&mut lines) {
                    Ok(true) => {}
                    end => break end,
                }
            };
            // A damaged list ends with an error, after correct lines.
            let is_whole = end.as_ref().is_ok_and(|_| lines == LIST);
            assert!(is_whole || (end.is_err() && LIST.starts_with(&lines)), "{}: a list", self.what);
        }
        Ok(())
    }

    /// Ends the trouble: everything must work afterwards.
    fn recover(&mut self) {
        self.sim.free();
        self.sim.stop_failing();
        self.restart();
        self.cache.verify(&()).unwrap_or_else(|error| panic!("{}: {error}", self.what));
        for (name, before) in GROUPS {
            let group = self.cache.group("isp", name, self.now);
            _ = group.set_marks(marks(before), self.now).unwrap();
            for number in before + 1..before + 20 {
                let text = article(number, size(number));
                let kept = group.put_article(number, &id(number), &text, self.now);
                assert_eq!(kept.unwrap(), GroupOutcome::None, "{}", self.what);
                let mut bytes = Vec::new();
                let found = group.article(number, &mut bytes, self.now).unwrap();
                assert!(found.is_some() && bytes == text, "{}: {number} is not kept", self.what);
            }
        }
        let bytes = bytes_on(&self.sim);
        assert!(bytes <= SIZE_BYTES + SIZE_BYTES / 20, "{}: {bytes} bytes", self.what);
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn rounds_of_trouble() {
    let rounds = variable("NEWSREEL_TEST_ROUNDS").unwrap_or(1);
    let seeds = variable("NEWSREEL_TEST_SEED").map_or(1..=rounds, |seed| seed..=seed);
    for ill in ILLS {
        seeds.clone().for_each(|seed| Round::new(ill, seed).play());
    }
}
