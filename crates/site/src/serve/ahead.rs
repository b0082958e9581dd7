//! Requests to the source derived from commands before they are answered.
//!
//! Includes only what can be known without answering the commands before: not the neighbours of an article,
//! and no numbers after another group is selected. Called by `session::ahead`.

use super::Reader;
use netnews::nntp::command::{Command, Which};
use upstreams::{Foreseen, NewsSource, Part};

impl<S: NewsSource> Reader<S> {
    /// Returns true if the source wants to see commands ahead.
    pub fn looks_ahead(&self) -> bool {
        self.source.looks_ahead()
    }

    /// Announces the following commands to the source.
    pub async fn look_ahead(&self, commands: &[Command<'_>]) {
        let (mut foreseen, mut is_selected) = (Vec::new(), true);
        for command in commands {
            match *command {
                Command::Article(which) | Command::Body(which) => {
                    foreseen.extend(self.foreseen(which, Part::Article, is_selected));
                }
                Command::Head(which) => foreseen.extend(self.foreseen(which, Part::Head, is_selected)),
                Command::Stat(Which::MessageId(id)) if self.view.is_everything() => {
                    foreseen.push(Foreseen::Existence(id));
                }
                Command::Stat(which @ Which::MessageId(_)) => {
                    foreseen.extend(self.foreseen(which, Part::Head, is_selected));
                }
                Command::Group(name) | Command::ListGroup { group: Some(name), .. } => {
                    if self.view.shows(name) {
                        foreseen.push(Foreseen::Group(name));
                    }
                    is_selected = false;
                }
                _ => {}
            }
        }
        self.source.look_ahead(&foreseen).await;
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
