//! `[tls]` and `[[peer]]`: certificates, and the neighbours that feed us.
//!
//! The files are read by `tls` when the server starts and when they change. Source: RFC 4642, RFC 8143.

use std::fmt;
use std::path::PathBuf;

use super::kinds::*;
use super::{Cidr, Distributions, Groups};

section! {
    /// Encryption. With a certificate, STARTTLS is offered on every listener (RFC 4642), and tls_listen in
    /// [site] names those where a connection begins with TLS. Renewed files are picked up within seconds, and
    /// at once by a reload, which reports what is wrong with them; a bad certificate leaves the old one in
    /// use.
    [tls] Tls, TlsDraft {
        /// The PEM file of the server's certificate and those between it and its authority, relative to the
        /// directory of this file. Several may be named: clients are shown the one with the name they ask
        /// for, or the first.
        certificate: Vec<PathBuf> = OneOrMore(FilePath), default [], example "news.crt";
        /// The PEM file of the certificate's private key (PKCS #8, PKCS #1 or SEC 1, not encrypted); of
        /// several, in the order of certificate. Only the server's user should be able to read it.
        key: Vec<PathBuf> = OneOrMore(FilePath), default [], example "news.key";
        /// The PEM file of the authorities that sign the certificates of peers and of users who log in with
        /// one (SASL EXTERNAL). With it, or with a peer's fingerprint, clients are asked for a certificate;
        /// nobody needs one.
        client_ca: Option<PathBuf> = Maybe(FilePath), example "peers-ca.crt";
    }
}

impl Tls {
    /// Whether TLS is offered.
    pub fn is_offered(&self) -> bool {
        !self.certificate.is_empty()
    }
}

section! {
    /// A neighbour that feeds this server. Who connects from one of its addresses may offer articles with
    /// IHAVE, CHECK and TAKETHIS.
    [[peer]] Peer, PeerDraft {
        /// The peer's name in logs and in newsreel status; best its path identity.
        name: String = Text, example "news.example.net";
        /// The addresses and networks it connects from. Addresses, not host names: whoever controls a name
        /// could otherwise feed you. A peer with a certificate needs none, and may then come from anywhere.
        addresses: Vec<Cidr> = NetworksOrNone, default [],
            example ["198.51.100.7", "2001:db8:7::/48"];
        /// What the peer must show to be known, over TLS: a certificate signed by tls.client_ca with one of
        /// these names (common name, DNS name or mail address), or the one with the fingerprint sha256:HEX,
        /// which nobody need have signed. With addresses too, both must fit.
        certificate: Vec<KnownCertificate> = OneOrMore(Certificate), default [], example ["news.example.net"];
        /// Whether the peer must encrypt. "require": what it offers unencrypted is answered 483.
        tls: PeerTls = word(), default "allow", example "require";
        /// The user as whom it must log in (AUTHINFO) to be known, besides what its addresses and certificate
        /// ask for; what it offers before is answered 480.
        user: Option<String> = Maybe(Text), example "feeder";
        /// The groups it may send. An article none of whose groups matches is rejected.
        accept: Groups = Wildmat, default "*", example "*,!local.*";
        /// The distributions it may send, of those that site.distributions accepts, and written like them.
        /// What is rejected for this alone may still come from another peer.
        distributions: Distributions = DistributionList, default "*", example "usa,na";
        /// Connections it may hold at once. The next one is answered 400 and closed.
        max_connections: usize = 1..=1_000_000, default 10000, example 20;
        /// Whether it may stream (RFC 4644: MODE STREAM, CHECK, TAKETHIS). Without, it offers articles one by
        /// one with IHAVE.
        streaming: bool = Switch, default true, example false;
        /// Whether it may send whole batches (XBATCH), compressed or not. They wait in batches.incoming, and
        /// what is in them is filed as if the peer had offered it article by article.
        xbatch: bool = Switch, default false, example true;
    }
}

words! {
    /// Whether a peer must encrypt.
    pub enum PeerTls {
        /// It may.
        Allow = "allow",
        /// It must.
        Require = "require",
    }
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
