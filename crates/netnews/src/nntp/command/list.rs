//! The LIST command and its keywords.
//!
//! A known keyword with a wrong argument is a syntax error of LIST; an unknown keyword is
//! `Syntax::UnknownKeyword` (501); whether a known list is maintained (503 if not) is decided by the session.
//! Sources: RFC 3977 sections 7.6, 8.4 and 8.6, RFC 6048 section 2, RFC 2980 section 2.1; NewsCache section 7
//! (ACTIVE.MODTIME).

use super::arguments::Arguments;
use super::{Command, Syntax, Verb};

/// Information requested by LIST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the keywords of the RFCs, by name
pub enum ListKind<'a> {
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
enum Form {
    Alone(ListKind<'static>),
    Wildmat(for<'a> fn(Option<&'a [u8]>) -> ListKind<'a>),
    Headers,
    Modtime,
}

// The tuple constructors are not general over the lifetime, closures are.
#[allow(clippy::redundant_closure)]
const KEYWORDS: &[(&[u8], Form)] = &[
    (b"ACTIVE", Form::Wildmat(|pattern| ListKind::Active(pattern))),
    (b"NEWSGROUPS", Form::Wildmat(|pattern| ListKind::Newsgroups(pattern))),
    (b"OVERVIEW.FMT", Form::Alone(ListKind::OverviewFmt)),
    (b"ACTIVE.MODTIME", Form::Modtime),
    (b"ACTIVE.TIMES", Form::Wildmat(|pattern| ListKind::ActiveTimes(pattern))),
    (b"COUNTS", Form::Wildmat(|pattern| ListKind::Counts(pattern))),
    (b"DISTRIB.PATS", Form::Alone(ListKind::DistribPats)),
    (b"DISTRIBUTIONS", Form::Alone(ListKind::Distributions)),
    (b"EXTENSIONS", Form::Alone(ListKind::Extensions)),
    (b"HEADERS", Form::Headers),
    (b"MODERATORS", Form::Alone(ListKind::Moderators)),
    (b"MOTD", Form::Alone(ListKind::Motd)),
    (b"SUBSCRIPTIONS", Form::Wildmat(|pattern| ListKind::Subscriptions(pattern))),
];

/// Returns the keywords, for the LIST line of CAPABILITIES and for HELP.
pub fn keywords() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|(name, _)| str::from_utf8(name).unwrap_or_default())
}

pub(super) fn parse<'a>(verb: &'static Verb, mut arguments: Arguments<'a>) -> Result<Command<'a>, Syntax> {
    let Some(keyword) = arguments.next() else {
        return Ok(Command::List(ListKind::Active(None)));
    };
    let (_, form) =
        KEYWORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(keyword)).ok_or(Syntax::UnknownKeyword)?;
    let kind = match form {
        Form::Alone(kind) => arguments.end(*kind),
        Form::Wildmat(make) => arguments.optional().map(make),
        Form::Headers => arguments.optional().filter(|word| headers_argument(*word)).map(ListKind::Headers),
        Form::Modtime => modtime(arguments),
    };
    kind.map(Command::List).ok_or(Syntax::BadArguments(verb))
}

fn headers_argument(word: Option<&[u8]>) -> bool {
    word.is_none_or(|word| word.eq_ignore_ascii_case(b"MSGID") || word.eq_ignore_ascii_case(b"RANGE"))
}

fn modtime(mut arguments: Arguments<'_>) -> Option<ListKind<'_>> {
    let since = arguments.next().filter(|word| word.iter().all(u8::is_ascii_digit))?;
    arguments.optional().map(|wildmat| ListKind::ActiveModtime { since, wildmat })
}
