//! Groups of an import: missing ones are added, and numbers kept where possible.

use std::collections::HashMap;

use super::super::group::advise_on_names;
use super::super::screen::{CliError, complain};
use super::tally::ImportTally;
use super::target::ImportTarget;
use migrate::head;
use migrate::plan::ImportPlan;
use migrate::site::OtherSite;
use netnews::newsgroups::is_local_name;
use operators::explain::ExplainOperation;
use operators::groups::{GroupAddOperation, GroupEntry, GroupListOperation, RaiseHighOperation};
use operators::reply::Reply;
use site_config::{Config, NamePattern};

/// Adds the groups that are missing: those of the active file, or without one those that articles are in.
pub(super) fn add(
    config: &Config,
    other: &OtherSite,
    plan: &ImportPlan,
    wanted: Option<&NamePattern>,
    target: &mut ImportTarget,
    tally: &mut ImportTally,
) -> Result<(), CliError> {
    let here = highs(config, target)?;
    let missing =
        |name: &str| !here.contains_key(name) && wanted.is_none_or(|wanted| wanted.matches(name.as_bytes()));
    let named = || {
        let named = plan.groups.iter().filter(|name| missing(name) && !other.groups.contains_key(*name));
        named.map(|name| {
            let flag = if is_local_name(name.as_bytes()) { "n" } else { "y" };
            GroupEntry { name: name.clone(), flag: flag.into(), ..GroupEntry::default() }
        })
    };
    let groups: Vec<GroupEntry> = if other.groups.is_empty() {
        named().collect()
    } else {
        let listed = other.groups.iter().filter(|(name, _)| missing(name));
        let listed = listed.map(|(name, group)| GroupEntry {
            name: name.clone(),
            flag: group.flag.clone(),
            description: group.description.clone(),
            // The articles bring their numbers; the high marks above them are set last.
            high: 0,
            created: group.created,
            creator: group.creator.clone(),
        });
        listed.chain(named().filter(|_| other.has_other_groups)).collect()
    };
    if other.groups.is_empty() && !groups.is_empty() {
        complain(format_args!(
            "newsreel: no list of groups was found, so they are made from what articles say, with flag y; \
             change moderated ones with: newsreel group set NAME --flag m"
        ));
    }
    tally.groups_added = groups.len() as u64;
    if groups.is_empty() || tally.dry_run {
        return Ok(());
    }
    advise_on_names(groups.iter().map(|group| group.name.as_str()));
    let mut failed = 0;
    target.ask(config, GroupAddOperation { groups }, &mut |reply| {
        if let Reply::Changed { name, error: Some(error), .. } = reply {
            complain(format_args!("newsreel: group {name} was not added: {error}"));
            failed += 1;
        }
    })?;
    tally.groups_added -= failed;
    Ok(())
}

/// Returns for each group of the plan whether it keeps the other server's numbers: either all of them are
/// above the numbers used here, or the highest of the others has the same article here, as after an earlier
/// import.
pub(super) fn keep(
    config: &Config,
    other: &OtherSite,
    plan: &ImportPlan,
    target: &mut ImportTarget,
) -> Result<Vec<bool>, CliError> {
    let here = highs(config, target)?;
    let mut keep = vec![true; plan.groups.len()];
    for ((name, kept), list) in plan.groups.iter().zip(&mut keep).zip(plan.numbered.by_group()) {
        let high = here.get(name.as_str()).copied().unwrap_or(0);
        let before = list.partition_point(|(number, _)| *number <= high);
        let Some((number, article)) = before.checked_sub(1).and_then(|at| list.get(at)) else { continue };
        *kept = is_same(config, other, target, *article, name, *number)?;
    }
    Ok(keep)
}

/// Returns whether the same article is here under the same number.
fn is_same(
    config: &Config,
    other: &OtherSite,
    target: &mut ImportTarget,
    article: u32,
    group: &str,
    number: u64,
) -> Result<bool, CliError> {
    let mut begun = Vec::new();
    let item = other.found.items.get(article as usize);
    if item.is_none_or(|item| other.found.read_head(item, &mut begun).is_err()) {
        return Ok(false);
    }
    let id = String::from_utf8_lossy(head::read(&begun).message_id).into_owned();
    if !id.starts_with('<') {
        return Ok(false);
    }
    let place = format!("{group}:{number}");
    let mut same = false;
    target.ask(config, ExplainOperation { subject: id }, &mut |reply| {
        if let Reply::Text(line) = reply {
            same |= line.starts_with("xref") && line.split_ascii_whitespace().any(|word| word == place);
        }
    })?;
    Ok(same)
}

/// Raises the high marks of groups that keep numbers to the other server's, even if its newest articles have
/// been removed.
pub(super) fn raise(
    config: &Config,
    other: &OtherSite,
    plan: &ImportPlan,
    keep: &[bool],
    wanted: Option<&NamePattern>,
    target: &mut ImportTarget,
) -> Result<(), CliError> {
    let renumbered: Vec<&str> =
        plan.groups.iter().zip(keep).filter(|(_, kept)| !**kept).map(|(name, _)| name.as_str()).collect();
    let mut marks: HashMap<String, u64> = other
        .groups
        .iter()
        .filter(|(name, _)| wanted.is_none_or(|wanted| wanted.matches(name.as_bytes())))
        .filter(|(name, group)| group.high > 0 && !renumbered.contains(&name.as_str()))
        .map(|(name, group)| (name.clone(), group.high))
        .collect();
    // Numbers of late or damaged articles lie below the highest that any article has.
    for ((name, kept), list) in plan.groups.iter().zip(keep).zip(plan.numbered.by_group()) {
        if let (true, Some((number, _))) = (*kept, list.last()) {
            let mark = marks.entry(name.clone()).or_default();
            *mark = (*mark).max(*number);
        }
    }
    let mut marks: Vec<(String, u64)> = marks.into_iter().collect();
    marks.sort_unstable();
    target.ask(config, RaiseHighOperation { marks }, &mut |reply| {
        if let Reply::Error(text) = reply {
            complain(format_args!("newsreel: {text}"));
        }
    })?;
    Ok(())
}

/// Returns the groups here with their high water marks.
pub(super) fn highs(config: &Config, target: &mut ImportTarget) -> Result<HashMap<String, u64>, CliError> {
    let mut highs = HashMap::new();
    target.ask(config, GroupListOperation { wildmat: None }, &mut |reply| {
        if let Reply::Group(group) = reply {
            highs.insert(group.name, group.high);
        }
    })?;
    Ok(highs)
}
