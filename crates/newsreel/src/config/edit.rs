//! Changes of the configuration that commands make: as little of the text as possible, comments and order as they were.
//!
//! Works on the text by the places that the TOML reader tells; the result is read and checked like any configuration before
//! it replaces the file. Called by `operations::buffers` and `up`.

use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::write::quoted;

/// A change to make to a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new `[[buffer]]` with these keys and values (TOML), for a class.
    Add { name: String, keys: Vec<(&'static str, String)>, class: String },
    /// A key of a buffer, and its value (TOML).
    Set { name: String, key: &'static str, value: String },
    /// A `[[buffer]]` and its name in its class go.
    Remove { name: String },
    /// A key of `[site]`, and its value (TOML).
    Site { key: &'static str, value: String },
}

/// Makes a change in a configuration file, as a whole or not at all.
pub(crate) fn apply(file: &Path, change: &Change) -> Result<(), String> {
    let cannot = |doing: &str, error: &dyn std::fmt::Display| {
        format!("the configuration {} cannot be {doing}: {error}", file.display())
    };
    // A link stays one.
    let file = &file.canonicalize().map_err(|error| cannot("found", &error))?;
    let text = std::fs::read_to_string(file).map_err(|error| cannot("read", &error))?;
    let edited = edited(&text, change).map_err(|error| cannot("changed", &error))?;
    super::parse(&edited, file).map_err(|error| {
        format!("the configuration would no longer be right:\n{}", error.report(false).trim_end())
    })?;
    replace(file, &edited).map_err(|error| {
        cannot(
            "written",
            &format!("{error}; whoever runs the server must be allowed to write it and its directory"),
        )
    })
}

/// Puts `text` in the place of a file, durably.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let written = (|| {
        let mut made = std::fs::File::create(&new)?;
        made.set_permissions(std::fs::metadata(file)?.permissions())?;
        made.write_all(text.as_bytes())?;
        made.sync_all()?;
        std::fs::rename(&new, file)?;
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        // Nothing else is there to tell of a file that was never made.
        let _gone = std::fs::remove_file(&new);
    }
    written
}

/// The text after a change.
pub(crate) fn edited(text: &str, change: &Change) -> Result<String, String> {
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let document = document.get_ref();
    match change {
        Change::Set { name, key, value } => {
            let (at, table) = section(text, document, "buffer", name)?;
            Ok(match table.get(*key) {
                Some(old) => replaced(text, old.span(), value),
                None => replaced(text, at.end..at.end, &format!("\n{key} = {value}")),
            })
        }
        Change::Site { key, value } => {
            let table = document.get("site").and_then(|site| site.get_ref().as_table());
            if let Some(old) = table.and_then(|table| table.get(*key)) {
                return Ok(replaced(text, old.span(), value));
            }
            let head = "[site]";
            match text.lines().position(|line| line.trim_end() == head) {
                Some(line) => {
                    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
                    let end = before + head.len();
                    Ok(replaced(text, end..end, &format!("\n{key} = {value}")))
                }
                None if table.is_none() => Ok(format!("{head}\n{key} = {value}\n\n{text}")),
                None => Err(format!("it does not write {head} on a line of its own; change it by hand")),
            }
        }
        Change::Add { name, keys, class } => {
            let with = list_with(text, document, class, name)?;
            let lines: String = keys.iter().map(|(key, value)| format!("\n{key} = {value}")).collect();
            let new = format!("[[buffer]]{lines}");
            // Behind the last buffer, else in front of the class.
            let last = sections(&with, "buffer").pop().map(|at| at.end);
            Ok(match last {
                Some(end) => replaced(&with, end..end, &format!("\n\n{new}")),
                None => {
                    let start = sections(&with, "class").first().map_or(with.len(), |at| at.start);
                    replaced(&with, start..start, &format!("{new}\n\n"))
                }
            })
        }
        Change::Remove { name } => {
            let (at, _) = section(text, document, "buffer", name)?;
            // With the blank lines behind it.
            let rest = text.get(at.end..).unwrap_or_default();
            let blank = rest.len() - rest.trim_start_matches(['\n', '\r']).len();
            let without = replaced(text, at.start..at.end + blank, "");
            match list_without(&without, name)? {
                Some(without) => Ok(without),
                None => Ok(without),
            }
        }
    }
}

fn replaced(text: &str, span: Range<usize>, with: &str) -> String {
    let (before, after) =
        (text.get(..span.start).unwrap_or_default(), text.get(span.end..).unwrap_or_default());
    format!("{before}{with}{after}")
}

/// The sections of a name, each from its head to the end of its last line that is neither blank nor a comment.
fn sections(text: &str, name: &str) -> Vec<Range<usize>> {
    let head = format!("[[{name}]]");
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut at, mut inside) = (0, false);
    for line in text.split_inclusive('\n') {
        let shown = line.trim();
        if let Some(word) = shown.strip_prefix('[').filter(|_| is_head(shown)) {
            inside = word.len() + 1 >= head.len() && shown.starts_with(&head);
            if inside {
                let start = at + line.len() - line.trim_start().len();
                found.push(start..start);
            }
        }
        if inside
            && !shown.is_empty()
            && !shown.starts_with('#')
            && let Some(last) = found.last_mut()
        {
            last.end = at + line.trim_end().len();
        }
        at += line.len();
    }
    found
}

