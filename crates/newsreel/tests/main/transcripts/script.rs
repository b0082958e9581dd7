//! A transcript as a value: turns of a client and the expected responses.
//!
//! The grammar is described in `tests/transcripts/README.md`. The parser checks that each command has its
//! response and each multi-line response its final dot, so that mistakes in a transcript are reported as
//! such. Used by the players.

use std::path::Path;

/// Codes that announce a multi-line block, whatever the command (RFC 3977 section 3.2).
const MULTI_LINE_CODES: &[&str] =
    &["100", "101", "202", "215", "220", "221", "222", "224", "225", "230", "231", "282"];

/// One of a transcript's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// A newsreader.
    Reader,
    /// Another connection of a newsreader.
    OtherReader,
    /// A peer.
    Peer,
}

/// One expected line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line in which `<any>` stands for any text.
    Like(String),
    /// Any number of lines up to the next one given.
    Any,
}

/// Expected response to one command.
pub type Response = Vec<Line>;

/// Different responses of another server in a turn, and the name of the explanation.
#[derive(Debug, Clone)]
pub struct Difference {
    pub name: String,
    pub responses: Vec<Response>,
}

/// Input that a client sends at once, and the expected output.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Line of the transcript, from 1.
    pub line: usize,
    pub section: String,
    pub who: Who,
    /// Command lines; empty in a greeting and where an article follows its 335 or 340.
    pub commands: Vec<Vec<u8>>,
    /// Everything sent, with line ends.
    pub sent: Vec<u8>,
    /// Whether `sent` is an article that another turn's command announced.
    pub is_article: bool,
    pub responses: Vec<Response>,
    pub inn: Option<Difference>,
    /// Set if the server closes the connection afterwards.
    pub end: bool,
}

/// A step of a transcript.
#[derive(Debug, Clone)]
pub enum Step {
    Turn(Turn),
    /// An action of the operator, as words.
    Operator {
        line: usize,
        words: Vec<String>,
    },
}

/// A whole transcript.
#[derive(Debug, Clone)]
pub struct Script {
    pub name: String,
    pub steps: Vec<Step>,
    /// Set for transcripts about features or deliberate differences of newsreel, which are not played to INN.
    pub newsreel_only: bool,
}

impl Script {
    /// Reads a file; panics with the position of an error in it.
    pub fn read(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let mut reader = Lines::new(&name, &text);
        reader.script();
        let steps = reader.steps;
        let newsreel_only = text.lines().any(|line| line == "NEWSREEL ONLY");
        Self { name, steps, newsreel_only }
    }

    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.steps.iter().filter_map(|step| match step {
            Step::Turn(turn) => Some(turn),
            Step::Operator { .. } => None,
        })
    }

    /// Returns whether it contains posts by clients.
    pub fn posts(&self) -> bool {
        let is_post =
            |command: &Vec<u8>| command.get(..4).is_some_and(|verb| verb.eq_ignore_ascii_case(b"POST"));
        self.turns().any(|turn| turn.commands.iter().any(is_post))
    }

    /// Returns the number of command lines that are answered.
    pub fn exchanges(&self) -> usize {
        self.turns().map(|turn| turn.commands.len()).sum()
    }
}

/// Returns whether a response with this status line to this command continues up to a dot.
pub fn is_multi_line(command: &[u8], status: &str) -> bool {
    let verb = command.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
    let code = status.get(..3).unwrap_or_default();
    if verb.eq_ignore_ascii_case(b"XPATH") || (code == "202" && !verb.eq_ignore_ascii_case(b"LIST")) {
        return false;
    }
    MULTI_LINE_CODES.contains(&code) || (code == "211" && verb.eq_ignore_ascii_case(b"LISTGROUP"))
}

