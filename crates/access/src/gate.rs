//! The gate: checks credentials, and slows down guessing for the guesser alone.
//!
//! Checking a password costs 19 MiB and tens of milliseconds, so it is done on blocking threads, few at once;
//! a client that is locked out costs nothing. Users that do not exist take as long as those that do. Every
//! outcome is logged, failures as `WARN ... authentication failed address=A user=U ...`, which
//! packaging/fail2ban reads; of a lock-out only the first refused attempt is logged. There is one gate per
//! server, called by the session's AUTHINFO. Sources: RFC 4643 sections 5 and 6.

mod changing;
mod mailing;
mod signing_up;

use super::endpoint::ClientEndpoint;
use super::lockout::{ActiveLockout, LockoutTable};
use super::outside::{OutsideLogins, OutsideUser, OutsideVerdict, PasswordAttempt};
use super::users::{ScramKeys, UserStore, UserTable, decoy_check, prepared, prepared_password, random};
use super::{SpentTokens, User};
use arc_swap::ArcSwap;
use disk::Disk;
use lock_order::OrderedRw;
use site_base::counters::add;
use site_base::lock::rank;
use site_config::{Auth, Config};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::{debug, error, info, warn};

pub use changing::PasswordChangeDenial;
pub use mailing::SignUpMail;
pub use signing_up::{NOTE_BYTES_MAX, SignUpDenial, is_reserved, is_sign_up_name};

/// Target of the lines about failed logins, as `packaging/fail2ban` and filters of operators know it.
const LOG_TARGET: &str = "newsreel::access::gate";

/// The reason why a client is not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginDenial {
    /// The user does not exist, or the password is wrong.
    Wrong,
    /// Locked out for this time.
    Locked(Duration),
    /// Another source has accepted the client, under a name that is no user's name here
    /// ([`NAME_RULE`](crate::users::NAME_RULE)).
    Nameless,
    /// A failure of the server.
    Trouble,
}

/// Reason why a user from outside is no user here.
enum OutsideFault {
    /// The name is invalid.
    Name,
    /// It is the name of a user with a password here, for whom no other source speaks.
    Taken,
}

/// Result of checking a name and password against the users file.
enum PasswordVerdict {
    Right(User),
    Wrong,
    /// The users file has no password for this name.
    NotHere,
}

/// Counts of logins since the start.
#[derive(Debug, Default)]
pub struct LoginCounters {
    /// Logins.
    pub succeeded: AtomicU64,
    /// Attempts with a wrong name or password.
    pub failed: AtomicU64,
    /// Failures that locked out an address or a user.
    pub lock_outs: AtomicU64,
    /// Attempts refused because of a lock-out.
    pub refused: AtomicU64,
}

/// Checks credentials.
#[derive(Debug)]
pub struct LoginGate {
    /// Counts since the start.
    pub logins: LoginCounters,
    store: Arc<UserStore>,
    outside: ArcSwap<OutsideLogins>,
    checks: ArcSwap<Semaphore>,
    lockout: OrderedRw<LockoutTable, { rank::LOCKOUTS }>,
    /// Links to new accounts that were used.
    spent: SpentTokens,
    /// Secret from which salts for unknown users are made while there is no users file.
    decoy: [u8; 16],
}

impl LoginGate {
    /// Opens the users file and prepares the sources of other users of a configuration.
    pub fn new(disk: Arc<dyn Disk>, config: &Config) -> Self {
        let auth: &Auth = &config.auth;
        Self {
            logins: LoginCounters::default(),
            store: Arc::new(UserStore::open(disk, config.site.data.clone())),
            outside: ArcSwap::from_pointee(OutsideLogins::new(config)),
            checks: ArcSwap::from_pointee(Semaphore::new(auth.password_checks_max)),
            lockout: OrderedRw::new(LockoutTable::new(auth)),
            spent: SpentTokens::default(),
            // Without random numbers TLS would not start either; predictable salts then only reveal that a
            // user has no credentials here.
            decoy: random().unwrap_or_default(),
        }
    }

    /// Applies another configuration; checks that are under way finish under the previous one.
    pub fn apply(&self, config: &Config) {
        self.outside.store(Arc::new(OutsideLogins::new(config)));
        self.checks.store(Arc::new(Semaphore::new(config.auth.password_checks_max)));
        self.lockout.write().set_limits(&config.auth);
        self.store.table();
    }

    /// Returns a logged-in user as in the users file now; `None` if a login by that name would no longer
    /// succeed. `proven` means that the client's certificate has the name.
    pub fn still(&self, user: &User, proven: bool) -> Option<Arc<User>> {
        let table = self.store.recent();
        match table.as_ref().and_then(|table| table.get(&user.name)) {
            // No other source speaks for a user who has a password here by now.
            Some(record) if record.credentials.is_some() => Some(Arc::new(record.user.clone())),
            _ if !proven && !self.outside.load().have_users() => None,
            Some(record) => Some(Arc::new(User { granted: user.granted.clone(), ..record.user.clone() })),
            None => Some(Arc::new(User { groups: Box::default(), ..user.clone() })),
        }
    }

