//! The thread that maintains the index: follows the journal, adds and removes articles, and commits.
//!
//! The cursor is moved after the commit that includes its rows. After any crash some rows are read again:
//! articles whose sequence numbers the index may know replace themselves. If the journal was faster than the
//! index, or the index was not written by this version, it is built again from the spool. The thread and
//! those that tantivy starts from it have the lowest priority.

use super::giving_way::IndexingPace;
use super::progress::IndexProgress;
use super::{CURSOR, SearchService, short};
use disk::ReadMode;
use netnews::article::{content_of, xref_places};
use netnews::newsgroups;
use newspages::content::references;
use newssearch::index::{self, IndexError, IndexedArticle, SearchWriter, Searcher, WriterMode};
use site::Site;
use site_config as config;
use spool::{ArticleBuf, ArticleKey, Cursor, JournalBatch, JournalEvent, TailStart, Token};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// Niceness of the thread: the lowest priority.
const NICE: i32 = 19;
/// Longest time before the thread checks whether to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of articles in a commit.
const COMMIT_ARTICLES_MAX: usize = 100_000;
/// Time between two commits while old articles are added, as each creates a segment that must be merged.
const FILL_DELAY: Duration = Duration::from_secs(30);
/// Interval at which the cursor is moved over rows that are not indexed.
const SKIP_INTERVAL: Duration = Duration::from_secs(30);
/// Fraction of a cyclic buffer (one part of this many) that is overwritten before its entries are removed.
const OVERWRITTEN_PARTS: u64 = 64;

/// The thread; ends with the server.
#[derive(Debug)]
pub struct Indexer {
    thread: JoinHandle<()>,
}

impl Indexer {
    /// Waits for the thread to end. The server must be stopping.
    pub fn end(self) {
        if self.thread.join().is_err() {
            warn!("the thread of the search index has failed");
        }
    }
}

/// Starts the thread.
pub fn start(site: &Arc<Site>, search: &Arc<SearchService>) -> io::Result<Indexer> {
    let (site, search) = (site.clone(), search.clone());
    let thread = thread::Builder::new().name("search".into()).spawn(move || {
        // Applies to this thread and those that it starts; a failure only leaves them the usual priority.
        let _as_before = rustix::process::setpriority_process(None, NICE);
        run(&site, &search);
    })?;
    Ok(Indexer { thread })
}

/// Returns the directory of the index.
fn dir(site: &Site) -> PathBuf {
    site.config.load().site.data.join(CURSOR)
}

