//! Something on its way from an upstream, and those who wait for it: asked for once, and followed by all who
//! want it while it arrives.
//!
//! Whoever fetches holds a [`Landing`]; if it is dropped early, those who wait learn of it.

use super::trouble::Trouble;
use lock_order::Ordered;
use site_base::lock::rank;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// What has arrived so far.
#[derive(Debug)]
pub(super) struct Cargo<T> {
    /// What is known of it; once this is there, those who wait may begin.
    pub about: Option<T>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How it ended.
    pub end: Option<Result<(), Trouble>>,
}

/// Something on its way.
#[derive(Debug)]
pub(super) struct Flight<T> {
    cargo: Ordered<Cargo<T>, { rank::CARGO }>,
    changed: Notify,
}

/// The right to bring it, and the duty to end it.
#[derive(Debug)]
pub(super) struct Landing<T>(Arc<Flight<T>>);

impl<T> Flight<T> {
    /// Something that is on its way from now on.
    pub fn begin() -> (Arc<Self>, Landing<T>) {
        let cargo = Ordered::new(Cargo { about: None, bytes: Vec::new(), end: None });
        let flight = Arc::new(Self { cargo, changed: Notify::new() });
        (flight.clone(), Landing(flight))
    }

    /// What `look` finds, as soon as it finds something.
    pub async fn wait<R>(&self, mut look: impl FnMut(&Cargo<T>) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&self.cargo.lock()) {
                return found;
            }
            changed.await;
        }
    }

    /// Looks at what there is now.
    pub fn look<R>(&self, look: impl FnOnce(&Cargo<T>) -> R) -> R {
        look(&self.cargo.lock())
    }
}

impl<T> Landing<T> {
    /// Changes what there is.
    pub fn change<R>(&self, change: impl FnOnce(&mut Cargo<T>) -> R) -> R {
        let result = change(&mut self.0.cargo.lock());
        self.0.changed.notify_waiters();
        result
    }

    /// It ends, in this way.
    pub fn end(&self, end: Result<(), Trouble>) {
        self.change(|cargo| cargo.end = Some(end));
    }
}

impl<T> Drop for Landing<T> {
    fn drop(&mut self) {
        self.change(|cargo| {
            cargo.end.get_or_insert_with(|| Err(Trouble::Away("given up by this server".into())));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_wait_learn_of_the_end() {
        let (flight, landing) = Flight::<u32>::begin();
        landing.change(|cargo| cargo.bytes.extend_from_slice(b"abc"));
        assert_eq!(flight.wait(|cargo| (cargo.bytes.len() >= 3).then(|| cargo.bytes.clone())).await, b"abc");
        let waiting = tokio::spawn({
            let flight = flight.clone();
            async move { flight.wait(|cargo| cargo.end.clone()).await }
        });
        drop(landing);
        assert!(matches!(waiting.await.unwrap(), Err(Trouble::Away(_))));
        let (flight, landing) = Flight::<u32>::begin();
        landing.end(Ok(()));
        assert_eq!(flight.look(|cargo| cargo.end.clone()), Some(Ok(())));
    }
}
