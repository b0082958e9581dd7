//! A client of LDAP with as much of it as a login needs: bind, search, and TLS.
//!
//! One request is under way at a time. Nothing that a directory sends is trusted: a message, an answer and
//! all that is received over a connection have limits on their size; the caller sets one on the time. Called
//! by `directory`. Sources: RFC 4511, RFC 4513.

mod ber;
mod message;

pub(super) use ber::text_in;
pub(super) use message::{LdapEntry, LdapScope, SearchRequest};

use ber::ElementLength;
use message::{LdapAnswer, LdapResult};
use nntp_io::{ConnectOptions, Connection, Security, TlsOptions};
use std::fmt;

/// Longest message that is read, in bytes: an entry with some thousand groups.
const MESSAGE_BYTES_MAX: usize = 512 << 10;
/// Most bytes that are read over a connection.
const RECEIVED_BYTES_MAX: u64 = 4 << 20;
/// Most messages in the answer to a request.
const MESSAGES_MAX: usize = 2000;

/// Result codes of RFC 4511 appendix A that are distinguished.
mod code {
    pub const SUCCESS: u32 = 0;
    pub const SIZE_LIMIT_EXCEEDED: u32 = 4;
    pub const CONSTRAINT_VIOLATION: u32 = 19;
    pub const NO_SUCH_OBJECT: u32 = 32;
    pub const INVALID_DN_SYNTAX: u32 = 34;
    pub const INAPPROPRIATE_AUTHENTICATION: u32 = 48;
    pub const INVALID_CREDENTIALS: u32 = 49;
    pub const INSUFFICIENT_ACCESS_RIGHTS: u32 = 50;
    pub const UNWILLING_TO_PERFORM: u32 = 53;
}

/// Results of a bind that are about the user: a wrong password, no such entry, or one that may not bind.
const REFUSALS: [u32; 7] = [
    code::CONSTRAINT_VIOLATION,
    code::NO_SUCH_OBJECT,
    code::INVALID_DN_SYNTAX,
    code::INAPPROPRIATE_AUTHENTICATION,
    code::INVALID_CREDENTIALS,
    code::INSUFFICIENT_ACCESS_RIGHTS,
    code::UNWILLING_TO_PERFORM,
];

/// The reason why a directory cannot be asked.
#[derive(Debug)]
pub(super) enum LdapError {
    /// The connection failed.
    Connection(nntp_io::Error),
    /// The directory breaks the protocol, or ends the connection.
    Malformed,
    /// An answer is longer than any that a login needs.
    TooLong,
    /// The directory refuses a request.
    Refused(LdapResult),
}

impl fmt::Display for LdapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Malformed => f.write_str("the directory breaks the protocol"),
            Self::TooLong => f.write_str("an answer of the directory is too long"),
            Self::Refused(result) => write!(f, "the directory refuses: {} {}", result.code, result.text),
        }
    }
}

impl std::error::Error for LdapError {}

impl From<nntp_io::Error> for LdapError {
    fn from(error: nntp_io::Error) -> Self {
        Self::Connection(error)
    }
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LdapFound {
    pub entries: Vec<LdapEntry>,
    /// There are more entries than were asked for, or than the directory returns.
    pub has_more: bool,
}

/// A connection to a directory.
pub(super) struct LdapConnection {
    connection: Connection,
    last_id: u32,
}

impl LdapConnection {
    /// Connects; TLS is used as `options` say, from the first octet or after a request for it.
    pub async fn open(options: &ConnectOptions) -> Result<Self, LdapError> {
        let mut own = Self { connection: Connection::connect(options).await?, last_id: 0 };
        if let Security::StartTls(TlsOptions { config, name }) = &options.security {
            own.request(&message::start_tls()).await?;
            match own.answer().await? {
                LdapAnswer::Extended(result) if result.code == code::SUCCESS => {}
                LdapAnswer::Extended(result) => return Err(LdapError::Refused(result)),
                _ => return Err(LdapError::Malformed),
            }
            own.connection.start_tls(config.clone(), name.clone()).await?;
        }
        Ok(own)
    }

