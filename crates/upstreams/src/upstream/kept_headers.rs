//! Headers that are not in overview rows, from an upstream's answers to HDR: kept in memory, so that a
//! range is requested once.
//!
//! Articles never change, and neither do their headers; the caller must know which articles still exist.
//! The least recently used entry, a header of a group, is dropped first.

use crate::HeaderValues;
use hashbrown::HashMap;
use site_base::lock::Leaf;
use std::collections::BTreeMap;

/// Bytes kept for one upstream.
const BYTES_MAX: usize = 4 << 20;
/// Cost of a value, or of an absent header, beside its own bytes.
const ENTRY_BYTES: usize = 64;

fn cost(value: &Option<Box<[u8]>>) -> usize {
    ENTRY_BYTES + value.as_ref().map_or(0, |value| value.len())
}

/// A header of a group; `made` counts how often the group was renumbered.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderKey<'a> {
    pub group: &'a [u8],
    pub made: u64,
    pub name: &'a [u8],
}

impl HeaderKey<'_> {
    fn key(self) -> Box<[u8]> {
        [self.group, b" ", &self.name.to_ascii_lowercase()].concat().into()
    }
}

/// Values of a header for the articles of one group.
#[derive(Debug, Default)]
struct HeaderColumn {
    made: u64,
    by_number: BTreeMap<u64, Option<Box<[u8]>>>,
    bytes: usize,
    used: u64,
}

#[derive(Debug, Default)]
struct HeaderStore {
    headers: HashMap<Box<[u8]>, HeaderColumn>,
    bytes: usize,
    uses: u64,
}

/// Headers kept for an upstream.
#[derive(Debug, Default)]
pub(super) struct KeptHeaders(Leaf<HeaderStore>);

impl KeptHeaders {
    /// Returns the known values for these numbers, and the remaining numbers.
    pub fn find(&self, which: HeaderKey<'_>, numbers: &[u64]) -> (HeaderValues, Vec<u64>) {
        let mut kept = self.0.lock();
        kept.uses += 1;
        let uses = kept.uses;
        let Some(values) = kept.headers.get_mut(&which.key()).filter(|values| values.made == which.made)
        else {
            return (Vec::new(), numbers.to_vec());
        };
        values.used = uses;
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for number in numbers {
            match values.by_number.get(number) {
                Some(value) => known.push((*number, value.clone())),
                None => unknown.push(*number),
            }
        }
        (known, unknown)
    }

