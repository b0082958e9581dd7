//! The memory held for articles that are arriving, and the choice of the one to give up when there is no
//! more.
//!
//! Every article is charged to one or two accounts, each with its limit: peers in total; or posters in total,
//! and the user or the address that posts. Invariant: no account exceeds its limit. What an account's oldest
//! article may still need is kept for it, up to half of the account: so the oldest can always be received to
//! its end, and then the next one, and articles that arrive at a good rate wait for each other instead of
//! blocking each other. Articles that find an account full wait, oldest first: younger ones get none of it
//! meanwhile, however little they ask for. Slow articles are not waited for: below [`SLOW_BYTES_PER_SEC`] the
//! slowest holder of the full account is given up, even if it is the one that asks. Where one article may
//! take more than half of an account, all may come to wait: then the slowest are given up, no more than the
//! oldest needs. No I/O, and the time comes from the caller. Called by [`super::ArticleReservation`].
//! Rationale: decision 29.

use hashbrown::{HashMap, HashSet};
use site_base::lock::Leaf;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Average rate below which a holder is slow, so that others do not wait for it.
const SLOW_BYTES_PER_SEC: f64 = 32_768.0;
/// Minimum time before a holder counts as slow.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// The account that memory is charged to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MemoryAccount {
    /// All peers, for articles that they relay.
    Peers,
    /// All posters.
    Posters,
    /// Posts from an address without login; for IPv6 from the /64 network.
    Address(IpAddr),
    /// Posts of a user, from any address.
    User(Box<str>),
}

/// An account and its limit in bytes.
#[derive(Debug, Clone)]
pub(crate) struct MemoryCharge {
    pub account: MemoryAccount,
    pub bytes_max: usize,
}

/// The reason why an article is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoArticleMemory(pub &'static str);

impl NoArticleMemory {
    /// The reason for an article that waited in vain.
    pub const WAITED: Self = Self("Not enough memory for this article, try again later");
}

/// A notification for a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HolderNotice {
    /// The memory it asked for is granted.
    Granted,
    /// The article has to be given up.
    GiveUp(NoArticleMemory),
}

/// Channel of notifications for a holder. `GiveUp` stays.
#[derive(Debug, Default)]
pub(super) struct HolderSignal(Leaf<(Option<HolderNotice>, Option<Waker>)>);

