//! Logins from outside: users whose passwords programs and directories check.
//!
//! Programs are asked before directories, each kind in the order of the configuration, until one accepts. A
//! source that cannot be asked does not refuse: unless another one accepts, the client may try again later.
//! After a wrong password for a user of the users file they are asked about a made-up name: neither the
//! answer nor its time tells which names are in the file. Called by `gate`.

mod directory;
#[cfg(test)]
mod fake_directory;
mod group_name;
mod ldap;
#[cfg(feature = "testing")]
pub mod parsers;
mod programs;
mod verdict;

use crate::endpoint::ClientEndpoint;
use crate::users::random;
use directory::Directory;
use disk::hex;
use programs::AuthProgram;
use site_config::Config;
pub use verdict::granted_groups;
pub(crate) use verdict::{OutsideUser, OutsideVerdict, PasswordAttempt};

/// Octets of a made-up name.
const DECOY_BYTES: usize = 12;

/// The sources of a configuration.
#[derive(Debug)]
pub(crate) struct OutsideLogins {
    programs: Vec<AuthProgram>,
    directories: Vec<Directory>,
    has_providers: bool,
}

impl OutsideLogins {
    /// Prepares the sources of a configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            programs: config.authenticators.iter().map(AuthProgram::new).collect(),
            directories: config.directories.iter().map(Directory::new).collect(),
            has_providers: !config.providers.is_empty(),
        }
    }

    /// Returns true if any source checks passwords.
    pub fn check_passwords(&self) -> bool {
        !self.programs.is_empty() || !self.directories.is_empty()
    }

    /// Returns true if users come from outside, with a password or from a provider.
    pub fn have_users(&self) -> bool {
        self.check_passwords() || self.has_providers
    }

    /// Asks the sources about a made-up name, with another password of this length; returns whether one of
    /// them could not be asked.
    pub async fn are_unavailable(&self, caller: &ClientEndpoint, password: &[u8]) -> bool {
        if !self.check_passwords() {
            return false;
        }
        let Ok(octets) = random::<DECOY_BYTES>() else { return true };
        let name = format!("x{}", hex::digits(&octets));
        // Bytes with which some sources are not asked at all stay.
        let hidden = |byte: &u8| if matches!(byte, b'\r' | b'\n' | 0) { *byte } else { b'x' };
        let password: Vec<u8> = password.iter().map(hidden).collect();
        let attempt =
            PasswordAttempt { caller, name: name.as_bytes(), password: &password, locked: &|| None };
        self.ask(&attempt).await == OutsideVerdict::Unavailable
    }

    /// Asks the sources about a name and a password.
    pub async fn ask(&self, attempt: &PasswordAttempt<'_>) -> OutsideVerdict {
        let mut verdict = OutsideVerdict::Refused;
        for program in &self.programs {
            match program.ask(attempt).await {
                OutsideVerdict::Refused => {}
                OutsideVerdict::Unavailable => verdict = OutsideVerdict::Unavailable,
                decided => return decided,
            }
        }
        for directory in &self.directories {
            match directory.ask(attempt).await {
                OutsideVerdict::Refused => {}
                OutsideVerdict::Unavailable => verdict = OutsideVerdict::Unavailable,
                decided => return decided,
            }
        }
        verdict
    }
}
