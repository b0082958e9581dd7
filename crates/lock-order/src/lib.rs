//! [`Ordered`] and [`OrderedRw`]: locks with a rank in a global order, which debug builds check.
//!
//! A thread may take a lock only while all locks that it holds have a lower rank; otherwise two threads could
//! wait for each other. Debug builds, and so all tests, panic when this is violated, even if no other thread
//! was involved; a release build has nothing but the lock. Ranks are numbers below 64, and one order for a
//! whole program: each crate has a list of its own. Those of `newsreel` below 16 and above 34 enclose the
//! spool's (16 to 31) and the cache's (32 to 34). A lock inside which no other is taken, not even that of the
//! log, is [`Innermost`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod threads;

pub use threads::thread_number;

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// Rank of locks inside which no other lock is taken.
pub const INNERMOST: u8 = 63;

/// A mutex inside which no other lock is taken.
pub type Innermost<T> = Ordered<T, INNERMOST>;

/// A mutex of the given rank.
#[derive(Debug, Default)]
pub struct Ordered<T, const RANK: u8>(Mutex<T>);

impl<T, const RANK: u8> Ordered<T, RANK> {
    /// Creates a lock that guards `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Acquires the lock, waiting if necessary. All locks that this thread holds must have a lower rank.
    pub fn lock(&self) -> OrderedGuard<'_, T, RANK> {
        let held = HeldRank::take();
        OrderedGuard { guard: self.0.lock(), held }
    }

    /// Consumes the lock and returns the guarded value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Acquires the lock if it is free, otherwise returns `None`. Allowed in any order, since it never waits.
    pub fn try_lock(&self) -> Option<OrderedGuard<'_, T, RANK>> {
        let guard = self.0.try_lock()?;
        Some(OrderedGuard { guard, held: HeldRank::note() })
    }
}

/// Access to the value guarded by the mutex, until dropped.
#[derive(Debug)]
pub struct OrderedGuard<'a, T, const RANK: u8> {
    guard: MutexGuard<'a, T>,
    held: HeldRank<RANK>,
}

impl<T, const RANK: u8> OrderedGuard<'_, T, RANK> {
    /// Waits for the condition with the lock released.
    pub fn wait(&mut self, condition: &Condvar) {
        condition.wait(&mut self.guard);
    }

    /// Like [`wait`](Self::wait), at most until `time`. Returns whether that time has come.
    pub fn wait_until(&mut self, condition: &Condvar, time: Instant) -> bool {
        condition.wait_until(&mut self.guard, time).timed_out()
    }

    /// Like [`wait`](Self::wait), for at most `duration`.
    pub fn wait_for(&mut self, condition: &Condvar, duration: Duration) {
        condition.wait_for(&mut self.guard, duration);
    }

    /// Like [`wait_for`](Self::wait_for), as long as `goes_on` returns true.
    pub fn wait_while_for(
        &mut self,
        condition: &Condvar,
        goes_on: impl FnMut(&mut T) -> bool,
        duration: Duration,
    ) {
        condition.wait_while_for(&mut self.guard, goes_on, duration);
    }

    /// Releases the lock and hands it to a waiting thread, even if this thread asks again at once.
    pub fn unlock_fair(self) {
        MutexGuard::unlock_fair(self.guard);
    }

    /// Calls `work` with the lock released, and acquires it again.
    pub fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let _released = self.held.release();
        MutexGuard::unlocked(&mut self.guard, work)
    }
}

impl<T, const RANK: u8> Deref for OrderedGuard<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> DerefMut for OrderedGuard<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A read-write lock of the given rank. Reading twice at once counts as a wrong order too: if a writer waits
/// between the two, the second read waits forever.
#[derive(Debug, Default)]
pub struct OrderedRw<T, const RANK: u8>(RwLock<T>);

impl<T, const RANK: u8> OrderedRw<T, RANK> {
    /// Creates a lock that guards `value`.
    pub const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    /// Waits until no thread writes. All locks that this thread holds must have a lower rank.
    pub fn read(&self) -> OrderedRead<'_, T, RANK> {
        let held = HeldRank::take();
        OrderedRead { guard: self.0.read(), _held: held }
    }

    /// Waits until no thread holds the lock. All locks that this thread holds must have a lower rank.
    pub fn write(&self) -> OrderedWrite<'_, T, RANK> {
        let held = HeldRank::take();
        OrderedWrite { guard: self.0.write(), _held: held }
    }
}

/// Shared access to the value guarded by a read-write lock, until dropped.
#[derive(Debug)]
pub struct OrderedRead<'a, T, const RANK: u8> {
    guard: RwLockReadGuard<'a, T>,
    _held: HeldRank<RANK>,
}

