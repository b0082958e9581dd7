//! Keys of authorized signers: files in a directory of the site, one for each key.
//!
//! A key counts for signatures only once the operator trusts it. The fingerprint and the trust are part of
//! the file name, so a listing shows whether anything has changed. Format: `docs/formats/keyring.md`.

use super::verify::{WeakHashes, fingerprint, unusable, verifies};
use disk::{CheckedFile, Disk, FileAccess, durable_create, read_or_set_aside};
use netnews::openpgp::{
    Certificate, PublicKey, SelfSignature, SignatureKind, certificates, crc24, dearmored, outdated,
};
use site_base::lock::Leaf;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::error;

/// Directory below `site.data`.
const DIR: &str = "keyring";
/// Largest size of a key file.
const KEY_BYTES_MAX: u64 = 1 << 20;
/// Most keys in the keyring.
const KEYS_MAX: usize = 1_000;
/// Suffixes of the key files.
const TRUSTED: &str = ".trusted";
const UNTRUSTED: &str = ".untrusted";

/// A public key in the keyring.
#[derive(Debug, Clone)]
pub struct SigningKey {
    /// Fingerprint in capital hexadecimal digits.
    pub fingerprint: String,
    fingerprint_bytes: Vec<u8>,
    /// User IDs of the key, the most recently signed first.
    pub users: Vec<String>,
    /// Expiry in Unix seconds; `None`: never.
    pub expires: Option<i64>,
    /// Reason why it cannot verify signatures; `None`: it can.
    pub unusable: Option<&'static str>,
    /// Whether the operator trusts it.
    pub is_trusted: bool,
    pub(super) public: PublicKey,
    bytes: Vec<u8>,
}

/// Reason why the key with this fingerprint is not taken: it has no user that it has signed itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key {fingerprint} has no user that it has signed itself")]
pub struct KeyWithoutUser {
    fingerprint: String,
}

impl SigningKey {
    /// Reads a key from a certificate; fails if its self-signature is missing.
    fn of(certificate: Certificate) -> Result<Self, KeyWithoutUser> {
        let (fingerprint_bytes, fingerprint) = fingerprint(&certificate.key);
        let key = &certificate.key;
        let mut unusable = unusable(key);
        let is_own = |own: &&SelfSignature| {
            let bytes = [&key.hashed[..], &own.hashed, &own.signature.trailer].concat();
            own.signature.is_by(&fingerprint_bytes)
                && verifies(key, &own.signature, &bytes, WeakHashes::Accepted)
        };
        let mut own: Vec<&SelfSignature> = certificate.signatures.iter().filter(is_own).collect();
        own.sort_by_key(|own| std::cmp::Reverse(own.signature.created));
        if own.iter().any(|own| own.signature.kind == SignatureKind::KeyRevocation) {
            unusable = Some("revoked");
        }
        let newest = own.iter().find(|own| own.signature.kind != SignatureKind::KeyRevocation);
        if newest.is_some_and(|own| !own.signature.may_sign) {
            unusable = unusable.or(Some("not for signing; signatures by subkeys do not count"));
        }
        let mut users: Vec<String> = Vec::new();
        for own in own.iter().filter(|own| !own.user.is_empty()) {
            let user = String::from_utf8_lossy(&own.user).into_owned();
            if !users.contains(&user) {
                users.push(user);
            }
        }
        if users.is_empty() && unusable.is_none() {
            return Err(KeyWithoutUser { fingerprint });
        }
        let lives = newest.map_or(0, |own| own.signature.key_lives);
        let expires = (lives > 0).then(|| i64::from(key.created) + i64::from(lives));
        let (public, bytes) = (certificate.key, certificate.bytes);
        Ok(Self {
            fingerprint,
            fingerprint_bytes,
            users,
            expires,
            unusable,
            is_trusted: false,
            public,
            bytes,
        })
    }

    /// Returns whether `name` denotes the key: its fingerprint, a user of it, or a user's first word or
    /// address.
    pub fn is_called(&self, name: &str) -> bool {
        let hex: String = name.chars().filter(|c| *c != ' ').collect();
        hex.eq_ignore_ascii_case(&self.fingerprint) || self.users.iter().any(|user| is_user(user, name))
    }

