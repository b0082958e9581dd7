//! Newsgroup names and the list of them in a Newsgroups header.
//!
//! A valid name is safe as an argument of a command, in a wildmat, as an active line and as a relative file
//! name. Called by ingest, inject, control messages and group administration. Sources: RFC 3977 section 9.8,
//! RFC 5536 3.1.4.

/// The longest newsgroup name: what still fits a command line after its verb (RFC 3977 section 3.1).
pub const GROUP_NAME_BYTES_MAX: usize = 497;

/// Whether `name` may name a newsgroup: components of graphic characters or UTF-8 between single dots; none
/// of `! * , ? [ \ ] /`, no space, no control character.
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

/// Whether a control message may create or remove a group of this name: one that RFC 5536 section 3.1.4
/// defines and does not reserve.
pub fn is_public_name(name: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'_');
    let mut components = name.split(|b| *b == b'.');
    let is_reserved = matches!(name, b"poster" | b"junk")
        || matches!(components.clone().next(), Some(b"example" | b"to" | b"control"));
    let is_component = |component: &[u8]| {
        !component.is_empty() && component.iter().all(allowed) && !matches!(component, b"all" | b"ctl")
    };
    name.len() <= GROUP_NAME_BYTES_MAX && !is_reserved && components.all(is_component)
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

/// The names in a Newsgroups value, in order: cut at commas, white space and folds trimmed, empty pieces
/// skipped. The names are not checked; unknown and malformed ones look alike to ingest.
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
