//! Reading the journal for all peers: each article goes into the windows of the peers that want it.

pub(crate) mod articles;
pub(crate) mod backlog;
pub(crate) mod frontier;
pub(crate) mod hub;
pub(crate) mod in_step;
pub(crate) mod offer;
pub(crate) mod recent;
