//! What a member knows of its cluster: the other members, the nodes of the log, and who does which job. For
//! status, pages and metrics, so nothing waits for it, and an answer that does not come leaves it as it was.

use cluster::EngineTable;
use cluster::leases::{LEASE_PREFIX, holder_of, job_of};
use cluster::members::{MemberReport, members};
use cluster::nats::{EngineFacts, NatsEngine};
use lock_order::Innermost;
use spool::{LogNodeOverview, MemberOverview, SharedLogOverview};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Interval at which the cluster is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Interval at which the age of the log's first message is looked up.
const AGE_EVERY: Duration = Duration::from_secs(60);

/// Age from which on the rate of a log says how far back it will reach, in seconds.
const RATE_SECS_MIN: u64 = 3_600;

/// The thread that looks at the cluster.
#[derive(Debug)]
pub(super) struct ClusterWatch {
    seen: Arc<Innermost<SharedLogOverview>>,
    /// Dropped to end the thread, for which no one waits.
    end: Innermost<Option<Sender<()>>>,
}

impl ClusterWatch {
    /// Starts the thread.
    pub fn start(engine: &Arc<NatsEngine>) -> std::io::Result<Self> {
        let seen: Arc<Innermost<SharedLogOverview>> = Arc::default();
        let (end, ended) = mpsc::channel();
        let (to, engine) = (seen.clone(), engine.clone());
        let watch = move || {
            let (mut age, mut seen_at) = (None, Instant::now());
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let facts = engine.facts().ok();
                let looked = facts.as_ref().and_then(|facts| look(&engine, facts, &mut age));
                let mut to = to.lock();
                match looked {
                    Some(overview) => (*to, seen_at) = (overview, Instant::now()),
                    None => {
                        lose_sight(&mut to, facts.as_ref(), seen_at.elapsed());
                        seen_at = Instant::now();
                    }
                }
            }
        };
        std::thread::Builder::new().name("cluster-watch".into()).spawn(watch)?;
        Ok(Self { seen, end: Innermost::new(Some(end)) })
    }

    /// Returns what was seen last.
    pub fn overview(&self) -> SharedLogOverview {
        self.seen.lock().clone()
    }

    /// Ends the thread.
    pub fn end(&self) {
        drop(self.end.lock().take());
    }
}

/// Looks at the cluster; `None` if the engine does not answer.
fn look(
    engine: &NatsEngine,
    facts: &EngineFacts,
    age: &mut Option<(Instant, u64)>,
) -> Option<SharedLogOverview> {
    if age.is_none_or(|(at, _)| at.elapsed() > AGE_EVERY) {
        let first = engine.message(facts.first)?;
        *age = Some((Instant::now(), u64::from(first.time)));
    }
    let now = engine.now().ok()?;
    let first_at = age.map_or(now.into(), |(_, time)| time);
    let mut all = seen_members(engine, facts, now)?;
    for (job, member) in jobs(engine)? {
        all.iter_mut().filter(|seen| seen.number == member).for_each(|seen| seen.jobs.push(job.clone()));
    }
    Some(SharedLogOverview {
        members: all,
        nodes: nodes_of(facts),
        reach_secs: reach_secs(u64::from(now).saturating_sub(first_at), facts),
    })
}

fn nodes_of(facts: &EngineFacts) -> Vec<LogNodeOverview> {
    let node = |name: &str, leads, is_current| LogNodeOverview { name: name.to_owned(), leads, is_current };
    let leader = facts.leader.iter().map(|name| node(name, true, true));
    let followers = facts.followers.iter().map(|(name, is_current)| node(name, false, *is_current));
    leader.chain(followers).collect()
}

/// Marks an overview as out of date while the engine does not answer, as when most nodes are away: no node
/// leads, and members have been silent for longer. `facts` come from the connected node; `passed` is the time
/// since the last call, or since the engine answered.
fn lose_sight(seen: &mut SharedLogOverview, facts: Option<&EngineFacts>, passed: Duration) {
    for node in &mut seen.nodes {
        // A node that is away is not in the answer of one that was, too, a moment ago.
        let is_current = |facts: &EngineFacts| {
            facts.followers.iter().find(|(name, _)| *name == node.name).map(|(_, is_current)| *is_current)
        };
        (node.leads, node.is_current) = (false, facts.is_some_and(|facts| is_current(facts).unwrap_or(true)));
    }
    for member in &mut seen.members {
        member.silent_secs = member.silent_secs.map(|secs| secs.saturating_add(passed.as_secs()));
        (member.agrees, member.jobs) = (None, Vec::new());
    }
}

