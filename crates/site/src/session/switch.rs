//! Layers that begin in mid-session: TLS and compression.
//!
//! After TLS the session starts from the beginning: group, rights and everything else said before are
//! forgotten. Compression changes only the encoding. Called by the session's loop after the last answer
//! before the switch. Sources: RFC 4642 section 2.2.2, RFC 8054 section 2.2.2, RFC 8143.

use super::ConnectedClient;
use crate::site::Site;
use netnews::nntp::response::{append, append_standard, code};
use nntp_io::{COMPRESSED_CONNECTIONS_MAX, ServerOutput};
use std::io;
use tokio::task::block_in_place;

/// Negotiates TLS; returns the client that it makes of this one. Any failure ends the connection.
pub(super) async fn begin_tls(
    site: &Site,
    client: &ConnectedClient,
    out: &mut ServerOutput,
) -> io::Result<ConnectedClient> {
    let Some(offer) = site.tls.load_full() else { return Err(io::Error::other("no certificate")) };
    if offer.is_due() {
        block_in_place(|| offer.refresh());
    }
    let current = offer.current();
    let limit = client.config().limits.command_timeout;
    out.transport().accept_tls(current.config(), limit).await?;
    let Some(connection) = out.transport().tls() else { return Ok(client.clone()) };
    Ok(client.secured(current.facts(connection)))
}

/// Compresses from here on, if the limit on compressed connections allows it; returns whether it does.
pub(super) async fn begin_compression(
    site: &Site,
    client: &ConnectedClient,
    out: &mut ServerOutput,
) -> io::Result<bool> {
    let permit = site.compressed.begin(client.config().site.article_bytes_max);
    let Some((deflating, inflating)) = permit else {
        let text = format!("Too many compressed connections (at most {COMPRESSED_CONNECTIONS_MAX})");
        append(out.text(), code::INTERNAL_FAULT, &text);
        out.flush().await?;
        return Ok(false);
    };
    append_standard(out.text(), code::COMPRESSION_ACTIVE);
    out.flush().await?;
    out.transport().start_compression(deflating, inflating);
    Ok(true)
}
