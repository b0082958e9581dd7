//! State that the journal's readers share with its writer: the position up to which rows may be read, the
//! waiting readers, and the claims.
//!
//! Rows may be read once their articles are published. A claim keeps journal files for a reader, within the
//! limits of the configuration; a slower reader loses rows, and counts them ([`super::Tail`]). Locks are held
//! briefly and never nested. Without readers, a commit pays for one load of a counter; otherwise for one
//! short lock, and one call for each waiting reader.

use spool_base::ordered::{Ordered, rank};
use spool_base::status::{CursorDamage, ReaderStatus};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

/// Maximum number of readers of the journal.
const READERS_MAX: usize = 1024;

/// Claim of one reader.
#[derive(Debug)]
pub(super) struct JournalClaim {
    pub name: String,
    pub durable: bool,
    /// Whether a reader uses it now; a cursor's claim outlives its reader.
    pub in_use: AtomicBool,
    pub position: AtomicU64,
    pub lost_bytes: AtomicU64,
    pub lost_articles: AtomicU64,
    /// First damage found in a cursor's file.
    pub damage: OnceLock<CursorDamage>,
    /// Held while a cursor's file is written.
    pub writing: Ordered<(), { rank::TABLES }>,
}

impl JournalClaim {
    pub fn new(name: &str, durable: bool, position: u64) -> Self {
        Self {
            name: name.into(),
            durable,
            in_use: AtomicBool::new(false),
            position: AtomicU64::new(position),
            lost_bytes: AtomicU64::new(0),
            lost_articles: AtomicU64::new(0),
            damage: OnceLock::new(),
            writing: Ordered::default(),
        }
    }

    /// Records damage of the claim's file.
    pub fn note_damage(&self, damage: CursorDamage) {
        // Only the first is recorded.
        let _ = self.damage.set(damage);
    }
}

/// State shared by the journal's writer and its readers.
#[derive(Debug, Default)]
pub(crate) struct FollowState {
    /// Length of `claims`: if it is 0, the writer reveals nothing.
    followers: AtomicUsize,
    claims: Ordered<Vec<Arc<JournalClaim>>, { rank::INNERMOST }>,
    revealed: AtomicU64,
    /// Revealed position, with the sequence number of the next article.
    end: Ordered<(u64, u64), { rank::INNERMOST }>,
    /// End of the last row of an article that goes to a site. Never less up to date than `end`.
    sent: AtomicU64,
    closed: AtomicBool,
    /// Length of `waiting`, so that the writer need not lock it. The writer stores `revealed` or `closed` and
    /// then loads this; a reader stores this and then loads those. Both sides use sequential consistency,
    /// without which each could miss the other's store and the reader would sleep on. Where the length falls,
    /// the order that the lock of `waiting` gives to its stores is enough.
    sleepers: AtomicUsize,
    /// Waiting readers, by their claims; at most one entry for each.
    waiting: Ordered<Vec<(Arc<JournalClaim>, Waker)>, { rank::INNERMOST }>,
}

impl FollowState {
    /// Returns the position before which rows may be read.
    pub fn revealed(&self) -> u64 {
        self.revealed.load(Ordering::Acquire)
    }

    /// Returns the end of the readable rows, and the sequence number of the next article.
    pub fn end(&self) -> (u64, u64) {
        *self.end.lock()
    }

