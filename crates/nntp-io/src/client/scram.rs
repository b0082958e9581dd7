//! The client's side of SCRAM-SHA-256, without I/O.
//!
//! [`ScramClient::begin`], then [`ScramClient::answer`] with the server's first message; both results are
//! messages before base64. No channel binding. Sources: RFC 5802 sections 3, 5 and 7; RFC 7677; RFC 4013
//! (SASLprep).

use crate::error::{Error, ProtocolFault};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// Minimum number of iterations (RFC 7677 section 4): fewer would let a server that collects proofs guess
/// passwords.
const ITERATIONS_MIN: u32 = 4096;
/// Maximum number of iterations: a server must not keep us busy for long.
const ITERATIONS_MAX: u32 = 2_000_000;
const NONCE_BYTES: usize = 18;
const HASH_BYTES: usize = 32;

/// An exchange that waits for the server's first message.
pub(super) struct ScramClient {
    nonce: String,
    bare: String,
    first: String,
}

impl ScramClient {
    /// Begins an exchange for the user `name`.
    pub fn begin(name: &str) -> Result<Self, Error> {
        let mut octets = [0; NONCE_BYTES];
        let random = SystemRandom::new().fill(&mut octets);
        random.map_err(|_| Error::Broken(std::io::Error::other("the system has no random numbers")))?;
        Ok(Self::with_nonce(name, BASE64_STANDARD.encode(octets)))
    }

    fn with_nonce(name: &str, nonce: String) -> Self {
        let name = prepared(name).replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={name},r={nonce}");
        let first = format!("n,,{bare}");
        Self { nonce, bare, first }
    }

    /// Returns the message that opens the exchange.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// Returns the last message, and the answer that the server must give to it. Takes some time by design.
    pub fn answer(&self, password: &str, server_first: &[u8]) -> Result<(String, String), Error> {
        let malformed = || Error::Protocol(ProtocolFault::Sasl("the server's SCRAM message makes no sense"));
        let server_first = str::from_utf8(server_first).map_err(|_| malformed())?;
        let mut parts = server_first.split(',');
        let mut part = |label| parts.next().and_then(|part| part.strip_prefix(label)).ok_or_else(malformed);
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Error::Protocol(ProtocolFault::ServerProof));
        }
        let salt = BASE64_STANDARD.decode(salt).map_err(|_| malformed())?;
        let iterations: u32 = iterations.parse().map_err(|_| malformed())?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(Error::Protocol(ProtocolFault::Sasl(
                "the server asks for too few or too many SCRAM iterations",
            )));
        }
        let mut salted = [0; HASH_BYTES];
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        let password = prepared(password);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{without_proof}", self.bare);
        let signature = sign(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = sign(&salted, b"Server Key");
        let server_signature = sign(server_key.as_ref(), message.as_bytes());
        let last = format!("{without_proof},p={}", BASE64_STANDARD.encode(proof));
        Ok((last, format!("v={}", BASE64_STANDARD.encode(server_signature))))
    }
}

fn sign(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

/// Applies SASLprep; returns text that it rejects unchanged.
fn prepared(text: &str) -> String {
    stringprep::saslprep(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// Example of RFC 7677 section 3.
    #[test]
    fn the_example_of_rfc_7677() {
        let exchange = ScramClient::with_nonce("user", "rOprNGfwEbeRWgbNEkqO".into());
        assert_eq!(exchange.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (last, proof) = exchange.answer("pencil", SERVER_FIRST).unwrap();
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last, expected);
        assert_eq!(proof, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn servers_without_a_valid_proof_are_rejected() {
        let exchange = ScramClient::with_nonce("user", "abc".into());
        for bad in [
            "r=xyz1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=abc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=abc1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
            "r=abc1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4000000000",
            "r=abc1,s=?,i=4096",
            "m=x,r=abc1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "",
        ] {
            assert!(exchange.answer("pencil", bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(exchange.answer("pencil", b"\xff").is_err());
    }

    #[test]
    fn names_are_prepared_and_escaped() {
        assert_eq!(ScramClient::with_nonce("a,b=c\u{2168}", "n".into()).first(), "n,,n=a=2Cb=3DcIX,r=n");
    }
}
