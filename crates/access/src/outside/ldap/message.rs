//! Messages of LDAP: requests as octets, answers as values.
//!
//! An answer that is not exactly as RFC 4511 has it is no answer. Called by `ldap`. Source: RFC 4511 section
//! 4.

use super::ber::{
    BOOLEAN, BerReader, ENUMERATED, INTEGER, OCTET_STRING, SEQUENCE, SET, element, elements, number,
};
use site_config::{LdapComparison, LdapTest, LdapValue};

const BIND_REQUEST: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const SEARCH_REQUEST: u8 = 0x63;
const SEARCH_RESULT_ENTRY: u8 = 0x64;
const SEARCH_RESULT_DONE: u8 = 0x65;
const SEARCH_RESULT_REFERENCE: u8 = 0x73;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;
/// The password of a bind with a simple one.
const SIMPLE: u8 = 0x80;
/// The name of an extended request.
const REQUEST_NAME: u8 = 0x80;
/// The name of the request for TLS (RFC 4511 section 4.14.1).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
const VERSION: u32 = 3;
/// Longest text of a result that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 200;
/// Most attributes of an entry; a login asks for two.
const ATTRIBUTES_MAX: usize = 50;
/// Most values of an attribute that are kept.
const VALUES_MAX: usize = 5000;

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapResult {
    pub code: u32,
    /// What the directory says about it, printable.
    pub text: String,
}

/// An entry that a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapEntry {
    pub dn: String,
    attributes: Vec<LdapAttribute>,
}

/// An attribute of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LdapAttribute {
    name: String,
    /// The values that are text.
    values: Vec<String>,
    /// There are more values.
    has_more: bool,
}

impl LdapEntry {
    /// Returns the values of an attribute that are text.
    pub fn values(&self, attribute: &str) -> impl Iterator<Item = &str> + Clone {
        self.named(attribute).flat_map(|own| &own.values).map(String::as_str)
    }

    /// Returns true if an attribute has more values than the directory sent, or than are kept.
    pub fn has_more_values(&self, attribute: &str) -> bool {
        self.named(attribute).any(|own| own.has_more)
    }

    fn named(&self, attribute: &str) -> impl Iterator<Item = &LdapAttribute> + Clone {
        self.attributes.iter().filter(move |own| own.name.eq_ignore_ascii_case(attribute))
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LdapAnswer {
    Bind(LdapResult),
    Entry(LdapEntry),
    Reference,
    SearchDone(LdapResult),
    Extended(LdapResult),
}

/// The entries that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdapScope {
    /// The base of the search alone.
    Base,
    /// The base and all entries below it.
    Subtree,
}

/// A search request.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'a> {
    pub base: &'a str,
    pub scope: LdapScope,
    pub entries_max: usize,
    /// The filter, encoded.
    pub filter: &'a [u8],
    pub attributes: &'a [&'a str],
}

/// Returns the message with this number and operation.
pub(super) fn enveloped(id: u32, operation: &[u8]) -> Vec<u8> {
    elements(SEQUENCE, &[number(INTEGER, id), operation.to_vec()])
}

pub(super) fn bind(dn: &str, password: &[u8]) -> Vec<u8> {
    let parts = [number(INTEGER, VERSION), element(OCTET_STRING, dn.as_bytes()), element(SIMPLE, password)];
    elements(BIND_REQUEST, &parts)
}

pub(super) fn unbind() -> Vec<u8> {
    element(UNBIND_REQUEST, &[])
}

pub(super) fn start_tls() -> Vec<u8> {
    elements(EXTENDED_REQUEST, &[element(REQUEST_NAME, START_TLS)])
}

pub(super) fn search(request: &SearchRequest<'_>) -> Vec<u8> {
    const BASE_OBJECT: u32 = 0;
    const WHOLE_SUBTREE: u32 = 2;
    const NEVER_DEREF_ALIASES: u32 = 0;
    let scope = match request.scope {
        LdapScope::Base => BASE_OBJECT,
        LdapScope::Subtree => WHOLE_SUBTREE,
    };
    let attributes: Vec<Vec<u8>> =
        request.attributes.iter().map(|name| element(OCTET_STRING, name.as_bytes())).collect();
    let parts = [
        element(OCTET_STRING, request.base.as_bytes()),
        number(ENUMERATED, scope),
        number(ENUMERATED, NEVER_DEREF_ALIASES),
        number(INTEGER, u32::try_from(request.entries_max).unwrap_or(u32::MAX)),
        number(INTEGER, 0),
        element(BOOLEAN, &[0]),
        request.filter.to_vec(),
        elements(SEQUENCE, &attributes),
    ];
    elements(SEARCH_REQUEST, &parts)
}

/// Returns the filter that entries with an attribute pass.
pub(super) fn present(attribute: &str) -> Vec<u8> {
    element(0x87, attribute.as_bytes())
}

