//! Reaching the nodes of a cluster's log, and refusing those that could lose what they acknowledge.

use super::MemberError;
use cluster::engine_check::{EngineDemands, NodeFacts, faults};
use cluster::members::{MembersError, share_settings};
use cluster::nats::{EngineFacts, NatsConnection, NatsEngine, NatsError, node_facts};
use cluster::{ClusterId, EngineTable, TableError};
use operators::cluster_texts::ClusterTexts;
use site_config::{Class, Cluster, Config, EngineSync};
use spool::Spool;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which nodes that do not answer yet are asked again: they may be starting, or elect a leader.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Time for which nodes that know of no log are asked again.
const NO_LOG_WAIT_MAX: Duration = Duration::from_secs(5);
/// Pause before they are asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// The nodes of a log, connected.
pub(super) struct ConnectedLog {
    pub engine: Arc<NatsEngine>,
    pub facts: EngineFacts,
    monitored: Vec<NodeFacts>,
}

/// Asks again until there is an answer, or for a minute.
pub(super) fn patiently<T, E>(ask: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    patiently_while(|_| true, ask)
}

/// Like [`patiently`], as long as the error is one that passes.
pub(super) fn patiently_while<T, E>(
    passes: impl Fn(&E) -> bool,
    mut ask: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(error) if passes(&error) && begun.elapsed() < ANSWER_WAIT_MAX => {
                std::thread::sleep(ASK_AGAIN_AFTER);
            }
            done => return done,
        }
    }
}

/// Asks the table of the cluster, again while its nodes do not answer.
pub(super) fn table_answer<T>(ask: impl FnMut() -> Result<T, MembersError>) -> Result<T, MemberError> {
    let is_silent = |error: &MembersError| matches!(error, MembersError::Table(TableError::NoAnswer(_)));
    patiently_while(is_silent, ask).map_err(MemberError::Table)
}

/// Connects to the nodes.
pub(super) fn connect(cluster: &Cluster) -> Result<Arc<NatsEngine>, MemberError> {
    let connection = NatsConnection {
        site: cluster.site.clone(),
        member: cluster.member.clone().unwrap_or_default(),
        servers: cluster.servers.clone(),
        credentials: cluster.credentials.clone(),
        ca: cluster.ca.clone(),
        certificate: cluster.certificate.clone().zip(cluster.private_key.clone()),
    };
    let may_pass = |error: &NatsError| !matches!(error, NatsError::Credentials(..));
    let engine = patiently_while(may_pass, || NatsEngine::connect(connection.clone()));
    let engine = engine.map_err(MemberError::Engine)?;
    Ok(Arc::new(engine))
}

impl ConnectedLog {
    /// Connects to the nodes and asks them about themselves and the log.
    pub fn of(cluster: &Cluster) -> Result<Self, MemberError> {
        Self::on(connect(cluster)?, cluster)
    }

    /// Asks connected nodes about themselves and the log.
    pub fn on(engine: Arc<NatsEngine>, cluster: &Cluster) -> Result<Self, MemberError> {
        // Nodes that have just begun may not know it yet.
        let begun = Instant::now();
        let may_pass =
            |error: &NatsError| !matches!(error, NatsError::NoLog(_)) || begun.elapsed() < NO_LOG_WAIT_MAX;
        let facts = patiently_while(may_pass, || engine.facts()).map_err(MemberError::Engine)?;
        let monitored = match cluster.sync {
            EngineSync::Always => cluster.monitor.iter().map(|address| node_facts(address)).collect(),
            EngineSync::Lazy => Vec::new(),
        };
        Ok(Self { engine, facts, monitored })
    }

    /// Refuses nodes and a log that are not safe, or not those of the spool's cluster.
    pub fn check(&self, config: &Config, known: Option<(ClusterId, u64)>) -> Result<(), MemberError> {
        let allows_lazy = config.cluster.sync == EngineSync::Lazy;
        let faults = faults(&self.facts, &self.monitored, &EngineDemands { known, allows_lazy });
        if !faults.is_empty() {
            return Err(MemberError::Unsafe(faults));
        }
        for node in self.monitored.iter().filter(|node| !node.is_reached) {
            tracing::warn!(
                node = node.address,
                "a node of the log does not answer: whether it syncs is not known"
            );
        }
        if allows_lazy {
            tracing::warn!(
                "[cluster] sync is \"lazy\": a power cut of the log's nodes may lose articles that were accepted"
            );
        }
        Ok(())
    }

    /// Refuses members whose answers would differ. Once members share a configuration they switch to that,
    /// and what the first member had does not count any more.
    pub fn check_settings(&self, config: &Config, spool: &Spool) -> Result<(), MemberError> {
        if ClusterTexts::are_noted(config, spool) {
            return Ok(());
        }
        let table: &dyn EngineTable = &*self.engine;
        let own = shared_settings(config);
        table_answer(|| share_settings(table, &own))
    }
}

/// Settings from which answers follow, so that all members must have the same.
fn shared_settings(config: &Config) -> Vec<(&'static str, String)> {
    let site = &config.site;
    let class = |class: &Class| match class.ring {
        Some(ring) => format!("{} {} ring {ring}", class.name, class.method.name()),
        None => format!("{} {}", class.name, class.method.name()),
    };
    let one_line = |text: Option<String>| text.unwrap_or_default().trim_end().replace('\n', "; ");
    vec![
        ("site.path_identity", site.path_identity.clone()),
        ("site.remember_days", site.remember_days.to_string()),
        ("site.overview_headers", site.overview_headers.join(",")),
        ("site.article_bytes_max", site.article_bytes_max.to_string()),
        ("classes", config.classes.iter().map(class).collect::<Vec<_>>().join(", ")),
        ("rules", one_line(config.part_of("[rule]"))),
    ]
}
