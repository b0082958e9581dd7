//! Index of a group's articles and rows, in memory while the group is in use.
//!
//! Without a disk. Built from the records of the files in the order in which they were written; of two
//! records about one number the later one counts. Called by `group`.

use std::ops::RangeInclusive;

use memchr::memmem;
use netnews::overview_row::{self, OverviewFields};
use netnews::{Article, Known, date};

use crate::base::record::{CacheRecord, RecordKind, hash};
use crate::index::ascending::AscendingMap;
use crate::index::runs::NumberRuns;

/// Value of `last` in an article's record of which no row can be made.
pub(crate) const WITHOUT_ROW: u64 = 1;
/// Minimum number of dead bytes for which a file is compacted.
const WASTE_BYTES_MIN: u64 = 4096;
/// Minimum number of fields of a row (RFC 3977 section 8.3).
const ROW_FIELDS_MIN: usize = 8;

/// Position of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub seq: u32,
    pub at: u32,
    pub bytes: u32,
}

/// Index entry of a number's article, in 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArticleEntry {
    seq: u32,
    at: u32,
    /// Length of the record, a multiple of eight, with flags in the low bits.
    bytes: u32,
    /// Hash of its Message-ID.
    pub id: u32,
}

const IS_LINK: u32 = 1;
const HAS_ROW: u32 = 2;

impl ArticleEntry {
    fn new(place: RecordPosition, id: u32, is_link: bool, has_row: bool) -> Self {
        let flags = if is_link { IS_LINK } else { 0 } | if has_row { HAS_ROW } else { 0 };
        Self { seq: place.seq, at: place.at, bytes: place.bytes | flags, id }
    }

    pub fn place(self) -> RecordPosition {
        RecordPosition { seq: self.seq, at: self.at, bytes: self.bytes & !(IS_LINK | HAS_ROW) }
    }

    /// Returns whether the article is stored elsewhere.
    pub fn is_link(self) -> bool {
        self.bytes & IS_LINK != 0
    }

    /// Returns whether the row can be made of the article.
    pub fn has_row(self) -> bool {
        self.bytes & HAS_ROW != 0
    }
}

/// Rows of consecutive numbers: from its key in the table to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowBlock {
    pub last: u64,
    pub place: RecordPosition,
}

/// A file of the group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupSegment {
    /// Unit of the file in the books.
    pub unit: u32,
    /// Position of the next record.
    pub end: u64,
    /// Bytes of records that are no longer valid.
    pub dead: u64,
    /// True if nothing more is appended, as after an error.
    pub is_sealed: bool,
    pub first: u64,
    pub last: u64,
}

/// Existing numbers, as far as upstream was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownNumbers {
    pub first: u64,
    pub last: u64,
    pub at: u64,
    pub runs: NumberRuns,
}

/// Index of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupIndex {
    segments: AscendingMap<GroupSegment>,
    pub articles: AscendingMap<ArticleEntry>,
    blocks: AscendingMap<RowBlock>,
    gone: NumberRuns,
    pub numbers: Option<KnownNumbers>,
    pub numbers_unit: u32,
    /// Files of which more than half is dead.
    pub wasteful: Vec<u32>,
    /// Generation of the indexed files.
    pub generation: u64,
    /// Number of removals that the index has applied.
    pub removals: u32,
    /// Value of the books' count of changes that the index has applied.
    pub changes: u64,
    /// Low water mark, as in the books: lower numbers do not exist.
    pub low: u64,
}

/// Returns a short hash of a Message-ID.
pub(crate) fn short_hash(id: &[u8]) -> u32 {
    short(hash(&[id]))
}

/// Returns the short hash from the whole one.
pub(crate) fn short(hash: u128) -> u32 {
    hash as u32
}

impl GroupIndex {
    /// Returns the share of the limit for indexes, in entries.
    pub fn weight(&self) -> usize {
        let runs = self.gone.runs() + self.numbers.as_ref().map_or(0, |numbers| numbers.runs.runs());
        self.articles.len() + self.blocks.len() + self.segments.len() + runs / 2
    }

