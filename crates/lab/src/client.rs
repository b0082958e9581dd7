//! A blocking NNTP client: an ordinary one, which sends what it has and reads what comes.

use memchr::memchr;
use netnews::nntp::wire::{End, find_end};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Read at once, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// A server that is silent for so long is a dead one.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buf: Vec<u8>,
    /// What of `buf` is consumed.
    at: usize,
}

impl Client {
    /// Connects and reads the greeting.
    pub fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let mut client = Self { stream, buf: Vec::new(), at: 0 };
        let greeting = client.line()?;
        if greeting.starts_with("20") { Ok(client) } else { Err(unexpected("the greeting", &greeting)) }
    }

    /// Gives back the memory of what was read.
    pub fn settle(&mut self) {
        self.buf.drain(..self.at);
        self.buf.shrink_to_fit();
        self.at = 0;
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits for more bytes.
    pub fn fill(&mut self) -> io::Result<()> {
        if self.at > 0 {
            self.buf.drain(..self.at);
            self.at = 0;
        }
        let held = self.buf.len();
        self.buf.resize(held + CHUNK_BYTES, 0);
        let read = self.stream.read(self.buf.get_mut(held..).unwrap_or_default());
        self.buf.truncate(held + *read.as_ref().unwrap_or(&0));
        if read? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// The next line, without CRLF, if it has come whole.
    pub fn line_at_hand(&mut self) -> Option<&[u8]> {
        let rest = self.buf.get(self.at..)?;
        let end = memchr(b'\n', rest)?;
        self.at += end + 1;
        let line = rest.get(..end)?;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next line, without CRLF.
    pub fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(line) = self.line_at_hand() {
                return Ok(String::from_utf8_lossy(line).into_owned());
            }
            self.fill()?;
        }
    }

    /// The next block of lines, as it is on the wire, without the final `.`-line.
    pub fn block(&mut self) -> io::Result<Vec<u8>> {
        let mut from = 0;
        loop {
            match find_end(self.buf.get(self.at..).unwrap_or_default(), from) {
                End::Found { article_len, next } => {
                    let block = self.buf.get(self.at..self.at + article_len).unwrap_or_default().to_vec();
                    self.at += next;
                    return Ok(block);
                }
                End::More { resume_from } => from = resume_from,
            }
            self.fill()?;
        }
    }

    /// Sends a command and reads the first line of its answer.
    pub fn command(&mut self, command: &str) -> io::Result<String> {
        self.send(format!("{command}\r\n").as_bytes())?;
        self.line()
    }

    /// As [`Client::command`]; an answer that does not start with `code` is an error.
    pub fn expect(&mut self, command: &str, code: &str) -> io::Result<String> {
        let answer = self.command(command)?;
        if answer.starts_with(code) { Ok(answer) } else { Err(unexpected(command, &answer)) }
    }

    /// A command whose answer is a block of lines.
    pub fn lines(&mut self, command: &str, code: &str) -> io::Result<Vec<String>> {
        self.expect(command, code)?;
        let block = self.block()?;
        let lines = block.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| String::from_utf8_lossy(line).trim_end().to_owned()).collect())
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
