//! The log of INN's nnrpd, as written by syslog.
//!
//! With `nnrpd -t` it has all commands, so the articles read are known exactly. Otherwise it has at the end
//! of a session how many articles a client read in a group (`group NAME COUNT`) and their total size
//! (`artstats`): then the client is assumed to have read the articles that came since its last visit. Called
//! by `trace`.

use std::collections::HashMap;
use std::hash::Hash;

use netnews::date::parse_nntp;
use netnews::decimal::parse_decimal;

use super::trace::{TraceBuilder, USUAL_BYTES};

/// Maximum number of open sessions.
const SESSIONS_MAX: usize = 1 << 16;
/// Maximum number of pairs of a client and a group whose last article is known.
const LAST_READ_MAX: usize = 1 << 22;
/// Maximum number of groups whose highest number is known.
const GROUPS_MAX: usize = 1 << 20;
/// Maximum number of visits to groups that wait for the end of their sessions.
const VISITS_MAX: usize = 1 << 20;
/// Maximum number of articles that are read in one group at one visit.
const ARTICLES_OF_VISIT_MAX: u64 = 100_000;
const DAY_SECONDS: i64 = 86_400;

/// A group that a client has read in during its session.
#[derive(Debug)]
struct GroupVisit {
    group: String,
    /// Number of articles read.
    articles: u64,
}

#[derive(Debug, Default)]
struct NnrpdSession {
    client: String,
    group: String,
    at: u64,
    /// True if it has commands, so that the summary at the end is redundant.
    has_commands: bool,
    /// Visits whose articles are requested at the end of the session, when their sizes are known.
    visits: Vec<GroupVisit>,
}

/// State of reading a log.
#[derive(Debug, Default)]
pub(crate) struct NnrpdLog {
    sessions: HashMap<String, NnrpdSession>,
    /// Number of visits of all sessions.
    visits: usize,
    /// Last number that a client has read of a group.
    last_read: HashMap<(String, String), u64>,
    /// Highest number that is known of a group.
    highest: HashMap<String, u64>,
    clock: LogClock,
}

