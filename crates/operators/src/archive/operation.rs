//! `newsreel archive`: state of the archives, and articles that went without a copy.

use super::Archives;
use crate::Sink;
use crate::operation::{OperatedSite, Operation};
use crate::reply::Reply;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use spool::Spool;
use std::sync::Arc;

/// Display of the archives' state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArchiveCommand {
    /// Show the state of the archives
    Status {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// List the articles that were not copied: Unix seconds, the archive, groups and numbers, and why;
    /// the newest 16 MiB of it are kept
    Missed,
}

/// Show the state of archives, and articles that were not copied
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
#[command(
    long_about = "Show the state of the [[archive]] sections, and articles that were not copied, whether the \
    server runs or not. A running server copies articles by itself; docs/archive.md says what is promised."
)]
#[command(after_long_help = "Examples:\n  newsreel archive status\n  newsreel archive missed")]
pub struct ArchiveOperation {
    #[command(subcommand)]
    /// State to show.
    pub command: ArchiveCommand,
}

impl Operation for ArchiveOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let spool = site.spool();
        let archives = match site {
            OperatedSite::Running { server, .. } => server.archives.clone(),
            OperatedSite::Stopped { config, .. } => Arc::new(Archives::of(config, spool.disk())),
        };
        execute(&archives, spool, &self.command, sink)
    }
}

pub(super) fn execute(
    archives: &Archives,
    spool: &Spool,
    command: &ArchiveCommand,
    sink: &mut Sink<'_>,
) -> bool {
    match command {
        ArchiveCommand::Status { .. } => {
            archives.status(spool).into_iter().for_each(|status| sink(Reply::Archive(status)));
            true
        }
        ArchiveCommand::Missed => match archives.log.lines() {
            Ok(lines) => {
                lines.into_iter().for_each(|line| sink(Reply::Text(line)));
                true
            }
            Err(error) => {
                sink(Reply::Error(format!("cannot read which articles went without a copy: {error}")));
                false
            }
        },
    }
}
