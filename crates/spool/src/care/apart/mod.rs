//! Another server's spool, read apart from it: its buffers, and what its directory says of its groups and of
//! what is hidden. Changes and locks nothing, whether the other server runs or not (CNFS-06).

mod buffer;
mod known;

pub use buffer::{BufferApart, Fetched, RecordApart};
pub use known::{GroupApart, SpoolApart};
