//! The least of an HTTP client.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Asks for a page again and again on one connection; returns how often it came.
pub fn get_for(address: SocketAddr, path: &str, time: Duration) -> io::Result<u32> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.set_nodelay(true)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept-Encoding: zstd\r\n\r\n");
    let (begun, mut count) = (Instant::now(), 0);
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 << 10];
    while begun.elapsed() < time {
        socket.write_all(request.as_bytes())?;
        answer.clear();
        while !is_whole(&answer) {
            let read = socket.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(piece.get(..read).unwrap_or_default());
        }
        if !answer.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other(format!("{path} is not answered")));
        }
        count += 1;
    }
    Ok(count)
}

/// Whether an answer has come to its end, by its length or with its last chunk.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let (head, body) = answer.split_at(end + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
        Some(length) => length.trim().parse().is_ok_and(|length: usize| body.len() >= length),
        None => head.contains("transfer-encoding: chunked") && body.ends_with(b"0\r\n\r\n"),
    }
}

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
