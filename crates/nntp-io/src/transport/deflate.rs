//! COMPRESS DEFLATE: raw deflate streams both ways, within limits.
//!
//! What is sent ends in a sync flush, so that the other side can decode all of it. After a flush a
//! compressor may be dropped: a new one refers to nothing sent before, and its blocks continue the same
//! stream. So do those of an article that was compressed apart for another client ([`super::pieces`]). While
//! the machine is busy, and the line of a client is not what it waits for, text is coded by its letters alone
//! ([`super::letters`]). What arrives is decoded only into room that the reader has, and a stream that is
//! nothing but expansion is an error. Called by `Layered` and, through `fuzzing`, by the fuzz target
//! `compress_stream`. Sources: RFC 8054, RFC 1951.

use super::letters;
use super::load::{Line, Load};
use super::pieces::{Asked, Pieces};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections that may be compressed at once: each holds about 45 KB for decoding.
pub const COMPRESSED_CONNECTIONS_MAX: usize = 4096;
/// Compressors that may be kept between answers: each holds about 300 KB. Without one, an answer cannot
/// refer to what was sent before it.
const KEPT_COMPRESSORS_MAX: usize = 256;
/// The compression level. On articles level 2 packs 2.4 to 1 in 17 us each, level 3 2.5 to 1 in 25, level 1
/// 1.8 to 1 in 10.
const LEVEL: u32 = 2;
/// Bytes of output that one byte of input may decode to, on average. Deflate's maximum is 1,032; commands
/// and articles stay below 50.
const EXPANSION_MAX: u64 = 256;
/// Room for the compressor's output at a time, in bytes.
const PIECE_BYTES: usize = 16 << 10;
/// Between pieces that are sent as they were compressed before, shorter text is sent as it is: a compressor
/// would have to be made ready for it, and would find little.
const STORED_BYTES_MAX: usize = 1024;
/// Shorter text is not coded by its letters, but sent as it is: the code would take more than it saves.
const LETTERS_BYTES_MIN: usize = 256;
/// Longer text is coded in parts, each of which may be text or not.
const LETTERS_BYTES_MAX: usize = 16 << 10;

/// The permits for compressed connections that one process serves or makes.
#[derive(Debug, Clone)]
pub struct Compressed {
    connections: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    shared: Arc<Shared>,
}

/// What all compressed connections that one process serves have in common.
#[derive(Debug, Default)]
struct Shared {
    pieces: Pieces,
    load: Load,
}

impl Default for Compressed {
    fn default() -> Self {
        Self {
            connections: Arc::new(Semaphore::new(COMPRESSED_CONNECTIONS_MAX)),
            kept: Arc::new(Semaphore::new(KEPT_COMPRESSORS_MAX)),
            shared: Arc::default(),
        }
    }
}

impl Compressed {
    /// Compressed connections open now.
    pub fn connections(&self) -> usize {
        COMPRESSED_CONNECTIONS_MAX.saturating_sub(self.connections.available_permits())
    }

    /// Both directions of a new compressed connection; `None` if there are too many. `free_bytes` is how
    /// much may be decoded before the ratio counts: the largest article.
    pub fn begin(&self, free_bytes: u64) -> Option<(Deflating, Inflating)> {
        let permit = self.connections.clone().try_acquire_owned().ok()?;
        let deflating = Deflating { shared: Some(self.shared.clone()), ..Deflating::new(self.kept.clone()) };
        Some((deflating, Inflating::new(free_bytes, Some(permit))))
    }

    /// Frees what is kept of compressed articles that were not sent for so long.
    pub fn forget(&self, unused: Duration) {
        self.shared.pieces.forget(unused);
    }

    /// Both directions of a connection that counts against no limit: one that we make ourselves.
    pub(crate) fn one(free_bytes: u64) -> (Deflating, Inflating) {
        (Deflating::new(Arc::new(Semaphore::new(1))), Inflating::new(free_bytes, None))
    }
}

/// The compressing direction of a connection.
pub struct Deflating {
    /// Created when something is sent.
    compress: Option<Box<Compress>>,
    /// The permission to keep it between answers.
    permit: Option<OwnedSemaphorePermit>,
    kept: Arc<Semaphore>,
    /// None for a connection that we make ourselves.
    shared: Option<Arc<Shared>>,
    line: Line,
    /// What is sent now is coded by its letters alone.
    is_hurried: bool,
    /// The compressor holds something back.
    is_pending: bool,
    /// What was sent last did not come from the compressor, which must not refer to what it knows.
    is_apart: bool,
}

impl Deflating {
    fn new(kept: Arc<Semaphore>) -> Self {
        Self {
            compress: None,
            permit: None,
            kept,
            shared: None,
            line: Line::default(),
            is_hurried: false,
            is_pending: false,
            is_apart: false,
        }
    }

    /// Whether it holds memory that [`Deflating::drop_compressor`] frees.
    pub fn has_compressor(&self) -> bool {
        self.compress.is_some()
    }

    /// Forgets what was sent. Only after a flush.
    pub fn drop_compressor(&mut self) {
        self.compress = None;
        self.permit = None;
    }

    /// Between two answers: keeps the compressor if one more may be kept. Only after a flush.
    pub fn park(&mut self) {
        if self.compress.is_some() && self.permit.is_none() {
            self.permit = self.kept.clone().try_acquire_owned().ok();
            if self.permit.is_none() {
                self.compress = None;
            }
        }
    }