/// Returns `text` with `\xNN` as that octet and `\\` as a backslash.
pub fn octets(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        if let Some(hex) = rest.strip_prefix('x') {
            out.push(u8::from_str_radix(&hex[..2], 16).unwrap());
            rest = &hex[2..];
        } else {
            out.push(b'\\');
            rest = rest.strip_prefix('\\').unwrap_or(rest);
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

struct Lines<'a> {
    name: &'a str,
    lines: std::iter::Peekable<std::iter::Enumerate<std::str::Lines<'a>>>,
    steps: Vec<Step>,
    section: String,
    who: Who,
    /// Connections that have been greeted.
    greeted: Vec<Who>,
    /// Set if the last response asked for an article.
    article_next: bool,
}

impl<'a> Lines<'a> {
    fn new(name: &'a str, text: &'a str) -> Self {
        let lines = text.lines().enumerate().peekable();
        let (section, greeted) = (String::new(), Vec::new());
        Self { name, lines, steps: Vec::new(), section, who: Who::Reader, greeted, article_next: false }
    }

    fn script(&mut self) {
        while let Some((at, line)) = self.lines.peek().copied() {
            let place = format!("{}:{}: {line}", self.name, at + 1);
            if let Some(title) = line.strip_prefix("## ") {
                self.section = title.split_whitespace().next().unwrap().to_owned();
            } else if let Some(who) = line.strip_prefix("@ ") {
                self.who = match who {
                    "reader" => Who::Reader,
                    "other reader" => Who::OtherReader,
                    "peer" => Who::Peer,
                    _ => panic!("{place}\nno such connection"),
                };
            } else if let Some(words) = line.strip_prefix("O: ") {
                let words = words.split_whitespace().map(str::to_owned).collect();
                self.steps.push(Step::Operator { line: at + 1, words });
            } else if line.starts_with("C:") || line.starts_with("S:") {
                self.turn();
                continue;
            } else {
                let silent = line.is_empty() || line.starts_with('#') || line == "NEWSREEL ONLY";
                assert!(silent, "{place}\nis not a transcript line");
            }
            self.lines.next();
        }
    }

    /// Returns the text of the next line if it begins with `start`.
    fn text(&mut self, start: &str) -> Option<&'a str> {
        let (_, line) = self.lines.peek()?;
        let text = line.strip_prefix(start)?;
        self.lines.next();
        Some(text.strip_prefix(' ').unwrap_or(text))
    }

    fn turn(&mut self) {
        let line = self.lines.peek().map_or(0, |(at, _)| at + 1);
        let (is_article, who) = (self.article_next, self.who);
        let (mut sent, mut commands, mut in_article) = (Vec::new(), Vec::new(), is_article);
        while let Some(text) = self.text("C:") {
            let octets = octets(text);
            if in_article {
                in_article = octets != b".";
            } else {
                in_article = octets.len() >= 8 && octets[..8].eq_ignore_ascii_case(b"TAKETHIS");
                commands.push(octets.clone());
            }
            sent.extend_from_slice(&octets);
            sent.extend_from_slice(b"\r\n");
        }
        assert!(!in_article, "{}:{line}: the article has no end", self.name);
        let greeting = !self.greeted.contains(&who);
        if greeting {
            assert!(sent.is_empty(), "{}:{line}: the greeting comes first", self.name);
            self.greeted.push(who);
        }
        let mut lines = Vec::new();
        loop {
            if let Some(text) = self.text("S:") {
                lines.push(Line::Like(text.to_owned()));
            } else if self.text("S*").is_some() {
                lines.push(Line::Any);
            } else {
                break;
            }
        }
        let spoken = if commands.is_empty() { vec![Vec::new()] } else { commands.clone() };
        let responses = self.responses(line, &spoken, lines);
        let asks = |response: &Response| matches!(response.first(), Some(Line::Like(text)) if text.starts_with("335") || text.starts_with("340"));
        self.article_next = responses.last().is_some_and(asks);
        let inn = self.difference(line, &spoken);
        let end = self.text("END").is_some();
        let section = self.section.clone();
        assert!(!section.is_empty(), "{}:{line}: no section yet", self.name);
        self.steps.push(Step::Turn(Turn {
            line,
            section,
            who,
            commands,
            sent,
            is_article,
            responses,
            inn,
            end,
        }));
    }

    /// Returns the lines that INN answers instead, if given.
    fn difference(&mut self, line: usize, commands: &[Vec<u8>]) -> Option<Difference> {
        let (mut name, mut lines) = (None, Vec::new());
        while let Some(text) = self.text("I[") {
            let (class, rest) = text.split_once(']').unwrap();
            name = Some(class.to_owned());
            lines.push(match rest.strip_prefix(':') {
                Some(text) => Line::Like(text.strip_prefix(' ').unwrap_or(text).to_owned()),
                None => Line::Any,
            });
        }
        let responses = self.responses(line, commands, lines.clone());
        name.map(|name| Difference { name, responses })
    }

    /// Divides lines into the responses to `commands`; those without a response are empty.
    fn responses(&self, line: usize, commands: &[Vec<u8>], lines: Vec<Line>) -> Vec<Response> {
        let mut lines = lines.into_iter().peekable();
        let mut responses = Vec::new();
        for command in commands {
            let Some(first) = lines.next() else { break };
            let multi = matches!(&first, Line::Like(text) if is_multi_line(command, text));
            let mut response = vec![first];
            while multi && response.last() != Some(&Line::Like(".".into())) {
                let next = lines.next();
                response.push(next.unwrap_or_else(|| panic!("{}:{line}: no final dot", self.name)));
            }
            responses.push(response);
        }
        let place = format!("{}:{line}", self.name);
        assert_eq!(lines.next(), None, "{place}: more answers than commands");
        responses
    }
}
