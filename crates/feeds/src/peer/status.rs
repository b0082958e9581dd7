//! Status of a feed, for reports.

use crate::outlets::Outlet;
use crate::peer::feed::{FeedActivity, OfferSource, PeerFeed};
use crate::peer::set_aside::SetAsideArticle;
use site_base::clock::unix_secs;
use site_base::counters::read;
use site_base::figures;
use site_base::units::{about_span, grouped};
use site_config::FeedTransport;
use spool::JournalMark;
use std::sync::atomic::Ordering;
use std::time::Instant;

figures! {
    /// Status of the feed to a peer; counts are since it began.
    #[serde(default)]
    pub struct FeedStatus {
        /// `idle`, `connecting`, `sending`, `collecting` (for a batch), `full` (the output has reached its
        /// limit), `waiting` (for another attempt), `stopped` (by an operator) or `elsewhere` (another member
        /// of the cluster feeds the peer).
        text state: String => words("state" = |feed, _| feed.state_text(), Status) text("feed", Top),
        /// Open connections to the peer.
        gauge connections: u64 => count("connections", Status),
        /// Seconds until the next attempt to connect.
        gauge retry_secs: Option<u64>,
        /// Articles not sent yet: those to be offered, and all later ones in the journal.
        gauge lag_articles: u64 => count("articles behind", Status) count("behind", Page) count("lag", Top),
        /// Bytes of journal between the first unsettled article and the end.
        gauge lag_bytes: u64 => size("journal", Status),
        /// Seconds since the oldest unsettled article arrived.
        gauge lag_secs: u64 => delay("time", Status, Page) delay("since", Top),
        /// Articles offered, or sent without an offer.
        counter offered: u64 => count("offered", Sent, Page),
        /// Offered articles that the peer wanted.
        counter wanted: u64 => count("wanted", Sent),
        /// Offers that the peer refused.
        counter refused: u64 => count("refused", Sent, Page),
        /// Articles that the peer took.
        counter accepted: u64 => count("accepted", Sent, Page) growth("to/s", Top),
        /// Articles sent that the peer did not take.
        counter rejected: u64 => count("rejected", Sent, Page),
        /// Number of times that the peer deferred an article.
        counter deferred: u64 => count("deferred", Sent, Page),
        /// Articles to be offered again later.
        gauge waiting: u64 => count("later", Status),
        /// Articles not offered: the journal moved on, or they were overwritten or too old.
        counter missed: u64 => count("missed", Sent),
        /// Message-IDs of the last missed articles, where known.
        hidden missed_ids: Vec<String>,
        /// Articles that got odd answers and are to be offered again.
        gauge set_aside: u64 => count("set aside", Odd),
        /// Articles given up after odd answers.
        counter given_up: u64 => count("given up", Odd),
        /// The last articles that got odd answers, with the answers.
        hidden set_aside_articles: Vec<SetAsideArticle> =>
            words("the last to" = |feed, _| feed.last_set_aside().message_id, Odd)
            words("answer" = |feed, _| feed.last_set_aside().answer, Odd),
        /// Bytes of articles sent.
        counter sent_bytes: u64 => size("sent", Sent),
        /// Articles taken per second, on average since the feed began.
        gauge articles_per_sec: f64 =>
            number("articles/s" = |feed, _| grouped(feed.articles_per_sec as u64), Sent),
        /// Whether articles are sent without being offered first.
        gauge no_check: bool,
        /// Output waiting for other programs; absent if articles leave over connections.
        part output: Option<OutputStatus>,
        /// Last error that has not been resolved.
        trouble("Whether something went wrong and has not gone right since") last_error: Option<String> =>
            trouble("last error" = |feed, _| feed.last_error.clone().unwrap_or_default(), Status),
    }
}

impl FeedStatus {
    /// Describes what the feed does, and when it tries again if it waits.
    fn state_text(&self) -> String {
        match self.retry_secs {
            Some(secs) => format!("{}, again in {}", self.state, about_span(secs)),
            None => self.state.clone(),
        }
    }

    /// Returns the last article that got an odd answer; an empty one if there is none.
    fn last_set_aside(&self) -> SetAsideArticle {
        self.set_aside_articles.last().cloned().unwrap_or_default()
    }
}

figures! {
    /// Output for other programs.
    #[serde(default)]
    pub struct OutputStatus {
        /// Waiting files.
        gauge waiting_files: u64 => count("files waiting", Status),
        /// Waiting bytes.
        gauge waiting_bytes: u64 => size("bytes", Status),
        /// Batches made since the feed began.
        counter batches_made: u64 => count("batches made", Status),
        /// Batches handed over to the program.
        counter batches_handed_over: u64 => count("handed over", Status),
        /// The directory of batches, the file of lines, or the program.
        text to: String => text("at", Status),
    }
}

