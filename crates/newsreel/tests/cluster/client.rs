//! The client of the player of transcripts: it sends octets, and reads lines.

use crate::nodes::WAIT_MAX;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends octets; returns false if the connection is closed.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.get_mut().write_all(bytes).is_ok()
    }

    /// Returns a line without its end, octets above 127 as Latin 1; `None` at the end.
    pub fn line_or_end(&mut self) -> Option<String> {
        let line = self.raw_line()?;
        Some(line.strip_suffix(b"\r\n").unwrap_or(&line).iter().map(|octet| char::from(*octet)).collect())
    }

    /// Returns a line as it is; `None` at the end.
    pub fn raw_line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => Some(line),
            // The other side has closed while there was something to read for it.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }
}
