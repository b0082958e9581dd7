//! Headers as text: decoded encoded words, and the parameters of MIME fields.
//!
//! Called by `mime`, `content` and `threads`. Sources: RFC 2045 section 5.1, RFC 2047, RFC 2231.

use netnews::encoded_word::{EncodedWord, HeaderPiece, pieces};

use crate::{charset, work};

/// Maximum length of a value that is examined, in octets.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Maximum number of parameters of one field that are examined.
const PARAMETERS_MAX: usize = 64;

/// Returns the value of a header as text in one line.
pub fn text(value: &[u8]) -> String {
    let value = value.get(..value.len().min(VALUE_BYTES_MAX)).unwrap_or_default();
    work::take(value.len());
    let plain = charset::guess(value).replace('\n', "");
    if !plain.contains("=?") {
        return one_line(&plain);
    }
    let mut out = String::with_capacity(plain.len());
    let mut words: Option<EncodedWord<'_>> = None;
    for piece in pieces(&plain) {
        match (piece, &mut words) {
            // Bad mailers split characters between words; a word with shifts stands for itself.
            (HeaderPiece::Word(next), Some(word))
                if next.charset.eq_ignore_ascii_case(word.charset) && !charset::has_shifts(word.charset) =>
            {
                word.octets.extend_from_slice(&next.octets);
            }
            (HeaderPiece::Word(next), words) => flush(words.replace(next), &mut out),
            (HeaderPiece::Text(text), words) => {
                flush(words.take(), &mut out);
                out.push_str(text);
            }
        }
    }
    flush(words, &mut out);
    one_line(&out)
}

fn flush(word: Option<EncodedWord<'_>>, out: &mut String) {
    if let Some(word) = word {
        out.push_str(&charset::decode(Some(word.charset), &word.octets));
    }
}

/// Replaces line ends and tabs by spaces.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ").trim().to_owned()
}

/// Returns the author's name from the value of From, or the address if there is no name.
pub fn author(from: &str) -> &str {
    let from = from.trim();
    if let Some((name, rest)) = angle_at(from).and_then(|open| from.split_at_checked(open))
        && let Some((address, _comment)) = rest.get(1..).unwrap_or_default().split_once('>')
    {
        let name = name.trim().trim_matches('"').trim();
        return if name.is_empty() { address.trim() } else { name };
    }
    if let (Some(open), true) = (from.find('('), from.ends_with(')')) {
        let name = from.get(open + 1..from.len() - 1).unwrap_or_default().trim();
        if !name.is_empty() {
            return name;
        }
    }
    from
}

/// Returns the position of the first `<` outside of quoted strings.
fn angle_at(from: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_open = |b: u8| {
        is_quoted ^= b == b'"' && !is_escaped;
        is_escaped = b == b'\\' && is_quoted && !is_escaped;
        b == b'<' && !is_quoted
    };
    // A quotation mark without another one quotes nothing.
    from.bytes().position(is_open).or_else(|| from.rfind('<'))
}

/// A field of MIME: its first word and its parameters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MimeField {
    /// First word, in lower case: `text/plain`, `attachment`.
    pub value: String,
    /// Names in lower case, and decoded values.
    parameters: Vec<(String, String)>,
}

