//! Rendering of pages on threads of their own, at most half of the processors at once, within a time limit.
//!
//! A page that is not finished by then is answered with 503, and its thread stops: `newspages::work` checks a
//! flag that is set when the result is no longer awaited, and also limits the work by the size of the input.
//! No page therefore holds up a connection, whatever its article contains. Downloads are compressed on these
//! threads as well, one article at a time. Called by `reading`; `web.page_timeout` is the limit.

use newspages::work::{self, StopFlag};
use site_base::low_priority::LowPriorityThreads;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Niceness of the threads relative to the server: between sessions and feeds.
const NICE: i32 = 5;
/// Pages that may wait for the disk at once, beside one for each processor.
const BLOCKED_MAX: usize = 512;

/// The error if there was no thread, or the work was not done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotRendered;

/// The threads on which pages are rendered, and the limit on their number.
#[derive(Debug)]
pub(super) struct Renderers {
    threads: LowPriorityThreads,
    permits: Arc<Semaphore>,
    /// Downloads take turns, so that they never delay pages.
    download_turn: Arc<Semaphore>,
}

/// Stops the work when dropped, after it is done or if it is no longer awaited.
struct StopGuard(StopFlag);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Default for Renderers {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            threads: LowPriorityThreads::new("pages", NICE, BLOCKED_MAX),
            permits: Arc::new(Semaphore::new((processors / 2).max(1))),
            download_turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Renderers {
    /// Runs `render` for an input of this size, if it finishes within the limit.
    pub async fn render<T: Send + 'static>(
        &self,
        limit: Duration,
        input_bytes: usize,
        render: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotRendered> {
        let guard = StopGuard(StopFlag::default());
        let flag = guard.0.clone();
        let rendering = async {
            let threads = self.threads.handle().map_err(|error| {
                warn!(%error, "cannot start threads for pages");
                NotRendered
            })?;
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| NotRendered)?;
            // The thread counts until it has really stopped.
            let work = move || {
                let _permit = permit;
                work::limited(work::allowance(input_bytes), &flag, render)
            };
            match threads.spawn_blocking(work).await {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(spent)) => {
                    warn!(input_bytes, reason = %spent, "a page was not rendered");
                    Err(NotRendered)
                }
                Err(failure) => {
                    warn!(%failure, "a page was not rendered");
                    Err(NotRendered)
                }
            }
        };
        timeout(limit, rendering).await.unwrap_or_else(|_| {
            debug!(input_bytes, "a page was not rendered in time");
            Err(NotRendered)
        })
    }
}

impl Renderers {
    /// Runs a piece of the work for a download, when all that asked before have had their turn. There is no
    /// limit on its time, since the client sees the download grow.
    pub async fn work_for_download<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.download_turn.clone().acquire_owned().await.map_err(io::Error::other)?;
        let work = move || {
            let _turn = turn;
            work()
        };
        self.threads.handle()?.spawn_blocking(work).await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use newspages::flowed;
    use std::sync::mpsc;

    /// One at a time.
    fn renderers() -> Renderers {
        let threads = LowPriorityThreads::new("pages-test", 1, 4);
        let one = || Arc::new(Semaphore::new(1));
        Renderers { threads, permits: one(), download_turn: one() }
    }

    /// Runs endlessly, until its work is stopped.
    fn endless() -> usize {
        std::iter::repeat_with(|| flowed::fixed("\n").count()).take_while(|lines| *lines > 0).count()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_page_that_takes_too_long_is_given_up_and_its_thread_stops() {
        let renderers = renderers();
        let (stopped, waits) = mpsc::channel();
        let work = move || {
            endless();
            stopped.send(()).unwrap();
        };
        let limit = Duration::from_millis(50);
        assert_eq!(renderers.render(limit, usize::MAX, work).await, Err(NotRendered));
        waits.recv_timeout(Duration::from_secs(60)).unwrap();
        let long = Duration::from_secs(60);
        assert_eq!(renderers.render(long, 0, || 1).await, Ok(1), "the thread is free again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_beyond_the_size_of_the_input_is_stopped_and_a_panic_is_contained() {
        let renderers = renderers();
        let long = Duration::from_secs(60);
        assert_eq!(renderers.render(long, 1, endless).await, Err(NotRendered));
        assert_eq!(renderers.render(long, 1, || panic!("a fault of ours")).await, Err::<(), _>(NotRendered));
        assert_eq!(renderers.render(long, 1, || 1).await, Ok(1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_pages_are_rendered_at_once_than_there_are_threads() {
        let renderers = renderers();
        let (go, waits) = mpsc::channel::<()>();
        let long = Duration::from_secs(60);
        let first = renderers.render(long, 1, move || waits.recv().is_ok());
        let second = async {
            let refused = renderers.render(Duration::from_millis(50), 1, || 2).await;
            go.send(()).unwrap();
            refused
        };
        assert_eq!(tokio::join!(first, second), (Ok(true), Err(NotRendered)));
    }
}
