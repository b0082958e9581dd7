//! A new configuration: the session continues under it, or ends if it no longer has the right to be here.
//!
//! Checked between rounds, so commands received before are answered with the previous rights, and all later
//! ones with the new rights. Limits that a new connection would meet do not count against an existing one.
//! Called by the session's loop.

use super::Session;
use access::limits::AccessPermit;
use tracing::info;
use upstreams::NewsSource;

impl<S: NewsSource> Session<S> {
    /// Switches to the current configuration, if it is another one; the error is the text for a client that
    /// may not stay.
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
