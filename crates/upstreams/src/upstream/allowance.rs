//! Number of connections allowed to an upstream: the configured number, or what it lets us have.
//!
//! A provider that refuses another connection while some are open allows no more than those. Each refusal
//! reduces the allowance by one, down to the number open at the time; one more is tried at intervals, since
//! another program may have used the rest. Source: RFC 3977 section 3.2.1, and further answers of providers
//! (400, 502, and 481 or 482 to a login).

use site_base::lock::Leaf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Interval for trying one more connection than a server has let us have.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);

/// Connections that may be used at once.
pub(super) struct ConnectionAllowance {
    configured: usize,
    permits: Semaphore,
    granted: Leaf<GrantedPermits>,
    /// Connections that are open or being opened. A count alone, which publishes no other data: relaxed. The
    /// task whose connection was refused has dropped it before it reads the count.
    open: Arc<AtomicUsize>,
}

/// Number of permits.
struct GrantedPermits {
    count: usize,
    /// Time when the server last refused a connection.
    refused_at: Option<Instant>,
}

/// Right to use a connection.
pub(super) struct UpstreamPermit<'a> {
    allowance: &'a ConnectionAllowance,
    permit: SemaphorePermit<'a>,
}

/// A connection being opened.
pub(super) struct OpeningConnection(Option<OpenConnection>);

/// An open connection, counted until dropped.
pub(super) struct OpenConnection(Arc<AtomicUsize>);

impl ConnectionAllowance {
    pub fn of(connections: usize) -> Self {
        Self {
            configured: connections,
            permits: Semaphore::new(connections),
            granted: Leaf::new(GrantedPermits { count: connections, refused_at: None }),
            open: Arc::default(),
        }
    }

    /// Waits for the right to use a connection.
    pub async fn permit(&self) -> UpstreamPermit<'_> {
        self.try_one_more();
        loop {
            // The semaphore is never closed.
            if let Ok(permit) = self.permits.acquire().await {
                return UpstreamPermit { allowance: self, permit };
            }
        }
    }

    /// Counts a connection that is being opened.
    pub fn opening(&self) -> OpeningConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpeningConnection(Some(OpenConnection(self.open.clone())))
    }

    /// Returns the number of connections that are open or being opened.
    pub fn others(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the most connections that the server lets us have, if it has refused one.
    pub fn limit(&self) -> Option<usize> {
        let granted = self.granted.lock();
        (granted.count < self.configured).then_some(granted.count)
    }

    fn try_one_more(&self) {
        let mut granted = self.granted.lock();
        let is_due = granted.refused_at.is_some_and(|at| at.elapsed() > RETRY_INTERVAL);
        if is_due && granted.count < self.configured {
            (granted.count, granted.refused_at) = (granted.count + 1, Some(Instant::now()));
            self.permits.add_permits(1);
        }
    }
}

impl UpstreamPermit<'_> {
    /// Reduces the allowance after a refusal, but not below the number of open connections.
    pub fn give_up(self) {
        let mut granted = self.allowance.granted.lock();
        if granted.count > self.allowance.others().max(1) {
            (granted.count, granted.refused_at) = (granted.count - 1, Some(Instant::now()));
            self.permit.forget();
        }
    }
}

impl OpeningConnection {
    /// Returns the counter of the open connection.
    pub fn done(mut self) -> Option<OpenConnection> {
        self.0.take()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn refusals_reduce_the_allowance_to_open_connections() {
        let allowance = ConnectionAllowance::of(5);
        let lines: Vec<_> = (0..2).map(|_| allowance.opening().done()).collect();
        let mut permits = Vec::new();
        for _ in 0..5 {
            permits.push(allowance.permit().await);
        }
        assert_eq!(allowance.limit(), None);
        permits.drain(2..).for_each(UpstreamPermit::give_up);
        assert_eq!((allowance.limit(), allowance.others()), (Some(2), 2));
        // Not below the number of open connections, and not below one.
        permits.drain(1..).for_each(UpstreamPermit::give_up);
        assert_eq!(allowance.limit(), Some(2));
        drop(lines);
        permits.drain(..).for_each(UpstreamPermit::give_up);
        assert_eq!((allowance.limit(), allowance.others()), (Some(1), 0));
        drop(allowance.permit().await);
    }
}
