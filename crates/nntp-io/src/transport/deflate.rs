//! COMPRESS DEFLATE: raw deflate streams both ways, within limits.
//!
//! Output ends in a sync flush, so that the other side can decode all of it. After a flush a compressor may
//! be dropped: a new one refers to nothing sent before, and its blocks continue the same stream. The blocks
//! of an article that was compressed separately for another client fit in too ([`super::pieces`]). While the
//! machine is busy, and the client's line is not the bottleneck, text is Huffman-coded only
//! ([`super::letters`]). Input is decoded only into room that the reader has, and a stream that is nothing
//! but expansion is an error. Called by `LayeredStream` and, through `fuzzing`, by the fuzz target
//! `compress_stream`. Sources: RFC 8054, RFC 1951.

use super::letters;
use super::load::{LineSpeed, MachineLoad};
use super::pieces::{PieceCache, PieceLookup};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of compressed connections: each holds about 45 KB for decoding.
pub const COMPRESSED_CONNECTIONS_MAX: usize = 4096;
/// Maximum number of compressors that are kept between answers: each holds about 300 KB. Without one, an
/// answer cannot refer to what was sent before it.
const KEPT_COMPRESSORS_MAX: usize = 256;
/// Compression level. On articles level 2 packs 2.4 to 1 in 17 us each, level 3 2.5 to 1 in 25, level 1 1.8
/// to 1 in 10.
const LEVEL: u32 = 2;
/// Maximum number of output bytes per input byte, on average. Deflate's maximum is 1,032; commands and
/// articles stay below 50.
const EXPANSION_MAX: u64 = 256;
/// Room for the compressor's output at a time, in bytes.
const PIECE_BYTES: usize = 16 << 10;
/// Maximum length of text that is stored uncompressed between pieces that were compressed before: a
/// compressor would have to be prepared for it, and would save little.
const STORED_BYTES_MAX: usize = 1024;
/// Minimum length of text that is Huffman-coded: shorter text would become longer by the code.
const LETTERS_BYTES_MIN: usize = 256;
/// Maximum length of a part that is Huffman-coded: longer text is coded in parts, each of which may be text
/// or not.
const LETTERS_BYTES_MAX: usize = 16 << 10;

/// Permits for the compressed connections that one process serves or makes.
#[derive(Debug, Clone)]
pub struct CompressionPermits {
    connections: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    shared: Arc<SharedCompression>,
}

/// State shared by all compressed connections that one process serves.
#[derive(Debug, Default)]
struct SharedCompression {
    pieces: PieceCache,
    load: MachineLoad,
}

impl Default for CompressionPermits {
    fn default() -> Self {
        Self {
            connections: Arc::new(Semaphore::new(COMPRESSED_CONNECTIONS_MAX)),
            kept: Arc::new(Semaphore::new(KEPT_COMPRESSORS_MAX)),
            shared: Arc::default(),
        }
    }
}

impl CompressionPermits {
    /// Returns the number of compressed connections open now.
    pub fn connections(&self) -> usize {
        COMPRESSED_CONNECTIONS_MAX.saturating_sub(self.connections.available_permits())
    }

    /// Returns both directions of a new compressed connection; `None` if there are too many. `free_bytes` is
    /// the amount that may be decoded before the ratio counts: the largest article.
    pub fn begin(&self, free_bytes: u64) -> Option<(Deflater, Inflater)> {
        let permit = self.connections.clone().try_acquire_owned().ok()?;
        let deflating = Deflater { shared: Some(self.shared.clone()), ..Deflater::new(self.kept.clone()) };
        Some((deflating, Inflater::new(free_bytes, Some(permit))))
    }

    /// Frees compressed articles that were not sent for this time.
    pub fn forget(&self, unused: Duration) {
        self.shared.pieces.forget(unused);
    }

    /// Returns both directions of an outgoing connection, which counts against no limit.
    pub(crate) fn one(free_bytes: u64) -> (Deflater, Inflater) {
        (Deflater::new(Arc::new(Semaphore::new(1))), Inflater::new(free_bytes, None))
    }
}

