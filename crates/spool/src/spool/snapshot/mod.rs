//! Snapshots: the news of a site as one stream of changes in a file, from which a site is made in any
//! buffers, classes and methods, with the same numbers.

pub(crate) mod arrival;
mod entry;
mod file;
mod marker;
pub(crate) mod restore;
pub(crate) mod write;

#[cfg(feature = "testing")]
pub(crate) use file::{entries_again, entries_in};
pub(crate) use restore::is_whole;
