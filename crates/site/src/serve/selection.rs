//! The group that a reader has selected, with the current article: arguments of commands refer to them.
//!
//! Used by the commands of `serve`.

use super::refusal::CommandRefusal;
use super::window::NumberWindow;
use netnews::MessageId;
use netnews::nntp::command::{ArticleSelector, NumberRange, RangeSelector};
use netnews::nntp::response::code;
use upstreams::SourceLocator;

/// The selected group.
#[derive(Debug, Clone)]
pub(super) struct SelectedGroup<G> {
    pub group: G,
    /// The numbers of the group that are shown, and how, as of its selection.
    pub window: NumberWindow,
    /// Real number of the current article, not the number shown; `None` if the group was empty when it was
    /// selected.
    pub current: Option<u64>,
}

/// The selection of a connection.
#[derive(Debug)]
pub(super) struct Selection<G>(Option<SelectedGroup<G>>);

/// Articles of the selected group by number, or one by Message-ID: the meaning of a [`RangeSelector`]
/// argument.
pub(super) enum ArticleSelection<'a, G> {
    Numbers(G, NumberRange),
    One(MessageId<'a>),
}

/// Progress in a range.
pub(super) struct RangeProgress {
    /// An article was found.
    pub any: bool,
    /// Number at which to continue.
    pub next: Option<u64>,
    /// The source had no more at hand, so that more must be waited for.
    pub is_short: bool,
}

impl<G: Clone> Selection<G> {
    /// No group is selected.
    pub const NONE: Self = Self(None);

    /// Selects a group, at its first article that is shown.
    pub fn select(&mut self, selected: SelectedGroup<G>) {
        self.0 = Some(selected);
    }

    /// Returns the selected group, and deselects it.
    pub fn take(&mut self) -> Option<SelectedGroup<G>> {
        self.0.take()
    }

    /// Selects what was selected before.
    pub fn restore(&mut self, before: Option<SelectedGroup<G>>) {
        self.0 = before;
    }

    /// Returns the selected group.
    pub fn get(&self) -> Option<&SelectedGroup<G>> {
        self.0.as_ref()
    }

    /// Returns the window of the selected group.
    pub fn window(&self) -> NumberWindow {
        self.get().map_or(NumberWindow::ALL, |selected| selected.window)
    }

    /// Returns the articles meant by an argument, or the refusal.
    pub fn span<'a>(&self, select: RangeSelector<'a>) -> Result<ArticleSelection<'a, G>, CommandRefusal> {
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
    pub fn current(&self) -> Result<(&G, u64), CommandRefusal> {
        let selected = self.selected()?;
        Ok((&selected.group, selected.current.ok_or(code::NO_CURRENT_ARTICLE)?))
    }

    /// Returns the selected group, or the refusal.
    pub fn selected(&self) -> Result<&SelectedGroup<G>, CommandRefusal> {
        Ok(self.get().ok_or(code::NO_GROUP_SELECTED)?)
    }

    /// Makes `number` the current article.
    pub fn step_to(&mut self, number: u64) {
        if let Some(selected) = &mut self.0 {
            selected.current = Some(number);
        }
    }

    /// Returns the place of the article meant by an argument, or the refusal.
    pub fn place<'a>(&'a self, which: ArticleSelector<'a>) -> Result<SourceLocator<'a, G>, CommandRefusal> {
        Ok(match which {
            ArticleSelector::MessageId(id) => SourceLocator::MessageId(id),
            ArticleSelector::Current => {
                let (group, number) = self.current()?;
                SourceLocator::Number(group, number)
            }
            ArticleSelector::Number(number) => {
                let selected = self.selected()?;
                SourceLocator::Number(&selected.group, selected.window.number(number))
            }
        })
    }
}
