//! Converts expire.ctl to `[[expire]]` and `site.remember_days`.
//!
//! In INN the last matching line counts, here the first section: therefore the lines are processed
//! backwards. Called by `settings`. Source: expire.ctl(5).

use std::time::Duration;

use super::patterns::Patterns;
use super::sheet::{ConfigDraft, DraftSection};
use super::storage::ConvertedClasses;
use super::text::{ConfLine, NotConverted, SourcePosition, lines, quoted};
use site_base::units::span_text;

const FILE: &str = "expire.ctl";
/// Longest time accepted, and the value of INN's `never` where a number is required: 100 years.
const NEVER_DAYS: u64 = 36_500;

/// A period; `None` is `never`.
pub(super) type Days = Option<Duration>;

/// Converts expire.ctl.
pub(super) fn convert(
    text: &str,
    by_group: bool,
    age_max_days: Option<u64>,
    classes: &ConvertedClasses,
    sheet: &mut ConfigDraft,
) {
    let mut remember = None;
    let mut rules = Vec::new();
    for line in lines(FILE, text) {
        match line.text.strip_prefix("/remember/:") {
            Some(days) => remember = Some((line.place, days.trim().to_owned())),
            None => rules.push(line),
        }
    }
    remember_days(remember, age_max_days, sheet);
    let mut is_first = true;
    for line in rules.iter().rev() {
        if classes.keeping.is_empty() {
            let why = "not needed, cyclic buffers overwrite their oldest articles";
            sheet.unsaid(line.place, format!("`{}`", quoted(&line.text)), why);
            continue;
        }
        let sections = match by_group {
            true => for_groups(line),
            false => for_classes(line, classes),
        };
        match sections {
            Ok(sections) => {
                for mut section in sections {
                    if std::mem::take(&mut is_first) {
                        section.about(
                            "From INN's last line up, since here the first section that fits decides.",
                        );
                    }
                    sheet.push(section);
                }
            }
            Err(why) => {
                sheet.remark(line.place, format!("`{}` is not carried over: {why}", quoted(&line.text)))
            }
        }
    }
}

/// Message-IDs are remembered for longer than articles are accepted.
pub(super) fn remember_days(
    remember: Option<(SourcePosition, String)>,
    age_max_days: Option<u64>,
    sheet: &mut ConfigDraft,
) {
    let least = age_max_days.map_or(1, |days| days + 1);
    let site = sheet.single("site");
    let Some((place, text)) = remember else {
        if least > 11 {
            site.noted("remember_days", least as i64, "more than max_age_days");
        }
        return;
    };
    match days(&text) {
        Ok(days) => {
            let asked = days.map_or(NEVER_DAYS, |span| span.as_secs().div_ceil(86_400));
            let taken = asked.clamp(least, NEVER_DAYS);
            site.key("remember_days", taken as i64, place);
            if taken != asked {
                site.remark(
                    place,
                    format!(
                        "`/remember/:{}`: ids are remembered for longer than articles are accepted",
                        quoted(&text)
                    ),
                );
            }
        }
        Err(why) => {
            site.remark(place, why);
            site.noted("remember_days", least.max(11) as i64, "more than max_age_days");
        }
    }
}

/// Converts `pattern:flag:min:default:max`.
fn for_groups(line: &ConfLine) -> Result<Vec<DraftSection>, NotConverted> {
    let fields: Vec<&str> = line.text.split(':').map(str::trim).collect();
    let &[pattern, letters, min, default, max] = fields.as_slice() else {
        return Err("it has not the five fields that groupbaseexpiry asks for".into());
    };
    let groups = Patterns::parse(pattern)?.groups;
    if groups.is_empty() {
        return Err("no group matches".into());
    }
    let mut section = DraftSection::new("expire");
    if groups != "*" {
        section.key("groups", groups, line.place);
    }
    let moderated = letters.contains(['M', 'm']);
    if moderated || letters.contains(['U', 'u']) {
        section.key("moderated", moderated, line.place);
    }
    if letters.contains(['X', 'x']) {
        section.key("from_all_groups", true, line.place);
    }
    keep(&mut section, line.place, [min, default, max])?;
    Ok(vec![section])
}

/// Converts `classnum:min:default:max`.
fn for_classes(line: &ConfLine, classes: &ConvertedClasses) -> Result<Vec<DraftSection>, NotConverted> {
    let fields: Vec<&str> = line.text.split(':').map(str::trim).collect();
    let &[number, min, default, max] = fields.as_slice() else {
        return Err("it has not the four fields that groupbaseexpiry = false asks for".into());
    };
    let one = |class: Option<&String>| {
        let mut section = DraftSection::new("expire");
        if let Some(class) = class {
            section.key("class", class.as_str(), line.place);
        }
        keep(&mut section, line.place, [min, default, max]).map(|()| section)
    };
    if number == "*" {
        return one(None).map(|section| vec![section]);
    }
    let number: u64 = number.parse().map_err(|_| "that is no number of a class".to_owned())?;
    let names = classes.keeping.get(&number).ok_or("no class of that number keeps its articles")?;
    names.iter().map(|name| one(Some(name))).collect()
}

/// Writes the times: INN's `never` as the lower bound keeps articles forever; as the default it keeps those
/// without Expires.
pub(super) fn keep(
    section: &mut DraftSection,
    place: SourcePosition,
    fields: [&str; 3],
) -> Result<(), NotConverted> {
    let [min, default, max] = fields.map(days);
    let (min, default, max) = (min?, default?, max?);
    let Some(min) = min else {
        section.remark(place, "never: what matches stays for ever");
        return Ok(());
    };
    let text = |days: Days| days.map_or_else(|| "never".into(), span_text);
    section.key("keep", text(default), place);
    if min > Duration::ZERO {
        section.noted("keep_min", span_text(min), "");
    }
    section.noted("keep_max", text(max.map(|max| max.max(min))), "");
    if max.is_some_and(|max| max < min) {
        section.remark(place, "the lower bound is above the upper one; the lower one is taken");
    }
    Ok(())
}

/// Parses a number of days, possibly with a fraction, or `never`.
pub(super) fn days(text: &str) -> Result<Days, NotConverted> {
    if text.eq_ignore_ascii_case("never") {
        return Ok(None);
    }
    let days: f64 =
        text.parse().map_err(|_| format!("`{}` is neither a number of days nor never", quoted(text)))?;
    if !(0.0..=NEVER_DAYS as f64).contains(&days) {
        return Err(format!("`{}` days is out of reach", quoted(text)).into());
    }
    // Whole minutes are more readable, and expiry is no more precise anyway.
    Ok(Some(Duration::from_secs((days * 1440.0).round() as u64 * 60)))
}
