//! Destination of the replies of an operation, including the spool's progress.

use std::time::{Duration, Instant};

use disk::Progress;
use lock_order::Ordered;
use site_base::lock::rank;

use super::reply::Reply;

/// Receives replies, one after the other.
pub type Sink<'a> = dyn FnMut(Reply) + Send + 'a;

/// Least time between two [`Reply::Progress`] lines of the same work.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Converts the spool's progress to replies, a few per second.
pub(super) struct ProgressRelay<'a, 'b> {
    state: Ordered<RelayState<'a, 'b>, { rank::PROGRESS }>,
}

struct RelayState<'a, 'b> {
    sink: &'a mut Sink<'b>,
    what: String,
    total: u64,
    sent: Instant,
}

impl<'a, 'b> ProgressRelay<'a, 'b> {
    pub(super) fn new(sink: &'a mut Sink<'b>) -> Self {
        Self { state: Ordered::new(RelayState { sink, what: String::new(), total: 0, sent: Instant::now() }) }
    }
}

impl Progress for ProgressRelay<'_, '_> {
    fn start(&self, what: &str, total: u64) {
        let mut state = self.state.lock();
        state.what = what.to_owned();
        state.total = total;
        state.send(0);
    }

    fn step(&self, done: u64) {
        let mut state = self.state.lock();
        if state.sent.elapsed() >= PROGRESS_INTERVAL {
            state.send(done);
        }
    }

    fn finish(&self) {
        let mut state = self.state.lock();
        let total = state.total;
        state.send(total);
    }
}

impl RelayState<'_, '_> {
    fn send(&mut self, done: u64) {
        self.sent = Instant::now();
        (self.sink)(Reply::Progress { what: self.what.clone(), done, total: self.total });
    }
}
