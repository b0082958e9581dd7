//! Flags of newsfeeds.
//!
//! Called by `feeds`. Source: newsfeeds(5), FLAG VALUES.

use toml_edit::{Array, Value};

use super::newsfeeds::NewsfeedsEntry;
use super::sheet::DraftSection;
use super::text::{NotConverted, quoted};
use site_base::units::size_text;
use site_config::HashSplit;

/// Converts the flags of an entry.
pub(super) fn convert(entry: &NewsfeedsEntry, section: &mut DraftSection) {
    let mut only: Vec<&str> = Vec::new();
    let mut unsaid: Vec<String> = Vec::new();
    for flag in &entry.flags {
        let mut letters = flag.chars();
        let letter = letters.next().unwrap_or(' ');
        let value = letters.as_str();
        let done = match letter {
            'T' | 'W' | 'B' | 'F' | 'I' | 'P' | 'S' => Ok(()),
            'A' => checks(value, &mut only),
            'N' => moderation(value, &mut only),
            'Q' if section.has("send.hash") => Err("one hash a peer".into()),
            _ => limit(letter, value, entry, section),
        };
        if let Err(why) = done {
            unsaid.push(format!("flag {}: {why}", quoted(flag)));
        }
    }
    if !only.is_empty() {
        section.key("send.only", Value::from_iter(only), entry.place);
    }
    if section.has("send.file") || section.has("send.program") {
        lines(entry, section, &mut unsaid);
    }
    for text in unsaid {
        section.remark(entry.place, text);
    }
}

/// Converts `A`: checks.
fn checks(letters: &str, only: &mut Vec<&'static str>) -> Result<(), NotConverted> {
    let mut unknown = Vec::new();
    for letter in letters.chars() {
        match letter {
            // The last of both counts.
            'c' => {
                only.retain(|word| *word != "control");
                only.push("no-control");
            }
            'C' => {
                only.retain(|word| *word != "no-control");
                only.push("control");
            }
            'd' => only.push("distribution"),
            // Exclusion by Path is set by names; articles refused by a filter are not filed; overview is
            // always present, and feeds follow Newsgroups.
            'p' | 'f' | 'o' | 'j' => {}
            'e' => unknown.push("`e`, every group must exist"),
            'O' => unknown.push("`O`, no Injection-Info"),
            _ => unknown.push("a check that is not INN's"),
        }
    }
    match unknown.as_slice() {
        [] => Ok(()),
        unknown => Err(format!("{} has no equivalent", unknown.join(" and ")).into()),
    }
}

/// Converts `N`: moderated or unmoderated groups only.
fn moderation(value: &str, only: &mut Vec<&'static str>) -> Result<(), NotConverted> {
    match value {
        "m" => only.push("moderated"),
        "u" => only.push("unmoderated"),
        _ => return Err("neither m nor u".into()),
    }
    Ok(())
}

/// Converts flags with a number, and those without an equivalent.
fn limit(
    letter: char,
    value: &str,
    entry: &NewsfeedsEntry,
    section: &mut DraftSection,
) -> Result<(), NotConverted> {
    let number = || value.parse::<u64>().map_err(|_| NotConverted::from("not a number"));
    let count = |count: u64| i64::try_from(count.min(1_000_000)).unwrap_or(1_000_000);
    match letter {
        '<' => section.key("send.size_max", size_text(number()?), entry.place),
        '>' => section.key("send.size_min", size_text(number()?), entry.place),
        'G' => section.key("send.crossposts_max", count(number()?.max(1)), entry.place),
        'H' if value.is_empty() => section.key("send.hops_max", 1, entry.place),
        'H' => section.key("send.hops_max", count(number()?), entry.place),
        'Q' if value.starts_with('@') => return Err("the hash of Diablo before 5.1 has no equivalent".into()),
        'Q' => {
            let text = value.replace('_', ":");
            HashSplit::parse(&text).map_err(|error| error.to_string())?;
            section.key("send.hash", text, entry.place);
        }
        'C' | 'U' => {
            return Err("has no equivalent: followups are not counted, see send.crossposts_max".into());
        }
        'O' => return Err("has no equivalent; only = [\"injected\"] sends what was posted here".into()),
        _ => return Err("not a flag of INN 2.7".into()),
    }
    Ok(())
}

/// Converts `W`: items in the lines of a file or for a program.
fn lines(entry: &NewsfeedsEntry, section: &mut DraftSection, unsaid: &mut Vec<String>) {
    let mut items = Array::new();
    for letter in entry.flag('W').filter(|items| !items.is_empty()).unwrap_or("n").chars() {
        let item = match letter {
            'n' | 'f' => "token",
            'm' => "message-id",
            'b' => "size",
            't' => "arrived",
            '*' => "peer",
            other => {
                unsaid.push(format!(
                    "flag W: its item {} has no equivalent and is left out of the lines",
                    quoted(&other.to_string())
                ));
                continue;
            }
        };
        items.push(item);
    }
    if items.is_empty() {
        items.push("token");
    }
    section.key("send.lines", items, entry.place);
    section.say("Tokens are newsreel's: programs get the article by newsreel explain, not by sm.");
}
