//! A connection: input is split into commands and articles, each is passed to the duty it belongs to, and the
//! answers of a round are sent in one write, or in several if it takes more than some milliseconds.
//!
//! A round handles everything complete in the receive buffer, so pipelined commands cost no system calls of
//! their own. An idle session holds no buffers. While answers cannot be sent, nothing more is read. Called by
//! `server`. Sources: RFC 3977 sections 3.1, 3.2 and 3.5.

mod admission;
mod ahead;
mod budget;
mod capabilities;
mod client;
mod commands;
mod dispatch;
mod expecting;
mod input;
mod login;
mod pace;
mod reception;
mod rounds;
mod served;
mod switch;
mod xbatch;

pub use admission::{AdmissionLimit, AdmittedClient};
pub use budget::ReceiveBudget;
pub use client::ConnectedClient;
pub use dispatch::SessionContext;

use crate::site::{SessionSignal, Site};
use dispatch::Dispatcher;
use input::{InputEvent, Interrupts};
use netnews::nntp::response::{append, code};
use nntp_io::{ServerOutput, Socket, Transport};
use pace::Round;
use reception::Reception;
use rounds::{InputRound, SessionFlow};
use served::ServedClient;
use site_base::busy_poll::BusyPoll;
use site_base::counters::add;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::{debug, info};
use upstreams::NewsSource;

/// Time for which a client may keep the connection open after the last answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which an article under way may continue when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// The text for clients when the server stops.
const STOPPING: &str = "Server is stopping, try again later";

