//! The LIST command and its keywords.
//!
//! A known keyword with a wrong argument is a syntax error of LIST; an unknown keyword is
//! `CommandError::UnknownKeyword` (501); whether a known list is maintained (503 if not) is decided by the
//! session. Sources: RFC 3977 sections 7.6, 8.4 and 8.6, RFC 6048 section 2, RFC 2980 section 2.1; NewsCache
//! section 7 (ACTIVE.MODTIME).

use super::arguments::Arguments;
use super::{CommandError, NntpCommand, Verb};

/// Information requested by LIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the keywords of the RFCs, by name
pub enum ListKeyword<'a> {
    /// `LIST ACTIVE`, also LIST without a keyword.
    Active(Option<&'a [u8]>),
    /// Extension of the NewsCache paper: entries changed since `since`, which is a number of digits.
    ActiveModtime {
        since: &'a [u8],
        wildmat: Option<&'a [u8]>,
    },
    ActiveTimes(Option<&'a [u8]>),
    Counts(Option<&'a [u8]>),
    DistribPats,
    Distributions,
    /// Command of the drafts before RFC 3977; replaced by CAPABILITIES.
    Extensions,
    /// The argument: `MSGID`, `RANGE` or none.
    Headers(Option<&'a [u8]>),
    Moderators,
    Motd,
    Newsgroups(Option<&'a [u8]>),
    OverviewFmt,
    Subscriptions(Option<&'a [u8]>),
}

#[derive(Clone, Copy)]
enum KeywordForm {
    Alone(ListKeyword<'static>),
    Wildmat(for<'a> fn(Option<&'a [u8]>) -> ListKeyword<'a>),
    Headers,
    Modtime,
}

// The tuple constructors are not general over the lifetime, closures are.
#[allow(clippy::redundant_closure)]
const KEYWORDS: &[(&[u8], KeywordForm)] = &[
    (b"ACTIVE", KeywordForm::Wildmat(|pattern| ListKeyword::Active(pattern))),
    (b"NEWSGROUPS", KeywordForm::Wildmat(|pattern| ListKeyword::Newsgroups(pattern))),
    (b"OVERVIEW.FMT", KeywordForm::Alone(ListKeyword::OverviewFmt)),
    (b"ACTIVE.MODTIME", KeywordForm::Modtime),
    (b"ACTIVE.TIMES", KeywordForm::Wildmat(|pattern| ListKeyword::ActiveTimes(pattern))),
    (b"COUNTS", KeywordForm::Wildmat(|pattern| ListKeyword::Counts(pattern))),
    (b"DISTRIB.PATS", KeywordForm::Alone(ListKeyword::DistribPats)),
    (b"DISTRIBUTIONS", KeywordForm::Alone(ListKeyword::Distributions)),
    (b"EXTENSIONS", KeywordForm::Alone(ListKeyword::Extensions)),
    (b"HEADERS", KeywordForm::Headers),
    (b"MODERATORS", KeywordForm::Alone(ListKeyword::Moderators)),
    (b"MOTD", KeywordForm::Alone(ListKeyword::Motd)),
    (b"SUBSCRIPTIONS", KeywordForm::Wildmat(|pattern| ListKeyword::Subscriptions(pattern))),
];

/// Returns the keywords, for the LIST line of CAPABILITIES and for HELP.
pub fn keywords() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|(name, _)| str::from_utf8(name).unwrap_or_default())
}

pub(super) fn parse<'a>(
    verb: &'static Verb,
    mut arguments: Arguments<'a>,
) -> Result<NntpCommand<'a>, CommandError> {
    let Some(keyword) = arguments.next() else {
        return Ok(NntpCommand::List(ListKeyword::Active(None)));
    };
    let (_, form) = KEYWORDS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(keyword))
        .ok_or(CommandError::UnknownKeyword)?;
    let kind = match form {
        KeywordForm::Alone(kind) => arguments.end(*kind),
        KeywordForm::Wildmat(make) => arguments.optional().map(make),
        KeywordForm::Headers => {
            arguments.optional().filter(|word| headers_argument(*word)).map(ListKeyword::Headers)
        }
        KeywordForm::Modtime => modtime(arguments),
    };
    kind.map(NntpCommand::List).ok_or(CommandError::BadArguments(verb))
}

fn headers_argument(word: Option<&[u8]>) -> bool {
    word.is_none_or(|word| word.eq_ignore_ascii_case(b"MSGID") || word.eq_ignore_ascii_case(b"RANGE"))
}

fn modtime(mut arguments: Arguments<'_>) -> Option<ListKeyword<'_>> {
    let since = arguments.next().filter(|word| word.iter().all(u8::is_ascii_digit))?;
    arguments.optional().map(|wildmat| ListKeyword::ActiveModtime { since, wildmat })
}
