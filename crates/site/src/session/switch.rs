//! Layers that begin in mid-session: TLS and compression.
//!
//! After TLS the session starts from the beginning: group, rights and everything else said before are
//! forgotten. Compression changes only the encoding. Called by the session's loop after the last answer
//! before the switch. Sources: RFC 4642 section 2.2.2, RFC 8054 section 2.2.2, RFC 8143.

use super::login::LoginProgress;
use super::{AdmissionLimit, ConnectedClient, Session};
use netnews::nntp::response::{append, append_standard, code};
use nntp_io::COMPRESSED_CONNECTIONS_MAX;
use std::io;
use tokio::task::block_in_place;
use upstreams::NewsSource;

impl<S: NewsSource> Session<S> {
    /// Negotiates TLS and starts over. Any failure ends the connection; the inner error is for the client.
    pub(super) async fn start_tls(&mut self) -> io::Result<Result<(), AdmissionLimit>> {
        let Some(offer) = self.site.tls.load_full() else { return Err(io::Error::other("no certificate")) };
        if offer.is_due() {
            block_in_place(|| offer.refresh());
        }
        let current = offer.current();
        let limit = self.client.config().limits.command_timeout;
        self.out.transport().accept_tls(current.config(), limit).await?;
        let Some(connection) = self.out.transport().tls() else { return Ok(Ok(())) };
        let client = self.client.secured(current.facts(connection));
        Ok(self.start_over(client))
    }

    /// Forgets everything that was said before.
    fn start_over(&mut self, client: ConnectedClient) -> Result<(), AdmissionLimit> {
        self.settle(client)?;
        self.login = LoginProgress::default();
        self.feed = None;
        self.reader.start_over(self.client.view());
        Ok(())
    }

    /// Compresses from here on, if the limit on compressed connections allows it.
    pub(super) async fn start_compression(&mut self) -> io::Result<()> {
        match self.site.compressed.begin(self.client.config().site.article_bytes_max) {
            None => {
                let text = format!("Too many compressed connections (at most {COMPRESSED_CONNECTIONS_MAX})");
                append(self.out.text(), code::INTERNAL_FAULT, &text);
                self.out.flush().await
            }
            Some((deflating, inflating)) => {
                append_standard(self.out.text(), code::COMPRESSION_ACTIVE);
                self.out.flush().await?;
                self.out.transport().start_compression(deflating, inflating);
                self.client.set_compressed();
                Ok(())
            }
        }
    }
}
