//! How long operations report their progress. The server draws a bar or prints lines; `()` is silent.

/// Hears of long work. Steps may come from several threads.
pub trait Progress: Send + Sync {
    /// Work named `what` begins; it has `total` steps.
    fn start(&self, what: &str, total: u64);
    /// `done` steps of the total are done.
    fn step(&self, done: u64);
    /// The work begun last is done.
    fn finish(&self);
}

impl Progress for () {
    fn start(&self, _what: &str, _total: u64) {}
    fn step(&self, _done: u64) {}
    fn finish(&self) {}
}
