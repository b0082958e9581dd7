//! `[auth]` and `[[authenticator]]`: values, drafts, reading and writing.
//!
//! Called by `read`, `draft` and `write`; the keys stand in `keys/auth.rs`.

use super::draft::At;
use super::read::{Entry, Reader};
use super::words::Word;
use super::write::{Lines, list, span};
use super::{Cidr, values};
use std::time::Duration;

/// A way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// AUTHINFO USER and PASS.
    User,
    /// SASL PLAIN (RFC 4616).
    Plain,
    /// SASL SCRAM-SHA-256 (RFC 7677).
    ScramSha256,
    /// SASL EXTERNAL (RFC 4422 appendix A): the TLS client certificate.
    External,
}

impl Word for Mechanism {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("user", Self::User),
        ("plain", Self::Plain),
        ("scram-sha-256", Self::ScramSha256),
        ("external", Self::External),
    ];
}

/// `[auth]`: how clients log in.
#[derive(Debug, Clone, PartialEq)]
pub struct Auth {
    /// The ways that are offered.
    pub mechanisms: Vec<Mechanism>,
    /// Who may send passwords without TLS.
    pub plain_passwords_from: Vec<Cidr>,
    /// Passwords checked at once.
    pub password_checks_max: usize,
    /// Failures that end a connection.
    pub failures_per_connection_max: u32,
    /// Failures of one address before it is locked out.
    pub failures_per_address_max: u32,
    /// Failures of one user before that name is locked out.
    pub failures_per_user_max: u32,
    /// The first lock-out.
    pub lockout_first: Duration,
    /// The longest lock-out.
    pub lockout_longest: Duration,
    /// Addresses and users whose failures are remembered.
    pub lockout_entries_max: usize,
}

/// `[[authenticator]]`: a program that knows users.
#[derive(Debug, Clone, PartialEq)]
pub struct Authenticator {
    /// The program and its arguments; never empty.
    pub program: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Processes at once.
    pub processes_max: usize,
}

#[derive(Debug)]
pub(super) struct AuthDraft {
    mechanisms: At<Vec<Mechanism>>,
    plain_passwords_from: At<Vec<Cidr>>,
    password_checks_max: At<u64>,
    failures_per_connection_max: At<u64>,
    failures_per_address_max: At<u64>,
    failures_per_user_max: At<u64>,
    pub(super) lockout_first: At<Duration>,
    pub(super) lockout_longest: At<Duration>,
    lockout_entries_max: At<u64>,
}

#[derive(Debug)]
pub(super) struct AuthenticatorDraft {
    pub(super) program: At<Vec<String>>,
    timeout: At<Duration>,
    processes_max: At<u64>,
}

impl Reader {
    pub(super) fn auth(&mut self, entry: &Entry<'_>) -> AuthDraft {
        AuthDraft {
            mechanisms: self.get(entry, "mechanisms", values::choices),
            plain_passwords_from: self.get(entry, "plain_passwords_from", values::networks_or_none),
            password_checks_max: self.get(entry, "password_checks_max", values::integer),
            failures_per_connection_max: self.get(entry, "failures_per_connection_max", values::integer),
            failures_per_address_max: self.get(entry, "failures_per_address_max", values::integer),
            failures_per_user_max: self.get(entry, "failures_per_user_max", values::integer),
            lockout_first: self.get(entry, "lockout_first", values::span),
            lockout_longest: self.get(entry, "lockout_longest", values::span),
            lockout_entries_max: self.get(entry, "lockout_entries_max", values::integer),
        }
    }

    pub(super) fn authenticator(&mut self, entry: &Entry<'_>) -> AuthenticatorDraft {
        AuthenticatorDraft {
            program: self.get(entry, "program", values::program),
            timeout: self.get(entry, "timeout", values::span),
            processes_max: self.get(entry, "processes_max", values::integer),
        }
    }
}

impl AuthDraft {
    pub(super) fn finish(self) -> Option<Auth> {
        Some(Auth {
            mechanisms: self.mechanisms.value?,
            plain_passwords_from: self.plain_passwords_from.value?,
            password_checks_max: usize::try_from(self.password_checks_max.value?).ok()?,
            failures_per_connection_max: u32::try_from(self.failures_per_connection_max.value?).ok()?,
            failures_per_address_max: u32::try_from(self.failures_per_address_max.value?).ok()?,
            failures_per_user_max: u32::try_from(self.failures_per_user_max.value?).ok()?,
            lockout_first: self.lockout_first.value?,
            lockout_longest: self.lockout_longest.value?,
            lockout_entries_max: usize::try_from(self.lockout_entries_max.value?).ok()?,
        })
    }
}

impl AuthenticatorDraft {
    pub(super) fn finish(self) -> Option<Authenticator> {
        Some(Authenticator {
            program: self.program.value?,
            timeout: self.timeout.value?,
            processes_max: usize::try_from(self.processes_max.value?).ok()?,
        })
    }
}

pub(super) fn auth_lines(auth: &Auth) -> Lines {
    let Auth {
        mechanisms,
        plain_passwords_from,
        password_checks_max,
        failures_per_connection_max,
        failures_per_address_max,
        failures_per_user_max,
        lockout_first,
        lockout_longest,
        lockout_entries_max,
    } = auth;
    vec![
        ("mechanisms", list(mechanisms.iter().map(|mechanism| mechanism.word()))),
        ("plain_passwords_from", list(plain_passwords_from.iter().map(Cidr::to_string))),
        ("password_checks_max", password_checks_max.to_string()),
        ("failures_per_connection_max", failures_per_connection_max.to_string()),
        ("failures_per_address_max", failures_per_address_max.to_string()),
        ("failures_per_user_max", failures_per_user_max.to_string()),
        ("lockout_first", span(*lockout_first)),
        ("lockout_longest", span(*lockout_longest)),
        ("lockout_entries_max", lockout_entries_max.to_string()),
    ]
}

pub(super) fn authenticator_lines(authenticator: &Authenticator) -> Lines {
    let Authenticator { program, timeout, processes_max } = authenticator;
    vec![
        ("program", list(program)),
        ("timeout", span(*timeout)),
        ("processes_max", processes_max.to_string()),
    ]
}
