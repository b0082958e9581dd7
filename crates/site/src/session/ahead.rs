//! Looking ahead in what has arrived: the source learns of the commands behind the one at hand, so that what
//! it must fetch for them is on its way before their turn. Answers still come one after the other.
//!
//! Only commands that ask for something count, up to the first other one. Called by `rounds`.

use super::Session;
use super::dispatch::is_reading;
use super::rounds::command_line;
use memchr::memchr;
use netnews::nntp::command::{self, Command};
use netnews::nntp::wire::NextLine;
use upstreams::NewsSource;

/// Commands that are looked at ahead.
const COMMANDS_MAX: usize = 64;

/// How far the session has looked ahead in this round.
#[derive(Debug, Default)]
pub(super) struct LookAhead {
    /// Commands that are handled before it looks again.
    pause: usize,
    /// Whether the source was told of any.
    was_told: bool,
}

impl<S: NewsSource> Session<S> {
    /// Whether there is more than one command from `at` on that is worth a look, and the last look was more
    /// than a few commands ago.
    pub(super) fn may_look_ahead(&mut self, buffer: &[u8], at: usize) -> bool {
        if self.ahead.pause > 0 {
            self.ahead.pause -= 1;
            return false;
        }
        let rest = buffer.get(at..).unwrap_or_default();
        let has_more = memchr(b'\n', rest).is_some_and(|lf| lf + 1 < rest.len());
        has_more && self.reader.looks_ahead() && self.client.may_read()
    }

    /// Looks at the commands from `at` on.
    pub(super) async fn look_ahead(&mut self, buffer: &[u8], at: usize) {
        let (mut commands, mut from) = (Vec::new(), at);
        while commands.len() < COMMANDS_MAX
            && let NextLine::Line { line, next } = command_line(buffer, from)
            && let Ok(command) = command::parse(line)
            && is_reading(&command)
        {
            commands.push(command);
            from = next;
        }
        // The window moves on when half of it is answered.
        let is_all = commands.len() < COMMANDS_MAX;
        self.ahead.pause = if is_all { commands.len() } else { COMMANDS_MAX / 2 }.saturating_sub(1);
        if commands.len() > 1 {
            self.reader.look_ahead(&commands).await;
            self.ahead.was_told = true;
        }
    }

    /// After this command numbers are another group's, and what follows it is looked at again.
    pub(super) fn select_changes(&mut self, command: &Command<'_>) {
        if matches!(command, Command::Group(_) | Command::ListGroup { .. }) {
            self.ahead.pause = 0;
        }
    }

    /// Nothing is left of the round to look at.
    pub(super) async fn end_look_ahead(&mut self) {
        if std::mem::take(&mut self.ahead).was_told {
            self.reader.look_ahead(&[]).await;
        }
    }
}
