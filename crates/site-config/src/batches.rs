//! `[batches]`: batches that arrive as files.

use std::path::PathBuf;

use super::NamePattern;
use super::kinds::*;

section! {
    /// Batches of articles that come as files. What `newsreel rnews` cannot file now, what peers send by
    /// XBATCH, and what anybody moves into the directory waits there until the running server has filed it.
    [batches] Batches, BatchesDraft {
        /// The directory of batches that wait to be filed, below site.data unless it is absolute. Every
        /// second the server files what it finds there, the oldest first, and deletes it: batches, plain or
        /// compressed (compress, gzip, bzip2, zstd), or single articles. Move files there when they are
        /// complete, under a name that does not begin with a dot, or leave them unchanged for 2 seconds.
        incoming: PathBuf = FilePath, default "incoming", example "/var/spool/news/in.coming", of machine;
        /// Bytes of batches that may wait. Beyond that, XBATCH is answered 436, and newsreel rnews exits with
        /// code 75, so that the batch is submitted again.
        waiting_bytes_max: u64 = Size { min: 1 << 20, max: u64::MAX }, default "1 GiB", example "20 GiB",
            of machine;
        /// The groups in which articles of batches may be filed; those that name no other are rejected.
        accept: NamePattern = Wildmat, default "*", example "comp.*,news.*";
    }
}
