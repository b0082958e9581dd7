//! Reasons for refusing a post, in words that tell the poster what to do.
//!
//! Objections to the proto-article itself come from `netnews::injection`; this adds those of this site's
//! groups, rights and limits. The texts follow `441`. Called by `inject`.

use ingest::{Filer, Reject};
use netnews::MalformedArticle;
use netnews::injection::InjectionError;
use netnews::printable::replaced;
use std::fmt;
use std::time::Duration;

/// Maximum length of the poster's own text quoted in an answer, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// The reason why a post is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostRefusal {
    /// The client may not post.
    NotPermitted,
    /// The proto-article breaks a rule.
    Objection(InjectionError),
    /// The poster has to wait for this long.
    TooFast(Duration),
    /// The site does not accept its distributions.
    UnwantedDistribution,
    /// This name in Newsgroups is reserved.
    ReservedName(String),
    /// None of these groups is carried here, or the poster may not read them.
    NoSuchGroup(String),
    /// The poster may not post to this group.
    NotYourGroup(String),
    /// No one may post to this group.
    Closed(String),
    /// This group takes no articles.
    NoArticles(String),
    /// It is approved for these groups, in which the poster may not approve.
    MayNotApprove(String),
    /// The poster may not send control messages of this kind.
    ControlNotPermitted(String),
    /// The address of this group's moderator is not known.
    NoModerator(String),
    /// This many posts wait for moderators.
    QueueFull(usize),
    /// It is rejected like an article of a peer.
    Rejected(Reject),
    /// This many posts wait for upstreams.
    UpstreamQueueFull(usize),
    /// The servers that have its groups have all refused it, with these words.
    RefusedElsewhere(String),
    /// The secret needed to sign articles cannot be read.
    NoSecret,
    /// It was approved, but signing it failed for this reason.
    NotSigned(String),
    /// A filter cannot judge it now.
    Unjudged,
    /// The server is paused, in the operator's words.
    Paused(String),
    /// The log of a cluster has not answered, so the post with this Message-ID may be filed.
    InDoubt(String),
    /// A failure of the server.
    Trouble,
}

impl fmt::Display for PostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("Posting not permitted"),
            Self::Objection(objection) => objection.fmt(f),
            Self::TooFast(wait) => {
                // Rounded up: a poster that waits this long is not refused again.
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
            Self::InDoubt(id) => {
                write!(f, "{id} may have been accepted; do not post again before looking for it")
            }
            Self::Trouble => f.write_str("Cannot store articles now, try again later"),
        }
    }
}

impl PostRefusal {
    /// Returns the refusal of a post during a pause.
    pub fn paused(filer: &Filer) -> Self {
        filer.paused().map_or(Self::Unjudged, |paused| Self::Paused(paused.to_string()))
    }
}

impl From<InjectionError> for PostRefusal {
    fn from(objection: InjectionError) -> Self {
        Self::Objection(objection)
    }
}

impl From<MalformedArticle> for PostRefusal {
    fn from(malformed: MalformedArticle) -> Self {
        Self::Objection(InjectionError::Malformed(malformed))
    }
}

/// Returns the poster's text in a form fit for an answer.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..SHOWN_BYTES_MAX).unwrap_or(text));
    replaced(&text, ' ').into_owned()
}
