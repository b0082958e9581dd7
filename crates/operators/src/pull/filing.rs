//! The last stage of a pull: articles are filed in the order of the plan, and the marks follow.
//!
//! Refused articles are set aside, unreadable groups are left out; both are named in the log and in the
//! details of the run, and delay nothing else. Called by `pull::fetch`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::task::block_in_place;
use tokio::time::timeout;
use tracing::warn;

use super::aside::{FetchRefusal, RemoteArticle};
use super::counts::PullCounters;
use super::plan::{ChunkContents, ChunkPiece, Fetched, IncomingChunk};
use super::state::{PullMarks, SetAsideOutcome};
use super::worker::FetchState;
use super::{PullError, PullSite, PullSpec, save};
use ingest::{BatchOutcome, Origin};
use site_base::clock::unix_secs;
use site_base::counters::add;
use site_base::units::counted;

/// Limits of articles filed together, in number and bytes.
const BATCH_ARTICLES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// How long articles that have come wait for others to be filed with.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Time between two writes of the marks, each of which waits for the disk.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Files what the workers fetch.
pub(super) struct PullFiler<'a> {
    spec: &'a PullSpec,
    origin: Origin,
    ground: &'a PullSite,
    fetching: &'a FetchState,
    marks: &'a mut PullMarks,
    batch: Vec<Fetched>,
    /// Marks to set once the batch is filed.
    dealt_with: BTreeMap<Arc<str>, u64>,
    /// Articles set aside earlier that are done once the batch is filed, unless they are refused again.
    tried: Vec<RemoteArticle>,
    refused: Vec<(RemoteArticle, FetchRefusal)>,
    /// Groups whose marks must not advance, because something of them is missing.
    stuck: HashSet<Arc<str>>,
    /// Numbers and Message-IDs that are done once the batch is filed.
    done: u64,
    saved: Instant,
}

impl<'a> PullFiler<'a> {
    pub fn new(
        spec: &'a PullSpec,
        origin: Origin,
        ground: &'a PullSite,
        fetching: &'a FetchState,
        marks: &'a mut PullMarks,
    ) -> Self {
        Self {
            spec,
            origin,
            ground,
            fetching,
            marks,
            batch: Vec::new(),
            dealt_with: BTreeMap::new(),
            tried: Vec::new(),
            refused: Vec::new(),
            stuck: HashSet::new(),
            done: 0,
            saved: Instant::now(),
        }
    }

    /// Files all chunks; returns whether each was whole. After an incomplete one, those already begun are
    /// filed too, so that no received article is fetched again.
    pub async fn all(&mut self, mut coming: UnboundedReceiver<IncomingChunk>) -> Result<bool, PullError> {
        let mut are_whole = true;
        while let Some(IncomingChunk { part, mut pieces, place }) = coming.recv().await {
            let mut is_whole = false;
            while let Some(piece) = self.next(&mut pieces).await? {
                match piece {
                    ChunkPiece::Article(fetched) => {
                        self.batch.push(fetched);
                        let bytes: usize = self.batch.iter().map(|fetched| fetched.wire.len()).sum();
                        if bytes >= BATCH_BYTES_MAX / 2 || self.batch.len() >= BATCH_ARTICLES_MAX {
                            self.file()?;
                        }
                    }
                    ChunkPiece::Aside(article, refusal) => self.refused.push((article, refusal)),
                    ChunkPiece::NoGroup(refusal) => self.leave_group(&part, &refusal),
                    ChunkPiece::End => {
                        is_whole = true;
                        break;
                    }
                }
            }
            if is_whole {
                self.end(part);
            } else {
                are_whole = false;
                self.fetching.plan.close();
                if let ChunkContents::Numbers { name, .. } = part {
                    self.stuck.insert(name);
                }
            }
            drop(place);
            if self.batch.is_empty() || coming.is_empty() {
                self.file()?;
            }
        }
        self.file()?;
        Ok(are_whole)
    }

    /// The next piece of a chunk; if it does not come soon, those before it are filed meanwhile.
    async fn next(&mut self, pieces: &mut Receiver<ChunkPiece>) -> Result<Option<ChunkPiece>, PullError> {
        if !self.batch.is_empty() {
            match timeout(WAIT_MAX, pieces.recv()).await {
                Ok(piece) => return Ok(piece),
                Err(_) => self.file()?,
            }
        }
        Ok(pieces.recv().await)
    }

