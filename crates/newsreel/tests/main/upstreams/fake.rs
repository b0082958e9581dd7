//! A fake upstream: it has the articles that a test gives it, records every command, and answers wrongly,
//! slowly or not at all as configured.

use crate::waiting::{PATIENCE, let_pass, wait_for_close};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Misbehaviour of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// The status line of an article has another number.
    OtherNumber,
    /// The status line of an article has another Message-ID.
    OtherId,
    /// The article is another one.
    OtherArticle,
    /// The article and its status line are of another one.
    Exchanged,
    /// Half of the article is missing, but it ends as if it were complete.
    Truncated,
    /// Articles end in the middle, with the connection.
    BreaksOff,
    /// The article of this number ends in the middle each time, with the connection.
    BreaksOffAt(u64),
    /// An article ends in the middle once, with the connection.
    BreaksOffOnce,
    /// Like `BreaksOffOnce`; afterwards articles have other bodies.
    ContinuesOtherwise,
    /// Articles are refused with this code.
    Refuses(u16),
    /// NUL octets in place of the article.
    Garbage,
    /// No response.
    Silent,
    /// Connections are closed at once.
    Dead,
    /// No article is found by number or Message-ID.
    Forgetful,
    /// Rows of other numbers.
    OtherRows,
    /// Rows, numbers and values of headers come in descending order.
    Descending,
    /// The first row is repeated as the last, and one is missing.
    RowAgain,
    /// The row of article 3 has a line end in its Subject.
    BrokenRow,
    /// The row of article 3 is sent twice.
    RowTwice,
    /// The row of article 3 has a TAB in its Subject.
    TabInRow,
    /// The row of article 3 has a Message-ID without brackets.
    RowWithoutId,
    /// Articles without their bodies, which end as if they were complete.
    NoBody,
    /// A post is accepted, but the connection ends before the response.
    TakesSilently,
    /// Posts are refused.
    RefusesPosts,
    /// Posts are refused for now.
    TakesPostsLater,
    /// A list stops after some lines, with the connection left open.
    Stalls,
    /// A list has an endless line.
    EndlessLine,
    /// Lists of groups and of numbers are endless.
    EndlessList,
    /// Only commands of RFC 3977 are supported.
    LacksOld,
    /// Commands of RFC 3977 that are not in RFC 2980 are not supported.
    LacksNew,
}

/// Lines of a list before its fault.
const LIST_LINES: usize = 5;

/// One group: articles by number, and the high mark.
#[derive(Debug, Default, Clone)]
pub struct Group {
    pub high: u64,
    pub articles: BTreeMap<u64, String>,
}

#[derive(Default)]
struct State {
    fault: Fault,
    groups: BTreeMap<String, Group>,
    commands: Vec<String>,
    posts: Vec<String>,
    /// Delay before each response.
    delay: Duration,
    /// Number of times that all logins have expired.
    lapses: usize,
    /// Set if logins are no longer accepted.
    honours_none: bool,
    /// Maximum and current number of connections.
    connections_max: Option<usize>,
    connections: usize,
    /// Limit in bytes of articles and lines of lists, until it is lifted.
    held: Option<usize>,
    /// Number of answers that wait for that.
    waiting: usize,
    /// Groups that LIST ACTIVE.MODTIME shows; `None`: it does not offer that.
    changed: Option<Vec<String>>,
}

