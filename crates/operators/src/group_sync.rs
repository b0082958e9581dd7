//! `newsreel group sync`: comparison of the groups here with those of another server (INN's actsync).

use super::groups::{GroupEntry, GroupSetting};
use super::pull::upstream::{self, RemoteGroup};
use super::reply::GroupListRow;
use access::tls::RemoteServer;
use nntp_io::{ClientLimits, NntpClient, Role};
use site_config::NamePattern;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The server's own groups, which no other server decides about.
const OWN: [&str; 5] = ["control", "control.*", "junk", "to", "to.*"];

/// Lists of a server.
#[derive(Debug, Default)]
pub struct ServerLists {
    groups: BTreeMap<String, RemoteGroup>,
    descriptions: HashMap<String, String>,
    /// Number of invalid lines.
    odd_lines: u64,
}

/// Changes that would make the groups here like those there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SyncChanges {
    /// Groups there and not here.
    pub add: Vec<GroupEntry>,
    /// Groups with another flag or description there.
    pub set: Vec<GroupSetting>,
    /// Groups here and not there.
    pub surplus: Vec<String>,
    /// Number of groups here that were compared.
    pub compared: usize,
}

/// Reason why a server's lists are not available.
#[derive(Debug, thiserror::Error)]
pub enum GroupListError {
    /// The settings of the connection are wrong.
    #[error("{0}")]
    Config(String),
    /// The server cannot be reached, or its answer cannot be used.
    #[error("{0}")]
    Server(#[from] nntp_io::Error),
}

/// Asks a server for the groups that match.
pub async fn fetch(dial: &RemoteServer, wanted: &NamePattern) -> Result<ServerLists, GroupListError> {
    let target = dial
        .target(Role::Reader, ClientLimits::default())
        .map_err(|error| GroupListError::Config(error.to_string()))?;
    let mut client = NntpClient::connect(&target).await?;
    let listed = upstream::groups(&mut client, wanted).await?;
    let (groups, odd_lines) = (listed.groups, listed.odd);
    let names: HashSet<&str> = groups.keys().map(String::as_str).collect();
    let descriptions = upstream::descriptions(&mut client, wanted, &names).await?;
    Ok(ServerLists { groups, descriptions, odd_lines })
}

/// Compares the groups that match.
pub fn compare(here: &[GroupListRow], there: &ServerLists, wanted: &NamePattern) -> SyncChanges {
    let own: Vec<NamePattern> = OWN.iter().filter_map(|wildmat| NamePattern::parse(wildmat).ok()).collect();
    let is_own = |name: &str| own.iter().any(|groups| groups.matches(name.as_bytes()));
    let mut changes = SyncChanges::default();
    let mut known = HashSet::new();
    for group in here {
        known.insert(group.name.as_str());
        if is_own(&group.name) || !wanted.matches(group.name.as_bytes()) {
            continue;
        }
        changes.compared += 1;
        let Some(other) = there.groups.get(&group.name) else {
            // An invalid line may have been of this group.
            if there.odd_lines == 0 {
                changes.surplus.push(group.name.clone());
            }
            continue;
        };
        let flag = Some(other.flag.clone()).filter(|flag| *flag != group.flag);
        let description = there.descriptions.get(&group.name);
        let description = description.filter(|text| !text.is_empty() && **text != group.description).cloned();
        if flag.is_some() || description.is_some() {
            changes.set.push(GroupSetting { name: group.name.clone(), flag, description });
        }
    }
    let new = there.groups.iter().filter(|(name, _)| !known.contains(name.as_str()) && !is_own(name));
    changes.add = new
        .map(|(name, other)| GroupEntry {
            name: name.clone(),
            flag: other.flag.clone(),
            description: there.descriptions.get(name).cloned().unwrap_or_default(),
            ..GroupEntry::default()
        })
        .collect();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, flag: &str, description: &str) -> GroupListRow {
        let (name, flag, description) = (name.to_owned(), flag.to_owned(), description.to_owned());
        GroupListRow { name, flag, description, low: 1, ..GroupListRow::default() }
    }

    #[test]
    fn groups_are_compared_but_for_the_servers_own() {
        let there = |name: &str, flag: &str| {
            (name.to_owned(), RemoteGroup { low: 1, high: 9, flag: flag.to_owned() })
        };
        let lists = ServerLists {
            groups: [
                there("a.new", "m"),
                there("a.same", "y"),
                there("a.flag", "n"),
                there("a.text", "y"),
                there("junk", "y"),
                there("control.x", "n"),
            ]
            .into(),
            descriptions: [("a.new", "New"), ("a.text", "Better"), ("a.same", "")]
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
            odd_lines: 0,
        };
        let here = [
            row("a.same", "y", "Ours"),
            row("a.flag", "y", ""),
            row("a.text", "y", "Worse"),
            row("a.old", "y", ""),
            row("b.ours", "y", ""),
            row("to.peer", "y", ""),
        ];
        let changes = compare(&here, &lists, &NamePattern::parse("*,!b.*").unwrap());
        let unsure = ServerLists { odd_lines: 1, ..lists };
        assert_eq!(compare(&here, &unsure, &NamePattern::parse("*,!b.*").unwrap()).surplus, [""; 0]);
        let new = GroupEntry {
            name: "a.new".into(),
            flag: "m".into(),
            description: "New".into(),
            ..GroupEntry::default()
        };
        let setting = |name: &str, flag: Option<&str>, description: Option<&str>| GroupSetting {
            name: name.into(),
            flag: flag.map(str::to_owned),
            description: description.map(str::to_owned),
        };
        let set = vec![setting("a.flag", Some("n"), None), setting("a.text", None, Some("Better"))];
        assert_eq!(changes, SyncChanges { add: vec![new], set, surplus: vec!["a.old".into()], compared: 4 });
    }
}
