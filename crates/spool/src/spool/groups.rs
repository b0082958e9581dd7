//! Creation, change and removal of groups.

use super::Spool;
use crate::base::error::{SpoolTrouble, TroubleKind};
use crate::index::groups::{GroupChange, NewGroup};
use crate::index::promise::MARGIN_MIN;
use crate::journal::{GroupRow, JournalRow};
use std::collections::HashSet;

/// Maximum length of a description or creator of a group, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1024;

/// One change to the groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupUpdate {
    /// Creates the group; an existing one is left unchanged.
    Add(NewGroup),
    /// Changes the flag or description, if the group exists.
    Change(String, GroupChange),
    /// Removes the group, if it exists. Its articles stay readable by Message-ID, and if it is created again,
    /// its numbers continue where they ended.
    Remove(String),
}

impl Spool {
    /// Creates groups, leaving existing ones unchanged. Returns how many were created.
    pub fn add_groups(&self, new: &[NewGroup]) -> Result<usize, SpoolTrouble> {
        self.update_groups(new.iter().cloned().map(GroupUpdate::Add))
    }

    /// Changes a group's flag or description; returns false if the group does not exist.
    pub fn change_group(&self, name: &str, change: &GroupChange) -> Result<bool, SpoolTrouble> {
        Ok(self.update_groups([GroupUpdate::Change(name.into(), change.clone())])? > 0)
    }

    /// Removes a group; returns false if it does not exist. See [`GroupUpdate::Remove`].
    pub fn remove_group(&self, name: &str) -> Result<bool, SpoolTrouble> {
        Ok(self.update_groups([GroupUpdate::Remove(name.into())])? > 0)
    }

    /// Creates, changes and removes groups in one commit; of several updates of one group the first counts.
    /// Returns how many took effect. A group that cannot be created fails all updates.
    pub fn update_groups(
        &self,
        updates: impl IntoIterator<Item = GroupUpdate>,
    ) -> Result<usize, SpoolTrouble> {
        self.sync.sync_journal()?;
        let mut writer = self.writer.lock();
        writer.accepting()?;
        let table = self.shared.groups.snapshot();
        let known = |name: &str| table.id(name.as_bytes()).and_then(|id| table.get(id));
        let mut names = HashSet::new();
        let (mut new, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        let mut reflagged = false;
        for update in updates {
            let (GroupUpdate::Add(NewGroup { name, .. })
            | GroupUpdate::Change(name, _)
            | GroupUpdate::Remove(name)) = &update;
            let present = known(name);
            if !names.insert(name.clone()) {
                continue;
            }
            match (update, present) {
                (GroupUpdate::Add(group), None) => {
                    let retired = writer.folds.retired.get(&group.name).copied().unwrap_or(0);
                    new.push(new_row(writer.folds.numbers.len() + new.len(), group, retired)?);
                }
                (GroupUpdate::Change(_, change), Some(group)) => {
                    let mut row = writer.folds.group_row(group);
                    reflagged |= change.flag.is_some();
                    row.flag = change.flag.unwrap_or(row.flag);
                    row.description = change.description.unwrap_or(row.description);
                    too_long(&row.description).map_or(Ok(()), Err)?;
                    changed.push(row);
                }
                // Synced with all rows before it, so no number beyond its high mark was ever assigned from a
                // promise.
                (GroupUpdate::Remove(name), Some(group)) => {
                    removed.push((name, writer.folds.group_row(group).high));
                }
                _ => {}
            }
        }
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
            self.shared.groups.replace(Vec::new(), &[]);
        }
        removed.iter().for_each(|(name, high)| writer.folds.group_removed(name, *high));
        Ok(rows.len())
    }
}

fn new_row(id: usize, group: NewGroup, retired: u64) -> Result<GroupRow, SpoolTrouble> {
    if !netnews::newsgroups::valid_name(group.name.as_bytes()) {
        let text = format!("\"{}\" is not a valid group name", group.name);
        return Err(SpoolTrouble::new(TroubleKind::Refused, text));
    }
    too_long(&group.description).or(too_long(&group.creator)).map_or(Ok(()), Err)?;
    let high = group.high.max(retired);
    Ok(GroupRow {
        id: id as u32,
        name: group.name,
        flag: group.flag,
        description: group.description,
        creator: group.creator,
        created: group.created,
        high,
        promised: high.saturating_add(MARGIN_MIN),
    })
}

/// Refuses a text that is too long for a line of LIST.
fn too_long(text: &str) -> Option<SpoolTrouble> {
    let text = (text.len() > DESCRIPTION_BYTES_MAX).then(|| {
        format!("a description of {} bytes; at most {DESCRIPTION_BYTES_MAX} are possible", text.len())
    })?;
    Some(SpoolTrouble::new(TroubleKind::Refused, text))
}
