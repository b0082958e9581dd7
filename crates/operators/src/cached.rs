//! `newsreel cache verify`, with and without a running server.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::{self, Sink};
use disk::Disk;
use newscache::Cache;
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;
use site_base::units::about_size;
use site_base::units::counted;
use site_config::Config;
use std::io;
use std::sync::Arc;

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
        let cache = match site {
            OperatedSite::Running { server, .. } => Ok(server.upstreams.cache()),
            OperatedSite::Stopped { spool, config } => open(spool.disk().clone(), config),
        };
        match cache {
            Ok(cache) => verify(cache.as_ref(), sink),
            Err(error) => {
                sink(Reply::Error(error.to_string()));
                false
            }
        }
    }
}

/// Reads the whole cache; returns true if nothing was damaged. Damaged files are removed, and their articles
/// fetched again on request.
fn verify(cache: Option<&Cache>, sink: &mut Sink<'_>) -> bool {
    let Some(cache) = cache else {
        sink(Reply::Error("there is no cache: it is made when a server with an [[upstream]] starts".into()));
        return false;
    };
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
