//! Rules of the injecting agent: requirements on a proto-article, and the headers that make it an article.
//!
//! Pure: clock, random octets, hashes and policy are arguments. `check` checks the headers, `body` the body;
//! `complete` builds the article, `elsewhere` turns it back into a proto-article, `moderation` writes the
//! mail to a moderator; `InjectionError` explains to the poster what to do. Called by newsreel's `inject`.
//! Sources: RFC 5537 sections 3.4.1 and 3.5, RFC 5536 section 3, and the checks of INN's nnrpd.

mod body;
mod check;
mod complete;
mod elsewhere;
mod mailbox;
pub mod moderation;
mod objection;

pub use body::check as check_body;
pub use check::check as check_headers;
pub use complete::{InjectionStamp, append_info, complete, message_id};
pub use elsewhere::for_another;
pub use mailbox::{is_address, is_mailbox_list};
pub use objection::InjectionError;

/// Maximum length of a header line and, by default, of a body line, in octets without CRLF (RFC 5536 section
/// 2.2).
pub const LINE_BYTES_MAX: usize = 998;

/// Requirements of a site on proto-articles beyond the standards.
#[derive(Clone, Copy, Debug)]
pub struct InjectionRules {
    /// Maximum size of a proto-article, in bytes.
    pub article_bytes_max: u64,
    /// Maximum age of Date, in seconds; `None`: any age.
    pub age_secs_max: Option<i64>,
    /// Maximum number of groups in Newsgroups.
    pub groups_max: usize,
    /// Maximum number of groups in Followup-To.
    pub followup_groups_max: usize,
    /// Maximum length of a line of the body, in bytes without CRLF.
    pub line_bytes_max: usize,
    /// True if a body that quotes more than it adds is rejected.
    pub check_quoted: bool,
}
