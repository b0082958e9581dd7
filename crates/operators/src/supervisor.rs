//! Reports to systemd, where it asks for them: readiness, reloads, and that the server is alive.
//!
//! Called by the server and by `reload`. Source: sd_notify(3), sd_watchdog_enabled(3).

use sd_notify::NotifyState;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
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
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return };
    let lines: String = state.iter().map(|state| format!("{state}\n")).collect();
    if let Err(error) = send(&socket, lines.as_bytes()) {
        warn!(socket = %socket.display(), %error, "sd_notify failed");
    }
}

/// Sends a datagram to a socket, which is a path or, after an `@`, a name in the abstract namespace.
fn send(socket: &OsStr, datagram: &[u8]) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => sender.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => sender.connect(socket)?,
    }
    // A datagram is sent whole, or not at all.
    sender.send(datagram).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_paths_or_names_after_an_at_sign() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("newsreel-test-{}", std::process::id());
        let named = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let bound = UnixDatagram::bind(&path).unwrap();
        for (text, socket) in [(format!("@{name}").as_ref(), named), (path.as_os_str(), bound)] {
            send(text, b"READY=1\n").unwrap();
            let mut buffer = [0; 100];
            let bytes = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..bytes], b"READY=1\n");
        }
        assert!(send("@newsreel-test-nobody".as_ref(), b"x").is_err());
    }
}
