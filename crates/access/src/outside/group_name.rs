//! Names of groups in a directory, in a form in which equal names are equal: distinguished names, or texts.
//!
//! The types of a distinguished name are compared by their object identifiers where the standards name them.
//! Its values are compared as `caseIgnoreMatch` has it, the rule of the attributes that name entries: without
//! regard to case, to forms of characters, and to blanks at the ends or several in a row. What is no
//! distinguished name is compared as one such value. Called by `directory`. Sources: RFC 4514, RFC 4517
//! sections 4.2.11 and 4.2.15, RFC 4518.

use super::ldap::text_in;

/// Attribute types of RFC 4514 section 3 and RFC 4519, by both of their names.
const TYPES: [(&str, &str, &str); 9] = [
    ("cn", "commonname", "2.5.4.3"),
    ("l", "localityname", "2.5.4.7"),
    ("st", "stateorprovincename", "2.5.4.8"),
    ("o", "organizationname", "2.5.4.10"),
    ("ou", "organizationalunitname", "2.5.4.11"),
    ("c", "countryname", "2.5.4.6"),
    ("street", "streetaddress", "2.5.4.9"),
    ("dc", "domaincomponent", "0.9.2342.19200300.100.1.25"),
    ("uid", "userid", "0.9.2342.19200300.100.1.1"),
];

/// A name of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum DirectoryGroupName {
    /// A distinguished name: its parts, each with its types and values in order.
    Dn(Vec<Vec<TypeAndValue>>),
    Text(String),
}

/// A type and a value of a distinguished name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TypeAndValue {
    kind: String,
    value: DnValue,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum DnValue {
    Text(String),
    /// BER of a value that is no text.
    Octets(Vec<u8>),
}

/// The end of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// Another value of the same part follows.
    Plus,
    /// Another part follows.
    Comma,
    End,
}

impl DirectoryGroupName {
    /// Returns the name of this text.
    pub fn of(text: &str) -> Self {
        parts(text).map_or_else(|| Self::Text(comparable(text)), Self::Dn)
    }
}

/// Returns the parts of a distinguished name; `None` if it is none.
fn parts(text: &str) -> Option<Vec<Vec<TypeAndValue>>> {
    let mut rest = text.as_bytes();
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    loop {
        let kind = taken_kind(&mut rest)?;
        let (value, separator) = taken_value(&mut rest)?;
        part.push(TypeAndValue { kind, value });
        if separator != Separator::Plus {
            // The values of a part have no order (RFC 4517 section 4.2.15).
            part.sort_unstable();
            parts.push(std::mem::take(&mut part));
        }
        if separator == Separator::End {
            return Some(parts);
        }
    }
}

/// Takes a type and the equals sign after it.
fn taken_kind(rest: &mut &[u8]) -> Option<String> {
    let (kind, after) = rest.split_at_checked(rest.iter().position(|b| *b == b'=')?)?;
    *rest = after.get(1..)?;
    let kind = str::from_utf8(kind).ok()?.trim_matches(' ').to_ascii_lowercase();
    let kind = kind.strip_prefix("oid.").unwrap_or(&kind);
    let is_valid = !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    let known = TYPES.iter().find(|(short, long, _)| *short == kind || *long == kind);
    is_valid.then(|| known.map_or(kind, |(_, _, identifier)| identifier).to_owned())
}

/// Takes a value and what ends it.
fn taken_value(rest: &mut &[u8]) -> Option<(DnValue, Separator)> {
    while let Some(after) = rest.strip_prefix(b" ") {
        *rest = after;
    }
    let is_hexadecimal = rest.starts_with(b"#");
    let mut octets = Vec::new();
    let separator = loop {
        let Some((&first, after)) = rest.split_first() else { break Separator::End };
        *rest = after;
        match first {
            b',' => break Separator::Comma,
            b'+' => break Separator::Plus,
            b'\\' => octets.push(taken_escape(rest)?),
            b'"' | b';' | b'<' | b'>' | 0 => return None,
            _ => octets.push(first),
        }
    };
    let value = match octets.strip_prefix(b"#").filter(|_| is_hexadecimal) {
        Some(digits) => {
            let octets = octets_of(digits.trim_ascii_end())?;
            let text = text_in(&octets).map(|text| DnValue::Text(comparable(text)));
            text.unwrap_or(DnValue::Octets(octets))
        }
        None => DnValue::Text(comparable(str::from_utf8(&octets).ok()?)),
    };
    Some((value, separator))
}

