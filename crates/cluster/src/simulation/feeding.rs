//! A peer that is fed by one member at a time, by its lease, as `operators` has feeds led. Invariant I6: the
//! peer is offered every article at least once, and again at most what lies in the window of a move.
//!
//! What a feed does with its connections is not simulated: an offer is made, and settled some steps later.

use super::articles::message_id;
use crate::engine::EngineTable;
use crate::flaw::PlantedFlaw;
use crate::leases::{Leases, WantedJobs};
use spool::{JobLead, Lookup, Spool, settled_time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The job of feeding the peer.
const JOB: &str = "feed.peer";
/// Offers that are made at a time.
const OFFERS_AT_ONCE: usize = 4;

/// The feed of a process.
#[derive(Debug)]
pub(super) struct SimFeed {
    jobs: WantedJobs,
    leases: Leases,
    /// Time from which on articles are offered; `None`: another member feeds the peer.
    since: Option<u64>,
    settled: u64,
    /// Articles that were offered by this process, and those of them that are answered.
    offered: BTreeSet<u64>,
    answered: BTreeSet<u64>,
}

impl SimFeed {
    pub fn new(number: u16, incarnation: u64) -> Self {
        Self {
            jobs: WantedJobs::default(),
            leases: Leases::new(number, incarnation),
            since: None,
            settled: 0,
            offered: BTreeSet::new(),
            answered: BTreeSet::new(),
        }
    }

    /// Renews the lease, as a thread of its own does.
    pub fn renew(&mut self, table: &dyn EngineTable, now: Duration) {
        self.jobs.renew(&mut self.leases, table, || now, || true);
    }

    /// Does one round of work. `cursor` is what the machine knows of earlier processes, `clock` its clock.
    pub fn work(&mut self, on: &FedSite<'_>, cursor: &mut u64, peer: &mut SimPeer) {
        let unsettled: Vec<(u64, u64)> = match self.since {
            Some(since) => on.articles(since).filter(|(number, _)| !self.answered.contains(number)).collect(),
            None => Vec::new(),
        };
        let mut reached = 0;
        if self.since.is_some() {
            let by_clock = on.flaw == Some(PlantedFlaw::SettlesByClock);
            let log_time = if by_clock { u64::from(on.clock) } else { on.log_time };
            reached =
                settled_time(self.settled, log_time, unsettled.iter().map(|(_, arrived)| *arrived).min());
        }
        match self.jobs.lead(JOB, reached, on.now) {
            JobLead::Held if self.since.is_some() => {
                self.settled = reached;
                *cursor = reached;
            }
            JobLead::Held => {}
            JobLead::Taken { reached } => {
                let since = match on.flaw {
                    Some(PlantedFlaw::FeedsFromStart) => 0,
                    _ => reached.unwrap_or(*cursor),
                };
                self.since = Some(since);
                self.settled = since;
                self.offered.clear();
                self.answered.clear();
                peer.moves.push(reached.unwrap_or(*cursor));
            }
            JobLead::Elsewhere { .. } => self.since = None,
        }
        let Some(since) = self.since else { return };
        self.answered = self.offered.clone();
        for (number, arrived) in on.articles(since).filter(|(number, _)| !self.answered.contains(number)) {
            if self.offered.len() - self.answered.len() == OFFERS_AT_ONCE {
                break;
            }
            self.offered.insert(number);
            peer.offered(number, arrived);
        }
    }

    /// Reports whether the peer is fed here, and has everything.
    pub fn is_done(&self, on: &FedSite<'_>) -> bool {
        self.since.is_some_and(|since| on.articles(since).all(|(number, _)| self.answered.contains(&number)))
    }
}

/// What a feed sees of its machine.
pub(super) struct FedSite<'s> {
    pub spool: &'s Spool,
    /// Number of the last article that was ever offered to the site.
    pub articles: u64,
    pub log_time: u64,
    pub now: Duration,
    pub clock: u32,
    pub flaw: Option<PlantedFlaw>,
}

impl FedSite<'_> {
    /// Returns the articles that are here and arrived at a time or later, with their arrivals.
    fn articles(&self, since: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..=self.articles).filter_map(move |number| {
            let key = self.spool.key(message_id(number).as_bytes());
            matches!(self.spool.lookup(&key), Lookup::Present(_) | Lookup::Hidden(_)).then_some(())?;
            let (arrived, _) = self.spool.seen(&key)?;
            (u64::from(arrived) >= since).then_some((number, arrived.into()))
        })
    }
}

/// The peer, and what may be repeated to it.
#[derive(Debug, Default)]
pub(super) struct SimPeer {
    offers: BTreeMap<u64, usize>,
    /// For each time that a process began to feed, the time before which everything was settled.
    moves: Vec<u64>,
}

impl SimPeer {
    fn offered(&mut self, number: u64, arrived: u64) {
        let offers = self.offers.entry(number).or_default();
        *offers += 1;
        // A member may apply later what the one before has offered already.
        let may_be = self.moves.iter().filter(|settled| **settled <= arrived).count();
        assert!(*offers <= may_be, "I6: article {number} of {arrived} is offered {offers} times");
    }

    /// Checks the peer in the end.
    pub fn finished(&self, on: &FedSite<'_>) {
        for (number, arrived) in on.articles(0) {
            assert!(self.offers.contains_key(&number), "I6: article {number} of {arrived} was never offered");
        }
    }
}
