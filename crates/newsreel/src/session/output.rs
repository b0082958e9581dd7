//! The way to the client: answers are gathered and go out in as few writes as possible.
//!
//! Commands append to [`Output::text`]; the session flushes after each round. Whoever makes long answers calls
//! [`Output::relieve`] in between, which waits until the client has taken what is too much to keep. Large things that lie
//! in memory already go out behind the gathered text without being copied ([`Output::send`]).

use super::pool;
use std::io::{self, IoSlice};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// Above so many gathered bytes they are sent before more is made.
pub(crate) const GATHERED_BYTES_MAX: usize = 256 << 10;
/// From this size on a thing is sent without being copied, in bytes.
const UNCOPIED_BYTES_MIN: usize = 64 << 10;

/// The way to the client.
pub(crate) struct Output {
    stream: OwnedWriteHalf,
    text: Vec<u8>,
    write_timeout: Duration,
}

impl Output {
    pub(super) fn new(stream: OwnedWriteHalf, write_timeout: Duration) -> Self {
        Self { stream, text: Vec::new(), write_timeout }
    }

    /// The text gathered so far, to append to.
    #[inline]
    pub fn text(&mut self) -> &mut Vec<u8> {
        if self.text.capacity() == 0 {
            self.text = pool::take();
        }
        &mut self.text
    }

    /// Sends what is gathered if it is much.
    #[inline]
    pub async fn relieve(&mut self) -> io::Result<()> {
        if self.text.len() < GATHERED_BYTES_MAX { Ok(()) } else { self.flush().await }
    }

    /// Sends what is gathered.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.send_behind(&[], &[]).await
    }

    /// Sends `bytes` and `tail` behind what is gathered; if they are few they are gathered too.
    pub async fn send(&mut self, bytes: &[u8], tail: &[u8]) -> io::Result<()> {
        if bytes.len() < UNCOPIED_BYTES_MIN {
            let text = self.text();
            text.extend_from_slice(bytes);
            text.extend_from_slice(tail);
            return self.relieve().await;
        }
        self.send_behind(bytes, tail).await
    }

    /// Ends our side of the connection.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Gives the buffer back; to be called when there is nothing in it and nothing to do.
    pub(super) fn release(&mut self) {
        if self.text.is_empty() && self.text.capacity() > 0 {
            pool::give(std::mem::take(&mut self.text));
        }
    }

    async fn send_behind(&mut self, bytes: &[u8], tail: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.text.len() + bytes.len() + tail.len() {
            let mut skip = sent;
            let parts = [&self.text, bytes, tail].map(|part| {
                let skipped = skip.min(part.len());
                skip -= skipped;
                part.get(skipped..).unwrap_or_default()
            });
            let result = match parts {
                [text, [], []] => self.stream.try_write(text),
                parts => self.stream.try_write_vectored(&parts.map(IoSlice::new)),
            };
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let writable = self.stream.ready(Interest::WRITABLE);
                    timeout(self.write_timeout, writable).await.map_err(|_| io::ErrorKind::TimedOut)??;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.text.clear();
        if self.text.capacity() > 2 * GATHERED_BYTES_MAX {
            self.text = Vec::new();
        }
        Ok(())
    }
}
