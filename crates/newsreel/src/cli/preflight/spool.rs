//! Checks whether the spool can be opened, and lists its groups.

use std::sync::Arc;

use disk::{Disk, RealDisk};
use spool::{Inspection, inspect};

use super::super::reach;
use super::{Findings, RunningServer};
use site_config::Config;

/// Returns the groups with their flags.
pub(super) fn look(
    config: &Config,
    running: Option<&RunningServer>,
    found: &mut Findings,
) -> Vec<(String, String)> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    match reach::missing(config) {
        Ok(missing) => missing.into_iter().for_each(|text| found.problem(text)),
        Err(error) => found.problem(error.to_string()),
    }
    let Inspection { groups, problems, .. } = inspect(&disk, &config.spool_config(), running.is_some());
    problems.iter().for_each(|problem| found.problem(problem.to_string()));
    match running {
        Some(running) => running.groups.clone(),
        None => groups.into_iter().map(|(name, flag)| (name, flag.to_string())).collect(),
    }
}
