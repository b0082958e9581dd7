//! A member at work: the threads that apply the log and say how far that is.

use super::MemberError;
use super::clock::ClockWatch;
use super::connecting::{ConnectedLog, patiently, table_answer};
use super::offering::offer_snapshots;
use super::watching::ClusterWatch;
use cluster::engine::next_incarnation;
use cluster::leases::{JobFitness, Leases, WantedJobs};
use cluster::members::{
    ENDED, FOLLOWS, MemberReport, Neighbours, SILENT_MAX, announce_format, keep_member, number_of,
};
use cluster::message::FORMAT;
use cluster::nats::NatsEngine;
use cluster::transfer::SnapshotOffer;
use cluster::{
    ClusterLog, EngineEvent, EngineTable, Fold, FoldStop, LogPosition, MachineWorld, MemberHandle,
    MemberState, ReadFreshness,
};
use disk::{FileAccess, durable_replace, read_small};
use lock_order::Innermost;
use rustix::process::{Signal, getpid, kill_process};
use site_base::clock::unix_secs;
use site_base::units::counted;
use site_config::{ClusterReads, Config};
use spool::{
    Change, ChangeOutcome, CommitTicket, JobLead, NoteKind, OtherMember, SharedLog, SharedLogOverview,
    SharedLogStatus, Spool, SpoolTrouble, TroubleKind,
};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// Time for which a start waits until what the log has is applied, while nothing is applied.
const STANDSTILL_MAX: Duration = Duration::from_secs(60);
/// The same while the spool takes nothing, as on a full disk: an operator has to make room.
const STALLED_MAX: Duration = Duration::from_secs(3);
/// Pause between two looks at that.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Interval at which leases are renewed.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a member says how far it is, and looks at the others.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The log of a cluster, with the threads that drive its member.
struct DrivenLog {
    log: ClusterLog,
    member: Arc<MemberHandle>,
    threads: Innermost<Option<LogThreads>>,
    engine: Arc<NatsEngine>,
    watch: ClusterWatch,
    duties: Arc<MemberDuties>,
}

struct LogThreads {
    driver: JoinHandle<()>,
    /// Returns the leases that it holds when it ends.
    duties: JoinHandle<Leases>,
    /// Dropped to end the thread of the duties.
    end: Sender<()>,
}

/// What a member does from time to time.
#[derive(Debug)]
struct MemberDuties {
    jobs: WantedJobs,
    neighbours: Innermost<Neighbours>,
    clock: ClockWatch,
    /// Snapshot for members that join.
    offer: Arc<SnapshotOffer>,
    /// Whether the server takes no new connections, as it is to stop.
    retires: AtomicBool,
    /// Reason why no changes are taken, as the configuration of the cluster cannot be that of this member.
    halted: Innermost<Option<String>>,
    begun: Instant,
}

/// State of a member that takes no new connections.
const RETIRES: &str = "takes no new connections, and is about to stop";

/// State of the member, and members that were away, when they were last logged.
#[derive(Debug, Default)]
struct LoggedStates {
    own: Option<String>,
    away: BTreeSet<u16>,
}

impl LoggedStates {
    /// Logs what has changed.
    fn note(&mut self, own: &str, others: &[OtherMember]) {
        match self.own.as_deref() {
            Some(before) if before == own => {}
            Some(_) if own.starts_with("has stopped") => error!("the member {own}"),
            Some(_) if own != FOLLOWS => warn!("the member {own}"),
            Some(_) => info!("the member {own}"),
            None => {}
        }
        self.own = Some(own.to_owned());
        for OtherMember { name, number, silent } in others {
            if *silent < SILENT_MAX {
                if self.away.remove(number) {
                    info!(member = name, "another member is back");
                }
            } else if self.away.insert(*number) {
                warn!(member = name, "another member is away, or cannot say that it is there");
            }
        }
        self.away.retain(|number| others.iter().any(|other| other.number == *number));
    }
}

impl MemberDuties {
    /// Returns why no changes are taken; `None` if they are.
    fn halted(&self) -> Option<String> {
        // Released before the clock's own lock is taken.
        let halted = self.halted.lock().clone();
        halted.or_else(|| self.clock.fault())
    }

