//! Passing commands and articles to the duties they belong to, and checking the client's rights.
//!
//! Called by `rounds`, which has split them from the input.

use super::commands::{is_by_id, is_reading};
use super::expecting::{ArticleCommand, DiscardReason};
use super::login::{LoginProgress, LoginStep};
use super::served::ServedClient;
use super::xbatch::Xbatch;
use super::{AdmissionLimit, ConnectedClient, ReceiveBudget, capabilities};
use crate::inject::{self, Injector};
use crate::relay::FeedState;
use crate::site::Site;
use access::rules::AccessRight;
use netnews::date::format_nntp;
use netnews::nntp::command::{ArticleSelector, CommandError, ListKeyword, NntpCommand};
use netnews::nntp::response::{append, append_standard, code, text};
use nntp_io::ServerOutput;
use site_base::clock::unix_now;
use site_base::counters::add;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tracing::trace;
use upstreams::NewsSource;

/// The response for a client that may not read, if nothing helps.
const MAY_NOT_READ: (u16, &str) = (code::NOT_PERMITTED, "You may not read here");

/// The response for readers on a site without numbers.
const NO_GROUPS: (u16, &str) = (code::NOT_PERMITTED, "This server only relays: it has no groups to read");

/// The step after a command.
#[derive(Debug)]
pub(super) enum CommandOutcome {
    /// The next command.
    Done,
    /// Receive the article it announced.
    Expect(ArticleCommand),
    /// Receive the batch it announced.
    ExpectBatch(Box<Xbatch>),
    /// Receive a line of the SASL exchange.
    ExpectSasl,
    /// Begin TLS, if nothing was sent after the command.
    StartTls,
    /// Begin compression, if nothing was sent after the command.
    Compress,
    /// End the session at the client's request.
    Quit,
    /// End the session.
    Close,
}

/// State shared by sessions in addition to that of the site.
pub struct SessionContext {
    /// Handles posts.
    pub injector: Injector,
    /// Memory for receive buffers.
    pub budget: ReceiveBudget,
}

/// Passes what a client sends to the duties.
pub(super) struct Dispatcher<S: NewsSource> {
    site: Arc<Site>,
    context: Arc<SessionContext>,
    login: LoginProgress,
    pub served: ServedClient<S>,
}

impl<S: NewsSource> Dispatcher<S> {
    pub fn new(site: Arc<Site>, context: Arc<SessionContext>, served: ServedClient<S>) -> Self {
        Self { site, context, login: LoginProgress::default(), served }
    }

    pub fn client(&self) -> &ConnectedClient {
        self.served.client()
    }

    /// Continues as `client` after STARTTLS, and forgets everything that was said before.
    pub fn start_over(
        &mut self,
        client: ConnectedClient,
        out: &mut ServerOutput,
    ) -> Result<(), AdmissionLimit> {
        self.login = LoginProgress::default();
        self.served.start_over(client, out)
    }

