//! Results of a completed TLS handshake.
//!
//! Invariant: a certificate is here only if the client proved that it holds the key, and the certificate is
//! signed by one of `tls.client_ca` or its fingerprint is named by a `[[peer]]`. Made by `session`; used
//! wherever the rights of a client are decided.

use disk::hex;
use rustls::pki_types::CertificateDer;

/// Properties of a connection's TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsInfo {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The client's certificate, if it has shown a trusted one.
    pub certificate: Option<ClientCertificate>,
}

/// A trusted certificate of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Names in the certificate, in its spelling: the subject's common name, then DNS names and mail
    /// addresses of the subject's alternative names.
    pub names: Box<[Box<str>]>,
    /// SHA-256 of the whole certificate.
    pub fingerprint: [u8; 32],
    /// The certificate is signed by one of `tls.client_ca`; otherwise it is known by its fingerprint alone
    /// and its names prove nothing.
    pub signed: bool,
    /// The certificate and the chain after it, as shown by the client.
    pub shown: Box<[CertificateDer<'static>]>,
}

impl ClientCertificate {
    /// Returns the fingerprint in hexadecimal digits.
    pub fn fingerprint_text(&self) -> String {
        hex::digits(&self.fingerprint)
    }

    /// Returns the names that are proven: none if only the fingerprint is known.
    pub fn proven_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|_| self.signed).map(AsRef::as_ref)
    }
}
