//! Deterministic simulation: members with the real fold, proposer and spool on simulated disks, an engine in
//! memory, virtual time, and a seeded scheduler that chooses what happens next.
//!
//! Faults: lost answers, appends that are late, doubled and out of order, changes of the engine's leader, no
//! quorum, messages that are left out, a log that overtakes a member, kills and power cuts at any call of a
//! disk, pauses, clocks that jump by a year, members that join, and processes of a member that end while
//! their appends are on the wire. `checks` has the invariants; a peer is fed meanwhile (`feeding`).

mod articles;
mod checks;
mod feeding;
mod planted;
mod seeds;

use crate::engine::next_incarnation;
use crate::flaw::PlantedFlaw;
use crate::fold::{EntryOutcome, Fold};
use crate::leases::disown;
use crate::member::{Member, MemberState};
use crate::memory::{MemoryClient, MemoryEngine};
use crate::message::ClusterId;
use crate::position::LogPosition;
use crate::proposer::{NotCommitted, ProposalId};
use articles::{SimChange, sections, spool_config};
use checks::Checks;
use disk::{CrashKind, SimDisk, SimRandom};
use feeding::{FedSite, SimFeed, SimPeer};
use spool::{ChangeOutcome, Spool, SpoolConfig};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Time at which each simulation begins, in Unix seconds.
const BEGIN_SECS: u32 = 1_795_000_000;
const CLUSTER: ClusterId = ClusterId(*b"simulate");
const CREATED: u64 = 77;
/// Steps of the scheduler with faults.
const STEPS: u64 = 700;
/// Steps within which a healed cluster must have come to rest.
const HEALING_STEPS_MAX: u64 = 60_000;
const YEAR_SECS: i64 = 366 * 86_400;

/// A process of a member.
struct SimProcess {
    member: Member,
    client: Arc<MemoryClient>,
    proposals: BTreeMap<ProposalId, Vec<SimChange>>,
    /// Questions for fresh answers, with the marks that other members had shown before.
    reads: BTreeMap<u64, BTreeMap<String, u64>>,
    feed: SimFeed,
}

/// A machine with a member.
struct SimMachine {
    number: u16,
    config: SpoolConfig,
    disk: SimDisk,
    process: Option<SimProcess>,
    is_armed: bool,
    clock_ahead_secs: i64,
    paused_until: Duration,
    /// Whether it was overtaken by the log, and is no longer a member.
    is_overtaken: bool,
    flaw: Option<PlantedFlaw>,
    /// Time before which everything was settled when the peer was fed from here last.
    feed_cursor: u64,
}

/// A simulated cluster.
struct Simulation {
    random: SimRandom,
    engine: MemoryEngine,
    now: Duration,
    machines: Vec<SimMachine>,
    checks: Checks,
    /// Number of the next article, and of the next copy of one.
    next_article: u64,
    next_copy: u64,
    /// Changes whose outcome is unknown or was "later".
    again: Vec<SimChange>,
    peer: SimPeer,
    has_faults: bool,
    quorum_at: Duration,
    trace: Vec<String>,
}

