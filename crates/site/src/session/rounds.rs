//! Splitting the input into commands and articles.
//!
//! TAKETHIS articles that are in the buffer together are filed together, as slices of the buffer, and CHECKs
//! are answered together; any other command ends such a batch first, so that answers keep the order of
//! commands. An incomplete article stays in the buffer with its command line, and the search for its end
//! continues where it stopped. Called by the session once per round.

use super::ahead::LookAhead;
use super::commands::{command_line, takethis_id};
use super::dispatch::{CommandOutcome, Dispatcher};
use super::expecting::{ArticleCommand, DiscardReason, END_OVERLAP_BYTES, ExpectedInput};
use super::login::SASL_LINE_BYTES_MAX;
use crate::relay::FeedState;
use ingest::IncomingArticle;
use memchr::memchr;
use netnews::nntp::command::{self, NntpCommand};
use netnews::nntp::response::{append, append_standard, code};
use netnews::nntp::wire::{BlockEnd, LINE_BYTES_MAX, NextLine, find_end, next_line_within};
use nntp_io::ServerOutput;
use std::io;
use upstreams::NewsSource;

/// Approximate number of articles filed together. They are answered at once: a peer that waits for answers
/// before it sends more continues meanwhile. The articles of a round are divided into equal parts, since a
/// small rest costs nearly as much as a part.
const BATCH_ARTICLES: usize = 48;
/// Approximate number of articles filed together while several feeds are active.
const BATCH_ARTICLES_CROWDED: usize = 3 * BATCH_ARTICLES;
/// Maximum number of articles gathered before they are filed.
const GATHERED_ARTICLES_MAX: usize = 10 * BATCH_ARTICLES;
/// Maximum number of offers answered together.
const OFFERS_MAX: usize = 48;

/// Next step of a session after a round of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum SessionFlow {
    Continue,
    /// Negotiate TLS.
    StartTls,
    /// Begin compression.
    Compress,
    /// The client has sent QUIT.
    Quit,
    Close,
}

/// Commands that are handled together: articles of TAKETHIS, or offers of CHECK, never both.
#[derive(Debug, Default)]
struct GatheredCommands<'b> {
    articles: Vec<IncomingArticle<'b>>,
    /// Arguments of the CHECK commands, which need not be Message-IDs.
    offers: Vec<&'b [u8]>,
}

/// A round, which handles all complete commands and articles in the receive buffer.
pub(super) struct InputRound<'r, 'b, S: NewsSource> {
    buffer: &'b [u8],
    expecting: &'r mut ExpectedInput,
    dispatcher: &'r mut Dispatcher<S>,
    out: &'r mut ServerOutput,
    gathered: GatheredCommands<'b>,
    ahead: LookAhead,
}

/// The end of a round.
pub(super) struct RoundEnd {
    /// Bytes that were handled.
    pub consumed: usize,
    /// Commands and articles handled.
    pub steps: u32,
    pub flow: SessionFlow,
}

/// Progress after a step.
enum RoundStep {
    /// The next command or article starts here.
    To(usize),
    /// More input is needed; the handled bytes end here.
    More(usize),
    /// Everything up to here is handled, and the next bytes are no command.
    Switch(usize, SessionFlow),
    /// The session ends.
    Close,
}

impl<'r, 'b, S: NewsSource> InputRound<'r, 'b, S> {
    pub fn new(
        buffer: &'b [u8],
        expecting: &'r mut ExpectedInput,
        dispatcher: &'r mut Dispatcher<S>,
        out: &'r mut ServerOutput,
    ) -> Self {
        let (gathered, ahead) = (GatheredCommands::default(), LookAhead::default());
        Self { buffer, expecting, dispatcher, out, gathered, ahead }
    }

