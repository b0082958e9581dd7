//! Connections to other servers: the common keys of `[peer.send]`, `[[pull]]`, `[[body_server]]` and
//! `[[upstream]]`.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// Declares a section whose last rows are the keys of connections: `section! { ... with link { ROWS } }`.
macro_rules! link_section {
    (($($head:tt)+) $Section:ident, $Draft:ident { $($rows:tt)+ }) => {
        section! {
            $($head)+ $Section, $Draft {
                $($rows)+
                /// The address of ours to connect from; without it the system chooses.
                bind: Option<IpAddr> = Maybe(Address), example "192.0.2.1", of machine;
                /// Encryption: "off"; "starttls" after the greeting (RFC 4642); "implicit" from the first
                /// octet (RFC 8143).
                tls: LinkTls = word(), default "off", example "implicit";
                /// Whether the other server must prove its name with a certificate. false protects against
                /// listeners only.
                tls_verify: bool = Switch, default true, example false;
                /// The PEM file of the authorities that may have signed the other server's certificate, or of
                /// that certificate itself, relative to the directory of this file; without it those that the
                /// system trusts.
                tls_ca: Option<PathBuf> = Maybe(FilePath), example "other-ca.crt", of machine;
                /// The user as whom to log in (AUTHINFO).
                user: Option<String> = Maybe(Text), example "feeder";
                /// The file whose first line is the password, relative to the directory of this file. Without
                /// tls the password is sent only to this machine, or by a SASL mechanism that hides it.
                password_file: Option<PathBuf> = Maybe(FilePath), example "other.password", of machine;
                /// The ways to log in, in the order in which they are tried until one succeeds:
                /// "scram-sha-256", "plain", "user". By default those that the other server offers, in this
                /// order.
                mechanisms: Vec<$crate::LoginMechanism> = ListOf(word()), default [], example ["user"];
                /// Whether to compress (COMPRESS DEFLATE, RFC 8054) where the other server can.
                compress: bool = Switch, default false, example true;
            }
        }

        impl $Section {
            /// Returns the settings of the connection.
            pub fn link(&self) -> $crate::Link {
                $crate::Link {
                    bind: self.bind,
                    tls: self.tls,
                    tls_verify: self.tls_verify,
                    tls_ca: self.tls_ca.clone(),
                    user: self.user.clone(),
                    password_file: self.password_file.clone(),
                    mechanisms: self.mechanisms.clone(),
                    compress: self.compress,
                }
            }

            /// Returns the named files, each relative to the directory of the configuration.
            pub(super) fn link_files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
                self.tls_ca.iter_mut().chain(&mut self.password_file)
            }
        }

        impl $Draft {
            /// Returns the place of user or password_file if only one of them is set.
            pub(super) fn half_login(&self) -> Option<std::ops::Range<usize>> {
                match (&self.user.value, &self.password_file.value) {
                    (Some(Some(_)), Some(None)) => Some(self.user.span.clone()),
                    (Some(None), Some(Some(_))) => Some(self.password_file.span.clone()),
                    _ => None,
                }
            }
        }
    };
}

/// Settings of a connection to another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Our address to connect from.
    #[serde(default)]
    pub bind: Option<IpAddr>,
    /// Encryption.
    pub tls: LinkTls,
    /// The server must prove its name.
    pub tls_verify: bool,
    /// The PEM file of the authorities that may have signed its certificate; by default those trusted by the
    /// system.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// The user to log in as.
    #[serde(default)]
    pub user: Option<String>,
    /// The file whose first line is the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Mechanisms for logging in, in order of preference; if empty, those that the server offers.
    #[serde(default)]
    pub mechanisms: Vec<LoginMechanism>,
    /// Compress if the server supports it.
    pub compress: bool,
}

words! {
    /// Encryption of a connection to another server.
    #[derive(Serialize, Deserialize, clap::ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum LinkTls {
        /// No encryption.
        Off = "off",
        /// STARTTLS after the greeting.
        Starttls = "starttls",
        /// TLS from the first octet.
        Implicit = "implicit",
    }
}

words! {
    /// A mechanism for logging in at another server with a password.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LoginMechanism {
        /// AUTHINFO USER and PASS.
        User = "user",
        /// SASL PLAIN.
        Plain = "plain",
        /// SASL SCRAM-SHA-256.
        ScramSha256 = "scram-sha-256",
    }
}

impl From<LoginMechanism> for nntp_io::ClientMechanism {
    fn from(way: LoginMechanism) -> Self {
        match way {
            LoginMechanism::User => Self::User,
            LoginMechanism::Plain => Self::Plain,
            LoginMechanism::ScramSha256 => Self::ScramSha256,
        }
    }
}
