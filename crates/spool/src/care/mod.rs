//! Operators' requests to an open spool: inspecting, checking and repairing it, and changing its buffers and
//! classes.

pub(crate) mod apart;
pub(crate) mod buffers;
pub(crate) mod expire;
pub mod explain;
pub(crate) mod glance;
pub(crate) mod inspect;
pub(crate) mod pack_overview;
pub(crate) mod purge;
pub(crate) mod reconfigure;
pub(crate) mod repair;
pub(crate) mod rest;
pub(crate) mod snapshot;
pub(crate) mod status;
pub mod verify;
