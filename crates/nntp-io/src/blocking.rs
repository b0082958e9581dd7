//! Waiting for a connection on the current thread, for programs that are not asynchronous.
//!
//! One small runtime serves the whole process; any thread that waits drives it for all. Called by commands,
//! tools and tests, never by a server.

use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_current_thread().enable_io().enable_time().build());

/// Runs `future` to its end on this thread, which must not belong to another runtime. Connections made in one
/// call can be used in later ones, from any thread.
///
/// # Panics
/// If the system has no means left to wait for sockets, or if called within another runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match &*RUNTIME {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("no runtime for connections: {error}"),
    }
}
