//! The engine NATS JetStream, version 2.15.2 and later: one stream for the log, one bucket for the table.
//!
//! All connections, tasks and time-outs with an engine are here, and so is the crate `async-nats`. What it
//! reports is handed to a sink, which may block. `replicas` reads the log from a certain node.

mod replicas;

use crate::engine::{
    EngineEvent, EngineLog, EngineMessage, EngineTable, LogReach, NoReach, TableEntry, TableError,
};
use crate::engine_check::NodeFacts;
use crate::member::NEW_CLUSTER;
use crate::message::{ClusterId, MessageTag};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config as StreamConfig, DiscardPolicy, Info, StorageType};
use async_nats::jetstream::{Context, ErrorCode, context};
use bytes::Bytes;
use disk::{Disk, FileAccess, durable_replace, read_small};
use futures_util::StreamExt as _;
use lock_order::Innermost;
use nkeys::KeyPair;
pub use replicas::ReplicaReader;
use std::fmt;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Oldest version of the engine that is not refused.
pub const VERSION_MIN: [u32; 3] = [2, 15, 2];
/// Smallest message that the engine must take, in bytes.
pub const MAX_PAYLOAD_MIN: usize = 1 << 20;
/// Age before which no message of the log may be dropped.
const MAX_AGE_MIN: Duration = Duration::from_secs(3 * 86_400);
/// Time within which the engine recognises repeated messages; only to save space.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// Wait for an answer of the engine.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes that the engine sends ahead while the log is followed. Without a bound the crate never finishes on
/// large messages.
const FOLLOW_BYTES_MAX: i64 = 4 << 20;
/// Time within which a replica has heard of the leader of a log: they hear every second, and elect another
/// leader after 4 seconds at the earliest.
const HEARD_MAX: Duration = Duration::from_secs(3);
/// Longest file with a secret key that is read, in bytes.
const KEY_BYTES_MAX: u64 = 1 << 10;
/// Key in the stream's metadata that names the cluster.
const CLUSTER_KEY: &str = "newsreel-cluster";

/// How an engine is reached.
#[derive(Debug, Clone, Default)]
pub struct NatsConnection {
    /// Name of the site, of which those of the streams are made.
    pub site: String,
    /// Name of this member, for the engine's lists of connections.
    pub member: String,
    /// Addresses of the engine's nodes.
    pub servers: Vec<String>,
    /// File with credentials.
    pub credentials: Option<PathBuf>,
    /// File with certificates of the authorities that the nodes' certificates are from.
    pub ca: Option<PathBuf>,
    /// Files with the own certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Names at the engine of what a site has there.
#[derive(Debug, Clone)]
pub(crate) struct LogNames {
    /// Stream of the log.
    pub log: String,
    /// Subject of its messages.
    pub subject: String,
    /// Bucket of the table.
    pub bucket: String,
    /// Beginning of the subjects of requests to members.
    pub members: String,
}

impl LogNames {
    /// Returns the names of a site.
    pub fn of(site: &str) -> Self {
        Self {
            log: format!("NR_{site}_LOG"),
            subject: format!("nr.{site}.log"),
            bucket: format!("NR_{site}_STATE"),
            members: format!("nr.{site}.m"),
        }
    }

    /// Returns the subject of requests to a member.
    pub fn requests(&self, member: &str, what: &str) -> String {
        format!("{}.{member}.{what}", self.members)
    }

