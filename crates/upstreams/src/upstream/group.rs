//! One group of an upstream: its marks within their allowed age, with the numbers and overview rows that
//! belong to them.
//!
//! Marks are requested with GROUP. When they show that articles were added or removed, LISTGROUP finds out
//! which, including cancelled and reinstated ones. Only unknown overview rows are requested, and no request
//! for rows waits for another: a task fetches the wanted rows, readers are served while the answer arrives,
//! and it is kept once it is complete. If the upstream is away, known data of the group is shown. Source:
//! the NewsCache paper, section 3.2.

use super::kept_headers::KeptHeaders;
use super::pool::ConnectionPool;
use super::questions::{AskMarks, AskNumbers, MarksAnswer, NumbersAnswer};
use super::rows::{AskRows, NUMBERS_MAX};
use super::shelf::CachedGroup;
use super::table::Upstream;
use super::trouble::{UpstreamError, shown};
use super::xref::NumbersHere;
use crate::{Answer, ArticlePart, CountingBase, NeighbourSide, SourceError};
use lock_order::Ordered;
use netnews::GroupMarks;
use netnews::decimal::parse_decimal;
use netnews::overview_row::{field, index};
use newscache::{Cache, MissedArticle, RowCoverage};
use site_base::lock::{Leaf, rank};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Turn, Notify};
use tracing::warn;

/// Groups with more articles than this are not checked for cancellations; with more numbers than this, their
/// articles are counted before rows are requested.
const WHOLE_NUMBERS_MAX: u64 = 1 << 20;
/// Most bytes of rows that stay in memory where the cache cannot keep them.
const NOT_KEPT_BYTES_MAX: usize = 8 << 20;
/// Most questions for the numbers of one range.
const NUMBER_QUESTIONS_MAX: u64 = 64;

/// Number of the newest numbers that are searched for one whose article is known.
const NEWEST_NUMBERS: u64 = 7;
/// Known articles about which a question for marks asks: the newest one may have been removed.
const KNOWN_ARTICLES_MAX: usize = 2;
/// Numbers of rows fetched at once when no reader waits for them.
const AHEAD_NUMBERS: u64 = 1_000;
/// Rows are fetched without a request as long as they are no more than one in this many requested ones.
const ASKED_PER_AHEAD: u64 = 20;
/// Bytes of rows examined in one piece.
const LOOK_BYTES: usize = 128 << 10;
/// Most of the newest numbers whose rows are fetched without a request.
const AHEAD_NUMBERS_MAX: u64 = 100_000;

/// Most ranges requested in one question.
const RANGES_MAX: usize = 64;

/// One group of an upstream.
pub(super) struct NumberedGroup {
    pub name: Box<[u8]>,
    pub pool: Arc<ConnectionPool>,
    pub is_here: NumbersHere,
    pub shelf: CachedGroup,
    pub cache: Cache,
    pub headers: Arc<KeptHeaders>,
    age_max: Duration,
    /// Whether the first request for rows has all others fetched as well.
    is_whole: bool,
    pub renumberings: RenumberingCount,
    asked: Ordered<MarksState, { rank::UPSTREAM }>,
    /// Held while marks or numbers are requested.
    asking: Turn<()>,
    fetching: Ordered<RowFetching, { rank::UPSTREAM }>,
    fetched: Notify,
    /// Whether its articles were counted because its numbers span very many.
    was_counted: AtomicBool,
    /// Range whose rows were all known when the upstream was away.
    whole: Leaf<Option<RangeInclusive<u64>>>,
}

/// Counts how often a group was renumbered; whatever was read of it is valid as long as the count stays the
/// same.
///
/// The count is increased after the data was changed under the locks of the cache and of the group. A task
/// that sees a count therefore sees the data of that numbering or a later one (release and acquire). A task
/// that has read new data through a lock released after the increase sees the new count. No task relies on
/// an order between this count and another atomic.
#[derive(Debug, Default)]
pub(super) struct RenumberingCount(AtomicU64);

impl RenumberingCount {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[derive(Debug)]
struct MarksState {
    /// Time of the last request for marks; `None` if they are too old.
    at: Option<Instant>,
    is_there: bool,
    /// Marks in the last answer; `None` if they are those of the cache.
    marks: Option<GroupMarks>,
    /// Marks for which all numbers were compared.
    compared: Option<GroupMarks>,
}

impl Default for MarksState {
    fn default() -> Self {
        Self { at: None, is_there: true, marks: None, compared: None }
    }
}

/// State of fetching the overview.
#[derive(Debug, Default)]
struct RowFetching {
    is_running: bool,
    /// Wanted ranges; the first is being fetched.
    wanted: VecDeque<RangeInclusive<u64>>,
    /// Number of ranges at the front that are being fetched.
    asked: usize,
    /// Rows that have arrived for it: consecutive parts of the range, each complete.
    arrived: Vec<(RangeInclusive<u64>, Vec<u8>)>,
    /// Number up to which missing rows are fetched, newest first, when nothing is wanted.
    ahead: Option<u64>,
    /// Start of the gap fetched last for that; a gap that remains cannot be kept.
    gap: Option<u64>,
    /// Rows fetched on request, and numbers whose rows were fetched without a request.
    asked_rows: u64,
    ahead_numbers: u64,
    /// Questions that have ended; whatever arrived in them has been kept.
    ended: u64,
    failures: u64,
    trouble: Option<UpstreamError>,
}

/// How far into a range one question goes.
#[derive(Debug, Clone, Copy)]
struct QuestionReach {
    last: u64,
    /// Articles up to there, at most.
    articles: u64,
}

impl RowFetching {
    /// Returns whether rows of this many more numbers may be fetched without a request.
    fn may_add(&self, numbers: u64) -> bool {
        (self.ahead_numbers + numbers).saturating_mul(ASKED_PER_AHEAD) <= self.asked_rows
    }