    /// Handles all complete commands and articles in the buffer.
    pub async fn run(mut self) -> io::Result<RoundEnd> {
        let mut end = RoundEnd { consumed: 0, steps: 0, flow: SessionFlow::Continue };
        let mut at = 0;
        loop {
            match self.step(at).await? {
                RoundStep::To(next) => {
                    at = next;
                    end.steps += 1;
                }
                RoundStep::More(done) => {
                    end.consumed = done;
                    break;
                }
                RoundStep::Switch(done, flow) => {
                    (end.consumed, end.flow) = (done, flow);
                    break;
                }
                RoundStep::Close => {
                    (end.consumed, end.flow) = (at, SessionFlow::Close);
                    break;
                }
            }
        }
        std::mem::take(&mut self.ahead).end(&self.dispatcher.served.reader).await;
        if self.file().await? == FeedState::Disconnect {
            end.flow = SessionFlow::Close;
        }
        Ok(end)
    }

    /// Handles what begins at `at`.
    async fn step(&mut self, at: usize) -> io::Result<RoundStep> {
        Ok(match *self.expecting {
            ExpectedInput::Command => return self.command(at).await,
            ExpectedInput::Article { way, head, resume_from } => {
                return self.article(at, way, head, resume_from).await;
            }
            ExpectedInput::SaslResponse => Box::pin(self.sasl_line(at)).await,
            ExpectedInput::LineEnd => self.line_end(at),
            ExpectedInput::Batch(_) if at >= self.buffer.len() => RoundStep::More(at),
            ExpectedInput::Batch(_) => self.batch_octets(at),
            ExpectedInput::ArticleEnd { .. } => self.article_end(at),
        })
    }

    /// Handles the command at `at`.
    async fn command(&mut self, at: usize) -> io::Result<RoundStep> {
        if self.ahead.is_due(self.buffer, at)
            && self.dispatcher.served.reader.looks_ahead()
            && self.dispatcher.client().may_read()
        {
            // Boxed: this is rare, and would make every session larger.
            Box::pin(self.ahead.announce(self.buffer, at, &self.dispatcher.served.reader)).await;
        }
        let (line, next) = match command_line(self.buffer, at) {
            NextLine::More => return Ok(RoundStep::More(at)),
            NextLine::Line { line, next } => (line, next),
            NextLine::TooLong { next } => {
                if self.file().await? == FeedState::Disconnect {
                    return Ok(RoundStep::Close);
                }
                let text = format!("Line too long (at most {LINE_BYTES_MAX} bytes)");
                append(self.out.text(), code::SYNTAX_ERROR, &text);
                return Ok(match next {
                    Some(next) => RoundStep::To(next),
                    None => {
                        *self.expecting = ExpectedInput::LineEnd;
                        RoundStep::More(self.buffer.len())
                    }
                });
            }
        };
        let command = command::parse(line);
        match &command {
            Ok(NntpCommand::Takethis(_)) => {
                self.answer_offers();
                *self.expecting = ExpectedInput::article_behind(next - at);
                return Ok(RoundStep::To(at));
            }
            Ok(NntpCommand::Check(id))
                if self.dispatcher.client().may_stream() && self.gathered.articles.is_empty() =>
            {
                self.gathered.offers.push(id);
                if self.gathered.offers.len() >= OFFERS_MAX {
                    self.answer_offers();
                    self.out.flush().await?;
                }
                return Ok(RoundStep::To(next));
            }
            Ok(command) => self.ahead.select_changes(command),
            Err(_) => {}
        }
        if self.file().await? == FeedState::Disconnect {
            return Ok(RoundStep::Close);
        }
        let outcome = self.dispatcher.command(command, line, self.out).await?;
        self.out.finish_answer().await?;
        Ok(match outcome {
            CommandOutcome::Done => RoundStep::To(next),
            CommandOutcome::Close => RoundStep::Close,
            CommandOutcome::Quit => RoundStep::Switch(next, SessionFlow::Quit),
            CommandOutcome::StartTls | CommandOutcome::Compress if next < self.buffer.len() => {
                refuse_pipelined(&outcome, self.out.text());
                RoundStep::To(next)
            }
            CommandOutcome::StartTls => {
                append_standard(self.out.text(), code::CONTINUE_TLS);
                RoundStep::Switch(next, SessionFlow::StartTls)
            }
            CommandOutcome::Compress => RoundStep::Switch(next, SessionFlow::Compress),
            CommandOutcome::ExpectBatch(batch) => {
                *self.expecting = ExpectedInput::Batch(batch);
                RoundStep::To(next)
            }
            CommandOutcome::ExpectSasl => {
                *self.expecting = ExpectedInput::SaslResponse;
                RoundStep::To(next)
            }
            CommandOutcome::Expect(way) => {
                *self.expecting = ExpectedInput::Article { way, head: 0, resume_from: 0 };
                // The client waits for this answer before it sends the article.
                RoundStep::To(next)
            }
        })
    }

