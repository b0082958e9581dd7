//! The index of words in articles.
//!
//! One writer adds and removes articles; its changes can be found after [`SearchWriter::commit`], which is
//! atomic and durable, and records the caller's progress. Readers on any thread call [`Searcher::search`].
//! Results are ordered by date, the newest first. The index may contain articles that were removed from the
//! spool, and lacks those that arrived since the last commit; the caller handles both. Called by `newsreel`.

mod part;
mod terms;
mod waiting;
mod workers;

use std::fmt;
use std::io;
use std::num::NonZero;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use disk::Disk;
use tantivy::collector::TopDocs;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::query::{AllQuery, BooleanQuery, Occur, PhraseQuery, RangeQuery, TermQuery, TermSetQuery};
use tantivy::schema::{
    FAST, Field, IndexRecordOption, NumericOptions, OwnedValue, STORED, Schema, TextFieldIndexing,
    TextOptions,
};
use tantivy::{
    DocAddress, Index, IndexReader, IndexSettings, IndexWriter, Order, ReloadPolicy, TantivyDocument,
    TantivyError, Term,
};

use crate::directory::IndexDirectory;
use crate::query::{Phrase, Query, ResultOrder, SearchField};
use workers::IndexWorkers;

/// Name of tantivy's tokenizer for fields whose text is one term: words are split here.
const WHOLE: &str = "raw";
/// Minimum memory of an indexing thread, in bytes.
pub const MEMORY_BYTES_MIN: usize = 16 << 20;
/// Number of blocks of stored Message-IDs that a reader keeps.
const STORED_BLOCKS_KEPT: usize = 16;
/// Maximum number of results, including those skipped.
pub const ANSWERS_MAX: usize = 10_000;
/// Share of removed articles, of 1, at which a part of the index is merged.
const REMOVED_MAX: f32 = 0.3;
/// Maximum number of indexing threads.
const THREADS_MAX: usize = 4;
/// Number of parts of about one size that are merged, while following and while building: each merge rewrites
/// all of them, and each part slows queries down.
const PARTS: usize = 8;
const PARTS_BUILDING: usize = 24;

/// Reason why the index cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the search index: {0}")]
pub struct IndexError(#[from] TantivyError);

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

/// An article to be indexed.
#[derive(Debug, Clone, Copy)]
pub struct IndexedArticle<'a> {
    /// Identifier: part of the hash of its Message-ID.
    pub key: u64,
    /// Message-ID.
    pub message_id: &'a str,
    /// Time of arrival, in Unix seconds. Results are ordered by the article's date, unless that is later by
    /// more than a day.
    pub arrived: i64,
    /// Volume that stores it.
    pub volume: u16,
    /// Position in the volume.
    pub place: u64,
    /// Groups of the article.
    pub groups: &'a [&'a str],
    /// Keys of the article itself and of its References.
    pub thread: &'a [u64],
    /// The article (wire format, without the final `.` line).
    pub wire: &'a [u8],
    /// Maximum number of bytes of its text that are indexed.
    pub text_bytes_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct IndexFields {
    key: Field,
    message_id: Field,
    date: Field,
    volume: Field,
    place: Field,
    group: Field,
    thread: Field,
    subject: Field,
    from: Field,
    text: Field,
}

/// Name of the field by which results are ordered.
const DATE: &str = "date";

fn schema() -> (Schema, IndexFields) {
    let mut schema = Schema::builder();
    // Norms are only needed for ranking.
    let indexing = TextFieldIndexing::default().set_tokenizer(WHOLE).set_fieldnorms(false);
    let term =
        |record| TextOptions::default().set_indexing_options(indexing.clone().set_index_option(record));
    let words = term(IndexRecordOption::WithFreqsAndPositions);
    let number = NumericOptions::default().set_indexed();
    let fields = IndexFields {
        key: schema.add_u64_field("key", number.clone()),
        message_id: schema.add_text_field("message_id", STORED),
        date: schema.add_i64_field(DATE, FAST),
        volume: schema.add_u64_field("volume", number.clone()),
        place: schema.add_u64_field("place", FAST),
        group: schema.add_text_field("group", term(IndexRecordOption::Basic)),
        thread: schema.add_u64_field("thread", number),
        subject: schema.add_text_field("subject", words.clone()),
        from: schema.add_text_field("from", words.clone()),
        text: schema.add_text_field("text", words),
    };
    (schema.build(), fields)
}

/// Purpose of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterMode {
    /// Many articles in a row: several threads, and less merging.
    Building,
    /// Few articles now and then.
    Following,
}

