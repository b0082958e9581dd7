//! Changes to the configuration made by commands: they change as little of the text as possible, and keep
//! comments and order.
//!
//! The result is read and checked like any configuration before it replaces the file. Called by
//! `operators::buffers`, `up` and `peer add`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::ConfigError;
use disk::{FileAccess, RealDisk, durable_replace};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, RawString, Table, TomlError, Value};

/// A change to the configuration.
#[derive(Debug, Clone)]
pub enum ConfigEdit {
    /// Add a `[[buffer]]` with these keys and values, for a class.
    Add {
        /// Name of the buffer.
        name: String,
        /// The keys of the buffer with their values, `name` among them.
        keys: Vec<(&'static str, Value)>,
        /// Name of the class.
        class: String,
    },
    /// Set a key of a buffer.
    Set {
        /// Name of the buffer.
        name: String,
        /// The key.
        key: &'static str,
        /// The new value.
        value: Value,
    },
    /// Remove a `[[buffer]]`, and its name from its class.
    Remove {
        /// Name of the buffer.
        name: String,
    },
    /// Add a `[[peer]]` with these keys and values, and with a `[peer.send]` unless that has none.
    AddPeer {
        /// The keys of the peer with their values, `name` among them.
        keys: Vec<(&'static str, Value)>,
        /// The keys of what it is sent, with their values.
        send: Vec<(&'static str, Value)>,
    },
    /// Set a key of a section that exists once, such as `[site]`.
    Value {
        /// Name of the section.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// The new value.
        value: Value,
    },
}

/// Reason why a change does not apply to the text of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum EditFault {
    /// The text is not TOML.
    #[error("{}", .0.message())]
    Toml(TomlError),
    /// The section, which exists once, is not written with a head of its own.
    #[error("it does not write [{0}]; change it by hand")]
    NotASection(&'static str),
    /// Sections of this name are not written with heads of their own.
    #[error("it does not write its {0} sections as [[{0}]]; change it by hand")]
    NotSections(&'static str),
    /// No section has this name.
    #[error("it has no [[{section}]] with the name \"{name}\"")]
    NoneNamed {
        /// `buffer` or `class`.
        section: &'static str,
        /// The name.
        name: String,
    },
    /// The class, whose name this is, has no list of buffers.
    #[error("its class \"{0}\" has no buffers")]
    NoBuffers(String),
}

/// Reason why a configuration file was not changed.
#[derive(Debug)]
pub enum ConfigEditError {
    /// The file cannot be found.
    Find(PathBuf, io::Error),
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// A change does not apply to the text of the file.
    Change(PathBuf, EditFault),
    /// The changed text would have faults.
    Invalid(ConfigError),
    /// The file cannot be replaced.
    Write(PathBuf, io::Error),
}

impl fmt::Display for ConfigEditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cannot = |file: &Path, doing: &str, error: &dyn fmt::Display| {
            write!(f, "the configuration {} cannot be {doing}: {error}", file.display())
        };
        match self {
            Self::Find(file, error) => cannot(file, "found", error),
            Self::Read(file, error) => cannot(file, "read", error),
            Self::Change(file, fault) => cannot(file, "changed", fault),
            Self::Invalid(error) => {
                let report = error.report(false);
                write!(f, "the configuration would no longer be right:\n{}", report.trim_end())
            }
            Self::Write(file, error) => {
                cannot(file, "written", error)?;
                f.write_str("; the server's user must be allowed to write it and its directory")
            }
        }
    }
}

impl std::error::Error for ConfigEditError {}

/// Applies changes to a configuration file, all of them or none.
pub fn apply(file: &Path, changes: &[ConfigEdit]) -> Result<(), ConfigEditError> {
    // Symbolic links are kept.
    let file = file.canonicalize().map_err(|error| ConfigEditError::Find(file.to_owned(), error))?;
    let text = std::fs::read_to_string(&file).map_err(|error| ConfigEditError::Read(file.clone(), error))?;
    let edit = |text: String, change| edited(&text, change);
    let edited = changes.iter().try_fold(text, edit);
    let edited = edited.map_err(|fault| ConfigEditError::Change(file.clone(), fault))?;
    replace_file(&file, &edited)
}

/// Replaces a configuration file, if the new text is right.
pub fn replace_file(file: &Path, text: &str) -> Result<(), ConfigEditError> {
    let file = file.canonicalize().map_err(|error| ConfigEditError::Find(file.to_owned(), error))?;
    super::parse(text, &file).map_err(ConfigEditError::Invalid)?;
    durable_replace(&RealDisk::new(), &file, &[text.as_bytes()], FileAccess::All)
        .map_err(|error| ConfigEditError::Write(file, error))
}

/// Returns the text after a change.
pub(crate) fn edited(text: &str, change: &ConfigEdit) -> Result<String, EditFault> {
    let mut document: DocumentMut = text.parse().map_err(EditFault::Toml)?;
    match change {
        ConfigEdit::Set { name, key, value } => {
            let all = sections(&mut document, "buffer")?;
            set(named(all, "buffer", name)?, key, value);
        }
        ConfigEdit::Value { section, key, value } => {
            let is_new = !document.contains_key(section);
            let table = document.entry(section).or_insert(Item::Table(Table::new()));
            set(table.as_table_mut().ok_or(EditFault::NotASection(section))?, key, value);
            if is_new {
                return Ok(format!("[{section}]\n{key} = {value}\n\n{text}"));
            }
        }
        ConfigEdit::Add { name, keys, class } => {
            let buffers = named(sections(&mut document, "class")?, "class", class)?.get_mut("buffers");
            let buffers = buffers.and_then(Item::as_array_mut);
            buffers.ok_or_else(|| EditFault::NoBuffers(class.clone()))?.push(name);
            sections(&mut document, "buffer")?.push(table_of(keys));
        }
        ConfigEdit::AddPeer { keys, send } => {
            let mut new = table_of(keys);
            if !send.is_empty() {
                new.insert("send", Item::Table(table_of(send)));
            }
            sections(&mut document, "peer")?.push(new);
        }
        ConfigEdit::Remove { name } => {
            let all = sections(&mut document, "buffer")?;
            let removed = named(all, "buffer", name)?.clone();
            all.retain(|table| !is_named(table, name));
            keep_comment(&mut document, &removed);
            for class in sections(&mut document, "class")?.iter_mut() {
                if let Some(list) = class.get_mut("buffers").and_then(Item::as_array_mut) {
                    remove_from(list, name);
                }
            }
        }
    }
    Ok(document.to_string())
}

/// Moves the comment above a removed section to the section after it.
fn keep_comment(document: &mut DocumentMut, removed: &Table) {
    let comment = text_of(removed.decor().prefix());
    if !comment.contains('#') {
        return;
    }
    let tables = document.iter_mut().flat_map(|(_, item)| match item {
        Item::Table(table) => vec![table],
        Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
        _ => Vec::new(),
    });
    let later = tables.filter(|table| table.position() > removed.position());
    match later.min_by_key(|table| table.position()) {
        Some(next) => {
            let own = text_of(next.decor().prefix());
            next.decor_mut().set_prefix(comment + own.trim_start());
        }
        None => {
            let trailing = text_of(Some(document.trailing()));
            document.set_trailing(comment + &trailing);
        }
    }
}

/// Removes a name from a list; comments on the others stay.
fn remove_from(list: &mut Array, name: &str) {
    let Some(at) = list.iter().position(|element| element.as_str() == Some(name)) else { return };
    let before = text_of(list.remove(at).decor().prefix());
    match list.get_mut(at) {
        Some(next) if !text_of(next.decor().prefix()).contains('#') => next.decor_mut().set_prefix(before),
        None if before.contains('#') => list.set_trailing(before + &text_of(Some(list.trailing()))),
        _ => {}
    }
}

fn text_of(raw: Option<&RawString>) -> String {
    raw.and_then(RawString::as_str).unwrap_or_default().to_owned()
}

/// Returns the `[[...]]` sections of this name.
fn sections<'a>(
    document: &'a mut DocumentMut,
    name: &'static str,
) -> Result<&'a mut ArrayOfTables, EditFault> {
    let sections = document.entry(name).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    sections.as_array_of_tables_mut().ok_or(EditFault::NotSections(name))
}

