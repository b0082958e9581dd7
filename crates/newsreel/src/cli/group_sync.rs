//! `group sync`.

use clap::Args;

use super::locate::SiteLocation;
use super::pull::{LinkOptions, address};
use super::reach;
use super::screen::{CliError, complain, problem, say};
use operators::group_sync;
use operators::group_sync::SyncChanges;
use operators::groups::{GroupListOperation, GroupUpdateOperation};
use operators::operation::in_runtime;
use operators::reply::Reply;
use site_base::units::counted;
use site_config::NamePattern;
use tokio::runtime::Handle;

/// Options of `group sync`.
#[derive(Debug, Args)]
pub(super) struct SyncOptions {
    /// The server, HOST:PORT (HOST alone: port 119, or 563 with --tls implicit)
    server: String,
    /// The groups to compare, such as comp.*,sci.*; control, control.*, junk, to and to.* never are
    #[arg(long, value_name = "WILDMAT", default_value = "*,!local.*")]
    groups: String,
    /// Remove groups that the server does not have
    #[arg(long)]
    remove: bool,
    /// Do nothing if more than this percentage of the groups compared here would be removed
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = clap::value_parser!(u8).range(0..=100))]
    remove_max: u8,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    link: LinkOptions,
}

pub(super) fn sync(options: &SyncOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let wanted = NamePattern::parse(&options.groups).map_err(|error| CliError::Usage(error.to_string()))?;
    let dial = options.link.dial(&address(&options.server, options.link.tls)?);
    let fetched = || Handle::current().block_on(group_sync::fetch(&dial, &wanted));
    let lists = in_runtime(fetched).map_err(problem)?;
    let lists = lists.map_err(|error| CliError::Problem(format!("{}: {error}", dial.to)))?;
    let here = reach::rows(&config, GroupListOperation { wildmat: None })?;
    let changes = group_sync::compare(&here, &lists, &wanted);
    tell(&changes, options)?;
    let removed = if options.remove { changes.surplus.clone() } else { Vec::new() };
    check_share(&changes, removed.len(), options)?;
    let summary = format!(
        "{}, {} changed, {}",
        counted(changes.add.len() as u64, "group") + " added",
        changes.set.len(),
        match options.remove {
            true => format!("{} removed", removed.len()),
            false => format!("{} not there, which stay (--remove removes them)", changes.surplus.len()),
        }
    );
    if options.dry_run {
        return say(format_args!("would be done: {summary}"));
    }
    let SyncChanges { add, set, .. } = changes;
    if !(add.is_empty() && set.is_empty() && removed.is_empty()) {
        let request = GroupUpdateOperation { add, set, remove: removed };
        let mut is_refused = false;
        let ok = reach::ask(&config, request, &mut |reply| {
            if let Reply::Changed { name, error: Some(error), .. } = reply {
                complain(format_args!("newsreel: {name}: {error}"));
                is_refused = true;
            }
        })?;
        if !ok {
            return Err(CliError::Told);
        }
    }
    say(summary)
}

fn tell(changes: &SyncChanges, options: &SyncOptions) -> Result<(), CliError> {
    for group in &changes.add {
        say(format_args!("add {} {} {}", group.name, group.flag, group.description))?;
    }
    for group in &changes.set {
        let flag = group.flag.as_ref().map(|flag| format!(" flag {flag}")).unwrap_or_default();
        let text = group.description.as_ref().map(|text| format!(" description {text}")).unwrap_or_default();
        say(format_args!("change {}:{flag}{text}", group.name))?;
    }
    let word = if options.remove { "remove" } else { "not there" };
    changes.surplus.iter().try_for_each(|name| say(format_args!("{word} {name}")))
}

/// Refuses to remove too large a share of the groups: a server that has lost its groups, or shows only some,
/// must not empty this one.
fn check_share(changes: &SyncChanges, removed: usize, options: &SyncOptions) -> Result<(), CliError> {
    if removed * 100 <= changes.compared * usize::from(options.remove_max) {
        return Ok(());
    }
    Err(CliError::Problem(format!(
        "nothing is done: {removed} of the {} groups compared here would be removed, more than {} %; if that is \
         meant, say so with --remove-max",
        changes.compared, options.remove_max
    )))
}
