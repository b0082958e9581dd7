//! Articles that readers requested while they were not available: a bounded list, on disk as lines, for
//! fetching them later. Lost entries are requested again by the readers. Called by `cache`. Format:
//! `docs/formats/cache.md`.

use std::collections::VecDeque;

/// Maximum number of articles that are remembered; beyond it the oldest ones are forgotten.
const WANTS_MAX: usize = 10_000;
/// Maximum length of a remembered name of an upstream or group, or Message-ID.
const NAME_BYTES_MAX: usize = 1024;

/// An article that a reader wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MissedArticle {
    /// Group; empty if the article was requested by its Message-ID.
    pub group: Vec<u8>,
    /// Number in the group.
    pub number: u64,
    /// Message-ID; empty if the article was requested by its number.
    pub id: Vec<u8>,
}

/// All wanted articles, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct MissedList(VecDeque<MissedArticle>);

impl MissedList {
    pub fn add(&mut self, want: MissedArticle) {
        let is_plain = |text: &[u8]| {
            let is_text = std::str::from_utf8(text).is_ok();
            is_text && text.len() <= NAME_BYTES_MAX && !text.iter().any(|b| b"\t\r\n".contains(b))
        };
        if !is_plain(&want.group) || !is_plain(&want.id) || self.0.contains(&want) {
            return;
        }
        if self.0.len() >= WANTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(want);
    }

    pub fn remove(&mut self, want: &MissedArticle) {
        self.0.retain(|known| known != want);
    }

    pub fn all(&self) -> Vec<MissedArticle> {
        self.0.iter().cloned().collect()
    }

    /// Returns lines that [`MissedList::take`] reads.
    pub fn put(&self) -> Vec<u8> {
        let line =
            |want: &MissedArticle| [&want.group, want.number.to_string().as_bytes(), &want.id].join(&b'\t');
        self.0.iter().flat_map(|want| [line(want), b"\n".to_vec()].concat()).collect()
    }

    /// Reads the articles of these lines; invalid lines are skipped.
    pub fn take(text: &[u8]) -> Self {
        let mut wanted = Self::default();
        for line in text.split(|b| *b == b'\n') {
            let mut words = line.split(|b| *b == b'\t');
            if let (Some(group), Some(number), Some(id), None) =
                (words.next(), words.next(), words.next(), words.next())
                && let Some(number) = netnews::decimal::parse_decimal(number)
                && group.is_empty() != id.is_empty()
            {
                wanted.add(MissedArticle { group: group.into(), number, id: id.into() });
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wants_are_kept_in_order_once_and_bounded() {
        let by_number = |number| MissedArticle { group: b"a.b".into(), number, id: Vec::new() };
        let mut wanted = MissedList::default();
        (0..=WANTS_MAX as u64).for_each(|n| wanted.add(by_number(n)));
        wanted.add(by_number(5));
        assert_eq!(wanted.all().len(), WANTS_MAX);
        assert_eq!(wanted.all()[0], by_number(1));
        let by_id = MissedArticle { group: Vec::new(), number: 0, id: b"<1@x>".into() };
        wanted.add(by_id.clone());
        wanted.remove(&by_number(3));
        assert_eq!(MissedList::take(&wanted.put()).all(), wanted.all());
        assert_eq!(wanted.all().last(), Some(&by_id));
        assert_eq!(MissedList::take(b"a\tb\tc\n\t1\t\na\t1\t<x@y>\nx\n\n").all(), []);
    }
}
