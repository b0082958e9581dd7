//! `newsreel snapshot`: the news of a site in one file.

use super::operation::{OperatedSite, Operation};
use super::reply::Reply;
use super::sink::{self, Sink};
use clap::Args;
use serde::{Deserialize, Serialize};
use site_base::units::{about_size, counted};
use spool::Spool;
use std::path::{Path, PathBuf};

/// Write all news of the site to one file, from which newsreel restore makes a site
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Write all news of the site to one file: articles with their numbers, groups, remembered \
    Message-IDs, what is hidden. A running server continues to serve and to accept meanwhile, and writes the file \
    itself. newsreel restore makes a site of it, on this machine or another, in buffers and classes of any kind. An \
    interrupted snapshot is continued when the command is repeated soon. Configuration, users and keys are files of \
    their own, to be copied beside it. The file has the secret of the site: keep it from others."
)]
#[command(after_long_help = "Examples:\n  newsreel snapshot /backup/news.snapshot")]
pub struct SnapshotOperation {
    /// The file; it must not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl Operation for SnapshotOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        snapshot(site.spool(), &self.file, sink)
    }
}

fn snapshot(spool: &Spool, file: &Path, sink: &mut Sink<'_>) -> bool {
    let written = spool.snapshots().write(file, &sink::ProgressRelay::new(sink));
    let report = match written {
        Ok(report) => report,
        Err(error) => {
            sink(Reply::Error(error.to_string()));
            return false;
        }
    };
    let continued = if report.is_continued { "continued and " } else { "" };
    sink(Reply::Text(format!(
        "{continued}written to {}: {}, {} without an article, {}",
        file.display(),
        counted(report.articles, "article"),
        counted(report.ids, "Message-ID"),
        about_size(report.bytes),
    )));
    if report.unreadable > 0 {
        let articles = counted(report.unreadable, "article");
        sink(Reply::Error(format!("{articles} could not be read; newsreel verify says why")));
    }
    report.unreadable == 0
}
