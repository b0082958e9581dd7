//! Files of earlier versions whose content is in the spool now.

use site_config::Config;
use site_log::SiteLog;
use spool::Spool;
use std::io;
use std::sync::Arc;

/// Takes the files in the site's directory into a spool that was just opened, so that all it is used for,
/// snapshots among it, finds what they say. The spool of a cluster's member takes them through the log, once
/// the server follows it.
///
/// # Errors
/// If a file cannot be read, or its content cannot be committed; it is read again the next time.
pub fn take_over(spool: &Arc<Spool>, config: &Config) -> io::Result<()> {
    if spool.position().is_some() {
        return Ok(());
    }
    let log = Arc::new(SiteLog::new(spool.clone()));
    ingest::take_over_old_files(config, &log);
    crate::group_control::take_over_old_file(config, &log)
}
