//! Converts control.ctl to `[[control]]`.
//!
//! In INN the last matching line counts, here the first section: therefore the lines are processed
//! backwards. A message not signed as a line requires is dropped by INN; here the next section would
//! decide, so a section that only logs is added after it. Called by `settings`. Source: control.ctl(5).

use std::collections::BTreeSet;

use netnews::wildmat::Wildmat;
use toml_edit::{Array, Value};

use super::patterns::Patterns;
use super::sheet::{ConfigDraft, DraftSection, origins};
use super::text::{NotConverted, SourcePosition, lines, quoted};

/// Types handled by controlchan; cancels are handled by innd.
const GROUP_TYPES: [&str; 3] = ["newgroup", "rmgroup", "checkgroups"];
const OTHER_TYPES: [&str; 3] = ["ihave", "sendme", "other"];

/// Action of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ControlDeed {
    action: &'static str,
    signed_by: Option<String>,
    mailed: bool,
    note: Option<&'static str>,
}

/// A line, or several with the same action for several types or groups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ControlRule {
    places: Vec<SourcePosition>,
    types: Vec<&'static str>,
    from: String,
    groups: String,
    deed: ControlDeed,
}

/// Converts the files, of which later ones take precedence; mail goes to `mail_to`.
pub(super) fn convert(
    files: &[(&'static str, &str)],
    verifies: bool,
    mail_to: &str,
    sheet: &mut ConfigDraft,
) {
    let mut rules: Vec<ControlRule> = Vec::new();
    let mut removals: Option<(i64, SourcePosition)> = None;
    for line in files.iter().flat_map(|(file, text)| lines(file, text)) {
        let place = line.place;
        let fields: Vec<&str> = line.text.splitn(4, ':').map(str::trim).collect();
        match *fields.as_slice() {
            ["/encoding/" | "/localencoding/", ..] => {
                let why = "not needed, descriptions are UTF-8, or what the message says";
                sheet.unsaid(place, format!("`{}`", quoted(&line.text)), why);
            }
            ["/maxdocheckgroups/", "*", "*", count] if count.parse::<i64>().is_ok() => {
                let count = count.parse::<i64>().ok().map(|count| (count.clamp(0, 1_000_000), place));
                if let Some((_, before)) = std::mem::replace(&mut removals, count) {
                    sheet.remark(before, "/maxdocheckgroups/ is not carried over: a later line decides");
                }
            }
            ["/maxdocheckgroups/", ..] => {
                let line = quoted(&line.text);
                let why = "has no equivalent: control.removals_max is a number, and is set by section";
                sheet.remark(place, format!("`{line}` {why}"));
            }
            [kind, from, groups, action] => {
                match (ControlCtlLine { place, kind, from, groups, action }).rule(verifies) {
                    Ok(rule) => rules.push(rule),
                    Err(why) => {
                        sheet.remark(place, format!("`{}` is not carried over: {why}", quoted(&line.text)))
                    }
                }
            }
            _ => sheet.remark(place, format!("`{}`: not the four fields of a line", quoted(&line.text))),
        }
    }
    let mut is_carried_over = false;
    for (at, rule) in gathered(joined(guarded(rules))).iter().enumerate() {
        let mut section = section(rule, mail_to, removals);
        is_carried_over |= section.has("removals_max");
        if at == 0 {
            section.about(
                "Control messages. INN's last line that matches counts, here the first section: so they stand \
                 here from the last one up, and what is said of several hierarchies together.",
            );
        }
        sheet.push(section);
    }
    if let Some((count, place)) = removals {
        sheet.saw([place]);
        if !is_carried_over {
            let why = "is not carried over: no section carries out checkgroups messages";
            sheet.remark(place, format!("/maxdocheckgroups/ ({count}) {why}"));
        }
    }
}

/// A line of control.ctl with its four fields.
struct ControlCtlLine<'a> {
    place: SourcePosition,
    /// Types of control message.
    kind: &'a str,
    from: &'a str,
    groups: &'a str,
    action: &'a str,
}

impl ControlCtlLine<'_> {
    fn rule(&self, verifies: bool) -> Result<ControlRule, NotConverted> {
        let types = types(self.kind)?;
        let is_for_groups = types.iter().any(|kind| GROUP_TYPES.contains(kind));
        let groups = if is_for_groups { alternatives(self.groups)? } else { "*".to_owned() };
        let mut deed = deed(self.action, verifies)?;
        if deed.action == "do" && !is_for_groups {
            deed = ControlDeed {
                action: "log",
                signed_by: None,
                mailed: false,
                note: Some("cannot be carried out here"),
            };
        }
        Ok(ControlRule {
            places: vec![self.place],
            types,
            from: alternatives(&self.from.to_ascii_lowercase())?,
            groups,
            deed,
        })
    }
}

