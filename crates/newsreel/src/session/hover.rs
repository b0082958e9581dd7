//! Staying awake a moment for the next command of a client that works in lock-step.
//!
//! A client that sends one command, reads the answer and sends the next waits for two wake-ups each time: its
//! own and ours. Ours is most of the answer's latency (tens of microseconds where waking a core means leaving
//! a virtual machine), so a session whose client has been quick looks for the next command itself for a
//! moment instead of going to sleep. Only while no other session does anything, so it takes the thread from
//! nobody; and one that waited in vain does not try again until its client has shown itself quick. An idle
//! session costs nothing. Called by the session's loop.

use nntp_io::Transport;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long to stay awake: some more than a quick client's turn-around.
const HOVER_MAX: Duration = Duration::from_micros(60);
/// An answer followed by a command within this time is a quick turn-around.
const QUICK_MAX: Duration = Duration::from_micros(250);
/// Quick turn-arounds before the first try.
const QUICK_MIN: u8 = 4;

/// How quick the client of the session that ended last was; the next one is likely of its kind, as when one
/// client makes many connections.
static LAST_QUICK: AtomicU8 = AtomicU8::new(0);
/// Rounds of all sessions.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
/// With one processor only, a client on the same machine could not even run meanwhile.
static SEVERAL_PROCESSORS: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));
/// One session at a time.
static HOVERING: AtomicBool = AtomicBool::new(false);

/// What a session knows of its client's turn-around.
#[derive(Debug)]
pub(super) struct Hover {
    answered: Option<Instant>,
    quick: u8,
    /// [`ROUNDS`] after this session's last one.
    rounds: u64,
    /// No other session had a round between this one's last two.
    alone: bool,
}

impl Hover {
    /// For a session whose greeting goes out now.
    pub fn new() -> Self {
        Self {
            answered: Some(Instant::now()),
            quick: LAST_QUICK.load(Ordering::Relaxed),
            rounds: ROUNDS.load(Ordering::Relaxed),
            alone: true,
        }
    }

    /// The answers of a round to a single command went out; more at once is no lock-step.
    pub fn answered(&mut self, lock_step: bool) {
        let before = ROUNDS.fetch_add(1, Ordering::Relaxed);
        self.alone = before == self.rounds;
        self.rounds = before + 1;
        self.answered = lock_step.then(Instant::now);
        if !lock_step {
            self.quick = 0;
        }
    }

    /// Something arrived.
    pub fn heard(&mut self) {
        if let Some(answered) = self.answered.take() {
            self.quick = if Vigil::was_quick(answered) { self.quick.saturating_add(1) } else { 0 };
        }
    }

    /// Stays awake for a moment, if that is promising, until there is something to read.
    pub fn wait(&mut self, transport: &mut Transport) {
        let Some(vigil) = Vigil::begin(self.quick).filter(|_| self.alone) else { return };
        transport.deregister();
        if vigil.look(|| transport.has_input().then_some(())).is_none() && vigil.was_undisturbed() {
            self.quick = 0;
        }
    }
}

/// Being awake for a moment. One at a time in the whole server.
pub(crate) struct Vigil {
    until: Instant,
    /// [`ROUNDS`] as it began.
    rounds: u64,
}

impl Vigil {
    /// Begins, if so many quick turn-arounds in a row promise that it will not be in vain.
    pub fn begin(quick: u8) -> Option<Self> {
        if quick < QUICK_MIN || !*SEVERAL_PROCESSORS || HOVERING.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Self { until: Instant::now() + HOVER_MAX, rounds: ROUNDS.load(Ordering::Relaxed) })
    }

    /// Looks until there is something, another session is at work, or the time is over.
    pub fn look<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let seen = look();
            if seen.is_some() || !self.was_undisturbed() || Instant::now() >= self.until {
                return seen;
            }
            std::hint::spin_loop();
        }
    }

    /// Whether no other session did anything meanwhile.
    pub fn was_undisturbed(&self) -> bool {
        ROUNDS.load(Ordering::Relaxed) == self.rounds
    }

    /// Whether what comes now comes quickly after `answered`.
    pub fn was_quick(answered: Instant) -> bool {
        answered.elapsed() < QUICK_MAX
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        HOVERING.store(false, Ordering::Release);
    }
}

impl Drop for Hover {
    fn drop(&mut self) {
        LAST_QUICK.store(self.quick, Ordering::Relaxed);
    }
}
