//! A server's output to one client, and with it the stream in both directions: answers are gathered and sent
//! in as few writes as possible.
//!
//! Commands append to [`ServerOutput::text`]; the session flushes after each round. Code that produces long
//! answers calls [`ServerOutput::relieve`] in between, which waits until the client has read enough, and now
//! and then lets other connections go first. Large pieces that are in memory already are sent after the
//! gathered text without being copied ([`ServerOutput::send`]).

use crate::pool;
use crate::rate::Bandwidth;
use crate::slice::TimeSlice;
use crate::transport::{PIECE_BYTES_MIN, Transport};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of gathered bytes above which they are sent before more is produced.
pub const GATHERED_BYTES_MAX: usize = 256 << 10;
/// Minimum size of a piece that is sent without being copied, in bytes.
const UNCOPIED_BYTES_MIN: usize = 64 << 10;
/// Number of calls of [`ServerOutput::relieve`] per reading of the clock.
const CALLS_PER_PAUSE: u8 = 16;

/// A server's output to one client.
pub struct ServerOutput {
    transport: Transport,
    text: Vec<u8>,
    /// Ranges of the text that may be sent to other clients too, if it is compressed.
    pieces: Vec<Range<usize>>,
    write_timeout: Duration,
    /// Limit shared with other connections, if there is one.
    bandwidth: Option<Arc<Bandwidth>>,
    slice: TimeSlice,
    calls: u8,
}

impl ServerOutput {
    /// Creates the output of a connection over `transport`. If a client reads nothing of an answer for
    /// `write_timeout`, the write fails with [`io::ErrorKind::TimedOut`].
    pub fn new(transport: Transport, write_timeout: Duration) -> Self {
        let slice = TimeSlice::default();
        let (text, pieces) = Default::default();
        Self { transport, text, pieces, write_timeout, bandwidth: None, slice, calls: 0 }
    }

    /// Changes the maximum time for which a client may read nothing of an answer.
    pub fn set_write_timeout(&mut self, write_timeout: Duration) {
        self.write_timeout = write_timeout;
    }

    /// Returns the text gathered so far, to append to.
    #[inline]
    pub fn text(&mut self) -> &mut Vec<u8> {
        if self.text.capacity() == 0 {
            self.text = pool::take();
        }
        &mut self.text
    }

    /// Sends the gathered text if it is long. To be called after each small piece of work.
    #[inline]
    pub async fn relieve(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.calls == CALLS_PER_PAUSE {
            self.calls = 0;
            self.slice.pause().await;
        }
        self.drain().await
    }

    /// Like [`ServerOutput::relieve`], after a larger piece of work such as a block of an answer.
    pub async fn pause(&mut self) -> io::Result<()> {
        self.slice.pause().await;
        self.drain().await
    }

    async fn drain(&mut self) -> io::Result<()> {
        if self.text.len() < GATHERED_BYTES_MAX { Ok(()) } else { self.flush().await }
    }

    /// Sends the gathered text.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.send_after(&[], &[]).await
    }

    /// Sends the gathered text if the socket accepts it at once, and keeps it otherwise.
    pub fn try_flush(&mut self) {
        let sent = self.transport.try_write(&self.text);
        self.text.drain(..sent);
    }

    /// Sends `bytes` and `tail` after the gathered text; short ones are gathered too.
    pub async fn send(&mut self, bytes: &[u8], tail: &[u8]) -> io::Result<()> {
        if bytes.len() < UNCOPIED_BYTES_MIN {
            if bytes.len() >= PIECE_BYTES_MIN && self.transport.is_compressed() {
                let start = self.text.len();
                self.pieces.push(start..start + bytes.len());
            }
            let text = self.text();
            text.extend_from_slice(bytes);
            text.extend_from_slice(tail);
            return self.drain().await;
        }
        self.send_after(bytes, tail).await
    }

    /// Sends these parts after the gathered text, without copying them, of any length.
    pub async fn send_all(&mut self, parts: [&[u8]; 3]) -> io::Result<()> {
        self.flush().await?;
        self.write(parts).await
    }

    /// Announces the end of our side where the layers have a message for that (TLS: close_notify, RFC 8446
    /// section 6.1); the connection itself ends when this is dropped.
    pub async fn close(&mut self) -> io::Result<()> {
        self.transport.close(self.write_timeout).await
    }

    /// Limits the speed of sending from now on.
    pub fn set_bandwidth(&mut self, bandwidth: Option<Arc<Bandwidth>>) {
        self.bandwidth = bandwidth;
    }

    /// Ends our side of the connection.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.transport.shutdown(self.write_timeout).await
    }

    /// Returns the stream, which is also the source of input.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Returns empty buffers to the pool; to be called while the connection is idle.
    pub fn release(&mut self) {
        self.transport.release();
        if self.text.is_empty() && self.text.capacity() > 0 {
            pool::give(std::mem::take(&mut self.text));
        }
    }

    /// Sends `bytes` and `tail` after the gathered text.
    async fn send_after(&mut self, bytes: &[u8], tail: &[u8]) -> io::Result<()> {
        // Pieces only mark cuts in the text, so those beyond text that was removed since are dropped.
        self.pieces.retain(|piece| piece.end <= self.text.len());
        // After a failure the connection is of no more use, nor is the gathered text.
        let mut text = std::mem::take(&mut self.text);
        self.write([&text, bytes, tail]).await?;
        text.clear();
        self.pieces.clear();
        if text.capacity() <= 2 * GATHERED_BYTES_MAX {
            self.text = text;
        }
        Ok(())
    }

    /// Sends parts at the speed that the bandwidth allows.
    async fn write(&mut self, parts: [&[u8]; 3]) -> io::Result<()> {
        let Some(bandwidth) = &self.bandwidth else {
            return self.transport.write(parts, &self.pieces, self.write_timeout).await;
        };
        let all: usize = parts.iter().map(|part| part.len()).sum();
        let mut sent = 0;
        while sent < all {
            let now = bandwidth.allowance(all - sent).await;
            self.transport.write(portion(parts, sent, now), &[], self.write_timeout).await?;
            bandwidth.sent(now);
            sent += now;
        }
        Ok(())
    }
}

/// Returns the `len` bytes that start at `from` of `parts`, read as one sequence.
fn portion(parts: [&[u8]; 3], from: usize, len: usize) -> [&[u8]; 3] {
    let (mut skip, mut left) = (from, len);
    parts.map(|part| {
        let start = skip.min(part.len());
        skip -= start;
        let end = part.len().min(start + left);
        left -= end - start;
        part.get(start..end).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_of_parts() {
        let parts = [&b"abc"[..], b"de", b"fghi"];
        let mut all = Vec::new();
        for from in (0..9).step_by(2) {
            all.extend(portion(parts, from, 2).concat());
        }
        assert_eq!(all, b"abcdefghi");
        assert_eq!(portion(parts, 2, 4), [&b"c"[..], b"de", b"f"]);
        assert_eq!(portion(parts, 9, 4).concat(), b"");
    }
}
