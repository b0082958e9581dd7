//! Why a mail was not sent, and with that whether it is tried again.
//!
//! Returned by `sendmail` and `smtp`; `moderation` decides by it.

/// Why a mail was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unsent {
    /// No mail can be sent at present.
    Down(String),
    /// Not this one now.
    Later(String),
    /// Never this one.
    Never(String),
}