    /// Returns a hash of the user's stored password hash, or of its absence: another password yields another
    /// value, as salts differ.
    pub fn password_mark(&self, name: &str) -> u64 {
        let table = self.store.recent();
        let record = table.as_ref().and_then(|table| table.get(name));
        let mut hasher = DefaultHasher::new();
        record.and_then(|record| record.credentials.as_ref()).map(|own| &own.argon2).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns true if there may be users with a password, here, with a program or in a directory.
    pub fn has_passwords(&self) -> bool {
        self.outside.load().check_passwords() || self.has_users()
    }

    /// Returns true if the users file has any users.
    pub fn has_users(&self) -> bool {
        self.store.recent().is_some_and(|table| !table.is_empty()) || self.store.is_unknown()
    }

    /// Reads the users file again if it has changed.
    pub async fn refresh(&self) {
        let store = self.store.clone();
        let _panicked = spawn_blocking(move || store.table()).await;
    }

    /// Logs a client in by name and password, as received.
    pub async fn password(
        &self,
        caller: &ClientEndpoint,
        name: &[u8],
        password: &[u8],
        how: &'static str,
    ) -> Result<Arc<User>, LoginDenial> {
        self.open_to(caller, name)?;
        let verdict = {
            let permit = self.checks.load_full().acquire_owned().await.map_err(|_| LoginDenial::Trouble)?;
            // Others may have failed while this one waited for a permit.
            self.open_to(caller, name)?;
            let (store, asked) = (self.store.clone(), prepared(name));
            let password = prepared_password(password);
            let check = move || {
                let _permit = permit;
                check(store.table().as_deref(), asked.as_deref(), password.as_deref())
            };
            spawn_blocking(check).await.map_err(|error| {
                error!(%error, "checking a password failed");
                LoginDenial::Trouble
            })?
        };
        match verdict {
            PasswordVerdict::Right(user) => Ok(self.welcome(caller, user, how)),
            PasswordVerdict::Wrong => {
                let denial = self.deny(caller, name, how);
                // Answered as other names are now.
                match self.outside.load_full().are_unavailable(caller, password).await {
                    true => Err(LoginDenial::Trouble),
                    false => Err(denial),
                }
            }
            // Another source might accept the client under a name in the users file, which is unreadable.
            PasswordVerdict::NotHere if self.store.is_unknown() => Err(LoginDenial::Trouble),
            PasswordVerdict::NotHere => {
                let locked = || match self.open_to(caller, name) {
                    Err(LoginDenial::Locked(left)) => Some(left),
                    _ => None,
                };
                let attempt = PasswordAttempt { caller, name, password, locked: &locked };
                match self.outside.load_full().ask(&attempt).await {
                    OutsideVerdict::Accepted(found) => match self.known_as_outside(found) {
                        Ok(user) => Ok(self.welcome(caller, user, how)),
                        Err(OutsideFault::Name) => Err(LoginDenial::Nameless),
                        Err(OutsideFault::Taken) => Err(self.deny(caller, name, how)),
                    },
                    OutsideVerdict::Refused => Err(self.deny(caller, name, how)),
                    OutsideVerdict::Unavailable => Err(LoginDenial::Trouble),
                    OutsideVerdict::Locked(left) => Err(LoginDenial::Locked(left)),
                }
            }
        }
    }

    /// Logs a client in as a user that a provider vouches for, in these groups. Nothing of that can be
    /// guessed.
    pub async fn vouched(
        &self,
        caller: &ClientEndpoint,
        name: &str,
        groups: Box<[Box<str>]>,
        how: &'static str,
    ) -> Result<Arc<User>, LoginDenial> {
        self.refresh().await;
        if self.store.is_unknown() {
            return Err(LoginDenial::Trouble);
        }
        match self.known_as_outside(OutsideUser { name: name.into(), groups }) {
            Ok(user) => Ok(self.welcome(caller, user, how)),
            Err(OutsideFault::Name) => Err(LoginDenial::Nameless),
            Err(OutsideFault::Taken) => Err(self.deny(caller, name.as_bytes(), how)),
        }
    }

    /// Returns the user that a source from outside has accepted. An invalid name is logged, as the operator
    /// can choose another attribute or claim; it is no failure of the client, who has proven who it is.
    fn known_as_outside(&self, found: OutsideUser) -> Result<User, OutsideFault> {
        let Some(name) = prepared(&found.name) else {
            let name = &*String::from_utf8_lossy(&found.name);
            warn!(name, "a login from outside has a name that cannot be a user's name");
            return Err(OutsideFault::Name);
        };
        if self.has_own_password(&name) {
            warn!(user = name, "a login from outside has the name of a user with a password here");
            return Err(OutsideFault::Taken);
        }
        Ok(User { granted: found.groups, ..self.known_as(name) })
    }

    /// Returns the user of that name, with the groups from the users file.
    fn known_as(&self, name: String) -> User {
        let table = self.store.recent();
        let record = table.as_ref().and_then(|table| table.get(&name));
        record.map_or_else(|| User::named(name.as_str()), |record| record.user.clone())
    }

    /// Returns the SCRAM keys of a user, or decoy keys for an unknown one.
    pub async fn keys(&self, caller: &ClientEndpoint, name: &str) -> Result<ScramKeys, LoginDenial> {
        self.open_to(caller, name.as_bytes())?;
        self.refresh().await;
        if self.store.is_unknown() {
            return Err(LoginDenial::Trouble);
        }
        let table = self.store.recent();
        let credentials = table.as_ref().and_then(|table| table.get(name)?.credentials.as_ref());
        let decoy = table.as_ref().map_or(&self.decoy, |table| &table.decoy);
        Ok(credentials.map_or_else(|| ScramKeys::decoy(decoy, name), |credentials| credentials.scram.clone()))
    }

    /// Logs in a client that has proven to be `name` by itself.
    pub fn proven(
        &self,
        caller: &ClientEndpoint,
        name: String,
        how: &'static str,
    ) -> Result<Arc<User>, LoginDenial> {
        // A proof counts for nothing while the client is locked out; otherwise it could go on guessing.
        self.open_to(caller, name.as_bytes())?;
        Ok(self.welcome(caller, self.known_as(name), how))
    }

    /// Logs a client in by the proven names of its certificate: as the name that it wants, else as the first
    /// that is in the users file, else as the first.
    pub async fn certificate(
        &self,
        caller: &ClientEndpoint,
        names: &[&str],
        wanted: Option<String>,
    ) -> Result<Arc<User>, LoginDenial> {
        const HOW: &str = "EXTERNAL";
        self.refresh().await;
        let names: Vec<String> = names.iter().filter_map(|name| prepared(name.as_bytes())).collect();
        let table = self.store.recent();
        let is_user = |name: &&String| table.as_ref().is_some_and(|table| table.get(name).is_some());
        let chosen = match &wanted {
            Some(wanted) => names.iter().find(|name| *name == wanted),
            None => names.iter().find(is_user).or(names.first()),
        };
        match chosen {
            Some(name) => self.proven(caller, name.clone(), HOW),
            None => Err(self.deny(caller, wanted.unwrap_or_default().as_bytes(), HOW)),
        }
    }

    /// Counts and logs a failure.
    pub fn deny(&self, caller: &ClientEndpoint, name: &[u8], how: &'static str) -> LoginDenial {
        let counted = self.lockout.read().failed(caller.address, name, Instant::now());
        add(&self.logins.failed, 1);
        add(&self.logins.lock_outs, usize::from(!counted.locked.is_zero()));
        warn!(
            target: LOG_TARGET,
            address = %caller.address,
            user = &*String::from_utf8_lossy(name),
            mechanism = how,
            failures = counted.failures,
            locked_out_secs = counted.locked.as_secs(),
            "authentication failed"
        );
        LoginDenial::Wrong
    }

    fn welcome(&self, caller: &ClientEndpoint, user: User, how: &'static str) -> Arc<User> {
        add(&self.logins.succeeded, 1);
        self.lockout.read().succeeded(caller.address, user.name.as_bytes(), Instant::now());
        info!(address = %caller.address, user = &*user.name, mechanism = how, "logged in");
        Arc::new(user)
    }

    /// Returns an error while the client is locked out.
    pub fn open_to(&self, caller: &ClientEndpoint, name: &[u8]) -> Result<(), LoginDenial> {
        match self.lockout.read().locked(caller.address, name, Instant::now()) {
            None => Ok(()),
            Some(ActiveLockout { left, is_first }) => {
                add(&self.logins.refused, 1);
                let user = &*String::from_utf8_lossy(name);
                if is_first {
                    let left_secs = left.as_secs();
                    warn!(
                        target: LOG_TARGET,
                        address = %caller.address,
                        user,
                        left_secs,
                        "authentication refused: locked out"
                    );
                } else {
                    debug!(
                        target: LOG_TARGET,
                        address = %caller.address,
                        user,
                        "authentication refused: locked out"
                    );
                }
                Err(LoginDenial::Locked(left))
            }
        }
    }
}

/// Checks a password against the users file; takes equally long whether or not the user exists.
fn check(table: Option<&UserTable>, name: Option<&str>, password: Option<&[u8]>) -> PasswordVerdict {
    let record = table.zip(name).and_then(|(table, name)| table.get(name));
    match (record.and_then(|record| Some((&record.user, record.credentials.as_ref()?))), password) {
        (Some((user, credentials)), Some(password)) => {
            if credentials.argon2.verifies(password) {
                PasswordVerdict::Right(user.clone())
            } else {
                PasswordVerdict::Wrong
            }
        }
        (Some(_), None) => PasswordVerdict::Wrong,
        (None, password) => {
            decoy_check(password.unwrap_or_default());
            PasswordVerdict::NotHere
        }
    }
}
