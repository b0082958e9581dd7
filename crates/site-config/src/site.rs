//! `[site]` and `[limits]`: the server itself, and limits on clients.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::*;
use super::{Cidr, Distributions, Durability};

section! {
    /// The server itself: its name, where it listens, and how durable an acknowledged article is.
    [site] Site, SiteDraft {
        /// The name that this server adds to Path and by which its peers know it (RFC 5536 section 3.1.5).
        /// Use a domain name of yours and do not change it: an article whose Path already contains it is
        /// refused, because it has been here before.
        path_identity: String = PathIdentity, example "news.example.org";
        /// Other names that this server adds to Path after path_identity: a former one, so that peers that
        /// still know it by that name do not offer articles back, or the common name of a cluster, whose
        /// members list it in path_never so that they do not send each other the same articles. Articles that
        /// arrive with one of these names are accepted.
        path_also: Vec<String> = ListOf(PathIdentity), default [], example ["cluster.example.org"];
        /// The Organization header of articles posted here without one.
        organization: Option<String> = Maybe(Text), example "Example News";
        /// Where to listen, for peers and readers alike; what clients may do depends on their addresses. The
        /// standard port is 119; ports below 1024 need a privilege, which the systemd unit in packaging/
        /// grants. "0.0.0.0:119" is every IPv4 address of the machine and "[::]:119" every IPv6 address: name
        /// both for clients of both kinds. A link-local address needs its interface: "[fe80::1%eth0]:119".
        listen: Vec<String> = ListOf(HostPort), default ["127.0.0.1:1119"], example ["0.0.0.0:119", "[::]:119"],
            of machine;
        /// Where to listen for connections that begin with TLS, for peers and readers alike. The standard
        /// port is 563. Requires a certificate in [tls]. RFC 8143 recommends this over STARTTLS.
        tls_listen: Vec<String> = ListOf(HostPort), default [], example ["0.0.0.0:563", "[::]:563"],
            of machine;
        /// The addresses of proxies, such as HAProxy or nginx, that pass connections on and begin each with a
        /// PROXY header (version 1 or 2). The client's address is then the one in the header, everywhere: for
        /// access, peers, limits, lock-outs and the log. A connection from such an address without the header
        /// is closed, for NNTP and HTTP alike, and so is one whose header names no client (UNKNOWN), since it
        /// would have the rights of the proxy. Only what a proxy connects for itself, such as a health check
        /// (LOCAL), has the proxy's own address and what [[access]] and [[peer]] sections allow that. Name
        /// only proxies that no other client can connect through, since they can claim any address.
        proxy_protocol_from: Vec<Cidr> = NetworksOrNone, default [], example ["192.0.2.10", "2001:db8::10"],
            of machine;
        /// The directory of journal, indexes and control socket, relative to the directory of this file.
        data: PathBuf = FilePath, default ".", example "/var/lib/newsreel",
            effect Refused("stop the server, move the directory, and start it again"), of machine;
        /// The Unix group, by name or number, whose members may use the control socket for what changes
        /// nothing: newsreel status and top, and newsreel mount --spool, by which they read any group that
        /// some [[access]] section opens. They must be able to read this file and to enter the directory
        /// data, and the server's user must be a member. Without it the socket is for that user and root
        /// alone.
        control_group: Option<String> = Maybe(Text), example "operators", effect Restart, of machine;
        /// The directory of the texts for LIST, relative to the directory of this file: motd (message of the
        /// day), distributions (a name and a description per line), distrib.pats
        /// (weight:wildmat:distribution) and subscriptions (recommended newsgroups, the best first), in UTF-8
        /// and in INN's format. They are read for each request; a list without a file is answered 503.
        lists: PathBuf = FilePath, default "lists", example "/etc/newsreel/lists", of machine;
        /// When an article counts as stored and is acknowledged. "process": once the operating system has it,
        /// so that it survives the death of the process. "interval(TIME)": the same, and a power cut loses at
        /// most what arrived within TIME; while a slow disk catches up, nothing more is accepted. "always":
        /// once the disk has it (everyone who waits shares one sync).
        durability: Durability = Durable, default "interval(100ms)", example "always", of machine;
        /// Articles whose Date is older than this many days are rejected. "none" accepts articles of any age,
        /// for example to fill a server from an archive. Must be less than remember_days.
        max_age_days: Option<u32> = DaysOrNone, default 10, example "none";
        /// Longer articles are rejected (1 KiB to 1 GiB), and so are those that do not fit into their buffer.
        /// Independently of this, headers may have 64 KiB together, with what this server adds to Path and as
        /// Xref, and 1,000 lines; that cannot be changed.
        article_bytes_max: u64 = Size { min: 1 << 10, max: 1 << 30 }, default "4 MiB", example "1 MB";
        /// How long the Message-ID of a rejected or overwritten article is remembered, so that the article is
        /// not accepted again. Each costs 32 bytes of history.
        remember_days: u32 = 1..=36_500, default 11, example 30;
        /// Whether articles get numbers in groups and overview, which readers need. With false this is a
        /// transit site: it needs no groups, stores what peers send for any group, relays it, and has
        /// articles by their Message-IDs only; commands on groups are answered 502. All classes must store
        /// in buffers. What is filed meanwhile stays without numbers when the key is true again, and is not
        /// seen in groups; numbers continue where they ended.
        numbers: bool = Switch, default true, example false,
            effect Refused("stop the server, and start it again");
        /// What to do with an article none of whose groups is carried here: "reject" it, or file it in the
        /// group "junk", which must then exist. With numbers = false an article is carried if a
        /// [peer.send] takes one of its groups; "junk" stores all others as well.
        unknown_groups: UnknownGroups = word(), default "reject", example "junk";
        /// The distributions accepted here, from any sender: names separated by commas, in any
        /// case. "!" before a name excludes it, "*" matches any text, and the last entry that matches
        /// decides; a list that only excludes accepts all others. An article whose Distribution header names
        /// only others is rejected; one without the header, or for "world", is unrestricted and always passes
        /// (RFC 5536 section 3.2.4).
        distributions: Distributions = DistributionList, default "*", example "!local";
        /// How much of the journal is kept beyond what the indexes need after a crash.
        journal_keep_bytes: u64 = Size::ANY, default "64 MiB", example "1 GiB", of machine;
        /// How much of the journal, up to its end, may be kept for slow readers, such as feeds to peers that
        /// are down. They skip what is older, and the skipped articles are counted. On a full disk accepting
        /// articles has priority, and nothing is kept for them.
        journal_claim_bytes: u64 = Size::ANY, default "4 GiB", example "20 GiB", of machine;
        /// How many days of the journal may be kept for slow readers.
        journal_claim_days: u32 = 1..=3_650, default 7, example 3, of machine;
        /// Overview (what OVER returns) is compressed once its articles have been here this long; it then
        /// takes less than half the space, and longer to read. This is done in the background, and not while
        /// thousands of articles arrive each second. A time longer than articles stay disables it, for
        /// instance on a file system that compresses.
        compress_overview_after: Duration = Span, default "10 min", example "1 h", of machine;
        /// Further headers that overview keeps, besides Subject, From, Date, Message-ID, References, Bytes,
        /// Lines and Xref: LIST OVERVIEW.FMT names them in this order, OVER and XOVER send them, and HDR and
        /// XPAT answer from overview instead of reading each article. Each costs its length in overview and
        /// journal. It holds for articles that arrive from then on: those of earlier ones have an empty field
        /// until the indexes are rebuilt (newsreel rebuild), and HDR reads them. A header that is taken out
        /// is no longer sent; rows that have it keep it. The order may change at any time. The header is
        /// named as it is written here.
        overview_headers: Vec<String> = ListOf(FurtherHeader), default [],
            example ["Newsgroups", "Injection-Info"];
        /// How much of what a busy feed (16 MiB a second and more) has just written to buffers and journal
        /// stays in the machine's memory, from where readers and peers get the newest articles, once the
        /// machine takes long to find memory. That of older parts is given back, so that a feed neither
        /// displaces what readers use nor waits for new memory. Reading those parts again costs a read of the
        /// disk, so raise this where peers or readers lag behind by more. "all": everything stays for as long
        /// as the machine keeps it.
        hot_memory: u64 = HotMemory, example "256 MiB", of machine;
        /// The least severe events that are logged, to standard error. "info": starts, stops and peers;
        /// "debug": also every connection and rejected article; "trace": also every command.
        log_level: LogLevel = word(), default "info", example "debug", of machine;
        /// "plain": a line of text for each event; "json": a JSON object for each.
        log_format: LogFormat = word(), default "plain", example "json", of machine;
    }
}

