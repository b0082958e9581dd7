//! Planted flaws: how many seeds it takes to find each.

use crate::flaw::PlantedFlaw;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds within which each flaw must be found. See `docs/decisions/0102-simulation.md` for what it took.
const SEEDS_MAX: u64 = 100;

fn seeds_until_found(flaw: PlantedFlaw) -> u64 {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = (0..SEEDS_MAX)
        .find(|seed| catch_unwind(AssertUnwindSafe(|| super::play(*seed, Some(flaw)))).is_err());
    std::panic::set_hook(hook);
    found.map_or(u64::MAX, |seed| seed + 1)
}

#[test]
#[ignore = "the seeds of all flaws; make soak runs it"]
fn seeds_of_each_planted_flaw_are_counted() {
    for flaw in [
        PlantedFlaw::ForgetsTag,
        PlantedFlaw::AnswersWhenAppended,
        PlantedFlaw::ReadsClock(0),
        PlantedFlaw::AppliesTwice,
        PlantedFlaw::HeedsOutdated,
        PlantedFlaw::SettlesByClock,
        PlantedFlaw::FeedsFromStart,
    ] {
        let seeds = seeds_until_found(flaw);
        eprintln!("{flaw:?}: found after {seeds} seeds");
        assert!(seeds <= SEEDS_MAX, "{flaw:?}");
    }
}
