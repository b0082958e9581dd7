//! The client's side of the control socket.
//!
//! The server of a configuration listens below the `data` that it has open. If the file has named another
//! directory since, the server is found among the spools whose control sockets the system lists.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::Duration;

use super::screen::{CliError, complain};
use ingest::BatchResult;
use ingest::batches::BatchParcel;
use operators::control_socket::import::ImportOperation;
use operators::control_socket::rnews::RnewsOperation;
use operators::control_socket::rnews::put_parcel;
use operators::control_socket::{LINE_BYTES_MAX, SOCKET_FILE_NAME, socket_path};
use operators::reply::Reply;
use operators::request::Request;
use operators::status::PingOperation;

/// Time for a server to answer a ping.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for all other servers of this machine to answer one.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(2);
/// Parcels of a batch that are read ahead, and parcels that wait for their answers.
const PARCELS_AHEAD: usize = 2;

/// State of the control socket of a spool.
pub(super) enum ControlSocketState {
    Server(ControlClient),
    /// A process that does not answer: one that is ending, or one that is too busy.
    Silent,
    Nobody,
}

/// Receives the fates of the articles of a parcel.
pub(super) type Settle<'a> = dyn FnMut(&BatchParcel, &[BatchResult]) -> Result<(), CliError> + 'a;

/// A connection to a running server.
pub(super) struct ControlClient {
    read: BufReader<UnixStream>,
    write: UnixStream,
    /// The directory of the server's spool.
    data: PathBuf,
}

/// File in which the system lists the Unix sockets in use.
const SOCKETS_FILE: &str = "/proc/net/unix";

