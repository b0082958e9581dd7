//! The site's secret, used to sign or hide data in articles posted here.
//!
//! One file of 32 random octets and their checksum; a separate key is derived for each purpose, so that none
//! reveals the others. Called by `inject` and `newsreel cancel-key`. Format: `docs/formats/secret.md`.
//! Source: RFC 8315 section 4.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use disk::{Disk, FileAccess, durable_replace, hex, read_small};
use ring::digest::{SHA256, digest};
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Octets of the secret.
const SECRET_BYTES: usize = 32;
/// Octets of the checksum after it: the beginning of its SHA-256.
const CHECKSUM_BYTES: usize = 4;
/// Longest file that is read, in bytes; a whole one is shorter.
const FILE_BYTES_MAX: u64 = 4_096;
/// Octets of a hash that stands for an address or a user.
const TRACE_BYTES: usize = 12;

/// The keys derived from the secret.
#[derive(Debug)]
pub struct Secret {
    users: Key,
    operator: Key,
    traces: Key,
}

impl Secret {
    /// Name of the file below `site.data`.
    pub const FILE_NAME: &str = "posting-secret";

    /// Reads the secret of the site in `data`, creating it if there is none. A file without a checksum gets
    /// one.
    pub fn open(disk: &dyn Disk, data: &Path) -> io::Result<Self> {
        let path = data.join(Self::FILE_NAME);
        let octets = match read(disk, &path)? {
            Some((octets, true)) => octets,
            Some((octets, false)) => {
                // Usable even if that fails.
                if let Err(error) = write(disk, data, &path, &octets) {
                    tracing::warn!(%error, "{} cannot be given a checksum", path.display());
                }
                octets
            }
            None => {
                let mut octets = [0; SECRET_BYTES];
                let filled = SystemRandom::new().fill(&mut octets);
                filled.map_err(|_| about(&path, io::Error::other("no random numbers")))?;
                write(disk, data, &path, &octets).map_err(|error| about(&path, error))?;
                octets
            }
        };
        Ok(Self::of(&octets))
    }

    /// Reads the secret of the site in `data` without changing anything; `None` if there is none.
    pub fn read(disk: &dyn Disk, data: &Path) -> io::Result<Option<Self>> {
        Ok(read(disk, &data.join(Self::FILE_NAME))?.map(|(octets, _)| Self::of(&octets)))
    }

    fn of(octets: &[u8; SECRET_BYTES]) -> Self {
        let root = Key::new(HMAC_SHA256, octets);
        let derived = |purpose: &str| Key::new(HMAC_SHA256, hmac::sign(&root, purpose.as_bytes()).as_ref());
        Self {
            users: derived("cancel users"),
            operator: derived("cancel operator"),
            traces: derived("traces"),
        }
    }

    /// Returns the Cancel-Key of a user for an article.
    pub fn user_key(&self, user: &str, message_id: &str) -> String {
        access::cancel_lock::key(&self.users, user, message_id)
    }

    /// Returns the operator's Cancel-Key for an article.
    pub fn operator_key(&self, message_id: &str) -> String {
        access::cancel_lock::key(&self.operator, "", message_id)
    }

    /// Returns a keyed hash of `text`, from which it cannot be recovered: letters, digits, `-` and `_`.
    pub fn hashed(&self, text: &str) -> String {
        let tag = hmac::sign(&self.traces, text.as_bytes());
        let tag = tag.as_ref();
        BASE64_URL_SAFE_NO_PAD.encode(tag.get(..TRACE_BYTES).unwrap_or(tag))
    }
}

/// Returns the octets in a file, and whether it has their checksum; `None` if there is no file.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<([u8; SECRET_BYTES], bool)>> {
    let damaged = "damaged: not 64 hexadecimal digits and the checksum of what they stand for; put the right file back, or \
                   remove it to have a new one made (cancels of articles posted before will then not be obeyed)";
    let text = read_small(disk, path, FILE_BYTES_MAX).map_err(|error| about(path, error))?;
    let read = text.map(|text| parse(&text).ok_or(io::Error::new(ErrorKind::InvalidData, damaged)));
    read.transpose().map_err(|error| about(path, error))
}

fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the secret for posting, {}: {error}", path.display()))
}

fn write(disk: &dyn Disk, data: &Path, path: &Path, octets: &[u8; SECRET_BYTES]) -> io::Result<()> {
    disk.create_dir(data)?;
    let text = format!("{} {}\n", hex::digits(octets), checksum(octets));
    durable_replace(disk, path, &[text.as_bytes()], FileAccess::Owner)
}

