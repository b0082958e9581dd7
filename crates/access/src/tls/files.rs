//! Certificates, keys and authorities from PEM files.
//!
//! Every error names the file and the remedy. Blocks. Called by `TlsOffer`.

use super::TlsOfferError;
use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use site_config::Tls;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A file's identity when it was read: time of change, size, inode.
pub(super) type FileStamp = Option<(SystemTime, u64, u64)>;

/// Returns the current identity of `path`; `None` if it cannot be read.
fn stamp(path: &Path) -> FileStamp {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}

/// Returns the current identities of all files of `tls`.
pub(super) fn stamps(tls: &Tls) -> Vec<FileStamp> {
    tls.certificate.iter().chain(&tls.key).chain(&tls.client_ca).map(|path| stamp(path)).collect()
}

fn text(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsOfferError> {
    let file = path.to_owned();
    if stamp(path).is_some_and(|(_, size, _)| size > FILE_BYTES_MAX) {
        return Err(TlsOfferError::TooLarge { what, file });
    }
    fs::read(path).map_err(|error| TlsOfferError::Unreadable { what, file, error })
}

/// Reads the certificate in `path` and its chain.
pub(super) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsOfferError> {
    let text = text("certificate", path)?;
    let chain: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| TlsOfferError::NotPem(path.to_owned(), error))?;
    if chain.is_empty() {
        return Err(TlsOfferError::NoCertificate(path.to_owned()));
    }
    Ok(chain)
}

/// Reads the private key in `path`.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsOfferError> {
    let text = text("key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        PemError::NoItemsFound => TlsOfferError::NoKey(path.to_owned()),
        error => TlsOfferError::NotPem(path.to_owned(), error),
    })
}

/// Reads the authorities in `path`.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, TlsOfferError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|error| TlsOfferError::NoAuthority(path.to_owned(), error))?;
    }
    Ok(roots)
}
