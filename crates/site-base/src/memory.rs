//! Freed memory is returned to the system (decision 11).
//!
//! The allocator keeps freed memory for a moment, and checks whether the moment is over when something else
//! is freed: an idle server would keep the memory that only its start needed. Contains the only `unsafe` of
//! this crate.

use std::time::Duration;

/// Time after which the first checkpoint is written, and data read for the start is no longer used.
const START: Duration = Duration::from_secs(2);

/// Returns the memory that a start needed once it is over. Awaited on the thread that has started.
pub async fn give_back_after_start() {
    give_back_after(START).await;
}

/// Returns free memory after `moment`, for times when nothing else may cause the allocator to do so.
pub async fn give_back_after(moment: Duration) {
    tokio::time::sleep(moment).await;
    give_back();
}

#[allow(unsafe_code)]
fn give_back() {
    // The crate declares this function only with a feature that requires another crate.
    use libmimalloc_sys as _;
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: mimalloc has this function with this signature (mimalloc.h), for any thread at any time; it
    // touches only memory that is free.
    unsafe { mi_collect(true) }
}