    /// Handles the article whose command line is at `at`.
    async fn article(
        &mut self,
        at: usize,
        way: ArticleCommand,
        head: usize,
        resume_from: usize,
    ) -> io::Result<RoundStep> {
        let may_send = way != ArticleCommand::Takethis || self.dispatcher.client().may_stream();
        let wire = self.buffer.get(at + head..).unwrap_or_default();
        let (article_len, next) = match find_end(wire, resume_from) {
            BlockEnd::Found { article_len, next } => (article_len, next),
            BlockEnd::More { .. } if !may_send => {
                return Ok(self.discard_article(at, DiscardReason::NotPermitted));
            }
            BlockEnd::More { resume_from }
                if wire.len() as u64 <= self.dispatcher.client().config().site.article_bytes_max =>
            {
                *self.expecting = ExpectedInput::Article { way, head, resume_from };
                return Ok(RoundStep::More(at));
            }
            BlockEnd::More { .. } => {
                if way != ArticleCommand::Post
                    && let Some(feed) = self.dispatcher.served.feed()
                {
                    feed.begun_too_large(takethis_id(self.buffer, at, head), wire);
                }
                return Ok(self.discard_article(at, DiscardReason::TooLarge));
            }
        };
        *self.expecting = ExpectedInput::Command;
        let wire = wire.get(..article_len).unwrap_or_default();
        let next = at + head + next;
        match way {
            ArticleCommand::Takethis if !may_send => self.dispatcher.refuse_feed(self.out.text()),
            ArticleCommand::Takethis => {
                let claimed_id = Some(takethis_id(self.buffer, at, head));
                self.gathered.articles.push(IncomingArticle { wire, claimed_id });
                if self.gathered.articles.len() >= GATHERED_ARTICLES_MAX {
                    if self.file().await? == FeedState::Disconnect {
                        return Ok(RoundStep::Close);
                    }
                    self.out.flush().await?;
                }
            }
            ArticleCommand::Ihave => {
                if let Some(feed) = self.dispatcher.served.feed() {
                    feed.receive(wire, self.out.text()).await;
                }
            }
            ArticleCommand::Post => self.dispatcher.post(wire, self.out.text()).await,
        }
        Ok(RoundStep::To(next))
    }

    /// Discards the article whose command line is at `at` from here on.
    fn discard_article(&mut self, at: usize, why: DiscardReason) -> RoundStep {
        RoundStep::To(self.expecting.discard_article(self.buffer, at, why))
    }

    /// Handles the rest of an article that is discarded.
    fn article_end(&mut self, at: usize) -> RoundStep {
        // From 1: position 0 is in the middle of a line.
        let next = match find_end(self.buffer.get(at..).unwrap_or_default(), 1) {
            BlockEnd::More { .. } => {
                return RoundStep::More(self.buffer.len().saturating_sub(END_OVERLAP_BYTES).max(at));
            }
            BlockEnd::Found { next, .. } => at + next,
        };
        let expecting = std::mem::replace(self.expecting, ExpectedInput::Command);
        let ExpectedInput::ArticleEnd { way, id, why } = expecting else { return RoundStep::To(next) };
        match self.dispatcher.discarded(way, &id, why, self.out.text()) {
            FeedState::Continue => RoundStep::To(next),
            FeedState::Disconnect => RoundStep::Close,
        }
    }