/// The compressing direction of a connection.
pub struct Deflater {
    /// Compressor, created when something is sent.
    compress: Option<Box<Compress>>,
    /// Permit to keep the compressor between answers.
    permit: Option<OwnedSemaphorePermit>,
    kept: Arc<Semaphore>,
    /// State shared with other connections; `None` for an outgoing connection.
    shared: Option<Arc<SharedCompression>>,
    line: LineSpeed,
    /// True while output is Huffman-coded only.
    is_hurried: bool,
    /// True while the compressor holds something back.
    is_pending: bool,
    /// True if the last output did not come from the compressor, which must not refer to its history then.
    is_apart: bool,
}

impl Deflater {
    fn new(kept: Arc<Semaphore>) -> Self {
        Self {
            compress: None,
            permit: None,
            kept,
            shared: None,
            line: LineSpeed::default(),
            is_hurried: false,
            is_pending: false,
            is_apart: false,
        }
    }

    /// Returns whether there is a compressor that [`Deflater::drop_compressor`] would free.
    pub fn has_compressor(&self) -> bool {
        self.compress.is_some()
    }

    /// Forgets the history of the stream. Only after a flush.
    pub fn drop_compressor(&mut self) {
        self.compress = None;
        self.permit = None;
    }

    /// Keeps the compressor between two answers, if one more may be kept. Only after a flush.
    pub fn park(&mut self) {
        if self.compress.is_some() && self.permit.is_none() {
            self.permit = self.kept.clone().try_acquire_owned().ok();
            if self.permit.is_none() {
                self.compress = None;
            }
        }
    }

    /// Decides before an answer, after the flush of the last one, whether processor time or the client's line
    /// is the bottleneck. Returns true for processor time.
    pub(super) fn choose(&mut self, now: Instant) -> bool {
        let load = self.shared.as_ref().map(|shared| &shared.load);
        self.is_hurried = self.line.is_fast(now) && load.is_some_and(|load| load.is_busy(now));
        self.is_hurried
    }

    /// Counts bytes of compressed output that were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.line.sent(bytes);
    }

    /// Appends `plain`, compressed, to `out`; with `flush` also everything held back.
    ///
    /// # Errors
    /// None that input can cause; only zlib's own.
    pub fn deflate(&mut self, mut plain: &[u8], flush: bool, out: &mut Vec<u8>) -> io::Result<()> {
        if self.is_hurried {
            self.is_apart = true;
            plain.chunks(LETTERS_BYTES_MAX).for_each(|part| put_letters(part, out));
            return Ok(());
        }
        if std::mem::take(&mut self.is_apart) {
            if plain.len() <= STORED_BYTES_MAX {
                self.is_apart = true;
                put_stored(plain, out);
                return Ok(());
            }
            self.compress.iter_mut().for_each(|compress| compress.reset());
        }
        self.is_pending = !flush;
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
            // Spare room means that all output has been written.
            if plain.is_empty() && (out.len() < out.capacity() || status == Status::BufError) {
                return Ok(());
            }
        }
    }
}

impl Deflater {
    /// Like [`Deflater::deflate`], for a piece that may be sent to other clients too. A piece that was sent
    /// before is compressed separately, once for all of them.
    ///
    /// # Errors
    /// Errors of [`Deflater::deflate`].
    pub fn deflate_piece(&mut self, plain: &[u8], flush: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let asked = self.shared.as_ref().map_or(PieceLookup::Unknown, |shared| shared.pieces.ask(plain));
        if matches!(asked, PieceLookup::Unknown) {
            return self.deflate(plain, flush, out);
        }
        if self.is_pending {
            self.deflate(&[], true, out)?;
        }
        if let PieceLookup::Found(packed) = asked {
            out.extend_from_slice(&packed);
            self.is_apart = true;
            return Ok(());
        }
        self.compress.iter_mut().for_each(|compress| compress.reset());
        self.is_apart = false;
        let start = out.len();
        self.deflate(plain, true, out)?;
        if let Some(shared) = &self.shared {
            shared.pieces.put(plain, out.get(start..).unwrap_or_default());
        }
        Ok(())
    }
}

