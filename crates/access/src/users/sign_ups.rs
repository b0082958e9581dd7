//! Accounts that were asked for on the web and wait for an operator.
//!
//! One text file in the site's directory, changed as a whole under the lock of the users file; it has
//! credentials, never a password. An account is a user first and then no longer waits, so that a crash
//! between the two loses nothing. Called by `gate` and `operators`. Source: `docs/formats/sign-ups.md`.

use super::credentials::{Argon2Hash, ScramKeys, StoredCredentials};
use super::edit::{self, EditError};
use super::name::prepared;
use super::{User, UserRecord};
use disk::{Disk, FileAccess, durable_replace, read_small};
use site_base::clock::unix_secs;
use site_base::summed::{text_without_sum, with_sum};
use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Name of the file in the site's directory.
pub const SIGN_UPS_FILE_NAME: &str = "sign-ups";
/// First line of the file.
const HEAD: &str = "newsreel-sign-ups 1";
/// Most accounts that wait.
pub const SIGN_UPS_MAX: usize = 1_000;
/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// An account that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignUp {
    /// Name, prepared.
    pub name: Box<str>,
    /// Unix seconds since when it waits.
    pub asked: u64,
    /// Address from which it was asked for.
    pub address: String,
    /// Line that the applicant wrote to the operator; may be empty.
    pub note: String,
    /// Credentials made of the applicant's password.
    pub credentials: StoredCredentials,
}

/// The reason why an account that waits is neither confirmed nor refused.
#[derive(Debug)]
pub enum SignUpError {
    /// No account of this name waits.
    NotHere,
    /// There is a user of this name already.
    Exists,
    /// A file cannot be read or written.
    Io(io::Error),
}

