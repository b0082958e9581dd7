//! A connection with TLS, compression or both.
//!
//! Input is decrypted, then decompressed, and only as far as the reader has room: the rest waits in
//! `pending`. Output is compressed, then encrypted, piece by piece. Invariant: there are no buffers without
//! bytes in transit. Called by `Transport`.

use super::deflate::{Deflater, Inflater};
use super::socket::Socket;
use super::tls_layer::{TlsLayer, TlsProgress};
use crate::pool;
use rustls::CommonState;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Size of text that is encrypted at a time, in bytes: three full records.
const PIECE_BYTES: usize = 48 << 10;

/// A connection with layers.
pub struct LayeredStream {
    socket: Socket,
    tls: Option<TlsLayer>,
    deflate: Option<(Deflater, Inflater)>,
    /// Input from TLS, or from the socket without it, that is not delivered yet; from `at` on.
    pending: Vec<u8>,
    at: usize,
    /// True if the last read ended for lack of room, so that there may be more without the socket.
    has_more: bool,
    ended: bool,
}

impl LayeredStream {
    /// Creates a connection; `tls` comes with the data that the other side sent right after the handshake.
    pub(super) fn new(socket: Socket, tls: Option<(TlsLayer, Vec<u8>)>) -> Self {
        let (tls, pending) = tls.unzip();
        let pending = pending.unwrap_or_default();
        Self { socket, tls, deflate: None, pending, at: 0, has_more: false, ended: false }
    }

    pub(super) fn compress(&mut self, deflating: Deflater, inflating: Inflater) {
        self.deflate = Some((deflating, inflating));
    }

    pub(super) fn tls(&self) -> Option<&CommonState> {
        self.tls.as_ref().map(TlsLayer::state)
    }

    pub(super) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(super) fn has_compressor(&self) -> bool {
        self.deflate.as_ref().is_some_and(|(deflating, _)| deflating.has_compressor())
    }

    pub(super) fn drop_compressor(&mut self) {
        if let Some((deflating, _)) = &mut self.deflate {
            deflating.drop_compressor();
        }
    }

    /// Returns whether a read would return something without the socket.
    fn holds_input(&self) -> bool {
        self.has_more || self.ended || self.at < self.pending.len()
    }

