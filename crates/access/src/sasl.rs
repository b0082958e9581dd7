//! SASL as carried by AUTHINFO SASL: mechanism names, base64, and the exchange of each mechanism, without
//! I/O.
//!
//! [`Exchange::start`] returns an exchange that waits for the client's first response; [`Exchange::respond`]
//! takes responses until it returns an action. Called by the session. Sources: RFC 4643 section 2.4, RFC
//! 4422, RFC 4616 (PLAIN), RFC 5802.

use super::scram;
use super::users::{ScramKeys, prepared};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use site_config::AuthMechanism;

/// The mechanisms by their SASL names, in the order of CAPABILITIES.
pub const NAMES: &[(&str, AuthMechanism)] = &[
    ("SCRAM-SHA-256", AuthMechanism::ScramSha256),
    ("EXTERNAL", AuthMechanism::External),
    ("PLAIN", AuthMechanism::Plain),
];

/// Returns the mechanism of that name, in any case.
pub fn mechanism(name: &[u8]) -> Option<AuthMechanism> {
    NAMES
        .iter()
        .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
        .map(|(_, mechanism)| *mechanism)
}

/// Decodes a response: base64, or `=` for nothing.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if text == b"=" {
        Some(Vec::new())
    } else {
        BASE64_STANDARD.decode(text).ok().filter(|found| !found.is_empty())
    }
}

/// Encodes a challenge.
pub fn encode(challenge: &[u8]) -> String {
    if challenge.is_empty() { "=".to_owned() } else { BASE64_STANDARD.encode(challenge) }
}

/// An exchange under way.
#[derive(Debug)]
pub enum SaslExchange {
    /// Waits for the message of PLAIN.
    Plain,
    /// Waits for the identity of EXTERNAL.
    External,
    /// Waits for the first message of SCRAM.
    ScramFirst,
    /// Waits for the last message of SCRAM.
    ScramFinal(Box<ScramFinal>),
}

/// SCRAM before the client's proof.
#[derive(Debug)]
pub struct ScramFinal {
    exchange: scram::ScramServerExchange,
    /// The prepared name that the client would be logged in as.
    pub name: String,
}

/// The action to take after a response.
#[derive(Debug)]
pub enum SaslAction {
    /// Check this password; the name is as received.
    Password {
        /// The name.
        name: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// Take the name from the client's certificate. The client asks to be this user, or leaves it to the
    /// certificate.
    Certificate {
        /// The user that the client asks to be, prepared.
        wanted: Option<String>,
    },
    /// Continue with the keys of this user (prepared): [`Exchange::with_keys`].
    Keys {
        /// The user's name.
        name: String,
        /// The client's first message.
        first: ScramFirst,
    },
    /// The proof is right: log in as this user and send this data to the client.
    Proven {
        /// The user's name, prepared.
        name: String,
        /// The server's last message.
        data: String,
    },
    /// The proof is wrong.
    Wrong {
        /// The user's name, prepared.
        name: String,
    },
    /// The response names no possible user, or asks to act for another one.
    Refused,
    /// The response violates the mechanism's syntax.
    Malformed,
}

/// The first message of SCRAM, parsed.
#[derive(Debug)]
pub struct ScramFirst(scram::ClientFirst);

impl SaslExchange {
    /// Starts an exchange of `mechanism`; `None` for AUTHINFO USER, which has none.
    pub fn start(mechanism: AuthMechanism) -> Option<Self> {
        match mechanism {
            AuthMechanism::User => None,
            AuthMechanism::Plain => Some(Self::Plain),
            AuthMechanism::External => Some(Self::External),
            AuthMechanism::ScramSha256 => Some(Self::ScramFirst),
        }
    }

    /// Continues SCRAM with the keys that [`SaslAction::Keys`] asked for; returns the challenge too.
    pub fn with_keys(name: String, first: ScramFirst, keys: ScramKeys, fresh_nonce: &str) -> (Self, String) {
        let exchange = scram::ScramServerExchange::begin(first.0, keys, fresh_nonce);
        let challenge = exchange.challenge().to_owned();
        (Self::ScramFinal(Box::new(ScramFinal { exchange, name })), challenge)
    }

