//! Status of the feeds to peers: what they wait for, what they have sent, and odd answers.

use crate::cli::table::Columns;
use operators::report::{FeedStatus, OutputStatus, ServerStatus};
use site_base::units::{about_size, about_span, grouped};

/// Returns the tables about feeds to peers.
pub(super) fn feeds_text(server: &ServerStatus) -> [String; 4] {
    type Fed<'a> = (&'a str, &'a FeedStatus);
    let feeds: Vec<Fed<'_>> =
        server.peers.iter().filter_map(|peer| Some((peer.name.as_str(), peer.feed.as_ref()?))).collect();
    let state = |(_, feed): &Fed<'_>| match feed.retry_secs {
        Some(secs) => format!("{}, again in {}", feed.state, about_span(secs)),
        None => feed.state.clone(),
    };
    let behind = |(_, feed): &Fed<'_>| match feed.lag_secs {
        0 => String::new(),
        secs => about_span(secs),
    };
    let now = Columns::of(&feeds)
        .left("feed to", |(name, _)| (*name).to_owned())
        .left("state", state)
        .right("connections", |(_, feed)| grouped(feed.connections))
        .right("articles behind", |(_, feed)| grouped(feed.lag_articles))
        .right("journal", |(_, feed)| about_size(feed.lag_bytes))
        .right("time", behind)
        .right("later", |(_, feed)| grouped(feed.waiting))
        .left("last error", |(_, feed)| feed.last_error.clone().unwrap_or_default())
        .text_if_any();
    let done = Columns::of(&feeds)
        .left("sent to", |(name, _)| (*name).to_owned())
        .right("offered", |(_, feed)| grouped(feed.offered))
        .right("wanted", |(_, feed)| grouped(feed.wanted))
        .right("refused", |(_, feed)| grouped(feed.refused))
        .right("accepted", |(_, feed)| grouped(feed.accepted))
        .right("rejected", |(_, feed)| grouped(feed.rejected))
        .right("deferred", |(_, feed)| grouped(feed.deferred))
        .right("missed", |(_, feed)| grouped(feed.missed))
        .right("sent", |(_, feed)| about_size(feed.sent_bytes))
        .right("articles/s", |(_, feed)| grouped(feed.articles_per_sec as u64))
        .text_if_any();
    let outputs: Vec<(&str, &OutputStatus)> =
        feeds.iter().filter_map(|(name, feed)| Some((*name, feed.output.as_ref()?))).collect();
    let waiting = Columns::of(&outputs)
        .left("taken away for", |(name, _)| (*name).to_owned())
        .right("files waiting", |(_, output)| grouped(output.waiting_files))
        .right("bytes", |(_, output)| about_size(output.waiting_bytes))
        .right("batches made", |(_, output)| grouped(output.batches_made))
        .right("handed over", |(_, output)| grouped(output.batches_handed_over))
        .left("at", |(_, output)| output.to.clone())
        .text_if_any();
    let aside: Vec<Fed<'_>> =
        feeds.iter().filter(|(_, feed)| feed.set_aside + feed.given_up > 0).copied().collect();
    let last = |feed: &FeedStatus| feed.set_aside_articles.last().cloned().unwrap_or_default();
    let aside = Columns::of(&aside)
        .left("odd answers from", |(name, _)| (*name).to_owned())
        .right("set aside", |(_, feed)| grouped(feed.set_aside))
        .right("given up", |(_, feed)| grouped(feed.given_up))
        .left("the last to", |(_, feed)| last(feed).message_id)
        .left("answer", |(_, feed)| last(feed).answer)
        .text_if_any();
    [now, done, waiting, aside]
}
