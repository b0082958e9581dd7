//! Reasons why a mail was not sent, which decide whether it is tried again.
//!
//! Returned by `sendmail` and `smtp`; evaluated by `moderation`.

/// The reason why a mail was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MailError {
    /// No mail can be sent at present.
    Down(String),
    /// This mail cannot be sent now.
    Later(String),
    /// This mail can never be sent.
    Never(String),
}
