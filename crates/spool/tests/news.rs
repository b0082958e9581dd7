//! Small made-up articles, and a spool to put them in.

use disk::{CrashKind, Disk, ReadMode, SimDisk};
use spool::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const NOW: u64 = 1_795_000_000;

/// After this a test that waits has failed.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Waits for a condition that other threads bring about.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT_MAX, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Result of a workload that a simulated failure may end.
pub type TestResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// An article with its wire form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pub id: String,
    pub groups: Vec<String>,
    pub wire: Vec<u8>,
    /// Hidden as it is filed.
    pub is_hidden: bool,
    /// The sites that want it, as its row has them.
    pub sites: &'static [u8],
}

impl News {
    /// Article `n`: its size and groups follow from the number; `scale` is the typical body size.
    pub fn new(n: u64, groups: u64, scale: u64) -> Self {
        let mix = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let id = format!("<{n}.{:x}@test.example>", mix & 0xffff);
        let mut names = vec![format!("test.g{}", mix % groups)];
        if mix.is_multiple_of(5) && groups > 1 {
            names.push(format!("test.g{}", (mix + 1) % groups));
        }
        let mut wire = format!(
            "Path: other!not-for-mail\r\nFrom: A <a{n}@x.example>\r\nNewsgroups: {}\r\nSubject: number \
                {n}\r\n\
             Message-ID: {id}\r\nDate: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n",
            names.join(",")
        )
        .into_bytes();
        let body = scale / 2 + mix % scale;
        // Most of the time of some tests goes into this; `write!` takes three times as long.
        let rest = format!(" of {n}\r\n");
        while (wire.len() as u64) < body {
            let at = wire.len();
            wire.extend_from_slice(b"line ");
            put_decimal(&mut wire, at);
            wire.extend_from_slice(rest.as_bytes());
        }
        Self { id, groups: names, wire, is_hidden: false, sites: &[] }
    }

    /// Returns the article to be filed without numbers.
    pub fn unnumbered(self) -> Self {
        Self { groups: Vec::new(), ..self }
    }

    /// Returns the tagged fields of its journal row.
    pub fn tagged(&self) -> Vec<u8> {
        let mut tagged = Vec::new();
        let wire_bytes = self.wire.len() as u64;
        let hidden = self.is_hidden.then_some(("spam", "a filter"));
        let (path, origin, sites) = (b"other!not-for-mail", "peer other", self.sites);
        RowFacts { wire_bytes, path, origin, hidden, sites, ..RowFacts::default() }.put(&mut tagged);
        tagged
    }

    pub fn header_bytes(&self) -> usize {
        self.wire.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4
    }
}

fn put_decimal(to: &mut Vec<u8>, n: usize) {
    if n >= 10 {
        put_decimal(to, n / 10);
    }
    to.push(b'0' + (n % 10) as u8);
}

pub fn config(dir: &str, buffers: &[(&str, u64)]) -> SpoolConfig {
    let dir = PathBuf::from(dir);
    let buffer = |(name, size_bytes): &(&str, u64)| BufferConfig {
        name: (*name).into(),
        path: dir.join(format!("{name}.cyc")),
        size_bytes: *size_bytes,
        block_bytes: 512,
        retired: false,
    };
    let mut config = SpoolConfig::new(&dir);
    config.path_identity = "news.test.example".into();
    config.buffers = buffers.iter().map(buffer).collect();
    config.classes = vec![ClassConfig {
        name: "all".into(),
        method: MethodKind::Cnfs,
        buffers: buffers.iter().map(|b| b.0.to_owned()).collect(),
        ..ClassConfig::default()
    }];
    config.rules = vec![RuleConfig { class: "all".into(), ..RuleConfig::default() }];
    config.durability = Durability::Always;
    // Articles arrive at `NOW`, whatever the date is where the test runs.
    config.remember_secs = u64::MAX;
    config.article_bytes_max = 64 << 10;
    config.journal_file_bytes = 64 << 10;
    config.history = HistoryShape::small(8, 3);
    config
}

pub fn open(disk: &Arc<dyn Disk>, config: &SpoolConfig) -> (Spool, RecoveryReport) {
    Spool::open(disk.clone(), config.clone(), &()).unwrap()
}

