//! The one writer: accepting articles, expiry, and making both durable.
//!
//! [`commit`] is the way in; what decides where an article goes ([`manager`], [`floor`]) and what may be
//! written over ([`fence`]) is asked from there. [`syncer`] is the thread that syncs; [`behind`] gives memory
//! back after a busy feed.

pub(crate) mod behind;
pub(crate) mod caps;
pub(crate) mod commit;
pub(crate) mod estimate;
pub(crate) mod expire;
pub(crate) mod fence;
pub(crate) mod floor;
pub(crate) mod lateness;
pub(crate) mod leaving;
pub(crate) mod manager;
pub(crate) mod mending;
pub(crate) mod policy;
pub(crate) mod room;
pub(crate) mod syncer;
pub(crate) mod threads;
