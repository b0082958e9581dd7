//! Reports to systemd, where it asks for them: readiness, reloads, and that the server is alive.
//!
//! Called by the server and by `reload`. Source: sd_notify(3), sd_watchdog_enabled(3).

use sd_notify::NotifyState;
use tokio::time::sleep;
use tracing::warn;

/// Reports that the server serves: after the start, and after a reload.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports that the server stops.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that a reload begins; [`ready`] follows when it has ended.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => warn!(%error, "the clock cannot be read"),
    }
}

/// Reports three times in each period of the unit's WatchdogSec that tasks of the server run, until it stops.
/// systemd restarts a server that is silent for longer.
pub async fn keep_reporting(stopping: impl Future<Output = ()>) {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let mut stopping = std::pin::pin!(stopping);
    loop {
        notify(&[NotifyState::Watchdog]);
        tokio::select! {
            () = &mut stopping => return,
            () = sleep(period / 3) => {}
        }
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "sd_notify failed");
    }
}
