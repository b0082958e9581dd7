//! ihave and sendme (RFC 1036 section 3.2): peers that get lists of new articles, and request those they
//! want.
//!
//! Meant for links on which articles that the other side has already cost too much, and on which there is
//! no interactive connection. A batch for such a peer begins with the articles it has requested; new ones
//! are listed in an ihave control message at its end ([`message`]). Messages from the peer are found in the
//! journal, by a durable reader of its own: an ihave is answered by a batch of one sendme, a sendme puts
//! the articles among those that wait to be sent. Both may be repeated after a crash: the batch has the
//! same name then, and an article already waiting is not added again.

use crate::journal::backlog::is_for;
use crate::journal::offer::FeedOffer;
use crate::outlets::Outlet;
use crate::outlets::batch_dir::{EXTENSION, IHAVE_IDS_MAX, OutgoingBatches};
use crate::peer::feed::PeerFeed;
use crate::shared::FeedContext;
use disk::FileAccess;
use ingest::batches::BatchPacker;
use netnews::{Article, Known, MessageId, control, date};
use site_base::clock::{unix_ms, unix_secs};
use site_base::counters::add;
use site_config::BatchCompress;
use spool::{ArticleKind, Cursor, JournalBatch, JournalEvent, JournalMark, Lookup};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tracing::{info, warn};

/// Name of the cursor.
pub(crate) const CURSOR: &str = "sendme";
/// Most Message-IDs read from a message of a peer.
const IDS_READ_MAX: usize = 10_000;
/// Interval for saving the cursor.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after an error, and while a peer has requested more than may wait.
const PAUSE: Duration = Duration::from_secs(1);
/// Messages that wait to be answered; beyond it the oldest is given up.
const UNANSWERED_MAX: usize = 1_000;
/// How long a message is tried.
const UNANSWERED_LONGEST: Duration = Duration::from_secs(3 * 24 * 3600);
/// Prefix of the origin of a peer's articles.
const OF_PEER: &[u8] = b"peer ";

/// Kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendmeVerb {
    Ihave,
    Sendme,
}

impl SendmeVerb {
    fn word(self) -> &'static str {
        match self {
            Self::Ihave => "ihave",
            Self::Sendme => "sendme",
        }
    }
}

/// Returns a message to a peer about some Message-IDs, in wire format. `serial` determines its own
/// Message-ID, which is the same each time that the message is made.
pub(crate) fn message(
    verb: SendmeVerb,
    identity: &str,
    peer: &str,
    serial: &str,
    ids: &[Box<[u8]>],
) -> Vec<u8> {
    let word = verb.word();
    let mut text = format!(
        "Path: {identity}!not-for-mail\r\nFrom: usenet@{identity}\r\nNewsgroups: to.{peer}\r\n\
         Subject: cmsg {word} {identity}\r\nControl: {word} {identity}\r\n\
         Message-ID: <{word}.{serial}.{peer}@{identity}>\r\nDate: "
    )
    .into_bytes();
    date::format_rfc5322(unix_secs() as i64, &mut text);
    text.extend_from_slice(b"\r\n\r\n");
    for id in ids {
        text.extend_from_slice(id);
        text.extend_from_slice(b"\r\n");
    }
    text
}

/// A message from a peer.
#[derive(Debug, PartialEq, Eq)]
struct SendmeMessage<'a> {
    verb: SendmeVerb,
    /// Name of the peer, as stated in the message.
    site: &'a [u8],
    ids: Vec<&'a [u8]>,
}

/// Parses a message: `ihave [<id> ...] SITE`, with the Message-IDs there or one on each line of the body.
fn read<'a>(article: &Article<'a>) -> Option<SendmeMessage<'a>> {
    let value = article.header(Known::Control)?;
    let verb = control::verb(value);
    let verb = [SendmeVerb::Ihave, SendmeVerb::Sendme]
        .into_iter()
        .find(|v| verb.eq_ignore_ascii_case(v.word().as_bytes()))?;
    let words = || value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(1);
    let is_id = |word: &&[u8]| MessageId::parse(word).is_some();
    let site = words().filter(|word| !is_id(word)).last()?;
    let mut ids: Vec<&[u8]> = words().filter(is_id).collect();
    if ids.is_empty() {
        let lines = article.body().split(|b| *b == b'\n').map(|line| line.trim_ascii());
        ids.extend(lines.filter(is_id).take(IDS_READ_MAX));
    }
    Some(SendmeMessage { verb, site, ids })
}

