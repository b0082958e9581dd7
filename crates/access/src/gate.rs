//! The gate: judges credentials, and makes guessing slow for the guesser alone.
//!
//! Checking a password costs 19 MiB and tens of milliseconds, so it is done on blocking threads, few at once;
//! a client that is locked out costs nothing. Users that do not exist take as long as those that do. Every
//! outcome is logged, failures as `WARN ... authentication failed address=A user=U ...`, which
//! packaging/fail2ban reads; of a lock-out the first try that it refuses. One per server; called by the
//! session's AUTHINFO. Sources: RFC 4643 sections 5 and 6.

use super::User;
use super::lockout::{Locked, Lockout};
use super::programs::Program;
use super::users::{ScramKeys, Store, Table, decoy_check, prepared, prepared_password, random};
use arc_swap::ArcSwap;
use lock_order::OrderedRw;
use site_base::counters::add;
use site_base::lock::rank;
use site_config::{Auth, Config};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::{debug, error, info, warn};

/// Whom a client is connected as.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub address: IpAddr,
    pub port: u16,
    /// Where it has connected to.
    pub local: Option<SocketAddr>,
}

/// Why a client is not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// No such user, or not the password.
    Wrong,
    /// Locked out for so long.
    Locked(Duration),
    /// Our own trouble.
    Trouble,
}

/// What the file of users says of a name and password.
enum Verdict {
    Right(User),
    Wrong,
    /// No password here.
    NotHere,
}

/// Logins since the start.
#[derive(Debug, Default)]
pub struct LoginCounters {
    pub succeeded: AtomicU64,
    pub failed: AtomicU64,
    /// Failures that locked out an address or a user.
    pub lock_outs: AtomicU64,
    /// Attempts refused because of a lock-out.
    pub refused: AtomicU64,
}

/// Judges credentials.
#[derive(Debug)]
pub struct Gate {
    pub logins: LoginCounters,
    store: Arc<Store>,
    programs: ArcSwap<Vec<Program>>,
    checks: ArcSwap<Semaphore>,
    lockout: OrderedRw<Lockout, { rank::LOCKOUTS }>,
    /// Salts for unknown users come from this while there is no file of users.
    decoy: [u8; 16],
}

impl Gate {
    pub fn new(config: &Config) -> Self {
        let auth: &Auth = &config.auth;
        Self {
            logins: LoginCounters::default(),
            store: Arc::new(Store::open(config.site.data.clone())),
            programs: ArcSwap::from_pointee(programs(config)),
            checks: ArcSwap::from_pointee(Semaphore::new(auth.password_checks_max)),
            lockout: OrderedRw::new(Lockout::new(auth)),
            // Without random numbers TLS would not start either; the salts then only give away that nobody
            // has one.
            decoy: random().unwrap_or_default(),
        }
    }

    /// Goes by another configuration; checks that are under way end by the one before.
    pub fn apply(&self, config: &Config) {
        self.programs.store(Arc::new(programs(config)));
        self.checks.store(Arc::new(Semaphore::new(config.auth.password_checks_max)));
        self.lockout.write().set_limits(&config.auth);
        self.store.table();
    }

    /// A user who has logged in, as the file of users has it now; `None`: nobody could log in by that name.
    /// `proven` says that the client's certificate has it.
    pub fn still(&self, user: &User, proven: bool) -> Option<Arc<User>> {
        let table = self.store.recent();
        match table.as_ref().and_then(|table| table.get(&user.name)) {
            Some(record) => Some(Arc::new(record.user.clone())),
            None if proven || !self.programs.load().is_empty() => {
                Some(Arc::new(User { name: user.name.clone(), groups: Box::default() }))
            }
            None => None,
        }
    }

