//! Placement of an article: the rules choose its class, the class a volume, the volume a place.
//!
//! A class with a floor passes to its overflow what it could only store by displacing a protected article.
//! Part of the writer; only plans, without writing anything. Sources: CNFS-04, CNFS-20 to CNFS-26.

use super::naming::FilingArticle;
use super::{CommitScratch, PreparedEntry, SpoolWriter, part};
use crate::index::fold::PublishContext;
use crate::index::rules::ArticleTraits;
use netnews::newsgroups;
use spool_base::error::SpoolTrouble;
use spool_base::fetch::fetch_all;
use spool_base::ids::GroupId;
use spool_base::key::ArticleKey;
use spool_base::limits::{GROUPS_MAX, PART_BYTES_MAX};
use spool_base::own_bug;
use spool_base::token::{MethodKind, Token};
use spool_history::HistoryLookup;
use spool_journal::JournalRow;
use spool_methods::cnfs::record;
use spool_methods::packing::PackedArticle;
use spool_methods::{PlacementRequest, Volume, VolumeTable};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Place planned for an article, in the volume at an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedPlace {
    pub token: Token,
    /// Index of the volume.
    pub volume: usize,
}

/// Result of the search for a place.
pub(super) enum Placement {
    At(PlannedPlace),
    Trash(Token),
    /// The article must wait for the next part.
    Later,
    /// Storing it would break the class's floor; its overflow may take it.
    Full(Option<usize>),
    /// A class of retained articles has no space at the moment.
    NoRoom,
    Nowhere,
}

/// Returns the volume at an index that was planned for.
pub(super) fn planned(volumes: &VolumeTable, index: usize) -> Result<&Arc<dyn Volume>, SpoolTrouble> {
    volumes.all().get(index).ok_or_else(|| own_bug!("volume {index} was planned for and is not there"))
}

/// Returns the properties that rules test, for an article in this many groups.
fn traits<'a>(f: &FilingArticle<'a>, groups: usize) -> ArticleTraits<'a> {
    let expires_in_secs = f.new.expires.map(|e| e.saturating_sub(f.new.arrived));
    ArticleTraits { size_bytes: article_bytes(f), groups, expires_in_secs, criteria: &f.new.criteria }
}

/// Returns the length of an article in wire format, without Xref line and final `.` line.
pub(super) fn article_bytes(f: &FilingArticle<'_>) -> u64 {
    f.new.pieces.iter().map(|p| p.len() as u64).sum()
}

impl SpoolWriter {
    /// Prefetches the data for assigning the next numbers of these groups.
    pub(super) fn fetch_numbers(&self, groups: &[GroupId]) {
        groups.iter().filter_map(|id| self.folds.numbers.get(id.0 as usize)).for_each(fetch_all);
    }

    /// Returns the class that the rules assign to an article.
    pub(super) fn class_of(&self, f: &FilingArticle<'_>) -> Option<usize> {
        if f.groups.is_empty() {
            return self.class_by_names(f);
        }
        let first = f.groups.first().and_then(|g| self.folds.numbers.get(g.0 as usize));
        let bits = first.map(|n| n.rule_bits).filter(|_| f.groups.len() <= GROUPS_MAX)?;
        let traits = traits(f, f.groups.len());
        let bits_of = |g: &GroupId| self.folds.numbers.get(g.0 as usize).map_or(0, |n| n.rule_bits);
        self.folds.rules.class(bits, || f.groups.iter().fold(0, |bits, g| bits | bits_of(g)), &traits)
    }

    /// Returns the class of an article that is filed in no group. Skips classes that retain articles until
    /// they are due in their groups: a later rule decides, or the first class that has buffers.
    fn class_by_names(&self, f: &FilingArticle<'_>) -> Option<usize> {
        let names = || newsgroups::split(f.new.criteria.newsgroups).take(GROUPS_MAX);
        let bits_of = |name: &[u8]| self.folds.rules.group_bits(name);
        let all = || names().fold(0, |bits, name| bits | bits_of(name));
        let may = |class: usize| self.classes.get(class).is_some_and(|class| !class.method.keeps());
        let (first, traits) = (names().next().map_or(0, bits_of), traits(f, names().count()));
        let buffers = || self.classes.iter().position(|class| class.method == MethodKind::Cnfs);
        self.folds.rules.class_among(first, all, &traits, may).or_else(buffers)
    }

    /// Chooses class, volume and place.
    pub(super) fn place(
        &mut self,
        f: &FilingArticle<'_>,
        packed: Option<&PackedArticle>,
        context: &PublishContext<'_>,
        s: &mut CommitScratch,
    ) -> Result<Placement, SpoolTrouble> {
        let names_bytes = self.names_bytes(f.groups)?;
        let Some(first) = self.class_of(f) else { return Ok(Placement::Nowhere) };
        // An upper bound: the Xref line's length depends on the numbers.
        let xref_bytes_max = self.folds.identity.len() + 16 + names_bytes + f.groups.len() * 24;
        let mut number = first;
        // A full class does not displace protected articles: the article goes to the overflow instead.
        for _ in 0..self.classes.len().max(1) {
            let data_bytes = match packed.filter(|p| p.class == number) {
                Some(packed) => packed.data_bytes(),
                None => article_bytes(f) as usize + record::END.len(),
            };
            let len = record::HEADER_BYTES + xref_bytes_max + data_bytes;
            // It could not be read again.
            if len > record::RECORD_BYTES_MAX {
                break;
            }
            // Retained articles are due according to their groups, so one without groups does not fit here.
            if f.groups.is_empty() && self.classes.get(number).is_some_and(|class| class.method.keeps()) {
                break;
            }
            match self.place_in(context, number, len, f.new.arrived, s)? {
                Placement::Full(Some(overflow)) => number = overflow,
                Placement::Full(None) => break,
                Placement::Later => return Ok(Placement::Later),
                placed => {
                    if let Some(class) = self.classes.get_mut(first).filter(|_| number != first) {
                        class.spilled += 1;
                    }
                    return Ok(placed);
                }
            }
        }
        if let Some(class) = self.classes.get_mut(first).filter(|class| class.floor.is_some()) {
            class.turned_away += 1;
        }
        Ok(Placement::Nowhere)
    }

