//! XBATCH: a peer sends a whole batch, which is kept on disk until it is filed.
//!
//! The octets are counted, not dot-stuffed, and written to a file as they arrive; 239 is sent when the file
//! is durable. Any failure is answered with 436: the peer keeps the batch. Called by `dispatch` and `rounds`.
//! Source: INN's innd, as no RFC describes it.

use super::ConnectedClient;
use crate::site::Site;
use ingest::batches::{ArrivingBatch, BatchNotKept, BatchSender, IncomingDir};
use netnews::nntp::response::{append, append_standard, code};
use tokio::task::block_in_place;
use tracing::warn;

/// A batch that is arriving.
#[derive(Debug)]
pub(super) struct Xbatch {
    /// The file of the batch, or the reason why it cannot be kept.
    kept: Result<ArrivingBatch, BatchNotKept>,
    /// Bytes still to come.
    left: u64,
}

impl Xbatch {
    /// Answers the command for a batch of this many bytes; returns the batch if it may come.
    pub fn begin(site: &Site, client: &ConnectedClient, bytes: u64, out: &mut Vec<u8>) -> Option<Box<Self>> {
        if !client.may_xbatch() {
            let (code, text) = client.no_feed();
            append(out, code, text);
            return None;
        }
        let address = client.address_text();
        let sender =
            client.peer().map(|peer| BatchSender { peer: peer.name.clone(), address: address.into() });
        let incoming = IncomingDir::of(client.config(), site.spool.disk());
        match block_in_place(|| incoming.begin(sender.as_ref(), Some(bytes))) {
            Ok(arriving) => {
                append_standard(out, code::SEND_BATCH);
                Some(Box::new(Self { kept: Ok(arriving), left: bytes }))
            }
            Err(why) => {
                refuse(client, &why, out);
                None
            }
        }
    }

    /// Takes what belongs to the batch from the front of `octets`; returns how many octets that are.
    pub fn take(&mut self, octets: &[u8]) -> usize {
        let own = octets.get(..usize::try_from(self.left).unwrap_or(usize::MAX)).unwrap_or(octets);
        self.left -= own.len() as u64;
        if let Ok(arriving) = &mut self.kept
            && let Err(why) = block_in_place(|| arriving.write(own))
        {
            self.kept = Err(why);
        }
        own.len()
    }

    /// Returns true if all octets have come.
    pub fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// Makes the batch durable and answers it.
    pub fn finish(self, site: &Site, client: &ConnectedClient, out: &mut Vec<u8>) {
        match self.kept.and_then(|arriving| Ok(block_in_place(|| arriving.finish())?)) {
            Ok(_) => {
                append(out, code::TAKETHIS_ACCEPTED, "Batch received");
                site.waiting.fresh.notify_one();
            }
            Err(why) => refuse(client, &why, out),
        }
    }
}

fn refuse(client: &ConnectedClient, why: &BatchNotKept, out: &mut Vec<u8>) {
    warn!(peer = client.name(), %why, "a batch cannot be kept");
    append(out, code::TRANSFER_LATER, "Batch cannot be kept now, try again later");
}
