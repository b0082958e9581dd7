//! A client that sends octets and reads lines; every read has a time limit.

use rustix::net::{self, AddressFamily, SocketType};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take. Only a test that fails waits for so long.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

pub struct Client {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    /// From this address of ours, past the greeting.
    pub fn greeted_from(host: [u8; 4], address: SocketAddr) -> Self {
        let mut client = Self::connect_from(host.into(), address);
        let greeting = client.line();
        assert!(greeting.starts_with("200 "), "{greeting}");
        client
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// A connection from another address of this machine.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::new(from, 0)).unwrap();
        net::connect(&socket, &to).unwrap();
        Self::of(TcpStream::from(socket))
    }

    pub fn greeted(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        let greeting = client.line();
        assert!(greeting.starts_with("200 ") || greeting.starts_with("201 "), "{greeting}");
        client
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The stream, to send on from another thread.
    pub fn sender(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// As `send`, for a server that may have closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// One line without its CRLF; octets above 127 as Latin 1.
    pub fn line(&mut self) -> String {
        self.line_or_end().expect("the server closed the connection")
    }

    pub fn line_or_end(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.lines.read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("no answer: {error}"),
        }
        assert!(line.ends_with(b"\r\n"), "{line:?}");
        Some(line[..line.len() - 2].iter().map(|&b| b as char).collect())
    }

    /// No answer comes for so long. An answer that is only slow passes too.
    pub fn answers_nothing_for(&mut self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let answer = self.lines.fill_buf().map(<[u8]>::to_vec);
        self.stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        assert!(answer.is_err(), "{answer:?}");
    }

    /// Sends a command line and gives the first line of the answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n"));
        self.line()
    }

    /// The lines of a multi-line block up to the final dot, which is left out.
    pub fn block(&mut self) -> Vec<String> {
        std::iter::from_fn(|| Some(self.line()).filter(|line| line != ".")).collect()
    }

    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// As `half_close`, for a server that may have closed the connection.
    pub fn try_half_close(&mut self) {
        let _already_closed = self.stream.shutdown(Shutdown::Write);
    }

    /// Everything up to the end of the stream.
    pub fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        match self.lines.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("no end: {error}"),
        }
        rest.iter().map(|&b| b as char).collect()
    }
}

/// An article in wire format, with the final dot line.
pub fn article(id: &str, groups: &str, body: &str) -> String {
    format!(
        "Path: peer.example!not-for-mail\r\nFrom: A Tester <tester@site.example>\r\nNewsgroups: {groups}\r\n\
         Subject: test {id}\r\nDate: 15 Apr 1993 12:00:00 GMT\r\nMessage-ID: {id}\r\n\r\n{body}\r\n.\r\n"
    )
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.lines.read(buffer)
    }
}
