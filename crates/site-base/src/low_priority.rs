//! Threads of lower priority than all others of the server: a runtime of its own for work that can wait.
//!
//! If processors are short, what has these threads gives way to the rest: feeds to filing (decision 49),
//! pages to sessions (decision 69). On a machine with spare time it is not affected. Started at the first
//! use, ended with the value.

use crate::lock::Leaf;
use rustix::process::{getpriority_process, setpriority_process};
use std::io;
use tokio::runtime::{Builder, Handle, Runtime};

/// The highest niceness: see nice(2).
const NICE_MAX: i32 = 19;

/// Lowers the priority of the calling thread, and of the threads that it starts from now on, by this
/// niceness. If that is refused, they take their full share.
pub fn lower_this_thread(nice: i32) {
    let _as_before = setpriority_process(None, lowered(nice));
}

/// Returns the niceness of the calling thread with this added.
fn lowered(nice: i32) -> i32 {
    getpriority_process(None).unwrap_or_default().saturating_add(nice).min(NICE_MAX)
}

/// A runtime, one thread for each processor, that is started when it is first needed.
#[derive(Debug)]
pub struct LowPriorityThreads {
    name: &'static str,
    nice: i32,
    blocked_max: usize,
    runtime: Leaf<Option<Runtime>>,
}

impl LowPriorityThreads {
    /// Names the threads and their niceness, which is added to that of the process. At most `blocked_max`
    /// tasks may wait for the disk at once beside those that run.
    pub fn new(name: &'static str, nice: i32, blocked_max: usize) -> Self {
        Self { name, nice, blocked_max, runtime: Leaf::default() }
    }

    /// Returns the runtime. Fails if its threads cannot be started.
    pub fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.runtime.lock();
        let runtime = match &mut *runtime {
            Some(runtime) => runtime,
            none => none.insert(self.start()?),
        };
        Ok(runtime.handle().clone())
    }

    fn start(&self) -> io::Result<Runtime> {
        let nice = lowered(self.nice);
        Builder::new_multi_thread()
            .enable_all()
            .thread_name(self.name)
            .max_blocking_threads(self.blocked_max)
            .on_thread_start(move || {
                // Affects the calling thread alone. If refused, it takes its full share.
                let _as_before = setpriority_process(None, nice);
            })
            .build()
    }
}

impl Drop for LowPriorityThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.lock().take() {
            // A task may drop this value, and must not wait.
            runtime.shutdown_background();
        }
    }
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
    fn these_threads_and_no_others_have_lower_priority() {
        let (threads, before) = (LowPriorityThreads::new("low", 10, 4), nice());
        let (answer_to, answers) = channel();
        let waiting = answer_to.clone();
        let task = threads.handle().unwrap();
        task.spawn(async move { answer_to.send(nice()).unwrap() });
        // Another thread continues in its place.
        task.spawn(async move { block_in_place(|| waiting.send(nice()).unwrap()) });
        let expected = (before + 10).min(NICE_MAX);
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
