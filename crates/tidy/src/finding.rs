//! Findings: the places that break a rule, as every rule returns and `main` prints them.

use std::fmt;

use crate::source::{File, Tree};

/// A rule: all places of the tree that break it.
pub type Rule = fn(&Tree) -> Vec<Finding>;

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// A finding in this line of a file.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A finding in this line of this file.
pub fn finding(file: &File, line: usize, what: impl Into<String>) -> Finding {
    Finding::new(&file.path, line, what)
}
