//! Making a cluster of a site, members of it, and a site of the last one. The server is stopped meanwhile.

use super::connecting::{ConnectedLog, connect, patiently, patiently_while, table_answer};
use super::offering::SNAPSHOT_REQUESTS;
use super::{
    ClusterLogStatus, ClusterMemberReport, ClusterMemberStatus, ClusterStatus, JoinSource, LogFollowerStatus,
    MemberError, NodePlan,
};
use access::sealing::ClusterKey;
use cluster::engine_check::{EngineFault, REPLICAS_MIN, is_recent};
use cluster::engine_conf::{EngineUser, NodeConf, NodeTls};
use cluster::leases::{LEASE_PREFIX, disown};
use cluster::members::{
    ClusterFormats, ENDED, HeardReport, MemberReport, MembersError, NamedMember, add_member, members,
    number_of, raise_format, remove_last_member, remove_member,
};
use cluster::nats::{EngineFacts, NatsError, user_key};
use cluster::transfer::{FetchError, SnapshotFetch, fetched_snapshot, has_begun_snapshot, keep_fetched};
use cluster::{ClusterId, EngineTable, Fold, LogPosition, MachineWorld, MemberState, fetch_parts};
use disk::{Disk as _, Progress, RealDisk};
use site_base::clock::unix_secs;
use site_config::{Cluster, Config};
use spool::{RestoreReport, RestoreTarget, SnapshotArrival, Spool, SpoolError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn other(text: impl Into<String>) -> MemberError {
    MemberError::Other(text.into())
}

/// Returns the name of this member.
fn name(config: &Config) -> &str {
    config.cluster.member.as_deref().unwrap_or_default()
}

/// Makes the site of a spool the first member of a new cluster; returns the cluster's id.
/// The log is created with these credentials, or else those of the member.
pub fn create(config: &Config, credentials: Option<&Path>, spool: &Spool) -> Result<String, MemberError> {
    if spool.position().is_some() {
        return Err(other("the spool belongs to a cluster already; newsreel cluster status shows it"));
    }
    let credentials = credentials.map(Path::to_owned).or_else(|| config.cluster.credentials.clone());
    let engine = connect(&Cluster { credentials, ..config.cluster.clone() })?;
    // A log that an interrupted call has made is taken, as long as it has no message.
    let found = patiently_while(
        // Nodes that elect a leader do not say whether there is a log.
        |error| matches!(error, NatsError::NoAnswer(_)),
        || engine.facts(),
    );
    let cluster = match found {
        Ok(facts) if facts.last > 0 => {
            return Err(other(format!(
                "there is a log of this name, with {} messages, of the cluster {}; choose another [cluster] site, or \
                 newsreel cluster join",
                facts.last,
                facts.cluster.map_or_else(|| "-".into(), |id| id.to_string())
            )));
        }
        Ok(EngineFacts { cluster: Some(cluster), .. }) => cluster,
        Ok(_) => return Err(MemberError::Unsafe(vec![cluster::engine_check::EngineFault::NoCluster])),
        Err(NatsError::NoLog(_)) => ClusterId::random(&cluster::MachineWorld::default()),
        Err(error) => return Err(MemberError::Engine(error)),
    };
    let key = &config.cluster.key;
    let made = ClusterKey::create(&RealDisk::new(), key);
    made.map_err(|error| other(format!("cannot make the key of the cluster, {}: {error}", key.display())))?;
    let size = config.cluster.log_size;
    patiently(|| engine.create(cluster, REPLICAS_MIN, size)).map_err(|error| {
        // Nodes do not answer a user who may not create the log.
        let hint = match error.to_string().contains("timed out") {
            true => "; --credentials names the file with the operator's key, who alone may do that",
            false => "",
        };
        other(format!("{error}{hint}"))
    })?;
    let connected = ConnectedLog::on(engine, &config.cluster)?;
    connected.check(config, None)?;
    connected.check_settings(config, spool)?;
    let table: &dyn EngineTable = &*connected.engine;
    // The table has just been made, and may have no leader yet.
    let number = table_answer(|| add_member(table, name(config)))?;
    if number != 1 {
        return Err(other(format!("the cluster has {} other members already", number - 1)));
    }
    let time = u32::try_from(unix_secs()).unwrap_or(u32::MAX);
    let position = LogPosition::after(cluster, connected.facts.created, 0, time);
    Fold::begin(spool, &position).map_err(MemberError::Fold)?;
    Ok(cluster.to_string())
}

/// Makes room for a member of this name.
pub fn invite(config: &Config, name: &str) -> Result<(), MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let table: &dyn EngineTable = &*connected.engine;
    let known = table_answer(|| members(table))?;
    if known.is_empty() {
        return Err(other("the cluster has no member yet; newsreel cluster create makes one of this site"));
    }
    let is_known = known.iter().any(|member| member.name == name && !member.has_left);
    // One that was invited and has not begun yet may be invited again, for instance to get a snapshot.
    if is_known && table_answer(|| MemberReport::get(table, name))?.is_some() {
        return Err(other(format!("{name} is a member already; choose another name")));
    }
    table_answer(|| add_member(table, name)).map(drop)
}

