//! Numbers promised ahead, so that no number is ever used twice (guarantee G2).
//!
//! A number may be given out only if a durable journal row has promised it. After a power cut, when the last journal
//! rows may be lost, every group goes on behind what was promised; after anything milder nothing is skipped.
//! Groups that take many articles between two syncs are promised more at a time.

use crate::journal::GroupRow;

/// Numbers promised ahead for a quiet group: what a power cut makes it skip at most.
pub(crate) const MARGIN_MIN: u64 = 512;
/// The same for the busiest group.
const MARGIN_MAX: u64 = 1 << 16;
/// A group that used up half of its margin within so much journal, in bytes, is a busy one: about what is written between
/// two syncs under full feed.
const BUSY_JOURNAL_BYTES: u64 = 16 << 20;

/// The writer's view of a group's numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupNumbers {
    /// Highest number given out.
    pub assigned: u64,
    /// Numbers up to here are promised by a durable row.
    promised: u64,
    /// A promise that is durable as soon as the journal is synced to the position.
    pending: Option<(u64, u64)>,
    margin: u64,
    /// Journal position at the last promise.
    promised_at: u64,
    /// The last promise was used up before a sync made the next one durable.
    hurried: bool,
    /// Which storage rules' group condition the group meets.
    pub rule_bits: u64,
    /// Length of the group's name.
    pub name_bytes: usize,
}

/// What giving out a number calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    pub number: u64,
    /// Promise this much in a row of the batch at hand.
    pub promise: Option<u64>,
    /// The number may be shown only after a sync of the journal.
    pub sync_first: bool,
}

impl GroupNumbers {
    pub fn new(row: &GroupRow, rule_bits: u64) -> Self {
        Self {
            assigned: row.high,
            promised: row.promised,
            pending: None,
            margin: MARGIN_MIN,
            promised_at: 0,
            hurried: false,
            rule_bits,
            name_bytes: row.name.len(),
        }
    }

    /// Everything ever promised, durable or not.
    pub fn promised(&self) -> u64 {
        self.pending.map_or(self.promised, |(_, upto)| upto).max(self.promised).max(self.assigned)
    }

    /// Forgets a promise whose row was to be written at this journal position or behind.
    pub fn forget_promise_from(&mut self, position: u64) {
        self.pending = self.pending.filter(|(at, _)| *at < position);
    }

    /// A promise read from the journal.
    pub fn promise_read(&mut self, upto: u64) {
        self.promised = self.promised.max(upto);
    }

    /// Gives out the next number; `synced` and `end` are journal positions.
    pub fn next(&mut self, synced: u64, end: u64) -> Given {
        self.assigned += 1;
        let number = self.assigned;
        if let Some((position, upto)) = self.pending
            && position < synced
        {
            self.promised = upto;
            self.pending = None;
        }
        let ahead = self.pending.map_or(self.promised, |(_, upto)| upto);
        let mut promise = None;
        if number + self.margin / 2 > ahead {
            let busy = end.saturating_sub(self.promised_at) < BUSY_JOURNAL_BYTES;
            let hurried = self.hurried || self.pending.is_some() || busy;
            self.margin =
                if hurried { self.margin * 16 } else { self.margin / 2 }.clamp(MARGIN_MIN, MARGIN_MAX);
            self.hurried = false;
            self.promised_at = end;
            promise = Some(number + self.margin);
            self.pending = Some((end, number + self.margin));
        }
        let sync_first = number > self.promised;
        self.hurried |= sync_first;
        Given { number, promise, sync_first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_durable_promise_waits_for_a_sync() {
        let mut n = GroupNumbers { margin: MARGIN_MIN, ..GroupNumbers::default() };
        let first = n.next(0, 100);
        assert_eq!((first.number, first.sync_first), (1, true));
        let promised = first.promise.unwrap();
        // The journal is synced past the promise's row: from here to there no sync is needed.
        let mut syncs = 0;
        for _ in 0..promised {
            let given = n.next(101, 200);
            assert!(given.number <= n.promised());
            syncs += u64::from(given.sync_first && given.number <= promised);
        }
        assert_eq!(syncs, 0);
    }

    #[test]
    fn a_busy_group_rarely_needs_a_sync_and_a_quiet_one_promises_little() {
        let mut n = GroupNumbers { margin: MARGIN_MIN, ..GroupNumbers::default() };
        let (mut synced, mut forced) = (0, 0);
        for i in 1..=200_000u64 {
            if i % 2_400 == 0 {
                synced = i;
            }
            if n.next(synced, i).sync_first {
                forced += 1;
                synced = i + 1;
            }
        }
        assert!(forced < 10, "{forced}");
        for i in 1..=60_000u64 {
            let at = i * BUSY_JOURNAL_BYTES / 100;
            n.next(at, at + 1);
        }
        assert!(n.promised() - n.assigned <= MARGIN_MIN * 16, "{}", n.promised() - n.assigned);
    }
}
