//! Splitting the input into commands and articles.
//!
//! TAKETHIS articles that are in the buffer together are filed together, as slices of the buffer, and CHECKs
//! are answered together; any other command ends such a batch first, so that answers keep the order of
//! commands. An incomplete article stays in the buffer with its command line, and the search for its end
//! continues where it stopped. Called once per round by the session.

use super::budget::NoArticleMemory;
use super::dispatch::CommandOutcome;
use super::login::SASL_LINE_BYTES_MAX;
use super::{Session, SessionFlow};
use crate::inject;
use crate::relay::FeedState;
use ingest::IncomingArticle;
use memchr::memchr;
use netnews::nntp::command::{self, NntpCommand};
use netnews::nntp::response::{append, append_standard, code};
use netnews::nntp::wire::{BlockEnd, LINE_BYTES_MAX, NextLine, find_end, next_line, next_line_within};
use site_base::counters::add;
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
/// Discarded bytes that a search for an article's end must see again.
const END_OVERLAP_BYTES: usize = 5;

/// The kind of the next bytes.
#[derive(Debug)]
pub(super) enum ExpectedInput {
    /// A command line.
    Command,
    /// A line of a SASL exchange.
    SaslResponse,
    /// The rest of a command line that was too long.
    LineEnd,
    /// Octets of a batch.
    Batch,
    /// An article.
    Article {
        way: ArticleCommand,
        /// Offset of the article from the start of its command line, which is kept in the buffer; 0 if the
        /// line is not.
        head: usize,
        /// Offset in the article at which to resume the search for its end.
        resume_from: usize,
    },
    /// The rest of an article that is discarded.
    ArticleEnd { way: ArticleCommand, id: Box<[u8]>, why: DiscardReason },
}

/// The reason why an article is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscardReason {
    TooLarge,
    /// The client may not send it.
    NotPermitted,
    NoRoom(NoArticleMemory),
}

/// The command that brings an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArticleCommand {
    Takethis,
    Ihave,
    Post,
}

impl ExpectedInput {
    /// Returns the state for an article at this offset from the start of its command line.
    pub fn article_behind(head: usize) -> Self {
        Self::Article { way: ArticleCommand::Takethis, head, resume_from: 0 }
    }

    /// Returns true if an article is under way.
    pub fn is_article(&self) -> bool {
        matches!(self, Self::Article { .. } | Self::ArticleEnd { .. } | Self::Batch)
    }

    /// Returns true if bytes are not kept in the buffer.
    pub fn is_skipping(&self) -> bool {
        matches!(self, Self::LineEnd | Self::ArticleEnd { .. } | Self::Batch)
    }
}

/// Commands that are handled together: articles of TAKETHIS, or offers of CHECK, never both.
#[derive(Debug, Default)]
struct GatheredCommands<'b> {
    articles: Vec<IncomingArticle<'b>>,
    /// The Message-IDs offered.
    offers: Vec<&'b [u8]>,
}

/// Progress after a step.
pub(super) enum RoundStep {
    /// The next command or article starts here.
    To(usize),
    /// More input is needed; the handled bytes end here.
    More(usize),
    /// Everything up to here is handled, and the next bytes are no command.
    Switch(usize, SessionFlow),
    /// The session ends.
    Close,
}

impl<S: NewsSource> Session<S> {
    /// Handles everything complete in `buffer`; sets `consumed` to the number of bytes handled.
    pub(super) async fn handle(&mut self, buffer: &[u8], consumed: &mut usize) -> io::Result<SessionFlow> {
        let mut batch = GatheredCommands::default();
        let mut at = 0;
        let mut flow = SessionFlow::Continue;
        self.steps = 0;
        loop {
            let step = match self.expecting {
                ExpectedInput::Command => {
                    if self.may_look_ahead(buffer, at) {
                        // Boxed: this is rare, and would make every session larger.
                        Box::pin(self.look_ahead(buffer, at)).await;
                    }
                    self.command(buffer, at, &mut batch).await?
                }
                ExpectedInput::Article { way, head, resume_from } => {
                    self.article(buffer, at, way, head, resume_from, &mut batch).await?
                }
                ExpectedInput::SaslResponse => Box::pin(self.sasl_line(buffer, at)).await,
                ExpectedInput::LineEnd => self.line_end(buffer, at),
                ExpectedInput::Batch if at >= buffer.len() => RoundStep::More(at),
                ExpectedInput::Batch => self.batch_octets(buffer, at),
                ExpectedInput::ArticleEnd { .. } => self.article_end(buffer, at),
            };
            match step {
                RoundStep::To(next) => {
                    at = next;
                    self.steps += 1;
                }
                RoundStep::More(done) => {
                    at = done;
                    break;
                }
                RoundStep::Switch(done, switch) => {
                    at = done;
                    flow = switch;
                    break;
                }
                RoundStep::Close => {
                    flow = SessionFlow::Close;
                    break;
                }
            }
        }
        *consumed = at;
        self.end_look_ahead().await;
        if self.file(&mut batch).await? == SessionFlow::Close { Ok(SessionFlow::Close) } else { Ok(flow) }
    }

