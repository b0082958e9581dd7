//! Mail addresses of users: kept as keyed hashes, and links that prove one.
//!
//! An address is stored as its hash with a key of the site, so the file of users lists no addresses; a user
//! who wants a mail types the address, and it is compared. The link that makes an account has the account's
//! name, the end of its validity and the hash of the address, signed: nothing is stored of an account before
//! it is confirmed. Both keys are derived from the secret of the users file. Called by `gate`. Source:
//! `docs/formats/users.md`.

use super::credentials::{HASH_LEN, hmac_sha256, sha256};
use super::file::UserTable;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use netnews::injection::is_address;
use ring::hmac;
use std::fmt;

/// Time for which a link that makes an account is valid, in seconds.
pub const SIGN_UP_VALID_SECS: u64 = 86_400;
/// Longest mail address, in bytes (RFC 5321 section 4.5.3.1.3).
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest token, in bytes: name, time and two hashes in base64.
const TOKEN_BYTES_MAX: usize = 300;
/// Texts from which the keys are derived. Names of users have no control characters.
const MARK_KEY_TEXT: &[u8] = b"\tnewsreel mail address";
const TOKEN_KEY_TEXT: &[u8] = b"\tnewsreel sign-up token";

/// The keyed hash of a mail address.
#[derive(Clone, PartialEq, Eq)]
pub struct MailMark([u8; HASH_LEN]);

impl fmt::Debug for MailMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MailMark")
    }
}

impl MailMark {
    /// Returns the mark of an address at this site, whatever the case of its letters.
    pub fn of(table: &UserTable, address: &str) -> Self {
        let key = hmac_sha256(&table.decoy, MARK_KEY_TEXT);
        Self(hmac_sha256(&key, address.to_lowercase().as_bytes()))
    }

    /// Parses the text in the file of users.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(Self(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }
}

/// Formats the text in the file of users.
impl fmt::Display for MailMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// An account that the owner of a mail address confirms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailedSignUp {
    /// Name of the account.
    pub name: Box<str>,
    /// Mark of the address.
    pub mail: MailMark,
    /// What distinguishes the link from all others.
    pub mark: [u8; HASH_LEN],
}

/// Returns true if a mail can be sent to this address, which must not look like an option of a program.
pub fn is_mail_address(address: &str) -> bool {
    address.len() <= ADDRESS_BYTES_MAX && is_address(address.as_bytes()) && !address.starts_with('-')
}

/// Returns the token of a link that makes an account, valid from `now` in Unix seconds.
pub fn sign_up_token(table: &UserTable, name: &str, address: &str, now: u64) -> String {
    let (until, mail) = (now.saturating_add(SIGN_UP_VALID_SECS), MailMark::of(table, address));
    let tag = hmac::sign(&token_key(table), signed(name, until, &mail).as_bytes());
    let base64 = |octets: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(octets);
    format!("{}.{until}.{mail}.{}", base64(name.as_bytes()), base64(tag.as_ref()))
}

/// Returns the account that a token makes; `None` if the token is not valid now.
pub fn sign_up_of_token(table: &UserTable, token: &str, now: u64) -> Option<MailedSignUp> {
    let parts: Vec<&str> = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX)?.split('.').collect();
    let [name, until, mail, tag] = *parts.as_slice() else { return None };
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    let name = String::from_utf8(decoded(name)?).ok()?;
    let (until, mail, tag) = (until.parse().ok()?, MailMark::parse(mail)?, decoded(tag)?);
    hmac::verify(&token_key(table), signed(&name, until, &mail).as_bytes(), &tag).ok()?;
    (now < until).then(|| MailedSignUp { name: name.into(), mail, mark: sha256(token.as_bytes()) })
}

fn token_key(table: &UserTable) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &hmac_sha256(&table.decoy, TOKEN_KEY_TEXT))
}

fn signed(name: &str, until: u64, mail: &MailMark) -> String {
    format!("{name}\n{until}\n{mail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_by_marks_of_one_site() {
        let (own, other) = (UserTable::empty([7; 16]), UserTable::empty([8; 16]));
        let mark = MailMark::of(&own, "Fred@Example.org");
        assert_eq!(mark, MailMark::of(&own, "fred@example.org"));
        assert_ne!(mark, MailMark::of(&own, "fred@example.com"));
        assert_ne!(mark, MailMark::of(&other, "fred@example.org"));
        assert_eq!(MailMark::parse(&mark.to_string()), Some(mark));
        for bad in ["", "-", "AAAA", "!"] {
            assert_eq!(MailMark::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_addresses_are_mailed_to() {
        assert!(is_mail_address("fred@example.org"));
        for bad in [
            "",
            "fred",
            "fred@",
            "-oX@example.org",
            "fred@example.org\r\nBcc: all@example.org",
            "fred@example.org, wilma@example.org",
            "Fred <fred@example.org>",
            &format!("{}@example.org", "x".repeat(ADDRESS_BYTES_MAX)),
        ] {
            assert!(!is_mail_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_token_is_valid_for_a_day_and_no_change_leaves_it_valid() {
        let table = UserTable::empty([7; 16]);
        let token = sign_up_token(&table, "fred", "fred@example.org", 100);
        assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
        let found = sign_up_of_token(&table, &token, 100 + SIGN_UP_VALID_SECS - 1).unwrap();
        assert_eq!((&*found.name, &found.mail), ("fred", &MailMark::of(&table, "fred@example.org")));
        assert_eq!(sign_up_of_token(&table, &token, 100 + SIGN_UP_VALID_SECS), None);
        assert_eq!(sign_up_of_token(&UserTable::empty([8; 16]), &token, 100), None, "of another site");
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(sign_up_of_token(&table, &String::from_utf8(changed).unwrap(), 100), None, "{at}");
            assert_eq!(sign_up_of_token(&table, &token[..at], 100), None, "{at}");
        }
        let (_, rest) = token.split_once('.').unwrap();
        let other = format!("{}.{rest}", BASE64_URL_SAFE_NO_PAD.encode("root"));
        assert_eq!(sign_up_of_token(&table, &other, 100), None);
        assert_eq!(sign_up_of_token(&table, &format!("{token}."), 100), None);
    }
}
