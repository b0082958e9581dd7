//! The client's side of the control socket.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::screen::Failure;
use crate::control_socket::{LINE_BYTES_MAX, socket_path};
use crate::operations::request::{Reply, Request};

/// How long a server may take to say that it lives.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Who listens on the control socket of a spool.
pub(super) enum Listening {
    Server(Control),
    /// Somebody who does not answer: a process that is ending, or one that has no time.
    Silent,
    Nobody,
}

/// A connection to a running server.
pub(super) struct Control {
    read: BufReader<UnixStream>,
    write: UnixStream,
}

impl Control {
    /// Looks for the server of the spool in `data`. That its socket takes a connection is not enough: so does that of a
    /// process that was killed and has not ended yet.
    pub(super) fn find(data: &Path) -> Result<Listening, Failure> {
        let path = socket_path(data);
        let write = match UnixStream::connect(&path) {
            Ok(write) => write,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let (path, advice) = (path.display(), super::owner::advice(&path));
                return Err(Failure::Problem(format!("the control socket {path} is not ours: {advice}")));
            }
            Err(_) => return Ok(Listening::Nobody),
        };
        Ok(Self::greeted(write).map_or(Listening::Silent, Listening::Server))
    }

    /// The connection, if the other side answers.
    fn greeted(write: UnixStream) -> io::Result<Self> {
        write.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut control = Self { read: BufReader::new(write.try_clone()?), write };
        control.send(&Request::Ping)?;
        // Another version may not know the request; it lives, too. Its answer ends with `Done`, as every answer does.
        let answered = control.hear(&mut |_| {});
        answered.map_err(|_| io::Error::from(ErrorKind::TimedOut))?;
        control.write.set_read_timeout(None)?;
        Ok(control)
    }

    /// Sends a request and hears its replies but the last; returns whether all was well.
    pub(super) fn ask(
        &mut self,
        request: &Request,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, Failure> {
        self.send(request).map_err(broken)?;
        self.hear(hear)
    }

    /// Sends `articles` (wire format) with [`Request::Rnews`] while it hears their replies.
    pub(super) fn rnews(
        self,
        articles: impl Iterator<Item = Vec<u8>> + Send,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, Failure> {
        let Self { read, mut write } = self;
        let mut hearing = Self { read, write: write.try_clone().map_err(broken)? };
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || -> io::Result<()> {
                write.write_all(&line(&Request::Rnews)?)?;
                for article in articles {
                    let len = u32::try_from(article.len()).map_err(io::Error::other)?;
                    write.write_all(&len.to_be_bytes())?;
                    write.write_all(&article)?;
                }
                write.write_all(&0u32.to_be_bytes())
            });
            let heard = hearing.hear(hear);
            match sending.join() {
                Ok(Ok(())) => heard,
                Ok(Err(error)) => heard.and_then(|_| Err(broken(error))),
                Err(_) => Err(Failure::Problem("sending the batch failed".into())),
            }
        })
    }

    /// Sends framed articles with [`Request::Import`] and hears what became of them.
    pub(super) fn import(
        &mut self,
        frames: &[u8],
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, Failure> {
        self.send(&Request::Import).map_err(broken)?;
        self.write
            .write_all(frames)
            .and_then(|()| self.write.write_all(&0u32.to_be_bytes()))
            .map_err(broken)?;
        self.hear(hear)
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        self.write.write_all(&line(request)?)
    }

    fn hear(&mut self, hear: &mut (dyn FnMut(Reply) + Send)) -> Result<bool, Failure> {
        let mut text = Vec::new();
        loop {
            text.clear();
            let mut limited = (&mut self.read).take(LINE_BYTES_MAX as u64);
            if limited.read_until(b'\n', &mut text).map_err(broken)? == 0 {
                return Err(Failure::Problem(
                    "the server closed the control socket before it had answered".into(),
                ));
            }
            match serde_json::from_slice(&text) {
                Ok(Reply::Done { ok }) => return Ok(ok),
                Ok(reply) => hear(reply),
                Err(error) => {
                    let text =
                        format!("the server's answer is not understood ({error}); is it another version?");
                    return Err(Failure::Problem(text));
                }
            }
        }
    }
}

fn line(request: &Request) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    Ok(line)
}

fn broken(error: io::Error) -> Failure {
    Failure::Problem(format!("the connection to the server broke: {error}"))
}
