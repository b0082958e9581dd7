//! A client whose connection may be encrypted and compressed, switched as the test likes.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// An authority that signs certificates.
pub struct Authority {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

/// A certificate with its key.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    key: rcgen::KeyPair,
    pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        let key = rcgen::KeyPair::generate().unwrap();
        Self { issuer: rcgen::CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    /// A certificate for `name`.
    pub fn sign(&self, name: &str) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = params(name);
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate: signed.der().clone(), pem: signed.pem(), key }
    }

    pub fn write(&self, file: &Path) {
        std::fs::write(file, self.issuer.pem()).unwrap();
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }
}

fn params(name: &str) -> rcgen::CertificateParams {
    let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params
}

impl Identity {
    /// A certificate that its own key has signed.
    pub fn self_signed(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = params(name).self_signed(&key).unwrap();
        Self { certificate: signed.der().clone(), pem: signed.pem(), key }
    }

    /// Writes both files.
    pub fn write(&self, certificate: &Path, key: &Path) {
        std::fs::write(certificate, &self.pem).unwrap();
        std::fs::write(key, self.key.serialize_pem()).unwrap();
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }

    /// `sha256:` and hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.certificate);
        let digits: String = digest.as_ref().iter().map(|octet| format!("{octet:02x}")).collect();
        format!("sha256:{digits}")
    }
}

/// A client's settings: whom it trusts and what it shows.
pub fn settings(authority: &Authority, shows: Option<&Identity>) -> ClientConfig {
    settings_for(authority, shows, rustls::ALL_VERSIONS)
}

pub fn settings_for(
    authority: &Authority,
    shows: Option<&Identity>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let builder = builder.with_root_certificates(authority.roots());
    match shows {
        Some(identity) => {
            builder.with_client_auth_cert(vec![identity.certificate.clone()], identity.key()).unwrap()
        }
        None => builder.with_no_client_auth(),
    }
}

/// A connection with layers.
pub struct Layers {
    socket: TcpStream,
    tls: Option<ClientConnection>,
    deflate: Option<(Compress, Decompress)>,
    /// What came and was not looked at.
    arrived: Vec<u8>,
}

impl Layers {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, tls: None, deflate: None, arrived: Vec::new() }
    }

    /// Connects and hears the greeting.
    pub fn greeted(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        assert!(client.line().starts_with("200 "));
        client
    }

    /// Connects, encrypts and hears the greeting.
    pub fn encrypted(address: SocketAddr, settings: ClientConfig) -> Self {
        let mut client = Self::connect(address);
        client.handshake(settings, "news.example.org").unwrap();
        assert!(client.line().starts_with("200 "));
        client
    }

    /// Negotiates TLS.
    pub fn handshake(&mut self, settings: ClientConfig, name: &str) -> std::io::Result<()> {
        assert!(self.arrived.is_empty(), "the server spoke before TLS began");
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut tls = ClientConnection::new(Arc::new(settings), name).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut self.socket)?;
        }
        self.tls = Some(tls);
        Ok(())
    }

    pub fn version(&self) -> Option<ProtocolVersion> {
        self.tls.as_ref().unwrap().protocol_version()
    }

    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref().unwrap().alpn_protocol()
    }

    /// The certificate that the server has shown.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        self.tls.as_ref().unwrap().peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// `COMPRESS DEFLATE`.
    pub fn compress(&mut self) {
        assert_eq!(self.ask("COMPRESS DEFLATE"), "206 Compression active");
        assert!(self.arrived.is_empty());
        self.deflate = Some((Compress::new(Compression::new(6), false), Decompress::new(false)));
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes.as_ref()).unwrap();
    }

    /// As `send`, for a server that may have closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut packed = Vec::new();
        let bytes = match &mut self.deflate {
            None => bytes,
            Some((compress, _)) => {
                let start = compress.total_in();
                loop {
                    packed.reserve(64 << 10);
                    let done = (compress.total_in() - start) as usize;
                    compress.compress_vec(&bytes[done..], &mut packed, FlushCompress::Sync).unwrap();
                    if packed.len() < packed.capacity() {
                        break &packed;
                    }
                }
            }
        };
        self.send_raw(bytes)
    }

    /// Sends without compressing.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).write_all(bytes),
        }
    }

    /// Waits for more; false at the end.
    fn hear(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let read = match &mut self.tls {
            None => self.socket.read(&mut buffer),
            Some(tls) => rustls::Stream::new(tls, &mut self.socket).read(&mut buffer),
        };
        let mut packed = match read {
            Ok(0) => return false,
            Ok(n) => &buffer[..n],
            Err(error) if [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&error.kind()) => {
                return false;
            }
            Err(error) => panic!("no answer: {error}"),
        };
        match &mut self.deflate {
            None => self.arrived.extend_from_slice(packed),
            Some((_, decompress)) => loop {
                self.arrived.reserve(64 << 10);
                let before = decompress.total_in();
                decompress.decompress_vec(packed, &mut self.arrived, FlushDecompress::Sync).unwrap();
                packed = &packed[(decompress.total_in() - before) as usize..];
                if packed.is_empty() && self.arrived.len() < self.arrived.capacity() {
                    break;
                }
            },
        }
        true
    }

    pub fn line_or_end(&mut self) -> Option<String> {
        let end = loop {
            match self.arrived.windows(2).position(|two| two == b"\r\n") {
                Some(end) => break end,
                None if self.hear() => {}
                None => return None,
            }
        };
        let line: Vec<u8> = self.arrived.drain(..end + 2).collect();
        Some(line[..end].iter().map(|&octet| octet as char).collect())
    }

    /// One line without its CRLF; octets above 127 as Latin 1.
    pub fn line(&mut self) -> String {
        self.line_or_end().expect("the server closed the connection")
    }

    pub fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n"));
        self.line()
    }

    /// The lines of a multi-line block up to the final dot, which is left out.
    pub fn block(&mut self) -> Vec<String> {
        std::iter::from_fn(|| Some(self.line()).filter(|line| line != ".")).collect()
    }

    pub fn capabilities(&mut self) -> Vec<String> {
        assert!(self.ask("CAPABILITIES").starts_with("101 "));
        self.block()
    }

    /// Whether the server has closed the connection without another word.
    pub fn is_cut_off(&mut self) -> bool {
        self.line_or_end().is_none()
    }
}
