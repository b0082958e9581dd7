//! A client that sends octets and reads lines, over a connection that may be encrypted and compressed: a
//! wrapper of `nntp_io` in which every wait has a limit. Anything unexpected fails the test.

use crate::layers::settings_name;
use nntp_io::{ClientLimits, Connection, Error, Socket, block_on};
use rustix::net::{self, AddressFamily, SocketType};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ProtocolVersion};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for a response, which only a failing test reaches.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

const SEND_BUFFER_BYTES: usize = 64 << 10;

pub struct Client(Connection);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    /// Connects from this local address, and reads the greeting.
    pub fn greeted_from(host: [u8; 4], address: SocketAddr) -> Self {
        let mut client = Self::connect_from(host.into(), address);
        let greeting = client.line();
        assert!(greeting.starts_with("200 "), "{greeting}");
        client
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let limits = ClientLimits {
            connect_timeout: ANSWER_TIMEOUT,
            answer_timeout: ANSWER_TIMEOUT,
            idle_timeout: ANSWER_TIMEOUT,
            ..ClientLimits::default()
        };
        Self(Connection::new(Socket::own(stream), limits))
    }

    /// Connects from another address of this machine.
    pub fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        // The kernel's memory for TCP is shared: unsent data of a thousand clients would leave none to the
        // server.
        net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES).unwrap();
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

    /// Connects, encrypts and reads the greeting.
    pub fn encrypted(address: SocketAddr, settings: ClientConfig) -> Self {
        let mut client = Self::connect(address);
        client.handshake(settings, "news.example.org").unwrap();
        assert!(client.line().starts_with("200 "));
        client
    }

    /// Negotiates TLS.
    pub fn handshake(&mut self, settings: ClientConfig, name: &str) -> Result<(), Error> {
        block_on(self.0.start_tls(Arc::new(settings), settings_name(name)))
    }

    pub fn version(&self) -> Option<ProtocolVersion> {
        self.0.tls().unwrap().protocol_version()
    }

    pub fn protocol(&self) -> Option<&[u8]> {
        self.0.tls().unwrap().alpn_protocol()
    }

    /// Returns the server's certificate.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.0.tls().unwrap().peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Sends `COMPRESS DEFLATE` and starts compression.
    pub fn compress(&mut self) {
        assert_eq!(self.ask("COMPRESS DEFLATE"), "206 Compression active");
        block_on(self.0.start_compression()).unwrap();
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.queue(bytes.as_ref());
        block_on(self.0.flush()).unwrap();
    }

    /// Like `send`, for a server that may have closed the connection.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.queue(bytes.as_ref());
        block_on(self.0.flush()).is_ok()
    }

    /// Sends octets below all layers.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let socket = self.0.transport().socket().unwrap();
        block_on(socket.write([bytes, &[], &[]], ANSWER_TIMEOUT))
    }

    /// Returns the socket, to send on it from another thread.
    pub fn sender(&mut self) -> TcpStream {
        let socket = self.0.transport().socket().unwrap();
        block_on(async { socket.registered().unwrap().as_fd().try_clone_to_owned() }).unwrap().into()
    }

    /// Returns one line without its CRLF; octets above 127 as Latin 1.
    pub fn line(&mut self) -> String {
        self.line_or_end().expect("the server closed the connection")
    }

    pub fn line_or_end(&mut self) -> Option<String> {
        let end = loop {
            if let Some(end) = self.0.unread().iter().position(|&octet| octet == b'\n') {
                break end;
            }
            if !self.receives() {
                return None;
            }
        };
        let line = self.0.take(end + 1);
        let line = line.strip_suffix(b"\r\n").unwrap_or_else(|| panic!("{line:?}"));
        Some(line.iter().map(|&octet| octet as char).collect())
    }

    /// Waits for more input; returns false at the end.
    fn receives(&mut self) -> bool {
        match block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, self.0.receive()).await }) {
            Ok(Ok(())) => true,
            Ok(Err(Error::Ended)) => false,
            Ok(Err(Error::Broken(error))) if error.kind() == ErrorKind::ConnectionReset => false,
            Ok(Err(error)) => panic!("no answer: {error}"),
            Err(_) => panic!("no answer"),
        }
    }

    /// Checks that no response comes for this time. A slow response passes too.
    pub fn answers_nothing_for(&mut self, time: Duration) {
        assert!(self.0.unread().is_empty(), "{:?}", self.0.unread());
        let received = block_on(async { tokio::time::timeout(time, self.0.receive()).await });
        assert!(received.is_err(), "{:?}", self.0.unread());
    }

    /// Sends a command line and returns the first line of the response.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n"));
        self.line()
    }

    /// Returns the lines of a multi-line block, without the final dot.
    pub fn block(&mut self) -> Vec<String> {
        std::iter::from_fn(|| Some(self.line()).filter(|line| line != ".")).collect()
    }

    pub fn capabilities(&mut self) -> Vec<String> {
        assert!(self.ask("CAPABILITIES").starts_with("101 "));
        self.block()
    }

    /// Returns whether the server has closed the connection without further output.
    pub fn is_cut_off(&mut self) -> bool {
        self.line_or_end().is_none()
    }

    pub fn half_close(&mut self) {
        block_on(self.0.shutdown()).unwrap();
    }

    /// Like `half_close`, for a server that may have closed the connection.
    pub fn try_half_close(&mut self) {
        let _already_closed = block_on(self.0.shutdown());
    }

    /// Returns everything up to the end of the stream.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        loop {
            rest.extend(self.0.take(usize::MAX).iter().map(|&octet| octet as char));
            if !self.receives() {
                return rest;
            }
        }
    }
}

/// Returns an article in wire format, with the final dot line.
pub fn article(id: &str, groups: &str, body: &str) -> String {
    format!(
        "Path: peer.example!not-for-mail\r\nFrom: A Tester <tester@site.example>\r\nNewsgroups: {groups}\r\n\
         Subject: test {id}\r\nDate: 15 Apr 1993 12:00:00 GMT\r\nMessage-ID: {id}\r\n\r\n{body}\r\n.\r\n"
    )
}
