//! The serving agent (RFC 5537 section 3.9): answers the commands of readers.
//!
//! A [`NewsReader`] is one connection's view of the news: the source ([`NewsSource`]) with the groups that it
//! may see ([`ReaderView`]), and the selected group with the current article. The commands are answered by
//! what they need of these: lists by the news alone, others also by the selection. Each appends its answer to
//! the connection's `ServerOutput`. Called by `session`; never by `relay` or `inject`.

mod ahead;
mod articles;
mod groups;
mod hdr;
mod list;
mod newnews;
mod news;
pub mod numbers;
mod over;
mod ranges;
mod refusal;
mod renumber;
mod selection;
mod spare;
mod texts;
mod view;
mod window;

pub use view::ReaderView;

use ahead::Foresight;
use articles::ArticleCommands;
use groups::GroupCommands;
use hdr::{HdrVariant, HeaderRequest};
use netnews::nntp::command::{NntpCommand, NumberRange, RangeSelector};
use netnews::nntp::response::code;
use news::VisibleNews;
use nntp_io::ServerOutput;
use ranges::RangeQuery;
use refusal::{AnswerEnd, Answered, CommandRefusal, failed};
use renumber::ShownNews;
use selection::{SelectedGroup, Selection};
use site_base::counters::ServerCounters;
use site_config::PassedList;
use std::io;
use std::sync::Arc;
use upstreams::{ArticlePart, GroupList, GroupSelection, GroupStream, NewsSource};
use window::NumberWindow;

/// One connection's view of the news.
#[derive(Debug)]
pub(crate) struct NewsReader<S: NewsSource> {
    news: VisibleNews<S>,
    selection: Selection<S::Group>,
    /// Counters for selections of groups.
    counters: Option<Arc<ServerCounters>>,
}

impl<S: NewsSource> NewsReader<S> {
    pub fn new(source: S, view: ReaderView) -> Self {
        Self { news: VisibleNews { source, view }, selection: Selection::NONE, counters: None }
    }

    /// Counts the groups that this reader selects.
    pub fn counted_by(self, counters: Arc<ServerCounters>) -> Self {
        Self { counters: Some(counters), ..self }
    }

    /// Forgets the selected group, as after STARTTLS, and continues with this view.
    pub fn start_over(&mut self, view: ReaderView) {
        self.news.view = view;
        self.selection = Selection::NONE;
    }

    /// Continues with another view; a selected group that it does not show, or shows with other numbers, is
    /// deselected.
    pub async fn set_view(&mut self, view: ReaderView) {
        if let Some(selected) = self.selection.take()
            && let Some(window) = self.window_with(&selected, &view).await
        {
            self.selection.select(SelectedGroup { window, ..selected });
        }
        self.news.view = view;
    }

    /// Returns the window of a selected group under another view; `None` if it must be selected again.
    async fn window_with(
        &self,
        selected: &SelectedGroup<S::Group>,
        view: &ReaderView,
    ) -> Option<NumberWindow> {
        let which = GroupSelection::One(&selected.group);
        let mut groups = self.news.source.groups(GroupList::Counts, which, view.base()).await.ok()?;
        let shown = groups.next(&|name| view.shows(name)).await.ok()??;
        if view.is_narrow() == self.news.view.is_narrow() {
            return Some(selected.window);
        }
        let window = view.window(shown.marks.high);
        (window.changes_nothing() && selected.window.changes_nothing()).then_some(window)
    }

    /// Returns true if the list is available: as a file of the site, or from an upstream.
    pub fn has_list(&self, list: PassedList) -> bool {
        texts::has_list(&self.news, list)
    }

    /// Returns true if the source wants to see commands ahead.
    pub fn looks_ahead(&self) -> bool {
        self.news.source.looks_ahead()
    }

