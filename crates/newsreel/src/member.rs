//! A server as a member of a cluster, where the configuration has `[cluster]`.
//!
//! `clock` compares clocks; `connecting` reaches the nodes of the log and refuses those that could lose what
//! they acknowledge; `following` drives the member while the server runs; `offering` writes snapshots for
//! those that join, `scrubbing` compares the nodes, `watching` looks at the whole cluster, and `joining`
//! makes and removes members. All of them are built with the feature `cluster` only: without it, a server
//! with `[cluster]` does not start. Called by `cli`.

#[cfg(feature = "cluster")]
mod clock;
#[cfg(feature = "cluster")]
mod connecting;
#[cfg(feature = "cluster")]
mod following;
#[cfg(feature = "cluster")]
pub mod joining;
#[cfg(feature = "cluster")]
mod offering;
#[cfg(feature = "cluster")]
pub mod scrubbing;
#[cfg(feature = "cluster")]
mod watching;
#[cfg(not(feature = "cluster"))]
pub mod without_clusters;

use serde::Serialize;
use site_config::Config;
use spool::Spool;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(not(feature = "cluster"))]
pub use {without_clusters as joining, without_clusters as scrubbing};

/// Reason why a server is not a member of its cluster.
#[derive(Debug)]
pub enum MemberError {
    /// The program has no clusters.
    NotBuilt,
    /// The log's nodes do not answer, or not as they should.
    #[cfg(feature = "cluster")]
    Engine(cluster::nats::NatsError),
    /// The log's nodes could lose what they acknowledge, or are those of another cluster.
    #[cfg(feature = "cluster")]
    Unsafe(Vec<cluster::engine_check::EngineFault>),
    /// The table of the cluster cannot be used, or does not fit.
    #[cfg(feature = "cluster")]
    Table(cluster::members::MembersError),
    /// The log cannot be applied.
    #[cfg(feature = "cluster")]
    Fold(cluster::FoldStop),
    /// The spool cannot be used.
    Spool(spool::SpoolError),
    /// Something else, in words.
    Other(String),
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str(
                "this newsreel was built without clusters, so it cannot be a member of one: build it with the feature \
                 cluster, or remove [cluster] from the configuration",
            ),
            #[cfg(feature = "cluster")]
            Self::Engine(error) => error.fmt(f),
            #[cfg(feature = "cluster")]
            Self::Unsafe(faults) => {
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                write!(f, "the log of the cluster is not safe:\n  - {}", faults.join("\n  - "))
            }
            #[cfg(feature = "cluster")]
            Self::Table(error) => error.fmt(f),
            #[cfg(feature = "cluster")]
            Self::Fold(error) => error.fmt(f),
            Self::Spool(error) => error.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for MemberError {}

impl From<spool::SpoolError> for MemberError {
    fn from(error: spool::SpoolError) -> Self {
        Self::Spool(error)
    }
}

/// Name of the operator among the users of the log's nodes; no member has it.
pub const OPERATOR: &str = "operator";

/// Name of the user who looks at the log's nodes, and removes one; no member has it.
pub const SYSTEM: &str = "system";

/// Source of the news of a member that joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinSource {
    /// A snapshot in a file.
    File(PathBuf),
    /// A running member, of this name if there is one.
    Member(Option<String>),
}

/// What the configuration of a node of the log is made of.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// Name of the site.
    pub site: String,
    /// Name of the node.
    pub name: String,
    /// Address for members, `HOST:PORT`.
    pub listen: String,
    /// Address of the monitoring port.
    pub monitor: String,
    /// Address for other nodes.
    pub route: String,
    /// Addresses at which nodes reach each other.
    pub routes: Vec<String>,
    /// Directory of the log.
    pub store: PathBuf,
    /// Size of the log, in bytes.
    pub log_bytes: u64,
    /// Directory of the keys, which are made.
    pub keys: PathBuf,
    /// Names of the members.
    pub members: Vec<String>,
    /// Files with the certificate, its key, and the authorities of members' certificates.
    pub tls: Option<[PathBuf; 3]>,
    /// Whether the operator can change and remove the log.
    pub allows_changes: bool,
}

