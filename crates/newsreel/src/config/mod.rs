//! The configuration: one TOML file, read completely or not at all.
//!
//! `keys` is the one table of keys, from which defaults, error advice, `newsreel explain-config` and
//! `docs/config.md` come; `read` turns a file into a [`Config`] or into *all* that is wrong with it; `checks` looks
//! at what only shows between sections. Everything below is plain data: whoever holds a [`Config`] needs no file.

mod access;
mod auth;
mod checks;
mod cidr;
mod diff;
mod distributions;
mod draft;
pub(crate) mod edit;
pub(crate) mod faults;
mod groups;
pub mod keys;
mod live;
mod local_address;
pub mod manual;
mod place;
mod posting;
mod read;
mod spool_config;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
pub mod units;
mod values;
mod words;
pub(crate) mod write;

use std::path::PathBuf;
use std::time::Duration;

pub use access::{Access, Numbers};
pub use auth::{Auth, Authenticator, Mechanism};
pub use cidr::Cidr;
pub use diff::{Change, Difference, differences};
pub use distributions::Distributions;
pub use faults::{ConfigError, Fault};
pub use groups::Groups;
pub use live::Live;
pub use local_address::LocalAddress;
pub use place::Place;
pub use posting::{Backoff, Cancel, Honor, MailForm, Moderation, Moderator, Posting, Reveal};
pub use read::{data_in, host_name, load, parse};
pub use tls::{KnownCertificate, PeerTls, Tls};
pub use values::{check_host_port, is_path_identity};
pub use words::Word;

/// A complete, checked configuration, with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file it was read from.
    pub file: PathBuf,
    /// The server itself.
    pub site: Site,
    /// Certificates.
    pub tls: Tls,
    /// What one client, and all of them together, may take.
    pub limits: Limits,
    /// Cyclic buffers.
    pub buffers: Vec<Buffer>,
    /// Storage classes.
    pub classes: Vec<Class>,
    /// Which article goes to which class; the first match decides, the last one matches everything.
    pub rules: Vec<Rule>,
    /// How long articles stay where nothing is overwritten; the first match decides.
    pub expire: Vec<Expire>,
    /// Neighbours that feed us.
    pub peers: Vec<Peer>,
    /// How clients log in.
    pub auth: Auth,
    /// Programs that know users.
    pub authenticators: Vec<Authenticator>,
    /// Who may read and post; the first match decides; no match: no access.
    pub access: Vec<Access>,
    /// What is asked of posts.
    pub posting: Posting,
    /// Which withdrawals are obeyed.
    pub cancel: Cancel,
    /// How posts reach moderators.
    pub moderation: Moderation,
    /// Who moderates; the first match decides.
    pub moderators: Vec<Moderator>,
}

/// `[site]`: the server itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// Our name in Path (RFC 5536 section 3.1.5); never empty.
    pub path_identity: String,
    /// Value for Organization in articles injected here that have none.
    pub organization: Option<String>,
    /// `HOST:PORT` of each listener, for readers and peers alike; HOST may be a name; port 0 lets the system choose.
    pub listen: Vec<String>,
    /// The same for connections that begin with TLS.
    pub tls_listen: Vec<String>,
    /// The spool's directory, already joined to the configuration file's directory.
    pub data: PathBuf,
    /// The directory of the texts for LIST, joined likewise.
    pub lists: PathBuf,
    /// When an article counts as safely stored.
    pub durability: Durability,
    /// Articles with a Date older than this are rejected and remembered; `None`: any age is taken.
    pub max_age_days: Option<u32>,
    /// Longest article taken, wire format, in bytes.
    pub article_bytes_max: u64,
    /// How long the Message-ID of an article that is no longer (or never was) in the spool is remembered.
    pub remember_days: u32,
    /// What becomes of an article none of whose groups is carried here.
    pub unknown_groups: UnknownGroups,
    /// Distributions accepted at all; an article that has only others is rejected and remembered.
    pub distributions: Distributions,
    /// How much journal is kept beyond what the indexes need, in bytes.
    pub journal_keep_bytes: u64,
    /// Overview is compressed once its articles have been here so long.
    pub compress_overview_after: Duration,
    /// Least severe event that is logged.
    pub log_level: LogLevel,
    /// Shape of a log line.
    pub log_format: LogFormat,
}

