//! Checking an ID token: the signature, and what it says of whom it is for.
//!
//! The algorithm is that of the key, from a list of three, and a token that names another one is refused:
//! "none" and algorithms with a shared secret are not known here at all. Called by `provider`. Sources: RFC
//! 7515, RFC 7517, RFC 7518, RFC 8037, RFC 8725, OpenID Connect Core section 3.1.3.7.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};
use std::fmt;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Most keys of a provider that are kept.
const KEYS_MAX: usize = 100;
/// Octets of a coordinate of P-256, and of a key of Ed25519.
const COORDINATE_BYTES: usize = 32;
/// Difference of clocks that is forgiven, in seconds.
const LEEWAY_SECS: i64 = 60;
/// Age of a token from which it is of another login, in seconds.
const AGE_SECS_MAX: i64 = 3600;

/// A key with which a provider signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderKey {
    id: Option<String>,
    public: PublicKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PublicKey {
    /// Modulus and exponent.
    Rs256 { n: Vec<u8>, e: Vec<u8> },
    /// An uncompressed point.
    Es256(Vec<u8>),
    /// Ed25519.
    EdDsa(Vec<u8>),
}

/// The values that a token must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenExpectation<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// Unix seconds.
    pub now: i64,
}

/// The reason why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdTokenFault {
    /// It is no signed token, or too long.
    Form,
    /// Its algorithm is not one that is accepted.
    Algorithm,
    /// No key of the provider has its identifier and algorithm.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// It is of another issuer.
    Issuer,
    /// It is for another client.
    Audience,
    /// It is too old, or not valid yet.
    Time,
    /// It is of another login.
    Nonce,
    /// It does not say who the user is.
    Subject,
}

impl fmt::Display for IdTokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "it is no signed token",
            Self::Algorithm => "its algorithm is not RS256, ES256 or EdDSA",
            Self::UnknownKey => "the provider has no such key",
            Self::Signature => "its signature is wrong",
            Self::Issuer => "it is of another issuer",
            Self::Audience => "it is for another client",
            Self::Time => "it is too old, or not valid yet; see the clocks",
            Self::Nonce => "it is of another login",
            Self::Subject => "it does not say who the user is",
        })
    }
}

impl std::error::Error for IdTokenFault {}

impl PublicKey {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rs256 { .. } => "RS256",
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rs256 { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Self::Es256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            Self::EdDsa(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok(),
        }
    }
}

/// Returns the keys of a set (JWKS) that sign and are of a kind that is known; `None` if it is no set.
pub(super) fn keys_in(set: &[u8]) -> Option<Vec<ProviderKey>> {
    let set: Value = serde_json::from_slice(set).ok()?;
    let keys = set.get("keys")?.as_array()?;
    Some(keys.iter().filter_map(key).take(KEYS_MAX).collect())
}

fn key(key: &Value) -> Option<ProviderKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let octets = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let coordinate = |name: &str| octets(name).filter(|octets| octets.len() == COORDINATE_BYTES);
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let public = match (text("kty")?, text("crv")) {
        ("RSA", _) => PublicKey::Rs256 { n: without_zeros(octets("n")?), e: without_zeros(octets("e")?) },
        ("EC", Some("P-256")) => PublicKey::Es256([vec![4], coordinate("x")?, coordinate("y")?].concat()),
        ("OKP", Some("Ed25519")) => PublicKey::EdDsa(coordinate("x")?),
        _ => return None,
    };
    if text("alg").is_some_and(|algorithm| algorithm != public.algorithm()) {
        return None;
    }
    Some(ProviderKey { id: text("kid").map(str::to_owned), public })
}

/// Some providers write a sign octet, which `ring` takes for an error.
fn without_zeros(octets: Vec<u8>) -> Vec<u8> {
    octets.into_iter().skip_while(|octet| *octet == 0).collect()
}