/// Appends `text`, Huffman-coded if that makes it shorter, to a stream that is at an octet boundary.
fn put_letters(text: &[u8], out: &mut Vec<u8>) {
    if text.len() >= LETTERS_BYTES_MIN && letters::is_worth_it(text) {
        letters::put(text, out);
    } else {
        put_stored(text, out);
    }
}

/// Appends a stored block (RFC 1951 section 3.2.4) to a stream that is at an octet boundary.
fn put_stored(plain: &[u8], out: &mut Vec<u8>) {
    let Some(len) = u16::try_from(plain.len()).ok().filter(|len| *len > 0) else { return };
    out.push(0);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(plain);
}

/// The decompressing direction of a connection.
pub struct Inflater {
    decompress: Box<Decompress>,
    free_bytes: u64,
    /// True if the last call filled its room, so that there may be more output without more input.
    has_more: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Inflater {
    fn new(free_bytes: u64, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { decompress: Box::new(Decompress::new(false)), free_bytes, has_more: false, _permit: permit }
    }

    /// Returns whether there may be more output without more input.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Decodes into the spare capacity of `out`; returns the number of bytes of `input` consumed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a damaged stream, for one that ends (in RFC 8054 it ends only with
    /// the connection), and for one that expands beyond the limit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{deflate_in_pieces, inflate_in_pieces};

    #[test]
    fn stream_sent_in_pieces_is_read_in_pieces() {
        let text: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7 * 31).to_le_bytes()).collect();
        for (piece, forget) in [(1000, false), (1000, true), (70_000, true), (1 << 20, false)] {
            let stream = deflate_in_pieces(&text, piece, forget);
            for (arriving, room) in [(1 << 20, 1 << 20), (1, 4096), (1500, 7), (16_384, 16_384)] {
                let read = inflate_in_pieces(&stream, arriving, room, 0);
                assert!(read == Ok(text.clone()), "{piece} {forget} {arriving} {room}");
            }
        }
    }

    #[test]
    fn decompression_bomb_is_detected_early() {
        let stream = deflate_in_pieces(&vec![0; 256 << 20], 1 << 20, false);
        assert!(stream.len() < 1 << 20, "{}", stream.len());
        let free_bytes = 4 << 20;
        let got = inflate_in_pieces(&stream, 16 << 10, 16 << 10, free_bytes).unwrap_err();
        assert!(got as u64 <= free_bytes + EXPANSION_MAX * 64 * 1024, "{got}");
    }

    #[test]
    fn highly_compressible_article_is_no_bomb() {
        let article = vec![b'x'; 1 << 20];
        let stream = deflate_in_pieces(&article, 1 << 20, false);
        assert!(stream.len() as u64 * EXPANSION_MAX < article.len() as u64);
        assert_eq!(inflate_in_pieces(&stream, 1400, 16 << 10, 1 << 20), Ok(article));
    }

    /// Several connections, in any order, with and without flushes.
    #[test]
    fn pieces_fit_into_any_stream() {
        let compressed = CompressionPermits::default();
        let mut all: Vec<_> =
            (0..3).map(|_| (compressed.begin(0).unwrap().0, Vec::new(), Vec::new())).collect();
        let text = |n: usize, bytes: usize| -> Vec<u8> {
            (0..)
                .flat_map(|word: usize| format!("{} ", (word * word + n) % 97).into_bytes())
                .take(bytes)
                .collect()
        };
        let mut seed = 1u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..3000 {
            let (deflating, plain, stream) = &mut all[random(3)];
            let flush = random(3) == 0;
            if !deflating.is_pending {
                deflating.is_hurried = random(4) == 0;
            }
            if random(2) == 0 {
                let n = random(12);
                let piece = text(n, 100 + n * 700);
                plain.extend_from_slice(&piece);
                deflating.deflate_piece(&piece, flush, stream).unwrap();
            } else {
                let other = text(random(1000), [0, 1, 60, 1024, 1025, 5000][random(6)]);
                plain.extend_from_slice(&other);
                deflating.deflate(&other, flush, stream).unwrap();
            }
            if flush && random(5) == 0 {
                deflating.drop_compressor();
            }
        }
        for (mut deflating, plain, mut stream) in all {
            deflating.is_hurried = false;
            deflating.deflate(&[], true, &mut stream).unwrap();
            assert!(inflate_in_pieces(&stream, 1500, 4096, 0) == Ok(plain.clone()));
            assert!(stream.len() * 2 < plain.len(), "{} of {}", stream.len(), plain.len());
        }
    }

    #[test]
    fn popular_pieces_are_compressed_once() {
        let compressed = CompressionPermits::default();
        let article: Vec<u8> = (0..500).flat_map(|n| format!("line {n}\r\n").into_bytes()).collect();
        let streams: Vec<Vec<u8>> = (0..4)
            .map(|_| {
                let (mut deflating, _) = compressed.begin(0).unwrap();
                let mut stream = Vec::new();
                deflating.deflate(b"220 1 <a@b.example>\r\n", false, &mut stream).unwrap();
                deflating.deflate_piece(&article, true, &mut stream).unwrap();
                stream
            })
            .collect();
        assert!(streams.iter().all(|s| inflate_in_pieces(s, 100, 100, 0).unwrap().ends_with(&article)));
        // From the second client on, all receive the same octets.
        let tail = |n: usize| &streams[n][streams[n].len() - 600..];
        assert!(tail(1) == tail(2) && tail(2) == tail(3));
        compressed.forget(Duration::from_secs(3600));
    }

    #[test]
    fn compression_is_reduced_if_the_processor_is_the_bottleneck() {
        let compressed = CompressionPermits::default();
        let mut deflating = compressed.begin(0).unwrap().0;
        let (text, noise) = ("Most of what people write is letters.\r\n".repeat(60), [0xe5u8; 2000]);
        let (mut plain, mut stream) = (Vec::new(), Vec::new());
        for is_hurried in [false, true, true, false] {
            deflating.is_hurried = is_hurried;
            let before = stream.len();
            for part in [text.as_bytes(), &noise, b".\r\n"] {
                plain.extend_from_slice(part);
                deflating.deflate(part, true, &mut stream).unwrap();
            }
            // The stream has 2,340 bytes of text and 2,000 that Huffman coding does not shorten.
            let made = stream.len() - before;
            assert!(if is_hurried { (3000..4000).contains(&made) } else { made < 300 }, "{made}");
        }
        assert!(inflate_in_pieces(&stream, 1500, 4096, 0) == Ok(plain));
    }

    #[test]
    fn compressors_beyond_those_kept_are_dropped_between_answers() {
        let compressed = CompressionPermits::default();
        let mut all: Vec<_> = (0..KEPT_COMPRESSORS_MAX + 1).map(|_| compressed.begin(0).unwrap().0).collect();
        let mut out = Vec::new();
        for deflating in &mut all {
            deflating.deflate(b"text", true, &mut out).unwrap();
            deflating.park();
        }
        assert_eq!(all.iter().filter(|deflating| deflating.has_compressor()).count(), KEPT_COMPRESSORS_MAX);
        all[0].drop_compressor();
        let last = all.last_mut().unwrap();
        last.deflate(b"text", true, &mut out).unwrap();
        last.park();
        assert!(last.has_compressor());
    }

    #[test]
    fn connections_are_counted() {
        let compressed = CompressionPermits::default();
        let all: Vec<_> = (0..COMPRESSED_CONNECTIONS_MAX).map(|_| compressed.begin(0).unwrap()).collect();
        assert!(compressed.begin(0).is_none());
        drop(all);
        assert!(compressed.begin(0).is_some());
    }
}
