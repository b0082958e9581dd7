//! The log of INN's nnrpd, as written by syslog.
//!
//! With `nnrpd -t` it has all commands, so the articles read are known exactly. Otherwise it has at the end
//! of a session how many articles a client read in a group (`group NAME COUNT`) and their total size
//! (`artstats`): then the client is assumed to have read the articles that came since its last visit. Called
//! by `trace`.

use std::collections::HashMap;

use netnews::decimal::parse_decimal;

use super::trace::{TraceBuilder, USUAL_BYTES};

/// Maximum number of open sessions, and of groups with known positions of clients.
const SESSIONS_MAX: usize = 1 << 16;
const PLACES_MAX: usize = 1 << 22;
/// Maximum number of articles of a session that wait for their sizes.
const WAITING_MAX: usize = 1 << 16;
/// Maximum number of articles that are read in one group at one visit.
const VISIT_MAX: u64 = 100_000;
const DAY_SECONDS: u64 = 86_400;

#[derive(Debug, Default)]
struct NnrpdSession {
    client: String,
    group: String,
    at: u64,
    /// True if it has commands, so that the summary at the end is redundant.
    has_commands: bool,
    waiting: Vec<(String, u64)>,
}

/// State of reading a log.
#[derive(Debug, Default)]
pub(crate) struct NnrpdLog {
    sessions: HashMap<String, NnrpdSession>,
    /// Last number that a client has read of a group.
    places: HashMap<(String, String), u64>,
    highs: HashMap<String, u64>,
    last_at: u64,
}

impl NnrpdLog {
    /// Reads a line; returns false if it is none of nnrpd's.
    pub fn line(&mut self, line: &str, to: &mut TraceBuilder) -> bool {
        let Some((head, text)) = line.split_once(": ") else { return false };
        let Some(pid) = head.rsplit(' ').next().filter(|word| word.starts_with("nnrpd")) else {
            return false;
        };
        let at = time_of(head).unwrap_or(self.last_at);
        self.last_at = at;
        let mut words = text.split(' ');
        let (Some(client), Some(verb)) = (words.next(), words.next()) else { return true };
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(pid) {
            return true;
        }
        let session = self.sessions.entry(pid.to_owned()).or_default();
        (session.at, session.client) = (at, client.to_owned());
        let number = |word: Option<&str>| parse_decimal(word.unwrap_or_default().as_bytes());
        match verb {
            "<" => {
                session.has_commands = true;
                command(session, words, to);
            }
            "group" if !session.has_commands && session.waiting.len() < WAITING_MAX => {
                let group = words.next().unwrap_or_default();
                if let Some(count) = number(words.next()).filter(|count| (1..=VISIT_MAX).contains(count)) {
                    session.waiting.push((group.to_owned(), count));
                }
                to.other();
            }
            "artstats" => {
                let figures: Vec<&str> = words.collect();
                let figure = |name| {
                    let at = figures.iter().position(|word| *word == name)?;
                    number(figures.get(at + 1).copied())
                };
                let count = figure("get").unwrap_or(0);
                let bytes = figure("size").unwrap_or(0).checked_div(count).filter(|bytes| *bytes > 0);
                self.visits(pid, bytes.unwrap_or(USUAL_BYTES), to);
            }
            // This line is the last one of a session.
            "times" => {
                self.visits(pid, USUAL_BYTES, to);
                self.sessions.remove(pid);
            }
            _ => {}
        }
        true
    }

    /// Ends the sessions whose end is not in the log.
    pub fn finish(mut self, to: &mut TraceBuilder) {
        let mut pids: Vec<String> = self.sessions.keys().cloned().collect();
        pids.sort_unstable();
        for pid in pids {
            self.visits(&pid, USUAL_BYTES, to);
        }
    }

    /// Adds requests for the next articles of each group.
    fn visits(&mut self, pid: &str, bytes: u64, to: &mut TraceBuilder) {
        let Some(session) = self.sessions.get_mut(pid) else { return };
        for (group, count) in std::mem::take(&mut session.waiting) {
            let high = self.highs.entry(group.clone()).or_insert(0);
            let place = (session.client.clone(), group.clone());
            // A new client begins with the newest articles.
            let before = self.places.get(&place).copied().unwrap_or(high.saturating_sub(count));
            let last = before + count;
            *high = last.max(*high);
            for number in before + 1..=last {
                to.article(session.at, &session.client, &group, number, "", bytes);
            }
            if self.places.len() < PLACES_MAX || self.places.contains_key(&place) {
                self.places.insert(place, last);
            }
        }
    }
}

