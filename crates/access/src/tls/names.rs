//! The names in a certificate: common name, DNS names, mail addresses.
//!
//! Anything not understood is skipped. Trust in the certificate is not checked here. Source: RFC 5280
//! sections 4.1.2.6 and 4.2.1.6.

use std::path::Path;

use x509_cert::Certificate;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// Maximum number of names taken from a certificate.
const NAMES_MAX: usize = 100;

/// Returns the names of the certificate in a PEM file; empty if it cannot be read.
pub fn of_file(path: &Path) -> Box<[Box<str>]> {
    let chain = super::files::chain(path).unwrap_or_default();
    chain.first().map(|der| of(der)).unwrap_or_default()
}

/// Returns the names of a certificate in DER, the common name first.
pub fn of(der: &[u8]) -> Box<[Box<str>]> {
    let Ok(certificate) = Certificate::from_der(der) else { return Box::default() };
    let certificate = certificate.tbs_certificate();
    let mut names = Vec::new();
    for attribute in certificate.subject().iter().filter(|attribute| attribute.oid == COMMON_NAME) {
        let value = &attribute.value;
        if matches!(value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String) {
            add(value.value(), &mut names);
        }
    }
    if let Ok(Some((_, SubjectAltName(alternatives)))) = certificate.get_extension() {
        for name in &alternatives {
            if let GeneralName::Rfc822Name(name) | GeneralName::DnsName(name) = name {
                add(name.as_bytes(), &mut names);
            }
        }
    }
    names.truncate(NAMES_MAX);
    names.into()
}

/// Adds a name, unless it has control characters, with which it could look like another one.
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
    fn names_with_control_characters_are_skipped() {
        assert_eq!(*of(&certificate(Some("peer\0.example.org"), Vec::new())), []);
    }

    #[test]
    fn truncated_and_damaged_certificates_have_no_names() {
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
