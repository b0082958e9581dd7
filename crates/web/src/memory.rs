//! Memory of HTTP: one budget for requests, and for answers until they are sent.
//!
//! A [`MemoryReservation`] is a drop guard. It is taken before an article is fetched, grows or shrinks with
//! the data made from it, and stays with the bytes of the answer until the last of them has been passed to
//! the socket ([`accounted`]). If there is no room, a request waits for `web.page_timeout` before it is
//! answered with 503; a download that is sent in pieces waits as long as its connection lasts. Small requests
//! are not held up by a large one that waits. One address gets at most half of the memory, so that clients
//! that read nothing leave room for others. An answer that is larger than the whole budget, or than a share,
//! is made while nothing else is held. Called by `connection`, `reading` and `form`; `web.memory_max` is the
//! budget.

use super::answers;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::response::Response;
use site_base::lock::Leaf;
use site_base::memory::give_back_after;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Maximum size of answers that are not counted: connections have buffers of this size anyway.
pub(super) const SMALL_BYTES_MAX: usize = 32 << 10;
/// Freed bytes after which memory is returned to the system once all is quiet.
const FREED_BYTES_MIN: usize = 16 << 20;
/// Divisor of the budget for the first reservation of a request.
const FIRST_PART: usize = 8;
/// Time without a reservation after which memory is returned to the system.
const QUIET: Duration = Duration::from_secs(1);

/// The error if there was no room in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoHttpMemory;

#[derive(Debug, Default)]
struct HeldBytes {
    bytes: usize,
    by: HashMap<IpAddr, usize>,
    /// Bytes freed since all was quiet last.
    freed_bytes: usize,
}

/// The memory of all requests and answers.
#[derive(Debug, Default)]
pub(super) struct HttpMemory {
    held: Leaf<HeldBytes>,
    freed: Notify,
}

/// A client's view of the memory: its share, and the limits for its request.
#[derive(Clone)]
pub(super) struct MemoryShare {
    memory: Arc<HttpMemory>,
    /// `None` for a proxy, which asks for many clients.
    address: Option<IpAddr>,
    bytes_max: usize,
    patience: Duration,
}

impl fmt::Debug for MemoryShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryShare").field("address", &self.address).finish_non_exhaustive()
    }
}

impl MemoryShare {
    /// Returns the share of an address.
    pub fn of(memory: &Arc<HttpMemory>, address: Option<IpAddr>, bytes_max: u64, patience: Duration) -> Self {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Self { memory: memory.clone(), address, bytes_max, patience }
    }

    /// Returns the same client's share of another budget, in which all have this much together: what is
    /// counted there need not be bytes.
    pub fn in_another(&self, memory: &Arc<HttpMemory>, max: usize) -> Self {
        Self { memory: memory.clone(), bytes_max: max, ..self.clone() }
    }

    /// Returns the bytes that a request may take before its needs are known.
    pub fn first_bytes_max(&self) -> usize {
        self.bytes_max / FIRST_PART
    }

    /// Reserves this many bytes as soon as there is room, within the time of a request.
    pub async fn take(&self, bytes: usize) -> Result<MemoryReservation, NoHttpMemory> {
        timeout(self.patience, self.wait(bytes)).await.map_err(|_| NoHttpMemory)
    }

    /// Reserves this many bytes as soon as there is room.
    pub async fn wait(&self, bytes: usize) -> MemoryReservation {
        self.wait_beside(0, bytes).await;
        MemoryReservation { share: self.clone(), bytes }
    }

    /// Waits for room for this many more bytes, in addition to those of the same request.
    async fn wait_beside(&self, already: usize, bytes: usize) {
        loop {
            let freed = self.memory.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // From here on no release is missed.
            freed.as_mut().enable();
            if self.add(already, bytes) {
                return;
            }
            freed.await;
        }
    }

