//! A connection: input is split into commands and articles, each is passed to the duty it belongs to, and the
//! answers of a whole round are sent in one write.
//!
//! A round handles everything complete in the receive buffer, so pipelined commands cost no system calls of
//! their own. An idle session holds no buffers. While answers cannot be sent, nothing more is read. Called by
//! `server`. Sources: RFC 3977 sections 3.1, 3.2 and 3.5.

mod ahead;
mod budget;
mod capabilities;
mod client;
mod dispatch;
mod input;
mod login;
mod pace;
mod renew;
mod room;
mod rounds;
mod switch;
mod xbatch;

pub use budget::ReceiveBudget;
pub use client::{AdmissionLimit, AdmittedClient, ConnectedClient};

use crate::inject::Injector;
use crate::relay::IncomingFeed;
use crate::serve::NewsReader;
use crate::site::{ConnectionPermit, SessionSignal, Site};
use access::limits::AccessPermit;
use ahead::LookAhead;
use input::{Input, InputEvent, Interrupts};
use login::LoginProgress;
use netnews::nntp::response::{append, code};
use nntp_io::{ServerOutput, Socket, Transport};
use pace::{Round, SessionTimers};
use rounds::ExpectedInput;
use site_base::busy_poll::BusyPoll;
use site_base::counters::add;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::{debug, info};
use upstreams::NewsSource;
use xbatch::Xbatch;

/// Time for which a client may keep the connection open after the last answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a silent session keeps its compressor with its window.
const COMPRESSOR_KEPT: Duration = Duration::from_secs(2);
/// Time for which an article under way may continue when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// The text for clients when the server stops.
const STOPPING: &str = "Server is stopping, try again later";

/// The continuation of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
enum SessionFlow {
    Continue,
    /// Negotiate TLS.
    StartTls,
    /// Begin compression.
    Compress,
    /// The client has sent QUIT.
    Quit,
    Close,
}

/// State shared by sessions in addition to that of the site.
pub struct SessionContext {
    /// Handles posts.
    pub injector: Injector,
    /// Memory for receive buffers.
    pub budget: ReceiveBudget,
}

/// A connection.
pub struct Session<S: NewsSource> {
    site: Arc<Site>,
    context: Arc<SessionContext>,
    client: ConnectedClient,
    input: Input,
    out: ServerOutput,
    reader: NewsReader<S>,
    /// Created at the first command of a peer.
    feed: Option<Box<IncomingFeed>>,
    expecting: ExpectedInput,
    /// The batch that XBATCH has announced.
    batch: Option<Box<Xbatch>>,
    /// The client has posted an article that needed more memory than the small buffer.
    posts_large: bool,
    pace: SessionTimers,
    busy_poll: BusyPoll,
    /// Commands and articles handled in the last round.
    steps: u32,
    ahead: LookAhead,
    permit: ConnectionPermit,
    /// The permit under an `[[access]]` section.
    access_permit: Option<AccessPermit>,
    login: LoginProgress,
    /// TLS comes before the greeting.
    begins_with_tls: bool,
}

impl<S: NewsSource> Session<S> {
    /// Creates the session of a client that has just connected.
    pub fn new(
        site: Arc<Site>,
        context: Arc<SessionContext>,
        source: S,
        admitted: AdmittedClient,
        socket: Socket,
        begins_with_tls: bool,
    ) -> Self {
        let AdmittedClient { client, permit, access_permit } = admitted;
        let config = client.config();
        let view = client.view();
        let mut out = ServerOutput::new(Transport::plain(socket), config.limits.write_timeout);
        out.set_bandwidth(access_permit.as_ref().and_then(AccessPermit::bandwidth));
        let mut input = Input::new();
        input.read_ahead(client.may_feed());
        Self {
            input,
            out,
            reader: NewsReader::new(source.of_client(client.address_text()), view)
                .counted_by(site.counters.clone()),
            feed: None,
            expecting: ExpectedInput::Command,
            batch: None,
            posts_large: false,
            pace: SessionTimers::new(&config.limits, Instant::now()),
            busy_poll: BusyPoll::new(site.polling.clone()),
            steps: 0,
            ahead: LookAhead::default(),
            site,
            context,
            client,
            permit,
            access_permit,
            login: LoginProgress::default(),
            begins_with_tls,
        }
    }

    /// Sends the greeting at once, before the session has a task of its own; the part that the socket does
    /// not take is sent later.
    pub fn greet(&mut self) {
        if !self.begins_with_tls {
            capabilities::greeting(self.client.config(), &self.client, self.out.text());
            self.out.try_flush();
        }
    }

