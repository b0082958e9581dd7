//! The invariants of a cluster, by their numbers:
//!
//! - I1: what was accepted is on every member, with the bytes that were accepted, unless it was withdrawn;
//! - I2: a number of a group names one article, for ever and everywhere;
//! - I3: members at the same position answer alike;
//! - I4: marks never fall, not even for a client that changes members and asks for fresh answers;
//! - I5: a Message-ID is filed once;
//! - I6: a peer is offered every article, and again only what lies in the window of a move (`feeding`);
//! - I7: what was withdrawn is withdrawn everywhere;
//! - I8: every article that an index names is whole;
//! - I9: what was answered as a duplicate was not filed by that very copy.

use super::articles::{SimChange, message_id, path};
use super::is_accepted;
use crate::fold::EntryOutcome;
use disk::ReadMode;
use spool::{ArticleBuf, ChangeOutcome, Lookup, Spool};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Positions whose answers are remembered.
const POSITIONS_MAX: usize = 2_000;

/// What was seen and promised so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Copies that were accepted, by article.
    accepted: BTreeMap<u64, u64>,
    /// Copies that were answered as duplicates.
    duplicates: BTreeSet<(u64, u64)>,
    /// Articles whose withdrawal was proposed.
    withdrawable: BTreeSet<u64>,
    /// Articles whose withdrawal was confirmed.
    withdrawn: BTreeSet<u64>,
    numbers: HashMap<(String, u64), String>,
    answers: BTreeMap<u64, Vec<String>>,
    /// Highest marks that any client was shown, by group.
    shown: BTreeMap<String, u64>,
    /// Marks that each machine showed last.
    own: BTreeMap<(usize, String), u64>,
    compared: u64,
}

impl Checks {
    pub fn shown(&self) -> &BTreeMap<String, u64> {
        &self.shown
    }

    pub fn filed(&self) -> u64 {
        self.accepted.len() as u64
    }

    /// Notes that a change was proposed, whether or not it is ever carried out.
    pub fn proposed(&mut self, change: &SimChange) {
        if let SimChange::Cancel(number) | SimChange::Leave(number) = change {
            self.withdrawable.insert(*number);
        }
    }

    /// Notes what a client was answered.
    pub fn answered(&mut self, change: &SimChange, outcome: EntryOutcome) {
        match (change, outcome) {
            (SimChange::Article { number, copy }, outcome) if is_accepted(outcome) => {
                let before = self.accepted.insert(*number, *copy);
                assert_eq!(before, None, "I5: article {number} was accepted twice");
            }
            (SimChange::Article { number, copy }, EntryOutcome::Applied(ChangeOutcome::Duplicate)) => {
                self.duplicates.insert((*number, *copy));
            }
            (SimChange::Cancel(number), EntryOutcome::Applied(ChangeOutcome::Changed(1))) => {
                self.withdrawn.insert(*number);
            }
            _ => {}
        }
    }

    /// Checks a fresh answer against the marks that were shown before it was asked for.
    pub fn read(&mut self, spool: &Spool, floor: &BTreeMap<String, u64>) {
        for group in spool.groups().iter() {
            let (name, high) = (group.name.to_string(), group.marks().high);
            let before = floor.get(&name).copied().unwrap_or_default();
            assert!(high >= before, "I4: {name} falls from {before} to {high} for a client that hops");
            let shown = self.shown.entry(name).or_default();
            *shown = high.max(*shown);
        }
    }

    /// Compares the answers of a machine with those of others at this position.
    pub fn compare(&mut self, machine: usize, spool: &Spool, reached: u64, articles: u64) {
        let answers = self.answers_of(spool, articles);
        for group in spool.groups().iter() {
            let own = self.own.entry((machine, group.name.to_string())).or_default();
            let high = group.marks().high;
            assert!(high >= *own, "I4: {} falls from {own} to {high} on machine {machine}", group.name);
            *own = high;
        }
        match self.answers.get(&reached) {
            Some(others) if *others == answers => self.compared += 1,
            Some(others) => {
                self.compared += 1;
                let only = |of: &[String], not: &[String]| -> Vec<String> {
                    of.iter().filter(|line| !not.contains(line)).cloned().collect()
                };
                let common = others.len().min(answers.len());
                assert_eq!(only(&answers, others), only(others, &answers), "I3: at position {reached}");
                assert_eq!(answers[..common], others[..common], "I3: at position {reached}");
            }
            None => {
                self.answers.insert(reached, answers);
                if self.answers.len() > POSITIONS_MAX {
                    self.answers.pop_first();
                }
            }
        }
    }

