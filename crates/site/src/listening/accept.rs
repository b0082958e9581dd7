//! Accepting: a task for each listening socket, which also runs the sessions of its connections.

use super::listener::PollingListener;
use super::{Admit, ListenerControl};
use site_base::back_off::BackOff;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{error, warn};

/// Pauses after a failed accept, for instance for lack of file descriptors.
const RETRY: BackOff = BackOff::new(Duration::from_millis(10), Duration::from_secs(1));

/// Accepts connections until the server stops or the socket is closed, then waits for their sessions.
pub(super) async fn accept_all(
    mut listener: PollingListener,
    way: Arc<ListenerControl>,
    admit: Admit,
    stopping: impl Future<Output = ()> + Send,
) {
    let mut sessions = JoinSet::new();
    let mut failures = 0;
    let mut stopping = std::pin::pin!(stopping);
    loop {
        let accepted = tokio::select! {
            () = &mut stopping => break,
            () = way.closed() => {
                // The system has accepted these connections already.
                while let Some((socket, address)) = listener.waiting() {
                    if let Some(session) = admit(socket, address, way.beginning()) {
                        sessions.spawn(session);
                    }
                }
                break;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => {
                    failures = 0;
                    Some(accepted)
                }
                Err(error) => {
                    failures += 1;
                    let pause = RETRY.pause(failures);
                    warn!(%error, retry_ms = pause.as_millis(), "cannot accept a connection");
                    tokio::select! {
                        () = &mut stopping => break,
                        () = sleep(pause) => {}
                    }
                    None
                }
            },
            Some(ended) = sessions.join_next() => {
                log_failure(ended);
                listener.session_ended()
            }
        };
        if let Some((socket, address)) = accepted
            && let Some(session) = admit(socket, address, way.beginning())
        {
            sessions.spawn(session);
        }
    }
    drop(listener);
    while let Some(ended) = sessions.join_next().await {
        log_failure(ended);
    }
}

fn log_failure(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        error!(%error, "a session failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_failures_double_up_to_a_second() {
        let millis: Vec<u128> = (1..=9).map(|failures| RETRY.exact(failures).as_millis()).collect();
        assert_eq!(millis, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }
}
