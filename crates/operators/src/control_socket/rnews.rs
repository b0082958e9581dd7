//! Articles of a batch over the control socket, in parcels: [`RnewsOperation`].
//!
//! Writes and reads the parcels, each of which is filed in one commit. Used by the running server and by
//! `newsreel rnews`.

use super::exchange::ControlExchange;
use crate::Sink;
use crate::operation::{OperatedSite, Operation};
use crate::reply::Reply;
use crate::running::Server;
use ingest::BatchOutcome;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Maximum number of articles in a parcel.
const PARCEL_ARTICLES_MAX: u32 = 4096;

/// Writes a parcel; one without articles marks the end.
pub fn put_parcel(out: &mut impl Write, wires: &[&[u8]]) -> io::Result<()> {
    let length = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
    let mut head = Vec::with_capacity(8 + 4 * wires.len());
    head.extend_from_slice(&length(wires.iter().map(|wire| wire.len()).sum())?.to_be_bytes());
    head.extend_from_slice(&length(wires.len())?.to_be_bytes());
    for wire in wires {
        head.extend_from_slice(&length(wire.len())?.to_be_bytes());
    }
    out.write_all(&head)?;
    wires.iter().try_for_each(|wire| out.write_all(wire))
}

/// A parcel as read; its memory is reused for the next one.
#[derive(Default)]
struct ArticleParcel {
    lengths: Vec<u8>,
    wires: Vec<u8>,
}

impl ArticleParcel {
    /// Reads the next parcel; false at the end.
    fn read(&mut self, from: &mut impl Read) -> io::Result<bool> {
        let bytes = read_u32(from)?;
        let articles = read_u32(from)?;
        if articles > PARCEL_ARTICLES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a parcel of too many articles"));
        }
        read_bytes(from, articles * 4, &mut self.lengths)?;
        read_bytes(from, bytes, &mut self.wires)?;
        Ok(articles > 0)
    }

    /// Returns the articles of the parcel.
    fn articles(&self) -> io::Result<Vec<&[u8]>> {
        let mut rest = self.wires.as_slice();
        let articles = self.lengths.as_chunks().0.iter().map(|length| {
            let (wire, after) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            rest = after;
            Some(wire)
        });
        let articles: Option<Vec<&[u8]>> = articles.collect();
        articles.filter(|_| rest.is_empty()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    let mut octets = [0; 4];
    from.read_exact(&mut octets)?;
    Ok(u32::from_be_bytes(octets))
}

/// Reads this number of bytes, allocating memory only for those that have arrived.
fn read_bytes(from: &mut impl Read, bytes: u32, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    let read = from.by_ref().take(u64::from(bytes)).read_to_end(out)?;
    if read < bytes as usize { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// File articles, which follow in parcels: bytes and number of its articles, the bytes of each (four
/// bytes each, big-endian), and their wire format, concatenated. A parcel without articles marks the end.
/// Every other parcel is answered by one [`Reply::Articles`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RnewsOperation {}

impl Operation for RnewsOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        // The articles come over the control socket, so this is for a server alone.
        site.server(sink);
        false
    }

    fn answer(&self, server: &Server, client: &mut ControlExchange) -> io::Result<bool> {
        let site = &server.site;
        let mut parcel = ArticleParcel::default();
        let mut ok = true;
        while parcel.read(client.requests())? {
            let fates = site.filer.file_batch(&parcel.articles()?);
            ok &= fates.iter().all(|fate| fate.outcome != BatchOutcome::TryLater);
            // The other side keeps a limited number of articles until it gets this reply.
            client.send(&Reply::Articles(fates))?;
        }
        if let Err(trouble) = site.spool.settle() {
            client.send(&Reply::Error(trouble.to_string()))?;
            return Ok(false);
        }
        Ok(ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_is_read_as_it_was_put() {
        let wires: [&[u8]; 3] = [b"Path: x\r\n\r\n", b"", b"y"];
        let mut out = Vec::new();
        put_parcel(&mut out, &wires).unwrap();
        put_parcel(&mut out, &[]).unwrap();
        let mut from = out.as_slice();
        let mut parcel = ArticleParcel::default();
        assert!(parcel.read(&mut from).unwrap());
        assert_eq!(parcel.articles().unwrap(), wires);
        assert!(!parcel.read(&mut from).unwrap() && from.is_empty());
        for end in 0..out.len() - 8 {
            assert!(ArticleParcel::default().read(&mut &out[..end]).is_err(), "{end}");
        }
        // A length that reaches beyond the parcel.
        out[11] += 1;
        parcel.read(&mut out.as_slice()).unwrap();
        assert!(parcel.articles().is_err());
    }
}
