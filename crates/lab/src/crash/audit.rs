//! Asks a server for everything: every article by Message-ID, every group by GROUP, LISTGROUP, OVER, LIST
//! ACTIVE and LIST COUNTS. Nobody feeds meanwhile, so all answers must agree.
//!
//! Over all rounds it records which article each number was given to (G2) and how high the marks were.

use super::ledger::{Entry, GONE_AFTER_TURNS, Ledger, Standing};
use crate::articles::{Generator, group_name};
use crate::client::Client;
use crate::site::IDENTITY;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;

/// Commands sent before their answers are read.
const PIPELINE: usize = 64;
/// How many of the articles that are certainly gone are requested.
const GONE_SAMPLE: usize = 500;
/// Violations of an audit that are described, one by one.
const TEXTS_MAX: usize = 20;

/// The findings.
#[derive(Debug)]
pub struct Findings {
    /// Read back exactly as sent.
    pub exact: u64,
    /// Gone, as is allowed.
    pub overwritten: u64,
    /// The earliest of these, in turns of the buffers since it was stored.
    pub earliest_turns: f64,
    lost: u64,
    torn: u64,
    renumbered: u64,
    disagreements: u64,
    refused: u64,
    /// Descriptions of the first violations.
    pub texts: Vec<String>,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            exact: 0,
            overwritten: 0,
            earliest_turns: f64::INFINITY,
            lost: 0,
            torn: 0,
            renumbered: 0,
            disagreements: 0,
            refused: 0,
            texts: Vec::new(),
        }
    }
}

impl Findings {
    /// All that should not be.
    pub fn violations(&self) -> u64 {
        self.lost + self.torn + self.renumbered + self.disagreements + self.refused
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.exact += other.exact;
        self.overwritten += other.overwritten;
        self.earliest_turns = self.earliest_turns.min(other.earliest_turns);
        self.lost += other.lost;
        self.torn += other.torn;
        self.renumbered += other.renumbered;
        self.disagreements += other.disagreements;
        self.refused += other.refused;
    }

    fn tell(&mut self, text: String) {
        if self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
        }
    }

    /// Bytes that nobody sent, or another article's.
    pub fn torn(&mut self, text: String) {
        self.torn += 1;
        self.tell(format!("other bytes: {text}"));
    }

    /// Not accepted, though new.
    pub fn refused(&mut self, text: String) {
        self.refused += 1;
        self.tell(format!("refused: {text}"));
    }

    fn lost(&mut self, text: String) {
        self.lost += 1;
        self.tell(format!("lost: {text}"));
    }

    fn renumbered(&mut self, text: String) {
        self.renumbered += 1;
        self.tell(format!("number: {text}"));
    }

    fn disagreement(&mut self, text: String) {
        self.disagreements += 1;
        self.tell(format!("disagreement: {text}"));
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} articles read exactly, {} rightly overwritten (the earliest after {:.2} turns of the \
                buffers); violations: {} lost, {} with other bytes, {} numbers given twice or marks lowered, \
             {} disagreements of GROUP, LISTGROUP, OVER, LIST, {} refused",
            self.exact,
            self.overwritten,
            self.earliest_turns,
            self.lost,
            self.torn,
            self.renumbered,
            self.disagreements,
            self.refused
        )
    }
}

/// State kept from one audit to the next.
#[derive(Debug)]
pub struct Audit {
    groups: HashMap<String, u16>,
    numbers: HashMap<(u16, u64), u64>,
    highs: Vec<u64>,
}

/// The articles that exist, with their numbers, according to ARTICLE.
type Present = HashMap<u64, Vec<(String, u64)>>;

impl Audit {
    /// For a site with this many groups.
    pub fn new(groups: u64) -> Self {
        let names = (0..groups).map(|n| (group_name(n), n as u16)).collect();
        Self { groups: names, numbers: HashMap::new(), highs: vec![0; groups as usize] }
    }

    /// How many numbers were seen.
    pub fn numbers_seen(&self) -> usize {
        self.numbers.len()
    }

    /// Notes that a number names an article; it must not have named another one.
    pub fn number(&mut self, group: &str, number: u64, index: u64, found: &mut Findings) {
        let Some(id) = self.groups.get(group) else {
            return found.renumbered(format!("article {index} is in {group}, which there is not"));
        };
        let before = self.numbers.insert((*id, number), index);
        if before.is_some_and(|before| before != index) {
            found.renumbered(format!("{group}:{number} was article {before:?} and is now {index}"));
        }
    }