    /// Returns whether there is something to read, if the socket was deregistered.
    pub(super) fn has_input(&self) -> bool {
        self.holds_input() || self.socket.has_input()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.socket.is_broken()
    }

    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds_input() { Poll::Ready(Ok(())) } else { self.socket.poll_readable(cx) }
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let before = target.len();
        loop {
            self.deliver(target)?;
            let read = target.len() - before;
            if read > 0 || self.ended {
                return Poll::Ready(Ok(read));
            }
            let Self { socket, tls, deflate, pending, .. } = self;
            let Some(tls) = tls else {
                if pending.capacity() == 0 {
                    *pending = pool::take();
                }
                self.ended = ready!(socket.poll_read(cx, pending))? == 0;
                continue;
            };
            if ready!(socket.poll_read(cx, tls.room()?))? == 0 {
                self.ended = true;
                continue;
            }
            let direct = deflate.is_none();
            let progress = tls.advance(&mut |plain| {
                if direct && pending.is_empty() && plain.len() <= target.capacity() - target.len() {
                    target.extend_from_slice(plain);
                } else {
                    keep(pending, plain);
                }
            });
            self.ended = progress? == TlsProgress::End;
        }
    }

    /// Moves pending input to `target`, as far as there is room.
    fn deliver(&mut self, target: &mut Vec<u8>) -> io::Result<()> {
        let Self { pending, at, deflate, .. } = self;
        self.has_more = false;
        match deflate {
            None => {
                let rest = pending.get(*at..).unwrap_or_default();
                let fits = rest.get(..target.capacity() - target.len()).unwrap_or(rest);
                target.extend_from_slice(fits);
                *at += fits.len();
            }
            Some((_, inflating)) => loop {
                let rest = pending.get(*at..).unwrap_or_default();
                if rest.is_empty() && !inflating.has_more() {
                    break;
                }
                let before = target.len();
                let taken = inflating.inflate(rest, target)?;
                *at += taken;
                if target.len() == target.capacity() {
                    self.has_more = inflating.has_more();
                    break;
                }
                if taken == 0 && target.len() == before {
                    break;
                }
            },
        }
        if *at >= pending.len() {
            pending.clear();
            *at = 0;
        }
        Ok(())
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.deflate.is_some()
    }

    pub(super) async fn write(
        &mut self,
        parts: [&[u8]; 3],
        pieces: &[Range<usize>],
        write_timeout: Duration,
    ) -> io::Result<()> {
        if self.deflate.is_none() {
            for part in parts {
                self.send(part, write_timeout).await?;
            }
            return Ok(());
        }
        let is_hurried = self.deflate.as_mut().is_some_and(|(deflating, _)| deflating.choose(Instant::now()));
        let all = cut(parts, if is_hurried { &[] } else { pieces });
        let mut packed = pool::take();
        for (number, (part, is_piece)) in all.iter().enumerate() {
            let flush = number + 1 == all.len();
            if let Some((deflating, _)) = &mut self.deflate {
                match *is_piece {
                    true => deflating.deflate_piece(part, flush, &mut packed)?,
                    false => deflating.deflate(part, flush, &mut packed)?,
                }
            }
            if flush || packed.len() >= PIECE_BYTES {
                self.send(&packed, write_timeout).await?;
                if let Some((deflating, _)) = &mut self.deflate {
                    deflating.sent(packed.len());
                }
                packed.clear();
            }
        }
        pool::give(packed);
        Ok(())
    }

    /// Sends `bytes` below compression.
    async fn send(&mut self, bytes: &[u8], write_timeout: Duration) -> io::Result<()> {
        let Self { socket, tls, pending, .. } = self;
        let Some(tls) = tls else {
            return socket.write([bytes, &[], &[]], write_timeout).await;
        };
        for piece in bytes.chunks(PIECE_BYTES) {
            tls.encrypt(piece, &mut |plain| keep(pending, plain))?;
            socket.write([tls.outgoing.as_slice(), &[], &[]], write_timeout).await?;
            tls.outgoing.clear();
        }
        Ok(())
    }

    /// Appends `plain`, compressed and encrypted, to `wire`; with `flush` also what compression has held
    /// back.
    pub(super) fn seal(&mut self, plain: &[u8], flush: bool, wire: &mut Vec<u8>) -> io::Result<()> {
        let Self { tls, deflate, pending, .. } = self;
        let Some(tls) = tls else {
            return match deflate {
                Some((deflating, _)) => deflating.deflate(plain, flush, wire),
                None => {
                    wire.extend_from_slice(plain);
                    Ok(())
                }
            };
        };
        let mut packed = Vec::new();
        let text = match deflate {
            Some((deflating, _)) => {
                packed = pool::take();
                deflating.deflate(plain, flush, &mut packed)?;
                packed.as_slice()
            }
            None => plain,
        };
        for piece in text.chunks(PIECE_BYTES) {
            tls.encrypt(piece, &mut |plain| keep(pending, plain))?;
        }
        wire.append(&mut tls.outgoing);
        if packed.capacity() > 0 {
            pool::give(packed);
        }
        Ok(())
    }

    /// Sends TLS's close_notify.
    pub(super) async fn close(&mut self, write_timeout: Duration) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.close()?;
            self.socket.write([tls.outgoing.as_slice(), &[], &[]], write_timeout).await?;
            tls.outgoing.clear();
        }
        Ok(())
    }

    pub(super) async fn shutdown(&mut self, write_timeout: Duration) -> io::Result<()> {
        self.close(write_timeout).await?;
        self.socket.shutdown().await
    }

    pub(super) fn release(&mut self) {
        if self.pending.is_empty() && self.pending.capacity() > 0 {
            pool::give(std::mem::take(&mut self.pending));
        }
        if let Some((deflating, _)) = &mut self.deflate {
            deflating.park();
        }
        if let Some(tls) = &mut self.tls {
            tls.release();
        }
    }
}

/// Cuts text at the given pieces of its first part, into parts that are neither long nor empty; the flag is
/// true for a piece.
fn cut<'t>(parts: [&'t [u8]; 3], pieces: &[Range<usize>]) -> Vec<(&'t [u8], bool)> {
    let [text, rest @ ..] = parts;
    let mut all = Vec::with_capacity(2 * pieces.len() + parts.len());
    let put = |part: &'t [u8], all: &mut Vec<_>| {
        all.extend(part.chunks(PIECE_BYTES).map(|part| (part, false)));
    };
    let mut at = 0;
    for piece in pieces {
        put(text.get(at..piece.start).unwrap_or_default(), &mut all);
        all.extend(text.get(piece.clone()).filter(|piece| !piece.is_empty()).map(|piece| (piece, true)));
        at = piece.end;
    }
    put(text.get(at..).unwrap_or_default(), &mut all);
    rest.into_iter().for_each(|part| put(part, &mut all));
    all
}

fn keep(pending: &mut Vec<u8>, plain: &[u8]) {
    if pending.capacity() == 0 {
        *pending = pool::take();
    }
    pending.extend_from_slice(plain);
}