/// Whether a line is the head of a section.
fn is_head(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim_end();
    let name = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]"));
    let name = name.or_else(|| line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')));
    name.is_some_and(|name| name.trim().chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)))
}

type Tables<'a> = Vec<&'a DeTable<'a>>;

fn tables<'a>(document: &'a DeTable<'a>, name: &str) -> Tables<'a> {
    let array = document.get(name).and_then(|value| value.get_ref().as_array());
    array.into_iter().flat_map(|a| a.iter()).filter_map(|element| element.get_ref().as_table()).collect()
}

fn is_named(table: &DeTable<'_>, name: &str) -> bool {
    table.get("name").and_then(|value| value.get_ref().as_str()) == Some(name)
}

/// The section of that name and what stands in it.
fn section<'a>(
    text: &str,
    document: &'a DeTable<'a>,
    kind: &str,
    name: &str,
) -> Result<(Range<usize>, &'a DeTable<'a>), String> {
    let all = tables(document, kind);
    let heads = sections(text, kind);
    if all.len() != heads.len() {
        return Err(format!("it does not write its {kind} sections as [[{kind}]]; change it by hand"));
    }
    let found = heads.into_iter().zip(all).find(|(_, table)| is_named(table, name));
    found.ok_or_else(|| format!("it has no [[{kind}]] with the name \"{name}\""))
}

/// The text with a buffer added to a class's list.
fn list_with(text: &str, document: &DeTable<'_>, class: &str, buffer: &str) -> Result<String, String> {
    let (_, table) = section(text, document, "class", class)?;
    let list = table.get("buffers").ok_or_else(|| format!("its class \"{class}\" has no buffers"))?;
    let last = list.get_ref().as_array().and_then(|elements| elements.iter().last());
    Ok(match last {
        Some(last) => replaced(text, last.span().end..last.span().end, &format!(", {}", quoted(buffer))),
        None => replaced(text, list.span(), &format!("[{}]", quoted(buffer))),
    })
}

