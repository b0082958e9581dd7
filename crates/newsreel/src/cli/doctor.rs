//! `doctor`: whether the machine suits the site, in one line for each check.
//!
//! The checks of `check` come first, by the same functions (`preflight`); then `paths` checks file systems
//! and owners, `host` memory, clock and service, `network` names, our own ports and the servers that the
//! configuration names. Nothing is changed, and no check takes longer than a few seconds.

mod host;
mod network;
mod paths;

use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::locate::SiteLocation;
use super::preflight::{self, CheckResult, Findings, RunningServer};
use super::screen::{CliError, say, say_json};
use super::table::Columns;
use site_base::units;
use site_config::Config;

/// Options of `doctor`.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct DoctorOptions {
    /// Do not look up names or connect to other servers
    #[arg(long)]
    offline: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckHealth {
    Ok,
    Warning,
    Fault,
}

/// One line of the report: a subject, its health, and what was found, with advice if it is a problem.
#[derive(Debug, Serialize)]
struct DoctorLine {
    about: &'static str,
    health: CheckHealth,
    text: String,
}

pub(super) fn doctor(at: &SiteLocation, options: &DoctorOptions) -> Result<(), CliError> {
    let config = Arc::new(at.load()?);
    let lines = lines(&config, options.offline)?;
    let count = |health| lines.iter().filter(|line| line.health == health).count() as u64;
    let faults = count(CheckHealth::Fault);
    if options.json {
        say_json(&lines)?;
    } else {
        let word = |line: &DoctorLine| match line.health {
            CheckHealth::Ok => "ok",
            CheckHealth::Warning => "warning",
            CheckHealth::Fault => "FAULT",
        };
        let table = Columns::of(&lines).left("", |line| word(line).into()).left("", |line| line.about.into());
        let table = table.left("", |line| line.text.clone()).text();
        let (faults, warnings) = (units::counted(faults, "fault"), count(CheckHealth::Warning));
        say(format_args!("{}\n\n{faults}, {}", table.trim_start(), units::counted(warnings, "warning")))?;
    }
    if faults == 0 { Ok(()) } else { Err(CliError::Told) }
}

fn lines(config: &Arc<Config>, offline: bool) -> Result<Vec<DoctorLine>, CliError> {
    let (mut parts, running) = preflight::parts(config, &mut None);
    parts.push(server(config, running.as_ref()));
    parts.extend(paths::parts(config));
    parts.extend(host::parts(config));
    parts.extend(network::parts(config, running.as_ref(), offline)?);
    let mut lines = Vec::new();
    for CheckResult { about, well, found: Findings { problems, warnings } } in parts {
        let mut add = |health, text| lines.push(DoctorLine { about, health, text });
        if problems.is_empty() && warnings.is_empty() {
            add(CheckHealth::Ok, well);
        }
        problems.into_iter().for_each(|text| add(CheckHealth::Fault, text));
        warnings.into_iter().for_each(|text| add(CheckHealth::Warning, text));
    }
    Ok(lines)
}

/// Returns the result of a check without problems; `well` is its line as long as none is added.
fn part(about: &'static str, well: impl Into<String>) -> CheckResult {
    CheckResult { about, well: well.into(), found: Findings::default() }
}

/// Checks whether a server runs, and names the process of the last one otherwise.
fn server(config: &Config, running: Option<&RunningServer>) -> CheckResult {
    if let Some(RunningServer { pid, uptime_secs, .. }) = running {
        return part("server", format!("has run as process {pid} for {}", units::about_span(*uptime_secs)));
    }
    let last = std::fs::read_to_string(config.site.data.join("lock")).unwrap_or_default();
    match last.trim() {
        "" => part("server", "does not run"),
        pid => part("server", format!("does not run; the last one was process {pid}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_config::testing::with_trash;

    #[test]
    fn problems_replace_the_line_for_a_healthy_part() {
        let config = Arc::new(with_trash(""));
        let lines = lines(&config, true).unwrap();
        let of = |about: &str| lines.iter().filter(|line| line.about == about).collect::<Vec<_>>();
        let spool = of("spool");
        assert!(spool.iter().any(|line| line.health == CheckHealth::Fault), "{lines:#?}");
        assert!(spool.iter().all(|line| line.health != CheckHealth::Ok), "{lines:#?}");
        assert_eq!(of("memory").len(), 1);
        assert!(of("ports").iter().all(|line| line.text.contains("no server runs")), "{lines:#?}");
        assert!(of("peers").is_empty() && of("dns").is_empty(), "{lines:#?}");
    }
}
