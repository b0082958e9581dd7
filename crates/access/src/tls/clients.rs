//! Certificates of clients: requested, never required, and checked after the handshake.
//!
//! A handshake succeeds with any certificate, as long as the client holds its key; an untrusted one counts as
//! none, which is logged. Sources: RFC 4642 section 2.2.2, RFC 5280.

use super::facts::ClientCertificate;
use super::names;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use std::sync::Arc;
use tracing::info;

/// The certificates that are trusted.
#[derive(Debug, Clone)]
pub(super) struct TrustedClients {
    /// Verifies certificates signed by an authority.
    pub authorities: Option<Arc<dyn ClientCertVerifier>>,
    /// Fingerprints of certificates by which peers are known.
    pub fingerprints: Vec<[u8; 32]>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl TrustedClients {
    /// Returns true if any certificate could be trusted.
    pub fn any(&self) -> bool {
        self.authorities.is_some() || !self.fingerprints.is_empty()
    }

    /// Checks the certificate that a client has shown, with the chain after it; returns it if it is trusted.
    pub fn judge(&self, shown: &[CertificateDer<'_>]) -> Option<ClientCertificate> {
        let (leaf, rest) = shown.split_first()?;
        let digest = ring::digest::digest(&ring::digest::SHA256, leaf);
        let fingerprint: [u8; 32] = digest.as_ref().try_into().ok()?;
        let verdict =
            self.authorities.as_ref().map(|them| them.verify_client_cert(leaf, rest, UnixTime::now()));
        let signed = matches!(verdict, Some(Ok(_)));
        let certificate = ClientCertificate {
            names: names::of(leaf),
            fingerprint,
            signed,
            shown: shown.iter().map(|certificate| certificate.clone().into_owned()).collect(),
        };
        if !signed && !self.fingerprints.contains(&fingerprint) {
            let reason = verdict
                .and_then(Result::err)
                .map_or("no authority is set".to_owned(), |error| error.to_string());
            let names = certificate.names.join(", ");
            info!(
                names,
                fingerprint = certificate.fingerprint_text(),
                reason,
                "client certificate not believed"
            );
            return None;
        }
        Some(certificate)
    }
}

impl ClientCertVerifier for TrustedClients {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // With hints, a client whose certificate is known only by its fingerprint would not show it.
        match &self.authorities {
            Some(authorities) if self.fingerprints.is_empty() => authorities.root_hint_subjects(),
            _ => &[],
        }
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // `judge` decides whether it is trusted.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
