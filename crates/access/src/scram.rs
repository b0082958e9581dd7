//! The server's side of SCRAM-SHA-256, without I/O.
//!
//! [`ClientFirst::parse`], then [`ScramServerExchange::begin`] with the user's keys and a fresh nonce, then
//! [`ScramServerExchange::finish`]. Channel binding is not offered: a client that insists on it fails, one
//! that would like it ("y") continues without. Called by `sasl`. Sources: RFC 5802 sections 3, 5 and 7; RFC
//! 7677.

use super::users::{HASH_LEN, ScramKeys, hmac_sha256, sha256};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// Longest nonce taken from a client, in bytes.
const NONCE_BYTES_MAX: usize = 256;

/// A client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientFirst {
    /// The GS2 header, such as `n,,`, which the last message must repeat.
    gs2_header: String,
    /// The message after the header.
    bare: String,
    /// The user that the client wants to act for, if given.
    pub authorization: Option<String>,
    /// The user name that the client gives.
    pub name: String,
    nonce: String,
}

/// The reason why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScramFailure {
    /// The message violates the syntax of RFC 5802.
    Malformed,
    /// The proof is wrong.
    WrongProof,
}

/// An exchange that waits for the client's last message.
#[derive(Debug)]
pub(super) struct ScramServerExchange {
    keys: ScramKeys,
    first: ClientFirst,
    server_first: String,
    nonce: String,
}

impl ClientFirst {
    pub fn parse(message: &[u8]) -> Result<Self, ScramFailure> {
        let message = str::from_utf8(message).map_err(|_| ScramFailure::Malformed)?;
        let (flag, rest) = message.split_once(',').ok_or(ScramFailure::Malformed)?;
        let (authorization, bare) = rest.split_once(',').ok_or(ScramFailure::Malformed)?;
        if flag != "n" && flag != "y" {
            return Err(ScramFailure::Malformed);
        }
        let authorization = match authorization.strip_prefix("a=") {
            Some(name) => Some(sasl_name(name).ok_or(ScramFailure::Malformed)?),
            None if authorization.is_empty() => None,
            None => return Err(ScramFailure::Malformed),
        };
        // A mandatory extension ("m=") would come first; none is supported.
        let mut attributes = bare.split(',');
        let name = attributes.next().and_then(|text| text.strip_prefix("n=")).and_then(sasl_name);
        let nonce = attributes.next().and_then(|text| text.strip_prefix("r="));
        let nonce = nonce.filter(|nonce| (1..=NONCE_BYTES_MAX).contains(&nonce.len()) && printable(nonce));
        let (Some(name), Some(nonce)) = (name, nonce) else { return Err(ScramFailure::Malformed) };
        Ok(Self {
            gs2_header: message.get(..message.len() - bare.len()).unwrap_or_default().to_owned(),
            name,
            nonce: nonce.to_owned(),
            bare: bare.to_owned(),
            authorization,
        })
    }
}

impl ScramServerExchange {
    /// Continues with the keys of the named user; `fresh` is the server's part of the nonce.
    pub fn begin(first: ClientFirst, keys: ScramKeys, fresh: &str) -> Self {
        let nonce = format!("{}{fresh}", first.nonce);
        let salt = BASE64_STANDARD.encode(&keys.salt);
        let server_first = format!("r={nonce},s={salt},i={}", keys.iterations);
        Self { keys, first, server_first, nonce }
    }

    /// Returns the challenge for the client.
    pub fn challenge(&self) -> &str {
        &self.server_first
    }

    /// Checks the client's last message; returns the proof for the client that the server has the keys.
    pub fn finish(&self, message: &[u8]) -> Result<String, ScramFailure> {
        let message = str::from_utf8(message).map_err(|_| ScramFailure::Malformed)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(ScramFailure::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding =
            attributes.next().and_then(|text| text.strip_prefix("c=")).ok_or(ScramFailure::Malformed)?;
        let nonce =
            attributes.next().and_then(|text| text.strip_prefix("r=")).ok_or(ScramFailure::Malformed)?;
        if binding != BASE64_STANDARD.encode(&self.first.gs2_header) || nonce != self.nonce {
            return Err(ScramFailure::Malformed);
        }
        let proof: [u8; HASH_LEN] = BASE64_STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramFailure::Malformed)?;
        let auth_message = format!("{},{},{without_proof}", self.first.bare, self.server_first);
        let signature = hmac_sha256(&self.keys.stored_key, auth_message.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(octet, other)| *octet ^= other);
        if !same(&sha256(&client_key), &self.keys.stored_key) {
            return Err(ScramFailure::WrongProof);
        }
        let server_signature = hmac_sha256(&self.keys.server_key, auth_message.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(server_signature)))
    }
}

