//! Files of groups: `name [flag [description]]` lines, or another server's active file (`name high low
//! flag`).
//!
//! The format is recognized from the whole file: an active file has exactly four words in each line, the
//! second and third of them numbers. Empty lines and lines that begin with `#` are skipped. Used by `init`
//! and `group import`, which also takes a file of creation times.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use netnews::control::group_info::lines_to_utf8;

use super::screen::CliError;
use operators::groups::GroupEntry;
use operators::reply::GroupListRow;
use site_base::units::counted;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Maximum number of invalid lines of an active file that are named.
const ODD_LINES_MAX: usize = 20;

/// Reason why a file of groups is not accepted.
#[derive(Debug)]
pub(super) enum GroupsFileError {
    /// Fewer than half of the lines are not those of an active file.
    NotActive {
        /// Number of these lines.
        lines: u64,
        /// The first of them, each with its number.
        named: String,
    },
    /// A line, counted from 1, has a fault.
    Line(usize, GroupLineFault),
}

/// Fault of a line in a file of groups.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupLineFault {
    /// The name is invalid.
    #[error("`{0}` is not a valid group name")]
    Name(String),
    /// The flag is invalid.
    #[error("`{flag}` is not a flag (y, n, m, j, x or =other.name), as in: {example}")]
    Flag {
        /// The word in place of the flag.
        flag: String,
        /// The line with a flag.
        example: String,
    },
    /// The line of active.times has no name, or no time.
    #[error("not a name, a time in seconds since 1970 and a creator")]
    Times,
}

impl fmt::Display for GroupsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotActive { lines, named } => {
                let count = counted(*lines, "line");
                write!(f, "{count} of this active file not in the form `name high low flag`: {named}")
            }
            Self::Line(at, fault) => write!(f, "line {at}: {fault}"),
        }
    }
}

impl std::error::Error for GroupsFileError {}

/// Parses the groups of a file; an error names the line.
pub(super) fn parse(text: &str) -> Result<Vec<GroupEntry>, GroupsFileError> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let active: Option<Vec<GroupEntry>> = lines.iter().map(|(_, line)| active_line(line)).collect();
    if let Some(groups) = active {
        return Ok(groups);
    }
    let odd: Vec<String> = lines
        .iter()
        .filter(|(_, line)| active_line(line).is_none())
        .map(|(at, line)| format!("line {at}: {line}"))
        .collect();
    if odd.len() < lines.len().div_ceil(2) {
        let (lines, named) = (odd.len() as u64, odd.get(..ODD_LINES_MAX).unwrap_or(&odd).join("; "));
        return Err(GroupsFileError::NotActive { lines, named });
    }
    let list = lines.iter();
    list.map(|(at, line)| list_line(line).map_err(|fault| GroupsFileError::Line(*at, fault))).collect()
}

fn active_line(line: &str) -> Option<GroupEntry> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, high, low, flag] = words.as_slice() else { return None };
    low.parse::<u64>().ok()?;
    is_flag(flag).then_some(())?;
    Some(GroupEntry {
        name: (*name).to_owned(),
        flag: (*flag).to_owned(),
        description: String::new(),
        high: high.parse().ok()?,
        ..GroupEntry::default()
    })
}

fn list_line(line: &str) -> Result<GroupEntry, GroupLineFault> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (flag, description) = match rest.trim().split_once(char::is_whitespace) {
        Some((flag, description)) => (flag, description.trim()),
        None => (rest.trim(), ""),
    };
    if !netnews::newsgroups::valid_name(name.as_bytes()) {
        return Err(GroupLineFault::Name(name.to_owned()));
    }
    if !flag.is_empty() && !is_flag(flag) {
        let example = format!("{name} y {rest}");
        return Err(GroupLineFault::Flag { flag: flag.to_owned(), example });
    }
    let flag = if flag.is_empty() { "y" } else { flag };
    Ok(GroupEntry {
        name: name.into(),
        flag: flag.into(),
        description: description.into(),
        high: 0,
        ..GroupEntry::default()
    })
}

fn is_flag(word: &str) -> bool {
    spool::GroupFlag::parse(word).is_some()
}

/// Sets the times and creators of groups from an active.times file (`name seconds creator`); groups that it
/// does not name are created now. An error names the line.
pub(super) fn add_times(text: &str, groups: &mut [GroupEntry]) -> Result<(), GroupsFileError> {
    let mut times = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let (name, seconds) = (words.next(), words.next().and_then(|seconds| seconds.parse::<u64>().ok()));
        let Some((name, seconds)) = name.zip(seconds) else {
            return Err(GroupsFileError::Line(at + 1, GroupLineFault::Times));
        };
        times.insert(name, (seconds, words.collect::<Vec<_>>().join(" ")));
    }
    for group in groups {
        if let Some((seconds, creator)) = times.remove(group.name.as_str()) {
            (group.created, group.creator) = (seconds, creator);
        }
    }
    Ok(())
}

