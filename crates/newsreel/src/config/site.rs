//! `[site]` and `[limits]`: the server itself, and what clients may take.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;
use super::{Distributions, Durability};

section! {
    /// The server itself: its name, where it listens, what it promises.
    [site] Site, SiteDraft {
        /// The name that this server puts in front of Path and by which its peers know it (RFC 5536 section
        /// 3.1.5). It should be a domain name of yours and never change: an article whose Path already holds
        /// it is refused as one that has been here.
        path_identity: String = PathIdentity, example "news.example.org";
        /// Other names of this server that it puts into Path after path_identity: an earlier one, so that
        /// peers that know it by that name do not offer it what it has, or the common name of a cluster,
        /// whose members then have it in their path_never and do not send each other the same. Articles that
        /// come with one of these names are taken.
        path_also: Vec<String> = List(PathIdentity), default [], example ["cluster.example.org"];
        /// Put as Organization into articles that are posted here without one.
        organization: Option<String> = Maybe(Text), example "Example News";
        /// Where to listen, for peers and readers alike; what a client may do follows from its address. The
        /// port of news is 119; a port below 1024 needs a privilege, which the systemd unit in packaging/
        /// gives.
        listen: Vec<String> = List(HostPort), default ["127.0.0.1:1119"], example ["0.0.0.0:119", "[::]:119"];
        /// Where to listen for connections that begin with TLS, for peers and readers alike. The port is 563.
        /// Needs a certificate in [tls]. RFC 8143 recommends it over STARTTLS.
        tls_listen: Vec<String> = List(HostPort), default [], example ["0.0.0.0:563", "[::]:563"];
        /// The directory of journal, indexes and control socket, relative to the directory of this file.
        data: PathBuf = FilePath, default ".", example "/var/lib/newsreel",
            effect Refused("stop the server, move the directory, and start it again");
        /// The directory of the texts that readers ask for with LIST, relative to the directory of this file:
        /// motd (message of the day), distributions (a name and a description on each line), distrib.pats
        /// (weight:wildmat:distribution) and subscriptions (newsgroups to recommend, the best first), in
        /// UTF-8 and in the form INN has them. They are read when they are asked for; a list without file is
        /// answered 503.
        lists: PathBuf = FilePath, default "lists", example "/etc/newsreel/lists";
        /// When an article counts as stored and is acknowledged. "process": once the operating system has it,
        /// so that it survives the end of the process; "interval(TIME)": the same, and a power cut takes at
        /// most what arrived within TIME: while a slower disk catches up, nothing more is accepted; "always":
        /// once the disk has it (all who wait share one sync).
        durability: Durability = Durable, default "interval(100ms)", example "always";
        /// An article whose Date is older than so many days is rejected; "none" takes articles of any age, as
        /// one wants when filling a server from an archive. Must be less than remember_days.
        max_age_days: Option<u32> = DaysOrNone, default 10, example "none";
        /// A longer article is rejected (1 KiB to 1 GiB), as is one that does not fit into its buffer.
        article_bytes_max: u64 = Size { min: 1 << 10, max: 1 << 30 }, default "4 MiB", example "1 MB";
        /// How long the Message-ID of an article that was rejected or overwritten is remembered, so that it
        /// is not taken again. Costs 32 bytes of history for each.
        remember_days: u32 = 1..=36_500, default 11, example 30;
        /// What becomes of an article none of whose groups is carried here: "reject" it, or file it in the
        /// group "junk", which then must exist.
        unknown_groups: UnknownGroups = word(), default "reject", example "junk";
        /// The distributions that are accepted here at all, whoever sends the article: names between commas,
        /// in any case; "!" before a name excludes it, "*" stands for any text; the last entry that fits
        /// decides, and a list that only excludes accepts every other. An article whose Distribution header
        /// names only others is rejected; one without the header, or for "world", has no restriction and
        /// always passes (RFC 5536 section 3.2.4).
        distributions: Distributions = DistributionList, default "*", example "!local";
        /// How much of the journal is kept beyond what the indexes need after a crash.
        journal_keep_bytes: u64 = Size::ANY, default "64 MiB", example "1 GiB";
        /// How much of the journal, up to its end, may be kept for readers that are slow, such as feeds to
        /// peers that are down. They skip what is older, and count what they skip. On a full disk accepting
        /// articles comes first: nothing is kept for them then.
        journal_claim_bytes: u64 = Size::ANY, default "4 GiB", example "20 GiB";
        /// How many days of the journal may be kept for readers that are slow.
        journal_claim_days: u32 = 1..=3_650, default 7, example 3;
        /// Overview (what OVER answers with) is compressed once its articles have been here so long; it then
        /// takes less than half the room, and reading it more time. It is done at leisure, and not while
        /// articles come in by thousands a second. A time longer than articles stay leaves all of it as it
        /// is, for instance on a file system that compresses.
        compress_overview_after: Duration = Span, default "10 min", example "1 h";
        /// The least severe events that are logged, to standard error. "info": starts, stops and peers;
        /// "debug": every connection and rejected article; "trace": every command.
        log_level: LogLevel = word(), default "info", example "debug";
        /// "plain": a line of text for each event; "json": a JSON object.
        log_format: LogFormat = word(), default "plain", example "json";
    }
}

