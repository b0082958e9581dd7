//! COMPRESS DEFLATE: raw deflate streams both ways, within limits.
//!
//! What is sent ends in a sync flush, so that the client can decode all of it. Behind a flush a compressor may be
//! forgotten: a new one refers to nothing sent before, and its blocks continue the same stream. What arrives is decoded
//! only into room that the session has, and a stream that is nothing but expansion is an error. Called by `Layered` and
//! by the fuzz target `compress_stream`. Source: RFC 8054, RFC 1951.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::io;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that may be compressed at once: each holds about 45 KB for decoding.
const COMPRESSED_CONNECTIONS_MAX: usize = 4096;
/// How hard to try. Level 3 gives most of the gain; each step up costs more time than it saves bytes.
const LEVEL: u32 = 3;
/// Bytes of output that one byte of input may make, on average. Deflate's most is 1,032; commands and articles stay
/// below 50.
const EXPANSION_MAX: u64 = 256;
/// Room that the compressor is given at a time, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Who may have a compressed connection now.
#[derive(Debug, Clone)]
pub(crate) struct Compressed(Arc<Semaphore>);

impl Default for Compressed {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(COMPRESSED_CONNECTIONS_MAX)))
    }
}

impl Compressed {
    /// Both directions of a new compressed connection; `None` if there are too many. `free_bytes` is what a client may
    /// expand without being looked at: its largest article.
    pub fn begin(&self, free_bytes: u64) -> Option<(Deflating, Inflating)> {
        let permit = self.0.clone().try_acquire_owned().ok()?;
        Some((Deflating::new(), Inflating::new(free_bytes, Some(permit))))
    }
}

/// The way to the client.
pub(crate) struct Deflating {
    /// Made when something is sent.
    compress: Option<Box<Compress>>,
}

impl Deflating {
    fn new() -> Self {
        Self { compress: None }
    }

    /// Whether it holds memory that [`Deflating::forget`] frees.
    pub fn is_warm(&self) -> bool {
        self.compress.is_some()
    }

    /// Forgets what was sent. Only behind a flush.
    pub fn forget(&mut self) {
        self.compress = None;
    }

    /// Appends `plain`, compressed, to `out`; with `flush` also all that was held back.
    pub fn deflate(&mut self, mut plain: &[u8], flush: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let compress =
            self.compress.get_or_insert_with(|| Box::new(Compress::new(Compression::new(LEVEL), false)));
        let mode = if flush { FlushCompress::Sync } else { FlushCompress::None };
        loop {
            if out.capacity() - out.len() < PIECE_BYTES {
                out.reserve(PIECE_BYTES);
            }
            let before = compress.total_in();
            let status = compress.compress_vec(plain, out, mode).map_err(io::Error::other)?;
            let taken = usize::try_from(compress.total_in() - before).unwrap_or(usize::MAX);
            plain = plain.get(taken..).unwrap_or_default();
            // Room left over says that everything is out.
            if plain.is_empty() && (out.len() < out.capacity() || status == Status::BufError) {
                return Ok(());
            }
        }
    }
}

/// The way from the client.
pub(crate) struct Inflating {
    decompress: Box<Decompress>,
    free_bytes: u64,
    /// The last call filled its room, so there may be more output without more input.
    pub(super) has_more: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Inflating {
    fn new(free_bytes: u64, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { decompress: Box::new(Decompress::new(false)), free_bytes, has_more: false, _permit: permit }
    }

    /// Decodes into the room that `out` has; returns how much of `input` is done with.
    pub fn inflate(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let room = out.capacity() - out.len();
        if room == 0 {
            self.has_more = true;
            return Ok(0);
        }
        let (before_in, before_out) = (self.decompress.total_in(), self.decompress.total_out());
        let status =
            self.decompress.decompress_vec(input, out, FlushDecompress::Sync).map_err(|_| damaged())?;
        let made = self.decompress.total_out() - before_out;
        self.has_more = made >= room as u64;
        // RFC 8054 knows no end of the compressed stream but that of the connection.
        if status == Status::StreamEnd {
            return Err(damaged());
        }
        let allowed =
            self.decompress.total_in().saturating_mul(EXPANSION_MAX).saturating_add(self.free_bytes);
        if self.decompress.total_out() > allowed {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what arrives is a decompression bomb"));
        }
        Ok(usize::try_from(self.decompress.total_in() - before_in).unwrap_or(usize::MAX))
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the compressed stream is damaged")
}
