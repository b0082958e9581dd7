//! Problems that would keep a site from serving, found by `check` and `doctor` in advance: each question is a
//! function of its own.
//!
//! The checks open, bind and read what `serve` would, without changing anything, also while the server runs:
//! resources that it holds are no obstacle. A problem keeps the site, or a configured part of it, from
//! working; a warning does not.

mod files;
mod groups;
pub(super) mod machine;
mod oversights;
mod programs;
mod sockets;
mod spool;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;

use super::control::{ControlClient, ControlSocketState};
use super::rights;
use access::users::UserTable;
use operators::groups::GroupListOperation;
use operators::reply::Reply;
use operators::report::ServerStatus;
use operators::status::StatusOperation;
use site_base::units;
use site_config::Config;

/// Problems and warnings found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub problems: Vec<String>,
    pub warnings: Vec<String>,
}

impl Findings {
    pub fn problem(&mut self, text: impl Into<String>) {
        add(&mut self.problems, text.into());
    }

    pub fn warning(&mut self, text: impl Into<String>) {
        add(&mut self.warnings, text.into());
    }

    /// Adds the findings of another.
    pub fn merge(&mut self, other: Self) {
        other.problems.into_iter().for_each(|text| add(&mut self.problems, text));
        other.warnings.into_iter().for_each(|text| add(&mut self.warnings, text));
    }

    /// Returns the numbers of problems and warnings, to follow a file's name.
    pub fn count(&self) -> String {
        let number = |n: usize, what: &str| units::counted(n as u64, what);
        match (self.problems.len(), self.warnings.len()) {
            (0, 0) => "no errors".into(),
            (0, w) => format!("no errors, {}", number(w, "warning")),
            (p, 0) => number(p, "problem"),
            (p, w) => format!("{}, {}", number(p, "problem"), number(w, "warning")),
        }
    }

    /// Returns all findings, for people; empty if there are none.
    pub fn text(&self) -> String {
        let part = |head: &str, list: &[String]| match list {
            [] => String::new(),
            list => format!("\n\n{head}\n  - {}", list.join("\n  - ")),
        };
        part("Problems:", &self.problems) + &part("Warnings:", &self.warnings)
    }
}

/// Adds a finding, unless it is there already.
fn add(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

/// The running server of the site, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct RunningServer {
    /// Directory of the server's spool; the configuration may name another after a restart.
    data: PathBuf,
    pub pid: u32,
    /// Seconds since the server began to listen.
    pub uptime_secs: u64,
    /// Addresses for newsreaders and peers, with resolved ports.
    pub listen: Vec<String>,
    /// Addresses for browsers.
    pub web: Vec<String>,
    /// Groups with their flags.
    groups: Vec<(String, String)>,
}

/// Subject of a check, with its findings.
#[derive(Debug)]
pub(super) struct CheckResult {
    /// Name of the subject, in a word or two.
    pub about: &'static str,
    /// Text shown if nothing was found.
    pub well: String,
    pub found: Findings,
}

/// Runs all checks.
pub(super) fn look(config: &Arc<Config>, users: &mut Option<UserTable>) -> Findings {
    let mut found = Findings::default();
    parts(config, users).0.into_iter().for_each(|part| found.merge(part.found));
    found
}

/// Runs all checks, one subject after the other, and looks for the running server.
pub(super) fn parts(
    config: &Arc<Config>,
    users: &mut Option<UserTable>,
) -> (Vec<CheckResult>, Option<RunningServer>) {
    let mut parts = Vec::new();
    let mut part = |about, well: String, look: &mut dyn FnMut(&mut Findings)| {
        let mut found = Findings::default();
        look(&mut found);
        parts.push(CheckResult { about, well, found });
    };
    part("users", "can be read".into(), &mut |found| match rights::users_of(config) {
        Ok(table) => *users = table,
        Err(failure) => found.problem(failure.to_string().trim_start_matches("newsreel: ")),
    });
    let mut server = None;
    part("control socket", "can be reached".into(), &mut |found| server = running(config, found));
    let here = server.as_ref().filter(|running| running.data == config.site.data);
    let data = config.site.data.display();
    part("site", format!("{data} and its files can be used"), &mut |found| files::look(config, here, found));
    let mut groups = Vec::new();
    part("spool", format!("{data} can be opened"), &mut |found| groups = spool::look(config, here, found));
    let listen: Vec<&str> =
        config.site.listen.iter().chain(&config.site.tls_listen).map(|at| &**at).collect();
    part("addresses", format!("{} can be listened on", listen.join(", ")), &mut |found| {
        sockets::look(config, server.as_ref(), found);
    });
    part("certificate", tls::summary(config), &mut |found| tls::look(config, found));
    part("programs", "all that are configured can be run".into(), &mut |found| {
        programs::look(config, &groups, found);
    });
    let carried = format!("{} fit the configuration", units::counted(groups.len() as u64, "group"));
    part("groups", carried, &mut |found| groups::look(config, &groups, found));
    part("limits", machine::summary(config, server.as_ref()), &mut |found| {
        machine::look(config, server.as_ref(), found);
    });
    part("oversights", "none".into(), &mut |found| oversights::look(config, found));
    part("name", format!("{} in Path", config.site.path_identity), &mut |found| {
        config.identity_advice().into_iter().for_each(|advice| found.warning(advice));
    });
    (parts, server)
}

fn running(config: &Config, found: &mut Findings) -> Option<RunningServer> {
    let mut control = match ControlClient::find_by(&config.file, &config.site.data) {
        Ok(ControlSocketState::Server(control)) => control,
        Ok(ControlSocketState::Silent | ControlSocketState::Nobody) => return None,
        Err(failure) => {
            let text = failure.to_string();
            let why = text.trim_start_matches("newsreel: ");
            found.warning(format!("it is not known whether a server runs: {why}"));
            return None;
        }
    };
    let mut running = RunningServer { data: control.data().to_owned(), ..RunningServer::default() };
    let mut hear = |reply: Reply| match reply {
        Reply::Status(report) => {
            let server: ServerStatus = report.server.unwrap_or_default();
            (running.pid, running.uptime_secs) = (server.pid, server.uptime_secs);
            (running.listen, running.web) = (server.listen, server.web);
        }
        Reply::Group(group) => running.groups.push((group.name, group.flag)),
        _ => {}
    };
    let heard = control
        .ask(StatusOperation::default(), &mut hear)
        .and_then(|_| control.ask(GroupListOperation { wildmat: None }, &mut hear));
    if let Err(failure) = heard {
        found.warning(failure.to_string().trim_start_matches("newsreel: "));
    }
    Some(running)
}
