//! `[[pull]]`: servers from which articles are fetched.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kinds::*;
use super::{Groups, LinkTls, Word};

section! {
    /// A server from which this one fetches articles, as a reader does (what suck, leafnode and pullnews are
    /// for). It does so again and again as long as it runs; newsreel pull does it once. Articles keep their
    /// Message-IDs, and are filed as if the server were a peer that has sent them. Marks of what was fetched
    /// are kept in the directory pull below site.data.
    [[pull]] Pull, PullDraft with link {
        /// A name for logs, newsreel status and newsreel pull.
        name: String = Text, example "upstream";
        /// Where to connect.
        from: String = HostPort, example "news.example.net:119";
        /// The groups to fetch, of those that are carried here. An article that is also in other groups is
        /// filed only in these.
        groups: Groups = Wildmat, example "comp.*,!comp.binaries.*";
        /// Whether groups that match and are not carried here are made, with the flag and the description
        /// that they have there.
        create_groups: bool = Switch, default false, example true;
        /// The time between the end of one run and the beginning of the next.
        interval: Duration = Pause, default "10 min", example "1 h";
        /// How it is found out what is new: "number": by the article numbers of each group, which misses
        /// nothing; "newnews": by NEWNEWS, which is one question for all groups, but which many servers
        /// refuse.
        by: PullBy = word(), default "number", example "newnews";
        /// Of a group that was never fetched from, at most so many of its newest articles; without it, all
        /// that the server has. 0 is none.
        first_max: Option<u64> = Maybe(0..=u64::MAX), example 1000;
        /// Connections at once.
        connections: usize = 1..=32, default 2, example 4;
        /// Bytes of articles per second, over all connections; without it, as fast as they come.
        bytes_per_sec_max: Option<u64> = Maybe(Size { min: 1 << 10, max: u64::MAX }), example "1 MiB";
    }
}

/// How it is found out what is new on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum PullBy {
    /// By article numbers.
    Number,
    /// By NEWNEWS.
    Newnews,
}

impl Word for PullBy {
    const WORDS: &'static [(&'static str, Self)] = &[("number", Self::Number), ("newnews", Self::Newnews)];
}
