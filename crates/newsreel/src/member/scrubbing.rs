//! Comparing the replicas of the log on all of its nodes.

use super::connecting::{ConnectedLog, patiently};
use super::{MemberError, NodeScrub, ScrubReport};
use cluster::nats::{EngineFacts, NatsEngine, ReplicaReader, monitor_answer};
use cluster::scrub::{ReplicaFaults, compare};
use disk::Progress;
use serde_json::Value;
use site_config::Config;
use std::time::{Duration, Instant};

/// Messages that are compared at a time.
const WINDOW: u64 = 512;

/// State of the log on one node, as the node says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReplicaState {
    node: String,
    messages: u64,
    bytes: u64,
    first: u64,
    last: u64,
}

/// Reads the answers of a monitoring port to `/varz` and `/jsz`.
fn replica_state(varz: &str, jsz: &str, log: &str) -> Option<ReplicaState> {
    let body = |answer: &str| serde_json::from_str::<Value>(answer.split_once("\r\n\r\n")?.1).ok();
    let node = body(varz)?.get("server_name")?.as_str()?.to_owned();
    let jsz = body(jsz)?;
    let accounts = jsz.get("account_details")?.as_array()?.iter();
    let mut streams = accounts.filter_map(|account| account.get("stream_detail")?.as_array()).flatten();
    let state =
        streams.find(|stream| stream.get("name").and_then(Value::as_str) == Some(log))?.get("state")?;
    let number = |name: &str| state.get(name)?.as_u64();
    Some(ReplicaState {
        node,
        messages: number("messages")?,
        bytes: number("bytes")?,
        first: number("first_seq")?,
        last: number("last_seq")?,
    })
}

/// Returns the state of the log on the node with this monitoring port.
fn ask_state(address: &str, log: &str) -> Option<ReplicaState> {
    let varz = monitor_answer(address, "/varz").ok()?;
    let jsz = monitor_answer(address, "/jsz?accounts=true&streams=true").ok()?;
    replica_state(&varz, &jsz, log)
}

/// Compares all messages of the log as all of its nodes have them, and reads at most so many bytes a second
/// from each.
pub fn scrub(
    config: &Config,
    bytes_a_second: u64,
    progress: &dyn Progress,
) -> Result<ScrubReport, MemberError> {
    let connected = ConnectedLog::of(&config.cluster)?;
    let engine = &*connected.engine;
    let facts = &patiently(|| whole(engine))?;
    let nodes: Vec<&str> =
        facts.leader.iter().chain(facts.followers.iter().map(|(name, _)| name)).map(String::as_str).collect();
    let states: Vec<ReplicaState> =
        config.cluster.monitor.iter().filter_map(|address| ask_state(address, engine.log_name())).collect();
    let mut faults = vec![ReplicaFaults::default(); nodes.len()];
    let read =
        compare_all(engine, &nodes, facts.first..facts.last + 1, bytes_a_second, &mut faults, progress)?;
    // What has left the log meanwhile is missing everywhere sooner or later.
    let first = engine.facts().map_err(MemberError::Engine)?.first;
    let nodes = nodes.into_iter().zip(faults).map(|(name, mut faults)| {
        faults.missing.retain(|sequence| *sequence >= first);
        faults.different.retain(|sequence| *sequence >= first);
        let state = states.iter().find(|state| state.node == name);
        NodeScrub {
            name: name.to_owned(),
            messages: state.map(|state| state.messages),
            bytes: state.map(|state| state.bytes),
            has_holes: state
                .is_some_and(|state| state.last.saturating_sub(state.first) + 1 != state.messages),
            missing: faults.missing,
            different: faults.different,
        }
    });
    Ok(ScrubReport { messages: facts.last + 1 - facts.first, bytes: read, nodes: nodes.collect() })
}

/// Returns what the engine says about the log; an error while a node is away or behind.
fn whole(engine: &NatsEngine) -> Result<EngineFacts, MemberError> {
    let facts = engine.facts().map_err(MemberError::Engine)?;
    match facts.followers.iter().find(|(_, is_current)| !is_current) {
        None => Ok(facts),
        Some((name, _)) => Err(MemberError::Other(format!(
            "the node {name} is away or behind; start it, and repeat the command"
        ))),
    }
}

/// Reads a range of messages from all nodes; returns how many bytes were read from each.
fn compare_all(
    engine: &NatsEngine,
    nodes: &[&str],
    range: std::ops::Range<u64>,
    bytes_a_second: u64,
    faults: &mut [ReplicaFaults],
    progress: &dyn Progress,
) -> Result<u64, MemberError> {
    let open = |node: &&str| engine.open_replica(node, range.start).map_err(MemberError::Engine);
    let mut readers: Vec<ReplicaReader> = nodes.iter().map(open).collect::<Result<_, _>>()?;
    let (begun, mut read) = (Instant::now(), 0);
    progress.start("comparing the replicas of the log", range.end.saturating_sub(range.start));
    let mut at = range.start;
    while at < range.end {
        let until = (at + WINDOW).min(range.end);
        let mut replicas = Vec::with_capacity(readers.len());
        for reader in &mut readers {
            replicas.push(engine.read_replica(reader, until).map_err(MemberError::Engine)?);
        }
        let bytes = replicas.iter().map(|messages| messages.iter().map(|message| message.bytes).sum::<u64>());
        read += bytes.max().unwrap_or_default();
        compare(at..until, &replicas, faults);
        at = until;
        progress.step(at - range.start);
        let due = Duration::from_millis(read.saturating_mul(1_000) / bytes_a_second.max(1));
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    progress.finish();
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_replica_is_found_in_what_a_node_says() {
        let varz = "HTTP/1.0 200 OK\r\n\r\n{\"server_name\": \"e2\"}";
        let jsz = "HTTP/1.0 200 OK\r\n\r\n{\"account_details\": [{\"name\": \"SYS\"}, {\"stream_detail\": [\
                   {\"name\": \"KV_NR_a_STATE\", \"state\": {}}, {\"name\": \"NR_a_LOG\", \"state\": \
                   {\"messages\": 5, \"bytes\": 90, \"first_seq\": 3, \"last_seq\": 7}}]}]}";
        let expected = ReplicaState { node: "e2".into(), messages: 5, bytes: 90, first: 3, last: 7 };
        assert_eq!(replica_state(varz, jsz, "NR_a_LOG"), Some(expected));
        assert_eq!(replica_state(varz, jsz, "NR_b_LOG"), None);
        assert_eq!(replica_state("", "<html>", "NR_a_LOG"), None);
    }
}
