//! Plays a transcript to a server and reports differing responses.
//!
//! Responses are read by their own codes, so a different response does not put the player out of step.

use super::script::{Line, Script, Step, Turn, Who, is_multi_line, octets};
use crate::client::Client;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Server that a transcript is played to.
pub trait Stage {
    /// Returns the address that this client connects to.
    fn address(&self, who: Who) -> SocketAddr;
    /// Carries out an operator's action; returns false if that is not possible.
    fn operate(&self, words: &[&str]) -> bool;
    /// Returns the kind of responses expected.
    fn answers(&self, _: Who) -> Answers {
        Answers::Ours
    }
}

/// Kind of responses that a server must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Responses of this server.
    Ours,
    /// Responses given for INN, where they differ.
    Inns,
    /// Ours, or INN's: INN's articles are shown by this server.
    Either,
}

/// One turn with unexpected responses.
#[derive(Debug)]
pub struct Otherwise {
    pub place: String,
    pub sent: String,
    pub expected: String,
    pub came: String,
}

/// Result of playing.
#[derive(Debug, Default)]
pub struct Report {
    pub played: usize,
    pub otherwise: Vec<Otherwise>,
    /// Number of occurrences of each explained difference.
    pub explained: HashMap<String, usize>,
}

/// Plays `script` to its end, or as far as possible.
pub fn play(script: &Script, stage: &dyn Stage, report: &mut Report) {
    let mut clients: HashMap<Who, Client> = HashMap::new();
    let mut skip_article = false;
    for step in &script.steps {
        let turn = match step {
            Step::Operator { line, words } => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let done = stage.operate(&words);
                assert!(done, "{}:{line}: the operator of this server can not do that", script.name);
                continue;
            }
            Step::Turn(turn) => turn,
        };
        if turn.is_article && std::mem::take(&mut skip_article) {
            continue;
        }
        let client = clients.entry(turn.who).or_insert_with(|| Client::connect(stage.address(turn.who)));
        if !turn.sent.is_empty() && !client.try_send(&turn.sent) {
            report.otherwise.push(told(script, turn, &turn.responses, "the connection is closed".into()));
            return;
        }
        let answers = stage.answers(turn.who);
        let difference = turn.inn.as_ref().filter(|_| answers == Answers::Inns);
        let expected = difference.map_or(&turn.responses, |difference| &difference.responses);
        let (came, open) = listen(client, turn, expected.len());
        skip_article =
            came.last().and_then(|lines| lines.first()).is_some_and(|status| !status.starts_with('3'));
        report.played += turn.commands.len();
        let is_like = |expected: &[Vec<Line>]| {
            let may_differ = answers != Answers::Ours;
            let mut pairs = came.iter().zip(expected);
            came.len() == expected.len()
                && pairs.all(|(came, like)| {
                    fits(like, came) || (may_differ && (same_refusal(like, came) || fits(like, &plain(came))))
                })
        };
        let inns = turn.inn.as_ref().filter(|_| answers == Answers::Either);
        let same = is_like(expected) || inns.is_some_and(|inns| is_like(&inns.responses));
        if !same {
            let text = came.concat().join("\n    ");
            report.otherwise.push(told(script, turn, expected, text));
        } else if let Some(difference) = difference {
            *report.explained.entry(difference.name.clone()).or_default() += 1;
        }
        if open && turn.end && client.line_or_end().is_some() {
            report.otherwise.push(told(script, turn, &[], "the connection stays open".into()));
        }
        if turn.end || !open {
            clients.remove(&turn.who);
        }
        if !open && !turn.end {
            report.otherwise.push(told(script, turn, expected, "the connection is closed".into()));
            return;
        }
    }
}

