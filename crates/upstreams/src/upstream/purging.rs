//! What operators ask of the cache while readers use it: to drop an article or a group, or to have the
//! upstream of a group asked now, whatever the age of what is known. Called by `operators`.

use super::Upstreams;
use crate::Answer;
use netnews::GroupMarks;
use site_base::clock::unix_secs;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// A group about which its upstream was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshedGroup {
    /// Name of the upstream.
    pub upstream: String,
    /// Marks that were known before; `None` if there were none.
    pub before: Option<GroupMarks>,
    /// Marks now; `None` if the upstream has no such group.
    pub marks: Option<GroupMarks>,
}

impl Upstreams {
    /// Drops a cached article; returns whether it was cached. Blocks.
    ///
    /// # Errors
    /// Errors of the cache.
    pub fn purge_article(&self, id: &[u8]) -> io::Result<bool> {
        self.cache().map_or(Ok(false), |cache| cache.purge_article(id, unix_secs()))
    }

    /// Drops everything cached of a group; returns the names of the upstreams that it was of. Readers who
    /// have selected the group keep it. Blocks.
    ///
    /// # Errors
    /// Errors of the cache.
    pub fn purge_group(&self, name: &[u8]) -> io::Result<Vec<Arc<str>>> {
        let table = self.shared.table.load_full();
        let Some(cache) = &table.cache else { return Ok(Vec::new()) };
        let purged = cache.purge_group(name, unix_secs());
        table.upstreams.iter().for_each(|upstream| upstream.forget(name));
        purged
    }

    /// Asks the upstream that numbers a group for its marks; articles that were added or removed are shown
    /// from then on. Returns `None` if no upstream numbers the group.
    pub async fn refresh_group(&self, name: &[u8]) -> Answer<Option<RefreshedGroup>> {
        let table = self.shared.table.load_full();
        let Some(upstream) = table.numbering(name) else { return Ok(None) };
        let own = &upstream.config.name;
        let before = upstream.cache.known_marks(own, name).map(|known| known.value);
        upstream.look_again(name);
        let at = Instant::now();
        let said = upstream.pool.ask_apart(upstream.question(name)).await?;
        if let Some(group) = upstream.group_with(name, said, at) {
            group.compare_again();
        }
        Ok(Some(RefreshedGroup { upstream: own.clone(), before, marks: said.marks }))
    }
}
