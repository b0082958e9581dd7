//! Another configuration for a running server: read, compared, prepared, and then applied or refused as a
//! whole.
//!
//! Every part that holds something made from the configuration is prepared first, which can fail and has no
//! effect; if there are no objections, all parts switch, which cannot fail. Sessions apply the new
//! configuration at their next command; those that it does not allow are notified and closed. Called by the
//! control socket and on SIGHUP.

mod judge;
mod report;

use report::ReloadReport;

use crate::Sink;
use crate::operation::{OperatedSite, Operation, replied};
use crate::reply::Reply;
use crate::running::Server;
use crate::supervisor;
use access::tls::TlsOffer;
use judge::FaultList;
use serde::{Deserialize, Serialize};
use site::listening::ListenPlan;
use site_config as config;
use site_config::held_back;
use site_config::{Config, ConfigError, Difference};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info};

/// The message while another command changes the configuration.
pub(crate) const BUSY: &str = "another command is changing the configuration; try again when it has ended";

/// The reason why a new configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file is wrong, or does not suit this server as it runs.
    #[error("{}", .0.report(false).trim_end())]
    File(#[from] ConfigError),
    /// Applying it failed.
    #[error("{0}")]
    Trouble(String),
}

/// Reads the server's file and applies it; on any objection, everything stays as it was. Blocks.
pub fn reload(server: &Server) -> Result<String, ReloadError> {
    reload_by(server, ReloadCause::Operator)
}

/// Reason for a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReloadCause {
    /// An operator has changed the file of this machine.
    Operator,
    /// The configuration of the cluster has changed, and the file with it.
    Cluster,
}

/// Like [`reload`]; an operator may not change what members of a cluster share.
pub(crate) fn reload_by(server: &Server, cause: ReloadCause) -> Result<String, ReloadError> {
    supervisor::reloading();
    let done = take(server, cause);
    supervisor::ready();
    match &done {
        Ok(report) => info!("{}", report.line()),
        Err(ReloadError::File(fault)) => error!("not reloaded: {fault}: {}", first_fault(fault)),
        Err(ReloadError::Trouble(text)) => error!("not reloaded: {text}"),
    }
    done.map(|report| report.screen())
}

/// Read the configuration file again and apply it; answered by [`Reply::Text`], or by [`Reply::Error`] if
/// nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadOperation {}

impl Operation for ReloadOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        replied(reload(server).map(Reply::Text), sink)
    }
}

/// Describe what a reload of a configuration file would change; answered by [`Reply::Text`], or by
/// [`Reply::Error`] with what prevents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareOperation {
    /// Absolute path of the file, from which relative paths start.
    pub file: PathBuf,
    /// Contents of the file.
    pub text: String,
}

impl Operation for CompareOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let report = compare(server, &self.text, &self.file, ReloadCause::Operator);
        replied(report.map(|report| Reply::Text(report.screen())), sink)
    }
}

fn first_fault(error: &ConfigError) -> String {
    error.faults().iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// Reports what a file would change, and what cannot be changed. Has no effect.
fn compare(
    server: &Server,
    text: &str,
    file: &Path,
    cause: ReloadCause,
) -> Result<ReloadReport, ReloadError> {
    let site = &server.site;
    let old = site.config.current();
    let whole = |file: &Path| std::fs::canonicalize(file).ok();
    // The server may name the same file by another path, from which relative paths start.
    let file = if whole(&old.file) == whole(file) { &old.file } else { file };
    let new = config::parse(text, file)?;
    let next = NextConfig::of(&old, new);
    judge::all(server, &old, &next, text, file, cause)?;
    Ok(ReloadReport::new(site, &next, file, false))
}

/// Reports what prevents a text from becoming the configuration of this member of a cluster. Has no effect.
pub(crate) fn judge_of_cluster(server: &Server, text: &str) -> Result<(), ReloadError> {
    let file = server.site.config.current().file.clone();
    compare(server, text, &file, ReloadCause::Cluster).map(drop)
}

/// The next configuration.
struct NextConfig {
    /// The new configuration, with the old values of keys that take effect after a restart.
    config: Arc<Config>,
    /// Differences that take effect now.
    differences: Vec<Difference>,
    /// Differences that take effect after a restart.
    waiting: Vec<Difference>,
}

impl NextConfig {
    fn of(old: &Config, new: Config) -> Self {
        let held = held_back(old, new.clone());
        let waiting = config::differences(&held, &new);
        Self { differences: config::differences(old, &held), config: Arc::new(held), waiting }
    }
}

fn take(server: &Server, cause: ReloadCause) -> Result<ReloadReport, ReloadError> {
    let site = &server.site;
    let Some(_one_at_a_time) = site.changing.try_lock() else {
        return Err(ReloadError::Trouble(BUSY.into()));
    };
    let old = site.config.current();
    let file = &old.file;
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
    let next = NextConfig::of(&old, config::parse(&text, file)?);
    judge::all(server, &old, &next, &text, file, cause)?;
    // Prepared parts are undone if anything after them fails.
    let tls = TlsOffer::read(&next.config).map_err(|error| ReloadError::Trouble(error.to_string()))?;
    let mut faults = FaultList::new(&text, file, &next.config);
    let spool = match site.spool.reconfiguration().prepare(next.config.spool_config()) {
        Ok(prepared) => prepared,
        Err(objections) => {
            faults.objections(objections);
            faults.none()?;
            return Err(ReloadError::Trouble("the spool refuses it".into()));
        }
    };
    let listeners = server.listening.plan(&old, &next.config).unwrap_or_else(|cannot| {
        cannot.iter().for_each(|cannot| faults.listen(cannot));
        ListenPlan::default()
    });
    faults.none()?;
    let feeds =
        server.feeds.prepare(&next.config).map_err(|error| ReloadError::Trouble(error.to_string()))?;
    let report = ReloadReport::new(site, &next, file, true);
    // Switching the spool uses the disk; after it nothing fails.
    spool.switch().map_err(|error| ReloadError::Trouble(error.to_string()))?;
    server.apply(next.config, tls, listeners, feeds);
    Ok(report)
}