/// A connection.
pub struct Session<S: NewsSource> {
    site: Arc<Site>,
    context: Arc<SessionContext>,
    reception: Reception,
    out: ServerOutput,
    dispatcher: Dispatcher<S>,
    busy_poll: BusyPoll,
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
        let limits = &admitted.client().config().limits;
        let mut out = ServerOutput::new(Transport::plain(socket), limits.write_timeout);
        let reception = Reception::new(admitted.client());
        let served = ServedClient::new(site.clone(), source, admitted);
        served.limit_bandwidth(&mut out);
        let dispatcher = Dispatcher::new(site.clone(), context.clone(), served);
        let busy_poll = BusyPoll::new(site.polling.clone());
        Self { site, context, reception, out, dispatcher, busy_poll, begins_with_tls }
    }

    /// Sends the greeting at once, before the session has a task of its own; the part that the socket does
    /// not take is sent later.
    pub fn greet(&mut self) {
        if !self.begins_with_tls {
            capabilities::greeting(self.dispatcher.client(), self.out.text());
            self.out.try_flush();
        }
    }

    fn client(&self) -> &ConnectedClient {
        self.dispatcher.client()
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
                    debug!(address = self.client().address_text(), %error, "TLS failed");
                    return;
                }
            }
        }
        debug!(client = self.client().name(), address = self.client().address_text(), "connected");
        if self.client().peer().is_none() {
            add(&self.site.counters.readers_served, 1);
        }
        let end = self.serve().await;
        let seconds = begun.elapsed().as_secs();
        let why = end.as_ref().err().map_or_else(String::new, ToString::to_string);
        let (client, address) = (self.client().name(), self.client().address_text());
        // Peers also read, and check whether the server is there: only those that have fed are logged.
        if self.dispatcher.served.has_fed() {
            info!(client, address, seconds, why, "peer disconnected");
        } else {
            debug!(client, address, seconds, why, "disconnected");
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        if self.begins_with_tls {
            if !self.client().is_known() {
                append(self.out.text(), code::NOT_PERMITTED, "You are not known here");
                self.out.flush().await?;
                return self.drain_and_close().await;
            }
            capabilities::greeting(self.dispatcher.client(), self.out.text());
        }
        self.out.flush().await?;
        self.out.release();
        let mut interrupts = Interrupts::new(self.site.signal(), self.reception.deadline());
        // The signal may have come after the client was admitted.
        if let Err(text) = self.renewed().await {
            return self.close_with_400(text).await;
        }
        loop {
            self.reception.make_room(self.dispatcher.client(), &self.context.budget, &mut self.out).await;
            self.busy_poll.wait(self.out.transport());
            let event = self.reception.wait(&mut self.out, &self.context.budget, &mut interrupts).await?;
            self.busy_poll.received();
            match event {
                InputEvent::Bytes => {}
                InputEvent::End => return Ok(()),
                InputEvent::GivenUp(why) => {
                    self.reception.give_up_article(why, self.dispatcher.client());
                    continue;
                }
                InputEvent::Late if self.site.is_stopping() => return self.close_with_400(STOPPING).await,
                // A silent client is disconnected without a response (RFC 3977 section 3.1).
                InputEvent::Late if !self.reception.has_begun() => return self.drain_and_close().await,
                // A command or an article that does not end gets a response (section 3.2.1).
                InputEvent::Late => return self.close_with_400("Timed out, try again later").await,
                InputEvent::Signal(SessionSignal::Reloaded) => {
                    interrupts.listen(self.site.signal());
                    match self.renewed().await {
                        Ok(()) => continue,
                        Err(text) => return self.close_with_400(text).await,
                    }
                }
                InputEvent::Signal(SessionSignal::Stop) if self.reception.is_in_article() => {
                    self.reception.hurry(Instant::now() + STOP_GRACE);
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
                SessionFlow::Quit if self.reception.is_empty() => return self.out.close().await,
                SessionFlow::Quit | SessionFlow::Close => return self.drain_and_close().await,
            }
            if self.site.is_stopping() && !self.reception.is_in_article() {
                return self.close_with_400(STOPPING).await;
            }
        }
    }

    /// Handles everything complete in the receive buffer and sends the answers.
    async fn round(&mut self) -> io::Result<SessionFlow> {
        self.out.begin_round(self.reception.answers_within());
        let (buffer, expecting) = self.reception.begin_round();
        let end = InputRound::new(&buffer, expecting, &mut self.dispatcher, &mut self.out).run().await?;
        let arrived = buffer.len();
        // The client may have logged in.
        self.reception.adapt(self.dispatcher.client());
        self.reception.put_back(buffer, end.consumed);
        self.out.flush().await?;
        self.reception.end_round(Round { arrived, consumed: end.consumed, completed: end.steps > 0 });
        self.busy_poll.answered(end.steps == 1);
        Ok(end.flow)
    }

    /// Negotiates TLS and starts over: group, rights and everything else said before are forgotten. Any
    /// failure ends the connection; the inner error is for the client.
    async fn start_tls(&mut self) -> io::Result<Result<(), AdmissionLimit>> {
        let client = switch::begin_tls(&self.site, self.dispatcher.client(), &mut self.out).await?;
        let started = self.dispatcher.start_over(client, &mut self.out);
        self.reception.adapt(self.dispatcher.client());
        Ok(started)
    }

    async fn start_compression(&mut self) -> io::Result<()> {
        if switch::begin_compression(&self.site, self.dispatcher.client(), &mut self.out).await? {
            self.dispatcher.served.set_compressed();
        }
        Ok(())
    }

    /// Switches to the current configuration, if it is another one: the session continues under it, or ends
    /// if it no longer has the right to be here. The error is the text for the client.
    async fn renewed(&mut self) -> Result<(), &'static str> {
        if self.site.config.is_current(self.client().config()) {
            return Ok(());
        }
        let config = self.site.config.current();
        let renewed = self.dispatcher.served.renew(&config, &mut self.out).await;
        if renewed.is_err() {
            let (client, address) = (self.client().name(), self.client().address_text());
            info!(client, address, "disconnected: the new configuration does not allow it");
            return renewed;
        }
        self.reception.adapt(self.dispatcher.client());
        Ok(())
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
        let _late_is_fine = timeout(LINGER_TIMEOUT, self.reception.drain(self.out.transport())).await;
        Ok(())
    }
}
