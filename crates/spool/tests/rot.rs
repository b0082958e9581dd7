//! A rotten article and then a crash: damage of the medium is distinguished from that of the crash, and costs
//! itself alone.
//!
//! Each image is opened twice, as it is and with one old article damaged. The second time all articles of the
//! first are there but for that one.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, ReadMode, SimDisk};
use spool::*;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

const GROUPS: u64 = 2;
const BUFFER: &str = "/s/a.cyc";

/// Damage to the bytes of an article.
#[derive(Debug, Clone, Copy)]
enum Rot {
    Bit,
    Sector,
    Unreadable,
}

const EVERY_ROT: [Rot; 3] = [Rot::Bit, Rot::Sector, Rot::Unreadable];

fn config_of(buffer_bytes: u64) -> SpoolConfig {
    SpoolConfig {
        durability: Durability::Process,
        checkpoint_rows: 60,
        article_bytes_max: 16 << 10,
        ..config("/s", &[("a", buffer_bytes)])
    }
}

fn feed(spool: &Spool, range: std::ops::Range<u64>, scale: u64) -> TestResult {
    let news: Vec<News> = range.map(|n| News::new(n, GROUPS, scale)).collect();
    news.chunks(9).try_for_each(|part| Ok(commit(spool, part).map(drop)?))
}

fn open_as_arc(sim: &SimDisk, config: &SpoolConfig) -> (Spool, RecoveryReport) {
    open(&(Arc::new(sim.clone()) as Arc<dyn Disk>), config)
}

/// The Message-IDs that can be read, by place.
fn readable(spool: &Spool) -> BTreeMap<u64, String> {
    let named = agree(spool).into_iter().map(|(_, _, id)| id);
    let place = |id: String| match spool.lookup(&spool.key(id.as_bytes())) {
        Lookup::Present(token) => (token.place, id),
        _ => panic!("{id} is named and not known"),
    };
    named.map(place).collect()
}

fn is_readable(spool: &Spool, id: &str) -> bool {
    let key = spool.key(id.as_bytes());
    let Lookup::Present(token) = spool.lookup(&key) else { return false };
    spool.read(&token, Some(&key), ReadMode::Wait, &mut ArticleBuf::default()).unwrap_or(false)
}

/// Damages the article with an id: in the body, behind the first sector where it has one.
fn spoil(sim: &SimDisk, id: &str, rot: Rot) {
    let file = sim.open(Path::new(BUFFER), OpenMode::Existing).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let line = format!("Message-ID: {id}\r\n");
    // Of copies from before a wrap the latest counts, which has the greatest place.
    let found = memchr::memmem::find_iter(&bytes, line.as_bytes());
    let place = |record: usize| u64::from_le_bytes(bytes[record + 16..record + 24].try_into().unwrap());
    let record = |at: usize| (0..=at / 512).rev().map(|b| b * 512).find(|r| bytes[*r..].starts_with(b"NRec"));
    let record = found.filter_map(record).max_by_key(|r| place(*r)).unwrap();
    let len = u32::from_le_bytes(bytes[record + 8..record + 12].try_into().unwrap()) as usize + 64;
    let last_sector = (record + len - 1) / 512 * 512;
    match rot {
        Rot::Bit => {
            let at = record + len - 20;
            file.write_all_at(&[IoSlice::new(&[bytes[at] ^ 4])], at as u64).unwrap();
        }
        Rot::Sector => file.write_all_at(&[IoSlice::new(&[0xA5; 512])], last_sector as u64).unwrap(),
        Rot::Unreadable => {
            sim.spoil(Path::new(BUFFER), last_sector as u64..last_sector as u64 + 512).unwrap()
        }
    }
    file.sync().unwrap();
}

/// Every other article must be readable, and what `verify` reports must be about this one.
fn costs_itself(spool: &Spool, before: &BTreeMap<u64, String>, id: &str, what: &str) {
    assert!(!is_readable(spool, id), "{what}: {id}");
    for other in before.values().filter(|other| *other != id) {
        assert!(is_readable(spool, other), "{what}: {other} went with {id}");
    }
    let findings = spool.verifier().verify(&()).findings;
    assert!(findings.len() <= 1, "{what}: {findings:?}");
}

/// Two wraps, cut off somewhere.
fn run(sim: &SimDisk, config: &SpoolConfig) -> TestResult {
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let (spool, _) = Spool::open(disk, config.clone(), &())?;
    let new = |i| NewGroup { name: format!("test.g{i}"), created: NOW, ..NewGroup::default() };
    spool.add_groups(&(0..GROUPS).map(new).collect::<Vec<_>>())?;
    feed(&spool, 0..120, 900)?;
    Ok(spool.close()?)
}

