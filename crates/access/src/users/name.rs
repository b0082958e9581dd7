//! The form in which names and passwords are stored and compared: SASLprep.
//!
//! Called by everything that takes a name or password. Sources: RFC 4013, RFC 4643 section 2.4.2.

/// Longest name of a user, prepared, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// What [`prepared`] asks of a name, for people.
pub const NAME_RULE: &str = "a name has no blanks, commas, < or >, and at most 128 bytes";
/// Shortest password that its owner may choose, in characters.
pub const PASSWORD_CHARS_MIN: usize = 8;
/// Longest password, in bytes: what an AUTHINFO PASS line can carry, and more than anyone types.
pub(crate) const PASSWORD_BYTES_MAX: usize = 512;

/// Prepares a name; `None` if it is invalid: not UTF-8, empty, too long, or with characters that SASLprep
/// forbids, that a line of the file could not hold, or that cancel keys leave out (RFC 8315 section 4: `<`
/// and `>`).
pub fn prepared(name: &[u8]) -> Option<String> {
    let name = str::from_utf8(name.get(..name.len().min(4 * NAME_BYTES_MAX))?).ok()?;
    let name = stringprep::saslprep(name).ok()?.into_owned();
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ',' | '<' | '>');
    (fits && !name.chars().any(forbidden)).then_some(name)
}

/// Prepares a password; one that SASLprep rejects stays as received. `None` if it is empty, too long, or has
/// a control character, which no way of logging in can carry.
pub fn prepared_password(password: &[u8]) -> Option<Vec<u8>> {
    if password.is_empty()
        || password.len() > PASSWORD_BYTES_MAX
        || password.iter().any(|&b| b < b' ' && b != b'\t' || b == 0x7f)
    {
        return None;
    }
    let prepared = str::from_utf8(password).ok().and_then(|text| stringprep::saslprep(text).ok());
    let prepared = prepared.map_or_else(|| password.to_vec(), |text| text.into_owned().into_bytes());
    (!prepared.is_empty()).then_some(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_one_form() {
        assert_eq!(prepared(b"fred").as_deref(), Some("fred"));
        assert_eq!(
            prepared(b"fred@stonecanyon.example.com").as_deref(),
            Some("fred@stonecanyon.example.com")
        );
        // RFC 4013 section 3: the soft hyphen is dropped, Roman nine becomes IX.
        assert_eq!(prepared("I\u{ad}X".as_bytes()).as_deref(), Some("IX"));
        assert_eq!(prepared("\u{2168}".as_bytes()).as_deref(), Some("IX"));
        for bad in [
            &b""[..],
            b"a b",
            b"a,b",
            b"<a>",
            b"a>b",
            b"a\tb",
            b"a\x07",
            b"\xff",
            &[b'x'; 129],
            "\u{627}1".as_bytes(),
        ] {
            assert_eq!(prepared(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn passwords_rejected_by_saslprep_stay_unchanged() {
        assert_eq!(prepared_password(b" two words ").as_deref(), Some(&b" two words "[..]));
        assert_eq!(prepared_password("\u{2168}".as_bytes()).as_deref(), Some(&b"IX"[..]));
        assert_eq!(prepared_password(b"caf\xe9").as_deref(), Some(&b"caf\xe9"[..]));
        assert_eq!(prepared_password(b""), None);
        assert_eq!(prepared_password(b"a\nb"), None);
        assert_eq!(prepared_password(&[b'x'; 513]), None);
    }
}
