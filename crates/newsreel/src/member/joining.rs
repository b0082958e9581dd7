//! Making a cluster of a site, and members of it. The server is stopped meanwhile.

use super::connecting::{ConnectedLog, connect, patiently};
use super::{
    ClusterLogStatus, ClusterMemberReport, ClusterMemberStatus, ClusterStatus, LogFollowerStatus, MemberError,
};
use access::sealing::ClusterKey;
use cluster::engine_check::REPLICAS_MIN;
use cluster::members::{
    MemberReport, MembersError, NamedMember, add_member, members, number_of, remove_member,
};
use cluster::nats::EngineFacts;
use cluster::{ClusterId, EngineTable, Fold, LogPosition, fetch_parts};
use disk::{Progress, RealDisk};
use site_base::clock::unix_secs;
use site_config::Config;
use spool::{RestoreReport, RestoreTarget, Spool};
use std::path::Path;
use std::sync::Arc;

fn other(text: impl Into<String>) -> MemberError {
    MemberError::Other(text.into())
}

/// Returns the name of this member.
fn name(config: &Config) -> &str {
    config.cluster.member.as_deref().unwrap_or_default()
}

/// Makes the site of a spool the first member of a new cluster; returns the cluster's id.
pub fn create(config: &Config, spool: &Spool) -> Result<String, MemberError> {
    if spool.position().is_some() {
        return Err(other("the spool belongs to a cluster already; newsreel cluster status shows it"));
    }
    let engine = connect(&config.cluster)?;
    // A log that an interrupted call has made is taken, as long as it has no message.
    let cluster = match engine.facts() {
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
        Err(_) => ClusterId::random(&cluster::MachineWorld::default()),
    };
    let key = &config.cluster.key;
    let made = ClusterKey::create(&RealDisk::new(), key);
    made.map_err(|error| other(format!("cannot make the key of the cluster, {}: {error}", key.display())))?;
    let size = config.cluster.log_size;
    patiently(|| engine.create(cluster, REPLICAS_MIN, size)).map_err(MemberError::Engine)?;
    let connected = ConnectedLog::on(engine, &config.cluster)?;
    connected.check(config, None)?;
    connected.check_settings(config, spool)?;
    let table: &dyn EngineTable = &*connected.engine;
    let number = add_member(table, name(config)).map_err(MemberError::Table)?;
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
    let known = patiently(|| members(table)).map_err(MemberError::Table)?;
    if known.is_empty() {
        return Err(other("the cluster has no member yet; newsreel cluster create makes one of this site"));
    }
    if known.iter().any(|member| member.name == name && !member.has_left) {
        return Err(other(format!("{name} is a member already; choose another name")));
    }
    add_member(table, name).map(drop).map_err(MemberError::Table)
}

/// Makes a member of the snapshot of another one, in a directory that has no spool yet. Returns what was
/// restored. Nothing is changed if the log does not fit the snapshot.
pub fn join(config: &Config, file: &Path, progress: &dyn Progress) -> Result<RestoreReport, MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let table: &dyn EngineTable = &*connected.engine;
    let number = patiently(|| number_of(table, name(config))).map_err(MemberError::Table)?;
    if number.is_none() {
        return Err(other(format!(
            "{} is no member of the cluster: newsreel cluster invite {0} FILE, at a member, makes it one",
            name(config)
        )));
    }
    let disk = Arc::new(RealDisk::new());
    let restored =
        spool::restore(disk.clone(), config.spool_config(), file, RestoreTarget::Restored, progress)?;
    let position =
        restored.position.as_deref().and_then(LogPosition::decode).ok_or_else(|| {
            other("the snapshot is not that of a member; newsreel cluster invite writes one")
        })?;
    connected.check(config, Some((position.cluster, position.created)))?;
    if connected.facts.first > position.sequence + 1 {
        return Err(other(
            "the snapshot is too old: the log no longer has what came after it; write another one, and join with that \
             in an empty directory",
        ));
    }
    let (spool, _) = Spool::open(disk, config.spool_config(), progress)?;
    if spool.position().is_some() {
        return Err(other("the spool belongs to a cluster already"));
    }
    connected.check_settings(config, &spool)?;
    let message = |sequence| connected.engine.message(sequence);
    if !fetch_parts(&spool, &position, message).map_err(MemberError::Fold)? {
        return Err(other(
            "the log no longer has parts of large articles that were on their way; write another snapshot",
        ));
    }
    Fold::begin(&spool, &position).map_err(MemberError::Fold)?;
    spool.close()?;
    Ok(restored)
}

/// Ends the membership of this server. Returns how many members there still are.
pub fn leave(config: &Config) -> Result<usize, MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    match remove_member(&*connected.engine, name(config)).map_err(MemberError::Table)? {
        (true, others) => Ok(others),
        (false, _) => Err(other(format!("{} is no member of the cluster", name(config)))),
    }
}

/// Returns the state of the cluster.
pub fn status(config: &Config) -> Result<ClusterStatus, MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let table: &dyn EngineTable = &*connected.engine;
    let known = members(table).map_err(MemberError::Table)?;
    let row = |member: NamedMember| -> Result<_, MembersError> {
        let report = MemberReport::get(table, &member.name)?;
        let report = report.map(|MemberReport { time, version, position, digest, state }| {
            ClusterMemberReport { time, version, position, digest, state }
        });
        Ok(ClusterMemberStatus { name: member.name, number: member.number, report })
    };
    let members = known.into_iter().filter(|member| !member.has_left).map(row);
    let EngineFacts { cluster, first, last, replicas, leader, followers, .. } = connected.facts;
    let followers =
        followers.into_iter().map(|(name, current)| LogFollowerStatus { name, current }).collect();
    Ok(ClusterStatus {
        cluster: cluster.map_or_else(|| "-".into(), |cluster| cluster.to_string()),
        log: ClusterLogStatus { first, last, replicas, leader, followers },
        members: members.collect::<Result<_, _>>().map_err(MemberError::Table)?,
    })
}