/// Reads requests of peers until `end` is true.
pub(crate) async fn run(shared: Arc<FeedContext>, mut cursor: Cursor, mut end: watch::Receiver<bool>) {
    let mut batch = JournalBatch::default();
    let mut saved = Instant::now();
    let mut unanswered = VecDeque::new();
    loop {
        tokio::select! {
            () = poll_fn(|context| cursor.poll_rows(context)) => {}
            () = sleep(PAUSE), if !unanswered.is_empty() => {}
            _ = end.wait_for(|end| *end) => break,
        }
        if cursor.tail().is_ended() {
            break;
        }
        let done = block_in_place(|| {
            answer_again(&shared, &mut unanswered);
            let before = cursor.mark();
            cursor.next(&mut batch)?;
            answer_all(&shared, &batch, before, &mut unanswered);
            if saved.elapsed() < SAVE_INTERVAL {
                return cursor.note(answered(&cursor, &unanswered));
            }
            saved = Instant::now();
            cursor.save_at(answered(&cursor, &unanswered))
        });
        if let Err(error) = done {
            warn!(%error, "cannot read ihave and sendme messages; trying again");
            tokio::select! {
                () = sleep(PAUSE) => {}
                _ = end.wait_for(|end| *end) => break,
            }
        }
    }
    if let Err(error) = block_in_place(|| cursor.save_at(answered(&cursor, &unanswered))) {
        warn!(%error, "cannot save which ihave and sendme messages were answered");
    }
}

/// A control message that waits to be answered.
struct UnansweredMessage {
    offer: Arc<FeedOffer>,
    /// The peer that sent it over a connection.
    sender: Option<Box<[u8]>>,
    /// At or before its row.
    mark: JournalMark,
    since: Instant,
    /// How many of its Message-IDs are queued, or need not be.
    queued_ids: usize,
}

/// Up to where all messages are answered.
fn answered(cursor: &Cursor, unanswered: &VecDeque<UnansweredMessage>) -> JournalMark {
    unanswered.front().map_or_else(|| cursor.mark(), |first| first.mark)
}

/// Answers the messages among the rows, which are read from `mark` on.
fn answer_all(
    shared: &FeedContext,
    batch: &JournalBatch,
    mark: JournalMark,
    unanswered: &mut VecDeque<UnansweredMessage>,
) {
    for (position, event) in batch.events() {
        let JournalEvent::Article(row) = event else { continue };
        if row.tagged.kind().is_none_or(|kind| !kind.has(ArticleKind::CONTROL)) {
            continue;
        }
        let sender = row.tagged.origin().and_then(|origin| origin.strip_prefix(OF_PEER)).map(Into::into);
        let mut message = UnansweredMessage {
            offer: FeedOffer::of(position, &row),
            sender,
            mark,
            since: Instant::now(),
            queued_ids: 0,
        };
        if let Err(error) = answer(shared, &mut message) {
            let id = String::from_utf8_lossy(&message.offer.message_id);
            warn!(%id, %error, "cannot answer a control message now; trying again");
            unanswered.push_back(message);
        }
    }
}

/// Tries again to answer messages; those that were tried for long enough are given up.
fn answer_again(shared: &FeedContext, unanswered: &mut VecDeque<UnansweredMessage>) {
    let excess = unanswered.len().saturating_sub(UNANSWERED_MAX);
    for (at, mut message) in std::mem::take(unanswered).into_iter().enumerate() {
        let Err(error) = answer(shared, &mut message) else { continue };
        if at < excess || message.since.elapsed() > UNANSWERED_LONGEST {
            let id = String::from_utf8_lossy(&message.offer.message_id);
            warn!(%id, %error, "a control message could not be answered, and is given up");
        } else {
            unanswered.push_back(message);
        }
    }
}

fn answer(shared: &FeedContext, message: &mut UnansweredMessage) -> io::Result<()> {
    let offer = &message.offer;
    let Some(wire) = shared.articles.whole(offer) else { return Ok(()) };
    let Ok(article) = Article::parse(wire.bytes()) else { return Ok(()) };
    let Some(SendmeMessage { verb, site, ids }) = read(&article) else { return Ok(()) };
    // A peer that sent it over a connection can speak only for itself.
    let sender = message.sender.as_deref();
    if sender.is_some_and(|sender| !sender.eq_ignore_ascii_case(site)) {
        return Ok(());
    }
    let site = String::from_utf8_lossy(site).into_owned();
    let Some(peer) = shared.speakers.lock().get(&site.to_ascii_lowercase()).cloned() else { return Ok(()) };
    let Outlet::Batches(own) = &peer.outlet else { return Ok(()) };
    match verb {
        SendmeVerb::Ihave => ask(shared, &peer, own, offer, &ids),
        SendmeVerb::Sendme => queue(shared, &peer, &ids, &mut message.queued_ids),
    }
}

