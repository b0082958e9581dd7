//! What the journal's readers share with its writer: how far rows may be read, who waits for more, and what
//! is claimed.
//!
//! Rows may be read once their articles are published. A claim keeps journal files for a reader, within the
//! limits of the configuration; a reader that is slower loses rows, and counts them ([`super::Tail`]). All
//! locks are held for moments and none inside another. While nobody follows the journal, a commit pays for
//! one load of a counter; otherwise for one short lock, and one call for each reader that waits.

use crate::base::ordered::{Ordered, rank};
use crate::base::status::{CursorDamage, ReaderStatus};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

/// Readers of the journal at once.
const READERS_MAX: usize = 1024;

/// What one reader claims.
#[derive(Debug)]
pub(super) struct Claim {
    pub name: String,
    pub durable: bool,
    /// A reader uses it now; a cursor's claim outlives its reader.
    pub in_use: AtomicBool,
    pub position: AtomicU64,
    pub lost_bytes: AtomicU64,
    pub lost_articles: AtomicU64,
    /// What was found wrong with a cursor's file first.
    pub damage: OnceLock<CursorDamage>,
    /// Held while a cursor's file is written.
    pub writing: Ordered<(), { rank::TABLES }>,
}

impl Claim {
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

    /// Notes what was found wrong with its file.
    pub fn note_damage(&self, damage: CursorDamage) {
        // The first is shown.
        let _ = self.damage.set(damage);
    }
}

/// Shared by the journal's writer and its readers.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    /// Length of `claims`: without any, the writer reveals nothing.
    followers: AtomicUsize,
    claims: Ordered<Vec<Arc<Claim>>, { rank::INNERMOST }>,
    revealed: AtomicU64,
    /// The same, with the sequence number of the next article.
    end: Ordered<(u64, u64), { rank::INNERMOST }>,
    /// Where the last row ends of an article that goes to a site. Never behind `end`.
    sent: AtomicU64,
    closed: AtomicBool,
    /// Length of `waiting`, so that the writer need not lock it.
    sleepers: AtomicUsize,
    /// The readers that wait, by their claims; at most one entry for each.
    waiting: Ordered<Vec<(Arc<Claim>, Waker)>, { rank::INNERMOST }>,
}

impl Follow {
    /// Rows before this position may be read.
    pub fn revealed(&self) -> u64 {
        self.revealed.load(Ordering::Acquire)
    }

    /// Where rows that may be read end, and the sequence number of the article after them.
    pub fn end(&self) -> (u64, u64) {
        *self.end.lock()
    }