/// Handles a command of a client, as logged by `nnrpd -t`.
fn command<'a>(session: &mut NnrpdSession, mut words: impl Iterator<Item = &'a str>, to: &mut TraceBuilder) {
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let argument = words.next().unwrap_or_default();
    match verb.as_str() {
        "GROUP" | "LISTGROUP" => {
            argument.clone_into(&mut session.group);
            to.other();
        }
        "ARTICLE" | "BODY" if argument.starts_with('<') => {
            to.article(session.at, &session.client, &session.group, 0, argument, USUAL_BYTES);
        }
        "ARTICLE" | "BODY" => {
            if let Some(number) = parse_decimal(argument.as_bytes()) {
                to.article(session.at, &session.client, &session.group, number, "", USUAL_BYTES);
            }
        }
        _ => to.other(),
    }
}

/// Parses the time of a line: `2026-11-23T04:31:11`, or `Nov 23 04:31:11`, in seconds of some epoch.
fn time_of(head: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let number = |text: &str| parse_decimal(text.as_bytes());
    let clock = |text: &str| {
        let mut parts = text.get(..8)?.split(':');
        let mut part = |limit| number(parts.next()?).filter(|n| *n < limit);
        Some(part(24)? * 3600 + part(60)? * 60 + part(61)?)
    };
    if let Some((date, time)) = head.split(' ').next()?.split_once('T').filter(|(date, _)| date.len() == 10) {
        let mut parts = date.split('-');
        let mut part = || number(parts.next()?);
        let (year, month, day) = (part()?, part()?, part()?);
        // An approximate calendar is enough for the order.
        return Some((year.min(9999) * 372 + month.min(12) * 31 + day.min(31)) * DAY_SECONDS + clock(time)?);
    }
    let mut words = head.split(' ').filter(|word| !word.is_empty());
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let day = number(words.next()?)?.min(31);
    Some((month * 31 + day) * DAY_SECONDS + clock(words.next()?)?)
}

#[cfg(test)]
mod tests {
    use super::super::trace::Trace;

    #[test]
    fn visits_are_the_articles_since_the_last_one() {
        let log = "Nov 23 04:31:11 news nnrpd[77]: a.example (192.0.2.1) connect\n\
                   Nov 23 04:33:00 news nnrpd[77]: a.example group comp.lang.c 3\n\
                   Nov 23 04:33:00 news nnrpd[77]: a.example exit articles 3 groups 1\n\
                   Nov 23 04:33:00 news nnrpd[77]: a.example artstats get 3 time 0 size 6000\n\
                   Nov 23 04:33:00 news nnrpd[77]: a.example times user 0.0 system 0.0 idle 0.0 elapsed 1.0\n\
                   2026-11-23T05:00:00.5+00:00 news nnrpd[78]: b.example group comp.lang.c 2\n\
                   2026-11-23T05:00:00.5+00:00 news nnrpd[78]: \
                   b.example times user 0 system 0 idle 0 elapsed 1\n\
                   Nov 23 04:33:00 news innd: ME time 1\n";
        let trace = Trace::read(log.as_bytes(), |_| ()).unwrap();
        assert_eq!((trace.requests.len(), trace.articles.len(), trace.clients), (5, 3, 2));
        assert_eq!(trace.articles[0].bytes, 2000);
        assert_eq!(trace.unknown_lines, 1);
    }

    #[test]
    fn commands_are_taken_as_they_are() {
        let log = "Nov  3 04:31:11 news nnrpd[77]: a.example < GROUP a.b\n\
                   Nov  3 04:31:12 news nnrpd[77]: a.example < ARTICLE 5\n\
                   Nov  3 04:31:12 news nnrpd[77]: a.example < ARTICLE <x@y>\n\
                   Nov  3 04:31:13 news nnrpd[77]: a.example < article 5\n\
                   Nov  3 04:33:00 news nnrpd[77]: a.example group a.b 3\n";
        let trace = Trace::read(log.as_bytes(), |_| ()).unwrap();
        assert_eq!((trace.requests.len(), trace.articles.len()), (3, 2));
        assert_eq!(trace.requests[2].at - trace.requests[0].at, 1);
    }
}