impl ControlClient {
    /// Looks for the server of the spool in `data`. An accepted connection is not enough: the socket of a
    /// process that was killed and has not ended yet accepts one, too.
    pub(super) fn find(data: &Path) -> Result<ControlSocketState, CliError> {
        let path = socket_path(data);
        let write = match UnixStream::connect(&path) {
            Ok(write) => write,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let (path, advice) = (path.display(), super::owner::advice(&path));
                return Err(CliError::Problem(format!("the control socket {path} is not ours: {advice}")));
            }
            Err(_) => return Ok(ControlSocketState::Nobody),
        };
        let greeted = Self::greeted(write, data);
        Ok(greeted.map_or(ControlSocketState::Silent, |(control, _)| ControlSocketState::Server(control)))
    }

    /// Looks for the server of a configuration: that of the spool in `data`, else one that serves another
    /// spool by the same file, which named that spool when the server started.
    pub(super) fn find_by(file: &Path, data: &Path) -> Result<ControlSocketState, CliError> {
        let found = Self::find(data)?;
        if matches!(found, ControlSocketState::Server(_)) {
            return Ok(found);
        }
        let Some(control) = Self::elsewhere(file, data) else { return Ok(found) };
        complain(format_args!(
            "newsreel: the server runs on {}; data = {} takes effect when it is restarted",
            control.data.display(),
            data.display()
        ));
        Ok(ControlSocketState::Server(control))
    }

    /// Returns the server that uses `file` with another spool than the one in `data`.
    fn elsewhere(file: &Path, data: &Path) -> Option<Self> {
        let file = std::fs::canonicalize(file).ok()?;
        let data = std::path::absolute(data).ok()?;
        let sockets = std::fs::read_to_string(SOCKETS_FILE).ok()?;
        let dirs = sockets.lines().filter_map(|line| {
            let path = line.get(line.find('/')?..)?;
            Path::new(path).parent().filter(|dir| dir.join(SOCKET_FILE_NAME) == Path::new(path))
        });
        // Other programs have sockets of that name, but not next to a spool.
        let is_other =
            |dir: &&Path| *dir != data && dir.join("lock").is_file() && dir.join("journal").is_dir();
        // A socket is listed once more for each of its connections.
        let dirs: BTreeSet<PathBuf> = dirs.filter(is_other).map(Path::to_owned).collect();
        let (found_to, found) = channel();
        for dir in dirs {
            // Some may hang, even before they accept the connection, so all are asked at once.
            let (found_to, file) = (found_to.clone(), file.clone());
            thread::spawn(move || {
                if let Ok(write) = UnixStream::connect(socket_path(&dir))
                    && let Ok((control, Some(served))) = Self::greeted(write, &dir)
                    && served == file
                {
                    // Fails if another server was found before.
                    let _found = found_to.send(control);
                }
            });
        }
        drop(found_to);
        found.recv_timeout(OTHERS_TIMEOUT).ok()
    }

    /// Returns the connection, if the other side answers, and the configuration file of the server.
    fn greeted(write: UnixStream, data: &Path) -> io::Result<(Self, Option<PathBuf>)> {
        write.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut control = Self { read: BufReader::new(write.try_clone()?), write, data: data.to_owned() };
        control.send(PingOperation {})?;
        let mut served = None;
        // A server of another version may not know the request; it is alive, too, and its answer ends with
        // `Done` like every answer.
        let answered = control.hear(&mut |reply| {
            if let Reply::Serving { file } = reply {
                served = Some(file);
            }
        });
        answered.map_err(|_| io::Error::from(ErrorKind::TimedOut))?;
        control.write.set_read_timeout(None)?;
        Ok((control, served))
    }

    /// The directory of the server's spool.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// Sends a request and passes on all replies but the last; returns whether the request succeeded.
    pub(super) fn ask(
        &mut self,
        request: impl Into<Request>,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, CliError> {
        self.send(request).map_err(broken)?;
        self.hear(hear)
    }

    /// Files what `next` returns with [`RnewsOperation`]. `settle` gets each parcel in order with the fates
    /// of its articles, or without fates once the connection has broken.
    pub(super) fn rnews(
        self,
        mut next: impl FnMut() -> Option<BatchParcel> + Send,
        settle: &mut Settle<'_>,
    ) -> Result<(), CliError> {
        let Self { read, mut write, data } = self;
        let mut hearing = Self { read, write: write.try_clone().map_err(broken)?, data };
        std::thread::scope(|scope| {
            let (parcels, to_send) = sync_channel(PARCELS_AHEAD);
            let (sent, to_settle) = sync_channel(PARCELS_AHEAD);
            scope.spawn(move || while next().is_some_and(|parcel| parcels.send(parcel).is_ok()) {});
            scope.spawn(move || {
                let mut is_open = line(RnewsOperation {}).and_then(|line| write.write_all(&line)).is_ok();
                for parcel in to_send {
                    // An empty parcel would mark the end.
                    if parcel.has_articles() {
                        is_open = is_open && put_parcel(&mut write, &parcel.wires()).is_ok();
                    }
                    if sent.send(parcel).is_err() {
                        return;
                    }
                }
                // Failure shows in the answer.
                let _closed = put_parcel(&mut write, &[]);
            });
            let mut failure = None;
            for parcel in to_settle {
                let fates = match failure {
                    None if parcel.has_articles() => hearing.fates().unwrap_or_else(|error| {
                        failure = Some(error);
                        Vec::new()
                    }),
                    _ => Vec::new(),
                };
                settle(&parcel, &fates)?;
            }
            match failure {
                Some(failure) => complain(failure),
                None => {
                    let mut trouble = None;
                    let ended = hearing.hear(&mut |reply| {
                        if let Reply::Error(text) = reply {
                            trouble = Some(text);
                        }
                    });
                    ended?;
                    trouble.map_or(Ok(()), |text| Err(CliError::Problem(text)))?;
                }
            }
            Ok(())
        })
    }

    /// Reads the fates of the articles of a parcel.
    fn fates(&mut self) -> Result<Vec<BatchResult>, CliError> {
        let mut text = Vec::new();
        let mut limited = (&mut self.read).take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut text).map_err(broken)?;
        match serde_json::from_slice(&text) {
            _ if text.is_empty() => Err(unanswered()),
            Ok(Reply::Articles(fates)) => Ok(fates),
            Ok(_) => Err(CliError::Problem("the server does not answer what it was asked".into())),
            Err(error) => Err(not_understood(&error)),
        }
    }

    /// Sends framed articles with [`ImportOperation`] and passes on their results.
    pub(super) fn import(
        &mut self,
        frames: &[u8],
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, CliError> {
        self.send(ImportOperation {}).map_err(broken)?;
        self.write
            .write_all(frames)
            .and_then(|()| self.write.write_all(&0u32.to_be_bytes()))
            .map_err(broken)?;
        self.hear(hear)
    }

    /// Passes the device of a mount to the server.
    pub(super) fn send_device(&self, device: Option<std::os::fd::OwnedFd>) -> io::Result<()> {
        let device = device.ok_or(ErrorKind::NotFound)?;
        operators::control_socket::mount::send_device(&self.write, &device)
    }

    fn send(&mut self, request: impl Into<Request>) -> io::Result<()> {
        self.write.write_all(&line(request)?)
    }

    /// Passes on replies up to the last one; returns whether the request succeeded.
    pub(super) fn hear(&mut self, hear: &mut (dyn FnMut(Reply) + Send)) -> Result<bool, CliError> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let mut limited = (&mut self.read).take(LINE_BYTES_MAX as u64);
            if limited.read_until(b'\n', &mut text).map_err(broken)? == 0 {
                return Err(unanswered());
            }
            match serde_json::from_slice(&text) {
                Ok(Reply::Done { ok }) => return Ok(ok),
                Ok(reply) => hear(reply),
                Err(error) => return Err(not_understood(&error)),
            }
        }
    }
}

fn line(request: impl Into<Request>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&request.into())?;
    line.push(b'\n');
    Ok(line)
}

fn unanswered() -> CliError {
    CliError::Problem("the server closed the control socket before it had answered".into())
}

fn not_understood(error: &serde_json::Error) -> CliError {
    CliError::Problem(format!("the server's answer is not understood ({error}); is it another version?"))
}

fn broken(error: io::Error) -> CliError {
    CliError::Problem(format!("the connection to the server broke: {error}"))
}