    /// Adds this many bytes if there is room, or if nothing is held except by this request.
    fn add(&self, already: usize, bytes: usize) -> bool {
        let mut held = self.memory.held.lock();
        let own = self.address.and_then(|address| held.by.get(&address).copied()).unwrap_or(0);
        let fits = held.bytes == already || held.bytes.saturating_add(bytes) <= self.bytes_max;
        let is_fair =
            self.address.is_none() || own == already || own.saturating_add(bytes) <= self.bytes_max / 2;
        if !fits || !is_fair {
            return false;
        }
        held.bytes += bytes;
        if let Some(address) = self.address {
            *held.by.entry(address).or_default() += bytes;
        }
        true
    }

    fn give_back(&self, bytes: usize) {
        let is_due = {
            let mut held = self.memory.held.lock();
            held.bytes = held.bytes.saturating_sub(bytes);
            held.freed_bytes = held.freed_bytes.saturating_add(bytes);
            if let Some(address) = self.address
                && let Some(own) = held.by.get_mut(&address)
            {
                *own = own.saturating_sub(bytes);
                if *own == 0 {
                    held.by.remove(&address);
                }
            }
            let is_due = held.bytes == 0 && held.freed_bytes >= FREED_BYTES_MIN;
            if is_due {
                held.freed_bytes = 0;
            }
            is_due
        };
        self.memory.freed.notify_waiters();
        // The last one may be dropped together with the runtime.
        if is_due && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(give_back_after(QUIET));
        }
    }
}

/// Reserved bytes of the budget, until dropped.
#[derive(Debug)]
pub(super) struct MemoryReservation {
    share: MemoryShare,
    bytes: usize,
}

impl MemoryReservation {
    /// Resizes the reservation; growing waits for room within the time of a request.
    pub async fn resize(&mut self, bytes: usize) -> Result<(), NoHttpMemory> {
        if bytes > self.bytes {
            let more = self.share.wait_beside(self.bytes, bytes - self.bytes);
            timeout(self.share.patience, more).await.map_err(|_| NoHttpMemory)?;
            self.bytes = bytes;
        }
        self.shrink(bytes);
        Ok(())
    }

    /// Grows to at least this size if there is room now.
    pub fn grow(&mut self, bytes: usize) -> Result<(), NoHttpMemory> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 && !self.share.add(self.bytes, more) {
            return Err(NoHttpMemory);
        }
        self.bytes += more;
        Ok(())
    }

    /// Returns the bytes beyond this size.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        if surplus > 0 {
            self.bytes -= surplus;
            self.share.give_back(surplus);
        }
    }

    /// Returns a reservation of up to this many of its bytes, which it then lacks.
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { share: self.share.clone(), bytes }
    }

    /// Adds the bytes of another reservation of the same client.
    pub fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Returns bytes that keep the reservation until their last piece is dropped.
    pub fn hold(mut self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        self.shrink(bytes.as_ref().len());
        Bytes::from_owner(Holding { bytes, _reservation: self })
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.share.give_back(self.bytes);
        }
    }
}

