//! Comparing the replicas of the log: every message, as every node has it.

use std::collections::BTreeMap;
use std::ops::Range;

/// A message as one node has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaMessage {
    /// Sequence in the log.
    pub sequence: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Checksum.
    pub crc: u32,
}

/// What is wrong with the replica of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaFaults {
    /// Messages that it lacks, as far as others have them.
    pub missing: Vec<u64>,
    /// Messages that differ from those of most others, or, without a majority, from any.
    pub different: Vec<u64>,
}

impl ReplicaFaults {
    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.different.is_empty()
    }
}

/// Compares a range of messages, and adds what is wrong to the faults of each replica.
pub fn compare(range: Range<u64>, replicas: &[Vec<ReplicaMessage>], faults: &mut [ReplicaFaults]) {
    let read: Vec<BTreeMap<u64, (u64, u32)>> = replicas
        .iter()
        .map(|messages| messages.iter().map(|m| (m.sequence, (m.bytes, m.crc))).collect())
        .collect();
    for sequence in range {
        let found: Vec<Option<&(u64, u32)>> = read.iter().map(|messages| messages.get(&sequence)).collect();
        let votes = |of: &(u64, u32)| found.iter().flatten().filter(|other| **other == of).count();
        let right = found.iter().flatten().find(|of| 2 * votes(of) > replicas.len()).copied();
        let any = found.iter().flatten().next().copied();
        let is_unanimous = found.iter().flatten().all(|of| Some(*of) == any);
        for (found, faults) in found.iter().zip(faults.iter_mut()) {
            match found {
                None if any.is_some() => faults.missing.push(sequence),
                Some(_) if is_unanimous => {}
                Some(of) if Some(*of) == right => {}
                Some(_) => faults.different.push(sequence),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(of: &[(u64, u32)]) -> Vec<ReplicaMessage> {
        of.iter().map(|(sequence, crc)| ReplicaMessage { sequence: *sequence, bytes: 9, crc: *crc }).collect()
    }

    #[test]
    fn the_node_that_differs_from_most_or_lacks_a_message_is_named() {
        let sound = messages(&[(1, 10), (2, 20), (3, 30)]);
        let mut faults = vec![ReplicaFaults::default(); 3];
        compare(1..4, &[sound.clone(), sound.clone(), sound.clone()], &mut faults);
        assert!(faults.iter().all(ReplicaFaults::is_empty), "{faults:?}");
        let damaged = messages(&[(1, 10), (2, 99)]);
        compare(1..4, &[sound.clone(), damaged, sound.clone()], &mut faults);
        assert!(faults[0].is_empty() && faults[2].is_empty(), "{faults:?}");
        assert_eq!(faults[1], ReplicaFaults { missing: vec![3], different: vec![2] });
        // Two that differ: either may be wrong.
        let mut faults = vec![ReplicaFaults::default(); 2];
        compare(1..2, &[messages(&[(1, 5)]), messages(&[(1, 6)])], &mut faults);
        assert!(faults.iter().all(|faults| faults.different == [1]), "{faults:?}");
    }

    #[test]
    fn what_no_node_has_any_more_is_no_fault() {
        let mut faults = vec![ReplicaFaults::default(); 3];
        let later = messages(&[(3, 30)]);
        compare(1..4, &[later.clone(), later.clone(), later], &mut faults);
        assert!(faults.iter().all(ReplicaFaults::is_empty), "{faults:?}");
    }
}
