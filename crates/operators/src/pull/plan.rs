//! The work of a run, in the order in which it is filed: chunks of a group's numbers, or of Message-IDs.
//!
//! Workers take chunks one after the other; each has a channel to the filer, which reads the channels in the
//! order in which the chunks were issued. The number of chunks issued and not yet filed is bounded, and so
//! are the bytes waiting in each, so memory is bounded however slow the filer or one of the connections is.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::aside::{FetchRefusal, RemoteArticle};
use lock_order::Ordered;
use site_base::lock::{Leaf, rank};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Numbers in the first chunk of a group.
const SPAN_FIRST: u64 = 100;
/// Maximum of numbers in a chunk, for groups with few articles left.
pub(super) const SPAN_MAX: u64 = 20_000;
/// Articles of a group, by its own count, up to which a chunk without articles is followed by wider ones.
const SPARSE_ARTICLES_MAX: u64 = 100_000;
/// Desired number of articles in a chunk.
const ARTICLES_WANTED: RangeInclusive<u64> = 25..=200;
/// Message-IDs in a chunk.
const IDS_PER_CHUNK: usize = 100;
/// Pieces of a chunk that may wait to be filed.
const PIECES_MAX: usize = 64;
/// KiB of articles of a chunk that may wait to be filed; a larger article waits alone.
const WAITING_KIB_MAX: u32 = 1024;

/// A group to fetch from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedGroup {
    pub name: Arc<str>,
    /// First and last number.
    pub numbers: RangeInclusive<u64>,
}

/// Everything that a run is to fetch.
#[derive(Debug, Default)]
pub(super) struct PullWork {
    /// Articles that earlier runs set aside.
    pub again: Vec<RemoteArticle>,
    pub groups: Vec<WantedGroup>,
    /// Message-IDs to fetch.
    pub ids: Vec<Box<str>>,
}

/// Contents of a chunk.
#[derive(Debug, Clone)]
pub(super) enum ChunkContents {
    /// Numbers of the group at this index of the plan.
    Numbers { group: usize, name: Arc<str>, numbers: RangeInclusive<u64> },
    /// Individual articles.
    Articles {
        articles: Vec<RemoteArticle>,
        /// Whether earlier runs set them aside.
        again: bool,
    },
}

/// An article that has come.
#[derive(Debug)]
pub(super) struct Fetched {
    pub article: RemoteArticle,
    pub wire: Vec<u8>,
    /// Given back when it is filed.
    pub _room: OwnedSemaphorePermit,
}

/// A piece of a chunk, for the filer.
#[derive(Debug)]
pub(super) enum ChunkPiece {
    Article(Fetched),
    /// An article that the server refuses to send.
    Aside(RemoteArticle, FetchRefusal),
    /// A group that the server does not let us read: the rest of the chunk is missing.
    NoGroup(FetchRefusal),
    /// End of the chunk; without it the chunk is incomplete.
    End,
}

/// A chunk in the hands of a worker.
#[derive(Debug)]
pub(super) struct PullChunk {
    pub part: ChunkContents,
    pieces: Sender<ChunkPiece>,
    room: Arc<Semaphore>,
}

/// A chunk from the filer's side.
#[derive(Debug)]
pub(super) struct IncomingChunk {
    pub part: ChunkContents,
    pub pieces: Receiver<ChunkPiece>,
    /// Released when the chunk is filed.
    pub place: OwnedSemaphorePermit,
}

/// Error: the filer has ended, and with it the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilerClosed;

impl PullChunk {
    /// Hands an article to the filer, once there is room for it.
    pub async fn hand_over(&self, article: RemoteArticle, wire: Vec<u8>) -> Result<(), FilerClosed> {
        let kib = u32::try_from(wire.len() >> 10).unwrap_or(u32::MAX).clamp(1, WAITING_KIB_MAX);
        let room = self.room.clone().acquire_many_owned(kib).await.map_err(|_| FilerClosed)?;
        self.pieces
            .send(ChunkPiece::Article(Fetched { article, wire, _room: room }))
            .await
            .map_err(|_| FilerClosed)
    }