    /// Returns all that readers, peers and operators are answered.
    fn answers_of(&mut self, spool: &Spool, articles: u64) -> Vec<String> {
        let mut all = vec![String::from_utf8(spool.list_active().to_vec()).unwrap()];
        let mut seen = BTreeSet::new();
        for group in spool.groups().iter() {
            all.push(format!("{} {:?} {} {}", group.name, group.marks(), group.flag(), group.created));
            let mut rows = Vec::new();
            spool.over(group.id, 0..=u64::MAX, usize::MAX, ReadMode::Wait, &mut rows).unwrap();
            for row in String::from_utf8(rows).unwrap().lines() {
                let fields: Vec<&str> = row.split('\t').collect();
                let (number, id) = (fields[0].parse().unwrap(), fields[4].to_owned());
                assert!(seen.insert((group.id, id.clone())), "I5: {id} is in {} twice", group.name);
                let named =
                    self.numbers.entry((group.name.to_string(), number)).or_insert_with(|| id.clone());
                assert_eq!(*named, id, "I2: {}:{number}", group.name);
                all.push(row.to_owned());
            }
        }
        let mut hidden: Vec<String> = spool
            .hidden()
            .iter()
            .map(|hidden| format!("{} hidden by {} since {}", hidden.message_id, hidden.by, hidden.since))
            .collect();
        hidden.sort();
        all.extend(hidden);
        let mut buf = ArticleBuf::default();
        for number in 0..=articles {
            let id = message_id(number);
            let key = spool.key(id.as_bytes());
            let found = spool.lookup(&key);
            if found == Lookup::Unknown {
                continue;
            }
            let kind = format!("{found:?}");
            all.push(format!("{id} {} {:?}", kind.split('(').next().unwrap(), spool.seen(&key)));
            if let Lookup::Present(token) | Lookup::Hidden(token) = found {
                assert!(spool.read_stored(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap(), "I8: {id}");
                all.push(String::from_utf8(buf.article().to_vec()).unwrap());
            }
        }
        all
    }

    /// Checks a member once the cluster is at rest.
    pub fn finished(&mut self, spool: &Spool, articles: u64) {
        let mut buf = ArticleBuf::default();
        for number in 0..=articles {
            let id = message_id(number);
            let key = spool.key(id.as_bytes());
            let stored = match spool.lookup(&key) {
                Lookup::Present(token) | Lookup::Hidden(token) => {
                    assert!(spool.read_stored(&token, Some(&key), ReadMode::Wait, &mut buf).unwrap());
                    Some(String::from_utf8(buf.article().to_vec()).unwrap())
                }
                _ => None,
            };
            let is_copy = |copy: u64| {
                stored.as_ref().is_some_and(|text| text.contains(&format!("Path: {}\r\n", path(copy))))
            };
            if let Some(copy) = self.accepted.get(&number).filter(|_| !self.withdrawable.contains(&number)) {
                assert!(is_copy(*copy), "I1: copy {copy} of {id} was accepted, and is not there: {stored:?}");
            }
            if self.withdrawn.contains(&number) {
                assert_eq!(stored, None, "I7: {id} was withdrawn");
            }
            let refused = self.duplicates.range((number, 0)..=(number, u64::MAX));
            for (_, copy) in refused {
                assert!(!is_copy(*copy), "I9: copy {copy} of {id} was answered as a duplicate, and is filed");
            }
        }
    }

    /// Checks that something was compared at all.
    pub fn members_compared(&self, members: usize) {
        assert!(members < 2 || self.compared > 0, "no two members were compared");
    }
}