fn run(site: &Site, search: &SearchService) {
    while !site.is_stopping() {
        let config = site.config.current().search.clone();
        search.is_wanted.store(config.enabled, Ordering::Relaxed);
        let ended = match config.enabled {
            true => keep(site, search, &config),
            false => off(site, &config).map_err(IndexError::from),
        };
        search.searcher.store(None);
        search.is_complete.store(false, Ordering::Relaxed);
        let Err(error) = ended else { continue };
        warn!(%error, "nothing is added to the search index now");
        *search.problem.lock() = error.to_string();
        let until = Instant::now() + RETRY_INTERVAL;
        while Instant::now() < until && !site.is_stopping() {
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// Removes the index, and waits until search is enabled.
fn off(site: &Site, config: &config::Search) -> io::Result<()> {
    site.spool.journal().remove_cursor(CURSOR)?;
    let (disk, dir) = (site.spool.disk(), dir(site));
    if disk.has_dir(&dir)? {
        index::remove(&**disk, &dir)?;
    }
    while !site.is_stopping() && site.config.load().search == *config {
        thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Maintains the index until the configuration changes, it must be built again, or the server stops.
fn keep(site: &Site, search: &SearchService, config: &config::Search) -> Result<(), IndexError> {
    let mut indexing = IndexUpdater::open(site, search, config)?;
    search.problem.lock().clear();
    loop {
        let goes_on = !site.is_stopping() && site.config.load().search == *config;
        if !goes_on {
            indexing.commit()?;
            return indexing.writer.close();
        }
        if search.is_stale.swap(false, Ordering::AcqRel) {
            info!("the search index is built again");
            indexing.writer.close()?;
            return begin_again(site).map_err(IndexError::from);
        }
        indexing.step(search)?;
        if indexing.work == WriterMode::Building && search.is_complete() {
            indexing = indexing.follow(search)?;
        }
    }
}

/// Opens the index for a kind of work.
fn opened(
    site: &Site,
    config: &config::Search,
    work: WriterMode,
) -> Result<(SearchWriter, Searcher), IndexError> {
    let memory = usize::try_from(config.memory).unwrap_or(usize::MAX);
    index::open(site.spool.disk(), &dir(site), memory, work)
}

/// Removes the index, so that the next one is built from the beginning.
fn begin_again(site: &Site) -> io::Result<()> {
    index::remove(&**site.spool.disk(), &dir(site))?;
    site.spool.journal().remove_cursor(CURSOR)?;
    Ok(())
}

/// An open index that is being maintained.
pub(super) struct IndexUpdater<'a> {
    pub site: &'a Site,
    pub config: &'a config::Search,
    pub progress: IndexProgress,
    /// Whether articles added now may be in the index already.
    pub is_again: bool,
    pub buf: ArticleBuf,
    writer: SearchWriter,
    work: WriterMode,
    cursor: Cursor,
    pace: IndexingPace,
    batch: JournalBatch,
    /// Number of changes since the last commit, and the time of the first.
    changes: usize,
    since: Option<Instant>,
    skipped: Instant,
    /// Offset in each cyclic volume up to which overwritten articles were removed.
    overwritten: HashMap<u16, u64>,
}

impl<'a> IndexUpdater<'a> {
    fn open(site: &'a Site, search: &SearchService, config: &'a config::Search) -> Result<Self, IndexError> {
        let spool = &site.spool;
        let mut work = WriterMode::Following;
        let (mut writer, mut searcher) = opened(site, config, work)?;
        let readers = spool.journal().status();
        let reader = readers.iter().find(|reader| reader.name == CURSOR);
        let mut progress = writer.progress().and_then(IndexProgress::parse);
        let lost = |reader: &spool::ReaderStatus| {
            reader.lost_articles > 0 || reader.damage.is_some_and(|damage| damage.went_back())
        };
        if reader.is_none_or(lost) || progress.is_none() {
            if writer.progress().is_some() {
                warn!("rows of the journal are lost to the search index, which is built again");
            }
            drop(searcher);
            writer.close()?;
            begin_again(site)?;
            (writer, searcher) = opened(site, config, work)?;
            progress = None;
        }
        if progress.as_ref().is_none_or(|progress| progress.fill.is_some()) {
            drop(searcher);
            writer.close()?;
            work = WriterMode::Building;
            (writer, searcher) = opened(site, config, work)?;
        }
        let cursor = spool.journal().cursor(CURSOR, TailStart::Now)?;
        let is_again = progress.is_some();
        let progress =
            progress.unwrap_or_else(|| IndexProgress::begin(cursor.mark().sequence.unwrap_or(u64::MAX)));
        search.searcher.store(Some(Arc::new(searcher)));
        search.is_complete.store(progress.fill.is_none(), Ordering::Relaxed);
        *search.filling.lock() = progress.fill.clone().unwrap_or_default();
        let mut indexing = Self {
            site,
            config,
            progress,
            is_again,
            buf: ArticleBuf::default(),
            writer,
            work,
            pace: IndexingPace::new(Instant::now(), spool.journal().end().sequence.unwrap_or(0)),
            cursor,
            batch: JournalBatch::default(),
            changes: 0,
            since: None,
            skipped: Instant::now(),
            overwritten: HashMap::new(),
        };
        if !is_again {
            // From now on a restart continues this index.
            indexing.changes = 1;
            indexing.commit()?;
        }
        Ok(indexing)
    }

    /// Reopens the index for following the journal, once all old articles are in it.
    fn follow(self, search: &SearchService) -> Result<Self, IndexError> {
        self.writer.close()?;
        let work = WriterMode::Following;
        let (writer, searcher) = opened(self.site, self.config, work)?;
        search.searcher.store(Some(Arc::new(searcher)));
        Ok(Self { writer, work, ..self })
    }

    /// Returns whether to leave the machine to a feed now.
    fn gives_way(&mut self, search: &SearchService) -> bool {
        let (now, end, mark) = (Instant::now(), self.site.spool.journal().end(), self.cursor.mark());
        let waiting_bytes = end.position.saturating_sub(mark.position);
        self.pace.look(now, end.sequence.unwrap_or(0));
        self.pace.waits(now, waiting_bytes > 0);
        *search.behind.lock() = self.pace.behind();
        let claim_bytes = self.site.config.load().site.journal_claim_bytes;
        let gives_way = self.pace.gives_way(now, waiting_bytes, claim_bytes);
        search.gives_way.store(gives_way, Ordering::Relaxed);
        gives_way
    }

    /// Does some work, or waits for some.
    fn step(&mut self, search: &SearchService) -> Result<(), IndexError> {
        if self.gives_way(search) {
            if self.since.is_some_and(|since| since.elapsed() >= self.config.delay) {
                self.commit()?;
            }
            thread::sleep(LOOK_INTERVAL);
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        let read = self.cursor.next(&mut batch).map_err(IndexError::from);
        let taken = read.and_then(|()| self.take(&batch));
        let is_idle = batch.is_empty();
        self.batch = batch;
        taken?;
        let fills = is_idle && self.fill()?;
        if let Some(position) = self.progress.fill.as_ref().filter(|_| fills) {
            search.filling.lock().clone_from(position);
        }
        if is_idle && !fills && !search.is_complete() {
            self.changes += 1;
            self.commit()?;
            search.is_complete.store(true, Ordering::Relaxed);
            info!("the search index knows all articles");
        }
        let delay = if fills { FILL_DELAY.max(self.config.delay) } else { self.config.delay };
        let waited = self.since.is_some_and(|since| since.elapsed() >= delay);
        if waited || self.changes >= COMMIT_ARTICLES_MAX {
            self.commit()?;
        } else if self.changes == 0 && self.skipped.elapsed() >= SKIP_INTERVAL {
            self.cursor.save()?;
            self.skipped = Instant::now();
        }
        if is_idle && !fills {
            let left = self.since.map_or(LOOK_INTERVAL, |since| delay.saturating_sub(since.elapsed()));
            self.cursor.wait(left.min(LOOK_INTERVAL));
        }
        Ok(())
    }

    /// Applies a batch of the journal.
    fn take(&mut self, batch: &JournalBatch) -> Result<(), IndexError> {
        for (_, event) in batch.events() {
            match event {
                JournalEvent::Article(row) => {
                    let again = row.sequence < self.progress.next;
                    let spool = &self.site.spool;
                    match spool.read_stored(&row.token, Some(&row.key), ReadMode::Wait, &mut self.buf) {
                        Ok(true) => self.add(&row.token, &row.key, again)?,
                        // Removed in the meantime.
                        Ok(false) => {}
                        Err(error) => debug!(%error, "an article is not indexed, as it cannot be read"),
                    }
                    self.progress.next = self.progress.next.max(row.sequence + 1);
                }
                JournalEvent::Cancelled { key, .. } | JournalEvent::Expired { key, .. } => {
                    self.writer.remove(short(&key))?;
                    self.changed();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the article in `buf`, if it is in an indexed group.
    pub(super) fn add(&mut self, token: &Token, key: &ArticleKey, again: bool) -> Result<(), IndexError> {
        let head = self.buf.head();
        let mut groups: Vec<&str> =
            xref_places(head).filter_map(|(group, _)| std::str::from_utf8(group).ok()).collect();
        if groups.is_empty() {
            let named = content_of(head, b"Newsgroups").unwrap_or_default();
            groups = newsgroups::split(named).filter_map(|name| std::str::from_utf8(name).ok()).collect();
        }
        if !groups.iter().any(|group| self.config.groups.matches(group.as_bytes())) {
            return Ok(());
        }
        let Ok(message_id) = std::str::from_utf8(self.buf.message_id()) else { return Ok(()) };
        let wire = self.buf.article();
        let spool = &self.site.spool;
        let mut thread = vec![short(key)];
        let parents = references(content_of(head, b"References").unwrap_or_default());
        thread.extend(parents.iter().map(|id| short(&spool.key(id.as_bytes()))));
        let article = IndexedArticle {
            key: short(key),
            message_id,
            arrived: i64::try_from(self.buf.arrived()).unwrap_or(i64::MAX),
            volume: token.volume,
            place: token.place,
            groups: &groups,
            thread: &thread,
            wire: wire.strip_suffix(b".\r\n").unwrap_or(wire),
            text_bytes_max: usize::try_from(self.config.text_max).unwrap_or(usize::MAX),
        };
        self.writer.add(&article, again)?;
        self.changed();
        Ok(())
    }

    fn changed(&mut self) {
        self.changes += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Makes the changes searchable and durable, and then moves the cursor.
    fn commit(&mut self) -> Result<(), IndexError> {
        if self.changes > 0 {
            self.forget_overwritten();
            self.writer.commit(&self.progress.text())?;
            (self.changes, self.since) = (0, None);
        }
        self.cursor.save()?;
        self.skipped = Instant::now();
        Ok(())
    }

    /// Removes the entries of articles that cyclic buffers have overwritten since the last call.
    fn forget_overwritten(&mut self) {
        for volume in self.site.spool.cyclic_articles().volumes() {
            let done = self.overwritten.get(&volume.id).copied();
            let is_due = |done: u64| volume.tail > done + volume.area_bytes / OVERWRITTEN_PARTS;
            if done.is_none_or(is_due) {
                self.writer.remove_before(volume.id, volume.tail);
                self.overwritten.insert(volume.id, volume.tail);
            }
        }
    }
}
