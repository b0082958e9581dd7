//! Token buckets: so much at once, and then so much per time.
//!
//! Pure: the caller says what time it is, and waits by itself. Called by `limits` for posts and by the session's output for
//! bytes.

use std::time::{Duration, Instant};

/// A bucket that holds at most `capacity` tokens and fills up evenly within `period`.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    capacity: f64,
    period: Duration,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub fn new(capacity: u64, period: Duration, now: Instant) -> Self {
        let capacity = capacity.max(1) as f64;
        Self { capacity, period, tokens: capacity, at: now }
    }

    /// Gives it another capacity; what was taken from it stays taken, but nothing is owed by that alone.
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

    /// Whole tokens in it, and if there are fewer than `least`, how long until there are so many.
    pub fn ready(&mut self, least: u64, now: Instant) -> Result<u64, Duration> {
        self.fill(now);
        let least = (least as f64).min(self.capacity);
        // What is missing by rounding alone is not waited for.
        if self.tokens + 1e-6 >= least {
            return Ok((self.tokens + 1e-6) as u64);
        }
        Err(self.period.mul_f64((least - self.tokens) / self.capacity).max(Duration::from_millis(1)))
    }

    /// Takes tokens out; what is not in it is owed.
    pub fn take(&mut self, tokens: u64) {
        self.tokens -= tokens as f64;
    }

    /// Whether it is as good as a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_at_once_and_then_evenly() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, Duration::from_secs(1), start);
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
    fn a_second_of_many_small_takes_is_a_second() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, Duration::from_secs(1), start);
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