    /// Returns the beginning of the subjects at which a member expects answers, which no other one may read.
    pub fn inbox(&self, member: &str) -> String {
        format!("_INBOX.{member}")
    }
}

/// Returns the public key of the secret key in a file, which is made if there is none.
pub fn user_key(disk: &dyn Disk, path: &Path) -> io::Result<String> {
    let invalid = |error: nkeys::error::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    if let Some(seed) = read_small(disk, path, KEY_BYTES_MAX)? {
        let seed = String::from_utf8_lossy(&seed).into_owned();
        return Ok(KeyPair::from_seed(seed.trim()).map_err(invalid)?.public_key());
    }
    let pair = KeyPair::new_user();
    let text = pair.seed().map_err(invalid)? + "\n";
    durable_replace(disk, path, &[text.as_bytes()], FileAccess::Owner)?;
    Ok(pair.public_key())
}

/// Failure to use an engine.
#[derive(Debug)]
pub enum NatsError {
    /// The connection fails.
    Connect(String),
    /// The file with credentials cannot be read.
    Credentials(PathBuf, io::Error),
    /// The stream of the log does not exist.
    NoLog(String),
    /// The nodes give no answer, as while they elect a leader.
    NoAnswer(String),
    /// The engine refuses something.
    Refused {
        /// What was asked for.
        doing: &'static str,
        /// Its answer.
        why: String,
    },
    /// Threads for the connection cannot be started.
    Threads(std::io::Error),
}

impl fmt::Display for NatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(why) => write!(f, "cannot connect to the engine: {why}"),
            Self::Credentials(file, error) => write!(f, "cannot read {}: {error}", file.display()),
            Self::NoLog(name) => {
                write!(
                    f,
                    "the engine has no stream {name}: `newsreel cluster create` makes it. If there was one, and all its \
                     nodes have lost it: {NEW_CLUSTER}"
                )
            }
            Self::NoAnswer(why) => write!(f, "the engine does not answer about the log: {why}"),
            Self::Refused { doing, why } => write!(f, "cannot {doing}: {why}"),
            Self::Threads(error) => write!(f, "cannot start the threads of the engine's connection: {error}"),
        }
    }
}

impl std::error::Error for NatsError {}

fn refused(doing: &'static str) -> impl Fn(&dyn fmt::Display) -> NatsError {
    move |why| NatsError::Refused { doing, why: why.to_string() }
}

/// An engine that is connected.
pub struct NatsEngine {
    runtime: Option<Runtime>,
    jetstream: Context,
    connection: NatsConnection,
    names: LogNames,
}

impl fmt::Debug for NatsEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngine").field("site", &self.connection.site).finish_non_exhaustive()
    }
}

