//! `verify` and `verify --repair` on an open spool.

use spool::Spool;
use spool::verify::{Finding, VerifyReport};

use super::request::Reply;
use super::sink::{self, Sink};

/// Checks everything; true if all is well.
pub(super) fn verify(spool: &Spool, sink: &mut Sink<'_>) -> bool {
    let report = spool.verify(&sink::Relay::new(sink));
    report.findings.iter().for_each(|finding| sink(problem(finding)));
    sink(Reply::Text(summary(&report)));
    report.problems() == 0
}

/// Mends what can be mended, or tells what would be done; true if nothing is wrong afterwards.
pub(super) fn repair(spool: &Spool, dry_run: bool, sink: &mut Sink<'_>) -> bool {
    let report = spool.repair(dry_run, &sink::Relay::new(sink));
    if report.repaired.is_empty() {
        for finding in &report.before.findings {
            sink(problem(finding));
            sink(Reply::Repair { what: finding.repair().unwrap_or_default().into(), error: None });
        }
    }
    for repaired in &report.repaired {
        sink(problem(&repaired.finding));
        let what = repaired.finding.repair().unwrap_or_default().into();
        sink(Reply::Repair { what, error: repaired.result.clone().err() });
    }
    sink(Reply::Text(summary(&report.before)));
    match &report.after {
        None => report.before.problems() == 0,
        Some(after) => {
            sink(Reply::Text(format!("after the repair: {}", summary(after))));
            after.problems() == 0
        }
    }
}

fn problem(finding: &Finding) -> Reply {
    Reply::Problem(format!("{}: {}", finding.place, finding.what))
}

fn summary(report: &VerifyReport) -> String {
    format!(
        "checked {} groups, {} article numbers, {} history entries and {} records{}: {}",
        report.groups,
        report.numbers,
        report.history,
        report.records,
        if report.hidden > 0 { format!(", {} hidden articles", report.hidden) } else { String::new() },
        match report.problems() {
            0 => "all is well".to_owned(),
            1 => "1 problem".to_owned(),
            n if report.more > 0 =>
                format!("{n} problems, of which the first {} are listed", report.findings.len()),
            n => format!("{n} problems"),
        }
    )
}
