//! The way from the client: the receive buffer, and waiting for more of it.
//!
//! A session that waits for a command holds no buffer. One that is fed grows its buffer while reads fill it and lets
//! it shrink when they do not; how far is the [`Budget`]'s matter. Waiting ends by bytes, by the end of the stream, by a
//! deadline, or by a signal of the site; the deadline's timer is set anew only when it fires, so a command costs no timer.

use super::Output;
use super::budget::{Budget, READ_AHEAD_BYTES, Room};
use super::pool::{self, BUFFER_BYTES};
use super::transport::Transport;
use crate::site::Signal;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

/// Room that a read finds at least, in bytes.
const READ_BYTES_MIN: usize = 4096;

/// What ended a wait.
#[derive(Debug)]
pub(super) enum Event {
    /// There are more bytes.
    Bytes,
    /// The client sends no more.
    End,
    /// The deadline has passed.
    Late,
    /// The site has a signal for its sessions.
    Signal(Signal),
}

/// How long to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    pub deadline: Instant,
    /// Whether the server's stop ends the wait.
    pub heed_stop: bool,
}

/// What ends a wait besides bytes.
pub(super) struct Interrupts<S> {
    timer: Pin<Box<Sleep>>,
    signal: Pin<Box<S>>,
}

impl<S: Future<Output = Signal>> Interrupts<S> {
    pub fn new(signal: S, first_deadline: Instant) -> Self {
        Self { timer: Box::pin(sleep_until(first_deadline.into())), signal: Box::pin(signal) }
    }

    /// Waits for the next signal, once there was one.
    pub fn listen(&mut self, signal: S) {
        self.signal.set(signal);
    }

    fn poll(&mut self, Until { deadline, heed_stop }: Until, cx: &mut Context<'_>) -> Poll<Event> {
        if heed_stop && let Poll::Ready(signal) = self.signal.as_mut().poll(cx) {
            return Poll::Ready(Event::Signal(signal));
        }
        if self.timer.deadline().into_std() > deadline {
            self.timer.as_mut().reset(deadline.into());
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(Event::Late);
            }
            self.timer.as_mut().reset(deadline.into());
        }
    }
}

/// The way from the client.
pub(super) struct Input {
    /// What has arrived and is not consumed.
    buffer: Vec<u8>,
    /// Size of the next buffer.
    wanted: usize,
    room: Option<Room>,
}

impl Input {
    pub fn new() -> Self {
        Self { buffer: Vec::new(), wanted: BUFFER_BYTES, room: None }
    }

    /// Takes the buffer with what has arrived; it comes back by [`Input::put_back`].
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back, of which the first `consumed` bytes are done with.
    pub fn put_back(&mut self, mut buffer: Vec<u8>, consumed: usize) {
        if consumed >= buffer.len() {
            buffer.clear();
        } else if consumed > 0 {
            buffer.drain(..consumed);
        }
        self.buffer = buffer;
        if consumed > 0 && self.limit() > READ_AHEAD_BYTES && self.buffer.len() < BUFFER_BYTES / 2 {
            self.leave_large();
        }
    }

    /// Bytes that have arrived and are not consumed.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Makes sure that more can be read behind an unfinished command; may wait for memory.
    pub async fn make_room(&mut self, budget: &Budget) {
        if self.buffer.len() + READ_BYTES_MIN <= self.limit() {
            return;
        }
        if self.room.is_none() {
            self.room = budget.read_ahead();
        }
        if self.buffer.len() + READ_BYTES_MIN > self.limit() {
            self.room = None;
            self.room = budget.large().await;
        }
        self.wanted = self.wanted.max((self.buffer.len() * 4).min(self.limit()));
    }

    /// How large the buffer may be now.
    fn limit(&self) -> usize {
        self.room.as_ref().map_or(BUFFER_BYTES, Room::bytes)
    }

    /// Moves what little is left after a large article into a small buffer and gives the large one's room back.
    fn leave_large(&mut self) {
        let mut small = pool::take();
        small.extend_from_slice(&self.buffer);
        self.buffer = small;
        self.room = None;
        self.wanted = READ_AHEAD_BYTES;
    }

    /// Waits for more bytes from `out`'s stream; buffers are given back before the wait if nothing has arrived yet.
    pub async fn fill<S: Future<Output = Signal>>(
        &mut self,
        out: &mut Output,
        budget: &Budget,
        interrupts: &mut Interrupts<S>,
        until: Until,
    ) -> io::Result<Event> {
        poll_fn(|cx| {
            loop {
                if out.transport().poll_readable(cx)?.is_pending() {
                    self.release();
                    out.release();
                    return interrupts.poll(until, cx).map(Ok);
                }
                self.reserve(budget);
                let spare = self.buffer.capacity() - self.buffer.len();
                match out.transport().poll_read(cx, &mut self.buffer) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Event::End)),
                    Poll::Ready(Ok(n)) => {
                        self.adapt(n, spare);
                        return Poll::Ready(Ok(Event::Bytes));
                    }
                    Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                    // The readiness was stale, or this task has had its share: asked again, it says which. Or it was
                    // for a part of a TLS record.
                    Poll::Pending => {
                        self.release();
                        out.release();
                        return interrupts.poll(until, cx).map(Ok);
                    }
                }
            }
        })
        .await
    }

    /// Reads and throws away what comes, to the end of the stream.
    pub async fn drain(&mut self, transport: &mut Transport) -> io::Result<()> {
        self.buffer = pool::take();
        transport.drain(&mut self.buffer).await?;
        self.buffer.clear();
        self.release();
        Ok(())
    }

    /// Makes the buffer as large as it is wanted and may be.
    fn reserve(&mut self, budget: &Budget) {
        if self.wanted > BUFFER_BYTES && self.room.is_none() {
            self.room = budget.read_ahead();
        }
        let size = self.wanted.min(self.limit());
        if self.buffer.capacity() == 0 {
            if size <= BUFFER_BYTES {
                self.buffer = pool::take();
            } else if size <= READ_AHEAD_BYTES {
                self.buffer = pool::take_large(size);
            }
        }
        if self.buffer.capacity() < size {
            self.buffer.reserve_exact(size - self.buffer.len());
        }
    }

    /// Grows when a read filled the buffer, shrinks when it left most of it empty.
    fn adapt(&mut self, read: usize, spare: usize) {
        if read == spare {
            self.wanted = (self.wanted * 4).min(READ_AHEAD_BYTES.max(self.limit()));
        } else if self.buffer.len() < self.wanted / 8 {
            self.wanted = (self.wanted / 2).max(BUFFER_BYTES);
        }
    }

    /// Gives an empty buffer and its room back.
    fn release(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > 0 {
            pool::give(std::mem::take(&mut self.buffer));
            self.room = None;
        }
    }
}
