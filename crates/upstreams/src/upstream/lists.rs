//! Lists of an upstream's groups: requested once, kept within their allowed age, and passed on while they
//! arrive.
//!
//! If the upstream is away, the list fetched last is shown. Sources: RFC 3977 section 7.6, RFC 6048 section
//! 2; the NewsCache paper, section 7, for passing lists on while they arrive.

use super::changes::{AskActive, changed_at};
use super::flight::{Flight, Landing};
use super::line::UpstreamConnection;
use super::pool::{ConnectionPool, UpstreamQuestion};
use super::trouble::UpstreamError;
use crate::{Answer, CountingBase, GroupInfo, GroupList, has_changed};
use lock_order::Ordered;
use netnews::GroupMarks;
use netnews::decimal::parse_decimal;
use netnews::newsgroups;
use netnews::nntp::command::ARTICLE_NUMBER_MAX;
use newscache::{Cache, ListKind};
use nntp_io::LIST_BYTES_MAX;
use site_base::clock::unix_secs;
use site_base::lock::rank;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;
use tracing::{debug, warn};

/// Bytes of lines passed on at once while more are at hand, initially and at most.
const FIRST_BYTES: usize = 1 << 10;
const LATER_BYTES_MAX: usize = 16 << 10;
/// Bytes of a list examined at once.
const AHEAD_BYTES: usize = 32 << 10;
/// Time after which a list that stalls counts as one that does not end.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// Kind of a list that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CachedListKind {
    Active,
    Times,
    Descriptions,
    Counts,
}

impl CachedListKind {
    const ALL: [Self; 4] = [Self::Active, Self::Times, Self::Descriptions, Self::Counts];

    fn command(self) -> &'static str {
        match self {
            Self::Active => "LIST ACTIVE",
            Self::Times => "LIST ACTIVE.TIMES",
            Self::Descriptions => "LIST NEWSGROUPS",
            Self::Counts => "LIST COUNTS",
        }
    }

    fn in_cache(self) -> ListKind {
        match self {
            Self::Active => ListKind::Active,
            Self::Times => ListKind::Times,
            Self::Descriptions => ListKind::Descriptions,
            Self::Counts => ListKind::Counts,
        }
    }
}

/// A list, complete or arriving: lines with their line ends.
pub(super) type ListFlight = Arc<Flight<()>>;

/// Lists of an upstream.
#[derive(Debug, Default)]
pub(super) struct GroupLists(
    [Ordered<Option<(ListFlight, Instant)>, { rank::UPSTREAM }>; CachedListKind::ALL.len()],
);

impl GroupLists {
    /// Returns a list no older than this.
    pub async fn list(
        &self,
        kind: CachedListKind,
        pool: &Arc<ConnectionPool>,
        cache: &Cache,
        age_max: Duration,
    ) -> Result<ListFlight, UpstreamError> {
        let at = CachedListKind::ALL.iter().position(|other| *other == kind).and_then(|at| self.0.get(at));
        let Some(kept) = at else { return fetch(pool, kind.command().into()).await };
        if let Some(refused) = pool.lists_refused() {
            // A list of any age is better than none.
            let known = kept.lock().clone().map(|(list, _)| list).filter(|list| !has_failed(list));
            let on_disk = || block_in_place(|| cached(cache, pool.name(), kind));
            let list = known.or_else(on_disk).ok_or(refused)?;
            *kept.lock() = Some((list.clone(), Instant::now()));
            return Ok(list);
        }
        let old = {
            let mut kept = kept.lock();
            match &*kept {
                Some((list, begun)) if begun.elapsed() < age_max && !has_failed(list) => {
                    return Ok(list.clone());
                }
                old => {
                    let is_whole = |list: &ListFlight| list.look(|cargo| cargo.end == Some(Ok(())));
                    let old = old.clone().filter(|(list, _)| is_whole(list));
                    let before = old.as_ref().map(|(list, _)| list.clone());
                    let keep = Keep { cache: cache.clone(), kind, before };
                    *kept = Some((begin(pool, kind.command().into(), Some(keep)), Instant::now()));
                    old
                }
            }
        };
        let list = kept.lock().as_ref().map(|(list, _)| list.clone());
        let Some(list) = list else { return fetch(pool, kind.command().into()).await };
        match (begun_soon(pool, &list).await, old) {
            (Ok(()), _) => Ok(list),
            (Err(trouble), Some((old, since))) => {
                debug!(%trouble, "the list that was fetched last is shown");
                *kept.lock() = Some((old.clone(), since));
                Ok(old)
            }
            (Err(trouble), None) => {
                *kept.lock() = None;
                let kept_on_disk = block_in_place(|| cached(cache, pool.name(), kind));
                debug!(%trouble, "the list that the cache has is shown, if there is one");
                kept_on_disk.ok_or(trouble)
            }
        }
    }