/// Makes room for a member of this name, unless there is one.
pub fn invite_again(config: &Config, name: &str) -> Result<(), MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    table_answer(|| add_member(&*connected.engine, name)).map(drop)
}

/// Words for a member that has reported lately, and may therefore run.
const RUNS: &str = "or did 15 seconds ago";

/// Advice where a snapshot does not fit.
const ANOTHER: &str = "join with another snapshot, in an empty directory";

/// Directory for a snapshot that is fetched, in the site's directory.
const FETCHED_DIR: &str = "joining";

/// Makes a member of the snapshot of another one, in a directory that has no spool yet. Returns what was
/// restored. Nothing is changed if the log does not fit the snapshot.
pub fn join(
    config: &Config,
    source: &JoinSource,
    replaces: bool,
    progress: &dyn Progress,
) -> Result<RestoreReport, MemberError> {
    let key = &config.cluster.key;
    let cannot = |why: String| other(format!("cannot use the key of the cluster, {}: {why}", key.display()));
    let found = ClusterKey::read(&RealDisk::new(), key).map_err(|error| cannot(error.to_string()))?;
    found.ok_or_else(|| cannot("it is missing; copy it from another member".into()))?;
    let connected = ConnectedLog::of(&config.cluster)?;
    check_name(config, &*connected.engine, replaces)?;
    let (file, restored) = match source {
        JoinSource::File(file) => restore(config, file.clone(), progress)?,
        JoinSource::Member(from) => restore_fetched(config, &connected, from.as_deref(), progress)?,
    };
    refuse_another_site(&restored)?;
    let position = restored.position.as_deref().and_then(LogPosition::decode).ok_or_else(|| {
        other("the snapshot is not that of a member; newsreel cluster invite NAME FILE writes one")
    })?;
    let (spool, _) = Spool::open(Arc::new(RealDisk::new()), config.spool_config(), progress)?;
    if spool.position().is_some() {
        return Err(other("the spool belongs to a cluster already"));
    }
    let begun = begin(config, &connected, &spool, &position);
    spool.close()?;
    // The file takes room and is not needed any more, unless the nodes were silent: then it may do later.
    let may_do = matches!(begun, Err(MemberError::Engine(_) | MemberError::Table(MembersError::Table(_))));
    if matches!(source, JoinSource::Member(_)) {
        put_away(&file, may_do);
    }
    begun.map(|()| restored)
}

/// Refuses news that are not those of the snapshot although nothing was left out: the member would answer
/// otherwise than the others.
fn refuse_another_site(restored: &RestoreReport) -> Result<(), MemberError> {
    let left_out = restored.displaced + restored.unfit + restored.taken;
    match restored.is_same {
        Some(false) if left_out == 0 => {
            Err(other(format!("the restored news are not those of the snapshot; {ANOTHER}")))
        }
        _ => Ok(()),
    }
}

