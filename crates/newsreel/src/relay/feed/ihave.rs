//! Offers one by one with IHAVE (RFC 3977 section 6.3.2), for peers that do not stream.

use super::connection::{Broken, HeldOne, Line, Stop, verdict_of};
use super::peer::{Peer, Trouble};
use crate::base::counters::add;
use netnews::nntp::response::code;
use nntp_io::{Client, Verdict};

/// Offers until there is nothing more to send.
pub(super) async fn run(line: &mut Line<'_>, client: &mut Client) -> Result<(), Stop> {
    let peer = line.peer.clone();
    loop {
        let mut held = HeldOne { peer: &peer, taken: peer.take(&line.shared.hub.frontier), is_sent: false };
        let Some(taken) = held.taken.clone() else {
            if !line.idle(client).await? {
                return Ok(());
            }
            continue;
        };
        // Read first: what is gone is not offered.
        let Some(wire) = line.article(&taken) else {
            held.taken = None;
            continue;
        };
        let offer = [b"IHAVE ", &*taken.offer.message_id].concat();
        match request(client, Some(&offer)).await? {
            Verdict::Wanted => line.offered(true),
            Verdict::Never => {
                line.offered(false);
                held.release(Peer::settle);
            }
            _ => held.release(Peer::defer),
        }
        line.progressed = true;
        peer.works(Trouble::Peer);
        if held.taken.is_some() {
            held.is_sent = true;
            client.submit_article(wire.bytes()).map_err(Broken::from)?;
            let verdict = request(client, None).await?;
            add(&peer.counts.sent_bytes, wire.bytes().len());
            match verdict {
                Verdict::Accepted => add(&peer.counts.accepted, 1),
                Verdict::Never => add(&peer.counts.rejected, 1),
                Verdict::Later | Verdict::Wanted => held.release(Peer::defer),
            }
            held.release(Peer::settle);
        }
        peer.note(&line.shared.hub.frontier);
        line.shared.rest();
    }
}

/// Sends a command, if there is one, and waits for what the peer says of the article.
async fn request(client: &mut Client, command: Option<&[u8]>) -> Result<Verdict, Stop> {
    if let Some(command) = command {
        client.submit(command).map_err(Broken::from)?;
    }
    let answer = client.answer().await.map_err(Broken::from)?;
    let shown = || String::from_utf8_lossy(answer.line().get(..200).unwrap_or(answer.line())).into_owned();
    match (answer.code, verdict_of(answer.code)) {
        (code::UNAVAILABLE, _) => Err(Some(Broken::Closing(shown()))),
        (_, None) => Err(Some(Broken::Answer(shown()))),
        (_, Some(Verdict::Wanted)) if command.is_none() => Err(Some(Broken::Answer(shown()))),
        (_, Some(verdict)) => Ok(verdict),
    }
}
