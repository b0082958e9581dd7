//! Advice for a site that the system denies us because it belongs to another user.
//!
//! Used where a configuration is read, a control socket connected and a spool opened.

use site_config::Config;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File with the names of users.
const USERS_FILE: &str = "/etc/passwd";

/// Returns the command to type instead, as the owner of `path` or of its nearest accessible parent.
pub(super) fn advice(path: &Path) -> String {
    let owner = path.ancestors().find_map(|part| {
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        Some(fs::metadata(part).ok()?.uid())
    });
    let user = user_name(owner.unwrap_or_default());
    format!("it belongs to the user {user}; type: sudo -u {user} {}", command())
}

/// Refusal of root in a site that belongs to another user.
#[derive(Debug)]
pub(super) struct SiteOfAnother {
    /// The site's directory.
    data: PathBuf,
    /// Its owner.
    user: String,
}

impl fmt::Display for SiteOfAnother {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (data, user) = (self.data.display(), &self.user);
        write!(
            f,
            "the site {data} belongs to the user {user}, whose server could not read what root makes there; \
             type: runuser -u {user} -- {}",
            command()
        )
    }
}

impl std::error::Error for SiteOfAnother {}

/// Refuses root a site that belongs to another user, by its directory or its configuration: the server could
/// not read files made by root, and its user could lead root to other files.
pub(super) fn refuse_root(config: &Config) -> Result<(), SiteOfAnother> {
    let data = &config.site.data;
    let owners = [data, &config.file].map(|path| fs::metadata(path).map_or(0, |about| about.uid()));
    match owners.into_iter().find(|owner| *owner != 0) {
        Some(owner) if rustix::process::geteuid().is_root() => {
            Err(SiteOfAnother { data: data.clone(), user: user_name(owner) })
        }
        _ => Ok(()),
    }
}

/// Returns the name of a user, or the number with a hash sign, as `sudo` accepts it.
pub(super) fn user_name(uid: u32) -> String {
    let users = fs::read_to_string(USERS_FILE).unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("#{uid}"))
}

/// Returns the command line as typed.
fn command() -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:,@=+".contains(&b))
    };
    let quoted =
        |word: String| if plain(&word) { word } else { format!("'{}'", word.replace('\'', r"'\''")) };
    std::env::args_os().map(|word| quoted(word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(u32::MAX - 7), format!("#{}", u32::MAX - 7));
        assert!(
            advice(Path::new("/no/such/dir/file"))
                .starts_with("it belongs to the user root; type: sudo -u root ")
        );
    }
}
