//! What a completed TLS handshake found out.
//!
//! Invariant: a certificate stands here only if the client proved that it holds the key, and the certificate
//! is signed by one of `tls.client_ca` or its fingerprint is named by a `[[peer]]`. Made by `session`; asked
//! by whoever decides what a client may do.

use rustls::pki_types::CertificateDer;
use std::fmt::Write;

/// What is known of a connection's TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The client's certificate, if it has shown one that is trusted.
    pub certificate: Option<ClientCertificate>,
}

/// A client's certificate that is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its names: the subject's common name, then DNS names and mail addresses of the subject's alternative
    /// names; in the certificate's spelling.
    pub names: Box<[Box<str>]>,
    /// SHA-256 of the whole certificate.
    pub fingerprint: [u8; 32],
    /// Whether one of `tls.client_ca` has signed it; if not, it is known by its fingerprint alone and its
    /// names prove nothing.
    pub signed: bool,
    /// Itself and those behind it, as they were shown.
    pub shown: Box<[CertificateDer<'static>]>,
}

impl ClientCertificate {
    /// The fingerprint in hexadecimal digits.
    pub fn fingerprint_text(&self) -> String {
        self.fingerprint.iter().fold(String::new(), |mut text, octet| {
            // Writing to a String does not fail.
            let _infallible = write!(text, "{octet:02x}");
            text
        })
    }

    /// The names that are proven: none if only the fingerprint is known.
    pub fn proven_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|_| self.signed).map(AsRef::as_ref)
    }
}
