//! HTTP as octets: requests are sent literally, responses are parsed.

use crate::running::Server;
use crate::waiting::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A response.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// Returns the value of a header; panics if it occurs twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        let value = values.next();
        assert!(values.next().is_none(), "{name} twice in {self:?}");
        value.map(|(_, value)| value.as_str())
    }
}

/// Opens a connection.
pub fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends `request` and reads the response, to the end of the connection.
pub fn exchange(address: SocketAddr, request: &str) -> Answer {
    let mut socket = connect(address);
    socket.write_all(request.as_bytes()).unwrap();
    let mut octets = Vec::new();
    socket.read_to_end(&mut octets).unwrap();
    taken_apart(&octets)
}

/// Parses a response.
pub fn taken_apart(octets: &[u8]) -> Answer {
    let text = String::from_utf8(octets.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim().to_owned())
    };
    Answer { status, headers: lines.map(header).collect(), body: body.to_owned() }
}

/// Requests a page with these additional header lines.
pub fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answer {
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    exchange(address, &format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n"))
}

/// Requests a page.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    get_with(address, path, "")
}

/// Returns the address of a server's pages.
pub fn address(server: &Server) -> SocketAddr {
    server.status()["web"][0].as_str().unwrap_or_else(|| panic!("{}", server.status())).parse().unwrap()
}
