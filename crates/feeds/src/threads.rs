//! The threads of feeds: a runtime of their own, whose threads give way to all others.
//!
//! Where processors are short, articles are filed first and sent afterwards: a feed is a position in the
//! journal and may fall behind, a peer that feeds us may not be held up (decision 49). On a machine with time
//! to spare the feeds notice nothing of it. Started with the first feed, ended with the value.

use super::rank;
use lock_order::Ordered;
use rustix::process::{getpriority_process, setpriority_process};
use std::io;
use tokio::runtime::{Builder, Handle, Runtime};

/// How much the threads give way to the others of the server, and the most that there is: see nice(2).
const NICE: i32 = 10;
const NICE_MAX: i32 = 19;
/// Threads that wait for the disk at once, beside one for each processor: so many feeds read what is not in
/// memory, or save how far they are, while the others go on.
const BLOCKED_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Threads(Ordered<Option<Runtime>, { rank::THREADS }>);

impl Threads {
    /// Where feeds are started.
    pub fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.0.lock();
        let runtime = match &mut *runtime {
            Some(runtime) => runtime,
            none => none.insert(start()?),
        };
        Ok(runtime.handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.lock().take() {
            // A task may drop this, which must not wait.
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
            // Of the calling thread alone. Refused, it takes its full share.
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
    fn feeds_give_way_in_every_thread_and_nobody_else_does() {
        let (threads, before) = (Threads::default(), nice());
        let (answer_to, answers) = channel();
        let waiting = answer_to.clone();
        let task = threads.handle().unwrap();
        task.spawn(async move { answer_to.send(nice()).unwrap() });
        // Another thread works on in its place.
        task.spawn(async move { block_in_place(|| waiting.send(nice()).unwrap()) });
        let expected = (before + NICE).min(NICE_MAX);
        assert_eq!([answer(&answers), answer(&answers)], [expected; 2]);
        assert_eq!(nice(), before);
        // The same threads; a task may end them.
        let (ended_to, ended) = channel();
        threads.handle().unwrap().spawn(async move {
            drop(threads);
            ended_to.send(()).unwrap();
        });
        answer(&ended);
    }
}
