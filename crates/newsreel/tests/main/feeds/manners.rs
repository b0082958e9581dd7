//! Rules for a feeding peer, checked command by command: RFC 3977 and RFC 4644, the order of arrival, and no
//! repeated offers.
//!
//! An offer repeated after a connection broke is no fault. A break may be noticed late, so such faults name
//! the connection that excuses them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Longest command line with its CRLF (RFC 3977 section 3.1).
const LINE_BYTES_MAX: usize = 512;
/// Offers that must have been wanted before a sender sends articles without asking.
const WANTED_BEFORE_UNASKED: u64 = 96;

/// Pauses before a deferred article is offered again, as configured at the sender.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    pub first: Duration,
    pub longest: Duration,
}

/// Response of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 238, 335.
    Wanted,
    /// 431, 436.
    Later,
    /// Anything final.
    Settled,
}

/// State of an article.
#[derive(Debug, Default)]
struct Known {
    /// Connection that has offered it without a response.
    open_on: Option<u64>,
    settled_on: Option<u64>,
    /// Connections and time of the deferrals since the last break.
    later: Option<(Vec<u64>, Instant)>,
}

/// Possible excuse for a fault, known only at the end.
#[derive(Debug)]
enum Excuse {
    Nothing,
    /// One of these connections broke.
    Broken(Vec<u64>),
    /// At least this many connections broke.
    Breaks(usize),
}

/// Checks of one peer.
#[derive(Debug, Default)]
pub struct Manners {
    known: HashMap<String, Known>,
    /// Articles requested and not received, by connection.
    asked: HashMap<u64, VecDeque<String>>,
    /// Articles requested, and skipped by articles requested later.
    passed_over: HashSet<(u64, String)>,
    /// Last article that was offered for the first time, by connection.
    newest: HashMap<u64, usize>,
    /// Number of older articles after newer ones, by connection.
    went_back: HashMap<u64, usize>,
    broken: HashSet<u64>,
    wanted: u64,
    pauses: Option<Pauses>,
    faults: Vec<(Excuse, String)>,
    /// Number of articles with a final response.
    pub settled: usize,
    /// Set if an operator has everything offered again.
    pub may_repeat: bool,
}

impl Manners {
    pub fn with(pauses: Option<Pauses>) -> Self {
        Self { pauses, ..Self::default() }
    }

    /// Returns fresh checks that know the same broken connections.
    pub fn begun_again(&self) -> Self {
        Self { broken: self.broken.clone(), ..Self::default() }
    }

    /// Returns the faults.
    pub fn faults(&self) -> Vec<&str> {
        let counts = |excuse: &Excuse| match excuse {
            Excuse::Nothing => true,
            Excuse::Broken(connections) => connections.iter().all(|own| !self.broken.contains(own)),
            Excuse::Breaks(times) => *times > self.broken.len(),
        };
        self.faults.iter().filter(|(excuse, _)| counts(excuse)).map(|(_, text)| text.as_str()).collect()
    }

    /// Records that a connection ended, or is about to, so that responses may be lost.
    pub fn broke(&mut self, connection: u64) {
        self.broken.insert(connection);
    }

    pub fn is_broken(&self, connection: u64) -> bool {
        self.broken.contains(&connection)
    }

    fn fault(&mut self, text: String) {
        self.faults.push((Excuse::Nothing, text));
    }

    /// Checks a command line.
    pub fn line(&mut self, line: &str) {
        if !line.ends_with("\r\n") || line.len() > LINE_BYTES_MAX || line.trim_end().contains(['\r', '\t']) {
            self.fault(format!("no command line: {line:?}"));
        }
    }

