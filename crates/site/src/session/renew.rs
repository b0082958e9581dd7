//! Another configuration holds: the session goes on by it, or ends if it no longer may be here.
//!
//! Judged between rounds, so what was asked before is answered by the rights of then, and everything after by
//! those of now. Limits that a newcomer would meet do not count against a connection that is here already.
//! Called by the session's loop.

use super::Session;
use access::limits::AccessPermit;
use tracing::info;
use upstreams::NewsSource;

impl<S: NewsSource> Session<S> {
    /// Takes over the configuration that holds, if it is another one; the error is what the client is told
    /// that may not stay.
    pub(super) async fn renewed(&mut self) -> Result<(), &'static str> {
        if self.site.config.is_current(self.client.config()) {
            return Ok(());
        }
        let config = self.site.config.current();
        let Some(client) = self.client.under(&config, self.site.tls.load().as_deref()) else {
            return Err(self.disallowed("You are no longer a user here"));
        };
        let lost = match (&mut self.feed, client.peer()) {
            (Some(feed), Some(peer)) => {
                feed.under(&config, peer, client.address_text());
                None
            }
            (Some(_), None) => Some("You are no longer a peer here"),
            (None, _) => None,
        };
        if let Some(text) = lost.or_else(|| (!client.is_known()).then_some("You are no longer known here")) {
            return Err(self.disallowed(text));
        }
        if !self.permit.is_of(client.peer()) {
            self.permit = self.site.permits.keep(client.address(), client.peer());
        }
        self.access_permit = client.kept_access_permit(&self.site.limits);
        self.out.set_bandwidth(self.access_permit.as_ref().and_then(AccessPermit::bandwidth));
        self.out.set_write_timeout(config.limits.write_timeout);
        self.pace.set_limits(&config.limits);
        self.reader.look_with(client.view()).await;
        self.input.read_ahead(client.may_feed());
        self.client = client;
        Ok(())
    }

    fn disallowed(&self, text: &'static str) -> &'static str {
        let (client, address) = (self.client.name(), self.client.address_text());
        info!(client, address, "disconnected: the new configuration does not allow it");
        text
    }
}
