//! What ties articles into threads: the Message-IDs, References and subjects of overview rows, as hashes.
//!
//! Two rows are in one thread only if a chain of rows leads from one to the other in which each has a
//! Message-ID, its own or one of References, or a subject but for `Re:`, in common with the next. [`tied`]
//! follows these chains, so that a thread can be made of the rows that they reach instead of all rows around
//! an article. The thread is the same: the rows that are left out share nothing with it, and what is reached
//! in addition, as by equal hashes of different texts, is in threads of its own. Hashes are keyed, so that
//! authors cannot choose equal ones. Called by the web server.

use crate::threads::{ThreadRow, base_subject};
use crate::work;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Numbers of articles in a block.
pub const BLOCK_NUMBERS: u64 = 256;
/// Maximum number of hashes that are followed from an article; threads with more are made of all rows around.
const FOLLOWED_MAX: usize = 4_096;

/// Makes the hashes of one server.
#[derive(Debug, Default)]
pub struct TieHasher(RandomState);

/// What a hash is made of.
#[derive(Hash)]
enum Tie<'a> {
    Id(&'a str),
    Subject(&'a str),
}

impl TieHasher {
    fn hash(&self, tie: Tie<'_>) -> u32 {
        self.0.hash_one(tie) as u32
    }

    fn hashes_of(&self, row: &ThreadRow) -> Vec<u32> {
        let ids = std::iter::once(&row.message_id).chain(&row.references);
        let (subject, _) = base_subject(&row.subject);
        let subject = Some(subject).filter(|subject| !subject.is_empty());
        ids.map(|id| Tie::Id(id)).chain(subject.map(Tie::Subject)).map(|tie| self.hash(tie)).collect()
    }
}

/// A row of a block.
#[derive(Debug, Clone, Copy)]
struct TiedRow {
    /// Number of its article, less that of the block.
    offset: u8,
    /// End of its hashes, which begin where those of the row before end.
    end: u16,
}

/// A hash, and the row that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HashedRow {
    hash: u32,
    offset: u8,
}

/// The ties of the articles with [`BLOCK_NUMBERS`] consecutive numbers, as far as their rows were read.
#[derive(Debug, Clone, Default)]
pub struct TieBlock {
    /// Number of its first article.
    first: u64,
    /// Rows, ascending.
    rows: Box<[TiedRow]>,
    /// Hashes, row by row.
    hashes: Box<[u32]>,
    /// Hashes with their rows, sorted.
    by_hash: Box<[HashedRow]>,
}

impl TieBlock {
    /// Returns the block for an article, without a row.
    pub fn around(number: u64) -> Self {
        Self { first: number - number % BLOCK_NUMBERS, ..Self::default() }
    }

    /// Returns the block with these rows in addition; rows with other numbers are ignored.
    #[must_use]
    pub fn with(&self, hasher: &TieHasher, rows: &[ThreadRow]) -> Self {
        let mut all: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for row in &self.rows {
            all.insert(row.offset, self.hashes_at(row.offset).to_vec());
        }
        for row in rows {
            if let Some(offset) = self.offset_of(row.number) {
                all.insert(offset, hasher.hashes_of(row));
            }
        }
        let (mut rows, mut hashes, mut by_hash) = (Vec::with_capacity(all.len()), Vec::new(), Vec::new());
        for (offset, own) in all {
            by_hash.extend(own.iter().map(|hash| HashedRow { hash: *hash, offset }));
            hashes.extend(own);
            rows.push(TiedRow { offset, end: u16::try_from(hashes.len()).unwrap_or(u16::MAX) });
        }
        by_hash.sort_unstable();
        Self { first: self.first, rows: rows.into(), hashes: hashes.into(), by_hash: by_hash.into() }
    }

    /// Returns whether the row of an article was read.
    pub fn has(&self, number: u64) -> bool {
        self.offset_of(number).is_some_and(|offset| self.row_at(offset).is_ok())
    }