/// Types known to controlchan that newsreel calls `other`.
const UNNAMED_TYPES: [&str; 3] = ["sendsys", "senduuname", "version"];

/// Returns the types in a field: words or patterns with `|` between them.
fn types(field: &str) -> Result<Vec<&'static str>, NotConverted> {
    let named = || [GROUP_TYPES, OTHER_TYPES].concat().into_iter().filter(|own| *own != "other");
    let mut types: Vec<&'static str> = Vec::new();
    for word in field.split('|').map(str::trim) {
        let word = if word.eq_ignore_ascii_case("all") { "*" } else { word };
        if word == "cancel" {
            continue;
        }
        let pattern = Wildmat::parse_lenient(word.as_bytes())
            .map_err(|error| format!("`{}` is no pattern: {error}", quoted(word)))?;
        let fits = |own: &str| pattern.matches(own.as_bytes());
        let is_pattern = word.contains(['*', '?', '[']);
        let known: Vec<&'static str> = named().filter(|own| fits(own)).collect();
        let is_other = match is_pattern {
            true => UNNAMED_TYPES.iter().any(|own| fits(own)),
            false => known.is_empty(),
        };
        types.extend(known.into_iter().chain(is_other.then_some("other")));
    }
    types.sort_by_key(|kind| [GROUP_TYPES, OTHER_TYPES].concat().iter().position(|own| own == kind));
    types.dedup();
    match (types.is_empty(), field.split('|').any(|word| word.trim() == "cancel")) {
        (false, _) => Ok(types),
        (true, true) => Err("cancels are not controlchan's; see [cancel]".into()),
        (true, false) => Err("no type of a control message".into()),
    }
}

/// Converts shell patterns with `|` between them; controlchan takes other list separators literally.
fn alternatives(text: &str) -> Result<String, NotConverted> {
    if text.contains(',') || text.split('|').any(|pattern| pattern.trim_start().starts_with(['!', '@'])) {
        return Err(
            "controlchan knows neither lists with commas nor exclusions, so that it never fits".into()
        );
    }
    Ok(Patterns::parse(&text.replace('|', ","))?.groups)
}

fn deed(action: &str, verifies: bool) -> Result<ControlDeed, NotConverted> {
    let (what, to) = action.split_once('=').unwrap_or((action, ""));
    let mailed = to == "mail";
    let plain = |action: &'static str| ControlDeed { action, signed_by: None, mailed, note: None };
    Ok(match what {
        "doit" => plain("do"),
        "drop" | "log" => ControlDeed { mailed: false, ..plain("log") },
        "mail" => ControlDeed { mailed: true, ..plain("mail") },
        // Without pgpverify, controlchan mails messages that it would have verified.
        what if what.starts_with("verify-") && !verifies => ControlDeed { mailed: true, ..plain("mail") },
        what => match what.strip_prefix("verify-").filter(|key| !key.is_empty()) {
            Some(key) => ControlDeed { signed_by: Some(key.to_owned()), ..plain("do") },
            None => return Err("no action of INN's".into()),
        },
    })
}

/// Returns the rules backwards, with one that only logs after each that requires a signature, unless the
/// next one about these groups does so anyway.
fn guarded(rules: Vec<ControlRule>) -> Vec<ControlRule> {
    let mut all = Vec::new();
    let logs = |rule: &ControlRule, other: &ControlRule| {
        other.from == "*"
            && other.deed.action == "log"
            && other.groups == rule.groups
            && rule.types.iter().all(|kind| other.types.contains(kind))
    };
    for (at, rule) in rules.iter().enumerate().rev() {
        all.push(rule.clone());
        let before = || rules.iter().take(at).rev().take_while(|other| other.groups == rule.groups);
        if rule.deed.signed_by.is_some() && !before().any(|other| logs(rule, other)) {
            let deed = ControlDeed {
                action: "log",
                signed_by: None,
                mailed: false,
                note: Some("not signed as asked above"),
            };
            all.push(ControlRule { deed, ..rule.clone() });
        }
    }
    all
}

