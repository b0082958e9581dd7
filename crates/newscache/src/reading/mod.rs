//! Reading and writing what is cached: groups, large articles, lists; compaction and verification.

pub(crate) mod compact;
pub(crate) mod group;
pub(crate) mod heads;
pub(crate) mod index_io;
pub(crate) mod large;
pub(crate) mod lists;
pub(crate) mod numbers;
pub(crate) mod pieces;
pub(crate) mod purge;
pub(crate) mod verify;
