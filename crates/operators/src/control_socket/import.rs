//! Batches of another server's articles over the control socket:
//! [`crate::request::Request::Import`].
//!
//! Writes and reads the frames. Used by the running server and by `newsreel import`.

use crate::request::Reply;
use ingest::{ImportResult, ImportedArticle};
use site::Site;
use std::io::{self, Read, Write};

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

/// Files the articles that follow the request.
pub(super) fn file(site: &Site, requests: &mut impl Read, replies: &mut impl Write) -> io::Result<bool> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    loop {
        let mut frame = Vec::new();
        if !super::next_frame(requests, &mut frame)? {
            break;
        }
        if frames.len() >= BATCH_ARTICLES_MAX || (bytes > 0 && bytes + frame.len() > BATCH_BYTES_MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a batch of too many articles or bytes"));
        }
        bytes += frame.len();
        frames.push(frame);
    }
    let articles: Option<Vec<ImportedArticle<'_>>> = frames.iter().map(|frame| parse_frame(frame)).collect();
    let articles = articles.ok_or(io::ErrorKind::InvalidData)?;
    let results = site.filer.import(&articles);
    let ok = !results.iter().any(ImportResult::is_trouble);
    super::say(replies, &Reply::Imported(results))?;
    Ok(ok)
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