impl Drop for NatsEngine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl NatsEngine {
    /// Connects to an engine.
    pub fn connect(connection: NatsConnection) -> Result<Self, NatsError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("cluster-engine")
            .enable_all()
            .build()
            .map_err(NatsError::Threads)?;
        let client = runtime.block_on(connect(&connection))?;
        let jetstream = {
            // The context spawns a task.
            let _inside = runtime.enter();
            context::ContextBuilder::new().timeout(ANSWER_MAX).ack_timeout(ANSWER_MAX).build(client)
        };
        let names = LogNames::of(&connection.site);
        Ok(Self { runtime: Some(runtime), jetstream, connection, names })
    }

    /// Runs a future to its end. Called by threads that are not the runtime's.
    fn wait<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        Some(self.runtime.as_ref()?.block_on(future))
    }

    /// Creates the stream and the bucket of a new cluster, with this many replicas.
    pub fn create(&self, cluster: ClusterId, replicas: usize, log_bytes: u64) -> Result<(), NatsError> {
        let stream = StreamConfig {
            name: self.names.log.clone(),
            subjects: vec![self.names.subject.clone()],
            max_bytes: i64::try_from(log_bytes).unwrap_or(i64::MAX),
            discard: DiscardPolicy::Old,
            storage: StorageType::File,
            num_replicas: replicas,
            duplicate_window: DUPLICATE_WINDOW,
            allow_direct: true,
            deny_delete: true,
            deny_purge: true,
            metadata: [(CLUSTER_KEY.to_owned(), cluster.to_string())].into(),
            ..StreamConfig::default()
        };
        let bucket = kv::Config {
            bucket: self.names.bucket.clone(),
            history: 1,
            storage: StorageType::File,
            num_replicas: replicas,
            ..kv::Config::default()
        };
        let made = self.wait(async {
            self.jetstream.create_stream(stream).await.map_err(|e| refused("create the log")(&e))?;
            self.jetstream.create_key_value(bucket).await.map_err(|e| refused("create the table")(&e))?;
            Ok(())
        });
        made.unwrap_or(Ok(()))
    }

    /// Returns the name of the stream of the log.
    pub fn log_name(&self) -> &str {
        &self.names.log
    }

    /// Returns what the engine says about the log and about itself.
    pub fn facts(&self) -> Result<EngineFacts, NatsError> {
        let name = self.names.log.clone();
        let stream = self.wait(self.jetstream.get_stream(&name));
        let stream = stream.ok_or_else(|| NatsError::NoAnswer("the connection has ended".into()))?;
        let stream = stream.map_err(|error| match is_no_log(&error) {
            true => NatsError::NoLog(name.clone()),
            false => NatsError::NoAnswer(error.to_string()),
        })?;
        let server = self.jetstream.client().server_info();
        Ok(EngineFacts::of(stream.cached_info(), &server.version, server.max_payload))
    }

    /// Returns a message of the log; `None` if it has none of this sequence, or does not answer.
    pub fn message(&self, sequence: u64) -> Option<EngineMessage> {
        self.wait(read_message(&self.jetstream, &self.names.log, sequence)).flatten()
    }

    /// Returns the keys of the table that begin so; `None` if the engine does not answer.
    pub fn table_keys(&self, prefix: &str) -> Option<Vec<String>> {
        self.wait(async {
            let bucket = self.jetstream.get_key_value(&self.names.bucket).await.ok()?;
            let mut keys = bucket.keys().await.ok()?;
            let mut all = Vec::new();
            while let Some(key) = keys.next().await {
                all.extend(Some(key.ok()?).filter(|key| key.starts_with(prefix)));
            }
            Some(all)
        })
        .flatten()
    }

    /// Answers requests of other members to this one, one after another, as long as there is a connection.
    /// `answer` may block.
    pub fn answer_requests(&self, what: &str, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) {
        let client = self.jetstream.client();
        let subject = self.names.requests(&self.connection.member, what);
        let answering = async move {
            // The client subscribes again by itself when it connects again.
            let Ok(mut requests) = client.subscribe(subject).await else { return };
            while let Some(request) = requests.next().await {
                let Some(reply) = request.reply else { continue };
                let bytes = tokio::task::block_in_place(|| answer(&request.payload));
                // One that is lost is asked for again.
                let _ = client.publish(reply, bytes.into()).await;
            }
        };
        if let Some(runtime) = &self.runtime {
            runtime.spawn(answering);
        }
    }

    /// Sends requests to a member, all at once; returns the answers in their order, `None` for those that do
    /// not come.
    pub fn ask_member(&self, member: &str, what: &str, requests: Vec<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
        let Some(runtime) = &self.runtime else { return vec![None; requests.len()] };
        let subject = self.names.requests(member, what);
        let asked: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let (client, subject) = (self.jetstream.client(), subject.clone());
                runtime.spawn(async move {
                    Some(client.request(subject, request.into()).await.ok()?.payload.to_vec())
                })
            })
            .collect();
        runtime.block_on(async {
            let mut answers = Vec::with_capacity(asked.len());
            for one in asked {
                answers.push(one.await.ok().flatten());
            }
            answers
        })
    }

    /// Returns the log, whose events go to `sink`.
    pub fn log(self: &Arc<Self>, sink: Arc<dyn Fn(EngineEvent) + Send + Sync>) -> Arc<NatsLog> {
        Arc::new(NatsLog { engine: self.clone(), sink, following: Innermost::default() })
    }
}

async fn connect(connection: &NatsConnection) -> Result<async_nats::Client, NatsError> {
    let failed = |error: &dyn fmt::Display| NatsError::Connect(error.to_string());
    let mut options = async_nats::ConnectOptions::new()
        .name(format!("newsreel {}", connection.member))
        .connection_timeout(ANSWER_MAX)
        .request_timeout(Some(ANSWER_MAX));
    if let Some(ca) = &connection.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((certificate, key)) = &connection.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    if !connection.member.is_empty() {
        options = options.custom_inbox_prefix(LogNames::of(&connection.site).inbox(&connection.member));
    }
    if let Some(file) = &connection.credentials {
        let unreadable = |error| NatsError::Credentials(file.clone(), error);
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        options = match text.contains("NATS USER JWT") {
            true => options.credentials(&text).map_err(unreadable)?,
            false => options.nkey(text.trim().to_owned()),
        };
    }
    let addresses: Result<Vec<async_nats::ServerAddr>, _> =
        connection.servers.iter().map(|server| server.parse()).collect();
    options.connect(addresses.map_err(|e| failed(&e))?).await.map_err(|e| failed(&e))
}

/// Longest answer of a monitoring port that is read, in bytes.
const MONITOR_BYTES_MAX: u64 = 4 << 20;