/// Returns the responses to a turn, and whether the connection is still open.
fn listen(client: &mut Client, turn: &Turn, responses: usize) -> (Vec<Vec<String>>, bool) {
    let mut came = Vec::new();
    for at in 0..responses {
        let Some(status) = client.line_or_end() else { return (came, false) };
        let command = turn.commands.get(at).map_or(&[][..], Vec::as_slice);
        let mut response = vec![status];
        while is_multi_line(command, &response[0]) && response.last().is_none_or(|line| line != ".") {
            let Some(line) = client.line_or_end() else { return (came, false) };
            response.push(line);
        }
        came.push(response);
    }
    (came, true)
}

fn told(script: &Script, turn: &Turn, expected: &[Vec<Line>], came: String) -> Otherwise {
    let line = |line: &Line| match line {
        Line::Like(text) => text.clone(),
        Line::Any => "...".into(),
    };
    let sent =
        turn.sent.iter().flat_map(|b| std::ascii::escape_default(*b)).map(char::from).collect::<String>();
    Otherwise {
        place: format!("{}:{} ({})", script.name, turn.line, turn.section),
        sent: sent.replace("\\r\\n", "\n    ").trim_end().into(),
        expected: expected.iter().flatten().map(line).collect::<Vec<_>>().join("\n    "),
        came,
    }
}

impl std::fmt::Display for Otherwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, sent, expected, came } = self;
        write!(f, "{place}\n  sent:\n    {sent}\n  expected:\n    {expected}\n  came:\n    {came}\n")
    }
}

/// Returns INN's response without permitted variations (RFC 3977 sections 3.2 and 7.6.3): text after the
/// Message-ID of a status line, and zeros before numbers.
fn plain(came: &[String]) -> Vec<String> {
    let mut lines: Vec<_> = came.to_vec();
    if let Some(status) = lines.first_mut().filter(|status| status.starts_with("22")) {
        let end = status.find('>').map_or(status.len(), |at| at + 1);
        status.truncate(end);
    }
    if came.first().is_some_and(|status| status.starts_with("215") || status.starts_with("231")) {
        for line in lines.iter_mut().skip(1) {
            let word = |word: &str| match word.parse::<u64>() {
                Ok(number) if word.len() == 10 && word.starts_with('0') => number.to_string(),
                _ => word.to_owned(),
            };
            *line = line.split(' ').map(word).collect::<Vec<_>>().join(" ");
        }
    }
    lines
}

/// Returns whether both refuse with the same code; the texts may differ. In streaming the argument must be
/// repeated too.
fn same_refusal(expected: &[Line], came: &[String]) -> bool {
    let ([Line::Like(expected)], [came]) = (expected, came) else { return false };
    let words = match expected.get(..3) {
        Some("238" | "431" | "438" | "439") => 2,
        Some(code) if code.starts_with(['4', '5']) => 1,
        _ => return false,
    };
    let start = |text: &str| {
        let octets: String = octets(text).into_iter().map(char::from).collect();
        octets.split(' ').take(words).map(str::to_owned).collect::<Vec<_>>()
    };
    start(expected) == came.split(' ').take(words).collect::<Vec<_>>()
}

/// Returns whether the lines are those expected.
fn fits(expected: &[Line], came: &[String]) -> bool {
    match expected.split_first() {
        None => came.is_empty(),
        Some((Line::Any, rest)) => (0..=came.len()).any(|at| fits(rest, &came[at..])),
        Some((Line::Like(line), rest)) => {
            came.split_first().is_some_and(|(first, others)| matches(line, first) && fits(rest, others))
        }
    }
}

/// Returns whether `got` (octets as Latin 1) matches `expected`, where `<any>` stands for any text.
pub fn matches(expected: &str, got: &str) -> bool {
    let latin = |text: &str| octets(text).iter().map(|b| char::from(*b)).collect::<String>();
    let mut parts = expected.split("<any>");
    let first = latin(parts.next().unwrap_or_default());
    let Some(mut rest) = got.strip_prefix(&first) else { return false };
    let mut parts: Vec<_> = parts.map(latin).collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in &parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(&last)
}