    /// Appends the rows that have arrived for a range, until they exceed this many bytes; returns the
    /// number up to which they are complete, or `None` if none have arrived.
    fn rows(&self, range: &RangeInclusive<u64>, limit_bytes: usize, into: &mut Vec<u8>) -> Option<u64> {
        let mut up_to = None;
        let begins = self.arrived.partition_point(|(part, _)| part.end() < range.start());
        for (part, rows) in self.arrived.get(begins..).unwrap_or_default() {
            let is_next = part.start() <= up_to.as_ref().unwrap_or(range.start());
            if !is_next || into.len() > limit_bytes || up_to.is_some_and(|up_to| up_to > *range.end()) {
                break;
            }
            for row in rows.split_inclusive(|b| *b == b'\n') {
                let number = field(row, index::NUMBER).and_then(parse_decimal);
                if number.is_some_and(|number| range.contains(&number)) {
                    into.extend_from_slice(row);
                }
            }
            up_to = Some(part.end() + 1);
        }
        up_to.map(|next| (next - 1).min(*range.end()))
    }

    /// Returns the ranges at the front that are requested in one question: several that have no number in
    /// common, or the first part of a long one. `reaches` has for each of them how far a question may go, and
    /// with how many articles.
    fn ask_next(&mut self, reaches: &[QuestionReach]) -> Vec<RangeInclusive<u64>> {
        let (mut ranges, mut articles) = (Vec::<RangeInclusive<u64>>::new(), 0_u64);
        for (range, reach) in self.wanted.iter().zip(reaches) {
            articles = articles.saturating_add(reach.articles);
            let is_apart = !ranges.iter().any(|other| have_common(other, range));
            if !ranges.is_empty() && (!is_apart || articles > NUMBERS_MAX) {
                break;
            }
            ranges.push(*range.start()..=reach.last);
        }
        self.asked = ranges.len();
        ranges
    }

    /// Records that the requested ranges have arrived. If the cache could not keep their rows they stay here
    /// for those that wait for them, until the next ones arrive.
    fn end_asked(&mut self, ranges: &[RangeInclusive<u64>], are_kept: bool) {
        let bytes: usize = self.arrived.iter().map(|(_, rows)| rows.len()).sum();
        if are_kept || bytes > NOT_KEPT_BYTES_MAX {
            self.arrived.clear();
        }
        self.ended += 1;
        for range in ranges {
            if let Some(wanted) = self.wanted.pop_front()
                && range.end() < wanted.end()
            {
                self.wanted.push_front(range.end() + 1..=*wanted.end());
            }
        }
        self.asked = 0;
    }

    /// Takes the rows of a part of a range that have arrived.
    fn take(&mut self, part: RangeInclusive<u64>, rows: &[u8]) {
        let at = self.arrived.partition_point(|(other, _)| other.start() < part.start());
        self.arrived.insert(at, (part, rows.to_vec()));
    }

    /// Returns the number from which on, downwards, rows are fetched without a request.
    fn ahead_from(&mut self, is_whole: bool) -> Option<u64> {
        self.ahead = self.ahead.filter(|_| is_whole || self.may_add(1));
        self.ahead
    }
}

impl NumberedGroup {
    /// Creates a group whose cached marks were requested at that time; `None` if they are too old.
    pub fn new(name: &[u8], upstream: &Upstream, marks_asked_at: Option<Instant>) -> Self {
        let (pool, cache) = (upstream.pool.clone(), upstream.cache.clone());
        let shelf = CachedGroup::of(&cache, pool.name(), name);
        let marks = marks_asked_at.and_then(|_| shelf.marks());
        Self {
            name: name.into(),
            shelf,
            cache,
            pool,
            headers: upstream.headers.clone(),
            is_here: upstream.is_here.clone(),
            age_max: upstream.config.group_age,
            is_whole: upstream.is_whole,
            renumberings: RenumberingCount::default(),
            asked: Ordered::new(MarksState { at: marks_asked_at, marks, ..MarksState::default() }),
            asking: Turn::default(),
            fetching: Ordered::default(),
            fetched: Notify::new(),
            was_counted: AtomicBool::new(false),
            whole: Leaf::default(),
        }
    }

