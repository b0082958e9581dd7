//! How connections to other servers are encrypted.

use super::words::Word;
use serde::{Deserialize, Serialize};

/// How a connection to another server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LinkTls {
    /// Not at all.
    Off,
    /// By STARTTLS.
    Starttls,
    /// From the first octet.
    Implicit,
}

impl Word for LinkTls {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("starttls", Self::Starttls), ("implicit", Self::Implicit)];
}
