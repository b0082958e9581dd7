//! The self-signed certificate that `newsreel up` makes for trials.
//!
//! Made by the command line together with a site, and signed again, with the same key, by the server before
//! it expires. Blocks.

use super::validity::{is_own, lifetime};
use disk::{Disk, FileAccess, durable_create, durable_replace};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;
use time::OffsetDateTime;

/// Longest validity that all clients accept: Apple's refuse more than 825 days.
const VALID: Duration = Duration::from_secs(825 * 86_400);
/// Part of `VALID` that lies in the past, for clients whose clocks are slow.
const BEFORE: Duration = Duration::from_secs(3_600);
/// Longest common name (X.520: ub-common-name), in characters.
const COMMON_NAME_CHARS_MAX: usize = 64;

/// Names of the two files: the certificate and its key.
pub const SELF_SIGNED_FILES: [&str; 2] = ["self-signed.crt", "self-signed.key"];
/// Remaining validity below which a certificate is signed again.
const RENEW_BEFORE: Duration = Duration::from_secs(60 * 86_400);

/// Makes a key and a self-signed certificate for `name` and this machine, in two new files; only its owner
/// can read that of the key.
pub fn make_self_signed(disk: &dyn Disk, name: &str, certificate: &Path, key: &Path) -> io::Result<()> {
    let pair = KeyPair::generate().map_err(io::Error::other)?;
    let text = sign(name, &pair, OffsetDateTime::now_utc() - BEFORE)?;
    write_new(disk, key, FileAccess::Owner, &pair.serialize_pem())?;
    write_new(disk, certificate, FileAccess::All, &text)
}

/// Returns true if a certificate is, by its file name, one that was made with a site.
pub fn is_self_signed(certificate: &Path) -> bool {
    certificate.ends_with(SELF_SIGNED_FILES[0])
}

/// Signs the certificate of the site again, with its key, if it was made with the site and soon expires;
/// returns whether it did.
pub fn renew_self_signed(
    disk: &dyn Disk,
    name: &str,
    certificate: &Path,
    key: &Path,
    now: i64,
) -> io::Result<bool> {
    let left = lifetime(certificate).map(|(_, until)| until - now);
    let is_due = left.is_some_and(|left| left < RENEW_BEFORE.as_secs() as i64);
    // A certificate signed by an authority may have the file name, too.
    if !is_self_signed(certificate) || !is_due || !is_own(certificate) {
        return Ok(false);
    }
    let pair = KeyPair::from_pem(&fs::read_to_string(key)?).map_err(io::Error::other)?;
    let text = sign(name, &pair, OffsetDateTime::now_utc() - BEFORE)?;
    durable_replace(disk, certificate, &[text.as_bytes()], FileAccess::All)?;
    Ok(true)
}

/// Returns the text of a self-signed certificate for `name` and this machine.
fn sign(name: &str, pair: &KeyPair, begins: OffsetDateTime) -> io::Result<String> {
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
    params.not_before = begins;
    params.not_after = params.not_before + VALID;
    Ok(params.self_signed(pair).map_err(io::Error::other)?.pem())
}

/// Returns true if clients may look for this name in a certificate: labels of letters, digits and hyphens. A
/// path identity may have underscores and other characters, too; `localhost` is added anyway.
fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name != "localhost" && name.split('.').all(label)
}

/// Creates a file durably; an error if it exists.
fn write_new(disk: &dyn Disk, path: &Path, access: FileAccess, text: &str) -> io::Result<()> {
    let made = durable_create(disk, path, &[text.as_bytes()], access)?;
    if made { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, RealDisk, SimDisk, read_small};
    use site_base::clock::unix_now;

    #[test]
    fn certificates_are_renewed_with_their_key_before_they_expire() {
        let dir = tempfile::TempDir::new().unwrap();
        let [certificate, key] = SELF_SIGNED_FILES.map(|name| dir.path().join(name));
        let now = unix_now();
        let pair = KeyPair::generate().unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        let ending = |days: u64| {
            let until = OffsetDateTime::now_utc() + Duration::from_secs(days * 86_400);
            fs::write(&certificate, sign("news.example.org", &pair, until - VALID).unwrap()).unwrap();
        };
        let left = || (lifetime(&certificate).unwrap().1 - now) / 86_400;
        for (days, is_due) in [(700, false), (61, false), (59, true), (1, true)] {
            ending(days);
            assert_eq!(
                renew_self_signed(&RealDisk::new(), "news.example.org", &certificate, &key, now).unwrap(),
                is_due,
                "{days}"
            );
            assert!(if is_due { left() > 800 } else { left() < 800 }, "{days}: {}", left());
            assert_eq!(fs::read_to_string(&key).unwrap(), pair.serialize_pem());
        }
        // An expired certificate, and the remains of a crash.
        fs::write(certificate.with_extension("crt.new"), "half").unwrap();
        ending(0);
        assert!(
            renew_self_signed(&RealDisk::new(), "news.example.org", &certificate, &key, now + 86_400)
                .unwrap()
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        // Neither one that another key has signed, nor one of another name.
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "an authority");
        let issuer = rcgen::Issuer::new(authority, KeyPair::generate().unwrap());
        let mut params = CertificateParams::default();
        params.not_after = OffsetDateTime::now_utc() + Duration::from_secs(86_400);
        let vouched_for = params.signed_by(&pair, &issuer).unwrap().pem();
        fs::write(&certificate, &vouched_for).unwrap();
        assert!(!renew_self_signed(&RealDisk::new(), "news.example.org", &certificate, &key, now).unwrap());
        assert_eq!(fs::read_to_string(&certificate).unwrap(), vouched_for);
        ending(1);
        let other = dir.path().join("other.crt");
        fs::rename(&certificate, &other).unwrap();
        assert!(!renew_self_signed(&RealDisk::new(), "news.example.org", &other, &key, now).unwrap());
    }

    #[test]
    fn host_names_valid_in_a_certificate() {
        for name in ["news.example.org", "vm", "a-b.c1", "xn--bcher-kva.example"] {
            assert!(is_host_name(name), "{name}");
        }
        for name in ["", "a..b", "news_1", "-a.b", "a.b-", "localhost", "a b", &"a".repeat(64)] {
            assert!(!is_host_name(name), "{name}");
        }
    }

    #[test]
    fn a_crash_at_any_write_leaves_no_certificate_without_its_key_and_no_part_of_either() {
        let [certificate, key] = SELF_SIGNED_FILES.map(|name| Path::new("/site").join(name));
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(Path::new("/site")).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let is_made = make_self_signed(&sim, "news.example.org", &certificate, &key).is_ok();
                let image = sim.image().unwrap();
                let text = |path: &Path| {
                    let bytes = read_small(&image, path, 1 << 16).unwrap()?;
                    Some(String::from_utf8(bytes).unwrap())
                };
                let what = format!("{kind:?} at step {step}");
                match (text(&key), text(&certificate)) {
                    (None, certificate) => assert!(certificate.is_none() && !is_made, "{what}"),
                    (Some(key), certificate) => {
                        assert!(KeyPair::from_pem(&key).is_ok(), "{what}");
                        assert!(certificate.is_some() || !is_made, "{what}");
                        let end = "-----END CERTIFICATE-----";
                        assert!(certificate.is_none_or(|text| text.trim_end().ends_with(end)), "{what}");
                    }
                }
                if !sim.crashed() {
                    assert!(step > 7, "nothing was tried");
                    break;
                }
            }
        }
    }
}
