//! The folds of the journal: history, groups, overview, and the contents of each volume.
//!
//! [`fold`] applies rows and is the only place that changes several folds together; [`checkpoint`] saves all
//! of them as of one journal position. Everything here can be rebuilt from the journal, or from the volumes.

pub(crate) mod ages;
pub(crate) mod change;
pub(crate) mod checkpoint;
mod digest;
pub(crate) mod fold;
pub(crate) mod groups;
pub(crate) mod hidden;
pub(crate) mod kept;
pub(crate) mod notes;
pub(crate) mod overtaken;
pub(crate) mod overview;
pub(crate) mod promise;
mod published;
pub(crate) mod refusal;
pub(crate) mod removals;
pub(crate) mod residents;
pub(crate) mod rings;
pub(crate) mod row_headers;
pub(crate) mod rules;
pub(crate) mod shared_log;
pub(crate) mod weights;
pub(crate) mod withdrawing;
