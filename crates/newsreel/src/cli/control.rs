//! The client's side of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::Failure;
use crate::control_socket::protocol::{LINE_BYTES_MAX, Reply, Request};

/// A connection to a running server.
pub(super) struct Control {
    read: BufReader<UnixStream>,
    write: UnixStream,
}

impl Control {
    /// Connects to the server of the spool in `data`; `None` if none listens there.
    pub(super) fn connect(data: &Path) -> Option<Self> {
        let write = UnixStream::connect(crate::operations::socket_path(data)).ok()?;
        let read = BufReader::new(write.try_clone().ok()?);
        Some(Self { read, write })
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
