//! Newsgroup names and the list of them in a Newsgroups header.
//!
//! A valid name is safe as an argument of a command, in a wildmat, as an active line and as a relative file
//! name. Called by ingest, inject, control messages and group administration. Sources: RFC 3977 section 9.8,
//! RFC 5536 3.1.4.

use std::fmt;

/// Maximum length of a newsgroup name: the rest of a command line after its verb (RFC 3977 section 3.1).
pub const GROUP_NAME_BYTES_MAX: usize = 497;

/// Returns whether `name` may name a newsgroup: components of graphic characters or UTF-8 between single
/// dots; none of `! * , ? [ \ ] /`, no space, no control character.
pub fn valid_name(name: &[u8]) -> bool {
    if name.is_empty() || name.len() > GROUP_NAME_BYTES_MAX {
        return false;
    }
    let mut previous = b'.';
    for &b in name {
        if !ALLOWED[b as usize] || (b == b'.' && previous == b'.') {
            return false;
        }
        previous = b;
    }
    previous != b'.' && std::str::from_utf8(name).is_ok()
}

/// Reason why a name that [`valid_name`] accepts should not be given to a newsgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamingFault {
    /// `poster`, which means the author in Followup-To.
    Poster,
    /// A word that stands for something else, as the first component or anywhere.
    Reserved(&'static str),
    /// A character other than letters, digits, `+`, `-`, `_` and `.`: other servers do not accept it, and
    /// clients may misread it in Xref.
    Character(char),
}

impl fmt::Display for NamingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poster => f.write_str("the name `poster` must not be used: it means the author"),
            Self::Reserved(word) => write!(f, "the component `{word}` is reserved"),
            Self::Character(c) => {
                write!(f, "the character `{}` is not allowed in a group name", c.escape_debug())
            }
        }?;
        f.write_str(" (RFC 5536 section 3.1.4)")
    }
}

/// Returns the objection of RFC 5536 section 3.1.4 to a name that [`valid_name`] accepts.
pub fn naming_fault(name: &[u8]) -> Option<NamingFault> {
    if name.eq_ignore_ascii_case(b"poster") {
        return Some(NamingFault::Poster);
    }
    let reserved = |words: &[&'static str], component: &[u8]| {
        words.iter().find(|word| word.as_bytes() == component).map(|word| NamingFault::Reserved(word))
    };
    let first = name.split(|b| *b == b'.').next().unwrap_or_default();
    let found = reserved(&["example", "to"], first)
        .or_else(|| name.split(|b| *b == b'.').find_map(|component| reserved(&["all", "ctl"], component)));
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '.');
    found.or_else(|| {
        let text = std::str::from_utf8(name).ok()?;
        text.chars().find(|c| !allowed(c)).map(NamingFault::Character)
    })
}

/// Returns whether a control message may create or remove a group of this name: one that RFC 5536 section
/// 3.1.4 defines and does not reserve, and that is not local to servers.
pub fn is_public_name(name: &[u8]) -> bool {
    valid_name(name) && !is_local_name(name) && naming_fault(name).is_none()
}

/// Returns whether a group of this name is each server's own, and takes no posts: `junk`, `control` and the
/// groups below `control`.
pub fn is_local_name(name: &[u8]) -> bool {
    name == b"junk" || name.split(|b| *b == b'.').next() == Some(b"control")
}

const ALLOWED: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0x22;
    while b < 256 {
        table[b] = !matches!(b as u8, b'*' | b',' | b'?' | b'[' | b'\\' | b']' | b'/' | 0x7f);
        b += 1;
    }
    table
};

/// Returns the names in a Newsgroups value, in order: cut at commas, white space and folds trimmed, empty
/// pieces skipped. The names are not checked; ingest treats unknown and malformed ones alike.
pub fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_control_messages() {
        for name in ["comp.lang.c++", "de.comp", "x", "alt.2600", "a.b_c-d"] {
            assert!(is_public_name(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "control",
            "control.cancel",
            "to.site",
            "example.x",
            "junk",
            "poster",
            "a.all",
            "ctl.x",
            "a..b",
            "\u{e9}.x",
            "a b",
        ] {
            assert!(!is_public_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn reserved_names_and_characters_have_a_reason() {
        let reason = |name: &str| naming_fault(name.as_bytes());
        assert_eq!(reason("poster"), Some(NamingFault::Poster));
        for (name, word) in
            [("all", "all"), ("a.all.b", "all"), ("ctl.x", "ctl"), ("a.ctl", "ctl"), ("to", "to")]
        {
            assert_eq!(reason(name), Some(NamingFault::Reserved(word)), "{name}");
        }
        assert_eq!(reason("example.test"), Some(NamingFault::Reserved("example")));
        for (name, c) in [("a:b", ':'), ("a@b", '@'), ("caf\u{e9}.x", '\u{e9}'), ("a.b&c", '&')] {
            assert_eq!(reason(name), Some(NamingFault::Character(c)), "{name}");
        }
        for name in ["comp.lang.c++", "control.cancel", "junk", "a.example", "a.to", "alt.b_c-d", "allx.ctly"]
        {
            assert_eq!(reason(name), None, "{name}");
        }
    }

    #[test]
    fn valid() {
        let longest = "a".repeat(GROUP_NAME_BYTES_MAX);
        for name in [
            "a",
            "comp.lang.c++",
            "rec.arts.sf-lovers",
            "alt.2600",
            "Misc.Test",
            "gnu.emacs_help",
            "\u{43c}.\u{442}",
            "junk",
            longest.as_str(),
        ] {
            assert!(valid_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn invalid() {
        let too_long = "a".repeat(GROUP_NAME_BYTES_MAX + 1);
        for name in [
            "", ".", "..", ".a", "a.", "a..b", "a b", "a,b", "a*", "a?", "!a", "a!b", "a[b", "a]b", "a\\b",
            "a/b", "../etc", "a\tb", "a\r\nb", "a\0", "a\x7f", &too_long,
        ] {
            assert!(!valid_name(name.as_bytes()), "{name:?}");
        }
        assert!(!valid_name(b"caf\xe9.latin1"));
    }

    #[test]
    fn lists() {
        let names = |value: &'static str| {
            split(value.as_bytes()).map(|n| str::from_utf8(n).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("a.b"), ["a.b"]);
        assert_eq!(names("a.b,c.d"), ["a.b", "c.d"]);
        assert_eq!(names(" a.b ,\r\n\tc.d,, ,e.f,"), ["a.b", "c.d", "e.f"]);
        assert_eq!(names(" , "), Vec::<&str>::new());
        assert_eq!(names("a.b c.d"), ["a.b c.d"]);
    }
}
