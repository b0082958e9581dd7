//! The state of a login that is under way at a provider, carried by the browser, and what was spent of it.
//!
//! A state has the time of its beginning, random octets and the page to go to afterwards, signed together
//! with the provider's name and the browser's identifier. So nothing is kept of logins that are begun,
//! however many: nonce and PKCE verifier are derived from the random octets. A state counts once, within ten
//! minutes, and in the browser that began it. Keys are made at each start of the server. Called by `oidc`.
//! Sources: RFC 6749 section 10.12, RFC 7636, OpenID Connect Core section 3.1.2.1.

use crate::sessions::SessionId;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use std::time::Duration;

/// Time within which a browser comes back from the provider.
pub(super) const LOGIN_TIME_MAX: Duration = Duration::from_secs(600);
/// Longest path of the page after the login, in bytes.
const NEXT_BYTES_MAX: usize = 1000;
/// Longest text of a state, in bytes.
const STATE_BYTES_MAX: usize = 2000;
const TIME_BYTES: usize = 8;
const RANDOM_BYTES: usize = 16;

/// Key of states, of one run of the server.
pub(super) struct StateKey(hmac::Key);

/// A login that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoginState {
    begun_secs: u64,
    random: [u8; RANDOM_BYTES],
    /// Path of the page to go to afterwards.
    pub next: String,
}

impl StateKey {
    /// Makes a key; `None` if there are no random numbers.
    pub fn new() -> Option<Self> {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).ok()?;
        Some(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// Begins a login; `None` if there are no random numbers.
    pub fn begin(&self, next: &str, now_secs: u64) -> Option<LoginState> {
        let mut random = [0; RANDOM_BYTES];
        SystemRandom::new().fill(&mut random).ok()?;
        let next = if next.len() <= NEXT_BYTES_MAX { next } else { "/" };
        Some(LoginState { begun_secs: now_secs, random, next: next.to_owned() })
    }

    /// Returns the text of a state for a browser and a provider.
    pub fn text(&self, state: &LoginState, provider: &str, browser: &SessionId) -> String {
        let payload = state.payload();
        let tag = hmac::sign(&self.0, &signed(&payload, provider, browser));
        let base64 = |octets: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(octets);
        format!("{}.{}", base64(&payload), base64(tag.as_ref()))
    }

    /// Returns the state of a text, if it is one of this browser and provider and not too old.
    pub fn parse(
        &self,
        text: &str,
        provider: &str,
        browser: &SessionId,
        now_secs: u64,
    ) -> Option<LoginState> {
        let (payload, tag) = Some(text).filter(|text| text.len() <= STATE_BYTES_MAX)?.split_once('.')?;
        let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let (payload, tag) = (decoded(payload)?, decoded(tag)?);
        hmac::verify(&self.0, &signed(&payload, provider, browser), &tag).ok()?;
        let (time, rest) = payload.split_first_chunk::<TIME_BYTES>()?;
        let (random, next) = rest.split_first_chunk::<RANDOM_BYTES>()?;
        let next = String::from_utf8(next.to_vec()).ok()?;
        let state = LoginState { begun_secs: u64::from_be_bytes(*time), random: *random, next };
        let age = now_secs.checked_sub(state.begun_secs)?;
        (age < LOGIN_TIME_MAX.as_secs()).then_some(state)
    }

    /// Returns the nonce that the ID token of a login must have.
    pub fn nonce(&self, state: &LoginState) -> String {
        self.derived(b"nonce", state)
    }

    /// Returns the secret with which a login is finished at the provider (code_verifier of RFC 7636).
    pub fn verifier(&self, state: &LoginState) -> String {
        self.derived(b"verifier", state)
    }

    fn derived(&self, purpose: &[u8], state: &LoginState) -> String {
        let text = [purpose, b"\0", &state.random].concat();
        BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, &text))
    }
}

impl LoginState {
    fn payload(&self) -> Vec<u8> {
        [&self.begun_secs.to_be_bytes()[..], &self.random, self.next.as_bytes()].concat()
    }

    /// Returns what distinguishes this login from all others.
    pub fn mark(&self) -> [u8; 32] {
        digest::digest(&digest::SHA256, &self.random).as_ref().try_into().unwrap_or_default()
    }
}

/// Returns what the provider is shown of the verifier (method S256 of RFC 7636).
pub(super) fn challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

/// Returns the text that is signed. Names of providers and identifiers have no NUL.
fn signed(payload: &[u8], provider: &str, browser: &SessionId) -> Vec<u8> {
    [b"state\0", provider.as_bytes(), b"\0", browser.text().as_bytes(), b"\0", payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::WebLogins;

    #[test]
    fn a_state_is_of_one_browser_one_provider_and_ten_minutes() {
        let key = StateKey::new().unwrap();
        let sessions = WebLogins::new(None);
        let (own, other) = (sessions.new_id().unwrap(), sessions.new_id().unwrap());
        let state = key.begin("/groups", 1_000).unwrap();
        let text = key.text(&state, "campus", &own);
        assert_eq!(key.parse(&text, "campus", &own, 1_599), Some(state.clone()));
        assert_eq!(key.parse(&text, "campus", &own, 1_600), None, "too old");
        assert_eq!(key.parse(&text, "campus", &own, 999), None, "of the future");
        assert_eq!(key.parse(&text, "campus", &other, 1_000), None, "another browser");
        assert_eq!(key.parse(&text, "other", &own, 1_000), None, "another provider");
        assert_eq!(StateKey::new().unwrap().parse(&text, "campus", &own, 1_000), None, "another server");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.parse(&changed, "campus", &own, 1_000), None, "{at}");
            assert_eq!(key.parse(&text[..at], "campus", &own, 1_000), None, "{at}");
        }
        assert_eq!(key.begin(&"/x".repeat(1_000), 0).unwrap().next, "/");
    }

    #[test]
    fn nonce_and_verifier_are_secrets_of_one_login() {
        let key = StateKey::new().unwrap();
        let (one, other) = (key.begin("/", 1).unwrap(), key.begin("/", 1).unwrap());
        let all = [key.nonce(&one), key.verifier(&one), key.nonce(&other), key.verifier(&other)];
        for (at, text) in all.iter().enumerate() {
            assert!(text.len() == 43 && !all[..at].contains(text), "{all:?}");
        }
        assert_eq!(key.nonce(&one), key.nonce(&one));
        // RFC 7636 appendix B.
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }
}
