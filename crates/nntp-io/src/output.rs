//! A server's output to one client, and with it the stream in both directions: answers are gathered and sent
//! in as few writes as possible.
//!
//! Commands append to [`ServerOutput::text`]; the session flushes after each round, and once a finished
//! answer has waited for others for some milliseconds ([`ServerOutput::finish_answer`]). Code that produces
//! long answers calls [`ServerOutput::relieve`] in between, which waits until the client has read enough, now
//! and then lets others go first, and fails once the connection is broken. Code that has found nothing
//! to send yet calls [`ServerOutput::search_on`] or waits with [`ServerOutput::during`]: the answer may still
//! be replaced, so only finished ones are sent. Large pieces that are in memory already are sent after the
//! gathered text without being copied ([`ServerOutput::send`]).

use crate::pool;
use crate::rate::Bandwidth;
use crate::slice::{SLICE, TimeSlice, coarse_now};
use crate::transport::{PIECE_BYTES_MIN, Transport};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::timeout;

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
    /// Time that writes of this round may still take in total, if that is limited.
    round_left: Option<Duration>,
    /// Limit shared with other connections, if there is one.
    bandwidth: Option<Arc<Bandwidth>>,
    slice: TimeSlice,
    calls: u8,
    /// Length of the text before the answer at hand.
    finished_bytes: usize,
    /// Whether part of the answer at hand was sent.
    is_begun: bool,
    /// Coarse time since which answers are gathered.
    gathering_since: Duration,
}

