//! Passing commands to the duties they belong to, and checking the client's rights.
//!
//! Called by `rounds` for every command except TAKETHIS, which is handled there.

use super::rounds::ArticleCommand;
use super::{ServerOutput, Session, capabilities};
use crate::inject;
use crate::relay::IncomingFeed;
use access::rules::AccessRight;
use netnews::date::format_nntp;
use netnews::nntp::command::{ArticleSelector, CommandError, ListKeyword, NntpCommand};
use netnews::nntp::response::{append, append_standard, code, text};
use site_base::clock::unix_now;
use std::io;
use std::time::Instant;
use tracing::{info, trace};
use upstreams::NewsSource;

/// The response for a client that may not read, if nothing helps.
const MAY_NOT_READ: (u16, &str) = (code::NOT_PERMITTED, "You may not read here");

/// The response for readers on a site without numbers.
const NO_GROUPS: (u16, &str) = (code::NOT_PERMITTED, "This server only relays: it has no groups to read");

/// The step after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandOutcome {
    /// The next command.
    Done,
    /// Receive the article it announced.
    Expect(ArticleCommand),
    /// Receive the batch it announced.
    ExpectBatch,
    /// Begin TLS, if nothing was sent after the command.
    StartTls,
    /// Begin compression, if nothing was sent after the command.
    Compress,
    /// End the session at the client's request.
    Quit,
    /// End the session.
    Close,
}

impl<S: NewsSource> Session<S> {
    /// Answers a command; `line` is its line.
    pub(super) async fn dispatch(
        &mut self,
        command: Result<NntpCommand<'_>, CommandError>,
        line: &[u8],
    ) -> io::Result<CommandOutcome> {
        let command = match command {
            Ok(command) => command,
            Err(CommandError::Empty) => return Ok(CommandOutcome::Done),
            // Boxed: this is rare, and would make every session larger.
            Err(CommandError::UnknownCommand) => return Box::pin(self.pass_on(line)).await,
            Err(syntax) => {
                syntax.append(self.out.text());
                return Ok(CommandOutcome::Done);
            }
        };
        trace!(client = self.client.address_text(), ?command, "command");
        // A peer must see the effect of withdrawals that it has sent; offers do not wait for that.
        if !matches!(command, NntpCommand::Check(_) | NntpCommand::Ihave(_))
            && let Some(feed) = &mut self.feed
        {
            feed.settle_withdrawals();
        }
        match command {
            NntpCommand::Check(_)
            | NntpCommand::Takethis(_)
            | NntpCommand::Ihave(_)
            | NntpCommand::ModeStream
            | NntpCommand::ModeHeadfeed => Ok(self.relay(&command)),
            NntpCommand::Post => Ok(self.post()),
            NntpCommand::Xbatch { bytes } => Ok(self.xbatch(bytes)),
            NntpCommand::AuthinfoUser(_)
            | NntpCommand::AuthinfoPass(_)
            | NntpCommand::AuthinfoSasl { .. }
            | NntpCommand::Authinfo(_) => {
                // Boxed: checking a password would make every session larger.
                Ok(Box::pin(self.authinfo(&command)).await)
            }
            NntpCommand::NewNews { .. } if self.client.may_read() && !self.client.may_newnews() => {
                let refused = (code::NOT_PERMITTED, "You may not use NEWNEWS here");
                Ok(self.refuse(AccessRight::Newnews, refused))
            }
            NntpCommand::Head(ArticleSelector::MessageId(_))
            | NntpCommand::Stat(ArticleSelector::MessageId(_))
                if self.client.may_feed() =>
            {
                self.read(&command).await
            }
            command if is_reading(&command) => {
                let is_by_id = is_by_id(&command);
                if !is_by_id && !self.client.config().site.numbers {
                    append(self.out.text(), NO_GROUPS.0, NO_GROUPS.1);
                } else if is_by_id && self.client.may_read_by_id() || self.client.may_read() {
                    return self.read(&command).await;
                } else {
                    self.refuse(AccessRight::Read, MAY_NOT_READ);
                }
                Ok(CommandOutcome::Done)
            }
            command => Ok(self.plain(&command)),
        }
    }