    /// Renews leases, says how far the member is and looks at the others, until `ended`, which it looks at
    /// before each step, as each may take seconds while the table does not answer.
    fn carry_out(
        &self,
        mut leases: Leases,
        member: &MemberHandle,
        spool: &Weak<Spool>,
        table: &dyn EngineTable,
        ended: &Receiver<()>,
    ) -> Leases {
        let mut reported: Option<(Instant, bool)> = None;
        let mut logged = LoggedStates::default();
        let mut fitness = JobFitness::default();
        let goes_on = || ended.try_recv() == Err(TryRecvError::Empty);
        while goes_on() {
            let now = || self.begun.elapsed();
            if fitness.note(&member.status().state, now()) && self.halted().is_none() {
                self.jobs.renew(&mut leases, table, now, goes_on);
            } else {
                self.jobs.give_up(&mut leases, table);
            }
            let retires = self.retires.load(Ordering::Relaxed);
            // Other members must learn at once that this one retires.
            if reported.is_none_or(|(at, said)| said != retires || at.elapsed() >= REPORT_EVERY) {
                reported = Some((Instant::now(), retires));
                let Some(spool) = spool.upgrade() else { return leases };
                self.report(member, &spool, table, &mut logged, goes_on);
                self.offer.drop_old();
            }
            if is_diverged(member)
                && let Some(spool) = spool.upgrade()
            {
                stop_serving(member, &spool);
            }
            if goes_on() {
                // Every time, as a configuration is agreed on with all that are there, also new ones.
                let mut neighbours = self.neighbours.lock().clone();
                neighbours.look(table, self.begun.elapsed());
                *self.neighbours.lock() = neighbours;
            }
            if ended.recv_timeout(RENEW_EVERY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        if let Some(spool) = spool.upgrade().filter(|_| !is_replaced(member)) {
            let last = report(member, &spool);
            // What is wrong is still to be seen once it has ended.
            let state = if is_diverged(member) { last.state.clone() } else { ENDED.into() };
            let last = MemberReport { state, ..last };
            let _ = last.put(table, &member.status().name);
        }
        leases
    }

    /// Says how far the member is, to the others and, where its state has changed, in the log file, and
    /// compares its clock.
    fn report(
        &self,
        member: &MemberHandle,
        spool: &Spool,
        table: &dyn EngineTable,
        logged: &mut LoggedStates,
        goes_on: impl Fn() -> bool,
    ) {
        let (name, number) = (member.status().name, member.status().number);
        let said = report(member, spool);
        let retires = self.retires.load(Ordering::Relaxed);
        let retiring = (retires && said.state == FOLLOWS).then(|| RETIRES.to_owned());
        let state = self.clock.fault().or(retiring).unwrap_or_else(|| said.state.clone());
        // Released before anything is logged.
        let others = self.neighbours.lock().others(self.begun.elapsed());
        logged.note(&state, &others);
        if goes_on() && keep_member(table, &name, number) == Ok(true) {
            warn!("the table of the cluster did not have this member any more, and has it again");
        }
        if goes_on() && !is_replaced(member) {
            // Others only look at it, so a report that fails is passed over.
            let _ = MemberReport { state, ..said }.put(table, &name);
        }
        if goes_on() {
            self.clock.compare(table, &name);
        }
    }
}

impl fmt::Debug for DrivenLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrivenLog").field("member", &self.member.status()).finish_non_exhaustive()
    }
}

