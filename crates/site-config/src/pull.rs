//! `[[pull]]` and `[[body_server]]`: servers from which articles are fetched.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kinds::*;
use super::{LinkTls, NamePattern};

section! {
    /// A server from which articles are fetched, as a newsreader does (like suck, leafnode and pullnews), at
    /// intervals while this server runs; newsreel pull does it once. Articles keep their Message-IDs, and are
    /// filed as if that server were a peer. The directory pull below site.data records how far was fetched.
    [[pull]] Pull, PullDraft with link {
        /// A name for logs, newsreel status and newsreel pull.
        name: String = Text, example "upstream";
        /// Where to connect.
        from: String = HostPort, example "news.example.net:119";
        /// The groups to fetch, among those carried here. An article that is also in other groups is filed
        /// only in these.
        groups: NamePattern = Wildmat, example "comp.*,!comp.binaries.*";
        /// Whether to create groups that match and are not carried here, with the flag and description that
        /// they have there.
        create_groups: bool = Switch, default false, example true;
        /// The time between the end of one run and the start of the next.
        interval: Duration = Pause, default "10 min", example "1 h";
        /// How new articles are found: "number": by the article numbers of each group, which misses nothing;
        /// "newnews": with NEWNEWS, one request for all groups, which many servers refuse.
        by: PullMethod = word(), default "number", example "newnews";
        /// In a group that was never fetched before, at most this many of its newest articles; by default all
        /// that the server has. 0 is none.
        first_max: Option<u64> = Maybe(0..=u64::MAX), example 1000;
        /// Concurrent connections.
        connections: usize = 1..=32, default 2, example 4;
        /// Bytes of articles per second, over all connections; by default as fast as they arrive.
        bytes_per_sec_max: Option<u64> = Maybe(Size { min: 1 << 10, max: u64::MAX }), example "1 MiB";
        /// How long an answer may take to begin, and how long nothing may come of one that has begun. An
        /// article at which the server stays silent for so long twice is set aside.
        answer_timeout: Duration = Timeout, default "1 min", example "3 min";
        /// An article that the server lists and refuses to send is set aside: the others are fetched, and it
        /// is asked for again on later runs, first after a hundredth of this time, at most 5 minutes, then
        /// after pauses that double, at most a day. It is given up once it has been refused for this long.
        /// So is one for which there is no room in its storage class.
        give_up_after: Duration = Pause, default "3 days", example "12 h";
    }
}

section! {
    /// A server that has the bodies of articles of which a peer sends only the headers (peer.headers_only).
    /// When a reader asks for one, these servers are asked for the article by its Message-ID, in this order;
    /// it is then kept in a cyclic buffer.
    [[body_server]] BodyServer, BodyServerDraft with link {
        /// A name for logs.
        name: String = Text, example "spool1";
        /// Where to connect.
        from: String = HostPort, example "spool1.example.net:119";
        /// Concurrent connections.
        connections: usize = 1..=256, default 4, example 16;
        /// How long an article may take to come, with all that is needed for it; waiting for a free
        /// connection may take as long again. The reader gets 403 then.
        timeout: Duration = Pause, default "15 s", example "5 s";
    }
}

words! {
    /// The way to find new articles on a server.
    #[derive(Serialize, Deserialize, clap::ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum PullMethod {
        /// By article numbers.
        Number = "number",
        /// By NEWNEWS.
        Newnews = "newnews",
    }
}