    /// Returns whether a user of the key has this address or this whole name, in any case.
    pub fn is_of(&self, issuer: &str) -> bool {
        let issuer = issuer.to_lowercase();
        self.users.iter().map(|user| user.to_lowercase()).any(|user| {
            is_user(&user, &issuer) || user.split_once(" <").is_some_and(|(name, _)| name == issuer)
        })
    }

    /// Returns the fingerprint as bytes.
    pub(super) fn fingerprint_bytes(&self) -> &[u8] {
        &self.fingerprint_bytes
    }

    fn file_name(&self) -> String {
        let state = if self.is_trusted { TRUSTED } else { UNTRUSTED };
        format!("{}-{:06x}{state}", self.fingerprint, crc24(&self.bytes))
    }
}

/// Returns the key in a file of this name, or `None` if it was altered or renamed by hand.
fn parsed(name: &str, bytes: &[u8]) -> Option<SigningKey> {
    let mut key = certificates(bytes).into_iter().find_map(|certificate| SigningKey::of(certificate).ok())?;
    key.is_trusted = name.ends_with(TRUSTED);
    (key.file_name() == name).then_some(key)
}

/// Returns whether `name` is that of a key file.
pub fn is_key_file(name: &str) -> bool {
    name.ends_with(TRUSTED) || name.ends_with(UNTRUSTED)
}

/// Returns whether the file of this name holds the key that it should hold.
pub fn is_whole(name: &str, bytes: &[u8]) -> bool {
    parsed(name, bytes).is_some()
}

/// Returns whether `name` is a user, or a user's first word or address.
fn is_user(user: &str, name: &str) -> bool {
    let address = user.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(a, _)| a);
    user == name || user.split(' ').next() == Some(name) || address == Some(name)
}

/// File names of the last reading, and the keys read from them.
type Cache = (Vec<String>, Arc<Vec<SigningKey>>);

/// The keyring of a site.
#[derive(Debug)]
pub struct Keyring {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    cache: Leaf<Cache>,
}

/// Result of importing an exported file.
#[derive(Debug)]
pub struct KeyImport {
    /// Imported keys, and reasons why others were not taken.
    pub keys: Vec<Result<SigningKey, KeyWithoutUser>>,
    /// Number of keys of versions before 4.
    pub outdated: usize,
}

impl Keyring {
    /// Returns the keyring of the site in `data`.
    pub fn of(disk: Arc<dyn Disk>, data: &Path) -> Self {
        Self { disk, dir: data.join(DIR), cache: Leaf::default() }
    }

