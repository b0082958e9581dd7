//! Pulling: fetching articles from another server, as a reader does, and filing them.
//!
//! A run asks the server what it has (`upstream`), plans what to fetch from the marks of earlier runs
//! (`state`, `plan`), fetches it over several connections with pipelines (`worker`), and files it in the
//! server's order, many articles a commit. Marks are written only after what they stand for is durable, so a
//! run that is killed at any moment is resumed by the next: what it fetched twice is known by its Message-ID.
//! Called by the standing pulls of a server (`standing`) and by `newsreel pull`.

mod counts;
mod plan;
pub(crate) mod standing;
mod state;
pub(super) mod upstream;
mod worker;

pub(crate) use counts::Counts;
pub use counts::PullCounts;
pub(super) use state::is_whole as is_marks_file_whole;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nntp_io::rate::Bandwidth;
use nntp_io::{Client, Error, Limits, Role};
use serde::{Deserialize, Serialize};
use spool::{Flag, NewGroup, Spool};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinSet, block_in_place};
use tracing::{info, warn};

use crate::base::clock::unix_secs;
use crate::base::counters::add;
use crate::config::{Groups, Pull, PullBy};
use crate::ingest::{BatchOutcome, Filer, Origin};
use crate::tls::Dial;
use netnews::{Article, Known, MessageId};
use plan::{Coming, Part, Piece, Plan, Wanted};
use state::Marks;
use upstream::There;
use worker::{CHUNKS_AT_ONCE, Fetching, Worker};

/// Articles that are filed together, and their bytes.
const BATCH_ARTICLES_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Between two times that marks are written, each of which waits for the disk.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// What NEWNEWS is asked for again each time: articles arrive while others are listed.
const NEWNEWS_OVERLAP_SECS: u64 = 600;
/// What NEWNEWS is asked for the first time.
const NEWNEWS_FIRST_SECS: u64 = 24 * 3600;
/// Named as the creator of groups.
const CREATOR: &str = "pull";

/// What is pulled from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PullSpec {
    /// Its name, for logs and storage rules.
    pub name: String,
    /// The server.
    pub dial: Dial,
    /// The groups, a wildmat.
    pub groups: String,
    /// How it is found out what is new.
    pub by: PullBy,
    /// Whether groups that match and are not carried here are made.
    pub create_groups: bool,
    /// Of a group that was never fetched from, at most so many of its newest articles.
    #[serde(default)]
    pub first_max: Option<u64>,
    /// Connections at once.
    pub connections: usize,
    /// Bytes of articles per second.
    #[serde(default)]
    pub bytes_per_sec_max: Option<u64>,
}

impl From<&Pull> for PullSpec {
    fn from(pull: &Pull) -> Self {
        Self {
            name: pull.name.clone(),
            dial: Dial { to: pull.from.clone(), link: pull.link() },
            groups: pull.groups.as_str().to_owned(),
            by: pull.by,
            create_groups: pull.create_groups,
            first_max: pull.first_max,
            connections: pull.connections,
            bytes_per_sec_max: pull.bytes_per_sec_max,
        }
    }
}

/// The site that files what is fetched.
#[derive(Clone)]
pub(crate) struct Ground {
    pub filer: Arc<Filer>,
    pub spool: Arc<Spool>,
    /// The spool's directory.
    pub data: PathBuf,
    /// Our name in Path.
    pub identity: String,
    /// Larger articles are not taken.
    pub article_bytes_max: u64,
}

/// Why a run ended early. What was filed stays, and the next run continues.
#[derive(Debug)]
pub(crate) enum PullError {
    /// The configuration, or a file that it names.
    Config(String),
    /// The server, or the way to it.
    Server(Error),
    /// Our spool takes nothing.
    Spool(String),
    /// The marks cannot be read or written.
    Marks(io::Error),
    /// The server stops, or nobody waits for the end any more.
    Stopped,
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(text) => f.write_str(text),
            Self::Server(error) => error.fmt(f),
            Self::Spool(text) => write!(f, "the spool stopped accepting: {text}"),
            Self::Stopped => f.write_str("the pull was stopped"),
            Self::Marks(error) => write!(f, "marks of what was fetched: {error}"),
        }
    }
}

