//! Checks of the configuration's wildmats against the existing groups.

use super::Findings;
use site::moderation;
use site::moderation::NoModerator;
use site_config::{Config, Control, ControlType, NamePattern, UnknownGroups};

pub(super) fn look(config: &Config, groups: &[(String, String)], found: &mut Findings) {
    if groups.is_empty() || !config.site.numbers {
        return;
    }
    let carried = |name: &str| groups.iter().any(|(known, _)| known == name);
    for (name, _) in groups.iter().filter(|(_, flag)| flag == "m") {
        if let Err(NoModerator::NoAddress(address)) = moderation::submission(config, name) {
            found.problem(format!(
                "the moderated group {name} has no moderator who could be mailed (\"{address}\" is no \
                 address): posts to it are refused; add a [[moderator]]"
            ));
        }
    }
    let moderated = groups.iter().filter(|(_, flag)| flag == "m").map(|(name, _)| name.as_str());
    if let Some(advice) = moderation::advice(config, moderated) {
        found.warning(advice);
    }
    let matches = |groups_of: &NamePattern| groups.iter().any(|(name, _)| groups_of.matches(name.as_bytes()));
    let mut compare = |what: &str, at: usize, wildmat: Option<&NamePattern>| {
        if let Some(wildmat) = wildmat.filter(|wildmat| !matches(wildmat)) {
            found.warning(format!(
                "[[{what}]] {} is for groups \"{}\", but no group that is carried matches that",
                at + 1,
                wildmat.as_str()
            ));
        }
    };
    config.rules.iter().enumerate().for_each(|(at, rule)| compare("rule", at, rule.groups.as_ref()));
    config.expire.iter().enumerate().for_each(|(at, rule)| compare("expire", at, rule.groups.as_ref()));
    config.moderators.iter().enumerate().for_each(|(at, one)| compare("moderator", at, Some(&one.groups)));
    // Sections about newgroup and checkgroups are for groups to come.
    let of_present = |control: &Control| {
        let creates = |what: &ControlType| matches!(what, ControlType::Newgroup | ControlType::Checkgroups);
        !control.types.is_empty() && !control.types.iter().any(creates)
    };
    let controls = config.controls.iter().enumerate().filter(|(_, control)| of_present(control));
    controls.for_each(|(at, control)| compare("control", at, Some(&control.groups)));
    if config.site.unknown_groups == UnknownGroups::Junk && !carried("junk") {
        found.problem(
            "unknown_groups is \"junk\", but there is no group junk; make it with: newsreel group add junk \
             --flag n",
        );
    }
    let subscriptions = std::fs::read_to_string(config.site.lists.join("subscriptions")).unwrap_or_default();
    let lines =
        subscriptions.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for name in lines.filter(|name| !carried(name)) {
        found.warning(format!("lists/subscriptions names the group {name}, which is not carried"));
    }
}
