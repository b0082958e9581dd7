//! Groups of an upstream that are in memory: those in use, and some used recently.
//!
//! Other groups are in the cache: their marks, with the time when the upstream sent them, their numbers and
//! rows. A group loaded again is therefore unchanged. Called by `table`.

use super::group::NumberedGroup;
use hashbrown::HashMap;
use std::sync::Arc;

/// Number of groups at which unused ones not requested recently are dropped.
const GROUPS_MAX: usize = 1024;

/// Groups in memory.
pub(super) struct KnownGroups {
    /// Groups, each with the use count at its last request.
    all: HashMap<Box<[u8]>, (Arc<NumberedGroup>, u64)>,
    uses: u64,
    /// Number of groups at which room is made.
    full_at: usize,
}

impl Default for KnownGroups {
    fn default() -> Self {
        Self { all: HashMap::default(), uses: 0, full_at: GROUPS_MAX }
    }
}

impl KnownGroups {
    /// Returns the group of this name, if it is in memory.
    pub fn get(&mut self, name: &[u8]) -> Option<Arc<NumberedGroup>> {
        self.uses += 1;
        let (group, used) = self.all.get_mut(name)?;
        *used = self.uses;
        Some(group.clone())
    }

    /// Returns the group of this name, adding this one if it is not in memory.
    pub fn get_or_add(&mut self, group: Arc<NumberedGroup>) -> Arc<NumberedGroup> {
        if let Some(known) = self.get(&group.name) {
            return known;
        }
        if self.all.len() >= self.full_at {
            self.make_room();
        }
        self.all.insert(group.name.clone(), (group.clone(), self.uses));
        group
    }

    /// Drops the half of the unused groups not requested for longest.
    fn make_room(&mut self) {
        let idle = self.all.values().filter(|(group, _)| Arc::strong_count(group) == 1);
        let mut uses: Vec<u64> = idle.map(|(_, used)| *used).collect();
        let middle = uses.len() / 2;
        if middle < uses.len() {
            let median = *uses.select_nth_unstable(middle).1;
            self.all.retain(|_, (group, used)| Arc::strong_count(group) > 1 || *used > median);
        }
        // If nearly all are in use, the search for unused ones is not repeated each time.
        self.full_at = GROUPS_MAX.max(self.all.len() + self.all.len() / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::questions::MarksAnswer;
    use crate::upstream::table::{Upstream, UpstreamTable};
    use netnews::GroupMarks;
    use newscache::Cache;
    use site_config as config;
    use std::path::Path;
    use std::time::Instant;

    fn upstream(group_age: &str) -> Arc<Upstream> {
        let text = format!(
            "[site]\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n\
             [[upstream]]\nname = \"all\"\nhost = \"127.0.0.1:1\"\ngroup_age = \"{group_age}\"\n"
        );
        let config = config::parse(&text, Path::new("/sim/newsreel.toml"));
        let config = config.map_err(|error| error.to_string()).unwrap();
        let disk = Arc::new(disk::SimDisk::new());
        let (cache, _) = Cache::open(disk, &config.cache.path, config.cache.settings(), 0).unwrap();
        let nobody: crate::upstream::table::IsLocal = Arc::new(|_| false);
        UpstreamTable::new(&config, &nobody, Some(cache), None).upstreams.first().unwrap().clone()
    }

    #[test]
    fn unused_groups_are_dropped_and_the_others_stay() {
        let (upstream, mut known) = (upstream("1 h"), KnownGroups::default());
        let group = |n: usize| Arc::new(NumberedGroup::new(format!("a.g{n}").as_bytes(), &upstream, None));
        let used: Vec<_> = (0..100).map(|n| known.get_or_add(group(n))).collect();
        for n in 100..5 * GROUPS_MAX {
            known.get_or_add(group(n));
            assert!(known.get(b"a.g100").is_some(), "it was asked for a moment ago");
            assert!(known.all.len() <= GROUPS_MAX, "{} after {n}", known.all.len());
        }
        let is_same =
            |one: &Arc<NumberedGroup>| known.all.get(&one.name).is_some_and(|(it, _)| Arc::ptr_eq(it, one));
        assert!(used.iter().all(is_same));
        // All of them are in use, so there may be more.
        let all: Vec<_> = (0..2 * GROUPS_MAX).map(|n| known.get_or_add(group(n))).collect();
        assert!(known.all.len() >= all.len());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_group_loaded_again_has_its_last_marks() {
        let marks = GroupMarks { low: 2, high: 9, count: 5 };
        for (age, is_new) in [("1 h", true), ("0 s", false)] {
            let upstream = upstream(age);
            NumberedGroup::new(b"a.b", &upstream, None)
                .take_said(MarksAnswer::of(Some(marks)), Instant::now());
            // The group is not in memory, and the upstream cannot be reached.
            assert_eq!(upstream.marks_asked_at(b"a.b").is_some(), is_new, "{age}");
            let group = upstream.group(b"a.b").await.unwrap().unwrap();
            assert!(!group.is_at_hand(10));
            assert_eq!(group.marks().await.unwrap(), Some(marks), "{age}");
            upstream.look_again(b"a.b");
            assert_eq!(upstream.marks_asked_at(b"a.b"), None, "{age}");
        }
    }
}