impl MimeField {
    /// Reads the value of Content-Type or Content-Disposition.
    pub fn parse(value: &[u8]) -> Self {
        let value = value.get(..value.len().min(VALUE_BYTES_MAX)).unwrap_or_default();
        work::take(value.len());
        let text = charset::guess(value).replace('\n', "");
        let mut parts = split(&text).into_iter();
        let first = parts.next().unwrap_or_default();
        let value = first.split_ascii_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let mut raw: Vec<RawParameter> = Vec::new();
        for part in parts.take(PARAMETERS_MAX) {
            let Some((name, value)) = part.split_once('=') else { continue };
            raw.push(RawParameter::of(name.trim(), value.trim()));
        }
        Self { value, parameters: joined(raw) }
    }

    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Splits text at semicolons outside of quoted strings and comments.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut quoted, mut escaped, mut depth) = (false, false, 0_usize);
    let has_comments =
        text.bytes().filter(|b| *b == b'(').count() == text.bytes().filter(|b| *b == b')').count();
    for c in text.chars() {
        match c {
            '(' if !quoted && has_comments => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        match c {
            ';' if !quoted && depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {
                quoted ^= c == '"' && !escaped;
                escaped = c == '\\' && quoted && !escaped;
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts
}

/// A parameter as written, perhaps one of several sections (RFC 2231 section 3).
struct RawParameter {
    name: String,
    /// Number of the section; `None` if it has no sections.
    section: Option<u32>,
    /// True if it is percent-encoded.
    extended: bool,
    value: String,
}

impl RawParameter {
    fn of(name: &str, value: &str) -> Self {
        let (name, extended) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        let (name, section) = match name.rsplit_once('*') {
            Some((before, digits)) => (before, digits.parse().ok()),
            None => (name, None),
        };
        Self { name: name.to_ascii_lowercase(), section, extended, value: unquoted(value) }
    }
}

/// Returns a value without quotation marks; comments after it are dropped.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.split([' ', '\t']).next().unwrap_or_default().to_owned();
    };
    let (mut out, mut escaped) = (String::new(), false);
    for c in inner.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => break,
            _ => {
                escaped = false;
                out.push(c);
            }
        }
    }
    out
}