    /// Returns the memory that the block takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.rows)
            + size_of_val(&*self.hashes)
            + size_of_val(&*self.by_hash)
    }

    fn offset_of(&self, number: u64) -> Option<u8> {
        u8::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Returns the index of a row, or that of the first row after it.
    fn row_at(&self, offset: u8) -> Result<usize, usize> {
        self.rows.binary_search_by_key(&offset, |row| row.offset)
    }

    fn hashes_at(&self, offset: u8) -> &[u32] {
        let Ok(at) = self.row_at(offset) else { return &[] };
        let end = |at: usize| self.rows.get(at).map_or(0, |row| usize::from(row.end));
        self.hashes.get(at.checked_sub(1).map_or(0, end)..end(at)).unwrap_or(&[])
    }

    fn hashes_of(&self, number: u64) -> &[u32] {
        self.offset_of(number).map_or(&[], |offset| self.hashes_at(offset))
    }

    /// Returns the numbers of the articles that have this hash.
    fn with_hash(&self, hash: u32) -> impl Iterator<Item = u64> {
        let begin = self.by_hash.partition_point(|row| row.hash < hash);
        let rows = self.by_hash.iter().skip(begin).take_while(move |row| row.hash == hash);
        rows.map(|row| self.first + u64::from(row.offset))
    }
}

