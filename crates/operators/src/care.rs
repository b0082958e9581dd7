//! `verify` and `verify --repair` on an open spool.

use spool::{Finding, Spool, VerifyReport};

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::{self, Sink};
use super::state_files::{self, StateDamage};
use clap::Args;
use serde::{Deserialize, Serialize};
use site_base::units::counted;

/// Check every article, index and file, and repair what can be repaired
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Check every article, index and file against its checksum and against the others: buffers and their \
    bitmaps, journal, checkpoint, history, overview, active, residents, dictionaries. A running server continues to \
    serve. Each problem is reported with what it means. With --repair each is repaired if possible, and everything is \
    checked again; no repair removes anything that can be read. Exit code 1 if anything is (still) wrong."
)]
pub struct VerifyOperation {
    /// Repair what is wrong, one problem after the other, whether the server runs or not
    #[arg(long)]
    pub repair: bool,
    /// With --repair: only show what would be done
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Operation for VerifyOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        if self.repair { repair(site.spool(), self.dry_run, sink) } else { verify(site.spool(), sink) }
    }
}

/// Checks everything; returns true if no problem was found.
fn verify(spool: &Spool, sink: &mut Sink<'_>) -> bool {
    let report = spool.verifier().verify(&sink::ProgressRelay::new(sink));
    let state = state_of(spool);
    report.findings.iter().for_each(|finding| sink(problem(finding)));
    state.iter().for_each(|damage| sink(state_problem(damage)));
    sink(Reply::Text(summary(&report, &state)));
    report.problems() == 0 && state.is_empty()
}

/// Returns the damage in the small files of the site.
fn state_of(spool: &Spool) -> Vec<StateDamage> {
    state_files::damaged(&**spool.disk(), &spool.config().dir)
}

fn state_problem(damage: &StateDamage) -> Reply {
    Reply::Problem(format!("{}: {}", damage.file.display(), damage.what))
}

/// Repairs what can be repaired, or reports what would be done; returns true if no problem is left.
fn repair(spool: &Spool, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let report = spool.repairer().repair(dry_run, &sink::ProgressRelay::new(sink));
    if report.repaired.is_empty() {
        for finding in &report.before.findings {
            sink(problem(finding));
            sink(Reply::Repair { what: finding.repair().unwrap_or_default().into(), error: None });
        }
    }
    for repaired in &report.repaired {
        sink(problem(&repaired.finding));
        let what = repaired.finding.repair().unwrap_or_default().into();
        let error = repaired.result.as_ref().err().map(ToString::to_string);
        sink(Reply::Repair { what, error });
    }
    // A damaged small file is set aside when it is next read; its contents cannot be restored.
    let state = state_of(spool);
    for damage in &state {
        sink(state_problem(damage));
        sink(Reply::Repair { what: String::new(), error: None });
    }
    sink(Reply::Text(summary(&report.before, &state)));
    let spool_is_well = match &report.after {
        None => report.before.problems() == 0,
        Some(after) => {
            sink(Reply::Text(format!("after the repair: {}", summary(after, &state))));
            after.problems() == 0
        }
    };
    spool_is_well && state.is_empty()
}

fn problem(finding: &Finding) -> Reply {
    Reply::Problem(format!("{}: {}", finding.place, finding.what))
}

fn summary(report: &VerifyReport, state: &[StateDamage]) -> String {
    format!(
        "checked {}, {}, {} and {}{}: {}",
        counted(report.groups, "group"),
        counted(report.numbers, "article number"),
        counted(report.history, "history entry"),
        counted(report.records, "record"),
        if report.hidden > 0 {
            format!(", {}", counted(report.hidden, "hidden article"))
        } else {
            String::new()
        },
        match report.problems() + state.len() as u64 {
            0 => "all is well".to_owned(),
            n if report.more > 0 => format!(
                "{}, of which the first {} are listed",
                counted(n, "problem"),
                report.findings.len() + state.len()
            ),
            n => counted(n, "problem"),
        }
    )
}
