//! The serving agent (RFC 5537 section 3.9): what readers ask for.
//!
//! A [`Reader`] is one connection's view of the news: where from ([`NewsSource`]), which groups it may see ([`View`]), and
//! the selected group with the current article. Each command appends its answer to the connection's `Output`. Called by
//! `session`; never by `relay` or `inject`.

mod articles;
mod groups;
mod hdr;
mod list;
mod local;
mod newnews;
mod over;
mod renumber;
mod source;
mod spare;
mod texts;
mod view;
mod window;

pub(crate) use local::LocalSpool;
pub(crate) use source::NewsSource;
pub(crate) use view::View;

use netnews::MessageId;
use netnews::nntp::command::{Command, Range, Select, Which};
use netnews::nntp::response::{append_standard, code, text};
use nntp_io::Output;
use spool::{GroupId, Part, ReadError};
use std::io;
use tracing::warn;
use window::Window;

/// The selected group.
#[derive(Debug, Clone, Copy)]
struct Selected {
    group: GroupId,
    /// Which of its numbers are shown, and as what: as of the moment it was selected.
    window: Window,
    /// The current article's number, not as it is shown; `None` in a group that was empty when it was selected.
    current: Option<u64>,
}

/// One connection's view of the news.
#[derive(Debug)]
pub(crate) struct Reader<S> {
    source: S,
    view: View,
    selected: Option<Selected>,
}

/// Articles of the selected group by their numbers, or one by its Message-ID; what [`Select`] comes to.
enum Span<'a> {
    Numbers(GroupId, Range),
    One(MessageId<'a>),
}

impl<S: NewsSource> Reader<S> {
    pub fn new(source: S, view: View) -> Self {
        Self { source, view, selected: None }
    }

    /// Goes on with another view; a group that is not to be seen any more, or under other numbers, is no longer selected.
    pub async fn look_with(&mut self, view: View) {
        if let Some(selected) = self.selected {
            let named = self.source.named(selected.group).await;
            let shown = named.ok().flatten().filter(|(group, _)| view.shows(group.name.as_bytes()));
            let window = match shown {
                Some(_) if view.is_narrow() == self.view.is_narrow() => Some(selected.window),
                Some((group, _)) => {
                    let (window, _) = view.window_of(&group);
                    Some(window)
                        .filter(|window| window.changes_nothing() && selected.window.changes_nothing())
                }
                None => None,
            };
            self.selected = window.map(|window| Selected { window, ..selected });
        }
        self.view = view;
    }

    /// Answers a command of the serving agent. Other commands are the session's matter and not brought here.
    pub async fn answer(&mut self, command: &Command<'_>, out: &mut Output) -> io::Result<()> {
        match *command {
            Command::Article(which) => self.article(which, Part::Article, out).await,
            Command::Head(which) => self.article(which, Part::Head, out).await,
            Command::Body(which) => self.article(which, Part::Body, out).await,
            Command::Stat(which) => self.stat(which, out).await,
            Command::Group(name) => self.group(name, out).await,
            Command::ListGroup { group, range } => self.list_group(group, range, out).await,
            Command::Next => self.next(out).await,
            Command::Last => self.last(out).await,
            Command::Over(select) => self.over(select, code::NO_SUCH_NUMBER, out).await,
            Command::Xover(range) => {
                self.over(range.map_or(Select::Current, Select::Range), code::NO_CURRENT_ARTICLE, out).await
            }
            Command::Hdr { field, select } => self.hdr(hdr::Form::Hdr, field, select, out).await,
            Command::Xhdr { field, select } => self.hdr(hdr::Form::Xhdr, field, select, out).await,
            Command::Xpat { field, select, patterns } => self.xpat(field, select, patterns, out).await,
            Command::List(kind) => self.list(kind, out).await,
            Command::NewGroups { date, time } => self.new_groups(date, time, out).await,
            Command::NewNews { wildmat, date, time } => self.new_news(wildmat, date, time, out).await,
            Command::Xgtitle { wildmat } => self.group_titles(wildmat, out).await,
            Command::Xrover(range) => {
                let select = range.map_or(Select::Current, Select::Range);
                self.hdr(hdr::Form::Xrover, b"References", select, out).await
            }
            Command::Xpath(id) => self.xpath(id, out).await,
            _ => {
                append_standard(out.text(), code::UNKNOWN_COMMAND);
                Ok(())
            }
        }
    }

    /// The articles meant by an argument, or the code that says why there are none.
    fn span<'a>(&self, select: Select<'a>) -> Result<Span<'a>, u16> {
        match select {
            Select::MessageId(id) => Ok(Span::One(id)),
            Select::Range(range) => {
                let selected = self.selected.ok_or(code::NO_GROUP_SELECTED)?;
                Ok(Span::Numbers(selected.group, selected.window.range(range)))
            }
            Select::Current => {
                let (group, number) = self.current()?;
                Ok(Span::Numbers(group, Range { low: number, high: Some(number) }))
            }
        }
    }

    /// The current article, or the code that says why there is none.
    fn current(&self) -> Result<(GroupId, u64), u16> {
        let selected = self.selected.ok_or(code::NO_GROUP_SELECTED)?;
        Ok((selected.group, selected.current.ok_or(code::NO_CURRENT_ARTICLE)?))
    }

    /// Makes `number` the current article.
    fn step_to(&mut self, number: u64) {
        if let Some(selected) = &mut self.selected {
            selected.current = Some(number);
        }
    }
}

/// The group and number, or the Message-ID, or the code that says why not.
fn located<'a, S: NewsSource>(reader: &Reader<S>, which: Which<'a>) -> Result<source::Place<'a>, u16> {
    match which {
        Which::MessageId(id) => Ok(source::Place::MessageId(id)),
        Which::Current => reader.current().map(|(group, number)| source::Place::Number(group, number)),
        Which::Number(number) => {
            let selected = reader.selected.ok_or(code::NO_GROUP_SELECTED)?;
            Ok(source::Place::Number(selected.group, selected.window.number(number)))
        }
    }
}

/// The answer where a command selects no article; `code` is the one for a range.
fn none_selected(select: Select<'_>, code: u16) -> (u16, &'static str) {
    match select {
        Select::Range(_) => (code, "No articles in that range"),
        _ => (code::NO_CURRENT_ARTICLE, text(code::NO_CURRENT_ARTICLE)),
    }
}

/// The code for an article that is not there, by how it was asked for.
fn missing(which: Which<'_>) -> u16 {
    match which {
        Which::Current => code::NO_CURRENT_ARTICLE,
        Which::Number(_) => code::NO_SUCH_NUMBER,
        Which::MessageId(_) => code::NO_SUCH_ARTICLE,
    }
}

/// The code for our own failure to read; the log says more.
fn failed(error: &ReadError) -> u16 {
    warn!(%error, "cannot read from the spool");
    code::INTERNAL_FAULT
}