    /// Reports a refusal to the filer.
    pub async fn report(&self, piece: ChunkPiece) -> Result<(), FilerClosed> {
        self.pieces.send(piece).await.map_err(|_| FilerClosed)
    }

    /// Ends the chunk, once all of it was handed over.
    pub async fn end(self) -> Result<(), FilerClosed> {
        self.pieces.send(ChunkPiece::End).await.map_err(|_| FilerClosed)
    }
}

/// The plan of a run, from which workers take chunks.
#[derive(Debug)]
pub(super) struct PullPlan {
    state: Leaf<PullPlanState>,
    places: Arc<Semaphore>,
    coming: Ordered<Option<UnboundedSender<IncomingChunk>>, { rank::PULL_PARTS }>,
    headers: Leaf<HeaderCommand>,
}

/// Command for the headers of many articles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HeaderCommand {
    Xhdr,
    Hdr,
    /// The server has neither.
    None,
}

impl HeaderCommand {
    /// Returns the name of the command.
    pub fn command(self) -> Option<&'static str> {
        match self {
            Self::Xhdr => Some("XHDR"),
            Self::Hdr => Some("HDR"),
            Self::None => None,
        }
    }
}

#[derive(Debug)]
struct PullPlanState {
    groups: Vec<WantedGroup>,
    /// Index of the current group, and the span of numbers of its next chunk.
    at: usize,
    span: u64,
    /// Articles that were set aside, and those requested by Message-ID.
    again: std::vec::IntoIter<RemoteArticle>,
    ids: std::vec::IntoIter<RemoteArticle>,
}

impl PullPlan {
    /// Creates a plan to fetch articles that were set aside, then from groups, then by Message-ID, with at
    /// most `places` chunks at once. The filer reads from the receiver.
    pub fn new(work: PullWork, places: usize) -> (Arc<Self>, UnboundedReceiver<IncomingChunk>) {
        let (coming, filer) = unbounded_channel();
        let PullWork { again, groups, ids } = work;
        let ids: Vec<RemoteArticle> = ids.into_iter().map(RemoteArticle::of_id).collect();
        let (again, ids) = (again.into_iter(), ids.into_iter());
        let state = PullPlanState { groups, at: 0, span: SPAN_FIRST, again, ids };
        let plan = Self {
            state: Leaf::new(state),
            places: Arc::new(Semaphore::new(places)),
            coming: Ordered::new(Some(coming)),
            headers: Leaf::new(HeaderCommand::Xhdr),
        };
        (Arc::new(plan), filer)
    }

