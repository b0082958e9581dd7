//! Conversion of a verb and the rest of its line to a `Command`.
//!
//! One arm per verb; `None` from an arm means wrong arguments (501). Called by `command::parse`. Sources: RFC
//! 3977 section 9.2, RFC 4643 section 3, RFC 4644 section 2, RFC 8054 section 2, RFC 2980.

use super::arguments::Arguments;
use super::select::message_id;
use super::verb::Name;
use super::{Command, Range, Select, Syntax, Verb, Which, list};
use crate::decimal::parse_decimal;
use crate::message_id::MessageId;

pub(super) fn arguments<'a>(verb: &'static Verb, rest: &'a [u8]) -> Result<Command<'a>, Syntax> {
    let arguments = Arguments::new(rest);
    if verb.name == Name::List {
        return list::parse(verb, arguments);
    }
    command(verb, arguments).ok_or(Syntax::BadArguments(verb))
}

fn command<'a>(verb: &'static Verb, mut arguments: Arguments<'a>) -> Option<Command<'a>> {
    match verb.name {
        Name::Article => which(arguments).map(Command::Article),
        Name::Head => which(arguments).map(Command::Head),
        Name::Body => which(arguments).map(Command::Body),
        Name::Stat => which(arguments).map(Command::Stat),
        Name::Over => Select::parse(arguments.optional()?).map(Command::Over),
        Name::Xover => range(arguments).map(Command::Xover),
        Name::Hdr => field(arguments).map(|(field, select)| Command::Hdr { field, select }),
        Name::Xhdr => field(arguments).map(|(field, select)| Command::Xhdr { field, select }),
        Name::Xpat => xpat(arguments),
        Name::Group => arguments.only().map(Command::Group),
        Name::Listgroup => listgroup(arguments),
        Name::Last => arguments.end(Command::Last),
        Name::Next => arguments.end(Command::Next),
        // LIST is the one verb with a keyword error of its own: `arguments` above.
        Name::List => None,
        Name::Newgroups => since(arguments).map(|(date, time)| Command::NewGroups { date, time }),
        Name::Newnews => {
            let wildmat = arguments.next()?;
            since(arguments).map(|(date, time)| Command::NewNews { wildmat, date, time })
        }
        Name::Post => arguments.end(Command::Post),
        Name::Ihave => MessageId::parse(arguments.only()?).map(Command::Ihave),
        Name::Check => arguments.rest().map(Command::Check),
        Name::Takethis => Some(Command::Takethis(arguments.rest().unwrap_or_default())),
        Name::Mode => mode(arguments.only()?),
        Name::Capabilities => arguments
            .optional()
            .filter(|word| word.is_none_or(is_keyword))
            .map(|keyword| Command::Capabilities { keyword }),
        Name::Date => arguments.end(Command::Date),
        Name::Help => arguments.end(Command::Help),
        Name::Quit => arguments.end(Command::Quit),
        Name::Slave => arguments.end(Command::Slave),
        Name::Starttls => arguments.end(Command::StartTls),
        Name::Authinfo => authinfo(arguments),
        Name::Compress => arguments.only().map(|algorithm| Command::Compress { algorithm }),
        Name::Xbatch => {
            let bytes = parse_decimal(arguments.only()?).filter(|bytes| *bytes > 0)?;
            Some(Command::Xbatch { bytes })
        }
        Name::Xgtitle => arguments.optional().map(|wildmat| Command::Xgtitle { wildmat }),
        Name::Xpath => message_id(arguments.only()?).map(Command::Xpath),
        Name::Xrover => range(arguments).map(Command::Xrover),
    }
}

fn which(arguments: Arguments<'_>) -> Option<Which<'_>> {
    Which::parse(arguments.optional()?)
}

fn range(arguments: Arguments<'_>) -> Option<Option<Range>> {
    match arguments.optional()? {
        None => Some(None),
        Some(text) => Range::parse(text).map(Some),
    }
}

fn field(mut arguments: Arguments<'_>) -> Option<(&[u8], Select<'_>)> {
    let field = arguments.next().filter(|name| is_field_name(name))?;
    Some((field, Select::parse(arguments.optional()?)?))
}

/// Returns whether `text` may be the name of a header, or, after a colon, of a metadata item (RFC 3977
/// section 9.8).
fn is_field_name(text: &[u8]) -> bool {
    let name = text.strip_prefix(b":").unwrap_or(text);
    !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b':')
}

fn xpat(mut arguments: Arguments<'_>) -> Option<Command<'_>> {
    let field = arguments.next().filter(|name| is_field_name(name))?;
    let select = Select::parse(Some(arguments.next()?))?;
    let patterns = arguments.rest()?;
    Some(Command::Xpat { field, select, patterns })
}

fn listgroup(mut arguments: Arguments<'_>) -> Option<Command<'_>> {
    let group = arguments.next();
    let range = match arguments.optional()? {
        None => None,
        Some(text) => Some(Range::parse(text)?),
    };
    Some(Command::ListGroup { group, range })
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

fn mode(keyword: &[u8]) -> Option<Command<'_>> {
    Some(if keyword.eq_ignore_ascii_case(b"READER") {
        Command::ModeReader
    } else if keyword.eq_ignore_ascii_case(b"STREAM") {
        Command::ModeStream
    } else if keyword.eq_ignore_ascii_case(b"HEADFEED") {
        Command::ModeHeadfeed
    } else {
        Command::Mode(keyword)
    })
}

fn authinfo(mut arguments: Arguments<'_>) -> Option<Command<'_>> {
    let keyword = arguments.next()?;
    if keyword.eq_ignore_ascii_case(b"USER") {
        arguments.rest().map(Command::AuthinfoUser)
    } else if keyword.eq_ignore_ascii_case(b"PASS") {
        arguments.rest().map(Command::AuthinfoPass)
    } else if keyword.eq_ignore_ascii_case(b"SASL") {
        let mechanism = arguments.next()?;
        arguments.optional().map(|initial| Command::AuthinfoSasl { mechanism, initial })
    } else {
        Some(Command::Authinfo(keyword))
    }
}