/// Starts the member of a spool, as [`super::follow`] does.
pub(super) fn follow(
    config: &Config,
    spool: &Arc<Spool>,
    is_stopping: &dyn Fn() -> bool,
) -> Result<(), MemberError> {
    let name = config.cluster.member.clone().unwrap_or_default();
    let record = spool.position().ok_or_else(|| {
        MemberError::Other(
            "the spool belongs to no cluster yet: newsreel cluster create makes one of it, and newsreel cluster join \
             adds a new member to one"
                .into(),
        )
    })?;
    let position = LogPosition::decode(&record).ok_or(MemberError::Fold(FoldStop::NoPosition))?;
    refuse_diverged(spool)?;
    let connected = ConnectedLog::of(&config.cluster)?;
    connected.check(config, Some((position.cluster, position.created)))?;
    connected.check_settings(config, spool)?;
    let table: &dyn EngineTable = &*connected.engine;
    let number = table_answer(|| number_of(table, &name))?;
    let number = number.ok_or_else(|| {
        MemberError::Other(format!(
            "{name} is no member of the cluster: newsreel cluster invite, at a member, makes it one"
        ))
    })?;
    table_answer(|| announce_format(table, &name, FORMAT))?;
    let applied = position.tags.incarnation(number);
    let incarnation = patiently(|| next_incarnation(table, number, applied));
    let incarnation = incarnation.map_err(|error| MemberError::Table(error.into()))?;
    let fold = Fold::open(spool.clone()).map_err(MemberError::Fold)?;

    // Events come once there is a member to take them.
    let sink: Arc<OnceLock<Weak<MemberHandle>>> = Arc::default();
    let to = sink.clone();
    let log = connected.engine.log(Arc::new(move |event: EngineEvent| {
        to.get().and_then(Weak::upgrade).into_iter().for_each(|member| member.tell(event.clone()));
    }));
    let world = Arc::new(MachineWorld::default());
    let (member, driven) = MemberHandle::new(fold, log, world, number, &name, incarnation)
        .map_err(|trouble| MemberError::Other(trouble.to_string()))?;
    let _ = sink.set(Arc::downgrade(&member));
    let cannot = |error: std::io::Error| MemberError::Other(format!("cannot start a thread: {error}"));
    let driver = std::thread::Builder::new()
        .name("cluster-member".into())
        .spawn({
            let member = member.clone();
            move || member.run(driven)
        })
        .map_err(cannot)?;
    let (end, ended) = mpsc::channel();
    let duties = Arc::new(MemberDuties {
        jobs: WantedJobs::default(),
        neighbours: Innermost::new(Neighbours::of(number)),
        clock: ClockWatch::default(),
        offer: offer_snapshots(&connected.engine, spool, &config.site.data)?,
        retires: AtomicBool::new(false),
        halted: Innermost::default(),
        begun: Instant::now(),
    });
    // Before anything is judged here.
    duties.clock.compare(table, &name);
    let on_duty = std::thread::Builder::new()
        .name("cluster-duties".into())
        .spawn({
            let (member, spool, engine) = (member.clone(), Arc::downgrade(spool), connected.engine.clone());
            let (duties, leases) = (duties.clone(), Leases::new(number, incarnation));
            move || duties.carry_out(leases, &member, &spool, &*engine, &ended)
        })
        .map_err(cannot)?;
    let log = ClusterLog::new(member.clone(), freshness(config.cluster.reads), config.cluster.lag_max);
    let threads = Innermost::new(Some(LogThreads { driver, duties: on_duty, end }));
    let engine = connected.engine.clone();
    let watch = ClusterWatch::start(&engine).map_err(cannot)?;
    spool.follow(Arc::new(DrivenLog { log, member: member.clone(), threads, engine, watch, duties }));
    // One that stops while it catches up, too, is not to start again.
    await_log(&member, is_stopping).inspect_err(|_| note_diverged(&member, spool))
}

/// File beside the spool of a member whose news differ from those of the others, with the reason.
const DIVERGED_FILE: &str = "diverged";
/// Longest such file that is read, in bytes.
const DIVERGED_BYTES_MAX: u64 = 4 << 10;

fn is_diverged(member: &MemberHandle) -> bool {
    matches!(member.status().state, MemberState::Diverged(_))
}

/// Reports whether a later process of the member runs, whose report is the one that counts.
fn is_replaced(member: &MemberHandle) -> bool {
    member.status().state == MemberState::Replaced
}

/// Ends a server whose numbers may be others than those of the other members: it is not to be read. It does
/// not start again.
fn stop_serving(member: &MemberHandle, spool: &Spool) {
    note_diverged(member, spool);
    error!("the member {}; the server stops", member.status().state);
    // As by an operator's signal.
    if let Err(error) = kill_process(getpid(), Signal::TERM) {
        error!(%error, "the server cannot stop itself");
    }
}

/// Keeps the reason, if the member has stopped as its news differ.
fn note_diverged(member: &MemberHandle, spool: &Spool) {
    if !is_diverged(member) {
        return;
    }
    let why = member.status().state.to_string();
    let file = spool.config().dir.join(DIVERGED_FILE);
    if let Err(error) = durable_replace(&**spool.disk(), &file, &[why.as_bytes()], FileAccess::Owner) {
        warn!(file = %file.display(), %error, "cannot write why this member has stopped");
    }
}

/// Refuses a spool whose news differ from those of the other members.
fn refuse_diverged(spool: &Spool) -> Result<(), MemberError> {
    let file = spool.config().dir.join(DIVERGED_FILE);
    match read_small(&**spool.disk(), &file, DIVERGED_BYTES_MAX) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(MemberError::Other(format!("this member {}", String::from_utf8_lossy(&why)))),
        Err(error) => Err(MemberError::Other(format!("cannot read {}: {error}", file.display()))),
    }
}

