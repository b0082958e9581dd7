//! LIST ACTIVE as the cache keeps it: each line with the time when it last changed, refreshed by LIST
//! ACTIVE.MODTIME where the upstream offers that, so that groups in which nothing has happened are not listed
//! again.
//!
//! The times are those at which this server learned of a change, by its own clock, so they hold for its
//! readers whether the upstream has such a list or not; they are kept with the list. LIST ACTIVE.MODTIME does
//! not report groups that were removed: once a day the whole list is fetched. Called by `lists`. Format:
//! `docs/formats/cache.md`; source: the NewsCache paper, section 7.

use super::flight::Landing;
use super::line::UpstreamConnection;
use super::lists::{ListFlight, take_lines};
use super::pool::UpstreamQuestion;
use super::trouble::UpstreamError;
use hashbrown::HashMap;
use netnews::date::parse_nntp;
use netnews::decimal::parse_decimal;
use netnews::nntp::response::code;
use site_base::clock::{unix_now, unix_secs};

/// Time for which a list is only refreshed by its changes, before the whole list is fetched.
const WHOLE_AGE_SECS: u64 = 24 * 3600;
/// Seconds before the last list from which on changes are requested.
const OVERLAP_SECS: u64 = 60;
/// First word of the line that says when a list was asked for; no group has such a name.
const ASKED: &[u8] = b".asked";

/// When a list was asked for, and when all of it was, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListTimes {
    asked: u64,
    whole: u64,
}

impl ListTimes {
    /// Returns the times of a list; `None` if it was kept before there were such times.
    fn of(list: &[u8]) -> Option<Self> {
        let line = list.split(|b| *b == b'\n').next()?;
        let mut words = line.strip_prefix(ASKED)?.strip_prefix(b" ")?.split(|b| *b == b' ');
        let (asked, whole) = (parse_decimal(words.next()?)?, parse_decimal(words.next()?)?);
        Some(Self { asked, whole })
    }

    fn line(self) -> Vec<u8> {
        [ASKED, format!(" {} {}\n", self.asked, self.whole).as_bytes()].concat()
    }

    /// The time, by the clock of an upstream that is `ahead` of ours, since when changes are to be asked for;
    /// `None`: the whole list is.
    fn since(self, now: u64, ahead: i64) -> Option<u64> {
        let is_whole_enough = (self.whole..self.whole.saturating_add(WHOLE_AGE_SECS)).contains(&now);
        let since = self.asked.saturating_sub(OVERLAP_SECS).checked_add_signed(ahead)?;
        is_whole_enough.then_some(since)
    }
}

/// A line of a kept list without the time of its last change, and that time.
fn split_time(line: &[u8]) -> (&[u8], Option<u64>) {
    let at = memchr::memrchr(b'\t', line);
    let split = at.and_then(|at| Some((line.get(..at)?, parse_decimal(line.get(at + 1..)?)?)));
    split.map_or((line, None), |(text, time)| (text, Some(time)))
}

/// When a line of a list last changed, in Unix seconds; `None`: it is not known.
pub(super) fn changed_at(line: &[u8]) -> Option<u64> {
    split_time(line).1
}

/// The lines of a kept list that are about groups.
fn entries(list: &[u8]) -> impl Iterator<Item = (&[u8], Option<u64>)> {
    let lines = list.split(|b| *b == b'\n').filter(|line| !line.is_empty() && !line.starts_with(ASKED));
    lines.map(split_time)
}

/// The name of the group that a line is about.
fn name_of(line: &[u8]) -> &[u8] {
    line.split(u8::is_ascii_whitespace).next().unwrap_or_default()
}

/// Appends a line with its time: the one that it had, or else now.
fn append_line(text: &[u8], known: Option<u64>, now: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(text);
    into.extend_from_slice(format!("\t{}\n", known.unwrap_or(now)).as_bytes());
}

/// A kept list with the lines that have changed since, all of them with their times. New groups come in the
/// order of their names.
fn merged(kept: &[u8], changed: &[u8], now: u64) -> Vec<u8> {
    let mut changed: Vec<_> = entries(changed).map(|(text, _)| (name_of(text), text)).collect();
    changed.sort_by_key(|(name, _)| *name);
    let old: HashMap<&[u8], ()> = entries(kept).map(|(text, _)| (name_of(text), ())).collect();
    let new = changed.iter().filter(|(name, _)| !old.contains_key(name));
    let (mut new, mut out) = (new.peekable(), Vec::with_capacity(kept.len()));
    for (text, time) in entries(kept) {
        let name = name_of(text);
        while let Some((_, text)) = new.next_if(|(new, _)| *new < name) {
            append_line(text, None, now, &mut out);
        }
        let found = changed.binary_search_by_key(&name, |(name, _)| *name).ok();
        match found.and_then(|at| changed.get(at)).filter(|(_, new)| *new != text) {
            Some((_, text)) => append_line(text, None, now, &mut out),
            None => append_line(text, time, now, &mut out),
        }
    }
    new.for_each(|(_, text)| append_line(text, None, now, &mut out));
    out
}

