//! Sending articles to a server on an operator's request, with progress. Blocks.

use lock_order::Ordered;
use site_base::lock::rank;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{ArticleSource, OutgoingArticle, SendCounts, SendError, of_group, transmit};
use crate::Sink;
use crate::operation::{OperatedSite, Operation};
use crate::reply::Reply;
use access::tls::RemoteServer;

/// Least time between two progress replies.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Send the articles of a group to a server; answered by [`Reply::Progress`], a [`Reply::Text`] for each
/// article that the server rejects, and [`Reply::Sent`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendOperation {
    /// The group.
    pub group: String,
    /// The server.
    pub dial: Box<RemoteServer>,
}

impl Operation for SendOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let spool = site.spool();
        let Some(id) = spool.group_id(self.group.as_bytes()) else {
            sink(Reply::Error(format!("there is no file and no group {}", self.group)));
            return false;
        };
        let total = spool.marks(id).map_or(0, |marks| marks.count);
        let mut source = CountingSource { source: of_group(spool.clone(), id), done: Arc::default() };
        let done = source.done.clone();
        let progress = move || (done.load(std::sync::atomic::Ordering::Relaxed), total);
        site.in_runtime(sink, |sink| run(&self.dial, &mut source, progress, sink, &|| site.is_over()))
    }
}

/// Counts articles as they are read.
struct CountingSource<S> {
    source: S,
    done: Arc<std::sync::atomic::AtomicU64>,
}

impl<S: ArticleSource> ArticleSource for CountingSource<S> {
    fn next(&mut self) -> std::io::Result<Option<OutgoingArticle>> {
        self.done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.source.next()
    }

    fn damaged(&self) -> u64 {
        self.source.damaged()
    }
}

/// Sends all of a source; `progress` returns the amount read and the total; ends when `is_over` returns true.
/// Returns whether every article was answered.
pub fn run(
    dial: &RemoteServer,
    source: &mut dyn ArticleSource,
    progress: impl Fn() -> (u64, u64) + Send + Sync,
    sink: &mut Sink<'_>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> bool {
    let mut counts = SendCounts::default();
    let replies = Ordered::<_, { rank::PROGRESS }>::new((sink, Instant::now()));
    let mut source = ReportingSource { source, replies: &replies, progress: &progress };
    let mut told = |id: &str, line: &str| {
        let text = format!("{id}: {line}");
        (replies.lock().0)(Reply::Text(text));
    };
    let sent = transmit(dial, &mut source, &mut counts, &mut told);
    let over = async {
        while !is_over() {
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    };
    let sent = tokio::runtime::Handle::current().block_on(async {
        tokio::select! {
            sent = sent => sent,
            () = over => Err(SendError::Stopped),
        }
    });
    let sink = &mut replies.lock().0;
    sink(Reply::Progress { what: "sending".into(), done: 1, total: 1 });
    // Where the command is wrong, nothing was offered.
    if !matches!(sent, Err(SendError::Config(_))) {
        let is_final = matches!(&sent, Err(error) if !error.is_temporary());
        sink(Reply::Sent { counts, is_final });
    }
    if let Err(error) = &sent {
        sink(Reply::Error(error.to_string()));
    }
    sent.is_ok()
}

/// Reports progress as articles are read.
struct ReportingSource<'a, 'b, 's, P> {
    source: &'a mut dyn ArticleSource,
    replies: &'a Ordered<(&'b mut Sink<'s>, Instant), { rank::PROGRESS }>,
    progress: &'a P,
}

impl<P: Fn() -> (u64, u64) + Send + Sync> ArticleSource for ReportingSource<'_, '_, '_, P> {
    fn next(&mut self) -> std::io::Result<Option<OutgoingArticle>> {
        let mut replies = self.replies.lock();
        if replies.1.elapsed() >= PROGRESS_INTERVAL {
            replies.1 = Instant::now();
            let (done, total) = (self.progress)();
            if total > 0 {
                let done = done.min(total - 1);
                (replies.0)(Reply::Progress { what: "sending".into(), done, total });
            }
        }
        drop(replies);
        self.source.next()
    }

    fn damaged(&self) -> u64 {
        self.source.damaged()
    }
}