/// The text without a buffer in the list of whichever class has it; `None` if none has.
fn list_without(text: &str, buffer: &str) -> Result<Option<String>, String> {
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    for table in tables(document.get_ref(), "class") {
        let Some(DeValue::Array(list)) = table.get("buffers").map(|list| list.get_ref()) else { continue };
        let spans: Vec<_> = list.iter().map(|e| (e.span(), e.get_ref().as_str() == Some(buffer))).collect();
        let Some(at) = spans.iter().position(|(_, is)| *is) else { continue };
        let span = |n: usize| spans.get(n).map(|(span, _)| span.clone());
        let (Some(own), next, before) = (span(at), span(at + 1), at.checked_sub(1).and_then(span)) else {
            break;
        };
        let cut = match (next, before) {
            (Some(next), _) => own.start..next.start,
            (None, Some(before)) => before.end..own.end,
            (None, None) => own,
        };
        return Ok(Some(replaced(text, cut, "")));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# My site.\n[site]\nlisten = [\"127.0.0.1:1119\"] # here\n\n\
        # The first one.\n[[buffer]]\nname = \"a\"\npath = \"a.cyc\"   # a file\nsize = \"1 MiB\" # small\n\n\
        # The second one.\n[[buffer]]\nname = \"b\"\npath = \"b.cyc\"\nsize = \"2 MiB\"\n\n\
        # Text.\n[[class]]\nname = \"text\"\nbuffers = [\n  \"a\", # first\n  \"b\",\n]\n\n[[rule]]\nclass = \"text\"\n";

    fn check(change: &Change) -> (String, crate::config::Config) {
        let text = edited(TEXT, change).unwrap();
        let config =
            crate::config::parse(&text, Path::new("x/newsreel.toml")).map_err(|e| e.report(false)).unwrap();
        (text, config)
    }

    /// The lines that are new, and those that are gone.
    fn difference(text: &str) -> (Vec<&str>, Vec<&'static str>) {
        let new = text.lines().filter(|line| !TEXT.lines().any(|old| old == *line)).collect();
        let gone = TEXT.lines().filter(|line| !text.lines().any(|new| new == *line)).collect();
        (new, gone)
    }

    #[test]
    fn a_value_is_changed_in_its_place_and_a_key_put_behind_the_others() {
        let set = |key, value: &str| check(&Change::Set { name: "a".into(), key, value: value.into() });
        let (text, config) = set("size", "\"3 MiB\"");
        assert_eq!(difference(&text), (vec!["size = \"3 MiB\" # small"], vec!["size = \"1 MiB\" # small"]));
        assert_eq!(config.buffers[0].size, Some(3 << 20));
        let (text, config) = set("retired", "true");
        assert_eq!(difference(&text), (vec!["retired = true"], vec![]));
        assert!(text.contains("# small\nretired = true\n\n# The second one."), "{text}");
        assert!(config.buffers[0].retired && !config.buffers[1].retired);
        let none = Change::Set { name: "z".into(), key: "size", value: "1".into() };
        assert_eq!(edited(TEXT, &none).unwrap_err(), "it has no [[buffer]] with the name \"z\"");
    }

    #[test]
    fn a_buffer_is_added_behind_the_others_and_to_its_class() {
        let keys = vec![("name", quoted("c")), ("path", quoted("/dev/x"))];
        let (text, config) = check(&Change::Add { name: "c".into(), keys, class: "text".into() });
        assert!(
            text.contains("\"2 MiB\"\n\n[[buffer]]\nname = \"c\"\npath = \"/dev/x\"\n\n# Text."),
            "{text}"
        );
        assert_eq!(config.classes[0].buffers, ["a", "b", "c"]);
        let lost = Change::Add { name: "c".into(), keys: vec![], class: "none".into() };
        assert!(edited(TEXT, &lost).unwrap_err().contains("no [[class]]"));
    }

    #[test]
    fn a_buffer_is_removed_wherever_it_stands() {
        let (text, config) = check(&Change::Remove { name: "a".into() });
        assert_eq!(config.classes[0].buffers, ["b"]);
        assert!(text.contains("# The first one.\n# The second one.\n[[buffer]]\nname = \"b\""), "{text}");
        let (text, config) = check(&Change::Remove { name: "b".into() });
        assert_eq!((config.classes[0].buffers.as_slice(), config.buffers.len()), (&["a".to_owned()][..], 1));
        assert!(text.contains("# Text.\n[[class]]"), "{text}");
    }

    #[test]
    fn a_key_of_the_site_is_changed_or_added() {
        let set = |key, value: &str| Change::Site { key, value: value.into() };
        let (text, config) = check(&set("listen", "[\"127.0.0.1:2119\"]"));
        assert_eq!(difference(&text).0, ["listen = [\"127.0.0.1:2119\"] # here"]);
        assert_eq!(config.site.listen, ["127.0.0.1:2119"]);
        let (text, config) = check(&set("lists", "\"texts\""));
        assert_eq!(difference(&text), (vec!["lists = \"texts\""], vec![]));
        assert_eq!(config.site.lists, Path::new("x/texts"));
        let text = edited("[[class]]\n", &set("lists", "\"texts\"")).unwrap();
        assert_eq!(text, "[site]\nlists = \"texts\"\n\n[[class]]\n");
        assert!(edited("site.log_level = \"warn\"\n", &set("lists", "\"x\"")).is_err());
    }

    #[test]
    fn inline_tables_are_left_to_their_owner() {
        let text = "buffer = [{ name = \"a\", path = \"a\" }]\n";
        let change = Change::Set { name: "a".into(), key: "size", value: "1".into() };
        assert!(edited(text, &change).unwrap_err().contains("change it by hand"));
    }
}
