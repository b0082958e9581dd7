//! Batches of another server's articles over the control socket:
//! [`ImportOperation`].
//!
//! Writes and reads the frames. Used by the running server and by `newsreel import`.

use super::exchange::ControlExchange;
use crate::Sink;
use crate::operation::{OperatedSite, Operation};
use crate::reply::Reply;
use crate::running::Server;
use ingest::{ImportResult, ImportedArticle};
use serde::{Deserialize, Serialize};
use spool::{ArticleKey, Token};
use std::io::{self, Read};

/// Maximum number of articles in a batch.
pub const BATCH_ARTICLES_MAX: usize = 1024;
/// Maximum size of a batch in bytes, unless it has one larger article.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Appends an article's frame, starting with its length.
pub fn put_frame(article: &ImportedArticle<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let places = u16::try_from(article.places.len()).map_err(io::Error::other)?;
    let length = u32::try_from(6 + article.places.len() + article.wire.len()).map_err(io::Error::other)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&article.arrived.to_be_bytes());
    out.extend_from_slice(&places.to_be_bytes());
    out.extend_from_slice(article.places);
    out.extend_from_slice(article.wire);
    Ok(())
}

/// Reads a frame without its length.
fn parse_frame(frame: &[u8]) -> Option<ImportedArticle<'_>> {
    let (arrived, rest) = frame.split_first_chunk()?;
    let (places, rest) = rest.split_first_chunk()?;
    let (places, wire) = rest.split_at_checked(usize::from(u16::from_be_bytes(*places)))?;
    Some(ImportedArticle { wire, arrived: u32::from_be_bytes(*arrived), places })
}

/// File articles of another server, which follow, each after its length (four bytes, big-endian), and a
/// length of 0 after the last; the bytes of each are its arrival (Unix seconds, four bytes, big-endian;
/// 0: now), the length of its placements (two bytes, big-endian), its placements (`group:number` words
/// separated by spaces, a number of 0 for a new one) and its wire format. Answered by one
/// [`Reply::Imported`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportOperation {}

impl Operation for ImportOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        // The articles come over the control socket, so this is for a server alone.
        site.server(sink);
        false
    }

    fn answer(&self, server: &Server, client: &mut ControlExchange) -> io::Result<bool> {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut bytes = 0;
        loop {
            let mut frame = Vec::new();
            if !next_frame(client.requests(), &mut frame)? {
                break;
            }
            if frames.len() >= BATCH_ARTICLES_MAX || (bytes > 0 && bytes + frame.len() > BATCH_BYTES_MAX) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a batch of too many articles or bytes",
                ));
            }
            bytes += frame.len();
            frames.push(frame);
        }
        let articles: Option<Vec<ImportedArticle<'_>>> =
            frames.iter().map(|frame| parse_frame(frame)).collect();
        let articles = articles.ok_or(io::ErrorKind::InvalidData)?;
        let results = server.site.filer.import(&articles);
        let ok = !results.iter().any(ImportResult::is_trouble);
        client.send(&Reply::Imported(results))?;
        Ok(ok)
    }
}

/// Reads the next length and the bytes that it announces; false at the end of the sequence.
fn next_frame(requests: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    requests.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    bytes.clear();
    if requests.by_ref().take(u64::from(length)).read_to_end(bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(length > 0)
}

/// Count the imported articles that are still stored; answered by [`Reply::Count`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountLivingOperation {
    /// Tokens from [`ImportResult`].
    pub tokens: Vec<String>,
}

impl Operation for CountLivingOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let tokens: Vec<Token> = self.tokens.iter().filter_map(|token| Token::from_hex(token)).collect();
        sink(Reply::Count(site.spool().count_living(&tokens)));
        true
    }
}

/// Report which of these Message-IDs history knows, with or without an article; answered by [`Reply::Known`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreKnownOperation {
    /// Message-IDs, with their angle brackets.
    pub ids: Vec<String>,
}

impl Operation for AreKnownOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let spool = site.spool();
        let ids: Vec<&[u8]> = self.ids.iter().map(String::as_bytes).collect();
        let keys: Vec<ArticleKey> = ids.iter().map(|id| spool.key(id)).collect();
        sink(Reply::Known(spool.are_known(&keys, &ids)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_put() {
        let article = ImportedArticle { wire: b"Path: x\r\n\r\n", arrived: 77, places: b"a.b:5 c:0" };
        let mut out = Vec::new();
        put_frame(&article, &mut out).unwrap();
        let (length, frame) = out.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, frame.len());
        let read = parse_frame(frame).unwrap();
        assert_eq!((read.wire, read.arrived, read.places), (article.wire, 77, article.places));
        for end in 0..6 + article.places.len() {
            assert!(parse_frame(&frame[..end]).is_none(), "{end}");
        }
    }
}
