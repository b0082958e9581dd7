//! The digest of an open spool.

use super::Spool;
use spool_base::digest::SiteDigest;

impl Spool {
    /// Returns the digest of all that readers, peers and history can see: groups with their marks, flags and
    /// descriptions, living articles, known Message-IDs, what is hidden, and notes. `None` if damage was
    /// repaired since the spool was opened: the next start counts again.
    pub fn digest(&self) -> Option<SiteDigest> {
        self.shared.digest()
    }
}

#[cfg(any(test, feature = "testing"))]
impl Spool {
    /// Counts the digest again, of what is there now.
    pub fn recount_digest(&self) -> std::io::Result<Option<SiteDigest>> {
        self.shared.is_digest_vague.store(true, std::sync::atomic::Ordering::Release);
        self.writer.lock().folds.settle_digest()?;
        Ok(self.digest())
    }
}