/// Refuses a name that is not invited, that another server has, or that had a member whose disk may be there.
fn check_name(config: &Config, table: &dyn EngineTable, replaces: bool) -> Result<(), MemberError> {
    let name = name(config);
    if table_answer(|| number_of(table, name))?.is_none() {
        return Err(other(format!(
            "{name} is no member of the cluster: newsreel cluster invite {name}, at a member, makes it one"
        )));
    }
    let heard = table_answer(|| MemberReport::get(table, name))?;
    let now = table_answer(|| Ok(table.now()?))?;
    match heard {
        Some(heard) if heard.may_run(now) => {
            Err(other(format!("{name} runs elsewhere, {RUNS}; stop it, or choose another name")))
        }
        Some(_) if !replaces => Err(other(format!(
            "{name} has been a member before: start it where its spool is, or, if its disk is lost, say \
             newsreel cluster join --replace"
        ))),
        _ => Ok(()),
    }
}

/// Restores the snapshot in a file.
fn restore(
    config: &Config,
    file: PathBuf,
    progress: &dyn Progress,
) -> Result<(PathBuf, RestoreReport), MemberError> {
    let (disk, to) = (Arc::new(RealDisk::new()), config.spool_config());
    let restored = spool::restore(disk, to, &file, RestoreTarget::Restored, progress)?;
    Ok((file, restored))
}

/// Keeps a fetched snapshot for another attempt, or removes it.
fn put_away(file: &Path, may_do: bool) {
    let disk = RealDisk::new();
    // A file that cannot be kept is fetched again, and one that cannot be removed only takes room.
    let _ = if may_do { keep_fetched(&disk, file) } else { disk.remove(file) };
}

/// Reports whether a snapshot is damaged, so that another attempt with it is in vain.
fn is_damaged(error: &MemberError) -> bool {
    matches!(error, MemberError::Spool(SpoolError::Io { source, .. }) if source.kind() == ErrorKind::InvalidData)
}

