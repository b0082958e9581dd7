//! Cached data of one group of an upstream: marks, existing numbers, overview rows, articles.
//!
//! A thin layer over the store: adds times, and turns a failure of the store into another request to the
//! upstream and a line in the log.

use crate::NeighbourSide;
use disk::ReadMode;
use netnews::GroupMarks;
use newscache::{Cache, CacheAccess, CacheHit, GroupOutcome, Neighbour, RowCoverage};
use site_base::clock::unix_secs;
use std::io;
use std::ops::RangeInclusive;
use tokio::task::block_in_place;
use tracing::warn;

use super::rows::size_in;
use super::trouble::UpstreamError;

/// Cached data of a group.
pub(super) struct CachedGroup(newscache::CacheGroup);

impl CachedGroup {
    /// Returns the shelf of a group of the upstream `origin`.
    pub fn of(cache: &Cache, origin: &str, name: &[u8]) -> Self {
        Self(cache.group(origin, name, unix_secs()))
    }

    /// Runs an operation on the store; returns the default if it fails.
    fn done<T: Default>(&self, done: impl FnOnce(&newscache::CacheGroup) -> io::Result<T>) -> T {
        self.judged(block_in_place(|| done(&self.0)))
    }

    /// Runs an operation on the group's index alone, which is mostly in memory and then does not block.
    fn known<T: Default>(&self, known: impl FnOnce(&newscache::CacheGroup) -> io::Result<T>) -> T {
        if self.0.is_at_hand() { self.judged(known(&self.0)) } else { self.done(known) }
    }

    fn judged<T: Default>(&self, done: io::Result<T>) -> T {
        done.unwrap_or_else(|error| {
            let group = super::trouble::shown(self.0.name());
            warn!(group, %error, "the cache cannot be used");
            T::default()
        })
    }

    /// Counts a request of a reader for the group.
    pub fn record(&self, access: &CacheAccess<'_>) {
        self.0.record(access);
    }

    pub fn marks(&self) -> Option<GroupMarks> {
        Some(self.0.marks()?.value)
    }

    /// Sets the marks as the upstream has them now; returns true if the group was renumbered, and its
    /// cached data dropped. `are_same`: a number is known to have the same article as before.
    pub fn set_marks(&self, marks: GroupMarks, are_same: bool) -> bool {
        self.done(|group| {
            let now = unix_secs();
            let set =
                if are_same { group.set_marks_of_same(marks, now) } else { group.set_marks(marks, now) };
            Ok(set? == GroupOutcome::Anew)
        })
    }

    /// Drops all data.
    pub fn begin_anew(&self) {
        self.done(|group| group.begin_anew(unix_secs()));
    }

    /// Records that these numbers of a range, ascending, have articles, and no others.
    pub fn set_numbers(&self, range: &RangeInclusive<u64>, numbers: &[u64]) {
        self.done(|group| group.set_numbers(range.clone(), numbers, unix_secs()).map(|_| ()));
    }

    /// Returns how many articles there are in a range; `None` if unknown.
    pub fn count(&self, range: RangeInclusive<u64>) -> Option<u64> {
        self.known(|group| group.count(range))
    }

    /// Returns an error if numbers of a range are unknown although the upstream was just asked for them: with
    /// too many gaps they are not kept.
    pub fn all_kept(&self, range: RangeInclusive<u64>) -> Result<(), UpstreamError> {
        let error = || UpstreamError::Away("the group has too many gaps to keep its numbers".into());
        self.count(range).map(|_| ()).ok_or_else(error)
    }

    /// Returns the first number of a range that no LISTGROUP has covered yet.
    pub fn unknown(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let (first, last) = range.into_inner();
        match self.known(|group| group.known_numbers()).map(|asked| asked.value) {
            Some(known) if known.contains(&first) => (*known.end() < last).then(|| known.end() + 1),
            _ => Some(first),
        }
    }

    /// Returns whether it is known without I/O that no LISTGROUP has covered the group.
    pub fn knows_no_numbers(&self) -> bool {
        self.0.knows_no_numbers()
    }

    /// Returns whether a number has an article; `None` if unknown.
    pub fn exists(&self, number: u64) -> Option<bool> {
        self.known(|group| group.exists(number))
    }

    /// Appends the numbers of a range that have articles, at most `max`; returns false if not all are
    /// known.
    pub fn numbers(&self, range: RangeInclusive<u64>, max: usize, into: &mut Vec<u64>) -> bool {
        self.known(|group| group.numbers(range, max, into))
    }