    /// Keeps values of a header, if the group was not renumbered in the meantime; drops those of numbers
    /// below `low`.
    pub fn put(&self, which: HeaderKey<'_>, low: u64, new: &HeaderValues, is_current: impl FnOnce() -> bool) {
        if new.is_empty() || new.iter().map(|(_, value)| cost(value)).sum::<usize>() > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        // Checked under the lock: a task that drops the group comes before this or after it.
        if !is_current() {
            return;
        }
        kept.uses += 1;
        let (uses, key) = (kept.uses, which.key());
        let mut values = kept.headers.remove(&key).unwrap_or_default();
        kept.bytes -= values.bytes;
        if values.made != which.made {
            values = HeaderColumn::default();
        }
        let by_number = &mut values.by_number;
        by_number.extend(new.iter().cloned());
        *by_number = by_number.split_off(&low);
        (values.made, values.used) = (which.made, uses);
        values.bytes = ENTRY_BYTES + key.len() + values.by_number.values().map(cost).sum::<usize>();
        if values.bytes > BYTES_MAX {
            return;
        }
        kept.bytes += values.bytes;
        kept.headers.insert(key, values);
        while kept.bytes > BYTES_MAX {
            let oldest = kept.headers.iter().min_by_key(|(_, values)| values.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            let gone = kept.headers.remove(&oldest);
            kept.bytes -= gone.map_or(0, |values| values.bytes);
        }
    }
}

impl KeptHeaders {
    /// Drops the headers of a group that was renumbered.
    pub fn forget(&self, group: &[u8]) {
        let mut kept = self.0.lock();
        let is_of_it = |key: &[u8]| key.strip_prefix(group).is_some_and(|rest| rest.starts_with(b" "));
        let mut bytes = 0;
        kept.headers.retain(|key, values| {
            let is_kept = !is_of_it(key);
            bytes += if is_kept { values.bytes } else { 0 };
            is_kept
        });
        kept.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHICH: HeaderKey<'_> = HeaderKey { group: b"a.b", made: 0, name: b"Keywords" };

    fn value(text: &str) -> Option<Box<[u8]>> {
        Some(text.as_bytes().into())
    }

    #[test]
    fn known_values_are_found_until_the_group_is_renumbered() {
        let kept = KeptHeaders::default();
        kept.put(WHICH, 1, &vec![(1, value("x")), (2, None), (5, value("y"))], || true);
        let same = HeaderKey { name: b"KEYWORDS", ..WHICH };
        assert_eq!(
            kept.find(same, &[1, 2, 3, 5]),
            (vec![(1, value("x")), (2, None), (5, value("y"))], vec![3])
        );
        for other in [
            HeaderKey { made: 1, ..WHICH },
            HeaderKey { group: b"a.c", ..WHICH },
            HeaderKey { name: b"X", ..WHICH },
        ] {
            assert_eq!(kept.find(other, &[1]), (vec![], vec![1]), "{other:?}");
        }
        // Expired values are dropped.
        kept.put(WHICH, 5, &vec![(6, value("z"))], || true);
        assert_eq!(kept.find(WHICH, &[1, 5, 6]), (vec![(5, value("y")), (6, value("z"))], vec![1]));
        kept.put(HeaderKey { made: 1, ..WHICH }, 1, &vec![(1, value("other"))], || true);
        assert_eq!(kept.find(WHICH, &[5]), (vec![], vec![5]));
    }

    #[test]
    fn headers_of_a_renumbered_group_are_dropped() {
        let kept = KeptHeaders::default();
        let other = HeaderKey { group: b"a.b.c", ..WHICH };
        kept.put(WHICH, 1, &vec![(1, value("x"))], || true);
        kept.put(other, 1, &vec![(1, value("y"))], || true);
        kept.forget(b"a.b");
        assert_eq!(kept.find(WHICH, &[1]), (vec![], vec![1]));
        assert_eq!(kept.find(other, &[1]).0, [(1, value("y"))]);
        let bytes = kept.0.lock().headers.values().map(|values| values.bytes).sum::<usize>();
        assert_eq!(kept.0.lock().bytes, bytes);
        // An answer that arrives after that is not kept.
        kept.put(WHICH, 1, &vec![(1, value("x"))], || false);
        assert_eq!(kept.find(WHICH, &[1]), (vec![], vec![1]));
    }

    #[test]
    fn kept_headers_are_bounded() {
        let kept = KeptHeaders::default();
        let large = "x".repeat(BYTES_MAX / 3);
        let of = |name| HeaderKey { name, ..WHICH };
        kept.put(of(b"one"), 1, &vec![(1, value(&large))], || true);
        kept.put(of(b"two"), 1, &vec![(1, value(&large))], || true);
        assert!(kept.find(of(b"one"), &[1]).1.is_empty());
        kept.put(of(b"three"), 1, &vec![(1, value(&large))], || true);
        let is_kept = |name| kept.find(of(name), &[1]).1.is_empty();
        assert_eq!((is_kept(b"one"), is_kept(b"two"), is_kept(b"three")), (true, false, true));
        // An oversized entry displaces no other; one that has become oversized is dropped.
        kept.put(of(b"one"), 1, &vec![(2, value(&"x".repeat(BYTES_MAX)))], || true);
        assert!(kept.find(of(b"one"), &[1]).1.is_empty());
        assert!(kept.0.lock().bytes <= BYTES_MAX);
        let kept = KeptHeaders::default();
        (1..4).for_each(|number| kept.put(of(b"one"), 1, &vec![(number, value(&large))], || true));
        assert!(kept.0.lock().headers.is_empty() && kept.0.lock().bytes == 0);
    }
}
