//! `newsreel ctl pause`: for a while no articles are taken from anyone.
//!
//! Peers are asked to send later, posts are refused, batches and pulls wait; readers and outgoing feeds
//! continue. A pause ends with `newsreel ctl go`, or with the server. Called by `ingest` and the control
//! socket.

use arc_swap::ArcSwapOption;
use site_base::clock::unix_secs;
use std::fmt;
use std::sync::Arc;

/// Most bytes of a reason: it is part of answers, whose lines are short.
pub const REASON_BYTES_MAX: usize = 200;

/// Beginning and reason of a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    /// Unix seconds.
    pub since: u64,
    /// The operator's words; may be empty.
    pub reason: String,
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server is paused")?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// State of the pause, if any.
#[derive(Debug, Default)]
pub(super) struct Pause(ArcSwapOption<Paused>);

impl Pause {
    /// Begins a pause. One that is in effect keeps its beginning.
    pub fn begin(&self, reason: String) {
        let since = self.now().map_or_else(unix_secs, |old| old.since);
        self.0.store(Some(Arc::new(Paused { since, reason })));
    }

    /// Ends the pause; returns it.
    pub fn end(&self) -> Option<Arc<Paused>> {
        self.0.swap(None)
    }

    /// Returns the pause in effect.
    pub fn now(&self) -> Option<Arc<Paused>> {
        self.0.load_full()
    }

    /// Returns whether a pause is in effect.
    pub fn lasts(&self) -> bool {
        self.0.load().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_has_a_beginning_a_reason_and_an_end() {
        let pause = Pause::default();
        assert!(!pause.lasts() && pause.end().is_none());
        pause.begin(String::new());
        assert_eq!(pause.now().unwrap().to_string(), "the server is paused");
        let since = pause.now().unwrap().since;
        pause.begin("the disk is copied".into());
        let last = pause.end().unwrap();
        assert_eq!(
            (last.since, last.to_string().as_str()),
            (since, "the server is paused: the disk is copied")
        );
        assert!(!pause.lasts());
    }
}