    /// Handles the command at `at`.
    async fn command<'b>(
        &mut self,
        buffer: &'b [u8],
        at: usize,
        batch: &mut GatheredCommands<'b>,
    ) -> io::Result<RoundStep> {
        let (line, next) = match command_line(buffer, at) {
            NextLine::More => return Ok(RoundStep::More(at)),
            NextLine::Line { line, next } => (line, next),
            NextLine::TooLong { next } => {
                if self.file(batch).await? == SessionFlow::Close {
                    return Ok(RoundStep::Close);
                }
                let text = format!("Line too long (at most {LINE_BYTES_MAX} bytes)");
                append(self.out.text(), code::SYNTAX_ERROR, &text);
                return Ok(match next {
                    Some(next) => RoundStep::To(next),
                    None => {
                        self.expecting = ExpectedInput::LineEnd;
                        RoundStep::More(buffer.len())
                    }
                });
            }
        };
        let command = command::parse(line);
        match command {
            Ok(NntpCommand::Takethis(_)) => {
                self.answer_offers(&mut batch.offers);
                self.expecting = ExpectedInput::article_behind(next - at);
                return Ok(RoundStep::To(at));
            }
            Ok(NntpCommand::Check(id)) if self.client.may_stream() && batch.articles.is_empty() => {
                batch.offers.push(id);
                if batch.offers.len() >= OFFERS_MAX {
                    self.answer_offers(&mut batch.offers);
                    self.out.flush().await?;
                }
                return Ok(RoundStep::To(next));
            }
            _ => {}
        }
        if self.file(batch).await? == SessionFlow::Close {
            return Ok(RoundStep::Close);
        }
        let verdict = self.dispatch(command, line).await?;
        self.out.relieve().await?;
        Ok(match verdict {
            CommandOutcome::Done => RoundStep::To(next),
            CommandOutcome::Close => RoundStep::Close,
            CommandOutcome::Quit => RoundStep::Switch(next, SessionFlow::Quit),
            CommandOutcome::StartTls | CommandOutcome::Compress if next < buffer.len() => {
                refuse_pipelined(verdict, self.out.text());
                RoundStep::To(next)
            }
            CommandOutcome::StartTls => {
                append_standard(self.out.text(), code::CONTINUE_TLS);
                RoundStep::Switch(next, SessionFlow::StartTls)
            }
            CommandOutcome::Compress => RoundStep::Switch(next, SessionFlow::Compress),
            CommandOutcome::ExpectBatch => {
                self.expecting = ExpectedInput::Batch;
                RoundStep::To(next)
            }
            CommandOutcome::Expect(way) => {
                self.expecting = ExpectedInput::Article { way, head: 0, resume_from: 0 };
                // The client waits for this answer before it sends the article.
                RoundStep::To(next)
            }
        })
    }

    /// Handles the article whose command line is at `at`.
    async fn article<'b>(
        &mut self,
        buffer: &'b [u8],
        at: usize,
        way: ArticleCommand,
        head: usize,
        resume_from: usize,
        batch: &mut GatheredCommands<'b>,
    ) -> io::Result<RoundStep> {
        let wire = buffer.get(at + head..).unwrap_or_default();
        let (article_len, next) = match find_end(wire, resume_from) {
            BlockEnd::Found { article_len, next } => (article_len, next),
            BlockEnd::More { .. } if way == ArticleCommand::Takethis && !self.client.may_stream() => {
                return Ok(RoundStep::To(self.skip_article(
                    buffer,
                    way,
                    at,
                    head,
                    DiscardReason::NotPermitted,
                )));
            }
            BlockEnd::More { resume_from }
                if wire.len() as u64 <= self.client.config().site.article_bytes_max =>
            {
                self.expecting = ExpectedInput::Article { way, head, resume_from };
                return Ok(RoundStep::More(at));
            }
            BlockEnd::More { .. } => {
                let id = takethis_id(buffer, at, head);
                if way != ArticleCommand::Post
                    && let Some((feed, _)) = self.feed()
                {
                    feed.begun_too_large(id, wire);
                }
                return Ok(RoundStep::To(self.skip_article(buffer, way, at, head, DiscardReason::TooLarge)));
            }
        };
        self.expecting = ExpectedInput::Command;
        let wire = wire.get(..article_len).unwrap_or_default();
        let next = at + head + next;
        match way {
            ArticleCommand::Takethis if !self.client.may_stream() => {
                let (code, text) = self.client.no_feed();
                append(self.out.text(), code, text);
            }
            ArticleCommand::Takethis => {
                batch
                    .articles
                    .push(IncomingArticle { wire, claimed_id: Some(takethis_id(buffer, at, head)) });
                if batch.articles.len() >= GATHERED_ARTICLES_MAX {
                    if self.file(batch).await? == SessionFlow::Close {
                        return Ok(RoundStep::Close);
                    }
                    self.out.flush().await?;
                }
            }
            ArticleCommand::Ihave => {
                if let Some(feed) = &mut self.feed {
                    feed.receive(wire, self.out.text()).await;
                }
            }
            ArticleCommand::Post => {
                let poster = self.client.poster();
                self.context.injector.post(&self.site, poster, wire, self.out.text()).await;
            }
        }
        Ok(RoundStep::To(next))
    }

    /// Discards the article whose command line is at `at` from here on; returns the end of the bytes handled.
    pub(super) fn skip_article(
        &mut self,
        buffer: &[u8],
        way: ArticleCommand,
        at: usize,
        head: usize,
        why: DiscardReason,
    ) -> usize {
        let id = takethis_id(buffer, at, head).into();
        self.expecting = ExpectedInput::ArticleEnd { way, id, why };
        buffer.len().saturating_sub(END_OVERLAP_BYTES).max(at)
    }

    /// Handles the rest of an article that is discarded.
    fn article_end(&mut self, buffer: &[u8], at: usize) -> RoundStep {
        // From 1: position 0 is in the middle of a line.
        let next = match find_end(buffer.get(at..).unwrap_or_default(), 1) {
            BlockEnd::More { .. } => {
                return RoundStep::More(buffer.len().saturating_sub(END_OVERLAP_BYTES).max(at));
            }
            BlockEnd::Found { next, .. } => at + next,
        };
        let expecting = std::mem::replace(&mut self.expecting, ExpectedInput::Command);
        let ExpectedInput::ArticleEnd { way, id, why } = expecting else { return RoundStep::To(next) };
        if matches!(why, DiscardReason::NoRoom(_)) {
            add(&self.site.counters.try_later, 1);
        }
        match (why, way) {
            (DiscardReason::TooLarge, ArticleCommand::Post) => {
                inject::post_too_large(&self.site, self.out.text())
            }
            (DiscardReason::NoRoom(why), ArticleCommand::Post) => {
                append(self.out.text(), code::POSTING_FAILED, why.0)
            }
            (DiscardReason::TooLarge, _) => {
                if let Some((feed, out)) = self.feed() {
                    feed.too_large((way == ArticleCommand::Takethis).then_some(&id), out.text());
                }
            }
            (DiscardReason::NoRoom(why), ArticleCommand::Ihave) => {
                if let Some((feed, out)) = self.feed() {
                    feed.receive_later(why.0, out.text());
                }
            }
            // No other answer to TAKETHIS asks for a second try (RFC 4644 section 2.5.2).
            (DiscardReason::NoRoom(why), ArticleCommand::Takethis) => {
                append(self.out.text(), code::UNAVAILABLE, why.0);
                return RoundStep::Close;
            }
            (DiscardReason::NotPermitted, _) => {
                let (code, text) = self.client.no_feed();
                append(self.out.text(), code, text);
            }
        }
        RoundStep::To(next)
    }

    /// Handles the line of a SASL exchange at `at`.
    async fn sasl_line(&mut self, buffer: &[u8], at: usize) -> RoundStep {
        let (line, next) = match next_line_within(buffer, at, SASL_LINE_BYTES_MAX) {
            NextLine::More => return RoundStep::More(at),
            NextLine::Line { line, next } => (line, RoundStep::To(next)),
            NextLine::TooLong { next } => {
                // No valid response is this long: treated as invalid base64.
                (&b"!"[..], next.map_or(RoundStep::More(buffer.len()), RoundStep::To))
            }
        };
        let verdict = self.sasl_response(line).await;
        match (verdict, next) {
            (CommandOutcome::Close, _) => RoundStep::Close,
            (_, RoundStep::More(done)) => {
                self.expecting = ExpectedInput::LineEnd;
                RoundStep::More(done)
            }
            (_, next) => next,
        }
    }

    /// Handles the rest of a command line that is discarded.
    fn line_end(&mut self, buffer: &[u8], at: usize) -> RoundStep {
        match memchr(b'\n', buffer.get(at..).unwrap_or_default()) {
            None => RoundStep::More(buffer.len()),
            Some(lf) => {
                self.expecting = ExpectedInput::Command;
                RoundStep::To(at + lf + 1)
            }
        }
    }

    /// Files the articles gathered so far, after answering the offers.
    async fn file(&mut self, batch: &mut GatheredCommands<'_>) -> io::Result<SessionFlow> {
        self.answer_offers(&mut batch.offers);
        let gathered = batch.articles.len();
        let crowded = self.feed.as_ref().is_some_and(|feed| feed.is_crowded());
        let batch_articles = if crowded { BATCH_ARTICLES_CROWDED } else { BATCH_ARTICLES };
        let parts = ((gathered + batch_articles / 2) / batch_articles).max(1);
        let mut filed = 0;
        for part in batch.articles.chunks(gathered.div_ceil(parts).max(1)) {
            if filed > 0 {
                self.out.flush().await?;
            }
            let Some((feed, out)) = self.feed() else { break };
            if feed.take(part, out.text()).await == FeedState::Disconnect {
                return Ok(SessionFlow::Close);
            }
            filed += part.len();
        }
        batch.articles.clear();
        Ok(SessionFlow::Continue)
    }

    /// Answers the CHECKs gathered so far.
    fn answer_offers(&mut self, offers: &mut Vec<&[u8]>) {
        if offers.is_empty() {
            return;
        }
        if let Some((feed, out)) = self.feed() {
            feed.check(offers, out.text());
        }
        offers.clear();
    }
}