/// Takes what follows a backslash: a special character, or two hexadecimal digits.
fn taken_escape(rest: &mut &[u8]) -> Option<u8> {
    let (&first, after) = rest.split_first()?;
    if b" \"#+,;<=>\\".contains(&first) {
        *rest = after;
        return Some(first);
    }
    let (digits, after) = rest.split_at_checked(2)?;
    *rest = after;
    octets_of(digits)?.first().copied()
}

fn octets_of(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let octet = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    };
    digits.chunks(2).map(octet).collect()
}

/// Returns a text in the form in which it is compared (RFC 4518). One that may not be compared so, with
/// characters that are not assigned, is compared without regard to case and blanks alone.
fn comparable(text: &str) -> String {
    // What is left of a letter without its case is not in the normal form yet.
    let folded = stringprep::x520prep(text, true);
    let prepared = folded.and_then(|folded| Ok(stringprep::x520prep(&folded, false)?.into_owned()));
    let prepared = prepared.unwrap_or_else(|_| text.to_lowercase());
    let words: Vec<&str> = prepared.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_same(own: &str, other: &str) -> bool {
        DirectoryGroupName::of(own) == DirectoryGroupName::of(other)
    }

    #[test]
    fn distinguished_names_are_compared_as_directories_do() {
        for (own, other) in [
            ("CN=News, OU=Groups,dc=example", "cn=news,ou=groups,dc=Example"),
            ("cn = news , ou = groups", "CN=news,OU=groups"),
            ("cn=a\\, b,dc=x", "CN=A\\2C b,DC=X"),
            ("cn=a\\2c\\20b,dc=x", "cn=a\\, b,dc=x"),
            ("cn=a\\+b\\=c\\\"\\\\,dc=x", "cn=a\\2bb=c\\22\\5c,dc=x"),
            ("cn=news+ou=a,dc=x", "OU=A + CN=News,dc=x"),
            ("cn=news   team ,dc=x", "cn=\\ news team\\ ,dc=x"),
            ("cn=m\u{fc}ller,dc=x", "cn=M\\c3\\9cLLER,dc=x"),
            ("cn=stra\u{df}e,dc=x", "cn=STRASSE,dc=x"),
            ("cn=\u{ff4e}ews,dc=x", "cn=news,dc=x"),
            ("2.5.4.3=news,0.9.2342.19200300.100.1.25=x", "commonName=news,dc=x"),
            ("OID.2.5.4.3=news", "cn=news"),
            ("cn=#0c046E657773,dc=x", "cn=news,dc=x"),
            ("x=#020105", "X=#020105"),
            ("cn=,dc=x", "cn= ,dc=x"),
            ("cn=\u{1f600} A", "cn=\u{1f600} a"),
        ] {
            assert!(is_same(own, other), "{own} {other}");
            assert!(matches!(DirectoryGroupName::of(own), DirectoryGroupName::Dn(_)), "{own}");
        }
        for (own, other) in [
            ("cn=news,ou=groups", "cn=news,ou=groups,dc=example"),
            ("cn=news,ou=groups,dc=example", "cn=news,ou=groups,dc=example,dc=org"),
            ("cn=news,ou=groups", "ou=groups,cn=news"),
            ("cn=ne ws,dc=x", "cn=news,dc=x"),
            ("cn=a\\,ou=b,dc=x", "cn=a,ou=b,dc=x"),
            ("cn=a\\+ou=b,dc=x", "cn=a+ou=b,dc=x"),
            ("cn=a+cn=b", "cn=a,cn=b"),
            ("cn=news", "ou=news"),
            ("cn=\\#0c046E657773", "cn=news"),
            ("x=#020105", "x=#020106"),
            ("cn=news", "news"),
        ] {
            assert!(!is_same(own, other), "{own} {other}");
        }
    }

    #[test]
    fn other_names_are_compared_as_texts() {
        assert!(is_same(" staff ", "Staff") && is_same("news  staff", "News Staff"));
        assert!(!is_same("staff", "stuff") && !is_same("", "staff"));
        for text in
            ["", "staff", "a=b,c", "=a", "a b=c", "cn=a\\", "cn=a\\x", "cn=a;b", "cn=#0", "cn=\\ff", "a=b,"]
        {
            assert!(matches!(DirectoryGroupName::of(text), DirectoryGroupName::Text(_)), "{text}");
            assert!(is_same(text, text), "{text}");
        }
    }
}
