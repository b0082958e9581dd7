//! Texts for LIST on a new site: a message of the day, and the groups that newsreaders show to new users.
//!
//! Called by `init`. Existing files stay as they are. Sources: RFC 6048 section 2.5, RFC 3977 section 7.6.5.

use disk::{FileAccess, RealDisk, durable_create};
use std::path::Path;

use super::output::make_dir;
use super::screen::CliError;
use operators::groups::GroupEntry;
use site_config::Config;

/// Maximum number of groups that new users are subscribed to.
const SUBSCRIPTIONS_MAX: usize = 50;

/// Creates the lists of a site with these initial groups; without groups there is nothing to list, and only
/// their directory is made.
pub(super) fn make(config: &Config, groups: &[GroupEntry]) -> Result<(), CliError> {
    let dir = &config.site.lists;
    make_dir(dir)?;
    if groups.is_empty() {
        return Ok(());
    }
    write_new(&dir.join("motd"), &motd(config, groups))?;
    write_new(&dir.join("subscriptions"), &subscriptions(groups))
}

fn motd(config: &Config, groups: &[GroupEntry]) -> String {
    let has = |name: &str| groups.iter().any(|group| group.name == name);
    let mut text = format!("Welcome to {}.\n", config.site.path_identity);
    if has("local.general") && has("local.test") {
        text.push_str("\nlocal.general is for talk of all kinds; please post tests to local.test.\n");
    }
    text
}

/// Returns the groups that readers can follow; those of the system are for servers.
fn subscriptions(groups: &[GroupEntry]) -> String {
    let mut text =
        "# Groups that newsreaders offer to new users, one a line (LIST SUBSCRIPTIONS).\n".to_owned();
    let open = groups.iter().filter(|group| ["y", "m"].contains(&group.flag.as_str()));
    open.take(SUBSCRIPTIONS_MAX).for_each(|group| text.push_str(&format!("{}\n", group.name)));
    text
}

fn write_new(path: &Path, text: &str) -> Result<(), CliError> {
    let made = durable_create(&RealDisk::new(), path, &[text.as_bytes()], FileAccess::All);
    made.map(drop).map_err(|error| CliError::Problem(format!("cannot make {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_groups_are_omitted_and_long_lists_cut() {
        let group = |name: &str, flag: &str| GroupEntry {
            name: name.into(),
            flag: flag.into(),
            ..GroupEntry::default()
        };
        let text =
            subscriptions(&[group("a.b", "y"), group("junk", "n"), group("a.m", "m"), group("a.x", "x")]);
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["a.b", "a.m"]);
        let many: Vec<GroupEntry> = (0..500).map(|n| group(&format!("g.n{n}"), "y")).collect();
        assert_eq!(subscriptions(&many).lines().count(), 1 + SUBSCRIPTIONS_MAX);
    }
}
