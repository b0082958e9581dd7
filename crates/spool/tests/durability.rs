//! The promises of each durability, on a disk whose syncs take as long as the test wants. A crash shows that
//! unsynced bytes are lost.

use crate::news::*;
use disk::{CrashKind, Disk, OpenMode, SimDisk};
use spool::*;
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

fn disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new();
    (sim.clone(), Arc::new(sim))
}

/// An article that was accepted.
struct Accepted {
    id: String,
    called: Instant,
    answered: Instant,
    /// Whether the answer came while the disk was still held.
    on_slow_disk: bool,
}

#[test]
fn an_interval_bounds_what_a_power_cut_takes_from_a_slow_disk() {
    let interval = Duration::from_millis(200);
    let (sim, disk) = disk();
    let mut config = config("/s", &[("a", 4 << 20)]);
    config.durability = Durability::Interval(interval);
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    sim.hold_syncs(true);
    let (let_go, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let first_answer = OnceLock::new();
    let (calls, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut image = None;
    let accepted = std::thread::scope(|scope| {
        // Also if this thread fails: the scope waits for the other one.
        let _end = AtEnd(|| {
            let_go.store(true, Ordering::Release);
            stop.store(true, Ordering::Release);
            sim.hold_syncs(false);
        });
        let feeder = scope.spawn(|| {
            let mut accepted = Vec::new();
            for n in 0.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                let called = Instant::now();
                calls.fetch_add(1, Ordering::AcqRel);
                let news = News::new(n, 1, 300);
                commit(&spool, std::slice::from_ref(&news)).unwrap();
                let answered = Instant::now();
                first_answer.get_or_init(|| answered);
                answers.fetch_add(1, Ordering::AcqRel);
                let on_slow_disk = !let_go.load(Ordering::Acquire);
                accepted.push(Accepted { id: news.id, called, answered, on_slow_disk });
                // A feed of some articles a second; their number does not matter.
                std::thread::sleep(Duration::from_millis(5));
            }
            accepted
        });
        // Until the interval is over, and an article is not accepted.
        wait_until("all articles are accepted", || {
            let is_over = first_answer.get().is_some_and(|first: &Instant| first.elapsed() > interval);
            is_over && calls.load(Ordering::Acquire) > answers.load(Ordering::Acquire)
        });
        // It would be accepted within this time, were it not for the sync.
        std::thread::sleep(Duration::from_millis(300));
        image = Some(sim.image_after(CrashKind::Lost, 1).unwrap());
        let_go.store(true, Ordering::Release);
        sim.hold_syncs(false);
        let before = answers.load(Ordering::Acquire);
        wait_until("accepting does not go on", || answers.load(Ordering::Acquire) > before);
        stop.store(true, Ordering::Release);
        feeder.join().unwrap()
    });
    // Articles that were accepted before the power cut and are lost by it.
    let disk: Arc<dyn Disk> = Arc::new(image.unwrap());
    let (after, _) = open(&disk, &config);
    let is_lost = |a: &&Accepted| a.on_slow_disk && !after.is_known(&after.key(a.id.as_bytes()));
    let lost: Vec<&Accepted> = accepted.iter().filter(is_lost).collect();
    let first = lost.first().expect("nothing was synced, so something is lost");
    let last = lost.last().unwrap();
    let span = last.called.saturating_duration_since(first.answered);
    assert!(
        span <= interval,
        "a power cut takes what arrived within {span:?}, and more than {interval:?} was asked for"
    );
}

#[test]
fn with_always_what_has_come_is_not_had_before_the_sync() {
    let (sim, disk) = disk();
    let (spool, _) = open(&disk, &config("/s", &[("a", 1 << 20)]));
    add_groups(&spool, 1);
    let news = [News::new(1, 1, 300), News::new(2, 1, 300)];
    let ids: Vec<&[u8]> = news.iter().map(|n| n.id.as_bytes()).collect();
    let keys: Vec<ArticleKey> = ids.iter().map(|id| spool.key(id)).collect();
    let offers = || -> Vec<&str> {
        let name = |offer| match offer {
            OfferAnswer::Wanted(_) => "wanted",
            OfferAnswer::Have => "have",
            OfferAnswer::InFlight => "in flight",
            OfferAnswer::Pending => "pending",
        };
        spool.reserve(&keys, &ids).map(name).collect()
    };
    commit(&spool, &news[..1]).unwrap();
    wait_until("no sync", || offers() == ["have", "wanted"]);
    sim.hold_syncs(true);
    let (ticket, _) = commit(&spool, &news[1..]).unwrap();
    assert_eq!(offers(), ["have", "pending"]);
    assert!(!spool.is_durable(ticket));
    sim.hold_syncs(false);
    wait_until("no sync", || spool.is_durable(ticket));
    wait_until("no sync", || offers() == ["have", "have"]);
}

/// A spool of which a process fed twenty articles, none of them synced, and then died.
fn killed() -> (SimDisk, SpoolConfig, u64) {
    let (sim, disk) = disk();
    let mut config = config("/s", &[("a", 1 << 20)]);
    config.durability = Durability::Process;
    let (spool, _) = open(&disk, &config);
    add_groups(&spool, 1);
    sim.hold_syncs(true);
    let news: Vec<News> = (0..20).map(|n| News::new(n, 1, 700)).collect();
    commit(&spool, &news).unwrap();
    let Lookup::Present(last) = spool.lookup(&spool.key(news[19].id.as_bytes())) else { panic!() };
    let area = spool.meter().status().unwrap().buffers[0].area_bytes;
    let offset = (1 << 20) - area + last.place % area;
    let image = sim.image().unwrap();
    sim.hold_syncs(false);
    (image, config, offset)
}

fn next_number(spool: &Spool) -> u64 {
    let group = spool.group_id(b"test.g0").unwrap();
    commit(spool, &[News::new(99, 1, 300)]).unwrap();
    spool.marks(group).unwrap().high
}

#[test]
fn a_kill_skips_no_number() {
    let (image, config, _) = killed();
    let (spool, recovery) = open(&(Arc::new(image) as Arc<dyn Disk>), &config);
    assert_eq!((recovery.crashed, recovery.power_lost, recovery.loss), (true, false, None));
    assert_eq!(next_number(&spool), 21);
}

/// The marks are there, but an article that a row speaks of is not.
#[test]
fn missing_bytes_prove_that_unsynced_ones_are_lost() {
    let (image, config, offset) = killed();
    let disk: Arc<dyn Disk> = Arc::new(image);
    let buffer = disk.open(Path::new("/s/a.cyc"), OpenMode::Existing).unwrap();
    buffer.write_all_at(&[IoSlice::new(&[0; 512])], offset).unwrap();
    drop(buffer);
    let (spool, recovery) = open(&disk, &config);
    assert_eq!((recovery.torn, &recovery.loss), (1, &Some(LossReason::Bytes)), "{recovery}");
    assert!(spool.marks(spool.group_id(b"test.g0").unwrap()).unwrap().high > 20);
    assert!(next_number(&spool) > 21);
    assert_eq!(agree(&spool).len(), 20);
}

/// A file put in the place of another is not the one that was written to, whatever boot it is.
#[test]
fn a_copy_in_place_of_a_buffer_counts_as_a_loss() {
    let (image, config, _) = killed();
    let disk: Arc<dyn Disk> = Arc::new(image);
    let path = Path::new("/s/a.cyc");
    let old = disk.open(path, OpenMode::Existing).unwrap();
    let mut bytes = vec![0; old.len().unwrap() as usize];
    old.read_exact_at(&mut bytes, 0).unwrap();
    disk.remove(path).unwrap();
    disk.open(path, OpenMode::Create).unwrap().write_all_at(&[IoSlice::new(&bytes)], 0).unwrap();
    let (spool, recovery) = open(&disk, &config);
    assert_eq!((recovery.torn, recovery.loss), (0, Some(LossReason::Remount(path.into()))));
    assert_eq!(agree(&spool).len(), 20);
    assert!(next_number(&spool) > 21);
    // That is known now, and a kill is a kill again.
    let high = next_number(&spool);
    drop(spool);
    let (_, recovery) = open(&disk, &config);
    assert_eq!((recovery.crashed, recovery.loss), (true, None), "{high}");
}
