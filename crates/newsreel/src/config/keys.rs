//! The one table of configuration keys.
//!
//! Each row says where a key stands, what it takes, what holds without it and what it is for. Made from it: which
//! keys are known (`read`), defaults, the advice of error reports, `newsreel explain-config`, `docs/config.md`.
//! Invariant: a key stands here if and only if it is a field of the structs in `config` (a test compares them).

mod auth;
mod effect;
mod keep;
mod posting;
mod sections;

pub use effect::{Effect, effect, held_back};
pub use sections::SECTIONS;

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A name: 1 to 15 letters, digits, `_`, `.`, `-`.
    Name,
    /// A list of names.
    Names,
    /// A path, relative to the place the key's text says.
    Path,
    /// A path or a list of them.
    Paths,
    /// Names or fingerprints of certificates, one or a list.
    Certificates,
    /// A list of `HOST:PORT`.
    HostPorts,
    /// A `HOST:PORT`.
    HostPort,
    /// A mail address in which `%s` stands for a group's name.
    ModeratorAddress,
    /// An IP address or network, or a list of them, or `"all"`.
    Networks,
    /// As `Networks`, or an empty list.
    NetworksOrNone,
    /// A list of addresses of ours: `"192.0.2.1"`, `"192.0.2.1:563"`, `"*:563"`.
    Locals,
    /// A program and its arguments, as a list.
    Program,
    /// Some of these words, as a list.
    Choices(&'static [&'static str]),
    /// A wildmat.
    Wildmat,
    /// A wildmat that may hold spaces.
    Pattern,
    /// Header conditions: `{ name = "...", matches = "..." }`, or a list of them.
    Headers,
    /// A list of distributions between commas, like a wildmat.
    Distributions,
    /// A size: `"512"`, `"64 KiB"`, `"2 GiB"`, `"1 MB"`, or a number of bytes.
    Size,
    /// A time: `"100ms"`, `"90 s"`, `"10 min"`, `"2 h"`, `"14 days"`.
    Span,
    /// A whole number within bounds.
    Integer {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A whole number of days, or `"none"`.
    DaysOrNone,
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `"process"`, `"interval(TIME)"` or `"always"`.
    Durability,
}

/// What holds when a key is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// It must be there.
    Refused,
    /// There is no such value: no condition, no header.
    Nothing,
    /// This value, written in TOML.
    Value(&'static str),
    /// The machine's host name.
    HostName,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its section's name.
    pub section: &'static str,
    /// Its own name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds without it.
    pub absent: Absent,
    /// What it is for, in one paragraph.
    pub doc: &'static str,
    /// A line as it may stand in the file.
    pub example: &'static str,
}

/// One section.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// Whether it stands in double brackets and may be repeated.
    pub repeated: bool,
    /// What it is for, in one paragraph.
    pub doc: &'static str,
}

/// Every key; those of one section stand in the order of the documentation.
pub const KEYS: &[Key] = &joined::<
    { SPOOL_AND_PEERS.len() + keep::KEYS.len() + auth::KEYS.len() + posting::KEYS.len() },
>(&[SPOOL_AND_PEERS, keep::KEYS, auth::KEYS, posting::KEYS]);

/// The tables of the files as one.
const fn joined<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [SPOOL_AND_PEERS[0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            all[at] = parts[part][row];
            row += 1;
            at += 1;
        }
        part += 1;
    }
    all
}