/// Returns the waiting output, as of the last check.
fn output(peer: &PeerFeed) -> Option<OutputStatus> {
    let mut status = OutputStatus::default();
    match (&peer.outlet, peer.send.way_out()) {
        (Outlet::Batches(own), FeedTransport::Batches(dir)) => {
            status.to = dir.display().to_string();
            (status.waiting_files, status.waiting_bytes) = *own.waiting.lock();
            status.batches_made = read(&own.made);
            status.batches_handed_over = read(&own.handed_over);
        }
        (Outlet::File(own), FeedTransport::File(file)) => {
            status.to = file.display().to_string();
            status.waiting_bytes = read(&own.bytes);
            status.waiting_files = u64::from(status.waiting_bytes > 0);
        }
        (Outlet::Program(_), FeedTransport::Program(words)) => status.to = words.join(" "),
        _ => return None,
    }
    Some(status)
}

/// Returns the position before which everything is settled; `None` if something waits for another attempt.
pub(crate) fn settled(peer: &PeerFeed, hub: JournalMark) -> Option<u64> {
    let window = peer.window.lock();
    let read_to = match window.source {
        OfferSource::Hub(_) => hub,
        OfferSource::Cursor(mark) | OfferSource::Seek(mark) => mark,
    };
    let queue = &window.queue;
    (queue.deferred() == 0 && queue.set_aside_count() == 0).then(|| queue.mark(read_to).position)
}

/// Returns the status of a feed; `hub` is the position of the hub.
pub(crate) fn of(peer: &PeerFeed, hub: JournalMark) -> FeedStatus {
    let counts = &peer.counts;
    let (in_window, waiting, set_aside, oldest, mark, read_to) = {
        let window = peer.window.lock();
        let read_to = match window.source {
            OfferSource::Hub(_) => hub,
            OfferSource::Cursor(mark) | OfferSource::Seek(mark) => mark,
        };
        let queue = &window.queue;
        let (mark, set_aside) = (queue.mark(read_to), queue.set_aside_count());
        (queue.len(), queue.deferred(), set_aside, queue.oldest(), mark, read_to)
    };
    let unread = match (read_to.sequence, hub.sequence) {
        (Some(read), Some(end)) => end.saturating_sub(read),
        _ => 0,
    };
    // Articles that wait here are sent, or were, by the member that feeds the peer.
    let is_here = !peer.is_elsewhere();
    let (state, retry_secs) = match *peer.doing.lock() {
        _ if !is_here => ("elsewhere", None),
        _ if peer.is_stopped.load(Ordering::Relaxed) => ("stopped", None),
        FeedActivity::Idle => ("idle", None),
        FeedActivity::Connecting => ("connecting", None),
        FeedActivity::Sending => ("sending", None),
        FeedActivity::Collecting => ("collecting", None),
        FeedActivity::Full => ("full", None),
        FeedActivity::Stopped => ("stopped", None),
        FeedActivity::Waiting(until) => {
            ("waiting", Some(until.saturating_duration_since(Instant::now()).as_secs()))
        }
    };
    // Locked one after the other: within the struct expression the first lock would be held while the
    // others are taken.
    let missed = peer.missed.lock().iter().map(|id| String::from_utf8_lossy(id).into_owned()).collect();
    let set_aside_articles = peer.set_aside.lock().all();
    let no_check = peer.no_check.lock().is_on();
    let last_error = peer.last_error.lock().as_ref().map(|(_, error)| error.clone());
    FeedStatus {
        connections: peer.connections.load(Ordering::Relaxed) as u64,
        state: state.to_owned(),
        retry_secs,
        lag_articles: if is_here { in_window as u64 + unread } else { 0 },
        lag_bytes: if is_here { hub.position.saturating_sub(mark.position) } else { 0 },
        lag_secs: oldest
            .filter(|_| is_here)
            .map_or(0, |arrived| unix_secs().saturating_sub(u64::from(arrived))),
        offered: read(&counts.offered),
        wanted: read(&counts.wanted),
        refused: read(&counts.refused),
        accepted: read(&counts.accepted),
        rejected: read(&counts.rejected),
        deferred: read(&counts.deferred),
        waiting: waiting as u64,
        missed: read(&counts.missed),
        missed_ids: missed,
        set_aside: set_aside as u64,
        given_up: read(&counts.given_up),
        set_aside_articles,
        articles_per_sec: read(&counts.accepted) as f64 / peer.began.elapsed().as_secs_f64().max(1.0),
        sent_bytes: read(&counts.sent_bytes),
        no_check,
        output: output(peer),
        last_error,
    }
}