impl From<Error> for PullError {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

impl From<io::Error> for PullError {
    fn from(error: io::Error) -> Self {
        Self::Marks(error)
    }
}

/// Fetches and files all that is new. If the future is dropped, the next run continues.
pub(crate) async fn run(spec: &PullSpec, ground: &Ground, counts: &Arc<Counts>) -> Result<(), PullError> {
    let groups = Groups::parse(&spec.groups).map_err(PullError::Config)?;
    let target =
        block_in_place(|| spec.dial.target(Role::Reader, Limits::default())).map_err(PullError::Config)?;
    let (mut marks, is_damaged) = block_in_place(|| Marks::open(&ground.data, &spec.dial.to))?;
    if is_damaged {
        warn!(pull = spec.name, "marks of what was fetched are damaged: everything is looked at again");
    }
    let mut client = Client::connect(&target).await?;
    let (wanted, ids, now) = match spec.by {
        PullBy::Number => {
            let there = carried(&mut client, spec, &groups, ground, counts).await?;
            (wanted(spec, &there, &mut marks), Vec::new(), None)
        }
        PullBy::Newnews => {
            if spec.create_groups {
                carried(&mut client, spec, &groups, ground, counts).await?;
            }
            let last = marks.newnews(&spec.groups);
            let since = |now: u64| {
                let first = now.saturating_sub(NEWNEWS_FIRST_SECS);
                last.map_or(first, |last| last.saturating_sub(NEWNEWS_OVERLAP_SECS))
            };
            let (ids, now) = upstream::newnews(&mut client, &groups, since).await?;
            (Vec::new(), ids, Some(now))
        }
    };
    let numbers = wanted.iter().map(|wanted| wanted.numbers.end() - wanted.numbers.start() + 1).sum::<u64>();
    Counts::count(&counts.total, numbers + ids.len() as u64);
    add(&counts.groups, wanted.len());
    fetch(spec, ground, counts, (target, client), (wanted, ids), &mut marks, &groups).await?;
    if let Some(now) = now {
        marks.set_newnews(&spec.groups, now);
    }
    save(ground, &mut marks)
}

/// Fetches what is planned and files it.
async fn fetch(
    spec: &PullSpec,
    ground: &Ground,
    counts: &Arc<Counts>,
    (target, client): (nntp_io::Target, Client),
    (wanted, ids): (Vec<Wanted>, Vec<Box<str>>),
    marks: &mut Marks,
    groups: &Groups,
) -> Result<(), PullError> {
    let connections = spec.connections.max(1);
    let (plan, coming) = Plan::new(wanted, ids, connections * (CHUNKS_AT_ONCE + 1));
    let fetching = Arc::new(Fetching {
        target,
        plan,
        spool: ground.spool.clone(),
        counts: counts.clone(),
        bandwidth: spec.bytes_per_sec_max.map(|bytes| Bandwidth::new(bytes, Instant::now())),
        article_bytes_max: usize::try_from(ground.article_bytes_max).unwrap_or(usize::MAX),
        on_the_way: Arc::default(),
    });
    let mut workers = JoinSet::new();
    let mut first = Some(client);
    for _ in 0..connections {
        workers.spawn(Worker::new(fetching.clone()).run(first.take()));
    }
    let mut filing = Filing {
        origin: Origin::pulled(&ground.identity, &spec.name, spec.dial.host(), groups),
        ground,
        fetching: &fetching,
        marks,
        batch: Vec::new(),
        dealt_with: BTreeMap::new(),
        done: 0,
        saved: Instant::now(),
    };
    // Their plan ends with the filer.
    let filed = filing.all(coming).await;
    drop(fetching);
    match filed {
        Ok(()) => Ok(()),
        Err(Some(error)) => Err(error),
        Err(None) => {
            // A chunk is not whole: its worker says why.
            while let Some(ended) = workers.join_next().await {
                if let Ok(Err(error)) = ended {
                    return Err(error.into());
                }
            }
            Err(PullError::Server(Error::Ended))
        }
    }
}

/// The groups that match there and are carried here; those that are missing are made if that is asked for.
async fn carried(
    client: &mut Client,
    spec: &PullSpec,
    groups: &Groups,
    ground: &Ground,
    counts: &Counts,
) -> Result<BTreeMap<String, There>, PullError> {
    let mut there = upstream::groups(client, groups).await?;
    if there.is_empty() {
        return Err(PullError::Config(format!("no group of {} matches {}", spec.dial.to, spec.groups)));
    }
    let is_here = |name: &str| ground.spool.group_id(name.as_bytes()).is_some();
    let missing: HashSet<&str> = there.keys().map(String::as_str).filter(|name| !is_here(name)).collect();
    if spec.create_groups && !missing.is_empty() {
        let mut descriptions = upstream::descriptions(client, groups, &missing).await.unwrap_or_default();
        let created = unix_secs();
        let new: Vec<NewGroup> = missing
            .iter()
            .map(|name| NewGroup {
                name: (*name).to_owned(),
                // An alias is of no use without its group, and junk is where they file it.
                flag: there
                    .get(*name)
                    .and_then(|g| Flag::parse(&g.flag))
                    .filter(is_plain)
                    .unwrap_or_default(),
                description: descriptions.remove(*name).unwrap_or_default(),
                creator: CREATOR.into(),
                created,
                high: 0,
            })
            .collect();
        let made = block_in_place(|| ground.spool.add_groups(&new));
        let made = made.map_err(|trouble| PullError::Spool(trouble.text))?;
        info!(pull = spec.name, groups = made, "groups created");
        add(&counts.groups_made, made);
    }
    let before = there.len();
    there.retain(|name, _| is_here(name));
    add(&counts.not_carried, before - there.len());
    Ok(there)
}

fn is_plain(flag: &Flag) -> bool {
    matches!(flag, Flag::Open | Flag::Moderated | Flag::Closed)
}

/// What is new in these groups.
fn wanted(spec: &PullSpec, there: &BTreeMap<String, There>, marks: &mut Marks) -> Vec<Wanted> {
    let mut all = Vec::new();
    for (name, There { low, high, .. }) in there {
        let mark = match marks.group(name) {
            // Its numbers begin again: it was made anew there.
            Some(mark) if mark > *high => {
                info!(pull = spec.name, group = name, mark, high, "numbers fell: all articles are looked at");
                low.saturating_sub(1)
            }
            Some(mark) => mark,
            None => {
                let first = spec.first_max.map_or(0, |first| high.saturating_sub(first));
                first.max(low.saturating_sub(1))
            }
        };
        if mark < *high {
            let first = (mark + 1).max(*low).max(1);
            if first <= *high {
                all.push(Wanted { name: name.as_str().into(), numbers: first..=*high });
                continue;
            }
        }
        marks.set_group(name, *high);
    }
    all
}

/// Writes the marks, once what they stand for is durable.
fn save(ground: &Ground, marks: &mut Marks) -> Result<(), PullError> {
    block_in_place(|| {
        ground.spool.settle().map_err(|trouble| PullError::Spool(trouble.text))?;
        Ok(marks.save()?)
    })
}

/// The end of the way: articles are filed in the order of the plan.
struct Filing<'a> {
    origin: Origin,
    ground: &'a Ground,
    fetching: &'a Fetching,
    marks: &'a mut Marks,
    batch: Vec<(Vec<u8>, tokio::sync::OwnedSemaphorePermit)>,
    /// Marks that hold once the batch is filed.
    dealt_with: BTreeMap<Arc<str>, u64>,
    /// Numbers and Message-IDs that are dealt with then.
    done: u64,
    saved: Instant,
}

