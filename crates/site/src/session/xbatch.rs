//! XBATCH: a peer sends a whole batch, which is kept on disk until it is filed.
//!
//! The octets are counted, not dot-stuffed, and written to a file as they arrive; 239 is sent when the file
//! is durable. Any failure is answered with 436: the peer keeps the batch. Called by `dispatch` and `rounds`.
//! Source: INN's innd, as no RFC describes it.

use super::Session;
use super::dispatch::CommandOutcome;
use super::rounds::{ExpectedInput, RoundStep};
use ingest::batches::{ArrivingBatch, BatchNotKept, BatchSender, IncomingDir};
use netnews::nntp::response::{append, append_standard, code};
use tokio::task::block_in_place;
use tracing::warn;
use upstreams::NewsSource;

/// A batch that is arriving.
pub(super) struct Xbatch {
    /// The file of the batch, or the reason why it cannot be kept.
    kept: Result<ArrivingBatch, BatchNotKept>,
    /// Bytes still to come.
    left: u64,
}

impl<S: NewsSource> Session<S> {
    /// Handles the command, for a batch of this many bytes.
    pub(super) fn xbatch(&mut self, bytes: u64) -> CommandOutcome {
        if !self.client.may_xbatch() {
            let (code, text) = self.client.no_feed();
            append(self.out.text(), code, text);
            return CommandOutcome::Done;
        }
        let address = self.client.address_text();
        let sender =
            self.client.peer().map(|peer| BatchSender { peer: peer.name.clone(), address: address.into() });
        let incoming = IncomingDir::of(self.client.config(), self.site.spool.disk());
        match block_in_place(|| incoming.begin(sender.as_ref(), Some(bytes))) {
            Ok(arriving) => {
                append_standard(self.out.text(), code::SEND_BATCH);
                self.batch = Some(Box::new(Xbatch { kept: Ok(arriving), left: bytes }));
                CommandOutcome::ExpectBatch
            }
            Err(why) => {
                self.batch_refused(&why);
                CommandOutcome::Done
            }
        }
    }

    /// Handles more of the batch, from `at` on.
    pub(super) fn batch_octets(&mut self, buffer: &[u8], at: usize) -> RoundStep {
        let Some(mut batch) = self.batch.take() else {
            self.expecting = ExpectedInput::Command;
            return RoundStep::To(at);
        };
        let rest = buffer.get(at..).unwrap_or_default();
        let octets = rest.get(..usize::try_from(batch.left).unwrap_or(usize::MAX)).unwrap_or(rest);
        batch.left -= octets.len() as u64;
        if let Ok(arriving) = &mut batch.kept
            && let Err(why) = block_in_place(|| arriving.write(octets))
        {
            batch.kept = Err(why);
        }
        if batch.left > 0 {
            self.batch = Some(batch);
            return RoundStep::More(buffer.len());
        }
        self.expecting = ExpectedInput::Command;
        match batch.kept.and_then(|arriving| Ok(block_in_place(|| arriving.finish())?)) {
            Ok(_) => {
                append(self.out.text(), code::TAKETHIS_ACCEPTED, "Batch received");
                self.site.waiting.fresh.notify_one();
            }
            Err(why) => self.batch_refused(&why),
        }
        RoundStep::To(at + octets.len())
    }

    fn batch_refused(&mut self, why: &BatchNotKept) {
        warn!(peer = self.client.name(), %why, "a batch cannot be kept");
        append(self.out.text(), code::TRANSFER_LATER, "Batch cannot be kept now, try again later");
    }
}
