//! Checks of an engine before a member begins: one that could lose what was acknowledged is refused, with the
//! cure.

use crate::message::ClusterId;
use crate::nats::{EngineFacts, MAX_PAYLOAD_MIN, VERSION_MIN};
use std::fmt;

/// Replicas that the log must have.
pub const REPLICAS_MIN: usize = 3;

/// What the monitoring port of an engine's node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// Address of the monitoring port.
    pub address: String,
    /// Whether it answers.
    pub is_reached: bool,
    /// Whether everything is synced before it is acknowledged; `None`: the node does not say.
    pub syncs_always: Option<bool>,
}

impl NodeFacts {
    /// Reads the answer to `/jsz`; empty: there is none.
    pub fn of(address: &str, answer: &str) -> Self {
        let value = answer.split_once("\"sync_always\"").map(|(_, rest)| rest.trim_start_matches([':', ' ']));
        // The setting is left out of the answer where it is not set.
        let is_answer = answer.contains("\"config\"");
        let syncs_always = match value {
            Some(value) => Some(value.starts_with("true")),
            None => is_answer.then_some(false),
        };
        Self { address: address.to_owned(), is_reached: !answer.is_empty(), syncs_always }
    }
}

/// What a member asks of an engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineDemands {
    /// Cluster and creation of the log that the spool has applied; `None` for a new cluster.
    pub known: Option<(ClusterId, u64)>,
    /// Whether an engine may acknowledge what is not synced.
    pub allows_lazy: bool,
}

/// Reason to refuse an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineFault {
    /// The version is too old.
    Version(String),
    /// Messages as long as the log's are refused.
    MaxPayload(usize),
    /// Too few replicas.
    Replicas(usize),
    /// Settings of the log.
    Settings(Vec<&'static str>),
    /// The log is not that of a cluster.
    NoCluster,
    /// The log is that of another cluster.
    OtherCluster {
        /// Cluster of the log.
        found: ClusterId,
        /// Cluster of the spool.
        known: ClusterId,
    },
    /// The log was created again.
    OtherLog,
    /// A node acknowledges what a power cut may take.
    Lazy(String),
    /// A node does not say whether it syncs.
    Silent(String),
    /// The monitoring port of a node is not named.
    NoMonitor,
}

impl fmt::Display for EngineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                let [major, minor, patch] = VERSION_MIN;
                write!(
                    f,
                    "the engine has version {version}; install nats-server {major}.{minor}.{patch} or later"
                )
            }
            Self::MaxPayload(bytes) => write!(
                f,
                "the engine takes messages of {bytes} bytes at most; set max_payload: 1MB in its configuration"
            ),
            Self::Replicas(replicas) => write!(
                f,
                "the log has {replicas} replicas, so one disk can lose it; run {REPLICAS_MIN} nodes, then \
                 `nats stream edit --replicas {REPLICAS_MIN}`"
            ),
            Self::Settings(settings) => {
                write!(f, "settings of the log are not as they must be; set {}", settings.join(", "))
            }
            Self::NoCluster => f.write_str(
                "the stream of the log names no cluster: it was not made by `newsreel cluster create`; use \
                 another name in [cluster] site",
            ),
            Self::OtherCluster { found, known } => write!(
                f,
                "the log is that of cluster {found}, and the spool belongs to {known}; set [cluster] site and \
                 servers to its own, or `newsreel cluster join` with an empty spool"
            ),
            Self::OtherLog => f.write_str(
                "the log was created again since the spool has applied it: messages are missing; \
                 `newsreel cluster create --from` the member with the most, and let the others join again",
            ),
            Self::Lazy(node) => write!(
                f,
                "the node at {node} acknowledges before it syncs, so a power cut loses what was acknowledged; \
                 set jetstream {{ sync_interval: always }} in its configuration and restart it"
            ),
            Self::Silent(node) => write!(
                f,
                "the node at {node} does not say whether it syncs; set http: in its configuration and that \
                 address in [cluster] monitor"
            ),
            Self::NoMonitor => f.write_str(
                "whether the engine syncs is not known; name the monitoring ports of all its nodes in [cluster] \
                 monitor",
            ),
        }
    }
}

impl std::error::Error for EngineFault {}

