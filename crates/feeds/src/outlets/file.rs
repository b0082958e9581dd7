//! Appends a line for each article to the file of a peer.

use crate::outlets::line_file::LineFile;
use crate::outlets::lines;
use crate::peer::feed::{FeedTrouble, PeerFeed};
use crate::sending::bundle::OfferBundle;
use crate::sending::connection::ConnectionEnd;
use crate::shared::FeedContext;
use site_base::counters::add;
use site_base::units::about_size;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::sleep;

/// Bytes of lines written at once; in a small file, half of its limit.
const WRITE_BYTES_MAX: u64 = 32 << 10;
/// Interval for checking a full file.
const ROOM_INTERVAL: Duration = Duration::from_secs(2);

/// Writes the lines that are due.
pub(crate) async fn write_due(peer: &PeerFeed, own: &LineFile, shared: &FeedContext) -> ConnectionEnd {
    let mut end = peer.end.subscribe();
    let mut progressed = false;
    loop {
        match block_in_place(|| write_some(peer, own, shared)) {
            Ok(FileOutcome::All) => return ConnectionEnd { error: None, progressed },
            Ok(FileOutcome::Some) => {
                progressed = true;
                peer.works(FeedTrouble::Room);
                peer.works(FeedTrouble::Peer);
            }
            Ok(FileOutcome::Full) => {
                peer.fail(
                    FeedTrouble::Room,
                    format!(
                        "{} has {}: no more is written",
                        own.path.display(),
                        about_size(peer.send.waiting_bytes_max)
                    ),
                );
                peer.attention.notify_one();
                tokio::select! {
                    () = sleep(ROOM_INTERVAL) => {}
                    _ = end.changed() => {}
                }
            }
            Err(error) => {
                let error = Some(format!("cannot write to {}: {error}", own.path.display()));
                return ConnectionEnd { error, progressed };
            }
        }
    }
}

enum FileOutcome {
    /// There may be more.
    Some,
    All,
    /// The file has reached its limit.
    Full,
}

fn write_some(peer: &PeerFeed, own: &LineFile, shared: &FeedContext) -> io::Result<FileOutcome> {
    let mut bundle = OfferBundle::new(peer);
    let (mut text, mut lines, mut bytes) = (Vec::new(), 0, 0);
    let text_max = WRITE_BYTES_MAX.min(peer.send.waiting_bytes_max / 2);
    while (text.len() as u64) < text_max
        && let Some(taken) = peer.take(&shared.hub.frontier)
    {
        bundle.push(taken.ticket);
        if shared.is_there(peer, &taken.offer) {
            lines::append(&peer.send.lines, &taken.offer, &peer.name, &shared.spool, &mut text);
            lines += 1;
            bytes += taken.offer.wire_bytes as usize;
        }
    }
    if bundle.is_empty() {
        return Ok(FileOutcome::All);
    }
    let is_written = text.is_empty() || own.append(&text, peer.send.waiting_bytes_max)?;
    own.is_full.store(!is_written, Ordering::Relaxed);
    if !is_written {
        return Ok(FileOutcome::Full);
    }
    bundle.settle();
    for count in [&peer.counts.offered, &peer.counts.accepted] {
        add(count, lines);
    }
    add(&peer.counts.sent_bytes, bytes);
    peer.note(&shared.hub.frontier);
    Ok(FileOutcome::Some)
}
