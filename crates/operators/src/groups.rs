//! Groups: add, remove, change, list.
//!
//! Each requested group gets one reply; an invalid name or flag is reported and does not affect the others.

use std::collections::HashSet;
use std::fmt;

use netnews::newsgroups::{self, NamingFault};
use spool::{ChangeMaker as _, Group, GroupChange, GroupFlag, GroupUpdate, NewGroup, Spool, SpoolTrouble};

use super::Sink;
use super::request::{GroupEntry, GroupListRow, GroupSetting, Reply};
use site_base::clock::unix_secs;
use site_config::NamePattern;
use site_log::SiteLog;

/// Creator of groups added by operators (RFC 3977 section 7.6.4).
const CREATOR: &str = "newsreel";

/// Reason why a group was not added or changed.
#[derive(Debug)]
enum GroupRequestError {
    /// The name is invalid.
    Name,
    /// The name should not be given to a group.
    Naming(NamingFault),
    /// The group that this alias names has an invalid name.
    Alias(String),
    /// This text is not a flag.
    Flag(String),
    /// There is no such group.
    NoSuchGroup,
    /// The spool did not accept the change.
    Spool(SpoolTrouble),
}

impl fmt::Display for GroupRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("not a valid group name"),
            Self::Naming(fault) => fault.fmt(f),
            Self::Alias(name) => write!(f, "`={name}`: not a valid group name"),
            Self::Flag(text) => {
                write!(f, "`{text}` is not a flag; the flags are y, n, m, j, x and =other.name")
            }
            Self::NoSuchGroup => f.write_str("no such group"),
            Self::Spool(trouble) => f.write_str(&trouble.text),
        }
    }
}

impl std::error::Error for GroupRequestError {}

fn changed(name: &str, changed: bool) -> Reply {
    Reply::Changed { name: name.to_owned(), changed, error: None }
}

fn failed(name: &str, error: impl fmt::Display) -> Reply {
    Reply::Changed { name: name.to_owned(), changed: false, error: Some(error.to_string()) }
}

pub(super) fn add(log: &SiteLog, groups: &[GroupEntry], sink: &mut Sink<'_>) -> bool {
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

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn remove(log: &SiteLog, names: &[String], sink: &mut Sink<'_>) -> bool {
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
pub(super) fn update(
    log: &SiteLog,
    add: &[GroupEntry],
    set: &[GroupSetting],
    remove: &[String],
    sink: &mut Sink<'_>,
) -> bool {
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

pub(super) fn set(
    log: &SiteLog,
    name: &str,
    new_flag: Option<&str>,
    description: Option<String>,
    sink: &mut Sink<'_>,
) -> bool {
    let outcome = new_flag.map(flag).transpose().and_then(|flag| {
        let change = GroupChange { flag, description: description.as_deref().map(one_line) };
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

pub(super) fn raise_high(log: &SiteLog, marks: &[(String, u64)], sink: &mut Sink<'_>) -> bool {
    match log.raise_high(marks) {
        Ok(_) => true,
        Err(trouble) => {
            sink(Reply::Error(trouble.text));
            false
        }
    }
}

pub(super) fn list(spool: &Spool, wildmat: Option<&str>, sink: &mut Sink<'_>) -> bool {
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