    /// Forwards a command that is not known here, as another server may know it.
    async fn pass_on(&mut self, line: &[u8]) -> io::Result<CommandOutcome> {
        if !self.client.may_read() || !self.reader.pass_on(line, &mut self.out).await? {
            CommandError::UnknownCommand.append(self.out.text());
        }
        Ok(CommandOutcome::Done)
    }

    /// Answers a reader's command; some are timed.
    async fn read(&mut self, command: &NntpCommand<'_>) -> io::Result<CommandOutcome> {
        self.select_changes(command);
        let latencies = &self.site.counters.latencies;
        let latency = match command {
            NntpCommand::Article(_) => Some(&latencies.article),
            NntpCommand::Over(_) | NntpCommand::Xover(_) => Some(&latencies.over),
            _ => None,
        };
        // The clock is read only for those.
        let begun = latency.map(|_| Instant::now());
        self.reader.answer(command, &mut self.out).await?;
        if let (Some(latency), Some(begun)) = (latency, begun) {
            latency.observe(begun.elapsed());
        }
        Ok(CommandOutcome::Done)
    }

    /// Returns the feed, created when it is first needed; `None` if the client is no peer.
    pub(super) fn feed(&mut self) -> Option<(&mut IncomingFeed, &mut ServerOutput)> {
        if self.feed.is_none() {
            let peer = self.client.peer()?;
            info!(client = self.client.name(), address = self.client.address_text(), "peer begins to feed");
            let feed =
                IncomingFeed::new(self.site.clone(), self.client.config(), peer, self.client.address_text());
            self.feed = Some(Box::new(feed));
        }
        self.feed.as_deref_mut().map(|feed| (feed, &mut self.out))
    }

    fn relay(&mut self, command: &NntpCommand<'_>) -> CommandOutcome {
        let may = match command {
            NntpCommand::Ihave(_) => self.client.may_feed(),
            NntpCommand::ModeHeadfeed => self.client.may_feed_headers(),
            _ => self.client.may_stream(),
        };
        if !may {
            let (code, text) = match command {
                NntpCommand::ModeHeadfeed if self.client.may_feed() => {
                    (code::NOT_PERMITTED, "You may not send articles without their bodies here")
                }
                _ => self.client.no_feed(),
            };
            append(self.out.text(), code, text);
            return CommandOutcome::Done;
        }
        let Some((feed, out)) = self.feed() else { return CommandOutcome::Done };
        match command {
            NntpCommand::Check(argument) => feed.check(&[argument], out.text()),
            NntpCommand::Ihave(id) if feed.offer(*id, out.text()) => {
                return CommandOutcome::Expect(ArticleCommand::Ihave);
            }
            NntpCommand::ModeStream => append_standard(out.text(), code::STREAMING_OK),
            NntpCommand::ModeHeadfeed => {
                feed.of_headers();
                append_standard(out.text(), code::HEADERS_OK);
            }
            _ => {}
        }
        CommandOutcome::Done
    }