/// The upstream.
#[derive(Clone)]
pub struct Fake {
    pub address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Fake {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let own = fake.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                // The client ends the connection.
                std::thread::spawn(move || {
                    if own.counted(1) {
                        own.serve(stream).unwrap_or_default();
                    } else {
                        let _ended = write!(&stream, "502 Too many connections\r\n");
                    }
                    own.counted(-1);
                });
            }
        });
        fake
    }

    /// Starts an upstream with a group of `count` articles of this size.
    pub fn with(group: &str, count: u64, bytes: usize) -> Self {
        let fake = Self::start();
        (1..=count).for_each(|number| fake.put(group, number, bytes));
        fake
    }

    pub fn put(&self, group: &str, number: u64, bytes: usize) {
        let article = article(group, number, bytes);
        self.change(|groups| {
            let group = groups.entry(group.to_owned()).or_default();
            group.high = group.high.max(number);
            group.articles.insert(number, article);
        });
    }

    pub fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Group>)) {
        change(&mut self.state.0.lock().unwrap().groups);
    }

    pub fn fail(&self, fault: Fault) {
        self.state.0.lock().unwrap().fault = fault;
    }

    /// Expires the logins of open connections, and with `honours_none` also later ones.
    pub fn log_out(&self, honours_none: bool) {
        let mut state = self.state.0.lock().unwrap();
        state.lapses += 1;
        state.honours_none = honours_none;
    }

    /// Returns whether a login made after this many expiries is no longer valid.
    fn has_lapsed(&self, login: Option<usize>) -> bool {
        let state = self.state.0.lock().unwrap();
        login.is_some_and(|after| state.honours_none || state.lapses > after)
    }

    pub fn delay(&self, delay: Duration) {
        self.state.0.lock().unwrap().delay = delay;
    }

    /// Refuses further connections.
    pub fn allow(&self, connections: usize) {
        self.state.0.lock().unwrap().connections_max = Some(connections);
    }

    pub fn hold(&self, held: Option<usize>) {
        self.state.0.lock().unwrap().held = held;
        self.state.1.notify_all();
    }

    /// Waits until an answer is held, whose beginning was sent.
    pub fn wait_until_held(&self) {
        let state = self.state.0.lock().unwrap();
        let held = self.state.1.wait_timeout_while(state, PATIENCE, |state| state.waiting == 0);
        assert!(!held.unwrap().1.timed_out(), "no answer is held");
    }

    /// Offers LIST ACTIVE.MODTIME, which shows these groups.
    pub fn offer_changes(&self, groups: &[&str]) {
        self.state.0.lock().unwrap().changed = Some(groups.iter().map(|name| name.to_string()).collect());
    }

    /// Returns the commands so far that begin with this word, and drops all.
    pub fn take(&self, word: &str) -> Vec<String> {
        let commands = std::mem::take(&mut self.state.0.lock().unwrap().commands);
        commands.into_iter().filter(|command| command.starts_with(word)).collect()
    }

    /// Returns the posts accepted, in order.
    pub fn posts(&self) -> Vec<String> {
        self.state.0.lock().unwrap().posts.clone()
    }

    /// Counts connections; returns false if there are too many.
    fn counted(&self, more: isize) -> bool {
        let mut state = self.state.0.lock().unwrap();
        state.connections = state.connections.saturating_add_signed(more);
        state.connections_max.is_none_or(|max| state.connections <= max)
    }

    fn changed(&self) -> Option<Vec<String>> {
        self.state.0.lock().unwrap().changed.clone()
    }

    fn fault(&self) -> Fault {
        self.state.0.lock().unwrap().fault
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        if self.fault() == Fault::Dead {
            return Ok(());
        }
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        write!(stream, "200 ready\r\n")?;
        let (mut selected, mut login) = (String::new(), None);
        while let Some(line) = lines.next().transpose()? {
            self.state.0.lock().unwrap().commands.push(line.clone());
            match self.fault() {
                Fault::Dead => return Ok(()),
                Fault::Silent => {
                    wait_for_close(&stream);
                    return Ok(());
                }
                _ => {
                    let delay = self.state.0.lock().unwrap().delay;
                    let_pass(delay, "this upstream is slow");
                }
            }
            let words: Vec<&str> = line.split(' ').collect();
            if self.lacks(&words) {
                let is_known = words.first() == Some(&"LISTGROUP");
                write!(stream, "{}\r\n", if is_known { "501 too much" } else { "500 what?" })?;
                continue;
            }
            match words[..] {
                ["MODE", _] => write!(stream, "200 ready\r\n")?,
                ["AUTHINFO", "USER", _] => write!(stream, "381 go on\r\n")?,
                ["AUTHINFO", "PASS", _] => {
                    login = Some(self.state.0.lock().unwrap().lapses);
                    write!(stream, "281 welcome\r\n")?;
                }
                _ if self.has_lapsed(login) => write!(stream, "480 log in\r\n")?,
                ["CAPABILITIES"] => {
                    let more = if self.changed().is_some() { " ACTIVE.MODTIME" } else { "" };
                    write!(stream, "101 list\r\nVERSION 2\r\nREADER\r\nOVER\r\nLIST ACTIVE{more}\r\n.\r\n")?;
                }
                ["DATE"] if self.changed().is_some() => write!(stream, "111 20261122100000\r\n")?,
                ["LIST", "ACTIVE.MODTIME", _] if let Some(names) = self.changed() => {
                    let groups = self.state.0.lock().unwrap().groups.clone();
                    let lines = names.iter().map(|name| active_line(name, &groups[name]));
                    write!(stream, "215 changed\r\n{}.\r\n", lines.collect::<String>())?;
                }
                ["GROUP", name] => {
                    let found =
                        self.state.0.lock().unwrap().groups.get(name).map(|group| group_line(name, group));
                    if found.is_some() {
                        name.clone_into(&mut selected);
                    }
                    write!(stream, "{}", found.unwrap_or("411 none\r\n".into()))?;
                }
                ["LISTGROUP", name, ..] => {
                    let range = words.get(2).copied().unwrap_or("1-");
                    let group = self.state.0.lock().unwrap().groups.get(name).cloned().unwrap_or_default();
                    let numbers = ends(range);
                    selected = name.to_string();
                    let mut numbers: Vec<_> =
                        group.articles.range(numbers).map(|(number, _)| format!("{number}\r\n")).collect();
                    if self.fault() == Fault::Descending {
                        numbers.reverse();
                    }
                    write!(stream, "{}{}", group_line(name, &group), numbers.concat())?;
                    if self.fault() == Fault::EndlessList {
                        return endless(&mut stream, |at| format!("{}\r\n", group.high + at + 1));
                    }
                    write!(stream, ".\r\n")?;
                }
                ["NEWNEWS", name, ..] => {
                    let group = self.state.0.lock().unwrap().groups.get(name).cloned().unwrap_or_default();
                    let ids = group.articles.values().map(|text| format!("{}\r\n", id_of(text)));
                    write!(stream, "230 new\r\n{}.\r\n", ids.collect::<String>())?;
                }
                ["OVER" | "XOVER", range] => self.rows(&mut stream, &selected, ends(range))?,
                ["ARTICLE" | "HEAD" | "STAT", _] if matches!(self.fault(), Fault::Refuses(_)) => {
                    let Fault::Refuses(code) = self.fault() else { continue };
                    write!(stream, "{code} no\r\n")?;
                    if code == 400 {
                        return Ok(());
                    }
                }
                ["ARTICLE", which] => self.article(&mut stream, &selected, which, false)?,
                ["HEAD", which] => self.article(&mut stream, &selected, which, true)?,
                ["HDR" | "XHDR", name, range] => self.header(&mut stream, &selected, name, ends(range))?,
                ["STAT", which] => {
                    let found = self.find(&selected, which);
                    let none = if which.starts_with('<') { "430 none" } else { "423 none" };
                    let answer = found.map(|(number, text)| format!("223 {number} {}", id_of(&text)));
                    write!(stream, "{}\r\n", answer.as_deref().unwrap_or(none))?;
                }
                ["POST"] => {
                    write!(stream, "340 send it\r\n")?;
                    let text: Vec<_> =
                        lines.by_ref().map_while(Result::ok).take_while(|l| l != ".").collect();
                    let Some(answer) = self.posted(&text) else {
                        return stream.shutdown(std::net::Shutdown::Both);
                    };
                    write!(stream, "{answer}\r\n")?;
                }
                ["LIST", "ACTIVE", ..] => self.list(&mut stream, words.get(2).copied())?,
                ["LIST", keyword] if text_of(keyword).is_some() => {
                    let text = text_of(keyword).unwrap_or_default();
                    write!(stream, "215 text\r\n{text}\r\n.\r\n")?;
                }
                ["XMOTD", "odd"] => write!(stream, "217 so\rit\0is\r\none\rtwo\0\r\n..dot\r\n.\r\n")?,
                ["XMOTD", "long"] => write!(stream, "217 so\r\n{}\r\n.\r\n", "x".repeat(100_000))?,
                ["XMOTD", ..] => write!(stream, "217 {selected}\r\nhello {line}\r\n..dot\r\n.\r\n")?,
                ["XVERSION"] => write!(stream, "207 fake 1.0\r\n")?,
                ["QUIT"] => return write!(stream, "205 bye\r\n"),
                _ => write!(stream, "500 what?\r\n")?,
            }
        }
        Ok(())
    }

    /// Returns whether a command is not supported.
    fn lacks(&self, words: &[&str]) -> bool {
        match self.fault() {
            Fault::LacksOld => matches!(words, ["XOVER" | "XHDR", ..]),
            Fault::LacksNew => matches!(words, ["OVER" | "HDR", ..] | ["LISTGROUP", _, _]),
            _ => false,
        }
    }

    /// Returns the response to a post, if any.
    fn posted(&self, text: &[String]) -> Option<&'static str> {
        let id = |text: &str| text.lines().find(|line| line.starts_with("Message-ID:")).map(str::to_owned);
        let text = text.join("\n");
        let mut state = self.state.0.lock().unwrap();
        match state.fault {
            Fault::RefusesPosts => return Some("441 Not in my house"),
            Fault::TakesPostsLater => return Some("441 436 Not now"),
            _ => {}
        }
        if state.posts.iter().any(|known| id(known) == id(&text)) {
            return Some("441 435 I have it");
        }
        state.posts.push(text);
        (state.fault != Fault::TakesSilently).then_some("240 thanks")
    }

    fn find(&self, selected: &str, which: &str) -> Option<(u64, String)> {
        let state = self.state.0.lock().unwrap();
        if state.fault == Fault::Forgetful {
            return None;
        }
        if let Ok(number) = which.parse() {
            return Some((number, state.groups.get(selected)?.articles.get(&number)?.clone()));
        }
        let mut all = state.groups.values().flat_map(|group| group.articles.values());
        all.find(|article| article.contains(&format!("Message-ID: {which}\r\n")))
            .map(|article| (0, article.clone()))
    }

    fn article(
        &self,
        stream: &mut TcpStream,
        selected: &str,
        which: &str,
        is_head: bool,
    ) -> std::io::Result<()> {
        let Some((number, mut text)) = self.find(selected, which) else {
            return write!(stream, "{} none\r\n", if which.starts_with('<') { 430 } else { 423 });
        };
        let mut id = id_of(&text);
        let mut shown = number;
        match self.fault() {
            Fault::OtherNumber => shown = number + 1,
            Fault::OtherId => id = "<other@fake.example>".into(),
            Fault::OtherArticle => text = article("other", 1, 900),
            Fault::Exchanged => {
                text = article("other", 1, 900);
                id = id_of(&text);
            }
            Fault::Truncated => {
                let half = text.len() / 2;
                text.truncate(text[..half].rfind("\r\n").unwrap() + 2);
            }
            Fault::NoBody => text.truncate(text.find("\r\n\r\n").unwrap() + 4),
            Fault::Garbage => text = text.replace('x', "\0"),
            _ => {}
        }
        if is_head {
            let head = text.split("\r\n\r\n").next().unwrap();
            return write!(stream, "221 {shown} {id}\r\n{head}\r\n.\r\n");
        }
        write!(stream, "220 {shown} {id}\r\n")?;
        let fault = self.fault();
        if fault == Fault::BreaksOffAt(number) {
            stream.write_all(&text.as_bytes()[..text.len() / 2])?;
            return stream.shutdown(std::net::Shutdown::Both);
        }
        if matches!(fault, Fault::BreaksOff | Fault::BreaksOffOnce | Fault::ContinuesOtherwise) {
            if fault == Fault::ContinuesOtherwise {
                let articles = |group: &mut Group| {
                    group.articles.values_mut().for_each(|text| *text = text.replace("xx\r\n", "xy\r\n"));
                };
                self.change(|groups| groups.values_mut().for_each(articles));
            }
            if fault != Fault::BreaksOff {
                self.fail(Fault::None);
            }
            stream.write_all(&text.as_bytes()[..text.len() / 2])?;
            return stream.shutdown(std::net::Shutdown::Both);
        }
        let held = self.state.0.lock().unwrap().held.unwrap_or(text.len()).min(text.len());
        stream.write_all(&text.as_bytes()[..held])?;
        self.wait();
        stream.write_all(&text.as_bytes()[held..])?;
        write!(stream, ".\r\n")
    }

    fn header(
        &self,
        stream: &mut TcpStream,
        selected: &str,
        name: &str,
        numbers: RangeInclusive<u64>,
    ) -> std::io::Result<()> {
        let group = self.state.0.lock().unwrap().groups.get(selected).cloned().unwrap_or_default();
        write!(stream, "221 header\r\n")?;
        let mut articles: Vec<_> = group.articles.range(numbers).collect();
        if self.fault() == Fault::Descending {
            articles.reverse();
        }
        for (number, text) in articles {
            let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            write!(stream, "{number} {}\r\n", value.unwrap_or("(none)"))?;
            if self.fault() == Fault::BreaksOff {
                return stream.shutdown(std::net::Shutdown::Both);
            }
        }
        write!(stream, ".\r\n")
    }

    /// Waits until nothing is held.
    fn wait(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.waiting += 1;
        self.state.1.notify_all();
        state = self.state.1.wait_while(state, |state| state.held.is_some()).unwrap();
        state.waiting -= 1;
    }

    fn rows(
        &self,
        stream: &mut TcpStream,
        selected: &str,
        numbers: RangeInclusive<u64>,
    ) -> std::io::Result<()> {
        let group = self.state.0.lock().unwrap().groups.get(selected).cloned().unwrap_or_default();
        let other = if self.fault() == Fault::OtherRows { 1_000 } else { 0 };
        let rows = group.articles.range(numbers).map(|(number, text)| {
            let (id, bytes) = (id_of(text), text.len());
            let number = number + other;
            // A cache makes the same rows of these articles.
            let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            let (from, date, references) = (value("From: "), value("Date: "), value("References: "));
            let lines = text.lines().skip_while(|line| !line.is_empty()).skip(1).count();
            format!(
                "{number}\tS {number}\t{from}\t{date}\t{id}\t{references}\t{bytes}\t{lines}\tXref: fake.example {selected}:{number}\r\n"
            )
        });
        let mut rows: Vec<_> = rows.collect();
        match self.fault() {
            Fault::Descending => rows.reverse(),
            Fault::RowAgain => {
                rows.remove(rows.len() / 2);
                rows.push(rows[0].clone());
            }
            _ => {}
        }
        if let Some(row) = rows.iter_mut().find(|row| row.starts_with("3\t")) {
            match self.fault() {
                Fault::BrokenRow => *row = row.replacen("S 3", "S 3\r\n", 1),
                Fault::RowTwice => *row = row.repeat(2),
                Fault::TabInRow => *row = row.replacen("S 3", "S\t3", 1),
                Fault::RowWithoutId => *row = row.replace(['<', '>'], ""),
                _ => {}
            }
        }
        let rows = rows.concat();
        if rows.is_empty() {
            return write!(stream, "423 none\r\n");
        }
        write!(stream, "224 rows\r\n{rows}.\r\n")
    }

    fn list(&self, stream: &mut TcpStream, wildmat: Option<&str>) -> std::io::Result<()> {
        let (groups, held) = {
            let state = self.state.0.lock().unwrap();
            (state.groups.clone(), state.held)
        };
        write!(stream, "215 list\r\n")?;
        for (at, (name, group)) in groups.iter().enumerate() {
            if held == Some(at) {
                self.wait();
            }
            if at == LIST_LINES {
                match self.fault() {
                    Fault::BreaksOff => return stream.shutdown(std::net::Shutdown::Both),
                    Fault::Stalls => {
                        wait_for_close(stream);
                        return Ok(());
                    }
                    Fault::EndlessLine => loop {
                        stream.write_all(&[b'x'; 1 << 16])?;
                    },
                    _ => {}
                }
            }
            if wildmat.is_none_or(|wildmat| wildmat == name) {
                stream.write_all(active_line(name, group).as_bytes())?;
            }
        }
        if self.fault() == Fault::EndlessList {
            return endless(stream, |at| format!("comp.z{at} 5 1 y\r\n"));
        }
        write!(stream, ".\r\n")
    }
}

