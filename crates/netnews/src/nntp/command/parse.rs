//! Conversion of a verb and the rest of its line to a `NntpCommand`.
//!
//! One arm per verb; `None` from an arm means wrong arguments (501). Called by `command::parse`. Sources: RFC
//! 3977 section 9.2, RFC 4643 section 3, RFC 4644 section 2, RFC 8054 section 2, RFC 2980.

use super::arguments::Arguments;
use super::select::message_id;
use super::verb::VerbName;
use super::{ArticleSelector, CommandError, NntpCommand, NumberRange, RangeSelector, Verb, list};
use crate::decimal::parse_decimal;
use crate::message_id::MessageId;

pub(super) fn arguments<'a>(verb: &'static Verb, rest: &'a [u8]) -> Result<NntpCommand<'a>, CommandError> {
    let arguments = Arguments::new(rest);
    if verb.name == VerbName::List {
        return list::parse(verb, arguments);
    }
    command(verb, arguments).ok_or(CommandError::BadArguments(verb))
}

fn command<'a>(verb: &'static Verb, mut arguments: Arguments<'a>) -> Option<NntpCommand<'a>> {
    match verb.name {
        VerbName::Article => which(arguments).map(NntpCommand::Article),
        VerbName::Head => which(arguments).map(NntpCommand::Head),
        VerbName::Body => which(arguments).map(NntpCommand::Body),
        VerbName::Stat => which(arguments).map(NntpCommand::Stat),
        VerbName::Over => RangeSelector::parse(arguments.optional()?).map(NntpCommand::Over),
        VerbName::Xover => range(arguments).map(NntpCommand::Xover),
        VerbName::Hdr => field(arguments).map(|(field, select)| NntpCommand::Hdr { field, select }),
        VerbName::Xhdr => field(arguments).map(|(field, select)| NntpCommand::Xhdr { field, select }),
        VerbName::Xpat => xpat(arguments),
        VerbName::Group => arguments.only().map(NntpCommand::Group),
        VerbName::Listgroup => listgroup(arguments),
        VerbName::Last => arguments.end(NntpCommand::Last),
        VerbName::Next => arguments.end(NntpCommand::Next),
        // LIST is the one verb with a keyword error of its own: `arguments` above.
        VerbName::List => None,
        VerbName::Newgroups => since(arguments).map(|(date, time)| NntpCommand::NewGroups { date, time }),
        VerbName::Newnews => {
            let wildmat = arguments.next()?;
            since(arguments).map(|(date, time)| NntpCommand::NewNews { wildmat, date, time })
        }
        VerbName::Post => arguments.end(NntpCommand::Post),
        VerbName::Ihave => MessageId::parse(arguments.only()?).map(NntpCommand::Ihave),
        VerbName::Check => arguments.rest().map(NntpCommand::Check),
        VerbName::Takethis => Some(NntpCommand::Takethis(arguments.rest().unwrap_or_default())),
        VerbName::Mode => mode(arguments.only()?),
        VerbName::Capabilities => arguments
            .optional()
            .filter(|word| word.is_none_or(is_keyword))
            .map(|keyword| NntpCommand::Capabilities { keyword }),
        VerbName::Date => arguments.end(NntpCommand::Date),
        VerbName::Help => arguments.end(NntpCommand::Help),
        VerbName::Quit => arguments.end(NntpCommand::Quit),
        VerbName::Slave => arguments.end(NntpCommand::Slave),
        VerbName::Starttls => arguments.end(NntpCommand::StartTls),
        VerbName::Authinfo => authinfo(arguments),
        VerbName::Compress => arguments.only().map(|algorithm| NntpCommand::Compress { algorithm }),
        VerbName::Xbatch => {
            let bytes = parse_decimal(arguments.only()?).filter(|bytes| *bytes > 0)?;
            Some(NntpCommand::Xbatch { bytes })
        }
        VerbName::Xgtitle => arguments.optional().map(|wildmat| NntpCommand::Xgtitle { wildmat }),
        VerbName::Xpath => message_id(arguments.only()?).map(NntpCommand::Xpath),
        VerbName::Xrover => range(arguments).map(NntpCommand::Xrover),
    }
}