impl Simulation {
    fn new(seed: u64, flaw: Option<PlantedFlaw>) -> Self {
        let mut random = SimRandom::new(seed);
        let machine = |number: u16, random: &mut SimRandom| SimMachine {
            number,
            config: spool_config(random),
            disk: SimDisk::new(),
            process: None,
            is_armed: false,
            clock_ahead_secs: 0,
            paused_until: Duration::ZERO,
            is_overtaken: false,
            // One member alone has the flaw.
            flaw: flaw.filter(|flaw| number == 1 || !flaw.is_of_fold()),
            feed_cursor: 0,
        };
        let machines = (1..=3).map(|number| machine(number, &mut random)).collect();
        let engine = MemoryEngine::new(CREATED);
        Self {
            random,
            engine,
            now: Duration::from_secs(1),
            machines,
            checks: Checks::default(),
            next_article: 0,
            next_copy: 0,
            again: Vec::new(),
            peer: SimPeer::default(),
            has_faults: true,
            quorum_at: Duration::ZERO,
            trace: Vec::new(),
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if std::env::var_os("NEWSREEL_TRACE").is_some() {
            let line = format!("{:?} {}", self.now, text());
            eprintln!("{line}");
            self.trace.push(line);
        }
    }

    fn secs(&self) -> u32 {
        BEGIN_SECS + self.now.as_secs() as u32
    }

    fn run(mut self) -> Checks {
        for at in 0..3 {
            self.start(at);
        }
        let groups: Vec<SimChange> = (0..4).map(SimChange::AddGroup).collect();
        while self.machines[0].process.as_ref().is_none_or(|process| !process.member.may_propose()) {
            self.deliver(0);
            self.wire();
            self.tick(0);
            self.start(0);
            self.now += Duration::from_millis(20);
        }
        self.propose(0, groups);
        for _ in 0..STEPS {
            self.step();
        }
        self.heal();
        self.finish();
        self.checks
    }

    fn pick(&mut self) -> usize {
        self.random.up_to(self.machines.len() - 1)
    }

    /// Does one thing.
    fn step(&mut self) {
        self.now += Duration::from_micros(self.random.below(40_000));
        self.engine.set_time(self.secs());
        let at = self.pick();
        match self.random.below(100) {
            0..21 => self.offer(at),
            21..42 => self.wire(),
            42..67 => self.deliver(at),
            67..81 => self.tick(at),
            81..84 => self.read(at),
            // So often that the lease moves while much is settled.
            84..88 => self.feed(at),
            88..90 => self.start(at),
            90..92 => self.now += Duration::from_millis(self.random.below(3_000)),
            _ if !self.has_faults => {}
            92 => {
                let lasts = Duration::from_millis(self.random.below(40_000));
                self.quorum_at = self.now + lasts;
                self.engine.set_quorum(false);
                self.note(|| format!("no quorum for {lasts:?}"));
            }
            93 => self.change_leader(),
            94..96 => self.crash(at),
            96 => {
                self.machines[at].paused_until = self.now + Duration::from_millis(self.random.below(60_000));
                self.note(|| format!("member {at} is paused"));
            }
            97 => {
                let jump = (self.random.below(3) as i64 - 1) * YEAR_SECS;
                self.machines[at].clock_ahead_secs = jump;
                self.note(|| format!("the clock of {at} jumps to {jump}"));
            }
            98 if self.machines.len() < 5 && self.random.below(10) == 0 => {
                let number = self.machines.len() as u16 + 1;
                let machine = SimMachine {
                    number,
                    config: spool_config(&mut self.random),
                    disk: SimDisk::new(),
                    process: None,
                    is_armed: false,
                    clock_ahead_secs: 0,
                    paused_until: Duration::ZERO,
                    is_overtaken: false,
                    flaw: None,
                    feed_cursor: 0,
                };
                self.machines.push(machine);
                self.note(|| format!("member {number} joins"));
            }
            98 if self.random.below(60) == 0 => {
                let first = self.engine.last().saturating_sub(self.random.below(20));
                self.engine.keep_from(first);
                self.note(|| format!("the log keeps what follows {first}"));
            }
            _ => self.engine.end_following(),
        }
        if self.now >= self.quorum_at {
            self.engine.set_quorum(true);
        }
    }

    /// All appends on the wire meet another leader: some took effect, none is answered.
    fn change_leader(&mut self) {
        self.note(|| "another leader".into());
        for _ in 0..self.engine.on_wire() {
            let Some(append) = self.engine.take(0) else { break };
            if self.random.below(2) == 0 {
                self.engine.take_effect(&append);
            }
        }
        self.engine.end_following();
    }

    /// Lets an append on the wire take effect, be answered, be doubled or stay.
    fn wire(&mut self) {
        let on_wire = self.engine.on_wire();
        if on_wire == 0 {
            return;
        }
        // Out of order, though mostly not.
        let at = if self.random.below(4) == 0 { self.random.up_to(on_wire - 1) } else { 0 };
        let Some(append) = self.engine.take(at) else { return };
        let fault = if self.has_faults { self.random.below(20) } else { 20 };
        match fault {
            0 => self.engine.put_back(append),
            // Lost, with or without a word.
            1 => self.engine.answer(&append, None),
            2 => {}
            3 => {
                self.engine.take_effect(&append);
            }
            4 => {
                self.engine.take_effect(&append);
                self.engine.answer(&append, None);
            }
            5 => {
                // It takes effect once more, at some time.
                let sequence = self.engine.take_effect(&append);
                self.engine.answer(&append, sequence);
                self.engine.put_back(append);
            }
            _ => {
                let sequence = self.engine.take_effect(&append);
                self.engine.answer(&append, sequence);
            }
        }
    }

    /// Runs something with a member that is running; a crash of its machine ends it.
    fn with_process<T>(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut SimProcess, Duration, u32) -> T,
    ) -> Option<T> {
        let (now, secs) = (self.now, self.secs());
        let machine = &mut self.machines[at];
        if machine.paused_until > now {
            return None;
        }
        let clock = u32::try_from(i64::from(secs) + machine.clock_ahead_secs).unwrap_or_default();
        let flaw = machine.flaw.map(|flaw| flaw.at(clock));
        let process = machine.process.as_mut()?;
        flaw.into_iter().for_each(|flaw| process.member.plant(flaw));
        let done = catch_unwind(AssertUnwindSafe(|| work(process, now, clock)));
        if machine.disk.crashed() {
            self.after_crash(at);
            return None;
        }
        match done {
            Ok(done) => Some(done),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn after_crash(&mut self, at: usize) {
        self.note(|| format!("the machine of {at} has crashed"));
        let machine = &mut self.machines[at];
        if let Some(process) = machine.process.take() {
            process.client.disconnect();
            self.again.extend(process.proposals.into_values().flatten());
        }
        machine.disk = machine.disk.image().unwrap();
        machine.is_armed = false;
    }

    fn crash(&mut self, at: usize) {
        let kinds = [CrashKind::Kill, CrashKind::Power, CrashKind::Lost, CrashKind::Remount];
        let kind = kinds[self.random.up_to(kinds.len() - 1)];
        let (steps, seed) = (self.random.below(60), self.random.below(u64::MAX));
        let machine = &mut self.machines[at];
        if !machine.is_armed {
            machine.disk.crash_at(machine.disk.steps() + steps, kind, seed);
            machine.is_armed = true;
            self.note(|| format!("{kind:?} of {at} in {steps} steps"));
        }
    }

    /// Starts the process of a member that is not running.
    fn start(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        if machine.process.is_some() || machine.is_overtaken {
            return;
        }
        let (engine, flaw) = (self.engine.clone(), machine.flaw);
        let (number, disk, config) = (machine.number, machine.disk.clone(), machine.config.clone());
        let started = catch_unwind(AssertUnwindSafe(|| {
            let (spool, recovery) = Spool::open(Arc::new(disk), config, &()).ok()?;
            let has_no_position = spool.position().is_none() && spool.groups().iter().next().is_some();
            if recovery.rebuilt.is_some() || has_no_position {
                // What was found is that of no position: it has to join again.
                return Some(None);
            }
            if spool.position().is_none() {
                Fold::begin(&spool, &LogPosition::after(CLUSTER, CREATED, 0, 0)).ok()?;
            }
            let mut fold = Fold::open(Arc::new(spool)).ok()?;
            fold.flaw = flaw;
            let applied = fold.position().tags.incarnation(number);
            let incarnation = next_incarnation(&engine, number, applied).unwrap();
            let client = Arc::new(engine.connect());
            let member = Member::new(fold, client.clone(), number, "m", incarnation).unwrap();
            let feed = SimFeed::new(number, incarnation);
            Some(Some(SimProcess {
                member,
                client,
                proposals: BTreeMap::new(),
                reads: BTreeMap::new(),
                feed,
            }))
        }));
        if machine.disk.crashed() {
            self.after_crash(at);
            return;
        }
        match started {
            Ok(Some(Some(process))) => machine.process = Some(process),
            // It joins again, with nothing.
            Ok(Some(None)) => {
                machine.disk = SimDisk::new();
                machine.feed_cursor = 0;
                disown(&self.engine, self.engine.table_keys(), number);
            }
            Ok(None) => panic!("member {at} does not start"),
            Err(panic) => resume_unwind(panic),
        }
        self.note(|| format!("member {at} starts"));
    }

    /// Gives a member some events of the engine.
    fn deliver(&mut self, at: usize) {
        let skips = self.has_faults && self.random.below(40) == 0;
        let events = 1 + self.random.below(6);
        self.with_process(at, |process, now, _| {
            for _ in 0..events {
                let Some(event) = process.client.next_event(skips) else { break };
                process.member.handle(event, now);
            }
        });
        self.note_results(at);
        if self.random.below(6) == 0 {
            self.compare(at);
        }
    }

    /// Renews the lease of the feed, and does a round of its work.
    fn feed(&mut self, at: usize) {
        let mut peer = std::mem::take(&mut self.peer);
        let (articles, engine) = (self.next_article, self.engine.clone());
        let (flaw, mut cursor) = (self.machines[at].flaw, self.machines[at].feed_cursor);
        let renews = self.random.below(3) > 0;
        self.with_process(at, |process, now, clock| {
            let SimProcess { member, feed, .. } = process;
            if renews {
                feed.renew(&engine, now);
            }
            if member.is_ready() {
                let (spool, log_time) = (member.fold().spool(), member.fold().position().time.into());
                feed.work(&FedSite { spool, articles, log_time, now, clock, flaw }, &mut cursor, &mut peer);
            }
        });
        self.machines[at].feed_cursor = cursor;
        self.peer = peer;
    }

    /// Lets the peer get what it lacks, and checks that it has everything then.
    fn finish_feed(&mut self, living: &[usize]) {
        for step in 0.. {
            let mut is_done = false;
            for at in living {
                self.feed(*at);
                let Some(process) = &self.machines[*at].process else { continue };
                let site = FedSite {
                    spool: process.member.fold().spool(),
                    articles: self.next_article,
                    log_time: process.member.fold().position().time.into(),
                    now: self.now,
                    clock: self.secs(),
                    flaw: None,
                };
                is_done |= process.feed.is_done(&site);
                if is_done {
                    self.peer.finished(&site);
                }
            }
            if is_done || living.is_empty() {
                return self.rest();
            }
            assert!(step < HEALING_STEPS_MAX, "I6: no member feeds the peer");
            self.pass(Duration::from_millis(100));
        }
    }

    fn tick(&mut self, at: usize) {
        self.with_process(at, |process, now, clock| process.member.tick(now, clock));
        self.note_results(at);
    }

    /// Takes the results that a member has.
    fn note_results(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let Some(process) = machine.process.as_mut() else { return };
        for result in process.member.take_done() {
            let Some(changes) = process.proposals.remove(&result.id) else { continue };
            match result.outcome {
                Ok((outcomes, _)) => {
                    // Parts of large articles are entries of their own.
                    let mut changed: Vec<EntryOutcome> =
                        outcomes.into_iter().filter(|outcome| *outcome != EntryOutcome::Nothing).collect();
                    if machine.flaw == Some(PlantedFlaw::AnswersWhenAppended) {
                        // It does not know which entries are parts.
                        changed.truncate(changes.len());
                    }
                    assert_eq!(changed.len(), changes.len(), "an outcome for each change");
                    for (change, outcome) in changes.into_iter().zip(changed) {
                        if outcome == EntryOutcome::NoBody {
                            self.again.push(change);
                        } else {
                            self.checks.answered(&change, outcome);
                        }
                    }
                }
                Err(
                    NotCommitted::NoQuorum
                    | NotCommitted::InDoubt
                    | NotCommitted::Busy
                    | NotCommitted::TooLong,
                ) => self.again.extend(changes),
                Err(NotCommitted::Outdated | NotCommitted::Stopped) => self.again.extend(changes),
            }
        }
        let fresh = process.member.take_fresh();
        let floors: Vec<_> = fresh.into_iter().filter_map(|id| process.reads.remove(&id)).collect();
        if !floors.is_empty() && process.member.is_ready() {
            let spool = process.member.fold().spool().clone();
            floors.into_iter().for_each(|floor| self.checks.read(&spool, &floor));
        }
        let state = process.member.state().clone();
        match state {
            MemberState::Behind => {
                self.machines[at].process = None;
                self.machines[at].is_overtaken = true;
                self.note(|| format!("member {at} is overtaken"));
            }
            MemberState::Stopped(_)
            | MemberState::Diverged(_)
            | MemberState::NoLog
            | MemberState::Rewound(_)
            | MemberState::Rewritten(_)
            | MemberState::Replaced
            | MemberState::SameIncarnation
            | MemberState::Foreign => {
                panic!("member {at} has stopped: {state:?}")
            }
            MemberState::Stalled(why) if !self.machines[at].disk.crashed() => {
                panic!("member {at} is stalled: {why}")
            }
            _ => {}
        }
    }

    /// Compares a member with the others that were at its position.
    fn compare(&mut self, at: usize) {
        let articles = self.next_article;
        let Some(process) = self.machines[at].process.as_ref() else { return };
        if self.machines[at].is_armed {
            return;
        }
        let (spool, reached) = (process.member.fold().spool().clone(), process.member.fold().reached());
        if process.member.is_ready() {
            self.checks.compare(at, &spool, reached, articles);
        }
    }

    /// Asks a member for an answer that is as new as anything shown before.
    fn read(&mut self, at: usize) {
        let floor = self.checks.shown().clone();
        self.with_process(at, |process, _, _| {
            let id = process.member.ask_fresh();
            process.reads.insert(id, floor);
        });
    }

    /// Offers changes to a member.
    fn offer(&mut self, at: usize) {
        let mut changes = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let change = if !self.again.is_empty() && self.random.below(3) == 0 {
                let one = self.random.up_to(self.again.len() - 1);
                self.again.swap_remove(one)
            } else {
                SimChange::draw(&mut self.random, &mut self.next_article)
            };
            changes.push(change);
        }
        self.propose(at, changes);
    }

    fn propose(&mut self, at: usize, mut changes: Vec<SimChange>) {
        // Each member puts its own name into the Path, so no two copies are equal.
        for change in &mut changes {
            if let SimChange::Article { copy, .. } = change {
                *copy = self.next_copy;
                self.next_copy += 1;
            }
        }
        changes.iter().for_each(|change| self.checks.proposed(change));
        let uploads = self.random.below(u64::MAX >> 8);
        let proposed = changes.clone();
        let taken = self.with_process(at, |process, now, clock| {
            let sections = sections(&proposed, process.member.fold(), clock, uploads);
            let id = process.member.propose(sections, now).ok()?;
            process.proposals.insert(id, proposed);
            Some(())
        });
        if taken.flatten().is_none() {
            let known = |change: &SimChange| !matches!(change, SimChange::AddGroup(_));
            self.again.extend(changes.into_iter().filter(known));
        }
    }

    /// Ends all faults and waits until the cluster is at rest.
    fn heal(&mut self) {
        self.note(|| "healing".into());
        self.has_faults = false;
        self.engine.set_quorum(true);
        self.quorum_at = Duration::ZERO;
        for machine in &mut self.machines {
            machine.paused_until = Duration::ZERO;
            machine.clock_ahead_secs = 0;
        }
        self.rest();
    }

    fn is_at_rest(&self) -> bool {
        let last = self.engine.last();
        self.engine.on_wire() == 0
            && self.machines.iter().filter(|machine| !machine.is_overtaken).all(|machine| {
                machine.process.as_ref().is_some_and(|process| {
                    process.proposals.is_empty()
                        && process.member.fold().reached() == last
                        && process.member.may_propose()
                })
            })
    }

    fn rest(&mut self) {
        for step in 0.. {
            if self.is_at_rest() {
                return;
            }
            assert!(step < HEALING_STEPS_MAX, "the cluster does not come to rest");
            self.pass(Duration::from_millis(25));
        }
    }

    /// Lets all machines run for a time.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.set_time(self.secs());
        for at in 0..self.machines.len() {
            self.start(at);
            self.deliver(at);
            self.tick(at);
        }
        self.wire();
    }

