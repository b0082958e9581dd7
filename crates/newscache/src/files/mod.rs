//! Files of the cache that are open or known by name: those of groups, and all of them after a start.

pub(crate) mod open_files;
pub(crate) mod opening;
pub(crate) mod slots;
