//! Several newsreels that serve one site: every change goes through one log, kept by an engine on several
//! machines, and every member applies the log to its own spool.
//!
//! - [`message`] and [`entry`]: what the log holds (`docs/formats/log.md`);
//! - [`position`]: how far a member has applied it, kept by the spool with what was applied;
//! - [`fold`]: applies messages in order, with no clock;
//! - [`proposer`]: makes messages of what sessions propose, and retries them under one tag;
//! - [`leases`]: which member does what one of them does at a time;
//! - `agreement`: whether members have made the same of it;
//! - [`members`]: who is a member, what all of them must share, and whose clock is wrong;
//! - [`transfer`]: a snapshot of one member, fetched by another that joins;
//! - [`scrub`]: compares the replicas of the log;
//! - [`member`]: both of them as one state machine, driven by the events of an [`engine`].
//!
//! Time, waiting and randomness come from a [`World`], so that a simulation decides about them. Nothing here
//! opens a connection.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod agreement;
pub mod clocks;
mod driver;
pub mod engine;
#[cfg(feature = "nats")]
pub mod engine_check;
#[cfg(feature = "nats")]
pub mod engine_conf;
pub mod entry;
#[cfg(test)]
mod flaw;
pub mod fold;
pub mod leases;
mod machine;
pub mod member;
pub mod members;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod message;
#[cfg(feature = "nats")]
pub mod nats;
mod parts;
pub mod position;
pub mod proposer;
pub mod scrub;
#[cfg(test)]
mod simulation;
pub mod transfer;
mod world;

pub use bytes::Bytes;
pub use driver::{ClusterLog, EVENTS_MAX, MemberHandle, MemberStatus, ReadFreshness};
pub use engine::{
    EngineEvent, EngineLog, EngineMessage, EngineTable, LogReach, NoReach, TableEntry, TableError,
};
pub use fold::{EntryOutcome, Fold, FoldStop, fetch_parts};
pub use machine::MachineWorld;
pub use member::{Member, MemberState, NEW_CLUSTER};
pub use message::{ClusterId, MessageTag};
pub use position::LogPosition;
pub use proposer::{NotCommitted, ProposalId, ProposalResult};
pub use world::World;