    /// Responds with the step that would help, or with `refused`.
    fn refuse(&mut self, right: AccessRight, refused: (u16, &'static str)) -> CommandOutcome {
        let (code, text) = self.client.missing_right(right, refused);
        append(self.out.text(), code, text);
        CommandOutcome::Done
    }

    fn post(&mut self) -> CommandOutcome {
        if !self.client.may_post() {
            let refused = (code::POSTING_NOT_PERMITTED, text(code::POSTING_NOT_PERMITTED));
            return self.refuse(AccessRight::Post, refused);
        }
        if let Some(paused) = self.site.filer.paused() {
            let text = format!("Posting is not possible now: {paused}; try again later");
            append(self.out.text(), code::POSTING_NOT_PERMITTED, &text);
            return CommandOutcome::Done;
        }
        let counted =
            self.client.limit_subject().map(|subject| self.site.limits.post(&subject, Instant::now()));
        if let Some(Err(wait)) = counted {
            let max = self.client.access().and_then(|access| access.posts_per_hour_max).unwrap_or_default();
            let text =
                format!("Too many posts (at most {max} an hour), try again in {} s", wait.as_secs() + 1);
            append(self.out.text(), code::POSTING_NOT_PERMITTED, &text);
            return CommandOutcome::Done;
        }
        if inject::offer(self.client.access(), self.out.text()) {
            CommandOutcome::Expect(ArticleCommand::Post)
        } else {
            CommandOutcome::Done
        }
    }

    /// Handles commands that concern the connection itself.
    fn plain(&mut self, command: &NntpCommand<'_>) -> CommandOutcome {
        let out = self.out.text();
        match command {
            NntpCommand::Quit => {
                append_standard(out, code::CLOSING);
                return CommandOutcome::Quit;
            }
            NntpCommand::ModeReader if !self.client.config().site.numbers => {
                append(out, NO_GROUPS.0, NO_GROUPS.1);
                return CommandOutcome::Close;
            }
            NntpCommand::ModeReader
                if self.client.may_read() || self.client.may_become(AccessRight::Read) =>
            {
                capabilities::posting(self.client.config(), &self.client, out);
            }
            NntpCommand::ModeReader => {
                append(out, MAY_NOT_READ.0, MAY_NOT_READ.1);
                return CommandOutcome::Close;
            }
            NntpCommand::Mode(_) => append(out, code::SYNTAX_ERROR, "Unknown MODE variant"),
            NntpCommand::List(ListKeyword::Extensions) => capabilities::extensions(&self.client, out),
            NntpCommand::Capabilities { .. } => {
                let reader = &self.reader;
                capabilities::list(&self.client, &|list| reader.has_list(list), out);
            }
            NntpCommand::Help => capabilities::help(&self.client, out),
            NntpCommand::Date => {
                out.extend_from_slice(b"111 ");
                out.extend_from_slice(format_nntp(unix_now()).as_ref());
                out.extend_from_slice(b"\r\n");
            }
            NntpCommand::Slave => append_standard(out, code::SLAVE_NOTED),
            NntpCommand::StartTls if self.client.is_compressed() => {
                append(out, code::NOT_PERMITTED, "STARTTLS must come before COMPRESS");
            }
            NntpCommand::StartTls if self.client.tls().is_some() => {
                append(out, code::NOT_PERMITTED, "TLS is active already");
            }
            NntpCommand::StartTls if self.client.user().is_some() => {
                append(out, code::NOT_PERMITTED, "STARTTLS must come before AUTHINFO");
            }
            NntpCommand::StartTls if self.client.may_start_tls() => return CommandOutcome::StartTls,
            NntpCommand::StartTls => append_standard(out, code::CANNOT_TLS),
            NntpCommand::Compress { .. } if self.client.is_compressed() => {
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
}

/// Returns true if a command asks for an article by Message-ID.
fn is_by_id(command: &NntpCommand<'_>) -> bool {
    matches!(
        command,
        NntpCommand::Article(ArticleSelector::MessageId(_))
            | NntpCommand::Head(ArticleSelector::MessageId(_))
            | NntpCommand::Body(ArticleSelector::MessageId(_))
            | NntpCommand::Stat(ArticleSelector::MessageId(_))
    )
}

/// Returns true if a command is one of the serving agent.
pub(super) fn is_reading(command: &NntpCommand<'_>) -> bool {
    if let NntpCommand::List(kind) = command {
        return *kind != ListKeyword::Extensions;
    }
    matches!(
        command,
        NntpCommand::Article(_)
            | NntpCommand::Head(_)
            | NntpCommand::Body(_)
            | NntpCommand::Stat(_)
            | NntpCommand::Over(_)
            | NntpCommand::Xover(_)
            | NntpCommand::Hdr { .. }
            | NntpCommand::Xhdr { .. }
            | NntpCommand::Xpat { .. }
            | NntpCommand::Group(_)
            | NntpCommand::ListGroup { .. }
            | NntpCommand::Last
            | NntpCommand::Next
            | NntpCommand::NewGroups { .. }
            | NntpCommand::NewNews { .. }
            | NntpCommand::Xgtitle { .. }
            | NntpCommand::Xpath(_)
            | NntpCommand::Xrover(_)
    )
}