    /// Audits everything at the time `stamp`; returns which of the articles that were in flight are not
    /// there.
    pub fn all(
        &mut self,
        address: &str,
        generator: &Generator,
        ledger: &mut Ledger,
        stamp: u64,
        found: &mut Findings,
    ) -> io::Result<Vec<u64>> {
        let mut client = Client::connect(address)?;
        let mut present = Present::new();
        let mut vanished = Vec::new();
        let recent = ledger.recent();
        let ids: Vec<u64> = recent.iter().map(|(entry, _)| entry.index).collect();
        let answers = fetch(&mut client, generator, &ids, &mut present, found)?;
        for ((entry, turns), there) in recent.iter().zip(answers) {
            let Entry { index, standing, .. } = *entry;
            match standing {
                Standing::Vanished => {}
                Standing::Unknown => {
                    ledger.settle(index, there, stamp);
                    if !there {
                        vanished.push(index);
                    }
                }
                Standing::Accepted if there => {}
                Standing::Accepted if *turns >= GONE_AFTER_TURNS => {
                    found.overwritten += 1;
                    found.earliest_turns = found.earliest_turns.min(*turns);
                }
                Standing::Accepted => {
                    found.lost(format!(
                        "{} after {turns:.2} turns of the buffers",
                        generator.message_id(index)
                    ));
                }
            }
        }
        let step = (ledger.gone.len() / GONE_SAMPLE).max(1);
        let sample: Vec<u64> = ledger.gone.iter().rev().step_by(step).copied().collect();
        fetch(&mut client, generator, &sample, &mut present, found)?;
        self.groups(&mut client, generator, &present, found)?;
        ledger.forget();
        Ok(vanished)
    }

    fn groups(
        &mut self,
        client: &mut Client,
        generator: &Generator,
        present: &Present,
        found: &mut Findings,
    ) -> io::Result<()> {
        let mut by_group: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
        for (index, numbers) in present {
            for (group, number) in numbers {
                self.number(group, *number, *index, found);
                by_group.entry(group).or_default().push((*number, *index));
            }
        }
        let active: HashSet<String> = client.lines("LIST ACTIVE lab.*", "215")?.into_iter().collect();
        let counts: HashSet<String> = client.lines("LIST COUNTS lab.*", "215")?.into_iter().collect();
        for id in 0..self.highs.len() as u64 {
            let group = group_name(id);
            let mut articles = by_group.remove(group.as_str()).unwrap_or_default();
            articles.sort_unstable();
            let marks = client.group(&group)?;
            let (count, low, high) = marks;
            let listed: Vec<u64> = numbers(&client.lines(&format!("LISTGROUP {group}"), "211")?);
            let rows = client.lines(&format!("OVER 1-{}", high + 1), if count == 0 { "423" } else { "224" });
            let rows = if count == 0 && rows.is_err() { Vec::new() } else { rows? };
            let over: Vec<(u64, u64)> = rows.iter().filter_map(|row| self.row(row, generator)).collect();
            if over != articles || over.len() != rows.len() {
                let difference = over
                    .iter()
                    .find(|row| !articles.contains(row))
                    .or_else(|| articles.iter().find(|a| !over.contains(a)));
                found.disagreement(format!(
                    "{group}: OVER has {} articles, ARTICLE gives {}; first difference {difference:?}",
                    rows.len(),
                    articles.len()
                ));
            }
            let over_numbers: Vec<u64> = over.iter().map(|(number, _)| *number).collect();
            let last = over_numbers.last().copied().unwrap_or(low.saturating_sub(1));
            let first = over_numbers.first().copied().unwrap_or(high + 1);
            if listed != over_numbers || count != over_numbers.len() as u64 || low != first || high < last {
                found.disagreement(format!(
                    "{group}: GROUP says {marks:?}, LISTGROUP has {} numbers, OVER {} from {first} to {last}",
                    listed.len(),
                    over.len()
                ));
            }
            if !active.contains(&format!("{group} {high} {low} y"))
                && !active.contains(&format!("{group} {high:010} {low:010} y"))
            {
                found.disagreement(format!("{group}: LIST ACTIVE does not say {high} {low}"));
            }
            if !counts.contains(&format!("{group} {high} {low} {count} y")) {
                found.disagreement(format!("{group}: LIST COUNTS does not say {high} {low} {count}"));
            }
            if let Some(before) = self.highs.get_mut(id as usize) {
                if high < *before {
                    found.renumbered(format!("{group}: the high mark fell from {before} to {high}"));
                }
                *before = high.max(*before);
            }
        }
        Ok(())
    }

    /// Number and article of an overview row.
    fn row(&self, row: &str, generator: &Generator) -> Option<(u64, u64)> {
        let mut fields = row.split('\t');
        let number = fields.next()?.parse().ok()?;
        Some((number, generator.index_of(fields.nth(3)?.as_bytes())?))
    }
}

fn numbers(lines: &[String]) -> Vec<u64> {
    lines.iter().filter_map(|line| line.parse().ok()).collect()
}

/// Fetches articles by Message-ID and compares their bytes; says which are there.
fn fetch(
    client: &mut Client,
    generator: &Generator,
    indexes: &[u64],
    present: &mut Present,
    found: &mut Findings,
) -> io::Result<Vec<bool>> {
    let mut there = Vec::with_capacity(indexes.len());
    for batch in indexes.chunks(PIPELINE) {
        for index in batch {
            client.queue(format!("ARTICLE {}", generator.message_id(*index)).as_bytes())?;
        }
        for index in batch {
            let id = generator.message_id(*index);
            let answer = client.answer()?;
            if answer.starts_with("430") {
                there.push(false);
                continue;
            }
            if !answer.starts_with("220") {
                return Err(crate::client::unexpected(&format!("ARTICLE {id}"), &answer));
            }
            let got = client.block()?;
            there.push(true);
            match generator.compare(*index, IDENTITY, &got) {
                Err(error) => found.torn(format!("{id}: {error}")),
                Ok(article) => {
                    found.exact += 1;
                    present.insert(*index, article.numbers);
                }
            }
        }
    }
    Ok(there)
}
