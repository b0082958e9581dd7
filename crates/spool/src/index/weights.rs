//! How many articles of a list are in each group, and how many bytes of them.
//!
//! Kept as entries come and go, so that asking reads nothing. A crosspost counts whole in each of its groups;
//! what was cancelled counts until a pass of expiry drops its entry, so these are upper bounds. Called by
//! [`crate::index::kept`].

use crate::base::ids::GroupId;
use hashbrown::HashMap;

/// Articles and their bytes as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub articles: u64,
    pub bytes: u64,
}

impl Weight {
    /// The two together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { articles: self.articles + other.articles, bytes: self.bytes + other.bytes }
    }
}

/// The weights of all groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    by_group: HashMap<GroupId, Weight>,
}

impl Weights {
    /// An article came.
    pub fn add(&mut self, numbers: &[(GroupId, u64)], bytes: u64) {
        for (group, _) in numbers {
            let weight = self.by_group.entry(*group).or_default();
            *weight = weight.and(Weight { articles: 1, bytes });
        }
    }

    /// One went.
    pub fn take(&mut self, numbers: &[(GroupId, u64)], bytes: u64) {
        for (group, _) in numbers {
            let Some(weight) = self.by_group.get_mut(group) else { continue };
            weight.articles = weight.articles.saturating_sub(1);
            weight.bytes = weight.bytes.saturating_sub(bytes);
            if weight.articles == 0 {
                self.by_group.remove(group);
            }
        }
    }

    /// All groups that have any.
    pub fn each(&self) -> impl Iterator<Item = (GroupId, Weight)> + '_ {
        self.by_group.iter().map(|(group, weight)| (*group, *weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_counted() {
        let mut weights = Weights::default();
        let (a, b) = ((GroupId(1), 5), (GroupId(2), 6));
        weights.add(&[a, b], 100);
        weights.add(&[a], 50);
        let sorted = |weights: &Weights| {
            let mut all: Vec<_> = weights.each().map(|(g, w)| (g.0, w.articles, w.bytes)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(&weights), [(1, 2, 150), (2, 1, 100)]);
        weights.take(&[a, b], 100);
        assert_eq!(sorted(&weights), [(1, 1, 50)]);
        weights.take(&[a], 50);
        assert_eq!(sorted(&weights), []);
    }
}