/// LIST ACTIVE, in full or what of it has changed.
pub(super) struct AskActive<'a> {
    /// The list that is kept.
    pub kept: Option<ListFlight>,
    pub landing: &'a Landing<()>,
}

impl UpstreamQuestion for AskActive<'_> {
    type Answer = ();

    async fn ask(&mut self, line: &mut UpstreamConnection) -> Result<(), UpstreamError> {
        let kept = self.kept.as_ref().map(|kept| kept.look(|cargo| cargo.bytes.clone())).unwrap_or_default();
        let (times, now) = (ListTimes::of(&kept), unix_secs());
        if let Some(times) = times
            && let Some(ahead) = clock_ahead(line).await?
            && let Some(since) = times.since(now, ahead)
            && let Some(changed) = changed_since(line, since).await?
        {
            let lines = merged(&kept, &changed, unix_secs());
            let head = ListTimes { asked: now, ..times }.line();
            self.landing.change(|cargo| cargo.bytes = [head, lines].concat());
            return Ok(());
        }
        let known: HashMap<&[u8], Option<u64>> = match times {
            Some(_) => entries(&kept).collect(),
            None => HashMap::new(),
        };
        let status = line.request("LIST ACTIVE").await?;
        if !status.has_block {
            return Err(status.refused());
        }
        let head = ListTimes { asked: now, whole: now }.line();
        take_lines(line, self.landing, head, |text, into| {
            append_line(text, known.get(text).copied().flatten(), unix_secs(), into);
        })
        .await
    }
}

/// Returns how many seconds the clock of the server is ahead of ours, or `None` if it does not offer LIST
/// ACTIVE.MODTIME. The server is asked once.
async fn clock_ahead(line: &mut UpstreamConnection) -> Result<Option<i64>, UpstreamError> {
    if let Some(known) = line.lacking.clock_ahead.get() {
        return Ok(*known);
    }
    line.submit("CAPABILITIES")?;
    line.submit("DATE")?;
    let is_offered = offers_changes(line).await?;
    let date = line.answer().await?;
    let ahead = match date.text.split_at_checked(8) {
        Some((day, time)) if date.code == code::DATE => parse_nntp(day, time.trim_ascii(), unix_now()),
        _ => None,
    };
    let ahead = ahead.map(|theirs| theirs - unix_now()).filter(|_| is_offered);
    Ok(*line.lacking.clock_ahead.get_or_init(|| ahead))
}

async fn offers_changes(line: &mut UpstreamConnection) -> Result<bool, UpstreamError> {
    let status = line.answer().await?;
    let mut is_offered = false;
    if status.has_block {
        while let Some(text) = line.block_line().await? {
            let mut words = text.split(u8::is_ascii_whitespace);
            is_offered |= words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"LIST"))
                && words.any(|word| word.eq_ignore_ascii_case(b"ACTIVE.MODTIME"));
        }
    }
    Ok(is_offered)
}

/// Asks for the groups that have changed since then, in Unix seconds; returns `None` if the server does not
/// know the command.
async fn changed_since(line: &mut UpstreamConnection, since: u64) -> Result<Option<Vec<u8>>, UpstreamError> {
    let status = line.request(format!("LIST ACTIVE.MODTIME {since}")).await?;
    if !status.has_block {
        return match status.refused() {
            UpstreamError::Refused(..) => Ok(None),
            trouble => Err(trouble),
        };
    }
    line.bound_list();
    let mut lines = Vec::new();
    while let Some(text) = line.block_line().await? {
        lines.extend_from_slice(text);
        lines.push(b'\n');
    }
    Ok(Some(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_replace_those_of_a_kept_list_with_the_time_of_the_change() {
        let kept = b".asked 100 50\na.b 3 1 y\t70\nc.d 5 1 y\t80\ne.f 0 1 n\t90\n";
        let changed = b"c.d 6 1 y\nb.new 1 1 y\ne.f 0 1 n\nz.new 2 1 y\n";
        let expected = "a.b 3 1 y\t70\nb.new 1 1 y\t200\nc.d 6 1 y\t200\ne.f 0 1 n\t90\nz.new 2 1 y\t200\n";
        assert_eq!(String::from_utf8(merged(kept, changed, 200)).unwrap(), expected);
    }

    #[test]
    fn changes_are_asked_for_by_the_clock_of_the_upstream_until_the_list_is_a_day_old() {
        let times = ListTimes::of(b".asked 1000 900\na.b 3 1 y\t70\n").unwrap();
        assert_eq!(times, ListTimes { asked: 1000, whole: 900 });
        assert_eq!(ListTimes::of(&times.line()), Some(times));
        assert_eq!(times.since(1100, 7), Some(947));
        assert_eq!(times.since(1100, -7), Some(933));
        assert_eq!(times.since(900 + WHOLE_AGE_SECS, 0), None);
        // A clock that was set back says nothing.
        assert_eq!(times.since(800, 0), None);
        assert_eq!(ListTimes::of(b"a.b 3 1 y\n"), None);
    }
}
