//! What a proto-article must be like, as flat lists of guards.
//!
//! Called by `inject`. Sources: RFC 5537 sections 3.4.1 and 3.5 steps 2 to 4 and 7, RFC 5536 section 3.1.4 (reserved
//! names).

use crate::checks;
use crate::config::{Access, Config};
use crate::ingest::{Reject, carried};
use netnews::article::REQUIRED;
use netnews::{Article, Known, Malformed, MessageId, date, newsgroups};
use spool::{Flag, Spool};
use std::fmt;

/// How far ahead a date may be, in seconds.
const FUTURE_SECS_MAX: i64 = 86_400;
/// Groups one proto-article may name.
const GROUPS_PER_POST_MAX: usize = 50;

/// Why a proto-article is not injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Objection {
    NotPermitted,
    Malformed(Malformed),
    /// A header that only injecting agents or servers add.
    NotYours(Known),
    Posted,
    BadMessageId,
    BadHeader(Known),
    FutureDate,
    OldDate,
    TooLarge,
    BadGroupName(String),
    TooManyGroups,
    NoSuchGroup(String),
    PostingProhibited(String),
    Moderated(String),
    NotModerator(String),
    ControlNotPermitted,
    Rejected(Reject),
    Trouble,
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("Posting not permitted"),
            Self::Malformed(malformed) => write!(f, "Posting failed: {malformed}"),
            Self::NotYours(known) => write!(f, "{} header must not be in a post", known.name()),
            Self::Posted => f.write_str("Path says that it was injected already"),
            Self::BadMessageId => f.write_str("Message-ID header is not valid"),
            Self::BadHeader(known) => write!(f, "{} header is not valid", known.name()),
            Self::FutureDate => f.write_str("Date header is more than a day ahead"),
            Self::OldDate => f.write_str("Date header is too old"),
            Self::TooLarge => f.write_str("Article is too large"),
            Self::BadGroupName(name) => write!(f, "\"{name}\" is not a valid newsgroup name"),
            Self::TooManyGroups => write!(f, "More than {GROUPS_PER_POST_MAX} newsgroups"),
            Self::NoSuchGroup(names) => write!(f, "No newsgroup of these is here: {names}"),
            Self::PostingProhibited(name) => write!(f, "Posting to {name} is not permitted"),
            Self::Moderated(name) => write!(f, "{name} is moderated: no Approved header"),
            Self::NotModerator(name) => write!(f, "You may not approve articles in {name}"),
            Self::ControlNotPermitted => f.write_str("Control messages are not taken from you"),
            Self::Rejected(reject) => write!(f, "Posting failed: {reject}"),
            Self::Trouble => f.write_str("Cannot store articles now, try again later"),
        }
    }
}

impl From<Malformed> for Objection {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Judges everything but the groups.
pub(super) fn check(article: &Article<'_>, config: &Config, now: i64) -> Result<(), Objection> {
    if article.wire().len() as u64 > config.site.article_bytes_max {
        return Err(Objection::TooLarge);
    }
    for known in REQUIRED {
        check_mandatory(article, known)?;
    }
    for known in [Known::InjectionInfo, Known::Xref, Known::NntpPostingHost, Known::NntpPostingDate] {
        if article.count(known) > 0 {
            return Err(Objection::NotYours(known));
        }
    }
    if article.header(Known::Path).is_some_and(says_posted) {
        return Err(Objection::Posted);
    }
    if article.header(Known::MessageId).is_some_and(|value| MessageId::from_header(value).is_none()) {
        return Err(Objection::BadMessageId);
    }
    if article.count(Known::InjectionDate) > 1 {
        return Err(Objection::Malformed(Malformed::Repeated(Known::InjectionDate)));
    }
    for known in [Known::Date, Known::InjectionDate] {
        check_date(article, known, config, now)?;
    }
    if article.header(Known::From).is_none_or(|from| !from.contains(&b'@')) {
        return Err(Objection::BadHeader(Known::From));
    }
    if !checks::distributed(article, &config.site.distributions) {
        return Err(Objection::Rejected(Reject::UnwantedDistribution));
    }
    Ok(())
}

/// Message-ID, Date and Path may be left out; what is there is there once and not empty.
fn check_mandatory(article: &Article<'_>, known: Known) -> Result<(), Objection> {
    let may_be_missing = matches!(known, Known::MessageId | Known::Date | Known::Path);
    match article.count(known) {
        0 if may_be_missing => return Ok(()),
        0 => return Err(Objection::Malformed(Malformed::Missing(known))),
        1 => {}
        _ => return Err(Objection::Malformed(Malformed::Repeated(known))),
    }
    if article.header(known).is_none_or(|value| value.trim_ascii().is_empty()) {
        return Err(Objection::Malformed(Malformed::Empty(known)));
    }
    Ok(())
}

fn check_date(article: &Article<'_>, known: Known, config: &Config, now: i64) -> Result<(), Objection> {
    let Some(value) = article.header(known) else { return Ok(()) };
    let Some(dated) = date::parse(value) else {
        return Err(Objection::BadHeader(known));
    };
    if dated > now + FUTURE_SECS_MAX {
        return Err(Objection::FutureDate);
    }
    let oldest = config.site.max_age_days.map(|days| now - i64::from(days) * 86_400);
    if oldest.is_some_and(|oldest| dated < oldest) {
        return Err(Objection::OldDate);
    }
    Ok(())
}

fn says_posted(path: &[u8]) -> bool {
    path.split(|&b| b == b'!').any(|entry| {
        let keyword = entry.trim_ascii().get(..7).unwrap_or_default();
        keyword.eq_ignore_ascii_case(b".POSTED")
    })
}

/// Judges the groups: all names valid, at least one carried here, none of those carried closed to this poster.
pub(super) fn check_groups(article: &Article<'_>, access: &Access, spool: &Spool) -> Result<(), Objection> {
    if article.count(Known::Control) > 0 {
        return Err(Objection::ControlNotPermitted);
    }
    let value = article.header(Known::Newsgroups).unwrap_or_default();
    if newsgroups::split(value).count() > GROUPS_PER_POST_MAX {
        return Err(Objection::TooManyGroups);
    }
    let mut any = false;
    for name in newsgroups::split(value) {
        if !newsgroups::valid_name(name) {
            return Err(Objection::BadGroupName(shown(name)));
        }
        let Some((_, flag)) = carried(&spool.group_table(), name) else { continue };
        if !access.read.matches(name) {
            continue;
        }
        any = true;
        let closed = match flag {
            Flag::Closed => !access.local.matches(name),
            Flag::Refused | Flag::Junk => true,
            _ => false,
        };
        if closed || !access.post.matches(name) {
            return Err(Objection::PostingProhibited(shown(name)));
        }
        if flag == Flag::Moderated && article.count(Known::Approved) == 0 {
            return Err(Objection::Moderated(shown(name)));
        }
        if flag == Flag::Moderated && !access.approve.matches(name) {
            return Err(Objection::NotModerator(shown(name)));
        }
    }
    if any { Ok(()) } else { Err(Objection::NoSuchGroup(shown(value))) }
}

/// Text of the poster as it may stand in an answer.
fn shown(text: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 200;
    let text = String::from_utf8_lossy(text.get(..SHOWN_BYTES_MAX).unwrap_or(text));
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
