//! The control socket: the connection of `newsreel status`, `group`, `rnews` and others to a running server.
//!
//! A Unix socket in the spool's directory that can be opened by the server's user, and by the members of
//! `site.control_group`, who may only make requests that change nothing. A client sends a [`Request`] as a
//! line of JSON; after those to file articles (`rnews`, `import`) follow articles in wire format (CRLF,
//! dot-stuffed, without the final `.` line), framed as those requests say. The server answers with lines of
//! [`Reply`], of which the last is [`Reply::Done`]. A connection may carry many requests, one after the
//! other; when all `seats` are taken, a silent client is cut off. Each request is carried out by its
//! [`Operation`](crate::operation::Operation), on a thread that may block. Called by `server`; the other side
//! is `cli::control`.

pub(crate) mod exchange;
mod groups;
pub mod import;
pub mod mount;
pub mod rnews;
mod seats;

use crate::audit::{AuditParty, AuditRoad};
use crate::dispatch;
use crate::reply::Reply;
use crate::request::Request;
use crate::running::Server;
use exchange::ControlExchange;
use seats::{Connection, Seat, Seats};
use site::Site;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tracing::{debug, warn};

/// File name of the socket in the spool's directory.
pub const SOCKET_FILE_NAME: &str = "control";
/// Longest path of a Unix socket, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest request or reply line, in bytes.
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// Longest request line of a member of the group, in bytes.
const MEMBER_LINE_BYTES_MAX: usize = 64 << 10;

/// The answer to members of the group who ask for anything else.
const NOT_FOR_ALL: &str =
    "only the server's user may do that, and root; others see the status, and mount the spool";

/// Returns the path of the control socket in a spool's directory.
pub fn socket_path(data: &Path) -> PathBuf {
    data.join(SOCKET_FILE_NAME)
}

/// The listening control socket; its file is removed when dropped.
pub struct ControlListener {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlListener {
    /// Binds the socket in the spool's directory. This server has the spool open, so no other server uses a
    /// socket that is left there.
    pub fn bind(site: &Site) -> io::Result<Self> {
        let path = socket_path(&site.config.load().site.data);
        // An absolute path where it fits: commands find it in the system's list of sockets.
        let full = std::path::absolute(&path)?;
        let path = if full.as_os_str().len() <= SOCKET_PATH_BYTES_MAX { full } else { path };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let group = site.config.load().site.control_group.clone();
        if let Some(name) = &group {
            groups::give(&path, name)?;
        }
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(Self { listener, path })
    }

    /// Serves connections until the server stops.
    pub async fn serve(self, server: Arc<Server>) {
        let mut stopping = std::pin::pin!(server.site.stopping());
        let mut connections = JoinSet::new();
        let seats = Arc::<Seats>::default();
        loop {
            tokio::select! {
                () = &mut stopping => break,
                accepted = self.listener.accept() => match accepted {
                    // In the order in which they came, so that the last to come stays.
                    Ok((stream, _)) => match entered(&seats, stream) {
                        Ok(connection) => {
                            connections.spawn(serve_connection(server.clone(), Arc::new(connection)));
                        }
                        Err(error) => debug!(%error, "control connection ended"),
                    },
                    Err(error) => {
                        warn!(%error, "cannot accept a control connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        // Running requests finish, or the server stops waiting for them.
        while connections.join_next().await.is_some() {}
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _gone = fs::remove_file(&self.path);
    }
}

/// Returns true if the server's own user, or root, has connected.
fn is_of_server(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// Takes a connection in.
fn entered(seats: &Arc<Seats>, stream: UnixStream) -> io::Result<Connection> {
    let is_member = !is_of_server(&stream);
    seats.enter(stream.into_std()?, is_member)
}

/// Serves a connection to its end.
async fn serve_connection(server: Arc<Server>, connection: Arc<Connection>) {
    if let Err(error) = converse(&server, connection).await {
        debug!(%error, "control connection ended");
    }
}

/// Answers the requests of one connection, to its end or the server's.
async fn converse(server: &Arc<Server>, connection: Arc<Connection>) -> io::Result<()> {
    let mut stopping = std::pin::pin!(server.site.stopping());
    let line_bytes_max = if connection.is_member() { MEMBER_LINE_BYTES_MAX } else { LINE_BYTES_MAX };
    let mut unread = Vec::new();
    loop {
        let next = async {
            let line = connection.next_line(&mut unread, line_bytes_max).await?;
            Ok::<_, io::Error>(match line {
                Some(line) => Some((line, connection.seat().await?)),
                None => None,
            })
        };
        let next = tokio::select! {
            () = &mut stopping => None,
            next = next => next?,
        };
        let Some((line, seat)) = next else { return Ok(()) };
        let (server, follows) = (server.clone(), std::mem::take(&mut unread));
        let answered = tokio::task::spawn_blocking(move || answer_line(&server, &seat, &line, follows));
        match answered.await.map_err(io::Error::other)?? {
            Some(rest) => unread = rest,
            None => return Ok(()),
        }
    }
}

/// Answers one request; `unread` was read after its line. Returns what was read and not used, and nothing if
/// the connection is to end.
fn answer_line(server: &Server, seat: &Seat, line: &[u8], unread: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut client = ControlExchange::new(seat, unread)?;
    let ok = match serde_json::from_slice::<Request>(line) {
        Err(error) => {
            client.send(&Reply::Error(error.to_string()))?;
            false
        }
        Ok(request) if seat.is_member() && !request.operation().is_for_control_group() => {
            client.send(&Reply::Error(NOT_FOR_ALL.to_owned()))?;
            client.send(&Reply::Done { ok: false })?;
            // What follows may belong to the request.
            return Ok(None);
        }
        Ok(request) => {
            let by = AuditParty::of_uid(AuditRoad::Socket, seat.uid()?);
            dispatch::answer(&request, server, &by, &mut client)?
        }
    };
    client.send(&Reply::Done { ok })?;
    Ok(Some(client.end()))
}
