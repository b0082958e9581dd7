//! The serving agent (RFC 5537 section 3.9): answers the commands of readers.
//!
//! A [`NewsReader`] is one connection's view of the news: the source ([`NewsSource`]), the groups it may see
//! ([`ReaderView`]), and the selected group with the current article. Each command appends its answer to the
//! connection's `ServerOutput`. If the source is unavailable, the answer is 403 and the connection stays;
//! once an answer has begun, only closing the connection can show that it is incomplete. Called by `session`;
//! never by `relay` or `inject`.

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

pub use view::ReaderView;

use netnews::MessageId;
use netnews::nntp::command::{self, NntpCommand, NumberRange, RangeSelector};
use netnews::nntp::response::{append, append_standard, code, text};
use nntp_io::ServerOutput;
use site_base::counters::ServerCounters;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tracing::{debug, warn};
use upstreams::{
    ArticlePart, GroupList, GroupSelection, GroupStream, NewsSource, SourceError, SourceLocator,
};
use window::NumberWindow;

/// The text of a 403 answer while the source is unavailable.
const UNAVAILABLE: &str = "Not available now, try again later";

/// An answer that consists of a status line only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CommandRefusal {
    code: u16,
    text: &'static str,
}

impl From<u16> for CommandRefusal {
    fn from(code: u16) -> Self {
        Self { code, text: text(code) }
    }
}

impl CommandRefusal {
    fn append(self, out: &mut Vec<u8>) {
        append(out, self.code, self.text);
    }
}

/// The selected group.
#[derive(Debug, Clone)]
struct SelectedGroup<G> {
    group: G,
    /// The numbers of the group that are shown, and how, as of its selection.
    window: NumberWindow,
    /// Real number of the current article, not the number shown; `None` if the group was empty when it was
    /// selected.
    current: Option<u64>,
}

/// One connection's view of the news.
#[derive(Debug)]
pub(crate) struct NewsReader<S: NewsSource> {
    source: S,
    view: ReaderView,
    selected: Option<SelectedGroup<S::Group>>,
    /// Counters for selections of groups.
    counters: Option<Arc<ServerCounters>>,
}

/// Articles of the selected group by number, or one by Message-ID: the meaning of a [`RangeSelector`]
/// argument.
enum ArticleSelection<'a, G> {
    Numbers(G, NumberRange),
    One(MessageId<'a>),
}

impl<S: NewsSource> NewsReader<S> {
    pub fn new(source: S, view: ReaderView) -> Self {
        Self { source, view, selected: None, counters: None }
    }

    /// Counts the groups that this reader selects.
    pub fn counted_by(self, counters: Arc<ServerCounters>) -> Self {
        Self { counters: Some(counters), ..self }
    }

    /// Forgets the selected group, as after STARTTLS, and continues with this view.
    pub fn start_over(&mut self, view: ReaderView) {
        self.view = view;
        self.selected = None;
    }

    /// Continues with another view; a selected group that it does not show, or shows with other numbers, is
    /// deselected.
    pub async fn look_with(&mut self, view: ReaderView) {
        if let Some(selected) = self.selected.take() {
            let window = self.window_with(&selected, &view).await;
            self.selected = window.map(|window| SelectedGroup { window, ..selected });
        }
        self.view = view;
    }

    /// Returns the window of a selected group under another view; `None` if it must be selected again.
    async fn window_with(
        &self,
        selected: &SelectedGroup<S::Group>,
        view: &ReaderView,
    ) -> Option<NumberWindow> {
        let groups =
            self.source.groups(GroupList::Counts, GroupSelection::One(&selected.group), view.base()).await;
        let mut groups = groups.ok()?;
        let shown = groups.next(&|name| view.shows(name)).await.ok()??;
        if view.is_narrow() == self.view.is_narrow() {
            return Some(selected.window);
        }
        let window = view.window(shown.marks.high);
        (window.changes_nothing() && selected.window.changes_nothing()).then_some(window)
    }

