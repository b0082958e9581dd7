//! The injecting agent's rules: requirements on a proto-article, and what is added to make it an article.
//!
//! Pure: clock, random octets, hashes and policy are arguments. `check` checks the headers, `body` what
//! follows them, `complete` builds the article, `elsewhere` a proto-article of it again, `moderation` the
//! mail to a moderator; `Objection` tells the poster what to do. Called by newsreel's `inject`. Sources:
//! RFC 5537 sections 3.4.1 and 3.5, RFC 5536 section 3, and the checks of INN's nnrpd.

mod body;
mod check;
mod complete;
mod elsewhere;
mod mailbox;
pub mod moderation;
mod objection;

pub use body::check as check_body;
pub use check::check as check_headers;
pub use complete::{Stamp, append_info, complete, message_id};
pub use elsewhere::for_another;
pub use mailbox::{is_address, is_mailbox_list};
pub use objection::Objection;

/// The longest header line and, unless told otherwise, body line, in octets without CRLF (RFC 5536 section
/// 2.2).
pub const LINE_BYTES_MAX: usize = 998;

/// What a site requires of proto-articles beyond the standards.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The longest proto-article, in bytes.
    pub article_bytes_max: u64,
    /// The oldest Date, in seconds before now; `None`: any age.
    pub age_secs_max: Option<i64>,
    /// The most groups in Newsgroups.
    pub groups_max: usize,
    /// The most groups in Followup-To.
    pub followup_groups_max: usize,
    /// The longest line of the body, in bytes without CRLF.
    pub line_bytes_max: usize,
    /// Whether a body that quotes more than it adds is refused.
    pub check_quoted: bool,
}
