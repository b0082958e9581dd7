//! Rates: a token bucket, and a limit in bytes per second that several connections share.
//!
//! A [`TokenBucket`] is pure: the caller passes the time and does the waiting. Connections wait for a
//! [`Bandwidth`]. Called by [`ServerOutput`](crate::ServerOutput) and by hourly limits.

use lock_order::Innermost;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Minimum number of bytes that a paced connection sends at once, unless its limit is smaller.
const PACED_BYTES_MIN: u64 = 4096;

/// Token bucket that holds at most `capacity` tokens and fills up evenly within `period`.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    capacity: f64,
    period: Duration,
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(capacity: u64, period: Duration, now: Instant) -> Self {
        let capacity = capacity.max(1) as f64;
        Self { capacity, period, tokens: capacity, at: now }
    }

    /// Changes the capacity; tokens already taken stay taken, but the change alone leaves no debt.
    pub fn resize(&mut self, capacity: u64, now: Instant) {
        let capacity = capacity.max(1) as f64;
        if capacity != self.capacity {
            self.fill(now);
            let owed = self.tokens.min(0.0);
            self.tokens = (self.tokens + capacity - self.capacity).max(owed);
            self.capacity = capacity;
        }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + self.capacity * passed / self.period.as_secs_f64()).min(self.capacity);
        self.at = self.at.max(now);
    }

    /// Returns the number of whole tokens, or, if they are fewer than `least`, the time until there are
    /// enough.
    pub fn ready(&mut self, least: u64, now: Instant) -> Result<u64, Duration> {
        self.fill(now);
        let least = (least as f64).min(self.capacity);
        // A shortfall by rounding alone is not waited for.
        if self.tokens + 1e-6 >= least {
            return Ok((self.tokens + 1e-6) as u64);
        }
        Err(self.period.mul_f64((least - self.tokens) / self.capacity).max(Duration::from_millis(1)))
    }

    /// Takes tokens out; a shortfall becomes a debt.
    pub fn take(&mut self, tokens: u64) {
        self.tokens -= tokens as f64;
    }

    /// Returns whether the bucket is full, that is, no different from a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.capacity
    }
}

/// Limit in bytes per second that connections share.
#[derive(Debug)]
pub struct Bandwidth(Innermost<TokenBucket>);

impl Bandwidth {
    /// Creates a limit of `bytes_per_sec`.
    pub fn new(bytes_per_sec: u64, now: Instant) -> Self {
        Self(Innermost::new(TokenBucket::new(bytes_per_sec, Duration::from_secs(1), now)))
    }

    /// Changes the limit to `bytes_per_sec`.
    pub fn resize(&self, bytes_per_sec: u64, now: Instant) {
        self.0.lock().resize(bytes_per_sec, now);
    }

    /// Waits until something may be sent; returns the number of bytes allowed, of `wanted`.
    pub async fn allowance(&self, wanted: usize) -> usize {
        loop {
            let ready = self.0.lock().ready((wanted as u64).min(PACED_BYTES_MIN), Instant::now());
            match ready {
                Ok(bytes) => return wanted.min(usize::try_from(bytes).unwrap_or(usize::MAX)).max(1),
                Err(wait) => sleep(wait).await,
            }
        }
    }

    /// Counts bytes that were sent.
    pub fn sent(&self, bytes: usize) {
        self.0.lock().take(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_available_at_once_and_then_refills_evenly() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10, Duration::from_secs(1), start);
        assert_eq!(bucket.ready(1, start), Ok(10));
        bucket.take(10);
        assert_eq!(bucket.ready(1, start), Err(Duration::from_millis(100)));
        assert_eq!(bucket.ready(5, start), Err(Duration::from_millis(500)));
        assert_eq!(bucket.ready(1, start + Duration::from_millis(300)), Ok(3));
        bucket.take(3);
        assert!(!bucket.is_full(start + Duration::from_millis(900)));
        assert!(bucket.is_full(start + Duration::from_secs(3)));
        assert_eq!(bucket.ready(1000, start + Duration::from_secs(3)), Ok(10));
        bucket.take(4);
        bucket.resize(20, start + Duration::from_secs(3));
        assert_eq!(bucket.ready(1, start + Duration::from_secs(3)), Ok(16));
        bucket.resize(2, start + Duration::from_secs(3));
        assert_eq!(bucket.ready(1, start + Duration::from_secs(3)), Err(Duration::from_millis(500)));
    }

    #[test]
    fn many_small_takes_add_up_to_the_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000, Duration::from_secs(1), start);
        let (mut now, mut taken) = (start, 0);
        while taken < 5000 {
            match bucket.ready(50, now) {
                Ok(tokens) => {
                    bucket.take(tokens.min(70));
                    taken += tokens.min(70);
                }
                Err(wait) => now += wait,
            }
        }
        let secs = (now - start).as_secs_f64();
        assert!((3.9..4.1).contains(&secs), "{secs}");
    }
}
