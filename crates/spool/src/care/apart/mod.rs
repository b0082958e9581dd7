//! Reading another server's spool: its buffers, and its directory's information about groups and hidden
//! articles. Changes and locks nothing, whether the other server runs or not (CNFS-06).

mod buffer;
mod known;

pub use buffer::{BufferApart, FetchedRecord, RecordApart};
pub use known::{GroupApart, SpoolApart};
