//! `group add|set|remove|list|import|export`.

use std::collections::HashSet;
use std::path::Path;

use netnews::newsgroups::{self, NamingFault};

use super::args::GroupCommand;
use super::groups_file::GroupsFileError;
use super::locate::SiteLocation;
use super::screen::{CliError, complain, say, say_json};
use super::table::Columns;
use super::{group_sync, groups_file, reach};
use operators::groups::{
    GroupAddOperation, GroupEntry, GroupListOperation, GroupRemoveOperation, GroupSetOperation,
};
use operators::reply::{GroupListRow, Reply};
use operators::request::Request;
use site::moderation;
use site_base::units::{counted, grouped};
use site_config::Config;

pub(super) fn run(command: GroupCommand, at: &SiteLocation) -> Result<(), CliError> {
    if let GroupCommand::Sync(options) = &command {
        return group_sync::sync(options, at);
    }
    let config = at.load()?;
    match command {
        GroupCommand::Sync(_) => Ok(()),
        GroupCommand::Add { names, flag, description } => {
            let entry = |name| GroupEntry {
                name,
                flag: flag.clone(),
                description: description.clone(),
                high: 0,
                ..GroupEntry::default()
            };
            let groups = names.into_iter().map(entry).collect();
            change(&config, GroupAddOperation { groups }, "added", true)
        }
        GroupCommand::Set { name, flag, description } => {
            change(&config, GroupSetOperation { name, flag, description }, "changed", true)
        }
        GroupCommand::Remove { names } => change(&config, GroupRemoveOperation { names }, "removed", true),
        GroupCommand::List { wildmat, json } => list(&config, wildmat, json),
        GroupCommand::Import { file, times } => {
            let wrong =
                |file: &Path, error: GroupsFileError| CliError::Usage(format!("{}: {error}", file.display()));
            let text = groups_file::read(&file)?;
            let mut groups = groups_file::parse(&text).map_err(|error| wrong(&file, error))?;
            if let Some(times) = times {
                let text = groups_file::read(&times)?;
                groups_file::add_times(&text, &mut groups).map_err(|error| wrong(&times, error))?;
            }
            change(&config, GroupAddOperation { groups }, "added", false)
        }
        GroupCommand::Export { active, times } => {
            let line = match (active, times) {
                (true, _) => groups_file::active_text,
                (_, true) => groups_file::times_text,
                _ => groups_file::list_text,
            };
            rows(&config, None)?.iter().try_for_each(|group| say(line(group)))
        }
    }
}

/// Reports which moderated groups of the site have no moderator.
pub(super) fn advise_on_moderators(config: &Config) -> Result<(), CliError> {
    let rows = rows(config, None)?;
    let moderated = rows.iter().filter(|group| group.flag == "m").map(|group| group.name.as_str());
    if let Some(advice) = moderation::advice(config, moderated) {
        complain(format_args!("newsreel: {advice}"));
    }
    Ok(())
}

/// Warns about faults in the names of groups that were added.
pub(super) fn advise_on_names<'a>(names: impl Iterator<Item = &'a str>) {
    for name in names {
        if let Some(fault) =
            newsgroups::naming_fault(name.as_bytes()).filter(|fault| *fault != NamingFault::Poster)
        {
            complain(format_args!("newsreel: warning: group {name}: {fault}"));
        }
    }
}

/// Carries out a change and reports each group, or without `each` only failures and the count.
fn change(config: &Config, request: impl Into<Request>, done: &str, each: bool) -> Result<(), CliError> {
    let request = request.into();
    let added = match &request {
        Request::GroupAdd(add) => add.groups.iter().map(|group| group.name.clone()).collect(),
        _ => Vec::new(),
    };
    let moderated = moderated(&request);
    let (mut changed_count, mut same_count) = (0, 0);
    let (mut said, mut failed) = (Ok(()), HashSet::new());
    let ok = reach::ask(config, request, &mut |reply| match reply {
        Reply::Changed { name, error: Some(error), .. } => {
            complain(format_args!("newsreel: {name}: {error}"));
            failed.insert(name);
        }
        Reply::Changed { name, changed, .. } => {
            let word = if changed { done } else { "is there already" };
            *if changed { &mut changed_count } else { &mut same_count } += 1;
            if each && said.is_ok() {
                said = say(format_args!("{name} {word}"));
            }
        }
        _ => {}
    })?;
    said?;
    // No advice about groups that failed.
    let is_done = |name: &&str| !failed.contains(*name);
    advise_on_names(added.iter().map(String::as_str).filter(is_done));
    if let Some(advice) = moderation::advice(config, moderated.iter().map(String::as_str).filter(is_done)) {
        complain(format_args!("newsreel: {advice}"));
    }
    if !each {
        let (changed, same) = (counted(changed_count, "group"), grouped(same_count));
        say(format_args!("{changed} {done}, already there: {same}"))?;
    }
    if ok { Ok(()) } else { Err(CliError::Told) }
}

/// Returns the names of the groups that a request makes moderated.
fn moderated(request: &Request) -> Vec<String> {
    match request {
        Request::GroupAdd(add) => {
            let moderated = add.groups.iter().filter(|group| group.flag == "m");
            moderated.map(|group| group.name.clone()).collect()
        }
        Request::GroupSet(set) if set.flag.as_deref() == Some("m") => vec![set.name.clone()],
        _ => Vec::new(),
    }
}

fn rows(config: &Config, wildmat: Option<String>) -> Result<Vec<GroupListRow>, CliError> {
    reach::rows(config, GroupListOperation { wildmat })
}

fn list(config: &Config, wildmat: Option<String>, json: bool) -> Result<(), CliError> {
    let asked = wildmat.clone();
    let rows = rows(config, wildmat)?;
    if json {
        say_json(&rows)?;
    }
    if let (Some(wildmat), true) = (asked, rows.is_empty()) {
        complain(format_args!("newsreel: no group matches {wildmat}"));
        return Err(CliError::Told);
    }
    if json {
        return Ok(());
    }
    let columns = Columns::of(&rows)
        .left("group", |row| row.name.clone())
        .left("flag", |row| row.flag.clone())
        .right("articles", |row| row.count.to_string())
        .right("low", |row| row.low.to_string())
        .right("high", |row| row.high.to_string())
        .left("description", |row| row.description.clone());
    say(columns.text())
}