    /// Answers a command of the serving agent. Other commands belong to the session and do not come here.
    pub async fn answer(&mut self, command: &NntpCommand<'_>, out: &mut ServerOutput) -> io::Result<()> {
        match *command {
            NntpCommand::Article(which) => self.article(which, ArticlePart::Article, out).await,
            NntpCommand::Head(which) => self.article(which, ArticlePart::Head, out).await,
            NntpCommand::Body(which) => self.article(which, ArticlePart::Body, out).await,
            NntpCommand::Stat(which) => self.stat(which, out).await,
            NntpCommand::Group(name) => self.group(name, out).await,
            NntpCommand::ListGroup { group, range } => self.list_group(group, range, out).await,
            NntpCommand::Next => self.next(out).await,
            NntpCommand::Last => self.last(out).await,
            NntpCommand::Over(select) => self.over(select, code::NO_SUCH_NUMBER, out).await,
            NntpCommand::Xover(range) => {
                self.over(
                    range.map_or(RangeSelector::Current, RangeSelector::Range),
                    code::NO_CURRENT_ARTICLE,
                    out,
                )
                .await
            }
            NntpCommand::Hdr { field, select } => self.hdr(hdr::HdrVariant::Hdr, field, select, out).await,
            NntpCommand::Xhdr { field, select } => self.hdr(hdr::HdrVariant::Xhdr, field, select, out).await,
            NntpCommand::Xpat { field, select, patterns } => self.xpat(field, select, patterns, out).await,
            NntpCommand::List(kind) => self.list(kind, out).await,
            NntpCommand::NewGroups { date, time } => self.new_groups(date, time, out).await,
            NntpCommand::NewNews { wildmat, date, time } => self.new_news(wildmat, date, time, out).await,
            NntpCommand::Xgtitle { wildmat } => self.group_titles(wildmat, out).await,
            NntpCommand::Xrover(range) => {
                let select = range.map_or(RangeSelector::Current, RangeSelector::Range);
                self.hdr(hdr::HdrVariant::Xrover, b"References", select, out).await
            }
            NntpCommand::Xpath(id) => self.xpath(id, out).await,
            _ => {
                append_standard(out.text(), code::UNKNOWN_COMMAND);
                Ok(())
            }
        }
    }

    /// Forwards a command to another server; returns false if no server knows it.
    pub async fn pass_on(&mut self, line: &[u8], out: &mut ServerOutput) -> io::Result<bool> {
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
    fn span<'a>(&self, select: RangeSelector<'a>) -> Result<ArticleSelection<'a, S::Group>, CommandRefusal> {
        match select {
            RangeSelector::MessageId(id) => Ok(ArticleSelection::One(id)),
            RangeSelector::Range(range) => {
                let selected = self.selected()?;
                Ok(ArticleSelection::Numbers(selected.group.clone(), selected.window.range(range)))
            }
            RangeSelector::Current => {
                let (group, number) = self.current()?;
                Ok(ArticleSelection::Numbers(group.clone(), NumberRange { low: number, high: Some(number) }))
            }
        }
    }

    /// Returns the current article, or the refusal.
    fn current(&self) -> Result<(&S::Group, u64), CommandRefusal> {
        let selected = self.selected()?;
        Ok((&selected.group, selected.current.ok_or(code::NO_CURRENT_ARTICLE)?))
    }

    fn selected(&self) -> Result<&SelectedGroup<S::Group>, CommandRefusal> {
        Ok(self.selected.as_ref().ok_or(code::NO_GROUP_SELECTED)?)
    }

    /// Makes `number` the current article.
    fn step_to(&mut self, number: u64) {
        if let Some(selected) = &mut self.selected {
            selected.current = Some(number);
        }
    }

    /// Returns the place of the article meant by an argument, or the refusal.
    fn place<'a>(
        &'a self,
        which: command::ArticleSelector<'a>,
    ) -> Result<SourceLocator<'a, S::Group>, CommandRefusal> {
        Ok(match which {
            command::ArticleSelector::MessageId(id) => SourceLocator::MessageId(id),
            command::ArticleSelector::Current => {
                let (group, number) = self.current()?;
                SourceLocator::Number(group, number)
            }
            command::ArticleSelector::Number(number) => {
                let selected = self.selected()?;
                SourceLocator::Number(&selected.group, selected.window.number(number))
            }
        })
    }
}

/// Returns the answer for a command that selects no article; `code` is the one for a range.
fn none_selected(select: RangeSelector<'_>, code: u16) -> CommandRefusal {
    match select {
        RangeSelector::Range(_) => CommandRefusal { code, text: "No articles in that range" },
        _ => code::NO_CURRENT_ARTICLE.into(),
    }
}

/// Returns the answer for an article that does not exist, by the kind of argument.
fn missing(which: command::ArticleSelector<'_>) -> CommandRefusal {
    match which {
        command::ArticleSelector::Current => code::NO_CURRENT_ARTICLE,
        command::ArticleSelector::Number(_) => code::NO_SUCH_NUMBER,
        command::ArticleSelector::MessageId(_) => code::NO_SUCH_ARTICLE,
    }
    .into()
}

/// Returns the answer for a failure of the source, which is logged.
fn failed(error: SourceError) -> CommandRefusal {
    match error {
        SourceError::Unavailable(reason) => {
            debug!(reason, "the source of news is not available now");
            CommandRefusal { code: code::INTERNAL_FAULT, text: UNAVAILABLE }
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
async fn sending_meanwhile<T>(next: impl Future<Output = T>, out: &mut ServerOutput) -> io::Result<T> {
    let mut next = pin!(next);
    match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
        Poll::Ready(now) => Ok(now),
        Poll::Pending => {
            out.flush().await?;
            Ok(next.await)
        }
    }
}
