//! Subcommands of requests.

use super::start::since;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Display of the archives' state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArchiveCommand {
    /// Show the state of the archives
    Status {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// List the articles that were not copied: Unix seconds, the archive, groups and numbers, and why;
    /// the newest 16 MiB of it are kept
    Missed,
}

/// Action on the site's keys; answered by [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeysCommand {
    /// Import the public keys in a file, as gpg --export writes it; a known key is replaced
    Import {
        /// The file
        #[serde(skip)]
        file: PathBuf,
        /// Contents of the file, in Base64.
        #[arg(skip)]
        content: String,
    },
    /// List the keys: fingerprint, whether it is trusted, users
    List,
    /// Trust a key, so that it counts for [[control]] sections that name it
    Trust {
        /// Its fingerprint, or a user of it
        key: String,
    },
    /// Remove a key
    Remove {
        /// Its fingerprint, or a user of it
        key: String,
    },
}

/// Action on posts that wait for a moderator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModerationCommand {
    /// List the posts that wait, the oldest first
    List {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Show a post that waits
    Show {
        /// Its Message-ID, with its angle brackets
        message_id: String,
    },
    /// Approve posts: they get an Approved header and are filed; needs a running server
    Approve {
        /// Message-IDs, with their angle brackets
        #[arg(required = true, value_name = "MESSAGE-ID")]
        message_ids: Vec<String>,
        /// The mail address in Approved; by default moderation.sender
        #[arg(long, value_name = "ADDRESS")]
        by: Option<String>,
    },
    /// Reject a post: it is deleted, and its poster is mailed why, if there is an address
    Reject {
        /// Its Message-ID, with its angle brackets
        message_id: String,
        /// Why, for the poster
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

/// Action on posts that wait for upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PostsCommand {
    /// List the posts that wait for an upstream, or that one has refused, the oldest first
    List {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Show a post
    Show {
        /// Its Message-ID, with its angle brackets
        message_id: String,
    },
    /// Send a post again now, also if it was refused
    Retry {
        /// Its Message-ID, with its angle brackets
        message_id: String,
        /// Only to this upstream
        #[arg(long, value_name = "NAME")]
        upstream: Option<String>,
    },
    /// Delete a post: it is not sent
    Drop {
        /// Its Message-ID, with its angle brackets
        message_id: String,
        /// Only for this upstream
        #[arg(long, value_name = "NAME")]
        upstream: Option<String>,
    },
}

/// Action on the findings of filters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FilterCommand {
    /// List what filters found, the oldest first; the newest 16 MiB of it are kept
    Review {
        /// Only what this filter found: spam, or the name of a [[filter]]
        #[arg(long, value_name = "NAME")]
        filter: Option<String>,
        /// Only what was found since a date such as 2026-01-31, or in a time span such as 2h
        #[arg(long, value_name = "TIME", value_parser = since)]
        since: Option<u64>,
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Show articles hidden by a filter again, file those set aside, and accept those refused when they come
    /// again; the filter does not judge them any more
    Release {
        /// Message-IDs, with their angle brackets
        #[arg(required = true, value_name = "MESSAGE-ID")]
        message_ids: Vec<String>,
    },
}