impl NodePlan {
    /// Returns the file with the key of a user.
    pub fn key(&self, name: &str) -> PathBuf {
        self.keys.join(format!("{name}.nk"))
    }
}

/// The log as one of its nodes has it.
#[derive(Debug, Serialize)]
pub struct NodeScrub {
    /// Name of the node.
    pub name: String,
    /// Number of messages, as the node says; `None` if it does not.
    pub messages: Option<u64>,
    /// Their length in bytes.
    pub bytes: Option<u64>,
    /// Whether it has fewer messages than there are between its first and its last.
    pub has_holes: bool,
    /// Messages that it lacks.
    pub missing: Vec<u64>,
    /// Messages that differ from those of the other nodes.
    pub different: Vec<u64>,
}

impl NodeScrub {
    /// Reports whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.missing.is_empty() && self.different.is_empty() && !self.has_holes
    }
}

/// Result of comparing the log's nodes.
#[derive(Debug, Serialize)]
pub struct ScrubReport {
    /// Number of messages that were compared.
    pub messages: u64,
    /// Bytes that were read from each node.
    pub bytes: u64,
    /// The nodes.
    pub nodes: Vec<NodeScrub>,
}

/// State of a cluster.
#[derive(Debug, Serialize)]
pub struct ClusterStatus {
    /// Id of the cluster.
    pub cluster: String,
    /// Format of the messages that members write.
    pub format: u8,
    /// The log.
    pub log: ClusterLogStatus,
    /// Members that have not left.
    pub members: Vec<ClusterMemberStatus>,
}

/// State of the log of a cluster.
#[derive(Debug, Serialize)]
pub struct ClusterLogStatus {
    /// First message that it still has.
    pub first: u64,
    /// Last message.
    pub last: u64,
    /// Number of nodes that have it.
    pub replicas: usize,
    /// Name of the node that leads it.
    pub leader: Option<String>,
    /// The other nodes.
    pub followers: Vec<LogFollowerStatus>,
}

/// A node that follows the one that leads the log.
#[derive(Debug, Serialize)]
pub struct LogFollowerStatus {
    /// Name of the node.
    pub name: String,
    /// Whether it has everything.
    pub current: bool,
}

/// A member, as the table of the cluster has it.
#[derive(Debug, Serialize)]
pub struct ClusterMemberStatus {
    /// Name of the member.
    pub name: String,
    /// Number of the member.
    pub number: u16,
    /// Newest format of messages that it can read.
    pub format: u8,
    /// What it has said about itself last.
    pub report: Option<ClusterMemberReport>,
}

/// What a member has said about itself.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterMemberReport {
    /// Time of the report, in Unix seconds by the clock of the member.
    pub time: u32,
    /// Time since the report came, in seconds by the clock of the log's nodes.
    pub silent_secs: u32,
    /// Version of newsreel.
    pub version: String,
    /// Last message of the log that is applied.
    pub position: u64,
    /// Digest of the news at that position; empty if it is not known.
    pub digest: String,
    /// State, in a few words.
    pub state: String,
    /// Whether it has reported lately, and has not stopped.
    pub may_run: bool,
    /// Whether it also follows the log, and takes connections.
    pub serves: bool,
}

/// Lets the spool follow the log of the cluster, if there is one: from then on the log alone changes it.
/// Returns once what the log has now is applied, or earlier if the server `is_stopping`.
pub fn follow(
    config: &Config,
    spool: &Arc<Spool>,
    is_stopping: &dyn Fn() -> bool,
) -> Result<(), MemberError> {
    if !config.cluster.is_used() {
        return Ok(());
    }
    #[cfg(feature = "cluster")]
    return following::follow(config, spool, is_stopping);
    #[cfg(not(feature = "cluster"))]
    {
        let _ = (spool, is_stopping);
        Err(MemberError::NotBuilt)
    }
}