/// Requests from a peer those of its articles that are not known here.
fn ask(
    shared: &FeedContext,
    peer: &PeerFeed,
    own: &OutgoingBatches,
    offer: &FeedOffer,
    ids: &[&[u8]],
) -> io::Result<()> {
    let spool = &shared.spool;
    let is_new = |id: &&&[u8]| !spool.is_known(&spool.key(id)) && !spool.is_hash_known(id);
    let mut wanted: Vec<Box<[u8]>> = ids.iter().filter(is_new).map(|id| (*id).into()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    info!(peer = peer.name, offered = ids.len(), wanted = wanted.len(), "ihave");
    for (part, wanted) in wanted.chunks(IHAVE_IDS_MAX).enumerate() {
        let position = offer.mark.position;
        let serial = format!("{position}.{}.{part}", offer.arrived);
        let mut packer = BatchPacker::new(BatchCompress::None)?;
        packer.add(&message(SendmeVerb::Sendme, &own.identity, &peer.name, &serial, wanted))?;
        let name = format!("{position:020}-sendme{part}-{}{EXTENSION}", own.identity);
        let mut answer = own.begin()?;
        answer.add(&own.dir.join(name), &[&packer.finish()?], FileAccess::Group)?;
        own.complete(answer)?;
        add(&own.made, 1);
        own.fresh.notify_one();
    }
    Ok(())
}

/// Queues the articles that a peer has requested, as far as they are here and it may have them. `done` counts
/// the Message-IDs that need not be looked at again.
fn queue(shared: &FeedContext, peer: &Arc<PeerFeed>, ids: &[&[u8]], done: &mut usize) -> io::Result<()> {
    let mut queued = 0;
    for (at, id) in ids.iter().enumerate().skip(*done) {
        *done = at;
        let key = shared.spool.key(id);
        let Lookup::Present(token) = shared.spool.lookup(&key) else { continue };
        let mark = JournalMark::default();
        let arrived = u32::try_from(unix_secs()).unwrap_or(u32::MAX);
        let offer = FeedOffer { key, token, message_id: (*id).into(), wire_bytes: 0, arrived, mark };
        let Some(offer) = is_for(peer, shared, offer) else { continue };
        if !peer.window.lock().queue.request(Arc::new(offer), unix_ms()) {
            return Err(io::Error::other(format!("{} has asked for more than may wait", peer.name)));
        }
        queued += 1;
    }
    *done = ids.len();
    info!(peer = peer.name, asked = ids.len(), queued, "sendme");
    // Saved before the message counts as answered.
    peer.save(&shared.hub.frontier);
    peer.attention.notify_one();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_in_both_forms_and_as_written() {
        let ids: Vec<Box<[u8]>> = vec![(*b"<1@x>").into(), (*b"<2@x>").into()];
        let made = message(SendmeVerb::Sendme, "up.example", "leaf", "7", &ids);
        let article = Article::parse(&made).unwrap();
        assert_eq!(article.header(Known::MessageId), Some(&b"<sendme.7.leaf@up.example>"[..]));
        assert_eq!(article.header(Known::Newsgroups), Some(&b"to.leaf"[..]));
        let asked = read(&article).unwrap();
        assert_eq!(
            (asked.verb, asked.site, asked.ids),
            (SendmeVerb::Sendme, &b"up.example"[..], vec![&b"<1@x>"[..], b"<2@x>"])
        );
        let read_head = |control: &str| {
            let text = format!("Control: {control}\r\n\r\n<9@x>\r\nnothing\r\n <8@x> \r\n");
            let article = Article::parse(text.as_bytes()).unwrap();
            read(&article).map(|asked| {
                (asked.site.to_vec(), asked.ids.iter().map(|id| id.to_vec()).collect::<Vec<_>>())
            })
        };
        let ids = |ids: &[&str]| ids.iter().map(|id| id.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(
            read_head("ihave <1@x> <2@x> a.example"),
            Some((b"a.example".to_vec(), ids(&["<1@x>", "<2@x>"])))
        );
        assert_eq!(read_head("IHAVE a.example"), Some((b"a.example".to_vec(), ids(&["<9@x>", "<8@x>"]))));
        assert_eq!(read_head("ihave <1@x>"), None, "nobody is named");
        assert_eq!(read_head("cancel <1@x>"), None);
    }
}
