//! Requests to the source derived from commands before they are answered.
//!
//! Includes only what can be known without answering the commands before: not the neighbours of an article,
//! and no numbers after another group is selected. Called by `session::ahead`.

use super::Reader;
use super::hdr::Form;
use netnews::nntp::command::{Command, Range, Select, Which};
use upstreams::{Foreseen, NewsSource, Part, Side};

impl<S: NewsSource> Reader<S> {
    /// Returns true if the source wants to see commands ahead.
    pub fn looks_ahead(&self) -> bool {
        self.source.looks_ahead()
    }

    /// Announces the following commands to the source.
    pub async fn look_ahead(&self, commands: &[Command<'_>]) {
        let mut foreseen = Vec::new();
        let selected = commands.iter().take_while(|command| !selects(command)).count();
        for (at, command) in commands.iter().enumerate() {
            foreseen.extend(self.foreseen_of(command, at < selected));
        }
        foreseen.extend(self.foreseen_steps(commands.get(..selected).unwrap_or_default()));
        self.source.look_ahead(&foreseen).await;
    }

    /// What a command asks for; `is_selected`: the group that is selected now still is at its turn.
    fn foreseen_of<'a>(&'a self, command: &Command<'a>, is_selected: bool) -> Option<Foreseen<'a, S::Group>> {
        match *command {
            Command::Article(which) | Command::Body(which) => {
                self.foreseen(which, Part::Article, is_selected)
            }
            Command::Head(which) => self.foreseen(which, Part::Head, is_selected),
            Command::Stat(Which::MessageId(id)) if self.view.is_everything() => Some(Foreseen::Existence(id)),
            Command::Stat(which @ Which::MessageId(_)) => self.foreseen(which, Part::Head, is_selected),
            Command::Stat(Which::Number(number)) if is_selected => {
                self.foreseen_rows(Range { low: number, high: Some(number) })
            }
            Command::Group(name) | Command::ListGroup { group: Some(name), .. } => {
                self.view.shows(name).then_some(Foreseen::Group(name))
            }
            Command::Over(select) => self.foreseen_over(select, is_selected),
            Command::Xover(Some(range)) if is_selected => self.foreseen_rows(range),
            Command::Hdr { field, select } if self.rows_have(field, Form::Hdr) => {
                self.foreseen_over(select, is_selected)
            }
            Command::Xhdr { field, select } | Command::Xpat { field, select, .. }
                if self.rows_have(field, Form::Xhdr) =>
            {
                self.foreseen_over(select, is_selected)
            }
            _ => None,
        }
    }

    fn foreseen_over<'a>(&'a self, select: Select<'a>, is_selected: bool) -> Option<Foreseen<'a, S::Group>> {
        match select {
            Select::Range(range) if is_selected => self.foreseen_rows(range),
            _ => None,
        }
    }

    fn foreseen_rows(&self, range: Range) -> Option<Foreseen<'_, S::Group>> {
        let selected = self.selected().ok()?;
        let range = selected.window.range(range);
        (!range.is_empty()).then(|| Foreseen::Rows(&selected.group, range.low..=range.last()))
    }

    /// The articles that NEXT or LAST come to, of those that begin at the current one.
    fn foreseen_steps(&self, commands: &[Command<'_>]) -> Option<Foreseen<'_, S::Group>> {
        let side = match commands.first()? {
            Command::Next => Side::Next,
            Command::Last => Side::Previous,
            _ => return None,
        };
        let is_step = |command: &&Command<'_>| {
            matches!((command, side), (Command::Next, Side::Next) | (Command::Last, Side::Previous))
        };
        let count = commands.iter().take_while(is_step).count();
        let (group, number) = self.current().ok()?;
        Some(Foreseen::Neighbours(group, number, side, count))
    }

    fn foreseen<'a>(
        &'a self,
        which: Which<'a>,
        part: Part,
        is_selected: bool,
    ) -> Option<Foreseen<'a, S::Group>> {
        match which {
            Which::MessageId(_) => {}
            Which::Number(_) if is_selected => {}
            _ => return None,
        }
        self.place(which).ok().map(|place| Foreseen::Article(place, part))
    }
}

/// Whether numbers may be another group's after this command.
fn selects(command: &Command<'_>) -> bool {
    matches!(command, Command::Group(_) | Command::ListGroup { group: Some(_), .. })
}