    /// Returns the total length of the groups' names.
    fn names_bytes(&self, groups: &[GroupId]) -> Result<usize, SpoolTrouble> {
        groups.iter().try_fold(0, |sum, group| {
            let numbers = self.folds.numbers.get(group.0 as usize);
            numbers.map(|n| sum + n.name_bytes).ok_or_else(|| own_bug!("group {} was never made", group.0))
        })
    }

    /// Chooses volume and place in a class.
    fn place_in(
        &mut self,
        context: &PublishContext<'_>,
        number: usize,
        len: usize,
        arrived: u64,
        s: &mut CommitScratch,
    ) -> Result<Placement, SpoolTrouble> {
        let Some(class) = self.classes.get_mut(number) else {
            return Err(own_bug!("a rule names class {number}, which is not there"));
        };
        if class.method == MethodKind::Trash {
            let (method, class) = (class.method, number as u8);
            return Ok(Placement::Trash(Token { method, class, volume: u16::MAX, place: 0 }));
        }
        let volumes = context.volumes;
        let (floors, residents) = (&mut self.floors, &mut self.folds.residents);
        let floor = class.floor;
        let mut may = |volume: usize, head: u64| {
            let Some(floor) = floor else { return true };
            let (Some(v), Some(residents)) = (volumes.all().get(volume), residents.get_mut(volume)) else {
                return false;
            };
            let Some(v) = v.cyclic() else { return true };
            let arrived_max = arrived.saturating_sub(floor.keep_secs);
            // The displacement itself will report unreadable residents.
            !floors.would_break(volume, residents, v.tail_at(head), v.head(), arrived_max).unwrap_or(false)
        };
        let Some(choice) = class.choose(volumes, &s.heads, len, &mut may) else {
            let without =
                if class.is_full(volumes, &s.heads) { Placement::NoRoom } else { Placement::Nowhere };
            return Ok(class.floor.map_or(without, |floor| Placement::Full(floor.overflow)));
        };
        let v = planned(volumes, choice.volume)?;
        let part_bytes_max = v.cyclic().map_or(PART_BYTES_MAX, |v| PART_BYTES_MAX.min(v.area() / 4));
        if !s.prepared.is_empty() && s.bytes + len as u64 > part_bytes_max {
            return Ok(Placement::Later);
        }
        if let Some(v) = v.cyclic() {
            if !self.fence.is_entered(v, choice.place) {
                let offset = v.offset(choice.place).unwrap_or_default();
                self.entering = Some((choice.volume, choice.place - offset));
                return Ok(Placement::Later);
            }
            if !self.fence.allows(v, v.end_of(choice.place, v.padded(len))) {
                return Ok(Placement::Later);
            }
        }
        class.turn = choice.turn;
        if let Some((left, head)) = choice.leaves {
            let volume = planned(volumes, left)?.id();
            self.journal.push(&JournalRow::Skip { volume, head });
            s.plan_head(left, head)?;
        }
        let token = Token { method: v.method(), class: number as u8, volume: v.id(), place: choice.place };
        Ok(Placement::At(PlannedPlace { token, volume: choice.volume }))
    }

    /// Releases the names that methods with one file per article have taken for a part without rows.
    pub(super) fn take_back(&self, context: &PublishContext<'_>, s: &CommitScratch) {
        for p in &s.prepared {
            if let Some(token) = p.token
                && let Some(volume) = context.volumes.get(token.volume).and_then(|v| v.retained())
            {
                volume.take_back(token.place, p.key, s.numbers.get(p.numbers.clone()).unwrap_or_default());
            }
        }
    }

    /// Returns the token with the place that the volume finally assigns to the article, whose numbers are now
    /// known.
    pub(super) fn settle(
        &self,
        f: &FilingArticle<'_>,
        token: Token,
        volume: &dyn Volume,
        arrived: u32,
        numbers: &Range<usize>,
        s: &CommitScratch,
    ) -> Result<Token, SpoolTrouble> {
        let Some(volume) = volume.retained() else { return Ok(token) };
        let (history, removals) = (&self.folds.shared.history, &self.folds.shared.removals);
        let is_here = |t: Token, place| t.volume == token.volume && t.place == place;
        let pending = |p: &PreparedEntry, place| p.token.is_some_and(|t| is_here(t, place));
        let lives = |place, key: ArticleKey| {
            s.prepared.iter().any(|p| pending(p, place))
                || removals.has_hashed(token.volume, place)
                || matches!(history.lookup(&key), HistoryLookup::At(t, _) if is_here(t, place))
        };
        let first = part(&s.numbers, numbers)?.first().copied();
        let placing = PlacementRequest {
            planned: token.place,
            message_id: f.new.message_id,
            key: f.key,
            arrived,
            first,
            lives: &lives,
        };
        let place = volume.settle(&placing);
        if volume.method() == MethodKind::Timehash {
            let first = token.place.max(u64::from(arrived) << 32);
            self.folds.shared.passed_over.fetch_add(place.saturating_sub(first), Ordering::Relaxed);
        }
        Ok(Token { place, ..token })
    }
}
