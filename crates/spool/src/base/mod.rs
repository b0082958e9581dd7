//! Names, numbers and limits that all floors share. Nothing here touches a disk or depends on another floor.

pub(crate) mod bug;
pub(crate) mod codec;
pub mod config;
pub(crate) mod digest;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod fetch;
pub(crate) mod hidden;
pub(crate) mod ids;
pub(crate) mod key;
pub(crate) mod latency;
pub(crate) mod leaving;
pub(crate) mod limits;
pub(crate) mod moved;
pub(crate) mod note;
pub(crate) mod ordered;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod xref;
