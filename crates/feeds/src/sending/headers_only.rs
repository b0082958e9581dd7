//! Feeds of headers without bodies, as in Diablo: announced by MODE HEADFEED.
//!
//! The headers of an article are sent, with its full size in `Bytes` and its lines in `Lines`, so that the
//! receiver can build an overview; control messages are sent whole. Called by `connection`.

use crate::sending::connection::ConnectionFault;
use netnews::article::Headers;
use netnews::{Article, Known};
use nntp_io::{NntpClient, WireArticle};
use site_base::printable;
use std::io::Write;

/// Answer of a peer that takes headers without bodies.
const TAKES_HEADERS: u16 = 250;

/// Asks a peer to take headers without bodies; returns an error if it does not.
pub(crate) async fn announce(client: &mut NntpClient) -> Result<(), ConnectionFault> {
    let answer = client.request("MODE HEADFEED").await?;
    match answer.code {
        TAKES_HEADERS => Ok(()),
        _ => {
            let shown = String::from_utf8_lossy(answer.line().get(..200).unwrap_or(answer.line()));
            Err(ConnectionFault::NoHeadFeed(printable::line(&shown).into_owned()))
        }
    }
}

/// Returns the headers sent instead of an article; `None` if all of it is sent.
pub(crate) fn of(whole: &WireArticle) -> Option<WireArticle> {
    let article = Article::parse(whole.bytes()).ok()?;
    // An article that arrived without its body is passed on unchanged.
    if article.count(Known::Control) > 0 || article.bodiless().is_some() {
        return None;
    }
    let mut head = Vec::with_capacity(article.body_offset() + 48);
    let mut has_lines = false;
    for (name, lines) in Headers::of(article.head()).fields().lines() {
        has_lines |= name.eq_ignore_ascii_case(b"Lines");
        if !name.eq_ignore_ascii_case(b"Bytes") {
            head.extend_from_slice(lines);
        }
    }
    // Writing to memory does not fail.
    let _ = write!(head, "Bytes: {}\r\n", article.bytes());
    if !has_lines {
        let _ = write!(head, "Lines: {}\r\n", article.lines());
    }
    head.extend_from_slice(b"\r\n");
    let range = 0..head.len();
    WireArticle::new(head, range)
}
