//! Threads of feeds: a runtime of its own, whose threads have a lower priority than all others.
//!
//! If processors are short, articles are filed first and sent afterwards: a feed is a position in the
//! journal and may fall behind, a peer that feeds us must not be delayed (decision 49). On a machine with
//! spare time the feeds are not affected. Started with the first feed, ended with the value.

use super::rank;
use lock_order::Ordered;
use rustix::process::{getpriority_process, setpriority_process};
use std::io;
use tokio::runtime::{Builder, Handle, Runtime};

/// Niceness of the threads relative to the server, and its maximum: see nice(2).
const NICE: i32 = 10;
const NICE_MAX: i32 = 19;
/// Threads that may wait for the disk at once, beside one for each processor: this many feeds can read
/// articles not in memory, or save their position, while the others continue.
const BLOCKED_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct FeedThreads(Ordered<Option<Runtime>, { rank::THREADS }>);

impl FeedThreads {
    /// Returns the runtime on which feeds are started.
    pub fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.0.lock();
        let runtime = match &mut *runtime {
            Some(runtime) => runtime,
            none => none.insert(start()?),
        };
        Ok(runtime.handle().clone())
    }
}

impl Drop for FeedThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.lock().take() {
            // A task may drop this value, and must not wait.
            runtime.shutdown_background();
        }
    }
}

fn start() -> io::Result<Runtime> {
    let nice = getpriority_process(None).unwrap_or_default().saturating_add(NICE).min(NICE_MAX);
    Builder::new_multi_thread()
        .enable_all()
        .thread_name("feeds")
        .max_blocking_threads(BLOCKED_MAX)
        .on_thread_start(move || {
            // Affects the calling thread alone. If refused, it takes its full share.
            let _as_before = setpriority_process(None, nice);
        })
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use tokio::task::block_in_place;

    fn nice() -> i32 {
        getpriority_process(None).unwrap()
    }

    fn answer<T>(answers: &Receiver<T>) -> T {
        answers.recv_timeout(std::time::Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn all_feed_threads_and_no_others_have_lower_priority() {
        let (threads, before) = (FeedThreads::default(), nice());
        let (answer_to, answers) = channel();
        let waiting = answer_to.clone();
        let task = threads.handle().unwrap();
        task.spawn(async move { answer_to.send(nice()).unwrap() });
        // Another thread continues in its place.
        task.spawn(async move { block_in_place(|| waiting.send(nice()).unwrap()) });
        let expected = (before + NICE).min(NICE_MAX);
        assert_eq!([answer(&answers), answer(&answers)], [expected; 2]);
        assert_eq!(nice(), before);
        // Runs on the same threads, which a task may end.
        let (ended_to, ended) = channel();
        threads.handle().unwrap().spawn(async move {
            drop(threads);
            ended_to.send(()).unwrap();
        });
        answer(&ended);
    }
}