    /// Before an answer, after the flush of the last one: decides whether processor time or the client's
    /// line is what lacks. Returns whether it is the former.
    pub(super) fn choose(&mut self, now: Instant) -> bool {
        let load = self.shared.as_ref().map(|shared| &shared.load);
        self.is_hurried = self.line.is_fast(now) && load.is_some_and(|load| load.is_busy(now));
        self.is_hurried
    }

    /// So much was sent of what this made.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.line.sent(bytes);
    }

    /// Appends `plain`, compressed, to `out`; with `flush` also everything held back.
    ///
    /// # Errors
    /// None that input can cause; zlib's own.
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
            // Spare room means that everything is out.
            if plain.is_empty() && (out.len() < out.capacity() || status == Status::BufError) {
                return Ok(());
            }
        }
    }
}

impl Deflating {
    /// As [`Deflating::deflate`], of a piece that other clients may be sent, too. If it was sent before, it
    /// is compressed apart from all else, once for all of them.
    ///
    /// # Errors
    /// As [`Deflating::deflate`].
    pub fn deflate_piece(&mut self, plain: &[u8], flush: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let asked = self.shared.as_ref().map_or(Asked::Unknown, |shared| shared.pieces.ask(plain));
        if matches!(asked, Asked::Unknown) {
            return self.deflate(plain, flush, out);
        }
        if self.is_pending {
            self.deflate(&[], true, out)?;
        }
        if let Asked::Found(packed) = asked {
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

/// Appends `text`, coded by its letters if that makes it shorter, to a stream that has come to the end of an
/// octet.
fn put_letters(text: &[u8], out: &mut Vec<u8>) {
    if text.len() >= LETTERS_BYTES_MIN && letters::is_worth_it(text) {
        letters::put(text, out);
    } else {
        put_stored(text, out);
    }
}

/// Appends a stored block (RFC 1951 section 3.2.4) to a stream that has come to the end of an octet.
fn put_stored(plain: &[u8], out: &mut Vec<u8>) {
    let Some(len) = u16::try_from(plain.len()).ok().filter(|len| *len > 0) else { return };
    out.push(0);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(plain);
}

/// The decompressing direction of a connection.
pub struct Inflating {
    decompress: Box<Decompress>,
    free_bytes: u64,
    /// The last call filled its room, so there may be more output without more input.
    has_more: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Inflating {
    fn new(free_bytes: u64, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { decompress: Box::new(Decompress::new(false)), free_bytes, has_more: false, _permit: permit }
    }

    /// Whether there may be more output without more input.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Decodes into the spare capacity of `out`; returns how much of `input` was consumed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] for a damaged stream, for one that ends (RFC 8054 knows no end but the
    /// connection's), and for one that expands beyond what is allowed.
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
    fn what_is_sent_in_pieces_is_read_in_pieces() {
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
    fn a_bomb_is_found_before_it_has_grown() {
        let stream = deflate_in_pieces(&vec![0; 256 << 20], 1 << 20, false);
        assert!(stream.len() < 1 << 20, "{}", stream.len());
        let free_bytes = 4 << 20;
        let got = inflate_in_pieces(&stream, 16 << 10, 16 << 10, free_bytes).unwrap_err();
        assert!(got as u64 <= free_bytes + EXPANSION_MAX * 64 * 1024, "{got}");
    }

    #[test]
    fn an_article_that_packs_well_is_no_bomb() {
        let article = vec![b'x'; 1 << 20];
        let stream = deflate_in_pieces(&article, 1 << 20, false);
        assert!(stream.len() as u64 * EXPANSION_MAX < article.len() as u64);
        assert_eq!(inflate_in_pieces(&stream, 1400, 16 << 10, 1 << 20), Ok(article));
    }

    /// On several connections, in any order, with flushes and without.
    #[test]
    fn pieces_fit_between_whatever_else_is_sent() {
        let compressed = Compressed::default();
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
    fn what_many_read_is_compressed_once() {
        let compressed = Compressed::default();
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
        // From the second one on it is the same octets, whoever is sent them.
        let tail = |n: usize| &streams[n][streams[n].len() - 600..];
        assert!(tail(1) == tail(2) && tail(2) == tail(3));
        compressed.forget(Duration::from_secs(3600));
    }

    #[test]
    fn who_waits_for_the_processor_gets_less_compression() {
        let compressed = Compressed::default();
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
            // 2,340 bytes of text and 2,000 that are not shorter by their letters.
            let made = stream.len() - before;
            assert!(if is_hurried { (3000..4000).contains(&made) } else { made < 300 }, "{made}");
        }
        assert!(inflate_in_pieces(&stream, 1500, 4096, 0) == Ok(plain));
    }

    #[test]
    fn compressors_beyond_those_kept_are_dropped_between_answers() {
        let compressed = Compressed::default();
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
        let compressed = Compressed::default();
        let all: Vec<_> = (0..COMPRESSED_CONNECTIONS_MAX).map(|_| compressed.begin(0).unwrap()).collect();
        assert!(compressed.begin(0).is_none());
        drop(all);
        assert!(compressed.begin(0).is_some());
    }
}
