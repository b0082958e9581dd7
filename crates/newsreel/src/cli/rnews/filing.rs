//! What is being filed of a batch: the articles that wait for their answers, and what became of the others.
//!
//! One thread reads and sends, another hears the answers, which come in the order of the articles. Invariant: an article
//! is kept until it is answered, since it goes into quarantine if it is none.

use std::collections::VecDeque;
use std::path::Path;

use netnews::batch::BatchFault;
use netnews::nntp::wire::dot_stuff;
use parking_lot::{Condvar, Mutex};

use super::source::{Batch, Part};
use super::{Failure, Quarantine, Tally, grouped};
use crate::ingest::BatchOutcome;

/// Bytes of articles that wait for their answers, beyond which the next one waits to be sent.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// A batch that is being filed.
pub(super) struct Filing {
    name: String,
    state: Mutex<State>,
    /// Signalled at each answer.
    answered: Condvar,
}

struct State {
    tally: Tally,
    quarantine: Quarantine,
    /// Articles without an answer, oldest first.
    waiting: VecDeque<Part>,
    waiting_bytes: usize,
    /// No more answers come.
    is_over: bool,
    failure: Option<Failure>,
}

impl Filing {
    /// Of the batch called `name`, by the site whose spool is in `data`.
    pub fn new(name: &str, data: &Path) -> Self {
        let state = State {
            tally: Tally::default(),
            quarantine: Quarantine::of(data),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            is_over: false,
            failure: None,
        };
        Self { name: name.to_owned(), state: Mutex::new(state), answered: Condvar::new() }
    }

    /// The next article in wire format, once there is room for it; what is damaged before it is put into quarantine.
    /// `None` at the end, and after a failure.
    pub fn next_article(&self, batch: &mut Batch) -> Option<Vec<u8>> {
        loop {
            let part = match batch.next() {
                Ok(part) => part?,
                Err(error) => {
                    let text = format!("cannot read {}: {error}", self.name);
                    self.state.lock().fail(Failure::Problem(text));
                    return None;
                }
            };
            let mut state = self.state.lock();
            match part.fault {
                Some(BatchFault::TooLarge { announced, present }) if announced == present => {
                    let why =
                        self.about(&part, &part.fault.map_or_else(String::new, |fault| fault.to_string()));
                    state.tally.too_large(&why);
                }
                Some(fault) => state.set_aside(&part, &self.about(&part, &fault.to_string())),
                None => {
                    while !state.is_over && state.waiting_bytes > WAITING_BYTES_MAX {
                        self.answered.wait(&mut state);
                    }
                    let mut wire = Vec::with_capacity(part.bytes.len() + part.bytes.len() / 16);
                    dot_stuff(&part.bytes, &mut wire);
                    state.waiting_bytes += part.bytes.len();
                    state.waiting.push_back(part);
                    return (!state.is_over && state.failure.is_none()).then_some(wire);
                }
            }
            if state.failure.is_some() {
                return None;
            }
        }
    }

    /// The oldest article that waits has its answer.
    pub fn answered(&self, disposition: BatchOutcome, message_id: &str, reason: &str) {
        let mut state = self.state.lock();
        let Some(article) = state.waiting.pop_front() else { return };
        state.waiting_bytes -= article.bytes.len();
        if !state.tally.count(disposition, message_id, reason) {
            state.set_aside(&article, &self.about(&article, reason));
        }
        self.answered.notify_all();
    }

    /// No more answers come.
    pub fn answers_end(&self) {
        self.state.lock().is_over = true;
        self.answered.notify_all();
    }

    /// What became of the batch.
    pub fn end(self) -> Result<Tally, Failure> {
        let State { tally, failure, .. } = self.state.into_inner();
        failure.map_or(Ok(tally), Err)
    }

    fn about(&self, part: &Part, what: &str) -> String {
        let compressed = decompressing(&part.bytes).filter(|_| part.at == 0).map(|command| {
            format!(
                "compressed batches are not accepted yet; decompress it first: {command} | newsreel rnews"
            )
        });
        let what = compressed.as_deref().unwrap_or(what);
        format!("{}, byte {}: {what}", self.name, grouped(part.at))
    }
}

/// How a batch that begins like this is decompressed, if it is compressed.
fn decompressing(batch: &[u8]) -> Option<&'static str> {
    const FORMS: [(&[u8], &str); 9] = [
        (b"#! cunbatch", "tail -n +2 FILE | gzip -dc"),
        (b"#! gunbatch", "tail -n +2 FILE | gzip -dc"),
        (b"#! zunbatch", "tail -n +2 FILE | gzip -dc"),
        (b"#! bunbatch", "tail -n +2 FILE | bzip2 -dc"),
        (b"\x1f\x8b", "gzip -dc FILE"),
        (b"\x1f\x9d", "gzip -dc FILE"),
        (b"BZh", "bzip2 -dc FILE"),
        (b"\xfd7zXZ\0", "xz -dc FILE"),
        (b"\x28\xb5\x2f\xfd", "zstd -dc FILE"),
    ];
    let form = FORMS.iter().find(|(begin, _)| batch.starts_with(begin));
    form.map(|(_, command)| *command)
}

impl State {
    /// Puts a piece into quarantine.
    fn set_aside(&mut self, part: &Part, why: &str) {
        if let Err(failure) = self.tally.quarantine(&mut self.quarantine, &part.bytes, why) {
            self.fail(failure);
        }
    }

    /// The first failure counts.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}
