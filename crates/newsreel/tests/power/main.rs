//! Power cuts on real files: the real server on ext4 on a loop device on a disk that knows what was not
//! flushed.
//!
//! Round after round the server is fed over loopback while a reader looks, the power goes at a random moment,
//! and the server starts on what the cut left: unflushed sectors lost, torn and reordered, in the same boot
//! of the machine. Then everything that the server acknowledged or showed is checked (guarantees G1 to G4 of
//! `docs/states.md`). Needs root, /dev/fuse and loop devices.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod device;
mod ledger;
mod machine;

use device::Random;
use ledger::Ledger;
use machine::Machine;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The power goes this many milliseconds after the first acknowledgement.
const CUT_MS_MAX: u64 = 300;
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Whether this machine can do it; says aloud if not.
fn possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    let missing = match () {
        () if !root => "needs root",
        () if !std::path::Path::new("/dev/fuse").exists() => "needs /dev/fuse",
        () if !std::path::Path::new("/dev/loop-control").exists() => "needs loop devices",
        () if !machine::has_tools() => "needs mkfs.ext4, mount and losetup (install e2fsprogs, mount)",
        () => return true,
    };
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    // `eprintln` would be captured with the output of a test that passes.
    #[allow(clippy::explicit_write)]
    writeln!(std::io::stderr(), "SKIPPED: {name} {missing}").unwrap();
    false
}

fn cut_again_and_again(durability: &str, flush_ms: u64, rounds: u64, seed: u64) {
    if !possible() {
        return;
    }
    let flush_time = Duration::from_millis(flush_ms);
    let mut random = Random(seed);
    let mut machine = Machine::new(durability).unwrap();
    machine.slow_down(flush_time);
    let ledger = Mutex::new(Ledger::new(durability));
    let (mut unflushed, mut lost) = (0, 0);
    for round in 0..rounds {
        let what = format!("{durability}, seed {seed}, round {round}");
        machine.start().unwrap_or_else(|e| panic!("{what}: {e}"));
        lost +=
            ledger.lock().unwrap().audit(&mut machine.client(), &format!("{what} ({})", machine.recovery()));
        ledger.lock().unwrap().begin();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| ledger::feed(&mut machine.client(), &ledger, &stop));
            scope.spawn(|| ledger::look(&mut machine.client(), &ledger, &stop));
            scope.spawn(|| {
                let mut random = Random(seed ^ round << 32);
                while !stop.load(Ordering::Acquire) {
                    machine.write_out(&mut random);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let began = Instant::now();
            while ledger.lock().unwrap().acknowledged_now() == 0 {
                assert!(began.elapsed() < WAIT_MAX, "{what}: nothing is acknowledged");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(random.below(CUT_MS_MAX)));
            // What is recorded by now was answered before the cut.
            let mut ledger = ledger.lock().unwrap();
            ledger.end();
            unflushed += machine.cut(&mut random);
            stop.store(true, Ordering::Release);
        });
        machine.power_off().unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    let ledger = ledger.into_inner().unwrap();
    println!(
        "{durability}, flushes of {flush_time:?} and more: {rounds} cuts, {} articles acknowledged, {lost} \
            of them lost, {} numbers seen, {unflushed} sectors unflushed, \
         longest span lost {:?}",
        ledger.acknowledged(),
        ledger.seen(),
        ledger.longest_span()
    );
    assert!(ledger.acknowledged() >= rounds);
}

/// Each durability with the shortest duration of a flush: the interval also with a disk that is slower than
/// it.
const DURABILITIES: [(&str, u64); 4] =
    [("always", 0), ("interval(100ms)", 0), ("interval(100ms)", 150), ("process", 0)];

#[test]
fn nothing_promised_is_taken_by_power_cuts_with_always() {
    let (durability, flush_ms) = DURABILITIES[0];
    cut_again_and_again(durability, flush_ms, 5, 1);
}

#[test]
fn nothing_promised_is_taken_by_power_cuts_with_an_interval() {
    let (durability, flush_ms) = DURABILITIES[1];
    cut_again_and_again(durability, flush_ms, 5, 1);
}

#[test]
fn nothing_promised_is_taken_by_power_cuts_with_an_interval_on_a_slow_disk() {
    let (durability, flush_ms) = DURABILITIES[2];
    cut_again_and_again(durability, flush_ms, 5, 1);
}

#[test]
fn nothing_promised_is_taken_by_power_cuts_with_process() {
    let (durability, flush_ms) = DURABILITIES[3];
    cut_again_and_again(durability, flush_ms, 5, 1);
}

#[test]
#[ignore = "minutes; make soak runs it"]
fn nothing_promised_is_taken_by_200_power_cuts_with_each_durability() {
    // A new site for every 20, so that its buffers never come to displace.
    for (durability, flush_ms) in DURABILITIES {
        (0..10).for_each(|n| cut_again_and_again(durability, flush_ms, 20, 100 + n));
    }
}