/// Checks a token; returns its claims.
pub(super) fn claims(
    token: &str,
    keys: &[ProviderKey],
    expected: &TokenExpectation<'_>,
) -> Result<Map<String, Value>, IdTokenFault> {
    let payload = signed_payload(token, keys)?;
    let claims: Map<String, Value> = serde_json::from_slice(&payload).map_err(|_| IdTokenFault::Form)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let time = |name: &str| claims.get(name).map(|value| value.as_f64().unwrap_or(f64::NAN));
    let (now, leeway) = (expected.now as f64, LEEWAY_SECS as f64);
    if text("iss") != Some(expected.issuer) {
        return Err(IdTokenFault::Issuer);
    }
    if !is_for(&claims, expected.client_id) {
        return Err(IdTokenFault::Audience);
    }
    let is_fresh = time("exp").is_some_and(|end| now < end + leeway)
        && time("iat").is_some_and(|made| made < now + leeway && now < made + AGE_SECS_MAX as f64)
        && time("nbf").is_none_or(|begin| begin < now + leeway);
    if !is_fresh {
        return Err(IdTokenFault::Time);
    }
    if text("nonce") != Some(expected.nonce) {
        return Err(IdTokenFault::Nonce);
    }
    if text("sub").is_none_or(str::is_empty) {
        return Err(IdTokenFault::Subject);
    }
    Ok(claims)
}

/// Returns what a token says, once its signature is that of a key.
fn signed_payload(token: &str, keys: &[ProviderKey]) -> Result<Vec<u8>, IdTokenFault> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(IdTokenFault::Form);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(IdTokenFault::Form)?;
    let (head, payload) = message.split_once('.').ok_or(IdTokenFault::Form)?;
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| IdTokenFault::Form);
    let (head, payload, signature) = (decoded(head)?, decoded(payload)?, decoded(signature)?);
    let head: Map<String, Value> = serde_json::from_slice(&head).map_err(|_| IdTokenFault::Form)?;
    // What is critical is an extension, and none is known here (RFC 7515 section 4.1.11).
    if head.contains_key("crit") {
        return Err(IdTokenFault::Form);
    }
    let algorithm = head.get("alg").and_then(Value::as_str).unwrap_or_default();
    if !["RS256", "ES256", "EdDSA"].contains(&algorithm) {
        return Err(IdTokenFault::Algorithm);
    }
    let id = head.get("kid").and_then(Value::as_str);
    let fits = |key: &&ProviderKey| {
        key.public.algorithm() == algorithm && (id.is_none() || key.id.is_none() || key.id.as_deref() == id)
    };
    let mut fitting = keys.iter().filter(fits).peekable();
    if fitting.peek().is_none() {
        return Err(IdTokenFault::UnknownKey);
    }
    if !fitting.any(|key| key.public.verifies(message.as_bytes(), &signature)) {
        return Err(IdTokenFault::Signature);
    }
    Ok(payload)
}

/// Returns true if a token is for this client, and, if it is for others too, was given to it.
fn is_for(claims: &Map<String, Value>, client_id: &str) -> bool {
    let is_own = |value: &Value| value.as_str() == Some(client_id);
    let (is_among, is_alone) = match claims.get("aud") {
        Some(Value::Array(all)) => (all.iter().any(is_own), all.len() == 1),
        Some(one) => (is_own(one), true),
        None => (false, true),
    };
    let party = claims.get("azp");
    is_among && party.map_or(is_alone, is_own)
}