    /// Returns the approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        let runs = self.gone.runs() + self.numbers.as_ref().map_or(0, |numbers| numbers.runs.runs());
        size_of::<Self>()
            + self.segments.bytes()
            + self.articles.bytes()
            + self.blocks.bytes()
            + runs * size_of::<(u64, u64)>()
    }

    /// Adds a file.
    pub fn add_segment(&mut self, seq: u32, segment: GroupSegment) {
        self.segments.insert(seq.into(), segment);
    }

    /// Returns a file of the group.
    pub fn segment(&self, seq: u32) -> Option<GroupSegment> {
        self.segments.get(seq.into())
    }

    pub fn segment_mut(&mut self, seq: u32) -> Option<&mut GroupSegment> {
        self.segments.get_mut(seq.into())
    }

    /// Returns the files, the oldest first.
    pub fn segments(&self) -> impl Iterator<Item = (u32, GroupSegment)> {
        self.segments.iter().map(|(seq, segment)| (seq as u32, segment))
    }

    /// Returns the newest file.
    pub fn newest(&self) -> Option<(u32, GroupSegment)> {
        self.segments.last().map(|(seq, segment)| (seq as u32, segment))
    }

    /// Applies a record to the index.
    pub fn apply(&mut self, record: &CacheRecord<'_>, seq: u32, at: usize) {
        let place = RecordPosition { seq, at: at as u32, bytes: record.bytes() as u32 };
        let (first, mut last) = (record.number, record.number);
        match record.kind {
            RecordKind::Article | RecordKind::Link => {
                let is_link = record.kind == RecordKind::Link;
                let has_row = !is_link && record.last != WITHOUT_ROW;
                let entry = ArticleEntry::new(place, short_hash(record.id), is_link, has_row);
                if let Some(old) = self.articles.insert(first, entry) {
                    self.bury(old.place());
                }
                self.gone.remove(&(first..=first));
            }
            RecordKind::Rows if record.number <= record.last => {
                last = record.last;
                self.gone.remove(&(first..=last));
                self.uncover(&(first..=last));
                self.blocks.insert(first, RowBlock { last, place });
            }
            RecordKind::Gone => {
                if let Some(old) = self.articles.remove(first) {
                    self.bury(old.place());
                }
                self.gone.insert(&(first..=first));
            }
            _ => return,
        }
        if let Some(segment) = self.segments.get_mut(seq.into()) {
            let is_new = segment.first > segment.last;
            segment.first = if is_new { first } else { segment.first.min(first) };
            segment.last = if is_new { last } else { segment.last.max(last) };
        }
    }

    fn bury(&mut self, place: RecordPosition) {
        let Some(segment) = self.segments.get_mut(place.seq.into()) else { return };
        let half = (segment.end / 2).max(WASTE_BYTES_MIN);
        let was_less = segment.dead <= half;
        segment.dead += u64::from(place.bytes);
        if was_less && segment.dead > half {
            self.wasteful.push(place.seq);
        }
    }

    /// Returns whether upstream was found to lack the article, even if it listed the number.
    pub fn is_forgotten(&self, number: u64) -> bool {
        self.gone.contains(number)
    }

    /// Returns the blocks that begin in a range.
    pub fn blocks(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, RowBlock)> {
        self.blocks.range(range)
    }

    /// Removes the rows of a range from all blocks; a block without remaining rows is dead.
    fn uncover(&mut self, range: &RangeInclusive<u64>) {
        let (start, end) = (*range.start(), *range.end());
        let before = start.checked_sub(1).and_then(|before| self.blocks.up_to(before));
        let from = before.filter(|(_, block)| block.last >= start).map_or(start, |(first, _)| first);
        let touched: Vec<(u64, RowBlock)> = self.blocks.range(from..=end).collect();
        for (first, block) in touched {
            self.blocks.remove(first);
            if first < start {
                self.blocks.insert(first, RowBlock { last: start - 1, ..block });
            }
            if block.last > end {
                self.blocks.insert(end + 1, block);
            }
            if first >= start && block.last <= end {
                self.bury(block.place);
            }
        }
    }

    /// Returns the block that covers a number.
    pub fn block(&self, number: u64) -> Option<(u64, RowBlock)> {
        self.blocks.up_to(number).filter(|(_, block)| block.last >= number)
    }

    /// Returns the highest number up to this one whose article is indexed, and the highest that a block of
    /// rows covers.
    pub fn last_known(&self, number: u64) -> [Option<u64>; 2] {
        let covered = self.blocks.up_to(number).map(|(_, block)| block.last.min(number));
        [self.articles.up_to(number).map(|(number, _)| number), covered]
    }

    /// Returns the first number after this one that a block covers.
    pub fn next_block(&self, number: u64) -> Option<u64> {
        self.blocks.from(number).map(|(first, _)| first)
    }

    /// Returns whether the article of a number is known not to exist.
    pub fn is_gone(&self, number: u64) -> bool {
        self.gone.contains(number) || self.exists(number) == Some(false)
    }

    /// Returns whether upstream has a number; `None` if it was not asked.
    pub fn exists(&self, number: u64) -> Option<bool> {
        let numbers = self.numbers.as_ref()?;
        (numbers.first..=numbers.last).contains(&number).then(|| numbers.runs.contains(number))
    }

    /// Returns the parts of a range that no block covers.
    pub fn uncovered(&self, range: &RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let (mut at, end) = (*range.start(), *range.end());
        let mut parts = Vec::new();
        while at <= end {
            let Some((_, block)) = self.block(at) else {
                let next = self.next_block(at).filter(|next| *next <= end);
                parts.push(at..=next.map_or(end, |next| next - 1));
                match next {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            };
            match block.last.checked_add(1) {
                Some(next) => at = next,
                None => break,
            }
        }
        parts
    }

    /// Drops all entries of a file. Its rows and articles are then fetched again.
    pub fn remove_segment(&mut self, seq: u32) {
        let segment = self.segments.remove(seq.into());
        let Some(segment) = segment.filter(|segment| segment.first <= segment.last) else { return };
        let range = segment.first..=segment.last;
        let articles = self.articles.range(range.clone()).filter(|(_, entry)| entry.seq == seq);
        for number in articles.map(|(number, _)| number).collect::<Vec<_>>() {
            self.articles.remove(number);
        }
        let blocks = self.blocks.range(range).filter(|(_, block)| block.place.seq == seq);
        for first in blocks.map(|(first, _)| first).collect::<Vec<_>>() {
            self.blocks.remove(first);
        }
    }

    /// Drops the numbers below `low`, which no longer exist.
    pub fn expire(&mut self, low: u64) {
        if low == 0 {
            return;
        }
        for (_, entry) in self.articles.remove_below(low).iter() {
            self.bury(entry.place());
        }
        self.uncover(&(0..=low - 1));
        self.gone.remove(&(0..=low - 1));
        if let Some(numbers) = &mut self.numbers {
            numbers.runs.remove(&(0..=low - 1));
        }
    }

    /// Records the answer to LISTGROUP for a range, joined with the known range if the two touch. Returns the
    /// numbers that no longer exist, and how many exist that did not.
    pub fn set_numbers(&mut self, range: &RangeInclusive<u64>, runs: NumberRuns, at: u64) -> (Vec<u64>, u64) {
        let (first, last) = (*range.start(), *range.end());
        let mut cancelled: Vec<u64> =
            self.articles.range(range.clone()).map(|(n, _)| n).filter(|n| !runs.contains(*n)).collect();
        let mut reinstated = 0;
        match &mut self.numbers {
            Some(known) if first <= known.last.saturating_add(1) && last.saturating_add(1) >= known.first => {
                let asked_before = first.max(known.first)..=last.min(known.last);
                for (from, to) in runs.pieces(&asked_before) {
                    reinstated += to - from + 1 - known.runs.count(&(from..=to));
                }
                for (from, to) in known.runs.pieces(&asked_before).collect::<Vec<_>>() {
                    cancelled.extend((from..=to).filter(|n| !runs.contains(*n)));
                }
                known.runs.replace(range, &runs);
                (known.first, known.last) = (known.first.min(first), known.last.max(last));
                known.at = at;
            }
            _ => self.numbers = Some(KnownNumbers { first, last, at, runs: runs.clone() }),
        }
        for (from, to) in runs.pieces(range).collect::<Vec<_>>() {
            self.gone.remove(&(from..=to));
        }
        cancelled.sort_unstable();
        cancelled.dedup();
        for number in &cancelled {
            if let Some(old) = self.articles.remove(*number) {
                self.bury(old.place());
            }
        }
        (cancelled, reinstated)
    }

    /// Records that upstream has no row for listed numbers of a range: they were cancelled meanwhile.
    pub fn not_listed(&mut self, range: &RangeInclusive<u64>, with_row: &NumberRuns) -> bool {
        let Some(numbers) = &mut self.numbers else { return false };
        let known = numbers.first.max(*range.start())..=numbers.last.min(*range.end());
        if known.is_empty() {
            return false;
        }
        let before = numbers.runs.count(&known);
        numbers.runs.replace(&known, with_row);
        numbers.runs.count(&known) != before
    }
}