/// Sends lines until the connection ends.
fn endless(stream: &mut TcpStream, line: impl Fn(u64) -> String) -> std::io::Result<()> {
    for piece in 0.. {
        let lines = (0..5_000).map(|at| line(piece * 5_000 + at));
        stream.write_all(lines.collect::<String>().as_bytes())?;
    }
    Ok(())
}

/// Returns its lists other than those of groups.
fn text_of(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "MOTD" => "hello\r\n..dot",
        "SUBSCRIPTIONS" => "comp.a\r\ncomp.none",
        "DISTRIBUTIONS" => "usa In the USA\r\nalone",
        "DISTRIB.PATS" => "10:local.*:local",
        "MODERATORS" => "comp.*:%s@fake.example",
        _ => return None,
    })
}

fn ends(range: &str) -> RangeInclusive<u64> {
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    from.parse().unwrap()..=to.parse().unwrap_or(u64::MAX)
}

fn active_line(name: &str, group: &Group) -> String {
    let low = group.articles.keys().next().copied().unwrap_or(group.high + 1);
    format!("{name} {:010} {low:010} y\r\n", group.high)
}

fn group_line(name: &str, group: &Group) -> String {
    let low = group.articles.keys().next().copied().unwrap_or(group.high + 1);
    format!("211 {} {low} {} {name}\r\n", group.articles.len(), group.high)
}

/// Returns the Message-ID of a fake's article.
pub fn id(group: &str, number: u64) -> String {
    format!("<{number}.{group}@fake.example>")
}

fn id_of(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap().to_owned()
}

fn article(group: &str, number: u64, bytes: usize) -> String {
    let id = id(group, number);
    let body = format!("{}\r\n", "x".repeat(70)).repeat(bytes / 72);
    format!(
        "Path: fake.example!not-for-mail\r\nXref: fake.example {group}:{number}\r\nFrom: F <f@fake.example>\r\n\
         Newsgroups: {group}\r\nSubject: S {number}\r\nDate: Sun, 22 Nov 2026 10:00:00 +0000\r\n\
         Message-ID: {id}\r\n\r\n{body}"
    )
}