/// Returns for how long a member may be away until the log has overtaken it: as long as the log reaches back,
/// or, while it is not full, as it will at the rate so far; `None` while that is too short to tell.
fn reach_secs(age: u64, facts: &EngineFacts) -> Option<u64> {
    if facts.first > 1 {
        return Some(age);
    }
    let whole =
        u128::from(age) * u128::from(facts.bytes_max.max(facts.bytes)) / u128::from(facts.bytes.max(1));
    (age >= RATE_SECS_MIN).then(|| u64::try_from(whole).unwrap_or(u64::MAX))
}

fn seen_members(engine: &NatsEngine, facts: &EngineFacts, now: u32) -> Option<Vec<MemberOverview>> {
    let table: &dyn EngineTable = engine;
    let mut all = Vec::new();
    let mut digests: Vec<(u64, String)> = Vec::new();
    for member in members(table).ok()?.into_iter().filter(|member| !member.has_left) {
        let heard = MemberReport::get(table, &member.name).ok()?;
        let silent_secs = heard.as_ref().map(|heard| heard.silent_secs(now).into());
        let heard = heard.unwrap_or_default();
        let may_run = heard.may_run(now);
        let report = heard.report;
        digests.push((report.position, report.digest.clone()));
        all.push(MemberOverview {
            name: member.name,
            number: member.number,
            may_run,
            silent_secs,
            version: report.version,
            state: report.state,
            position: report.position,
            lag: facts.last.saturating_sub(report.position),
            agrees: None,
            jobs: Vec::new(),
        });
    }
    for (at, member) in all.iter_mut().enumerate() {
        member.agrees = agrees(&digests, at);
    }
    Some(all)
}

/// Returns whether a member has the digest of the others at its position; `None` if none is there.
fn agrees(digests: &[(u64, String)], at: usize) -> Option<bool> {
    let (position, digest) = digests.get(at).filter(|(_, digest)| !digest.is_empty())?;
    let others = digests
        .iter()
        .enumerate()
        .filter(|(other, (of, digest))| *other != at && of == position && !digest.is_empty());
    let same: Vec<bool> = others.map(|(_, (_, other))| other == digest).collect();
    (!same.is_empty()).then(|| same.into_iter().all(|is_same| is_same))
}

/// Returns the jobs that are done, each with the number of the member that does it.
fn jobs(engine: &NatsEngine) -> Option<Vec<(String, u16)>> {
    let mut jobs = Vec::new();
    for key in engine.table_keys(LEASE_PREFIX)? {
        let Some(member) = engine.get(&key).ok()?.and_then(|entry| holder_of(&entry.value)) else { continue };
        jobs.extend(job_of(&key).map(|job| (job, member)));
    }
    jobs.sort();
    Some(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_of_nodes_and_members_while_the_engine_is_silent() {
        let node = |name: &str, leads| LogNodeOverview { name: name.into(), leads, is_current: true };
        let member = MemberOverview { may_run: true, silent_secs: Some(2), ..MemberOverview::default() };
        let mut seen = SharedLogOverview {
            members: vec![member, MemberOverview::default()],
            nodes: vec![node("n1", true), node("n2", false)],
            reach_secs: None,
        };
        lose_sight(&mut seen, None, Duration::from_secs(7));
        assert!(seen.nodes.iter().all(|node| !node.leads && !node.is_current), "{:?}", seen.nodes);
        let silent: Vec<_> = seen.members.iter().map(|member| member.silent_secs).collect();
        assert_eq!(silent, [Some(9), None]);
    }

    #[test]
    fn members_agree_if_those_at_one_position_have_one_digest() {
        let digests: Vec<(u64, String)> =
            [(7, "a"), (7, "a"), (7, "b"), (8, "c"), (7, "")].map(|(at, of)| (at, of.to_owned())).into();
        assert_eq!(agrees(&digests, 0), Some(false));
        assert_eq!(agrees(&digests[..2], 1), Some(true));
        assert_eq!(agrees(&digests, 3), None, "alone at its position");
        assert_eq!(agrees(&digests, 4), None, "without a digest");
    }
}