impl WriterMode {
    /// Returns the number of indexing threads, each with its share of the memory.
    fn threads(self, memory_bytes: usize) -> usize {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        match self {
            Self::Building => (memory_bytes / MEMORY_BYTES_MIN).min(processors).clamp(1, THREADS_MAX),
            Self::Following => 1,
        }
    }

    fn merging(self) -> LogMergePolicy {
        let mut merging = LogMergePolicy::default();
        merging.set_del_docs_ratio_before_merge(REMOVED_MAX);
        merging.set_min_num_segments(match self {
            Self::Building => PARTS_BUILDING,
            Self::Following => PARTS,
        });
        merging
    }
}

/// Opens the index in a directory, or creates an empty one if there is none or it cannot be read.
pub fn open(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    memory_bytes: usize,
    work: WriterMode,
) -> Result<(SearchWriter, Searcher), IndexError> {
    let (schema, fields) = schema();
    let found = match Index::open(IndexDirectory::open(disk, dir)?) {
        Ok(index) if index.schema() == schema => Some(index),
        Ok(_) | Err(_) => None,
    };
    let index = match found {
        Some(index) => index,
        None => {
            IndexDirectory::clear(&**disk, dir)?;
            // Too little is stored per article for a separate compression thread.
            let settings = IndexSettings { docstore_compress_dedicated_thread: false, ..Default::default() };
            Index::create(IndexDirectory::open(disk, dir)?, schema, settings)?
        }
    };
    let reader = index
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .doc_store_cache_num_blocks(STORED_BLOCKS_KEPT)
        .try_into()?;
    let threads = work.threads(memory_bytes);
    // The indexing thread of the writer is not used.
    let options = IndexWriterOptions::builder().num_worker_threads(1).num_merge_threads(threads).build();
    let writer: IndexWriter = index.writer_with_options(options)?;
    writer.set_merge_policy(Box::new(work.merging()));
    let progress = index.load_metas()?.payload;
    let workers = IndexWorkers::start(threads, memory_bytes.max(MEMORY_BYTES_MIN), &index, fields)?;
    let writer = SearchWriter {
        writer,
        workers,
        fields,
        progress,
        reader: reader.clone(),
        removed: Vec::new(),
        overwritten: Vec::new(),
    };
    Ok((writer, Searcher { reader, fields }))
}

/// Removes the index of a directory that is not open.
pub fn remove(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    IndexDirectory::clear(disk, dir)
}

/// Writer of the index.
pub struct SearchWriter {
    writer: IndexWriter,
    workers: IndexWorkers,
    fields: IndexFields,
    progress: Option<String>,
    reader: IndexReader,
    /// Keys of articles to be removed from parts that tantivy knows.
    removed: Vec<u64>,
    /// Volumes, and the position up to which each has overwritten its articles.
    overwritten: Vec<(u16, u64)>,
}

impl fmt::Debug for SearchWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("progress", &self.progress).finish()
    }
}

impl SearchWriter {
    /// Returns the progress recorded with the last commit; `None` if nothing was committed yet.
    pub fn progress(&self) -> Option<&str> {
        self.progress.as_deref()
    }

    /// Adds an article; `again` means that it may be present already, and is replaced.
    pub fn add(&mut self, article: &IndexedArticle<'_>, again: bool) -> Result<(), IndexError> {
        if again {
            self.remove(article.key)?;
        }
        self.workers.add(article)
    }

    /// Removes an article.
    pub fn remove(&mut self, key: u64) -> Result<(), IndexError> {
        self.removed.push(key);
        self.workers.remove(key)
    }

    /// Removes the articles that a volume has overwritten: those before a position.
    pub fn remove_before(&mut self, volume: u16, place: u64) {
        self.overwritten.push((volume, place));
    }

    /// Makes the changes searchable and durable, and records the caller's progress.
    pub fn commit(&mut self, progress: &str) -> Result<(), IndexError> {
        let parts = self.workers.write()?;
        let removed = std::mem::take(&mut self.removed);
        if !removed.is_empty() && !self.writer.index().searchable_segment_ids()?.is_empty() {
            for key in removed {
                self.writer.delete_term(Term::from_field_u64(self.fields.key, key));
            }
            // Committed separately, since new parts may have the same articles again. If nothing follows, the
            // caller repeats all of it.
            let before = self.progress.clone().unwrap_or_default();
            self.commit_parts(&before)?;
        }
        for part in parts {
            self.writer.add_segment(part)?;
        }
        for (volume, place) in std::mem::take(&mut self.overwritten) {
            let of_volume = Term::from_field_u64(self.fields.volume, u64::from(volume));
            let bound = Bound::Excluded(Term::from_field_u64(self.fields.place, place));
            let query = BooleanQuery::intersection(vec![
                Box::new(TermQuery::new(of_volume, IndexRecordOption::Basic)),
                Box::new(RangeQuery::new(Bound::Unbounded, bound)),
            ]);
            self.writer.delete_query(Box::new(query))?;
        }
        self.commit_parts(progress)?;
        self.reader.reload()?;
        self.progress = Some(progress.to_owned());
        Ok(())
    }

