//! Order in which another server assigned its numbers, as far as it can be reconstructed.
//!
//! In every group the numbers ascend, so that they can be kept; otherwise articles follow the time of
//! arrival. Articles without numbers are placed by their arrival. Called by `import::plan`; pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Location of an article: its group, by any numbering of groups, and its number there.
pub(crate) type GroupNumber = (u32, u64);

/// Articles to be put in order.
#[derive(Debug, Default)]
pub struct NumberedArticles {
    /// Arrivals of the articles, in Unix seconds.
    pub arrived: Vec<u32>,
    /// End of the pairs of each article; they begin at the end of those before.
    pub ends: Vec<u32>,
    pub pairs: Vec<GroupNumber>,
}

impl NumberedArticles {
    /// Adds an article, located by the pairs pushed since the last one.
    pub fn push(&mut self, arrived: u32) {
        self.arrived.push(arrived);
        self.ends.push(self.pairs.len() as u32);
    }

    /// Returns the locations of an article.
    pub fn of(&self, article: u32) -> &[GroupNumber] {
        self.pairs.get(self.range(article)).unwrap_or_default()
    }

    fn range(&self, article: u32) -> Range<usize> {
        let article = article as usize;
        let end = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        article.checked_sub(1).map_or(0, end)..end(article)
    }

    /// Returns for each group its (number, article) pairs, ascending.
    pub fn by_group(&self) -> Vec<Vec<(u64, u32)>> {
        let groups = self.pairs.iter().map(|(group, _)| *group as usize + 1).max().unwrap_or(0);
        let mut lists = vec![Vec::new(); groups];
        for article in 0..self.ends.len() as u32 {
            for (group, number) in self.of(article) {
                if let Some(list) = lists.get_mut(*group as usize) {
                    list.push((*number, article));
                }
            }
        }
        lists.iter_mut().for_each(|list| list.sort_unstable());
        lists
    }

    /// Returns all articles in order. If numbers contradict each other (a spool that was renumbered), the
    /// earliest goes first.
    pub fn order(&self) -> Vec<u32> {
        let lists = self.by_group();
        let mut heads = vec![0_usize; lists.len()];
        let mut waits: Vec<u32> = (0..self.ends.len() as u32).map(|a| self.of(a).len() as u32).collect();
        let mut done = vec![false; waits.len()];
        let mut ready: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
        let mut order = Vec::with_capacity(waits.len());
        let key = |article: u32| Reverse((self.arrived.get(article as usize).copied().unwrap_or(0), article));
        ready.extend((0..waits.len() as u32).filter(|a| self.of(*a).is_empty()).map(key));
        for list in &lists {
            release(list.first(), &mut waits, &mut ready, &key);
        }
        // Used when no article is ready: all in order of arrival.
        let mut by_arrival: Vec<u32> = (0..waits.len() as u32).collect();
        by_arrival.sort_unstable_by_key(|a| self.arrived.get(*a as usize).copied());
        let mut rest = by_arrival.into_iter();
        while order.len() < waits.len() {
            let next = match ready.pop() {
                Some(Reverse((_, article))) => article,
                None => match rest.next() {
                    Some(article) => article,
                    None => break,
                },
            };
            if std::mem::replace(done.get_mut(next as usize).unwrap_or(&mut true), true) {
                continue;
            }
            order.push(next);
            for (group, _) in self.of(next) {
                let (Some(list), Some(head)) = (lists.get(*group as usize), heads.get_mut(*group as usize))
                else {
                    continue;
                };
                let before = *head;
                while list.get(*head).is_some_and(|(_, a)| done.get(*a as usize).copied().unwrap_or(true)) {
                    *head += 1;
                }
                if *head > before {
                    release(list.get(*head), &mut waits, &mut ready, &key);
                }
            }
        }
        order
    }
}

/// Handles an article that has come to the front of one of its groups.
fn release(
    front: Option<&(u64, u32)>,
    waits: &mut [u32],
    ready: &mut BinaryHeap<Reverse<(u32, u32)>>,
    key: &impl Fn(u32) -> Reverse<(u32, u32)>,
) {
    let Some((_, article)) = front else { return };
    let Some(wait) = waits.get_mut(*article as usize) else { return };
    *wait = wait.saturating_sub(1);
    if *wait == 0 {
        ready.push(key(*article));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(articles: &[(u32, &[GroupNumber])]) -> NumberedArticles {
        let mut numbered = NumberedArticles::default();
        for (arrived, pairs) in articles {
            numbered.pairs.extend_from_slice(pairs);
            numbered.push(*arrived);
        }
        numbered
    }

    #[test]
    fn numbers_ascend_regardless_of_arrival_times() {
        // The third arrived with the first, but its number is above the second's.
        let articles = numbered(&[
            (5, &[(0, 1)]),
            (9, &[(0, 2), (1, 4)]),
            (5, &[(0, 3), (2, 1)]),
            (1, &[(1, 5)]),
            (6, &[]),
        ]);
        assert_eq!(articles.order(), [0, 4, 1, 3, 2]);
    }

    #[test]
    fn contradictory_numbers_lose_no_article() {
        let articles =
            numbered(&[(5, &[(0, 1), (1, 2)]), (4, &[(0, 2), (1, 1)]), (6, &[(0, 2)]), (7, &[(0, 3)])]);
        let mut order = articles.order();
        assert_eq!(order.first(), Some(&1));
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3]);
        assert!(numbered(&[]).order().is_empty());
    }

    #[test]
    fn a_sequence_with_lost_times_is_reconstructed() {
        let mut seed = 7_u64;
        let mut random = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let mut numbers = [0_u64; 20];
        let mut made: Vec<(u32, Vec<GroupNumber>)> = Vec::new();
        for n in 0..3000_u32 {
            let mut groups: Vec<u32> = (0..=random(3)).map(|_| random(20) as u32).collect();
            groups.sort_unstable();
            groups.dedup();
            let mut pairs = Vec::new();
            for g in groups {
                numbers[g as usize] += 1 + random(2);
                pairs.push((g, numbers[g as usize]));
            }
            // Clocks stand still and run backwards.
            made.push((n / 500 + random(9) as u32, pairs));
        }
        for at in (1..made.len()).rev() {
            made.swap(at, random(at as u64 + 1) as usize);
        }
        let articles = numbered(&made.iter().map(|(a, p)| (*a, p.as_slice())).collect::<Vec<_>>());
        let order = articles.order();
        assert_eq!(order.len(), 3000);
        let mut last = [0; 20];
        for article in order {
            for (group, number) in articles.of(article) {
                assert!(*number > last[*group as usize]);
                last[*group as usize] = *number;
            }
        }
    }
}
