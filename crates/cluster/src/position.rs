//! Position of a member in the log, and the tags it has seen: kept by the spool with what was applied
//! (`docs/formats/log.md`).

use crate::message::{ClusterId, MessageTag};
use spool::{ByteReader, put_varint};
use std::collections::BTreeMap;

const VERSION: u8 = 1;
/// Counters below the highest one that are distinguished; a proposer has fewer messages open.
pub const COUNTERS_MAX: u64 = 256;
/// Maximum number of members that a cluster has had.
const MEMBERS_MAX: usize = 1 << 10;
/// Maximum number of uploads that are open at a time.
pub const UPLOADS_MAX: usize = 64;
/// Maximum number of parts of an upload.
pub const PARTS_MAX: u32 = 64;

/// Tags of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemberTags {
    incarnation: u64,
    /// Highest counter.
    highest: u64,
    /// Bit `n` is set if the counter `n` below the highest was seen.
    seen: [u64; 4],
}

impl MemberTags {
    fn new(incarnation: u64, counter: u64) -> Self {
        Self { incarnation, highest: counter, seen: [1, 0, 0, 0] }
    }

    /// Notes a counter of this incarnation; returns false if it was seen, or may have been.
    fn note(&mut self, counter: u64) -> bool {
        if counter > self.highest {
            self.shift(counter - self.highest);
            self.highest = counter;
        }
        let below = self.highest - counter;
        let Some(word) = self.seen.get_mut((below / 64) as usize).filter(|_| below < COUNTERS_MAX) else {
            return false;
        };
        let bit = 1 << (below % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn shift(&mut self, by: u64) {
        let before = self.seen;
        let was_seen =
            |below: u64| before.get((below / 64) as usize).is_some_and(|word| word >> (below % 64) & 1 == 1);
        for (word, first) in self.seen.iter_mut().zip((0..).step_by(64)) {
            *word = (0..64)
                .filter(|bit| (first + bit) >= by && was_seen(first + bit - by))
                .map(|bit| 1 << bit)
                .sum();
        }
    }
}

/// Tags that were seen, by member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenTags(BTreeMap<u16, MemberTags>);

/// What a tag says about its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagVerdict {
    /// The message is to be applied.
    Fresh,
    /// It was applied before.
    Repeated,
    /// A later incarnation of its member has begun.
    Outdated,
}

impl SeenTags {
    /// Notes a tag.
    pub fn note(&mut self, tag: MessageTag) -> TagVerdict {
        let new = MemberTags::new(tag.incarnation, tag.counter);
        match self.0.get_mut(&tag.member) {
            Some(known) if tag.incarnation < known.incarnation => TagVerdict::Outdated,
            Some(known) if tag.incarnation == known.incarnation => {
                if known.note(tag.counter) {
                    TagVerdict::Fresh
                } else {
                    TagVerdict::Repeated
                }
            }
            _ => {
                self.0.insert(tag.member, new);
                TagVerdict::Fresh
            }
        }
    }

    /// Returns the incarnation of a member that the log has named last.
    pub fn incarnation(&self, member: u16) -> Option<u64> {
        self.0.get(&member).map(|tags| tags.incarnation)
    }
}

/// An upload of a large article that is not complete, or not used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenUpload {
    /// Number of the member.
    pub member: u16,
    /// Number that the member has drawn.
    pub upload: u64,
    /// Number of parts.
    pub of: u32,
    /// Parts seen so far: bit `n` for part `n`.
    pub seen: u64,
    /// Length of the parts so far.
    pub bytes: u64,
    /// Sequence of the message with the first part.
    pub begun: u64,
}

impl OpenUpload {
    /// Reports whether all parts were seen.
    pub fn is_whole(&self) -> bool {
        self.seen.count_ones() == self.of
    }
}

/// Position of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// Cluster of the log.
    pub cluster: ClusterId,
    /// Time at which the engine created the log, in Unix nanoseconds.
    pub created: u64,
    /// Sequence of the last message of which entries are applied.
    pub sequence: u64,
    /// Number of its entries that are applied; 0: all.
    pub entries: u64,
    /// Time of the fold in Unix seconds.
    pub time: u32,
    /// Tags seen.
    pub tags: SeenTags,
    /// Uploads, oldest first.
    pub uploads: Vec<OpenUpload>,
}

impl LogPosition {
    /// Returns the position before the first message after `sequence`.
    pub fn after(cluster: ClusterId, created: u64, sequence: u64, time: u32) -> Self {
        Self { cluster, created, sequence, entries: 0, time, tags: SeenTags::default(), uploads: Vec::new() }
    }

