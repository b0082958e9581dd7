//! A member at work: the threads that apply the log and say how far that is.

use super::MemberError;
use super::connecting::{ConnectedLog, patiently, table_answer};
use super::offering::offer_snapshots;
use super::watching::ClusterWatch;
use cluster::engine::next_incarnation;
use cluster::leases::{Leases, WantedJobs};
use cluster::members::{ENDED, MemberReport, Neighbours, announce_format, number_of};
use cluster::message::FORMAT;
use cluster::nats::NatsEngine;
use cluster::transfer::SnapshotOffer;
use cluster::{
    ClusterLog, EngineEvent, EngineTable, Fold, FoldStop, LogPosition, MachineWorld, MemberHandle,
    MemberState, ReadFreshness,
};
use lock_order::Innermost;
use site_base::clock::unix_secs;
use site_config::{ClusterReads, Config};
use spool::{
    Change, ChangeOutcome, CommitTicket, JobLead, NoteKind, OtherMember, SharedLog, SharedLogOverview,
    SharedLogStatus, Spool, SpoolTrouble, TroubleKind,
};
use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time for which a start waits until what the log has is applied, while nothing is applied.
const STANDSTILL_MAX: Duration = Duration::from_secs(60);
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
    /// Reason why no changes are taken.
    halted: Innermost<Option<String>>,
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
    /// Snapshot for members that join.
    offer: Arc<SnapshotOffer>,
    begun: Instant,
}

impl MemberDuties {
    /// Renews leases, says how far the member is and looks at the others, until `ended`.
    fn carry_out(
        &self,
        mut leases: Leases,
        member: &MemberHandle,
        spool: &Weak<Spool>,
        table: &dyn EngineTable,
        ended: &Receiver<()>,
    ) -> Leases {
        let mut reported: Option<Instant> = None;
        loop {
            self.jobs.renew(&mut leases, table, || self.begun.elapsed());
            if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
                reported = Some(Instant::now());
                let Some(spool) = spool.upgrade() else { return leases };
                // Others only look at it, so a report that fails is passed over.
                let _ = report(member, &spool).put(table, &member.status().name);
                self.offer.drop_old();
            }
            // Every time, as a configuration is agreed on with all that are there, also new ones.
            let mut neighbours = self.neighbours.lock().clone();
            neighbours.look(table, self.begun.elapsed());
            *self.neighbours.lock() = neighbours;
            if ended.recv_timeout(RENEW_EVERY) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        if let Some(spool) = spool.upgrade() {
            let last = MemberReport { state: ENDED.into(), ..report(member, &spool) };
            let _ = last.put(table, &member.status().name);
        }
        leases
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
    let incarnation =
        patiently(|| next_incarnation(table, number)).map_err(|error| MemberError::Table(error.into()))?;
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
        offer: offer_snapshots(&connected.engine, spool, &config.site.data)?,
        begun: Instant::now(),
    });
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
    let halted = Innermost::default();
    spool.follow(Arc::new(DrivenLog { log, member: member.clone(), threads, engine, watch, duties, halted }));
    await_log(&member, is_stopping)
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
            MemberState::Behind | MemberState::Foreign | MemberState::Stopped(_) => {
                return Err(MemberError::Other(format!("the member {}", status.state)));
            }
            _ => {}
        }
        if status.reached != reached {
            (reached, since) = (status.reached, Instant::now());
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

impl SharedLog for DrivenLog {
    fn commit(
        &self,
        changes: &[Change<'_>],
        outcomes: &mut Vec<ChangeOutcome>,
    ) -> Result<CommitTicket, SpoolTrouble> {
        // Files that members share do not depend on the configuration.
        let is_of_files =
            |change: &Change<'_>| matches!(change, Change::Note { kind: NoteKind::SharedFile, .. });
        let halted = self.halted.lock().clone().filter(|_| !changes.iter().all(is_of_files));
        match halted {
            Some(why) => Err(SpoolTrouble::new(TroubleKind::Refused, why)),
            None => self.log.commit(changes, outcomes),
        }
    }

    fn is_accepting(&self) -> bool {
        let is_halted = self.halted.lock().is_some();
        !is_halted && self.log.is_accepting()
    }

    fn freshen(&self) {
        self.log.freshen();
    }

    fn status(&self) -> SharedLogStatus {
        let mut status = self.log.status();
        if let Some(why) = &*self.halted.lock() {
            status.state.clone_from(why);
            status.is_accepting = false;
        }
        status
    }

    fn overview(&self) -> SharedLogOverview {
        self.watch.overview()
    }

    fn lead(&self, job: &str, reached: u64) -> JobLead {
        self.duties.jobs.lead(job, reached, self.duties.begun.elapsed())
    }

    fn others(&self) -> Vec<OtherMember> {
        self.duties.neighbours.lock().others(self.duties.begun.elapsed())
    }

    fn halt(&self, why: Option<String>) {
        *self.halted.lock() = why;
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
