//! Threads for what may take long, so that other requests need not wait for it.
//!
//! The queue is bounded: a request that finds it full is carried out by the thread that took it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use lock_order::Innermost;

/// Threads.
const THREADS: usize = 2;
/// Requests that may wait.
const TASKS_MAX: usize = 64;

type Task = Box<dyn FnOnce() + Send>;

/// The threads; they end when this is dropped.
pub struct Workers {
    queue: SyncSender<Task>,
}

impl Workers {
    /// Starts them.
    pub fn start() -> io::Result<Self> {
        let (queue, tasks) = sync_channel::<Task>(TASKS_MAX);
        let tasks = Arc::new(Innermost::new(tasks));
        for _ in 0..THREADS {
            let tasks = tasks.clone();
            std::thread::Builder::new().name("usenetfs-slow".into()).spawn(move || work(&tasks))?;
        }
        Ok(Self { queue })
    }

    /// Does it here or there.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        if let Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) =
            self.queue.try_send(Box::new(task))
        {
            task();
        }
    }

    /// Does what must not be done while a request is answered; not at all if too much waits.
    pub fn notify(&self, task: impl FnOnce() + Send + 'static) {
        // The kernel asks again soon anyway.
        let _later = self.queue.try_send(Box::new(task));
    }
}

fn work(tasks: &Innermost<Receiver<Task>>) {
    loop {
        let task = tasks.lock().recv();
        match task {
            Ok(task) => task(),
            Err(_) => return,
        }
    }
}
