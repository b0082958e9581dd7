//! Offers one by one with IHAVE (RFC 3977 section 6.3.2), for peers that do not stream.

use super::connection::{Broken, HeldOne, Line, Stop, judgement_of};
use nntp_io::{ArticleRequest, Client, Error, Judgement, WireArticle};
use site_base::counters::add;

/// Offers until there is nothing more to send.
pub(super) async fn run(line: &mut Line<'_>, client: &mut Client) -> Result<(), Stop> {
    let peer = line.peer.clone();
    loop {
        let taken = peer.take(&line.shared.hub.frontier);
        let mut held = HeldOne { peer: &peer, taken, is_asked: false };
        let Some(taken) = held.taken.clone() else {
            if !line.idle(client).await? {
                return Ok(());
            }
            continue;
        };
        // The article is read first, so that a missing one is not offered.
        let Some(wire) = line.article(&taken) else {
            held.taken = None;
            continue;
        };
        offer(line, client, &mut held, &wire).await?;
        peer.note(&line.shared.hub.frontier);
        line.shared.rest();
    }
}

/// Offers one article, and sends it if it is wanted.
async fn offer(
    line: &mut Line<'_>,
    client: &mut Client,
    held: &mut HeldOne<'_>,
    wire: &WireArticle,
) -> Result<(), Stop> {
    let Some(taken) = &held.taken else { return Ok(()) };
    client.submit([b"IHAVE ", &*taken.offer.message_id].concat()).map_err(Broken::from)?;
    match answer(line, client, held, ArticleRequest::Ihave).await? {
        Judgement::Wanted => line.offered(true),
        judgement => {
            if judgement == Judgement::Refused {
                line.offered(false);
            }
            conclude(line, held, judgement);
            return Ok(());
        }
    }
    client.submit_article(wire.bytes()).map_err(Broken::from)?;
    let judgement = answer(line, client, held, ArticleRequest::Transfer).await?;
    add(&line.peer.counts.sent_bytes, wire.bytes().len());
    conclude(line, held, judgement);
    Ok(())
}

/// Waits for the peer's answer about the article; after an odd answer, the article has been set aside.
async fn answer(
    line: &mut Line<'_>,
    client: &mut Client,
    held: &mut HeldOne<'_>,
    request: ArticleRequest,
) -> Result<Judgement, Stop> {
    let Some(taken) = held.taken.clone() else { return Ok(Judgement::Odd) };
    held.is_asked = true;
    let answered = client.answer().await;
    // A lapsed login is not the article's fault.
    held.is_asked = !matches!(answered, Err(Error::LoggedOut(_)));
    let (judgement, text) = judgement_of(answered, request, &taken)?;
    if matches!(judgement, Judgement::Odd | Judgement::Unentitled | Judgement::OutOfStep) {
        held.taken = None;
    }
    line.judged(&taken, judgement, &text)?;
    Ok(judgement)
}

/// Handles the last answer about an article.
fn conclude(line: &Line<'_>, held: &mut HeldOne<'_>, judgement: Judgement) {
    let Some(taken) = held.taken.take() else { return };
    match judgement {
        Judgement::Later => line.peer.defer(taken.ticket),
        _ => line.settle(&taken, judgement),
    }
}
