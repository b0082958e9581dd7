//! Cancel-Lock and Cancel-Key: the syntax of the two headers, and matching of keys to locks.
//!
//! A lock is `scheme:Base64(hash(Base64(K)))`, its key `scheme:Base64(K)`; an article that presents the key
//! may withdraw the other. Hash functions come from the caller, so this module only knows the syntax. Called
//! by newsreel's `cancel_lock`. Source: RFC 8315 sections 2, 3.5 and 6.

/// Maximum number of elements of one header that are read.
pub const ELEMENTS_MAX: usize = 64;
/// Maximum nesting of comments.
const COMMENT_DEPTH_MAX: usize = 16;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScheme {
    /// SHA-1. Deprecated: checked, never generated.
    Sha1,
    /// SHA-256, which every implementation supports.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl LockScheme {
    /// Finds a scheme by name, in any case; `None` for those not supported, whose elements are skipped.
    pub fn find(name: &[u8]) -> Option<Self> {
        [Self::Sha1, Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|scheme| scheme.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns the scheme's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// One `scheme:text` of either header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockElement<'a> {
    /// The hash function.
    pub scheme: LockScheme,
    /// Base64 text of a lock or of a key; not checked for padding (RFC 8315 section 6).
    pub text: &'a [u8],
}

/// Returns the elements of a Cancel-Lock or Cancel-Key value, without comments and unknown schemes.
pub fn elements(value: &[u8]) -> impl Iterator<Item = LockElement<'_>> {
    LockWords { rest: value }.filter_map(element).take(ELEMENTS_MAX)
}

fn element(word: &[u8]) -> Option<LockElement<'_>> {
    let colon = memchr::memchr(b':', word)?;
    let scheme = LockScheme::find(word.get(..colon)?)?;
    let text = word.get(colon + 1..)?;
    let base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    (!text.is_empty() && text.iter().all(base64)).then_some(LockElement { scheme, text })
}

/// Iterator over the words between white space and comments.
struct LockWords<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for LockWords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if self.rest.first() != Some(&b'(') {
                break;
            }
            self.rest = after_comment(self.rest);
        }
        let end = self.rest.iter().position(|b| b.is_ascii_whitespace() || *b == b'(');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Returns the text after the comment that `text` begins with; nothing if the comment does not end.
fn after_comment(text: &[u8]) -> &[u8] {
    let mut depth = 0;
    let mut quoted = false;
    for (at, b) in text.iter().enumerate() {
        match b {
            _ if quoted => quoted = false,
            b'\\' => quoted = true,
            b'(' => depth += 1,
            b')' if depth == 1 => return text.get(at + 1..).unwrap_or_default(),
            b')' => depth -= 1,
            _ => {}
        }
        if depth > COMMENT_DEPTH_MAX {
            break;
        }
    }
    &[]
}

/// Returns whether one of the keys opens one of the locks (RFC 8315 section 3.5). `hash` appends Base64 of
/// the hash of the bytes passed to it.
pub fn opens(locks: &[u8], keys: &[u8], hash: impl Fn(LockScheme, &[u8], &mut Vec<u8>)) -> bool {
    let mut made = Vec::new();
    elements(keys).any(|key| {
        made.clear();
        hash(key.scheme, key.text, &mut made);
        elements(locks).any(|lock| lock.scheme == key.scheme && same(lock.text, &made))
    })
}

/// Compares two texts, in the same time for any two texts of the same length.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(value: &str) -> Vec<(LockScheme, &str)> {
        elements(value.as_bytes()).map(|e| (e.scheme, std::str::from_utf8(e.text).unwrap())).collect()
    }

    #[test]
    fn elements_between_folds_comments_and_unknown_schemes() {
        let (sha1, sha256, sha512) = (LockScheme::Sha1, LockScheme::Sha256, LockScheme::Sha512);
        for (value, expected) in [
            ("", vec![]),
            ("sha256:ab=", vec![(sha256, "ab=")]),
            ("ShA1:aaa\r\n\tSHA512:bb==  ", vec![(sha1, "aaa"), (sha512, "bb==")]),
            ("(a (nested) \\) one)sha256:a(b)sha256:c", vec![(sha256, "a"), (sha256, "c")]),
            ("md5:x sha256: :y sha256 sha256:a,b sha256:ok", vec![(sha256, "ok")]),
            ("(never closed sha256:a", vec![]),
        ] {
            assert_eq!(texts(value), expected, "{value}");
        }
        let many = "sha256:a ".repeat(1000);
        assert_eq!(elements(many.as_bytes()).count(), ELEMENTS_MAX);
        let deep = format!("{}sha256:a", "(".repeat(100_000));
        assert_eq!(elements(deep.as_bytes()).count(), 0);
    }

    /// Uses a hash that only doubles the text.
    #[test]
    fn one_key_of_many_opens_one_lock_of_many() {
        let double = |_: LockScheme, key: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(key);
            out.extend_from_slice(key);
        };
        let opens = |locks: &str, keys: &str| super::opens(locks.as_bytes(), keys.as_bytes(), double);
        assert!(opens("sha256:aa", "sha256:a"));
        assert!(opens("sha1:xx sha256:bb sha256:aa", "sha512:a (c) SHA256:a"));
        assert!(!opens("sha256:aa", "sha512:a"));
        assert!(!opens("sha256:aa", "sha256:aa"));
        assert!(!opens("", "sha256:a"));
        assert!(!opens("sha256:aa", ""));
    }
}
