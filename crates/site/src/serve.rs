//! The serving agent (RFC 5537 section 3.9): answers the commands of readers.
//!
//! A [`Reader`] is one connection's view of the news: the source ([`NewsSource`]), the groups it may see
//! ([`View`]), and the selected group with the current article. Each command appends its answer to the
//! connection's `Output`. If the source is unavailable, the answer is 403 and the connection stays; once an
//! answer has begun, only closing the connection can show that it is incomplete. Called by `session`; never
//! by `relay` or `inject`.

mod ahead;
mod articles;
mod groups;
mod hdr;
mod list;
mod newnews;
pub mod numbers;
mod over;
mod renumber;
mod spare;
mod texts;
mod view;
mod window;

pub use view::View;

use netnews::MessageId;
use netnews::nntp::command::{self, Command, Range, Select};
use netnews::nntp::response::{append, append_standard, code, text};
use nntp_io::Output;
use site_base::counters::Counters;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tracing::{debug, warn};
use upstreams::{GroupList, GroupStream, NewsSource, Part, Place, SourceError, Which};
use window::Window;

/// The text of a 403 answer while the source is unavailable.
const UNAVAILABLE: &str = "Not available now, try again later";

/// An answer that consists of a status line only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal {
    code: u16,
    text: &'static str,
}

impl From<u16> for Refusal {
    fn from(code: u16) -> Self {
        Self { code, text: text(code) }
    }
}

impl Refusal {
    fn append(self, out: &mut Vec<u8>) {
        append(out, self.code, self.text);
    }
}

/// The selected group.
#[derive(Debug, Clone)]
struct Selected<G> {
    group: G,
    /// The numbers of the group that are shown, and how, as of its selection.
    window: Window,
    /// Real number of the current article, not the number shown; `None` if the group was empty when it was
    /// selected.
    current: Option<u64>,
}

/// One connection's view of the news.
#[derive(Debug)]
pub(crate) struct Reader<S: NewsSource> {
    source: S,
    view: View,
    selected: Option<Selected<S::Group>>,
    /// Counters for selections of groups.
    counters: Option<Arc<Counters>>,
}

/// Articles of the selected group by number, or one by Message-ID: the meaning of a [`Select`] argument.
enum Span<'a, G> {
    Numbers(G, Range),
    One(MessageId<'a>),
}

impl<S: NewsSource> Reader<S> {
    pub fn new(source: S, view: View) -> Self {
        Self { source, view, selected: None, counters: None }
    }

    /// Counts the groups that this reader selects.
    pub fn counted_by(self, counters: Arc<Counters>) -> Self {
        Self { counters: Some(counters), ..self }
    }

    /// Forgets the selected group, as after STARTTLS, and continues with this view.
    pub fn start_over(&mut self, view: View) {
        self.view = view;
        self.selected = None;
    }

    /// Continues with another view; a selected group that it does not show, or shows with other numbers, is
    /// deselected.
    pub async fn look_with(&mut self, view: View) {
        if let Some(selected) = self.selected.take() {
            let window = self.window_with(&selected, &view).await;
            self.selected = window.map(|window| Selected { window, ..selected });
        }
        self.view = view;
    }

    /// Returns the window of a selected group under another view; `None` if it must be selected again.
    async fn window_with(&self, selected: &Selected<S::Group>, view: &View) -> Option<Window> {
        let groups = self.source.groups(GroupList::Counts, Which::One(&selected.group), view.base()).await;
        let mut groups = groups.ok()?;
        let shown = groups.next(&|name| view.shows(name)).await.ok()??;
        if view.is_narrow() == self.view.is_narrow() {
            return Some(selected.window);
        }
        let window = view.window(shown.marks.high);
        (window.changes_nothing() && selected.window.changes_nothing()).then_some(window)
    }

    /// Answers a command of the serving agent. Other commands belong to the session and do not come here.
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

