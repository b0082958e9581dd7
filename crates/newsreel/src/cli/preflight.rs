//! What would keep a site from serving, found by `check` before it is served: each question is a function of
//! its own.
//!
//! Opens, binds and looks at what `serve` would, without changing anything, beside the running server too:
//! what that one has is not in its own way. A problem keeps the site, or a part of it that is configured,
//! from working; a warning does not.

mod files;
mod groups;
mod machine;
mod programs;
mod sockets;
mod spool;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;

use super::control::{Control, Listening};
use super::rights;
use crate::access::users::Table;
use crate::base::units;
use crate::config::Config;
use crate::operations::report::ServerStatus;
use crate::operations::request::{Reply, Request};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub problems: Vec<String>,
    pub warnings: Vec<String>,
}

impl Findings {
    fn problem(&mut self, text: impl Into<String>) {
        add(&mut self.problems, text.into());
    }

    fn warning(&mut self, text: impl Into<String>) {
        add(&mut self.warnings, text.into());
    }

    /// How many there are, as a file's name is followed by it.
    pub fn count(&self) -> String {
        let number = |n: usize, what: &str| units::counted(n as u64, what);
        match (self.problems.len(), self.warnings.len()) {
            (0, 0) => "no errors".into(),
            (0, w) => format!("no errors, {}", number(w, "warning")),
            (p, 0) => number(p, "problem"),
            (p, w) => format!("{}, {}", number(p, "problem"), number(w, "warning")),
        }
    }

    /// All of them, for people; nothing if there are none.
    pub fn text(&self) -> String {
        let part = |head: &str, list: &[String]| match list {
            [] => String::new(),
            list => format!("\n\n{head}\n  - {}", list.join("\n  - ")),
        };
        part("Problems:", &self.problems) + &part("Warnings:", &self.warnings)
    }
}

/// Adds a finding, once.
fn add(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

/// The server that serves the site now, as far as it matters here.
#[derive(Debug, Default)]
struct Running {
    /// The directory of its spool, which another one may replace when it is restarted.
    data: PathBuf,
    pid: u32,
    /// Where it listens, ports resolved.
    listen: Vec<String>,
    /// Its groups with their flags.
    groups: Vec<(String, String)>,
}

/// Looks at everything.
pub(super) fn look(config: &Arc<Config>, users: &mut Option<Table>) -> Findings {
    let mut found = Findings::default();
    match rights::users_of(config) {
        Ok(table) => *users = table,
        Err(failure) => found.problem(failure.to_string().trim_start_matches("newsreel: ")),
    }
    let running = running(config, &mut found);
    let here = running.as_ref().filter(|running| running.data == config.site.data);
    files::look(config, here, &mut found);
    let groups = spool::look(config, here, &mut found);
    sockets::look(config, running.as_ref(), &mut found);
    tls::look(config, &mut found);
    programs::look(config, &groups, &mut found);
    groups::look(config, &groups, &mut found);
    machine::look(config, running.as_ref(), &mut found);
    if let Some(advice) = config.identity_advice() {
        found.warning(advice);
    }
    found
}

fn running(config: &Config, found: &mut Findings) -> Option<Running> {
    let mut control = match Control::find_by(&config.file, &config.site.data) {
        Ok(Listening::Server(control)) => control,
        Ok(Listening::Silent | Listening::Nobody) => return None,
        Err(failure) => {
            let text = failure.to_string();
            let why = text.trim_start_matches("newsreel: ");
            found.warning(format!("it is not known whether a server runs: {why}"));
            return None;
        }
    };
    let mut running = Running { data: control.data().to_owned(), ..Running::default() };
    let mut hear = |reply: Reply| match reply {
        Reply::Status(report) => {
            let ServerStatus { pid, listen, .. } = report.server.unwrap_or_default();
            (running.pid, running.listen) = (pid, listen);
        }
        Reply::Group(group) => running.groups.push((group.name, group.flag)),
        _ => {}
    };
    let heard = control
        .ask(&Request::STATUS, &mut hear)
        .and_then(|_| control.ask(&Request::GroupList { wildmat: None }, &mut hear));
    if let Err(failure) = heard {
        found.warning(failure.to_string().trim_start_matches("newsreel: "));
    }
    Some(running)
}
