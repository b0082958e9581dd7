//! `verify` and `verify --repair` on an open spool.

use spool::Spool;
use spool::verify::{Finding, VerifyReport};

use super::request::Reply;
use super::sink::{self, Sink};
use super::state_files::{self, StateDamage};
use site_base::units::counted;

/// Checks everything; returns true if no problem was found.
pub(super) fn verify(spool: &Spool, sink: &mut Sink<'_>) -> bool {
    let report = spool.verify(&sink::ProgressRelay::new(sink));
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
pub(super) fn repair(spool: &Spool, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let report = spool.repair(dry_run, &sink::ProgressRelay::new(sink));
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