    /// Announces the following commands to the source.
    pub async fn look_ahead(&self, commands: &[NntpCommand<'_>]) {
        Foresight { news: &self.news, selection: &self.selection }.announce(commands).await;
    }

    /// Answers a command of the serving agent. Other commands belong to the session and do not come here.
    pub async fn answer(&mut self, command: &NntpCommand<'_>, out: &mut ServerOutput) -> io::Result<()> {
        out.begin_answer();
        match self.send_answer(command, out).await {
            Err(AnswerEnd::Refused(refusal)) => {
                refusal.append(out.replace_answer());
                Ok(())
            }
            Err(AnswerEnd::Broken(error)) => Err(error),
            Ok(()) => Ok(()),
        }
    }

    async fn send_answer(&mut self, command: &NntpCommand<'_>, out: &mut ServerOutput) -> Answered {
        let news = &self.news;
        match *command {
            NntpCommand::Article(which) => self.articles().article(which, ArticlePart::Article, out).await,
            NntpCommand::Head(which) => self.articles().article(which, ArticlePart::Head, out).await,
            NntpCommand::Body(which) => self.articles().article(which, ArticlePart::Body, out).await,
            NntpCommand::Stat(which) => self.articles().stat(which, out).await,
            NntpCommand::Next => self.articles().next(out).await,
            NntpCommand::Last => self.articles().last(out).await,
            NntpCommand::Xpath(id) => self.articles().xpath(id, out).await,
            NntpCommand::Group(name) => self.groups().group(name, out).await,
            NntpCommand::ListGroup { group, range } => self.groups().list_group(group, range, out).await,
            NntpCommand::Over(select) => {
                let query = RangeQuery::Overview { empty: code::NO_SUCH_NUMBER };
                query.answer(&self.shown(), select, out).await
            }
            NntpCommand::Xover(range) => {
                let query = RangeQuery::Overview { empty: code::NO_CURRENT_ARTICLE };
                query.answer(&self.shown(), of_range(range), out).await
            }
            NntpCommand::Hdr { field, select } => self.hdr(HdrVariant::Hdr, field, select, out).await,
            NntpCommand::Xhdr { field, select } => self.hdr(HdrVariant::Xhdr, field, select, out).await,
            NntpCommand::Xrover(range) => {
                self.hdr(HdrVariant::Xrover, b"References", of_range(range), out).await
            }
            NntpCommand::Xpat { field, select, patterns } => {
                let request = HeaderRequest::matching(field, patterns, &news.view);
                RangeQuery::Header(request.ok_or(code::SYNTAX_ERROR)?)
                    .answer(&self.shown(), select, out)
                    .await
            }
            NntpCommand::List(kind) => list::list(news, kind, out).await,
            NntpCommand::Xgtitle { wildmat } => {
                let selected = self.selection.get().map(|selected| &selected.group);
                list::group_titles(news, selected, wildmat, out).await
            }
            NntpCommand::NewGroups { date, time } => newnews::new_groups(news, date, time, out).await,
            NntpCommand::NewNews { wildmat, date, time } => {
                newnews::new_news(news, wildmat, date, time, out).await
            }
            _ => Err(code::UNKNOWN_COMMAND.into()),
        }
    }

    async fn hdr(
        &self,
        form: HdrVariant,
        name: &[u8],
        select: RangeSelector<'_>,
        out: &mut ServerOutput,
    ) -> Answered {
        let unknown = CommandRefusal::new(code::NOT_SUPPORTED, "No such metadata item");
        let request = HeaderRequest::of(form, name, &self.news.view).ok_or(unknown)?;
        RangeQuery::Header(request).answer(&self.shown(), select, out).await
    }

    fn articles(&mut self) -> ArticleCommands<'_, S> {
        ArticleCommands { news: &self.news, selection: &mut self.selection }
    }

    fn groups(&mut self) -> GroupCommands<'_, S> {
        let counters = self.counters.as_deref();
        GroupCommands { news: &self.news, selection: &mut self.selection, counters }
    }

    fn shown(&self) -> ShownNews<'_, S> {
        ShownNews { news: &self.news, selection: &self.selection }
    }

    /// Forwards a command to another server; returns false if no server knows it.
    pub async fn pass_on(&mut self, line: &[u8], out: &mut ServerOutput) -> io::Result<bool> {
        let selected = self.selection.get().map(|selected| &selected.group);
        match self.news.source.pass_on(line, selected).await {
            Ok(Some(answer)) => out.send(&answer, &[]).await.map(|()| true),
            Ok(None) => Ok(false),
            Err(error) => {
                failed(error).append(out.text());
                Ok(true)
            }
        }
    }
}

/// Returns the articles of a range, without one the current article.
fn of_range(range: Option<NumberRange>) -> RangeSelector<'static> {
    range.map_or(RangeSelector::Current, RangeSelector::Range)
}
