//! Requests to the source derived from commands before they are answered.
//!
//! Includes only what can be known without answering the commands before: not the neighbours of an article,
//! and no numbers after another group is selected. Called by `session::ahead`.

use super::hdr::{HdrVariant, HeaderSource};
use super::news::VisibleNews;
use super::selection::Selection;
use netnews::nntp::command::{ArticleSelector, NntpCommand, NumberRange, RangeSelector};
use upstreams::{ArticlePart, ForeseenRequest, NeighbourSide, NewsSource};

/// Foresight of one session.
pub(super) struct Foresight<'r, S: NewsSource> {
    pub news: &'r VisibleNews<S>,
    pub selection: &'r Selection<S::Group>,
}

impl<S: NewsSource> Foresight<'_, S> {
    /// Announces the following commands to the source.
    pub async fn announce(&self, commands: &[NntpCommand<'_>]) {
        let mut foreseen = Vec::new();
        let selected = commands.iter().take_while(|command| !selects(command)).count();
        for (at, command) in commands.iter().enumerate() {
            foreseen.extend(self.foreseen_of(command, at < selected));
        }
        foreseen.extend(self.foreseen_steps(commands.get(..selected).unwrap_or_default()));
        self.news.source.look_ahead(&foreseen).await;
    }

    /// The step that a command needs; `is_selected`: the group that is selected now still is at its turn.
    fn foreseen_of<'a>(
        &'a self,
        command: &NntpCommand<'a>,
        is_selected: bool,
    ) -> Option<ForeseenRequest<'a, S::Group>> {
        match *command {
            NntpCommand::Article(which) | NntpCommand::Body(which) => {
                self.foreseen(which, ArticlePart::Article, is_selected)
            }
            NntpCommand::Head(which) => self.foreseen(which, ArticlePart::Head, is_selected),
            NntpCommand::Stat(ArticleSelector::MessageId(id)) if self.news.view.is_everything() => {
                Some(ForeseenRequest::Existence(id))
            }
            NntpCommand::Stat(which @ ArticleSelector::MessageId(_)) => {
                self.foreseen(which, ArticlePart::Head, is_selected)
            }
            NntpCommand::Stat(ArticleSelector::Number(number)) if is_selected => {
                self.foreseen_rows(NumberRange { low: number, high: Some(number) })
            }
            NntpCommand::Group(name) | NntpCommand::ListGroup { group: Some(name), .. } => {
                self.news.view.shows(name).then_some(ForeseenRequest::Group(name))
            }
            NntpCommand::Over(select) => self.foreseen_over(select, is_selected),
            NntpCommand::Xover(Some(range)) if is_selected => self.foreseen_rows(range),
            NntpCommand::Hdr { field, select } if self.rows_have(field, HdrVariant::Hdr) => {
                self.foreseen_over(select, is_selected)
            }
            NntpCommand::Xhdr { field, select } | NntpCommand::Xpat { field, select, .. }
                if self.rows_have(field, HdrVariant::Xhdr) =>
            {
                self.foreseen_over(select, is_selected)
            }
            _ => None,
        }
    }

    fn foreseen_over<'a>(
        &'a self,
        select: RangeSelector<'a>,
        is_selected: bool,
    ) -> Option<ForeseenRequest<'a, S::Group>> {
        match select {
            RangeSelector::Range(range) if is_selected => self.foreseen_rows(range),
            _ => None,
        }
    }

    fn foreseen_rows(&self, range: NumberRange) -> Option<ForeseenRequest<'_, S::Group>> {
        let selected = self.selection.selected().ok()?;
        let range = selected.window.range(range);
        (!range.is_empty()).then(|| ForeseenRequest::Rows(&selected.group, range.low..=range.last()))
    }

    /// The articles that NEXT or LAST come to, of those that begin at the current one.
    fn foreseen_steps(&self, commands: &[NntpCommand<'_>]) -> Option<ForeseenRequest<'_, S::Group>> {
        let side = match commands.first()? {
            NntpCommand::Next => NeighbourSide::Next,
            NntpCommand::Last => NeighbourSide::Previous,
            _ => return None,
        };
        let is_step = |command: &&NntpCommand<'_>| {
            matches!(
                (command, side),
                (NntpCommand::Next, NeighbourSide::Next) | (NntpCommand::Last, NeighbourSide::Previous)
            )
        };
        let count = commands.iter().take_while(is_step).count();
        let (group, number) = self.selection.current().ok()?;
        Some(ForeseenRequest::Neighbours(group, number, side, count))
    }

    fn foreseen<'a>(
        &'a self,
        which: ArticleSelector<'a>,
        part: ArticlePart,
        is_selected: bool,
    ) -> Option<ForeseenRequest<'a, S::Group>> {
        match which {
            ArticleSelector::MessageId(_) => {}
            ArticleSelector::Number(_) if is_selected => {}
            _ => return None,
        }
        self.selection.place(which).ok().map(|place| ForeseenRequest::Article(place, part))
    }

    /// Whether overview rows have what is asked for.
    fn rows_have(&self, name: &[u8], form: HdrVariant) -> bool {
        HeaderSource::of(name, form, self.news.view.overview_headers()).is_some_and(HeaderSource::is_in_rows)
    }
}

/// Whether numbers may be another group's after this command.
fn selects(command: &NntpCommand<'_>) -> bool {
    matches!(command, NntpCommand::Group(_) | NntpCommand::ListGroup { group: Some(_), .. })
}
