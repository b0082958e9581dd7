//! The simulation with many seeds, on all processors. Each seed is played by one thread, and
//! shares nothing with others.

use super::play;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Plays seeds; panics if an invariant does not hold in one.
fn play_all(seeds: Range<u64>) {
    let (next, filed) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let play_some = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match catch_unwind(AssertUnwindSafe(|| play(seed, None))) {
                Ok(checks) => filed.fetch_add(checks.filed(), Ordering::Relaxed),
                Err(panic) => {
                    eprintln!(
                        "seed {seed}: make soak-cluster SEEDS=1 FIRST_SEED={seed} NEWSREEL_TRACE=1 prints what happens"
                    );
                    next.store(seeds.end, Ordering::Relaxed);
                    resume_unwind(panic);
                }
            };
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(play_some))));
    let (filed, played) = (filed.into_inner(), seeds.end - seeds.start);
    assert!(filed > played, "{filed} articles in {played} seeds");
}

#[test]
fn invariants_hold_in_200_simulated_clusters() {
    play_all(0..200);
}

#[test]
#[ignore = "some minutes; CI and make soak run it, and make soak-cluster for a million seeds"]
fn invariants_hold_in_as_many_simulated_clusters_as_are_asked_for() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let first = number("NEWSREEL_FIRST_SEED").unwrap_or(10_000);
    play_all(first..first + number("NEWSREEL_SEEDS").unwrap_or(10_000));
}
