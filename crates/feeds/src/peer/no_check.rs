//! Decides whether articles are sent without being offered first: TAKETHIS without CHECK.
//!
//! If a peer wants nearly everything, offers cost more than they save. Decided by the last offers, as in
//! innfeed (no-check-high and no-check-low, keys of the same names here).

/// Offers remembered; with fewer nothing is decided. innfeed decides after about 150 wanted offers: a peer
/// that takes long for each answer should not be asked for much longer.
const OFFERS: usize = 100;

/// Results of the last offers to a peer.
#[derive(Debug)]
pub(crate) struct NoCheck {
    wanted: Vec<bool>,
    next: usize,
    count: usize,
    is_on: bool,
    /// Wanted of [`OFFERS`], above which checking ends.
    on_above: usize,
    /// Wanted of [`OFFERS`], below which checking begins again.
    off_below: usize,
}

impl NoCheck {
    /// Creates the state with the percentages above which checking ends and below which it begins again.
    /// With 0 no article is ever checked, with 100 every article. The second is at most the first.
    pub fn new(high_percent: usize, low_percent: usize) -> Self {
        let of = |percent: usize| OFFERS * percent / 100;
        Self {
            wanted: Vec::with_capacity(OFFERS),
            next: 0,
            count: 0,
            is_on: high_percent == 0,
            on_above: of(high_percent),
            off_below: of(low_percent.min(high_percent)),
        }
    }

    /// Returns whether articles are sent without an offer.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns whether enough articles were offered to decide.
    pub fn is_decided(&self) -> bool {
        self.is_on || self.wanted.len() == OFFERS
    }

    /// Records whether an article, offered or sent without an offer, was wanted by the peer.
    pub fn record(&mut self, wanted: bool) {
        match self.wanted.get_mut(self.next) {
            Some(oldest) => self.count -= usize::from(std::mem::replace(oldest, wanted)),
            None => self.wanted.push(wanted),
        }
        self.next = (self.next + 1) % OFFERS;
        self.count += usize::from(wanted);
        if self.wanted.len() == OFFERS {
            self.is_on = if self.is_on { self.count >= self.off_below } else { self.count > self.on_above };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_check_begins_above_95_percent_and_ends_below_90() {
        let mut no_check = NoCheck::new(95, 90);
        let mut record = |offers: usize, wanted| {
            (0..offers).for_each(|_| no_check.record(wanted));
            no_check.is_on()
        };
        assert!(!record(5, false));
        assert!(!record(95, true), "95 percent");
        assert!(record(1, true), "96 percent");
        assert!(record(10, false), "90 percent");
        assert!(!record(5, false));
        assert!(!record(10, true));
        assert!(record(100, true));
    }

    #[test]
    fn zero_never_checks_and_a_hundred_always_does() {
        let mut no_check = NoCheck::new(0, 0);
        assert!(no_check.is_on());
        (0..OFFERS).for_each(|_| no_check.record(false));
        assert!(no_check.is_on());
        let mut no_check = NoCheck::new(100, 90);
        (0..2 * OFFERS).for_each(|_| no_check.record(true));
        assert!(!no_check.is_on());
    }
}
