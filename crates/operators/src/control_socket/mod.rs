//! The control socket: the connection of `newsreel status`, `group`, `rnews` and others to a running server.
//!
//! A Unix socket in the spool's directory that can be opened by the server's user, and by the members of
//! `site.control_group`, who may only make requests that change nothing ([`is_for_all`]). A client sends a
//! [`Request`] as a line of JSON; after [`Request::Rnews`] and [`Request::Import`] follow articles in wire
//! format (CRLF, dot-stuffed, without the final `.` line), framed as those requests say. The server answers
//! with lines of [`Reply`], of which the last is [`Reply::Done`]. A connection may carry many requests, one
//! after the other; when all `seats` are taken, a silent client is cut off. Requests are carried out by
//! `operations` and, for articles, by `ingest`, each on a thread that may block. Called by `server`; the
//! other side is `cli::control`.

mod groups;
pub mod import;
#[cfg(feature = "mount")]
pub mod mount;
pub mod rnews;
mod seats;

use crate as operations;
use crate::cached;
#[cfg(feature = "mount")]
use crate::mounted::SpoolViewOptions;
use crate::posts;
use crate::pull::standing;
use crate::reload;
use crate::report;
use crate::request::{ModerationCommand, Reply, Request};
use crate::running::Server;
use crate::transmit::progress;
use seats::{Connection, Seat, Seats};
use site::Site;
use std::fs;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
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

