//! What users have seen: for each user and group the highest number at the last visit.
//!
//! A visit ends when the group has not been looked at for a while; what came after its end is new at the
//! next one. The table is kept in memory within bounds, and lost at a restart. Called by `reading`.

use site_base::lock::Leaf;
use std::collections::HashMap;

/// Time without a look at the group after which a visit has ended, in seconds.
const VISIT_GAP_SECS: u64 = 30 * 60;
/// Maximum number of groups of all users.
const VISITS_MAX: usize = 100_000;

/// A user's visits of a group.
#[derive(Debug, Clone, Copy)]
struct GroupVisit {
    /// Highest number at the end of the visit before.
    seen: Option<u64>,
    /// Highest number that was shown.
    high: u64,
    /// Time of the last look, in Unix seconds.
    at: u64,
}

/// A user and a group.
#[derive(Debug, PartialEq, Eq, Hash)]
struct VisitKey {
    user: Box<str>,
    group: Box<str>,
}

/// Visits of all users.
#[derive(Debug, Default)]
pub(super) struct GroupVisits {
    known: Leaf<HashMap<VisitKey, GroupVisit>>,
}

impl GroupVisits {
    /// Records a look at a group whose highest number is `high`; returns the highest number at the end of the
    /// visit before this one.
    pub fn seen(&self, user: &str, group: &str, high: u64, now: u64) -> Option<u64> {
        let mut known = self.known.lock();
        let key = VisitKey { user: user.into(), group: group.into() };
        if known.len() >= VISITS_MAX && !known.contains_key(&key) {
            // The older half makes room.
            let mut times: Vec<u64> = known.values().map(|visit| visit.at).collect();
            let (_, middle, _) = times.select_nth_unstable(VISITS_MAX / 2);
            let middle = *middle;
            known.retain(|_, visit| visit.at > middle);
        }
        let visit = known.entry(key).or_insert(GroupVisit { seen: None, high, at: now });
        if now.saturating_sub(visit.at) > VISIT_GAP_SECS {
            visit.seen = Some(visit.high);
        }
        (visit.high, visit.at) = (visit.high.max(high), now);
        visit.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_since_the_last_visit_are_new() {
        let visits = GroupVisits::default();
        assert_eq!(visits.seen("jane", "a.b", 10, 1_000), None, "nothing is new at the first visit");
        assert_eq!(visits.seen("jane", "a.b", 12, 1_100), None);
        let later = 1_100 + VISIT_GAP_SECS + 1;
        assert_eq!(visits.seen("jane", "a.b", 15, later), Some(12));
        assert_eq!(visits.seen("jane", "a.b", 16, later + 60), Some(12), "still the same visit");
        assert_eq!(visits.seen("jane", "c.d", 16, later), None);
        assert_eq!(visits.seen("fred", "a.b", 16, later), None);
        assert_eq!(visits.seen("jane", "a.b", 16, 3 * later), Some(16));
    }

    #[test]
    fn visits_are_bounded() {
        let visits = GroupVisits::default();
        for n in 0..=VISITS_MAX as u64 {
            visits.seen("jane", &n.to_string(), 1, n);
        }
        let known = visits.known.lock().len();
        assert!((VISITS_MAX / 4..=VISITS_MAX).contains(&known), "{known}");
        drop(visits.known.lock());
        let last = VISITS_MAX as u64;
        assert_eq!(visits.seen("jane", &last.to_string(), 2, 3 * last), Some(1), "the newest stay");
    }
}
