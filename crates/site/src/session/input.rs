//! Input from the client: the receive buffer, and waiting for more.
//!
//! A session that waits for a command holds no buffer. A session that is fed grows its buffer while reads
//! fill it and shrinks it when they do not; the [`ReceiveBudget`] sets the limits. A wait ends with bytes,
//! with the end of the stream, at a deadline, with a signal of the site, or when the article's memory is
//! taken away; the deadline's timer is set again only when it fires, so a command costs no timer.

use super::budget::{BufferReservation, MemoryCharge, NoArticleMemory, READ_AHEAD_BYTES, ReceiveBudget};
use crate::site::SessionSignal;
use nntp_io::pool::{self, BUFFER_BYTES};
use nntp_io::{ServerOutput, Transport};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

/// Minimum free space in the buffer for a read, in bytes.
const READ_BYTES_MIN: usize = 4096;
/// Minimum memory for an article that does not fit into the small buffer, in bytes.
const ARTICLE_ROOM_BYTES_MIN: usize = 64 << 10;
/// Growth factor of the memory for an article that has outgrown it.
const ARTICLE_ROOM_GROWTH: usize = 4;

/// Returns the memory for an article of which this many bytes have arrived.
fn article_room(arrived: usize) -> usize {
    (arrived * ARTICLE_ROOM_GROWTH).max(ARTICLE_ROOM_BYTES_MIN)
}

/// The article at hand: the accounts it is charged to, and its limits.
pub(super) struct ArrivingArticle {
    pub charges: Box<[MemoryCharge]>,
    /// Time when it began.
    pub since: Instant,
    /// Maximum size of an article, in bytes.
    pub bytes_max: usize,
}

/// The end of a wait.
#[derive(Debug)]
pub(super) enum InputEvent {
    /// More bytes have arrived.
    Bytes,
    /// The client has closed its side.
    End,
    /// The deadline has passed.
    Late,
    /// The site has sent a signal to its sessions.
    Signal(SessionSignal),
    /// The article at hand must be given up.
    GivenUp(NoArticleMemory),
}

/// The limits of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitLimits {
    pub deadline: Instant,
    /// The server's stop ends the wait.
    pub heed_stop: bool,
}

/// Events other than input that end a wait.
pub(super) struct Interrupts<S> {
    timer: Pin<Box<Sleep>>,
    signal: Pin<Box<S>>,
}

impl<S: Future<Output = SessionSignal>> Interrupts<S> {
    pub fn new(signal: S, first_deadline: Instant) -> Self {
        Self { timer: Box::pin(sleep_until(first_deadline.into())), signal: Box::pin(signal) }
    }

    /// Waits for the next signal after one has come.
    pub fn listen(&mut self, signal: S) {
        self.signal.set(signal);
    }

    fn poll(
        &mut self,
        WaitLimits { deadline, heed_stop }: WaitLimits,
        cx: &mut Context<'_>,
    ) -> Poll<InputEvent> {
        if heed_stop && let Poll::Ready(signal) = self.signal.as_mut().poll(cx) {
            return Poll::Ready(InputEvent::Signal(signal));
        }
        if self.timer.deadline().into_std() > deadline {
            self.timer.as_mut().reset(deadline.into());
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(InputEvent::Late);
            }
            self.timer.as_mut().reset(deadline.into());
        }
    }
}

/// Input from the client.
pub(super) struct Input {
    /// Bytes that have arrived and are not consumed.
    buffer: Vec<u8>,
    /// Size of the next buffer.
    wanted: usize,
    room: Option<BufferReservation>,
    /// Reading ahead is worth its memory: for peers, whose articles come in series.
    reads_ahead: bool,
}

impl Input {
    pub fn new() -> Self {
        Self { buffer: Vec::new(), wanted: BUFFER_BYTES, room: None, reads_ahead: false }
    }

    /// Takes the buffer with the bytes that have arrived; [`Input::put_back`] returns it.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Takes the buffer back after its first `consumed` bytes were handled.
    pub fn put_back(&mut self, mut buffer: Vec<u8>, consumed: usize) {
        if consumed >= buffer.len() {
            buffer.clear();
        } else if consumed > 0 {
            buffer.drain(..consumed);
        }
        self.buffer = buffer;
        if consumed > 0
            && let Some(BufferReservation::Article(place)) = &mut self.room
        {
            if self.buffer.len() < BUFFER_BYTES / 2 {
                self.leave_place();
            } else {
                place.restart(self.buffer.len(), article_room(self.buffer.len()));
                let limit = place.bytes();
                if self.buffer.capacity() > limit {
                    self.buffer.shrink_to(limit);
                    self.wanted = self.wanted.min(limit);
                }
            }
        }
    }

    /// Turns reading ahead on or off.
    pub fn read_ahead(&mut self, reads_ahead: bool) {
        self.reads_ahead = reads_ahead;
    }

    /// Reports whether memory beyond the small buffer is held for an article.
    pub fn has_article_memory(&self) -> bool {
        matches!(self.room, Some(BufferReservation::Article(_)))
    }

    /// Returns the number of bytes that have arrived and are not consumed.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns true if the article at hand needs more memory, which [`Input::make_room`] may get.
    pub fn is_full(&self) -> bool {
        self.buffer.len() + READ_BYTES_MIN > self.limit()
    }

