//! The digest of a site: a sum of all that its readers, peers and history can see.

use crate::index::fold::SharedIndexes;
use spool_base::digest::{SetSum, SiteDigest, of_parts};
use std::sync::atomic::Ordering;

impl SharedIndexes {
    /// Returns the digest of all that readers, peers and history can see: groups with their marks, flags and
    /// descriptions, living articles by group, number and Message-ID, known Message-IDs, what is hidden, and
    /// notes. Sums are kept as changes are applied, so only the groups are visited. `None` if damage was
    /// repaired since the spool was opened: the next start counts again.
    pub fn digest(&self) -> Option<SiteDigest> {
        if self.is_digest_vague.load(Ordering::Acquire) {
            return None;
        }
        let hasher = &self.hasher;
        let mut all = SetSum::default();
        for group in self.groups.snapshot().sorted().iter() {
            let state = group.state();
            let flag = state.flag.to_string();
            all.add(of_parts(
                hasher,
                &[
                    group.name.as_bytes(),
                    flag.as_bytes(),
                    state.description.as_bytes(),
                    group.creator.as_bytes(),
                    &group.created.to_le_bytes(),
                    &state.high.to_le_bytes(),
                    &state.sum.0.to_le_bytes(),
                ],
            ));
        }
        let sums = [self.history.sum(), self.hidden.sum(), self.notes.sum()];
        let sums = sums.map(|sum| sum.0.to_le_bytes());
        all.add(of_parts(hasher, &[&sums[0], &sums[1], &sums[2]]));
        Some(SiteDigest(all.0))
    }
}