/// Returns true if the file of the secret is whole.
pub fn is_whole(text: &[u8]) -> bool {
    parse(text).is_some()
}

/// Returns the octets in a text, and whether a checksum follows, which then matches.
fn parse(text: &[u8]) -> Option<([u8; SECRET_BYTES], bool)> {
    let (digits, sum) = text.trim_ascii_end().split_at_checked(2 * SECRET_BYTES)?;
    let octets = hex::octets(digits)?;
    if sum.is_empty() {
        return Some((octets, false));
    }
    let is_right = hex::digits(&octets).as_bytes() == digits
        && sum.strip_prefix(b" ") == Some(checksum(&octets).as_bytes());
    is_right.then_some((octets, true))
}

fn checksum(octets: &[u8; SECRET_BYTES]) -> String {
    hex::start_of(digest(&SHA256, octets), CHECKSUM_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, RealDisk, SimDisk};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_secret_is_made_once_and_readable_only_by_its_owner() {
        let dir = tempfile::TempDir::new().unwrap();
        let one = Secret::open(&RealDisk::new(), dir.path()).unwrap();
        let two = Secret::open(&RealDisk::new(), dir.path()).unwrap();
        assert_eq!(one.user_key("u", "<a@b>"), two.user_key("u", "<a@b>"));
        assert_ne!(one.user_key("", "<a@b>"), one.operator_key("<a@b>"));
        assert_ne!(one.user_key("u", "<a@b>"), one.user_key("v", "<a@b>"));
        assert_eq!(one.hashed("192.0.2.1").len(), 16);
        assert_ne!(one.hashed("192.0.2.1"), one.hashed("192.0.2.2"));
        let file = dir.path().join(Secret::FILE_NAME);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        for text in ["abc\n", "", &"0".repeat(72), &"é".repeat(36)] {
            fs::write(&file, text).unwrap();
            let error = Secret::open(&RealDisk::new(), dir.path()).unwrap_err().to_string();
            assert!(error.contains("not 64 hexadecimal digits"), "{error}");
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let dir = tempfile::TempDir::new().unwrap();
        assert!(Secret::read(&RealDisk::new(), dir.path()).unwrap().is_none());
        let before = Secret::open(&RealDisk::new(), dir.path()).unwrap().hashed("a");
        let file = dir.path().join(Secret::FILE_NAME);
        let good = fs::read(&file).unwrap();
        assert_eq!(good.len(), 2 * (SECRET_BYTES + CHECKSUM_BYTES) + 2);
        // The line end is insignificant.
        for bit in 0..(good.len() - 1) * 8 {
            let mut text = good.clone();
            text[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, &text).unwrap();
            assert!(Secret::open(&RealDisk::new(), dir.path()).is_err(), "bit {bit}");
        }
        fs::write(&file, &good).unwrap();
        assert_eq!(Secret::open(&RealDisk::new(), dir.path()).unwrap().hashed("a"), before);
    }

    #[test]
    fn a_file_without_a_checksum_gets_one() {
        let dir = tempfile::TempDir::new().unwrap();
        let before = Secret::open(&RealDisk::new(), dir.path()).unwrap().hashed("a");
        let file = dir.path().join(Secret::FILE_NAME);
        let good = fs::read(&file).unwrap();
        let old = [&good[..2 * SECRET_BYTES], b"\n"].concat();
        fs::write(&file, &old).unwrap();
        assert!(Secret::read(&RealDisk::new(), dir.path()).unwrap().is_some());
        assert_eq!(fs::read(&file).unwrap(), old, "reading it changed it");
        assert_eq!(Secret::open(&RealDisk::new(), dir.path()).unwrap().hashed("a"), before);
        assert_eq!(fs::read(&file).unwrap(), good);
    }

    #[test]
    fn a_crash_at_any_write_leaves_one_secret_that_stays() {
        let (data, file) = (Path::new("/site"), Path::new("/site/posting-secret"));
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.crash_at(step, kind, step * 7919);
                let made = Secret::open(&sim, data).ok().map(|secret| secret.hashed("a"));
                let image = sim.image().unwrap();
                let text = read_small(&image, file, 100).unwrap();
                let after = Secret::open(&image, data).unwrap().hashed("a");
                assert!(made.is_none_or(|made| made == after), "{kind:?} at step {step}");
                if let Some(text) = text {
                    assert_eq!(read_small(&image, file, 100).unwrap().unwrap(), text, "{kind:?} at {step}");
                }
                if !sim.crashed() {
                    assert!(step > 3, "nothing was tried");
                    break;
                }
            }
        }
    }
}
