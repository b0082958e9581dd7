//! Places at which a test kills the process, as `kill -9` would.
//!
//! With the feature `testing`, `USENETFS_KILL_AT=NAME:N` kills the process when the place is reached for the
//! Nth time. Released programs do not contain this.

/// Reports that this place was reached.
#[cfg(not(feature = "testing"))]
pub fn reached(_name: &str) {}

#[cfg(feature = "testing")]
pub use testing::reached;

#[cfg(feature = "testing")]
mod testing {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    static POINT: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();

    pub fn reached(name: &str) {
        let Some((wanted, left)) = POINT.get_or_init(configured) else { return };
        if wanted == name && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _killed = kill_process(getpid(), Signal::KILL);
        }
    }

    fn configured() -> Option<(String, AtomicU64)> {
        let value = std::env::var("USENETFS_KILL_AT").ok()?;
        let (name, count) = value.split_once(':')?;
        Some((name.to_owned(), AtomicU64::new(count.parse().ok()?)))
    }
}