/// Joins neighbours that differ only in their types, or only in their groups.
fn joined(rules: Vec<ControlRule>) -> Vec<ControlRule> {
    let mut all: Vec<ControlRule> = Vec::new();
    for rule in rules {
        let last = all.last_mut().filter(|last| last.from == rule.from && last.deed == rule.deed);
        match last {
            Some(last) if last.groups == rule.groups => {
                for kind in &rule.types {
                    if !last.types.contains(kind) {
                        last.types.push(kind);
                    }
                }
                last.places.extend(rule.places);
            }
            Some(last)
                if last.types == rule.types && !rule.groups.contains('!') && !last.groups.contains('!') =>
            {
                last.groups = format!("{},{}", last.groups, rule.groups);
                last.places.extend(rule.places);
            }
            _ => all.push(rule),
        }
    }
    for rule in &mut all {
        rule.types.sort_by_key(|kind| [GROUP_TYPES, OTHER_TYPES].concat().iter().position(|own| own == kind));
    }
    all
}

/// Longest list of groups extended by others, in bytes, for readability.
const GROUPS_BYTES_MAX: usize = 400;

/// Returns the first words of all groups that a list of patterns may match; `None` if any group may match.
fn hierarchies(groups: &str) -> Option<BTreeSet<&str>> {
    groups
        .split(',')
        .map(|pattern| {
            let word = pattern.split('.').next().unwrap_or_default();
            (!word.is_empty() && !word.contains(['*', '?', '!', '['])).then_some(word)
        })
        .collect()
}

/// Returns whether an article may match both, so that their order matters.
fn may_meet(one: &ControlRule, other: &ControlRule) -> bool {
    let apart = match (hierarchies(&one.groups), hierarchies(&other.groups)) {
        (Some(own), Some(others)) => own.is_disjoint(&others),
        _ => false,
    };
    !apart && one.types.iter().any(|kind| other.types.contains(kind))
}

/// Joins rules with the same action for other hierarchies, if no rule between them may decide.
fn gathered(rules: Vec<ControlRule>) -> Vec<ControlRule> {
    let mut all: Vec<ControlRule> = Vec::new();
    for rule in rules {
        let is_same = |own: &ControlRule| {
            (&own.types, &own.from, &own.deed) == (&rule.types, &rule.from, &rule.deed)
                && own.groups.len() + rule.groups.len() < GROUPS_BYTES_MAX
                && ![&own.groups, &rule.groups].iter().any(|groups| groups.contains('!') || *groups == "*")
        };
        let blocked = all.iter().rposition(|own| !is_same(own) && may_meet(own, &rule));
        let after = blocked.map_or(0, |at| at + 1);
        match all.iter_mut().skip(after).find(|own| is_same(own)) {
            Some(own) => {
                own.groups = format!("{},{}", own.groups, rule.groups);
                own.places.extend(rule.places);
            }
            None => all.push(rule),
        }
    }
    all
}

