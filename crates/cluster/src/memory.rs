//! An engine in memory, for tests: nothing happens by itself, a scheduler chooses what happens next.
//!
//! An append lies on the wire until the scheduler lets it take effect, answers it, or loses one or the other;
//! it may take effect twice, and long after its member has ended.

use crate::engine::{
    EngineEvent, EngineLog, EngineMessage, EngineTable, LogReach, NoReach, TableEntry, TableError,
};
use crate::message::MessageTag;
use bytes::Bytes;
use lock_order::Innermost;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An append that has not taken effect yet, or may do so again.
#[derive(Debug, Clone)]
pub struct WireAppend {
    client: u64,
    tag: MessageTag,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct ClientState {
    /// Message after which the log is followed.
    follows: Option<u64>,
    questions: VecDeque<u64>,
    events: VecDeque<EngineEvent>,
}

#[derive(Debug)]
struct MemoryState {
    created: u64,
    /// Messages that are kept; the first has the sequence `first`.
    log: VecDeque<EngineMessage>,
    first: u64,
    has_quorum: bool,
    /// Time of the engine, in Unix seconds.
    time: u32,
    clients: BTreeMap<u64, ClientState>,
    wire: Vec<WireAppend>,
    table: BTreeMap<String, TableEntry>,
    revision: u64,
}

impl MemoryState {
    fn last(&self) -> u64 {
        self.first + self.log.len() as u64 - 1
    }
}

/// An engine in memory. Clones are the same engine.
#[derive(Debug, Clone)]
pub struct MemoryEngine(Arc<Innermost<MemoryState>>);

impl MemoryEngine {
    /// Creates an engine whose log was created at this time.
    pub fn new(created: u64) -> Self {
        Self(Arc::new(Innermost::new(MemoryState {
            created,
            log: VecDeque::new(),
            first: 1,
            has_quorum: true,
            time: 0,
            clients: BTreeMap::new(),
            wire: Vec::new(),
            table: BTreeMap::new(),
            revision: 0,
        })))
    }

    /// Connects a client.
    pub fn connect(&self) -> MemoryClient {
        let mut state = self.0.lock();
        let id = state.clients.last_key_value().map_or(0, |(last, _)| last + 1);
        state.clients.insert(id, ClientState::default());
        MemoryClient { engine: self.clone(), id }
    }

    /// Sets the time of the engine, in Unix seconds.
    pub fn set_time(&self, time: u32) {
        self.0.lock().time = time;
    }

    /// Lets the engine have a quorum or not.
    pub fn set_quorum(&self, has_quorum: bool) {
        self.0.lock().has_quorum = has_quorum;
    }

    /// Forgets all messages before this one.
    pub fn keep_from(&self, first: u64) {
        let mut state = self.0.lock();
        while state.first < first && state.log.pop_front().is_some() {
            state.first += 1;
        }
    }

    /// Forgets all messages after this one, as when an older copy of the log is put back.
    pub fn rewind(&self, last: u64) {
        let state = &mut *self.0.lock();
        while state.last() > last && state.log.pop_back().is_some() {}
    }

    /// Returns the sequence of the last message.
    pub fn last(&self) -> u64 {
        self.0.lock().last()
    }

    /// Returns how many appends are on the wire.
    pub fn on_wire(&self) -> usize {
        self.0.lock().wire.len()
    }

    /// Takes an append off the wire.
    pub fn take(&self, at: usize) -> Option<WireAppend> {
        let mut state = self.0.lock();
        (at < state.wire.len()).then(|| state.wire.swap_remove(at))
    }

    /// Puts an append back on the wire.
    pub fn put_back(&self, append: WireAppend) {
        self.0.lock().wire.push(append);
    }

    /// Lets an append take effect; `None` without a quorum.
    pub fn take_effect(&self, append: &WireAppend) -> Option<u64> {
        let mut state = self.0.lock();
        let (sequence, time) = (state.last() + 1, state.time);
        state.has_quorum.then(|| {
            state.log.push_back(EngineMessage { sequence, time, bytes: append.bytes.clone() });
            sequence
        })
    }

