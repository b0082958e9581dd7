//! Settings of TLS for a client.
//!
//! Sources: RFC 8446, RFC 5246; RFC 8143 section 3 asks for certificates to be checked.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Settings for connections to servers whose certificates one of `roots` has signed. With `identity`, a
/// certificate chain and its key, we show who we are if the server asks.
///
/// # Errors
/// If the key does not fit the certificate.
pub fn client_config(
    roots: RootCertStore,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS)?;
    let builder = builder.with_root_certificates(roots);
    let config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}
