//! Reasons why the files of `[tls]` cannot be used.
//!
//! Every message names the file and the remedy. Made by `files`, `certificates` and `offer`.

use rustls::pki_types::pem::Error as PemError;
use rustls::server::VerifierBuilderError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why TLS cannot be offered.
#[derive(Debug)]
pub enum TlsOfferError {
    /// A file cannot be read.
    Unreadable {
        /// `certificate` or `key`.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A file is larger than any that holds certificates or keys.
    TooLarge {
        /// `certificate` or `key`.
        what: &'static str,
        /// The file.
        file: PathBuf,
    },
    /// A file is not in PEM.
    NotPem(PathBuf, PemError),
    /// A file holds no certificate.
    NoCertificate(PathBuf),
    /// A file holds no private key.
    NoKey(PathBuf),
    /// A file of authorities holds a certificate that is none of an authority.
    NoAuthority(PathBuf, rustls::Error),
    /// The authorities of a file cannot verify anything.
    Authorities(PathBuf, VerifierBuilderError),
    /// The key of one file does not belong to the certificate of another.
    NotItsKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// A certificate or its key is of a kind that cannot be used.
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error.
        error: rustls::Error,
    },
    /// The configuration names no certificate.
    NoneNamed,
    /// The versions of TLS cannot be set up.
    Versions(rustls::Error),
    /// The system has no random numbers for session tickets.
    Tickets(rustls::Error),
}

impl fmt::Display for TlsOfferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { what, file, error } => {
                write!(f, "cannot read the {what} {}: {error}", file.display())
            }
            Self::TooLarge { what, file } => {
                write!(f, "cannot read the {what} {}: the file is too large for one", file.display())
            }
            Self::NotPem(file, error) => write!(f, "{} is not a PEM file: {error}", file.display()),
            Self::NoCertificate(file) => {
                write!(f, "{} holds no certificate (-----BEGIN CERTIFICATE-----)", file.display())
            }
            Self::NoKey(file) => write!(
                f,
                "{} holds no private key in PEM; an encrypted one must be decrypted first",
                file.display()
            ),
            Self::NoAuthority(file, error) => {
                write!(f, "{} holds what is no authority: {error}", file.display())
            }
            Self::Authorities(file, error) => write!(f, "{} cannot be used: {error}", file.display()),
            Self::NotItsKey { key, certificate } => {
                write!(f, "{} is not the key of {}", key.display(), certificate.display())
            }
            Self::Unusable { certificate, key, error } => {
                write!(f, "{} or {} cannot be used: {error}", certificate.display(), key.display())
            }
            Self::NoneNamed => f.write_str("tls.certificate names no file"),
            Self::Versions(error) => error.fmt(f),
            Self::Tickets(error) => write!(f, "no random numbers for tickets: {error}"),
        }
    }
}

impl std::error::Error for TlsOfferError {}
