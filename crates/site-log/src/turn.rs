//! Order of commits: sessions wait for their turn as tasks, so their threads can serve other sessions.
//!
//! A session that arrives just as the turn is free takes it, even if others wait: handing it to a task that
//! has yet to wake up would leave the spool's writer idle. A session passed over often proceeds without a
//! turn and waits at the writer itself, which is fair.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Times a session lets others pass.
const PASSED_OVER_MAX: usize = 16;

/// The turn.
#[derive(Debug, Default)]
pub(crate) struct CommitTurn {
    taken: AtomicBool,
    free: Notify,
}

/// Guard held for the duration of a turn.
#[derive(Debug)]
pub struct TurnGuard<'a>(&'a CommitTurn);

impl CommitTurn {
    /// Waits for the turn; returns `None` if it took too long, and whether others had it.
    pub async fn take(&self) -> (Option<TurnGuard<'_>>, bool) {
        for passed_over in 0..PASSED_OVER_MAX {
            if !self.taken.swap(true, Ordering::Acquire) {
                return (Some(TurnGuard(self)), passed_over > 0);
            }
            // A release since the check above is remembered, so this does not wait.
            self.free.notified().await;
        }
        (None, true)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn one_session_at_a_time_has_the_turn_and_none_waits_forever() {
        let (turn, holders, turns) =
            (Arc::new(CommitTurn::default()), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let sessions: Vec<_> = (0..8)
            .map(|_| {
                let (turn, holders, turns) = (turn.clone(), holders.clone(), turns.clone());
                tokio::spawn(async move {
                    for _ in 0..500 {
                        let (held, _) = turn.take().await;
                        if held.is_some() {
                            assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
                            std::thread::yield_now();
                            holders.fetch_sub(1, Ordering::Relaxed);
                            turns.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        for session in sessions {
            tokio::time::timeout(std::time::Duration::from_secs(60), session).await.unwrap().unwrap();
        }
        assert!(turns.load(Ordering::Relaxed) > 0);
        let (held, waited) = turn.take().await;
        assert!(held.is_some() && !waited);
    }
}