    /// Forwards a command to another server; returns false if no server knows it.
    pub async fn pass_on(&mut self, line: &[u8], out: &mut Output) -> io::Result<bool> {
        let selected = self.selected.as_ref().map(|selected| &selected.group);
        match self.source.pass_on(line, selected).await {
            Ok(Some(answer)) => out.send(&answer, &[]).await.map(|()| true),
            Ok(None) => Ok(false),
            Err(error) => {
                failed(error).append(out.text());
                Ok(true)
            }
        }
    }

    /// Returns the articles meant by an argument, or the refusal.
    fn span<'a>(&self, select: Select<'a>) -> Result<Span<'a, S::Group>, Refusal> {
        match select {
            Select::MessageId(id) => Ok(Span::One(id)),
            Select::Range(range) => {
                let selected = self.selected()?;
                Ok(Span::Numbers(selected.group.clone(), selected.window.range(range)))
            }
            Select::Current => {
                let (group, number) = self.current()?;
                Ok(Span::Numbers(group.clone(), Range { low: number, high: Some(number) }))
            }
        }
    }

    /// Returns the current article, or the refusal.
    fn current(&self) -> Result<(&S::Group, u64), Refusal> {
        let selected = self.selected()?;
        Ok((&selected.group, selected.current.ok_or(code::NO_CURRENT_ARTICLE)?))
    }

    fn selected(&self) -> Result<&Selected<S::Group>, Refusal> {
        Ok(self.selected.as_ref().ok_or(code::NO_GROUP_SELECTED)?)
    }

    /// Makes `number` the current article.
    fn step_to(&mut self, number: u64) {
        if let Some(selected) = &mut self.selected {
            selected.current = Some(number);
        }
    }

    /// Returns the place of the article meant by an argument, or the refusal.
    fn place<'a>(&'a self, which: command::Which<'a>) -> Result<Place<'a, S::Group>, Refusal> {
        Ok(match which {
            command::Which::MessageId(id) => Place::MessageId(id),
            command::Which::Current => {
                let (group, number) = self.current()?;
                Place::Number(group, number)
            }
            command::Which::Number(number) => {
                let selected = self.selected()?;
                Place::Number(&selected.group, selected.window.number(number))
            }
        })
    }
}

/// Returns the answer for a command that selects no article; `code` is the one for a range.
fn none_selected(select: Select<'_>, code: u16) -> Refusal {
    match select {
        Select::Range(_) => Refusal { code, text: "No articles in that range" },
        _ => code::NO_CURRENT_ARTICLE.into(),
    }
}

/// Returns the answer for an article that does not exist, by the kind of argument.
fn missing(which: command::Which<'_>) -> Refusal {
    match which {
        command::Which::Current => code::NO_CURRENT_ARTICLE,
        command::Which::Number(_) => code::NO_SUCH_NUMBER,
        command::Which::MessageId(_) => code::NO_SUCH_ARTICLE,
    }
    .into()
}

/// Returns the answer for a failure of the source, which is logged.
fn failed(error: SourceError) -> Refusal {
    match error {
        SourceError::Unavailable(reason) => {
            debug!(reason, "the source of news is not available now");
            Refusal { code: code::INTERNAL_FAULT, text: UNAVAILABLE }
        }
        SourceError::Fault(error) => {
            warn!(%error, "cannot read news");
            code::INTERNAL_FAULT.into()
        }
    }
}

/// Converts a failure of the source during an answer: only closing the connection shows the client that the
/// answer is incomplete.
fn cut_off(error: SourceError) -> io::Error {
    failed(error);
    io::Error::other("the rest of an answer could not be had")
}

/// Waits for more of an answer; text gathered so far is sent first if the wait takes any time.
async fn sending_meanwhile<T>(next: impl Future<Output = T>, out: &mut Output) -> io::Result<T> {
    let mut next = pin!(next);
    match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
        Poll::Ready(now) => Ok(now),
        Poll::Pending => {
            out.flush().await?;
            Ok(next.await)
        }
    }
}
