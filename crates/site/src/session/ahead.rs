//! Looking ahead in the input: the source learns of the commands after the current one, so that what it must
//! fetch for them is requested before their turn. Answers are still sent one after the other.
//!
//! Includes only commands that read something, up to the first other one. Called by `rounds`.

use super::commands::{command_line, is_reading};
use crate::serve::NewsReader;
use memchr::memchr;
use netnews::nntp::command::{self, NntpCommand};
use netnews::nntp::wire::NextLine;
use upstreams::NewsSource;

/// Maximum number of commands looked at ahead.
const COMMANDS_MAX: usize = 64;

/// State of looking ahead in a round.
#[derive(Debug, Default)]
pub(super) struct LookAhead {
    /// Commands to handle before looking again.
    pause: usize,
    /// The source has been notified of commands.
    has_announced: bool,
}

impl LookAhead {
    /// Returns true if at least two commands from `at` on are worth a look, and the last look is over.
    pub fn is_due(&mut self, buffer: &[u8], at: usize) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let rest = buffer.get(at..).unwrap_or_default();
        memchr(b'\n', rest).is_some_and(|lf| lf + 1 < rest.len())
    }

    /// Announces the commands from `at` on to the source.
    pub async fn announce<S: NewsSource>(&mut self, buffer: &[u8], at: usize, reader: &NewsReader<S>) {
        let (mut commands, mut from) = (Vec::new(), at);
        while commands.len() < COMMANDS_MAX
            && let NextLine::Line { line, next } = command_line(buffer, from)
            && let Ok(command) = command::parse(line)
            && is_reading(&command)
        {
            commands.push(command);
            from = next;
        }
        // The window advances when half of it is answered.
        let is_all = commands.len() < COMMANDS_MAX;
        self.pause = if is_all { commands.len() } else { COMMANDS_MAX / 2 }.saturating_sub(1);
        if commands.len() > 1 {
            reader.look_ahead(&commands).await;
            self.has_announced = true;
        }
    }

    /// Looks again after a command that selects another group, as numbers then refer to that.
    pub fn select_changes(&mut self, command: &NntpCommand<'_>) {
        if matches!(command, NntpCommand::Group(_) | NntpCommand::ListGroup { .. }) {
            self.pause = 0;
        }
    }

    /// Ends looking ahead at the end of a round.
    pub async fn end<S: NewsSource>(self, reader: &NewsReader<S>) {
        if self.has_announced {
            reader.look_ahead(&[]).await;
        }
    }
}