impl Site {
    /// What this server puts in front of Path: all its names, with `!` between them.
    pub fn path_names(&self) -> String {
        let names: Vec<&str> =
            std::iter::once(&self.path_identity).chain(&self.path_also).map(String::as_str).collect();
        names.join("!")
    }
}

section! {
    /// What one client, and all of them together, may take. Whoever exceeds a limit loses the connection;
    /// nobody else notices.
    [limits] Limits, LimitsDraft {
        /// Connections at once. The next one is answered 400 and closed.
        connections_max: usize = 1..=1_000_000, default 20000, example 5000;
        /// Connections at once from one address. Peers have their own limit, max_connections.
        connections_per_address_max: usize = 1..=1_000_000, default 10000, example 50;
        /// A connection without a command for so long is closed. RFC 3977 section 3.1 asks for at least 3
        /// minutes.
        idle_timeout: Duration = Timeout, default "10 min", example "30 min";
        /// How long a client may take to complete a command line, and pause within an article, from the first
        /// byte on; a slower one is answered 400 and disconnected. The time before the first byte is
        /// idle_timeout's.
        command_timeout: Duration = Timeout, default "1 min", example "20 s";
        /// A client that takes nothing of its answer for so long is disconnected.
        write_timeout: Duration = Timeout, default "2 min", example "30 s";
        /// Memory for articles of more than 16 KiB that peers are sending, besides 64 MiB for reading ahead.
        /// An article takes it as it arrives. When it is used up the others wait; an article that comes more
        /// slowly than 32 KiB/s is given up for them, the slowest first, and its sender is asked to try again
        /// later. There is always room for one article of site.article_bytes_max, whatever this and the next
        /// three keys say.
        receive_bytes_from_peers_max: u64 = Size::ANY, default "128 MiB", example "1 GiB";
        /// The same for articles that are being posted, whoever posts them. What peers send does not count,
        /// so that posters cannot hold up a feed.
        receive_bytes_from_posters_max: u64 = Size::ANY, default "64 MiB", example "256 MiB";
        /// How much of it the posts from one address may take, of IPv6 from one /64 network. Only clients
        /// that have not logged in count. Clients of a reverse proxy share its address: raise this where one
        /// stands in front.
        receive_bytes_per_address_max: u64 = Size::ANY, default "16 MiB", example "64 MiB";
        /// How much of it the posts of one user may take, whatever addresses they come from.
        receive_bytes_per_user_max: u64 = Size::ANY, default "16 MiB", example "32 MiB";
    }
}

words! {
    /// What becomes of an article none of whose groups is carried here.
    pub enum UnknownGroups {
        /// It is rejected and remembered.
        Reject = "reject",
        /// It is filed in `junk`.
        Junk = "junk",
    }
}

words! {
    /// Least severe event that is logged.
    pub enum LogLevel {
        /// Our own failures.
        Error = "error",
        /// What an operator should look into.
        Warn = "warn",
        /// Starts, stops, connections of peers.
        Info = "info",
        /// Every connection and every rejected article.
        Debug = "debug",
        /// Every command.
        Trace = "trace",
    }
}

words! {
    /// Shape of a log line.
    pub enum LogFormat {
        /// Text for people.
        Plain = "plain",
        /// One JSON object a line.
        Json = "json",
    }
}
