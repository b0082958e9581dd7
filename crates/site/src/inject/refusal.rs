//! Why a post is refused, in words that tell the poster what to do.
//!
//! What is wrong with the proto-article itself is `netnews::injection`'s; here is what this site's groups,
//! rights and limits add. The texts go behind `441`. Called by `inject`.

use ingest::{Filer, Reject};
use netnews::Malformed;
use netnews::injection::Objection;
use std::fmt;
use std::time::Duration;

/// Text of the poster given back in an answer, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// Why a post is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    NotPermitted,
    Objection(Objection),
    TooFast(Duration),
    UnwantedDistribution,
    ReservedName(String),
    NoSuchGroup(String),
    NotYourGroup(String),
    Closed(String),
    NoArticles(String),
    MayNotApprove(String),
    ControlNotPermitted(String),
    NoModerator(String),
    /// So many wait for moderators.
    QueueFull(usize),
    Rejected(Reject),
    /// So many wait for upstreams.
    UpstreamQueueFull(usize),
    /// The servers that have its groups have all refused it, in these words.
    RefusedElsewhere(String),
    /// What is needed to sign articles cannot be read.
    NoSecret,
    /// It is approved, and to be signed, which does not succeed for this reason.
    NotSigned(String),
    /// A filter cannot judge it now.
    Unjudged,
    /// The server is paused, in the operator's words.
    Paused(String),
    Trouble,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("Posting not permitted"),
            Self::Objection(objection) => objection.fmt(f),
            Self::TooFast(wait) => {
                // Rounded up: who waits so long is not refused again.
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                write!(f, "Posting too fast: wait {seconds} s and try again")
            }
            Self::UnwantedDistribution => write!(f, "Posting failed: {}", Reject::UnwantedDistribution),
            Self::ReservedName(name) => {
                write!(f, "\"{name}\" is a reserved name, no newsgroup; remove it from Newsgroups")
            }
            Self::NoSuchGroup(names) => write!(f, "None of these newsgroups is carried here: {names}"),
            Self::NotYourGroup(name) => write!(f, "Posting to {name} is not permitted to you"),
            Self::Closed(name) => {
                write!(f, "Posting to {name} is not permitted: it accepts articles from other servers only")
            }
            Self::NoArticles(name) => write!(f, "Posting to {name} is not permitted: it accepts no articles"),
            Self::MayNotApprove(names) => {
                write!(f, "You may not approve articles for {names}; remove the Approved header")
            }
            Self::ControlNotPermitted(verb) => {
                write!(f, "Control message {verb} is not taken from you, only cancel")
            }
            Self::NoModerator(group) => {
                write!(f, "{group} is moderated, and the address of its moderator is not known here")
            }
            Self::QueueFull(max) => {
                write!(f, "Too many posts wait for moderators (at most {max}), try again later")
            }
            Self::UpstreamQueueFull(max) => {
                write!(f, "Too many posts wait for other servers (at most {max}), try again later")
            }
            Self::RefusedElsewhere(texts) => write!(f, "Posting failed: {texts}"),
            Self::Rejected(reject) => write!(f, "Posting failed: {reject}"),
            Self::NoSecret => f.write_str(
                "Posting is not possible now: this server's posting secret cannot be read; please inform its operator",
            ),
            Self::NotSigned(why) => write!(f, "it cannot be signed: {why}"),
            Self::Paused(paused) => write!(f, "Posting failed: {paused}; try again later"),
            Self::Unjudged => f.write_str("Posts cannot be judged now, try again later"),
            Self::Trouble => f.write_str("Cannot store articles now, try again later"),
        }
    }
}

impl Refusal {
    /// The refusal of a post that came during a pause.
    pub fn paused(filer: &Filer) -> Self {
        filer.paused().map_or(Self::Unjudged, |paused| Self::Paused(paused.to_string()))
    }
}

impl From<Objection> for Refusal {
    fn from(objection: Objection) -> Self {
        Self::Objection(objection)
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Objection(Objection::Malformed(malformed))
    }
}

/// Text of the poster as it may stand in an answer.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..SHOWN_BYTES_MAX).unwrap_or(text));
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