impl Filing<'_> {
    /// Files all chunks. `Err(None)`: one is not whole.
    async fn all(&mut self, mut coming: UnboundedReceiver<Coming>) -> Result<(), Option<PullError>> {
        while let Some(Coming { part, mut pieces, place }) = coming.recv().await {
            loop {
                match pieces.recv().await {
                    Some(Piece::Article(wire, room)) => {
                        self.batch.push((wire, room));
                        let bytes: usize = self.batch.iter().map(|(wire, _)| wire.len()).sum();
                        if bytes >= BATCH_BYTES_MAX / 2 || self.batch.len() >= BATCH_ARTICLES_MAX {
                            self.file()?;
                        }
                    }
                    Some(Piece::End) => break,
                    None => {
                        self.file()?;
                        return Err(None);
                    }
                }
            }
            match part {
                Part::Numbers { name, numbers, .. } => {
                    self.done += numbers.end() - numbers.start() + 1;
                    self.dealt_with.insert(name, *numbers.end());
                }
                Part::Ids(ids) => self.done += ids.len() as u64,
            }
            drop(place);
            if self.batch.is_empty() || coming.is_empty() {
                self.file()?;
            }
        }
        Ok(self.file()?)
    }

    /// Files what was gathered, and lets the marks hold.
    fn file(&mut self) -> Result<(), PullError> {
        let counts = &self.fetching.counts;
        if !self.batch.is_empty() {
            let wires: Vec<&[u8]> = self.batch.iter().map(|(wire, _)| wire.as_slice()).collect();
            let fates = block_in_place(|| self.ground.filer.file_from(&self.origin, &wires));
            let of = |outcome| fates.iter().filter(|fate| fate.outcome == outcome).count();
            add(&counts.accepted, of(BatchOutcome::Accepted));
            add(&counts.duplicates, of(BatchOutcome::Duplicate));
            add(&counts.rejected, of(BatchOutcome::Rejected) + of(BatchOutcome::Malformed));
            {
                let mut on_the_way = self.fetching.on_the_way.lock();
                for id in wires.iter().filter_map(|wire| id_of(wire)) {
                    on_the_way.remove(&self.ground.spool.key(id.as_bytes()));
                }
            }
            if let Some(later) = fates.into_iter().find(|fate| fate.outcome == BatchOutcome::TryLater) {
                return Err(PullError::Spool(later.reason));
            }
            self.batch.clear();
        }
        for (group, mark) in std::mem::take(&mut self.dealt_with) {
            self.marks.set_group(&group, mark);
        }
        Counts::count(&counts.done, std::mem::take(&mut self.done));
        if self.saved.elapsed() >= SAVE_INTERVAL {
            save(self.ground, self.marks)?;
            self.saved = Instant::now();
        }
        Ok(())
    }
}

fn id_of(wire: &[u8]) -> Option<MessageId<'_>> {
    MessageId::from_header(Article::parse(wire).ok()?.header(Known::MessageId)?)
}
