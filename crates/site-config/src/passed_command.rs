//! A command that is passed on to an upstream, as in `upstream.pass_commands`.

use std::fmt;
use std::str::FromStr;

/// A command that is passed on to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedCommand {
    /// The command word, in capitals.
    pub verb: String,
    /// The response code that is followed by a block.
    pub block_code: Option<u16>,
}

/// Reason why a text is not a command that can be passed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassedCommandError {
    /// Not a command word, or one with a code from 100 to 299; holds the text.
    #[error("`{0}` is not a command, or a command and a code from 100 to 299")]
    NotACommand(String),
    /// This server answers the command itself; holds the command word.
    #[error("`{0}` is answered here")]
    AnsweredHere(String),
}

impl FromStr for PassedCommand {
    type Err = PassedCommandError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PassedCommandError::NotACommand(text.to_owned());
        let (verb, code) = text.split_once(' ').map_or((text, None), |(verb, code)| (verb, Some(code)));
        let block_code = code.map(|code| code.trim().parse().map_err(|_| wrong())).transpose()?;
        if verb.is_empty() || !verb.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(wrong());
        }
        if block_code.is_some_and(|code| !(100..300).contains(&code)) {
            return Err(wrong());
        }
        let verb = verb.to_ascii_uppercase();
        if netnews::nntp::command::is_known(verb.as_bytes()) {
            return Err(PassedCommandError::AnsweredHere(verb));
        }
        Ok(Self { verb, block_code })
    }
}

impl fmt::Display for PassedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verb)?;
        self.block_code.map_or(Ok(()), |code| write!(f, " {code}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_to_pass_are_words_that_this_server_does_not_know() {
        for (text, shown) in [("xmotd 217", "XMOTD 217"), ("XVERSION", "XVERSION")] {
            assert_eq!(text.parse::<PassedCommand>().unwrap().to_string(), shown);
        }
        for bad in ["", "GROUP", "list", "X Y", "X 99", "X 400", "X\r\nQUIT", "XFOO "] {
            assert!(bad.parse::<PassedCommand>().is_err(), "{bad:?}");
        }
    }
}