/// Returns why an engine is refused; empty: it is safe.
pub fn faults(facts: &EngineFacts, nodes: &[NodeFacts], demands: &EngineDemands) -> Vec<EngineFault> {
    let mut faults = Vec::new();
    if !is_recent(&facts.version) {
        faults.push(EngineFault::Version(facts.version.clone()));
    }
    if facts.max_payload < MAX_PAYLOAD_MIN {
        faults.push(EngineFault::MaxPayload(facts.max_payload));
    }
    if facts.replicas < REPLICAS_MIN {
        faults.push(EngineFault::Replicas(facts.replicas));
    }
    if !facts.wrong_settings.is_empty() {
        faults.push(EngineFault::Settings(facts.wrong_settings.clone()));
    }
    match (facts.cluster, demands.known) {
        (None, _) => faults.push(EngineFault::NoCluster),
        (Some(found), Some((known, _))) if found != known => {
            faults.push(EngineFault::OtherCluster { found, known });
        }
        (_, Some((_, created))) if facts.created != created => faults.push(EngineFault::OtherLog),
        _ => {}
    }
    if !demands.allows_lazy {
        if nodes.len() < facts.replicas {
            faults.push(EngineFault::NoMonitor);
        }
        // A node may be away while a member starts, as long as most of them answer; not when a log begins.
        let reached = nodes.iter().filter(|node| node.is_reached).count();
        let may_be_away = demands.known.is_some() && 2 * reached > nodes.len();
        faults.extend(nodes.iter().filter_map(|node| match node.syncs_always {
            Some(true) => None,
            None if !node.is_reached && may_be_away => None,
            Some(false) => Some(EngineFault::Lazy(node.address.clone())),
            None => Some(EngineFault::Silent(node.address.clone())),
        }));
    }
    faults
}

/// Reports whether a version is one that is not refused.
pub fn is_recent(version: &str) -> bool {
    let numbers: Vec<u32> =
        version.split(['.', '-']).take(3).map_while(|number| number.parse().ok()).collect();
    numbers.as_slice() >= VERSION_MIN.as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> EngineFacts {
        EngineFacts {
            version: "2.15.2".into(),
            max_payload: 1 << 20,
            cluster: Some(ClusterId([1; 8])),
            created: 5,
            first: 1,
            last: 0,
            bytes: 0,
            bytes_max: 1 << 30,
            replicas: 3,
            leader: None,
            followers: Vec::new(),
            wrong_settings: Vec::new(),
        }
    }

    fn nodes() -> Vec<NodeFacts> {
        let answer = "{\"config\": {\"sync_interval\": 120000000000, \"sync_always\": true}}";
        vec![NodeFacts::of("127.0.0.1:8222", answer); 3]
    }

    #[test]
    fn a_sound_engine_is_taken_and_each_fault_is_refused_with_its_cure() {
        let known = Some((ClusterId([1; 8]), 5));
        let demands = EngineDemands { known, allows_lazy: false };
        assert_eq!(faults(&sound(), &nodes(), &demands), []);
        let refused = |facts: EngineFacts, nodes: &[NodeFacts], cure: &str| {
            let found = faults(&facts, nodes, &demands);
            let [fault] = found.as_slice() else { panic!("{found:?}") };
            assert!(fault.to_string().contains(cure), "{fault}");
        };
        for version in ["2.9.10", "2.15.1", "2.14.99", "1.99.99", ""] {
            let facts = EngineFacts { version: version.into(), ..sound() };
            refused(facts, &nodes(), "install nats-server 2.15.2");
        }
        refused(EngineFacts { max_payload: 64 << 10, ..sound() }, &nodes(), "max_payload: 1MB");
        refused(EngineFacts { replicas: 1, ..sound() }, &nodes(), "run 3 nodes");
        refused(EngineFacts { wrong_settings: vec!["deny_purge: true"], ..sound() }, &nodes(), "deny_purge");
        refused(EngineFacts { cluster: None, ..sound() }, &nodes(), "use another name");
        let other = EngineFacts { cluster: Some(ClusterId([2; 8])), ..sound() };
        refused(other, &nodes(), "0202020202020202");
        refused(EngineFacts { created: 6, ..sound() }, &nodes(), "created again");
        let lazy = NodeFacts::of("127.0.0.1:8222", "{\"config\": {\"sync_interval\": 120000000000}}");
        let with = |node: NodeFacts| [vec![node], nodes().split_off(1)].concat();
        refused(sound(), &with(lazy.clone()), "sync_interval: always");
        refused(sound(), &with(NodeFacts::of("a", "<html>")), "set http:");
        refused(sound(), &nodes()[1..], "monitor");
        // One node of three may be away, unless the cluster is new.
        let away = || NodeFacts::of("127.0.0.1:8222", "");
        assert_eq!(faults(&sound(), &with(away()), &demands), []);
        let two = [away(), away(), nodes().remove(0)];
        assert_eq!(faults(&sound(), &two, &demands).len(), 2);
        let new = EngineDemands { known: None, allows_lazy: false };
        assert_eq!(faults(&sound(), &with(away()), &new), [EngineFault::Silent("127.0.0.1:8222".into())]);
        assert_eq!(faults(&sound(), &[lazy], &EngineDemands { known, allows_lazy: true }), []);
        assert!(is_recent("2.16.0-beta.1") && is_recent("3.0.0"));
    }
}
