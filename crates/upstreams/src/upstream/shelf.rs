//! What is cached of one group of an upstream: marks, which numbers have articles, overview rows, articles.
//!
//! A thin layer over the store: times are added, and what the store cannot do costs that the upstream is
//! asked again, and a line in the log.

use crate::{Marks, Side};
use disk::Patience;
use newscache::{Access, Cache, Change, Found, Neighbour, Rows};
use site_base::clock::unix_secs;
use std::io;
use std::ops::RangeInclusive;
use tokio::task::block_in_place;
use tracing::warn;

use super::rows::size_in;

/// What is cached of a group.
pub(super) struct Shelf(newscache::Group);

fn theirs(marks: Marks) -> newscache::Marks {
    newscache::Marks { low: marks.low, high: marks.high, count: marks.count }
}

impl Shelf {
    /// That of a group of the upstream `origin`.
    pub fn of(cache: &Cache, origin: &str, name: &[u8]) -> Self {
        Self(cache.group(origin, name, unix_secs()))
    }

    /// What the store answers; without one, nothing.
    fn done<T: Default>(&self, done: impl FnOnce(&newscache::Group) -> io::Result<T>) -> T {
        self.judged(block_in_place(|| done(&self.0)))
    }

    /// The same of what the group's index says alone, which is mostly in memory: then nobody is held up.
    fn known<T: Default>(&self, known: impl FnOnce(&newscache::Group) -> io::Result<T>) -> T {
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
    pub fn record(&self, access: &Access<'_>) {
        self.0.record(access);
    }

    pub fn marks(&self) -> Option<Marks> {
        let marks = self.0.marks()?.value;
        Some(Marks { low: marks.low, high: marks.high, count: marks.count })
    }

    /// The marks as the upstream has them now; true: the group has other numbers, and all that was cached of
    /// it is gone.
    pub fn set_marks(&self, marks: Marks) -> bool {
        self.done(|group| Ok(group.set_marks(theirs(marks), unix_secs())? == Change::Anew))
    }

    /// Forgets all of it.
    pub fn begin_anew(&self) {
        self.done(|group| group.begin_anew(unix_secs()));
    }

    /// These numbers of a range have articles, ascending, and no others.
    pub fn set_numbers(&self, range: &RangeInclusive<u64>, numbers: &[u64]) {
        self.done(|group| group.set_numbers(range.clone(), numbers, unix_secs()).map(|_| ()));
    }

    /// How many articles there are in a range; `None`: not known.
    pub fn count(&self, range: RangeInclusive<u64>) -> Option<u64> {
        self.known(|group| group.count(range))
    }

    /// The first number of a range of which LISTGROUP has not said whether it has an article.
    pub fn unknown(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let (first, last) = range.into_inner();
        match self.known(|group| group.known_numbers()).map(|asked| asked.value) {
            Some(known) if known.contains(&first) => (*known.end() < last).then(|| known.end() + 1),
            _ => Some(first),
        }
    }

    /// Whether it is known at once that LISTGROUP has said nothing of it.
    pub fn knows_no_numbers(&self) -> bool {
        self.0.knows_no_numbers()
    }

    /// Whether a number has an article; `None`: not known.
    pub fn exists(&self, number: u64) -> Option<bool> {
        self.known(|group| group.exists(number))
    }

    /// Appends the numbers of a range that have articles, at most so many; false: not all are known.
    pub fn numbers(&self, range: RangeInclusive<u64>, max: usize, into: &mut Vec<u64>) -> bool {
        self.known(|group| group.numbers(range, max, into))
    }

    /// The rows of a range as OVER sent them: numbers of it without row have no article. False: they cannot
    /// be kept.
    pub fn put_rows(&self, range: RangeInclusive<u64>, rows: &[u8]) -> bool {
        self.done(|group| group.put_rows(range, rows, unix_secs()).map(|_| true))
    }

    /// Appends the rows of a range until they are more bytes than this.
    pub fn rows(&self, range: RangeInclusive<u64>, limit_bytes: usize, into: &mut Vec<u8>) -> Rows {
        let missing = Rows::Missing { range: range.clone() };
        self.done(|group| group.rows(range, limit_bytes, into, unix_secs()).map(Some)).unwrap_or(missing)
    }

    /// A row that is known.
    pub fn row(&self, number: u64) -> Option<Box<[u8]>> {
        let mut row = Vec::new();
        let rows = self.rows(number..=number, usize::MAX, &mut row);
        (rows == Rows::Done && !row.is_empty()).then(|| row.into())
    }

    /// The size that a row says.
    pub fn size_of(&self, number: u64) -> Option<u64> {
        self.row(number).as_deref().and_then(size_in)
    }

    /// The Message-ID of a number, if it is known.
    pub fn id_of(&self, number: u64) -> Option<Vec<u8>> {
        self.done(|group| group.id_of(number))
    }

    /// Whether the article of a number seems to be here.
    pub fn has(&self, number: u64) -> bool {
        self.done(|group| group.has(number, unix_secs()))
    }

    /// The article next to a number on this side, within a range of which all is known.
    pub fn neighbour(&self, range: RangeInclusive<u64>, side: Side) -> Option<u64> {
        let (from, side) = match side {
            Side::Next => (range.start().saturating_sub(1), newscache::Side::Next),
            Side::Previous => (range.end().saturating_add(1), newscache::Side::Previous),
        };
        match self.known(|group| group.neighbour(from, side).map(Some)) {
            Some(Neighbour::Number(number)) => Some(number).filter(|number| range.contains(number)),
            _ => None,
        }
    }

    /// There is no article with this number any more.
    pub fn forget(&self, number: u64) {
        self.done(|group| group.forget(number, unix_secs()));
    }

    /// Appends the header lines of an article, and perhaps more of it.
    pub fn head_of(&self, number: u64, into: &mut Vec<u8>) -> Option<Vec<u8>> {
        self.done(|group| {
            let mut bytes = Vec::new();
            let Some(found) = group.find(number, Patience::Wait, &mut bytes, unix_secs())? else {
                return group.head(number, Patience::Wait, into, unix_secs());
            };
            let id = found.id_in(&bytes).to_vec();
            match found.large {
                Some(mut large) => _ = large.read_head(Patience::Wait, into)?,
                None => into.extend_from_slice(bytes.get(found.from..).unwrap_or_default()),
            }
            Ok(Some(id))
        })
    }

    /// Reads an article into a buffer, in the place of what is there; of a large one nothing.
    pub fn find(
        &self,
        number: u64,
        patience: Patience,
        into: &mut Vec<u8>,
        now: u64,
    ) -> io::Result<Option<Found>> {
        self.0.find(number, patience, into, now)
    }

    /// Appends the header lines of an article of which these alone are kept; its Message-ID.
    pub fn head(&self, number: u64, patience: Patience, into: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        self.0.head(number, patience, into, unix_secs())
    }

    /// Keeps the header lines of an article.
    pub fn put_head(&self, number: u64, id: &[u8], head: &[u8]) {
        self.done(|group| group.put_head(number, id, head, unix_secs()).map(|_| ()));
    }

    /// Keeps an article.
    pub fn put_article(&self, number: u64, id: &[u8], article: &[u8]) {
        self.done(|group| group.put_article(number, id, article, unix_secs()).map(|_| ()));
    }
}