    /// Answers a command; `line` is its line.
    pub async fn command(
        &mut self,
        command: Result<NntpCommand<'_>, CommandError>,
        line: &[u8],
        out: &mut ServerOutput,
    ) -> io::Result<CommandOutcome> {
        let command = match command {
            Ok(command) => command,
            Err(CommandError::Empty) => return Ok(CommandOutcome::Done),
            // Boxed: this is rare, and would make every session larger.
            Err(CommandError::UnknownCommand) => return Box::pin(self.pass_on(line, out)).await,
            Err(syntax) => {
                syntax.append(out.text());
                return Ok(CommandOutcome::Done);
            }
        };
        trace!(client = self.client().address_text(), ?command, "command");
        // A peer must see the effect of withdrawals that it has sent; offers do not wait for that.
        if !matches!(command, NntpCommand::Check(_) | NntpCommand::Ihave(_))
            && let Some(feed) = self.served.begun_feed()
        {
            feed.settle_withdrawals();
        }
        match command {
            NntpCommand::Check(_)
            | NntpCommand::Takethis(_)
            | NntpCommand::Ihave(_)
            | NntpCommand::ModeStream
            | NntpCommand::ModeHeadfeed => Ok(self.relay(&command, out.text())),
            NntpCommand::Post => Ok(self.may_post(out.text())),
            NntpCommand::Xbatch { bytes } => {
                let batch = Xbatch::begin(&self.site, self.client(), bytes, out.text());
                Ok(batch.map_or(CommandOutcome::Done, CommandOutcome::ExpectBatch))
            }
            NntpCommand::AuthinfoUser(_)
            | NntpCommand::AuthinfoPass(_)
            | NntpCommand::AuthinfoSasl { .. }
            | NntpCommand::Authinfo(_) => {
                // Boxed: checking a password would make every session larger.
                Ok(Box::pin(self.authinfo(&command, out)).await)
            }
            NntpCommand::NewNews { .. } if self.client().may_read() && !self.client().may_newnews() => {
                let refused = (code::NOT_PERMITTED, "You may not use NEWNEWS here");
                Ok(self.refuse(AccessRight::Newnews, refused, out.text()))
            }
            NntpCommand::Head(ArticleSelector::MessageId(_))
            | NntpCommand::Stat(ArticleSelector::MessageId(_))
                if self.client().may_feed() =>
            {
                self.read(&command, out).await
            }
            command if is_reading(&command) => {
                let is_by_id = is_by_id(&command);
                if !is_by_id && !self.client().config().site.numbers {
                    append(out.text(), NO_GROUPS.0, NO_GROUPS.1);
                } else if is_by_id && self.client().may_read_by_id() || self.client().may_read() {
                    return self.read(&command, out).await;
                } else {
                    self.refuse(AccessRight::Read, MAY_NOT_READ, out.text());
                }
                Ok(CommandOutcome::Done)
            }
            command => Ok(self.plain(&command, out.text())),
        }
    }

    /// Forwards a command that is not known here, as another server may know it.
    async fn pass_on(&mut self, line: &[u8], out: &mut ServerOutput) -> io::Result<CommandOutcome> {
        if !self.client().may_read() || !self.served.reader.pass_on(line, out).await? {
            CommandError::UnknownCommand.append(out.text());
        }
        Ok(CommandOutcome::Done)
    }

    /// Answers a reader's command; some are timed.
    async fn read(
        &mut self,
        command: &NntpCommand<'_>,
        out: &mut ServerOutput,
    ) -> io::Result<CommandOutcome> {
        let latencies = &self.site.counters.latencies;
        let latency = match command {
            NntpCommand::Article(_) => Some(&latencies.article),
            NntpCommand::Over(_) | NntpCommand::Xover(_) => Some(&latencies.over),
            _ => None,
        };
        // The clock is read only for those.
        let begun = latency.map(|_| Instant::now());
        self.served.reader.answer(command, out).await?;
        if let (Some(latency), Some(begun)) = (latency, begun) {
            latency.observe(begun.elapsed());
        }
        Ok(CommandOutcome::Done)
    }

    async fn authinfo(&mut self, command: &NntpCommand<'_>, out: &mut ServerOutput) -> CommandOutcome {
        let step = self.login.authinfo(&self.site, self.served.client(), command, out.text()).await;
        self.continue_login(step, out).await
    }

    /// Handles a line of a SASL exchange.
    pub async fn sasl_response(&mut self, line: &[u8], out: &mut ServerOutput) -> CommandOutcome {
        let step = self.login.response(&self.site, self.served.client(), line, out.text()).await;
        self.continue_login(step, out).await
    }

    async fn continue_login(&mut self, step: LoginStep, out: &mut ServerOutput) -> CommandOutcome {
        let (user, data) = match step {
            LoginStep::Done => return CommandOutcome::Done,
            LoginStep::Respond => return CommandOutcome::ExpectSasl,
            LoginStep::Close => return CommandOutcome::Close,
            LoginStep::LoggedIn(user, data) => (user, data),
        };
        if let Err(limit) = self.served.log_in(user, out).await {
            append(out.text(), code::UNAVAILABLE, &limit.to_string());
            return CommandOutcome::Close;
        }
        match data {
            Some(data) => append(out.text(), code::AUTHENTICATED_WITH_DATA, &data),
            None => append_standard(out.text(), code::AUTHENTICATED),
        }
        CommandOutcome::Done
    }

