//! Memory that was freed, given back to the system (decision 11).
//!
//! The allocator keeps what is freed for a moment, and looks whether the moment is over when something else
//! is freed: a server that has started and is left alone would keep what only its start needed. The only
//! `unsafe` of this crate.

use std::time::Duration;

/// After this the first checkpoint is written, and what was read to start is no longer used.
const START: Duration = Duration::from_secs(2);

/// Gives back what a start needed, when it is over: to be waited for by the thread that has started.
pub async fn give_back_after_start() {
    give_back_after(START).await;
}

/// Gives back what is free a moment from now, when nothing else may do so.
pub async fn give_back_after(moment: Duration) {
    tokio::time::sleep(moment).await;
    give_back();
}

#[allow(unsafe_code)]
fn give_back() {
    // The crate declares it only with a feature that takes another crate.
    use libmimalloc_sys as _;
    unsafe extern "C" {
        fn mi_collect(force: bool);
    }
    // SAFETY: mimalloc has this function of this form (mimalloc.h), for any thread at any time; it looks at
    // memory that nobody has.
    unsafe { mi_collect(true) }
}