    /// Returns the machines of the members that can still follow the log.
    fn living(&self) -> Vec<usize> {
        (0..self.machines.len()).filter(|at| !self.machines[*at].is_overtaken).collect()
    }

    /// Offers once more what is in doubt, and checks everything.
    fn finish(&mut self) {
        for round in 0..20 {
            // A crash that is still to come may put the last one back before the log begins.
            let living = self.living();
            if self.again.is_empty() || living.is_empty() {
                break;
            }
            assert!(round < 19, "what was answered with \"later\" is never taken");
            let again = std::mem::take(&mut self.again);
            let at = living[self.random.up_to(living.len() - 1)];
            self.propose(at, again);
            self.rest();
        }
        let living = self.living();
        self.finish_feed(&living);
        for at in &living {
            self.compare(*at);
            if let Some(process) = &self.machines[*at].process {
                let spool = process.member.fold().spool();
                self.checks.finished(spool, self.next_article);
                assert_eq!(spool.verifier().verify(&()).findings, [], "at member {at}");
            }
        }
        self.checks.members_compared(living.len());
    }
}

/// Plays a seed; panics if an invariant does not hold.
fn play(seed: u64, flaw: Option<PlantedFlaw>) -> Checks {
    Simulation::new(seed, flaw).run()
}

/// Reports how many articles were accepted, for the checks of the simulation itself.
fn is_accepted(outcome: EntryOutcome) -> bool {
    matches!(outcome, EntryOutcome::Applied(ChangeOutcome::Filed(_)))
}