    /// Processes a decoded response.
    pub fn respond(self, response: &[u8]) -> SaslAction {
        match self {
            Self::Plain => plain(response),
            Self::External if response.is_empty() => SaslAction::Certificate { wanted: None },
            Self::External => match prepared(response) {
                Some(wanted) => SaslAction::Certificate { wanted: Some(wanted) },
                None => SaslAction::Refused,
            },
            Self::ScramFirst => match scram::ClientFirst::parse(response) {
                Ok(first) => scram_first(first),
                Err(_) => SaslAction::Malformed,
            },
            Self::ScramFinal(last) => match last.exchange.finish(response) {
                Ok(data) => SaslAction::Proven { name: last.name, data },
                Err(scram::ScramFailure::WrongProof) => SaslAction::Wrong { name: last.name },
                Err(scram::ScramFailure::Malformed) => SaslAction::Malformed,
            },
        }
    }
}

/// Parses `[authzid] NUL authcid NUL password` (RFC 4616 section 2). Acting for another user is not
/// supported.
fn plain(message: &[u8]) -> SaslAction {
    let mut parts = message.split(|&b| b == 0);
    let (Some(authorization), Some(name), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return SaslAction::Malformed;
    };
    if name.is_empty() || password.is_empty() {
        return SaslAction::Malformed;
    }
    let same = |wanted: Option<String>| wanted.is_some() && wanted == prepared(name);
    if !authorization.is_empty() && authorization != name && !same(prepared(authorization)) {
        return SaslAction::Refused;
    }
    SaslAction::Password { name: name.to_vec(), password: password.to_vec() }
}

fn scram_first(first: scram::ClientFirst) -> SaslAction {
    let Some(name) = prepared(first.name.as_bytes()) else { return SaslAction::Refused };
    let other = |wanted: &String| prepared(wanted.as_bytes()).as_ref() != Some(&name);
    if first.authorization.as_ref().is_some_and(other) {
        return SaslAction::Refused;
    }
    SaslAction::Keys { name, first: ScramFirst(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_strict() {
        assert_eq!(decode(b"AHRlc3QAMTIzNA=="), Some(b"\0test\x001234".to_vec()));
        assert_eq!(decode(b"="), Some(Vec::new()));
        for bad in [&b""[..], b"=AAA", b"AAA=BBB", b"abcd=efg", b"AAA", b"AA A", b"A*==", b"AB=="] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        assert_eq!((encode(b""), encode(b"a")), ("=".to_owned(), "YQ==".to_owned()));
    }

    #[test]
    fn plain_messages() {
        let turn = |message: &[u8]| SaslExchange::Plain.respond(message);
        for message in [&b"\0test\x001234"[..], b"test\0test\x001234"] {
            let SaslAction::Password { name, password } = turn(message) else { panic!("{message:?}") };
            assert_eq!((name, password), (b"test".to_vec(), b"1234".to_vec()));
        }
        assert!(matches!(turn(b"root\0test\x001234"), SaslAction::Refused));
        for bad in [&b""[..], b"\0test", b"\0\x001234", b"\0test\0", b"\0a\0b\0c"] {
            assert!(matches!(turn(bad), SaslAction::Malformed), "{bad:?}");
        }
    }

    #[test]
    fn identities_of_external_and_scram() {
        assert!(matches!(SaslExchange::External.respond(b""), SaslAction::Certificate { wanted: None }));
        assert!(matches!(
            SaslExchange::External.respond(b"fred"),
            SaslAction::Certificate { wanted: Some(_) }
        ));
        assert!(matches!(SaslExchange::External.respond(b"a b"), SaslAction::Refused));
        let scram = |message: &[u8]| SaslExchange::ScramFirst.respond(message);
        assert!(matches!(scram(b"n,a=fred,n=fred,r=x"), SaslAction::Keys { .. }));
        assert!(matches!(scram(b"n,a=root,n=fred,r=x"), SaslAction::Refused));
        assert!(matches!(scram(b"n,,n=a=2Cb,r=x"), SaslAction::Refused));
        assert!(matches!(scram(b"p=tls-exporter,,n=fred,r=x"), SaslAction::Malformed));
    }

    #[test]
    fn names_of_mechanisms() {
        assert_eq!(mechanism(b"plain"), Some(AuthMechanism::Plain));
        assert_eq!(mechanism(b"SCRAM-SHA-256"), Some(AuthMechanism::ScramSha256));
        assert_eq!(mechanism(b"CRAM-MD5"), None);
    }
}
