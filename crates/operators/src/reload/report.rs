//! Report of what a reload did, or would do, for the operator's screen and for the log.

use super::NextConfig;
use site::Site;
use site_base::units::counted;
use site_config::{ConfigChange, Difference};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Maximum number of differences that are shown one by one.
const SHOWN_MAX: usize = 40;

/// The changes of a reload.
#[derive(Debug)]
pub struct ReloadReport {
    file: PathBuf,
    /// The changes were applied.
    done: bool,
    now: Vec<String>,
    waiting: Vec<String>,
    tls: bool,
}

impl ReloadReport {
    pub(super) fn new(site: &Site, next: &NextConfig, file: &Path, done: bool) -> Self {
        let line = |difference: &Difference| {
            let peer = difference.section.strip_prefix("[[peer]] ");
            let connections = peer
                .filter(|_| difference.change == ConfigChange::Removed)
                .map_or(0, |peer| site.permits.of_peer(peer));
            let fate = if done { "to be" } else { "would be" };
            match connections {
                0 => difference.to_string(),
                n => format!("{difference}; {} {fate} notified and closed", counted(n as u64, "connection")),
            }
        };
        Self {
            file: file.to_owned(),
            done,
            now: next.differences.iter().map(line).collect(),
            waiting: next.waiting.iter().map(ToString::to_string).collect(),
            tls: next.config.tls.is_offered(),
        }
    }

    /// Returns the report as one line.
    pub fn line(&self) -> String {
        let mut text = match self.now.as_slice() {
            [] => "configuration reloaded: no change".to_owned(),
            now => format!("configuration reloaded: {}", now.join("; ")),
        };
        if !self.waiting.is_empty() {
            let _ = write!(text, "; at the next start: {}", self.waiting.join("; "));
        }
        text
    }

    /// Returns the report as several lines for the screen.
    pub fn screen(&self) -> String {
        let (count, file) = (self.now.len(), self.file.display());
        let changes = match count {
            0 => "no change".to_owned(),
            n => counted(n as u64, "change"),
        };
        let mut text = match self.done {
            true => format!("{file} reloaded: {changes}"),
            false => format!("{file} compared with the running server: {changes}"),
        };
        let mut list = |head: &str, lines: &[String]| {
            if !lines.is_empty() {
                text.push_str(head);
            }
            for line in lines.iter().take(SHOWN_MAX) {
                let _ = write!(text, "\n  {line}");
            }
            if let Some(more) = lines.len().checked_sub(SHOWN_MAX + 1) {
                let _ = write!(text, "\n  and {} more", more + 1);
            }
        };
        list("", &self.now);
        list("\nat the next start:", &self.waiting);
        if self.done && self.tls {
            text.push_str("\ncertificates reloaded");
        }
        text
    }
}