/// Exclusive access to the value guarded by a read-write lock, until dropped.
#[derive(Debug)]
pub struct OrderedWrite<'a, T, const RANK: u8> {
    guard: RwLockWriteGuard<'a, T>,
    _held: HeldRank<RANK>,
}

impl<T, const RANK: u8> Deref for OrderedRead<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> Deref for OrderedWrite<'_, T, RANK> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> DerefMut for OrderedWrite<'_, T, RANK> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Record that this thread holds a lock of this rank.
#[derive(Debug)]
struct HeldRank<const RANK: u8> {
    /// True if it held none of this rank before.
    #[cfg(debug_assertions)]
    is_first: bool,
}

#[cfg(debug_assertions)]
std::thread_local! {
    /// Locks that this thread holds: bit *n* stands for rank *n*.
    static HELD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(debug_assertions)]
impl<const RANK: u8> HeldRank<RANK> {
    const BIT: u64 = 1 << RANK;

    fn take() -> Self {
        let held = HELD.get();
        assert!(
            held < Self::BIT,
            "a lock of rank {RANK} is taken inside one of rank {}",
            held.max(1).ilog2()
        );
        Self::note()
    }

    fn note() -> Self {
        let held = HELD.replace(HELD.get() | Self::BIT);
        Self { is_first: held & Self::BIT == 0 }
    }

    /// Marks the lock as released until the result is dropped.
    fn release(&self) -> ReleasedRank<RANK> {
        if self.is_first {
            HELD.set(HELD.get() & !Self::BIT);
        }
        ReleasedRank { is_first: self.is_first }
    }
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for HeldRank<RANK> {
    fn drop(&mut self) {
        if self.is_first {
            HELD.set(HELD.get() & !Self::BIT);
        }
    }
}

/// Record that a lock of this rank is temporarily released.
#[derive(Debug)]
struct ReleasedRank<const RANK: u8> {
    #[cfg(debug_assertions)]
    is_first: bool,
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for ReleasedRank<RANK> {
    fn drop(&mut self) {
        if self.is_first {
            HELD.set(HELD.get() | HeldRank::<RANK>::BIT);
        }
    }
}

#[cfg(not(debug_assertions))]
impl<const RANK: u8> HeldRank<RANK> {
    const fn take() -> Self {
        Self {}
    }

    const fn note() -> Self {
        Self {}
    }

    const fn release(&self) -> ReleasedRank<RANK> {
        ReleasedRank {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn locks_are_taken_in_their_order_only() {
        let (outer, inner) = (Ordered::<u8, 3>::new(1), Ordered::<u8, 4>::new(2));
        let sibling = Ordered::<u8, 4>::new(3);
        assert_eq!(*outer.lock() + *inner.lock(), 3);
        let held = outer.lock();
        drop((inner.lock(), ()));
        assert_eq!(*sibling.lock(), 3);
        drop(held);
        let held = inner.lock();
        assert!(catch_unwind(AssertUnwindSafe(|| *outer.lock())).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| *sibling.lock())).is_err());
        // Trying is allowed, and changes nothing.
        drop(outer.try_lock().unwrap());
        drop(sibling.try_lock().unwrap());
        assert!(catch_unwind(AssertUnwindSafe(|| *sibling.lock())).is_err());
        drop(held);
        assert_eq!(*outer.lock(), 1);
        // Other locks may be taken while it is released.
        let mut held = inner.lock();
        assert_eq!(held.unlocked(|| *outer.lock()), 1);
        assert!(catch_unwind(AssertUnwindSafe(|| *outer.lock())).is_err());
        drop(held);
        // Locks may be released in another order than taken.
        let (a, b) = (outer.lock(), inner.lock());
        drop(a);
        drop(b);
        assert_eq!(*outer.lock(), 1);
    }

    #[test]
    fn read_write_locks_have_their_place_too() {
        let (outer, inner) = (OrderedRw::<u8, 3>::new(1), OrderedRw::<u8, 4>::new(2));
        let leaf = Innermost::new(3);
        {
            let _outer = outer.read();
            *inner.write() += 1;
            assert_eq!(*inner.read() + *leaf.lock(), 6);
            assert!(catch_unwind(AssertUnwindSafe(|| *outer.read())).is_err(), "a writer may wait between");
        }
        let _inner = inner.read();
        assert!(catch_unwind(AssertUnwindSafe(|| *outer.read())).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| *outer.write())).is_err());
        let _leaf = leaf.lock();
        assert!(
            catch_unwind(AssertUnwindSafe(|| *Innermost::new(0).lock())).is_err(),
            "inside the innermost"
        );
    }

    #[test]
    fn a_lock_given_away_fairly_is_not_held() {
        let (outer, inner) = (Ordered::<u8, 3>::new(1), Ordered::<u8, 4>::new(2));
        inner.lock().unlock_fair();
        assert_eq!(*outer.lock(), 1);
        assert_eq!(inner.into_inner(), 2);
    }
}
