//! Numbers that had ended before a rebuild although the article is still stored for its other groups: records
//! do not say so, but the rows of the journal and the checkpoint do.

use crate::index::checkpoint::{Checkpoint, GroupCheckpoint};
use crate::index::groups::GroupTable;
use spool_base::ids::GroupId;
use std::collections::{HashMap, HashSet};

/// Numbers that are known to have ended.
pub(super) struct EndedNumbers<'a> {
    /// Numbers in rows of the journal.
    rows: HashSet<(GroupId, u64)>,
    /// Groups of the checkpoint that exist.
    groups: HashMap<GroupId, &'a GroupCheckpoint>,
    /// Sequence of the first article that the checkpoint does not know.
    next_sequence: u64,
}

impl<'a> EndedNumbers<'a> {
    /// Creates the set from rows and a checkpoint, whose groups keep their ids.
    pub fn new(
        rows: HashSet<(GroupId, u64)>,
        checkpoint: Option<&'a Checkpoint>,
        table: &GroupTable,
    ) -> Self {
        let groups = checkpoint.into_iter().flat_map(|c| &c.groups);
        let known = groups.filter(|group| table.id(group.row.name.as_bytes()) == Some(GroupId(group.row.id)));
        let groups = known.map(|group| (GroupId(group.row.id), group)).collect();
        Self { rows, groups, next_sequence: checkpoint.map_or(0, |c| c.next_sequence) }
    }

    /// Returns those of an article's numbers that had ended; none if all had, as the article is back then.
    pub fn among(&self, sequence: u64, numbers: &[(GroupId, u64)]) -> Vec<(GroupId, u64)> {
        let is_known = sequence < self.next_sequence;
        let had_ended = |(id, number): &&(GroupId, u64)| {
            let group = self.groups.get(id).filter(|group| is_known && *number <= group.row.high);
            self.rows.contains(&(*id, *number)) || group.is_some_and(|group| !group.live.contains(*number))
        };
        let ended: Vec<_> = numbers.iter().filter(had_ended).copied().collect();
        if ended.len() < numbers.len() { ended } else { Vec::new() }
    }
}
