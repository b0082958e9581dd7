//! The client's side of SCRAM-SHA-256 over AUTHINFO SASL, written from RFC 5802 alone.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

use crate::running::Refusal;

const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Starts an exchange, with an initial response or without; returns the server's challenge, decoded.
fn begin(ask: &mut dyn FnMut(String) -> String, name: &str, initial: bool) -> Result<String, Refusal> {
    let first = BASE64_STANDARD.encode(format!("n,,n={name},r={NONCE}"));
    let answer = if initial {
        ask(format!("AUTHINFO SASL SCRAM-SHA-256 {first}"))
    } else {
        assert_eq!(ask("AUTHINFO SASL SCRAM-SHA-256".into()), "383 =");
        ask(first)
    };
    let Some(challenge) = answer.strip_prefix("383 ") else { return Err(Refusal(answer)) };
    Ok(String::from_utf8(BASE64_STANDARD.decode(challenge).unwrap()).unwrap())
}

/// Returns the salt that the server shows for a name, and ends the exchange.
pub fn salt(ask: &mut dyn FnMut(String) -> String, name: &str) -> String {
    let challenge = begin(ask, name, true).unwrap();
    assert!(ask("*".into()).starts_with("481 "));
    challenge.split(',').find_map(|part| part.strip_prefix("s=")).unwrap().to_owned()
}

/// Logs in, and checks the server's proof. Returns the last response: 283, or a refusal as the error.
pub fn login(
    ask: &mut dyn FnMut(String) -> String,
    name: &str,
    password: &str,
    initial: bool,
) -> Result<String, Refusal> {
    let server_first = begin(ask, name, initial)?;
    let part = |label: &str| server_first.split(',').find_map(|part| part.strip_prefix(label)).unwrap();
    let (nonce, salt) = (part("r="), BASE64_STANDARD.decode(part("s=")).unwrap());
    let iterations: NonZeroU32 = part("i=").parse().unwrap();
    assert!(nonce.starts_with(NONCE) && nonce.len() > NONCE.len());
    let mut salted = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
    let client_key = hmac(&salted, "Client Key");
    let stored_key = digest::digest(&digest::SHA256, &client_key);
    let without_proof = format!("c=biws,r={nonce}");
    let auth_message = format!("n={name},r={NONCE},{server_first},{without_proof}");
    let signature = hmac(stored_key.as_ref(), &auth_message);
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    let last = format!("{without_proof},p={}", BASE64_STANDARD.encode(proof));
    let answer = ask(BASE64_STANDARD.encode(last));
    let Some(data) = answer.strip_prefix("283 ") else { return Err(Refusal(answer)) };
    let server_signature = hmac(&hmac(&salted, "Server Key"), &auth_message);
    let expected = format!("v={}", BASE64_STANDARD.encode(server_signature));
    assert_eq!(String::from_utf8(BASE64_STANDARD.decode(data).unwrap()).unwrap(), expected);
    Ok(answer)
}
