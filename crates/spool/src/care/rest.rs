//! Releases memory after a burst of articles. Called by the server every few seconds.

use crate::base::ids::GroupId;
use crate::index::overview::REST_PART;
use crate::spool::Spool;
use disk::clock::unix_now;

/// Number of groups whose overview is examined under one hold of the writer's lock: at most a MiB is written
/// there.
const GROUPS_AT_ONCE: usize = 64;

impl Spool {
    /// Frees memory that is not needed while things are quiet: open overview blocks of groups in which
    /// nothing was filed for `quiet_secs` are written to a segment if at least a quarter full, otherwise they
    /// lose their spare memory; cached data of readers that was not used for a while is forgotten.
    pub fn rest(&self, quiet_secs: u64) {
        let now = unix_now();
        self.shared.checked_blocks.rest(now);
        let before = now.saturating_sub(quiet_secs);
        let enough = self.shared.config.overview.block_text_bytes / REST_PART;
        let may_rest = |id: &GroupId| {
            self.group(*id).is_some_and(|group| {
                let state = group.state();
                state.changed <= before && state.overview.may_rest(enough)
            })
        };
        let groups: Vec<GroupId> = self.groups().iter().map(|group| group.id).filter(may_rest).collect();
        for some in groups.chunks(GROUPS_AT_ONCE) {
            let mut writer = self.writer().lock();
            // Nothing is done after trouble, or after closing.
            if self.trouble().is_some() {
                return;
            }
            writer.folds.rest(some, before);
        }
    }
}
