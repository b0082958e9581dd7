//! Sessions that keep a processor busy give way to the others (decision 69).
//!
//! A session that works for a good part of the time and for long at a time, because it sends one long answer
//! after the other or files one article after the other, continues on threads of lower priority, and returns
//! when it has become calm. Where processors are short, a short command is therefore answered as if the busy
//! sessions were not there; where they are not, nothing changes. What counts is the time in which the
//! session's task runs, without that in which it polls for a quick client.

use super::SessionTask;
use site_base::busy_poll::polled_by_this_thread;
use site_base::low_priority::LowPriorityThreads;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tracing::warn;

/// Least time over which the share of work is measured.
const WINDOW: Duration = Duration::from_millis(10);
/// A session that works for more of a window than this is busy, unless its work is short.
const BUSY_PERCENT: u128 = 15;
/// A busy session that works for less of a window than this is calm again.
const CALM_PERCENT: u128 = 5;
/// Work that takes less time than this, on average over a window, is short: a command or two.
const SHORT: Duration = Duration::from_micros(30);

/// Runs a session to its end, on threads of lower priority while it is busy.
pub(super) async fn give_way(session: SessionTask, threads: Arc<LowPriorityThreads>) {
    let mut metered = MeteredSession { session, meter: WorkMeter::new(Instant::now()) };
    loop {
        if metered.until_moved().await == SessionStop::Ended {
            return;
        }
        let others = match threads.handle() {
            Ok(others) => others,
            Err(error) => {
                warn!(%error, "cannot start threads for busy sessions");
                return metered.session.await;
            }
        };
        // Ends with this task.
        let mut elsewhere = JoinSet::new();
        elsewhere.spawn_on(async move { (metered.until_moved().await, metered) }, &others);
        metered = match elsewhere.join_next().await {
            Some(Ok((SessionStop::Moved, metered))) => metered,
            Some(Err(failure)) if failure.is_panic() => resume_unwind(failure.into_panic()),
            _ => return,
        };
    }
}

/// Reason why a metered session no longer runs where it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionStop {
    Ended,
    /// It has become busy, or calm.
    Moved,
}

/// A session whose work is measured.
struct MeteredSession {
    session: SessionTask,
    meter: WorkMeter,
}

impl MeteredSession {
    /// Runs until the session ends or should continue on other threads.
    fn until_moved(&mut self) -> UntilMoved<'_> {
        UntilMoved(self)
    }
}

/// The future of [`MeteredSession::until_moved`].
struct UntilMoved<'s>(&'s mut MeteredSession);

impl Future for UntilMoved<'_> {
    type Output = SessionStop;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SessionStop> {
        let MeteredSession { session, meter } = &mut *self.get_mut().0;
        let (begun, polled) = (Instant::now(), polled_by_this_thread());
        if meter.changes(begun) {
            return Poll::Ready(SessionStop::Moved);
        }
        let state = session.as_mut().poll(context);
        meter.add(begun.elapsed().saturating_sub(polled_by_this_thread() - polled));
        state.map(|()| SessionStop::Ended)
    }
}

/// The share of the time in which a session works.
#[derive(Debug)]
struct WorkMeter {
    /// Begin of the window.
    since: Instant,
    /// Work in this window.
    worked: Duration,
    /// Number of times that it was taken up.
    rounds: u32,
    is_busy: bool,
}

impl WorkMeter {
    fn new(now: Instant) -> Self {
        Self { since: now, worked: Duration::ZERO, rounds: 0, is_busy: false }
    }

    /// Adds the work of a round.
    fn add(&mut self, worked: Duration) {
        self.worked += worked;
        self.rounds += 1;
    }

    /// Ends the window if it is long enough, and returns true if a calm session is found to be busy, or the
    /// other way round.
    fn changes(&mut self, now: Instant) -> bool {
        let window = now.saturating_duration_since(self.since);
        if window < WINDOW {
            return false;
        }
        let percent = 100 * self.worked.as_micros() / window.as_micros().max(1);
        let was_busy = self.is_busy;
        let is_short = self.worked < SHORT * self.rounds;
        self.is_busy = if was_busy { percent > CALM_PERCENT } else { percent > BUSY_PERCENT && !is_short };
        (self.since, self.worked, self.rounds) = (now, Duration::ZERO, 0);
        self.is_busy != was_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use tokio::time::{sleep, timeout};

    #[test]
    fn a_session_is_busy_by_its_share_of_a_window_unless_its_work_is_short() {
        let mut at = Instant::now();
        let mut meter = WorkMeter::new(at);
        let mut window = |worked_percent: u32, rounds: u32| {
            for _ in 0..rounds {
                meter.add(WINDOW * worked_percent / 100 / rounds);
            }
            assert!(!meter.changes(at + WINDOW / 2), "no window ends early");
            at += WINDOW;
            (meter.changes(at), meter.is_busy)
        };
        assert_eq!(window(10, 1), (false, false));
        assert_eq!(window(60, 1_000), (false, false));
        assert_eq!(window(60, 10), (true, true));
        assert_eq!(window(10, 1_000), (false, true));
        assert_eq!(window(3, 1), (true, false));
        assert_eq!(window(0, 1), (false, false));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_busy_session_moves_to_the_other_threads_and_back_when_it_is_calm() {
        let (names_to, names) = channel();
        let session = Box::pin(async move {
            let name = || thread::current().name().unwrap_or_default().to_owned();
            for is_busy in [true, false] {
                for _ in 0..20 {
                    if is_busy {
                        thread::sleep(WINDOW);
                    }
                    sleep(if is_busy { Duration::from_micros(1) } else { WINDOW * 2 }).await;
                }
                names_to.send(name()).unwrap();
            }
        });
        let threads = Arc::new(LowPriorityThreads::new("busy-test", 1, 4));
        give_way(session, threads).await;
        assert_eq!(names.recv().unwrap(), "busy-test");
        assert_ne!(names.recv().unwrap(), "busy-test");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_busy_session_ends_with_its_task() {
        let (alive, ended) = channel::<()>();
        let session: SessionTask = Box::pin(async move {
            let _alive = alive;
            loop {
                thread::sleep(WINDOW);
                tokio::task::yield_now().await;
            }
        });
        let threads = Arc::new(LowPriorityThreads::new("busy-test", 1, 4));
        assert!(timeout(WINDOW * 10, give_way(session, threads)).await.is_err());
        assert!(ended.recv_timeout(Duration::from_secs(60)).is_err());
        assert!(ended.recv().is_err(), "dropped, not slow");
    }
}