    fn relay(&mut self, command: &NntpCommand<'_>, out: &mut Vec<u8>) -> CommandOutcome {
        let client = self.client();
        let may = match command {
            NntpCommand::Ihave(_) => client.may_feed(),
            NntpCommand::ModeHeadfeed => client.may_feed_headers(),
            _ => client.may_stream(),
        };
        if !may {
            let (code, text) = match command {
                NntpCommand::ModeHeadfeed if client.may_feed() => {
                    (code::NOT_PERMITTED, "You may not send articles without their bodies here")
                }
                _ => client.no_feed(),
            };
            append(out, code, text);
            return CommandOutcome::Done;
        }
        let Some(feed) = self.served.feed() else { return CommandOutcome::Done };
        match command {
            NntpCommand::Check(argument) => feed.check(&[argument], out),
            NntpCommand::Ihave(id) if feed.offer(*id, out) => {
                return CommandOutcome::Expect(ArticleCommand::Ihave);
            }
            NntpCommand::ModeStream => append_standard(out, code::STREAMING_OK),
            NntpCommand::ModeHeadfeed => {
                feed.of_headers();
                append_standard(out, code::HEADERS_OK);
            }
            _ => {}
        }
        CommandOutcome::Done
    }

    /// Responds with the step that would help, or with `refused`.
    fn refuse(
        &mut self,
        right: AccessRight,
        refused: (u16, &'static str),
        out: &mut Vec<u8>,
    ) -> CommandOutcome {
        let (code, text) = self.client().missing_right(right, refused);
        append(out, code, text);
        CommandOutcome::Done
    }

    /// Answers POST before the article comes.
    fn may_post(&mut self, out: &mut Vec<u8>) -> CommandOutcome {
        if !self.client().may_post() {
            let refused = (code::POSTING_NOT_PERMITTED, text(code::POSTING_NOT_PERMITTED));
            return self.refuse(AccessRight::Post, refused, out);
        }
        if let Some(paused) = self.site.filer.paused() {
            let text = format!("Posting is not possible now: {paused}; try again later");
            append(out, code::POSTING_NOT_PERMITTED, &text);
            return CommandOutcome::Done;
        }
        let counted =
            self.client().limit_subject().map(|subject| self.site.limits.post(&subject, Instant::now()));
        if let Some(Err(wait)) = counted {
            let max = self.client().access().and_then(|access| access.posts_per_hour_max).unwrap_or_default();
            let text =
                format!("Too many posts (at most {max} an hour), try again in {} s", wait.as_secs() + 1);
            append(out, code::POSTING_NOT_PERMITTED, &text);
            return CommandOutcome::Done;
        }
        if inject::offer(self.client().access(), out) {
            CommandOutcome::Expect(ArticleCommand::Post)
        } else {
            CommandOutcome::Done
        }
    }

    /// Handles commands that concern the connection itself.
    fn plain(&mut self, command: &NntpCommand<'_>, out: &mut Vec<u8>) -> CommandOutcome {
        let client = self.client();
        match command {
            NntpCommand::Quit => {
                append_standard(out, code::CLOSING);
                return CommandOutcome::Quit;
            }
            NntpCommand::ModeReader if !client.config().site.numbers => {
                append(out, NO_GROUPS.0, NO_GROUPS.1);
                return CommandOutcome::Close;
            }
            NntpCommand::ModeReader if client.may_read() || client.may_become(AccessRight::Read) => {
                capabilities::posting(client, out);
            }
            NntpCommand::ModeReader => {
                append(out, MAY_NOT_READ.0, MAY_NOT_READ.1);
                return CommandOutcome::Close;
            }
            NntpCommand::Mode(_) => append(out, code::SYNTAX_ERROR, "Unknown MODE variant"),
            NntpCommand::List(ListKeyword::Extensions) => capabilities::extensions(client, out),
            NntpCommand::Capabilities { .. } => {
                let reader = &self.served.reader;
                capabilities::list(client, &|list| reader.has_list(list), out);
            }
            NntpCommand::Help => capabilities::help(client, out),
            NntpCommand::Date => {
                out.extend_from_slice(b"111 ");
                out.extend_from_slice(format_nntp(unix_now()).as_ref());
                out.extend_from_slice(b"\r\n");
            }
            NntpCommand::Slave => append_standard(out, code::SLAVE_NOTED),
            NntpCommand::StartTls if client.is_compressed() => {
                append(out, code::NOT_PERMITTED, "STARTTLS must come before COMPRESS");
            }
            NntpCommand::StartTls if client.tls().is_some() => {
                append(out, code::NOT_PERMITTED, "TLS is active already");
            }
            NntpCommand::StartTls if client.user().is_some() => {
                append(out, code::NOT_PERMITTED, "STARTTLS must come before AUTHINFO");
            }
            NntpCommand::StartTls if client.may_start_tls() => return CommandOutcome::StartTls,
            NntpCommand::StartTls => append_standard(out, code::CANNOT_TLS),
            NntpCommand::Compress { .. } if client.is_compressed() => {
                append(out, code::NOT_PERMITTED, "Compression is active already");
            }
            NntpCommand::Compress { algorithm } if algorithm.eq_ignore_ascii_case(b"DEFLATE") => {
                return CommandOutcome::Compress;
            }
            NntpCommand::Compress { .. } => {
                append(out, code::NOT_SUPPORTED, "Compression algorithm not supported")
            }
            _ => append_standard(out, code::NOT_SUPPORTED),
        }
        CommandOutcome::Done
    }

    /// Files an article that is posted.
    pub async fn post(&mut self, wire: &[u8], out: &mut Vec<u8>) {
        self.context.injector.post(&self.site, self.client().poster(), wire, out).await;
    }

    /// Handles a batch that has arrived.
    pub fn finish_batch(&mut self, batch: Xbatch, out: &mut Vec<u8>) {
        batch.finish(&self.site, self.client(), out);
    }

    /// Refuses an article that the client may not send.
    pub fn refuse_feed(&self, out: &mut Vec<u8>) {
        let (code, text) = self.client().no_feed();
        append(out, code, text);
    }

    /// Answers an article that was discarded; `id` is the Message-ID of TAKETHIS.
    pub fn discarded(
        &mut self,
        way: ArticleCommand,
        id: &[u8],
        why: DiscardReason,
        out: &mut Vec<u8>,
    ) -> FeedState {
        if matches!(why, DiscardReason::NoRoom(_)) {
            add(&self.site.counters.try_later, 1);
        }
        match (why, way) {
            (DiscardReason::TooLarge, ArticleCommand::Post) => inject::post_too_large(&self.site, out),
            (DiscardReason::NoRoom(why), ArticleCommand::Post) => append(out, code::POSTING_FAILED, why.0),
            (DiscardReason::TooLarge, _) => {
                if let Some(feed) = self.served.feed() {
                    feed.too_large((way == ArticleCommand::Takethis).then_some(id), out);
                }
            }
            (DiscardReason::NoRoom(why), ArticleCommand::Ihave) => {
                if let Some(feed) = self.served.feed() {
                    feed.receive_later(why.0, out);
                }
            }
            // No other answer to TAKETHIS asks for a second try (RFC 4644 section 2.5.2).
            (DiscardReason::NoRoom(why), ArticleCommand::Takethis) => {
                append(out, code::UNAVAILABLE, why.0);
                return FeedState::Disconnect;
            }
            (DiscardReason::NotPermitted, _) => self.refuse_feed(out),
        }
        FeedState::Continue
    }
}
