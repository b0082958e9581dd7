//! `newsreel ctl pause`: for a while no article is taken, from anybody.
//!
//! Peers are told to come later, posts are refused, batches and pulls wait; readers and outgoing feeds go on.
//! It ends with `newsreel ctl go`, or with the server. Called by `ingest` and the control socket.

use arc_swap::ArcSwapOption;
use site_base::clock::unix_now;
use std::fmt;
use std::sync::Arc;

/// Bytes of a reason at most: it stands in answers, whose lines are short.
pub const REASON_BYTES_MAX: usize = 200;

/// Since when no article is taken, and why.
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

/// Whether articles are taken.
#[derive(Debug, Default)]
pub(super) struct Pause(ArcSwapOption<Paused>);

impl Pause {
    /// No article is taken from now on. A pause that lasts keeps its beginning.
    pub fn begin(&self, reason: String) {
        let since = self.now().map_or_else(|| u64::try_from(unix_now()).unwrap_or_default(), |old| old.since);
        self.0.store(Some(Arc::new(Paused { since, reason })));
    }

    /// Articles are taken again; what ended.
    pub fn end(&self) -> Option<Arc<Paused>> {
        self.0.swap(None)
    }

    /// The pause that lasts.
    pub fn now(&self) -> Option<Arc<Paused>> {
        self.0.load_full()
    }

    /// Whether there is one.
    pub fn lasts(&self) -> bool {
        self.0.load().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_has_a_beginning_words_and_an_end() {
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
