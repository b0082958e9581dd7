//! Message-IDs on offer: a peer was asked to send an article that has not arrived yet.
//!
//! Held by sessions from CHECK, IHAVE or POST until the commit; others are asked to try later. Only in
//! memory. Invariants: a key has at most one holder whose time has not expired; an expired reservation that
//! was taken over by another session does not release the other's.

use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use spool_base::key::{ArticleKey, KeyBits};
use spool_base::ordered::{Ordered, rank};

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

/// Holder of a key, with its deadline.
#[derive(Debug)]
struct KeyHolder {
    owner: u64,
    deadline: Instant,
}

type ReservationShard = Ordered<HeldKeys, { rank::INNERMOST }>;
type HeldKeys = std::collections::HashMap<ArticleKey, KeyHolder, BuildHasherDefault<KeyBits>>;

/// Table of reserved keys.
#[derive(Debug)]
pub struct Reservations {
    shards: Box<[ReservationShard]>,
    count: AtomicUsize,
    next_owner: AtomicU64,
    reservations_max: usize,
}

/// The right to bring the article of one Message-ID. Ends when dropped, or when its time has expired and
/// another session asks.
#[derive(Debug)]
#[must_use = "dropping a reservation releases it"]
pub struct Reservation {
    table: Arc<Reservations>,
    key: ArticleKey,
    owner: u64,
}

impl Reservations {
    /// Creates an empty table that holds at most `reservations_max`.
    pub fn new(reservations_max: usize) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Ordered::default()).collect(),
            count: AtomicUsize::new(0),
            next_owner: AtomicU64::new(0),
            reservations_max,
        })
    }

    /// Reserves a key for `ttl`. `None` if the key is held, or if the table is full.
    pub fn reserve(self: &Arc<Self>, key: ArticleKey, ttl: Duration) -> Option<Reservation> {
        self.reserve_at(key, ttl, Instant::now())
    }

    fn reserve_at(self: &Arc<Self>, key: ArticleKey, ttl: Duration, now: Instant) -> Option<Reservation> {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed);
        let holder = KeyHolder { owner, deadline: now + ttl };
        let mut held = self.shard(&key)?.lock();
        match held.entry(key) {
            Entry::Occupied(old) if old.get().deadline > now => return None,
            Entry::Occupied(mut old) => {
                old.insert(holder);
            }
            Entry::Vacant(place) => {
                if !self.count_one_more() {
                    return None;
                }
                place.insert(holder);
            }
        }
        drop(held);
        Some(Reservation { table: self.clone(), key, owner })
    }

    /// Reports whether the key is held and has time left.
    pub fn is_reserved(&self, key: &ArticleKey) -> bool {
        let now = Instant::now();
        self.shard(key).is_some_and(|held| held.lock().get(key).is_some_and(|h| h.deadline > now))
    }

    /// Returns the number of reservations, including expired ones whose holders still exist.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Reports whether there are no reservations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &ArticleKey) -> Option<&ReservationShard> {
        self.shards.get((key.0 >> (u128::BITS - SHARD_BITS)) as usize)
    }

    fn count_one_more(&self) -> bool {
        let below = |count: usize| (count < self.reservations_max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).is_ok()
    }

    fn release(&self, key: ArticleKey, owner: u64) {
        let Some(held) = self.shard(&key) else { return };
        if let Entry::Occupied(holder) = held.lock().entry(key)
            && holder.get().owner == owner
        {
            holder.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Reservation {
    /// Returns the reserved key.
    pub fn key(&self) -> ArticleKey {
        self.key
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.table.release(self.key, self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    fn send_and_static<T: Send + 'static>(t: T) -> T {
        t
    }

    #[test]
    fn a_key_has_one_holder_until_it_is_dropped() {
        let table = Reservations::new(10);
        let first = send_and_static(table.reserve(ArticleKey(1), TTL).unwrap());
        assert!(table.reserve(ArticleKey(1), TTL).is_none());
        assert!(table.is_reserved(&ArticleKey(1)) && !table.is_reserved(&ArticleKey(2)));
        assert_eq!((first.key(), table.len()), (ArticleKey(1), 1));
        std::thread::spawn(move || drop(first)).join().unwrap();
        assert!(table.is_empty());
        assert!(table.reserve(ArticleKey(1), TTL).is_some());
    }

    #[test]
    fn a_late_holder_does_not_release_its_successors() {
        let table = Reservations::new(10);
        let now = Instant::now();
        let slow = table.reserve_at(ArticleKey(7), TTL, now).unwrap();
        assert!(table.reserve_at(ArticleKey(7), TTL, now + TTL / 2).is_none());
        let next = table.reserve_at(ArticleKey(7), TTL, now + TTL).unwrap();
        assert_eq!(table.len(), 1);
        drop(slow);
        assert!(table.is_reserved(&ArticleKey(7)));
        assert!(table.reserve_at(ArticleKey(7), TTL, now + TTL).is_none());
        drop(next);
        assert!(table.is_empty());
    }

    #[test]
    fn the_table_is_bounded() {
        let table = Reservations::new(3);
        let mut held: Vec<_> = (0..3).map(|n| table.reserve(ArticleKey(n << 100), TTL).unwrap()).collect();
        assert!(table.reserve(ArticleKey(9), TTL).is_none());
        held.pop();
        assert!(table.reserve(ArticleKey(9), TTL).is_some());
    }

    #[test]
    fn one_of_many_threads_wins_each_key() {
        let table = Reservations::new(10_000);
        let won: Vec<Vec<Reservation>> = std::thread::scope(|scope| {
            let ask = || (0..1000).filter_map(|n| table.reserve(ArticleKey(n << 90 | n), TTL)).collect();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(won.iter().map(Vec::len).sum::<usize>(), 1000);
        assert_eq!(table.len(), 1000);
        drop(won);
        assert!(table.is_empty());
    }
}
