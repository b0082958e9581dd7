//! Offers one by one with IHAVE (RFC 3977 section 6.3.2), for peers that do not stream.

use crate::sending::connection::{ConnectionStop, FeedConnection, UnansweredOffer, judgement_of};
use nntp_io::{AnswerJudgement, ArticleRequest, Error, NntpClient, WireArticle};
use site_base::counters::add;

/// Offers until there is nothing more to send.
pub(crate) async fn run(
    connection: &mut FeedConnection<'_>,
    client: &mut NntpClient,
) -> Result<(), ConnectionStop> {
    let peer = connection.peer.clone();
    loop {
        let taken = peer.take(&connection.shared.hub.frontier);
        let mut held = UnansweredOffer { peer: &peer, taken, is_asked: false };
        let Some(taken) = held.taken.clone() else {
            if !connection.idle(client).await? {
                return Ok(());
            }
            continue;
        };
        // The article is read first, so that a missing one is not offered.
        let Some(wire) = connection.article(&taken) else {
            held.taken = None;
            continue;
        };
        offer(connection, client, &mut held, &wire).await?;
        peer.note(&connection.shared.hub.frontier);
        connection.shared.rest();
    }
}

/// Offers one article, and sends it if it is wanted.
async fn offer(
    connection: &mut FeedConnection<'_>,
    client: &mut NntpClient,
    held: &mut UnansweredOffer<'_>,
    wire: &WireArticle,
) -> Result<(), ConnectionStop> {
    let Some(taken) = &held.taken else { return Ok(()) };
    client.submit([b"IHAVE ", &*taken.offer.message_id].concat())?;
    match answer(connection, client, held, ArticleRequest::Ihave).await? {
        AnswerJudgement::Wanted => connection.offered(true),
        judgement => {
            if judgement == AnswerJudgement::Refused {
                connection.offered(false);
            }
            conclude(connection, held, judgement);
            return Ok(());
        }
    }
    client.submit_article(wire.bytes())?;
    let judgement = answer(connection, client, held, ArticleRequest::Transfer).await?;
    add(&connection.peer.counts.sent_bytes, wire.bytes().len());
    conclude(connection, held, judgement);
    Ok(())
}

/// Waits for the peer's answer about the article; after an odd answer, the article has been set aside.
async fn answer(
    connection: &mut FeedConnection<'_>,
    client: &mut NntpClient,
    held: &mut UnansweredOffer<'_>,
    request: ArticleRequest,
) -> Result<AnswerJudgement, ConnectionStop> {
    let Some(taken) = held.taken.clone() else { return Ok(AnswerJudgement::Odd) };
    held.is_asked = true;
    let answered = client.answer().await;
    // A lapsed login is not the article's fault.
    held.is_asked = !matches!(answered, Err(Error::LoggedOut(_)));
    let (judgement, text) = judgement_of(answered, request, &taken)?;
    if matches!(judgement, AnswerJudgement::Odd | AnswerJudgement::Unentitled | AnswerJudgement::OutOfStep) {
        held.taken = None;
    }
    connection.judged(&taken, judgement, &text)?;
    Ok(judgement)
}

/// Handles the last answer about an article.
fn conclude(connection: &FeedConnection<'_>, held: &mut UnansweredOffer<'_>, judgement: AnswerJudgement) {
    let Some(taken) = held.taken.take() else { return };
    match judgement {
        AnswerJudgement::Later => connection.peer.defer(taken.ticket),
        _ => connection.settle(&taken, judgement),
    }
}