/// Fetches a snapshot of a running member through the engine, and restores it as it arrives. Returns the file
/// to which it was fetched.
fn restore_fetched(
    config: &Config,
    connected: &ConnectedLog,
    from: Option<&str>,
    progress: &dyn Progress,
) -> Result<(PathBuf, RestoreReport), MemberError> {
    let (disk, dir) = (RealDisk::new(), config.site.data.join(FETCHED_DIR));
    let put_away_after = |error: &MemberError, file: &Path| put_away(file, !is_damaged(error));
    if let Some(file) = fetched_snapshot(&disk, &dir) {
        return restore(config, file.clone(), progress).inspect_err(|error| put_away_after(error, &file));
    }
    let running = running_members(config, &*connected.engine, from)?;
    let ask = |from: &str, requests| connected.engine.ask_member(from, SNAPSHOT_REQUESTS, requests);
    // An interrupted call is continued with the member that it has asked.
    let has_begun = |from: &&String| has_begun_snapshot(&disk, &dir, &|requests| ask(from, requests));
    let from = running.iter().find(has_begun).or(running.first()).map_or("", String::as_str);
    let (ask, world) = (|requests| ask(from, requests), MachineWorld::default());
    let cannot = |error| {
        other(format!(
            "cannot fetch a snapshot of {from}: {error}; what has arrived is kept for another attempt"
        ))
    };
    let fetch = SnapshotFetch::begin(&disk, &dir, &ask, &world).map_err(cannot)?;
    let (file, arrival) = (fetch.file(), SnapshotArrival::default());
    let (fetched, restored) = std::thread::scope(|scope| {
        let restoring = scope.spawn(|| {
            let (disk, to) = (Arc::new(RealDisk::new()), config.spool_config());
            spool::restore_arriving(disk, to, &file, &arrival, RestoreTarget::Restored)
        });
        let fetched = fetch.run(&arrival, progress);
        (fetched, restoring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    match fetched {
        Ok(()) => match restored {
            Ok(restored) => Ok((file, restored)),
            Err(error) => {
                let error = error.into();
                put_away_after(&error, &file);
                Err(error)
            }
        },
        Err(FetchError::Unwanted) => {
            Err(restored.err().map_or_else(|| cannot(FetchError::Unwanted), Into::into))
        }
        Err(error) => Err(cannot(error)),
    }
}

/// Returns the names of other members that run: `from`, or all, the one that was heard of last first.
fn running_members(
    config: &Config,
    table: &dyn EngineTable,
    from: Option<&str>,
) -> Result<Vec<String>, MemberError> {
    let mut running = Vec::new();
    for member in table_answer(|| members(table))? {
        let is_asked = from.map_or(member.name != name(config), |from| from == member.name);
        let heard = table_answer(|| MemberReport::get(table, &member.name))?;
        let heard = heard.filter(|heard| is_asked && !member.has_left && heard.report.state != ENDED);
        running.extend(heard.map(|heard| (heard.heard, member.name)));
    }
    running.sort();
    match (running.is_empty(), from) {
        (false, _) => Ok(running.into_iter().rev().map(|(_, name)| name).collect()),
        (true, Some(from)) => Err(other(format!("no member {from} runs"))),
        (true, None) => Err(other("no other member runs; start one, or join with --snapshot FILE")),
    }
}

/// Begins a member with the news of a snapshot, if the log and the settings of the others fit them.
fn begin(
    config: &Config,
    connected: &ConnectedLog,
    spool: &Spool,
    position: &LogPosition,
) -> Result<(), MemberError> {
    connected.check(config, Some((position.cluster, position.created)))?;
    // As it is now: the snapshot may have taken long.
    let facts = patiently(|| connected.engine.facts()).map_err(MemberError::Engine)?;
    if facts.first > position.sequence + 1 {
        return Err(other(format!(
            "the snapshot is too old: the log no longer has what came after it; {ANOTHER}"
        )));
    }
    connected.check_settings(config, spool).map_err(|error| match error {
        MemberError::Table(error @ MembersError::Setting { .. }) => other(format!(
            "{error}. If the members have got another configuration since the snapshot: {ANOTHER}"
        )),
        error => error,
    })?;
    let message = |sequence| connected.engine.message(sequence);
    if !fetch_parts(spool, position, message).map_err(MemberError::Fold)? {
        return Err(other(format!(
            "the log no longer has parts of large articles that were on their way; {ANOTHER}"
        )));
    }
    Fold::begin(spool, position).map_err(MemberError::Fold)?;
    // Jobs of one whose disk is lost continue where the table says that it had come.
    let table: &dyn EngineTable = &*connected.engine;
    if let Some(number) = table_answer(|| number_of(table, name(config)))? {
        let keys = patiently(|| connected.engine.table_keys(LEASE_PREFIX).ok_or(()));
        disown(table, keys.unwrap_or_default(), number);
    }
    Ok(())
}

/// Makes the spool of the last member a site on one machine, with the same news.
pub fn end(config: &Config, spool: &Arc<Spool>) -> Result<(), MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let table: &dyn EngineTable = &*connected.engine;
    let is_other = |member: &NamedMember| !member.has_left && member.name != name(config);
    let others = table_answer(|| members(table))?.into_iter().filter(is_other);
    refuse_others(&others.map(|member| member.name).collect::<Vec<_>>())?;
    let Some(record) = spool.position() else { return Ok(()) };
    let position = LogPosition::decode(&record).ok_or(MemberError::Fold(cluster::FoldStop::NoPosition))?;
    connected.check(config, Some((position.cluster, position.created)))?;
    // What it had proposed when it stopped is in the log, and may not be here.
    let mut fold = Fold::open(spool.clone()).map_err(MemberError::Fold)?;
    let message = |sequence| {
        patiently(|| connected.engine.message(sequence).ok_or(())).map_err(|()| {
            other(format!("the log does not give its message {sequence}; it is tried again with the command"))
        })
    };
    let kept = connected.facts.first..=connected.facts.last;
    if let Some(mark) = fold.mark().filter(|mark| kept.contains(&mark.sequence))
        && !fold.is_marked(mark, &message(mark.sequence)?)
    {
        return Err(other(format!("this member {}", MemberState::Rewritten(mark.sequence))));
    }
    while fold.reached() < connected.facts.last {
        fold.apply(&message(fold.reached() + 1)?).map_err(MemberError::Fold)?;
    }
    refuse_others(&table_answer(|| remove_last_member(table, name(config)))?)?;
    Fold::end(spool).map_err(MemberError::Fold)
}

fn refuse_others(others: &[String]) -> Result<(), MemberError> {
    match others {
        [] => Ok(()),
        others => Err(other(format!(
            "there are other members: {}; the cluster ends with its last one, so let them leave first (newsreel \
             cluster remove NAME for those that are lost or were only invited), or leave without --last",
            others.join(", ")
        ))),
    }
}

/// Ends the membership of this server. Returns how many members there still are.
pub fn leave(config: &Config) -> Result<usize, MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let table: &dyn EngineTable = &*connected.engine;
    let name = name(config);
    refuse_running(table, name)?;
    let mut others = table_answer(|| members(table))?;
    others.retain(|member| member.name != name && !member.has_left);
    let mut has_news = false;
    for member in &others {
        has_news |= table_answer(|| MemberReport::get(table, &member.name))?.is_some();
    }
    if !has_news {
        let invited: Vec<String> = others.into_iter().map(|member| member.name).collect();
        return Err(other(match invited.as_slice() {
            [] => "this is the last member: newsreel cluster leave --last ends the cluster".to_owned(),
            invited => format!(
                "no other member has the news, as these were only invited: {}; let one of them join, or end the \
                 cluster with newsreel cluster remove for each, and newsreel cluster leave --last",
                invited.join(", ")
            ),
        }));
    }
    end_membership(table, name)
}

/// Ends the membership of another server that does not run, and will not: its machine is lost, or it was
/// only invited. Returns how many members there still are.
pub fn remove(config: &Config, name: &str) -> Result<usize, MemberError> {
    if name == self::name(config) {
        return Err(other(format!("{name} is this server: newsreel cluster leave ends its membership")));
    }
    let connected = ConnectedLog::of(&config.cluster)?;
    refuse_running(&*connected.engine, name)?;
    end_membership(&*connected.engine, name)
}

/// Refuses to end the membership of a server that runs: it would go on accepting articles.
fn refuse_running(table: &dyn EngineTable, name: &str) -> Result<(), MemberError> {
    let heard = table_answer(|| MemberReport::get(table, name))?;
    let now = table_answer(|| Ok(table.now()?))?;
    match heard.is_some_and(|heard| heard.may_run(now)) {
        true => Err(other(format!("{name} runs, {RUNS}; stop it first"))),
        false => Ok(()),
    }
}

fn end_membership(table: &dyn EngineTable, name: &str) -> Result<usize, MemberError> {
    match table_answer(|| remove_member(table, name))? {
        (true, others) => Ok(others),
        (false, _) => Err(other(format!("{name} is no member of the cluster"))),
    }
}

/// Returns the state of the cluster.
pub fn status(config: &Config) -> Result<ClusterStatus, MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let table: &dyn EngineTable = &*connected.engine;
    let known = table_answer(|| members(table))?;
    let formats = table_answer(|| ClusterFormats::read(table))?;
    let now = table_answer(|| Ok(table.now()?))?;
    let row = |member: NamedMember| -> Result<_, MemberError> {
        let heard = match table_answer(|| MemberReport::get(table, &member.name)) {
            // A damaged report of one member must not hide the others.
            Err(MemberError::Table(MembersError::Damaged(_))) => {
                let state = "its report cannot be read".to_owned();
                Some(HeardReport { report: MemberReport { state, ..MemberReport::default() }, heard: now })
            }
            heard => heard?,
        };
        let report = heard.map(|heard| {
            let (may_run, serves) = (heard.may_run(now), heard.serves(now));
            let silent_secs = heard.silent_secs(now);
            let MemberReport { time, version, position, digest, state } = heard.report;
            ClusterMemberReport { time, silent_secs, version, position, digest, state, may_run, serves }
        });
        let of_it = formats.of_members.iter().find(|(name, _)| *name == member.name);
        let format = of_it.map_or(formats.in_force, |(_, format)| *format);
        Ok(ClusterMemberStatus { name: member.name, number: member.number, format, report })
    };
    let members = known.into_iter().filter(|member| !member.has_left).map(row);
    let EngineFacts { cluster, first, last, replicas, leader, followers, .. } = connected.facts;
    let followers =
        followers.into_iter().map(|(name, current)| LogFollowerStatus { name, current }).collect();
    Ok(ClusterStatus {
        cluster: cluster.map_or_else(|| "-".into(), |cluster| cluster.to_string()),
        format: formats.in_force,
        log: ClusterLogStatus { first, last, replicas, leader, followers },
        members: members.collect::<Result<_, _>>()?,
    })
}