    /// Returns the keys, by fingerprint; unreadable ones are left out.
    pub fn keys(&self) -> io::Result<Arc<Vec<SigningKey>>> {
        let mut names = match self.disk.list(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        names.retain(|name| is_key_file(name));
        names.sort_unstable();
        let mut cache = self.cache.lock();
        if cache.0 != names {
            let keys: Vec<SigningKey> =
                names.iter().take(KEYS_MAX).filter_map(|name| self.read(name)).collect();
            *cache = (names, Arc::new(keys));
        }
        Ok(cache.1.clone())
    }

    fn read(&self, name: &str) -> Option<SigningKey> {
        let costs = "what this key has signed is not obeyed until it is imported and trusted again";
        let path = self.dir.join(name);
        match read_or_set_aside(&*self.disk, &path, KEY_BYTES_MAX, costs, |bytes| parsed(name, bytes)) {
            Ok(CheckedFile::Whole(key)) => Some(key),
            Ok(CheckedFile::Absent | CheckedFile::SetAside(_)) => None,
            Err(error) => {
                error!(file = %path.display(), %error, "cannot read a key: {costs}");
                None
            }
        }
    }

    /// Imports the keys of an exported file, armored or not; a key that is present already is replaced, and
    /// stays trusted if it was.
    pub fn import(&self, file: &[u8]) -> io::Result<KeyImport> {
        let armored = std::str::from_utf8(file).ok().and_then(dearmored);
        let present = self.keys()?;
        let mut imported = Vec::new();
        let packets = armored.as_deref().unwrap_or(file);
        for certificate in certificates(packets) {
            let key = SigningKey::of(certificate);
            if let Ok(mut key) = key.clone() {
                // After a crash in this function there may be two.
                let old: Vec<&SigningKey> =
                    present.iter().filter(|old| old.fingerprint == key.fingerprint).collect();
                key.is_trusted = old.iter().any(|old| old.is_trusted);
                if old.is_empty() && present.len() + imported.len() >= KEYS_MAX {
                    return Err(io::Error::other("there are too many keys"));
                }
                self.put(&key)?;
                for old in old.iter().filter(|old| old.file_name() != key.file_name()) {
                    self.disk.remove(&self.dir.join(old.file_name()))?;
                }
            }
            imported.push(key);
        }
        self.disk
            .sync_dir(&self.dir)
            .or_else(|error| if imported.is_empty() { Ok(()) } else { Err(error) })?;
        Ok(KeyImport { keys: imported, outdated: outdated(packets) })
    }

    fn put(&self, key: &SigningKey) -> io::Result<()> {
        self.disk.create_dir(&self.dir)?;
        durable_create(&*self.disk, &self.dir.join(key.file_name()), &[&key.bytes], FileAccess::Group)
            .map(drop)
    }

    /// Trusts a key, in one step on disk.
    pub fn trust(&self, key: &SigningKey) -> io::Result<SigningKey> {
        let trusted = SigningKey { is_trusted: true, ..key.clone() };
        self.disk.rename(&self.dir.join(key.file_name()), &self.dir.join(trusted.file_name()))?;
        self.disk.sync_dir(&self.dir)?;
        Ok(trusted)
    }

    /// Removes a key.
    pub fn remove(&self, key: &SigningKey) -> io::Result<()> {
        self.disk.remove(&self.dir.join(key.file_name()))?;
        self.disk.sync_dir(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    /// Made by gpg 2 for these tests.
    const KEY: &[u8] = include_bytes!("key.asc");

    fn open(sim: &SimDisk) -> Keyring {
        Keyring::of(Arc::new(sim.clone()), Path::new("/d"))
    }

    #[test]
    fn a_crash_at_any_step_loses_no_key_and_trusts_none_by_itself() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                sim.create_dir(Path::new("/d")).unwrap();
                sim.crash_at(step, kind, step * 7919);
                let keyring = open(&sim);
                let imported = keyring.import(KEY).is_ok() && !sim.crashed();
                let keys = keyring.keys().unwrap_or_default();
                let trusted = keys.first().is_some_and(|key| keyring.trust(key).is_ok()) && !sim.crashed();
                let keys = open(&sim.image().unwrap()).keys().unwrap();
                let what = format!("{kind:?} at step {step}");
                assert!(keys.len() == 1 || !imported && keys.is_empty(), "{what}");
                assert!(!trusted || keys.iter().all(|key| key.is_trusted), "{what}");
                if !sim.crashed() {
                    assert!(step > 4 && trusted, "nothing was tried");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_file_that_was_altered_or_renamed_is_ignored() {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        let keyring = open(&sim);
        let key = keyring.import(KEY).unwrap().keys.remove(0).unwrap();
        assert!(
            !key.is_trusted
                && key.is_called("key-for-tests")
                && key.is_called(&key.fingerprint.to_lowercase())
        );
        assert_eq!(keyring.keys().unwrap().len(), 1);
        let path = Path::new("/d").join(DIR).join(key.file_name());
        let name = key.file_name();
        assert!(is_whole(&name, &key.bytes) && is_key_file(&name));
        for at in 0..key.bytes.len() {
            let mut flipped = key.bytes.clone();
            flipped[at] ^= 1;
            assert!(!is_whole(&name, &flipped) && !is_whole(&name, &key.bytes[..at]), "byte {at}");
        }
        let mut bytes = key.bytes.clone();
        *bytes.last_mut().unwrap() ^= 1;
        disk::durable_replace(&sim, &path, &[&bytes], FileAccess::Group).unwrap();
        assert!(open(&sim).keys().unwrap().is_empty());
        assert!(open(&sim).import(b"nothing").unwrap().keys.is_empty());
        // The damaged file is ignored, so the key may be imported again.
        assert_eq!(open(&sim).import(KEY).unwrap().keys.len(), 1);
        assert_eq!(open(&sim).keys().unwrap().len(), 1);
        let names = sim.list(&Path::new("/d").join(DIR)).unwrap();
        assert!(names.contains(&format!("{}.damaged", key.file_name())), "{names:?}");
    }
}
