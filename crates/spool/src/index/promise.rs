//! Article numbers promised in advance, so that no number is ever used twice (guarantee G2).
//!
//! A number may be assigned only if a durable journal row has promised it. After a power cut, when the last
//! journal rows may be lost, every group continues after its promised numbers; after a mere crash no number
//! is skipped. The size of a promise depends on how many numbers a group uses between two syncs.

use spool_journal::GroupRow;

/// Numbers promised in advance for a quiet group: the most that it skips after a power cut.
pub(crate) const MARGIN_MIN: u64 = 64;
/// Numbers promised in advance for the busiest group.
const MARGIN_MAX: u64 = 1 << 16;
/// A promise covers as many numbers as a group uses between two syncs, times this. It costs a row, and a sync
/// of the groups file besides that of the journal, so a steady group needs one for every sixteenth sync. A
/// promise is renewed before half of it is used up, so in a burst a group is promised more from its fourth
/// article on: a sync that the busiest group has to wait for serves all groups that are up to sixteen times
/// quieter.
const MARGIN_SYNCS: u64 = 32;

/// The writer's view of a group's numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupNumbers {
    /// Highest number assigned.
    pub assigned: u64,
    /// Highest number promised by a durable row.
    promised: u64,
    /// Journal position and promise: durable as soon as the journal is synced to the position.
    pending: Option<(u64, u64)>,
    usage: NumberUsage,
    /// Highest number that earlier groups of this name may have shown; 0 if there were none.
    pub earlier: u64,
    /// Storage rules whose group condition the group meets, as bits.
    pub rule_bits: u64,
    /// Length of the group's name.
    pub name_bytes: usize,
}

/// Numbers that a group uses between two syncs of the journal.
#[derive(Debug, Clone, Copy, Default)]
struct NumberUsage {
    /// Count of syncs when a number was last assigned.
    syncs: u64,
    /// Numbers assigned since that sync.
    numbers: u64,
    /// Numbers assigned in the previous such interval.
    numbers_before: u64,
}

impl NumberUsage {
    /// Counts an assigned number.
    fn count(&mut self, syncs: u64) {
        if syncs != self.syncs {
            *self = Self { syncs, numbers: 0, numbers_before: self.numbers };
        }
        self.numbers += 1;
    }

    /// Returns how many numbers to promise in advance.
    fn margin(self) -> u64 {
        (self.numbers.max(self.numbers_before) * MARGIN_SYNCS).clamp(MARGIN_MIN, MARGIN_MAX)
    }
}

/// State of the journal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JournalState {
    /// Position up to which the journal is durable.
    pub synced: u64,
    /// Number of syncs since it was opened.
    pub syncs: u64,
    /// Position of the next row.
    pub end: u64,
}

/// An assigned number, with the necessary follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AssignedNumber {
    pub number: u64,
    /// Promise to be written in a row of the same batch.
    pub promise: Option<u64>,
    /// Whether the number may be shown only after a sync of the journal.
    pub sync_first: bool,
}

impl GroupNumbers {
    pub fn new(row: &GroupRow, rule_bits: u64) -> Self {
        Self {
            assigned: row.high,
            promised: row.promised,
            pending: None,
            usage: NumberUsage::default(),
            earlier: 0,
            rule_bits,
            name_bytes: row.name.len(),
        }
    }

    /// Returns the highest number ever promised, durably or not.
    pub fn promised(&self) -> u64 {
        self.pending.map_or(self.promised, |(_, upto)| upto).max(self.promised).max(self.assigned)
    }

    /// Forgets a promise whose row was to be written at this journal position or later.
    pub fn forget_promise_from(&mut self, position: u64) {
        self.pending = self.pending.filter(|(at, _)| *at < position);
    }

    /// Records a promise read from the journal.
    pub fn promise_read(&mut self, upto: u64) {
        self.promised = self.promised.max(upto);
    }

    /// Assigns the next number.
    pub fn next(&mut self, journal: JournalState) -> AssignedNumber {
        self.assigned += 1;
        let number = self.assigned;
        if let Some((position, upto)) = self.pending
            && position < journal.synced
        {
            self.promised = upto;
            self.pending = None;
        }
        self.usage.count(journal.syncs);
        let margin = self.usage.margin();
        let ahead = self.pending.map_or(self.promised, |(_, upto)| upto);
        let mut promise = None;
        if number + margin / 2 > ahead {
            promise = Some(number + margin);
            self.pending = Some((journal.end, number + margin));
        }
        AssignedNumber { number, promise, sync_first: number > self.promised }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(synced: u64, end: u64) -> JournalState {
        JournalState { synced, syncs: synced, end }
    }

    #[test]
    fn a_number_without_durable_promise_waits_for_a_sync() {
        let mut n = GroupNumbers::default();
        let first = n.next(at(0, 100));
        assert_eq!((first.number, first.sync_first), (1, true));
        let promised = first.promise.unwrap();
        // The journal is synced past the promise's row: no sync is needed up to the promised number.
        let mut syncs = 0;
        for _ in 0..promised {
            let given = n.next(at(101, 200));
            assert!(given.number <= n.promised());
            syncs += u64::from(given.sync_first && given.number <= promised);
        }
        assert_eq!(syncs, 0);
    }

    /// Syncs after every 2,400 articles, as under full feed, all of them in one group.
    #[test]
    fn a_busy_group_rarely_needs_a_sync_or_a_promise() {
        let mut n = GroupNumbers::default();
        let (mut journal, mut forced, mut promises) = (JournalState::default(), 0, 0);
        for i in 1..=200_000u64 {
            journal.end = i;
            if i % 2_400 == 0 {
                journal = JournalState { synced: i, syncs: journal.syncs + 1, end: i };
            }
            let given = n.next(journal);
            promises += u64::from(given.promise.is_some());
            if given.sync_first {
                forced += 1;
                journal = JournalState { synced: i + 1, syncs: journal.syncs + 1, end: i };
            }
        }
        assert!(forced < 5, "{forced}");
        assert!(promises < 20, "{promises}");
    }

    /// Files articles in new groups, each of them a third less busy than the one before.
    #[test]
    fn one_sync_serves_groups_that_are_less_busy() {
        let mut groups = vec![GroupNumbers { promised: MARGIN_MIN, ..GroupNumbers::default() }; 20];
        let (mut journal, mut forced) = (JournalState::default(), 0);
        for i in 1..=100_000u64 {
            journal.end = i;
            if i % 10_000 == 0 {
                journal = JournalState { synced: i, syncs: journal.syncs + 1, end: i };
            }
            let pick = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let at = (0..19).find(|at| pick % 3_u64.pow(at + 1) >= 3_u64.pow(*at)).unwrap_or(19);
            if groups[at as usize].next(journal).sync_first {
                forced += 1;
                journal = JournalState { synced: i + 1, syncs: journal.syncs + 1, end: i };
            }
        }
        assert!(forced < 4, "{forced}");
    }

    /// Files an occasional article, with a sync after each: the group is promised as little as a new one,
    /// even if it was busy before.
    #[test]
    fn a_quiet_group_is_promised_little() {
        for numbers in [0, MARGIN_MAX] {
            let usage = NumberUsage { numbers, ..NumberUsage::default() };
            let mut n = GroupNumbers { usage, ..GroupNumbers::default() };
            for i in 1..=400_000u64 {
                n.next(JournalState { synced: i * 100, syncs: i, end: i * 100 + 1 });
            }
            assert!(n.promised() - n.assigned <= 2 * MARGIN_MIN, "{}", n.promised() - n.assigned);
        }
    }
}
