//! `newsreel status`, and the question whether a server runs.

use crate::Sink;
use crate::operation::{OperatedSite, Operation, replied};
use crate::reply::Reply;
use crate::report;
use clap::Args;
use serde::{Deserialize, Serialize};
use site_config::Config;
use spool::Glance;
use std::path::PathBuf;
use std::{fs, io};
use tokio::runtime::Handle;

/// Asks whether the server is running, and with which configuration; answered by [`Reply::Serving`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingOperation {}

impl Operation for PingOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let Some(server) = site.server(sink) else { return false };
        let file = whole(server.site.config.load().file.clone());
        replied(file.map(|file| Reply::Serving { file }), sink)
    }

    fn is_for_control_group(&self) -> bool {
        true
    }
}

/// Returns the absolute path of a file that exists, or existed.
fn whole(file: PathBuf) -> io::Result<PathBuf> {
    fs::canonicalize(&file).or_else(|_| std::path::absolute(&file))
}

/// Show the state of the server and its spool
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct StatusOperation {
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
}

impl Operation for StatusOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let report = match site {
            OperatedSite::Running { server, .. } => {
                // Refreshed, so that the figures include what the operator did a moment ago.
                Handle::current().block_on(server.measuring.refresh(report::FRESH_TIMEOUT));
                Ok(server.report())
            }
            OperatedSite::Stopped { spool, config } => report::of_spool(spool, config),
        };
        replied(report.map(|report| Reply::Status(Box::new(report))), sink)
    }

    fn is_for_control_group(&self) -> bool {
        true
    }

    fn glance(&self, config: &Config, glance: &Glance, why: &str, sink: &mut Sink<'_>) -> bool {
        sink(Reply::Status(Box::new(report::of_closed(glance, why.to_owned(), config))));
        true
    }
}