    /// Serves the connection until its end.
    pub async fn run(mut self) {
        let begun = Instant::now();
        if self.begins_with_tls {
            match self.start_tls().await {
                Ok(Ok(())) => self.site.counters.latencies.connecting.observe(begun.elapsed()),
                Ok(Err(limit)) => {
                    let _closed = self.close_with_400(&limit.to_string()).await;
                    return;
                }
                Err(error) => {
                    debug!(address = self.client.address_text(), %error, "TLS failed");
                    return;
                }
            }
        }
        debug!(client = self.client.name(), address = self.client.address_text(), "connected");
        if self.client.peer().is_none() {
            add(&self.site.counters.readers_served, 1);
        }
        let end = self.serve().await;
        let seconds = begun.elapsed().as_secs();
        let why = end.as_ref().err().map_or_else(String::new, ToString::to_string);
        let (client, address) = (self.client.name(), self.client.address_text());
        // Peers also read, and check whether the server is there: only those that have fed are logged.
        if self.feed.is_some() {
            info!(client, address, seconds, why, "peer disconnected");
        } else {
            debug!(client, address, seconds, why, "disconnected");
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        if self.begins_with_tls {
            if !self.client.is_known() {
                append(self.out.text(), code::NOT_PERMITTED, "You are not known here");
                self.out.flush().await?;
                return self.drain_and_close().await;
            }
            capabilities::greeting(self.client.config(), &self.client, self.out.text());
        }
        self.out.flush().await?;
        self.out.release();
        let mut interrupts = Interrupts::new(self.site.signal(), self.pace.deadline(&self.expecting));
        // The signal may have come after the client was admitted.
        if let Err(text) = self.renewed().await {
            return self.close_with_400(text).await;
        }
        loop {
            if self.input.is_full() {
                self.make_room().await;
            }
            self.busy_poll.wait(self.out.transport());
            let event = self.read_event(&mut interrupts).await?;
            self.busy_poll.received();
            match event {
                InputEvent::Bytes => {}
                InputEvent::End => return Ok(()),
                InputEvent::GivenUp(why) => {
                    self.give_up_article(why);
                    continue;
                }
                InputEvent::Late if self.site.is_stopping() => return self.close_with_400(STOPPING).await,
                // A silent client is disconnected without a response (RFC 3977 section 3.1).
                InputEvent::Late if self.pace.begun().is_none() => return self.drain_and_close().await,
                // A command or an article that does not end gets a response (section 3.2.1).
                InputEvent::Late => return self.close_with_400("Timed out, try again later").await,
                InputEvent::Signal(SessionSignal::Reloaded) => {
                    interrupts.listen(self.site.signal());
                    match self.renewed().await {
                        Ok(()) => continue,
                        Err(text) => return self.close_with_400(text).await,
                    }
                }
                InputEvent::Signal(SessionSignal::Stop) if self.expecting.is_article() => {
                    self.pace.hurry(Instant::now() + STOP_GRACE);
                    continue;
                }
                InputEvent::Signal(SessionSignal::Stop) => return self.close_with_400(STOPPING).await,
            }
            if let Err(text) = self.renewed().await {
                return self.close_with_400(text).await;
            }
            match self.round().await? {
                SessionFlow::Continue => {}
                SessionFlow::StartTls => {
                    if let Err(limit) = self.start_tls().await? {
                        return self.close_with_400(&limit.to_string()).await;
                    }
                }
                SessionFlow::Compress => self.start_compression().await?,
                SessionFlow::Quit if self.input.len() == 0 => return self.out.close().await,
                SessionFlow::Quit | SessionFlow::Close => return self.drain_and_close().await,
            }
            if self.site.is_stopping() && !self.expecting.is_article() {
                return self.close_with_400(STOPPING).await;
            }
        }
    }

    /// Waits for more input; the compressor is dropped if nothing comes for a while.
    async fn read_event(
        &mut self,
        interrupts: &mut Interrupts<impl Future<Output = SessionSignal>>,
    ) -> io::Result<InputEvent> {
        let mut until = self.pace.until(&self.expecting);
        if self.out.transport().has_compressor() {
            let deadline = until.deadline;
            until.deadline = deadline.min(Instant::now() + COMPRESSOR_KEPT);
            let event = self.input.fill(&mut self.out, &self.context.budget, interrupts, until).await?;
            if !matches!(event, InputEvent::Late) || until.deadline >= deadline {
                return Ok(event);
            }
            self.out.transport().drop_compressor();
            until.deadline = deadline;
        }
        self.input.fill(&mut self.out, &self.context.budget, interrupts, until).await
    }

    /// Handles everything complete in the receive buffer and sends the answers.
    async fn round(&mut self) -> io::Result<SessionFlow> {
        let buffer = self.input.take();
        let arrived = buffer.len();
        let mut consumed = 0;
        let flow = self.handle(&buffer, &mut consumed).await;
        self.input.put_back(buffer, consumed);
        let flow = flow?;
        self.out.flush().await?;
        let round = Round { arrived, consumed, completed: self.steps > 0 };
        self.pace.heard(round, &self.expecting, Instant::now());
        self.busy_poll.answered(self.steps == 1);
        Ok(flow)
    }

    /// Ends the session with a 400.
    async fn close_with_400(&mut self, text: &str) -> io::Result<()> {
        append(self.out.text(), code::UNAVAILABLE, text);
        self.out.flush().await?;
        self.drain_and_close().await
    }

    /// Ends our side and waits a little for the client to end its own: closing a connection with unread bytes
    /// resets it, and the last answer might be lost.
    async fn drain_and_close(&mut self) -> io::Result<()> {
        self.out.shutdown().await?;
        let _late_is_fine = timeout(LINGER_TIMEOUT, self.input.drain(self.out.transport())).await;
        Ok(())
    }
}