fn is_named(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

fn named<'a>(
    sections: &'a mut ArrayOfTables,
    section: &'static str,
    name: &str,
) -> Result<&'a mut Table, EditFault> {
    let found = sections.iter_mut().find(|table| is_named(table, name));
    found.ok_or_else(|| EditFault::NoneNamed { section, name: name.to_owned() })
}

fn table_of(keys: &[(&'static str, Value)]) -> Table {
    let mut table = Table::new();
    keys.iter().for_each(|(key, value)| set(&mut table, key, value));
    table
}

/// Sets a key to a value, keeping the text around it.
fn set(table: &mut Table, key: &str, value: &Value) {
    let mut value = value.clone();
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# My site.\n[site]\nlisten = [\"127.0.0.1:1119\"] # here\n\n\
        # The first one.\n[[buffer]]\nname = \"a\"\npath = \"a.cyc\"   # a file\nsize = \"1 MiB\" # small\n\n\
        # The second one.\n[[buffer]]\nname = \"b\"\npath = \"b.cyc\"\nsize = \"2 MiB\"\n\n\
        # Text.\n[[class]]\nname = \"text\"\nbuffers = [\n  \"a\", # first\n  \"b\",\n]\n\n[[rule]]\nclass = \"text\"\n";

    fn check(change: &ConfigEdit) -> (String, crate::Config) {
        let text = edited(TEXT, change).unwrap();
        let config = crate::parse(&text, Path::new("x/newsreel.toml")).map_err(|e| e.report(false)).unwrap();
        (text, config)
    }

    /// Returns the added and removed lines.
    fn difference(text: &str) -> (Vec<&str>, Vec<&'static str>) {
        let new = text.lines().filter(|line| !TEXT.lines().any(|old| old == *line)).collect();
        let removed = TEXT.lines().filter(|line| !text.lines().any(|new| new == *line)).collect();
        (new, removed)
    }

    #[test]
    fn a_value_is_changed_in_place_and_a_new_key_put_after_the_others() {
        let set = |key, value: &str| {
            check(&ConfigEdit::Set { name: "a".into(), key, value: value.parse().unwrap() })
        };
        let (text, config) = set("size", "\"3 MiB\"");
        assert_eq!(difference(&text), (vec!["size = \"3 MiB\" # small"], vec!["size = \"1 MiB\" # small"]));
        assert_eq!(config.buffers[0].size, Some(3 << 20));
        let (text, config) = set("retired", "true");
        assert_eq!(difference(&text), (vec!["retired = true"], vec![]));
        assert!(text.contains("# small\nretired = true\n\n# The second one."), "{text}");
        assert!(config.buffers[0].retired && !config.buffers[1].retired);
        let none = ConfigEdit::Set { name: "z".into(), key: "size", value: 1.into() };
        assert_eq!(edited(TEXT, &none).unwrap_err().to_string(), "it has no [[buffer]] with the name \"z\"");
    }

    #[test]
    fn a_buffer_is_added_after_the_others_and_to_its_class() {
        let keys = vec![("name", "c".into()), ("path", "/dev/x".into())];
        let (text, config) = check(&ConfigEdit::Add { name: "c".into(), keys, class: "text".into() });
        assert!(
            text.contains("\"2 MiB\"\n\n[[buffer]]\nname = \"c\"\npath = \"/dev/x\"\n\n# Text."),
            "{text}"
        );
        assert_eq!(config.classes[0].buffers, ["a", "b", "c"]);
        let lost = ConfigEdit::Add { name: "c".into(), keys: vec![], class: "none".into() };
        assert!(edited(TEXT, &lost).unwrap_err().to_string().contains("no [[class]]"));
    }

    #[test]
    fn a_peer_is_added_with_what_it_is_sent() {
        let keys = vec![("name", "b.example".into()), ("addresses", ["192.0.2.1"].into_iter().collect())];
        let add = |send| ConfigEdit::AddPeer { keys: keys.clone(), send };
        let (text, config) = check(&add(vec![("to", "b.example:119".into())]));
        let added = "[[peer]]\nname = \"b.example\"\naddresses = [\"192.0.2.1\"]\n\n[peer.send]\nto = \"b.example:119\"\n";
        assert!(text.starts_with(TEXT) && text.contains(added), "{text}");
        assert_eq!(config.peers[0].send.as_ref().unwrap().to, ["b.example:119"]);
        let (text, config) = check(&add(Vec::new()));
        assert!(config.peers[0].send.is_none() && !text.contains("[peer.send]"), "{text}");
        let again = edited(&text, &add(Vec::new())).unwrap();
        assert_eq!(again.matches("[[peer]]").count(), 2, "{again}");
    }

    #[test]
    fn a_buffer_is_removed_wherever_it_stands() {
        let (text, config) = check(&ConfigEdit::Remove { name: "a".into() });
        assert_eq!(config.classes[0].buffers, ["b"]);
        assert!(text.contains("# The first one.\n# The second one.\n[[buffer]]\nname = \"b\""), "{text}");
        let (text, config) = check(&ConfigEdit::Remove { name: "b".into() });
        assert_eq!((config.classes[0].buffers.as_slice(), config.buffers.len()), (&["a".to_owned()][..], 1));
        assert!(text.contains("# Text.\n[[class]]"), "{text}");
    }

    #[test]
    fn a_key_of_the_site_is_changed_or_added() {
        let set =
            |key, value: &str| ConfigEdit::Value { section: "site", key, value: value.parse().unwrap() };
        let (text, config) = check(&set("listen", "[\"127.0.0.1:2119\"]"));
        assert_eq!(difference(&text).0, ["listen = [\"127.0.0.1:2119\"] # here"]);
        assert_eq!(config.site.listen, ["127.0.0.1:2119"]);
        let (text, config) = check(&set("lists", "\"texts\""));
        assert_eq!(difference(&text), (vec!["lists = \"texts\""], vec![]));
        assert_eq!(config.site.lists, Path::new("x/texts"));
        let text = edited("[[class]]\n", &set("lists", "\"texts\"")).unwrap();
        assert_eq!(text, "[site]\nlists = \"texts\"\n\n[[class]]\n");
        let dotted = edited("site.log_level = \"warn\"\n", &set("lists", "\"x\"")).unwrap();
        assert_eq!(dotted, "site.log_level = \"warn\"\nsite.lists = \"x\"\n");
    }

    #[test]
    fn inline_tables_are_left_to_their_owner() {
        let text = "buffer = [{ name = \"a\", path = \"a\" }]\n";
        let change = ConfigEdit::Set { name: "a".into(), key: "size", value: 1.into() };
        assert!(edited(text, &change).unwrap_err().to_string().contains("change it by hand"));
    }
}
