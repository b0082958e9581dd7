//! Connections to other servers: their configuration, and what a client needs to connect.
//!
//! Reads the named files at each call, so that renewed ones take effect at the next connection. Called by
//! `relay::feed`, `pull` and `newsreel send`. Sources: RFC 4642, RFC 8143 section 3.

use nntp_io::{ClientLimits, CompressionPolicy, ConnectOptions, LoginOptions, Role, Security, TlsOptions};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::{Deserialize, Serialize};
use site_config::{Link, LinkTls};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Usual files of the authorities trusted by the system, in the order in which they are tried.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Environment variable that names another such file, as in OpenSSL.
const AUTHORITIES_VARIABLE: &str = "SSL_CERT_FILE";
/// Maximum length of a password read from a file, in bytes.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Another server and the settings for connecting to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteServer {
    /// Address of the server, as `HOST:PORT`.
    pub to: String,
    /// Settings of the connection.
    pub link: Link,
}

/// Reason why a connection to another server cannot be prepared.
#[derive(Debug)]
pub enum RemoteServerError {
    /// The address is not `HOST:PORT`.
    NotHostPort(String),
    /// No certificate can have the host's name.
    NotAServerName(String),
    /// The system has no file of authorities.
    NoSystemAuthorities,
    /// The file of authorities cannot be read.
    Authorities(PathBuf, io::Error),
    /// The file of authorities holds no certificate.
    NoCertificate(PathBuf),
    /// The file of the password cannot be read.
    Password(PathBuf, io::Error),
    /// The first line of the file of the password is empty.
    EmptyPassword(PathBuf),
    /// The settings of TLS do not fit together.
    Tls(rustls::Error),
}

