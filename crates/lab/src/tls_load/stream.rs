//! A blocking NNTP client over TCP, TLS and COMPRESS DEFLATE, with a large buffer.

use clap::ValueEnum;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use netnews::nntp::response::parse_code;
use netnews::nntp::wire::{NextLine, next_line};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes read at a time.
const READ_BYTES: usize = 128 << 10;

/// What is between NNTP and TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layers {
    /// Nothing
    Plain,
    /// TLS from the first octet
    Tls,
    /// COMPRESS DEFLATE
    Compress,
    /// Both
    TlsCompress,
}

/// How connections are made.
pub struct Settings {
    layers: Layers,
    tls: Option<Arc<ClientConfig>>,
}

impl Settings {
    pub fn new(
        layers: Layers,
        certificate: Option<&Path>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let tls = match layers {
            Layers::Plain | Layers::Compress => None,
            Layers::Tls | Layers::TlsCompress => {
                let file =
                    certificate.ok_or("TLS needs --certificate: the one that the server shows, in PEM")?;
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_file(file)?)?;
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let builder = ClientConfig::builder_with_provider(provider)
                    .with_protocol_versions(rustls::ALL_VERSIONS)?;
                Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
            }
        };
        Ok(Self { layers, tls })
    }

    /// A connection past the greeting, not yet compressed.
    pub fn connect(&self, address: &str) -> io::Result<Stream> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let tls = match &self.tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
                Some(ClientConnection::new(config.clone(), name).map_err(io::Error::other)?)
            }
        };
        let mut stream = Stream {
            socket,
            tls,
            deflate: None,
            buffer: vec![0; READ_BYTES],
            arrived: Vec::new(),
            at: 0,
            bytes: 0,
            wire_bytes: 0,
        };
        match stream.code()? {
            200 | 201 => Ok(stream),
            code => Err(io::Error::other(format!("greeting {code}"))),
        }
    }

    /// Compresses, if that is wanted.
    pub fn compress(&self, stream: &mut Stream) -> io::Result<()> {
        if matches!(self.layers, Layers::Plain | Layers::Tls) {
            return Ok(());
        }
        match stream.ask("COMPRESS DEFLATE")? {
            206 => {
                stream.deflate = Some((Compress::new(Compression::fast(), false), Decompress::new(false)));
                Ok(())
            }
            code => Err(io::Error::other(format!("COMPRESS: {code}"))),
        }
    }
}

/// A connection.
pub struct Stream {
    socket: TcpStream,
    tls: Option<ClientConnection>,
    deflate: Option<(Compress, Decompress)>,
    buffer: Vec<u8>,
    /// What came, decoded, from `at` on.
    arrived: Vec<u8>,
    at: usize,
    /// Octets of answers, decoded.
    pub bytes: u64,
    /// Octets that came, compressed if that was agreed on, without TLS's own.
    pub wire_bytes: u64,
}

impl Stream {
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut packed = Vec::new();
        let bytes = match &mut self.deflate {
            None => bytes,
            Some((compress, _)) => {
                let begun = compress.total_in();
                loop {
                    packed.reserve(16 << 10);
                    let done = usize::try_from(compress.total_in() - begun).unwrap_or(usize::MAX);
                    let rest = bytes.get(done..).unwrap_or_default();
                    compress.compress_vec(rest, &mut packed, FlushCompress::Sync)?;
                    if packed.len() < packed.capacity() {
                        break &packed;
                    }
                }
            }
        };
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => {
                let mut stream = rustls::Stream::new(tls, &mut self.socket);
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    /// Waits for more of an answer.
    pub fn hear(&mut self) -> io::Result<()> {
        self.arrived.drain(..self.at);
        self.at = 0;
        let read = match &mut self.tls {
            None => self.socket.read(&mut self.buffer)?,
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).read(&mut self.buffer)?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.wire_bytes += read as u64;
        let before = self.arrived.len();
        let mut packed = self.buffer.get(..read).unwrap_or_default();
        match &mut self.deflate {
            None => self.arrived.extend_from_slice(packed),
            Some((_, decompress)) => loop {
                self.arrived.reserve(READ_BYTES);
                let begun = decompress.total_in();
                decompress.decompress_vec(packed, &mut self.arrived, FlushDecompress::Sync)?;
                let done = usize::try_from(decompress.total_in() - begun).unwrap_or(usize::MAX);
                packed = packed.get(done..).unwrap_or_default();
                if packed.is_empty() && self.arrived.len() < self.arrived.capacity() {
                    break;
                }
            },
        }
        self.bytes += (self.arrived.len() - before) as u64;
        Ok(())
    }

    /// What came and was not consumed.
    pub fn arrived(&self) -> &[u8] {
        self.arrived.get(self.at..).unwrap_or_default()
    }

    pub fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The code of the next line.
    pub fn code(&mut self) -> io::Result<u16> {
        loop {
            if let NextLine::Line { line, next } = next_line(self.arrived(), 0) {
                let code = parse_code(line);
                self.consume(next);
                return code.ok_or_else(|| io::Error::other("an answer without code"));
            }
            self.hear()?;
        }
    }

    pub fn ask(&mut self, command: &str) -> io::Result<u16> {
        self.send(format!("{command}\r\n").as_bytes())?;
        self.code()
    }
}
