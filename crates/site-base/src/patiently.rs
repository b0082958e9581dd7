//! Work that may wait, done on a thread of the runtime or outside of it.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs work that may wait for the disk or for another thread, without holding up other tasks of this thread.
/// A runtime with one thread, such as that of a filter, waits with it.
pub fn patiently<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    #[test]
    fn work_is_done_on_a_runtime_of_any_kind_and_without_one() {
        assert_eq!(patiently(|| 1), 1);
        let single = Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(async { patiently(|| 2) }), 2);
        let many = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_eq!(many.block_on(async { patiently(|| 3) }), 3);
    }
}
