//! The world of a member in a server: the machine's clocks, its randomness, and one thread that waits.

use crate::world::World;
use lock_order::Innermost;
use parking_lot::Condvar;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The world as it is.
#[derive(Debug)]
pub struct MachineWorld {
    begun: Instant,
    is_woken: Innermost<bool>,
    woken: Condvar,
}

impl Default for MachineWorld {
    fn default() -> Self {
        Self { begun: Instant::now(), is_woken: Innermost::new(false), woken: Condvar::new() }
    }
}

impl World for MachineWorld {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn unix_secs(&self) -> u32 {
        u32::try_from(disk::clock::unix_secs()).unwrap_or(u32::MAX)
    }

    fn random(&self) -> u64 {
        RandomState::new().hash_one(0u8)
    }

    fn wait(&self, until: Duration) {
        let mut is_woken = self.is_woken.lock();
        while !std::mem::take(&mut *is_woken) {
            if is_woken.wait_until(&self.woken, self.begun + until) {
                return;
            }
        }
    }

    fn wake(&self) {
        *self.is_woken.lock() = true;
        self.woken.notify_one();
    }
}
