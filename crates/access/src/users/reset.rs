//! One-time links with which a user sets another password.
//!
//! The token of a link has the name, the end of its validity, and a keyed hash of both and of the stored
//! password. So the server keeps nothing: a token outlives a restart, and it is spent once the password is
//! another, by whatever means. The key is derived from the secret of the users file, under a text that is no
//! user's name, for which salts are made of the same secret. Called by `gate` and `cli`.

use super::credentials::hmac_sha256;
use super::file::{UserRecord, UserTable};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;

/// Time for which a link is valid, in seconds.
pub const RESET_VALID_SECS: u64 = 86_400;
/// Longest token, in bytes: name, time and hash in base64.
const TOKEN_BYTES_MAX: usize = 256;
/// Text from which the key is derived. Names of users have no control characters.
const KEY_TEXT: &[u8] = b"\tnewsreel reset token";

/// Returns the token of a link for a user with a stored password, valid from `now` in Unix seconds.
pub fn reset_token(table: &UserTable, name: &str, now: u64) -> Option<String> {
    let record = table.get(name).filter(|record| record.credentials.is_some())?;
    let until = now.saturating_add(RESET_VALID_SECS);
    let tag = hmac::sign(&key(table), text(name, until, Some(record)).as_bytes());
    let base64 = |octets: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(octets);
    Some(format!("{}.{until}.{}", base64(name.as_bytes()), base64(tag.as_ref())))
}

/// Returns the user that a token is for; `None` if it is not valid now. Takes as long for users that do not
/// exist.
pub fn user_of_token(table: &UserTable, token: &str, now: u64) -> Option<Box<str>> {
    let mut parts = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX)?.split('.');
    let (name, until, tag) = (parts.next()?, parts.next()?, parts.next()?);
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    let name = String::from_utf8(decoded(name)?).ok()?;
    let (until, tag) = (until.parse().ok()?, decoded(tag)?);
    let record = table.get(&name).filter(|record| record.credentials.is_some());
    let is_ours = hmac::verify(&key(table), text(&name, until, record).as_bytes(), &tag).is_ok();
    let is_valid = is_ours && record.is_some() && now < until && parts.next().is_none();
    is_valid.then(|| name.into())
}

fn key(table: &UserTable) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &hmac_sha256(&table.decoy, KEY_TEXT))
}

/// Returns the text that is signed.
fn text(name: &str, until: u64, record: Option<&UserRecord>) -> String {
    let changed = record.map_or(0, |record| record.changed);
    let stored = record.and_then(|record| record.credentials.as_ref());
    let stored = stored.map_or("-", |credentials| credentials.argon2.as_str());
    format!("{name}\n{until}\n{changed}\n{stored}")
}

#[cfg(test)]
mod tests {
    use super::super::{StoredCredentials, User};
    use super::*;

    fn table() -> UserTable {
        let mut table = UserTable::empty([7; 16]);
        for (name, password) in [("fred", Some("flintstone")), ("wilma", None)] {
            let user = User::named(name);
            let credentials = password.map(|text| StoredCredentials::new(text.as_bytes()).unwrap());
            table.put(UserRecord { user, changed: 5, credentials, mail: None });
        }
        table
    }

    #[test]
    fn a_token_is_valid_for_a_day_and_until_the_password_changes() {
        let mut table = table();
        let token = reset_token(&table, "fred", 100).unwrap();
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
        let of = |table: &UserTable, now| user_of_token(table, &token, now);
        assert_eq!(of(&table, 100).as_deref(), Some("fred"));
        assert_eq!(of(&table, 100 + RESET_VALID_SECS - 1).as_deref(), Some("fred"));
        assert_eq!(of(&table, 100 + RESET_VALID_SECS), None);
        let record = table.get("fred").unwrap().clone();
        // Even the same password is another one, as salts differ.
        let again = StoredCredentials::new(b"flintstone").unwrap();
        table.put(UserRecord { credentials: Some(again), ..record.clone() });
        assert_eq!(of(&table, 100), None);
        table.put(record);
        assert_eq!(of(&table, 100).as_deref(), Some("fred"));
        table.remove("fred");
        assert_eq!(of(&table, 100), None);
    }

    #[test]
    fn no_change_to_a_token_leaves_it_valid() {
        let table = table();
        assert_eq!(reset_token(&table, "wilma", 1), None, "a program decides about her");
        assert_eq!(reset_token(&table, "barney", 1), None);
        let token = reset_token(&table, "fred", 100).unwrap();
        for at in 0..token.len() {
            for byte in *b"Aa0.-" {
                let mut other = token.clone().into_bytes();
                if std::mem::replace(&mut other[at], byte) != byte {
                    assert_eq!(
                        user_of_token(&table, std::str::from_utf8(&other).unwrap(), 100),
                        None,
                        "{at}"
                    );
                }
            }
            assert_eq!(user_of_token(&table, &token[..at], 100), None);
        }
        for more in [".", ".x", "x", "=", &"x".repeat(TOKEN_BYTES_MAX)] {
            assert_eq!(user_of_token(&table, &format!("{token}{more}"), 100), None, "{more}");
        }
        let (_, rest) = token.split_once('.').unwrap();
        for name in ["wilma", "barney", "", "fred\n"] {
            let other = format!("{}.{rest}", BASE64_URL_SAFE_NO_PAD.encode(name));
            assert_eq!(user_of_token(&table, &other, 100), None, "{name}");
        }
        let mut elsewhere = table.clone();
        elsewhere.decoy = [8; 16];
        assert_eq!(user_of_token(&elsewhere, &token, 100), None, "of another site");
    }
}