    /// Returns the next chunk if there is a place for it now; the error indicates whether to try later.
    pub fn try_next(&self) -> Result<PullChunk, NoChunk> {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => self.give_out(place).ok_or(NoChunk::Never),
            Err(TryAcquireError::NoPermits) => Err(NoChunk::Wait),
            Err(TryAcquireError::Closed) => Err(NoChunk::Never),
        }
    }

    /// Waits for the next chunk; `None` if there is none left.
    pub async fn next(&self) -> Option<PullChunk> {
        let place = self.places.clone().acquire_owned().await.ok()?;
        self.give_out(place)
    }

    /// Stops fetching from this group.
    pub fn leave_group(&self, group: usize) {
        let mut state = self.state.lock();
        if state.at == group {
            state.at += 1;
            state.span = SPAN_FIRST;
        }
    }

    /// Stops issuing chunks: the filer ends with those issued.
    pub fn close(&self) {
        self.places.close();
        *self.coming.lock() = None;
    }

    fn give_out(&self, place: OwnedSemaphorePermit) -> Option<PullChunk> {
        let mut coming = self.coming.lock();
        let Some(part) = self.state.lock().next_part() else {
            // The filer ends with the last chunk.
            *coming = None;
            return None;
        };
        let (sender, pieces) = channel(PIECES_MAX);
        coming.as_ref()?.send(IncomingChunk { part: part.clone(), pieces, place }).ok()?;
        Some(PullChunk { part, pieces: sender, room: Arc::new(Semaphore::new(WAITING_KIB_MAX as usize)) })
    }

    /// Adapts the span of chunks to the number of articles found in the last one. In a group that has few by
    /// its own `count`, a gap is crossed in ever wider steps, as an article may have any number, unless every
    /// number has to be asked for.
    pub fn found(&self, group: usize, span: u64, articles: u64, count: Option<u64>) {
        let has_headers = self.headers() != HeaderCommand::None;
        let mut state = self.state.lock();
        if state.at != group {
            return;
        }
        let is_sparse = has_headers && count.is_some_and(|count| count <= SPARSE_ARTICLES_MAX);
        if articles == 0 && is_sparse && span >= state.span {
            state.span = state.span.saturating_mul(4);
        } else if articles < *ARTICLES_WANTED.start() && span >= state.span {
            state.span = state.span.saturating_mul(4).min(SPAN_MAX);
        } else if articles > *ARTICLES_WANTED.end() {
            state.span = (state.span.min(SPAN_MAX) / 2).max(SPAN_FIRST);
        }
    }

    /// Returns the command for headers.
    pub fn headers(&self) -> HeaderCommand {
        *self.headers.lock()
    }

    /// Records that the server does not have this command.
    pub fn has_no(&self, way: HeaderCommand) {
        let next = if way == HeaderCommand::Xhdr { HeaderCommand::Hdr } else { HeaderCommand::None };
        let now = {
            let mut headers = self.headers.lock();
            *headers = (*headers).max(next);
            *headers
        };
        if now == HeaderCommand::None {
            let mut state = self.state.lock();
            state.span = state.span.min(SPAN_MAX);
        }
    }
}

/// Reason why no chunk is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoChunk {
    /// Other chunks must be filed first.
    Wait,
    /// All chunks were issued.
    Never,
}