const SPOOL_AND_PEERS: &[Key] = &[
    Key {
        section: "site",
        name: "path_identity",
        kind: Kind::Text,
        absent: Absent::HostName,
        doc: "The name that this server puts in front of Path and by which its peers know it (RFC 5536 section 3.1.5). \
              It should be a domain name of yours and never change: an article whose Path already holds it is refused \
              as one that has been here.",
        example: "path_identity = \"news.example.org\"",
    },
    Key {
        section: "site",
        name: "organization",
        kind: Kind::Text,
        absent: Absent::Nothing,
        doc: "Put as Organization into articles that are posted here without one.",
        example: "organization = \"Example News\"",
    },
    Key {
        section: "site",
        name: "listen",
        kind: Kind::HostPorts,
        absent: Absent::Value("[\"127.0.0.1:1119\"]"),
        doc: "Where to listen, for peers and readers alike; what a client may do follows from its address. The port of \
              news is 119; a port below 1024 needs a privilege, which the systemd unit in packaging/ gives.",
        example: "listen = [\"0.0.0.0:119\", \"[::]:119\"]",
    },
    Key {
        section: "site",
        name: "tls_listen",
        kind: Kind::HostPorts,
        absent: Absent::Value("[]"),
        doc: "Where to listen for connections that begin with TLS, for peers and readers alike. The port is 563. Needs a \
              certificate in [tls]. RFC 8143 recommends it over STARTTLS.",
        example: "tls_listen = [\"0.0.0.0:563\", \"[::]:563\"]",
    },
    Key {
        section: "site",
        name: "data",
        kind: Kind::Path,
        absent: Absent::Value("\".\""),
        doc: "The directory of journal, indexes and control socket, relative to the directory of this file.",
        example: "data = \"/var/lib/newsreel\"",
    },
    Key {
        section: "site",
        name: "lists",
        kind: Kind::Path,
        absent: Absent::Value("\"lists\""),
        doc: "The directory of the texts that readers ask for with LIST, relative to the directory of this file: motd \
              (message of the day), distributions (a name and a description on each line), distrib.pats \
              (weight:wildmat:distribution) and subscriptions (newsgroups to recommend, the best first), in UTF-8 and \
              in the form INN has them. They are read when they are asked for; a list without file is answered 503.",
        example: "lists = \"/etc/newsreel/lists\"",
    },
    Key {
        section: "site",
        name: "durability",
        kind: Kind::Durability,
        absent: Absent::Value("\"interval(100ms)\""),
        doc: "When an article counts as stored and is acknowledged. \"process\": once the operating system has it, so \
              that it survives the end of the process; \"interval(TIME)\": the same, and a power cut takes at most what \
              arrived within TIME: while a slower disk catches up, nothing more is accepted; \"always\": once the disk has \
              it (all who wait share one sync).",
        example: "durability = \"always\"",
    },
    Key {
        section: "site",
        name: "max_age_days",
        kind: Kind::DaysOrNone,
        absent: Absent::Value("10"),
        doc: "An article whose Date is older than so many days is rejected; \"none\" takes articles of any age, as one \
              wants when filling a server from an archive. Must be less than remember_days.",
        example: "max_age_days = \"none\"",
    },
    Key {
        section: "site",
        name: "article_bytes_max",
        kind: Kind::Size,
        absent: Absent::Value("\"4 MiB\""),
        doc: "A longer article is rejected (1 KiB to 1 GiB), as is one that does not fit into its buffer.",
        example: "article_bytes_max = \"1 MB\"",
    },
    Key {
        section: "site",
        name: "remember_days",
        kind: Kind::Integer { min: 1, max: 36_500 },
        absent: Absent::Value("11"),
        doc: "How long the Message-ID of an article that was rejected or overwritten is remembered, so that it is not \
              taken again. Costs 32 bytes of history for each.",
        example: "remember_days = 30",
    },
    Key {
        section: "site",
        name: "unknown_groups",
        kind: Kind::Choice(&["reject", "junk"]),
        absent: Absent::Value("\"reject\""),
        doc: "What becomes of an article none of whose groups is carried here: \"reject\" it, or file it in the group \
              \"junk\", which then must exist.",
        example: "unknown_groups = \"junk\"",
    },
    Key {
        section: "site",
        name: "distributions",
        kind: Kind::Distributions,
        absent: Absent::Value("\"*\""),
        doc: "The distributions that are accepted here at all, whoever sends the article: names between commas, in any \
              case; \"!\" before a name excludes it, \"*\" stands for any text; the last entry that fits decides, and a \
              list that only excludes accepts every other. An article whose Distribution header names only others is \
              rejected; one without the header, or for \"world\", has no restriction and always passes (RFC 5536 \
              section 3.2.4).",
        example: "distributions = \"!local\"",
    },
    Key {
        section: "site",
        name: "journal_keep_bytes",
        kind: Kind::Size,
        absent: Absent::Value("\"64 MiB\""),
        doc: "How much of the journal is kept beyond what the indexes need after a crash.",
        example: "journal_keep_bytes = \"1 GiB\"",
    },
    Key {
        section: "site",
        name: "compress_overview_after",
        kind: Kind::Span,
        absent: Absent::Value("\"10 min\""),
        doc: "Overview (what OVER answers with) is compressed once its articles have been here so long; it then takes less \
              than half the room, and reading it more time. It is done at leisure, and not while articles come in by \
              thousands a second. A time longer than articles stay leaves all of it as it is, for instance on a file \
              system that compresses.",
        example: "compress_overview_after = \"1 h\"",
    },
    Key {
        section: "site",
        name: "log_level",
        kind: Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        absent: Absent::Value("\"info\""),
        doc: "The least severe events that are logged, to standard error. \"info\": starts, stops and peers; \"debug\": \
              every connection and rejected article; \"trace\": every command.",
        example: "log_level = \"debug\"",
    },
    Key {
        section: "site",
        name: "log_format",
        kind: Kind::Choice(&["plain", "json"]),
        absent: Absent::Value("\"plain\""),
        doc: "\"plain\": a line of text for each event; \"json\": a JSON object.",
        example: "log_format = \"json\"",
    },
    Key {
        section: "tls",
        name: "certificate",
        kind: Kind::Paths,
        absent: Absent::Value("[]"),
        doc: "The PEM file of the server's certificate and those between it and its authority, relative to the directory \
              of this file. Several may be named: clients are shown the one with the name they ask for, or the first.",
        example: "certificate = \"news.crt\"",
    },
    Key {
        section: "tls",
        name: "key",
        kind: Kind::Paths,
        absent: Absent::Value("[]"),
        doc: "The PEM file of the certificate's private key (PKCS #8, PKCS #1 or SEC 1, not encrypted); of several, in the \
              order of certificate. Only the server's user should be able to read it.",
        example: "key = \"news.key\"",
    },
    Key {
        section: "tls",
        name: "client_ca",
        kind: Kind::Path,
        absent: Absent::Nothing,
        doc: "The PEM file of the authorities that sign the certificates of peers and of users who log in with one \
              (SASL EXTERNAL). With it, or with a peer's fingerprint, clients are asked for a certificate; nobody needs \
              one.",
        example: "client_ca = \"peers-ca.crt\"",
    },
    Key {
        section: "limits",
        name: "connections_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("20000"),
        doc: "Connections at once. The next one is answered 400 and closed.",
        example: "connections_max = 5000",
    },
    Key {
        section: "limits",
        name: "connections_per_address_max",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("10000"),
        doc: "Connections at once from one address. Peers have their own limit, max_connections.",
        example: "connections_per_address_max = 50",
    },
    Key {
        section: "limits",
        name: "idle_timeout",
        kind: Kind::Span,
        absent: Absent::Value("\"10 min\""),
        doc: "A connection without a command for so long is closed. RFC 3977 section 3.1 asks for at least 3 minutes.",
        example: "idle_timeout = \"30 min\"",
    },
    Key {
        section: "limits",
        name: "command_timeout",
        kind: Kind::Span,
        absent: Absent::Value("\"1 min\""),
        doc: "How long a client may take to complete a command line, and pause within an article, from the first byte on; \
              a slower one is answered 400 and disconnected. The time before the first byte is idle_timeout's.",
        example: "command_timeout = \"20 s\"",
    },
    Key {
        section: "limits",
        name: "write_timeout",
        kind: Kind::Span,
        absent: Absent::Value("\"2 min\""),
        doc: "A client that takes nothing of its answer for so long is disconnected.",
        example: "write_timeout = \"30 s\"",
    },
    Key {
        section: "limits",
        name: "receive_bytes_from_peers_max",
        kind: Kind::Size,
        absent: Absent::Value("\"128 MiB\""),
        doc: "Memory for articles of more than 16 KiB that peers are sending, besides 64 MiB for reading ahead. An article \
              takes it as it arrives. When it is used up the others wait; an article that comes more slowly than 32 KiB/s \
              is given up for them, the slowest first, and its sender is asked to try again later. There is always room \
              for one article of site.article_bytes_max, whatever this and the next three keys say.",
        example: "receive_bytes_from_peers_max = \"1 GiB\"",
    },
    Key {
        section: "limits",
        name: "receive_bytes_from_posters_max",
        kind: Kind::Size,
        absent: Absent::Value("\"64 MiB\""),
        doc: "The same for articles that are being posted, whoever posts them. What peers send does not count, so that \
              posters cannot hold up a feed.",
        example: "receive_bytes_from_posters_max = \"256 MiB\"",
    },
    Key {
        section: "limits",
        name: "receive_bytes_per_address_max",
        kind: Kind::Size,
        absent: Absent::Value("\"16 MiB\""),
        doc: "How much of it the posts from one address may take, of IPv6 from one /64 network. Only clients that have not \
              logged in count. Clients of a reverse proxy share its address: raise this where one stands in front.",
        example: "receive_bytes_per_address_max = \"64 MiB\"",
    },
    Key {
        section: "limits",
        name: "receive_bytes_per_user_max",
        kind: Kind::Size,
        absent: Absent::Value("\"16 MiB\""),
        doc: "How much of it the posts of one user may take, whatever addresses they come from.",
        example: "receive_bytes_per_user_max = \"32 MiB\"",
    },
    Key {
        section: "buffer",
        name: "name",
        kind: Kind::Name,
        absent: Absent::Refused,
        doc: "The buffer's name, by which classes and tokens name it: 1 to 15 letters, digits, \"_\", \".\" or \"-\". \
              It is written into the buffer and cannot be changed later.",
        example: "name = \"text0\"",
    },
    Key {
        section: "buffer",
        name: "path",
        kind: Kind::Path,
        absent: Absent::Refused,
        doc: "The file or block device, relative to the directory in data. A file that the site \
              never had is made, in a directory that must exist unless the site is new; one that is missing \
              is an error.",
        example: "path = \"text0.cyc\"",
    },
    Key {
        section: "buffer",
        name: "size",
        kind: Kind::Size,
        absent: Absent::Nothing,
        doc: "Its size, from 64 KiB; left out: the size that the file has, or the device. A larger size than before lets the \
              buffer grow, a smaller one is refused. Together the buffers are the spool's size: an article lives until so many bytes \
              have arrived after it.",
        example: "size = \"20 GiB\"",
    },
    Key {
        section: "buffer",
        name: "block",
        kind: Kind::Size,
        absent: Absent::Value("\"64\""),
        doc: "Articles begin at multiples of this: a power of two from 64 to 16384 bytes. Half of it is lost behind each \
              article; large blocks need a smaller usage bitmap (a bit for each block), which pays for large articles. \
              It is fixed when the buffer is made.",
        example: "block = \"4 KiB\"",
    },
    Key {
        section: "buffer",
        name: "retired",
        kind: Kind::Switch,
        absent: Absent::Value("false"),
        doc: "A retired buffer takes no more articles; those it holds stay readable until it is removed. newsreel buffer \
              retire sets this, and newsreel buffer use takes it back.",
        example: "retired = true",
    },
    Key {
        section: "class",
        name: "name",
        kind: Kind::Name,
        absent: Absent::Refused,
        doc: "The class's name, by which rules name it.",
        example: "name = \"text\"",
    },
    Key {
        section: "class",
        name: "method",
        kind: Kind::Choice(&[
            "cnfs",
            "memory",
            "trash",
            "appendonly",
            "tradspool",
            "bucketed",
            "hashed",
            "timehash",
        ]),
        absent: Absent::Value("\"cnfs\""),
        doc: "\"cnfs\": in cyclic buffers on disk; \"memory\": in a cyclic buffer in memory, empty after a restart; \
              \"trash\": nothing is kept, the Message-ID is remembered. These keep articles until [[expire]] says they are due: \
              \"appendonly\": one behind the other in files that are made as needed; \"tradspool\": a file an article by \
              group and number, crossposts as hard links, as INN and C News have it; \"bucketed\": the same with each \
              directory split in 1,000 (Usenetfs); \"hashed\": a file an article by a digest of its Message-ID; \
              \"timehash\": by its arrival.",
        example: "method = \"cnfs\"",
    },
    Key {
        section: "class",
        name: "buffers",
        kind: Kind::Names,
        absent: Absent::Value("[]"),
        doc: "The buffers of a class of method cnfs, by name, in the order of use.",
        example: "buffers = [\"text0\", \"text1\"]",
    },
    Key {
        section: "class",
        name: "order",
        kind: Kind::Choice(&["interleave", "sequential"]),
        absent: Absent::Value("\"interleave\""),
        doc: "\"interleave\": each buffer in turn gets a stripe of 1 MiB, which spreads the load over disks; \"sequential\": one \
              buffer is filled to its end before the next.",
        example: "order = \"sequential\"",
    },
    Key {
        section: "class",
        name: "size",
        kind: Kind::Size,
        absent: Absent::Value("\"0\""),
        doc: "Size of a class of method memory, from 64 KiB; the others have none.",
        example: "size = \"64 MiB\"",
    },
    Key {
        section: "class",
        name: "compress",
        kind: Kind::Choice(&["none", "zstd"]),
        absent: Absent::Value("\"none\""),
        doc: "\"zstd\": each article of a class of method cnfs is stored compressed, with a dictionary trained from the first \
              2,000; text takes about 40 % of its size, so it lives more than twice as long. Each costs some 45 \
              microseconds of a processor when it is stored and 5 when it is read. May be changed at any time; what is \
              stored stays as it is. Keep the directory dictionaries in data with the buffers: without it compressed \
              articles cannot be read.",
        example: "compress = \"zstd\"",
    },
    Key {
        section: "class",
        name: "compress_level",
        kind: Kind::Integer { min: 1, max: 19 },
        absent: Absent::Value("6"),
        doc: "zstd's level: higher ones compress a little better and take longer to store; reading is equally fast.",
        example: "compress_level = 9",
    },
    Key {
        section: "class",
        name: "keep_at_least",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "A promise: no article of the class is overwritten before it has been here so long. What could only be stored by breaking it goes to the class that overflow names, so that a flood costs nothing that was promised to stay. Without overflow, or where that class cannot take the article either, it is rejected, not remembered, counted and logged once a minute. Cancels are carried out all the same.",
        example: "keep_at_least = \"30 days\"",
    },
    Key {
        section: "rule",
        name: "class",
        kind: Kind::Name,
        absent: Absent::Refused,
        doc: "The class of the articles that meet the rule.",
        example: "class = \"binaries\"",
    },
    Key {
        section: "rule",
        name: "groups",
        kind: Kind::Wildmat,
        absent: Absent::Nothing,
        doc: "Condition: the first group of the article that is carried here matches, or any with match = \"any\".",
        example: "groups = \"*.binaries.*,*warez*\"",
    },
    Key {
        section: "rule",
        name: "match",
        kind: Kind::Choice(&["first", "any"]),
        absent: Absent::Value("\"first\""),
        doc: "Which group the condition groups looks at: \"first\": the first group of the article that is carried here; \"any\": any of those it is filed in.",
        example: "match = \"any\"",
    },
    Key {
        section: "rule",
        name: "larger_than",
        kind: Kind::Size,
        absent: Absent::Nothing,
        doc: "Condition: the article is longer than this.",
        example: "larger_than = \"64 KiB\"",
    },
    Key {
        section: "rule",
        name: "smaller_than",
        kind: Kind::Size,
        absent: Absent::Nothing,
        doc: "Condition: the article is shorter than this.",
        example: "smaller_than = \"1 KiB\"",
    },
    Key {
        section: "rule",
        name: "crossposts_at_least",
        kind: Kind::Integer { min: 1, max: 10_000 },
        absent: Absent::Nothing,
        doc: "Condition: the article is filed in at least so many groups.",
        example: "crossposts_at_least = 10",
    },
    Key {
        section: "rule",
        name: "from",
        kind: Kind::Wildmat,
        absent: Absent::Nothing,
        doc: "Condition: the From header matches.",
        example: "from = \"*robot@example.net*\"",
    },
    Key {
        section: "rule",
        name: "path",
        kind: Kind::Pattern,
        absent: Absent::Nothing,
        doc: "Condition: a path identity in the Path header matches, or the whole header as it came.",
        example: "path = \"*.spam.example\"",
    },
    Key {
        section: "rule",
        name: "header",
        kind: Kind::Headers,
        absent: Absent::Nothing,
        doc: "Condition: the article has a header of this name whose value matches; of a list, all. \"*\" asks only that the header is there. A comma separates patterns.",
        example: "header = { name = \"X-Trace\", matches = \"*example.net*\" }",
    },
    Key {
        section: "rule",
        name: "verdict",
        kind: Kind::Pattern,
        absent: Absent::Nothing,
        doc: "Condition: the verdict on the article matches. The built-in one is \"binary\", for a body that holds yEnc or uuencoded data; an article without a verdict meets no such condition. Costs a look at every body, only where a rule asks.",
        example: "verdict = \"binary\"",
    },
    Key {
        section: "rule",
        name: "origin",
        kind: Kind::Pattern,
        absent: Absent::Nothing,
        doc: "Condition: where the article comes from matches: \"peer NAME\", \"injected\" (posted here), \"rnews\" (a batch handed in on this machine) or \"import\".",
        example: "origin = \"peer news.example.net\"",
    },
    Key {
        section: "rule",
        name: "expires_within",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "Condition: the article has an Expires date, at most this far away.",
        example: "expires_within = \"3 days\"",
    },
    Key {
        section: "rule",
        name: "expires_beyond",
        kind: Kind::Span,
        absent: Absent::Nothing,
        doc: "Condition: the article has an Expires date, farther away than this.",
        example: "expires_beyond = \"90 days\"",
    },
    Key {
        section: "peer",
        name: "name",
        kind: Kind::Text,
        absent: Absent::Refused,
        doc: "The peer's name in logs and in newsreel status; best its path identity.",
        example: "name = \"news.example.net\"",
    },
    Key {
        section: "peer",
        name: "addresses",
        kind: Kind::NetworksOrNone,
        absent: Absent::Value("[]"),
        doc: "The addresses and networks it connects from. Addresses, not host names: whoever controls a name could \
              otherwise feed you. A peer with a certificate needs none, and may then come from anywhere.",
        example: "addresses = [\"198.51.100.7\", \"2001:db8:7::/48\"]",
    },
    Key {
        section: "peer",
        name: "certificate",
        kind: Kind::Certificates,
        absent: Absent::Value("[]"),
        doc: "What the peer must show to be known, over TLS: a certificate signed by tls.client_ca with one of these names \
              (common name, DNS name or mail address), or the one with the fingerprint sha256:HEX, which nobody need \
              have signed. With addresses too, both must fit.",
        example: "certificate = [\"news.example.net\"]",
    },
    Key {
        section: "peer",
        name: "tls",
        kind: Kind::Choice(&["allow", "require"]),
        absent: Absent::Value("\"allow\""),
        doc: "Whether the peer must encrypt. \"require\": what it offers unencrypted is answered 483.",
        example: "tls = \"require\"",
    },
    Key {
        section: "peer",
        name: "user",
        kind: Kind::Text,
        absent: Absent::Nothing,
        doc: "The user as whom it must log in (AUTHINFO) to be known, besides what its addresses and certificate ask for; \
              what it offers before is answered 480.",
        example: "user = \"feeder\"",
    },
    Key {
        section: "peer",
        name: "accept",
        kind: Kind::Wildmat,
        absent: Absent::Value("\"*\""),
        doc: "The groups it may send. An article none of whose groups matches is rejected.",
        example: "accept = \"*,!local.*\"",
    },
    Key {
        section: "peer",
        name: "distributions",
        kind: Kind::Distributions,
        absent: Absent::Value("\"*\""),
        doc: "The distributions it may send, of those that site.distributions accepts, and written like them. What is \
              rejected for this alone may still come from another peer.",
        example: "distributions = \"usa,na\"",
    },
    Key {
        section: "peer",
        name: "max_connections",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        absent: Absent::Value("10000"),
        doc: "Connections it may hold at once. The next one is answered 400 and closed.",
        example: "max_connections = 20",
    },
    Key {
        section: "peer",
        name: "streaming",
        kind: Kind::Switch,
        absent: Absent::Value("true"),
        doc: "Whether it may stream (RFC 4644: MODE STREAM, CHECK, TAKETHIS). Without, it offers articles one by one \
              with IHAVE.",
        example: "streaming = false",
    },
];