impl NnrpdLog {
    /// Reads a line of the log; returns false if nnrpd did not write it.
    pub fn line(&mut self, line: &str, to: &mut TraceBuilder) -> bool {
        let Some((head, text)) = line.split_once(": ") else { return false };
        let Some(process) = head.rsplit(' ').next().filter(|word| word.starts_with("nnrpd")) else {
            return false;
        };
        let at = self.clock.time_of(head);
        let mut words = text.split(' ');
        let (Some(client), Some(verb)) = (words.next(), words.next()) else { return true };
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(process) {
            return true;
        }
        let session = self.sessions.entry(process.to_owned()).or_default();
        (session.at, session.client) = (at, client.to_owned());
        let number = |word: Option<&str>| parse_decimal(word.unwrap_or_default().as_bytes());
        match verb {
            "<" => {
                session.has_commands = true;
                command(session, words, to);
            }
            "group" if !session.has_commands && self.visits < VISITS_MAX => {
                let group = words.next().unwrap_or_default().to_owned();
                let articles = number(words.next()).filter(|n| (1..=ARTICLES_OF_VISIT_MAX).contains(n));
                if let Some(articles) = articles {
                    session.visits.push(GroupVisit { group, articles });
                    self.visits += 1;
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
                self.add_visits(process, bytes.unwrap_or(USUAL_BYTES), to);
            }
            // This line is the last one of a session.
            "times" => {
                self.add_visits(process, USUAL_BYTES, to);
                self.sessions.remove(process);
            }
            _ => {}
        }
        true
    }

    /// Ends the sessions whose end is not in the log.
    pub fn finish(mut self, to: &mut TraceBuilder) {
        let mut processes: Vec<String> = self.sessions.keys().cloned().collect();
        processes.sort_unstable();
        for process in processes {
            self.add_visits(&process, USUAL_BYTES, to);
        }
    }

    /// Adds requests for the articles that a client has read in each group of its session: those after the
    /// last one of its visit before. Each article has this size.
    fn add_visits(&mut self, process: &str, bytes: u64, to: &mut TraceBuilder) {
        let Some(session) = self.sessions.get_mut(process) else { return };
        self.visits -= session.visits.len();
        for GroupVisit { group, articles } in std::mem::take(&mut session.visits) {
            let reader = (session.client.clone(), group.clone());
            let highest = self.highest.get(&group).copied().unwrap_or_default();
            // A new client begins with the newest articles.
            let before = self.last_read.get(&reader).copied().unwrap_or(highest.saturating_sub(articles));
            let last = before + articles;
            for number in before + 1..=last {
                to.article(session.at, &session.client, &group, number, "", bytes);
            }
            insert_up_to(&mut self.highest, group, last.max(highest), GROUPS_MAX);
            insert_up_to(&mut self.last_read, reader, last, LAST_READ_MAX);
        }
    }
}

/// Sets the value of a key, unless that would add one to as many as there may be.
fn insert_up_to<K: Hash + Eq>(to: &mut HashMap<K, u64>, key: K, value: u64, keys_max: usize) {
    if to.len() < keys_max || to.contains_key(&key) {
        to.insert(key, value);
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

/// Times of the lines of a log, some of which have no year.
#[derive(Debug)]
struct LogClock {
    /// Time of the last line, in Unix seconds.
    last: u64,
    /// Year and month of the last line. Until a line has a year, the first ones are taken to be of 1970.
    year: u64,
    month: u64,
}

impl Default for LogClock {
    fn default() -> Self {
        Self { last: 0, year: 1970, month: 1 }
    }
}

impl LogClock {
    /// Returns the time of a line, in Unix seconds: `2026-11-23T04:31:11`, or `Nov 23 04:31:11`, which lies
    /// in the year that is nearest to the last line. A line without a time has that of the last one.
    fn time_of(&mut self, head: &str) -> u64 {
        if let Some(at) = self.dated(head).or_else(|| self.without_year(head)) {
            self.last = at;
        }
        self.last
    }

    fn dated(&mut self, head: &str) -> Option<u64> {
        let first = head.split(' ').next()?;
        let (date, time) = first.split_once('T').filter(|(date, _)| date.len() == 10)?;
        let mut parts = date.split('-').map(|part| parse_decimal(part.as_bytes()));
        self.at(parts.next()??, parts.next()??, parts.next()??, time)
    }

    fn without_year(&mut self, head: &str) -> Option<u64> {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let mut words = head.split(' ').filter(|word| !word.is_empty());
        let month = words.next()?;
        let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
        let day = parse_decimal(words.next()?.as_bytes())?;
        let year = match () {
            () if month + 6 < self.month => self.year + 1,
            () if month > self.month + 6 && self.last > 0 => self.year.saturating_sub(1),
            () => self.year,
        };
        self.at(year, month, day, words.next()?)
    }

    /// Returns the time of a date with a time of day, whose seconds may have a fraction.
    fn at(&mut self, year: u64, month: u64, day: u64, time: &str) -> Option<u64> {
        let clock: String = time.get(..8)?.split(':').collect();
        // 29 February of a year that is not known to have it is the first of March.
        let first = parse_nntp(format!("{year:04}{month:02}01").as_bytes(), clock.as_bytes(), 0)?;
        let days = i64::try_from(day).ok().filter(|day| (1..=31).contains(day))? - 1;
        (self.year, self.month) = (year, month);
        u64::try_from(first + days * DAY_SECONDS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Trace;
    use super::*;

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

    #[test]
    fn times_are_unix_seconds_with_and_without_a_year() {
        let mut clock = LogClock::default();
        for (head, at) in [
            ("Nov 23 04:31:11 news", 28_182_671),
            ("2026-11-23T04:31:11.5+00:00 news", 1_795_408_271),
            ("Dec 31 23:59:59 news", 1_798_761_599),
            ("Jan  1 00:00:00 news", 1_798_761_600),
            // Lines of two processes may change places.
            ("Dec 31 23:59:58 news", 1_798_761_598),
            ("Jan  1 00:00:01 news", 1_798_761_601),
            ("Feb 29 00:00:00 news", 1_803_859_200),
            ("no time", 1_803_859_200),
            ("Feb 32 00:00:00 news", 1_803_859_200),
        ] {
            assert_eq!(clock.time_of(head), at, "{head}");
        }
    }

    #[test]
    fn what_is_known_of_groups_and_readers_is_limited() {
        let mut known = HashMap::new();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3), ("a", 4)] {
            insert_up_to(&mut known, key, value, 2);
        }
        assert_eq!((known.len(), known["a"], known["b"]), (2, 4, 2));
    }
}