    /// Binds as an entry; returns whether its password is right. An empty password is never sent: it would
    /// ask for an anonymous connection, which directories grant (RFC 4513 section 5.1.2).
    pub async fn bind(&mut self, dn: &str, password: &[u8]) -> Result<bool, LdapError> {
        if dn.is_empty() || password.is_empty() {
            return Ok(false);
        }
        self.request(&message::bind(dn, password)).await?;
        match self.answer().await? {
            LdapAnswer::Bind(result) if result.code == code::SUCCESS => Ok(true),
            LdapAnswer::Bind(result) if REFUSALS.contains(&result.code) => Ok(false),
            LdapAnswer::Bind(result) => Err(LdapError::Refused(result)),
            _ => Err(LdapError::Malformed),
        }
    }

    /// Searches; returns at most as many entries as are requested. The directory is asked for one more, which
    /// shows whether there are more. A base that does not exist, or may not be seen, is an error unless it is
    /// the one entry that is looked for.
    pub async fn search(&mut self, request: &SearchRequest<'_>) -> Result<LdapFound, LdapError> {
        let entries_max = request.entries_max.saturating_add(1);
        self.request(&message::search(&SearchRequest { entries_max, ..*request })).await?;
        let mut found = LdapFound::default();
        for _ in 0..MESSAGES_MAX {
            match self.answer().await? {
                LdapAnswer::Entry(entry) if found.entries.len() < request.entries_max => {
                    found.entries.push(entry)
                }
                LdapAnswer::Entry(_) => found.has_more = true,
                LdapAnswer::Reference => {}
                LdapAnswer::SearchDone(result) => match result.code {
                    code::SUCCESS => return Ok(found),
                    code::NO_SUCH_OBJECT if request.scope == LdapScope::Base => return Ok(found),
                    code::SIZE_LIMIT_EXCEEDED => return Ok(LdapFound { has_more: true, ..found }),
                    _ => return Err(LdapError::Refused(result)),
                },
                _ => return Err(LdapError::Malformed),
            }
        }
        Err(LdapError::TooLong)
    }

    /// Ends the session with the directory, and the connection.
    pub async fn close(mut self) {
        // No answer follows an unbind, and a connection that has failed needs none.
        let _left = self.request(&message::unbind()).await;
        let _left = self.connection.shutdown().await;
    }

    async fn request(&mut self, operation: &[u8]) -> Result<(), LdapError> {
        self.last_id += 1;
        self.connection.queue_owned(message::enveloped(self.last_id, operation));
        Ok(self.connection.flush().await?)
    }

    /// Waits for the next message that answers the last request.
    async fn answer(&mut self) -> Result<LdapAnswer, LdapError> {
        loop {
            if self.connection.received_bytes() > RECEIVED_BYTES_MAX {
                return Err(LdapError::TooLong);
            }
            match ber::element_length(self.connection.unread()) {
                ElementLength::Invalid => return Err(LdapError::Malformed),
                ElementLength::Known(bytes) if bytes > MESSAGE_BYTES_MAX => return Err(LdapError::TooLong),
                ElementLength::Known(bytes) if bytes <= self.connection.unread().len() => {
                    let last_id = self.last_id;
                    let (id, answer) =
                        message::parse(self.connection.take(bytes)).ok_or(LdapError::Malformed)?;
                    // Message 0 says that the directory ends the connection (RFC 4511 section 4.4).
                    return if id == last_id { Ok(answer) } else { Err(LdapError::Malformed) };
                }
                ElementLength::Known(_) | ElementLength::More => self.connection.receive().await?,
            }
        }
    }
}

/// Returns the encoded filter for a user.
pub(super) fn filter_for(filter: &site_config::LdapFilter, name: &str, dn: &str) -> Vec<u8> {
    message::filter(filter.test(), name, dn)
}

/// Returns the encoded filter that every entry passes.
pub(super) fn filter_for_any() -> Vec<u8> {
    message::present("objectClass")
}

/// Returns the number of the message that `octets` are.
#[cfg(feature = "testing")]
pub(super) fn answer_number(octets: &[u8]) -> Option<u32> {
    message::parse(octets).map(|(number, _)| number)
}

/// Returns the length of the message that `octets` begin with, as far as it can be known.
#[cfg(feature = "testing")]
pub(super) fn message_length(octets: &[u8]) -> Option<usize> {
    match ber::element_length(octets) {
        ElementLength::Known(length) => Some(length),
        ElementLength::More | ElementLength::Invalid => None,
    }
}

/// What a fake directory needs.
#[cfg(test)]
pub(super) mod testing {
    pub use super::ber::{BerReader, element, elements, number};
}