/// Asks the monitoring port of a node, `HOST:PORT`, whether it syncs what it acknowledges.
pub fn node_facts(address: &str) -> NodeFacts {
    NodeFacts::of(address, &monitor_answer(address, "/jsz").unwrap_or_default())
}

/// Returns what the monitoring port of a node answers to a path, with the headers of HTTP.
pub fn monitor_answer(address: &str, path: &str) -> io::Result<String> {
    let resolved = std::net::ToSocketAddrs::to_socket_addrs(address)?.next();
    let resolved = resolved.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = std::net::TcpStream::connect_timeout(&resolved, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MONITOR_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What an engine says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    /// Version of the node that is connected.
    pub version: String,
    /// Longest message that it takes, in bytes.
    pub max_payload: usize,
    /// Cluster that the log belongs to.
    pub cluster: Option<ClusterId>,
    /// Time at which the log was created, in Unix nanoseconds.
    pub created: u64,
    /// First and last message.
    pub first: u64,
    /// Last message.
    pub last: u64,
    /// Length of the log, in bytes.
    pub bytes: u64,
    /// Length from which on the oldest messages leave.
    pub bytes_max: u64,
    /// Replicas of the log.
    pub replicas: usize,
    /// Name of the node that leads the log.
    pub leader: Option<String>,
    /// Names of the other nodes, and whether each is current.
    pub followers: Vec<(String, bool)>,
    /// Settings of the log that are not as they must be, with what each should be.
    pub wrong_settings: Vec<&'static str>,
}

impl EngineFacts {
    fn of(info: &Info, version: &str, max_payload: usize) -> Self {
        let config = &info.config;
        let cluster = config.metadata.get(CLUSTER_KEY).and_then(|text| {
            let bytes = u64::from_str_radix(text, 16).ok()?.to_be_bytes();
            Some(ClusterId(bytes))
        });
        let checks: [(bool, &'static str); 12] = [
            (config.storage == StorageType::File, "storage: file"),
            (config.discard == DiscardPolicy::Old, "discard: old"),
            (config.max_bytes > 0, "max_bytes: a size"),
            (config.max_messages <= 0 && config.max_messages_per_subject <= 0, "no max_msgs"),
            (config.max_age.is_zero() || config.max_age >= MAX_AGE_MIN, "max_age: none, or 3 days and more"),
            (config.allow_direct, "allow_direct: true"),
            (config.deny_delete, "deny_delete: true"),
            (config.deny_purge, "deny_purge: true"),
            (
                config.mirror.is_none() && config.sources.as_ref().is_none_or(Vec::is_empty),
                "no mirror, no sources",
            ),
            (config.republish.is_none() && config.subject_transform.is_none(), "no republish, no transform"),
            (!config.no_ack && !config.sealed, "no_ack: false, sealed: false"),
            (!config.allow_message_ttl, "allow_msg_ttl: false"),
        ];
        let replicas = info.cluster.as_ref().map(|cluster| cluster.replicas.as_slice()).unwrap_or_default();
        Self {
            version: version.to_owned(),
            max_payload,
            cluster,
            created: u64::try_from(info.created.unix_timestamp_nanos()).unwrap_or_default(),
            first: info.state.first_sequence.max(1),
            last: info.state.last_sequence,
            bytes: info.state.bytes,
            bytes_max: u64::try_from(config.max_bytes).unwrap_or_default(),
            replicas: config.num_replicas,
            leader: info.cluster.as_ref().and_then(|cluster| cluster.leader.clone()),
            followers: replicas.iter().map(|peer| (peer.name.clone(), peer.current)).collect(),
            wrong_settings: checks.iter().filter(|(is_right, _)| !is_right).map(|(_, text)| *text).collect(),
        }
    }
}

/// The log of an engine that is connected.
pub struct NatsLog {
    engine: Arc<NatsEngine>,
    sink: Arc<dyn Fn(EngineEvent) + Send + Sync>,
    following: Innermost<Option<JoinHandle<()>>>,
}

impl fmt::Debug for NatsLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsLog").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// Hands an event over, which may block.
fn tell(sink: &Arc<dyn Fn(EngineEvent) + Send + Sync>, event: EngineEvent) {
    tokio::task::block_in_place(|| sink(event));
}

impl NatsLog {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<JoinHandle<()>> {
        Some(self.engine.runtime.as_ref()?.spawn(task))
    }
}

impl EngineLog for NatsLog {
    fn append(&self, tag: MessageTag, bytes: Bytes) {
        let (jetstream, sink) = (self.engine.jetstream.clone(), self.sink.clone());
        let subject = self.engine.names.subject.clone();
        let _ = self.spawn(async move {
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("Nats-Msg-Id", tag.to_string().as_str());
            let published = jetstream.publish_with_headers(subject, headers, bytes).await;
            let acked = match published {
                Ok(ack) => ack.await,
                Err(error) => Err(error),
            };
            tell(
                &sink,
                match acked {
                    Ok(ack) => EngineEvent::Appended { tag, sequence: ack.sequence },
                    Err(_) => EngineEvent::AppendFailed { tag },
                },
            );
        });
    }

    fn follow(&self, sequence: u64) {
        let (jetstream, sink) = (self.engine.jetstream.clone(), self.sink.clone());
        let name = self.engine.names.log.clone();
        let mut following = self.following.lock();
        following.take().into_iter().for_each(|task| task.abort());
        *following = self.spawn(async move {
            let mut next = sequence + 1;
            if follow_by_consumer(&jetstream, &name, &mut next, &sink).await.is_none() {
                // Without a quorum consumers cannot be created, but what a replica has can be read.
                follow_by_reading(&jetstream, &name, &mut next, &sink).await;
            }
            tell(&sink, EngineEvent::FollowEnded);
        });
    }

    fn look_up(&self, sequence: u64) {
        let (jetstream, sink) = (self.engine.jetstream.clone(), self.sink.clone());
        let name = self.engine.names.log.clone();
        let _ = self.spawn(async move {
            if let Some(message) = read_message(&jetstream, &name, sequence).await {
                tell(&sink, EngineEvent::Message(message));
            }
        });
    }

    fn ask_reach(&self, question: u64) {
        let (jetstream, sink) = (self.engine.jetstream.clone(), self.sink.clone());
        let name = self.engine.names.log.clone();
        let _ = self.spawn(async move {
            let reach = match jetstream.get_stream(&name).await {
                Ok(stream) if has_quorum(stream.cached_info()) => {
                    let facts = EngineFacts::of(stream.cached_info(), "", 0);
                    Ok(LogReach { created: facts.created, first: facts.first, last: facts.last })
                }
                Err(error) if is_no_log(&error) => Err(NoReach::NoLog),
                _ => Err(NoReach::NoQuorum),
            };
            tell(&sink, EngineEvent::Reach { question, reach });
        });
    }
}

/// Reports whether the engine has answered that there is no such stream.
fn is_no_log(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Reports whether the node that has answered leads the log, and most replicas have heard of it lately:
/// without a quorum a former leader answers for 18 seconds, and every other node does, with what it has.
fn has_quorum(info: &Info) -> bool {
    let Some(cluster) = &info.cluster else { return true };
    let heard =
        cluster.replicas.iter().filter(|replica| !replica.offline && replica.active < HEARD_MAX).count();
    cluster.leader.is_some() && 2 * (heard + 1) > cluster.replicas.len() + 1
}

/// Follows the log by an ordered consumer; `None` if it could not be created. Returns once it ends.
async fn follow_by_consumer(
    jetstream: &Context,
    name: &str,
    next: &mut u64,
    sink: &Arc<dyn Fn(EngineEvent) + Send + Sync>,
) -> Option<()> {
    let stream = jetstream.get_stream_no_info(name).await.ok()?;
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *next },
        max_bytes: FOLLOW_BYTES_MAX,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.ok()?;
    let mut messages = consumer.messages().await.ok()?;
    while let Some(Ok(message)) = messages.next().await {
        let Ok(info) = message.info() else { break };
        let (sequence, time) = (info.stream_sequence, info.published.unix_timestamp());
        let time = u32::try_from(time).unwrap_or_default();
        *next = sequence + 1;
        let bytes = message.message.payload;
        tell(sink, EngineEvent::Message(EngineMessage { sequence, time, bytes }));
    }
    Some(())
}

/// Reads a message of the log; `None` if there is none of this sequence, or no answer.
async fn read_message(jetstream: &Context, log: &str, sequence: u64) -> Option<EngineMessage> {
    let stream = jetstream.get_stream_no_info(log).await.ok()?;
    let message = stream.direct_get(sequence).await.ok()?;
    let time = u32::try_from(message.time.unix_timestamp()).unwrap_or_default();
    Some(EngineMessage { sequence: message.sequence, time, bytes: message.payload })
}

/// Reads messages one by one, until there is none.
async fn follow_by_reading(
    jetstream: &Context,
    name: &str,
    next: &mut u64,
    sink: &Arc<dyn Fn(EngineEvent) + Send + Sync>,
) {
    while let Some(message) = read_message(jetstream, name, *next).await {
        *next = message.sequence + 1;
        tell(sink, EngineEvent::Message(message));
    }
}

impl EngineTable for NatsEngine {
    fn get(&self, key: &str) -> Result<Option<TableEntry>, TableError> {
        let no_answer = |why: &dyn fmt::Display| TableError::NoAnswer(why.to_string());
        let found = self.wait(async {
            let bucket = self.jetstream.get_key_value(&self.names.bucket).await.map_err(|e| no_answer(&e))?;
            bucket.entry(key).await.map_err(|e| no_answer(&e))
        });
        let found = found.unwrap_or_else(|| Err(TableError::NoAnswer("the connection has ended".into())))?;
        let is_put = |entry: &kv::Entry| entry.operation == kv::Operation::Put;
        Ok(found.filter(is_put).map(|entry| TableEntry {
            revision: entry.revision,
            value: entry.value.to_vec(),
            time: u32::try_from(entry.created.unix_timestamp()).unwrap_or_default(),
        }))
    }

    fn put_if(&self, key: &str, value: &[u8], revision: u64) -> Result<u64, TableError> {
        let no_answer = |why: &dyn fmt::Display| TableError::NoAnswer(why.to_string());
        let put = self.wait(async {
            let bucket = self.jetstream.get_key_value(&self.names.bucket).await.map_err(|e| no_answer(&e))?;
            let value = value.to_vec().into();
            if revision == 0 {
                // An entry that was deleted has left a revision, which this takes account of.
                return bucket.create(key, value).await.map_err(|error| match error.kind() {
                    kv::CreateErrorKind::AlreadyExists => TableError::Changed,
                    _ => no_answer(&error),
                });
            }
            bucket.update(key, value, revision).await.map_err(|error| match error.kind() {
                kv::UpdateErrorKind::WrongLastRevision => TableError::Changed,
                _ => no_answer(&error),
            })
        });
        put.unwrap_or_else(|| Err(TableError::NoAnswer("the connection has ended".into())))
    }

    fn now(&self) -> Result<u32, TableError> {
        // The leader of the bucket answers, which gives entries their times.
        let subject = format!("$JS.API.STREAM.INFO.KV_{}", self.names.bucket);
        let answer = self.wait(self.jetstream.client().request(subject, "".into()));
        let answer = answer.ok_or_else(|| TableError::NoAnswer("the connection has ended".into()))?;
        let answer = answer.map_err(|error| TableError::NoAnswer(error.to_string()))?;
        let time = time_of_answer(&String::from_utf8_lossy(&answer.payload));
        time.ok_or_else(|| TableError::NoAnswer("it does not say its time".into()))
    }
}

/// Reads the time of an answer about a stream, in Unix seconds: its field `ts`, such as
/// `2026-11-27T20:22:59.123Z`.
fn time_of_answer(answer: &str) -> Option<u32> {
    let (_, rest) = answer.rsplit_once("\"ts\"")?;
    let text = rest.trim_start_matches([':', ' ', '"']).get(..19)?;
    let (day, time) = text.split_once('T')?;
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<u8>>();
    let (day, time) = (digits(day), digits(time));
    // The century is there, so it does not matter what the time is here.
    netnews::date::parse_nntp(&day, &time, 0).and_then(|time| u32::try_from(time).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_about_streams_have_the_engines_time() {
        let answer = |ts: &str| format!(r#"{{"type":"x","config":{{"name":"ts"}},"ts":"{ts}"}}"#);
        assert_eq!(time_of_answer(&answer("2026-11-27T20:22:59.1234567Z")), Some(1_795_810_979));
        assert_eq!(time_of_answer(&answer("2026-11-27T20:22:59Z")), Some(1_795_810_979));
        assert_eq!(time_of_answer(&answer("none")), None);
        assert_eq!(time_of_answer(r#"{"error":{"code":503,"err_code":10008}}"#), None);
    }
}
