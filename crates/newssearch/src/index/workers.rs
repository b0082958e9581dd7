//! The threads that index: each has articles of its own, by their keys, and makes parts of the index of them.
//!
//! All that concerns one article is done by one thread, in the order in which it was asked for: so a removal
//! finds the article in what is not written yet or in a part that tantivy knows. Called by `index`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use lock_order::OrderedRw;
use tantivy::{IndexWriter, TantivyError, Term};

use super::part::Part;
use super::waiting::{Claim, Waiting};
use super::{Fields, IndexError, Indexed};

/// tantivy's writer: what is written is added by reading, a commit writes. Inside it files are written, so
/// that it is outside of all locks of the spool.
pub type Shared = OrderedRw<IndexWriter, 15>;

/// Orders that wait for a thread; their articles are bounded in bytes in addition.
const ORDERS_MAX: usize = 10_000;

/// An article on its way to a thread.
#[derive(Debug)]
pub struct Article {
    pub key: u64,
    pub message_id: String,
    pub arrived: i64,
    pub volume: u16,
    pub place: u64,
    pub groups: Vec<String>,
    pub thread: Vec<u64>,
    /// As it is stored.
    pub wire: Vec<u8>,
    pub text_bytes_max: usize,
    _claim: Claim,
}

impl Article {
    fn new(article: &Indexed<'_>, waiting: &Arc<Waiting>) -> Self {
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

enum Order {
    Add(Box<Article>),
    Remove(u64),
    /// Write what is not written yet, and say so.
    Write(SyncSender<()>),
}

struct Worker {
    orders: SyncSender<Order>,
    thread: JoinHandle<Result<(), IndexError>>,
}

/// The threads that index.
pub struct Workers {
    workers: Vec<Worker>,
    waiting: Arc<Waiting>,
}

impl Workers {
    /// Starts so many, with memory for all of them.
    pub fn start(
        count: usize,
        memory_bytes: usize,
        writer: &Arc<Shared>,
        fields: Fields,
    ) -> Result<Self, IndexError> {
        let mut workers = Vec::with_capacity(count);
        for _ in 0..count {
            let (orders, next) = sync_channel(ORDERS_MAX);
            let indexing = Indexing {
                part: Part::new(fields, memory_bytes / count.max(1)),
                writer: writer.clone(),
                fields,
            };
            let thread = thread::Builder::new().name("indexing".into()).spawn(|| indexing.run(next))?;
            workers.push(Worker { orders, thread });
        }
        Ok(Self { workers, waiting: Arc::default() })
    }

    /// Adds an article, and removes it before that if it may be there already.
    pub fn add(&mut self, article: &Indexed<'_>, again: bool) -> Result<(), IndexError> {
        if again {
            self.remove(article.key)?;
        }
        self.order(article.key, Order::Add(Box::new(Article::new(article, &self.waiting))))
    }

    /// Removes an article.
    pub fn remove(&mut self, key: u64) -> Result<(), IndexError> {
        self.order(key, Order::Remove(key))
    }

    fn order(&mut self, key: u64, order: Order) -> Result<(), IndexError> {
        let at = key as usize % self.workers.len().max(1);
        match self.workers.get(at).map(|worker| worker.orders.send(order)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure(at)),
        }
    }

    /// Makes a part of all that was added.
    pub fn write(&mut self) -> Result<(), IndexError> {
        let mut dones = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let (written, done) = sync_channel(1);
            // Who has failed does not say that it is done.
            let _failed = worker.orders.send(Order::Write(written));
            dones.push(done);
        }
        // All of them, so that no one is at work afterwards.
        let done: Vec<bool> = dones.into_iter().map(|done| done.recv().is_ok()).collect();
        match done.iter().position(|is_done| !is_done) {
            Some(at) => Err(self.failure(at)),
            None => Ok(()),
        }
    }

    /// Why a thread has ended.
    fn failure(&mut self, at: usize) -> IndexError {
        if at >= self.workers.len() {
            return IndexError(TantivyError::SystemError("the threads that index have ended".into()));
        }
        self.workers.remove(at).end().err().unwrap_or_else(|| {
            IndexError(TantivyError::SystemError("a thread that indexes has ended".into()))
        })
    }

    /// Ends them; what is not written is forgotten.
    pub fn end(self) -> Result<(), IndexError> {
        self.workers.into_iter().map(Worker::end).fold(Ok(()), Result::and)
    }
}

impl Worker {
    fn end(self) -> Result<(), IndexError> {
        drop(self.orders);
        self.thread.join().unwrap_or_else(|_| {
            Err(IndexError(TantivyError::SystemError("a thread that indexes has panicked".into())))
        })
    }
}

/// What a thread has.
struct Indexing {
    part: Part,
    writer: Arc<Shared>,
    fields: Fields,
}

impl Indexing {
    fn run(mut self, orders: Receiver<Order>) -> Result<(), IndexError> {
        for order in orders {
            match order {
                Order::Add(article) => {
                    self.part.add(*article);
                    if self.part.is_full() {
                        self.write()?;
                    }
                }
                Order::Remove(key) => {
                    self.part.remove(key);
                    self.writer.read().delete_term(Term::from_field_u64(self.fields.key, key));
                }
                Order::Write(written) => {
                    self.write()?;
                    // Whoever asked may have gone.
                    let _gone = written.send(());
                }
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), IndexError> {
        if self.part.is_empty() {
            return Ok(());
        }
        let segment = self.writer.read().new_segment();
        let articles = self.part.write(&segment)?;
        if articles > 0 {
            let segment = segment.with_max_doc(articles);
            segment.meta().untrack_temp_docstore();
            self.writer.read().add_segment(segment.meta().clone())?;
        }
        self.part.clear();
        Ok(())
    }
}