struct Holding<T> {
    bytes: T,
    _reservation: MemoryReservation,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Holding<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Memory that a handler has reserved for its answer, attached to it as an extension.
#[derive(Clone)]
pub(super) struct AnswerReservation(pub Arc<Leaf<Option<MemoryReservation>>>);

impl AnswerReservation {
    /// Attaches a reservation to the answer.
    pub fn with(mut answer: Response, reservation: MemoryReservation) -> Response {
        answer.extensions_mut().insert(Self(Arc::new(Leaf::new(Some(reservation)))));
        answer
    }
}

/// Returns the answer with its body in the budget until it is sent. An answer in pieces does its own
/// accounting.
pub(super) async fn accounted(share: &MemoryShare, mut answer: Response) -> Response {
    let reserved =
        answer.extensions_mut().remove::<AnswerReservation>().and_then(|reserved| reserved.0.lock().take());
    let size = answer.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let Some(size) = size.filter(|size| *size > SMALL_BYTES_MAX) else { return answer };
    let reservation = match reserved {
        Some(mut reservation) => reservation.resize(size).await.map(|()| reservation),
        None => share.take(size).await,
    };
    let Ok(reservation) = reservation else { return answers::busy() };
    let (parts, body) = answer.into_parts();
    // The body is one piece already.
    match to_bytes(body, size).await {
        Ok(bytes) => Response::from_parts(parts, Body::from(reservation.hold(bytes))),
        Err(_) => answers::busy(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(memory: &Arc<HttpMemory>, last: u8) -> MemoryShare {
        let address = IpAddr::from([192, 0, 2, last]);
        MemoryShare::of(memory, Some(address), 100, Duration::from_millis(20))
    }

    #[tokio::test]
    async fn memory_is_returned_with_the_last_piece_of_the_bytes() {
        let memory = Arc::default();
        let one = share(&memory, 1);
        let reservation = one.take(80).await.unwrap();
        assert_eq!(memory.held.lock().bytes, 80);
        let mut bytes = reservation.hold(vec![0; 40]);
        let piece = bytes.split_off(10);
        assert_eq!(memory.held.lock().bytes, 40);
        drop(bytes);
        assert_eq!(memory.held.lock().bytes, 40);
        drop(piece);
        let held = memory.held.lock();
        assert_eq!((held.bytes, held.by.len()), (0, 0));
    }

    #[tokio::test]
    async fn parts_of_a_reservation_are_one_again_and_are_returned_once() {
        let memory = Arc::default();
        let mut whole = share(&memory, 1).take(40).await.unwrap();
        let mut part = whole.split(30);
        assert_eq!((whole.bytes, part.bytes), (10, 30));
        part.shrink(20);
        assert_eq!(memory.held.lock().bytes, 30);
        whole.join(part);
        assert_eq!((whole.bytes, memory.held.lock().bytes), (30, 30));
        assert_eq!(whole.split(100).bytes, 30);
        drop(whole);
        assert_eq!(memory.held.lock().bytes, 0);
    }

    #[tokio::test]
    async fn one_address_leaves_half_of_the_memory_to_others() {
        let memory = Arc::default();
        let (one, other) = (share(&memory, 1), share(&memory, 2));
        let _held = one.take(50).await.unwrap();
        assert_eq!(one.take(1).await.unwrap_err(), NoHttpMemory);
        let mut others = other.take(30).await.unwrap();
        assert_eq!(others.resize(51).await, Err(NoHttpMemory), "more than there is");
        assert_eq!(others.grow(51), Err(NoHttpMemory));
        others.grow(50).unwrap();
        others.grow(40).unwrap();
        assert_eq!(memory.held.lock().bytes, 100);
        drop(_held);
        others.resize(120).await.unwrap();
        assert_eq!(memory.held.lock().bytes, 120, "alone it may be larger than all of it");
    }

    #[tokio::test]
    async fn turns_are_shared_out_like_memory() {
        let (memory, turns) = (Arc::default(), Arc::default());
        let turn = |last| share(&memory, last).in_another(&turns, 4);
        let (one, other) = (turn(1), turn(2));
        let held = [one.take(1).await.unwrap(), one.take(1).await.unwrap()];
        assert_eq!(one.take(1).await.unwrap_err(), NoHttpMemory, "half of the turns");
        let _others = [other.take(1).await.unwrap(), other.take(1).await.unwrap()];
        assert_eq!(turn(3).take(1).await.unwrap_err(), NoHttpMemory, "all turns");
        let waiting = tokio::spawn(async move { one.wait(1).await.bytes });
        drop(held);
        assert_eq!(waiting.await.unwrap(), 1);
        assert_eq!(memory.held.lock().bytes, 0);
    }

    #[tokio::test]
    async fn a_waiting_request_continues_when_memory_is_returned() {
        let memory = Arc::default();
        let (one, other) = (share(&memory, 1), share(&memory, 2));
        // Larger than the whole budget: must be alone.
        let large = one.take(1_000).await.unwrap();
        assert!(other.take(1).await.is_err());
        let waiting = tokio::spawn(async move { other.wait(10).await.bytes });
        tokio::task::yield_now().await;
        drop(large);
        assert_eq!(waiting.await.unwrap(), 10);
    }
}