    /// Makes sure that more can be read after an unfinished command; may wait for memory. The error means
    /// that there is none.
    pub async fn make_room(
        &mut self,
        budget: &ReceiveBudget,
        arriving: ArrivingArticle,
    ) -> Result<(), NoArticleMemory> {
        if self.room.is_none() && self.reads_ahead {
            self.room = budget.read_ahead();
        }
        if self.is_full() {
            // Includes the command line and the end of the article.
            let most = arriving.bytes_max.saturating_add(READ_BYTES_MIN);
            let wanted = article_room(self.buffer.len()).min(most);
            let mut place = match self.room.take() {
                Some(BufferReservation::Article(place)) => place,
                _ => budget.place(arriving.charges, most, arriving.since),
            };
            place.arrived(self.buffer.len());
            place.grow(wanted).await?;
            self.room = Some(BufferReservation::Article(place));
        }
        self.wanted = self.wanted.max((self.buffer.len() * ARTICLE_ROOM_GROWTH).min(self.limit()));
        Ok(())
    }

    /// Returns the maximum size of the buffer now.
    fn limit(&self) -> usize {
        self.room.as_ref().map_or(BUFFER_BYTES, BufferReservation::bytes)
    }

    /// Moves the few bytes left after an article into a small buffer and returns the article's memory.
    fn leave_place(&mut self) {
        let mut small = pool::take();
        small.extend_from_slice(&self.buffer);
        pool::give(std::mem::replace(&mut self.buffer, small));
        self.room = None;
        self.wanted = if self.reads_ahead { READ_AHEAD_BYTES } else { BUFFER_BYTES };
    }

    /// Waits for more bytes from `out`'s stream; buffers are returned before the wait if nothing has arrived
    /// yet.
    pub async fn fill<S: Future<Output = SessionSignal>>(
        &mut self,
        out: &mut ServerOutput,
        budget: &ReceiveBudget,
        interrupts: &mut Interrupts<S>,
        until: WaitLimits,
    ) -> io::Result<InputEvent> {
        poll_fn(|cx| {
            loop {
                if out.transport().poll_readable(cx)?.is_pending() {
                    return self.wait(out, interrupts, until, cx).map(Ok);
                }
                self.reserve(budget);
                let spare = self.buffer.capacity() - self.buffer.len();
                // A read without space looks like the end of the stream.
                debug_assert!(spare > 0, "no room to read into");
                match out.transport().poll_read(cx, &mut self.buffer) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Ok(InputEvent::End)),
                    Poll::Ready(Ok(n)) => {
                        self.adapt(n, spare);
                        if let Some(BufferReservation::Article(place)) = &self.room {
                            place.arrived(self.buffer.len());
                        }
                        return Poll::Ready(Ok(InputEvent::Bytes));
                    }
                    Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                    // The readiness was stale, or this task has had its share, or only part of a TLS record
                    // has arrived: polling again finds out which.
                    Poll::Pending => return self.wait(out, interrupts, until, cx).map(Ok),
                }
            }
        })
        .await
    }

    /// Handles a poll without input.
    fn wait<S: Future<Output = SessionSignal>>(
        &mut self,
        out: &mut ServerOutput,
        interrupts: &mut Interrupts<S>,
        until: WaitLimits,
        cx: &mut Context<'_>,
    ) -> Poll<InputEvent> {
        self.release();
        out.release();
        if let Some(BufferReservation::Article(place)) = &self.room
            && let Poll::Ready(why) = place.poll_given_up(cx)
        {
            return Poll::Ready(InputEvent::GivenUp(why));
        }
        interrupts.poll(until, cx)
    }

    /// Reads and discards input until the end of the stream.
    pub async fn drain(&mut self, transport: &mut Transport) -> io::Result<()> {
        self.buffer = pool::take();
        transport.drain(&mut self.buffer).await?;
        self.buffer.clear();
        self.release();
        Ok(())
    }

    /// Allocates the buffer at the wanted size, within the limit.
    fn reserve(&mut self, budget: &ReceiveBudget) {
        if self.wanted > BUFFER_BYTES && self.room.is_none() && self.reads_ahead {
            self.room = budget.read_ahead();
        }
        // The spare buffers of the pool differ in size, so the buffer may be full at any size.
        let size = self.wanted.max(self.buffer.len() + READ_BYTES_MIN).min(self.limit());
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

    /// Returns an empty buffer and its memory.
    fn release(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > 0 {
            pool::give(std::mem::take(&mut self.buffer));
            self.room = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::budget::MemoryAccount;

    fn arriving() -> ArrivingArticle {
        let charges = [MemoryCharge { account: MemoryAccount::Posters, bytes_max: 8 << 20 }].into();
        ArrivingArticle { charges, since: Instant::now(), bytes_max: 4 << 20 }
    }

    /// A buffer from the pool may be larger than requested: once a full one made the connection seem to have
    /// ended.
    #[tokio::test]
    async fn a_full_buffer_finds_room_whatever_its_size() {
        for kib in [16, 17, 20, 32, 63, 64] {
            for reads_ahead in [false, true] {
                let (mut input, budget) = (Input::new(), ReceiveBudget::default());
                input.read_ahead(reads_ahead);
                // A feed that was quick, and then slow for a while.
                input.room = reads_ahead.then(|| budget.read_ahead().unwrap());
                pool::give(Vec::with_capacity(kib << 10));
                let mut arrived = 0;
                while arrived < 3 << 20 {
                    if input.is_full() {
                        input.make_room(&budget, arriving()).await.unwrap();
                    }
                    input.reserve(&budget);
                    let spare = input.buffer.capacity() - input.buffer.len();
                    assert!(spare > 0, "{kib} KiB, {arrived} bytes, {reads_ahead}");
                    arrived += spare;
                    input.buffer.resize(arrived, 0);
                    input.adapt(spare, spare);
                }
                input.put_back(vec![0; arrived], arrived);
                assert!(input.room.is_none() || reads_ahead);
            }
        }
    }
}