    fn commit_parts(&mut self, progress: &str) -> Result<(), IndexError> {
        let mut prepared = self.writer.prepare_commit()?;
        prepared.set_payload(progress);
        prepared.commit()?;
        Ok(())
    }

    /// Closes the writer after the current merges; uncommitted changes are lost.
    pub fn close(self) -> Result<(), IndexError> {
        self.workers.end()?;
        Ok(self.writer.wait_merging_threads()?)
    }
}

/// Answers queries.
#[derive(Clone)]
pub struct Searcher {
    reader: IndexReader,
    fields: IndexFields,
}

impl fmt::Debug for Searcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Searcher").field("articles", &self.articles()).finish()
    }
}

impl Searcher {
    /// Returns the number of articles in the index.
    pub fn articles(&self) -> u64 {
        self.reader.searcher().num_docs()
    }

    /// Returns the number of parts of the index.
    pub fn parts(&self) -> usize {
        self.reader.searcher().segment_readers().len()
    }

    /// Returns the Message-IDs of up to `count` articles that match a query, in its order, starting with
    /// result `from`. With `thread`, the key of a thread's first article, only articles of that thread match;
    /// with `groups`, only articles in one of these.
    pub fn search(
        &self,
        query: &Query,
        thread: Option<u64>,
        groups: Option<&[String]>,
        from: usize,
        count: usize,
    ) -> Result<Vec<String>, IndexError> {
        let count = count.min(ANSWERS_MAX.saturating_sub(from));
        if count == 0 {
            return Ok(Vec::new());
        }
        let searcher = self.reader.searcher();
        let asked = self.query(query, thread, groups);
        let order = match query.order {
            ResultOrder::Newest => Order::Desc,
            ResultOrder::Oldest => Order::Asc,
        };
        let first = TopDocs::with_limit(count).and_offset(from).order_by_fast_field::<i64>(DATE, order);
        let found: Vec<(Option<i64>, DocAddress)> = searcher.search(&asked, &first)?;
        let mut ids = Vec::with_capacity(found.len());
        for (_, address) in found {
            let document: TantivyDocument = searcher.doc(address)?;
            if let Some(OwnedValue::Str(id)) =
                document.get_first(self.fields.message_id).map(OwnedValue::from)
            {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    fn query(&self, query: &Query, thread: Option<u64>, groups: Option<&[String]>) -> BooleanQuery {
        type Clause = (Occur, Box<dyn tantivy::query::Query>);
        let fields = &self.fields;
        let must = |query: Box<dyn tantivy::query::Query>| -> Clause { (Occur::Must, query) };
        let mut clauses: Vec<Clause> = Vec::new();
        clauses.extend(query.with.iter().map(|phrase| must(self.phrase(phrase))));
        if let Some(key) = thread {
            let term = Term::from_field_u64(fields.thread, key);
            clauses.push(must(Box::new(TermQuery::new(term, IndexRecordOption::Basic))));
        }
        if let Some(groups) = groups {
            let terms = groups.iter().map(|group| Term::from_field_text(fields.group, group));
            clauses.push(must(Box::new(TermSetQuery::new(terms))));
        }
        let term = |secs: i64| Term::from_field_i64(fields.date, secs);
        let from = query.from.map_or(Bound::Unbounded, |secs| Bound::Included(term(secs)));
        let to = query.to.map_or(Bound::Unbounded, |secs| Bound::Excluded(term(secs)));
        if query.from.is_some() || query.to.is_some() {
            clauses.push(must(Box::new(RangeQuery::new(from, to))));
        }
        if clauses.is_empty() {
            clauses.push(must(Box::new(AllQuery)));
        }
        clauses.extend(query.without.iter().map(|phrase| (Occur::MustNot, self.phrase(phrase))));
        BooleanQuery::new(clauses)
    }

    fn phrase(&self, phrase: &Phrase) -> Box<dyn tantivy::query::Query> {
        let field = match phrase.place {
            SearchField::Anywhere => self.fields.text,
            SearchField::Subject => self.fields.subject,
            SearchField::From => self.fields.from,
        };
        let mut terms: Vec<Term> =
            phrase.words.iter().map(|word| Term::from_field_text(field, word)).collect();
        match terms.len() {
            1 => Box::new(TermQuery::new(terms.remove(0), IndexRecordOption::Basic)),
            _ => Box::new(PhraseQuery::new(terms)),
        }
    }
}

#[cfg(test)]
mod tests;