    /// Returns a complete list no older than this, if there is one.
    pub fn at_hand(&self, kind: CachedListKind, age_max: Duration) -> Option<ListFlight> {
        self.asked_within(kind, age_max).map(|(list, _)| list)
    }

    /// Returns such a list, with the time when it was requested.
    fn asked_within(&self, kind: CachedListKind, age_max: Duration) -> Option<(ListFlight, Instant)> {
        let at = CachedListKind::ALL.iter().position(|other| *other == kind)?;
        let kept = self.0.get(at)?.lock();
        let (list, begun) = kept.as_ref().filter(|(_, begun)| begun.elapsed() < age_max)?;
        list.look(|cargo| cargo.end == Some(Ok(()))).then(|| (list.clone(), *begun))
    }

    /// Returns the marks of a group from a list no older than this, and the time when it was requested. If
    /// the list has no counts, there are as many articles as numbers.
    pub fn marks_of(&self, name: &[u8], age_max: Duration) -> Option<(GroupMarks, Instant)> {
        [(CachedListKind::Counts, GroupList::Counts), (CachedListKind::Active, GroupList::Active)]
            .into_iter()
            .find_map(|(kind, list)| {
                let (lines, begun) = self.asked_within(kind, age_max)?;
                let marks = lines.look(|cargo| {
                    let line = line_of(&cargo.bytes, name)?;
                    // Other groups may be selected under another name, or not at all.
                    let info = info(list, line, |_| 0).filter(|info| matches!(info.flag, b"y" | b"n" | b"m"));
                    info.map(|info| info.marks)
                })?;
                Some((marks, begun))
            })
    }
}

/// Fetches a list that is not kept.
pub(super) async fn fetch(pool: &Arc<ConnectionPool>, command: Vec<u8>) -> Result<ListFlight, UpstreamError> {
    let list = begin(pool, command, None);
    begun_soon(pool, &list).await?;
    Ok(list)
}

/// Place in the cache where a list is kept.
struct Keep {
    cache: Cache,
    kind: CachedListKind,
    /// The whole list that was fetched last since the start.
    before: Option<ListFlight>,
}

/// Begins fetching a list; `keep` states where it is kept.
fn begin(pool: &Arc<ConnectionPool>, command: Vec<u8>, keep: Option<Keep>) -> ListFlight {
    let (list, landing) = Flight::begin();
    let (pool, begun) = (pool.clone(), Instant::now());
    tokio::spawn(async move {
        let end = match &keep {
            Some(Keep { cache, kind: CachedListKind::Active, before }) => {
                let on_disk = || block_in_place(|| cached(cache, pool.name(), CachedListKind::Active));
                let kept = before.clone().or_else(on_disk);
                pool.ask(AskActive { kept, landing: &landing }).await
            }
            _ => pool.ask(AskList { command: command.clone(), landing: &landing }).await,
        };
        let has_begun = landing.change(|cargo| !cargo.bytes.is_empty());
        match &end {
            Ok(()) => pool.list_ended(&command),
            Err(UpstreamError::Endless(text)) => pool.list_did_not_end(command, text),
            Err(UpstreamError::Away(text)) if has_begun && begun.elapsed() >= STALLED_AFTER => {
                pool.list_did_not_end(command, text);
            }
            Err(_) => {}
        }
        if let (Ok(()), Some(Keep { cache, kind, .. })) = (&end, keep)
            && let Err(error) = block_in_place(|| put(&cache, pool.name(), kind, &landing))
        {
            warn!(%error, "the cache cannot keep a list");
        }
        landing.end(end);
    });
    list
}