impl Site {
    /// Returns the names that this server adds to Path, with `!` between them.
    pub fn path_names(&self) -> String {
        let names: Vec<&str> =
            std::iter::once(&self.path_identity).chain(&self.path_also).map(String::as_str).collect();
        names.join("!")
    }
}

section! {
    /// How much one client, and all of them together, may use. A client that exceeds a limit loses its
    /// connection; no other client is affected.
    [limits] Limits, LimitsDraft {
        /// Concurrent connections. Further ones are answered 400 and closed.
        connections_max: usize = 1..=1_000_000, default 20000, example 5000, of machine;
        /// Concurrent connections from one address, or from one /64 network of IPv6. Peers have their own
        /// limit, max_connections.
        connections_per_address_max: usize = 1..=1_000_000, default 10000, example 50;
        /// A connection without a command for this long is closed. RFC 3977 section 3.1 requires at least 3
        /// minutes.
        idle_timeout: Duration = Timeout, default "10 min", example "30 min";
        /// How long a client may take to complete a command line, and may pause within an article, from the
        /// first byte on; a slower one is answered 400 and disconnected. idle_timeout applies until the first
        /// byte.
        command_timeout: Duration = Timeout, default "1 min", example "20 s";
        /// A client that reads nothing of a response for this long is disconnected.
        write_timeout: Duration = Timeout, default "2 min", example "30 s";
        /// Memory for articles of more than 16 KiB that peers are sending, besides 64 MiB for reading ahead.
        /// An article uses it as it arrives. When it is used up, the others wait; articles that arrive more
        /// slowly than 32 KiB/s are then dropped, the slowest first, and their senders are asked to try again
        /// later. There is always room for one article of site.article_bytes_max, whatever this and the next
        /// three keys say.
        receive_bytes_from_peers_max: u64 = Size::ANY, default "128 MiB", example "1 GiB", of machine;
        /// The same for articles that are being posted, by anyone. What peers send is counted separately, so
        /// that posters cannot delay a feed.
        receive_bytes_from_posters_max: u64 = Size::ANY, default "64 MiB", example "256 MiB", of machine;
        /// How much of that the posts from one address (IPv6: one /64 network) may use. Only clients that
        /// have not logged in count. Clients of a reverse proxy share its address: raise this behind one.
        receive_bytes_per_address_max: u64 = Size::ANY, default "16 MiB", example "64 MiB", of machine;
        /// How much of it the posts of one user may use, from all addresses together.
        receive_bytes_per_user_max: u64 = Size::ANY, default "16 MiB", example "32 MiB", of machine;
        /// Whether a session may poll its socket for up to 60 microseconds after a response, instead of
        /// sleeping, while its client works in lock-step and no other client is active. Such clients are then
        /// served two to four times as fast, for some processor time. At most one session polls at a time.
        busy_poll: bool = Switch, default true, example false, of machine;
    }
}

words! {
    /// Handling of an article none of whose groups is carried here.
    pub enum UnknownGroups {
        /// Reject and remember it.
        Reject = "reject",
        /// File it in `junk`.
        Junk = "junk",
    }
}

words! {
    /// The least severe level that is logged.
    pub enum LogLevel {
        /// Failures of the server.
        Error = "error",
        /// Problems for the operator to look into.
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
    /// Format of log lines.
    pub enum LogFormat {
        /// Text for people.
        Plain = "plain",
        /// One JSON object per line.
        Json = "json",
    }
}