    /// Stores the rows of a range as sent by OVER: its numbers without a row have no article. Returns whether
    /// they show that the group was renumbered, and its cached data was dropped; `None` if they cannot be
    /// kept.
    pub fn put_rows(&self, range: RangeInclusive<u64>, rows: &[u8]) -> Option<bool> {
        self.done(|group| Ok(Some(group.put_rows(range, rows, unix_secs())? == GroupOutcome::Anew)))
    }

    /// Appends the rows of a range until they exceed this many bytes.
    pub fn rows(&self, range: RangeInclusive<u64>, limit_bytes: usize, into: &mut Vec<u8>) -> RowCoverage {
        let (start, missing) = (into.len(), RowCoverage::Missing { range: range.clone() });
        let covered = self.done(|group| group.rows(range, limit_bytes, into, unix_secs()).map(Some));
        covered.unwrap_or_else(|| {
            // Some may have been read before the disk failed.
            into.truncate(start);
            missing
        })
    }

    /// Returns the first part of a range whose rows are missing, without reading any.
    pub fn missing_rows(&self, range: RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        self.done(|group| group.missing_rows(range))
    }

    /// Returns a known row.
    pub fn row(&self, number: u64) -> Option<Box<[u8]>> {
        let mut row = Vec::new();
        let rows = self.rows(number..=number, usize::MAX, &mut row);
        (rows == RowCoverage::Done && !row.is_empty()).then(|| row.into())
    }

    /// Returns the size in a row.
    pub fn size_of(&self, number: u64) -> Option<u64> {
        self.row(number).as_deref().and_then(size_in)
    }

    /// Returns the Message-ID of a number, if it is known.
    pub fn id_of(&self, number: u64) -> Option<Vec<u8>> {
        self.done(|group| group.id_of(number))
    }

    /// Returns the highest number up to this one whose article is cached, and the highest whose row may be.
    pub fn last_known(&self, number: u64) -> [Option<u64>; 2] {
        self.done(|group| group.last_known(number))
    }

    /// Returns whether the article of a number appears to be cached.
    pub fn has(&self, number: u64) -> bool {
        self.done(|group| group.has(number, unix_secs()))
    }

    /// Returns the article next to a number on this side, within a range that is completely known.
    pub fn neighbour(&self, range: RangeInclusive<u64>, side: NeighbourSide) -> Option<u64> {
        let (from, side) = match side {
            NeighbourSide::Next => (range.start().saturating_sub(1), newscache::NeighbourDirection::Next),
            NeighbourSide::Previous => {
                (range.end().saturating_add(1), newscache::NeighbourDirection::Previous)
            }
        };
        match self.known(|group| group.neighbour(from, side).map(Some)) {
            Some(Neighbour::Number(number)) => Some(number).filter(|number| range.contains(number)),
            _ => None,
        }
    }

    /// Records that there is no article with this number any more.
    pub fn forget(&self, number: u64) {
        self.done(|group| group.forget(number, unix_secs()));
    }

    /// Appends the header lines of an article, and perhaps more of it.
    pub fn head_of(&self, number: u64, into: &mut Vec<u8>) -> Option<Vec<u8>> {
        self.done(|group| {
            let mut bytes = Vec::new();
            let Some(found) = group.find(number, ReadMode::Wait, &mut bytes, unix_secs())? else {
                return group.head(number, ReadMode::Wait, into, unix_secs());
            };
            let id = found.id_in(&bytes).to_vec();
            match found.large {
                Some(mut large) => _ = large.read_head(ReadMode::Wait, into)?,
                None => into.extend_from_slice(bytes.get(found.from..).unwrap_or_default()),
            }
            Ok(Some(id))
        })
    }

    /// Reads an article into a buffer, replacing its content; reads nothing of a large one.
    pub fn find(
        &self,
        number: u64,
        patience: ReadMode,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<CacheHit>> {
        self.0.find(number, patience, into, now)
    }

    /// Appends the header lines of an article of which only these are kept; returns its Message-ID.
    pub fn head(&self, number: u64, patience: ReadMode, into: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        self.0.head(number, patience, into, unix_secs())
    }

    /// Keeps the header lines of an article. Returns true if they show that the group was renumbered.
    pub fn put_head(&self, number: u64, id: &[u8], head: &[u8]) -> bool {
        self.done(|group| Ok(group.put_head(number, id, head, unix_secs())? == GroupOutcome::Anew))
    }

    /// Keeps an article. Returns true if it shows that the group was renumbered.
    pub fn put_article(&self, number: u64, id: &[u8], article: &[u8]) -> bool {
        self.done(|group| Ok(group.put_article(number, id, article, unix_secs())? == GroupOutcome::Anew))
    }
}
