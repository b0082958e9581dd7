//! What a peer may expect of whoever feeds it, checked command by command: RFC 3977 and RFC 4644, the order
//! of arrival, and no offer twice.
//!
//! An offer that is repeated since a connection broke is no fault. Whether it broke is known only later, so
//! such faults name the connection that excuses them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Longest command line with its CRLF (RFC 3977 section 3.1).
const LINE_BYTES_MAX: usize = 512;
/// Offers that a sender must have found wanted before it sends articles unasked.
const WANTED_BEFORE_UNASKED: u64 = 96;

/// How soon an article that is wanted later may be offered again, as the sender is configured.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    pub first: Duration,
    pub longest: Duration,
}

/// What the peer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// 238, 335.
    Wanted,
    /// 431, 436.
    Later,
    /// Anything final.
    Settled,
}

/// What is known of an article.
#[derive(Debug, Default)]
struct Known {
    /// The connection that has offered it and has no answer.
    open_on: Option<u64>,
    settled_on: Option<u64>,
    /// On which connections and when it was last wanted later, without break.
    later: Option<(Vec<u64>, Instant)>,
}

/// What may excuse a fault; that is known only at the end.
#[derive(Debug)]
enum Excuse {
    Nothing,
    /// One of these connections broke.
    Broken(Vec<u64>),
    /// So many connections broke.
    Breaks(usize),
}

/// The checks of one peer.
#[derive(Debug, Default)]
pub struct Manners {
    known: HashMap<String, Known>,
    /// Per connection what was asked for and has not come.
    asked: HashMap<u64, VecDeque<String>>,
    /// Asked for, and not sent before others that were asked for later.
    passed_over: HashSet<(u64, String)>,
    /// Per connection the last article that was offered for the first time.
    newest: HashMap<u64, usize>,
    /// Per connection how often an older article followed.
    went_back: HashMap<u64, usize>,
    broken: HashSet<u64>,
    wanted: u64,
    pauses: Option<Pauses>,
    faults: Vec<(Excuse, String)>,
    /// Articles that have a final answer.
    pub settled: usize,
    /// An operator has everything offered again.
    pub may_repeat: bool,
}

impl Manners {
    pub fn with(pauses: Option<Pauses>) -> Self {
        Self { pauses, ..Self::default() }
    }

    /// Of the same connections, before anything has happened.
    pub fn begun_again(&self) -> Self {
        Self { broken: self.broken.clone(), ..Self::default() }
    }

    /// What was wrong.
    pub fn faults(&self) -> Vec<&str> {
        let counts = |excuse: &Excuse| match excuse {
            Excuse::Nothing => true,
            Excuse::Broken(connections) => connections.iter().all(|own| !self.broken.contains(own)),
            Excuse::Breaks(times) => *times > self.broken.len(),
        };
        self.faults.iter().filter(|(excuse, _)| counts(excuse)).map(|(_, text)| text.as_str()).collect()
    }

    /// A connection ended, or is going to, so that answers may be lost.
    pub fn broke(&mut self, connection: u64) {
        self.broken.insert(connection);
    }

    pub fn is_broken(&self, connection: u64) -> bool {
        self.broken.contains(&connection)
    }

    fn fault(&mut self, text: String) {
        self.faults.push((Excuse::Nothing, text));
    }

    /// A command line as it came.
    pub fn line(&mut self, line: &str) {
        if !line.ends_with("\r\n") || line.len() > LINE_BYTES_MAX || line.trim_end().contains(['\r', '\t']) {
            self.fault(format!("no command line: {line:?}"));
        }
    }

    /// CHECK, IHAVE or TAKETHIS. Commands that came after IHAVE before its answer are `pipelined`.
    pub fn offer(&mut self, connection: u64, verb: &str, id: &str, pipelined: bool) {
        if pipelined && verb == "IHAVE" {
            self.fault(format!("something followed IHAVE {id} before the answer"));
        }
        let asked = self.asked.entry(connection).or_default();
        if let Some(at) = asked.iter().position(|asked| verb == "TAKETHIS" && asked == id) {
            // Those before it may be gone, and then must not come.
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
        // The end of a connection may be noticed after what its sender did next.
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

    /// What is offered for the first time comes in the order of arrival. What a connection that broke had
    /// brought, and nobody had read, another one may bring after newer articles.
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

    /// What is answered; to be called before it is sent.
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

    /// An article as it was sent, without the final line.
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