/// A row as upstream sent it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpstreamRow<'a> {
    pub number: u64,
    /// Text with its CRLF.
    pub line: &'a [u8],
}

impl<'a> UpstreamRow<'a> {
    /// Returns the Message-ID.
    pub fn id(&self) -> &'a [u8] {
        overview_row::field(self.line, overview_row::index::MESSAGE_ID).unwrap_or_default()
    }
}

/// Returns the rows of an answer or a block; an item is `None` where a line is not a row, or is out of order.
pub(crate) fn rows(text: &[u8]) -> impl Iterator<Item = Option<UpstreamRow<'_>>> {
    let mut before = None;
    text.split_inclusive(|b| *b == b'\n').map(move |line| {
        let digits = overview_row::field(line, overview_row::index::NUMBER)?;
        let number = netnews::decimal::parse_decimal(digits)?;
        let fields = memchr::memchr_iter(b'\t', line).count() + 1;
        let is_row = fields >= ROW_FIELDS_MIN && line.ends_with(b"\r\n") && before < Some(number);
        before = Some(number);
        is_row.then_some(UpstreamRow { number, line })
    })
}

/// A line of a block: a row, or a number alone, whose row is made of its article.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLine<'a> {
    pub number: u64,
    /// Text with its CRLF.
    pub text: &'a [u8],
    pub is_row: bool,
}

