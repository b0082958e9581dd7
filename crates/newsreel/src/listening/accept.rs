//! Accepting: a task for each listening socket, with the sessions of its connections.

use super::listener::Listener;
use super::{Admit, Way};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{error, warn};

/// Pause after a failed accept, as when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the server stops or the socket is closed, then waits for their sessions.
pub(super) async fn accept_all(
    mut listener: Listener,
    way: Arc<Way>,
    admit: Admit,
    stopping: impl Future<Output = ()> + Send,
) {
    let mut sessions = JoinSet::new();
    let mut stopping = std::pin::pin!(stopping);
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            () = way.closed() => {
                // They were let in by the system before it was known.
                while let Some((socket, address)) = listener.waiting() {
                    if let Some(session) = admit(socket, address, way.begins_with_tls()) {
                        sessions.spawn(session);
                    }
                }
                break;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => Some(accepted),
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    None
                }
            },
            Some(ended) = sessions.join_next() => {
                tell_failure(ended);
                listener.session_ended()
            }
        };
        if let Some((socket, address)) = accepted
            && let Some(session) = admit(socket, address, way.begins_with_tls())
        {
            sessions.spawn(session);
        }
    }
    drop(listener);
    while let Some(ended) = sessions.join_next().await {
        tell_failure(ended);
    }
}

fn tell_failure(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        error!(%error, "a session failed");
    }
}