    /// Returns the article of a number as one to be fetched.
    pub fn missed(&self, number: u64) -> MissedArticle {
        MissedArticle { group: self.name.to_vec(), number, id: Vec::new() }
    }

    /// Returns the marks; `None` if there is no such group.
    pub async fn marks(&self) -> Answer<Option<GroupMarks>> {
        self.marks_since(Instant::now()).await
    }

    /// Returns the marks for a request that began at `begun`: marks requested since then are fresh enough.
    async fn marks_since(&self, begun: Instant) -> Answer<Option<GroupMarks>> {
        if let Some(known) = self.known_marks(begun) {
            return Ok(known);
        }
        let _one_at_a_time = self.asking.lock().await;
        match self.known_marks(begun) {
            Some(known) => Ok(known),
            None => self.ask_marks().await,
        }
    }

    /// Returns the marks if they were requested since then, or not too long ago.
    fn known_marks(&self, since: Instant) -> Option<Option<GroupMarks>> {
        let asked = self.asked.lock();
        let at = asked.at?;
        let is_new = at >= since || since.duration_since(at) < self.age_max;
        is_new.then(|| asked.marks.or_else(|| self.shelf.marks()).filter(|_| asked.is_there))
    }

    /// Returns whether the marks need not be requested now.
    pub fn knows_marks(&self) -> bool {
        self.known_marks(Instant::now()).is_some()
    }

    /// Returns whether a number is known to be within current marks, and no other question is needed before
    /// its cached data is shown.
    pub fn is_at_hand(&self, number: u64) -> bool {
        let now = Instant::now();
        let (marks, is_compared) = {
            let asked = self.asked.lock();
            let is_new = asked.is_there && asked.at.is_some_and(|at| now.duration_since(at) < self.age_max);
            let Some(marks) = asked.marks.filter(|_| is_new) else { return false };
            (marks, asked.compared == Some(marks))
        };
        (marks.low..=marks.high).contains(&number) && (is_compared || self.shelf.knows_no_numbers())
    }