    /// Returns the record that the spool keeps.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.cluster.0);
        out.extend_from_slice(&self.created.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        put_varint(self.entries, &mut out);
        out.extend_from_slice(&self.time.to_le_bytes());
        put_varint(self.tags.0.len() as u64, &mut out);
        for (member, tags) in &self.tags.0 {
            out.extend_from_slice(&member.to_le_bytes());
            out.extend_from_slice(&tags.incarnation.to_le_bytes());
            out.extend_from_slice(&tags.highest.to_le_bytes());
            tags.seen.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        put_varint(self.uploads.len() as u64, &mut out);
        for upload in &self.uploads {
            out.extend_from_slice(&upload.member.to_le_bytes());
            out.extend_from_slice(&upload.upload.to_le_bytes());
            put_varint(u64::from(upload.of), &mut out);
            put_varint(upload.seen, &mut out);
            put_varint(upload.bytes, &mut out);
            out.extend_from_slice(&upload.begun.to_le_bytes());
        }
        out
    }

    /// Reads a record; `None` if it is none of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = ByteReader(bytes);
        (r.u8()? == VERSION).then_some(())?;
        let mut position = Self {
            cluster: ClusterId(r.array()?),
            created: r.u64()?,
            sequence: r.u64()?,
            entries: r.varint()?,
            time: r.u32()?,
            tags: SeenTags::default(),
            uploads: Vec::new(),
        };
        for _ in 0..r.count(50).filter(|count| *count <= MEMBERS_MAX)? {
            let member = u16::from_le_bytes(r.array()?);
            let (incarnation, highest) = (r.u64()?, r.u64()?);
            let seen = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
            position.tags.0.insert(member, MemberTags { incarnation, highest, seen });
        }
        for _ in 0..r.count(20).filter(|count| *count <= UPLOADS_MAX)? {
            position.uploads.push(OpenUpload {
                member: u16::from_le_bytes(r.array()?),
                upload: r.u64()?,
                of: u32::try_from(r.varint()?).ok()?,
                seen: r.varint()?,
                bytes: r.varint()?,
                begun: r.u64()?,
            });
        }
        r.is_empty().then_some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimRandom;
    use std::collections::BTreeSet;

    fn tag(member: u16, incarnation: u64, counter: u64) -> MessageTag {
        MessageTag { member, incarnation, counter }
    }

    #[test]
    fn a_tag_counts_once_and_outdated_incarnations_not_at_all() {
        let mut tags = SeenTags::default();
        assert_eq!(tags.note(tag(1, 5, 0)), TagVerdict::Fresh);
        assert_eq!(tags.note(tag(1, 5, 0)), TagVerdict::Repeated);
        assert_eq!(tags.note(tag(2, 5, 0)), TagVerdict::Fresh);
        assert_eq!(tags.note(tag(1, 5, 900)), TagVerdict::Fresh);
        assert_eq!(tags.note(tag(1, 5, 700)), TagVerdict::Fresh);
        assert_eq!(tags.note(tag(1, 5, 644)), TagVerdict::Repeated, "too far below to be distinguished");
        assert_eq!(tags.note(tag(1, 6, 0)), TagVerdict::Fresh);
        assert_eq!(tags.note(tag(1, 5, 901)), TagVerdict::Outdated);
        assert_eq!(tags.incarnation(1), Some(6));
    }

    #[test]
    fn seen_counters_are_those_of_a_set_while_they_stay_within_the_window() {
        let random = &mut SimRandom::new(3);
        let (mut tags, mut set, mut highest) = (SeenTags::default(), BTreeSet::new(), 0);
        tags.note(tag(1, 1, 0));
        set.insert(0);
        for _ in 0..20_000 {
            let counter = (highest + random.below(300)).saturating_sub(random.below(300));
            highest = highest.max(counter);
            let is_new = highest - counter < COUNTERS_MAX && set.insert(counter);
            let expected = if is_new { TagVerdict::Fresh } else { TagVerdict::Repeated };
            assert_eq!(tags.note(tag(1, 1, counter)), expected, "{counter} of {highest}");
        }
    }

    #[test]
    fn positions_are_read_as_written() {
        let mut position = LogPosition::after(ClusterId([7; 8]), 1 << 60, 12, 1_795_000_000);
        position.entries = 300;
        for counter in 0..70 {
            position.tags.note(tag(1, 9, counter * 3));
        }
        position.tags.note(tag(2, 1, 0));
        position.uploads.push(OpenUpload {
            member: 1,
            upload: 5,
            of: 9,
            seen: 0b101,
            bytes: 1 << 20,
            begun: 11,
        });
        let bytes = position.encode();
        assert_eq!(LogPosition::decode(&bytes), Some(position));
        for cut in 0..bytes.len() {
            assert_eq!(LogPosition::decode(&bytes[..cut]), None);
        }
    }
}