/// Returns a line that [`add_times`] reads back.
pub(super) fn times_text(group: &GroupListRow) -> String {
    format!("{} {} {}", group.name, group.created, group.creator).trim_end().to_owned()
}

/// Returns a line that [`parse`] reads back.
pub(super) fn list_text(group: &GroupListRow) -> String {
    format!("{} {} {}", group.name, group.flag, group.description).trim_end().to_owned()
}

/// Returns a line of an active file, numbers padded to ten digits as is usual there.
pub(super) fn active_text(group: &GroupListRow) -> String {
    format!("{} {:010} {:010} {}", group.name, group.high, group.low, group.flag)
}

/// Reads a file of groups and converts it to UTF-8; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<String, CliError> {
    let mut text = Vec::new();
    let is_stdin = file == Path::new("-");
    let source: io::Result<Box<dyn Read>> = if is_stdin {
        Ok(Box::new(io::stdin().lock()))
    } else {
        File::open(file).map(|file| Box::new(file) as _)
    };
    let read = source.and_then(|source| source.take(FILE_BYTES_MAX).read_to_end(&mut text));
    read.map_err(|error| CliError::Usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(lines_to_utf8(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, flag: &str, description: &str, high: u64) -> GroupEntry {
        GroupEntry {
            name: name.into(),
            flag: flag.into(),
            description: description.into(),
            high,
            ..GroupEntry::default()
        }
    }

    #[test]
    fn lines_of_names_flags_and_descriptions_are_read() {
        let text = "# ours\nlocal.test\n\nlocal.ann m Announcements of the site\nlocal.old =local.test\n";
        assert_eq!(
            parse(text).unwrap(),
            [
                entry("local.test", "y", "", 0),
                entry("local.ann", "m", "Announcements of the site", 0),
                entry("local.old", "=local.test", "", 0)
            ]
        );
    }

    #[test]
    fn an_active_file_is_recognised_and_its_numbers_are_kept() {
        let text = "control 0000000000 0000000001 n\ncomp.lang.c 0000012345 0000000100 y\n";
        assert_eq!(
            parse(text).unwrap(),
            [entry("control", "n", "", 0), entry("comp.lang.c", "y", "", 12_345)]
        );
    }

    #[test]
    fn invalid_lines_of_an_active_file_are_named() {
        let text = "a.b 0000000012 0000000003 y\na.c 5 x y\na.d 7 8 m\na.e 7 8\na.f 1 1 n\n";
        assert_eq!(
            parse(text).unwrap_err().to_string(),
            "2 lines of this active file not in the form `name high low flag`: line 2: a.c 5 x y; line 4: a.e 7 8"
        );
    }

    #[test]
    fn bad_line_is_named_by_number() {
        assert_eq!(
            parse("local.test y\nlocal.ann Announcements here\n").unwrap_err().to_string(),
            "line 2: `Announcements` is not a flag (y, n, m, j, x or =other.name), as in: local.ann y Announcements here"
        );
        assert_eq!(parse("a..b\n").unwrap_err().to_string(), "line 1: `a..b` is not a valid group name");
    }

    #[test]
    fn times_are_added_by_name() {
        let mut groups = parse("a.b y\nc.d y\n").unwrap();
        add_times("# ours\nc.d 700000000 someone else <x@y>\nnot.here 5 z\n", &mut groups).unwrap();
        assert_eq!((groups[0].created, groups[0].creator.as_str()), (0, ""));
        assert_eq!((groups[1].created, groups[1].creator.as_str()), (700_000_000, "someone else <x@y>"));
        let error = add_times("a.b 1 x\na.b yesterday x\n", &mut groups).unwrap_err();
        assert!(error.to_string().starts_with("line 2: not a name, a time"), "{error}");
    }

    #[test]
    fn exported_groups_are_read_back() {
        let group = GroupListRow {
            name: "local.test".into(),
            flag: "m".into(),
            low: 3,
            high: 9,
            count: 7,
            description: "Tests and trials".into(),
            creator: "newsreel".into(),
            ..GroupListRow::default()
        };
        assert_eq!(parse(&list_text(&group)).unwrap(), [entry("local.test", "m", "Tests and trials", 0)]);
        assert_eq!(active_text(&group), "local.test 0000000009 0000000003 m");
        assert_eq!(parse(&active_text(&group)).unwrap(), [entry("local.test", "m", "", 9)]);
    }
}
