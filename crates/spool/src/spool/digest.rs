//! The digest of a site.

use super::Spool;
use crate::base::digest::{SetSum, SiteDigest, of_parts};
use std::sync::atomic::Ordering;

impl Spool {
    /// Returns the digest of all that readers, peers and history can see: groups with their marks, flags and
    /// descriptions, living articles by group, number and Message-ID, known Message-IDs, what is hidden, and
    /// notes. Sums are kept as changes are applied, so only the groups are visited. `None` if damage was
    /// repaired since the spool was opened: the next start counts again.
    pub fn digest(&self) -> Option<SiteDigest> {
        let shared = &self.shared;
        if shared.is_digest_vague.load(Ordering::Acquire) {
            return None;
        }
        let hasher = &shared.hasher;
        let mut all = SetSum::default();
        for group in shared.groups.snapshot().sorted().iter() {
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
        let sums = [shared.history.sum(), shared.hidden.sum(), shared.notes.sum()];
        let sums = sums.map(|sum| sum.0.to_le_bytes());
        all.add(of_parts(hasher, &[&sums[0], &sums[1], &sums[2]]));
        Some(SiteDigest(all.0))
    }
}

#[cfg(any(test, feature = "testing"))]
impl Spool {
    /// Counts the digest again, of what is there now.
    pub fn recount_digest(&self) -> std::io::Result<Option<SiteDigest>> {
        self.shared.is_digest_vague.store(true, Ordering::Release);
        self.writer.lock().folds.settle_digest()?;
        Ok(self.digest())
    }
}
