//! The world: time, waiting and randomness, of which nothing else in this crate may be had (`tidy` checks
//! that), so that a simulation decides about all of it.

use std::time::Duration;

/// Time, waiting and randomness.
pub trait World: Send + Sync + std::fmt::Debug {
    /// Returns the time since some start, which never goes back.
    fn now(&self) -> Duration;

    /// Returns the time of day, in Unix seconds; it may jump.
    fn unix_secs(&self) -> u32;

    /// Returns a random number.
    fn random(&self) -> u64;

    /// Waits until a time of [`World::now`], or until [`World::wake`] is called.
    fn wait(&self, until: Duration);

    /// Ends the wait of another thread, or the next one.
    fn wake(&self);
}
