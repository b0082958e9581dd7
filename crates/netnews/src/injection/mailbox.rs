//! Mail addresses in From, Sender and Reply-To, as far as an injecting agent requires them.
//!
//! Lenient about names and comments, strict about the address itself, so that readers can answer. Called by
//! `check` and by the moderation mail. Source: RFC 5322 section 3.4, RFC 5536 section 3.1.2.

/// Returns whether `value` is a list of mailboxes, at least one: `a@b`, `Name <a@b>`, `a@b (Name)`, separated
/// by commas.
pub fn is_mailbox_list(value: &[u8]) -> bool {
    let bare = without_comments(value);
    let mut any = false;
    for mailbox in bare.split(|&b| b == b',').filter(|mailbox| !mailbox.trim_ascii().is_empty()) {
        if !is_mailbox(mailbox.trim_ascii()) {
            return false;
        }
        any = true;
    }
    any
}

/// Returns whether `text` is a bare address: `local@domain`.
pub fn is_address(text: &[u8]) -> bool {
    let Some(at) = memchr::memrchr(b'@', text) else { return false };
    let (local, domain) = (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
    is_dotted(local, is_atom) && (is_literal(domain) || is_dotted(domain, is_label))
}

/// Returns whether `value` may stand in Sender: a list of mailboxes, or `user%host`, as INN's inews names the
/// user running it.
pub fn is_sender(value: &[u8]) -> bool {
    let is_percent_address = |text: &[u8]| {
        let percent = memchr::memrchr(b'%', text);
        percent
            .and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?)))
            .is_some_and(|(user, host)| is_dotted(user, is_atom) && is_dotted(host, is_label))
    };
    is_mailbox_list(value) || is_percent_address(value.trim_ascii())
}

fn is_mailbox(text: &[u8]) -> bool {
    match memchr::memchr(b'<', text) {
        None => is_address(text),
        Some(open) => {
            let inner = text.get(open + 1..).and_then(|rest| rest.strip_suffix(b">"));
            inner.is_some_and(|address| is_address(address.trim_ascii()))
        }
    }
}

/// Returns `value` without comments and with quoted strings reduced to one letter, so that their content does
/// not matter.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let mut bare = Vec::with_capacity(value.len());
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for &b in value {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted || depth > 0 => escaped = true,
            b'"' if depth == 0 => {
                quoted = !quoted;
                if quoted {
                    bare.push(b'q');
                }
            }
            _ if quoted => {}
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            _ => bare.push(b),
        }
    }
    bare
}

fn is_dotted(text: &[u8], part: fn(&[u8]) -> bool) -> bool {
    !text.is_empty() && text.split(|&b| b == b'.').all(part)
}

fn is_atom(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(b))
}

fn is_label(text: &[u8]) -> bool {
    !text.is_empty()
        && text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        && !text.starts_with(b"-")
        && !text.ends_with(b"-")
}

fn is_literal(text: &[u8]) -> bool {
    let inner = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inner.is_some_and(|inner| {
        !inner.is_empty() && inner.iter().all(|b| b.is_ascii_alphanumeric() || b".:-".contains(b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_posters() {
        for good in [
            "a@b",
            "a@b.example",
            "A. Poster <a.b@c.example>",
            "\"Poster, A.\" <a@b.example>",
            "a@b.example (A (nested) Poster, esq.)",
            "\"odd local\"@b.example",
            "J\u{f6}rg <joerg@b.example>",
            "a@[192.0.2.1]",
            "a@b.example, C <c@d.example>",
            "nobody@invalid.invalid",
            "=?UTF-8?Q?J=C3=B6rg?= <j@x.example>",
        ] {
            assert!(is_mailbox_list(good.as_bytes()), "{good}");
        }
        for (sender, valid) in [
            ("root%news.example.org", true),
            (" news%host ", true),
            ("A <a@b>", true),
            ("%host", false),
            ("root%", false),
            ("ro ot%host", false),
            ("root%-host", false),
            ("root", false),
            ("root%host\r\n x", false),
        ] {
            assert_eq!(is_sender(sender.as_bytes()), valid, "{sender}");
        }
        assert!(!is_mailbox_list(b"root%news.example.org"));
        for bad in [
            "",
            " ",
            "a",
            "a@",
            "@b",
            "a b@c",
            "A <a@b",
            "A a@b>",
            "<>",
            "a@b..c",
            ".a@b",
            "a@-b",
            "a@b c",
            "(a@b)",
            "a@b,c",
            "\"a@b\"",
            "a@b@c",
            "A <a@b> C",
        ] {
            assert!(!is_mailbox_list(bad.as_bytes()), "{bad}");
        }
    }
}
