//! Progress reports of long operations. The server draws a bar or prints lines; `()` is silent.

/// Receiver of progress reports. Steps may come from several threads.
pub trait Progress: Send + Sync {
    /// Begins work named `what` with `total` steps.
    fn start(&self, what: &str, total: u64);
    /// Reports that `done` steps of the total are done.
    fn step(&self, done: u64);
    /// Ends the work begun last.
    fn finish(&self);
}

impl Progress for () {
    fn start(&self, _what: &str, _total: u64) {}
    fn step(&self, _done: u64) {}
    fn finish(&self) {}
}