/// Returns the numbers of the articles in a range of these blocks that are tied to one, ascending and with
/// it; `None` if there is too much to follow. Takes a step for each hash and block.
pub fn tied(blocks: &[Arc<TieBlock>], range: &RangeInclusive<u64>, number: u64) -> Option<Vec<u64>> {
    let mut reached = HashSet::from([number]);
    let mut followed = HashSet::new();
    let mut waiting = vec![number];
    while let Some(number) = waiting.pop() {
        for hash in blocks.iter().flat_map(|block| block.hashes_of(number)) {
            if !followed.insert(*hash) {
                continue;
            }
            if followed.len() > FOLLOWED_MAX || !work::take(blocks.len()) {
                return None;
            }
            let rows = blocks.iter().flat_map(|block| block.with_hash(*hash));
            waiting.extend(rows.filter(|number| range.contains(number) && reached.insert(*number)));
        }
    }
    let mut reached: Vec<u64> = reached.into_iter().collect();
    reached.sort_unstable();
    Some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::{REFERENCES_MAX, Thread, threads};
    use proptest::prelude::*;

    fn row(number: u64, id: &str, references: &[&str], subject: &str) -> ThreadRow {
        ThreadRow {
            number,
            subject: subject.to_owned(),
            date: Some(number as i64),
            message_id: format!("<{id}@x>"),
            references: references.iter().map(|id| format!("<{id}@x>")).collect(),
            ..ThreadRow::default()
        }
    }

    /// Returns the blocks of these rows, of which every third is read later than the others.
    fn blocks(rows: &[ThreadRow]) -> Vec<Arc<TieBlock>> {
        let hasher = TieHasher::default();
        let block = |rows: &[ThreadRow]| {
            let (later, first): (Vec<_>, Vec<_>) = rows.iter().cloned().partition(|row| row.number % 3 == 0);
            let block = TieBlock::around(rows[0].number).with(&hasher, &first).with(&hasher, &later);
            assert!(rows.iter().all(|row| block.has(row.number)));
            Arc::new(block)
        };
        rows.chunk_by(|a, b| a.number / BLOCK_NUMBERS == b.number / BLOCK_NUMBERS).map(block).collect()
    }

    /// Returns the thread of an article as numbers and depths.
    fn thread_of(rows: &[ThreadRow], number: u64) -> Vec<(Option<u64>, usize)> {
        let is_it = |thread: &Thread| thread.rows().any(|at| rows[at].number == number);
        let thread = threads(rows).into_iter().find(is_it).unwrap();
        thread.nodes.iter().map(|node| (node.row.map(|at| rows[at].number), node.depth)).collect()
    }

    #[test]
    fn articles_are_tied_by_message_ids_references_and_subjects() {
        let rows = [
            row(1, "a", &[], "x"),
            row(300, "b", &["a"], "y"),
            row(600, "c", &["absent"], "Re: y"),
            row(601, "d", &["other", "absent"], "z"),
            row(602, "e", &[], ""),
            row(603, "f", &["e"], ""),
        ];
        let blocks = blocks(&rows);
        assert_eq!(blocks.len(), 3);
        let tied = |number| tied(&blocks, &(0..=700), number);
        assert_eq!(tied(601), Some(vec![1, 300, 600, 601]));
        let within = super::tied(&blocks, &(2..=700), 601);
        assert_eq!(within, Some(vec![300, 600, 601]), "others of the blocks are left out");
        assert_eq!(tied(603), Some(vec![602, 603]), "an empty subject is no tie");
        assert_eq!(tied(7), Some(vec![7]), "the row of the article itself was not read");
        assert!(!blocks[0].has(0) && !blocks[0].has(2) && !blocks[0].has(300));
    }

    #[test]
    fn the_rows_of_a_thread_of_ten_are_found_among_twenty_thousand() {
        let rows: Vec<ThreadRow> = (0..20_000_u64)
            .map(|n| {
                let (begin, before) = ((n - n % 10).to_string(), n.saturating_sub(1).to_string());
                let references: &[&str] = if n % 10 == 0 { &[] } else { &[&begin, &before] };
                row(n, &n.to_string(), references, &format!("Re: {}", n / 10))
            })
            .collect();
        let blocks = blocks(&rows);
        let (found, steps) = work::counted(|| tied(&blocks, &(11_345..=14_345), 12_345));
        assert_eq!(found, Some((12_340..12_350).collect()));
        assert!(steps <= 11 * blocks.len() as u64, "{steps} steps");
        let bytes: usize = blocks.iter().map(|block| block.bytes()).sum();
        assert!(bytes < 20_000 * 64, "{bytes} bytes");
    }

    #[test]
    fn too_many_ties_are_not_followed() {
        let rows: Vec<ThreadRow> = (0..BLOCK_NUMBERS)
            .map(|n| {
                let references: Vec<String> = (0..REFERENCES_MAX).map(|id| format!("{id}.{n}")).collect();
                let references: Vec<&str> = references.iter().map(String::as_str).collect();
                row(n, &n.to_string(), &references, "x")
            })
            .collect();
        let (found, steps) = work::counted(|| tied(&blocks(&rows), &(0..=BLOCK_NUMBERS), 0));
        assert_eq!(found, None);
        assert!(steps <= FOLLOWED_MAX as u64, "{steps} steps");
    }

    proptest! {
        #[test]
        fn a_thread_of_tied_rows_is_the_thread_of_all_rows(
            spec in prop::collection::vec((0..60_u8, prop::collection::vec(0..90_u8, 0..4), 0..40_u8, 0..90_i64), 1..60),
            chosen in any::<prop::sample::Index>(),
        ) {
            let rows: Vec<ThreadRow> = spec.iter().enumerate().map(|(n, (id, references, subject, date))| {
                let references: Vec<String> = references.iter().map(u8::to_string).collect();
                let references: Vec<&str> = references.iter().map(String::as_str).collect();
                let subject = format!("{}{}", ["", "Re: "][usize::from(*subject % 2)], subject / 2);
                ThreadRow { date: Some(*date), ..row(n as u64 * 40, &id.to_string(), &references, &subject) }
            }).collect();
            let number = rows[chosen.index(rows.len())].number;
            let numbers = tied(&blocks(&rows), &(0..=u64::MAX), number).unwrap();
            let of_thread: Vec<ThreadRow> =
                rows.iter().filter(|row| numbers.contains(&row.number)).cloned().collect();
            prop_assert_eq!(thread_of(&of_thread, number), thread_of(&rows, number));
        }
    }
}
