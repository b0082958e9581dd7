//! The engine: whatever keeps the log and the table of a cluster.
//!
//! Both traits are narrow, so that another engine, and one in memory for tests, can stand behind them.
//! Nothing here waits: what an engine has to say arrives as an [`EngineEvent`], in the order that a scheduler
//! chooses, which in tests is a seeded one.

use crate::message::MessageTag;
use bytes::Bytes;
use std::fmt;

/// A message as the engine gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineMessage {
    /// Sequence number in the log, from 1 on.
    pub sequence: u64,
    /// Time at which the engine took it, in Unix seconds.
    pub time: u32,
    /// The message.
    pub bytes: Bytes,
}

/// First and last message of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogReach {
    /// Time at which the log was created, in Unix nanoseconds.
    pub created: u64,
    /// Sequence of the first message that is kept; one after the last if none is.
    pub first: u64,
    /// Sequence of the last message.
    pub last: u64,
}

/// Why an engine does not say where a log begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReach {
    /// There is no quorum, or no answer.
    NoQuorum,
    /// The engine answers that it has no such log.
    NoLog,
}

/// What an engine reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEvent {
    /// A message is in the log, on the disks of a quorum.
    Appended {
        /// Tag of the message.
        tag: MessageTag,
        /// Sequence of the message.
        sequence: u64,
    },
    /// An append has failed, or its answer was lost: the message may be in the log or get there later.
    AppendFailed {
        /// Tag of the message.
        tag: MessageTag,
    },
    /// The next message that is followed.
    Message(EngineMessage),
    /// Answer to [`EngineLog::ask_reach`].
    Reach {
        /// Number of the question.
        question: u64,
        /// The answer.
        reach: Result<LogReach, NoReach>,
    },
    /// Following has ended, as the connection was lost; it has to be begun again.
    FollowEnded,
}

/// The log of an engine.
pub trait EngineLog: Send + Sync + fmt::Debug {
    /// Appends a message; [`EngineEvent::Appended`] or [`EngineEvent::AppendFailed`] answers.
    fn append(&self, tag: MessageTag, bytes: Bytes);

    /// Gives the messages after `sequence`, in order, as [`EngineEvent::Message`]. Ends earlier calls.
    fn follow(&self, sequence: u64);

    /// Gives a message once more, as [`EngineEvent::Message`], if the log has it.
    fn look_up(&self, sequence: u64);

    /// Asks where the log begins and ends at this moment.
    fn ask_reach(&self, question: u64);
}

/// Failure of a call to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableError {
    /// The entry was changed meanwhile.
    Changed,
    /// The engine does not answer.
    NoAnswer(String),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("the entry was changed meanwhile"),
            Self::NoAnswer(why) => write!(f, "the engine does not answer: {why}"),
        }
    }
}

impl std::error::Error for TableError {}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// Revision: greater after each change.
    pub revision: u64,
    /// Value.
    pub value: Vec<u8>,
    /// Time at which the engine took it, in Unix seconds by the engine's clock.
    pub time: u32,
}

/// A small table whose entries change by comparing their revision. Calls wait for the engine.
pub trait EngineTable: Send + Sync + fmt::Debug {
    /// Returns an entry.
    fn get(&self, key: &str) -> Result<Option<TableEntry>, TableError>;

    /// Sets an entry whose revision is still this one, 0 for an entry that does not exist; returns the new
    /// revision.
    fn put_if(&self, key: &str, value: &[u8], revision: u64) -> Result<u64, TableError>;

    /// Returns the time of the engine's clock, of which entries have theirs, in Unix seconds.
    fn now(&self) -> Result<u32, TableError>;
}

/// Attempts to change an entry that others change at the same time: one fails if another one's succeeds.
const ATTEMPTS_MAX: usize = 100;

/// Changes an entry by comparing its revision, again while others change it. `change` takes the value, `None`
/// if there is no entry, and returns the new one, `None` to leave it as it is, with a result.
pub(crate) fn change_entry<T, E: From<TableError>>(
    table: &dyn EngineTable,
    key: &str,
    mut change: impl FnMut(Option<&[u8]>) -> Result<(Option<Vec<u8>>, T), E>,
) -> Result<T, E> {
    for _ in 0..ATTEMPTS_MAX {
        let found = table.get(key)?;
        let (new, done) = change(found.as_ref().map(|entry| entry.value.as_slice()))?;
        let Some(new) = new else { return Ok(done) };
        match table.put_if(key, &new, found.map_or(0, |entry| entry.revision)) {
            Ok(_) => return Ok(done),
            Err(TableError::Changed) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(TableError::Changed.into())
}

/// Begins an incarnation of a member: greater than any before, by comparing and setting its entry. `applied`
/// is the one that the log has named last, as the table may be emptied or put back.
pub fn next_incarnation(
    table: &dyn EngineTable,
    member: u16,
    applied: Option<u64>,
) -> Result<u64, TableError> {
    change_entry(table, &format!("member.{member}.incarnation"), |last| {
        let last = last.and_then(|value| Some(u64::from_le_bytes(*value.first_chunk()?)));
        let next = last.max(applied).unwrap_or_default() + 1;
        Ok((Some(next.to_le_bytes().into()), next))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::{
        MemberReport, MembersError, add_member, announce_format, raise_format, share_settings,
    };
    use crate::memory::MemoryEngine;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A table that takes no change, as if others changed each entry at every moment.
    #[derive(Debug)]
    struct Contended(MemoryEngine, AtomicUsize);

    impl EngineTable for Contended {
        fn get(&self, key: &str) -> Result<Option<TableEntry>, TableError> {
            self.0.get(key)
        }

        fn put_if(&self, _: &str, _: &[u8], _: u64) -> Result<u64, TableError> {
            let attempts = self.1.fetch_add(1, Ordering::Relaxed);
            assert!(attempts < 10 * ATTEMPTS_MAX, "it is tried without end");
            Err(TableError::Changed)
        }

        fn now(&self) -> Result<u32, TableError> {
            self.0.now()
        }
    }

    #[test]
    fn changes_of_entries_that_cannot_be_changed_end() {
        let engine = MemoryEngine::new(1);
        add_member(&engine, "fe1").unwrap();
        announce_format(&engine, "fe1", 2).unwrap();
        let table = Contended(engine, AtomicUsize::default());
        let changed = MembersError::Table(TableError::Changed);
        assert_eq!(next_incarnation(&table, 1, None), Err(TableError::Changed));
        assert_eq!(MemberReport::default().put(&table, "fe1"), Err(TableError::Changed));
        assert_eq!(add_member(&table, "fe2"), Err(changed.clone()));
        assert_eq!(share_settings(&table, &[("a", "b".into())]), Err(changed.clone()));
        assert_eq!(announce_format(&table, "fe1", 3), Err(changed.clone()));
        assert_eq!(raise_format(&table), Err(changed));
    }

    #[test]
    fn an_incarnation_is_later_than_those_of_the_table_and_of_the_log() {
        let table = MemoryEngine::new(1);
        assert_eq!(next_incarnation(&table, 1, None), Ok(1));
        assert_eq!(next_incarnation(&table, 1, Some(1)), Ok(2));
        // The table was put back, or emptied.
        assert_eq!(next_incarnation(&table, 1, Some(30)), Ok(31));
        assert_eq!(next_incarnation(&table, 1, Some(7)), Ok(32));
        assert_eq!(next_incarnation(&table, 2, None), Ok(1));
    }
}