/// Keeps a complete list, copying one piece of it at a time.
fn put(cache: &Cache, origin: &str, kind: CachedListKind, list: &Landing<()>) -> io::Result<()> {
    let mut writer = cache.put_list(origin, kind.in_cache(), unix_secs())?;
    let (mut at, mut piece) = (0, Vec::new());
    list.change(|cargo| cargo.bytes.shrink_to_fit());
    loop {
        piece.clear();
        list.change(|cargo| {
            let rest = cargo.bytes.get(at..).unwrap_or_default();
            piece.extend_from_slice(rest.get(..AHEAD_BYTES).unwrap_or(rest));
        });
        if piece.is_empty() {
            return writer.finish();
        }
        at += piece.len();
        writer.append(&piece)?;
    }
}

/// Returns the list fetched last, of any age.
fn cached(cache: &Cache, origin: &str, kind: CachedListKind) -> Option<ListFlight> {
    let mut reader = cache.list(origin, kind.in_cache()).ok()??;
    let (list, landing) = Flight::begin();
    let mut lines = Vec::new();
    while reader.next(&mut lines).ok()? {}
    landing.change(|cargo| cargo.bytes = lines);
    landing.end(Ok(()));
    Some(list)
}

/// Returns the groups with known marks, in the form of LIST COUNTS, for use before a list has arrived.
pub(super) fn of_known(cache: &Cache, origin: &str) -> ListFlight {
    let (list, landing) = Flight::begin();
    for (name, marks) in cache.known_groups(origin) {
        let numbers = format!(" {} {} {} y\n", marks.high, marks.low, marks.count);
        landing.change(|cargo| cargo.bytes.extend([&*name, numbers.as_bytes()].concat()));
    }
    landing.end(Ok(()));
    list
}

/// Waits until part of it has arrived; gives up on a silent server that was not heard recently.
async fn begun_soon(pool: &ConnectionPool, list: &ListFlight) -> Result<(), UpstreamError> {
    if pool.usual_time().is_some() { begun(list).await } else { pool.soon(begun(list)).await }
}

/// Waits until part of it has arrived.
async fn begun(list: &ListFlight) -> Result<(), UpstreamError> {
    let begun = list.wait(|cargo| match &cargo.end {
        Some(Err(trouble)) if cargo.bytes.is_empty() => Some(Err(trouble.clone())),
        None if cargo.bytes.is_empty() => None,
        _ => Some(Ok(())),
    });
    begun.await
}

fn has_failed(list: &ListFlight) -> bool {
    list.look(|cargo| matches!(cargo.end, Some(Err(_))))
}

struct AskList<'a> {
    command: Vec<u8>,
    landing: &'a Landing<()>,
}

impl UpstreamQuestion for AskList<'_> {
    type Answer = ();

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError> {
        let status = line.request(&self.command).await?;
        if !status.has_block {
            return Err(status.refused());
        }
        let append = |text: &[u8], into: &mut Vec<u8>| {
            into.extend_from_slice(text);
            into.push(b'\n');
        };
        take_lines(line, self.landing, Vec::new(), append).await
    }
}