    /// Returns the end of the last row of an article that goes to a site, among those before
    /// [`FollowState::end`]. May include rows after an `end` that was loaded earlier.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Lets readers read up to this position, where the article with this sequence number follows, and wakes
    /// the waiting ones; `sent` is the end of the last row of an article that goes to a site. The caller
    /// holds the writer's lock, under which every reader begins ([`Readers::pin`](super::Readers::pin)).
    pub fn reveal(&self, position: u64, sequence: u64, sent: u64) {
        if self.followers.load(Ordering::Acquire) == 0 {
            return;
        }
        self.sent.store(sent, Ordering::Release);
        *self.end.lock() = (position, sequence);
        // Either this call sees a reader that is about to wait, or that reader sees the new position: see
        // `sleepers`.
        self.revealed.store(position, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        // Sequential consistency here and below: see `sleepers`.
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.sleepers.store(0, Ordering::Relaxed);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Records that no row will follow.
    pub fn close(&self) {
        // As in `reveal`: see `sleepers`.
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Reports whether no row will follow.
    pub fn is_closed(&self) -> bool {
        // A reader that is about to wait asks this: see `sleepers`.
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns `Ready` once there are rows from `position` on, or none will come; otherwise the reader with
    /// this claim is woken then, through its most recent waker.
    fn poll(&self, claim: &Arc<JournalClaim>, position: u64, context: &Context<'_>) -> Poll<()> {
        // Asked before and after this reader is among the waiting ones: see `sleepers`.
        let is_ready = || self.revealed.load(Ordering::SeqCst) > position || self.is_closed();
        if is_ready() {
            return Poll::Ready(());
        }
        {
            let mut waiting = self.waiting.lock();
            match waiting.iter_mut().find(|(other, _)| Arc::ptr_eq(other, claim)) {
                Some((_, waker)) => waker.clone_from(context.waker()),
                None => waiting.push((claim.clone(), context.waker().clone())),
            }
            // Before the second question: see `sleepers`.
            self.sleepers.store(waiting.len(), Ordering::SeqCst);
        }
        if is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns the lowest claimed position.
    pub fn lowest_claim(&self) -> Option<u64> {
        self.claims.lock().iter().map(|claim| claim.position.load(Ordering::Acquire)).min()
    }

    /// Returns the status of all readers.
    pub fn status(&self) -> Vec<ReaderStatus> {
        let end = self.revealed();
        let status = |claim: &Arc<JournalClaim>| {
            let position = claim.position.load(Ordering::Acquire);
            ReaderStatus {
                name: claim.name.clone(),
                durable: claim.durable,
                position,
                backlog_bytes: end.saturating_sub(position),
                lost_bytes: claim.lost_bytes.load(Ordering::Relaxed),
                lost_articles: claim.lost_articles.load(Ordering::Relaxed),
                damage: claim.damage.get().copied(),
            }
        };
        self.claims.lock().iter().map(status).collect()
    }

    /// Adds a claim.
    pub(super) fn add(&self, claim: JournalClaim) -> io::Result<Arc<JournalClaim>> {
        let mut claims = self.claims.lock();
        if claims.len() >= READERS_MAX {
            return Err(io::Error::other(format!("the journal has {READERS_MAX} readers already")));
        }
        let claim = Arc::new(claim);
        claims.push(claim.clone());
        self.followers.store(claims.len(), Ordering::Release);
        Ok(claim)
    }

    /// Returns the claim of the cursor of this name.
    pub(super) fn of_cursor(&self, name: &str) -> Option<Arc<JournalClaim>> {
        self.claims.lock().iter().find(|claim| claim.durable && claim.name == name).cloned()
    }

    /// Returns the claims of all cursors.
    pub(super) fn cursors(&self) -> Vec<Arc<JournalClaim>> {
        self.claims.lock().iter().filter(|claim| claim.durable).cloned().collect()
    }

    pub(super) fn remove(&self, claim: &Arc<JournalClaim>) {
        let mut claims = self.claims.lock();
        claims.retain(|other| !Arc::ptr_eq(other, claim));
        self.followers.store(claims.len(), Ordering::Release);
    }

    fn forget_waker(&self, claim: &Arc<JournalClaim>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(other, _)| !Arc::ptr_eq(other, claim));
        self.sleepers.store(waiting.len(), Ordering::Relaxed);
    }
}

/// A reader's claim on the journal from a position on; released when dropped, unless it is a cursor's.
#[derive(Debug)]
pub struct Pin {
    follow: Arc<FollowState>,
    claim: Arc<JournalClaim>,
}

impl Pin {
    /// Marks a claim as in use; an error if it already is.
    pub(super) fn new(follow: &Arc<FollowState>, claim: Arc<JournalClaim>) -> io::Result<Self> {
        if claim.in_use.swap(true, Ordering::AcqRel) {
            let text = format!("\"{}\" reads the journal already", claim.name);
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        Ok(Self { follow: follow.clone(), claim })
    }

    /// Returns the position from which on rows are claimed.
    pub fn position(&self) -> u64 {
        self.claim.position.load(Ordering::Acquire)
    }

    /// Returns the claim itself.
    pub(super) fn claim(&self) -> &Arc<JournalClaim> {
        &self.claim
    }

    /// See [`FollowState::poll`].
    pub(super) fn poll(&self, position: u64, context: &Context<'_>) -> Poll<()> {
        self.follow.poll(&self.claim, position, context)
    }

    /// Releases the claim on rows before `position`.
    pub(super) fn move_to(&self, position: u64) {
        self.claim.position.store(position, Ordering::Release);
    }

    pub(super) fn count_lost(&self, bytes: u64, articles: u64) {
        self.claim.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.claim.lost_articles.fetch_add(articles, Ordering::Relaxed);
    }

    /// Returns the bytes of journal, and the articles, that were removed before they were read.
    pub fn lost(&self) -> (u64, u64) {
        (self.claim.lost_bytes.load(Ordering::Relaxed), self.claim.lost_articles.load(Ordering::Relaxed))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.follow.forget_waker(&self.claim);
        self.claim.in_use.store(false, Ordering::Release);
        if !self.claim.durable {
            self.follow.remove(&self.claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn pin(follow: &Arc<FollowState>) -> Pin {
        Pin::new(follow, follow.add(JournalClaim::new("reader", false, 0)).unwrap()).unwrap()
    }

    #[test]
    fn commits_do_nothing_for_readers_without_readers() {
        let follow = Arc::new(FollowState::default());
        follow.reveal(100, 7, 0);
        assert_eq!(follow.end(), (0, 0));
        let reader = pin(&follow);
        follow.reveal(200, 8, 0);
        assert_eq!((follow.end(), follow.revealed()), ((200, 8), 200));
        drop(reader);
        follow.reveal(300, 9, 0);
        assert_eq!(follow.end(), (200, 8));
    }

    #[test]
    fn a_reader_that_polls_repeatedly_waits_once() {
        let follow = Arc::new(FollowState::default());
        let (first, second) = (pin(&follow), pin(&follow));
        let counts: Vec<Arc<Count>> = (0..10).map(|_| Arc::default()).collect();
        let poll =
            |pin: &Pin, count: &Arc<Count>| pin.poll(100, &Context::from_waker(&Waker::from(count.clone())));
        for count in &counts {
            assert_eq!(poll(&first, count), Poll::Pending);
            assert_eq!(poll(&second, count), Poll::Pending);
        }
        assert_eq!(follow.waiting.lock().len(), 2);
        drop(second);
        assert_eq!(follow.waiting.lock().len(), 1);
        follow.reveal(101, 1, 0);
        let woken: Vec<u32> = counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect();
        assert_eq!(woken, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "the last waker, once");
        assert_eq!((poll(&first, &counts[0]), follow.waiting.lock().len()), (Poll::Ready(()), 0));
    }

    #[test]
    fn readers_are_limited() {
        let follow = Arc::new(FollowState::default());
        let pins: Vec<Pin> = (0..READERS_MAX).map(|_| pin(&follow)).collect();
        assert!(follow.add(JournalClaim::new("one more", true, 0)).is_err());
        drop(pins);
        assert!(follow.add(JournalClaim::new("one more", true, 0)).is_ok());
    }
}
