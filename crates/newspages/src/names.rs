//! Names of files in articles: safe to store files under, and to put in an HTTP header.
//!
//! Called by `content` and the web server. Sources: RFC 2183 section 2.3, RFC 6266 section 4.3.

use netnews::printable::is_unprintable;

/// Maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 120;

/// Returns a file name without directories, control characters, and characters with a special meaning for
/// file systems and shells; `fallback` if nothing is left.
pub fn safe(name: &str, fallback: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_odd = |c: char| {
        is_unprintable(c) || "<>:\"|?*\u{fffd}".contains(c) || ('\u{2400}'..='\u{2426}').contains(&c)
    };
    let kept: String = last.chars().map(|c| if is_odd(c) { '_' } else { c }).collect();
    let kept = kept.trim().trim_start_matches(['.', '-', '~']).trim_end_matches(['.', ' ']);
    if kept.is_empty() || kept.chars().all(|c| c == '_') {
        return fallback.to_owned();
    }
    if kept.len() <= NAME_BYTES_MAX {
        return kept.to_owned();
    }
    // The suffix determines the type and is kept.
    let suffix =
        kept.rfind('.').and_then(|dot| kept.get(dot..)).filter(|suffix| suffix.len() <= 16).unwrap_or("");
    let stem = kept.floor_char_boundary(NAME_BYTES_MAX - suffix.len());
    format!("{}{suffix}", kept.get(..stem).unwrap_or_default())
}

/// Returns the value of Content-Disposition that offers a file under this name.
pub fn disposition(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '_' })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", crate::urls::escape(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_contain_no_path() {
        for (name, expected) in [
            ("photo.jpg", "photo.jpg"),
            ("../../etc/passwd", "passwd"),
            ("C:\\windows\\a.exe", "a.exe"),
            ("..", "file"),
            (".bashrc", "bashrc"),
            ("-rf", "rf"),
            ("a\r\nSet-Cookie: b", "a__Set-Cookie_ b"),
            ("x.txt. ", "x.txt"),
            ("photo\u{202e}gpj.exe", "photo_gpj.exe"),
            ("\0\0", "file"),
            ("Gr\u{fc}\u{df}e.txt", "Gr\u{fc}\u{df}e.txt"),
            ("", "file"),
        ] {
            assert_eq!(safe(name, "file"), expected, "{name:?}");
        }
        let long = format!("{}.tar.gz", "\u{fc}".repeat(200));
        assert!(safe(&long, "file").ends_with("\u{fc}.gz") && safe(&long, "file").len() <= NAME_BYTES_MAX);
    }

    #[test]
    fn a_disposition_is_one_header() {
        assert_eq!(
            disposition("a \"b\".txt"),
            "attachment; filename=\"a _b_.txt\"; filename*=UTF-8''a%20%22b%22.txt"
        );
    }

    proptest! {
        #[test]
        fn any_name_is_safe(name in "\\PC{0,300}|[\\x00-\\x7f]{0,40}") {
            let safe = safe(&name, "file");
            prop_assert!(!safe.is_empty() && safe.len() <= NAME_BYTES_MAX && !safe.starts_with('.'));
            prop_assert!(!safe.contains(['/', '\\']) && !safe.chars().any(char::is_control));
            prop_assert!(disposition(&safe).bytes().all(|b| (0x20..0x7f).contains(&b)));
        }
    }
}