impl fmt::Display for RemoteServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHostPort(to) => write!(f, "`{to}` is not HOST:PORT"),
            Self::NotAServerName(host) => write!(f, "`{host}` is no name that a certificate can have"),
            Self::NoSystemAuthorities => write!(
                f,
                "this system has no file of authorities; name one (tls_ca, or {AUTHORITIES_VARIABLE})"
            ),
            Self::Authorities(file, error) => {
                write!(f, "cannot read authorities from {}: {error}", file.display())
            }
            Self::NoCertificate(file) => write!(
                f,
                "cannot read authorities from {}: it holds no certificate (-----BEGIN CERTIFICATE-----)",
                file.display()
            ),
            Self::Password(file, error) => {
                write!(f, "cannot read a password from {}: {error}", file.display())
            }
            Self::EmptyPassword(file) => {
                write!(f, "cannot read a password from {}: its first line is empty", file.display())
            }
            Self::Tls(error) => write!(f, "TLS cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for RemoteServerError {}

impl RemoteServer {
    /// Returns the server's name or address.
    pub fn host(&self) -> &str {
        let host = self.to.rsplit_once(':').map_or(self.to.as_str(), |(host, _)| host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns what a client needs to connect. Blocks to read the files.
    ///
    /// # Errors
    /// If the address is wrong or a named file cannot be used.
    pub fn target(&self, role: Role, limits: ClientLimits) -> Result<ConnectOptions, RemoteServerError> {
        let port = self.to.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let port = port.ok_or_else(|| RemoteServerError::NotHostPort(self.to.clone()))?;
        let tls = || -> Result<TlsOptions, RemoteServerError> {
            let name = ServerName::try_from(self.host().to_owned())
                .map_err(|_| RemoteServerError::NotAServerName(self.host().to_owned()))?;
            Ok(TlsOptions { config: self.tls_config()?, name })
        };
        let security = match self.link.tls {
            LinkTls::Off => Security::None,
            LinkTls::Starttls => Security::StartTls(tls()?),
            LinkTls::Implicit => Security::Implicit(tls()?),
        };
        let is_local =
            self.host() == "localhost" || self.host().parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let login = match (&self.link.user, &self.link.password_file) {
            (Some(user), Some(file)) => {
                let mechanisms = self.link.mechanisms.iter().map(|way| (*way).into()).collect();
                let login = LoginOptions::password(user, first_line(file)?);
                Some(LoginOptions { clear_passwords: is_local, mechanisms, ..login })
            }
            _ => None,
        };
        let compression =
            if self.link.compress { CompressionPolicy::IfOffered } else { CompressionPolicy::Never };
        let target = ConnectOptions::new(self.host(), port);
        Ok(ConnectOptions { bind: self.link.bind, security, role, login, compression, limits, ..target })
    }

    fn tls_config(&self) -> Result<std::sync::Arc<rustls::ClientConfig>, RemoteServerError> {
        let config = if self.link.tls_verify {
            let file = match &self.link.tls_ca {
                Some(file) => file.clone(),
                None => system_authorities()?,
            };
            let (roots, certificates) = authorities(&file)?;
            // A named file may have the server's own certificate; the system's files never do.
            let pinned = if self.link.tls_ca.is_some() { certificates } else { Vec::new() };
            nntp_io::tls::client_config(roots, pinned, None)
        } else {
            nntp_io::tls::client_config_without_verification()
        };
        config.map_err(RemoteServerError::Tls)
    }
}

fn system_authorities() -> Result<PathBuf, RemoteServerError> {
    let named = std::env::var_os(AUTHORITIES_VARIABLE).map(PathBuf::from);
    let mut usual = SYSTEM_AUTHORITIES.iter().map(PathBuf::from);
    named.or_else(|| usual.find(|file| file.is_file())).ok_or(RemoteServerError::NoSystemAuthorities)
}

/// Returns the certificates in `file` that can be trusted; if there are many, those of an unknown form are
/// skipped.
fn authorities(file: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), RemoteServerError> {
    let text = fs::read(file).map_err(|error| RemoteServerError::Authorities(file.to_owned(), error))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err(RemoteServerError::NoCertificate(file.to_owned()));
    }
    Ok((roots, certificates))
}

/// Returns the first line of a file.
pub fn first_line(file: &Path) -> Result<String, RemoteServerError> {
    let cannot = |error| RemoteServerError::Password(file.to_owned(), error);
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(cannot)?;
    opened.take(PASSWORD_BYTES_MAX).read_to_string(&mut text).map_err(cannot)?;
    match text.lines().next().unwrap_or_default() {
        "" => Err(RemoteServerError::EmptyPassword(file.to_owned())),
        line => Ok(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link {
        bind: None,
        tls: LinkTls::Off,
        tls_verify: true,
        tls_ca: None,
        user: None,
        password_file: None,
        mechanisms: Vec::new(),
        compress: false,
    };

    fn dial(to: &str) -> RemoteServer {
        RemoteServer { to: to.into(), link: LINK }
    }

    #[test]
    fn hosts_and_ports() {
        for (to, host, port) in [
            ("news.example.net:119", "news.example.net", 119),
            ("[2001:db8::7]:563", "2001:db8::7", 563),
            ("127.0.0.1:1119", "127.0.0.1", 1119),
        ] {
            let target = dial(to).target(Role::Reader, ClientLimits::default()).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port));
        }
        assert!(dial("news.example.net").target(Role::Reader, ClientLimits::default()).is_err());
    }

    #[test]
    fn a_password_is_sent_in_the_clear_to_this_machine_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        fs::write(&file, "secret\nsecond line\n").unwrap();
        let login = |to: &str| {
            let link = Link { user: Some("fred".into()), password_file: Some(file.clone()), ..LINK };
            RemoteServer { link, ..dial(to) }
                .target(Role::Reader, ClientLimits::default())
                .map(|target| target.login.unwrap())
        };
        assert!(login("127.0.0.1:119").unwrap().clear_passwords);
        assert_eq!(login("news.example.net:119").unwrap(), LoginOptions::password("fred", "secret"));
        fs::write(&file, "\n").unwrap();
        assert!(login("[::1]:119").unwrap_err().to_string().contains("its first line is empty"));
    }

    #[test]
    fn missing_authorities_are_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.crt");
        let tls = || {
            let link = Link { tls: LinkTls::Implicit, tls_ca: Some(file.clone()), ..LINK };
            RemoteServer { link, ..dial("news.example.net:563") }
                .target(Role::Reader, ClientLimits::default())
                .map(|_| ())
        };
        assert!(tls().unwrap_err().to_string().contains("ca.crt"));
        fs::write(&file, "no certificate").unwrap();
        assert!(tls().unwrap_err().to_string().contains("holds no certificate"));
    }
}
