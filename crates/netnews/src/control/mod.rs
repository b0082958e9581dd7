//! Control messages and withdrawals: requests of an article to the servers it reaches.
//!
//! The Control header names a command and its arguments; `cancel` and the Supersedes header withdraw an
//! article. Policy is decided elsewhere: this module only parses. Called by ingest, inject and the choice of
//! groups. Sources: RFC 5536 sections 3.2.3 and 3.2.12, RFC 5537 sections 5.2 (bodies in `group_info`) to
//! 5.5, RFC 8315 (in `cancel_lock`); `nocem` has a source of its own.

pub mod cancel_lock;
pub mod group_info;
pub mod nocem;
pub mod pgp_sig;

use crate::article::{Article, Known};
use crate::message_id::MessageId;
use std::fmt;

/// Request of a Control header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlCommand<'a> {
    /// Withdraw this article.
    Cancel(MessageId<'a>),
    /// Create a group, moderated or not.
    Newgroup {
        /// Name of the group, not checked.
        name: &'a [u8],
        /// True if the flag `moderated` follows.
        moderated: bool,
    },
    /// Remove a group.
    Rmgroup(&'a [u8]),
    /// The body lists the groups of a hierarchy.
    Checkgroups,
    /// `ihave`, `sendme`, `sendsys` and other verbs that agents no longer act on.
    Other(&'a [u8]),
}

/// Reason why a Control or Supersedes header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// There is no verb.
    NoVerb,
    /// The verb contains octets that are not allowed in one.
    BadVerb,
    /// `cancel` or Supersedes without one Message-ID.
    NoTarget,
    /// `newgroup` or `rmgroup` without a group.
    NoGroup,
    /// `newgroup` with a flag that is not defined (RFC 5537 section 5.2.1).
    UnknownFlag,
    /// Both Control and Supersedes (RFC 5536 section 3.2.3 forbids it).
    Both,
    /// The header is present more than once.
    Repeated(Known),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVerb => f.write_str("Control header without a command"),
            Self::BadVerb => f.write_str("Control header with a malformed command"),
            Self::NoTarget => f.write_str("no Message-ID of the article to withdraw"),
            Self::NoGroup => f.write_str("Control header without a newsgroup"),
            Self::UnknownFlag => f.write_str("newgroup with a flag other than \"moderated\""),
            Self::Both => f.write_str("both Control and Supersedes headers"),
            Self::Repeated(known) => write!(f, "repeated {} header", known.name()),
        }
    }
}

impl std::error::Error for ControlError {}

/// Returns the words of a header's value.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Returns the verb of a Control header; the empty word if there is none.
pub fn verb(value: &[u8]) -> &[u8] {
    words(value).next().unwrap_or_default()
}

/// Reads the value of a Control header. Verbs are accepted in any case.
pub fn parse(value: &[u8]) -> Result<ControlCommand<'_>, ControlError> {
    let mut words = words(value);
    let verb = words.next().ok_or(ControlError::NoVerb)?;
    if !verb.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Err(ControlError::BadVerb);
    }
    let is = |name: &[u8]| verb.eq_ignore_ascii_case(name);
    if is(b"cancel") {
        let id = words.next().and_then(MessageId::parse).ok_or(ControlError::NoTarget)?;
        return Ok(ControlCommand::Cancel(id));
    }
    if is(b"newgroup") {
        let name = words.next().ok_or(ControlError::NoGroup)?;
        let moderated = match words.next() {
            None => false,
            // `unmoderated` is not in the standard, but common.
            Some(flag) if flag.eq_ignore_ascii_case(b"unmoderated") => false,
            Some(flag) if flag.eq_ignore_ascii_case(b"moderated") => true,
            Some(_) => return Err(ControlError::UnknownFlag),
        };
        return Ok(ControlCommand::Newgroup { name, moderated });
    }
    if is(b"rmgroup") {
        return words.next().map(ControlCommand::Rmgroup).ok_or(ControlError::NoGroup);
    }
    Ok(if is(b"checkgroups") { ControlCommand::Checkgroups } else { ControlCommand::Other(verb) })
}

