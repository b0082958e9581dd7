//! Work that may wait, done on a thread of the runtime or outside of it.

/// Runs work that may wait for the disk or for another thread, without holding up other tasks of this thread.
pub fn patiently<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}
