//! Records that stay in the log while they are read.

use super::{History, HistoryRecord};

/// A claim on the records that were known when it was made: they stay in the log, also once they are
/// forgotten, until it is dropped. What look-ups answer does not depend on it.
#[derive(Debug)]
pub struct HistoryHold<'h> {
    history: &'h History,
    first: u64,
}

impl History {
    /// Keeps the records that are not forgotten, and all later ones, in the log.
    pub fn hold(&self) -> HistoryHold<'_> {
        let mut writer = self.writer.lock();
        let first = self.known().start;
        writer.held.push(first);
        HistoryHold { history: self, first }
    }
}

impl HistoryHold<'_> {
    /// Returns the number of the first record that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns records by number, also forgotten ones; `None` for one that is damaged.
    pub fn records(
        &self,
        numbers: impl IntoIterator<Item = u64>,
    ) -> impl Iterator<Item = (u64, Option<HistoryRecord>)> {
        let segments = self.history.log.snapshot();
        numbers.into_iter().map(move |number| {
            let read = |number| segments.read(number);
            (number, read(number).and_then(|words| self.history.decode(&words, number, read)))
        })
    }
}

impl Drop for HistoryHold<'_> {
    fn drop(&mut self) {
        let held = &mut self.history.writer.lock().held;
        if let Some(at) = held.iter().position(|first| *first == self.first) {
            held.swap_remove(at);
        }
    }
}
