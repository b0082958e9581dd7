//! Certificates, and TLS settings of the tests' clients.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

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

    /// Signs a certificate for `name`.
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
    /// Creates a certificate signed by its own key.
    pub fn self_signed(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = params(name).self_signed(&key).unwrap();
        Self { certificate: signed.der().clone(), pem: signed.pem(), key }
    }

    /// Creates a certificate as `openssl req -x509` does: self-signed, and an authority.
    pub fn self_signed_authority(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = params(name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let signed = params.self_signed(&key).unwrap();
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

    /// Returns `sha256:` and hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.certificate);
        let digits: String = digest.as_ref().iter().map(|octet| format!("{octet:02x}")).collect();
        format!("sha256:{digits}")
    }
}

/// Returns a client's settings: the trusted authority and its own certificate.
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

/// Returns the name that a server must prove.
pub fn settings_name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).unwrap()
}
