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
/// Most attributes of an entry, and values of an attribute, that are kept.
const ATTRIBUTES_MAX: usize = 50;
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
    attributes: Vec<(String, Vec<String>)>,
}

impl LdapEntry {
    /// Returns the values of an attribute that are text.
    pub fn values(&self, attribute: &str) -> impl Iterator<Item = &str> + Clone {
        let own = self.attributes.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(attribute));
        own.flat_map(|(_, values)| values).map(String::as_str)
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

/// A search request.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchRequest<'a> {
    pub base: &'a str,
    pub is_subtree: bool,
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

pub(super) fn search(wanted: &SearchRequest<'_>) -> Vec<u8> {
    const BASE_OBJECT: u32 = 0;
    const WHOLE_SUBTREE: u32 = 2;
    const NEVER_DEREF_ALIASES: u32 = 0;
    let scope = if wanted.is_subtree { WHOLE_SUBTREE } else { BASE_OBJECT };
    let attributes: Vec<Vec<u8>> =
        wanted.attributes.iter().map(|name| element(OCTET_STRING, name.as_bytes())).collect();
    let parts = [
        element(OCTET_STRING, wanted.base.as_bytes()),
        number(ENUMERATED, scope),
        number(ENUMERATED, NEVER_DEREF_ALIASES),
        number(INTEGER, u32::try_from(wanted.entries_max).unwrap_or(u32::MAX)),
        number(INTEGER, 0),
        element(BOOLEAN, &[0]),
        wanted.filter.to_vec(),
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
        let mut attribute = BerReader(list.of(SEQUENCE)?);
        let name = str::from_utf8(attribute.of(OCTET_STRING)?).ok()?.to_owned();
        let mut set = BerReader(attribute.of(SET)?);
        let mut values = Vec::new();
        while !set.is_empty() {
            let value = set.of(OCTET_STRING)?;
            // Values that are no text, such as photographs, are neither names nor groups.
            values
                .extend(str::from_utf8(value).ok().filter(|_| values.len() < VALUES_MAX).map(str::to_owned));
        }
        if attributes.len() < ATTRIBUTES_MAX {
            attributes.push((name, values));
        }
    }
    Some(LdapEntry { dn, attributes })
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
