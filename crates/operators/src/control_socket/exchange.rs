//! One request of a client of the control socket, and the replies to it.

use super::seats::{Seat, WatchedStream};
use crate::reply::{LastWords, Reply};
use std::io::{self, BufReader, BufWriter, Chain, Cursor, Read, Write};

/// Both directions of a connection while a request is carried out.
pub struct ControlExchange {
    /// Bytes after the request: those that were read with it, then those that still arrive.
    requests: BufReader<Chain<Cursor<Vec<u8>>, WatchedStream>>,
    replies: BufWriter<WatchedStream>,
    said: LastWords,
}

impl ControlExchange {
    /// Begins an exchange with the client of a seat; `unread` was read after its request.
    pub(super) fn new(seat: &Seat, unread: Vec<u8>) -> io::Result<Self> {
        let (requests, replies) = seat.sides()?;
        let requests = BufReader::new(Cursor::new(unread).chain(requests));
        Ok(Self { requests, replies: BufWriter::new(replies), said: LastWords::default() })
    }

    /// Returns what follows the request.
    pub(super) fn requests(&mut self) -> &mut impl Read {
        &mut self.requests
    }

    /// Sends a reply.
    pub(crate) fn send(&mut self, reply: &Reply) -> io::Result<()> {
        self.said.hear(reply);
        serde_json::to_writer(&mut self.replies, reply)?;
        self.replies.write_all(b"\n")?;
        self.replies.flush()
    }

    /// Returns the last line of text or error that was sent.
    pub(crate) fn said(&self) -> &str {
        self.said.text()
    }

    /// Does with the connection what may wait for the client.
    pub(super) fn waits<T>(&mut self, pass: impl FnOnce(&mut std::os::unix::net::UnixStream) -> T) -> T {
        self.replies.get_mut().waits(pass)
    }

    /// Ends the exchange; returns what was read and not used.
    pub(super) fn end(self) -> Vec<u8> {
        let mut rest = self.requests.buffer().to_vec();
        let (unread, _) = self.requests.into_inner().into_inner();
        let used = usize::try_from(unread.position()).unwrap_or(usize::MAX);
        rest.extend_from_slice(unread.get_ref().get(used..).unwrap_or_default());
        rest
    }
}
