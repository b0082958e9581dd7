//! A flight: data being fetched from an upstream, requested once and read by all waiting readers while it
//! arrives.
//!
//! The fetching task holds a [`Landing`]; if it is dropped early, the readers are notified.

use super::trouble::UpstreamError;
use lock_order::Ordered;
use site_base::lock::rank;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// Data that has arrived so far.
#[derive(Debug)]
pub(super) struct FlightData<T> {
    /// Facts about it; once they are set, readers may begin.
    pub about: Option<T>,
    /// Bytes received.
    pub bytes: Vec<u8>,
    /// Result of the flight, once it has ended.
    pub end: Option<Result<(), UpstreamError>>,
}

/// Data being fetched.
#[derive(Debug)]
pub(super) struct Flight<T> {
    cargo: Ordered<FlightData<T>, { rank::CARGO }>,
    changed: Notify,
}

/// Writer's end of a flight, which must end it.
#[derive(Debug)]
pub(super) struct Landing<T>(Arc<Flight<T>>);

impl<T> Flight<T> {
    /// Begins a flight.
    pub fn begin() -> (Arc<Self>, Landing<T>) {
        let cargo = Ordered::new(FlightData { about: None, bytes: Vec::new(), end: None });
        let flight = Arc::new(Self { cargo, changed: Notify::new() });
        (flight.clone(), Landing(flight))
    }

    /// Waits until `look` returns a value, and returns it.
    pub async fn wait<R>(&self, mut look: impl FnMut(&FlightData<T>) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&self.cargo.lock()) {
                return found;
            }
            changed.await;
        }
    }

    /// Calls `look` with the current state.
    pub fn look<R>(&self, look: impl FnOnce(&FlightData<T>) -> R) -> R {
        look(&self.cargo.lock())
    }
}

impl<T> Landing<T> {
    /// Changes the state.
    pub fn change<R>(&self, change: impl FnOnce(&mut FlightData<T>) -> R) -> R {
        let result = change(&mut self.0.cargo.lock());
        self.0.changed.notify_waiters();
        result
    }

    /// Ends the flight with this result.
    pub fn end(&self, end: Result<(), UpstreamError>) {
        self.change(|cargo| cargo.end = Some(end));
    }
}

impl<T> Drop for Landing<T> {
    fn drop(&mut self) {
        self.change(|cargo| {
            cargo.end.get_or_insert_with(|| Err(UpstreamError::Away("given up by this server".into())));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readers_are_notified_of_the_end() {
        let (flight, landing) = Flight::<u32>::begin();
        landing.change(|cargo| cargo.bytes.extend_from_slice(b"abc"));
        assert_eq!(flight.wait(|cargo| (cargo.bytes.len() >= 3).then(|| cargo.bytes.clone())).await, b"abc");
        let waiting = tokio::spawn({
            let flight = flight.clone();
            async move { flight.wait(|cargo| cargo.end.clone()).await }
        });
        drop(landing);
        assert!(matches!(waiting.await.unwrap(), Err(UpstreamError::Away(_))));
        let (flight, landing) = Flight::<u32>::begin();
        landing.end(Ok(()));
        assert_eq!(flight.look(|cargo| cargo.end.clone()), Some(Ok(())));
    }
}
