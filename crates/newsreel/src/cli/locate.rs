//! The site that a command works on.

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;

use super::owner;
use super::screen::{CliError, complain};
use site_config::{Config, ConfigError};

/// Selection of the site.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct SiteLocation {
    /// The configuration [default: the first newsreel.toml in ., newsreel-data, run, /etc/newsreel,
    /// /var/lib/newsreel]
    #[arg(short, long, value_name = "FILE", global = true, env = "NEWSREEL_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// The site's directory, as given to up or init
    #[arg(long, value_name = "DIR", global = true, conflicts_with = "config")]
    pub(super) dir: Option<PathBuf>,
}

/// Directories searched for a site if none is named, in this order.
const SITE_DIRS: [&str; 5] = ["", "newsreel-data", "run", "/etc/newsreel", "/var/lib/newsreel"];

/// Name of the configuration in a site's directory.
pub(super) const CONFIG_FILE_NAME: &str = "newsreel.toml";

impl SiteLocation {
    /// Returns the configuration's file: the one named, or the first of the usual ones that exists.
    pub(super) fn file(&self) -> Result<PathBuf, CliError> {
        if let Some(file) = &self.config {
            return Ok(file.clone());
        }
        if let Some(dir) = &self.dir {
            return Ok(dir.join(CONFIG_FILE_NAME));
        }
        let usual = || SITE_DIRS.iter().map(|dir| PathBuf::from(dir).join(CONFIG_FILE_NAME));
        let mut found: Vec<PathBuf> = usual().filter(|file| file.is_file()).collect();
        if found.is_empty() {
            // A file that another user's site may have is better than none.
            let is_forbidden = |file: &PathBuf| {
                file.metadata().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
            };
            found.extend(usual().find(is_forbidden));
        }
        match found.as_slice() {
            [] => Err(CliError::Usage(format!(
                "no site found in . or {}; name one with --dir DIR or --config FILE, or make one with: \
                 newsreel up",
                SITE_DIRS[1..].join(", ")
            ))),
            [one] => Ok(one.clone()),
            [first, others @ ..] => {
                let others: Vec<String> = others.iter().map(|file| file.display().to_string()).collect();
                complain(format_args!(
                    "newsreel: using {}, though there is also {}; choose with --dir or --config",
                    first.display(),
                    others.join(" and ")
                ));
                Ok(first.clone())
            }
        }
    }

    /// Reads the configuration.
    pub(super) fn load(&self) -> Result<Config, CliError> {
        site_config::load(&self.file()?).map_err(|error| match error {
            ConfigError::Unreadable { file, error } if error.kind() == ErrorKind::PermissionDenied => {
                let advice = owner::advice(&file);
                CliError::Usage(format!("cannot read {}: {advice}", file.display()))
            }
            error => error.into(),
        })
    }
}