fn crash_everywhere(kind: CrashKind) {
    let config = config_of(8192 + 4096 + 96 * 512);
    let sim = SimDisk::new();
    run(&sim, &config).unwrap();
    let (mut seen, mut tried) = (0, 0);
    let check = |image: SimDisk, (): &(), what: &str| {
        seen += 1;
        let (spool, recovery) = open_as_arc(&image.image().unwrap(), &config);
        let mut before = readable(&spool);
        drop(spool);
        // Records whose rows were still to be written come back one after the other, up to the first damaged
        // one.
        (0..recovery.taken_in).for_each(|_| drop(before.pop_last()));
        if before.is_empty() {
            return;
        }
        let rot = EVERY_ROT[seen % 3];
        let id = before.values().nth(seen * 31 % before.len()).unwrap();
        let what = format!("{what}, {rot:?}");
        spoil(&image, id, rot);
        let (spool, with_rot) = open_as_arc(&image, &config);
        assert!(with_rot.given_up <= recovery.given_up + 1, "{what}: {recovery}; {with_rot}");
        costs_itself(&spool, &before, id, &what);
        // Both go on alike.
        feed(&spool, 200..240, 900).unwrap();
        tried += 1;
    };
    let every = crash_every(1);
    crashed_at((0..sim.steps()).step_by(every), kind, |sim, ()| run(sim, &config), check);
    assert!(tried > 40 / every, "{tried}");
}

#[test]
fn a_rotten_article_and_a_kill_at_every_step() {
    crash_everywhere(CrashKind::Kill);
}

#[test]
fn a_rotten_article_and_a_power_cut_at_every_step() {
    crash_everywhere(CrashKind::Power);
}

#[test]
fn in_a_buffer_that_never_wrapped_nothing_old_is_given_up() {
    for (kind, rot) in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost]
        .into_iter()
        .flat_map(|kind| EVERY_ROT.map(|rot| (kind, rot)))
    {
        let config = SpoolConfig { durability: Durability::Always, ..config_of(400_000) };
        let sim = SimDisk::new();
        let (spool, _) = open_as_arc(&sim, &config);
        add_groups(&spool, GROUPS);
        feed(&spool, 0..60, 900).unwrap();
        while !spool.is_durable(spool.ticket()) {
            std::thread::yield_now();
        }
        let before = readable(&spool);
        for n in [0, 1, 30] {
            let id = News::new(n, GROUPS, 900).id;
            let image = sim.image_after(kind, 5).unwrap();
            spoil(&image, &id, rot);
            let (spool, recovery) = open_as_arc(&image, &config);
            let what = format!("{kind:?} {rot:?} {n}: {recovery}");
            assert_eq!((recovery.crashed, recovery.given_up), (true, 0), "{what}");
            costs_itself(&spool, &before, &id, &what);
            // Where no `Synced` row reached the disk, a new article that is not whole counts as one that
            // never arrived.
            assert!(recovery.torn == 1 || !spool.verifier().verify(&()).findings.is_empty(), "{what}");
        }
    }
}

/// The story: thousands of articles behind a rotten one were given up with it.
#[test]
fn a_rotten_article_far_from_the_write_position_goes_alone() {
    let config = config_of(6 << 20);
    let sim = SimDisk::new();
    let (spool, _) = open_as_arc(&sim, &config);
    add_groups(&spool, GROUPS);
    // Not closed: as if killed, with the last articles not synced.
    feed(&spool, 0..900, 10_000).unwrap();
    let before = readable(&spool);
    assert!(before.len() > 300 && spool.meter().status().unwrap().buffers[0].cycle > 1, "{}", before.len());
    // By the distance from the write position: next to it, within what a kill leaves, and beyond.
    for (kind, at) in
        [CrashKind::Kill, CrashKind::Power].into_iter().flat_map(|k| [0, 60, 250].map(|at| (k, at)))
    {
        for rot in EVERY_ROT {
            let id = before.values().nth(at).unwrap();
            let image = sim.image_after(kind, 5).unwrap();
            let (spool, control) = open_as_arc(&image.image().unwrap(), &config);
            let before = readable(&spool);
            spoil(&image, id, rot);
            let (spool, recovery) = open_as_arc(&image, &config);
            let what = format!("{kind:?} {rot:?} {at}: {recovery}");
            assert!(recovery.given_up <= control.given_up + 1, "{what}");
            costs_itself(&spool, &before, id, &what);
            let is_reported =
                spool.verifier().verify(&()).findings.iter().any(|f| f.what.contains("cannot be read"));
            // Since the last `Synced` row that reached the disk, an article that is not whole counts as one
            // that never arrived.
            let is_counted = recovery.given_up > control.given_up || recovery.torn > control.torn;
            let is_ambiguous =
                matches!((kind, at, rot), (CrashKind::Power, 0 | 60, Rot::Sector | Rot::Unreadable));
            assert!(is_reported || is_counted || is_ambiguous, "{what}; without: {control}");
        }
    }
}