/// Joins sections and decodes them.
fn joined(mut raw: Vec<RawParameter>) -> Vec<(String, String)> {
    raw.sort_by(|a, b| a.name.cmp(&b.name).then(a.section.cmp(&b.section)));
    let mut out: Vec<(String, String)> = Vec::new();
    let mut rest = raw.as_slice();
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|other| other.name == first.name).count();
        let (sections, after) = rest.split_at(count);
        rest = after;
        // Sections and `name*` are meant for programs that support them, `name` beside them for others.
        let has_extended = sections.iter().any(|part| part.extended);
        let is_split = sections.iter().any(|part| part.section.is_some());
        let wanted = |part: &&RawParameter| match is_split {
            true => part.section.is_some(),
            false => part.extended == has_extended,
        };
        let mut next_section = None;
        let mut declared = None;
        let mut octets = Vec::new();
        for (at, part) in sections.iter().filter(wanted).enumerate() {
            if !is_split && at > 0 {
                break;
            }
            // A section that comes twice counts once.
            if is_split && std::mem::replace(&mut next_section, part.section) == part.section {
                continue;
            }
            let mut value = part.value.as_str();
            if at == 0
                && part.extended
                && let Some((charset, after)) = value.split_once('\'')
                && let Some((_language, after)) = after.split_once('\'')
            {
                (declared, value) = (Some(charset), after);
            }
            match part.extended {
                true => crate::urls::unescape(value, &mut octets),
                false => octets.extend_from_slice(value.as_bytes()),
            }
        }
        let value = match declared {
            Some(charset) => charset::decode(Some(charset), &octets),
            // Names are often encoded as if they were headers.
            None => text(&octets),
        };
        out.push((first.name.clone(), value));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_decoded() {
        for (value, expected) in [
            (&b" plain\r\n\tfolded "[..], "plain folded"),
            (b"=?utf-8?Q?Gr=C3=BC=C3=9Fe?= aus =?iso-8859-1?B?S/ZsbiA=?=", "Gr\u{fc}\u{df}e aus K\u{f6}ln"),
            // A character split between two words.
            (b"=?utf-8?Q?Gr=C3?= =?UTF-8?Q?=BC?=n", "Gr\u{fc}n"),
            (b"caf\xe9", "caf\u{e9}"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"=?utf-8?Q?a=0D=0AX: b=1B?=", "a X: b\u{241b}"),
            (b"=?x?=?=", "=?x?=?="),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn authors_have_names() {
        for (from, name) in [
            ("Jane Doe <jane@example.com>", "Jane Doe"),
            ("\"Doe, Jane\" <jane@example.com>", "Doe, Jane"),
            ("jane@example.com (Jane Doe)", "Jane Doe"),
            ("<jane@example.com>", "jane@example.com"),
            ("jane@example.com", "jane@example.com"),
            ("()", "()"),
            ("<>", ""),
            ("\"A <b>\" <a@x>", "A <b>"),
            ("\"Jane <jane@example.com>", "Jane"),
            ("Jane <jane@example.com> (at work)", "Jane"),
            ("Jane <jane@example.com>, John <john@example.com>", "Jane"),
            ("a < b", "a < b"),
            (">", ">"),
        ] {
            assert_eq!(author(from), name, "{from}");
        }
    }

    #[test]
    fn each_word_of_a_charset_with_shifts_stands_for_itself() {
        for (value, expected) in [
            ("=?ISO-2022-JP?B?GyRCJCIbKEI=?= =?iso-2022-jp?B?GyRCJCQbKEI=?=", "\u{3042}\u{3044}"),
            // The first word does not return to ASCII, the second begins there.
            ("=?ISO-2022-JP?B?GyRCJCI=?=\r\n =?ISO-2022-JP?Q?x?=", "\u{3042}x"),
            ("=?CP50221?B?GyhCGyRCJCIbKEI=?=", "\u{3042}"),
            ("=?utf-7?Q?+APw?= =?utf-7?Q?n?=", "\u{fc}n"),
            // Characters that bad mailers split, also in other charsets without shifts.
            ("=?utf-8?B?44E=?= =?UTF-8?B?gg==?=", "\u{3042}"),
            ("=?utf-8?B?4w==?= =?UTF-8?B?gQ==?= =?UTF-8?Q?=82?=", "\u{3042}"),
            ("=?gb2312?B?xA==?= =?gb2312?B?4w==?=", "\u{4f60}"),
            ("=?cp437?Q?=81?=", "\u{fc}"),
        ] {
            assert_eq!(text(value.as_bytes()), expected, "{value}");
        }
        assert_eq!(text(b"\x1b$B$\"\x1b(B in 1992"), "\u{3042} in 1992");
    }

    #[test]
    fn parameters_of_every_form_are_read() {
        let field = MimeField::parse(
            b"Text/PLAIN (x); charset=\"utf-8\" ; format = flowed; name=\"a;\\\"b\\\".txt\"; delsp=yes (y)",
        );
        assert_eq!(field.value, "text/plain");
        assert_eq!(field.get("charset"), Some("utf-8"));
        assert_eq!(field.get("format"), Some("flowed"));
        assert_eq!(field.get("name"), Some("a;\"b\".txt"));
        assert_eq!(field.get("delsp"), Some("yes"));
        for (value, expected) in [
            (&b"x; filename*=utf-8'de'Gr%C3%BC%DFe; filename=plain"[..], "Gr\u{fc}\u{fffd}e"),
            (b"x; filename*0=\"a b\"; filename*1*=%20c; filename*2=d", "a b cd"),
            (b"x; filename*1=b; filename*0*=iso-8859-1''%FC", "\u{fc}b"),
            (b"x; filename=plain; filename*0*=utf-8''%C3%BC; filename*1*=%20b", "\u{fc} b"),
            (b"x; filename*0=a; filename*1=b; filename*1=c; filename*3=d; filename=e", "abd"),
            (b"x; filename*0=a.txt", "a.txt"),
            (b"x; filename*10=k; filename*9=j; filename*0*=''a", "ajk"),
            (b"x; filename*=\"utf-8''%C3%BC;\"", "\u{fc};"),
            (b"x; filename*=%41b; filename=c", "Ab"),
            (b"x; FileName*0*=utf-8'en'%E2; filename*1*=%82%AC", "\u{20ac}"),
            (b"x (a; b); filename=c", "c"),
            (b"x; filename=\"=?utf-8?Q?=C3?= =?utf-8?Q?=BC?=.txt\"", "\u{fc}.txt"),
            (b"x; filename=\"=?utf-8?Q?=C3=BC?=\"", "\u{fc}"),
            (b"x; filename=caf\xe9", "caf\u{e9}"),
        ] {
            let got = MimeField::parse(value).get("filename").map(str::to_owned);
            assert_eq!(got.as_deref(), Some(expected), "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_panic(value in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = text(&value);
            prop_assert!(text.chars().all(|c| !c.is_control()));
            let field = MimeField::parse(&value);
            prop_assert!(field.parameters.iter().all(|(_, value)| !value.contains(['\r', '\0'])));
        }
    }
}
