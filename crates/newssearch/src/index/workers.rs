//! The indexing threads: each has its own articles, assigned by key, and makes parts of the index of them.
//!
//! All orders about one article are carried out by one thread, in order. Written parts are kept here until
//! they are requested, and removals are applied to their articles; tantivy applies removals to parts that
//! were handed over. Called by `index`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use tantivy::directory::TerminatingWrite;
use tantivy::fastfield::write_alive_bitset;
use tantivy::index::{Index, Segment, SegmentComponent, SegmentMeta};
use tantivy::{BitSet, TantivyError};

use super::part::PendingPart;
use super::waiting::{WaitingBytes, WaitingClaim};
use super::{IndexError, IndexFields, IndexedArticle};

/// Maximum number of orders that wait for a thread; their articles are also bounded in bytes.
const ORDERS_MAX: usize = 10_000;

/// An article on its way to a thread.
#[derive(Debug)]
pub struct QueuedArticle {
    pub key: u64,
    pub message_id: String,
    pub arrived: i64,
    pub volume: u16,
    pub place: u64,
    pub groups: Vec<String>,
    pub thread: Vec<u64>,
    /// The article as stored.
    pub wire: Vec<u8>,
    pub text_bytes_max: usize,
    _claim: WaitingClaim,
}

impl QueuedArticle {
    fn new(article: &IndexedArticle<'_>, waiting: &Arc<WaitingBytes>) -> Self {
        Self {
            key: article.key,
            message_id: article.message_id.to_owned(),
            arrived: article.arrived,
            volume: article.volume,
            place: article.place,
            groups: article.groups.iter().map(|group| (*group).to_owned()).collect(),
            thread: article.thread.to_vec(),
            _claim: waiting.claim(article.wire.len()),
            wire: article.wire.to_vec(),
            text_bytes_max: article.text_bytes_max,
        }
    }
}

enum WorkerOrder {
    Add(Box<QueuedArticle>),
    Remove(u64),
    /// Order to write the rest, and to hand over all parts.
    Write(SyncSender<Vec<SegmentMeta>>),
}

struct IndexWorker {
    orders: SyncSender<WorkerOrder>,
    thread: JoinHandle<Result<(), IndexError>>,
}

/// The indexing threads.
pub struct IndexWorkers {
    workers: Vec<IndexWorker>,
    waiting: Arc<WaitingBytes>,
}

impl IndexWorkers {
    /// Starts `count` threads, with memory for all of them.
    pub fn start(
        count: usize,
        memory_bytes: usize,
        index: &Index,
        fields: IndexFields,
    ) -> Result<Self, IndexError> {
        let mut workers = Vec::with_capacity(count);
        for _ in 0..count {
            let (orders, next) = sync_channel(ORDERS_MAX);
            let indexing = WorkerIndex {
                part: PendingPart::new(fields, memory_bytes / count.max(1)),
                index: index.clone(),
                written: Vec::new(),
                places: HashMap::new(),
            };
            let thread = thread::Builder::new().name("indexing".into()).spawn(|| indexing.run(next))?;
            workers.push(IndexWorker { orders, thread });
        }
        Ok(Self { workers, waiting: Arc::default() })
    }

    /// Adds an article.
    pub fn add(&mut self, article: &IndexedArticle<'_>) -> Result<(), IndexError> {
        self.order(article.key, WorkerOrder::Add(Box::new(QueuedArticle::new(article, &self.waiting))))
    }

    /// Removes an article from the parts that were not handed over.
    pub fn remove(&mut self, key: u64) -> Result<(), IndexError> {
        self.order(key, WorkerOrder::Remove(key))
    }

