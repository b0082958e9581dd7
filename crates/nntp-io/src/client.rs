//! The client's side of NNTP: pipelined commands, answers in order, blocks in pieces as they arrive.
//!
//! [`NntpClient::submit`] queues commands, [`NntpClient::answer`] returns the first line of the next answer;
//! while it waits it also sends, so that the two sides never wait for each other, however much is on its way
//! in both directions. An answer's block is read in pieces as it arrives ([`NntpClient::chunk`]), line by
//! line ([`NntpClient::block_line`]) or whole ([`NntpClient::read_block`]); the next call of `answer` skips
//! what is left of it. Everything has a limit ([`Limits`](crate::Limits)), and no call loses anything if its
//! future is dropped. After an error other than [`Error::Request`] and [`Error::Full`] the connection is of
//! no more use. Sources: RFC 3977 section 3, RFC 4644.

mod capabilities;
mod connect;
mod judgement;
mod login;
mod scram;

pub use capabilities::Capabilities;
pub use connect::{CompressionPolicy, ConnectOptions, Role, Security, TlsOptions};
pub use judgement::{AnswerJudgement, ArticleRequest, JUDGEMENTS, ODD_ANSWERS_MAX, ODD_IN_A_ROW_MAX};
pub use login::{ClientCredentials, ClientMechanism, LoginOptions};

use crate::connection::{Connection, WaitOutcome};
use crate::error::{Error, ProtocolFault, WaitEvent, printable};
use crate::limits::BLOCK_BYTES_PER_SEC_MIN;
use crate::reply::{BlockChunk, BlockCursor, BlockLine, FirstLine, first_line, has_block};
use netnews::nntp::response::code;
use netnews::nntp::wire::{BlockEnd, find_end};
use rustls::CommonState;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Maximum length of a sent line, in bytes: that of AUTHINFO SASL (RFC 4643 section 2.4.1).
const COMMAND_BYTES_MAX: usize = 12_288;

/// A connection to a server, set up by [`NntpClient::connect`].
pub struct NntpClient {
    connection: Connection,
    greeting: Box<str>,
    posting_allowed: bool,
    streaming: bool,
    capabilities: Option<Capabilities>,
    /// True after the server has accepted a login.
    is_logged_in: bool,
    /// Commands that wait for their answers, in order: true for LISTGROUP.
    outstanding: VecDeque<bool>,
    block: Option<OpenBlock>,
    /// True after an error, or if the server has announced that it closes the connection.
    over: bool,
}

/// A block that is not consumed to its end.
#[derive(Default)]
struct OpenBlock {
    framing: BlockCursor,
    bytes: u64,
    /// Time spent waiting for more of it.
    waited: Duration,
    bound: Option<BlockBound>,
}

/// Bound of one block, below those of all.
#[derive(Clone, Copy)]
struct BlockBound {
    bytes_max: u64,
    time_max: Duration,
    begun: Instant,
}

impl BlockBound {
    /// Returns the time that is left for the block, or an error if there is none.
    fn time_left(&self) -> Result<Duration, Error> {
        let left = self.time_max.saturating_sub(self.begun.elapsed());
        if left.is_zero() {
            Err(Error::Protocol(ProtocolFault::BlockTooSlow(self.time_max)))
        } else {
            Ok(left)
        }
    }
}

/// The first line of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NntpAnswer<'a> {
    /// The response code.
    pub code: u16,
    /// True if a block follows.
    pub has_block: bool,
    line: &'a [u8],
}

impl<'a> NntpAnswer<'a> {
    /// Returns the line, with its code.
    pub fn line(&self) -> &'a [u8] {
        self.line
    }

    /// Returns the text after the code.
    pub fn text(&self) -> &'a [u8] {
        self.line.get(4..).unwrap_or_default()
    }

    /// Returns the first word after the code: for CHECK and TAKETHIS the Message-ID of the article (RFC 4644
    /// sections 2.4.1 and 2.5.1), by which a client notices that its answers are out of step.
    pub fn first_word(&self) -> &'a [u8] {
        self.text().split(|&byte| byte == b' ').next().unwrap_or_default()
    }
}

