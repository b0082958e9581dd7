//! Sealing of what the members of a cluster share and the log's nodes must not read: AES-256-GCM under a key
//! in a file that every member has.
//!
//! A sealed text names the file that it is the content of, so that it cannot be put in the place of another.
//! Names have keyed hashes, under which the log's nodes see them. Format: `docs/formats/notes.md`.

use crate::users::{random, sha256};
use disk::{Disk, FileAccess, durable_create, hex, read_small};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Octets of the key.
const KEY_BYTES: usize = 32;
/// Octets of the checksum after it: the beginning of its SHA-256.
const CHECKSUM_BYTES: usize = 4;
/// Longest file that is read, in bytes; a whole one is shorter.
const FILE_BYTES_MAX: u64 = 4_096;
/// Octets of a name's hash.
pub const NAME_HASH_BYTES: usize = 16;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 1_024;

/// The key of a cluster.
pub struct ClusterKey {
    key: LessSafeKey,
    names: hmac::Key,
    forms: hmac::Key,
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterKey").finish_non_exhaustive()
    }
}

impl ClusterKey {
    /// Reads the key in a file; `None` if there is no file.
    pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Self>> {
        let Some(text) = read_small(disk, path, FILE_BYTES_MAX)? else { return Ok(None) };
        let damaged = || {
            let text = format!(
                "{}: not 64 hexadecimal digits and the checksum of what they stand for; copy the file from another \
                 member",
                path.display()
            );
            io::Error::new(ErrorKind::InvalidData, text)
        };
        parse(&text).and_then(|octets| Self::of(&octets)).map(Some).ok_or_else(damaged)
    }

    /// Makes a key in a file, which must not exist; returns false if it does.
    pub fn create(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
        let octets = random::<KEY_BYTES>().map_err(|_| io::Error::other("no random numbers"))?;
        let text = format!("{} {}\n", hex::digits(&octets), checksum(&octets));
        durable_create(disk, path, &[text.as_bytes()], FileAccess::Owner)
    }

    fn of(octets: &[u8; KEY_BYTES]) -> Option<Self> {
        let root = hmac::Key::new(HMAC_SHA256, octets);
        let derived = |purpose: &str| hmac::sign(&root, purpose.as_bytes());
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, derived("sealing").as_ref()).ok()?);
        let [names, forms] =
            ["names", "forms"].map(|purpose| hmac::Key::new(HMAC_SHA256, derived(purpose).as_ref()));
        Some(Self { key, names, forms })
    }

    /// Returns the key for the tokens of forms on the web, so that any member takes a form that another one
    /// has shown.
    pub fn forms(&self) -> hmac::Key {
        self.forms.clone()
    }

    /// Returns what stands for a name where the log's nodes see it.
    pub fn hash_of(&self, name: &str) -> [u8; NAME_HASH_BYTES] {
        let tag = hmac::sign(&self.names, name.as_bytes());
        let mut hash = [0; NAME_HASH_BYTES];
        hash.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        hash
    }

    /// Seals a content with its name.
    pub fn seal(&self, name: &str, content: &[u8]) -> io::Result<Vec<u8>> {
        let failed = || io::Error::other("cannot seal");
        let length = u16::try_from(name.len()).ok().filter(|_| name.len() <= NAME_BYTES_MAX);
        let length = length.ok_or_else(failed)?;
        let nonce = random::<NONCE_LEN>().map_err(|_| failed())?;
        let mut text = [&length.to_le_bytes(), name.as_bytes(), content].concat();
        let nonce_of = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_append_tag(nonce_of, Aad::from(self.hash_of(name)), &mut text);
        sealed.map_err(|_| failed())?;
        Ok([&nonce, text.as_slice()].concat())
    }

    /// Opens what was sealed under the hash of a name; returns the name and the content. `None`: it was
    /// sealed with another key, or altered.
    pub fn open(&self, hash: [u8; NAME_HASH_BYTES], sealed: &[u8]) -> Option<(String, Vec<u8>)> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(hash), &mut text).ok()?;
        let (length, rest) = opened.split_first_chunk::<2>()?;
        let (name, content) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let name = std::str::from_utf8(name).ok().filter(|name| self.hash_of(name) == hash)?;
        Some((name.to_owned(), content.to_vec()))
    }
}

fn checksum(octets: &[u8]) -> String {
    hex::start_of(sha256(octets), CHECKSUM_BYTES)
}

fn parse(text: &[u8]) -> Option<[u8; KEY_BYTES]> {
    let text = std::str::from_utf8(text).ok()?.trim_end();
    let (digits, sum) = text.split_once(' ')?;
    hex::octets(digits.as_bytes()).filter(|octets| sum == checksum(octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    const FILE: &str = "/d/cluster.key";

    fn key(disk: &SimDisk) -> ClusterKey {
        ClusterKey::read(disk, Path::new(FILE)).unwrap().unwrap()
    }

    #[test]
    fn what_is_sealed_is_opened_with_the_same_key_under_its_own_name_alone() {
        let disk = SimDisk::new();
        disk.create_dir(Path::new("/d")).unwrap();
        assert!(ClusterKey::read(&disk, Path::new(FILE)).unwrap().is_none());
        assert!(ClusterKey::create(&disk, Path::new(FILE)).unwrap());
        assert!(!ClusterKey::create(&disk, Path::new(FILE)).unwrap(), "a key is never replaced");
        let (first, again) = (key(&disk), key(&disk));
        let sealed = first.seal("users/fred", b"a secret").unwrap();
        assert!(!sealed.windows(6).any(|part| part == b"secret" || part == b"s/fred"));
        let hash = first.hash_of("users/fred");
        assert_eq!(again.open(hash, &sealed), Some(("users/fred".into(), b"a secret".to_vec())));
        assert_eq!(again.open(first.hash_of("users/wilma"), &sealed), None);
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert_eq!(first.open(hash, &altered), None, "{at}");
            assert_eq!(first.open(hash, &sealed[..at]), None, "{at}");
        }
        let other = ClusterKey::of(&[7; KEY_BYTES]).unwrap();
        assert_eq!(other.open(hash, &sealed), None);
    }

    #[test]
    fn a_damaged_key_file_is_an_error() {
        let disk = SimDisk::new();
        disk.create_dir(Path::new("/d")).unwrap();
        ClusterKey::create(&disk, Path::new(FILE)).unwrap();
        let text = read_small(&disk, Path::new(FILE), FILE_BYTES_MAX).unwrap().unwrap();
        for at in 0..text.len() - 1 {
            let mut altered = text.clone();
            altered[at] ^= 1;
            assert_eq!(parse(&altered), None, "{at}");
        }
        disk::durable_replace(&disk, Path::new(FILE), &[b"rubbish"], FileAccess::Owner).unwrap();
        let error = ClusterKey::read(&disk, Path::new(FILE)).unwrap_err();
        assert!(error.to_string().contains("copy the file from another member"), "{error}");
    }
}