/// Returns true if members of the group may make the request as well.
fn is_for_all(request: &Request) -> bool {
    #[cfg(feature = "mount")]
    if matches!(request, Request::Mount { .. } | Request::MountStanding { .. }) {
        return true;
    }
    matches!(request, Request::Ping | Request::Status { .. })
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

/// Answers one request; `follows` was read after its line. Returns what was read and not used, and nothing
/// if the connection is to end.
fn answer_line(server: &Server, seat: &Seat, line: &[u8], follows: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let (requests, replies) = seat.sides()?;
    let mut requests = BufReader::new(Cursor::new(follows).chain(requests));
    let mut replies = BufWriter::new(replies);
    let ok = match serde_json::from_slice::<Request>(line) {
        Err(error) => {
            say(&mut replies, &Reply::Error(error.to_string()))?;
            false
        }
        Ok(request) if seat.is_member() && !is_for_all(&request) => {
            say(&mut replies, &Reply::Error(NOT_FOR_ALL.to_owned()))?;
            say(&mut replies, &Reply::Done { ok: false })?;
            replies.flush()?;
            // What follows may belong to the request.
            return Ok(None);
        }
        #[cfg(feature = "mount")]
        Ok(Request::Mount { reader, crlf }) => {
            mount::serve(&server.site, SpoolViewOptions { reader, crlf }, &mut replies)?
        }
        #[cfg(feature = "mount")]
        Ok(Request::MountStanding { mount }) => mount::say_standing(mount, &mut replies)?,
        Ok(request) => answer(server, &request, &mut requests, &mut replies)?,
    };
    say(&mut replies, &Reply::Done { ok })?;
    replies.flush()?;
    let mut rest = requests.buffer().to_vec();
    let (follows, _) = requests.into_inner().into_inner();
    let used = usize::try_from(follows.position()).unwrap_or(usize::MAX);
    rest.extend_from_slice(follows.get_ref().get(used..).unwrap_or_default());
    Ok(Some(rest))
}

fn answer(
    server: &Server,
    request: &Request,
    requests: &mut impl Read,
    replies: &mut (impl Write + Send),
) -> io::Result<bool> {
    let site = &server.site;
    match request {
        Request::Ping => serving(site, replies),
        Request::Status { .. } => {
            // Refreshed, so that the figures include what the operator did a moment ago.
            Handle::current().block_on(server.measuring.refresh(report::FRESH_TIMEOUT));
            say(replies, &Reply::Status(Box::new(server.report())))?;
            Ok(true)
        }
        Request::Reload => reloaded(reload::reload(server), replies),
        Request::Compare { file, text } => reloaded(reload::compare(server, text, file), replies),
        Request::Rnews => rnews::file(site, requests, replies),
        Request::Import => import::file(site, requests, replies),
        other => {
            let mut failure = None;
            let is_gone = AtomicBool::new(false);
            let mut sink = |reply: Reply| {
                if failure.is_none() {
                    failure = say(replies, &reply).and_then(|()| replies.flush()).err();
                    is_gone.store(failure.is_some(), Ordering::Relaxed);
                }
            };
            // Long operations end with the server, and with the command that asked for them.
            let is_over = || is_gone.load(Ordering::Relaxed) || site.is_stopping();
            let ok = match other {
                Request::Buffer { command } => reload::change_buffer(site, command, &mut sink),
                Request::Send { .. } => progress::group(&site.spool, other, &mut sink, &is_over),
                Request::Pull { spec } => {
                    standing::once(spec, &standing::ground(site, &site.config.current()), &mut sink, &is_over)
                }
                Request::Why { message_id, peer } => {
                    let feed = server.feeds.status(peer);
                    let config = site.config.current();
                    operations::why(&site.spool, &config, message_id, peer, feed.as_ref(), &mut sink)
                }
                Request::Pause { reason } => operations::pause::begin(site, reason, &mut sink),
                Request::Go => operations::pause::end(site, &mut sink),
                Request::Feed { peer, command } => operations::feed(&server.feeds, peer, command, &mut sink),
                Request::Archive { command } => {
                    operations::archive::execute(&server.archives, &site.spool, command, &mut sink)
                }
                Request::Filter { command } => operations::filter::execute(&site.filer, command, &mut sink),
                Request::Moderation { command } => moderate(server, command, &mut sink),
                Request::VerifyCache | Request::Posts { .. } => of_upstreams(server, other, &mut sink),
                #[cfg(feature = "search")]
                Request::Search { .. } | Request::RebuildSearch => {
                    operations::search::execute(site, &server.search, other, &mut sink)
                }
                Request::Batch { peer } => operations::batch(server.feeds.batch(peer), peer, &mut sink),
                other => operations::execute(other, site.filer.log(), &mut sink),
            };
            failure.map_or(Ok(ok), Err)
        }
    }
}

/// Reports what a reload changed, or would change, or why it is refused.
fn reloaded(
    report: Result<reload::ReloadReport, reload::ReloadError>,
    replies: &mut (impl Write + Send),
) -> io::Result<bool> {
    let ok = report.is_ok();
    let reply = report
        .map_or_else(|refused| Reply::Error(refused.to_string()), |report| Reply::Text(report.screen()));
    say(replies, &reply)?;
    Ok(ok)
}

fn of_upstreams(server: &Server, request: &Request, sink: &mut operations::Sink<'_>) -> bool {
    match request {
        Request::Posts { command } => posts::execute(server.upstreams.posts(), command, sink),
        _ => cached::verify(server.upstreams.cache().as_ref(), sink),
    }
}

fn moderate(server: &Server, command: &ModerationCommand, sink: &mut operations::Sink<'_>) -> bool {
    let injector = &server.context.injector;
    let approve = |post: &_, by: &_| Handle::current().block_on(injector.approve(&server.site, post, by));
    operations::moderation::execute(injector.moderation(), Some(&approve), command, sink)
}

fn serving(site: &Site, replies: &mut impl Write) -> io::Result<bool> {
    let file = site.config.load().file.clone();
    let file = fs::canonicalize(&file).or_else(|_| std::path::absolute(&file))?;
    say(replies, &Reply::Serving { file })?;
    Ok(true)
}

/// Reads the next length and the bytes that it announces; false at the end of the sequence.
fn next_frame(requests: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    requests.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    bytes.clear();
    if requests.by_ref().take(u64::from(length)).read_to_end(bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(length > 0)
}

fn say(replies: &mut impl Write, reply: &Reply) -> io::Result<()> {
    serde_json::to_writer(&mut *replies, reply)?;
    replies.write_all(b"\n")
}
