//! Configurations for tests, of this crate and of those above.

use crate::{Config, parse};
use std::path::Path;

/// Returns a configuration of these sections and a minimal spool.
///
/// # Panics
///
/// If the configuration has a fault.
#[allow(clippy::expect_used)]
pub fn with_trash(sections: &str) -> Config {
    let spool = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";
    parse(&format!("{sections}\n{spool}"), Path::new("x.toml")).expect("a configuration without faults")
}
