//! One NNTP command line as a value.
//!
//! `parse` takes a line without its line end and returns a `NntpCommand` or the `CommandError` error to
//! answer with; nothing is copied. Verbs come from one table (`verb::TABLE`), from which HELP is generated
//! too. The session decides whether a command is allowed. Called by the server's sessions. Sources: RFC 3977
//! sections 3.1 and 9.2, RFC 4642-4644, 6048, 8054, 2980.

mod arguments;
mod list;
mod parse;
mod select;
pub mod verb;

pub use list::{ListKeyword, keywords as list_keywords};
pub use select::{ARTICLE_NUMBER_MAX, ArticleSelector, NumberRange, RangeSelector};
pub use verb::{Verb, help};

use crate::message_id::MessageId;

/// A command with its arguments, as borrowed parts of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the commands of the RFCs, by name
pub enum NntpCommand<'a> {
    Article(ArticleSelector<'a>),
    Head(ArticleSelector<'a>),
    Body(ArticleSelector<'a>),
    Stat(ArticleSelector<'a>),
    Over(RangeSelector<'a>),
    /// XOVER, which has no Message-ID form.
    Xover(Option<NumberRange>),
    Hdr {
        field: &'a [u8],
        select: RangeSelector<'a>,
    },
    Xhdr {
        field: &'a [u8],
        select: RangeSelector<'a>,
    },
    /// `patterns` are one or more wildmats with white space between; see [`words`].
    Xpat {
        field: &'a [u8],
        select: RangeSelector<'a>,
        patterns: &'a [u8],
    },
    Group(&'a [u8]),
    ListGroup {
        group: Option<&'a [u8]>,
        range: Option<NumberRange>,
    },
    Last,
    Next,
    List(ListKeyword<'a>),
    /// `date` and `time` are digits, for `date::parse_nntp`.
    NewGroups {
        date: &'a [u8],
        time: &'a [u8],
    },
    NewNews {
        wildmat: &'a [u8],
        date: &'a [u8],
        time: &'a [u8],
    },
    Post,
    Ihave(MessageId<'a>),
    /// CHECK with the argument as sent, any octets but LF, perhaps not a Message-ID: RFC 4644 requires it to
    /// be echoed in the response.
    Check(&'a [u8]),
    /// TAKETHIS with the argument as sent, any octets but LF, perhaps none; the article follows in any case.
    Takethis(&'a [u8]),
    ModeReader,
    ModeStream,
    /// MODE HEADFEED: articles come without their bodies (Diablo).
    ModeHeadfeed,
    /// Another MODE: 501.
    Mode(&'a [u8]),
    Capabilities {
        keyword: Option<&'a [u8]>,
    },
    Date,
    Help,
    Quit,
    Slave,
    StartTls,
    AuthinfoUser(&'a [u8]),
    AuthinfoPass(&'a [u8]),
    AuthinfoSasl {
        mechanism: &'a [u8],
        initial: Option<&'a [u8]>,
    },
    /// AUTHINFO with another keyword (GENERIC, SIMPLE): 501.
    Authinfo(&'a [u8]),
    Compress {
        algorithm: &'a [u8],
    },
    /// XBATCH: a batch of this many octets follows the answer. INN's extension, without an RFC.
    Xbatch {
        bytes: u64,
    },
    Xgtitle {
        wildmat: Option<&'a [u8]>,
    },
    Xpath(MessageId<'a>),
    /// XROVER, which has no Message-ID form.
    Xrover(Option<NumberRange>),
}

/// Reasons why a line is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// Nothing but white space. RFC 3977 specifies 500 for it; INN ignores such lines.
    Empty,
    /// The verb is not in the table.
    UnknownCommand,
    /// Too few arguments, too many, or one that is not of its form.
    BadArguments(&'static Verb),
    /// A keyword after LIST that is not known.
    UnknownKeyword,
    /// A NUL, CR or other control character in the line.
    BadOctet,
}

impl CommandError {
    /// Returns the response code: 500 or 501.
    pub fn code(&self) -> u16 {
        match self {
            CommandError::Empty | CommandError::UnknownCommand => 500,
            CommandError::BadArguments(_) | CommandError::UnknownKeyword | CommandError::BadOctet => 501,
        }
    }

    /// Appends the whole response line; for wrong arguments it shows the syntax of the verb.
    pub fn append(&self, out: &mut Vec<u8>) {
        match self {
            CommandError::Empty => out.extend_from_slice(b"500 Empty command\r\n"),
            CommandError::UnknownCommand => out.extend_from_slice(b"500 Unknown command\r\n"),
            CommandError::UnknownKeyword => out.extend_from_slice(b"501 Unknown keyword\r\n"),
            CommandError::BadOctet => out.extend_from_slice(b"501 Control character in command\r\n"),
            CommandError::BadArguments(verb) => {
                out.extend_from_slice(b"501 Syntax is: ");
                verb.append_syntax(out);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Returns whether there is a command of this name, in any case.
pub fn is_known(name: &[u8]) -> bool {
    verb::find(name).is_some()
}

/// Parses one command line, without its CRLF.
pub fn parse(line: &[u8]) -> Result<NntpCommand<'_>, CommandError> {
    let (name, rest) = arguments::cut(line);
    if name.is_empty() {
        return Err(CommandError::Empty);
    }
    let verb = verb::find(name).ok_or(CommandError::UnknownCommand)?;
    let bad = rest.iter().fold(false, |bad, &b| bad | ((b < b' ') & (b != b'\t')) | (b == 0x7f));
    if bad && !verb.keeps_argument() {
        return Err(CommandError::BadOctet);
    }
    parse::arguments(verb, rest)
}

/// Returns the words of `text`, between spaces and TABs.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