    /// Accounts for a complete chunk.
    fn end(&mut self, part: ChunkContents) {
        match part {
            ChunkContents::Numbers { name, numbers, .. } => {
                self.done += numbers.end() - numbers.start() + 1;
                if !self.stuck.contains(&name) {
                    self.dealt_with.insert(name, *numbers.end());
                }
            }
            ChunkContents::Articles { articles, again } => {
                self.done += articles.len() as u64;
                self.tried.extend(articles.into_iter().filter(|_| again));
            }
        }
    }

    /// Leaves out the rest of a group that the server does not let us read.
    fn leave_group(&mut self, part: &ChunkContents, refusal: &FetchRefusal) {
        let ChunkContents::Numbers { name, .. } = part else { return };
        if self.stuck.insert(name.clone()) {
            let counts = &self.fetching.counts;
            add(&counts.groups_skipped, 1);
            counts.leave_out(format!("group left out: {name}: {refusal}"));
            warn!(pull = self.spec.name, group = %name, answer = %refusal, "group left out: the server refuses it");
        }
    }

    /// Files the gathered articles, and updates the marks.
    fn file(&mut self) -> Result<(), PullError> {
        self.file_batch()?;
        // Marks pass only what is set aside.
        self.set_aside()?;
        for (group, mark) in std::mem::take(&mut self.dealt_with) {
            self.marks.set_group(&group, mark);
        }
        PullCounters::count(&self.fetching.counts.done, std::mem::take(&mut self.done));
        if self.saved.elapsed() >= SAVE_INTERVAL {
            save(self.ground, self.marks)?;
            self.saved = Instant::now();
        }
        Ok(())
    }

    fn file_batch(&mut self) -> Result<(), PullError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let counts = &self.fetching.counts;
        let wires: Vec<&[u8]> = self.batch.iter().map(|fetched| fetched.wire.as_slice()).collect();
        let fates = block_in_place(|| self.ground.filer.file_from(&self.origin, &wires));
        self.batch.iter().for_each(|fetched| self.fetching.forget(&fetched.article));
        let mut later = None;
        for (fate, Fetched { article, .. }) in fates.into_iter().zip(&self.batch) {
            match fate.outcome {
                BatchOutcome::Accepted => add(&counts.accepted, 1),
                BatchOutcome::Duplicate => add(&counts.duplicates, 1),
                BatchOutcome::Rejected | BatchOutcome::Malformed => {
                    counts.reject(&fate.reason, article);
                }
                BatchOutcome::TryLater if fate.is_alone => {
                    self.refused.push((article.clone(), FetchRefusal::unfiled(&fate.reason)));
                }
                BatchOutcome::TryLater => later = later.or(Some(fate.reason)),
            }
        }
        if let Some(reason) = later {
            return Err(PullError::Spool(reason));
        }
        self.batch.clear();
        Ok(())
    }

    /// Sets aside the articles that were refused, and takes back those sent now.
    fn set_aside(&mut self) -> Result<(), PullError> {
        let refused: HashSet<&RemoteArticle> = self.refused.iter().map(|(article, _)| article).collect();
        let came = |article: &&RemoteArticle| !refused.contains(article);
        self.tried.iter().filter(came).for_each(|article| self.marks.take_back(article));
        self.tried.clear();
        let (name, counts) = (&self.spec.name, &self.fetching.counts);
        for (article, refusal) in std::mem::take(&mut self.refused) {
            let answer = refusal.to_string();
            let outcome = self.marks.set_aside(&article, &refusal, unix_secs(), self.spec.give_up_secs);
            let (counter, tries, done) = match outcome {
                SetAsideOutcome::Waits(tries) => (&counts.set_aside, tries, "set aside"),
                SetAsideOutcome::GivenUp(tries) => (&counts.given_up, tries, "given up"),
                SetAsideOutcome::TooMany => {
                    return Err(PullError::TooManyAside(format!("{article}: {answer}")));
                }
            };
            add(counter, 1);
            let times = counted(u64::from(tries), "time");
            if counts.leave_out(format!("{done}: {article}: {answer} (refused {times})")) {
                warn!(pull = name, %article, answer, tries, "article {done}");
            }
        }
        Ok(())
    }
}
