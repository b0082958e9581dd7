//! Choosing the certificate for a client: the one with the name it asks for, or the first.
//!
//! Called by rustls during the handshake. Source: RFC 6066 section 3, RFC 8143 section 3.3.

use super::{TlsOfferError, files, names, validity};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use site_config::Tls;
use std::sync::Arc;

/// The server's certificates; at least one.
#[derive(Debug)]
pub(super) struct Certificates {
    first: Arc<CertifiedKey>,
    /// Certificates by their names, in lower case.
    named: Vec<(Box<str>, Arc<CertifiedKey>)>,
    /// Unix seconds at which the first certificate expires; `None` if that cannot be read.
    pub expires: Option<i64>,
}

impl Certificates {
    /// Reads the files of `tls`; each certificate must match its key.
    pub fn read(tls: &Tls, provider: &CryptoProvider) -> Result<Self, TlsOfferError> {
        let mut named = Vec::new();
        let (mut first, mut expires) = (None, None::<i64>);
        for (certificate, key) in tls.certificate.iter().zip(&tls.key) {
            let chain = files::chain(certificate)?;
            if let Some((_, end)) = chain.first().and_then(|leaf| validity::of(leaf)) {
                expires = Some(expires.map_or(end, |first| first.min(end)));
            }
            let its_names = chain.first().map(|leaf| names::of(leaf)).unwrap_or_default();
            let certified =
                CertifiedKey::from_der(chain, files::key(key)?, provider).map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => {
                        TlsOfferError::NotItsKey { key: key.clone(), certificate: certificate.clone() }
                    }
                    error => {
                        TlsOfferError::Unusable { certificate: certificate.clone(), key: key.clone(), error }
                    }
                })?;
            let certified = Arc::new(certified);
            named.extend(its_names.iter().map(|name| (name.to_lowercase().into(), certified.clone())));
            first.get_or_insert(certified);
        }
        let first = first.ok_or(TlsOfferError::NoneNamed)?;
        Ok(Self { first, named, expires })
    }

    fn find(&self, asked: &str) -> Option<&Arc<CertifiedKey>> {
        let asked = asked.to_lowercase();
        let fits = |name: &str| {
            let parent = || asked.split_once('.').map(|(_, parent)| parent);
            name == asked || name.strip_prefix("*.").is_some_and(|zone| parent() == Some(zone))
        };
        self.named.iter().find(|(name, _)| fits(name)).map(|(_, certified)| certified)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = hello.server_name().and_then(|name| self.find(name));
        Some(found.unwrap_or(&self.first).clone())
    }
}