/// Waits until the member has applied what the log had when it was started, and may propose.
fn await_log(member: &MemberHandle, is_stopping: &dyn Fn() -> bool) -> Result<(), MemberError> {
    let (mut reached, mut since) = (0, Instant::now());
    while !is_stopping() {
        let status = member.status();
        match status.state {
            MemberState::Following if status.may_propose => {
                info!(
                    member = status.name,
                    number = status.number,
                    position = status.reached,
                    "follows the log"
                );
                return Ok(());
            }
            MemberState::Stopped(_) | MemberState::NoLog => {
                error!(
                    "the member {}; readers are served from what is here, and nothing is accepted",
                    status.state
                );
                return Ok(());
            }
            MemberState::Behind
            | MemberState::Foreign
            | MemberState::Rewound(_)
            | MemberState::Rewritten(_)
            | MemberState::Diverged(_)
            | MemberState::Replaced
            | MemberState::SameIncarnation => {
                return Err(MemberError::Other(format!("the member {}", status.state)));
            }
            _ => {}
        }
        let is_stalled = matches!(status.state, MemberState::Stalled(_));
        if status.reached != reached {
            (reached, since) = (status.reached, Instant::now());
        } else if is_stalled && since.elapsed() > STALLED_MAX {
            warn!(
                state = %status.state,
                "what the log has cannot be applied: readers are served from what is here, and nothing is \
                 accepted until it can"
            );
            return Ok(());
        } else if since.elapsed() > STANDSTILL_MAX {
            warn!(
                state = %status.state,
                "the log of the cluster does not answer: readers are served from what is here, and nothing is accepted"
            );
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn freshness(reads: ClusterReads) -> ReadFreshness {
    match reads {
        ClusterReads::Fresh => ReadFreshness::Fresh,
        ClusterReads::Local => ReadFreshness::Local,
        ClusterReads::Strict => ReadFreshness::Strict,
    }
}

/// Returns what the member says about itself to the others.
fn report(member: &MemberHandle, spool: &Spool) -> MemberReport {
    let status = member.status();
    let at = spool.digest_at_position();
    let known = at.and_then(|(record, digest)| Some((LogPosition::decode(&record)?, digest)));
    let (position, digest) = match known {
        Some((position, digest)) if position.entries == 0 => (position.sequence, digest.to_string()),
        _ => (status.reached, String::new()),
    };
    MemberReport {
        time: u32::try_from(unix_secs()).unwrap_or(u32::MAX),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        position,
        digest,
        state: status.state.to_string(),
    }
}

/// Describes a member that follows the log and is too far behind it, by `lag` messages as far as is known.
fn waiting(seen: &SharedLogOverview, lag: u64) -> String {
    let away = seen.nodes.iter().filter(|node| !node.is_current).map(|node| node.name.as_str());
    match (away.collect::<Vec<_>>().as_slice(), lag) {
        ([], 0) => "waits for the log, which does not answer".to_owned(),
        ([], lag) => format!("is behind the log by {}", counted(lag, "message")),
        (away, _) => {
            format!(
                "waits for the log, which does not answer: away or behind are its nodes {}",
                away.join(", ")
            )
        }
    }
}

impl SharedLog for DrivenLog {
    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        // Files that members share do not depend on the configuration.
        let is_of_files =
            |change: &Change<'_>| matches!(change, Change::Note { kind: NoteKind::SharedFile, .. });
        let halted = self.duties.halted().filter(|_| !changes.iter().all(is_of_files));
        match halted {
            Some(why) => Err(SpoolTrouble::new(TroubleKind::Refused, why)),
            None => self.log.commit(changes, outcomes),
        }
    }

    fn is_accepting(&self) -> bool {
        self.duties.halted().is_none() && self.log.is_accepting()
    }

    fn is_in_doubt(&self) -> bool {
        self.log.is_in_doubt()
    }

    fn freshen(&self) {
        self.log.freshen();
    }

    fn status(&self) -> SharedLogStatus {
        let mut status = self.log.status();
        if let Some(why) = self.duties.halted() {
            status.state = why;
            status.is_accepting = false;
        } else if !status.is_accepting && status.state == FOLLOWS {
            status.state = waiting(&self.watch.overview(), status.log_last.saturating_sub(status.position));
        }
        status
    }

    fn overview(&self) -> SharedLogOverview {
        self.watch.overview()
    }

    fn lead(&self, job: &str, reached: u64) -> JobLead {
        // At once, before the lease is given up, as a clock may jump at any time.
        match self.duties.clock.fault() {
            Some(_) => JobLead::Elsewhere { reached: None },
            None => self.duties.jobs.lead(job, reached, self.duties.begun.elapsed()),
        }
    }

    fn others(&self) -> Vec<OtherMember> {
        self.duties.neighbours.lock().others(self.duties.begun.elapsed())
    }

    fn retire(&self) {
        self.duties.retires.store(true, Ordering::Relaxed);
    }

    fn halt(&self, why: Option<String>) {
        *self.duties.halted.lock() = why;
    }

    fn end(&self) {
        self.watch.end();
        let Some(LogThreads { driver, duties, end }) = self.threads.lock().take() else { return };
        drop(end);
        // Others take the jobs of this member at once.
        let is_whole = duties.join().map(|mut leases| leases.give_up(&*self.engine)).is_ok();
        self.member.end();
        if driver.join().is_err() || !is_whole {
            warn!("a thread of the cluster has failed");
        }
    }
}