    /// Answers an append.
    pub fn answer(&self, append: &WireAppend, sequence: Option<u64>) {
        let tag = append.tag;
        let event = match sequence {
            Some(sequence) => EngineEvent::Appended { tag, sequence },
            None => EngineEvent::AppendFailed { tag },
        };
        if let Some(client) = self.0.lock().clients.get_mut(&append.client) {
            client.events.push_back(event);
        }
    }

    /// Ends the following of all clients, as when the leader changes.
    pub fn end_following(&self) {
        for client in self.0.lock().clients.values_mut() {
            if client.follows.take().is_some() {
                client.events.push_back(EngineEvent::FollowEnded);
            }
        }
    }

    /// Returns the keys of the table.
    pub fn table_keys(&self) -> Vec<String> {
        self.0.lock().table.keys().cloned().collect()
    }

    /// Returns a message.
    pub fn message(&self, sequence: u64) -> Option<EngineMessage> {
        let state = self.0.lock();
        let at = sequence.checked_sub(state.first)?;
        state.log.get(usize::try_from(at).ok()?).cloned()
    }
}

/// A client of an engine in memory.
#[derive(Debug)]
pub struct MemoryClient {
    engine: MemoryEngine,
    id: u64,
}

impl MemoryClient {
    /// Returns the next event for this client; `skips` leaves out a message, as a faulty connection may.
    pub fn next_event(&self, skips: bool) -> Option<EngineEvent> {
        let state = &mut *self.engine.0.lock();
        let (first, last) = (state.first, state.last());
        let reach = LogReach { created: state.created, first, last };
        let client = state.clients.get_mut(&self.id)?;
        if let Some(event) = client.events.pop_front() {
            return Some(event);
        }
        if let Some(question) = client.questions.pop_front() {
            return Some(EngineEvent::Reach {
                question,
                reach: state.has_quorum.then_some(reach).ok_or(NoReach::NoQuorum),
            });
        }
        let follows = client.follows.as_mut()?;
        // What is no longer kept is passed over without a word, as real engines do.
        let next = (*follows + 1 + u64::from(skips)).max(first);
        let at = usize::try_from(next - first).ok()?;
        let message = state.log.get(at).cloned()?;
        *follows = next;
        Some(EngineEvent::Message(message))
    }

    /// Ends the connection: what is on the wire stays there.
    pub fn disconnect(&self) {
        self.engine.0.lock().clients.remove(&self.id);
    }
}

impl EngineLog for MemoryClient {
    fn append(&self, tag: MessageTag, bytes: Bytes) {
        self.engine.0.lock().wire.push(WireAppend { client: self.id, tag, bytes });
    }

    fn follow(&self, sequence: u64) {
        if let Some(client) = self.engine.0.lock().clients.get_mut(&self.id) {
            client.follows = Some(sequence);
        }
    }

    fn look_up(&self, sequence: u64) {
        let Some(message) = self.engine.message(sequence) else { return };
        if let Some(client) = self.engine.0.lock().clients.get_mut(&self.id) {
            client.events.push_back(EngineEvent::Message(message));
        }
    }

    fn ask_reach(&self, question: u64) {
        if let Some(client) = self.engine.0.lock().clients.get_mut(&self.id) {
            client.questions.push_back(question);
        }
    }
}

impl EngineTable for MemoryEngine {
    fn get(&self, key: &str) -> Result<Option<TableEntry>, TableError> {
        Ok(self.0.lock().table.get(key).cloned())
    }

    fn put_if(&self, key: &str, value: &[u8], revision: u64) -> Result<u64, TableError> {
        let mut state = self.0.lock();
        let known = state.table.get(key).map_or(0, |entry| entry.revision);
        if known != revision {
            return Err(TableError::Changed);
        }
        state.revision += 1;
        let (revision, time) = (state.revision, state.time);
        state.table.insert(key.to_owned(), TableEntry { revision, value: value.to_vec(), time });
        Ok(revision)
    }

    fn now(&self) -> Result<u32, TableError> {
        Ok(self.0.lock().time)
    }
}
