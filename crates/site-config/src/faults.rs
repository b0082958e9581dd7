//! What is wrong with a configuration file: all of it at once, each with line, caret and advice.
//!
//! Made by `read` and `checks`; printed by the command line.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::report::rendered;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The bytes of the file it is about.
    pub span: Range<usize>,
    /// Said at the caret.
    pub label: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// Why a file is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// It cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is wrong.
    Faulty {
        /// The file.
        file: PathBuf,
        /// Its text.
        text: String,
        /// What is wrong, in the order of the file; at least one.
        faults: Vec<Fault>,
    },
}

impl ConfigError {
    /// The faults; none if the file could not be read.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Faulty { faults, .. } => faults,
        }
    }

    /// The report for people: every fault with the lines around it; `colour` for a terminal.
    pub fn report(&self, colour: bool) -> String {
        let Self::Faulty { file, text, faults } = self else { return format!("{self}\n") };
        let name = file.display().to_string();
        let shown = faults.iter().map(|fault| rendered(fault, &name, text, colour) + "\n");
        shown.chain([format!("{self}\n")]).collect()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, error } => write!(f, "cannot read {}: {error}", file.display()),
            Self::Faulty { file, faults, .. } if faults.len() == 1 => {
                write!(f, "{}: 1 error", file.display())
            }
            Self::Faulty { file, faults, .. } => write!(f, "{}: {} errors", file.display(), faults.len()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The word among `known` that `word` is a slip of, if one is near enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips_max = 1 + word.len() / 4;
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["listen", "data", "durability"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("Durabilty", known), Some("durability"));
        assert_eq!(nearest("colour", known), None);
    }
}