impl Key {
    /// `section.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// The key `section.name`.
pub fn key(section: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

/// The section of that name.
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

/// The keys of a section.
pub fn keys_of(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section == section)
}

impl Kind {
    /// What it takes, in words.
    pub fn words(self) -> String {
        match self {
            Self::Text => "a text".into(),
            Self::Name => "a name".into(),
            Self::Names => "a list of names".into(),
            Self::Path => "a path".into(),
            Self::Paths => "a path, or a list of them".into(),
            Self::Certificates => "the name or fingerprint of a certificate, or a list of them".into(),
            Self::HostPort => "\"HOST:PORT\"".into(),
            Self::ModeratorAddress => "a mail address, %s in it for the group".into(),
            Self::HostPorts => "a list of \"HOST:PORT\"".into(),
            Self::Networks => "an IP address or network, or a list of them".into(),
            Self::NetworksOrNone => "an IP address or network, or a list of them, perhaps empty".into(),
            Self::Locals => "a list of addresses of ours, each with or without a port".into(),
            Self::Program => "a list: a program and its arguments".into(),
            Self::Wildmat => "a wildmat".into(),
            Self::Pattern => "a wildmat".into(),
            Self::Headers => "a header condition, or a list of them".into(),
            Self::Distributions => "distributions between commas".into(),
            Self::Size => "a size".into(),
            Self::Span => "a time".into(),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::DaysOrNone => "a whole number of days, or \"none\"".into(),
            Self::Switch => "true or false".into(),
            Self::Choice(words) => alternatives(words),
            Self::Choices(words) => format!("a list of {}", alternatives(words)),
            Self::Durability => "\"process\", \"interval(TIME)\" or \"always\"".into(),
        }
    }
}

/// `"a", "b" or "c"`.
fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