fn which(arguments: Arguments<'_>) -> Option<ArticleSelector<'_>> {
    ArticleSelector::parse(arguments.optional()?)
}

fn range(arguments: Arguments<'_>) -> Option<Option<NumberRange>> {
    match arguments.optional()? {
        None => Some(None),
        Some(text) => NumberRange::parse(text).map(Some),
    }
}

fn field(mut arguments: Arguments<'_>) -> Option<(&[u8], RangeSelector<'_>)> {
    let field = arguments.next().filter(|name| is_field_name(name))?;
    Some((field, RangeSelector::parse(arguments.optional()?)?))
}

/// Returns whether `text` may be the name of a header, or, after a colon, of a metadata item (RFC 3977
/// section 9.8).
fn is_field_name(text: &[u8]) -> bool {
    let name = text.strip_prefix(b":").unwrap_or(text);
    !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b':')
}

fn xpat(mut arguments: Arguments<'_>) -> Option<NntpCommand<'_>> {
    let field = arguments.next().filter(|name| is_field_name(name))?;
    let select = RangeSelector::parse(Some(arguments.next()?))?;
    let patterns = arguments.rest()?;
    Some(NntpCommand::Xpat { field, select, patterns })
}

fn listgroup(mut arguments: Arguments<'_>) -> Option<NntpCommand<'_>> {
    let group = arguments.next();
    let range = match arguments.optional()? {
        None => None,
        Some(text) => Some(NumberRange::parse(text)?),
    };
    Some(NntpCommand::ListGroup { group, range })
}

/// Parses `date time [GMT]` of NEWGROUPS and NEWNEWS: 6 or 8 digits, and 6. RFC 977's `<distributions>` is
/// accepted and ignored.
fn since(mut arguments: Arguments<'_>) -> Option<(&[u8], &[u8])> {
    let date = arguments.next()?;
    let time = arguments.next()?;
    let mut next = arguments.next();
    if next.is_some_and(|word| word.eq_ignore_ascii_case(b"GMT") || word.eq_ignore_ascii_case(b"UTC")) {
        next = arguments.next();
    }
    if next.is_some_and(|word| word.starts_with(b"<") && word.ends_with(b">")) {
        next = arguments.next();
    }
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    let formed = matches!(date.len(), 6 | 8) && time.len() == 6 && digits(date) && digits(time);
    (next.is_none() && formed).then_some((date, time))
}

/// Checks for a letter, then two or more letters, digits, dots and dashes (RFC 3977 section 9.8).
fn is_keyword(word: &[u8]) -> bool {
    word.len() >= 3
        && word.first().is_some_and(u8::is_ascii_alphabetic)
        && word.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}

fn mode(keyword: &[u8]) -> Option<NntpCommand<'_>> {
    Some(if keyword.eq_ignore_ascii_case(b"READER") {
        NntpCommand::ModeReader
    } else if keyword.eq_ignore_ascii_case(b"STREAM") {
        NntpCommand::ModeStream
    } else if keyword.eq_ignore_ascii_case(b"HEADFEED") {
        NntpCommand::ModeHeadfeed
    } else {
        NntpCommand::Mode(keyword)
    })
}

fn authinfo(mut arguments: Arguments<'_>) -> Option<NntpCommand<'_>> {
    let keyword = arguments.next()?;
    if keyword.eq_ignore_ascii_case(b"USER") {
        arguments.rest().map(NntpCommand::AuthinfoUser)
    } else if keyword.eq_ignore_ascii_case(b"PASS") {
        arguments.rest().map(NntpCommand::AuthinfoPass)
    } else if keyword.eq_ignore_ascii_case(b"SASL") {
        let mechanism = arguments.next()?;
        arguments.optional().map(|initial| NntpCommand::AuthinfoSasl { mechanism, initial })
    } else {
        Some(NntpCommand::Authinfo(keyword))
    }
}