/// Returns a filter with the user's name and distinguished name in its values. Its depth is that of the
/// configuration, which is limited.
pub(super) fn filter(test: &LdapTest, name: &str, dn: &str) -> Vec<u8> {
    let all = |tests: &[LdapTest]| tests.iter().map(|test| filter(test, name, dn)).collect::<Vec<_>>();
    let octets = |value: &LdapValue| value.octets(name, dn);
    match test {
        LdapTest::And(tests) => elements(0xa0, &all(tests)),
        LdapTest::Or(tests) => elements(0xa1, &all(tests)),
        LdapTest::Not(test) => element(0xa2, &filter(test, name, dn)),
        LdapTest::Present(attribute) => present(attribute),
        LdapTest::Compare(comparison, attribute, value) => {
            let tag = match comparison {
                LdapComparison::Equal => 0xa3,
                LdapComparison::AtLeast => 0xa5,
                LdapComparison::AtMost => 0xa6,
                LdapComparison::Approximate => 0xa8,
            };
            let value = element(OCTET_STRING, &octets(value));
            elements(tag, &[element(OCTET_STRING, attribute.as_bytes()), value])
        }
        LdapTest::Substrings { attribute, initial, any, last } => {
            let part = |tag, value: &LdapValue| element(tag, &octets(value));
            let parts: Vec<Vec<u8>> = (initial.iter().map(|value| part(0x80, value)))
                .chain(any.iter().map(|value| part(0x81, value)))
                .chain(last.iter().map(|value| part(0x82, value)))
                .collect();
            elements(0xa4, &[element(OCTET_STRING, attribute.as_bytes()), elements(SEQUENCE, &parts)])
        }
        LdapTest::Extensible { attribute, has_dn_attributes, rule, value } => {
            let text = |tag, text: &Option<String>| text.as_ref().map(|text| element(tag, text.as_bytes()));
            let parts = [
                text(0x81, rule),
                text(0x82, attribute),
                Some(element(0x83, &octets(value))),
                // A default value is not encoded (RFC 4511 section 5.1).
                has_dn_attributes.then(|| element(0x84, &[0xff])),
            ];
            elements(0xa9, &parts.into_iter().flatten().collect::<Vec<_>>())
        }
    }
}

/// Returns the number of a message and the answer in it; `None` if it is none.
pub(super) fn parse(message: &[u8]) -> Option<(u32, LdapAnswer)> {
    let mut message = BerReader(message);
    let mut parts = BerReader(message.of(SEQUENCE)?);
    message.is_empty().then_some(())?;
    let id = parts.number(INTEGER)?;
    let (tag, content) = parts.any()?;
    let mut content = BerReader(content);
    let answer = match tag {
        BIND_RESPONSE => LdapAnswer::Bind(result(&mut content)?),
        SEARCH_RESULT_ENTRY => LdapAnswer::Entry(entry(&mut content)?),
        SEARCH_RESULT_DONE => LdapAnswer::SearchDone(result(&mut content)?),
        SEARCH_RESULT_REFERENCE => LdapAnswer::Reference,
        EXTENDED_RESPONSE => LdapAnswer::Extended(result(&mut content)?),
        _ => return None,
    };
    Some((id, answer))
}

/// Reads a result; referrals and what an extension adds are left.
fn result(content: &mut BerReader<'_>) -> Option<LdapResult> {
    let code = content.number(ENUMERATED)?;
    let _matched = content.of(OCTET_STRING)?;
    let text = content.of(OCTET_STRING)?;
    let text = String::from_utf8_lossy(text.get(..TEXT_BYTES_MAX).unwrap_or(text));
    Some(LdapResult { code, text: site_base::printable::line(&text).into_owned() })
}

fn entry(content: &mut BerReader<'_>) -> Option<LdapEntry> {
    let dn = str::from_utf8(content.of(OCTET_STRING)?).ok()?.to_owned();
    let mut list = BerReader(content.of(SEQUENCE)?);
    let mut attributes = Vec::new();
    while !list.is_empty() {
        attributes.push(attribute(BerReader(list.of(SEQUENCE)?))?);
        (attributes.len() <= ATTRIBUTES_MAX).then_some(())?;
    }
    Some(LdapEntry { dn, attributes })
}

fn attribute(mut content: BerReader<'_>) -> Option<LdapAttribute> {
    let name = str::from_utf8(content.of(OCTET_STRING)?).ok()?;
    let (name, mut has_more) = ranged(name);
    let mut set = BerReader(content.of(SET)?);
    let mut values = Vec::new();
    while !set.is_empty() {
        let value = set.of(OCTET_STRING)?;
        if values.len() == VALUES_MAX {
            has_more = true;
            continue;
        }
        // Values that are no text, such as photographs, are neither names nor groups.
        values.extend(str::from_utf8(value).ok().map(str::to_owned));
    }
    Some(LdapAttribute { name: name.to_owned(), values, has_more })
}

