//! `[tls]`, and what a peer must show: certificates and whether the connection must be encrypted.
//!
//! Plain data; the files are read by `tls` when the server starts and when they change. Source: RFC 4642, RFC 8143.

use std::fmt;
use std::path::PathBuf;

/// `[tls]`: what the server shows, and whom it believes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// PEM files of certificate chains, already joined to the configuration file's directory; the first one is shown to
    /// whoever asks for a name that no other has. Empty: no TLS.
    pub certificate: Vec<PathBuf>,
    /// PEM files of their keys, in the same order.
    pub key: Vec<PathBuf>,
    /// PEM file of the authorities that sign clients' certificates.
    pub client_ca: Option<PathBuf>,
}

impl Tls {
    /// Whether TLS is offered.
    pub fn is_offered(&self) -> bool {
        !self.certificate.is_empty()
    }
}

/// Whether a peer must encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerTls {
    /// It may.
    Allow,
    /// It must.
    Require,
}

/// A certificate by which a peer is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownCertificate {
    /// One that `tls.client_ca` has signed and that has this name: common name, DNS name or mail address.
    Name(String),
    /// The one with this SHA-256 fingerprint.
    Fingerprint([u8; 32]),
}

/// What a fingerprint begins with.
const FINGERPRINT_PREFIX: &str = "sha256:";

impl KnownCertificate {
    /// Reads a name, or `sha256:` and 64 hexadecimal digits, with or without colons between octets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(digits) = text.strip_prefix(FINGERPRINT_PREFIX) else {
            let fits = !text.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace());
            return if fits {
                Ok(Self::Name(text.to_owned()))
            } else {
                Err(format!("`{text}` is no name of a certificate"))
            };
        };
        let digits: Vec<char> = digits.chars().filter(|c| *c != ':').collect();
        let octet = |pair: &[char]| match pair {
            [high, low] => Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8),
            _ => None,
        };
        let octets: Option<Vec<u8>> = digits.chunks(2).map(octet).collect();
        octets
            .and_then(|octets| octets.try_into().ok())
            .map(Self::Fingerprint)
            .ok_or_else(|| format!("`{text}`: a fingerprint is sha256: and 64 hexadecimal digits"))
    }
}

impl fmt::Display for KnownCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Fingerprint(octets) => {
                f.write_str(FINGERPRINT_PREFIX)?;
                octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_openssl_and_as_we_write_them() {
        let plain = format!("sha256:{}", "0aF1".repeat(16));
        let known = KnownCertificate::parse(&plain).unwrap();
        assert_eq!(known.to_string(), plain.to_lowercase());
        let with_colons = format!("sha256:{}", vec!["0A:F1"; 16].join(":"));
        assert_eq!(KnownCertificate::parse(&with_colons), Ok(known));
        for wrong in ["sha256:", "sha256:0a", &plain[..70], "sha256:zz", "", "a b"] {
            assert!(KnownCertificate::parse(wrong).is_err(), "{wrong}");
        }
        let name = KnownCertificate::parse("news.example.net").unwrap();
        assert_eq!(name, KnownCertificate::Name("news.example.net".into()));
    }

    #[test]
    fn what_cannot_be_met_is_told() {
        let rest = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
        let faults = |text: &str| {
            let read = super::super::parse(&format!("{text}\n{rest}"), std::path::Path::new("newsreel.toml"));
            read.err()
                .map(|error| error.faults().iter().map(|fault| fault.message.clone()).collect::<Vec<_>>())
        };
        let peer = |keys: &str| format!("[[peer]]\nname = \"p\"\n{keys}");
        let tls = "[tls]\ncertificate = \"a.crt\"\nkey = \"a.key\"\n";
        for (text, fault) in [
            ("[tls]\ncertificate = \"a.crt\"".to_owned(), "[tls] names 1 certificates, but 0 keys"),
            (
                "[site]\ntls_listen = [\"[::]:563\"]".to_owned(),
                "connections that begin with TLS need a certificate",
            ),
            (peer(""), "peer `p` has neither addresses nor a certificate or user to be known by"),
            (
                peer("addresses = \"::1\"\ntls = \"require\""),
                "peer `p` must encrypt, but this server has no certificate",
            ),
            (
                peer("certificate = \"p.example\""),
                "peer `p` can show no certificate: this server does not offer TLS",
            ),
            (
                format!("{tls}{}", peer("certificate = \"p.example\"")),
                "nobody vouches for the name in the certificate of peer `p`",
            ),
        ] {
            assert_eq!(faults(&text), Some(vec![fault.to_owned()]), "{text}");
        }
        let fingerprint = format!("certificate = \"sha256:{}\"", "0a".repeat(32));
        assert_eq!(faults(&format!("{tls}{}", peer(&fingerprint))), None);
    }
}
