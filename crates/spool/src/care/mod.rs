//! Operators' requests to an open spool: inspecting, checking and repairing it, and changing its buffers and
//! classes.

pub(crate) mod apart;
pub(crate) mod buffers;
pub(crate) mod expire;
pub(crate) mod explain;
pub(crate) mod finding;
pub(crate) mod glance;
pub(crate) mod inspect;
pub(crate) mod overview;
pub(crate) mod purge;
pub(crate) mod reconfigure;
pub(crate) mod repair;
pub(crate) mod status;
pub(crate) mod verify;
