//! `[cluster]`: several servers of one site that apply one log.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;

section! {
    /// Several servers with the same articles under the same numbers, of which any may be lost
    /// (docs/cluster.md). They apply one log, which NATS JetStream keeps on at least three machines. Without
    /// servers here there is no cluster. newsreel must be built with the feature cluster.
    [cluster] Cluster, ClusterDraft {
        /// Addresses of the log's nodes: HOST:PORT, nats://HOST:PORT or tls://HOST:PORT.
        servers: Vec<String> = ListOf(Text), default [], example ["tls://e1:4222", "tls://e2:4222"],
            effect Restart, of machine;
        /// The name of the site, of which those of the log's streams are made: letters, digits and "-".
        site: String = Text, default "news", example "example", effect Restart;
        /// The name of this server, which no other member has: letters, digits and "-".
        member: Option<String> = Maybe(Text), example "fe1", effect Restart, of machine;
        /// Monitoring ports of the log's nodes, which say whether a node syncs before it acknowledges.
        monitor: Vec<String> = ListOf(HostPort), default [], example ["e1:8222", "e2:8222", "e3:8222"],
            effect Restart, of machine;
        /// Whether the log's nodes must sync before they acknowledge. "lazy": a power cut may lose articles
        /// that were accepted, and members may then differ.
        sync: EngineSync = word(), default "always", example "lazy", effect Restart;
        /// A file with the credentials of this server for the log: a key, as newsreel cluster engine-conf
        /// makes it, or what nsc makes.
        credentials: Option<PathBuf> = Maybe(FilePath), example "fe1.creds", effect Restart, of machine;
        /// A file with certificates of the authorities that those of the log's nodes are from.
        ca: Option<PathBuf> = Maybe(FilePath), example "ca.pem", effect Restart, of machine;
        /// A file with the certificate that is shown to the log's nodes.
        certificate: Option<PathBuf> = Maybe(FilePath), example "fe1.pem", effect Restart, of machine;
        /// A file with the key of that certificate.
        private_key: Option<PathBuf> = Maybe(FilePath), example "fe1.key", effect Restart, of machine;
        /// A file with the key of the cluster, which all members have and the log's nodes must not: users,
        /// keys and secrets are sealed with it before they go through the log. newsreel cluster create makes
        /// it.
        key: PathBuf = FilePath, default "cluster.key", example "/etc/newsreel/cluster.key", effect Restart,
            of machine;
        /// What readers see of articles that other members have just accepted. "fresh": marks, lists of
        /// groups, and that there is no such article, are answered with everything that the log has by then,
        /// so that clients may change between members. "local": with what has arrived here. "strict": as
        /// "fresh", through an entry of the log, which also holds while its nodes elect a leader.
        reads: ClusterReads = word(), default "fresh", example "local", effect Restart, of machine;
        /// A member that has not applied what the log had this long ago says so on /ready, and takes no
        /// articles.
        lag_max: Duration = Span, default "10 s", example "30 s", effect Restart, of machine;
        /// Room that newsreel cluster create gives to the log on each node. A member that was away for longer
        /// than the log reaches back has to join again.
        log_size: u64 = Size { min: 64 << 20, max: 1 << 50 }, default "64 GiB", example "200 GiB",
            effect Restart;
    }
}

impl Cluster {
    /// Reports whether this server is a member of a cluster.
    pub fn is_used(&self) -> bool {
        !self.servers.is_empty()
    }
}

words! {
    /// Answers that readers of a member get.
    pub enum ClusterReads {
        /// With everything that the log has.
        Fresh = "fresh",
        /// With what this member has applied.
        Local = "local",
        /// With everything that the log has, by an entry of it.
        Strict = "strict",
    }
}

words! {
    /// Durability of what the nodes of a cluster's log acknowledge.
    pub enum EngineSync {
        /// It is synced.
        Always = "always",
        /// A power cut may take it.
        Lazy = "lazy",
    }
}
