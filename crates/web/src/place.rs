//! The permit of an HTTP connection under an `[[access]]` section, and the rate of its answers.
//!
//! Requests of a connection come one after the other, perhaps from several visitors if it is a proxy's. The
//! permit is that of the visitor with the last request; it counts together with those of NNTP connections.
//! Called by `visitor`, which takes it, and `connection`, which limits the rate.

use access::limits::{AccessLimits, AccessPermit, LimitReached};
use lock_order::Ordered;
use nntp_io::rate::Bandwidth;
use site::session::ConnectedClient;
use site_base::lock::rank;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A connection's permit.
#[derive(Debug, Default)]
pub(super) struct HttpAccessPermit(Ordered<Option<AccessPermit>, { rank::PLACE }>);

impl HttpAccessPermit {
    /// Takes a permit for the client of the current request, unless it is held already; the error is the
    /// limit reached.
    pub fn take(&self, client: &ConnectedClient, limits: &Arc<AccessLimits>) -> Result<(), LimitReached> {
        // Unlocked meanwhile: the next request comes only after this one.
        let held = self.0.lock().take();
        let is_own = |permit: &AccessPermit| client.limit_subject().is_some_and(|own| permit.is_of(&own));
        let permit = match held.filter(is_own) {
            Some(permit) => Some(permit),
            None => client.limit_subject().map(|own| limits.enter(&own, false)).transpose()?,
        };
        *self.0.lock() = permit;
        Ok(())
    }

    fn bandwidth(&self) -> Option<Arc<Bandwidth>> {
        self.0.lock().as_ref().and_then(AccessPermit::bandwidth)
    }
}

/// Waits until bytes may be sent; resolves to their number.
type Allowance = Pin<Box<dyn Future<Output = usize> + Send>>;

/// The number of bytes of an answer that may be sent now.
#[derive(Default)]
pub(super) struct BandwidthPacer {
    place: Arc<HttpAccessPermit>,
    waiting: Option<Allowance>,
    /// Bytes that may be sent, and have not been.
    allowed: usize,
}

impl fmt::Debug for BandwidthPacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("allowed", &self.allowed).finish()
    }
}

impl BandwidthPacer {
    /// Creates the rate limit of a connection.
    pub fn of(place: &Arc<HttpAccessPermit>) -> Self {
        Self { place: place.clone(), ..Self::default() }
    }

    /// Returns how many of `wanted` bytes may be sent now.
    pub fn poll(&mut self, wanted: usize, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(bandwidth) = self.place.bandwidth() else { return Poll::Ready(wanted) };
        if self.allowed == 0 {
            let waiting = self
                .waiting
                .get_or_insert_with(|| Box::pin(async move { bandwidth.allowance(wanted).await }));
            self.allowed = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(wanted.min(self.allowed))
    }

    /// Counts bytes that were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.allowed = self.allowed.saturating_sub(bytes);
        if let Some(bandwidth) = self.place.bandwidth() {
            bandwidth.sent(bytes);
        }
    }
}
