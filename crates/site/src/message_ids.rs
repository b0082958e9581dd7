//! Fresh Message-IDs, for posts and for mails.
//!
//! Called by `inject` and `moderation`. Source: RFC 5536 section 3.1.3.

use netnews::injection;
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a Message-ID that no other text has; `count` is from [`next_count`].
pub(crate) fn fresh(identity: &str, count: u64) -> String {
    injection::message_id(identity, nanos(), count, random())
}

/// Returns a number that is counted up since the start.
pub(crate) fn next_count() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Returns the time in nanoseconds since 1970.
pub(crate) fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// If this fails, a Message-ID is still unique, unless the clock is set back.
fn random() -> u32 {
    let mut octets = [0; 4];
    let _no_randomness = SystemRandom::new().fill(&mut octets);
    u32::from_ne_bytes(octets)
}
