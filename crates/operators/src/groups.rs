//! Groups: add, remove, change, list.
//!
//! Each requested group gets one reply; an invalid name or flag is reported and does not affect the others.

use std::collections::HashSet;
use std::fmt;

use netnews::newsgroups::{self, NamingFault};
use netnews::printable::one_line;
use spool::{ChangeMaker as _, Group, GroupChange, GroupFlag, GroupUpdate, NewGroup, Spool, SpoolTrouble};

use super::Sink;
use super::operation::{OperatedSite, Operation};
use super::reply::{GroupListRow, Reply};
use serde::{Deserialize, Serialize};
use site_base::clock::unix_secs;
use site_config::NamePattern;
use site_log::SiteLog;

/// Creator of groups added by operators (RFC 3977 section 7.6.4).
const CREATOR: &str = "newsreel";

/// A group to add.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Name.
    pub name: String,
    /// `y`, `n`, `m`, `j`, `x` or `=other.name`.
    pub flag: String,
    /// Description in one line; empty if there is none.
    #[serde(default)]
    pub description: String,
    /// Number after which the first article comes; 0 unless the group comes from another server with its
    /// numbers.
    #[serde(default)]
    pub high: u64,
    /// Unix seconds of the creation elsewhere; 0 if created now.
    #[serde(default)]
    pub created: u64,
    /// Creator; empty for newsreel's operator.
    #[serde(default)]
    pub creator: String,
}

/// A change to a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSetting {
    /// Name.
    pub name: String,
    /// New flag, as in [`GroupEntry::flag`]; absent if unchanged.
    pub flag: Option<String>,
    /// New description; absent if unchanged.
    pub description: Option<String>,
}

/// Reason why a group was not added or changed.
#[derive(Debug, thiserror::Error)]
enum GroupRequestError {
    /// The name is invalid.
    #[error("not a valid group name")]
    Name,
    /// The name should not be given to a group.
    #[error("{0}")]
    Naming(NamingFault),
    /// The group that this alias names has an invalid name.
    #[error("`={0}`: not a valid group name")]
    Alias(String),
    /// This text is not a flag.
    #[error("`{0}` is not a flag; the flags are y, n, m, j, x and =other.name")]
    Flag(String),
    /// There is no such group.
    #[error("no such group")]
    NoSuchGroup,
    /// The spool did not accept the change.
    #[error("{}", .0.text)]
    Spool(SpoolTrouble),
}

fn changed(name: &str, changed: bool) -> Reply {
    Reply::Changed { name: name.to_owned(), changed, error: None }
}

fn failed(name: &str, error: impl fmt::Display) -> Reply {
    Reply::Changed { name: name.to_owned(), changed: false, error: Some(error.to_string()) }
}

fn add(log: &SiteLog, groups: &[GroupEntry], sink: &mut Sink<'_>) -> bool {
    let created = unix_secs();
    let mut new = Vec::new();
    let mut names = HashSet::new();
    let mut ok = true;
    for group in groups {
        match checked(group, created) {
            Ok(_) if log.spool().group_id(group.name.as_bytes()).is_some() => {
                sink(changed(&group.name, false))
            }
            Ok(entry) if names.insert(group.name.as_str()) => new.push(entry),
            Ok(_) => sink(changed(&group.name, false)),
            Err(error) => {
                ok = false;
                sink(failed(&group.name, error));
            }
        }
    }
    match log.add_groups(&new) {
        Ok(_) => new.iter().for_each(|group| sink(changed(&group.name, true))),
        Err(trouble) => {
            ok = false;
            new.iter().for_each(|group| sink(failed(&group.name, &trouble.text)));
        }
    }
    ok
}

fn checked(group: &GroupEntry, created: u64) -> Result<NewGroup, GroupRequestError> {
    if !newsgroups::valid_name(group.name.as_bytes()) {
        return Err(GroupRequestError::Name);
    }
    if let Some(fault @ NamingFault::Poster) = newsgroups::naming_fault(group.name.as_bytes()) {
        return Err(GroupRequestError::Naming(fault));
    }
    Ok(NewGroup {
        name: group.name.clone(),
        flag: flag(&group.flag)?,
        description: one_line(&group.description),
        creator: if group.creator.is_empty() { CREATOR.into() } else { one_line(&group.creator) },
        created: if group.created == 0 { created } else { group.created },
        high: group.high,
    })
}

fn flag(text: &str) -> Result<GroupFlag, GroupRequestError> {
    match GroupFlag::parse(text) {
        Some(GroupFlag::Alias(name)) if !newsgroups::valid_name(name.as_bytes()) => {
            Err(GroupRequestError::Alias(name))
        }
        Some(flag) => Ok(flag),
        None => Err(GroupRequestError::Flag(text.to_owned())),
    }
}

fn remove(log: &SiteLog, names: &[String], sink: &mut Sink<'_>) -> bool {
    let mut ok = true;
    for name in names {
        sink(match log.remove_group(name) {
            Ok(true) => changed(name, true),
            Ok(false) => {
                ok = false;
                failed(name, GroupRequestError::NoSuchGroup)
            }
            Err(trouble) => {
                ok = false;
                failed(name, trouble.text)
            }
        });
    }
    ok
}

