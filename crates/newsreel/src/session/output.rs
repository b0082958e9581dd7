//! The way to the client, and the stream both ways: answers are gathered and go out in as few writes as possible.
//!
//! Commands append to [`Output::text`]; the session flushes after each round. Whoever makes long answers calls
//! [`Output::relieve`] in between, which waits until the client has taken what is too much to keep. Large things that lie
//! in memory already go out behind the gathered text without being copied ([`Output::send`]).

use super::pool;
use super::transport::Transport;
use crate::access::limits::Flow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Above so many gathered bytes they are sent before more is made.
pub(crate) const GATHERED_BYTES_MAX: usize = 256 << 10;
/// From this size on a thing is sent without being copied, in bytes.
const UNCOPIED_BYTES_MIN: usize = 64 << 10;

/// The way to the client.
pub(crate) struct Output {
    transport: Transport,
    text: Vec<u8>,
    write_timeout: Duration,
    /// What it is paced by, if by anything.
    flow: Option<Arc<Flow>>,
}

impl Output {
    pub(super) fn new(transport: Transport, write_timeout: Duration) -> Self {
        Self { transport, text: Vec::new(), write_timeout, flow: None }
    }

    /// Another time that a client may take nothing of its answer.
    pub(super) fn set_write_timeout(&mut self, write_timeout: Duration) {
        self.write_timeout = write_timeout;
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

    /// Sends what is gathered if the socket takes it at once, and keeps it otherwise.
    pub(super) fn try_flush(&mut self) {
        let sent = self.transport.try_write(&self.text);
        self.text.drain(..sent);
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

    /// Says that nothing more is sent, where that is said in words; the connection ends when it is dropped.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.transport.close(self.write_timeout).await
    }

    /// From now on no faster than this allows.
    pub(super) fn set_flow(&mut self, flow: Option<Arc<Flow>>) {
        self.flow = flow;
    }

    /// Ends our side of the connection.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        self.transport.shutdown(self.write_timeout).await
    }

    /// The stream, which is also what is read from.
    pub(super) fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Gives the buffers back; to be called when there is nothing in them and nothing to do.
    pub(super) fn release(&mut self) {
        self.transport.release();
        if self.text.is_empty() && self.text.capacity() > 0 {
            pool::give(std::mem::take(&mut self.text));
        }
    }

    async fn send_behind(&mut self, bytes: &[u8], tail: &[u8]) -> io::Result<()> {
        let parts = [&self.text, bytes, tail];
        match &self.flow {
            None => self.transport.write(parts, self.write_timeout).await?,
            Some(flow) => {
                let all: usize = parts.iter().map(|part| part.len()).sum();
                let mut sent = 0;
                while sent < all {
                    let now = flow.allowance(all - sent).await;
                    self.transport.write(portion(parts, sent, now), self.write_timeout).await?;
                    flow.sent(now);
                    sent += now;
                }
            }
        }
        self.text.clear();
        if self.text.capacity() > 2 * GATHERED_BYTES_MAX {
            self.text = Vec::new();
        }
        Ok(())
    }
}

/// Of `parts`, one behind the other, the `len` bytes that start at `from`.
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