    async fn ask_marks(&self) -> Answer<Option<GroupMarks>> {
        let at = Instant::now();
        let asked = self.pool.ask_apart(self.question());
        // Known marks are shown if the server is silent.
        let answer = if self.shelf.marks().is_some() { self.pool.soon(asked).await } else { asked.await };
        match answer {
            Ok(said) => {
                self.take_said(said, at);
                Ok(said.marks)
            }
            Err(UpstreamError::Away(text)) => {
                // The last known state.
                let is_there = self.asked.lock().is_there;
                match self.shelf.marks() {
                    Some(marks) => Ok(Some(marks).filter(|_| is_there)),
                    None => Err(UpstreamError::Away(text).into()),
                }
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Returns the question for its marks, and for the newest known articles: a group may have been
    /// renumbered without a lower high mark, and have a lower one because its last article was removed.
    pub fn question(&self) -> AskMarks {
        let high = self.shelf.marks().map_or(0, |marks| marks.high);
        let last_known = self.shelf.last_known(high).into_iter().flatten();
        let ends = std::iter::once(high).chain(last_known);
        let mut newest: Vec<u64> =
            ends.flat_map(|end| end.saturating_sub(NEWEST_NUMBERS).max(1)..=end).collect();
        newest.sort_unstable_by_key(|number| Reverse(*number));
        newest.dedup();
        let known = newest.into_iter().filter_map(|number| Some((number, self.shelf.id_of(number)?)));
        AskMarks { group: self.name.clone(), known: known.take(KNOWN_ARTICLES_MAX).collect() }
    }

    /// Takes the upstream's answer to a question asked at this time.
    pub fn take_said(&self, said: MarksAnswer, at: Instant) {
        let MarksAnswer { marks, numbers } = said;
        if numbers == NumbersAnswer::Other {
            self.begin_anew();
        }
        let are_same = numbers == NumbersAnswer::Same;
        // The marks are set first: otherwise another task could take the group for missing.
        if marks.is_some_and(|marks| self.shelf.set_marks(marks, are_same)) {
            self.renumbered();
        }
        let mut asked = self.asked.lock();
        (asked.at, asked.is_there, asked.marks) = (Some(at), marks.is_some(), marks);
    }

    /// Records that the group was renumbered; readers must select it again.
    fn renumbered(&self) {
        warn!(
            upstream = self.pool.name(),
            group = shown(&self.name),
            "the upstream has renumbered the group"
        );
        self.renumberings.add();
        self.headers.forget(&self.name);
        // Rows that the cache could not keep are those of other articles now.
        self.fetching.lock().arrived.clear();
    }

    /// Requests the marks again when they are next wanted.
    pub fn look_again(&self) {
        self.asked.lock().at = None;
    }

    /// Has all numbers compared with the upstream's when they are next wanted, even if the marks stay.
    pub fn compare_again(&self) {
        self.asked.lock().compared = None;
    }

    /// Forgets what is known beside the cache; numbers stay those of the same articles.
    pub fn forget(&self) {
        *self.asked.lock() = MarksState::default();
        *self.whole.lock() = None;
    }

    /// Keeps an article of a number, or its head, as fetched before `made` renumberings.
    pub fn keep(&self, number: u64, part: ArticlePart, id: &[u8], text: &[u8], made: u64) {
        // A number from before means another article now.
        if self.renumberings.count() == made {
            self.note_kept(match part {
                ArticlePart::Head => self.shelf.put_head(number, id, text),
                _ => self.shelf.put_article(number, id, text),
            });
        }
    }

    /// Notes whether what was just put into the cache shows that the group was renumbered.
    fn note_kept(&self, is_anew: bool) {
        if is_anew {
            self.forget();
            self.renumbered();
        }
    }

    /// Discards all data, after the group was found to be renumbered.
    pub fn begin_anew(&self) {
        self.shelf.begin_anew();
        self.forget();
        self.renumbered();
    }

    /// Returns the marks as shown: with the exact count if it is known.
    async fn shown_marks(&self, begun: Instant) -> Answer<Option<GroupMarks>> {
        let Some(marks) = self.marks_since(begun).await? else { return Ok(None) };
        let is_compared = self.asked.lock().compared == Some(marks);
        // In other cases nothing is read from the disk for a group that is merely selected.
        let exact = if is_compared { self.shelf.count(marks.low..=marks.high) } else { None };
        Ok(Some(GroupMarks { count: exact.unwrap_or(marks.count), ..marks }))
    }

    /// Returns the marks of the articles that count, for a request that began at `begun`.
    pub async fn marks_above(&self, base: CountingBase, begun: Instant) -> Answer<Option<GroupMarks>> {
        let Some(marks) = self.shown_marks(begun).await? else { return Ok(None) };
        let least = base(marks.high).saturating_add(1);
        if least <= marks.low {
            return Ok(Some(marks));
        }
        let range = least..=marks.high;
        if !range.is_empty() {
            self.know_numbers(&range, marks).await?;
        }
        let low = self.shelf.neighbour(range.clone(), NeighbourSide::Next).unwrap_or(marks.high + 1);
        Ok(Some(GroupMarks { low, count: self.shelf.count(range).unwrap_or_default(), ..marks }))
    }

    /// Ensures that the existing numbers of a range are known, as far as the marks go.
    pub async fn know_numbers(&self, range: &RangeInclusive<u64>, marks: GroupMarks) -> Answer<()> {
        let all = marks.low..=marks.high;
        let is_compared = self.asked.lock().compared == Some(marks);
        if is_compared && self.shelf.unknown(all.clone()).is_none() {
            return Ok(());
        }
        let _one_at_a_time = self.asking.lock().await;
        if marks.count > WHOLE_NUMBERS_MAX {
            return match self.shelf.unknown(range.clone()) {
                Some(gap) => self.ask_many_numbers(gap..=*range.end()).await,
                None => Ok(()),
            };
        }
        if let Some(gap) = self.shelf.unknown(all.clone()) {
            self.ask_numbers(gap..=marks.high).await?;
            if gap == marks.low {
                self.asked.lock().compared = Some(marks);
                return Ok(());
            }
        }
        self.compare(marks).await
    }

    /// Looks for cancelled and reinstated articles, if the upstream does not have as many articles as are
    /// known.
    async fn compare(&self, marks: GroupMarks) -> Answer<()> {
        let all = marks.low..=marks.high;
        let is_as_known = self.shelf.count(all.clone()).is_none_or(|count| count == marks.count);
        if !is_as_known && self.asked.lock().compared != Some(marks) {
            self.ask_numbers(all).await?;
        }
        self.asked.lock().compared = Some(marks);
        Ok(())
    }

    /// Asks for the numbers of a range with very many articles in parts, as an answer is limited.
    async fn ask_many_numbers(&self, range: RangeInclusive<u64>) -> Answer<()> {
        let (mut from, end) = range.into_inner();
        let step = WHOLE_NUMBERS_MAX.max(end.saturating_sub(from) / NUMBER_QUESTIONS_MAX);
        while from <= end {
            let last = end.min(from.saturating_add(step));
            self.ask_numbers(from..=last).await?;
            from = last.saturating_add(1);
        }
        Ok(())
    }

    async fn ask_numbers(&self, range: RangeInclusive<u64>) -> Answer<()> {
        let question = AskNumbers { group: self.name.clone(), range: range.clone() };
        let numbers = self.pool.ask_apart(question).await?;
        self.shelf.set_numbers(&range, &numbers);
        Ok(())
    }

    /// Returns the part of a range in which there can be articles, for a reader who has the group selected.
    pub async fn within(
        &self,
        range: RangeInclusive<u64>,
    ) -> Answer<Option<(RangeInclusive<u64>, GroupMarks)>> {
        let made = self.renumberings.count();
        let marks = self.marks().await?;
        if made != self.renumberings.count() {
            return Err(self.stale());
        }
        let Some(marks) = marks else { return Ok(None) };
        let range = marks.low.max(*range.start())..=marks.high.min(*range.end());
        Ok((!range.is_empty()).then_some((range, marks)))
    }

    /// Asks the group itself how many articles it has, if only a list with its marks is known, by which it
    /// has very many.
    async fn counted(
        &self,
        range: RangeInclusive<u64>,
        marks: GroupMarks,
    ) -> Answer<(RangeInclusive<u64>, GroupMarks)> {
        let is_counted = !is_wide(marks) || marks.count < marks.high - marks.low;
        // A group without gaps has as many articles as numbers, and is not asked again.
        if is_counted || self.was_counted.swap(true, Ordering::Relaxed) {
            return Ok((range, marks));
        }
        self.look_again();
        Ok(self.within(range.clone()).await?.unwrap_or((range, marks)))
    }

    /// Appends overview rows; see [`crate::NewsSource::over`].
    pub async fn rows(
        self: &Arc<Self>,
        range: RangeInclusive<u64>,
        limit_bytes: usize,
        into: &mut Vec<u8>,
    ) -> Answer<Option<u64>> {
        let Some((range, marks)) = self.within(range).await? else { return Ok(None) };
        let (range, marks) = self.counted(range, marks).await?;
        // Known numbers may be outdated; unknown ones are taken as they arrive, unless few of many exist.
        let is_begun = self.shelf.unknown(marks.low..=marks.high) != Some(marks.low);
        let is_sparse = is_wide(marks) && marks.count <= WHOLE_NUMBERS_MAX;
        if (is_begun || is_sparse)
            && let Err(error) = self.know_numbers(&range, marks).await
        {
            self.shelf.count(range.clone()).ok_or(error)?;
        }
        self.all_or_none(&range).await?;
        let (start, mut from) = (into.len(), *range.start());
        let mut asked_from = None;
        loop {
            let ended = self.fetching.lock().ended;
            match self.shelf.rows(from..=*range.end(), limit_bytes, into) {
                RowCoverage::Done => {
                    self.settled(*range.end()).await;
                    return Ok(None);
                }
                RowCoverage::Limit { next } => return Ok(Some(next)),
                RowCoverage::Missing { range } if into.len() > start => return Ok(Some(*range.start())),
                RowCoverage::Missing { range: part } => {
                    let arrived = self.fetching.lock().rows(&part, limit_bytes, into);
                    if let Some(up_to) = arrived {
                        from = up_to + 1;
                        if up_to == *range.end() {
                            self.settled(up_to).await;
                            return Ok(None);
                        }
                        if into.len() > start {
                            return Ok(Some(from));
                        }
                        continue;
                    }
                    if asked_from == Some(*part.start()) {
                        return Err(UpstreamError::Away("overview rows cannot be kept".into()).into());
                    }
                    let first = *part.start();
                    asked_from = self.fetch(part, ended).await?.then_some(first);
                }
            }
        }
    }

    /// Ensures that a range has all of its rows here before the first is shown, or none, if the upstream is
    /// away, or was when last asked: articles left out would be marked as read, and a connection that ends
    /// among rows loses those already there.
    async fn all_or_none(self: &Arc<Self>, range: &RangeInclusive<u64>) -> Answer<()> {
        let is_within =
            |whole: &RangeInclusive<u64>| whole.contains(range.start()) && whole.contains(range.end());
        if self.pool.problem().is_none() && !self.pool.is_away() {
            return self.answers_for(range).await;
        }
        if self.whole.lock().as_ref().is_some_and(is_within) {
            return Ok(());
        }
        let (mut from, mut rows, mut asked_from) = (*range.start(), Vec::new(), None);
        loop {
            rows.clear();
            let ended = self.fetching.lock().ended;
            match self.shelf.rows(from..=*range.end(), LOOK_BYTES, &mut rows) {
                RowCoverage::Limit { next } => from = next,
                RowCoverage::Missing { range } if asked_from == Some(*range.start()) => {
                    return Err(UpstreamError::Away("overview rows cannot be kept".into()).into());
                }
                RowCoverage::Missing { range } => {
                    let from = *range.start();
                    asked_from = self.fetch(range, ended).await?.then_some(from);
                }
                RowCoverage::Done => {
                    *self.whole.lock() = Some(range.clone());
                    return Ok(());
                }
            }
        }
    }

    /// Ensures that rows missing after known ones have begun to arrive before the known ones are shown: only
    /// a question shows that an upstream has just become unreachable.
    async fn answers_for(self: &Arc<Self>, range: &RangeInclusive<u64>) -> Answer<()> {
        let ended = self.fetching.lock().ended;
        let Some(missing) = self.shelf.missing_rows(range.clone()) else { return Ok(()) };
        let is_arriving = || self.fetching.lock().rows(&missing, 0, &mut Vec::new()).is_some();
        if missing.start() > range.start() && !is_arriving() {
            self.fetch(missing, ended).await?;
        }
        Ok(())
    }

    /// Has rows fetched, and waits until some have arrived; returns true if all have. They were missing when
    /// `ended` questions had ended: once another one has, they may be here, and are looked for again.
    async fn fetch(self: &Arc<Self>, range: RangeInclusive<u64>, ended: u64) -> Answer<bool> {
        let mut fetched = pin!(self.fetched.notified());
        fetched.as_mut().enable();
        let failures = {
            let mut fetching = self.fetching.lock();
            if fetching.ended != ended {
                return Ok(false);
            }
            let is_wanted =
                |wanted: &RangeInclusive<u64>| wanted.contains(range.start()) && wanted.contains(range.end());
            if !fetching.wanted.iter().any(is_wanted) {
                fetching.wanted.push_back(range.clone());
            }
            if range.start() < range.end() {
                fetching.ahead = self.shelf.marks().map(|marks| marks.high);
            }
            self.run_fetching(&mut fetching);
            fetching.failures
        };
        fetched.await;
        let fetching = self.fetching.lock();
        match &fetching.trouble {
            Some(trouble) if fetching.failures != failures => Err(trouble.clone().into()),
            _ => Ok(!fetching.wanted.iter().any(|wanted| wanted.contains(range.start()))),
        }
    }

    fn run_fetching(self: &Arc<Self>, fetching: &mut RowFetching) {
        if !std::mem::replace(&mut fetching.is_running, true) {
            tokio::spawn(RowFetcher(self.clone()).run());
        }
    }

    /// Has rows fetched that will be asked for soon, as far as they are not here; waits for none.
    pub fn fetch_ahead(self: &Arc<Self>, ranges: Vec<RangeInclusive<u64>>) {
        let (mut missing, mut numbers) = (Vec::new(), 0_u64);
        for range in joined(ranges) {
            self.append_missing(range, &mut missing);
        }
        missing.retain(|range| {
            numbers = numbers.saturating_add(range.end() - range.start()).saturating_add(1);
            numbers <= NUMBERS_MAX
        });
        let mut fetching = self.fetching.lock();
        missing.retain(|range| !fetching.wanted.iter().any(|wanted| have_common(wanted, range)));
        if !missing.is_empty() {
            fetching.wanted.extend(missing);
            self.run_fetching(&mut fetching);
        }
    }

    /// Appends the parts of a range of which no rows are here.
    fn append_missing(&self, range: RangeInclusive<u64>, missing: &mut Vec<RangeInclusive<u64>>) {
        let (mut from, mut rows) = (*range.start(), Vec::new());
        while from <= *range.end() {
            rows.clear();
            from = match self.shelf.rows(from..=*range.end(), LOOK_BYTES, &mut rows) {
                RowCoverage::Done => return,
                RowCoverage::Limit { next } => next,
                RowCoverage::Missing { range } => {
                    let next = range.end().saturating_add(1);
                    missing.push(range);
                    next
                }
            };
        }
    }

    /// Waits until the connection that has just fetched rows up to this number can be used again:
    /// continuing earlier costs the next question a connection of its own.
    async fn settled(&self, last: u64) {
        loop {
            let mut fetched = pin!(self.fetched.notified());
            fetched.as_mut().enable();
            let is_coming = {
                let fetching = self.fetching.lock();
                let asked = fetching.wanted.iter().take(fetching.asked).next_back();
                fetching.is_running && asked.is_some_and(|asked| *asked.end() == last)
            };
            if !is_coming {
                return;
            }
            fetched.await;
        }
    }

    /// Fetches wanted parts of the overview, until there are none.
    async fn fetch_rows(self: &Arc<Self>) {
        loop {
            let wanted = self.fetching.lock().wanted.front().cloned();
            let is_asked_for = wanted.is_some();
            if wanted.or_else(|| self.next_ahead()).is_none() {
                return;
            }
            let (group, made) = (self.clone(), self.renumberings.count());
            let ranges = self.next_ranges();
            let first = ranges.first().map(|range| *range.start());
            let last = ranges.last().map(|range| *range.end());
            let question = AskRows {
                group: self.name.clone(),
                ranges: ranges.clone(),
                is_here: self.is_here.clone(),
                headers: self.cache.overview_headers(),
                take: move |range: RangeInclusive<u64>, rows: &[u8]| {
                    let is_last = Some(*range.end()) == last;
                    let mut fetching = group.fetching.lock();
                    if Some(*range.start()) == first {
                        fetching.arrived.clear();
                    }
                    fetching.take(range, rows);
                    if is_asked_for {
                        fetching.asked_rows += memchr::memchr_iter(b'\n', rows).count() as u64;
                    }
                    drop(fetching);
                    // Readers of the last rows continue when the connection can be used again.
                    if !is_last {
                        group.fetched.notify_waiters();
                    }
                },
            };
            let trouble = match self.pool.ask(question).await {
                Ok(true) => None,
                Ok(false) => Some(UpstreamError::Away("the group is no longer there".into())),
                Err(trouble) => Some(trouble),
            };
            // A wrong answer is not kept; one that broke off was correct so far.
            let is_right =
                !matches!(trouble, Some(UpstreamError::Wrong(_))) && made == self.renumberings.count();
            let are_kept = !is_right || self.keep_arrived();
            let mut fetching = self.fetching.lock();
            fetching.end_asked(&ranges, are_kept);
            if let Some(trouble) = trouble {
                fetching.failures += 1;
                fetching.trouble = Some(trouble);
                fetching.wanted.clear();
                (fetching.ahead, fetching.gap) = (None, None);
            }
            drop(fetching);
            self.fetched.notify_waiters();
        }
    }

    /// Returns the ranges of the next question.
    fn next_ranges(&self) -> Vec<RangeInclusive<u64>> {
        let wanted: Vec<_> = self.fetching.lock().wanted.iter().take(RANGES_MAX).cloned().collect();
        let reaches: Vec<_> = wanted.iter().map(|range| self.reach(range)).collect();
        // Others only add to the end of what is wanted.
        self.fetching.lock().ask_next(&reaches)
    }

    /// Returns how far one question about a range goes: an article may have any number, so this depends on
    /// the articles, not on the numbers between them.
    fn reach(&self, range: &RangeInclusive<u64>) -> QuestionReach {
        let (first, end, mut numbers) = (*range.start(), *range.end(), Vec::new());
        if self.shelf.numbers(range.clone(), NUMBERS_MAX as usize, &mut numbers) {
            let is_all = (numbers.len() as u64) < NUMBERS_MAX;
            let last = numbers.last().copied().filter(|_| !is_all).unwrap_or(end);
            return QuestionReach { last, articles: numbers.len() as u64 };
        }
        let marks = self.shelf.marks().filter(|marks| marks.low <= marks.high);
        let numbers_each = marks.map_or(1, |marks| (marks.high - marks.low) / marks.count.max(1)).max(1);
        let last = end.min(first.saturating_add((NUMBERS_MAX - 1).saturating_mul(numbers_each)));
        QuestionReach { last, articles: (last - first) / numbers_each + 1 }
    }

    /// Keeps the rows that have arrived; returns false if some cannot be kept. Readers find them in one place
    /// or the other.
    fn keep_arrived(&self) -> bool {
        let (mut at, mut are_kept) = (0, true);
        loop {
            let part = self.fetching.lock().arrived.get(at).cloned();
            let Some((range, rows)) = part else { return are_kept };
            let kept = self.shelf.put_rows(range, &rows);
            are_kept &= kept.is_some();
            self.note_kept(kept.unwrap_or_default());
            at += 1;
        }
    }

    /// Returns the rows to fetch when none are wanted, which count as wanted from then on, so that they are
    /// fetched once: the newest missing rows of groups that are not huge, within limits.
    fn next_ahead(&self) -> Option<RangeInclusive<u64>> {
        let marks = self.shelf.marks()?;
        loop {
            let high = self.fetching.lock().ahead_from(self.is_whole)?;
            let low = marks.low.max(high.saturating_sub(AHEAD_NUMBERS - 1));
            if high < marks.low || marks.high.saturating_sub(high) >= AHEAD_NUMBERS_MAX {
                self.fetching.lock().ahead = None;
                return None;
            }
            let rows = self.shelf.rows(low..=high, usize::MAX, &mut Vec::new());
            let mut fetching = self.fetching.lock();
            match rows {
                // There may be another gap after it, so these numbers are checked again.
                RowCoverage::Missing { range } if fetching.gap != Some(*range.start()) => {
                    let numbers = range.end() - range.start() + 1;
                    if !self.is_whole && !fetching.may_add(numbers) {
                        fetching.ahead = None;
                        return None;
                    }
                    fetching.ahead_numbers += numbers;
                    fetching.gap = Some(*range.start());
                    fetching.wanted.push_front(range.clone());
                    return Some(range);
                }
                _ => fetching.ahead = low.checked_sub(1),
            }
        }
    }

    /// Returns whether cancellations up to these marks are known.
    pub fn is_compared(&self, marks: GroupMarks) -> bool {
        self.asked.lock().compared == Some(marks)
    }

    /// Returns whether a number is known to have no article any more, or never to have had one.
    pub async fn is_gone(&self, number: u64, range: &RangeInclusive<u64>, marks: GroupMarks) -> Answer<bool> {
        if self.shelf.count(range.clone()).is_none() {
            return Ok(false);
        }
        // Asks for recent cancellations; without an answer, the known state is used.
        let _as_known = self.know_numbers(range, marks).await;
        Ok(self.shelf.count(number..=number) == Some(0))
    }

    /// Returns the error for a handle made useless by renumbering.
    pub fn stale(&self) -> SourceError {
        SourceError::Unavailable(format!("{} was renumbered, and must be selected again", shown(&self.name)))
    }
}

/// Reports whether the numbers of a group span more than its articles need, as a rule.
fn is_wide(marks: GroupMarks) -> bool {
    marks.high.saturating_sub(marks.low) > WHOLE_NUMBERS_MAX
}

fn have_common(one: &RangeInclusive<u64>, other: &RangeInclusive<u64>) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}

/// Ranges in their order, those that follow each other or have numbers in common as one.
fn joined(mut ranges: Vec<RangeInclusive<u64>>) -> Vec<RangeInclusive<u64>> {
    ranges.sort_unstable_by_key(|range| *range.start());
    let mut joined: Vec<RangeInclusive<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if *range.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// The task that fetches rows of a group.
struct RowFetcher(Arc<NumberedGroup>);

impl RowFetcher {
    async fn run(self) {
        self.0.fetch_rows().await;
    }
}

impl Drop for RowFetcher {
    fn drop(&mut self) {
        self.0.fetching.lock().is_running = false;
        self.0.fetched.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::UpstreamTable;
    use super::*;

    /// Returns a group with these marks, of an upstream that refuses connections.
    fn group(marks: GroupMarks) -> NumberedGroup {
        group_on(disk::SimDisk::new(), marks)
    }

    fn group_on(disk: disk::SimDisk, marks: GroupMarks) -> NumberedGroup {
        let text = "[site]\ndata = \"/sim\"\n[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\n\
            class = \"c\"\n[[upstream]]\nname = \"isp\"\nhost = \"127.0.0.1:1\"\n";
        let config = site_config::parse(text, std::path::Path::new("/sim/newsreel.toml"));
        let config = config.map_err(|error| error.to_string()).unwrap();
        let (cache, _) = Cache::open(Arc::new(disk), &config.cache.path, config.cache.settings(), 0).unwrap();
        let table = UpstreamTable::new(&config, &(Arc::new(|_: &[u8]| false) as _), Some(cache), None);
        let group = NumberedGroup::new(b"comp.test", table.upstreams.first().unwrap(), None);
        group.take_said(MarksAnswer::of(Some(marks)), Instant::now());
        group
    }

    #[test]
    fn a_renumbering_counts_once_however_it_is_noticed() {
        let marks = |high| GroupMarks { low: 1, high, count: high };
        let group = group(marks(9));
        let say = |high, numbers| {
            group.take_said(MarksAnswer { marks: Some(marks(high)), numbers }, Instant::now());
            group.renumberings.count()
        };
        assert_eq!(say(9, NumbersAnswer::Unknown), 0);
        assert_eq!(say(5, NumbersAnswer::Other), 1, "another article, and a lower high mark");
        assert_eq!(say(7, NumbersAnswer::Other), 2, "another article alone");
        assert_eq!(say(5, NumbersAnswer::Same), 2, "the last article was removed");
        assert_eq!(say(3, NumbersAnswer::Unknown), 3, "a lower high mark alone");
        assert_eq!(say(3, NumbersAnswer::Unknown), 3);
    }

    #[test]
    fn rows_that_cannot_be_kept_are_shown_until_others_arrive_or_the_group_is_renumbered() {
        let disk = disk::SimDisk::new();
        let group = group_on(disk.clone(), GroupMarks { low: 1, high: 2, count: 2 });
        let rows = b"1\ts\tf\td\t<1@x>\t\t5\t1\r\n2\ts\tf\td\t<2@x>\t\t5\t1\r\n";
        let arrive = || {
            group.fetching.lock().take(1..=2, rows);
            let are_kept = group.keep_arrived();
            group.fetching.lock().end_asked(&[], are_kept);
            let mut shown = Vec::new();
            let up_to = group.fetching.lock().rows(&(1..=2), usize::MAX, &mut shown);
            (are_kept, up_to, shown.len())
        };
        disk.fail_at(disk.steps(), 28, true);
        assert_eq!(arrive(), (false, Some(2), rows.len()));
        group.begin_anew();
        assert_eq!(group.fetching.lock().rows(&(1..=2), usize::MAX, &mut Vec::new()), None);
        disk.stop_failing();
        assert_eq!(arrive(), (true, None, 0));
        assert_eq!(group.shelf.rows(1..=2, usize::MAX, &mut Vec::new()), RowCoverage::Done);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_that_were_kept_since_they_were_missing_are_not_requested_again() {
        let group = Arc::new(group(GroupMarks { low: 1, high: 9, count: 9 }));
        let ended = group.fetching.lock().ended;
        group.fetching.lock().end_asked(&[], true);
        assert!(!group.fetch(1..=9, ended).await.unwrap(), "looks for them again");
        assert!(group.fetching.lock().wanted.is_empty());
        assert!(group.fetch(1..=9, ended + 1).await.is_err(), "asks the upstream, which is away");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_whose_prefetch_failed_are_prefetched_again() {
        let group = Arc::new(group(GroupMarks { low: 1, high: 9, count: 9 }));
        for attempt in 1..=2 {
            {
                let mut fetching = group.fetching.lock();
                (fetching.asked_rows, fetching.ahead) = (1_000, Some(9));
            }
            group.fetch_rows().await;
            assert_eq!(group.fetching.lock().failures, attempt);
        }
    }
}