/// Takes the lines of a block as `append` appends them, after those in `lines`.
pub(super) async fn take_lines(
    line: &mut UpstreamConnection,
    landing: &Landing<()>,
    mut lines: Vec<u8>,
    append: impl Fn(&[u8], &mut Vec<u8>),
) -> Result<(), UpstreamError> {
    line.bound_list();
    let mut enough = FIRST_BYTES;
    while let Some(text) = line.block_line().await? {
        append(text, &mut lines);
        if lines.len() >= enough || !line.has_block_line() {
            enough = (enough * 2).min(LATER_BYTES_MAX);
            let len = landing.change(|cargo| {
                cargo.bytes.append(&mut lines);
                cargo.bytes.len()
            });
            // With what is added to each line it may be longer than what the upstream has sent.
            if len as u64 > LIST_BYTES_MAX {
                return Err(UpstreamError::Endless("a list without end".into()));
            }
        }
    }
    landing.change(|cargo| cargo.bytes.append(&mut lines));
    Ok(())
}

/// Lines of a list, as they arrive.
#[derive(Debug)]
pub(super) struct ListLines {
    list: ListFlight,
    /// Bytes of the list copied so far.
    copied: usize,
    ahead: Vec<u8>,
    next: usize,
}

impl ListLines {
    pub fn of(list: ListFlight) -> Self {
        Self { list, copied: 0, ahead: Vec::new(), next: 0 }
    }

    /// Returns a list without lines.
    pub fn none() -> Self {
        let (list, landing) = Flight::begin();
        landing.end(Ok(()));
        Self::of(list)
    }

    /// Returns the next line; `None` at the end.
    pub async fn next(&mut self) -> Answer<Option<&[u8]>> {
        if self.next >= self.ahead.len() && !self.more().await? {
            return Ok(None);
        }
        let rest = self.ahead.get(self.next..).unwrap_or_default();
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.next += len + 1;
        Ok(rest.get(..len))
    }

    /// Copies further complete lines; returns false if there are none.
    async fn more(&mut self) -> Answer<bool> {
        (self.next, self.copied) = (0, self.copied + self.ahead.len());
        self.ahead.clear();
        let (copied, ahead) = (self.copied, &mut self.ahead);
        let copy = self.list.wait(|cargo| {
            let rest = cargo.bytes.get(copied..).unwrap_or_default();
            let some = rest.get(..AHEAD_BYTES).unwrap_or(rest);
            let end = memchr::memrchr(b'\n', some).map_or(rest.len(), |end| end + 1);
            ahead.extend_from_slice(rest.get(..end).unwrap_or_default());
            match &cargo.end {
                _ if !ahead.is_empty() => Some(Ok(true)),
                Some(Ok(())) => Some(Ok(false)),
                Some(Err(trouble)) => Some(Err(trouble.clone())),
                None => None,
            }
        });
        Ok(copy.await?)
    }
}

/// Returns the line of a group in a list.
fn line_of<'l>(lines: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let begin = [name, b" "].concat();
    let at = if lines.starts_with(&begin) {
        0
    } else {
        memchr::memmem::find(lines, &[b"\n", &*begin].concat())? + 1
    };
    let rest = lines.get(at..)?;
    rest.get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
}

/// Parses a line of a list; returns `None` if it is invalid.
pub(super) fn info(list: GroupList, line: &[u8], base: CountingBase) -> Option<GroupInfo<'_>> {
    let line = line.trim_ascii_start();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let name = words.next().filter(|name| newsgroups::valid_name(name))?;
    let named = GroupInfo { name, ..GroupInfo::default() };
    Some(match list {
        GroupList::Names => named,
        GroupList::Descriptions => {
            GroupInfo { description: line.get(name.len()..).unwrap_or_default().trim_ascii(), ..named }
        }
        GroupList::Times => {
            let created = words.next().and_then(parse_decimal)?;
            GroupInfo { created, creator: words.next().unwrap_or_default(), ..named }
        }
        GroupList::Changed { since } if changed_at(line).is_some_and(|at| !has_changed(at, since)) => {
            return None;
        }
        GroupList::Active | GroupList::Changed { .. } | GroupList::New { .. } | GroupList::Counts => {
            let number = |word: &[u8]| parse_decimal(word).filter(|number| *number <= ARTICLE_NUMBER_MAX);
            let (high, low) = (words.next().and_then(number)?, words.next().and_then(number)?);
            let low = low.max(1);
            let next = words.next()?;
            // LIST COUNTS has the count before the flag.
            let (count, flag) = match number(next) {
                Some(count) => (Some(count), words.next()?),
                None => (None, next),
            };
            let is_empty = high < low || high == 0 || count == Some(0);
            let estimate = if is_empty { 0 } else { high - low + 1 };
            let low = if is_empty { high.checked_add(1)? } else { low };
            let marks = GroupMarks { low, high, count: count.unwrap_or(estimate).min(estimate) };
            GroupInfo { marks: above(marks, base), flag: known_flag(flag)?, ..named }
        }
    })
}

