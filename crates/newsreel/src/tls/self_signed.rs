//! The certificate that `newsreel up` makes for trying things out: nobody vouches for it.
//!
//! Called by the command line when a site is made. Blocks.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use time::OffsetDateTime;

/// The longest time for which all clients take a certificate: Apple's refuse more than 825 days.
const VALID: Duration = Duration::from_secs(825 * 86_400);
/// So long ago it begins, for clients whose clocks are behind; part of `VALID`.
const BEFORE: Duration = Duration::from_secs(3_600);
/// Longest common name (X.520: ub-common-name), in characters.
const COMMON_NAME_CHARS_MAX: usize = 64;

/// Makes a key and a certificate signed with it, for `name` and this machine itself, in two new files; the key's can be
/// read by its owner only.
pub(crate) fn make_self_signed(name: &str, certificate: &Path, key: &Path) -> io::Result<()> {
    let mut params = CertificateParams::default();
    let common_name = if name.chars().count() <= COMMON_NAME_CHARS_MAX { name } else { "localhost" };
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = [Some(name).filter(|name| is_host_name(name)), Some("localhost")]
        .into_iter()
        .flatten()
        .filter_map(|name| name.try_into().ok().map(SanType::DnsName))
        .chain([IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].map(SanType::IpAddress))
        .collect();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = OffsetDateTime::now_utc() - BEFORE;
    params.not_after = params.not_before + VALID;
    let pair = KeyPair::generate().map_err(io::Error::other)?;
    let signed = params.self_signed(&pair).map_err(io::Error::other)?;
    write_new(key, 0o600, &pair.serialize_pem())?;
    write_new(certificate, 0o644, &signed.pem())
}

/// Whether clients may look for this name in a certificate: labels of letters, digits and hyphens. A path identity may
/// have underscores and other characters, too, and `localhost` is there anyway.
fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name != "localhost" && name.split('.').all(label)
}

/// Writes a new file; it and its name are durable when this returns.
fn write_new(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_stand_in_a_certificate() {
        for name in ["news.example.org", "vm", "a-b.c1", "xn--bcher-kva.example"] {
            assert!(is_host_name(name), "{name}");
        }
        for name in ["", "a..b", "news_1", "-a.b", "a.b-", "localhost", "a b", &"a".repeat(64)] {
            assert!(!is_host_name(name), "{name}");
        }
    }
}
