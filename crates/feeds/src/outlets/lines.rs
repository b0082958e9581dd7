//! Lines about articles, for other programs.

use crate::journal::offer::FeedOffer;
use site_config::LineItem;
use spool::Spool;
use std::io::Write;

/// Appends the line about an article. Items contain no blanks except in paths.
pub(crate) fn append(items: &[LineItem], offer: &FeedOffer, peer: &str, spool: &Spool, out: &mut Vec<u8>) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        // Writing into memory does not fail.
        let _written = match item {
            LineItem::Token => write!(out, "{}", spool.tokens().text(&offer.token)),
            LineItem::MessageId => out.write_all(&offer.message_id),
            LineItem::Path => match spool.tokens().file_of(&offer.token) {
                Some(path) => out.write_all(path.as_os_str().as_encoded_bytes()),
                None => write!(out, "{}", spool.tokens().text(&offer.token)),
            },
            LineItem::Size => write!(out, "{}", offer.wire_bytes),
            LineItem::Arrived => write!(out, "{}", offer.arrived),
            LineItem::Peer => out.write_all(peer.as_bytes()),
        };
    }
    out.push(b'\n');
}