/// Returns the marks of the articles that count.
fn above(marks: GroupMarks, base: CountingBase) -> GroupMarks {
    let least = base(marks.high).saturating_add(1);
    if marks.low >= least {
        return marks;
    }
    let left = (marks.high + 1).saturating_sub(least);
    GroupMarks { low: least.min(marks.high + 1), count: marks.count.min(left), ..marks }
}

/// Returns a flag valid in LIST ACTIVE (RFC 6048 section 3.1).
fn known_flag(flag: &[u8]) -> Option<&[u8]> {
    let is_known = matches!(flag, b"y" | b"n" | b"m" | b"j" | b"x")
        || flag.strip_prefix(b"=").is_some_and(newsgroups::valid_name);
    is_known.then_some(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_lists_are_parsed() {
        let marks = |list, line: &'static str| {
            info(list, line.as_bytes(), |_| 0)
                .map(|i| (i.marks.high, i.marks.low, i.marks.count, i.flag.to_vec()))
        };
        let flag = |flag: &str| flag.as_bytes().to_vec();
        for (line, expected) in [
            ("a.b 0000000005 0000000002 y", Some((5, 2, 4, flag("y")))),
            ("a.b 5 6 =c.d", Some((5, 6, 0, flag("=c.d")))),
            ("a.b 0 0 n", Some((0, 1, 0, flag("n")))),
            ("a.b 5 2 ?", None),
            ("a.b 5 y", None),
            ("a..b 5 2 y", None),
            ("", None),
        ] {
            assert_eq!(marks(GroupList::Active, line), expected, "{line}");
        }
        assert_eq!(marks(GroupList::Counts, "a.b 5 2 3 m"), Some((5, 2, 3, flag("m"))));
        assert_eq!(marks(GroupList::Counts, "a.b 5 2 99 m"), Some((5, 2, 4, flag("m"))));
        let title = info(GroupList::Descriptions, b"a.b\t\tAll of it ", |_| 0).unwrap();
        assert_eq!(title.description, b"All of it");
        let indented = info(GroupList::Descriptions, b" \ta.b\tAll of it", |_| 0).unwrap();
        assert_eq!((indented.name, indented.description), (&b"a.b"[..], &b"All of it"[..]));
        let times = info(GroupList::Times, b"a.b 1000 me@x", |_| 0).unwrap();
        assert_eq!((times.created, times.creator), (1000, &b"me@x"[..]));
    }

    #[test]
    fn the_line_of_a_group_is_found_by_its_full_name() {
        let lines = b"a.b.c 5 1 y\na.b 7 2 y\nx.a.b 9 3 y\n";
        assert_eq!(line_of(lines, b"a.b"), Some(&b"a.b 7 2 y"[..]));
        assert_eq!(line_of(lines, b"a.b.c"), Some(&b"a.b.c 5 1 y"[..]));
        assert_eq!(line_of(lines, b"x.a.b"), Some(&b"x.a.b 9 3 y"[..]));
        assert_eq!((line_of(lines, b"a"), line_of(b"", b"a")), (None, None));
    }

    #[test]
    fn marks_above_a_base() {
        let marks = GroupMarks { low: 3, high: 9, count: 5 };
        assert_eq!(above(marks, |_| 0), marks);
        assert_eq!(above(marks, |_| 5), GroupMarks { low: 6, high: 9, count: 4 });
        assert_eq!(above(marks, |high| high), GroupMarks { low: 10, high: 9, count: 0 });
    }
}
