//! Pulling: fetching articles from another server, as a reader does, and filing them.
//!
//! A run asks the server for its groups (`upstream`), plans from the marks of earlier runs what to fetch
//! (`state`, `plan`), fetches it over several connections with pipelines (`worker`), and files it in the
//! server's order, many articles in a commit (`filing`). Marks are written only after the articles they cover
//! are durable, so a run killed at any moment is resumed by the next: articles fetched twice are recognized
//! by their Message-IDs. Used by the standing pulls of a server (`standing`) and by `newsreel pull`.

mod aside;
mod counts;
mod filing;
pub mod operation;
mod plan;
pub mod standing;
mod state;
pub(super) mod upstream;
mod worker;

pub(crate) use counts::PullCounters;
pub use counts::{PullCounts, PullDetails};
pub(super) use state::is_whole as is_marks_file_whole;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use nntp_io::rate::Bandwidth;
use nntp_io::{ClientLimits, Error, NntpClient, Role};
use serde::{Deserialize, Serialize};
use spool::{ChangeMaker as _, GroupFlag, NewGroup, Spool};
use tokio::task::{JoinSet, block_in_place};
use tracing::{info, warn};

use access::tls::RemoteServer;
use filing::PullFiler;
use ingest::{Filer, Origin};
use netnews::newsgroups::{self, NamingFault};
use plan::{PullPlan, PullWork, WantedGroup};
use site_base::clock::unix_secs;
use site_base::counters::add;
use site_config::{Config, NamePattern, Pull, PullMethod};
use state::PullMarks;
use upstream::RemoteGroup;
use worker::{CHUNKS_AT_ONCE, FetchState, PullWorker};

/// Overlap of successive NEWNEWS requests, in seconds, as articles arrive while others are listed.
const NEWNEWS_OVERLAP_SECS: u64 = 600;
/// Period of the first NEWNEWS request, in seconds.
const NEWNEWS_FIRST_SECS: u64 = 24 * 3600;
/// Creator recorded for new groups.
const CREATOR: &str = "pull";

/// A pull: its server, groups and limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PullSpec {
    /// Name, for logs and storage rules.
    pub name: String,
    /// Server to pull from.
    pub dial: RemoteServer,
    /// Groups, as a wildmat.
    pub groups: String,
    /// Method for finding new articles.
    pub by: PullMethod,
    /// Whether to create groups that match and are not carried here.
    pub create_groups: bool,
    /// Maximum number of newest articles of a group that was never fetched from.
    #[serde(default)]
    pub first_max: Option<u64>,
    /// Number of simultaneous connections.
    pub connections: usize,
    /// Limit on bytes of articles per second.
    #[serde(default)]
    pub bytes_per_sec_max: Option<u64>,
    /// Time for which a refused article is requested, in seconds.
    #[serde(default = "give_up_secs")]
    pub give_up_secs: u64,
    /// How long the server may take for an answer, in milliseconds.
    #[serde(default = "answer_timeout_ms")]
    pub answer_timeout_ms: u64,
}

/// Returns that time without a `[[pull]]` section, in seconds.
pub fn give_up_secs() -> u64 {
    3 * 24 * 3600
}

/// How long a server may take for an answer without a `[[pull]]` section, in milliseconds.
pub fn answer_timeout_ms() -> u64 {
    60_000
}