    /// Checks CHECK, IHAVE or TAKETHIS. Commands sent after IHAVE before its response are `pipelined`.
    pub fn offer(&mut self, connection: u64, verb: &str, id: &str, pipelined: bool) {
        if pipelined && verb == "IHAVE" {
            self.fault(format!("something followed IHAVE {id} before the answer"));
        }
        let asked = self.asked.entry(connection).or_default();
        if let Some(at) = asked.iter().position(|asked| verb == "TAKETHIS" && asked == id) {
            // Earlier ones may have been removed, and then must not come.
            let passed_over = asked.drain(..=at).take(at).collect::<Vec<_>>();
            self.passed_over.extend(passed_over.into_iter().map(|id| (connection, id)));
            return;
        }
        if self.passed_over.contains(&(connection, id.to_owned())) {
            self.fault(format!("{id} came after articles that were asked for later"));
        }
        if verb == "TAKETHIS" && self.wanted < WANTED_BEFORE_UNASKED {
            self.fault(format!("{id} came unasked after {} that were wanted", self.wanted));
        }
        self.is_in_order(connection, id);
        let pauses = self.pauses;
        let known = self.known.entry(id.to_owned()).or_default();
        let mut faults = Vec::new();
        // The end of a connection may be noticed after the sender's next action.
        let broken = |other: u64| Excuse::Broken(vec![other, connection]);
        if let Some(other) = known.open_on.replace(connection) {
            faults.push((broken(other), format!("{id} was offered again before the answer")));
        }
        if let Some(other) = known.settled_on.filter(|_| !self.may_repeat) {
            faults.push((broken(other), format!("{id} was offered again after the final answer")));
        }
        if let (Some((others, when)), Some(pauses)) = (&known.later, pauses) {
            let times = others.len();
            let full = pauses.first.saturating_mul(1 << (times - 1).min(20)).min(pauses.longest);
            // The sender's clock has milliseconds.
            if when.elapsed() + Duration::from_millis(2) < full * 3 / 4 {
                let text = format!("{id} was offered again {:?} after answer {times}", when.elapsed());
                faults.push((Excuse::Broken(others.clone()), text));
            }
        }
        self.faults.extend(faults);
    }

    /// Checks that first offers come in the order of arrival. Articles that a broken connection had brought
    /// unread may come on another one after newer articles.
    fn is_in_order(&mut self, connection: u64, id: &str) {
        let number = id.trim_start_matches('<').split('@').next().and_then(|number| number.parse().ok());
        let Some(number) = number.filter(|_| !self.known.contains_key(id)) else { return };
        if let Some(before) = self.newest.insert(connection, number).filter(|before| *before > number) {
            let times = self.went_back.entry(connection).or_default();
            *times += 1;
            let excuse = Excuse::Breaks(*times);
            self.faults.push((excuse, format!("{number} was offered after {before}")));
        }
    }

    /// Records a response; called before it is sent.
    pub fn answer(&mut self, connection: u64, verb: &str, id: &str, answer: Answer) {
        self.wanted += u64::from(answer == Answer::Wanted);
        let broken = &self.broken;
        let known = self.known.entry(id.to_owned()).or_default();
        match answer {
            Answer::Wanted if verb == "CHECK" => {
                self.asked.entry(connection).or_default().push_back(id.to_owned());
                return;
            }
            Answer::Wanted => return,
            Answer::Later => {
                let before = known.later.take().map(|(others, _)| others);
                let whole = before.filter(|others| others.iter().all(|other| !broken.contains(other)));
                let mut answered = whole.unwrap_or_default();
                answered.push(connection);
                known.later = Some((answered, Instant::now()));
            }
            Answer::Settled => {
                self.settled += usize::from(known.settled_on.is_none());
                (known.settled_on, known.later) = (Some(connection), None);
            }
        }
        known.open_on = None;
    }

    /// Checks an article as it was sent, without the final line.
    pub fn article(&mut self, id: &str, article: &str) {
        let (head, body) = article.split_once("\r\n\r\n").unwrap_or((article, ""));
        let has = |line: String| head.split("\r\n").any(|own| own == line);
        if !has(format!("Message-ID: {id}")) || head.contains("\nXref:") || head.starts_with("Xref:") {
            self.fault(format!("the headers of {id}: {head}"));
        }
        let is_stuffed = |line: &str| !line.starts_with('.') || line.starts_with("..");
        if !body.split_inclusive('\n').all(|line| is_stuffed(line) && line.ends_with("\r\n")) {
            self.fault(format!("the body of {id}: {body}"));
        }
    }
}