    /// Stands for the password that a user has in the file of users, or for none: another value, another
    /// password. Salts make it so.
    pub fn password_mark(&self, name: &str) -> u64 {
        let table = self.store.recent();
        let record = table.as_ref().and_then(|table| table.get(name));
        let mut hasher = DefaultHasher::new();
        record.and_then(|record| record.credentials.as_ref()).map(|own| &own.argon2).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether anybody may have a password, here or with a program.
    pub fn has_passwords(&self) -> bool {
        !self.programs.load().is_empty() || self.has_users()
    }

    /// Whether the file of users has anybody in it.
    pub fn has_users(&self) -> bool {
        self.store.recent().is_some_and(|table| !table.is_empty()) || self.store.is_unknown()
    }

    /// Reads the file of users again if it has changed.
    pub async fn refresh(&self) {
        let store = self.store.clone();
        let _panicked = spawn_blocking(move || store.table()).await;
    }

    /// Logs a client in by name and password, as they came.
    pub async fn password(
        &self,
        caller: &Caller,
        name: &[u8],
        password: &[u8],
        how: &'static str,
    ) -> Result<Arc<User>, Denial> {
        self.open_to(caller, name)?;
        let verdict = {
            let permit = self.checks.load_full().acquire_owned().await.map_err(|_| Denial::Trouble)?;
            // Others may have failed while this one waited.
            self.open_to(caller, name)?;
            let (store, asked) = (self.store.clone(), prepared(name));
            let password = prepared_password(password);
            let check = move || {
                let _permit = permit;
                check(store.table().as_deref(), asked.as_deref(), password.as_deref())
            };
            spawn_blocking(check).await.map_err(|error| {
                error!(%error, "checking a password failed");
                Denial::Trouble
            })?
        };
        match verdict {
            Verdict::Right(user) => Ok(self.welcome(caller, user, how)),
            Verdict::Wrong => Err(self.deny(caller, name, how)),
            // A program might let in as somebody else whom the file has.
            Verdict::NotHere if self.store.is_unknown() => Err(Denial::Trouble),
            Verdict::NotHere => match self.ask_programs(caller, name, password).await {
                Some(user) => Ok(self.welcome(caller, user, how)),
                None => Err(self.deny(caller, name, how)),
            },
        }
    }

    async fn ask_programs(&self, caller: &Caller, name: &[u8], password: &[u8]) -> Option<User> {
        for program in self.programs.load_full().iter() {
            if let Some(accepted) = program.accepts(caller, name, password).await {
                return prepared(&accepted).map(|name| self.known_as(name));
            }
        }
        None
    }

    /// The user of that name, with the groups that the file of users gives it.
    fn known_as(&self, name: String) -> User {
        let table = self.store.recent();
        let record = table.as_ref().and_then(|table| table.get(&name));
        record
            .map_or_else(|| User { name: name.into(), groups: Box::default() }, |record| record.user.clone())
    }

    /// The SCRAM keys of a user, or such as nobody has.
    pub async fn keys(&self, caller: &Caller, name: &str) -> Result<ScramKeys, Denial> {
        self.open_to(caller, name.as_bytes())?;
        self.refresh().await;
        if self.store.is_unknown() {
            return Err(Denial::Trouble);
        }
        let table = self.store.recent();
        let credentials = table.as_ref().and_then(|table| table.get(name)?.credentials.as_ref());
        let decoy = table.as_ref().map_or(&self.decoy, |table| &table.decoy);
        Ok(credentials.map_or_else(|| ScramKeys::decoy(decoy, name), |credentials| credentials.scram.clone()))
    }

    /// Logs in a client that has proven to be `name` by itself.
    pub fn proven(&self, caller: &Caller, name: String, how: &'static str) -> Result<Arc<User>, Denial> {
        // A proof counts for nothing while the client is locked out, or it could guess on.
        self.open_to(caller, name.as_bytes())?;
        Ok(self.welcome(caller, self.known_as(name), how))
    }

    /// Logs a client in by the proven names of its certificate: as the one it wants to be, else as the first
    /// that is a user's, else as the first.
    pub async fn certificate(
        &self,
        caller: &Caller,
        names: &[&str],
        wanted: Option<String>,
    ) -> Result<Arc<User>, Denial> {
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
    pub fn deny(&self, caller: &Caller, name: &[u8], how: &'static str) -> Denial {
        let counted = self.lockout.read().failed(caller.address, name, Instant::now());
        add(&self.logins.failed, 1);
        add(&self.logins.lock_outs, usize::from(!counted.locked.is_zero()));
        warn!(
            address = %caller.address,
            user = &*String::from_utf8_lossy(name),
            mechanism = how,
            failures = counted.failures,
            locked_out_secs = counted.locked.as_secs(),
            "authentication failed"
        );
        Denial::Wrong
    }

    fn welcome(&self, caller: &Caller, user: User, how: &'static str) -> Arc<User> {
        add(&self.logins.succeeded, 1);
        self.lockout.read().succeeded(caller.address, user.name.as_bytes(), Instant::now());
        info!(address = %caller.address, user = &*user.name, mechanism = how, "logged in");
        Arc::new(user)
    }

    fn open_to(&self, caller: &Caller, name: &[u8]) -> Result<(), Denial> {
        match self.lockout.read().locked(caller.address, name, Instant::now()) {
            None => Ok(()),
            Some(Locked { left, is_first }) => {
                add(&self.logins.refused, 1);
                let user = &*String::from_utf8_lossy(name);
                if is_first {
                    let left_secs = left.as_secs();
                    warn!(address = %caller.address, user, left_secs, "authentication refused: locked out");
                } else {
                    debug!(address = %caller.address, user, "authentication refused: locked out");
                }
                Err(Denial::Locked(left))
            }
        }
    }
}

fn programs(config: &Config) -> Vec<Program> {
    config.authenticators.iter().map(Program::new).collect()
}

/// What the file of users says; takes equally long whether there is such a user or not.
fn check(table: Option<&Table>, name: Option<&str>, password: Option<&[u8]>) -> Verdict {
    let record = table.zip(name).and_then(|(table, name)| table.get(name));
    match (record.and_then(|record| Some((&record.user, record.credentials.as_ref()?))), password) {
        (Some((user, credentials)), Some(password)) => {
            if credentials.argon2.verifies(password) {
                Verdict::Right(user.clone())
            } else {
                Verdict::Wrong
            }
        }
        (Some(_), None) => Verdict::Wrong,
        (None, password) => {
            decoy_check(password.unwrap_or_default());
            Verdict::NotHere
        }
    }
}
