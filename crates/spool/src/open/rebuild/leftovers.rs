//! Remains of journal, checkpoint and groups file when the indexes are rebuilt: groups, write positions,
//! hidden articles, and which article rows count.

use super::OldIndexes;
use crate::index::checkpoint::Checkpoint;
use crate::index::fold::Folds;
use crate::index::hidden::PendingHides;
use disk::Disk;
use spool_base::hidden::HiddenArticle;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_journal::{GroupRow, GroupsFound, JournalReader, JournalRow, VolumeRow};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Volumes that rows of the journal name, each with the write position of the first of its rows.
#[derive(Default)]
pub(crate) struct VolumesNamed {
    pub volumes: Vec<VolumeRow>,
    /// Volumes among them that articles were stored in.
    pub used: BTreeSet<u16>,
}

/// Returns the volumes named by the journal's rows from a position on, or by all rows.
pub(crate) fn volumes_named(
    disk: &Arc<dyn Disk>,
    journal: &Path,
    from: Option<u64>,
) -> io::Result<VolumesNamed> {
    let mut named = VolumesNamed::default();
    Leftovers::default().each_row(disk, journal, &mut |position, row| {
        if from.is_some_and(|from| position < from) {
            return Ok(());
        }
        match row {
            JournalRow::Volume(v) => match named.volumes.iter_mut().find(|other| other.id == v.id) {
                Some(other) => *other = VolumeRow { head: other.head, ..v },
                None => named.volumes.push(v),
            },
            JournalRow::Article(a) => drop(named.used.insert(a.token.volume)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(named)
}

/// Volumes that a rebuild leaves out.
#[derive(Debug, Default)]
pub(crate) struct LeftOutVolumes {
    /// Oldest place in use at the checkpoint, by volume number.
    pub tails: BTreeMap<u16, u64>,
    /// Position of the checkpoint.
    pub since: u64,
    /// Whether a checkpoint says where the volumes began; otherwise overwritten articles are counted as well.
    pub is_known: bool,
}

/// Information in the journal that records do not have.
#[derive(Default)]
pub(super) struct Leftovers {
    pub heads: BTreeMap<u16, u64>,
    /// Positions of void article rows.
    voids: HashSet<u64>,
    /// Numbers that ended while their article stayed.
    pub ended: HashSet<(GroupId, u64)>,
    /// Volume and place of articles that a crash damaged.
    given_up: HashSet<(u16, u64)>,
    /// Time before which Message-IDs had arrived that are forgotten, in Unix seconds.
    pub forgotten_before: u32,
    /// Hidden articles, by key.
    pub hidden: BTreeMap<ArticleKey, HiddenArticle>,
    /// Articles that were to be hidden as they were filed.
    ahead: PendingHides,
    /// Articles in rows after the checkpoint, in volumes that are left out, with their arrival.
    pub left_out: BTreeMap<ArticleKey, u32>,
    /// Arrival of the last article row.
    arrived: u32,
    /// Whether the journal exists without missing rows in its middle.
    pub whole: bool,
    /// End of the last row, or the position of a checkpoint that knows of later ones.
    known_to: u64,
}

impl Leftovers {
    /// Reads all files, including those after a loss: each begins with the state of volumes and groups.
    pub fn each_row(
        &mut self,
        disk: &Arc<dyn Disk>,
        journal: &Path,
        visit: &mut dyn FnMut(u64, JournalRow<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut reader = JournalReader::open(disk, journal, None)?;
        self.whole = reader.is_open();
        loop {
            while let Some((position, payload)) = reader.next_row()? {
                visit(position, JournalRow::read(position, payload)?)?;
            }
            self.whole &= !reader.row_follows()? && !reader.successor_is_damaged()?;
            let Some(start) = reader.start_after(reader.position()) else { break };
            self.whole = false;
            reader = JournalReader::open(disk, journal, Some(start))?;
        }
        self.known_to = reader.position();
        Ok(())
    }

    /// Returns the position at which the journal continues: after its last row, or, if rows are missing, at a
    /// position that makes the gap visible.
    pub fn end(&self, disk: &Arc<dyn Disk>, journal: &Path) -> io::Result<u64> {
        if self.whole {
            return Ok(self.known_to);
        }
        JournalReader::open(disk, journal, None)?.position_behind(self.known_to)
    }

    /// Loads the information in journal and checkpoint about groups and volumes.
    pub fn collect(folds: &mut Folds, journal: &Path, old: &OldIndexes<'_>) -> io::Result<Self> {
        let OldIndexes { checkpoint, groups, without, history, .. } = *old;
        let disk = folds.shared.disk.clone();
        let hidden = old.kept.hidden.iter().map(|hidden| (hidden.key, hidden.clone())).collect();
        folds.note_all(&old.kept.notes);
        let forgotten_before = history.forgotten_before();
        let (mut old, mut noted) = (checkpoint, Self { hidden, forgotten_before, ..Self::default() });
        let mut rows = Self::default();
        rows.each_row(&disk, journal, &mut |position, row| {
            if let Some(c) = old.take_if(|c| c.position <= position) {
                take_groups(folds, c);
            }
            if let JournalRow::Article(a) = &row
                && position >= without.since
                && without.tails.contains_key(&a.token.volume)
            {
                noted.left_out.insert(a.key, a.arrived);
            }
            noted.note(folds, &row)
        })?;
        // Their articles may nevertheless be in the volumes.
        let ahead = std::mem::take(&mut noted.ahead).rest(noted.arrived);
        noted.hidden.extend(ahead.map(|hidden| (hidden.key, hidden)));
        (noted.whole, noted.known_to) = (rows.whole, rows.known_to);
        let known_to = groups.synced.max(checkpoint.map_or(0, |c| c.position));
        if let Some(c) = old {
            take_groups(folds, c);
        }
        noted.whole &= known_to <= noted.known_to;
        noted.known_to = noted.known_to.max(known_to);
        noted.take_groups_file(folds, groups)?;
        Ok(noted)
    }

    /// Applies the groups file, which is at least as new as the journal's rows about groups. Of a journal
    /// without missing rows it adds only what earlier groups of a name have shown.
    fn take_groups_file(&mut self, folds: &mut Folds, groups: &GroupsFound) -> io::Result<()> {
        // Group ids by name, and removals that no row of a group has followed, with the id of before.
        let (mut ids, mut removed) = (BTreeMap::new(), BTreeMap::new());
        for row in groups.payloads.iter().filter_map(|payload| JournalRow::decode(payload)) {
            match row {
                JournalRow::GroupRemoved { name, high } => {
                    let id = ids.get(&name).copied();
                    removed.insert(name, (id, high));
                }
                JournalRow::Group(row) => {
                    // With the id of before, a crash has kept the removal from taking effect.
                    let earlier = removed.remove(&row.name).filter(|(id, _)| *id != Some(row.id));
                    ids.insert(row.name.clone(), row.id);
                    if !self.whole {
                        take_group(folds, &row);
                    }
                    let known = folds.shared.groups.table().id(row.name.as_bytes());
                    if let Some((_, high)) = earlier
                        && known == Some(GroupId(row.id))
                        && let Some(numbers) = folds.numbers.get_mut(row.id as usize)
                    {
                        numbers.earlier = numbers.earlier.max(high);
                    }
                }
                row if !self.whole => self.note(folds, &row)?,
                _ => {}
            }
        }
        if !self.whole {
            removed.into_iter().for_each(|(name, (_, high))| folds.group_removed(&name, high));
            let ids = folds.numbers.len().max(groups.next_group as usize);
            folds.numbers.resize(ids, Default::default());
        }
        Ok(())
    }

    fn note(&mut self, folds: &mut Folds, row: &JournalRow<'_>) -> io::Result<()> {
        match row {
            JournalRow::Article(a) => {
                self.arrived = self.arrived.max(a.arrived);
                self.head(a.token.volume, a.token.place.saturating_add(a.stored_bytes));
                folds.next_sequence = folds.next_sequence.max(a.sequence.saturating_add(1));
                let mut numbers = Vec::new();
                a.numbers(&mut numbers);
                numbers.iter().for_each(|(group, number)| folds.number_was_used(*group, *number));
                self.hidden.extend(self.ahead.entry(a, &numbers).map(|hidden| (a.key, hidden)));
            }
            JournalRow::HideAhead { key, by, reason } => self.ahead.put(*key, by, reason),
            JournalRow::Skip { volume, head } => self.head(*volume, *head),
            JournalRow::Volume(v) => self.head(v.id, v.head),
            JournalRow::Cancel { key, .. } | JournalRow::Expire { key, gone: true, .. } => {
                self.hidden.remove(key);
                self.left_out.remove(key);
            }
            JournalRow::Forgotten { at, ids_before, notes_before } => {
                self.forgotten_before = self.forgotten_before.max(*ids_before);
                folds.shared.notes.forget(*notes_before);
                folds.forgotten_at = *at;
            }
            JournalRow::Expire { gone: false, numbers, .. } => self.ended.extend(numbers),
            JournalRow::Void(positions) => self.voids.extend(positions),
            JournalRow::Lost { volume, place, .. } => drop(self.given_up.insert((*volume, *place))),
            JournalRow::Hide(hidden) => drop(self.hidden.insert(hidden.key, hidden.clone())),
            JournalRow::Unhide { key, .. } => drop(self.hidden.remove(key)),
            JournalRow::Group(g) => take_group(folds, g),
            JournalRow::GroupRemoved { .. }
            | JournalRow::Note { .. }
            | JournalRow::Promise(_)
            | JournalRow::PowerLost
            | JournalRow::Identity(_)
            | JournalRow::Opened { .. }
            | JournalRow::Site { .. }
            | JournalRow::Closed => folds.apply(row)?,
            JournalRow::Synced { .. }
            | JournalRow::Probe
            // Ids are read once the articles are found (`ids.rs`).
            | JournalRow::Remember { .. }
            | JournalRow::Forget { .. }
            // What a rebuild finds is that of no position: the spool has to join its cluster again.
            | JournalRow::Position { .. } => {}
            JournalRow::Begun { .. } | JournalRow::Ignored(_) => {}
        }
        Ok(())
    }

    /// Reports whether the article row at a position is void.
    pub fn is_void(&self, position: u64) -> bool {
        self.voids.contains(&position)
    }

    /// Reports whether a crash damaged the article at this place.
    pub fn has_given_up(&self, token: Token) -> bool {
        self.given_up.contains(&(token.volume, token.place))
    }

    fn head(&mut self, volume: u16, head: u64) {
        let known = self.heads.entry(volume).or_default();
        *known = head.max(*known);
    }
}

/// Applies a group's row when the row of its removal may be lost.
fn take_group(folds: &mut Folds, row: &GroupRow) {
    let known = folds.shared.groups.table().id(row.name.as_bytes());
    if let Some(id) = known.filter(|id| id.0 != row.id) {
        let assigned = folds.numbers.get(id.0 as usize).map_or(0, |numbers| numbers.assigned);
        folds.group_removed(&row.name, assigned);
    }
    folds.group(row);
}

/// Applies a checkpoint's information about the groups.
fn take_groups(folds: &mut Folds, c: &Checkpoint) {
    folds.identity.clone_from(&c.identity);
    folds.boot_id = c.boot_id;
    folds.is_upgrade = c.is_old_form;
    (0..).zip(&c.sites).for_each(|(number, name)| folds.site(number, name));
    c.retired.iter().for_each(|(name, high)| folds.group_removed(name, *high));
    c.gone_names.iter().for_each(|(id, name)| folds.names.put(GroupId(*id), name));
    c.groups.iter().for_each(|g| take_group(folds, &g.row));
    let ids = folds.numbers.len().max(c.next_group as usize);
    folds.numbers.resize(ids, Default::default());
    for g in &c.groups {
        if let Some(numbers) = folds.numbers.get_mut(g.row.id as usize) {
            numbers.assigned = numbers.assigned.max(g.assigned);
        }
    }
}
