//! Questions that `init` asks on a terminal when it is run without options: at most five, each with a default
//! that an empty line accepts.
//!
//! Called by `init`, which treats the answers like the options they stand for.

use std::fmt;
use std::io::{BufRead, Write};

use std::path::Path;

use super::screen::CliError;
use site_base::units;
use site_config::{Cidr, check_host_port, host_name, is_path_identity};

/// Default disk space for articles, in bytes.
const DISK_BYTES: u64 = 1 << 30;
/// Least disk space that a site works with, in bytes.
const DISK_BYTES_MIN: u64 = 2 << 20;
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4096;

/// Networks of this machine alone.
pub(super) const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Answers to the questions.
#[derive(Debug)]
pub(super) struct InitAnswers {
    pub identity: String,
    /// Networks of readers; empty for this machine alone.
    pub readers: Vec<Cidr>,
    /// Disk space for articles, in bytes.
    pub disk: u64,
    pub peers: Vec<Cidr>,
    /// Address to listen on; `None` for the default, which is this machine alone.
    pub listen: Option<String>,
}

/// Returns whether a network is part of this machine's own.
pub(super) fn is_loopback(network: Cidr) -> bool {
    LOOPBACK.iter().filter_map(|text| text.parse::<Cidr>().ok()).any(|own| own.covers(&network))
}

/// Asks for the settings of a new site.
pub(super) fn ask(
    dir: &Path,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<InitAnswers, CliError> {
    let mut dialogue = Dialogue { input, output };
    dialogue
        .say(&format!("A new site in {}. An empty answer takes what is in brackets.\n", dir.display()))?;
    let identity =
        dialogue.question("1. The server's full name, which peers know it by", &host_name(), |text| {
            match is_path_identity(text) {
                true => Ok(text.to_owned()),
                false => Err(format!("`{text}` cannot stand in Path; write a name such as news.example.org")),
            }
        })?;
    let readers = dialogue.question(
        "2. Who may read and post: addresses or networks, such as 192.0.2.0/24, or `here` for this machine",
        "here",
        |text| listed(text, "here").map(str::parse).collect::<Result<Vec<Cidr>, _>>(),
    )?;
    let disk = dialogue.question(
        "3. How much disk articles may have; then the newest overwrites the oldest",
        &units::size_text(DISK_BYTES),
        |text| {
            let enough = |size: &u64| *size >= DISK_BYTES_MIN;
            let size = units::parse_size(text).map_err(|error| error.to_string());
            size.and_then(|size| {
                Some(size)
                    .filter(enough)
                    .ok_or_else(|| format!("at least {}", units::size_text(DISK_BYTES_MIN)))
            })
        },
    )?;
    let peers = dialogue.question(
        "4. Who feeds articles to this server: addresses or networks, or `nobody`",
        "nobody",
        |text| listed(text, "nobody").map(str::parse).collect::<Result<Vec<Cidr>, _>>(),
    )?;
    let others = readers.iter().chain(&peers).any(|network| !is_loopback(*network));
    let listen = match others {
        false => None,
        true => Some(dialogue.question(
            "5. Where to listen for them (ports below 1024 need root, or the systemd unit)",
            "0.0.0.0:119",
            |text| check_host_port(text).map(|()| text.to_owned()),
        )?),
    };
    Ok(InitAnswers { identity, readers, disk, peers, listen })
}

/// Returns the words of a list; none if the text is the word for an empty list.
fn listed<'a>(text: &'a str, none: &str) -> impl Iterator<Item = &'a str> {
    let text = if text == none { "" } else { text };
    text.split([',', ' ']).filter(|word| !word.is_empty())
}

struct Dialogue<'a, I, O> {
    input: &'a mut I,
    output: &'a mut O,
}

impl<I: BufRead, O: Write> Dialogue<'_, I, O> {
    fn say(&mut self, text: &str) -> Result<(), CliError> {
        write!(self.output, "{text}").and_then(|()| self.output.flush()).map_err(|_| CliError::Told)
    }

    /// Asks until the answer is acceptable.
    fn question<T, E: fmt::Display>(
        &mut self,
        text: &str,
        usual: &str,
        taken: impl Fn(&str) -> Result<T, E>,
    ) -> Result<T, CliError> {
        loop {
            self.say(&format!("{text} [{usual}]: "))?;
            let mut line = Vec::new();
            let mut input = std::io::Read::take(&mut *self.input, ANSWER_BYTES_MAX);
            let read = input.read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return Err(CliError::Usage("no more answers; nothing was created".into()));
            }
            let line = String::from_utf8_lossy(&line);
            match taken(Some(line.trim()).filter(|line| !line.is_empty()).unwrap_or(usual)) {
                Ok(answer) => return Ok(answer),
                Err(why) => self.say(&format!("   {why}\n"))?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answers: &str) -> (Result<InitAnswers, CliError>, String) {
        let mut said = Vec::new();
        let answered = ask(Path::new("site"), &mut answers.as_bytes(), &mut said);
        (answered, String::from_utf8(said).unwrap())
    }

    #[test]
    fn empty_answers_create_a_site_for_this_machine() {
        let (answers, said) = asked("\n\n\n\n");
        let answers = answers.unwrap();
        assert_eq!((answers.identity, answers.disk), (host_name(), DISK_BYTES));
        assert!(answers.readers.is_empty() && answers.peers.is_empty() && answers.listen.is_none());
        assert!(said.contains("4. Who feeds") && !said.contains("5. "), "{said}");
    }

    #[test]
    fn invalid_answers_are_asked_again() {
        let typed = "bad name\nnews.example.org\nnet\n192.0.2.0/24, 2001:db8::/32\nmuch\n1\n20 GiB\n198.51.100.7\n119\n\n";
        let (answers, said) = asked(typed);
        let answers = answers.unwrap();
        assert_eq!(answers.identity, "news.example.org");
        assert_eq!((answers.readers.len(), answers.peers.len()), (2, 1));
        assert_eq!((answers.disk, answers.listen.as_deref()), (20 << 30, Some("0.0.0.0:119")));
        let told =
            ["`bad name` cannot stand in Path", "`net` is not", "`much` is not a size", "at least 2 MiB"];
        for text in told.into_iter().chain(["`119` lacks a port"]) {
            assert!(said.contains(text), "{text}: {said}");
        }
        assert_eq!(said.matches("]: ").count(), 10, "{said}");
    }

    #[test]
    fn end_of_input_is_an_error() {
        let (failed, _) = asked("news.example.org\n");
        assert_eq!(failed.unwrap_err().to_string(), "newsreel: no more answers; nothing was created");
    }
}
