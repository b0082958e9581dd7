//! Number and size of a list's articles by group.
//!
//! Updated as entries are added and removed, so that queries read nothing. A crosspost counts fully in each
//! of its groups; a cancelled article counts until a pass of expiry drops its entry, so these are upper
//! bounds. Used by [`crate::index::kept`].

use hashbrown::HashMap;
use spool_base::ids::GroupId;

/// Articles and their bytes as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupWeight {
    pub articles: u64,
    pub bytes: u64,
}

impl GroupWeight {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { articles: self.articles + other.articles, bytes: self.bytes + other.bytes }
    }
}

/// The weights of all groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupWeights {
    by_group: HashMap<GroupId, GroupWeight>,
}

impl GroupWeights {
    /// Adds an article.
    pub fn add(&mut self, numbers: &[(GroupId, u64)], bytes: u64) {
        for (group, _) in numbers {
            let weight = self.by_group.entry(*group).or_default();
            *weight = weight.and(GroupWeight { articles: 1, bytes });
        }
    }

    /// Removes an article.
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

    /// Returns all groups with articles.
    pub fn each(&self) -> impl Iterator<Item = (GroupId, GroupWeight)> + '_ {
        self.by_group.iter().map(|(group, weight)| (*group, *weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_articles_are_counted() {
        let mut weights = GroupWeights::default();
        let (a, b) = ((GroupId(1), 5), (GroupId(2), 6));
        weights.add(&[a, b], 100);
        weights.add(&[a], 50);
        let sorted = |weights: &GroupWeights| {
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