/// Withdrawal of another article.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal<'a> {
    /// By `ControlCommand: cancel`.
    Cancel(MessageId<'a>),
    /// Withdrawal by Supersedes: the article replaces the other.
    Supersede(MessageId<'a>),
}

impl<'a> Withdrawal<'a> {
    /// Returns the Message-ID of the article that is withdrawn.
    pub fn target(&self) -> MessageId<'a> {
        match self {
            Self::Cancel(id) | Self::Supersede(id) => *id,
        }
    }
}

/// Returns the withdrawal that `article` asks for; `None` for nearly every article.
pub fn withdrawal<'a>(article: &Article<'a>) -> Result<Option<Withdrawal<'a>>, ControlError> {
    let (control, supersedes) = (article.header(Known::Control), article.header(Known::Supersedes));
    for known in [Known::Control, Known::Supersedes] {
        if article.count(known) > 1 {
            return Err(ControlError::Repeated(known));
        }
    }
    match (control, supersedes) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(ControlError::Both),
        (None, Some(value)) => {
            let id = MessageId::from_header(value).ok_or(ControlError::NoTarget)?;
            Ok(Some(Withdrawal::Supersede(id)))
        }
        (Some(value), None) => Ok(match parse(value)? {
            ControlCommand::Cancel(id) => Some(Withdrawal::Cancel(id)),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_control_headers() {
        let id = MessageId::parse(b"<a@b>").unwrap();
        for (value, expected) in [
            ("cancel <a@b>", Ok(ControlCommand::Cancel(id))),
            ("CANCEL\r\n <a@b> ", Ok(ControlCommand::Cancel(id))),
            ("cancel", Err(ControlError::NoTarget)),
            ("cancel a@b", Err(ControlError::NoTarget)),
            ("newgroup x.y moderated", Ok(ControlCommand::Newgroup { name: b"x.y", moderated: true })),
            ("newgroup x.y", Ok(ControlCommand::Newgroup { name: b"x.y", moderated: false })),
            ("newgroup x.y unmoderated", Ok(ControlCommand::Newgroup { name: b"x.y", moderated: false })),
            ("newgroup x.y =z", Err(ControlError::UnknownFlag)),
            ("newgroup", Err(ControlError::NoGroup)),
            ("rmgroup x.y", Ok(ControlCommand::Rmgroup(b"x.y"))),
            ("rmgroup ", Err(ControlError::NoGroup)),
            ("checkgroups x #2026", Ok(ControlCommand::Checkgroups)),
            ("sendsys", Ok(ControlCommand::Other(b"sendsys"))),
            ("../../etc", Err(ControlError::BadVerb)),
            (" ", Err(ControlError::NoVerb)),
        ] {
            assert_eq!(parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn withdrawals_by_cancel_and_supersedes() {
        let id = MessageId::parse(b"<a@b>").unwrap();
        for (head, expected) in [
            ("Subject: cmsg cancel <a@b>", Ok(None)),
            ("Control: cancel <a@b>", Ok(Some(Withdrawal::Cancel(id)))),
            ("Control: newgroup x", Ok(None)),
            ("Supersedes: <a@b>", Ok(Some(Withdrawal::Supersede(id)))),
            ("Supersedes: <a@b> <c@d>", Err(ControlError::NoTarget)),
            ("Supersedes: <a@b>\r\nControl: cancel <a@b>", Err(ControlError::Both)),
            ("Supersedes: <a@b>\r\nSupersedes: <c@d>", Err(ControlError::Repeated(Known::Supersedes))),
        ] {
            let wire = format!("{head}\r\n\r\n");
            assert_eq!(withdrawal(&Article::parse(wire.as_bytes()).unwrap()), expected, "{head}");
        }
    }
}