/// Compares in constant time.
fn same(one: &[u8; HASH_LEN], other: &[u8; HASH_LEN]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"compare");
    hmac::verify(&key, one, hmac::sign(&key, other).as_ref()).is_ok()
}

fn printable(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic() && b != b',')
}

/// Decodes a name in which `=2C` stands for a comma and `=3D` for an equals sign; `None` if it has another
/// `=`.
fn sasl_name(text: &str) -> Option<String> {
    let mut parts = text.split('=');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let rest = match part.get(..2)? {
            "2C" => {
                name.push(',');
                part.get(2..)?
            }
            "3D" => {
                name.push('=');
                part.get(2..)?
            }
            _ => return None,
        };
        name.push_str(rest);
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677 section 3.
    const CLIENT_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn exchange(first: &[u8]) -> ScramServerExchange {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let keys = ScramKeys::derived(b"pencil", &salt, 4096);
        ScramServerExchange::begin(ClientFirst::parse(first).unwrap(), keys, SERVER_NONCE)
    }

    #[test]
    fn the_example_of_rfc_7677() {
        let exchange = exchange(CLIENT_FIRST);
        assert_eq!(exchange.challenge(), SERVER_FIRST);
        assert_eq!(exchange.finish(CLIENT_FINAL.as_bytes()).as_deref(), Ok(SERVER_FINAL));
    }

    #[test]
    fn every_change_of_the_last_message_is_noticed() {
        let exchange = exchange(CLIENT_FIRST);
        for (from, to, failure) in [
            ("p=dH", "p=dI", ScramFailure::WrongProof),
            ("c=biws", "c=eSws", ScramFailure::Malformed),
            ("r=rO", "r=sO", ScramFailure::Malformed),
            ("F$k0", "F$k1", ScramFailure::Malformed),
            (",p=", ",q=", ScramFailure::Malformed),
            ("dVQ=", "dVQ", ScramFailure::Malformed),
            ("p=dHzb", "p=", ScramFailure::Malformed),
        ] {
            let changed = CLIENT_FINAL.replacen(from, to, 1);
            assert_eq!(exchange.finish(changed.as_bytes()), Err(failure), "{changed}");
        }
        assert_eq!(exchange.finish(b"\xff"), Err(ScramFailure::Malformed));
        let decoyed = ScramServerExchange::begin(
            ClientFirst::parse(CLIENT_FIRST).unwrap(),
            ScramKeys::decoy(b"x", "user"),
            SERVER_NONCE,
        );
        assert_eq!(decoyed.finish(CLIENT_FINAL.as_bytes()), Err(ScramFailure::WrongProof));
    }

    #[test]
    fn first_messages() {
        let first = ClientFirst::parse(b"y,a=other,n=a=2Cb=3Dc,r=x,ext=1").unwrap();
        assert_eq!((first.name.as_str(), first.authorization.as_deref()), ("a,b=c", Some("other")));
        assert_eq!(first.gs2_header, "y,a=other,");
        for bad in [
            &b""[..],
            b"n",
            b"n,,",
            b"n,,n=user",
            b"n,,n=user,r=",
            b"n,,n=,r=x",
            b"n,,n=a=2Db,r=x",
            b"n,,n=a=2,r=x",
            b"n,,m=ext,n=user,r=x",
            b"n,x,n=user,r=x",
            b"p=tls-unique,,n=user,r=x",
            b"n,,r=x,n=user",
            b"n,,n=user,r=a b",
            b"n,,n=\xff,r=x",
        ] {
            assert_eq!(ClientFirst::parse(bad), Err(ScramFailure::Malformed), "{bad:?}");
        }
    }
}