/// Returns a claim by its name, or by the names of objects with dots between.
pub(super) fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    const RSA_MODULUS: &str = concat!(
        "28oMUySneRbqGAKZ0WCaO3rODEiLWDyJfQvJVXROfK3-MJFoF181xfd5UOEwV2UqSai6hvPmhZFvZ9mZDQ4kXPPozBkHV--b",
        "8maGlrqLRiIofvKNPyArAc8L4JnAsgg8fRxFr4tNp0K9f6L1bPSqjNh2k-yN523qZ7_QC96_zP6cXj8_Rtwidy9xx-na9xN4",
        "XgQ41e5RKnD6WlwHhP1WaHUW59zfI65rZpw9h3dBHZnAgYpPn85fE1FyC3nbvB0njmx0UfZdAyJXWaWGcy9k3xBEmV3seXEq",
        "P1-3HQtafoglC4EWWY38OlWdsZ_bbbURD2OG4Ai4aqTlaBCCsWkp7Q",
    );
    const RSA_TOKEN: &str = concat!(
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2EuZXhhbXBsZSIsImF1ZCI6Im5ld3MiLCJzdWI",
        "iOiJ1LTEiLCJub25jZSI6Im4tMSIsImlhdCI6MTY5OTk5OTk5NSwiZXhwIjoxNzAwMDAwMzAwfQ.bMWHTOd_aI9Tx8kHrbc7",
        "CadwG7cVOUzGrLtTY4dGd6vsKeGHWhcL0I2PYGqmSeCwZELlCXo2qITbGvzk9uBglh6mWl2NrIGLeIZEE_kT7b5vgzYT0BxM",
        "Y2uq86PA11FB1rN207Zxe01a4YrATOh2Ycj1acQcGMMtJ18FKIRiPE9AQYU4eL0tRpewbPNBSLtSSmgKf_1-PAoEII4vNz-v",
        "Si_oUROKTAWztA1cUSdH-rz8w4nV2zUHqwzjy5rPMFm2urcMDQS3ggDfUnAzEPEZ7x8BfsLLAE506LvLaGHclmbZeYBb4m8B",
        "o0nnYm3QXbzTqooNvqE5gy6l3xiEtSotQg",
    );
    const NOW: i64 = 1_700_000_000;
    const EXPECTED: TokenExpectation<'static> =
        TokenExpectation { issuer: "https://a.example", client_id: "news", nonce: "n-1", now: NOW };

    fn base64(octets: impl AsRef<[u8]>) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(octets)
    }

    fn ed25519() -> (Ed25519KeyPair, Value) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": base64(pair.public_key())});
        (pair, key)
    }

    fn good() -> Value {
        json!({
            "iss": "https://a.example", "aud": "news", "sub": "u-1", "nonce": "n-1",
            "iat": NOW - 5, "exp": NOW + 300,
        })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = good();
        claims[name] = value;
        claims
    }

    fn without(name: &str) -> Value {
        let mut claims = good();
        claims.as_object_mut().unwrap().remove(name);
        claims
    }

    fn signed(head: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64(head.to_string()), base64(claims.to_string()));
        let signature = ed25519().0.sign(message.as_bytes());
        format!("{message}.{}", base64(signature))
    }

    fn set(keys: &[Value]) -> Vec<ProviderKey> {
        keys_in(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn checked(token: &str) -> Result<Map<String, Value>, IdTokenFault> {
        claims(token, &set(&[ed25519().1]), &EXPECTED)
    }

    #[test]
    fn a_token_is_of_this_issuer_for_this_client_and_for_this_login() {
        let head = json!({"alg": "EdDSA", "kid": "ed"});
        let fault = |claims: Value| checked(&signed(&head, &claims)).map(|_| ()).err();
        assert_eq!(fault(good()), None);
        assert_eq!(fault(with("aud", json!(["news"]))), None);
        let mut for_two = with("aud", json!(["other", "news"]));
        assert_eq!(fault(for_two.clone()), Some(IdTokenFault::Audience), "who asked for it?");
        for_two["azp"] = json!("news");
        assert_eq!(fault(for_two), None);
        for (claims, expected) in [
            (with("iss", json!("https://a.example/")), IdTokenFault::Issuer),
            (without("iss"), IdTokenFault::Issuer),
            (with("aud", json!("other")), IdTokenFault::Audience),
            (with("aud", json!([])), IdTokenFault::Audience),
            (without("aud"), IdTokenFault::Audience),
            (with("azp", json!("other")), IdTokenFault::Audience),
            (with("exp", json!(NOW - 61)), IdTokenFault::Time),
            (with("exp", json!("soon")), IdTokenFault::Time),
            (without("exp"), IdTokenFault::Time),
            (with("iat", json!(NOW + 61)), IdTokenFault::Time),
            (with("iat", json!(NOW - 3600)), IdTokenFault::Time),
            (with("nbf", json!(NOW + 100)), IdTokenFault::Time),
            (with("nonce", json!("n-2")), IdTokenFault::Nonce),
            (without("nonce"), IdTokenFault::Nonce),
            (without("sub"), IdTokenFault::Subject),
            (with("sub", json!("")), IdTokenFault::Subject),
        ] {
            assert_eq!(fault(claims.clone()), Some(expected), "{claims}");
        }
    }

    #[test]
    fn unsigned_and_wrongly_signed_tokens_are_refused() {
        let fault = |head: Value| checked(&signed(&head, &good())).map(|_| ()).err();
        for algorithm in ["none", "None", "HS256", "RS512", "PS256", ""] {
            assert_eq!(fault(json!({"alg": algorithm, "kid": "ed"})), Some(IdTokenFault::Algorithm));
        }
        assert_eq!(fault(json!({"kid": "ed"})), Some(IdTokenFault::Algorithm));
        assert_eq!(fault(json!({"alg": "EdDSA", "kid": "other"})), Some(IdTokenFault::UnknownKey));
        assert_eq!(
            fault(json!({"alg": "RS256", "kid": "ed"})),
            Some(IdTokenFault::UnknownKey),
            "its key is none"
        );
        assert_eq!(fault(json!({"alg": "EdDSA", "crit": ["b64"]})), Some(IdTokenFault::Form));
        let token = signed(&json!({"alg": "EdDSA"}), &good());
        assert!(checked(&token).is_ok(), "without a key's identifier all keys are tried");
        let (message, _) = token.rsplit_once('.').unwrap();
        for bad in [format!("{message}."), message.to_owned(), String::new(), ".".into(), "..".into()] {
            assert!(checked(&bad).is_err(), "{bad}");
        }
        for at in (0..token.len()).filter(|at| token.as_bytes()[*at] != b'.') {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'Q' } else { b'A' };
            assert!(checked(&String::from_utf8(changed).unwrap()).is_err(), "{at}");
        }
        assert_eq!(checked(&"x".repeat(TOKEN_BYTES_MAX + 1)).map(|_| ()), Err(IdTokenFault::Form));
    }

    #[test]
    fn signatures_of_p_256_are_checked() {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        let point = pair.public_key().as_ref();
        let key = json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256",
            "x": base64(&point[1..33]), "y": base64(&point[33..]),
        });
        let message = format!("{}.{}", base64(r#"{"alg":"ES256"}"#), base64(good().to_string()));
        let signature = pair.sign(&random, message.as_bytes()).unwrap();
        let token = format!("{message}.{}", base64(signature));
        assert!(claims(&token, &set(&[ed25519().1, key]), &EXPECTED).is_ok());
        assert_eq!(claims(&token, &set(&[ed25519().1]), &EXPECTED), Err(IdTokenFault::UnknownKey));
    }

    #[test]
    fn signatures_of_rsa_are_checked() {
        // Made by OpenSSL, with a key of 2,048 bits that was thrown away.
        let key = json!({"kty": "RSA", "kid": "rsa", "e": "AQAB", "n": RSA_MODULUS});
        assert!(claims(RSA_TOKEN, &set(std::slice::from_ref(&key)), &EXPECTED).is_ok());
        let (message, signature) = RSA_TOKEN.rsplit_once('.').unwrap();
        let other = format!(
            "{}.{signature}",
            message.replace("Im5ld3MiLCJzdWIiOiJ1LTEi", "Im5ld3MiLCJzdWIiOiJ1LTIi")
        );
        assert_eq!(claims(&other, &set(&[key]), &EXPECTED), Err(IdTokenFault::Signature));
    }

    #[test]
    fn only_keys_that_sign_in_a_known_way_are_kept() {
        let keys = set(&[
            json!({"kty": "RSA", "n": base64([0, 200, 1]), "e": "AQAB", "kid": "rsa"}),
            json!({"kty": "RSA", "n": "AQ", "e": "AQAB", "use": "enc"}),
            json!({"kty": "RSA", "n": "AQ", "e": "AQAB", "alg": "RS512"}),
            json!({"kty": "oct", "k": "AQAB"}),
            json!({"kty": "EC", "crv": "P-384", "x": "AQ", "y": "AQ"}),
            json!({"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}),
            json!({"kty": "RSA", "n": "!", "e": "AQAB"}),
            json!("key"),
        ]);
        let expected = PublicKey::Rs256 { n: vec![200, 1], e: vec![1, 0, 1] };
        assert_eq!(keys, [ProviderKey { id: Some("rsa".into()), public: expected }]);
        for bad in ["", "{}", "[]", "{\"keys\":1}"] {
            assert_eq!(keys_in(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn claims_are_found_within_objects() {
        let claims = json!({"a.b": 1, "a": {"b": 2, "c": {"d": 3}}});
        let found = |name| claim(claims.as_object().unwrap(), name).and_then(Value::as_u64);
        assert_eq!(
            [found("a.b"), found("a.c.d"), found("a.x"), found("x.b")],
            [Some(1), Some(3), None, None]
        );
    }
}
