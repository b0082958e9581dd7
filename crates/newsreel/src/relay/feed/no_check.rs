//! Whether articles are sent without being offered first: TAKETHIS without CHECK.
//!
//! Where a peer wants nearly everything, offers cost more than they save. Decided by the last offers, as
//! innfeed does (its no-check-high and no-check-low).

/// Offers that are remembered; without so many nothing is decided.
const OFFERS: usize = 1_000;
/// Wanted of them, above which checking ends.
const ON_ABOVE: usize = 950;
/// Wanted of them, below which it begins again.
const OFF_BELOW: usize = 900;

/// What became of the last offers to a peer.
#[derive(Debug)]
pub(super) struct NoCheck {
    wanted: Vec<bool>,
    next: usize,
    count: usize,
    is_on: bool,
}

impl Default for NoCheck {
    fn default() -> Self {
        Self { wanted: Vec::with_capacity(OFFERS), next: 0, count: 0, is_on: false }
    }
}

impl NoCheck {
    /// Whether articles are sent without an offer.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// An article was offered, or sent without an offer, and the peer wanted it or not.
    pub fn record(&mut self, wanted: bool) {
        match self.wanted.get_mut(self.next) {
            Some(oldest) => self.count -= usize::from(std::mem::replace(oldest, wanted)),
            None => self.wanted.push(wanted),
        }
        self.next = (self.next + 1) % OFFERS;
        self.count += usize::from(wanted);
        if self.wanted.len() == OFFERS {
            self.is_on = if self.is_on { self.count >= OFF_BELOW } else { self.count > ON_ABOVE };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_above_95_percent_and_ends_below_90() {
        let mut no_check = NoCheck::default();
        let mut record = |offers: usize, wanted| {
            (0..offers).for_each(|_| no_check.record(wanted));
            no_check.is_on()
        };
        assert!(!record(50, false));
        assert!(!record(950, true), "95 percent");
        assert!(record(1, true), "95.1 percent");
        assert!(record(100, false), "90 percent");
        assert!(!record(50, false));
        assert!(!record(100, true));
        assert!(record(1_000, true));
    }
}