/// Returns the name of an attribute without a range, and whether there are values after that range: Active
/// Directory returns the first values of a long list as `memberOf;range=0-1499`, and all as `0-*`.
fn ranged(name: &str) -> (&str, bool) {
    let Some((own, option)) = name.rsplit_once(';') else { return (name, false) };
    match option.split_at_checked("range=".len()) {
        Some((key, range)) if key.eq_ignore_ascii_case("range=") => (own, !range.ends_with('*')),
        _ => (name, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::LdapFilter;

    fn text(value: &str) -> Vec<u8> {
        element(OCTET_STRING, value.as_bytes())
    }

    fn of_entry(dn: &str, attributes: &[(&str, &[&str])]) -> Vec<u8> {
        let attributes: Vec<Vec<u8>> = attributes
            .iter()
            .map(|(name, values)| {
                let values: Vec<Vec<u8>> = values.iter().map(|value| text(value)).collect();
                elements(SEQUENCE, &[text(name), elements(SET, &values)])
            })
            .collect();
        elements(SEARCH_RESULT_ENTRY, &[text(dn), elements(SEQUENCE, &attributes)])
    }

    #[test]
    fn requests_are_those_of_the_standard() {
        assert_eq!(
            enveloped(1, &bind("cn=a", b"pw")),
            b"\x30\x12\x02\x01\x01\x60\x0d\x02\x01\x03\x04\x04cn=a\x80\x02pw"
        );
        let name = "a*)(b=\0c\\";
        let wanted = LdapFilter::parse("(&(uid=%s)(!(cn=x*y))(ou=*))").unwrap();
        let made = filter(wanted.test(), name, "");
        let expected = [
            &b"\xa0\x26\xa3\x10\x04\x03uid\x04\x09a*)(b=\0c\\"[..],
            b"\xa2\x0e\xa4\x0c\x04\x02cn\x30\x06\x80\x01x\x82\x01y",
            b"\x87\x02ou",
        ];
        assert_eq!(made, expected.concat(), "the name is one value, whatever it holds");
        for (text, octets) in [
            ("(member:1.2.3:=%d)", &b"\xa9\x13\x81\x051.2.3\x82\x06member\x83\x02=x"[..]),
            ("(cn:=%s)", b"\xa9\x07\x82\x02cn\x83\x01a"),
            ("(o:DN:r:=)", b"\xa9\x0b\x81\x01r\x82\x01o\x83\x00\x84\x01\xff"),
            ("(:dn:r:=y)", b"\xa9\x09\x81\x01r\x83\x01y\x84\x01\xff"),
        ] {
            assert_eq!(filter(LdapFilter::parse(text).unwrap().test(), "a", "=x"), octets, "{text}");
        }
    }

    #[test]
    fn lists_of_values_that_are_not_whole_are_known() {
        let many: Vec<String> = (0..=VALUES_MAX).map(|n| format!("cn={n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (name, values, has_more, count) in [
            ("memberOf", &many[..1], false, 1),
            ("memberOf;range=0-1499", &many[..2], true, 2),
            ("MEMBEROF;Range=0-*", &many[..2], false, 2),
            ("memberOf", &many[..VALUES_MAX], false, VALUES_MAX),
            ("memberOf", &many, true, VALUES_MAX),
            ("memberOf;lang-de", &many[..1], false, 0),
        ] {
            let message = enveloped(7, &of_entry("uid=fred", &[(name, values)]));
            let Some((7, LdapAnswer::Entry(found))) = parse(&message) else { panic!("no entry") };
            assert_eq!(
                (found.has_more_values("memberof"), found.values("memberOf").count()),
                (has_more, count)
            );
        }
        let attributes = [("a", &["b"][..]); ATTRIBUTES_MAX + 1];
        assert_eq!(parse(&enveloped(7, &of_entry("uid=fred", &attributes))), None, "too many attributes");
    }

    #[test]
    fn answers_are_read_and_cut_or_changed_ones_never_panic() {
        let entry = of_entry("uid=fred,dc=x", &[("uid", &["fred"]), ("memberOf", &["cn=a", "cn=b"])]);
        let message = enveloped(7, &entry);
        let Some((7, LdapAnswer::Entry(found))) = parse(&message) else { panic!("no entry") };
        assert_eq!(found.dn, "uid=fred,dc=x");
        assert_eq!(found.values("MEMBEROF").collect::<Vec<_>>(), ["cn=a", "cn=b"]);
        let done = [number(ENUMERATED, 49), text(""), text("in\u{202e}valid\r\n")];
        let Some((7, LdapAnswer::Bind(result))) = parse(&enveloped(7, &elements(BIND_RESPONSE, &done)))
        else {
            panic!("no result")
        };
        assert!(result.code == 49 && !result.text.contains(['\u{202e}', '\r']), "{result:?}");
        for at in 0..message.len() {
            assert_eq!(parse(&message[..at]), None, "cut at {at}");
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = message.clone();
                changed[at] = byte;
                let _any = parse(&changed);
            }
        }
        assert_eq!(parse(&[message.clone(), vec![0]].concat()), None, "more than the message");
    }
}