/// `[limits]`: what one client, and all of them together, may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Connections served at once; more are answered 400 and closed.
    pub connections_max: usize,
    /// Connections served at once from one address; more are answered 400 and closed.
    pub connections_per_address_max: usize,
    /// A connection without a command for so long is closed (RFC 3977 section 3.1: at least three minutes).
    pub idle_timeout: Duration,
    /// A command line that takes longer, or an article that pauses for longer, is answered 400; counted from the first
    /// byte.
    pub command_timeout: Duration,
    /// A client that takes none of its answer for so long is disconnected.
    pub write_timeout: Duration,
    /// Memory for articles that are arriving from peers, in bytes; room for one of the largest there is always.
    pub receive_bytes_from_peers_max: u64,
    /// The same for articles that are being posted.
    pub receive_bytes_from_posters_max: u64,
    /// The same for posts from one address, of IPv6 one /64 network, of clients that have not logged in.
    pub receive_bytes_per_address_max: u64,
    /// The same for posts of one user.
    pub receive_bytes_per_user_max: u64,
}

/// `[[buffer]]`: a cyclic buffer (CNFS: cycbuff).
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Name, as in tokens and classes.
    pub name: String,
    /// File or block device, already joined to the spool's directory.
    pub path: PathBuf,
    /// Size in bytes; `None`: what the file or device has.
    pub size: Option<u64>,
    /// Unit of allocation in bytes: a power of two, 64 to 16,384.
    pub block: u32,
    /// Whether it takes no more articles.
    pub retired: bool,
}

/// `[[class]]`: a storage class (CNFS: metacycbuff).
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Name, as in rules.
    pub name: String,
    /// How its articles are stored.
    pub method: Method,
    /// Names of its buffers, for `cnfs`; empty for the others.
    pub buffers: Vec<String>,
    /// How the buffers are taken in turn.
    pub order: Order,
    /// Size in bytes, for `memory`; 0 for the others.
    pub size: u64,
    /// Whether articles are stored compressed, for `cnfs`.
    pub compress: Compression,
    /// zstd's level.
    pub compress_level: u8,
    /// Its directory, joined to the data directory, for methods that keep articles until they are due.
    pub path: PathBuf,
    /// Length of a file in bytes, for `appendonly`.
    pub file_size: u64,
    /// Files there may be, for `appendonly`; 0: any number.
    pub files_max: u64,
    /// Form of the files, for methods with a file an article.
    pub line_ends: LineEnds,
    /// No article is overwritten before it has been here so long.
    pub keep_at_least: Option<Duration>,
    /// The class that takes what would break that.
    pub overflow: Option<String>,
    /// How long articles should stay; only told, when they do not.
    pub keep_target: Option<Duration>,
}

/// `[[expire]]`: how long articles of a class and group stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Expire {
    /// The group matches.
    pub groups: Option<Groups>,
    /// The article is in this class.
    pub class: Option<String>,
    /// Without an Expires header; `None`: forever.
    pub keep: Option<Duration>,
    /// At least.
    pub keep_min: Option<Duration>,
    /// At most.
    pub keep_max: Option<Duration>,
}

/// `[[rule]]`: an article that meets every condition given goes to `class`; the first rule that matches decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Name of the class.
    pub class: String,
    /// One of the article's carried groups matches.
    pub groups: Option<Groups>,
    /// Which one.
    pub group_match: GroupMatch,
    /// The article is longer than so many bytes.
    pub larger_than: Option<u64>,
    /// The article is shorter than so many bytes.
    pub smaller_than: Option<u64>,
    /// The article is in at least so many groups.
    pub crossposts_at_least: Option<usize>,
    /// The From header matches.
    pub from: Option<Groups>,
    /// A path identity, or the whole Path header, matches.
    pub path: Option<String>,
    /// Headers that the article must have, all of them.
    pub header: Option<Vec<HeaderMatch>>,
    /// The verdict on the article matches.
    pub verdict: Option<String>,
    /// Where the article comes from matches.
    pub origin: Option<String>,
    /// The article has an Expires date no later than this from now.
    pub expires_within: Option<Duration>,
    /// The article has an Expires date later than this from now.
    pub expires_beyond: Option<Duration>,
}