/// An article in wire format: dot-stuffed, every line with its CRLF, without the final `.` line. The format
/// is checked once, and the article may be sent many times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireArticle {
    bytes: Vec<u8>,
    range: Range<usize>,
}

impl WireArticle {
    /// Wraps `range` of `bytes`; returns `None` if it is not in wire format.
    pub fn new(bytes: Vec<u8>, range: Range<usize>) -> Option<Self> {
        bytes.get(range.clone()).is_some_and(is_sendable).then_some(Self { bytes, range })
    }

    /// Returns the article.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Returns whether an article contains no end of a block; text after one could pass for commands.
fn is_sendable(article: &[u8]) -> bool {
    article.ends_with(b"\r\n") && matches!(find_end(article, 0), BlockEnd::More { .. })
}

impl NntpClient {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            greeting: Box::default(),
            posting_allowed: false,
            streaming: false,
            capabilities: None,
            is_logged_in: false,
            outstanding: VecDeque::new(),
            block: None,
            over: false,
        }
    }

    /// Returns the text of the greeting, in which nothing is unprintable.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    /// Returns whether the server allows posting (200, not 201).
    pub fn posting_allowed(&self) -> bool {
        self.posting_allowed
    }

    /// Returns whether the server accepts CHECK and TAKETHIS; known if the connection was made for
    /// [`Role::Transit`].
    pub fn streaming(&self) -> bool {
        self.streaming
    }

    /// Returns the results of the TLS handshake, if the connection is encrypted.
    pub fn tls(&self) -> Option<&CommonState> {
        self.connection.tls()
    }

    /// Returns the number of commands that wait for their answers.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns whether one more command would be accepted now.
    pub fn has_room(&self) -> bool {
        let limits = self.connection.limits();
        self.outstanding.len() < limits.outstanding_max
            && self.connection.queued_bytes() < limits.queued_bytes_max
    }

    /// Returns the connection below, with its counters and limits.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Queues a command, given without its CRLF. It is sent with all other queued commands while an answer is
    /// waited for. Commands that change the state of the connection (STARTTLS, COMPRESS, AUTHINFO) must not
    /// be submitted.
    ///
    /// # Errors
    /// [`Error::Full`] if the queue is at its limit; [`Error::Request`] if the command is empty, too long or
    /// contains CR, LF or NUL (RFC 3977 section 3.1), which could pass for a second command. Nothing is
    /// queued then.
    pub fn submit(&mut self, command: impl AsRef<[u8]>) -> Result<(), Error> {
        self.admit(command.as_ref(), None)?;
        self.put(command.as_ref());
        Ok(())
    }

    /// Queues `CHECK id` (RFC 4644 section 2.4).
    ///
    /// # Errors
    /// Errors of [`NntpClient::submit`].
    pub fn submit_check(&mut self, id: &[u8]) -> Result<(), Error> {
        self.submit([b"CHECK ", id].concat())
    }

    /// Queues `TAKETHIS id` and the article (RFC 4644 section 2.5) in wire format: dot-stuffed, every line
    /// with its CRLF, without the final `.` line.
    ///
    /// # Errors
    /// Errors of [`NntpClient::submit`]; [`Error::Request`] also if the article does not end in CRLF or
    /// contains the end of a block: the text after it could pass for commands.
    pub fn submit_takethis<'a>(&mut self, id: &[u8], article: impl Into<Cow<'a, [u8]>>) -> Result<(), Error> {
        let (command, article) = ([b"TAKETHIS ", id].concat(), article.into());
        self.admit(&command, Some(&article))?;
        self.put(&command);
        self.put_article(article);
        Ok(())
    }

    /// Queues the article that an answer to IHAVE (335) or POST (340) asks for; its answer is the second one
    /// of that command. For the article's format see [`NntpClient::submit_takethis`].
    ///
    /// # Errors
    /// Errors of [`NntpClient::submit_takethis`].
    pub fn submit_article<'a>(&mut self, article: impl Into<Cow<'a, [u8]>>) -> Result<(), Error> {
        let article = article.into();
        self.admit(b"article", Some(&article))?;
        self.outstanding.push_back(false);
        self.put_article(article);
        Ok(())
    }

    /// Like [`NntpClient::submit_takethis`], for an article that was checked before.
    ///
    /// # Errors
    /// Errors of [`NntpClient::submit`].
    pub fn submit_takethis_of(&mut self, id: &[u8], article: &WireArticle) -> Result<(), Error> {
        let command = [b"TAKETHIS ", id].concat();
        self.admit(&command, None)?;
        self.put(&command);
        self.put_article(Cow::Borrowed(article.bytes()));
        Ok(())
    }

    fn admit(&self, command: &[u8], article: Option<&[u8]>) -> Result<(), Error> {
        if self.over {
            return Err(Error::Ended);
        }
        if command.is_empty() || command.len() + 2 > COMMAND_BYTES_MAX {
            return Err(Error::Request("the command is empty or too long"));
        }
        if command.iter().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0')) {
            return Err(Error::Request("the command contains a line end"));
        }
        if let Some(article) = article
            && !is_sendable(article)
        {
            return Err(Error::Request("the article is not in wire format"));
        }
        if self.has_room() { Ok(()) } else { Err(Error::Full) }
    }

    fn put(&mut self, command: &[u8]) {
        let listgroup = command.get(..9).is_some_and(|verb| verb.eq_ignore_ascii_case(b"LISTGROUP"));
        self.outstanding.push_back(listgroup);
        self.connection.queue(command);
        self.connection.queue(b"\r\n");
    }

    fn put_article(&mut self, article: Cow<'_, [u8]>) {
        match article {
            Cow::Borrowed(bytes) => self.connection.queue(bytes),
            Cow::Owned(bytes) => self.connection.queue_owned(bytes),
        }
        self.connection.queue(b".\r\n");
    }

    /// Sends the queue without waiting for an answer. See [`Connection::flush`] for its limit.
    ///
    /// # Errors
    /// Errors of [`Connection::flush`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.connection.flush().await;
        self.over |= flushed.is_err();
        flushed
    }

    /// Returns the first line of the next answer. The rest of the block before it is skipped.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Ended`], [`Error::Broken`], [`Error::TlsOptions`], [`Error::Protocol`];
    /// [`Error::LoggedOut`] if the server asks for a login (480) though it has accepted one;
    /// [`Error::Request`] if no command waits for an answer.
    pub async fn answer(&mut self) -> Result<NntpAnswer<'_>, Error> {
        self.skip_block().await?;
        let Some(&listgroup) = self.outstanding.front() else {
            return Err(Error::Request("no command waits for an answer"));
        };
        let answered = self.first_line(self.connection.limits().answer_timeout, WaitEvent::Answer).await;
        let (code, len, next) = self.judged(answered)?;
        self.outstanding.pop_front();
        // The server closes the connection after these codes (RFC 3977 sections 3.2.1 and 5.4).
        self.over |= matches!(code, code::UNAVAILABLE | code::CLOSING) && self.outstanding.is_empty();
        let has_block = has_block(code, listgroup);
        if has_block {
            self.block = Some(OpenBlock::default());
        }
        let line = self.connection.take(next).get(..len).unwrap_or_default();
        let answer = NntpAnswer { code, has_block, line };
        if self.is_logged_in && code == code::AUTHENTICATION_REQUIRED {
            // A second login on the connection is not allowed (RFC 4643 section 2.2).
            self.over = true;
            return Err(Error::LoggedOut(printable(answer.text())));
        }
        Ok(answer)
    }

    /// Declares that a block follows the last answer though its code does not imply one, as after commands
    /// without an RFC.
    pub fn expect_block(&mut self) {
        self.block.get_or_insert_with(OpenBlock::default);
    }

    /// Bounds the block of the last answer: [`ProtocolFault::BlockTooLong`] follows from more than
    /// `bytes_max`, and [`ProtocolFault::BlockTooSlow`] if it has not ended within `time_max` from now.
    pub fn bound_block(&mut self, bytes_max: u64, time_max: Duration) {
        if let Some(block) = &mut self.block {
            block.bound = Some(BlockBound { bytes_max, time_max, begun: Instant::now() });
        }
    }

    /// Returns whether [`NntpClient::answer`] would return at once.
    pub fn has_answer(&self) -> bool {
        let line_bytes_max = self.connection.limits().line_bytes_max;
        self.block.is_none()
            && !self.outstanding.is_empty()
            && first_line(self.connection.unread(), line_bytes_max) != FirstLine::More
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// Errors of [`NntpClient::submit`] and [`NntpClient::answer`]; [`Error::Request`] if another command
    /// waits for its answer.
    pub async fn request(&mut self, command: impl AsRef<[u8]>) -> Result<NntpAnswer<'_>, Error> {
        if !self.outstanding.is_empty() {
            return Err(Error::Request("another command waits for its answer"));
        }
        self.submit(command)?;
        self.answer().await
    }

    /// Returns more of the block of the last answer, as soon as something has arrived, in wire format:
    /// dot-stuffed, every line with its CRLF, without the final `.` line. A piece may begin and end anywhere.
    /// Returns `None` at the end of the block, or if there is none.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Ended`] and [`Error::Broken`]: the block is incomplete;
    /// [`ProtocolFault::BlockTooLong`].
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, Error> {
        let len = self.next_chunk().await;
        match self.judged(len)? {
            Some(len) => Ok(Some(self.connection.take(len))),
            None => Ok(None),
        }
    }

    /// Returns the next line of the block of the last answer, without dot-stuffing and CRLF. Returns `None`
    /// at the end of the block, or if there is none.
    ///
    /// # Errors
    /// Errors of [`NntpClient::chunk`]; [`ProtocolFault::LineTooLong`] beyond `block_line_bytes_max`.
    pub async fn block_line(&mut self) -> Result<Option<&[u8]>, Error> {
        let line = self.next_line().await;
        match self.judged(line)? {
            Some((start, end, next)) => Ok(self.connection.take(next).get(start..end)),
            None => Ok(None),
        }
    }

    /// Returns whether [`NntpClient::block_line`] would return at once.
    pub fn has_block_line(&self) -> bool {
        let line_bytes_max = self.connection.limits().block_line_bytes_max;
        self.block.as_ref().is_none_or(|block| {
            block.framing.clone().line(self.connection.unread(), line_bytes_max) != BlockLine::More
        })
    }

    /// Appends the rest of the block of the last answer to `out`, in wire format.
    ///
    /// # Errors
    /// Errors of [`NntpClient::chunk`]; [`ProtocolFault::BlockTooLong`] if it is more than `bytes_max`.
    pub async fn read_block(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<(), Error> {
        let before = out.len();
        while let Some(chunk) = self.chunk().await? {
            if out.len() - before + chunk.len() > bytes_max {
                self.over = true;
                return Err(Error::Protocol(ProtocolFault::BlockTooLong(bytes_max as u64)));
            }
            out.extend_from_slice(chunk);
        }
        Ok(())
    }

    /// Returns whether the connection can be used for something else: every answer is read to its end, and
    /// the server has neither closed the connection nor sent anything unasked. Does not wait.
    pub async fn is_reusable(&mut self) -> bool {
        !self.over && self.outstanding.is_empty() && self.block.is_none() && self.connection.is_quiet().await
    }

    /// Waits until the server closes the connection or sends something unasked, which may be while no command
    /// waits for its answer; returns the reason why the connection is of no more use.
    pub async fn closed(&mut self) -> Error {
        let received = self.connection.receive().await;
        self.over = true;
        match received {
            Ok(()) => match first_line(self.connection.unread(), self.connection.limits().line_bytes_max) {
                FirstLine::Line { code, .. } if code != code::UNAVAILABLE => {
                    Error::Protocol(ProtocolFault::UnexpectedCode(code))
                }
                _ => Error::Ended,
            },
            Err(error) => error,
        }
    }

    /// Sends QUIT (RFC 3977 section 5.4) and ends the connection. Outstanding answers are skipped.
    ///
    /// # Errors
    /// Errors of [`NntpClient::answer`]; earlier answers are not affected.
    pub async fn quit(mut self) -> Result<(), Error> {
        self.submit("QUIT")?;
        while !self.outstanding.is_empty() {
            self.answer().await?;
        }
        Ok(())
    }

    /// Records whether the connection is still usable.
    fn judged<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.over |= result.is_err();
        result
    }

    async fn skip_block(&mut self) -> Result<(), Error> {
        while self.chunk().await?.is_some() {}
        Ok(())
    }

    /// Returns code and length of the next first line, and the position of its end.
    async fn first_line(&mut self, limit: Duration, what: WaitEvent) -> Result<(u16, usize, usize), Error> {
        let line_bytes_max = self.connection.limits().line_bytes_max;
        let mut waited = Duration::ZERO;
        loop {
            match first_line(self.connection.unread(), line_bytes_max) {
                FirstLine::Line { code, line, next } => return Ok((code, line.len(), next)),
                FirstLine::NoCode(line) => {
                    return Err(Error::Protocol(ProtocolFault::NoCode(printable(line))));
                }
                FirstLine::TooLong => {
                    return Err(Error::Protocol(ProtocolFault::LineTooLong(line_bytes_max)));
                }
                FirstLine::More => {}
            }
            let begun = Instant::now();
            match self.wait(limit.saturating_sub(waited), what).await? {
                // The server is still reading the requests before this answer.
                WaitOutcome::Sent => waited = Duration::ZERO,
                WaitOutcome::Received => waited += begun.elapsed(),
            }
        }
    }

    async fn wait(&mut self, limit: Duration, what: WaitEvent) -> Result<WaitOutcome, Error> {
        timeout(limit, self.connection.progress()).await.map_err(|_| Error::TimedOut(what))?
    }

    async fn next_chunk(&mut self) -> Result<Option<usize>, Error> {
        loop {
            let Some(block) = &mut self.block else { return Ok(None) };
            match block.framing.chunk(self.connection.unread()) {
                BlockChunk::Bytes(len) => return self.counted(len).map(|()| Some(len)),
                BlockChunk::End(len) => {
                    self.connection.take(len);
                    self.block = None;
                }
                BlockChunk::More => self.wait_for_block().await?,
            }
        }
    }

    async fn next_line(&mut self) -> Result<Option<(usize, usize, usize)>, Error> {
        let line_bytes_max = self.connection.limits().block_line_bytes_max;
        loop {
            let Some(block) = &mut self.block else { return Ok(None) };
            match block.framing.line(self.connection.unread(), line_bytes_max) {
                BlockLine::Line { start, end, next } => {
                    return self.counted(next).map(|()| Some((start, end, next)));
                }
                BlockLine::End(len) => {
                    self.connection.take(len);
                    self.block = None;
                }
                BlockLine::TooLong => {
                    return Err(Error::Protocol(ProtocolFault::LineTooLong(line_bytes_max)));
                }
                BlockLine::More => self.wait_for_block().await?,
            }
        }
    }

    /// Counts bytes of the block.
    fn counted(&mut self, bytes: usize) -> Result<(), Error> {
        let bytes_max = self.connection.limits().block_bytes_max;
        let Some(block) = &mut self.block else { return Ok(()) };
        block.bytes += bytes as u64;
        let bytes_max = block.bound.map_or(bytes_max, |bound| bound.bytes_max.min(bytes_max));
        if let Some(bound) = block.bound {
            bound.time_left()?;
        }
        if block.bytes > bytes_max {
            Err(Error::Protocol(ProtocolFault::BlockTooLong(bytes_max)))
        } else {
            Ok(())
        }
    }

    /// Waits for more of the block, with limits for the next octet and for the total time of a slow block.
    async fn wait_for_block(&mut self) -> Result<(), Error> {
        let Some(block) = &self.block else { return Ok(()) };
        let idle = self.connection.limits().idle_timeout;
        let earned = Duration::from_secs(block.bytes / BLOCK_BYTES_PER_SEC_MIN);
        let limit = idle.min((idle + earned).saturating_sub(block.waited));
        let bound = block.bound;
        let left = bound.map_or(Ok(limit), |bound| bound.time_left())?;
        let begun = Instant::now();
        let waited = self.wait(limit.min(left), WaitEvent::Block).await;
        bound.map_or(Ok(limit), |bound| bound.time_left())?;
        waited?;
        if let Some(block) = &mut self.block {
            block.waited += begun.elapsed();
        }
        Ok(())
    }
}
