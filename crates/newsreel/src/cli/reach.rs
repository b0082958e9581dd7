//! Access to the spool of a site, which is open in the running server, or opened here.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use disk::{Disk, RealDisk};
use spool::{RecoveryReport, Spool, SpoolError};

use super::bar::Bar;
use super::control::{ControlClient, ControlSocketState};
use super::locate::{CONFIG_FILE_NAME, SiteLocation};
use super::owner;
use super::screen::{CliError, complain, problem, say};
use operators::archive::Archives;
use operators::audit::AuditParty;
use operators::dispatch;
use operators::old_files;
use operators::operation::{OperatedSite, SiteFiles};
use operators::reply::{FromReply, Reply};
use operators::request::Request;
use site_config as config;
use site_config::{Config, ConfigError};

/// Time to wait for a spool that another process has open.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time between two attempts.
const TRY_INTERVAL: Duration = Duration::from_millis(50);

/// Access to a site's spool.
pub(super) enum Reach {
    /// The running server.
    Server(ControlClient),
    /// The spool, opened here as no server runs.
    Here(Arc<Spool>),
}

impl Reach {
    /// Finds the running server of this configuration, or opens its spool. Waits for a server that is just
    /// starting.
    pub(super) fn new(config: &Config) -> Result<Self, CliError> {
        let mut wait = SpoolWait::new("a server that is starting, or another command");
        loop {
            if let ControlSocketState::Server(control) =
                ControlClient::find_by(&config.file, &config.site.data)?
            {
                return Ok(Self::Server(control));
            }
            owner::refuse_root(config).map_err(problem)?;
            match open_existing(config) {
                Ok((spool, _)) => {
                    spool.expiry().set_archivist(Some(Arc::new(Archives::of(config, spool.disk()))));
                    return Ok(Self::Here(spool));
                }
                Err(SpoolError::Locked(path)) if wait.goes_on(&path) => {}
                Err(SpoolError::Locked(path)) => {
                    return Err(CliError::Problem(format!(
                        "{} is in use by a newsreel process that does not answer on its control socket; wait, or stop it",
                        path.display()
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Carries out a request; returns whether it succeeded.
    pub(super) fn ask(
        &mut self,
        config: &Config,
        request: impl Into<Request>,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, CliError> {
        let bar = Bar::new();
        let mut hear = |reply| match reply {
            Reply::Progress { what, done, total } => bar.show(&what, done, total),
            Reply::Error(text) => complain(format_args!("newsreel: {text}")),
            other => hear(other),
        };
        self.ask_plainly(config, request, &mut hear)
    }

    /// Carries out one request and passes on all of its replies, errors and progress among them.
    pub(super) fn ask_plainly(
        &mut self,
        config: &Config,
        request: impl Into<Request>,
        hear: &mut (dyn FnMut(Reply) + Send),
    ) -> Result<bool, CliError> {
        match self {
            Self::Server(control) => control.ask(request, hear),
            Self::Here(spool) => {
                let site = OperatedSite::Stopped { spool, config };
                Ok(dispatch::carry_out(&request.into(), &site, &AuditParty::own(), hear))
            }
        }
    }

    /// Ends access; a spool that was opened here is closed.
    pub(super) fn close(self) -> Result<(), CliError> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Here(spool) => Ok(spool.close()?),
        }
    }
}

/// Carries out one request and passes on its replies; returns whether it succeeded.
pub(super) fn ask(
    config: &Config,
    request: impl Into<Request>,
    hear: &mut (dyn FnMut(Reply) + Send),
) -> Result<bool, CliError> {
    let request = request.into();
    if let Some(ok) = without_spool(config, &request, hear)? {
        return Ok(ok);
    }
    let mut reach = match Reach::new(config) {
        Ok(reach) => reach,
        Err(failure) => return at_a_glance(config, &request, failure, hear),
    };
    let ok = reach.ask(config, request, hear)?;
    reach.close()?;
    Ok(ok)
}

/// Carries out a request that needs no spool, if no server runs that must do it.
fn without_spool(
    config: &Config,
    request: &Request,
    hear: &mut (dyn FnMut(Reply) + Send),
) -> Result<Option<bool>, CliError> {
    if request.operation().on_files().is_none() {
        return Ok(None);
    }
    let ControlSocketState::Nobody = ControlClient::find_by(&config.file, &config.site.data)? else {
        return Ok(None);
    };
    owner::refuse_root(config).map_err(problem)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let files = SiteFiles { disk: &disk, config };
    Ok(dispatch::carry_out_on_files(request, &files, &AuditParty::own(), &mut |reply| match reply {
        Reply::Error(text) => complain(format_args!("newsreel: {text}")),
        other => hear(other),
    }))
}

/// Answers for a spool that cannot be opened because a buffer's disk is away, if the request can be answered
/// so; others fail with `failure`.
fn at_a_glance(
    config: &Config,
    request: &Request,
    failure: CliError,
    hear: &mut (dyn FnMut(Reply) + Send),
) -> Result<bool, CliError> {
    let (disk, spool) = (Arc::new(RealDisk::new()), config.spool_config());
    let CliError::Problem(why) = &failure else { return Err(failure) };
    // A spool that cannot be examined is not known to be away, and `failure` gives the reason.
    if spool::away(&*disk, &spool).map_or(true, |away| away.is_empty()) {
        return Err(failure);
    }
    let disk: Arc<dyn Disk> = disk;
    let Ok(glance) = spool::glance(&disk, &spool) else { return Err(failure) };
    let mut hear = |reply| match reply {
        Reply::Error(text) => complain(format_args!("newsreel: {text}")),
        other => hear(other),
    };
    if request.operation().glance(config, &glance, why, &mut hear) { Ok(false) } else { Err(failure) }
}

/// Carries out one request; returns those of its replies that carry a `T`, and whether it succeeded.
pub(super) fn heard<T: FromReply + Send>(
    config: &Config,
    request: impl Into<Request>,
) -> Result<(Vec<T>, bool), CliError> {
    let mut rows = Vec::new();
    let ok = ask(config, request, &mut |reply| rows.extend(T::of(reply)))?;
    Ok((rows, ok))
}

/// Like [`heard`], but returns an error if the request failed.
pub(super) fn rows<T: FromReply + Send>(
    config: &Config,
    request: impl Into<Request>,
) -> Result<Vec<T>, CliError> {
    let (rows, ok) = heard(config, request)?;
    if ok { Ok(rows) } else { Err(CliError::Told) }
}

/// Carries out one request that is answered by lines of text, and prints them.
pub(super) fn print(config: &Config, request: impl Into<Request>) -> Result<(), CliError> {
    let mut said = Ok(());
    let ok = ask(config, request, &mut |reply| {
        if let (Reply::Text(text), Ok(())) = (reply, &said) {
            said = say(text);
        }
    })?;
    said?;
    if ok { Ok(()) } else { Err(CliError::Told) }
}

/// Like [`ask`], for the site at `at`; a running server is asked even if the configuration has a fault.
pub(super) fn ask_at(
    at: &SiteLocation,
    request: impl Into<Request>,
    hear: &mut (dyn FnMut(Reply) + Send),
) -> Result<bool, CliError> {
    match at.load() {
        Ok(config) => ask(&config, request, hear),
        Err(CliError::Config(fault)) => server_despite(fault)?.ask(request, hear),
        Err(failure) => Err(failure),
    }
}

/// Returns the running server of the site at `at`, even if the configuration has a fault.
pub(super) fn server(at: &SiteLocation) -> Result<ControlClient, CliError> {
    let config = match at.load() {
        Ok(config) => config,
        Err(CliError::Config(fault)) => return server_despite(fault),
        Err(failure) => return Err(failure),
    };
    let data = config.site.data.display();
    match ControlClient::find_by(&config.file, &config.site.data)? {
        ControlSocketState::Server(control) => Ok(control),
        ControlSocketState::Silent => {
            Err(CliError::Problem(format!("the server on {data} does not answer; it may be stopping")))
        }
        ControlSocketState::Nobody => {
            Err(CliError::Problem(format!("no server runs on {data}; start one with: newsreel serve")))
        }
    }
}

/// Returns the server that runs with an earlier version of a configuration; if there is none, the fault is
/// the error.
pub(super) fn server_despite(fault: Box<ConfigError>) -> Result<ControlClient, CliError> {
    let ConfigError::Faulty { file, text, .. } = &*fault else { return Err(CliError::Config(fault)) };
    match ControlClient::find_by(file, &config::data_in(text, file))? {
        ControlSocketState::Server(control) => {
            complain(format_args!(
                "newsreel: {fault}; newsreel check shows them. The server runs on with what it read before"
            ));
            Ok(control)
        }
        ControlSocketState::Silent | ControlSocketState::Nobody => Err(CliError::Config(fault)),
    }
}

/// Opens an existing spool, and takes the files of earlier versions into it. The mount point of a disk that
/// is not mounted must not become a new, empty spool.
pub(super) fn open_existing(config: &Config) -> Result<(Arc<Spool>, RecoveryReport), SpoolError> {
    if let Some(text) = missing(config)? {
        return Err(SpoolError::Unfit(text));
    }
    let (spool, report) = Spool::open(Arc::new(RealDisk::new()), config.spool_config(), &Bar::new())?;
    let spool = Arc::new(spool);
    // A command that makes room on a full disk does so all the same.
    if let Err(error) = old_files::take_over(&spool, config) {
        complain(format_args!("newsreel: a file of an earlier version stays as it is: {error}"));
    }
    Ok((spool, report))
}

/// Returns advice about a spool that does not exist; `None` if it exists.
pub(super) fn missing(config: &Config) -> Result<Option<String>, SpoolError> {
    let data = &config.site.data;
    if spool::exists(&RealDisk::new(), data)? {
        return Ok(None);
    }
    let dir = config.file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rename = match config.file.file_name() {
        Some(name) if name == CONFIG_FILE_NAME => String::new(),
        _ => format!("name the configuration {CONFIG_FILE_NAME} and "),
    };
    if config.cluster.is_used() {
        return Ok(Some(format!(
            "there is no spool in {}: mount its disk; or, if this server is a new member of the cluster, give it the \
             news of the others with `newsreel cluster join`",
            data.display()
        )));
    }
    Ok(Some(format!(
        "there is no spool in {}: mount its disk; or, if the site is new, {rename}make the spool with `newsreel init \
         --dir {}`; or, if only its buffers are left, run `newsreel rebuild`",
        data.display(),
        dir.display()
    )))
}

/// Creates the spool of a configuration, unless it exists.
pub(super) fn make(config: &Config) -> Result<(), CliError> {
    if missing(config)?.is_none() {
        return Ok(());
    }
    owner::refuse_root(config).map_err(problem)?;
    let (spool, _) = Spool::open(Arc::new(RealDisk::new()), config.spool_config(), &Bar::new())?;
    Ok(spool.close()?)
}

/// Opens the spool for a server. Waits for a command that has it open, but not for another server.
pub(super) fn open_to_serve(config: &Config) -> Result<(Arc<Spool>, RecoveryReport), SpoolError> {
    let mut wait = SpoolWait::new("a command, or another server that is starting");
    loop {
        match open_existing(config) {
            Err(SpoolError::Locked(path))
                if !matches!(ControlClient::find(&config.site.data), Ok(ControlSocketState::Server(_)))
                    && wait.goes_on(&path) => {}
            opened => return opened,
        }
    }
}

/// Wait for another process to release a spool.
struct SpoolWait {
    whom: &'static str,
    until: Option<Instant>,
}

impl SpoolWait {
    fn new(whom: &'static str) -> Self {
        Self { whom, until: None }
    }

    /// Sleeps for a moment, and at first reports the reason. Returns false once the time is up.
    fn goes_on(&mut self, spool: &Path) -> bool {
        let until = *self.until.get_or_insert_with(|| {
            let pid = std::fs::read_to_string(spool.join("lock")).unwrap_or_default();
            let process =
                pid.trim().parse::<u32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
            let limit = WAIT_MAX.as_secs();
            complain(format_args!(
                "newsreel: {} has the spool {}{process}; waiting for it for up to {limit} s",
                self.whom,
                spool.display()
            ));
            Instant::now() + WAIT_MAX
        });
        std::thread::sleep(TRY_INTERVAL);
        Instant::now() < until
    }
}
