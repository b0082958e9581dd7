//! Passwords: typed at a terminal without echo, else the first line of standard input.
//!
//! Passwords never come from the command line, where every process of the machine could read them. Called by
//! `user`.

use super::screen::CliError;
use access::users::prepared_password;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Read, Write};

/// Fewest characters of a new password. RFC 8265 leaves this to us; NIST SP 800-63B section 5.1.1.1 has 8.
const NEW_CHARACTERS_MIN: usize = 8;

/// Longest line read, in bytes; longer than any password accepted.
const LINE_BYTES_MAX: u64 = 4096;

/// Asks for an existing password; returns it prepared.
pub(super) fn ask(prompt: &str) -> Result<Vec<u8>, CliError> {
    prepared(&line(prompt)?)
}

/// Asks for a new password, twice at a terminal; returns it prepared.
pub(super) fn ask_new(name: &str) -> Result<Vec<u8>, CliError> {
    let first = line(&format!("Password for {name}: "))?;
    if std::io::stdin().is_terminal() && line("Again: ")? != first {
        return Err(CliError::Usage("the two passwords differ; nothing was changed".into()));
    }
    let new = prepared(&first)?;
    // Octets that are not text count individually.
    let characters = str::from_utf8(&new).map_or(new.len(), |text| text.chars().count());
    if characters < NEW_CHARACTERS_MIN {
        let text = format!(
            "a new password has at least {NEW_CHARACTERS_MIN} characters; some words in a row make a good one; \
             nothing was changed"
        );
        return Err(CliError::Usage(text));
    }
    Ok(new)
}

fn prepared(typed: &[u8]) -> Result<Vec<u8>, CliError> {
    prepared_password(typed).ok_or_else(|| {
        CliError::Usage(
            "a password has 1 to 512 bytes, none of them a control character; nothing was changed".into(),
        )
    })
}

fn line(prompt: &str) -> Result<Vec<u8>, CliError> {
    let unreadable = |error: std::io::Error| CliError::Problem(format!("cannot read the password: {error}"));
    let silence = if std::io::stdin().is_terminal() {
        // Without a visible prompt the user still knows what to type.
        let _unseen = write!(std::io::stderr(), "{prompt}");
        Some(EchoOff::begin().map_err(unreadable)?)
    } else {
        None
    };
    let mut text = Vec::new();
    std::io::stdin().lock().take(LINE_BYTES_MAX).read_until(b'\n', &mut text).map_err(unreadable)?;
    if silence.is_some() {
        let _unseen = writeln!(std::io::stderr());
    }
    while text.last().is_some_and(|b| matches!(b, b'\r' | b'\n')) {
        text.pop();
    }
    Ok(text)
}

/// Turns off the terminal's echo until dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn begin() -> std::io::Result<Self> {
        let _unseen = std::io::stderr().flush();
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // A closed terminal needs no echo.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}
