//! The client of a session, and what the duties keep for it: its view of the news, and the articles that it
//! feeds.
//!
//! They change together when the client becomes another one: by STARTTLS, by logging in, or under another
//! configuration. Called by the session and by `dispatch`.

use super::{AdmissionLimit, AdmittedClient, ConnectedClient};
use crate::relay::IncomingFeed;
use crate::serve::NewsReader;
use crate::site::Site;
use access::User;
use nntp_io::ServerOutput;
use site_config::Config;
use std::sync::Arc;
use tracing::info;
use upstreams::NewsSource;

/// The client of a session.
pub(super) struct ServedClient<S: NewsSource> {
    site: Arc<Site>,
    admitted: AdmittedClient,
    pub reader: NewsReader<S>,
    /// Created at the first command of a peer.
    feed: Option<Box<IncomingFeed>>,
}

impl<S: NewsSource> ServedClient<S> {
    pub fn new(site: Arc<Site>, source: S, admitted: AdmittedClient) -> Self {
        let client = admitted.client();
        let reader = NewsReader::new(source.of_client(client.address_text()), client.view());
        Self { reader: reader.counted_by(site.counters.clone()), site, admitted, feed: None }
    }

    pub fn client(&self) -> &ConnectedClient {
        self.admitted.client()
    }

    /// Limits the speed of sending as its `[[access]]` section says.
    pub fn limit_bandwidth(&self, out: &mut ServerOutput) {
        out.set_bandwidth(self.admitted.bandwidth());
    }

    /// Records that the connection is compressed from now on.
    pub fn set_compressed(&mut self) {
        self.admitted.set_compressed();
    }

    /// Returns the feed, created when it is first needed; `None` if the client is no peer.
    pub fn feed(&mut self) -> Option<&mut IncomingFeed> {
        if self.feed.is_none() {
            let client = self.admitted.client();
            let peer = client.peer()?;
            info!(client = client.name(), address = client.address_text(), "peer begins to feed");
            let feed = IncomingFeed::new(self.site.clone(), client.config(), peer, client.address_text());
            self.feed = Some(Box::new(feed));
        }
        self.begun_feed()
    }

    /// Returns the feed, if the client has begun one.
    pub fn begun_feed(&mut self) -> Option<&mut IncomingFeed> {
        self.feed.as_deref_mut()
    }

    /// Returns true if the client has begun a feed.
    pub fn has_fed(&self) -> bool {
        self.feed.is_some()
    }

    /// Continues as `client`, with its own permits. The connection is to be closed after an error, whose
    /// text is for the client.
    fn switch_to(&mut self, client: ConnectedClient, out: &mut ServerOutput) -> Result<(), AdmissionLimit> {
        if !self.admitted.is_same_peer(&client) {
            self.feed = None;
        }
        self.admitted.switch_to(client, &self.site)?;
        self.limit_bandwidth(out);
        Ok(())
    }

    /// Continues as the client that has logged in as `user`.
    pub async fn log_in(&mut self, user: Arc<User>, out: &mut ServerOutput) -> Result<(), AdmissionLimit> {
        self.switch_to(self.client().logged_in(user), out)?;
        self.reader.set_view(self.admitted.client().view()).await;
        Ok(())
    }

    /// Continues as `client`, and forgets everything that was said before.
    pub fn start_over(
        &mut self,
        client: ConnectedClient,
        out: &mut ServerOutput,
    ) -> Result<(), AdmissionLimit> {
        self.switch_to(client, out)?;
        self.feed = None;
        self.reader.start_over(self.client().view());
        Ok(())
    }

    /// Continues under another configuration: commands received before are answered with the previous
    /// rights, all later ones with the new rights. Limits that a new connection would meet do not count. The
    /// error is the text for a client that may not stay.
    pub async fn renew(&mut self, config: &Arc<Config>, out: &mut ServerOutput) -> Result<(), &'static str> {
        let Some(client) = self.client().under(config, self.site.tls.load().as_deref()) else {
            return Err("You are no longer a user here");
        };
        match (&mut self.feed, client.peer()) {
            (Some(feed), Some(peer)) => feed.under(config, peer, client.address_text()),
            (Some(_), None) => return Err("You are no longer a peer here"),
            (None, _) => {}
        }
        if !client.is_known() {
            return Err("You are no longer known here");
        }
        self.admitted.keep(client, &self.site);
        self.limit_bandwidth(out);
        out.set_write_timeout(config.limits.write_timeout);
        self.reader.set_view(self.admitted.client().view()).await;
        Ok(())
    }
}
