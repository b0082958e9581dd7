//! Ground of the cache: records, names of files, the order of locks.

pub(crate) mod packed;
pub(crate) mod rank;
pub(crate) mod record;