    /// Handles octets of a batch from `at` on.
    fn batch_octets(&mut self, at: usize) -> RoundStep {
        let ExpectedInput::Batch(batch) = &mut *self.expecting else { return RoundStep::To(at) };
        let taken = batch.take(self.buffer.get(at..).unwrap_or_default());
        if !batch.is_whole() {
            return RoundStep::More(self.buffer.len());
        }
        if let ExpectedInput::Batch(batch) = std::mem::replace(self.expecting, ExpectedInput::Command) {
            self.dispatcher.finish_batch(*batch, self.out.text());
        }
        RoundStep::To(at + taken)
    }

    /// Handles the line of a SASL exchange at `at`.
    async fn sasl_line(&mut self, at: usize) -> RoundStep {
        let (line, next) = match next_line_within(self.buffer, at, SASL_LINE_BYTES_MAX) {
            NextLine::More => return RoundStep::More(at),
            NextLine::Line { line, next } => (line, Some(next)),
            // No valid response is this long: treated as invalid base64.
            NextLine::TooLong { next } => (&b"!"[..], next),
        };
        let outcome = self.dispatcher.sasl_response(line, self.out).await;
        *self.expecting = match (&outcome, next) {
            (CommandOutcome::Close, _) => return RoundStep::Close,
            (_, None) => ExpectedInput::LineEnd,
            (CommandOutcome::ExpectSasl, _) => ExpectedInput::SaslResponse,
            _ => ExpectedInput::Command,
        };
        next.map_or(RoundStep::More(self.buffer.len()), RoundStep::To)
    }

    /// Handles the rest of a command line that is discarded.
    fn line_end(&mut self, at: usize) -> RoundStep {
        match memchr(b'\n', self.buffer.get(at..).unwrap_or_default()) {
            None => RoundStep::More(self.buffer.len()),
            Some(lf) => {
                *self.expecting = ExpectedInput::Command;
                RoundStep::To(at + lf + 1)
            }
        }
    }

    /// Files the articles gathered so far, after answering the offers.
    async fn file(&mut self) -> io::Result<FeedState> {
        self.answer_offers();
        let articles = &self.gathered.articles;
        let batch_articles = match self.dispatcher.served.begun_feed() {
            // Each part would wait for an answer of the log.
            Some(feed) if feed.waits_for_log() => GATHERED_ARTICLES_MAX,
            Some(feed) if feed.is_crowded() => BATCH_ARTICLES_CROWDED,
            _ => BATCH_ARTICLES,
        };
        let parts = ((articles.len() + batch_articles / 2) / batch_articles).max(1);
        let mut state = FeedState::Continue;
        for (number, part) in articles.chunks(articles.len().div_ceil(parts).max(1)).enumerate() {
            if number > 0 {
                self.out.flush().await?;
            }
            let Some(feed) = self.dispatcher.served.feed() else { break };
            state = feed.take(part, self.out.text()).await;
            if state == FeedState::Disconnect {
                break;
            }
        }
        self.gathered.articles.clear();
        Ok(state)
    }

    /// Answers the CHECKs gathered so far.
    fn answer_offers(&mut self) {
        if !self.gathered.offers.is_empty()
            && let Some(feed) = self.dispatcher.served.feed()
        {
            feed.check(&self.gathered.offers, self.out.text());
        }
        self.gathered.offers.clear();
    }
}

/// Refuses STARTTLS or COMPRESS if more input has arrived after it, as an attacker may have inserted that
/// while the connection was not yet secure (RFC 4642 section 2.2.1, RFC 8054 section 2.2.1).
fn refuse_pipelined(outcome: &CommandOutcome, out: &mut Vec<u8>) {
    if matches!(outcome, CommandOutcome::StartTls) {
        append(out, code::CANNOT_TLS, "STARTTLS must not be pipelined");
    } else {
        append(out, code::INTERNAL_FAULT, "COMPRESS must not be pipelined");
    }
}
