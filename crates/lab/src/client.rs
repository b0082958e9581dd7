//! The client of the tools: `nntp_io`'s, waited for on the thread at hand, with answers as text and errors
//! that name them.

use memchr::memmem;
use nntp_io::{ClientLimits, ConnectOptions, Error, block_on};
use std::io;
use std::time::Duration;

/// A server that is silent for so long is a dead one.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The largest block that is kept, in bytes.
const BLOCK_BYTES_MAX: usize = 1 << 30;

/// A connection.
pub struct Client(nntp_io::NntpClient);

/// The server at `HOST:PORT`, with the tools' limits.
pub fn target(address: &str) -> io::Result<ConnectOptions> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or_else(|| io::Error::other(format!("{address} is not HOST:PORT")))?;
    let limits = ClientLimits {
        greeting_timeout: SILENCE_MAX,
        answer_timeout: SILENCE_MAX,
        idle_timeout: SILENCE_MAX,
        outstanding_max: 1 << 20,
        queued_bytes_max: 64 << 20,
        ..ClientLimits::default()
    };
    Ok(ConnectOptions { limits, ..ConnectOptions::new(host.trim_matches(['[', ']']), port) })
}

impl Client {
    /// Connects and reads the greeting.
    pub fn connect(address: &str) -> io::Result<Self> {
        Ok(Self(block_on(nntp_io::NntpClient::connect(&target(address)?))?))
    }

    /// Frees what an idle connection does not need.
    pub fn settle(&mut self) {
        let _reusable = block_on(self.0.is_reusable());
    }

    /// Queues a command as it is on the wire, with its article if it is TAKETHIS.
    pub fn queue(&mut self, wire: &[u8]) -> Result<(), Error> {
        let end = memmem::find(wire, b"\r\n").unwrap_or(wire.len());
        let (command, article) =
            (wire.get(..end).unwrap_or_default(), wire.get(end + 2..).unwrap_or_default());
        match (command.strip_prefix(b"TAKETHIS "), article.strip_suffix(b".\r\n")) {
            (Some(id), Some(article)) => self.0.submit_takethis(id, article),
            _ => self.0.submit(command),
        }
    }

    /// Queues TAKETHIS.
    pub fn queue_article(&mut self, id: &[u8], article: Vec<u8>) -> Result<(), Error> {
        self.0.submit_takethis(id, article)
    }

    /// Sends what is queued without waiting for answers.
    pub fn flush(&mut self) -> io::Result<()> {
        Ok(block_on(self.0.flush())?)
    }

    /// Whether an answer is there already.
    pub fn has_answer(&self) -> bool {
        self.0.has_answer()
    }

    /// The first line of the next answer; what is queued is sent first.
    pub fn answer(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(block_on(self.0.answer())?.line()).into_owned())
    }

    /// The block of the last answer, as it is on the wire, without the final `.` line.
    pub fn block(&mut self) -> io::Result<Vec<u8>> {
        let mut block = Vec::new();
        block_on(self.0.read_block(&mut block, BLOCK_BYTES_MAX))?;
        Ok(block)
    }

    /// Sends a command and reads the first line of its answer.
    pub fn command(&mut self, command: &str) -> io::Result<String> {
        self.0.submit(command)?;
        self.answer()
    }

    /// As [`NntpClient::command`]; an answer that does not start with `code` is an error.
    pub fn expect(&mut self, command: &str, code: &str) -> io::Result<String> {
        let answer = self.command(command)?;
        if answer.starts_with(code) { Ok(answer) } else { Err(unexpected(command, &answer)) }
    }

    /// A command whose answer is a block of lines.
    pub fn lines(&mut self, command: &str, code: &str) -> io::Result<Vec<String>> {
        self.expect(command, code)?;
        let mut lines = Vec::new();
        while let Some(line) = block_on(self.0.block_line())? {
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(lines)
    }

    /// GROUP: count, low and high mark.
    pub fn group(&mut self, name: &str) -> io::Result<(u64, u64, u64)> {
        let answer = self.expect(&format!("GROUP {name}"), "211")?;
        let mut numbers = answer.split(' ').skip(1).map_while(|word| word.parse().ok());
        let mut number = || numbers.next().ok_or_else(|| unexpected("GROUP", &answer));
        Ok((number()?, number()?, number()?))
    }
}

/// An answer that was not expected, as an error.
pub fn unexpected(to: &str, answer: &str) -> io::Error {
    io::Error::other(format!("unexpected answer to {to}: {answer}"))
}