    /// Where the last row ends of an article that goes to a site, of those before [`Follow::end`]. It may
    /// know more rows than an `end` that was asked for before.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Lets readers read up to this position, where the article with this sequence number follows, and wakes
    /// those that wait; `sent` is where the last row ends of an article that goes to a site. The caller holds
    /// the writer's lock, inside which every reader begins ([`Readers::pin`](super::Readers::pin)).
    pub fn reveal(&self, position: u64, sequence: u64, sent: u64) {
        if self.followers.load(Ordering::Acquire) == 0 {
            return;
        }
        self.sent.store(sent, Ordering::Release);
        *self.end.lock() = (position, sequence);
        // Either this sees a reader that is about to wait, or that reader sees the new position.
        self.revealed.store(position, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.sleepers.store(0, Ordering::SeqCst);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// No row will follow.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether no row will follow.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ready once there are rows from `position` on, or none will come; else the reader with this claim is
    /// woken then, by the last waker it came with.
    fn poll(&self, claim: &Arc<Claim>, position: u64, context: &Context<'_>) -> Poll<()> {
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
            self.sleepers.store(waiting.len(), Ordering::SeqCst);
        }
        if is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The lowest position that is claimed.
    pub fn lowest_claim(&self) -> Option<u64> {
        self.claims.lock().iter().map(|claim| claim.position.load(Ordering::Acquire)).min()
    }

    /// How all readers stand.
    pub fn status(&self) -> Vec<ReaderStatus> {
        let end = self.revealed();
        let status = |claim: &Arc<Claim>| {
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
    pub(super) fn add(&self, claim: Claim) -> io::Result<Arc<Claim>> {
        let mut claims = self.claims.lock();
        if claims.len() >= READERS_MAX {
            return Err(io::Error::other(format!("the journal has {READERS_MAX} readers already")));
        }
        let claim = Arc::new(claim);
        claims.push(claim.clone());
        self.followers.store(claims.len(), Ordering::Release);
        Ok(claim)
    }

    /// The claim of the cursor of this name.
    pub(super) fn of_cursor(&self, name: &str) -> Option<Arc<Claim>> {
        self.claims.lock().iter().find(|claim| claim.durable && claim.name == name).cloned()
    }

    /// The claims of all cursors.
    pub(super) fn cursors(&self) -> Vec<Arc<Claim>> {
        self.claims.lock().iter().filter(|claim| claim.durable).cloned().collect()
    }

    pub(super) fn remove(&self, claim: &Arc<Claim>) {
        let mut claims = self.claims.lock();
        claims.retain(|other| !Arc::ptr_eq(other, claim));
        self.followers.store(claims.len(), Ordering::Release);
    }

    fn forget_waker(&self, claim: &Arc<Claim>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(other, _)| !Arc::ptr_eq(other, claim));
        self.sleepers.store(waiting.len(), Ordering::SeqCst);
    }
}

/// A reader's claim on the journal from a position on; given up when it is dropped, unless it is a cursor's.
#[derive(Debug)]
pub struct Pin {
    follow: Arc<Follow>,
    claim: Arc<Claim>,
}

impl Pin {
    /// A claim that is in use from now on; an error if it is already.
    pub(super) fn new(follow: &Arc<Follow>, claim: Arc<Claim>) -> io::Result<Self> {
        if claim.in_use.swap(true, Ordering::AcqRel) {
            let text = format!("\"{}\" reads the journal already", claim.name);
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        Ok(Self { follow: follow.clone(), claim })
    }

    /// Rows from here on are claimed.
    pub fn position(&self) -> u64 {
        self.claim.position.load(Ordering::Acquire)
    }

    /// The claim itself.
    pub(super) fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    /// See [`Follow::poll`].
    pub(super) fn poll(&self, position: u64, context: &Context<'_>) -> Poll<()> {
        self.follow.poll(&self.claim, position, context)
    }

    /// Gives up the claim on rows before `position`.
    pub(super) fn move_to(&self, position: u64) {
        self.claim.position.store(position, Ordering::Release);
    }

    pub(super) fn count_lost(&self, bytes: u64, articles: u64) {
        self.claim.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.claim.lost_articles.fetch_add(articles, Ordering::Relaxed);
    }

    /// Bytes of journal, and articles, that were removed before they were read.
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
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn pin(follow: &Arc<Follow>) -> Pin {
        Pin::new(follow, follow.add(Claim::new("reader", false, 0)).unwrap()).unwrap()
    }

    #[test]
    fn without_a_reader_nothing_is_done_for_readers() {
        let follow = Arc::new(Follow::default());
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
    fn a_reader_waits_once_however_often_it_asks() {
        let follow = Arc::new(Follow::default());
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
        let woken: Vec<u32> = counts.iter().map(|count| count.0.load(Ordering::SeqCst)).collect();
        assert_eq!(woken, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "the last waker, once");
        assert_eq!((poll(&first, &counts[0]), follow.waiting.lock().len()), (Poll::Ready(()), 0));
    }

    #[test]
    fn readers_are_limited() {
        let follow = Arc::new(Follow::default());
        let pins: Vec<Pin> = (0..READERS_MAX).map(|_| pin(&follow)).collect();
        assert!(follow.add(Claim::new("one more", true, 0)).is_err());
        drop(pins);
        assert!(follow.add(Claim::new("one more", true, 0)).is_ok());
    }
}
