//! Reading the log from one certain node, so that the replicas of all nodes can be compared.
//!
//! The engine runs a consumer without replicas on one of the nodes, which reads its own files, and says which
//! node that is. It cannot be asked for a certain one, so consumers are created until one is there.

use super::{NatsEngine, NatsError, refused};
use crate::scrub::ReplicaMessage;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use disk::crc::crc32c;
use futures_util::StreamExt as _;
use std::fmt;
use std::time::Duration;

/// Consumers that are created before a node is given up: with five nodes, one of ten thousand searches fails.
const TRIES_MAX: usize = 42;
/// Time after which the engine removes a consumer that is not used.
const UNUSED_MAX: Duration = Duration::from_secs(60);
/// Messages that are asked for at a time. They are not limited in bytes: the engine ends a fetch with an
/// error at the first message that does not fit. A message has at most 1 MiB.
const FETCH_MESSAGES: usize = 32;

/// A reader of the replica of one node.
pub struct ReplicaReader {
    node: String,
    consumer: Consumer<pull::Config>,
    /// Sequence of the next message.
    next: u64,
}

impl fmt::Debug for ReplicaReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaReader")
            .field("node", &self.node)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl ReplicaReader {
    /// Returns the name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl NatsEngine {
    /// Opens the replica of a node, from a message on.
    pub fn open_replica(&self, node: &str, from: u64) -> Result<ReplicaReader, NatsError> {
        let opened = self.wait(async {
            let refused = refused("read a replica of the log");
            let stream = self.jetstream.get_stream_no_info(&self.names.log).await.map_err(|e| refused(&e))?;
            for _ in 0..TRIES_MAX {
                let config = pull::Config {
                    deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
                    ack_policy: AckPolicy::None,
                    num_replicas: 1,
                    memory_storage: true,
                    inactive_threshold: UNUSED_MAX,
                    ..pull::Config::default()
                };
                let consumer = stream.create_consumer(config).await.map_err(|e| refused(&e))?;
                let info = consumer.cached_info();
                let leader = info.cluster.as_ref().and_then(|cluster| cluster.leader.clone());
                if leader.as_deref() == Some(node) {
                    return Ok(ReplicaReader { node: node.to_owned(), consumer, next: from });
                }
                let name = info.name.clone();
                // One that stays is removed by the engine after a while.
                let _ = stream.delete_consumer(&name).await;
            }
            Err(refused(&format!("the node {node} takes no reader")))
        });
        opened.unwrap_or_else(|| Err(NatsError::Connect("the connection has ended".into())))
    }

    /// Reads a replica up to a message, without it; what is missing there is left out.
    pub fn read_replica(
        &self,
        reader: &mut ReplicaReader,
        until: u64,
    ) -> Result<Vec<ReplicaMessage>, NatsError> {
        let mut all: Vec<ReplicaMessage> = Vec::new();
        while reader.next < until {
            let wanted = usize::try_from(until - reader.next).unwrap_or(FETCH_MESSAGES).min(FETCH_MESSAGES);
            let fetched = self.wait(fetch(&reader.consumer, wanted));
            let fetched =
                fetched.unwrap_or_else(|| Err(NatsError::Connect("the connection has ended".into())))?;
            let Some(last) = fetched.last() else {
                // The node has no more, or cannot go on at a damaged place.
                *reader = self.open_replica(&reader.node.clone(), until)?;
                break;
            };
            reader.next = last.sequence + 1;
            all.extend(fetched);
        }
        all.retain(|message| message.sequence < until);
        Ok(all)
    }
}

/// Fetches the next messages of a consumer, as many as there are.
async fn fetch(consumer: &Consumer<pull::Config>, wanted: usize) -> Result<Vec<ReplicaMessage>, NatsError> {
    let refused = refused("read a replica of the log");
    let fetching = consumer.fetch().max_messages(wanted).messages().await;
    let mut messages = fetching.map_err(|e| refused(&e))?;
    let mut all = Vec::new();
    while let Some(message) = messages.next().await {
        let message = message.map_err(|e| refused(&e))?;
        let sequence = message.info().map_err(|e| refused(&e))?.stream_sequence;
        let (bytes, crc) = (message.payload.len() as u64, crc32c(&message.payload));
        all.push(ReplicaMessage { sequence, bytes, crc });
    }
    Ok(all)
}
