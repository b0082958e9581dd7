//! Creation, change and removal of groups.

use crate::index::change::GroupUpdate;
use crate::index::groups::{GroupTable, NewGroup};
use crate::index::promise::MARGIN_MIN;
use crate::index::refusal::ChangeRefusal;
use crate::write::commit::SpoolWriter;
use spool_base::error::SpoolTrouble;
use spool_base::limits::NUMBER_MAX;
use spool_journal::{GroupRow, JournalRow};
use std::collections::HashSet;

/// Rows of a set of updates.
#[derive(Default)]
pub(super) struct GroupRows {
    new: Vec<GroupRow>,
    changed: Vec<GroupRow>,
    /// Names, with the highest number that may have been shown.
    removed: Vec<(String, u64)>,
    /// Whether a flag was set.
    reflagged: bool,
}

impl GroupRows {
    pub fn of(
        updates: &[GroupUpdate],
        writer: &SpoolWriter,
        table: &GroupTable,
    ) -> Result<Self, ChangeRefusal> {
        let mut rows = Self::default();
        let mut names = HashSet::new();
        for update in updates {
            let present = table.id(update.name().as_bytes()).and_then(|id| table.get(id));
            if !names.insert(update.name()) {
                continue;
            }
            match (update, present) {
                (GroupUpdate::Add(group), None) => {
                    possible(update)?;
                    let retired = writer.folds.retired.get(&group.name).copied().unwrap_or(0);
                    rows.new.push(new_row(writer.folds.numbers.len() + rows.new.len(), group, retired));
                }
                (GroupUpdate::Change(_, change), Some(group)) => {
                    possible(update)?;
                    let mut row = writer.folds.group_row(group);
                    rows.reflagged |= change.flag.is_some();
                    row.flag = change.flag.clone().unwrap_or(row.flag);
                    row.description = change.description.clone().unwrap_or(row.description);
                    rows.changed.push(row);
                }
                (GroupUpdate::RaiseHigh(_, high), Some(group)) => {
                    let mut row = writer.folds.group_row(group);
                    if *high > row.high && *high <= NUMBER_MAX {
                        row.high = *high;
                        row.promised = row.promised.max(high.saturating_add(MARGIN_MIN));
                        rows.changed.push(row);
                    }
                }
                // Synced with all rows before it, so no number beyond its high mark was ever assigned from a
                // promise.
                (GroupUpdate::Remove(name), Some(group)) => {
                    rows.removed.push((name.clone(), writer.folds.group_row(group).high));
                }
                _ => {}
            }
        }
        Ok(rows)
    }

    /// Commits the rows and applies them; returns their number.
    pub fn commit(self, writer: &mut SpoolWriter) -> Result<usize, SpoolTrouble> {
        let Self { new, changed, removed, reflagged } = self;
        let groups = new.iter().chain(&changed).cloned().map(JournalRow::Group);
        let gone =
            removed.iter().map(|(name, high)| JournalRow::GroupRemoved { name: name.clone(), high: *high });
        let rows: Vec<JournalRow<'_>> = groups.chain(gone).collect();
        writer.commit_groups(&rows)?;
        if !new.is_empty() {
            writer.folds.add_groups(&new);
        }
        changed.iter().for_each(|row| writer.folds.group(row));
        if reflagged {
            // A new table invalidates data derived from the old one.
            writer.folds.shared.groups.replace(Vec::new(), &[]);
        }
        removed.iter().for_each(|(name, high)| writer.folds.group_removed(name, *high));
        Ok(rows.len())
    }
}

fn new_row(id: usize, group: &NewGroup, retired: u64) -> GroupRow {
    let high = group.high.max(retired);
    let NewGroup { name, flag, description, creator, created, .. } = group.clone();
    let promised = high.saturating_add(MARGIN_MIN);
    GroupRow { id: id as u32, name, flag, description, creator, created, high, promised }
}

fn possible(update: &GroupUpdate) -> Result<(), ChangeRefusal> {
    update.refusal().map_or(Ok(()), Err)
}
