//! `newsreel snapshot`: the news of a site in one file.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::{self, Sink};
use clap::Args;
use serde::{Deserialize, Serialize};
use site_base::units::{about_size, counted};
use spool::{SnapshotReport, SpoolError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Write all news of the site to one file, from which newsreel restore makes a site
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Write all news of the site to one file: articles with their numbers, groups, remembered \
    Message-IDs, what is hidden. A running server continues to serve and to accept meanwhile, and writes the file \
    itself, so it must be allowed to. newsreel restore makes a site of it, on this machine or another, in buffers and \
    classes of any kind. An interrupted snapshot is continued when the command is repeated soon. Configuration, users \
    and keys are files of their own, to be copied beside it. The file has the secret of the site: keep it from others."
)]
#[command(after_long_help = "Examples:\n  newsreel snapshot /backup/news.snapshot")]
pub struct SnapshotOperation {
    /// The file, a name that nothing has yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl Operation for SnapshotOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let file = &self.file;
        let is_over = || site.is_over();
        let written = site.spool().snapshots().write(file, &is_over, &sink::ProgressRelay::new(sink));
        let is_running = matches!(site, OperatedSite::Running { .. });
        match written {
            Ok(report) => written_well(file, &report, sink),
            Err(error) => {
                let why = if is_running && is_out_of_reach(&error) { SERVER_WRITES } else { "" };
                sink(Reply::Error(format!("{error}{why}")));
                false
            }
        }
    }
}

/// Cure for a file that the command could write and the server cannot.
const SERVER_WRITES: &str = ". The running server writes the file: it needs the right to, and under systemd \
                             ReadWritePaths= in its unit (newsreel.service.d/backup.conf)";

/// Returns whether the error is of a place where the process may not write.
fn is_out_of_reach(error: &SpoolError) -> bool {
    const KINDS: [ErrorKind; 3] =
        [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::NotFound];
    matches!(error, SpoolError::Io { source, .. } if KINDS.contains(&source.kind()))
}

/// Replies with what was written; returns whether it is everything.
fn written_well(file: &Path, report: &SnapshotReport, sink: &mut Sink<'_>) -> bool {
    let continued = if report.is_continued { "continued and " } else { "" };
    sink(Reply::Text(format!(
        "{continued}written to {}: {}, {} without an article, {}",
        file.display(),
        counted(report.articles, "article"),
        counted(report.ids, "Message-ID"),
        about_size(report.bytes),
    )));
    if report.in_no_group > 0 {
        let articles = counted(report.in_no_group, "article");
        sink(Reply::Text(format!("{articles} in no group any more: the file has the Message-ID alone")));
    }
    if report.unreadable > 0 {
        let articles = counted(report.unreadable, "article");
        sink(Reply::Error(format!("{articles} could not be read; newsreel verify says why")));
    }
    report.unreadable == 0
}
