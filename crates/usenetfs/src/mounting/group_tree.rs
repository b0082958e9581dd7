//! Groups as directories: `comp.lang.c` is `comp/lang/c`, and a component that consists of digits gets a
//! final dot (`alt/2600.`), as in a tradspool of newsreel's, so that it cannot be an article's name.
//!
//! [`GroupTree`] numbers the directories that were seen. Nothing else is kept: [`ArticleProvider`] is asked
//! each time whether one exists.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lock_order::Innermost;
use netnews::bucket::is_article;

use super::articles::ArticleProvider;

/// Number of the root.
pub const ROOT: u64 = 1;
/// First number of other directories, in the order in which they are seen.
const FIRST_DIRECTORY: u64 = 1 << 63;
/// Number of the directory in which articles are found by Message-ID.
const BY_ID: u64 = FIRST_DIRECTORY;
/// Name of this directory, which no component of a group's name can be.
pub const BY_ID_NAME: &str = "message.id";

/// The file by which mail readers recognize a directory of numbered messages (MH). It is found in each group,
/// is empty, and is listed in none.
const SEQUENCES_NAME: &[u8] = b".mh_sequences";
/// Number of this file.
pub const SEQUENCES: u64 = FIRST_DIRECTORY - 1;

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupDirectory {
    /// The root directory.
    Root,
    /// Articles by Message-ID.
    ById,
    /// Directory of a group, of the groups below a name, or both.
    Group(Arc<str>),
}

/// Object that a name in a directory stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum NameTarget {
    /// A directory, if it exists.
    Directory(GroupDirectory),
    /// The article with this number.
    Number(Arc<str>, u64),
    /// The article with this Message-ID.
    MessageId(Vec<u8>),
    /// The file [`SEQUENCES`], if there is a group of this name.
    Sequences(Arc<str>),
}

/// Numbers of directories.
#[derive(Default)]
pub struct GroupTree {
    table: Innermost<DirectoryTable>,
}

#[derive(Default)]
struct DirectoryTable {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u64>,
}

impl GroupTree {
    /// Returns the number of a directory, which is permanent for this tree.
    pub fn number(&self, directory: &GroupDirectory) -> u64 {
        let name = match directory {
            GroupDirectory::Root => return ROOT,
            GroupDirectory::ById => return BY_ID,
            GroupDirectory::Group(name) => name,
        };
        let mut table = self.table.lock();
        if let Some(number) = table.numbers.get(name) {
            return *number;
        }
        table.names.push(name.clone());
        let number = BY_ID + table.names.len() as u64;
        table.numbers.insert(name.clone(), number);
        number
    }

    /// Returns the directory of a number; `None` if it is an article's, or unused.
    pub fn directory(&self, number: u64) -> Option<GroupDirectory> {
        match number {
            ROOT => Some(GroupDirectory::Root),
            BY_ID => Some(GroupDirectory::ById),
            _ => {
                let index = usize::try_from(number.checked_sub(BY_ID + 1)?).ok()?;
                self.table.lock().names.get(index).cloned().map(GroupDirectory::Group)
            }
        }
    }
}

impl GroupDirectory {
    /// Returns the directory that contains this one.
    pub fn parent(&self) -> Self {
        match self {
            Self::Root | Self::ById => Self::Root,
            Self::Group(name) => {
                name.rsplit_once('.').map_or(Self::Root, |(parent, _)| Self::Group(parent.into()))
            }
        }
    }

    /// Returns whether the directory exists.
    pub fn exists(&self, articles: &impl ArticleProvider) -> bool {
        match self {
            Self::Root | Self::ById => true,
            Self::Group(name) => {
                articles.group_changed(name).is_some() || first_below(articles, name).is_some()
            }
        }
    }

    /// Returns the object that a name in this directory stands for, if the name is valid.
    pub fn named(&self, name: &[u8]) -> Option<NameTarget> {
        match self {
            Self::ById => Some(NameTarget::MessageId(message_id(name)?)),
            Self::Root if name == BY_ID_NAME.as_bytes() => Some(NameTarget::Directory(Self::ById)),
            Self::Root => {
                let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('.'))?;
                Some(NameTarget::Directory(Self::Group(name.into())))
            }
            Self::Group(group) if is_article(name) => Some(NameTarget::Number(group.clone(), number(name)?)),
            Self::Group(group) if name == SEQUENCES_NAME => Some(NameTarget::Sequences(group.clone())),
            Self::Group(group) => {
                let part = match name.strip_suffix(b".") {
                    Some(digits) if is_article(digits) => digits,
                    _ => name,
                };
                let part = std::str::from_utf8(part).ok().filter(|part| !part.contains('.'))?;
                Some(NameTarget::Directory(Self::Group(format!("{group}.{part}").into())))
            }
        }
    }

    /// Returns the subdirectories with their names, in order.
    pub fn directories(&self, articles: &impl ArticleProvider) -> Vec<(String, Self)> {
        let (prefix, mut parts) = match self {
            Self::ById => return Vec::new(),
            Self::Root => (String::new(), BTreeSet::new()),
            Self::Group(name) => (format!("{name}."), BTreeSet::new()),
        };
        let mut next = articles.group_from(&prefix);
        while let Some(group) = next {
            let Some(rest) = group.strip_prefix(prefix.as_str()) else { break };
            let (part, is_below) = rest.split_once('.').map_or((rest, false), |(part, _)| (part, true));
            parts.insert(part.to_owned());
            // The first name after all groups below `part.`, or after the group itself.
            let after = if is_below { format!("{prefix}{part}/") } else { format!("{group}\0") };
            next = articles.group_from(&after);
        }
        let is_root = *self == Self::Root;
        let named = parts.into_iter().map(|part| {
            let directory = Self::Group(format!("{prefix}{part}").into());
            (if !is_root && is_article(part.as_bytes()) { format!("{part}.") } else { part }, directory)
        });
        let by_id = is_root.then(|| (BY_ID_NAME.to_owned(), Self::ById));
        named.chain(by_id).collect()
    }
}

/// Returns the first group below another name.
fn first_below(articles: &impl ArticleProvider, name: &str) -> Option<Arc<str>> {
    let prefix = format!("{name}.");
    articles.group_from(&prefix).filter(|group| group.starts_with(&prefix))
}

/// Parses an article number in a file name: digits without leading zeros.
fn number(name: &[u8]) -> Option<u64> {
    let is_plain = name.first().is_some_and(|first| *first != b'0');
    let digits = std::str::from_utf8(name).ok().filter(|_| is_plain)?;
    digits.parse().ok()
}

/// Returns the Message-ID for a name: the id without its angle brackets, `%2F` for `/` and `%25` for `%`
/// before digits that would otherwise be decoded.
fn message_id(name: &[u8]) -> Option<Vec<u8>> {
    let mut id = vec![b'<'];
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after.first_chunk::<2>()) {
            (b'%', Some(b"2F")) => id.push(b'/'),
            (b'%', Some(b"25")) => id.push(b'%'),
            (other, _) => {
                id.push(*other);
                continue;
            }
        }
        rest = after.get(2..).unwrap_or_default();
    }
    id.push(b'>');
    Some(id).filter(|_| !name.is_empty())
}

#[cfg(test)]
#[path = "group_tree_tests.rs"]
mod tests;
