//! Clocks of machines: whose is wrong. Nothing in the log is ordered by them, but a proposer judges by its
//! own how old an article is and what is due to expire, so one whose clock is wrong must not propose.

/// Seconds by which the clock of a member may differ from those of most others.
pub const CLOCK_SECS_MAX: i64 = 10;

/// Returns by how many seconds a clock is ahead of those of the engine and of the other members (below 0:
/// behind them) if that is more than it may be. All are given as seconds ahead of the engine's clock. Of
/// several clocks the median counts, so that one wrong clock, the engine's among them, harms no one else.
pub fn clock_fault(own: i64, others: &[i64]) -> Option<i64> {
    let mut all: Vec<i64> = others.iter().copied().chain([0]).collect();
    all.sort_unstable();
    // Of an even number of clocks either of those in the middle may be right.
    let middle = [(all.len() - 1) / 2, all.len() / 2];
    let differences = middle.iter().filter_map(|at| all.get(*at)).map(|right| own.saturating_sub(*right));
    differences.min_by_key(|ahead| ahead.abs()).filter(|ahead| ahead.abs() > CLOCK_SECS_MAX)
}

/// Returns how far a clock was ahead of another one that was read between two of its times: 0 if the times
/// leave that open, as an answer may be late.
pub fn ahead_between(before: i64, after: i64, other: i64) -> i64 {
    match (before - other, after - other) {
        (before, _) if before > 0 => before,
        (_, after) if after < 0 => after,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: i64 = 31_622_400;

    #[test]
    fn the_clock_that_differs_from_most_is_wrong() {
        assert_eq!(clock_fault(3, &[]), None);
        assert_eq!(clock_fault(YEAR, &[]), Some(YEAR));
        assert_eq!(clock_fault(-YEAR, &[2, -1]), Some(-YEAR));
        assert_eq!(clock_fault(1, &[YEAR, 0]), None, "another member's is wrong");
        assert_eq!(clock_fault(YEAR, &[YEAR, YEAR]), None, "the engine's is wrong");
        assert_eq!(clock_fault(YEAR, &[YEAR]), None, "the engine's, with one other member");
        assert_eq!(clock_fault(YEAR, &[0]), Some(YEAR));
        assert_eq!(clock_fault(0, &[YEAR]), None);
        assert_eq!(clock_fault(11, &[0, 0]), Some(11));
        assert_eq!(clock_fault(10, &[0, 0]), None);
    }

    #[test]
    fn a_late_answer_is_no_difference() {
        assert_eq!(ahead_between(100, 130, 115), 0);
        assert_eq!(ahead_between(100, 101, 80), 20);
        assert_eq!(ahead_between(100, 101, 150), -49);
    }
}
