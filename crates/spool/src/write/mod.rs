//! The only writer: accepting articles, expiry, and making both durable.
//!
//! [`commit`] is the way in; it consults the modules that decide where an article goes ([`manager`],
//! [`floor`]) and what may be overwritten ([`fence`]). [`syncer`] is the thread that syncs; [`behind`]
//! releases memory after a busy feed.

pub(crate) mod behind;
pub(crate) mod caps;
pub(crate) mod commit;
pub(crate) mod estimate;
pub(crate) mod expire;
pub(crate) mod fence;
pub(crate) mod floor;
pub(crate) mod lateness;
pub(crate) mod leaving;
pub(crate) mod locked;
pub(crate) mod manager;
pub(crate) mod mending;
pub(crate) mod policy;
pub(crate) mod room;
pub(crate) mod syncer;
pub(crate) mod threads;
