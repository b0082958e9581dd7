//! `newsreel cache verify` and `cache purge`, with and without a running server, and `cache refresh`.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::{self, Sink};
use disk::Disk;
use netnews::{GroupMarks, MessageId, newsgroups};
use newscache::Cache;
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;
use site_base::units::about_size;
use site_base::units::counted;
use site_config::Config;
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;
use upstreams::{RefreshedGroup, SourceError, Upstreams};

/// Opens the cache of a site that is not being served; `None` if there is none yet.
pub fn open(disk: Arc<dyn Disk>, config: &Config) -> io::Result<Option<Cache>> {
    if !config.cache.path.is_dir() {
        return Ok(None);
    }
    let (cache, _) = Cache::open(disk, &config.cache.path, config.cache.settings(), unix_secs())?;
    Ok(Some(cache))
}

/// Verify the whole cache; typed as `cache verify`. Answered by [`Reply::Progress`] and [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyCacheOperation {}

impl Operation for VerifyCacheOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        with_cache(site, sink, verify)
    }
}

/// Drop articles or groups from the cache; typed as `cache purge`. Answered by [`Reply::Text`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PurgeCacheOperation {
    /// Message-IDs, with their angle brackets, and names of groups.
    pub names: Vec<String>,
}

/// Ask the upstreams of groups what they have now; typed as `cache refresh`. Answered by [`Reply::Text`]
/// each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshCacheOperation {
    /// Names of the groups.
    pub groups: Vec<String>,
}

/// The reason why something in the cache was not purged, or a group not refreshed.
#[derive(Debug)]
enum CachedError {
    /// The word is neither a Message-ID nor a group.
    Neither,
    /// The article is not cached.
    NoArticle,
    /// Nothing of the group is cached.
    NoGroup,
    /// No upstream numbers the group.
    NotNumbered,
    /// The upstream has no such group.
    NotThere(String),
    /// The cache cannot be changed.
    Io(io::Error),
    /// The upstream does not answer.
    Source(SourceError),
}

impl fmt::Display for CachedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Neither => f.write_str("neither a Message-ID, with its angle brackets, nor a group"),
            Self::NoArticle => f.write_str("this article is not in the cache"),
            Self::NoGroup => f.write_str("nothing of this group is in the cache"),
            Self::NotNumbered => f.write_str("this group is of no upstream"),
            Self::NotThere(upstream) => write!(f, "{upstream} has no such group"),
            Self::Io(error) => write!(f, "the cache cannot be changed: {error}"),
            Self::Source(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CachedError {}

/// The cache of a site, in use or not.
enum PurgedCache<'a> {
    Running(&'a Upstreams),
    Stopped(Cache),
}

impl PurgedCache<'_> {
    /// Purges an article or a group; returns what to say.
    fn purge(&self, name: &str) -> Result<String, CachedError> {
        if let Some(id) = MessageId::parse(name.as_bytes()) {
            let id = id.as_bytes();
            let purged = match self {
                Self::Running(upstreams) => upstreams.purge_article(id),
                Self::Stopped(cache) => cache.purge_article(id, unix_secs()),
            };
            return match purged.map_err(CachedError::Io)? {
                true => Ok(format!("{name} is purged, and fetched again when it is wanted")),
                false => Err(CachedError::NoArticle),
            };
        }
        if !newsgroups::valid_name(name.as_bytes()) {
            return Err(CachedError::Neither);
        }
        let purged = match self {
            Self::Running(upstreams) => upstreams.purge_group(name.as_bytes()),
            Self::Stopped(cache) => cache.purge_group(name.as_bytes(), unix_secs()),
        };
        let origins = purged.map_err(CachedError::Io)?;
        if origins.is_empty() {
            return Err(CachedError::NoGroup);
        }
        Ok(format!("{name} of {} is purged, and fetched again when it is wanted", origins.join(", ")))
    }
}

impl Operation for PurgeCacheOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        with_cache(site, sink, |cache, sink| {
            let cache = match site {
                OperatedSite::Running { server, .. } => PurgedCache::Running(&server.upstreams),
                OperatedSite::Stopped { .. } => PurgedCache::Stopped(cache.clone()),
            };
            each(&self.names, sink, |name| cache.purge(name))
        })
    }
}

impl Operation for RefreshCacheOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        each(&self.groups, sink, |name| refreshed(&server.upstreams, name))
    }
}

/// Asks the upstream of a group; returns what to say.
fn refreshed(upstreams: &Upstreams, name: &str) -> Result<String, CachedError> {
    let asked = Handle::current().block_on(upstreams.refresh_group(name.as_bytes()));
    let RefreshedGroup { upstream, before, marks } =
        asked.map_err(CachedError::Source)?.ok_or(CachedError::NotNumbered)?;
    let Some(GroupMarks { low, high, count }) = marks else { return Err(CachedError::NotThere(upstream)) };
    let articles = counted(count, "article");
    Ok(match before {
        Some(before) => {
            let added = counted(high.saturating_sub(before.high), "number");
            format!("{name} has {articles} at {upstream}, {low} to {high}: {added} more than before")
        }
        None => format!("{name} has {articles} at {upstream}, {low} to {high}"),
    })
}

/// Calls `act` for each name, and sends what it returns.
fn each(names: &[String], sink: &mut Sink<'_>, act: impl Fn(&str) -> Result<String, CachedError>) -> bool {
    let mut ok = true;
    for name in names {
        match act(name) {
            Ok(text) => sink(Reply::Text(text)),
            Err(error) => {
                ok = false;
                sink(Reply::Error(format!("{name}: {error}")));
            }
        }
    }
    ok
}

/// Calls `act` with the cache of a site; replies with an error if there is none.
fn with_cache(
    site: &OperatedSite<'_>,
    sink: &mut Sink<'_>,
    act: impl FnOnce(&Cache, &mut Sink<'_>) -> bool,
) -> bool {
    let cache = match site {
        OperatedSite::Running { server, .. } => Ok(server.upstreams.cache()),
        OperatedSite::Stopped { spool, config } => open(spool.disk().clone(), config),
    };
    let error = match cache {
        Ok(Some(cache)) => return act(&cache, sink),
        Ok(None) => "there is no cache: it is made when a server with an [[upstream]] starts".to_owned(),
        Err(error) => error.to_string(),
    };
    sink(Reply::Error(error));
    false
}

/// Reads the whole cache; returns true if nothing was damaged. Damaged files are removed, and their articles
/// fetched again on request.
fn verify(cache: &Cache, sink: &mut Sink<'_>) -> bool {
    let report = match cache.verify(&sink::ProgressRelay::new(sink)) {
        Ok(report) => report,
        Err(error) => {
            sink(Reply::Error(format!("the cache cannot be read: {error}")));
            return false;
        }
    };
    for file in &report.damaged {
        sink(Reply::Error(format!("{file} was damaged, and is removed")));
    }
    sink(Reply::Text(format!(
        "{}, {}, {}, {}, {}; {}",
        counted(report.groups, "group"),
        counted(report.articles, "small article"),
        counted(report.large, "large article"),
        counted(report.rows, "overview row"),
        about_size(report.bytes),
        counted(report.damaged.len() as u64, "damaged file")
    )));
    report.damaged.is_empty()
}