/// Returns the lines of a block.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = RowLine<'_>> {
    text.split_inclusive(|b| *b == b'\n').filter_map(|text| {
        let digits = overview_row::field(text, overview_row::index::NUMBER)?;
        let number = netnews::decimal::parse_decimal(digits)?;
        Some(RowLine { number, text, is_row: memchr::memchr(b'\t', text).is_some() })
    })
}

/// Appends the row of an article, with these further headers; returns false, and appends nothing, if none can
/// be made of it.
pub(crate) fn append_row(
    number: u64,
    id: &[u8],
    article: &[u8],
    headers: &[String],
    into: &mut Vec<u8>,
) -> bool {
    let Ok(article) = Article::parse(article) else { return false };
    let mut text = Vec::with_capacity(512);
    overview_row::append_fields(&OverviewFields::of(&article, id), &mut text);
    overview_row::append_headers(article.head(), headers, &mut text);
    overview_row::append_row(number, &text, article.content(Known::Xref).unwrap_or_default(), into);
    true
}

/// Size of the part of an article that is searched for its Date, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Returns the time of expiry by the Expires header, or otherwise the time of posting.
pub(crate) fn expires(article: &[u8], now: u64) -> u64 {
    let head = article.get(..HEAD_BYTES_MAX).unwrap_or(article);
    let head = memmem::find(head, b"\r\n\r\n").and_then(|end| head.get(..end)).unwrap_or(head);
    let header = |name: &[u8]| {
        let at = memmem::find(head, name)? + name.len();
        let value = head.get(at..)?.split(|b| *b == b'\r').next()?;
        date::parse(value.trim_ascii()).and_then(|secs| u64::try_from(secs).ok())
    };
    header(b"\r\nExpires:").or_else(|| header(b"\r\nDate:")).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: RecordKind, number: u64, last: u64) -> CacheRecord<'static> {
        CacheRecord { kind, number, last, id: b"<a@b>", payload: b"" }
    }

    fn loaded() -> GroupIndex {
        let mut loaded = GroupIndex::default();
        loaded.add_segment(0, GroupSegment { first: 1, ..GroupSegment::default() });
        loaded.add_segment(1, GroupSegment { first: 1, ..GroupSegment::default() });
        loaded
    }

    #[test]
    fn later_rows_replace_older_ones_and_the_rest_stays() {
        let mut loaded = loaded();
        loaded.apply(&record(RecordKind::Rows, 10, 20), 0, 0);
        loaded.apply(&record(RecordKind::Rows, 13, 15), 1, 100);
        let seq = |n| loaded.block(n).map(|(first, block)| (first, block.last, block.place.seq));
        assert_eq!(seq(12), Some((10, 12, 0)));
        assert_eq!(seq(15), Some((13, 15, 1)));
        assert_eq!(seq(20), Some((16, 20, 0)));
        assert_eq!((seq(9), seq(21)), (None, None));
        assert_eq!(loaded.uncovered(&(8..=22)), [8..=9, 21..=22]);
        loaded.remove_segment(1);
        assert_eq!(loaded.uncovered(&(8..=22)), [8..=9, 13..=15, 21..=22]);
        loaded.expire(18);
        assert_eq!(loaded.uncovered(&(8..=20)), [8..=17]);
    }

    #[test]
    fn index_of_one_article_is_small_and_grows_by_24_bytes_each() {
        let mut one = GroupIndex::default();
        one.add_segment(0, GroupSegment { first: 1, ..GroupSegment::default() });
        one.apply(&record(RecordKind::Article, 7, 0), 0, 0);
        assert!(one.bytes() < 400, "{}", one.bytes());
        let mut many = loaded();
        (1..=100_000).for_each(|number| many.apply(&record(RecordKind::Article, number, 0), 1, 48));
        assert!(many.bytes() < 100_000 * 25, "{}", many.bytes());
        let entry = many.articles.get(100_000).unwrap();
        assert_eq!(entry.place(), RecordPosition { seq: 1, at: 48, bytes: 48 });
        assert!(entry.has_row() && !entry.is_link() && entry.id == short_hash(b"<a@b>"));
        many.apply(&record(RecordKind::Link, 5, 0), 1, 96);
        let entry = many.articles.get(5).unwrap();
        assert_eq!((entry.place().bytes, entry.is_link(), entry.has_row()), (48, true, false));
        many.apply(&record(RecordKind::Article, 5, WITHOUT_ROW), 1, 96);
        let entry = many.articles.get(5).unwrap();
        assert!(!entry.is_link() && !entry.has_row());
    }

    #[test]
    fn cancelled_numbers_leave_and_reinstated_ones_are_counted() {
        let mut loaded = loaded();
        loaded.apply(&record(RecordKind::Article, 3, 0), 0, 0);
        let known = |loaded: &mut GroupIndex, range, numbers: &[u64]| {
            loaded.set_numbers(&range, NumberRuns::of(numbers), 9)
        };
        assert_eq!(known(&mut loaded, 1..=5, &[1, 2, 4, 5]), (vec![3], 0));
        assert!(loaded.articles.is_empty() && loaded.is_gone(3) && !loaded.is_gone(6));
        assert_eq!(known(&mut loaded, 6..=8, &[6]), (vec![], 0));
        assert_eq!(known(&mut loaded, 2..=7, &[3, 4, 5, 6, 7]), (vec![2], 2));
        let numbers = loaded.numbers.as_ref().unwrap();
        assert_eq!((numbers.first, numbers.last), (1, 8));
        assert_eq!(numbers.runs, NumberRuns::of(&[1, 3, 4, 5, 6, 7]));
        assert!(loaded.not_listed(&(3..=4), &NumberRuns::of(&[4])));
        assert!(loaded.is_gone(3));
    }

    #[test]
    fn invalid_rows_are_reported() {
        let text = b"1\ta\tb\tc\t<d@e>\t\t5\t6\r\n\
            3\ta\tb\tc\t<f@g>\t\t5\t6\tXref: h x:3\r\n2\ta\tb\tc\t<d@e>\t\t5\t6\r\nx\r\n";
        let found: Vec<_> = rows(text).map(|row| row.map(|row| (row.number, row.id()))).collect();
        assert_eq!(found, [Some((1, &b"<d@e>"[..])), Some((3, b"<f@g>")), None, None]);
    }

    #[test]
    fn a_row_is_made_of_an_article() {
        let article = b"Path: a\r\nFrom: b@c\r\nSubject: s\r\nDate: d\r\nMessage-ID: <x@y>\r\n\
            Xref: h g:7\r\n\r\nbody\r\n";
        let mut row = Vec::new();
        assert!(append_row(7, b"<x@y>", article, &[], &mut row));
        let expected = format!("7\ts\tb@c\td\t<x@y>\t\t{}\t1\tXref: h g:7\r\n", article.len());
        assert_eq!(String::from_utf8(row.clone()).unwrap(), expected);
        assert!(!append_row(7, b"<x@y>", b"no article", &[], &mut row));
    }
}
