//! The certificate that `newsreel up` makes for trying things out: nobody vouches for it.
//!
//! Called by the command line when a site is made. Blocks.

use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a key and a certificate signed with it, for `name` and this machine itself, in two new files; the key's can be
/// read by its owner only.
pub(crate) fn make_self_signed(name: &str, certificate: &Path, key: &Path) -> io::Result<()> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = [name, "localhost"]
        .into_iter()
        .filter_map(|name| name.try_into().ok().map(SanType::DnsName))
        .chain([IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].map(SanType::IpAddress))
        .collect();
    let pair = KeyPair::generate().map_err(io::Error::other)?;
    let signed = params.self_signed(&pair).map_err(io::Error::other)?;
    write_new(key, 0o600, &pair.serialize_pem())?;
    write_new(certificate, 0o644, &signed.pem())
}

fn write_new(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}