pub fn add_groups(spool: &Spool, n: u64) {
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..n).map(new).collect::<Vec<_>>()).unwrap();
}

/// Of how many steps the crash tests try one: `NEWSREEL_CRASH_EVERY`, else `usual`.
pub fn crash_every(usual: usize) -> usize {
    std::env::var("NEWSREEL_CRASH_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Runs a workload on machines that stop at each of `steps` and looks over what is left of each; gives how
/// often. `run` may end with an error, or panic once the machine has ended.
pub fn crashed_at<Told: Default>(
    steps: impl Iterator<Item = u64>,
    kind: CrashKind,
    run: impl Fn(&SimDisk, &mut Told) -> TestResult,
    mut check: impl FnMut(SimDisk, &Told, &str),
) -> u64 {
    let mut tried = 0;
    for step in steps {
        let sim = SimDisk::new();
        sim.crash_at(step, kind, step * 7919);
        let mut told = Told::default();
        let result = catch_unwind(AssertUnwindSafe(|| run(&sim, &mut told)));
        if let Err(panic) = result
            && !sim.crashed()
        {
            resume_unwind(panic);
        }
        check(sim.image().unwrap(), &told, &format!("{kind:?} at step {step}"));
        tried += 1;
    }
    tried
}

/// Runs a workload on machines on which the call at each of `steps` fails, as on a full disk and as on a
/// broken one, and looks over what is left of each. An error of `run` must say something.
pub fn failed_at<Told: Default>(
    steps: impl Iterator<Item = u64>,
    run: impl Fn(&SimDisk, &mut Told) -> TestResult,
    check: impl Fn(SimDisk, &Told, &str),
) {
    for step in steps {
        for errno in [SimDisk::ENOSPC, SimDisk::EIO] {
            let sim = SimDisk::new();
            sim.fail_at(step, errno, false);
            let mut told = Told::default();
            let result = run(&sim, &mut told);
            assert!(
                result.as_ref().err().is_none_or(|error| !error.to_string().is_empty()),
                "errno {errno} at step {step}"
            );
            check(sim.image().unwrap(), &told, &format!("errno {errno} at step {step} ({result:?})"));
        }
    }
}

/// Commits articles as one batch.
pub fn commit(spool: &Spool, news: &[News]) -> Result<(CommitTicket, Vec<ChangeOutcome>), SpoolTrouble> {
    commit_as(spool, news, &[], NOW)
}

/// Like [`commit`], with the numbers of each article in its groups.
pub fn commit_numbered(
    spool: &Spool,
    news: &[News],
    numbers: &[Vec<u64>],
) -> Result<(CommitTicket, Vec<ChangeOutcome>), SpoolTrouble> {
    commit_as(spool, news, numbers, NOW)
}

/// Like [`commit`], with a time of arrival.
pub fn commit_at(
    spool: &Spool,
    news: &[News],
    arrived: u64,
) -> Result<(CommitTicket, Vec<ChangeOutcome>), SpoolTrouble> {
    commit_as(spool, news, &[], arrived)
}

fn commit_as(
    spool: &Spool,
    news: &[News],
    numbers: &[Vec<u64>],
    arrived: u64,
) -> Result<(CommitTicket, Vec<ChangeOutcome>), SpoolTrouble> {
    let drafts: Vec<NewsDraft<'_>> = news.iter().map(NewsDraft::of).collect();
    let mut changes = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.iter().enumerate() {
        let numbers = numbers.get(at).map_or(&[][..], Vec::as_slice);
        changes.push(Change::Article(draft.article(arrived, numbers)));
    }
    let mut outcomes = Vec::new();
    let ticket = spool.commit(&changes, &mut outcomes)?;
    Ok((ticket, outcomes))
}

/// What a change of an article borrows.
pub struct NewsDraft<'a> {
    news: &'a News,
    names: Vec<&'a [u8]>,
    pieces: [&'a [u8]; 1],
    tagged: Vec<u8>,
}

impl<'a> NewsDraft<'a> {
    pub fn of(news: &'a News) -> Self {
        let names = news.groups.iter().map(String::as_bytes).collect();
        Self { news, names, pieces: [&news.wire], tagged: news.tagged() }
    }

    /// Returns the article, with its numbers in its groups if it brings any.
    pub fn article<'s>(&'s self, arrived: u64, numbers: &'s [u64]) -> NewArticle<'s> {
        use netnews::article::Known;
        let News { id, wire, .. } = self.news;
        let article = netnews::article::Article::parse(wire).unwrap();
        let value = |k| article.header(k).unwrap_or_default();
        NewArticle {
            key: None,
            message_id: id.as_bytes(),
            pieces: &self.pieces,
            header_bytes: self.news.header_bytes(),
            message_id_at: wire.windows(id.len()).position(|w| w == id.as_bytes()).unwrap(),
            groups: ArticleGroups::Named(&self.names),
            numbers,
            fields: netnews::overview_row::OverviewFields {
                subject: value(Known::Subject),
                from: value(Known::From),
                date: value(Known::Date),
                message_id: id.as_bytes(),
                references: value(Known::References),
                bytes: article.bytes(),
                lines: article.lines(),
            },
            arrived,
            expires: None,
            criteria: Criteria {
                from: value(Known::From),
                head: article.head(),
                newsgroups: value(Known::Newsgroups),
                ..Criteria::default()
            },
            tagged: TaggedFields::new(&self.tagged).unwrap(),
        }
    }
}

/// The stored article under a Message-ID, without Xref line and final `.`-line.
pub fn fetch(spool: &Spool, id: &str) -> Option<Vec<u8>> {
    let key = spool.key(id.as_bytes());
    let Lookup::Present(token) = spool.lookup(&key) else { return None };
    let mut buf = ArticleBuf::default();
    if !spool.read(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap() {
        return None;
    }
    assert_eq!(buf.message_id(), id.as_bytes());
    let article = buf.article().strip_suffix(b".\r\n").unwrap();
    let xref = article.windows(2).position(|w| w == b"\r\n").unwrap() + 2;
    Some(article[xref..].to_vec())
}

/// GROUP, LISTGROUP, OVER and ARTICLE agree in every group (guarantee G4); returns (group, number,
/// Message-ID).
pub fn agree(spool: &Spool) -> Vec<(String, u64, String)> {
    // What is damaged cannot be counted.
    if let Some(digest) = spool.digest()
        && let Some(counted) = spool.recount_digest().unwrap()
    {
        assert_eq!(digest, counted, "the digest is that of what is there");
    }
    let mut all = Vec::new();
    let mut buf = ArticleBuf::default();
    for group in spool.groups().iter() {
        let marks = group.marks();
        let mut numbers = Vec::new();
        spool.numbers(group.id, 0..=u64::MAX, usize::MAX, &mut numbers);
        assert_eq!(numbers.len() as u64, marks.count, "{}: LISTGROUP and GROUP", group.name);
        let first = numbers.first().copied().unwrap_or(marks.high + 1);
        // A hidden article may come back: its number keeps the low mark from rising.
        assert!(marks.low == first || marks.low < first && !spool.hidden().is_empty(), "{marks:?} {first}");
        assert!(numbers.last().is_none_or(|n| *n <= marks.high));
        let mut rows = Vec::new();
        let rest = spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap();
        assert_eq!(rest, None);
        let text = String::from_utf8(rows).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), numbers.len(), "{}: OVER and LISTGROUP", group.name);
        for (row, number) in rows.iter().zip(&numbers) {
            let fields: Vec<&str> = row.split('\t').collect();
            assert_eq!(fields[0], number.to_string());
            let token = spool.token_of(group.id, *number, ReadMode::Wait).unwrap().unwrap();
            assert!(
                spool.read(&token, None, ReadMode::Wait, &mut buf).unwrap(),
                "{}:{number} is named, but cannot be read: {:?}",
                group.name,
                spool.tokens().explain(&token, None).lines
            );
            assert_eq!(buf.message_id(), fields[4].as_bytes());
            let xref = format!(" {}:{number}", group.name);
            assert!(String::from_utf8_lossy(buf.head()).lines().next().unwrap().contains(&xref));
            assert_eq!(
                spool.lookup(&spool.key(fields[4].as_bytes())),
                Lookup::Present(token),
                "{}:{number} {}",
                group.name,
                fields[4]
            );
            all.push((group.name.to_string(), *number, fields[4].to_owned()));
        }
    }
    all
}

/// Calls a function when it goes out of scope, also after a panic.
pub struct AtEnd<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