/// A header that an article must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMatch {
    /// Its name.
    pub name: String,
    /// A wildmat that its value must match.
    pub matches: String,
}

/// Which group of an article a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupMatch {
    /// The first one carried here.
    First,
    /// Any that it is filed in.
    Any,
}

/// `[[peer]]`: a neighbour that may offer articles to us.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// Name, as in logs and `status`.
    pub name: String,
    /// Where it connects from; empty: from anywhere, with one of `certificate`.
    pub addresses: Vec<Cidr>,
    /// What it must show to be known; empty: nothing.
    pub certificate: Vec<KnownCertificate>,
    /// Whether it must encrypt.
    pub tls: PeerTls,
    /// As whom it must log in; `None`: its address is enough.
    pub user: Option<String>,
    /// Groups it may send; an article in none of them is rejected.
    pub accept: Groups,
    /// Distributions it may send, of those the site accepts; an article that has only others is rejected.
    pub distributions: Distributions,
    /// Connections it may hold at once.
    pub max_connections: usize,
    /// Whether it is offered streaming (RFC 4644: MODE STREAM, CHECK, TAKETHIS).
    pub streaming: bool,
}

/// When an article counts as safely stored (guarantee G1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once the operating system has it: survives the end of the process, not of the machine.
    Process,
    /// As `Process`, and at most this much is lost by a power cut.
    Interval(Duration),
    /// Once the disk has it (group commit).
    Always,
}

/// What becomes of an article none of whose groups is carried here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownGroups {
    /// It is rejected and remembered.
    Reject,
    /// It is filed in `junk`.
    Junk,
}

/// Storage method of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Cyclic buffers on disk.
    Cnfs,
    /// A cyclic buffer in memory, empty after a restart.
    Memory,
    /// Nothing is kept.
    Trash,
    /// Files of records, kept until they are due.
    AppendOnly,
    /// A file an article, by group and number.
    Tradspool,
    /// The same in buckets.
    Bucketed,
    /// A file an article, by digest.
    Hashed,
    /// A file an article, by arrival.
    Timehash,
}

impl Method {
    /// Whether articles stay until they are due.
    pub fn keeps(self) -> bool {
        !matches!(self, Self::Cnfs | Self::Memory | Self::Trash)
    }
}

/// How lines end in the files of a class with a file an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnds {
    /// Wire format.
    Crlf,
    /// As local files.
    Lf,
}

/// How the buffers of a class are taken in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One article here, the next one there.
    Interleave,
    /// One buffer is filled to its end, then the next one.
    Sequential,
}

/// How the articles of a class are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// As they are sent.
    None,
    /// Each compressed with zstd.
    Zstd,
}

/// Least severe event that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Our own failures.
    Error,
    /// What an operator should look into.
    Warn,
    /// Starts, stops, connections of peers.
    Info,
    /// Every connection and every rejected article.
    Debug,
    /// Every command.
    Trace,
}

/// Shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Plain,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// What to do about a path identity that is not a full name, which others may have too (RFC 5536 section
    /// 3.1.5).
    pub fn identity_advice(&self) -> Option<String> {
        let identity = &self.site.path_identity;
        (!identity.contains('.')).then(|| {
            format!(
                "the path identity `{identity}` has no domain, so another server may have the same; set \
                 path_identity in [site] to this server's full name, such as news.example.org, before \
                 articles are exchanged with peers"
            )
        })
    }

    /// Whether anything depends on which of our addresses a client has connected to.
    pub fn needs_local_address(&self) -> bool {
        !self.authenticators.is_empty() || self.access.iter().any(|access| !access.listener.is_empty())
    }
}