    fn order(&mut self, key: u64, order: WorkerOrder) -> Result<(), IndexError> {
        let at = key as usize % self.workers.len().max(1);
        match self.workers.get(at).map(|worker| worker.orders.send(order)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure(at)),
        }
    }

    /// Hands over parts with all added articles.
    pub fn write(&mut self) -> Result<Vec<SegmentMeta>, IndexError> {
        let mut answers = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let (answer, answered) = sync_channel(1);
            // A failed thread does not answer.
            let _failed = worker.orders.send(WorkerOrder::Write(answer));
            answers.push(answered);
        }
        let mut parts = Vec::new();
        for (at, answered) in answers.iter().enumerate() {
            match answered.recv() {
                Ok(own) => parts.extend(own),
                Err(_) => return Err(self.failure(at)),
            }
        }
        Ok(parts)
    }

    /// Returns the error that ended a thread.
    fn failure(&mut self, at: usize) -> IndexError {
        if at >= self.workers.len() {
            return IndexError(TantivyError::SystemError("the threads that index have ended".into()));
        }
        self.workers.remove(at).end().err().unwrap_or_else(|| {
            IndexError(TantivyError::SystemError("a thread that indexes has ended".into()))
        })
    }

    /// Ends the threads; unwritten articles are lost.
    pub fn end(self) -> Result<(), IndexError> {
        self.workers.into_iter().map(IndexWorker::end).fold(Ok(()), Result::and)
    }
}

impl IndexWorker {
    fn end(self) -> Result<(), IndexError> {
        drop(self.orders);
        self.thread.join().unwrap_or_else(|_| {
            Err(IndexError(TantivyError::SystemError("a thread that indexes has panicked".into())))
        })
    }
}

/// State of an indexing thread.
struct WorkerIndex {
    part: PendingPart,
    index: Index,
    written: Vec<WrittenPart>,
    /// Index of the part that has an article, by its key, and the article's number in it.
    places: HashMap<u64, (usize, u32)>,
}

/// A part that was not handed over yet.
struct WrittenPart {
    segment: Segment,
    /// Articles of the part that were removed since.
    gone: Vec<u32>,
}

impl WorkerIndex {
    fn run(mut self, orders: Receiver<WorkerOrder>) -> Result<(), IndexError> {
        for order in orders {
            match order {
                WorkerOrder::Add(article) => {
                    self.part.add(*article);
                    if self.part.is_full() {
                        self.write()?;
                    }
                }
                WorkerOrder::Remove(key) => {
                    self.part.remove(key);
                    if let Some((at, number)) = self.places.remove(&key)
                        && let Some(written) = self.written.get_mut(at)
                    {
                        written.gone.push(number);
                    }
                }
                WorkerOrder::Write(answer) => {
                    self.write()?;
                    self.places.clear();
                    let parts: Result<Vec<SegmentMeta>, TantivyError> =
                        self.written.drain(..).map(WrittenPart::hand_over).collect();
                    // The recipient may have ended.
                    let _gone = answer.send(parts?);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), IndexError> {
        let segment = self.index.new_segment();
        let keys = self.part.write(&segment)?;
        if let Ok(articles) = u32::try_from(keys.len())
            && articles > 0
        {
            let at = self.written.len();
            self.places.extend(keys.into_iter().zip(0..).map(|(key, number)| (key, (at, number))));
            self.written.push(WrittenPart { segment: segment.with_max_doc(articles), gone: Vec::new() });
        }
        self.part.clear();
        Ok(())
    }
}

impl WrittenPart {
    /// Returns the part, with its removed articles.
    fn hand_over(self) -> Result<SegmentMeta, TantivyError> {
        let mut segment = self.segment;
        if let Ok(gone) = u32::try_from(self.gone.len())
            && gone > 0
        {
            let mut alive = BitSet::with_max_value_and_full(segment.meta().max_doc());
            self.gone.iter().for_each(|number| alive.remove(*number));
            // Number in the file's name; later removals by tantivy have higher ones.
            segment = segment.with_delete_meta(gone, 0);
            let mut file = segment.open_write(SegmentComponent::Delete)?;
            write_alive_bitset(&alive, &mut file)?;
            file.terminate()?;
        }
        segment.meta().untrack_temp_docstore();
        Ok(segment.meta().clone())
    }
}