/// Lets all members write the newest format that each of them can read; returns it, and whether that is a
/// change.
pub fn upgrade(config: &Config) -> Result<(u8, bool), MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    table_answer(|| raise_format(&*connected.engine))
}

/// Returns the configuration of a node of the log. Keys that do not exist are made.
pub fn node_conf(plan: &NodePlan) -> Result<String, MemberError> {
    let disk = RealDisk::new();
    let cannot = |file: &Path| {
        let file = file.to_owned();
        move |error: std::io::Error| other(format!("cannot use {}: {error}", file.display()))
    };
    disk.create_dir(&plan.keys).map_err(cannot(&plan.keys))?;
    let key = |name: &str| {
        let file = plan.key(name);
        user_key(&disk, &file).map_err(cannot(&file))
    };
    let members: Result<Vec<EngineUser>, MemberError> = plan
        .members
        .iter()
        .map(|name| Ok(EngineUser { name: name.clone(), public_key: key(name)? }))
        .collect();
    // As random as a key, and never shown to members.
    let routes = key("routes")?;
    let tls = plan.tls.clone().map(|[certificate, private_key, ca]| NodeTls { certificate, private_key, ca });
    let conf = NodeConf {
        site: plan.site.clone(),
        name: plan.name.clone(),
        listen: plan.listen.clone(),
        monitor: plan.monitor.clone(),
        route: plan.route.clone(),
        routes: plan.routes.clone(),
        store: plan.store.clone(),
        log_bytes: plan.log_bytes,
        route_password: routes,
        operator: key(super::OPERATOR)?,
        system: key(super::SYSTEM)?,
        allows_changes: plan.allows_changes,
        members: members?,
        tls,
    };
    Ok(conf.text())
}

/// Refuses a version of the engine's program that is too old.
pub fn check_engine_version(version: &str) -> Result<(), MemberError> {
    match is_recent(version) {
        true => Ok(()),
        false => Err(MemberError::Unsafe(vec![EngineFault::Version(version.to_owned())])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_that_differ_from_the_snapshot_are_refused_unless_some_were_left_out() {
        let report = |is_same, displaced| RestoreReport { is_same, displaced, ..RestoreReport::default() };
        assert!(refuse_another_site(&report(Some(false), 0)).is_err());
        for fitting in [report(Some(true), 0), report(None, 0), report(Some(false), 3)] {
            refuse_another_site(&fitting).unwrap();
        }
    }
}