impl HolderSignal {
    fn tell(&self, word: HolderNotice) {
        let mut state = self.0.lock();
        state.0 = Some(word);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    pub fn poll(&self, cx: &Context<'_>) -> Poll<HolderNotice> {
        let mut state = self.0.lock();
        match state.0 {
            Some(HolderNotice::Granted) => {
                state.0 = None;
                Poll::Ready(HolderNotice::Granted)
            }
            Some(word) => Poll::Ready(word),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// State shared by a holder and the ledger.
#[derive(Debug, Default)]
pub(super) struct HolderState {
    pub signal: HolderSignal,
    /// Bytes of the article that have arrived.
    pub arrived: AtomicUsize,
}

/// An article that is arriving.
#[derive(Debug)]
struct MemoryHolder {
    charges: Box<[MemoryCharge]>,
    bytes: usize,
    /// The most that it may come to hold.
    bytes_max: usize,
    /// Time when the article began, moved on by the time spent waiting for memory.
    since: Instant,
    /// The size it waits for, and since when.
    waits: Option<(usize, Instant)>,
    /// The holder was notified to give up and has not left yet.
    leaving: bool,
    shared: Arc<HolderState>,
}

impl MemoryHolder {
    /// Returns the time for which the article has been arriving.
    fn elapsed(&self, now: Instant) -> Duration {
        self.waits.map_or(now, |(_, since)| since).saturating_duration_since(self.since)
    }

    fn bytes_per_sec(&self, now: Instant) -> f64 {
        // In the first second the rate means nothing.
        let secs = self.elapsed(now).as_secs_f64().max(1.0);
        self.shared.arrived.load(Ordering::Relaxed) as f64 / secs
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.elapsed(now) >= SLOW_AFTER && self.bytes_per_sec(now) < SLOW_BYTES_PER_SEC
    }

    /// Reports whether it waits for memory and is not to give up.
    fn is_waiting(&self) -> bool {
        self.waits.is_some() && !self.leaving
    }
}

/// The state of an account.
#[derive(Debug, Default)]
struct AccountUse {
    /// Bytes that are held.
    bytes: usize,
    /// Bytes of these whose holders were notified to give up.
    leaving_bytes: usize,
    /// The other holders, by age.
    staying: BTreeSet<u64>,
}

/// All accounts and holders.
#[derive(Debug, Default)]
pub(super) struct MemoryLedger {
    next: u64,
    /// Holders by age.
    holders: BTreeMap<u64, MemoryHolder>,
    accounts: HashMap<MemoryAccount, AccountUse>,
}

impl MemoryLedger {
    /// Returns the bytes held in total. Every article is charged to exactly one of these two accounts.
    pub fn bytes(&self) -> usize {
        self.used(&MemoryAccount::Peers) + self.used(&MemoryAccount::Posters)
    }

    /// Returns the bytes that an account holds.
    fn used(&self, account: &MemoryAccount) -> usize {
        self.accounts.get(account).map_or(0, |account| account.bytes)
    }

    /// Adds a holder of nothing so far, whose article began at `since` and may come to hold `bytes_max`;
    /// returns its number.
    pub fn enter(
        &mut self,
        charges: Box<[MemoryCharge]>,
        bytes_max: usize,
        since: Instant,
        shared: Arc<HolderState>,
    ) -> u64 {
        let holder =
            MemoryHolder { charges, bytes: 0, bytes_max, since, waits: None, leaving: false, shared };
        self.insert(holder)
    }

    /// Adds a holder as the youngest.
    fn insert(&mut self, holder: MemoryHolder) -> u64 {
        let id = self.next;
        self.next += 1;
        for MemoryCharge { account, .. } in &holder.charges {
            let account = self.accounts.entry(account.clone()).or_default();
            account.bytes += holder.bytes;
            account.staying.insert(id);
        }
        self.holders.insert(id, holder);
        id
    }

    /// Takes a holder out.
    fn remove(&mut self, id: u64) -> Option<MemoryHolder> {
        let holder = self.holders.remove(&id)?;
        for MemoryCharge { account: name, .. } in &holder.charges {
            let Some(account) = self.accounts.get_mut(name) else { continue };
            account.bytes -= holder.bytes;
            if holder.leaving {
                account.leaving_bytes -= holder.bytes;
            }
            account.staying.remove(&id);
            if account.bytes == 0 && account.staying.is_empty() {
                self.accounts.remove(name);
            }
        }
        Some(holder)
    }

    /// Asks for this many bytes in total. Returns true if they are granted; otherwise the holder is notified
    /// later.
    pub fn want(&mut self, id: u64, bytes: usize, now: Instant) -> bool {
        let Some(holder) = self.holders.get_mut(&id) else { return false };
        if holder.leaving {
            return false;
        }
        holder.waits = Some((bytes, now));
        if self.full(id).is_none() && !self.is_behind(id) {
            self.grant(id, now);
            return true;
        }
        self.look(id, now);
        false
    }

    /// Chooses holders to give way to a waiting one. Called repeatedly, as others may become slow.
    pub fn look(&mut self, id: u64, now: Instant) {
        while let Some((name, mut lacking)) = self.full(id) {
            let Some(account) = self.accounts.get(&name) else { return };
            let staying =
                || account.staying.iter().filter_map(|other| Some((*other, self.holders.get(other)?)));
            let all_wait = staying().all(|(_, holder)| holder.waits.is_some());
            // The others wait for the oldest, which gives way only if it is slow.
            let oldest = account.staying.first().copied().filter(|_| all_wait);
            if let Some(oldest) = oldest {
                lacking = self.lacking(oldest, &name);
            }
            if account.leaving_bytes >= lacking {
                return;
            }
            let gives_way = |other: u64, holder: &MemoryHolder| match oldest {
                Some(oldest) => other != oldest || holder.is_slow(now),
                None => holder.is_slow(now),
            };
            let slowest = staying()
                .filter(|(other, holder)| holder.bytes > 0 || *other == id)
                .filter(|(other, holder)| gives_way(*other, holder))
                .min_by(|(_, a), (_, b)| a.bytes_per_sec(now).total_cmp(&b.bytes_per_sec(now)));
            let Some((slowest, _)) = slowest else { return };
            self.give_up(slowest, name.no_room());
            if slowest == id {
                return;
            }
        }
    }

    /// Records that a holder begins with another article; returns its new number, as it is the youngest now,
    /// and what it holds: no more than `least` bytes if others wait for what it is charged to.
    pub fn restart(&mut self, id: u64, least: usize, now: Instant) -> (u64, usize) {
        let Some(holder) = self.holders.get(&id) else { return (id, 0) };
        if holder.leaving {
            return (id, holder.bytes);
        }
        let accounts = holder.charges.iter().filter_map(|charge| self.accounts.get(&charge.account));
        let waits = |id| self.holders.get(id).is_some_and(MemoryHolder::is_waiting);
        let others_wait = accounts.flat_map(|account| &account.staying).any(waits);
        let Some(mut holder) = self.remove(id) else { return (id, 0) };
        if others_wait {
            holder.bytes = holder.bytes.min(least);
        }
        let bytes = holder.bytes;
        let id = self.insert(MemoryHolder { since: now, ..holder });
        if others_wait {
            self.serve_waiting(now);
        }
        (id, bytes)
    }

    /// Removes a holder; others get the memory they wait for.
    pub fn leave(&mut self, id: u64, now: Instant) {
        if self.remove(id).is_some() {
            self.serve_waiting(now);
        }
    }

    /// Grants waiting holders what has become available, the oldest first.
    fn serve_waiting(&mut self, now: Instant) {
        let waiting = self.holders.iter().filter(|(_, holder)| holder.is_waiting());
        // Accounts in which an older article waits.
        let mut awaited = HashSet::new();
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(holder) = self.holders.get(&id) else { continue };
            match self.full(id) {
                Some((account, _)) => {
                    awaited.insert(account);
                }
                None if holder.charges.iter().any(|charge| awaited.contains(&charge.account)) => {}
                None => {
                    holder.shared.signal.tell(HolderNotice::Granted);
                    self.grant(id, now);
                }
            }
        }
    }

    /// Returns the first account that keeps a waiting holder from its memory, and by how many bytes.
    fn full(&self, id: u64) -> Option<(MemoryAccount, usize)> {
        let holder = self.holders.get(&id).filter(|holder| !holder.leaving)?;
        holder.waits?;
        holder.charges.iter().find_map(|MemoryCharge { account, .. }| {
            let lacking = self.lacking(id, account);
            (lacking > 0).then(|| (account.clone(), lacking))
        })
    }

    /// Returns how many bytes more an account would need to have for what a holder waits for.
    fn lacking(&self, id: u64, name: &MemoryAccount) -> usize {
        let Some(holder) = self.holders.get(&id) else { return 0 };
        let Some(charge) = holder.charges.iter().find(|charge| charge.account == *name) else { return 0 };
        let Some(account) = self.accounts.get(name) else { return 0 };
        let more = holder.waits.map_or(0, |(wanted, _)| wanted.saturating_sub(holder.bytes));
        // What the oldest may still need is its own.
        let kept = match account.staying.first().and_then(|oldest| self.holders.get(oldest)) {
            Some(oldest) if account.staying.first() != Some(&id) => {
                oldest.bytes_max.saturating_sub(oldest.bytes).min(charge.bytes_max / 2)
            }
            _ => 0,
        };
        (account.bytes + more + kept).saturating_sub(charge.bytes_max)
    }

    /// Reports whether an older holder waits for an account that this one is charged to.
    fn is_behind(&self, id: u64) -> bool {
        let Some(holder) = self.holders.get(&id) else { return false };
        holder.charges.iter().any(|MemoryCharge { account: name, .. }| {
            self.accounts.get(name).is_some_and(|account| {
                account.staying.range(..id).any(|older| {
                    self.holders.get(older).is_some_and(MemoryHolder::is_waiting)
                        && self.lacking(*older, name) > 0
                })
            })
        })
    }

    /// Grants a waiting holder its memory.
    fn grant(&mut self, id: u64, now: Instant) {
        let Some(holder) = self.holders.get_mut(&id) else { return };
        let Some((wanted, since)) = holder.waits.take() else { return };
        holder.since += now.saturating_duration_since(since);
        let more = wanted.saturating_sub(holder.bytes);
        holder.bytes += more;
        for MemoryCharge { account, .. } in &holder.charges {
            if let Some(account) = self.accounts.get_mut(account) {
                account.bytes += more;
            }
        }
    }

    fn give_up(&mut self, id: u64, why: NoArticleMemory) {
        let Some(holder) = self.holders.get_mut(&id) else { return };
        holder.leaving = true;
        holder.shared.signal.tell(HolderNotice::GiveUp(why));
        for MemoryCharge { account, .. } in &holder.charges {
            if let Some(account) = self.accounts.get_mut(account) {
                account.staying.remove(&id);
                account.leaving_bytes += holder.bytes;
            }
        }
    }
}

impl MemoryAccount {
    /// Returns the refusal when this account is full.
    fn no_room(&self) -> NoArticleMemory {
        NoArticleMemory(match self {
            Self::Peers => "Peers send too much at once, try again later",
            Self::Posters => "Too much is posted at once, try again later",
            Self::Address(_) => "Too much is posted at once from your address, try again later",
            Self::User(_) => "You post too much at once, try again later",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const KIB: usize = 1024;

    /// A ledger with a clock in seconds since its start.
    struct Books {
        ledger: MemoryLedger,
        start: Instant,
        shared: Vec<Arc<HolderState>>,
        /// The most that an article may need; with 0 nothing is kept for the oldest.
        article_kib: usize,
    }

    impl Books {
        fn new() -> Self {
            Self::of_articles_up_to(0)
        }

        fn of_articles_up_to(article_kib: usize) -> Self {
            Self { ledger: MemoryLedger::default(), start: Instant::now(), shared: Vec::new(), article_kib }
        }

        fn at(&self, secs: u64) -> Instant {
            self.start + Duration::from_secs(secs)
        }

        /// Adds a holder whose article began at `secs`.
        fn enter(&mut self, charges: &[(MemoryAccount, usize)], secs: u64) -> u64 {
            let charge = |(account, kib): &(MemoryAccount, usize)| MemoryCharge {
                account: account.clone(),
                bytes_max: kib * KIB,
            };
            let shared = Arc::<HolderState>::default();
            self.shared.push(shared.clone());
            let charges = charges.iter().map(charge).collect();
            self.ledger.enter(charges, self.article_kib * KIB, self.at(secs), shared)
        }

        /// Adds a holder of `kib` KiB.
        fn holds(&mut self, charges: &[(MemoryAccount, usize)], secs: u64, kib: usize) -> u64 {
            let id = self.enter(charges, secs);
            assert!(self.want(id, kib, secs));
            id
        }

        /// Asks for `kib` when everything granted before, and the first 16 KiB, has arrived.
        fn want(&mut self, id: u64, kib: usize, secs: u64) -> bool {
            let held = self.ledger.holders[&id].bytes.max(16 * KIB);
            self.shared[id as usize].arrived.store(held, Ordering::Relaxed);
            self.ledger.want(id, kib * KIB, self.at(secs))
        }

        fn told(&self, id: u64) -> Option<HolderNotice> {
            match self.shared[id as usize].signal.poll(&Context::from_waker(Waker::noop())) {
                Poll::Ready(word) => Some(word),
                Poll::Pending => None,
            }
        }

        fn gives_up(&self, id: u64) -> bool {
            matches!(self.told(id), Some(HolderNotice::GiveUp(_)))
        }
    }

    /// Returns a pseudo-random number below `below`.
    fn next(random: &mut u64, below: u64) -> u64 {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random % below
    }

    fn address(host: u8, kib: usize) -> [(MemoryAccount, usize); 2] {
        [(MemoryAccount::Address([192, 0, 2, host].into()), kib), (MemoryAccount::Posters, 4 * kib)]
    }

    #[test]
    fn memory_is_charged_to_every_account_and_returned() {
        let mut books = Books::new();
        let id = books.holds(&address(1, 100), 0, 64);
        assert!(books.want(id, 90, 1));
        for (account, _) in address(1, 100) {
            assert_eq!(books.ledger.used(&account), 90 * KIB);
        }
        let other = books.holds(&address(2, 100), 1, 100);
        assert_eq!(books.ledger.used(&MemoryAccount::Posters), 190 * KIB);
        books.ledger.leave(id, books.at(2));
        books.ledger.leave(other, books.at(2));
        assert!(books.ledger.accounts.is_empty() && books.ledger.holders.is_empty());
    }

    #[test]
    fn only_the_slowest_holder_of_the_full_account_gives_way() {
        let mut books = Books::new();
        let elsewhere = books.holds(&address(2, 100), 0, 64);
        let peer = books.holds(&[(MemoryAccount::Peers, 100)], 0, 100);
        let slow = books.holds(&address(1, 100), 0, 32);
        let slowest = books.holds(&address(1, 100), 0, 16);
        let quick = books.holds(&address(1, 100), 9, 32);
        for (id, kib) in [(slow, 32), (slowest, 16), (quick, 32)] {
            books.shared[id as usize].arrived.store(kib * KIB, Ordering::Relaxed);
        }
        // 80 of 100 KiB are held.
        let asks = books.enter(&address(1, 100), 10);
        assert!(!books.want(asks, 30, 10));
        assert!(books.gives_up(slowest));
        assert_eq!([elsewhere, peer, slow, quick, asks].map(|id| books.told(id)), [None; 5]);
        books.ledger.leave(slowest, books.at(10));
        assert_eq!(books.told(asks), Some(HolderNotice::Granted));
        assert_eq!(books.ledger.used(&address(1, 0)[0].0), 94 * KIB);
    }

    #[test]
    fn no_more_articles_give_way_than_needed() {
        let mut books = Books::new();
        let slow: Vec<u64> = (0..10).map(|_| books.holds(&address(1, 100), 0, 10)).collect();
        let asks = books.enter(&address(1, 100), 60);
        assert!(!books.want(asks, 35, 60));
        let gone: Vec<u64> = slow.iter().copied().filter(|id| books.gives_up(*id)).collect();
        assert_eq!(gone.len(), 4);
        // Another article that asks meanwhile causes only as many to leave as it needs in addition.
        let second = books.enter(&address(1, 100), 60);
        assert!(!books.want(second, 5, 60));
        assert_eq!(slow.iter().filter(|id| books.gives_up(**id)).count(), 4);
        for id in gone {
            books.ledger.leave(id, books.at(61));
        }
        assert_eq!([asks, second].map(|id| books.told(id)), [Some(HolderNotice::Granted); 2]);
    }

    #[test]
    fn articles_that_make_progress_are_waited_for_oldest_first() {
        let mut books = Books::new();
        let quick = books.holds(&address(1, 100), 0, 100);
        books.shared[quick as usize].arrived.store(100 * KIB, Ordering::Relaxed);
        let (first, second) = (books.enter(&address(1, 100), 1), books.enter(&address(1, 100), 1));
        assert!(!books.want(second, 60, 1) && !books.want(first, 60, 1));
        assert_eq!([quick, first, second].map(|id| books.told(id)), [None; 3]);
        books.ledger.leave(quick, books.at(2));
        assert_eq!([first, second].map(|id| books.told(id)), [Some(HolderNotice::Granted), None]);
        // A quick holder may become slow.
        books.ledger.look(second, books.at(3));
        assert_eq!(books.told(first), None);
        books.ledger.look(second, books.at(60));
        assert!(books.gives_up(first));
    }

    #[test]
    fn time_spent_waiting_does_not_count_as_slow() {
        let mut books = Books::new();
        let quick = books.holds(&address(1, 100), 0, 40);
        let waits = books.holds(&address(1, 100), 0, 50);
        assert!(!books.want(waits, 100, 1));
        books.shared[quick as usize].arrived.store(40 << 20, Ordering::Relaxed);
        books.ledger.look(waits, books.at(100));
        assert_eq!([quick, waits].map(|id| books.told(id)), [None; 2]);
        books.ledger.leave(quick, books.at(100));
        assert_eq!(books.told(waits), Some(HolderNotice::Granted));
        assert!(!books.ledger.holders[&waits].is_slow(books.at(100)));
    }

    #[test]
    fn articles_that_wait_for_each_other_do_not_deadlock() {
        let mut books = Books::new();
        let all: Vec<u64> = (0..4).map(|_| books.holds(&address(1, 100), 0, 25)).collect();
        for id in &all[..3] {
            assert!(!books.want(*id, 50, 1));
            assert!(all.iter().all(|id| books.told(*id).is_none()));
        }
        assert!(!books.want(all[3], 50, 1));
        let gone = all.iter().position(|id| books.gives_up(*id)).unwrap();
        books.ledger.leave(all[gone], books.at(1));
        let granted = all.iter().filter(|id| books.told(**id) == Some(HolderNotice::Granted)).count();
        assert_eq!(granted, 1);
    }

    /// Lets `articles`, each with its host and its size in KiB, grow by four until all have ended; returns
    /// how many were given up.
    fn given_up_of(articles: &[(u8, usize)], address_kib: usize, article_kib: usize) -> usize {
        let mut books = Books::of_articles_up_to(article_kib);
        // Size now, and at the end.
        let mut sizes: BTreeMap<u64, (usize, usize)> = articles
            .iter()
            .map(|(host, whole)| (books.enter(&address(*host, address_kib), 0), (4, *whole)))
            .collect();
        let grown = |(kib, whole): (usize, usize)| ((4 * kib).min(whole), whole);
        let mut grow: Vec<u64> = sizes.keys().copied().collect();
        let mut given_up = 0;
        while !sizes.is_empty() {
            for id in std::mem::take(&mut grow) {
                if books.want(id, grown(sizes[&id]).0, 1) {
                    sizes.insert(id, grown(sizes[&id]));
                    grow.push(id);
                }
            }
            for id in sizes.keys().copied().collect::<Vec<_>>() {
                books.ledger.look(id, books.at(1));
                match books.told(id) {
                    Some(HolderNotice::GiveUp(_)) => {
                        given_up += 1;
                        books.ledger.leave(id, books.at(1));
                        sizes.remove(&id);
                    }
                    Some(HolderNotice::Granted) => {
                        sizes.insert(id, grown(sizes[&id]));
                        grow.push(id);
                    }
                    None => {}
                }
            }
            grow.retain(|id| sizes.contains_key(id));
            for id in grow.extract_if(.., |id| sizes[id].0 == sizes[id].1).collect::<Vec<_>>() {
                books.ledger.leave(id, books.at(1));
                sizes.remove(&id);
            }
        }
        given_up
    }

    #[test]
    fn a_burst_waits_for_the_oldest_and_gets_through() {
        assert_eq!(given_up_of(&[(1, 250); 100], 1000, 250), 0);
        // As much as half of the account is kept; without it, most are given up.
        assert_eq!(given_up_of(&[(1, 500); 100], 1000, 500), 0);
        assert_eq!(given_up_of(&[(1, 250); 100], 1000, 0), 54);
        // Articles may be as large as the account: the oldest still gets through.
        assert!(given_up_of(&[(1, 1000); 100], 1000, 1000) < 100);
    }

    #[test]
    fn a_burst_of_any_sizes_from_anywhere_gets_through() {
        let mut random = 88_172_645_463_325_252;
        for _ in 0..200 {
            let articles: Vec<(u8, usize)> =
                (0..60).map(|_| (next(&mut random, 8) as u8, 8 + next(&mut random, 120) as usize)).collect();
            assert_eq!(given_up_of(&articles, 256, 128), 0, "{articles:?}");
        }
    }

    #[test]
    fn what_the_oldest_may_need_is_kept_until_it_begins_another_article() {
        let mut books = Books::of_articles_up_to(50);
        let oldest = books.holds(&address(1, 100), 0, 20);
        let other = books.enter(&address(1, 100), 0);
        assert!(!books.want(other, 60, 1));
        assert!(books.want(oldest, 50, 1));
        // It needs nearly all that it has for its next article, of which something has arrived.
        let (restarted, bytes) = books.ledger.restart(oldest, 45 * KIB, books.at(1));
        assert!(restarted > other && bytes == 45 * KIB);
        assert_eq!(books.told(other), None);
        let (restarted, bytes) = books.ledger.restart(restarted, 16 * KIB, books.at(1));
        assert_eq!(bytes, 16 * KIB);
        assert_eq!(books.told(other), Some(HolderNotice::Granted));
        assert_eq!(books.ledger.used(&MemoryAccount::Posters), 76 * KIB);
        // Where no one waits, it keeps what it has.
        assert_eq!(books.ledger.restart(restarted, 0, books.at(1)).1, 16 * KIB);
    }

    #[test]
    fn a_small_article_does_not_pass_an_older_one_that_waits() {
        let mut books = Books::new();
        let first = books.holds(&address(1, 100), 0, 60);
        let large = books.enter(&address(1, 100), 0);
        assert!(!books.want(large, 80, 1));
        let small = books.enter(&address(1, 100), 1);
        assert!(!books.want(small, 20, 1));
        // Posts from elsewhere have their own account, and room in the common one.
        let elsewhere = books.enter(&address(2, 100), 1);
        assert!(books.want(elsewhere, 20, 1));
        books.ledger.leave(first, books.at(2));
        assert_eq!([large, small].map(|id| books.told(id)), [Some(HolderNotice::Granted); 2]);
    }

    #[test]
    fn the_one_that_asks_may_be_the_slowest() {
        let mut books = Books::new();
        let quick = books.holds(&address(1, 100), 50, 80);
        books.shared[quick as usize].arrived.store(80 << 20, Ordering::Relaxed);
        let slow = books.holds(&address(1, 100), 0, 20);
        assert!(!books.want(slow, 64, 60));
        assert!(books.gives_up(slow));
        assert_eq!(books.told(quick), None);
        assert!(!books.want(slow, 64, 61));
    }

    #[test]
    fn ten_thousand_random_steps_keep_every_account_within_its_limit() {
        let mut books = Books::new();
        let mut random = 88_172_645_463_325_252;
        let mut next = |below| next(&mut random, below);
        let mut alive: Vec<u64> = Vec::new();
        for step in 0..10_000 {
            let secs = step / 10;
            match next(4) {
                0 => alive.push(books.enter(&address(next(8) as u8, 256), secs)),
                1 if !alive.is_empty() => {
                    let id = alive.swap_remove(next(alive.len() as u64) as usize);
                    books.ledger.leave(id, books.at(secs));
                }
                _ if !alive.is_empty() => {
                    let id = alive[next(alive.len() as u64) as usize];
                    let holder = &books.ledger.holders[&id];
                    if holder.waits.is_none() && !holder.leaving {
                        let kib = (holder.bytes / KIB * 2).clamp(16, 256);
                        books.want(id, kib, secs);
                    } else {
                        books.ledger.look(id, books.at(secs));
                    }
                }
                _ => {}
            }
            for host in 0..8 {
                assert!(books.ledger.used(&address(host, 0)[0].0) <= 256 * KIB);
            }
            assert!(books.ledger.used(&MemoryAccount::Posters) <= 1024 * KIB);
            // A holder that is notified to give up leaves at once.
            alive.retain(|id| {
                let leaves = books.gives_up(*id);
                if leaves {
                    books.ledger.leave(*id, books.at(secs));
                }
                !leaves
            });
        }
        alive.iter().for_each(|id| books.ledger.leave(*id, books.at(2000)));
        assert!(books.ledger.accounts.is_empty());
    }
}
