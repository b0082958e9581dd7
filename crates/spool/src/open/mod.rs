//! Opening a spool: from its checkpoint and journal ([`recovery`]), or from the volumes alone ([`rebuild`]).

pub(crate) mod paths;
pub(crate) mod rebuild;
pub(crate) mod recovery;
pub(crate) mod space;
