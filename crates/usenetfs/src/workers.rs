//! Threads for work that may take long, so that other requests need not wait for it.
//!
//! The queue is bounded: if it is full, the calling thread carries out the request.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use lock_order::Innermost;

/// Number of threads.
const THREADS: usize = 2;
/// Maximum number of waiting requests.
const TASKS_MAX: usize = 64;

type WorkerTask = Box<dyn FnOnce() + Send>;

/// The worker threads, which end when this is dropped.
pub struct WorkerPool {
    queue: SyncSender<WorkerTask>,
}

impl WorkerPool {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        let (queue, tasks) = sync_channel::<WorkerTask>(TASKS_MAX);
        let tasks = Arc::new(Innermost::new(tasks));
        for _ in 0..THREADS {
            let tasks = tasks.clone();
            std::thread::Builder::new().name("usenetfs-slow".into()).spawn(move || work(&tasks))?;
        }
        Ok(Self { queue })
    }

    /// Runs a task on a worker, or on this thread.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        if let Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) =
            self.queue.try_send(Box::new(task))
        {
            task();
        }
    }

    /// Runs a task that must not run while a request is answered; drops it if the queue is full.
    pub fn notify(&self, task: impl FnOnce() + Send + 'static) {
        // The kernel asks again soon anyway.
        let _later = self.queue.try_send(Box::new(task));
    }
}

fn work(tasks: &Innermost<Receiver<WorkerTask>>) {
    loop {
        let task = tasks.lock().recv();
        match task {
            Ok(task) => task(),
            Err(_) => return,
        }
    }
}
