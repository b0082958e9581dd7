//! A client's output queue: pieces that are compressed and encrypted when they are sent.
//!
//! Small pieces are joined, so that pipelined commands leave in one write; large ones are sent from where
//! they are. Only as much is compressed and encrypted ahead as one write needs. Called by `Connection`.

use crate::pool;
use crate::transport::Transport;
use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

/// Maximum size of queued pieces that are joined, in bytes.
const JOINED_BYTES_MAX: usize = 64 << 10;
/// Minimum size of an owned piece that is not copied, in bytes.
const UNCOPIED_BYTES_MIN: usize = 16 << 10;
/// Amount that is compressed and encrypted at a time, in bytes.
const SEALED_BYTES: usize = 48 << 10;

/// Output that is to be sent.
#[derive(Default)]
pub(crate) struct SendQueue {
    /// Queued text of NNTP; the first piece from `sent_of_first` on.
    queue: VecDeque<Vec<u8>>,
    sent_of_first: usize,
    queued_bytes: usize,
    /// Compressed and encrypted output, to be sent before the queue; from `sent_of_sealed` on.
    sealed: Vec<u8>,
    sent_of_sealed: usize,
}

impl SendQueue {
    /// Returns the number of queued bytes.
    pub fn bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.queued_bytes == 0 && self.sealed.is_empty()
    }

    /// Queues a copy of `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.queued_bytes += bytes.len();
        match self.queue.back_mut() {
            Some(last) if last.len() + bytes.len() <= JOINED_BYTES_MAX => last.extend_from_slice(bytes),
            _ => {
                let mut piece = pool::take();
                piece.extend_from_slice(bytes);
                self.queue.push_back(piece);
            }
        }
    }

    /// Queues `bytes` without copying if they are many.
    pub fn push_owned(&mut self, bytes: Vec<u8>) {
        if bytes.len() < UNCOPIED_BYTES_MIN {
            return self.push(&bytes);
        }
        self.queued_bytes += bytes.len();
        self.queue.push_back(bytes);
    }

    /// Sends something, if anything is queued; returns the number of octets that the socket accepted.
    pub fn poll(&mut self, cx: &mut Context<'_>, transport: &mut Transport) -> Poll<io::Result<usize>> {
        loop {
            if let Some(rest) = self.sealed.get(self.sent_of_sealed..).filter(|rest| !rest.is_empty()) {
                let sent = taken(ready!(transport.poll_write(cx, rest)))?;
                self.sent_of_sealed += sent;
                if self.sent_of_sealed >= self.sealed.len() {
                    self.sealed.clear();
                    self.sent_of_sealed = 0;
                }
                return Poll::Ready(Ok(sent));
            }
            let Some(first) = self.queue.front() else { return Poll::Ready(Ok(0)) };
            let rest = first.get(self.sent_of_first..).unwrap_or_default();
            if transport.is_plain() {
                let sent = taken(ready!(transport.poll_write(cx, rest)))?;
                self.dequeue(sent);
                return Poll::Ready(Ok(sent));
            }
            let piece = rest.get(..SEALED_BYTES).unwrap_or(rest);
            let (len, flush) = (piece.len(), piece.len() == self.queued_bytes);
            transport.seal(piece, flush, &mut self.sealed)?;
            self.dequeue(len);
        }
    }

    fn dequeue(&mut self, bytes: usize) {
        self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
        self.sent_of_first += bytes;
        if self.queue.front().is_some_and(|first| self.sent_of_first >= first.len()) {
            self.sent_of_first = 0;
            if let Some(sent) = self.queue.pop_front() {
                pool::give(sent);
            }
        }
    }
}

fn taken(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        written => written,
    }
}