/// Refuses STARTTLS or COMPRESS with data after it, which may not be from the client that secures the
/// connection: nothing is switched (RFC 4642 section 2.2.1, RFC 8054 section 2.2.1).
fn refuse_pipelined(verdict: CommandOutcome, out: &mut Vec<u8>) {
    if verdict == CommandOutcome::StartTls {
        append(out, code::CANNOT_TLS, "STARTTLS must not be pipelined");
    } else {
        append(out, code::INTERNAL_FAULT, "COMPRESS must not be pipelined");
    }
}

/// Returns the command line at `at`; that of AUTHINFO SASL may be longer than others (RFC 4643 section
/// 2.4.1).
pub(super) fn command_line(buffer: &[u8], at: usize) -> NextLine<'_> {
    let line = next_line(buffer, at);
    let begins =
        |word: &[u8]| buffer.get(at..at + word.len()).is_some_and(|begun| begun.eq_ignore_ascii_case(word));
    match line {
        NextLine::TooLong { .. } if begins(b"AUTHINFO SASL ") => {
            next_line_within(buffer, at, SASL_LINE_BYTES_MAX)
        }
        line => line,
    }
}

/// Returns the argument of the TAKETHIS whose line is the `head` bytes at `at`; empty for other commands.
fn takethis_id(buffer: &[u8], at: usize, head: usize) -> &[u8] {
    match next_line(buffer.get(..at + head).unwrap_or_default(), at) {
        NextLine::Line { line, .. } => match command::parse(line) {
            Ok(NntpCommand::Takethis(id)) => id,
            _ => &[],
        },
        _ => &[],
    }
}
