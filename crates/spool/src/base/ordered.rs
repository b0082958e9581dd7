//! [`Ordered`]: a mutex with its place in the order of locks, which debug builds check.
//!
//! A thread takes a lock only while all that it holds stand before it in [`rank`]; otherwise two threads
//! could wait for each other. Debug builds, and so all tests, panic where this is broken, whether or not
//! another thread was in the way; a release build has nothing but the mutex.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// The order of the spool's, outermost first. Locks of the same rank are never held together. Ranks below
/// these are of locks that others hold while they use the spool, ranks above of those that nobody holds
/// meanwhile.
pub(crate) mod rank {
    /// `Spool::thread`: closing only.
    pub const THREAD: u8 = 16;
    /// `Spool::packing_overview`: one pass of compressing at a time.
    pub const PACKING_OVERVIEW: u8 = 17;
    /// `Spool::writer`: any thread that commits, expires, changes groups or buffers, repairs. Readers never
    /// take it.
    pub const WRITER: u8 = 18;
    /// `SyncState::syncing`: a sync of everything, by `spool-sync` or by the thread that changes a buffer.
    pub const SYNCING: u8 = 19;
    /// Syncs of one place wait for one another: each volume's, the journal's.
    pub const PLACE_SYNCING: u8 = 20;
    /// The same of the group file, which is synced before the journal.
    pub const GROUPS_SYNCING: u8 = 21;
    /// What is written of the group file.
    pub const GROUPS_FILE: u8 = 22;
    /// The writing side of history.
    pub const HISTORY: u8 = 23;
    /// A record of history that is being overwritten; readers that meet it take this lock too.
    pub const REPLACING: u8 = 24;
    /// One group's state, which readers take briefly.
    pub const GROUP: u8 = 25;
    /// The blocks of a segment of overview.
    pub const BLOCKS: u8 = 26;
    /// What the syncing thread is to do (`SyncState::wanted`).
    pub const WANTED: u8 = 27;
    /// A volume's own tables, the journal's list of files.
    pub const TABLES: u8 = 28;
    /// A class's samples for its dictionary.
    pub const SAMPLES: u8 = 29;
    /// The threads that train dictionaries.
    pub const TRAINING: u8 = 30;
    /// Taken last, and briefly: the cached list of groups, a shard of reservations, those of `Follow`, what
    /// stopped the writer, the callbacks of durability (which take no lock of the spool).
    pub const INNERMOST: u8 = 31;
}

/// A mutex of the given [`rank`].
#[derive(Debug, Default)]
pub struct Ordered<T, const RANK: u8>(Mutex<T>);

impl<T, const RANK: u8> Ordered<T, RANK> {
    /// One that guards `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits until nobody has it. All locks that this thread holds have a lower rank.
    pub fn lock(&self) -> OrderedGuard<'_, T, RANK> {
        let held = Held::take();
        OrderedGuard { guard: self.0.lock(), held }
    }

    /// `None` if it is taken. Whoever does not wait stands in nobody's way, whatever else it holds.
    pub fn try_lock(&self) -> Option<OrderedGuard<'_, T, RANK>> {
        let guard = self.0.try_lock()?;
        Some(OrderedGuard { guard, held: Held::note() })
    }
}

/// Access to what the mutex guards, until dropped.
#[derive(Debug)]
pub struct OrderedGuard<'a, T, const RANK: u8> {
    guard: MutexGuard<'a, T>,
    held: Held<RANK>,
}

impl<T, const RANK: u8> OrderedGuard<'_, T, RANK> {
    /// Waits for the condition with the lock released.
    pub fn wait(&mut self, condition: &Condvar) {
        condition.wait(&mut self.guard);
    }

    /// The same, at most until `time`. Returns whether that has come.
    pub fn wait_until(&mut self, condition: &Condvar, time: Instant) -> bool {
        condition.wait_until(&mut self.guard, time).timed_out()
    }

    /// The same, for at most `duration`.
    pub fn wait_for(&mut self, condition: &Condvar, duration: Duration) {
        condition.wait_for(&mut self.guard, duration);
    }

    /// The same, as long as `goes_on` says so.
    pub fn wait_while_for(
        &mut self,
        condition: &Condvar,
        goes_on: impl FnMut(&mut T) -> bool,
        duration: Duration,
    ) {
        condition.wait_while_for(&mut self.guard, goes_on, duration);
    }

    /// Does something with the lock released, which then is taken again.
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

/// That this thread holds a lock of this rank.
#[derive(Debug)]
struct Held<const RANK: u8> {
    /// It held none before.
    #[cfg(debug_assertions)]
    is_first: bool,
}

#[cfg(debug_assertions)]
std::thread_local! {
    /// Bit *n*: this thread holds a lock of rank *n*.
    static HELD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Held<RANK> {
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

    /// Not held until the result is dropped.
    fn release(&self) -> Released<RANK> {
        if self.is_first {
            HELD.set(HELD.get() & !Self::BIT);
        }
        Released { is_first: self.is_first }
    }
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for Held<RANK> {
    fn drop(&mut self) {
        if self.is_first {
            HELD.set(HELD.get() & !Self::BIT);
        }
    }
}

/// That a lock of this rank is released for a while.
#[derive(Debug)]
struct Released<const RANK: u8> {
    #[cfg(debug_assertions)]
    is_first: bool,
}

#[cfg(debug_assertions)]
impl<const RANK: u8> Drop for Released<RANK> {
    fn drop(&mut self) {
        if self.is_first {
            HELD.set(HELD.get() | Held::<RANK>::BIT);
        }
    }
}

#[cfg(not(debug_assertions))]
impl<const RANK: u8> Held<RANK> {
    const fn take() -> Self {
        Self {}
    }

    const fn note() -> Self {
        Self {}
    }

    const fn release(&self) -> Released<RANK> {
        Released {}
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
        // Not waiting is allowed, and changes nothing.
        drop(outer.try_lock().unwrap());
        drop(sibling.try_lock().unwrap());
        assert!(catch_unwind(AssertUnwindSafe(|| *sibling.lock())).is_err());
        drop(held);
        assert_eq!(*outer.lock(), 1);
        // While it is released, others may be taken.
        let mut held = inner.lock();
        assert_eq!(held.unlocked(|| *outer.lock()), 1);
        assert!(catch_unwind(AssertUnwindSafe(|| *outer.lock())).is_err());
        drop(held);
        // Released in another order than taken.
        let (a, b) = (outer.lock(), inner.lock());
        drop(a);
        drop(b);
        assert_eq!(*outer.lock(), 1);
    }
}
