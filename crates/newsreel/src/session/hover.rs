//! Staying awake a moment for the next command of a client that works in lock-step.
//!
//! A client that sends one command, reads the answer and sends the next waits for two wake-ups each time: its own and
//! ours. Ours is most of the answer's latency (tens of microseconds where waking a core means leaving a virtual
//! machine), so a session whose client has been quick stays ready for a moment instead of going to sleep. It yields to
//! every other task in between, only one session does so at a time, and one that waited in vain does not try again
//! until its client has shown itself quick. An idle session costs nothing. Called by the session's loop.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long to stay awake: some more than a quick client's turn-around.
const HOVER_MAX: Duration = Duration::from_micros(60);
/// An answer followed by a command within this time is a quick turn-around.
const QUICK_MAX: Duration = Duration::from_micros(250);
/// Quick turn-arounds before the first try.
const QUICK_MIN: u8 = 4;

/// How quick the client of the session that ended last was; the next one is likely of its kind, as when one client makes
/// many connections.
static LAST_QUICK: AtomicU8 = AtomicU8::new(0);
/// One session at a time.
static HOVERING: AtomicBool = AtomicBool::new(false);

/// What a session knows of its client's turn-around.
#[derive(Debug)]
pub(super) struct Hover {
    answered: Option<Instant>,
    quick: u8,
}

impl Hover {
    /// For a session whose greeting goes out now.
    pub fn new() -> Self {
        Self { answered: Some(Instant::now()), quick: LAST_QUICK.load(Ordering::Relaxed) }
    }

    /// The answers of a round to a single command went out; more at once is no lock-step.
    pub fn answered(&mut self, lock_step: bool) {
        self.answered = lock_step.then(Instant::now);
        if !lock_step {
            self.quick = 0;
        }
    }

    /// Something arrived.
    pub fn heard(&mut self) {
        if let Some(answered) = self.answered.take() {
            self.quick = if answered.elapsed() < QUICK_MAX { self.quick.saturating_add(1) } else { 0 };
        }
    }

    /// Stays awake for a moment, if that is promising, until `ready` is.
    pub async fn wait(&mut self, ready: impl Future<Output = ()>) {
        if self.quick < QUICK_MIN || HOVERING.swap(true, Ordering::Acquire) {
            return;
        }
        let _landing = Landing;
        let until = Instant::now() + HOVER_MAX;
        let mut ready = pin!(ready);
        while Instant::now() < until {
            let is_ready = poll_fn(|cx| Poll::Ready(ready.as_mut().poll(cx).is_ready())).await;
            if is_ready {
                return;
            }
            tokio::task::yield_now().await;
        }
        self.quick = 0;
    }
}

impl Drop for Hover {
    fn drop(&mut self) {
        LAST_QUICK.store(self.quick, Ordering::Relaxed);
    }
}

/// Lets the next session hover, also if this one is dropped meanwhile.
struct Landing;

impl Drop for Landing {
    fn drop(&mut self) {
        HOVERING.store(false, Ordering::Release);
    }
}
