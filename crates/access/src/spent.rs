//! Tokens that count once and were used: marks of them, until they would end by themselves.
//!
//! Lost at a restart. When the table is full nothing more can be spent, so that a flood never makes a used
//! token valid. Called by `gate` and `web`.

use hashbrown::HashMap;
use site_base::lock::Leaf;
use std::time::{Duration, Instant};

/// Most tokens that are remembered.
const SPENT_MAX: usize = 20_000;

/// The tokens that were used.
#[derive(Debug, Default)]
pub struct SpentTokens(Leaf<HashMap<[u8; 32], Instant>>);

impl SpentTokens {
    /// Spends the token with this mark, which ends by itself within `lasts`; returns false if it was spent
    /// before, or if too many were.
    pub fn spend(&self, mark: [u8; 32], lasts: Duration, now: Instant) -> bool {
        let mut spent = self.0.lock();
        if spent.len() >= SPENT_MAX {
            spent.retain(|_, end| *end > now);
        }
        if spent.len() >= SPENT_MAX || spent.get(&mark).is_some_and(|end| *end > now) {
            return false;
        }
        spent.insert(mark, now + lasts);
        true
    }

    /// Returns whether the token with this mark was spent.
    pub fn is_spent(&self, mark: &[u8; 32], now: Instant) -> bool {
        self.0.lock().get(mark).is_some_and(|end| *end > now)
    }

    /// Makes a token valid again, because what it was spent for failed.
    pub fn give_back(&self, mark: &[u8; 32]) {
        self.0.lock().remove(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_spent_once_even_in_a_flood() {
        let (spent, now) = (SpentTokens::default(), Instant::now());
        let (minute, mark) = (Duration::from_secs(60), |n: usize| {
            let mut mark = [0; 32];
            mark[..8].copy_from_slice(&n.to_be_bytes());
            mark
        });
        assert!(spent.spend(mark(0), minute, now) && !spent.spend(mark(0), minute, now));
        for n in 1..SPENT_MAX {
            assert!(spent.spend(mark(n), minute, now));
        }
        assert!(!spent.spend(mark(SPENT_MAX), minute, now), "full");
        assert!(!spent.spend(mark(0), minute, now), "still spent");
        assert!(spent.spend(mark(SPENT_MAX), minute, now + minute), "the others have ended");
        assert!(spent.is_spent(&mark(SPENT_MAX), now + minute) && !spent.is_spent(&mark(0), now + minute));
        spent.give_back(&mark(SPENT_MAX));
        assert!(spent.spend(mark(SPENT_MAX), minute, now + minute), "given back");
    }
}
