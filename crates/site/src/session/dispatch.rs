//! Passing commands to the duties they belong to, and checking the client's rights.
//!
//! Called by `rounds` for every command except TAKETHIS, which is handled there.

use super::rounds::Way;
use super::{Output, Session, capabilities};
use crate::inject;
use crate::relay::Feed;
use access::rules::Right;
use netnews::date::format_nntp;
use netnews::nntp::command::{Command, ListKind, Syntax, Which};
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
pub(super) enum Verdict {
    /// The next command.
    Done,
    /// Receive the article it announced.
    Expect(Way),
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
        command: Result<Command<'_>, Syntax>,
        line: &[u8],
    ) -> io::Result<Verdict> {
        let command = match command {
            Ok(command) => command,
            Err(Syntax::Empty) => return Ok(Verdict::Done),
            // Boxed: this is rare, and would make every session larger.
            Err(Syntax::UnknownCommand) => return Box::pin(self.pass_on(line)).await,
            Err(syntax) => {
                syntax.append(self.out.text());
                return Ok(Verdict::Done);
            }
        };
        trace!(client = self.client.address_text(), ?command, "command");
        // A peer must see the effect of withdrawals that it has sent; offers do not wait for that.
        if !matches!(command, Command::Check(_) | Command::Ihave(_))
            && let Some(feed) = &mut self.feed
        {
            feed.settle_withdrawals();
        }
        match command {
            Command::Check(_)
            | Command::Takethis(_)
            | Command::Ihave(_)
            | Command::ModeStream
            | Command::ModeHeadfeed => Ok(self.relay(&command)),
            Command::Post => Ok(self.post()),
            Command::Xbatch { bytes } => Ok(self.xbatch(bytes)),
            Command::AuthinfoUser(_)
            | Command::AuthinfoPass(_)
            | Command::AuthinfoSasl { .. }
            | Command::Authinfo(_) => {
                // Boxed: checking a password would make every session larger.
                Ok(Box::pin(self.authinfo(&command)).await)
            }
            Command::NewNews { .. } if self.client.may_read() && !self.client.may_newnews() => {
                let refused = (code::NOT_PERMITTED, "You may not use NEWNEWS here");
                Ok(self.refuse(Right::Newnews, refused))
            }
            Command::Head(Which::MessageId(_)) | Command::Stat(Which::MessageId(_))
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
                    self.refuse(Right::Read, MAY_NOT_READ);
                }
                Ok(Verdict::Done)
            }
            command => Ok(self.plain(&command)),
        }
    }

    /// Forwards a command that is not known here, as another server may know it.
    async fn pass_on(&mut self, line: &[u8]) -> io::Result<Verdict> {
        if !self.client.may_read() || !self.reader.pass_on(line, &mut self.out).await? {
            Syntax::UnknownCommand.append(self.out.text());
        }
        Ok(Verdict::Done)
    }

    /// Answers a reader's command; some are timed.
    async fn read(&mut self, command: &Command<'_>) -> io::Result<Verdict> {
        self.select_changes(command);
        let latencies = &self.site.counters.latencies;
        let latency = match command {
            Command::Article(_) => Some(&latencies.article),
            Command::Over(_) | Command::Xover(_) => Some(&latencies.over),
            _ => None,
        };
        // The clock is read only for those.
        let begun = latency.map(|_| Instant::now());
        self.reader.answer(command, &mut self.out).await?;
        if let (Some(latency), Some(begun)) = (latency, begun) {
            latency.observe(begun.elapsed());
        }
        Ok(Verdict::Done)
    }

    /// Returns the feed, created when it is first needed; `None` if the client is no peer.
    pub(super) fn feed(&mut self) -> Option<(&mut Feed, &mut Output)> {
        if self.feed.is_none() {
            let peer = self.client.peer()?;
            info!(client = self.client.name(), address = self.client.address_text(), "peer begins to feed");
            let feed = Feed::new(self.site.clone(), self.client.config(), peer, self.client.address_text());
            self.feed = Some(Box::new(feed));
        }
        self.feed.as_deref_mut().map(|feed| (feed, &mut self.out))
    }

    fn relay(&mut self, command: &Command<'_>) -> Verdict {
        let may = match command {
            Command::Ihave(_) => self.client.may_feed(),
            Command::ModeHeadfeed => self.client.may_feed_headers(),
            _ => self.client.may_stream(),
        };
        if !may {
            let (code, text) = match command {
                Command::ModeHeadfeed if self.client.may_feed() => {
                    (code::NOT_PERMITTED, "You may not send articles without their bodies here")
                }
                _ => self.client.no_feed(),
            };
            append(self.out.text(), code, text);
            return Verdict::Done;
        }
        let Some((feed, out)) = self.feed() else { return Verdict::Done };
        match command {
            Command::Check(argument) => feed.check(&[argument], out.text()),
            Command::Ihave(id) if feed.offer(*id, out.text()) => return Verdict::Expect(Way::Ihave),
            Command::ModeStream => append_standard(out.text(), code::STREAMING_OK),
            Command::ModeHeadfeed => {
                feed.of_headers();
                append_standard(out.text(), code::HEADERS_OK);
            }
            _ => {}
        }
        Verdict::Done
    }

    /// Responds with the step that would help, or with `refused`.
    fn refuse(&mut self, right: Right, refused: (u16, &'static str)) -> Verdict {
        let (code, text) = self.client.missing_right(right, refused);
        append(self.out.text(), code, text);
        Verdict::Done
    }

    fn post(&mut self) -> Verdict {
        if !self.client.may_post() {
            let refused = (code::POSTING_NOT_PERMITTED, text(code::POSTING_NOT_PERMITTED));
            return self.refuse(Right::Post, refused);
        }
        if let Some(paused) = self.site.filer.paused() {
            let text = format!("Posting is not possible now: {paused}; try again later");
            append(self.out.text(), code::POSTING_NOT_PERMITTED, &text);
            return Verdict::Done;
        }
        let counted =
            self.client.limit_subject().map(|subject| self.site.limits.post(&subject, Instant::now()));
        if let Some(Err(wait)) = counted {
            let max = self.client.access().and_then(|access| access.posts_per_hour_max).unwrap_or_default();
            let text =
                format!("Too many posts (at most {max} an hour), try again in {} s", wait.as_secs() + 1);
            append(self.out.text(), code::POSTING_NOT_PERMITTED, &text);
            return Verdict::Done;
        }
        if inject::offer(self.client.access(), self.out.text()) {
            Verdict::Expect(Way::Post)
        } else {
            Verdict::Done
        }
    }

    /// Handles commands that concern the connection itself.
    fn plain(&mut self, command: &Command<'_>) -> Verdict {
        let out = self.out.text();
        match command {
            Command::Quit => {
                append_standard(out, code::CLOSING);
                return Verdict::Quit;
            }
            Command::ModeReader if !self.client.config().site.numbers => {
                append(out, NO_GROUPS.0, NO_GROUPS.1);
                return Verdict::Close;
            }
            Command::ModeReader if self.client.may_read() || self.client.may_become(Right::Read) => {
                capabilities::posting(self.client.config(), &self.client, out);
            }
            Command::ModeReader => {
                append(out, MAY_NOT_READ.0, MAY_NOT_READ.1);
                return Verdict::Close;
            }
            Command::Mode(_) => append(out, code::SYNTAX_ERROR, "Unknown MODE variant"),
            Command::List(ListKind::Extensions) => capabilities::extensions(&self.client, out),
            Command::Capabilities { .. } => {
                let reader = &self.reader;
                capabilities::list(&self.client, &|list| reader.has_list(list), out);
            }
            Command::Help => capabilities::help(&self.client, out),
            Command::Date => {
                out.extend_from_slice(b"111 ");
                out.extend_from_slice(format_nntp(unix_now()).as_ref());
                out.extend_from_slice(b"\r\n");
            }
            Command::Slave => append_standard(out, code::SLAVE_NOTED),
            Command::StartTls if self.client.is_compressed() => {
                append(out, code::NOT_PERMITTED, "STARTTLS must come before COMPRESS");
            }
            Command::StartTls if self.client.tls().is_some() => {
                append(out, code::NOT_PERMITTED, "TLS is active already");
            }
            Command::StartTls if self.client.user().is_some() => {
                append(out, code::NOT_PERMITTED, "STARTTLS must come before AUTHINFO");
            }
            Command::StartTls if self.client.may_start_tls() => return Verdict::StartTls,
            Command::StartTls => append_standard(out, code::CANNOT_TLS),
            Command::Compress { .. } if self.client.is_compressed() => {
                append(out, code::NOT_PERMITTED, "Compression is active already");
            }
            Command::Compress { algorithm } if algorithm.eq_ignore_ascii_case(b"DEFLATE") => {
                return Verdict::Compress;
            }
            Command::Compress { .. } => {
                append(out, code::NOT_SUPPORTED, "Compression algorithm not supported")
            }
            _ => append_standard(out, code::NOT_SUPPORTED),
        }
        Verdict::Done
    }
}

/// Returns true if a command asks for an article by Message-ID.
fn is_by_id(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Article(Which::MessageId(_))
            | Command::Head(Which::MessageId(_))
            | Command::Body(Which::MessageId(_))
            | Command::Stat(Which::MessageId(_))
    )
}

/// Returns true if a command is one of the serving agent.
pub(super) fn is_reading(command: &Command<'_>) -> bool {
    if let Command::List(kind) = command {
        return *kind != ListKind::Extensions;
    }
    matches!(
        command,
        Command::Article(_)
            | Command::Head(_)
            | Command::Body(_)
            | Command::Stat(_)
            | Command::Over(_)
            | Command::Xover(_)
            | Command::Hdr { .. }
            | Command::Xhdr { .. }
            | Command::Xpat { .. }
            | Command::Group(_)
            | Command::ListGroup { .. }
            | Command::Last
            | Command::Next
            | Command::NewGroups { .. }
            | Command::NewNews { .. }
            | Command::Xgtitle { .. }
            | Command::Xpath(_)
            | Command::Xrover(_)
    )
}
