//! Admission of a client: the permits that its session holds.
//!
//! A client that becomes another one, by STARTTLS, by logging in or under another configuration, exchanges
//! its permits. Called by `server` for new connections, and by `served`.

use super::ConnectedClient;
use crate::site::{ConnectionLimit, ConnectionPermit, Site};
use access::limits::{AccessPermit, LimitReached};
use nntp_io::rate::Bandwidth;
use std::sync::Arc;

/// A client with the permits for its session, which end with it.
pub struct AdmittedClient {
    client: ConnectedClient,
    /// The permit of its connection.
    permit: ConnectionPermit,
    /// The permit under its `[[access]]` section, if one is needed.
    access_permit: Option<AccessPermit>,
}

/// The limit because of which a client is not served.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionLimit {
    /// A limit on connections.
    #[error("{0}")]
    Connections(ConnectionLimit),
    /// A limit of its `[[access]]` section.
    #[error("{0}")]
    Access(LimitReached),
}

/// Formats the message for the client.
impl AdmittedClient {
    /// Takes the permits for the session of a client.
    pub fn new(client: ConnectedClient, site: &Site) -> Result<Self, AdmissionLimit> {
        let permit = site.permits.take(&client.config().limits, client.address(), client.peer());
        let permit = permit.map_err(AdmissionLimit::Connections)?;
        let access_permit = access_permit(&client, site)?;
        Ok(Self { client, permit, access_permit })
    }

    /// Returns the client.
    pub(super) fn client(&self) -> &ConnectedClient {
        &self.client
    }

    /// Returns the limit on the speed of sending to it.
    pub(super) fn bandwidth(&self) -> Option<Arc<Bandwidth>> {
        self.access_permit.as_ref().and_then(AccessPermit::bandwidth)
    }

    /// Records that the connection is compressed from now on.
    pub(super) fn set_compressed(&mut self) {
        self.client.set_compressed();
    }

    /// Returns true if the client would be the same peer as before.
    pub(super) fn is_same_peer(&self, client: &ConnectedClient) -> bool {
        self.permit.is_of(client.peer())
    }

    /// Continues as `client`: takes the permits that it has a right to and returns the previous ones. The
    /// connection is to be closed after an error, whose text is for the client.
    pub(super) fn switch_to(&mut self, client: ConnectedClient, site: &Site) -> Result<(), AdmissionLimit> {
        if !self.is_same_peer(&client) {
            let permit = site.permits.take(&client.config().limits, client.address(), client.peer());
            self.permit = permit.map_err(AdmissionLimit::Connections)?;
        }
        self.access_permit = None;
        self.access_permit = access_permit(&client, site)?;
        self.client = client;
        Ok(())
    }

    /// Continues as `client`, the previous one under another configuration, whatever the limits are now.
    pub(super) fn keep(&mut self, client: ConnectedClient, site: &Site) {
        if !self.is_same_peer(&client) {
            self.permit = site.permits.keep(client.address(), client.peer());
        }
        self.access_permit = client.limit_subject().and_then(|holder| site.limits.enter(&holder, true).ok());
        self.client = client;
    }
}

/// Returns a permit under the client's `[[access]]` section; `None` if none is needed.
fn access_permit(client: &ConnectedClient, site: &Site) -> Result<Option<AccessPermit>, AdmissionLimit> {
    let permit = client.limit_subject().map(|subject| site.limits.enter(&subject, false)).transpose();
    permit.map_err(AdmissionLimit::Access)
}
