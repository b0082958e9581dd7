//! The least of an HTTP client.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The whole answer to GET, which must be 200.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(answer);
    }
    let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
    Err(io::Error::other(format!("{path}: {}", String::from_utf8_lossy(line))))
}
