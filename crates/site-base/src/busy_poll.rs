//! Busy polling: a session stays awake for a moment to wait for the next command of a client that works in
//! lock-step, and the task of a listening socket for the next of several connections in a row (decision 10).
//!
//! A client that sends one command, reads the answer and sends the next waits for two wake-ups each time: its
//! own and ours. Ours is most of the answer's latency (tens of microseconds where waking a core means leaving
//! a virtual machine), so a session whose client has been quick polls the socket itself for a moment instead
//! of going to sleep. A session polls only while no other session does anything, so it takes the thread from
//! no one; after a wait in vain it does not poll again until its client has shown itself quick. An idle
//! session costs nothing. `limits.busy_poll` turns polling off.

use nntp_io::Transport;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time to stay awake: somewhat longer than a quick client's turn-around.
const POLL_MAX: Duration = Duration::from_micros(60);
/// An answer followed by a command within this time is a quick turn-around.
const QUICK_MAX: Duration = Duration::from_micros(250);
/// Quick turn-arounds before the first try.
const QUICK_MIN: u8 = 4;

/// Returns true if the event after the one at `earlier` follows quickly.
pub fn is_quick(earlier: Instant) -> bool {
    earlier.elapsed() < QUICK_MAX
}

/// State shared by all sessions of a server: at most one of them polls at a time.
#[derive(Debug)]
pub struct Polling {
    is_allowed: AtomicBool,
    is_taken: AtomicBool,
    /// How quick the client of the session that ended last was; the next client is likely to be like it, as
    /// when one client makes many connections.
    last_quick: AtomicU8,
    /// Rounds of all sessions.
    rounds: AtomicU64,
    /// With one processor only, a client on the same machine could not even run meanwhile.
    has_several_processors: bool,
}

impl Polling {
    /// Creates the state with `limits.busy_poll` as configured.
    pub fn new(is_allowed: bool) -> Self {
        Self {
            is_allowed: is_allowed.into(),
            is_taken: false.into(),
            last_quick: 0.into(),
            rounds: 0.into(),
            has_several_processors: std::thread::available_parallelism().is_ok_and(|n| n.get() > 1),
        }
    }

    /// Applies another value of `limits.busy_poll`.
    pub fn allow(&self, is_allowed: bool) {
        self.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Begins to poll if the number of quick turn-arounds in a row (`quick`) makes success likely.
    pub fn begin(&self, quick: u8) -> Option<SpinGuard<'_>> {
        let may =
            quick >= QUICK_MIN && self.has_several_processors && self.is_allowed.load(Ordering::Relaxed);
        if !may || self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        let (until, rounds) = (Instant::now() + POLL_MAX, self.rounds.load(Ordering::Relaxed));
        Some(SpinGuard { polling: self, until, rounds })
    }
}

/// The exclusive right to poll for a moment.
#[derive(Debug)]
pub struct SpinGuard<'p> {
    polling: &'p Polling,
    until: Instant,
    /// [`Polling::rounds`] at the beginning.
    rounds: u64,
}

impl SpinGuard<'_> {
    /// Polls until `look` finds something, another session is at work, or the time is over.
    pub fn poll<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let seen = look();
            if seen.is_some() || !self.was_undisturbed() || Instant::now() >= self.until {
                return seen;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns true if no other session did anything meanwhile.
    pub fn was_undisturbed(&self) -> bool {
        self.polling.rounds.load(Ordering::Relaxed) == self.rounds
    }
}

impl Drop for SpinGuard<'_> {
    fn drop(&mut self) {
        self.polling.is_taken.store(false, Ordering::Release);
    }
}

/// A session's measurements of its client's turn-around.
#[derive(Debug)]
pub struct BusyPoll {
    polling: Arc<Polling>,
    answered: Option<Instant>,
    quick: u8,
    /// [`Polling::rounds`] after this session's last one.
    rounds: u64,
    /// No other session had a round between the last two rounds of this one.
    alone: bool,
}

impl BusyPoll {
    /// Creates the measurements of a session whose greeting is sent now.
    pub fn new(polling: Arc<Polling>) -> Self {
        Self {
            answered: Some(Instant::now()),
            quick: polling.last_quick.load(Ordering::Relaxed),
            rounds: polling.rounds.load(Ordering::Relaxed),
            alone: true,
            polling,
        }
    }

    /// Records that the answers of a round were sent; only a round with a single command is lock-step.
    pub fn answered(&mut self, lock_step: bool) {
        let before = self.polling.rounds.fetch_add(1, Ordering::Relaxed);
        self.alone = before == self.rounds;
        self.rounds = before + 1;
        self.answered = lock_step.then(Instant::now);
        if !lock_step {
            self.quick = 0;
        }
    }

    /// Records that something arrived.
    pub fn received(&mut self) {
        if let Some(answered) = self.answered.take() {
            self.quick = if is_quick(answered) { self.quick.saturating_add(1) } else { 0 };
        }
    }

    /// Stays awake for a moment, if that is promising, until there is something to read.
    pub fn wait(&mut self, transport: &mut Transport) {
        let Some(guard) = self.polling.begin(self.quick).filter(|_| self.alone) else { return };
        transport.deregister();
        if guard.poll(|| transport.has_input().then_some(())).is_none() && guard.was_undisturbed() {
            self.quick = 0;
        }
    }
}

impl Drop for BusyPoll {
    fn drop(&mut self) {
        self.polling.last_quick.store(self.quick, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling() -> Polling {
        Polling { has_several_processors: true, ..Polling::new(true) }
    }

    #[test]
    fn one_session_polls_at_a_time_after_quick_turns_and_only_if_allowed() {
        let polling = polling();
        assert!(polling.begin(QUICK_MIN - 1).is_none());
        let guard = polling.begin(QUICK_MIN).unwrap();
        assert!(polling.begin(QUICK_MIN).is_none());
        drop(guard);
        polling.allow(false);
        assert!(polling.begin(QUICK_MIN).is_none());
        polling.allow(true);
        assert!(polling.begin(QUICK_MIN).is_some());
        assert!(Polling { has_several_processors: false, ..Polling::new(true) }.begin(QUICK_MIN).is_none());
    }

    #[test]
    fn polling_ends_with_input_after_its_time_or_with_another_sessions_round() {
        let polling = Arc::new(polling());
        let guard = polling.begin(QUICK_MIN).unwrap();
        assert_eq!(guard.poll(|| Some("found")), Some("found"));
        assert_eq!(guard.poll(|| None::<()>), None);
        assert!(guard.was_undisturbed());
        BusyPoll::new(polling.clone()).answered(true);
        assert!(!guard.was_undisturbed());
        let mut looks = 0;
        assert_eq!(
            guard.poll(|| {
                looks += 1;
                None::<()>
            }),
            None
        );
        assert_eq!(looks, 1);
    }

    #[test]
    fn a_session_inherits_the_quickness_of_the_last_sessions_client() {
        let polling = Arc::new(polling());
        let mut session = BusyPoll::new(polling.clone());
        session.quick = 9;
        drop(session);
        let mut next = BusyPoll::new(polling.clone());
        assert_eq!(next.quick, 9);
        next.answered(false);
        assert_eq!(next.quick, 0);
        assert!(next.alone);
        BusyPoll::new(polling).answered(true);
        next.answered(true);
        assert!(!next.alone);
    }
}
