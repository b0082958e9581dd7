//! Accepting: a task for each listening socket, which also runs the sessions of its connections.

use super::listener::PollingListener;
use super::{Admit, ListenerControl};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tracing::{error, warn};

/// The first pause after a failed accept, for instance for lack of file descriptors. Each further pause is
/// twice as long, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Accepts connections until the server stops or the socket is closed, then waits for their sessions.
pub(super) async fn accept_all(
    mut listener: PollingListener,
    way: Arc<ListenerControl>,
    admit: Admit,
    stopping: impl Future<Output = ()> + Send,
) {
    let mut sessions = JoinSet::new();
    let mut pause = PAUSE_MIN;
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
                    pause = PAUSE_MIN;
                    Some(accepted)
                }
                Err(error) => {
                    warn!(%error, retry_ms = pause.as_millis(), "cannot accept a connection");
                    tokio::select! {
                        () = &mut stopping => break,
                        () = sleep(pause) => {}
                    }
                    pause = longer(pause);
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

/// Returns the pause after another failure.
fn longer(pause: Duration) -> Duration {
    PAUSE_MAX.min(pause * 2)
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
        let pauses = std::iter::successors(Some(PAUSE_MIN), |pause| Some(longer(*pause)));
        let millis: Vec<u128> = pauses.take(9).map(|pause| pause.as_millis()).collect();
        assert_eq!(millis, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }
}
