//! Another configuration for a running server: read, compared, prepared, and then taken as a whole, or
//! refused as a whole.
//!
//! Every part that holds something made from the configuration is prepared first, which can fail and has no
//! effect; when nothing stands against the new one, all parts switch, which cannot fail. Sessions go on by
//! the new one at their next command, and those that it does not allow are told and closed. Called by the
//! control socket and at SIGHUP.

mod judge;
mod report;

pub(crate) use report::ReloadReport;

use crate::request::{BufferCommand, Reply};
use crate::running::Server;
use crate::{Sink, buffers};
use access::tls::Offer;
use judge::Faults;
use site::Site;
use site::listening::Plan;
use site_config as config;
use site_config::held_back;
use site_config::{Config, ConfigError, Difference};
use std::path::Path;
use std::sync::Arc;
use tracing::{error, info};

/// Said while another command changes the configuration.
const BUSY: &str = "another command is changing the configuration; try again when it has ended";

/// Why a new configuration was not taken.
#[derive(Debug)]
pub enum Refused {
    /// The file is wrong, or not for this server as it runs.
    File(ConfigError),
    /// It could not be done.
    Trouble(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(error) => f.write_str(error.report(false).trim_end()),
            Self::Trouble(text) => f.write_str(text),
        }
    }
}

impl From<ConfigError> for Refused {
    fn from(error: ConfigError) -> Self {
        Self::File(error)
    }
}

/// Reads the server's file and takes what it says; if anything stands against it, everything stays as it was.
/// Blocks.
pub fn reload(server: &Server) -> Result<ReloadReport, Refused> {
    let done = take(server);
    match &done {
        Ok(report) => info!("{}", report.line()),
        Err(Refused::File(fault)) => error!("not reloaded: {fault}: {}", first_fault(fault)),
        Err(Refused::Trouble(text)) => error!("not reloaded: {text}"),
    }
    done
}

fn first_fault(error: &ConfigError) -> String {
    error.faults().iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// What a file would change, and what it cannot. Nothing is done.
pub(crate) fn compare(server: &Server, text: &str, file: &Path) -> Result<ReloadReport, Refused> {
    let site = &server.site;
    let old = site.config.current();
    let whole = |file: &Path| std::fs::canonicalize(file).ok();
    // The server may name the same file another way, and with it what relative paths start from.
    let file = if whole(&old.file) == whole(file) { &old.file } else { file };
    let new = config::parse(text, file)?;
    let next = Next::of(&old, new);
    judge::all(server, &old, &next, text, file)?;
    Ok(ReloadReport::new(site, &next, file, false))
}

/// Changes a buffer, and with it the file and the configuration that holds; a reload then finds them alike.
/// Blocks.
pub(crate) fn change_buffer(site: &Site, command: &BufferCommand, sink: &mut Sink<'_>) -> bool {
    if matches!(command, BufferCommand::List { .. }) {
        return buffers::list(&site.spool, sink);
    }
    let Some(_one_at_a_time) = site.changing.try_lock() else {
        sink(Reply::Error(BUSY.into()));
        return false;
    };
    let config = site.config.current();
    let ok = buffers::run(&site.spool, &config, command, sink);
    if ok {
        site.config.replace(Arc::new(buffers::changed(&config, command)));
    }
    ok
}

/// The configuration that is to hold next.
struct Next {
    /// With the old values of what waits for a restart.
    config: Arc<Config>,
    /// What takes effect now.
    differences: Vec<Difference>,
    /// What does at the next start.
    waiting: Vec<Difference>,
}

impl Next {
    fn of(old: &Config, new: Config) -> Self {
        let held = held_back(old, new.clone());
        let waiting = config::differences(&held, &new);
        Self { differences: config::differences(old, &held), config: Arc::new(held), waiting }
    }
}

fn take(server: &Server) -> Result<ReloadReport, Refused> {
    let site = &server.site;
    let Some(_one_at_a_time) = site.changing.try_lock() else {
        return Err(Refused::Trouble(BUSY.into()));
    };
    let old = site.config.current();
    let file = &old.file;
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
    let next = Next::of(&old, config::parse(&text, file)?);
    judge::all(server, &old, &next, &text, file)?;
    // What is prepared is undone if anything after it fails.
    let tls = Offer::read(&next.config).map_err(Refused::Trouble)?;
    let mut faults = Faults::new(&text, file, &next.config);
    let spool = match site.spool.prepare(next.config.spool_config()) {
        Ok(prepared) => prepared,
        Err(objections) => {
            faults.objections(objections);
            faults.none()?;
            return Err(Refused::Trouble("the spool refuses it".into()));
        }
    };
    let listeners = server.listening.plan(&old, &next.config).unwrap_or_else(|cannot| {
        cannot.iter().for_each(|cannot| faults.listen(cannot));
        Plan::default()
    });
    faults.none()?;
    let feeds = server.feeds.prepare(&next.config).map_err(|error| Refused::Trouble(error.to_string()))?;
    let report = ReloadReport::new(site, &next, file, true);
    // The spool asks the disk; from here on nothing fails.
    spool.switch().map_err(|error| Refused::Trouble(error.to_string()))?;
    server.apply(next.config, tls, listeners, feeds);
    Ok(report)
}