fn section(rule: &ControlRule, mail_to: &str, removals: Option<(i64, SourcePosition)>) -> DraftSection {
    let mut section = DraftSection::new("control");
    section.saw(rule.places.iter().copied());
    let types = rule.types.iter().copied().collect::<Array>();
    section.noted(
        "type",
        if types.len() == 1 { Value::from(rule.types.concat()) } else { types.into() },
        origins(&rule.places),
    );
    if rule.from != "*" {
        section.noted("from", rule.from.as_str(), "");
    }
    if rule.groups != "*" {
        section.noted("groups", rule.groups.as_str(), "");
    }
    if let Some(key) = &rule.deed.signed_by {
        section.noted("signed_by", key.as_str(), "");
    }
    section.noted("action", rule.deed.action, rule.deed.note.unwrap_or_default());
    if rule.deed.mailed {
        section.noted("mail_to", mail_to, "");
    }
    if let Some((count, place)) =
        removals.filter(|_| rule.deed.action == "do" && rule.types.contains(&"checkgroups"))
    {
        section.noted("removals_max", count, place.to_string());
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_checkgroups_is_carried_over_or_named() {
        let converted = |text: &str| {
            let mut sheet = ConfigDraft::default();
            convert(&[("control.ctl", text)], true, "news", &mut sheet);
            sheet.settle("").0
        };
        let all = converted("/maxdocheckgroups/:*:*:10\n/maxdocheckgroups/:*:*:15\ncheckgroups:*:a.*:doit\n");
        assert!(all.contains("removals_max = 15"), "{all}");
        assert!(all.contains("control.ctl 1: /maxdocheckgroups/ is not carried over"), "{all}");
        for text in [
            "/maxdocheckgroups/:*:*:10\ncheckgroups:*:*:mail\n",
            "/maxdocheckgroups/:me@x.example:*:10\ncheckgroups:*:*:doit\n",
            "/maxdocheckgroups/:*:a.*:10\ncheckgroups:*:*:doit\n",
            "/maxdocheckgroups/:*:*:many\ncheckgroups:*:*:doit\n",
            "/maxdocheckgroups/:10\ncheckgroups:*:*:doit\n",
        ] {
            let said = converted(text);
            assert!(!said.contains("removals_max = 10"), "{said}");
            assert!(said.contains("# control.ctl 1: "), "{text}: {said}");
        }
    }

    fn sections(text: &str) -> Vec<ControlRule> {
        let rules = lines("control.ctl", text)
            .iter()
            .map(|line| {
                let fields: Vec<&str> = line.text.splitn(4, ':').collect();
                let [kind, from, groups, action] = fields[..] else { panic!("{line:?}") };
                ControlCtlLine { place: line.place, kind, from, groups, action }.rule(true).unwrap()
            })
            .collect();
        joined(guarded(rules))
    }

    fn short(rules: &[ControlRule]) -> Vec<(String, &str, &str, &'static str)> {
        rules
            .iter()
            .map(|rule| (rule.types.join(","), rule.from.as_str(), rule.groups.as_str(), rule.deed.action))
            .collect()
    }

    #[test]
    fn the_last_line_becomes_first_and_neighbours_are_joined() {
        let rules = sections(
            "all:*:*:drop\nnewgroup:*:*:mail\nrmgroup:*:*:mail\nnewgroup:*:a.*|b.*:doit\nrmgroup:*:a.*|b.*:doit\n\
             newgroup:Me@X.example:c.*:doit=mail\n",
        );
        assert_eq!(
            short(&rules),
            [
                ("newgroup".into(), "me@x.example", "c.*", "do"),
                ("newgroup,rmgroup".into(), "*", "a.*,b.*", "do"),
                ("newgroup,rmgroup".into(), "*", "*", "mail"),
                ("newgroup,rmgroup,checkgroups,ihave,sendme,other".into(), "*", "*", "log"),
            ]
        );
        assert!(rules[0].deed.mailed && !rules[1].deed.mailed);
        assert_eq!(origins(&rules[1].places), "control.ctl 4-5");
    }

    #[test]
    fn a_type_may_be_a_pattern_or_several() {
        for (field, own) in [
            ("newgroup|rmgroup", "newgroup,rmgroup"),
            ("*group", "newgroup,rmgroup"),
            ("*", "newgroup,rmgroup,checkgroups,ihave,sendme,other"),
            ("All", "newgroup,rmgroup,checkgroups,ihave,sendme,other"),
            ("cancel|newgroup", "newgroup"),
            ("send*", "sendme,other"),
            ("check?roups|ihave", "checkgroups,ihave"),
            ("sendsys", "other"),
        ] {
            assert_eq!(types(field).unwrap().join(","), own, "{field}");
        }
        assert!(types("cancel").is_err() && types("nothing*").is_err());
        // Controlchan takes these characters literally, and no group name has them.
        assert!(alternatives("a.*,b.*").is_err() && alternatives("!a.*").is_err());
        assert_eq!(alternatives("a.*|b.*").unwrap(), "a.*,b.*");
    }

    #[test]
    fn unsigned_messages_do_not_reach_the_next_section() {
        let lax = sections("newgroup:*:*:doit\nnewgroup:k@x:c.*:verify-KEY\n");
        assert_eq!(
            short(&lax),
            [
                ("newgroup".into(), "k@x", "c.*", "do"),
                ("newgroup".into(), "k@x", "c.*", "log"),
                ("newgroup".into(), "*", "*", "do")
            ]
        );
        // INN's own file has a line that drops the rest.
        let strict = sections("newgroup:*:*:doit\nnewgroup:*:c.*:drop\nnewgroup:k@x:c.*:verify-KEY\n");
        assert_eq!(
            short(&strict),
            [
                ("newgroup".into(), "k@x", "c.*", "do"),
                ("newgroup".into(), "*", "c.*", "log"),
                ("newgroup".into(), "*", "*", "do")
            ]
        );
    }

    #[test]
    fn equal_rules_for_several_hierarchies_are_joined_if_order_does_not_matter() {
        let own = gathered(sections(
            "newgroup:*:*:drop\nnewgroup:*:a.*:mail\nrmgroup:*:a.*:doit\nnewgroup:*:b.*:mail\nrmgroup:*:b.*:doit\n\
             newgroup:*:c.x.*:doit\nnewgroup:*:c.*:mail\nnewgroup:*:d.*:mail\n",
        ));
        assert_eq!(
            short(&own),
            [
                ("newgroup".into(), "*", "d.*,c.*,b.*,a.*", "mail"),
                ("newgroup".into(), "*", "c.x.*", "do"),
                ("rmgroup".into(), "*", "b.*,a.*", "do"),
                ("newgroup".into(), "*", "*", "log"),
            ]
        );
    }
}
