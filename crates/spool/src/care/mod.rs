//! What operators ask of an open spool: looking at it, checking and repairing it, changing what it consists
//! of.

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
pub(crate) mod status;
pub mod verify;