impl fmt::Display for SignUpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere => f.write_str("no account of this name waits"),
            Self::Exists => f.write_str("there is a user of this name already; refuse it"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SignUpError {}

impl From<EditError<SignUpError>> for SignUpError {
    fn from(error: EditError<SignUpError>) -> Self {
        match error {
            EditError::Io(error) => Self::Io(error),
            EditError::Refused(error) => error,
        }
    }
}

/// Returns the accounts that wait in `data`, the oldest first.
pub fn waiting_sign_ups(disk: &dyn Disk, data: &Path) -> io::Result<Vec<SignUp>> {
    let path = data.join(SIGN_UPS_FILE_NAME);
    let Some(bytes) = read_small(disk, &path, FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    let damaged = || io::Error::new(ErrorKind::InvalidData, format!("{} is damaged", path.display()));
    parse(&bytes).ok_or_else(damaged)
}

/// Applies `change` to the accounts that wait, and replaces the file. Blocks.
pub(crate) fn edit_sign_ups<T, E>(
    disk: &dyn Disk,
    data: &Path,
    change: impl FnOnce(&mut Vec<SignUp>) -> Result<T, E>,
) -> Result<T, EditError<E>> {
    let _one_at_a_time = edit::locked(disk, data)?;
    let mut waiting = waiting_sign_ups(disk, data)?;
    let outcome = change(&mut waiting).map_err(EditError::Refused)?;
    durable_replace(disk, &data.join(SIGN_UPS_FILE_NAME), &[text(&waiting).as_bytes()], FileAccess::Owner)?;
    Ok(outcome)
}

/// Makes a user, in `group`, of an account that waits.
pub fn confirm_sign_up(
    disk: &dyn Disk,
    data: &Path,
    name: &str,
    group: Option<&str>,
) -> Result<(), SignUpError> {
    let waiting = waiting_sign_ups(disk, data).map_err(SignUpError::Io)?;
    let found = waiting.into_iter().find(|one| &*one.name == name).ok_or(SignUpError::NotHere)?;
    edit::edit(disk, data, |table| {
        if table.has_alike(name) {
            return Err(SignUpError::Exists);
        }
        table.put(user_of(found.name, group, found.credentials));
        Ok(())
    })?;
    refuse_sign_up(disk, data, name)
}

/// Removes an account that waits.
pub fn refuse_sign_up(disk: &dyn Disk, data: &Path, name: &str) -> Result<(), SignUpError> {
    Ok(edit_sign_ups(disk, data, |waiting| {
        let before = waiting.len();
        waiting.retain(|one| &*one.name != name);
        if waiting.len() < before { Ok(()) } else { Err(SignUpError::NotHere) }
    })?)
}

/// Returns the line of a new user.
pub(crate) fn user_of(name: Box<str>, group: Option<&str>, credentials: StoredCredentials) -> UserRecord {
    let user = User::new(name, group);
    UserRecord { user, changed: unix_secs(), credentials: Some(credentials), mail: None }
}

/// Returns true if the file is whole.
pub fn is_sign_ups_whole(bytes: &[u8]) -> bool {
    parse(bytes).is_some()
}

fn text(waiting: &[SignUp]) -> String {
    let mut text = format!("{HEAD}\n");
    for SignUp { name, asked, address, note, credentials } in waiting {
        let (argon2, scram) = (credentials.argon2.as_str(), &credentials.scram);
        // Writing to a String does not fail.
        let _infallible = writeln!(text, "{name}\t{asked}\t{address}\t{argon2}\t{scram}\t{note}");
    }
    with_sum(text)
}

fn parse(bytes: &[u8]) -> Option<Vec<SignUp>> {
    let mut lines = text_without_sum(bytes)?.lines();
    (lines.next()? == HEAD).then_some(())?;
    lines.map(one).collect()
}

fn one(line: &str) -> Option<SignUp> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, asked, address, argon2, scram, note] = *fields.as_slice() else { return None };
    Some(SignUp {
        name: prepared(name.as_bytes()).filter(|prepared| prepared == name)?.into(),
        asked: asked.parse().ok()?,
        address: address.to_owned(),
        note: note.to_owned(),
        credentials: StoredCredentials {
            argon2: Argon2Hash::parse(argon2)?,
            scram: ScramKeys::parse(scram)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;
    use disk::{CrashKind, SimDisk};

    const DATA: &str = "/site";

    fn sign_up(name: &str) -> SignUp {
        let credentials = StoredCredentials::new(b"a long password").unwrap();
        let (address, note) = ("192.0.2.1".to_owned(), "A friend of fred".to_owned());
        SignUp { name: name.into(), asked: 7, address, note, credentials }
    }

    fn site(waiting: &[&SignUp]) -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new(DATA)).unwrap();
        edit_sign_ups(&sim, Path::new(DATA), |all| {
            all.extend(waiting.iter().map(|one| (*one).clone()));
            Ok::<_, ()>(())
        })
        .unwrap();
        sim
    }

    #[test]
    fn the_file_reads_back_and_each_flipped_byte_is_noticed() {
        let (fred, wilma) = (sign_up("fred"), sign_up("wilma"));
        let sim = site(&[&fred, &wilma]);
        assert_eq!(waiting_sign_ups(&sim, Path::new(DATA)).unwrap(), [fred, wilma]);
        let path = Path::new(DATA).join(SIGN_UPS_FILE_NAME);
        let bytes = read_small(&sim, &path, FILE_BYTES_MAX).unwrap().unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(!is_sign_ups_whole(&flipped) && !is_sign_ups_whole(&bytes[..at]), "{at}");
        }
    }

    #[test]
    fn an_account_is_confirmed_once_and_never_replaces_a_user() {
        let sim = site(&[&sign_up("fred"), &sign_up("wilma"), &sign_up("barney")]);
        let data = Path::new(DATA);
        confirm_sign_up(&sim, data, "fred", Some("web")).unwrap();
        let table = load(&sim, data).unwrap().unwrap();
        assert_eq!(*table.get("fred").unwrap().user.groups, ["web".into()]);
        assert!(matches!(confirm_sign_up(&sim, data, "fred", None), Err(SignUpError::NotHere)));
        edit::edit(&sim, data, |table| {
            table.put(user_of("Wilma".into(), None, sign_up("x").credentials));
            Ok::<_, ()>(())
        })
        .unwrap();
        assert!(matches!(confirm_sign_up(&sim, data, "wilma", None), Err(SignUpError::Exists)));
        refuse_sign_up(&sim, data, "barney").unwrap();
        assert!(matches!(refuse_sign_up(&sim, data, "barney"), Err(SignUpError::NotHere)));
        assert_eq!(waiting_sign_ups(&sim, data).unwrap().len(), 1);
    }

    #[test]
    fn a_crash_at_any_step_of_a_confirmation_loses_no_account() {
        let fred = sign_up("fred");
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = site(&[&fred]);
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let is_done = confirm_sign_up(&sim, Path::new(DATA), "fred", None).is_ok();
                let image = sim.image().unwrap();
                let waits = !waiting_sign_ups(&image, Path::new(DATA)).unwrap().is_empty();
                let table = load(&image, Path::new(DATA)).unwrap();
                let is_user = table.is_some_and(|table| table.get("fred").is_some());
                assert!(is_user || waits && !is_done, "{kind:?} at step {step}");
                if !sim.crashed() {
                    assert!(step > 6 && is_user && !waits, "nothing was tried");
                    break;
                }
            }
        }
    }
}