impl From<&Pull> for PullSpec {
    fn from(pull: &Pull) -> Self {
        Self {
            name: pull.name.clone(),
            dial: RemoteServer { to: pull.from.clone(), link: pull.link() },
            groups: pull.groups.as_str().to_owned(),
            by: pull.by,
            create_groups: pull.create_groups,
            first_max: pull.first_max,
            connections: pull.connections,
            bytes_per_sec_max: pull.bytes_per_sec_max,
            give_up_secs: pull.give_up_after.as_secs(),
            answer_timeout_ms: u64::try_from(pull.answer_timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl PullSpec {
    /// What the server may cost.
    fn limits(&self) -> ClientLimits {
        let answer_timeout = Duration::from_millis(self.answer_timeout_ms);
        ClientLimits {
            answer_timeout,
            greeting_timeout: answer_timeout,
            idle_timeout: answer_timeout,
            ..ClientLimits::default()
        }
    }
}

/// The site that files the articles fetched.
#[derive(Clone)]
pub struct PullSite {
    /// Road into the spool for the articles.
    pub filer: Arc<Filer>,
    /// Spool whose groups and history decide which articles are wanted.
    pub spool: Arc<Spool>,
    /// Directory of the spool.
    pub data: PathBuf,
    /// Our name in Path.
    pub identity: String,
    /// Size limit of articles.
    pub article_bytes_max: u64,
}

impl PullSite {
    /// Returns the parts of a site with this configuration.
    pub(crate) fn of(filer: Arc<Filer>, spool: Arc<Spool>, config: &Config) -> Self {
        Self {
            filer,
            spool,
            data: config.site.data.clone(),
            identity: config.site.path_names(),
            article_bytes_max: config.site.article_bytes_max,
        }
    }
}

/// Reason why a run ended early. Articles filed stay, and the next run continues.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    /// The configuration, or a file that it names, is wrong.
    #[error("{0}")]
    Config(String),
    /// The server failed, or the connection to it.
    #[error("{0}")]
    Server(#[from] Error),
    /// Our spool accepts nothing.
    #[error("the spool stopped accepting: {0}")]
    Spool(String),
    /// More articles were refused than can be set aside; the last of them.
    #[error("too many articles are set aside: {0}")]
    TooManyAside(String),
    /// The marks cannot be read or written.
    #[error("marks of what was fetched: {0}")]
    Marks(#[from] io::Error),
    /// The server stops, or the client no longer waits for the end.
    #[error("the pull was stopped")]
    Stopped,
}

/// Fetches and files everything new. If the future is dropped, the next run continues.
pub(crate) async fn run(
    spec: &PullSpec,
    ground: &PullSite,
    counts: &Arc<PullCounters>,
) -> Result<(), PullError> {
    let groups = NamePattern::parse(&spec.groups).map_err(|error| PullError::Config(error.to_string()))?;
    let target = block_in_place(|| spec.dial.target(Role::Reader, spec.limits()))
        .map_err(|error| PullError::Config(error.to_string()))?;
    let (mut marks, is_damaged) =
        block_in_place(|| PullMarks::open(ground.spool.disk().clone(), &ground.data, &spec.dial.to))?;
    if is_damaged {
        warn!(pull = spec.name, "marks of what was fetched are damaged: everything is looked at again");
    }
    let mut client = NntpClient::connect(&target).await?;
    let before = marks.asides().clone();
    let again = marks.due(unix_secs(), spec.give_up_secs);
    let (work, now) = match spec.by {
        PullMethod::Number => {
            let there = carried(&mut client, spec, &groups, ground, counts).await?;
            let shortened = shortened(&mut client, &there, &marks, &ground.spool).await?;
            let groups = wanted(spec, &there, &shortened, &mut marks);
            (PullWork { again, groups, ids: Vec::new() }, None)
        }
        PullMethod::Newnews => {
            if spec.create_groups {
                carried(&mut client, spec, &groups, ground, counts).await?;
            }
            let last = marks.newnews(&spec.groups);
            let since = |now: u64| {
                let first = now.saturating_sub(NEWNEWS_FIRST_SECS);
                last.map_or(first, |last| last.saturating_sub(NEWNEWS_OVERLAP_SECS))
            };
            let (ids, now) = upstream::newnews(&mut client, &groups, since).await?;
            (PullWork { again, groups: Vec::new(), ids }, Some(now))
        }
    };
    let numbers = work.groups.iter().map(|wanted| wanted.numbers.end() - wanted.numbers.start() + 1);
    let numbers = numbers.fold(0, u64::saturating_add);
    PullCounters::count(&counts.total, numbers.saturating_add((work.ids.len() + work.again.len()) as u64));
    add(&counts.groups, work.groups.len());
    let first = PullConnection { target, client };
    let fetched = fetch(spec, ground, counts, first, work, &mut marks, &groups).await;
    if let (Ok(()), Some(now)) = (&fetched, now) {
        marks.set_newnews(&spec.groups, now);
    }
    counts.note_waiting(marks.asides(), &before);
    // Articles fetched before a failure need not be examined again.
    let saved = save(ground, &mut marks);
    fetched.and(saved)
}

/// First connection of a pull, and how further ones are made.
struct PullConnection {
    target: nntp_io::ConnectOptions,
    client: NntpClient,
}

/// Fetches what is planned and files it.
async fn fetch(
    spec: &PullSpec,
    ground: &PullSite,
    counts: &Arc<PullCounters>,
    first: PullConnection,
    work: PullWork,
    marks: &mut PullMarks,
    groups: &NamePattern,
) -> Result<(), PullError> {
    let connections = spec.connections.max(1);
    let (plan, coming) = PullPlan::new(work, connections * (CHUNKS_AT_ONCE + 1));
    let fetching = Arc::new(FetchState {
        target: first.target,
        plan,
        spool: ground.spool.clone(),
        counts: counts.clone(),
        bandwidth: spec.bytes_per_sec_max.map(|bytes| Bandwidth::new(bytes, Instant::now())),
        article_bytes_max: usize::try_from(ground.article_bytes_max).unwrap_or(usize::MAX),
        on_the_way: Arc::default(),
        asides: marks.asides().keys().cloned().collect(),
        refused_in_a_row: AtomicU32::new(0),
    });
    let mut workers = JoinSet::new();
    let mut client = Some(first.client);
    for _ in 0..connections {
        workers.spawn(PullWorker::new(fetching.clone()).run(client.take()));
    }
    let origin = Origin::pulled(&ground.identity, &spec.name, spec.dial.host(), groups);
    let mut filing = PullFiler::new(spec, origin, ground, &fetching, marks);
    // Dropping the filer ends the workers' plan.
    let filed = filing.all(coming).await;
    drop(filing);
    drop(fetching);
    match filed {
        Ok(true) => Ok(()),
        Err(error) => Err(error),
        Ok(false) => {
            // After an incomplete chunk, its worker returns the reason.
            while let Some(ended) = workers.join_next().await {
                if let Ok(Err(error)) = ended {
                    return Err(error.into());
                }
            }
            Err(PullError::Server(Error::Ended))
        }
    }
}

/// Returns the groups that match there and are carried here; creates missing ones if requested.
async fn carried(
    client: &mut NntpClient,
    spec: &PullSpec,
    groups: &NamePattern,
    ground: &PullSite,
    counts: &PullCounters,
) -> Result<BTreeMap<String, RemoteGroup>, PullError> {
    let listed = upstream::groups(client, groups).await?;
    if listed.odd > 0 {
        PullCounters::count(&counts.odd_lines, listed.odd);
        let (odd, examples) = (listed.odd, listed.odd_lines.join(" | "));
        counts.leave_out(format!("LIST ACTIVE: {odd} odd lines, such as: {examples}"));
    }
    let mut there = listed.groups;
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
            .filter(|name| may_create(spec, name, counts))
            .map(|name| NewGroup {
                name: (*name).to_owned(),
                // An alias is useless without its group, and flag j would file into junk here.
                flag: there
                    .get(*name)
                    .and_then(|g| GroupFlag::parse(&g.flag))
                    .filter(is_plain)
                    .unwrap_or_default(),
                description: descriptions.remove(*name).unwrap_or_default(),
                creator: CREATOR.into(),
                created,
                high: 0,
            })
            .collect();
        let made = block_in_place(|| ground.filer.log().add_groups(&new));
        let made = made.map_err(|trouble| PullError::Spool(trouble.text))?;
        info!(pull = spec.name, groups = made, "groups created");
        add(&counts.groups_made, made);
    }
    let before = there.len();
    there.retain(|name, _| is_here(name));
    add(&counts.not_carried, before - there.len());
    Ok(there)
}

/// Returns whether a group of this name may be created; logs and records what is wrong with the name.
fn may_create(spec: &PullSpec, name: &str, counts: &PullCounters) -> bool {
    let Some(fault) = newsgroups::naming_fault(name.as_bytes()) else { return true };
    let is_refused = fault == NamingFault::Poster;
    let done = if is_refused { "not created" } else { "created, but should not be" };
    warn!(pull = spec.name, group = name, %fault, "group {done}");
    counts.leave_out(format!("group {name}: {done}: {fault}"));
    !is_refused
}

fn is_plain(flag: &GroupFlag) -> bool {
    matches!(flag, GroupFlag::Open | GroupFlag::Moderated | GroupFlag::Closed)
}

/// Most groups whose numbers fell that are asked about, one after the other; if there are more, the server
/// has been built again.
const SHORTENED_MAX: usize = 100;

/// Returns the groups whose numbers fell although we have the newest article: later ones were removed there,
/// and new ones get higher numbers (RFC 3977 6.1.1.2).
async fn shortened(
    client: &mut NntpClient,
    there: &BTreeMap<String, RemoteGroup>,
    marks: &PullMarks,
    spool: &Spool,
) -> Result<BTreeSet<String>, Error> {
    let mut shortened = BTreeSet::new();
    let fallen = there.iter().filter(|(name, group)| marks.group(name) > Some(group.high));
    for (name, group) in fallen.take(SHORTENED_MAX) {
        if let Some(id) = upstream::id_of(client, name, group.high).await?
            && block_in_place(|| spool.are_known(&[spool.key(&id)], &[&id])) == [true]
        {
            shortened.insert(name.clone());
        }
    }
    Ok(shortened)
}

/// Returns the new numbers of these groups; the marks of those that are `shortened` follow.
fn wanted(
    spec: &PullSpec,
    there: &BTreeMap<String, RemoteGroup>,
    shortened: &BTreeSet<String>,
    marks: &mut PullMarks,
) -> Vec<WantedGroup> {
    let mut all = Vec::new();
    for (name, RemoteGroup { low, high, .. }) in there {
        let mark = match marks.group(name) {
            Some(_) if shortened.contains(name) => *high,
            // The numbers begin again because the group was created again there.
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
                all.push(WantedGroup { name: name.as_str().into(), numbers: first..=*high });
                continue;
            }
        }
        marks.set_group(name, *high);
    }
    all
}

/// Writes the marks, once the articles they cover are durable.
fn save(ground: &PullSite, marks: &mut PullMarks) -> Result<(), PullError> {
    block_in_place(|| {
        ground.spool.settle().map_err(|trouble| PullError::Spool(trouble.text))?;
        Ok(marks.save()?)
    })
}