impl ServerOutput {
    /// Creates the output of a connection over `transport`. If a client reads nothing of an answer for
    /// `write_timeout`, the write fails with [`io::ErrorKind::TimedOut`].
    pub fn new(transport: Transport, write_timeout: Duration) -> Self {
        let slice = TimeSlice::default();
        let (text, pieces) = Default::default();
        Self {
            transport,
            text,
            pieces,
            write_timeout,
            round_left: None,
            bandwidth: None,
            slice,
            calls: 0,
            finished_bytes: 0,
            is_begun: false,
            gathering_since: coarse_now(),
        }
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

    /// Begins to gather answers: those of a round. If the session holds what others may need, the client has
    /// `limit` to take them, however steadily it reads; then a write fails with [`io::ErrorKind::TimedOut`].
    pub fn begin_round(&mut self, limit: Option<Duration>) {
        self.gathering_since = coarse_now();
        self.round_left = limit;
    }

    /// Begins an answer, which [`ServerOutput::replace_answer`] can take back as long as nothing of it is
    /// sent.
    pub fn begin_answer(&mut self) {
        (self.finished_bytes, self.is_begun) = (self.text.len(), false);
    }

    /// Removes the text of the answer at hand, as far as it is not sent.
    pub fn replace_answer(&mut self) -> &mut Vec<u8> {
        self.text.truncate(self.finished_bytes);
        self.text()
    }

    /// Returns whether part of the answer at hand was sent.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Returns the length of the answer at hand, as far as it is not sent.
    pub fn gathered_bytes(&self) -> usize {
        self.text.len().saturating_sub(self.finished_bytes)
    }

    /// Sends the gathered answers if they are long, or have been gathered for some time. To be called after
    /// each command.
    #[inline]
    pub async fn finish_answer(&mut self) -> io::Result<()> {
        if !self.text.is_empty() && coarse_now().saturating_sub(self.gathering_since) >= SLICE {
            self.flush().await?;
        }
        self.relieve().await
    }

    /// Sends the gathered text if it is long. To be called after each small piece of work.
    ///
    /// # Errors
    /// Errors of the transport, which may be broken although nothing was sent.
    #[inline]
    pub async fn relieve(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.calls == CALLS_PER_PAUSE {
            self.calls = 0;
            self.rest().await?;
        }
        self.drain().await
    }

    /// Like [`ServerOutput::relieve`], after a larger piece of work such as a block of an answer.
    ///
    /// # Errors
    /// Errors of [`ServerOutput::relieve`].
    pub async fn pause(&mut self) -> io::Result<()> {
        self.rest().await?;
        self.drain().await
    }

    /// Like [`ServerOutput::pause`], while the answer at hand may still be replaced.
    ///
    /// # Errors
    /// Errors of [`ServerOutput::relieve`].
    pub async fn search_on(&mut self) -> io::Result<()> {
        self.rest().await
    }

    /// Waits for `work`, while the answer at hand may still be replaced.
    ///
    /// # Errors
    /// Errors of [`ServerOutput::relieve`].
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = pin!(work);
        let mut is_first = true;
        loop {
            let polled = poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Pending if is_first => Poll::Ready(Poll::Pending),
                Poll::Pending if self.transport.is_broken() => Poll::Ready(Poll::Pending),
                Poll::Pending => Poll::Pending,
                ready => Poll::Ready(ready),
            });
            if let Poll::Ready(done) = polled.await {
                return Ok(done);
            }
            is_first = false;
            self.send_finished().await?;
        }
    }

    /// Lets other connections go first, if it is time. Then the client is looked after too.
    async fn rest(&mut self) -> io::Result<()> {
        if self.slice.pause().await { self.send_finished().await } else { Ok(()) }
    }

    /// Sends the finished answers; fails if the connection is broken.
    async fn send_finished(&mut self) -> io::Result<()> {
        if self.transport.is_broken() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.finished_bytes == 0 {
            return Ok(());
        }
        let rest = self.text.split_off(self.finished_bytes.min(self.text.len()));
        self.flush().await?;
        self.text().extend_from_slice(&rest);
        Ok(())
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
        self.finished_bytes = self.finished_bytes.saturating_sub(sent);
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
        self.is_begun = true;
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
        self.is_begun |= text.len() > self.finished_bytes || !bytes.is_empty();
        (self.finished_bytes, self.gathering_since) = (0, coarse_now());
        text.clear();
        self.pieces.clear();
        if text.capacity() <= 2 * GATHERED_BYTES_MAX {
            self.text = text;
        }
        Ok(())
    }

    /// Sends parts at the speed that the bandwidth allows.
    async fn write(&mut self, parts: [&[u8]; 3]) -> io::Result<()> {
        let Some(bandwidth) = self.bandwidth.clone() else {
            let pieces = std::mem::take(&mut self.pieces);
            let written = self.write_within(parts, &pieces).await;
            self.pieces = pieces;
            return written;
        };
        let all: usize = parts.iter().map(|part| part.len()).sum();
        let mut sent = 0;
        while sent < all {
            let now = bandwidth.allowance(all - sent).await;
            self.write_within(portion(parts, sent, now), &[]).await?;
            bandwidth.sent(now);
            sent += now;
        }
        Ok(())
    }

    /// Sends parts within what is left of the round's time.
    async fn write_within(&mut self, parts: [&[u8]; 3], pieces: &[Range<usize>]) -> io::Result<()> {
        let write = self.transport.write(parts, pieces, self.write_timeout);
        let Some(left) = &mut self.round_left else { return write.await };
        let begun = Instant::now();
        let written = timeout(*left, write).await;
        *left = left.saturating_sub(begun.elapsed());
        written.map_err(|_| io::ErrorKind::TimedOut)?
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
    use crate::transport::Socket;
    use rustix::net::sockopt::set_socket_linger;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (ServerOutput, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let transport = Transport::plain(Socket::new(listener.accept().await.unwrap().0));
        (ServerOutput::new(transport, Duration::from_secs(60)), client)
    }

    /// Waits for longer than finished answers wait.
    async fn some_time() {
        tokio::time::sleep(4 * SLICE).await;
    }

    async fn read(client: &mut TcpStream) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(64);
        timeout(Duration::from_secs(60), client.read_buf(&mut buffer)).await.unwrap().unwrap();
        buffer
    }

    #[tokio::test]
    async fn a_round_with_a_limit_ends_although_the_client_reads_steadily() {
        let (mut out, mut client) = pair().await;
        let reading = async {
            let mut some = [0; 1 << 10];
            while client.read_exact(&mut some).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        out.begin_round(Some(Duration::from_millis(200)));
        let text = vec![b'x'; 1 << 20];
        let writing = async {
            loop {
                out.send(&text, b"").await?;
            }
        };
        let ended: io::Result<()> = tokio::select! {
            ended = timeout(Duration::from_secs(60), writing) => ended.unwrap(),
            () = reading => panic!("the connection ended"),
        };
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// Work that never ends and lets others run.
    async fn endless() {
        loop {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn answers_are_gathered_for_some_milliseconds_only() {
        let (mut out, mut client) = pair().await;
        out.begin_round(None);
        for answer in [b"1\r\n", b"2\r\n"] {
            out.begin_answer();
            out.text().extend_from_slice(answer);
            some_time().await;
            out.finish_answer().await.unwrap();
            assert_eq!(read(&mut client).await, answer);
        }
    }

    #[tokio::test]
    async fn finished_answers_leave_while_the_next_may_still_be_replaced() {
        let (mut out, mut client) = pair().await;
        out.begin_round(None);
        out.begin_answer();
        out.text().extend_from_slice(b"211\r\n");
        out.begin_answer();
        out.text().extend_from_slice(b"221\r\n");
        some_time().await;
        out.search_on().await.unwrap();
        assert_eq!(read(&mut client).await, b"211\r\n");
        assert!(!out.is_begun() && out.gathered_bytes() == 5);
        out.replace_answer().extend_from_slice(b"423\r\n");
        out.begin_answer();
        out.text().extend_from_slice(b"221\r\n");
        let _endless = timeout(4 * SLICE, out.during(endless())).await.unwrap_err();
        assert_eq!(read(&mut client).await, b"423\r\n");
        out.flush().await.unwrap();
        assert!(out.is_begun());
        assert_eq!(read(&mut client).await, b"221\r\n");
    }

    #[tokio::test]
    async fn work_ends_with_its_client_but_not_with_the_end_of_its_commands() {
        for waits in [false, true] {
            let (mut out, mut client) = pair().await;
            client.write_all(b"XPAT\r\n").await.unwrap();
            client.shutdown().await.unwrap();
            some_time().await;
            out.search_on().await.unwrap();
            out.during(some_time()).await.unwrap();
            set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            let work = async {
                if waits {
                    return out.during(endless()).await;
                }
                loop {
                    out.search_on().await?;
                }
            };
            let ended = timeout(Duration::from_secs(60), work).await.unwrap();
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    }

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
