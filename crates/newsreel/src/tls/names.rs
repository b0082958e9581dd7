//! The names in a certificate: common name, DNS names, mail addresses.
//!
//! A reader for as much of DER as leads there; whatever it does not understand it passes over, and it never looks
//! beyond a value's end. Whether the certificate is to be believed is not asked here. Source: RFC 5280 sections 4.1,
//! 4.1.2.6 and 4.2.1.6.

pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
/// UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// `[0]` of a certificate: its version.
pub(super) const VERSION: u8 = 0xa0;
/// `[3]` of a certificate: its extensions.
const EXTENSIONS: u8 = 0xa3;
/// `[1]` and `[2]` of a general name.
const MAIL_ADDRESS: u8 = 0x81;
const DNS_NAME: u8 = 0x82;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// Fields between version and subject: serial number, algorithm, issuer, validity.
const FIELDS_BEFORE_SUBJECT: usize = 4;
/// Names taken from one certificate at most.
const NAMES_MAX: usize = 100;

/// The names of a certificate in DER, the common name first.
pub(crate) fn of(der: &[u8]) -> Box<[Box<str>]> {
    let mut names = Vec::new();
    collect(der, &mut names);
    names.truncate(NAMES_MAX);
    names.into()
}

/// One value: its tag and content.
pub(super) type Value<'a> = (u8, &'a [u8]);

/// Values one after the other.
#[derive(Clone)]
pub(super) struct Values<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (&[tag, length], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match length {
            short @ 0..=0x7f => (usize::from(short), rest),
            // No certificate reaches 16 MiB.
            long @ 0x81..=0x83 => {
                let (octets, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                (octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// The values inside the first value of `der`, which must have `tag`.
pub(super) fn inside(der: &[u8], tag: u8) -> Option<Values<'_>> {
    Values(der).next().filter(|(found, _)| *found == tag).map(|(_, content)| Values(content))
}

fn collect(der: &[u8], names: &mut Vec<Box<str>>) -> Option<()> {
    let (_, body) = inside(der, SEQUENCE)?.next().filter(|(tag, _)| *tag == SEQUENCE)?;
    let mut fields = Values(body);
    if fields.clone().next()?.0 == VERSION {
        fields.next();
    }
    let (_, subject) = fields.nth(FIELDS_BEFORE_SUBJECT)?;
    for (_, relative) in Values(subject).filter(|(tag, _)| *tag == SET) {
        for (_, attribute) in Values(relative).filter(|(tag, _)| *tag == SEQUENCE) {
            let mut attribute = Values(attribute);
            if attribute.next() == Some((OBJECT_IDENTIFIER, COMMON_NAME))
                && let Some((tag, text)) = attribute.next()
                && TEXTS.contains(&tag)
            {
                add(text, names);
            }
        }
    }
    let (_, extensions) = fields.find(|(tag, _)| *tag == EXTENSIONS)?;
    for (_, extension) in inside(extensions, SEQUENCE)? {
        let mut extension = Values(extension);
        if extension.next() != Some((OBJECT_IDENTIFIER, SUBJECT_ALT_NAME)) {
            continue;
        }
        // Between them may stand whether the extension is critical.
        let (_, value) = extension.find(|(tag, _)| *tag == OCTET_STRING)?;
        for (tag, name) in inside(value, SEQUENCE)? {
            if [MAIL_ADDRESS, DNS_NAME].contains(&tag) {
                add(name, names);
            }
        }
    }
    Some(())
}

/// Adds a name; one with control characters, which could look like another, is none.
fn add(text: &[u8], names: &mut Vec<Box<str>>) {
    if let Ok(text) = std::str::from_utf8(text)
        && !text.is_empty()
        && !text.chars().any(char::is_control)
        && !names.iter().any(|known| **known == *text)
    {
        names.push(text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(common_name: Option<&str>, names: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example News");
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.subject_alt_names = names;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn common_name_dns_names_and_mail_addresses_are_found() {
        let names = vec![
            SanType::DnsName("news.example.org".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
            SanType::Rfc822Name("ann@example.org".try_into().unwrap()),
        ];
        let der = certificate(Some("ann"), names);
        assert_eq!(*of(&der), ["ann".into(), "news.example.org".into(), "ann@example.org".into()]);
        assert_eq!(*of(&certificate(None, Vec::new())), []);
    }

    #[test]
    fn names_with_control_characters_are_none() {
        assert_eq!(*of(&certificate(Some("peer\0.example.org"), Vec::new())), []);
    }

    #[test]
    fn what_is_cut_off_or_changed_is_passed_over() {
        let der = certificate(Some("ann"), vec![SanType::DnsName("news.example.org".try_into().unwrap())]);
        for length in 0..der.len() {
            assert!(of(&der[..length]).len() <= 2, "{length}");
        }
        for at in 0..der.len() {
            for octet in [0x00, 0x30, 0x80, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[at] = octet;
                assert!(of(&changed).len() <= 3, "{at}");
            }
        }
    }
}
