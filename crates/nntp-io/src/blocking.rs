//! For programs that are not asynchronous: waiting for a connection on the thread at hand.
//!
//! One small runtime serves the whole process; whichever thread waits drives it for all. Called by commands,
//! tools and tests, never by a server.

use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_current_thread().enable_io().enable_time().build());

/// Runs `future` to its end on this thread, which must not be one of another runtime's. Connections that one
/// call has made can be used in later ones, from any thread.
///
/// # Panics
/// If the system has no means to wait for sockets left, and where it would block another runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match &*RUNTIME {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("no runtime for connections: {error}"),
    }
}
