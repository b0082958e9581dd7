//! Faults in a configuration file: all of them at once, each with line, caret and advice.
//!
//! Made by `read` and `checks`; printed by the command line.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::report::rendered;

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    /// Description of the fault, in one sentence without a full stop.
    pub message: String,
    /// The bytes of the file that the fault is about.
    pub span: Range<usize>,
    /// Text at the caret.
    pub label: String,
    /// Advice on correcting it.
    pub advice: Option<String>,
}

/// The reason why a file is not accepted.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file has faults.
    Faulty {
        /// The file.
        file: PathBuf,
        /// Contents of the file.
        text: String,
        /// The faults, in the order of the file; at least one.
        faults: Vec<ConfigFault>,
    },
}

impl ConfigError {
    /// Returns the faults; none if the file could not be read.
    pub fn faults(&self) -> &[ConfigFault] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Faulty { faults, .. } => faults,
        }
    }

    /// Returns the report for people: every fault with the lines around it, with colours for a terminal if
    /// `colour`.
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

/// Returns the word among `known` that `word` is probably a misspelling of, if one is near enough.
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
    fn misspellings_are_recognised_and_other_words_are_not() {
        let known = ["listen", "data", "durability"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("Durabilty", known), Some("durability"));
        assert_eq!(nearest("colour", known), None);
    }
}