/// Adds, changes and removes groups in one commit, or changes nothing.
fn update(log: &SiteLog, change: &GroupUpdateOperation, sink: &mut Sink<'_>) -> bool {
    let GroupUpdateOperation { add, set, remove } = change;
    let created = unix_secs();
    let (mut updates, mut ok) = (Vec::new(), true);
    let mut take = |name: &str, update: Result<GroupUpdate, GroupRequestError>| match update {
        Ok(update) => updates.push(update),
        Err(error) => {
            ok = false;
            sink(failed(name, error));
        }
    };
    for group in add {
        take(&group.name, checked(group, created).map(GroupUpdate::Add));
    }
    for setting in set {
        let change = setting.flag.as_deref().map(flag).transpose().map(|flag| {
            let description = setting.description.as_deref().map(one_line);
            GroupUpdate::Change(setting.name.clone(), GroupChange { flag, description })
        });
        take(&setting.name, change);
    }
    updates.extend(remove.iter().cloned().map(GroupUpdate::Remove));
    if !ok {
        return false;
    }
    let updated = log.update_groups(updates);
    if let Err(trouble) = &updated {
        sink(Reply::Error(trouble.text.clone()));
    }
    updated.is_ok()
}

fn set(
    log: &SiteLog,
    name: &str,
    new_flag: Option<&str>,
    description: Option<&str>,
    sink: &mut Sink<'_>,
) -> bool {
    let outcome = new_flag.map(flag).transpose().and_then(|flag| {
        let change = GroupChange { flag, description: description.map(one_line) };
        match log.change_group(name, &change) {
            Ok(true) => Ok(()),
            Ok(false) => Err(GroupRequestError::NoSuchGroup),
            Err(trouble) => Err(GroupRequestError::Spool(trouble)),
        }
    });
    let ok = outcome.is_ok();
    sink(match outcome {
        Ok(()) => changed(name, true),
        Err(error) => failed(name, error),
    });
    ok
}

fn list(spool: &Spool, wildmat: Option<&str>, sink: &mut Sink<'_>) -> bool {
    let wanted = match wildmat.map(NamePattern::parse).transpose() {
        Ok(wanted) => wanted,
        Err(error) => {
            sink(Reply::Error(format!("`{}` is not a wildmat: {error}", wildmat.unwrap_or_default())));
            return false;
        }
    };
    for group in spool.groups().iter() {
        if wanted.as_ref().is_none_or(|wanted| wanted.matches(group.name.as_bytes())) {
            sink(Reply::Group(row(group)));
        }
    }
    true
}

fn row(group: &Group) -> GroupListRow {
    let marks = group.marks();
    GroupListRow {
        name: group.name.to_string(),
        flag: group.flag().to_string(),
        low: marks.low,
        high: marks.high,
        count: marks.count,
        description: group.description(),
        created: group.created,
        creator: group.creator.to_string(),
    }
}

/// Add groups; those that exist already are counted as unchanged. Answered by [`Reply::Changed`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupAddOperation {
    /// Groups to add.
    pub groups: Vec<GroupEntry>,
}

impl Operation for GroupAddOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        add(&site.log(), &self.groups, sink)
    }
}

/// Remove groups; answered by [`Reply::Changed`] each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRemoveOperation {
    /// Names of the groups.
    pub names: Vec<String>,
}

impl Operation for GroupRemoveOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        remove(&site.log(), &self.names, sink)
    }
}

/// Change flag or description of a group; answered by [`Reply::Changed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSetOperation {
    /// Name of the group.
    pub name: String,
    /// New flag, as in [`GroupEntry::flag`]; absent if unchanged.
    pub flag: Option<String>,
    /// New description; absent if unchanged.
    pub description: Option<String>,
}

impl Operation for GroupSetOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        set(&site.log(), &self.name, self.flag.as_deref(), self.description.as_deref(), sink)
    }
}

/// Add, change and remove groups, all in one commit or none; answered by [`Reply::Changed`] with an error
/// for each that prevents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupUpdateOperation {
    /// Groups to add; existing ones are not changed.
    pub add: Vec<GroupEntry>,
    /// Groups to change, if they exist.
    pub set: Vec<GroupSetting>,
    /// Groups to remove, if they exist.
    pub remove: Vec<String>,
}

impl Operation for GroupUpdateOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        update(&site.log(), self, sink)
    }
}

/// List the groups whose names match; answered by [`Reply::Group`] each, in order of name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupListOperation {
    /// A wildmat; absent for all groups.
    pub wildmat: Option<String>,
}

impl Operation for GroupListOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        list(site.spool(), self.wildmat.as_deref(), sink)
    }
}

/// Continue groups after another server's numbers; answered by [`Reply::Done`] alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaiseHighOperation {
    /// Names and high water marks.
    pub marks: Vec<(String, u64)>,
}

impl Operation for RaiseHighOperation {
    fn run(&self, site: &OperatedSite<'_>, sink: &mut Sink<'_>) -> bool {
        let raised = site.log().raise_high(&self.marks);
        if let Err(trouble) = &raised {
            sink(Reply::Error(trouble.text.clone()));
        }
        raised.is_ok()
    }
}