impl PullPlanState {
    fn next_part(&mut self) -> Option<ChunkContents> {
        let articles: Vec<RemoteArticle> = self.again.by_ref().take(IDS_PER_CHUNK).collect();
        if !articles.is_empty() {
            return Some(ChunkContents::Articles { articles, again: true });
        }
        while let Some(wanted) = self.groups.get_mut(self.at) {
            let (from, last) = (*wanted.numbers.start(), *wanted.numbers.end());
            if from > last {
                self.at += 1;
                self.span = SPAN_FIRST;
                continue;
            }
            let to = from.saturating_add(self.span - 1).min(last);
            let (group, name) = (self.at, wanted.name.clone());
            if to < last {
                wanted.numbers = to + 1..=last;
            } else {
                self.at += 1;
                self.span = SPAN_FIRST;
            }
            return Some(ChunkContents::Numbers { group, name, numbers: from..=to });
        }
        let articles: Vec<RemoteArticle> = self.ids.by_ref().take(IDS_PER_CHUNK).collect();
        (!articles.is_empty()).then_some(ChunkContents::Articles { articles, again: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str, numbers: RangeInclusive<u64>) -> WantedGroup {
        WantedGroup { name: name.into(), numbers }
    }

    #[tokio::test]
    async fn gap_of_a_small_group_is_crossed_in_ever_wider_chunks() {
        for (count, is_crossed) in [(Some(2), true), (Some(1 << 40), false), (None, false)] {
            let work = PullWork { groups: vec![wanted("a", 1..=1 << 53)], ..PullWork::default() };
            let (plan, _filer) = PullPlan::new(work, 1_000);
            let mut chunks = 0;
            while chunks < 100
                && let Some(chunk) = plan.next().await
            {
                let ChunkContents::Numbers { numbers, .. } = &chunk.part else { panic!() };
                plan.found(0, numbers.end() - numbers.start() + 1, 0, count);
                chunks += 1;
            }
            assert_eq!(chunks < 30, is_crossed, "{count:?}: {chunks}");
        }
    }

    #[tokio::test]
    async fn without_headers_chunks_stay_narrow() {
        let work = PullWork { groups: vec![wanted("a", 1..=1 << 53)], ..PullWork::default() };
        let (plan, _filer) = PullPlan::new(work, 1_000);
        // Grown wide before.
        plan.state.lock().span = SPAN_MAX * 4;
        plan.has_no(HeaderCommand::Hdr);
        for _ in 0..30 {
            let chunk = plan.next().await.unwrap();
            let ChunkContents::Numbers { numbers, .. } = &chunk.part else { panic!() };
            let span = numbers.end() - numbers.start() + 1;
            assert!(span <= SPAN_MAX, "{span}");
            plan.found(0, span, 0, Some(2));
        }
    }

    #[tokio::test]
    async fn chunks_cover_every_number_once_in_order() {
        let groups = vec![wanted("a", 5..=1_000), wanted("b", u64::MAX - 3..=u64::MAX)];
        let again = vec![RemoteArticle::of_id("<0@x>".into())];
        let work = PullWork { again, groups, ids: vec!["<1@x>".into(), "<2@x>".into()] };
        let (plan, mut filer) = PullPlan::new(work, 1_000);
        let first = plan.next().await.unwrap();
        assert!(
            matches!(&first.part, ChunkContents::Articles { again: true, articles } if articles.len() == 1)
        );
        first.end().await.unwrap();
        let (mut next, mut parts) = (5, Vec::new());
        while let Some(chunk) = plan.next().await {
            if let ChunkContents::Numbers { group, numbers, .. } = &chunk.part {
                if *group == 0 {
                    assert_eq!(*numbers.start(), next);
                    next = numbers.end() + 1;
                    plan.found(0, numbers.end() - numbers.start() + 1, 1, None);
                } else {
                    assert_eq!(*numbers, u64::MAX - 3..=u64::MAX);
                }
            }
            parts.push(chunk.part.clone());
            chunk.end().await.unwrap();
        }
        // Chunks span more numbers where articles are sparse.
        assert!(next == 1_001 && parts.len() < 7, "{parts:?}");
        assert!(
            matches!(parts.last(), Some(ChunkContents::Articles { articles, again: false }) if articles.len() == 2)
        );
        assert_eq!(plan.try_next().unwrap_err(), NoChunk::Never);
        let mut filed = 0;
        while let Some(mut coming) = filer.recv().await {
            assert!(matches!(coming.pieces.recv().await, Some(ChunkPiece::End)));
            assert!(coming.pieces.recv().await.is_none());
            filed += 1;
        }
        assert_eq!(filed, parts.len() + 1);
    }

    #[tokio::test]
    async fn waiting_chunks_and_bytes_are_bounded() {
        let work = PullWork { groups: vec![wanted("a", 1..=10_000)], ..PullWork::default() };
        let (plan, mut filer) = PullPlan::new(work, 2);
        let (one, _two) = (plan.try_next().unwrap(), plan.try_next().unwrap());
        assert_eq!(plan.try_next().unwrap_err(), NoChunk::Wait);
        let large = vec![b'x'; 700 << 10];
        let article = RemoteArticle::of_id("<1@x>".into());
        one.hand_over(article.clone(), large.clone()).await.unwrap();
        let mut second = std::pin::pin!(one.hand_over(article, large));
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_pending())).await
        );
        let mut coming = filer.recv().await.unwrap();
        assert!(
            matches!(coming.pieces.recv().await, Some(ChunkPiece::Article(came)) if came.wire.len() == 700 << 10)
        );
        second.await.unwrap();
        drop(coming);
        assert!(plan.try_next().is_ok());
    }

    #[tokio::test]
    async fn left_groups_and_closed_plans_issue_no_chunks() {
        let groups = vec![wanted("a", 1..=10_000), wanted("b", 1..=10_000)];
        let (plan, mut filer) = PullPlan::new(PullWork { groups, ..PullWork::default() }, 9);
        plan.try_next().unwrap();
        plan.leave_group(0);
        plan.leave_group(0);
        let next = plan.try_next().unwrap();
        assert!(matches!(&next.part, ChunkContents::Numbers { group: 1, .. }), "{next:?}");
        plan.close();
        assert_eq!(plan.try_next().unwrap_err(), NoChunk::Never);
        assert!(filer.recv().await.is_some() && filer.recv().await.is_some() && filer.recv().await.is_none());
    }
}
