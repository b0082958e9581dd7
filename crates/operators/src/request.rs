//! Operators' requests and their replies: [`Request`] and [`Reply`].
//!
//! Identical whether a running server answers over its control socket (as lines of JSON) or a command that
//! opened the spool itself.

mod commands;
mod rows;
mod start;

pub use commands::{ArchiveCommand, FilterCommand, KeysCommand, ModerationCommand, PostsCommand};
pub use rows::{
    ArticleText, ExpirePreview, FoundRow, FromReply, HeldRow, HiddenRow, PostRow, PurgeRow, ReviewRow,
};

use super::report::{ArchiveStatus, Report};
use crate::pull::{PullCounts, PullDetails, PullSpec};
use crate::transmit::SendCounts;
use access::tls::RemoteServer;
use clap::{Args, Subcommand, ValueEnum};
use ingest::{BatchResult, ImportResult};
use serde::{Deserialize, Serialize};
use site_base::units;
use std::net::IpAddr;
use std::path::PathBuf;

/// One request: a command with its help, and a message on the socket. Options that only concern printing are
/// not sent; requests without a command are skipped on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Asks whether the server is running, and with which configuration; answered by [`Reply::Serving`].
    #[command(skip)]
    Ping,
    /// Add groups; those that exist already are counted as unchanged. Answered by [`Reply::Changed`] each.
    #[command(skip)]
    GroupAdd {
        /// Groups to add.
        groups: Vec<GroupEntry>,
    },
    /// Remove groups; answered by [`Reply::Changed`] each.
    #[command(skip)]
    GroupRemove {
        /// Names of the groups.
        names: Vec<String>,
    },
    /// Change flag or description of a group; answered by [`Reply::Changed`].
    #[command(skip)]
    GroupSet {
        /// Name of the group.
        name: String,
        /// New flag, as in [`GroupEntry::flag`]; absent if unchanged.
        flag: Option<String>,
        /// New description; absent if unchanged.
        description: Option<String>,
    },
    /// Add, change and remove groups, all in one commit or none; answered by [`Reply::Changed`] with an error
    /// for each that prevents it.
    #[command(skip)]
    GroupUpdate {
        /// Groups to add; existing ones are not changed.
        add: Vec<GroupEntry>,
        /// Groups to change, if they exist.
        set: Vec<GroupSetting>,
        /// Groups to remove, if they exist.
        remove: Vec<String>,
    },
    /// List the groups whose names match; answered by [`Reply::Group`] each, in order of name.
    #[command(skip)]
    GroupList {
        /// A wildmat; absent for all groups.
        wildmat: Option<String>,
    },
    /// Return a group's name.map; answered by its lines, one [`Reply::Text`] each.
    #[command(skip)]
    NameMap {
        /// Name of the group.
        group: String,
    },
    /// Return the articles of a group, in order of number; answered by [`Reply::Article`] each.
    #[command(skip)]
    Articles {
        /// Name of the group.
        group: String,
    },
    /// Read the configuration file again and apply it; answered by [`Reply::Text`], or by [`Reply::Error`] if
    /// nothing was changed.
    #[command(skip)]
    Reload,
    /// Accept no articles from now on; answered by [`Reply::Text`].
    #[command(skip)]
    Pause {
        /// Reason sent to clients that should try later; may be empty.
        reason: String,
    },
    /// Accept articles again; answered by [`Reply::Text`].
    #[command(skip)]
    Go,
    /// Describe what a reload of a configuration file would change; answered by [`Reply::Text`], or by
    /// [`Reply::Error`] with what prevents it.
    #[command(skip)]
    Compare {
        /// Absolute path of the file, from which relative paths start.
        file: PathBuf,
        /// Contents of the file.
        text: String,
    },
    /// File articles, which follow in parcels: bytes and number of its articles, the bytes of each (four
    /// bytes each, big-endian), and their wire format, concatenated. A parcel without articles marks the end.
    /// Every other parcel is answered by one [`Reply::Articles`].
    #[command(skip)]
    Rnews,
    /// File articles of another server, which follow, each after its length (four bytes, big-endian), and a
    /// length of 0 after the last; the bytes of each are its arrival (Unix seconds, four bytes, big-endian;
    /// 0: now), the length of its placements (two bytes, big-endian), its placements (`group:number` words
    /// separated by spaces, a number of 0 for a new one) and its wire format. Answered by one
    /// [`Reply::Imported`].
    #[command(skip)]
    Import,
    /// Fetch articles from another server; answered by [`Reply::Progress`] and [`Reply::Pulled`].
    #[command(skip)]
    Pull {
        /// Server, groups and limits of the pull.
        spec: Box<PullSpec>,
    },
    /// Send the articles of a group to a server; answered by [`Reply::Progress`], a [`Reply::Text`] for each
    /// article that the server rejects, and [`Reply::Sent`].
    #[command(skip)]
    Send {
        /// The group.
        group: String,
        /// The server.
        dial: Box<RemoteServer>,
    },
    /// Answer for a mount of the spool: the first [`Reply::Done`] asks for its device, the next one reports
    /// that the mount works, the last that it has ended. Only in servers built with mounts.
    #[command(skip)]
    Mount {
        /// Address of the reader whose groups are shown.
        reader: IpAddr,
        /// Whether lines of files end in CRLF instead of LF.
        crlf: bool,
    },
    /// Whether a mount still stands; answered by [`Reply::MountEnded`] if it does not. Likewise.
    #[command(skip)]
    MountStanding {
        /// The number of [`Reply::Mounted`].
        mount: u64,
    },
    /// Search for articles, the newest first; answered by [`Reply::FoundArticle`] each. Only in servers built
    /// with search.
    #[command(skip)]
    Search {
        /// The query.
        query: String,
        /// Maximum number of articles.
        limit: usize,
    },
    /// Build the search index again, in the background; answered by [`Reply::Text`]. Only in servers built
    /// with search.
    #[command(skip)]
    RebuildSearch,
    /// Count the imported articles that are still stored; answered by [`Reply::Count`].
    #[command(skip)]
    CountLiving {
        /// Tokens from [`ImportResult`].
        tokens: Vec<String>,
    },
    /// Remember the Message-IDs of another server's history; answered by [`Reply::HistoryImported`].
    #[command(skip)]
    HistoryImport {
        /// Lines of the history file.
        lines: String,
    },
    /// Export history as text; answered by [`Reply::Text`] with many lines each, and
    /// [`Reply::HistoryExported`].
    #[command(skip)]
    HistoryExport {
        /// Format of the lines.
        form: HistoryForm,
    },
    /// Continue groups after another server's numbers; answered by [`Reply::Done`] alone.
    #[command(skip)]
    RaiseHigh {
        /// Names and high water marks.
        marks: Vec<(String, u64)>,
    },
    /// List, add, grow, retire, reuse, move or remove buffers, whether the server runs or not
    #[command(
        long_about = "List, add, grow, retire, reuse, move or remove buffers, whether the server runs or not.\n\n\
        This also edits the configuration, as little of its text as possible, so the server's user needs the right to \
        write it. PATH is relative to the directory in data, as in the configuration."
    )]
    #[command(after_long_help = "Examples:\n  newsreel buffer add text2 --class text --size \"20 GiB\"\n  \
        newsreel buffer grow text2 \"40 GiB\"\n  newsreel buffer move text0 /disk2/text0.cyc\n  \
        newsreel buffer retire text1\n  newsreel buffer remove text1 --articles")]
    Buffer {
        #[command(subcommand)]
        /// Action on a buffer.
        command: BufferCommand,
    },

    /// Show the state of the server and its spool
    Status {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },

    /// Show everything known about an article
    #[command(
        long_about = "Show everything known about an article: where it is stored, whether it can be read, its history.\n\n\
        Exit code 1 if it cannot be read."
    )]
    #[command(after_long_help = "Examples:\n  newsreel explain '<1993Apr5.012345@example.org>'\n  \
        newsreel explain text0:24da800:1e\n  newsreel explain ./article.txt")]
    Explain {
        /// A token, a <message-id>, or a file that holds an article
        #[arg(value_name = "TOKEN|<MESSAGE-ID>|FILE")]
        subject: String,
    },

    /// Explain why an article is sent to a peer, or is not
    #[command(
        long_about = "Explain why an article is sent to a peer, or is not: each step of the decision with the present \
        configuration, and what was decided when the article arrived. For articles stored here, including those that \
        arrived before the peer was configured."
    )]
    #[command(after_long_help = "Example:\n  newsreel why '<1993Apr5.012345@example.org>' news.example.net")]
    Why {
        /// The article's Message-ID, with its angle brackets
        message_id: String,
        /// The peer's name, as in [[peer]]
        peer: String,
    },

    /// Create batches for a peer now
    #[command(
        long_about = "Create batches of all articles queued for a peer, now and not when there are enough, for peers \
        whose [peer.send] has the key batch. Works with and without a running server; after_batch is run by the server."
    )]
    #[command(after_long_help = "Example:\n  newsreel batch leaf.example.net")]
    Batch {
        /// The peer's name, as in [[peer]]
        peer: String,
    },

    /// Control the feed to a peer; answered by [`Reply::Done`] alone.
    #[command(skip)]
    Feed {
        /// The peer's name.
        peer: String,
        /// Command for the feed.
        command: FeedCommand,
    },

    /// Check every article, index and file, and repair what can be repaired
    #[command(
        long_about = "Check every article, index and file against its checksum and against the others: buffers and their \
        bitmaps, journal, checkpoint, history, overview, active, residents, dictionaries. A running server continues to \
        serve. Each problem is reported with what it means. With --repair each is repaired if possible, and everything is \
        checked again; no repair removes anything that can be read. Exit code 1 if anything is (still) wrong."
    )]
    Verify {
        /// Repair what is wrong, one problem after the other, whether the server runs or not
        #[arg(long)]
        repair: bool,
        /// With --repair: only show what would be done
        #[arg(long, requires = "repair")]
        dry_run: bool,
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },

    /// Delete expired articles, or show when articles go
    #[command(
        long_about = "Delete the articles that have expired by the [[expire]] rules, in classes with files (not cyclic \
        buffers). A running server does so by itself at least once an hour.\n\n\
        With --explain: show when an article goes and why, also one in a cyclic buffer. With --what-if: show what the \
        [[expire]] rules of another configuration file would delete, for each of its sections; nothing is deleted, and \
        a running server is not affected."
    )]
    #[command(after_long_help = "Examples:\n  newsreel expire --explain '<1993Apr5.012345@example.org>'\n  \
        newsreel expire --what-if shorter.toml --days 30")]
    Expire {
        /// Only show what would be deleted
        #[arg(long)]
        dry_run: bool,
        /// Show when this article goes, and why
        #[arg(long, value_name = "MESSAGE-ID", conflicts_with_all = ["dry_run", "what_if"])]
        explain: Option<String>,
        /// Show what the rules of this configuration file would delete
        #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
        what_if: Option<PathBuf>,
        /// Contents of the file.
        #[arg(skip)]
        text: Option<String>,
        /// With --what-if: also show what would be removed within N days
        #[arg(long, value_name = "N", requires = "what_if", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
        /// With --what-if: print JSON
        #[arg(long, requires = "what_if")]
        #[serde(skip)]
        json: bool,
    },

    /// Show the state of archives, and articles that were not copied
    #[command(
        long_about = "Show the state of the [[archive]] sections, and articles that were not copied, whether the \
        server runs or not. A running server copies articles by itself; docs/archive.md says what is promised."
    )]
    #[command(after_long_help = "Examples:\n  newsreel archive status\n  newsreel archive missed")]
    Archive {
        #[command(subcommand)]
        /// State to show.
        command: ArchiveCommand,
    },

    /// Verify the whole cache; typed as `cache verify`. Answered by [`Reply::Progress`] and [`Reply::Text`].
    #[command(skip)]
    VerifyCache,
    /// Manage posts that wait for upstreams; typed as `cache posts`.
    #[command(skip)]
    Posts {
        /// Action on a post.
        command: PostsCommand,
    },

    /// List, show, approve or reject posts that wait here for a moderator
    #[command(
        long_about = "List, show, approve or reject posts to the moderated groups whose [[moderator]] has address = \
        \"queue\"."
    )]
    #[command(after_long_help = "Examples:\n  newsreel moderation list\n  \
        newsreel moderation approve '<1993Apr5.012345@example.org>'\n  \
        newsreel moderation reject --reason \"Please post to misc.forsale\" '<1993Apr5.012345@example.org>'")]
    Moderation {
        #[command(subcommand)]
        /// Action on a post.
        command: ModerationCommand,
    },

    /// List, import, trust or remove keys that may sign control messages
    #[command(
        long_about = "List, import, trust or remove the OpenPGP keys that may sign control messages, whether the \
        server runs or not. A key counts only once it is trusted; signed_by in [[control]] says who may sign what."
    )]
    #[command(after_long_help = "Examples:\n  newsreel keys import PGPKEYS.asc\n  newsreel keys list\n  \
        newsreel keys trust news.announce.newgroups\n  newsreel keys remove 3D2A...")]
    Keys {
        #[command(subcommand)]
        /// Action on a key.
        command: KeysCommand,
    },

    /// See what filters found in articles, and correct their mistakes
    #[command(
        long_about = "See what filters refused, hid or set aside, or would have refused (mode \"shadow\" of [spam]), and \
        correct their mistakes, whether the server runs or not."
    )]
    #[command(after_long_help = "Examples:\n  newsreel filter review --since 2h\n  \
        newsreel filter review --filter spam --json\n  newsreel filter release '<1993Apr5.012345@example.org>'")]
    Filter {
        #[command(subcommand)]
        /// Action on filtered articles.
        command: FilterCommand,
    },

    /// Cancel articles by Message-ID
    #[command(
        long_about = "Cancel articles by Message-ID, whatever their Cancel-Locks, whether the server runs or not. An article \
        that is not here yet is refused when it arrives. A cancelled article cannot be restored."
    )]
    Cancel {
        /// Message-IDs, with their angle brackets
        #[arg(required = true, value_name = "MESSAGE-ID")]
        message_ids: Vec<String>,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },

    /// Hide articles from everyone, or list what is hidden
    #[command(
        long_about = "Hide articles by Message-ID, whether the server runs or not: they stay stored, and nobody is shown \
        them or sent them. `newsreel unhide` shows them again under the same numbers, until they are overwritten or \
        expire. With --list: list what is hidden, by the operator or by NoCeM notices.\n\n\
        Exit code 1 if an article is not here."
    )]
    #[command(
        after_long_help = "Examples:\n  newsreel hide --reason \"complaint 4711\" '<1993Apr5.012345@example.org>'\n  \
        newsreel hide --list --since 2d"
    )]
    Hide {
        /// Message-IDs, with their angle brackets
        #[arg(required_unless_present = "list", value_name = "MESSAGE-ID")]
        message_ids: Vec<String>,
        /// Why, for `newsreel hide --list`
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
        /// List what is hidden
        #[arg(long, conflicts_with_all = ["message_ids", "reason", "dry_run"])]
        list: bool,
        /// Selection for the list.
        #[command(flatten)]
        by: HiddenFilter,
        /// Print JSON
        #[arg(long, requires = "list")]
        #[serde(skip)]
        json: bool,
    },

    /// Show hidden articles again
    #[command(
        long_about = "Show hidden articles again, under the numbers that they had: those named, or all that an issuer has \
        hidden or that were hidden since a time. An article that was overwritten, cancelled or has expired meanwhile does \
        not come back.\n\nExit code 1 if an article that is named is not hidden."
    )]
    #[command(after_long_help = "Examples:\n  newsreel unhide '<1993Apr5.012345@example.org>'\n  \
        newsreel unhide --issuer nocem:spambot --since 2026-01-31")]
    Unhide {
        /// Message-IDs, with their angle brackets
        #[arg(
            value_name = "MESSAGE-ID",
            required_unless_present_any = ["issuer", "since"],
            conflicts_with_all = ["issuer", "since"]
        )]
        message_ids: Vec<String>,
        /// Selection, without Message-IDs.
        #[command(flatten)]
        by: HiddenFilter,
        /// Only show what would be done
        #[arg(long)]
        dry_run: bool,
    },

    /// Delete all articles of groups
    #[command(
        long_about = "Delete all articles of the matching groups, whether the server runs or not. An article that is also in \
        other groups stays there. The groups remain, and their numbering continues. A purged article cannot be restored, \
        but a rebuild brings crossposted articles back into purged groups if they are stored in cyclic buffers."
    )]
    Purge {
        /// The groups, a wildmat such as \"alt.test.*,!alt.test.keep\"
        #[arg(long, value_name = "WILDMAT")]
        groups: String,
        /// Only show what would be deleted
        #[arg(long)]
        dry_run: bool,
        /// Really delete; without this nothing is deleted
        #[arg(long, conflicts_with = "dry_run", required_unless_present = "dry_run")]
        #[serde(skip)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
}

impl Request {
    /// Request for the state of the server.
    pub const STATUS: Self = Self::Status { json: false };

    /// Returns the request for the list of buffers.
    pub fn buffers() -> Self {
        Self::Buffer { command: BufferCommand::List { json: false } }
    }
}

/// Selection of hidden articles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct HiddenFilter {
    /// Only those hidden by this one: operator, or nocem:NAME
    #[arg(long, value_name = "NAME")]
    pub issuer: Option<String>,
    /// Only those hidden since a date such as 2026-01-31, or in a time span such as 2h
    #[arg(long, value_name = "TIME", value_parser = start::since)]
    pub since: Option<u64>,
}

/// Command for the feed to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FeedCommand {
    /// Resume after stop, at once
    Start,
    /// Send nothing until start, or until the server is restarted; nothing is lost
    Stop,
    /// Retry at once what is waiting: to connect, articles that the peer wanted later, and after_batch;
    /// create a batch of what is queued; reopen the file of lines, so that it can be rotated; restart the
    /// program
    Flush,
    /// Continue at another place in the journal: what was sent after an earlier place is offered again, and
    /// what lies before a later one is not sent
    From {
        /// now, oldest, a date such as 2026-01-31, or a position as status shows it
        #[arg(value_name = "now|oldest|DATE|POSITION")]
        place: String,
    },
}

/// Action on a buffer; answered by [`Reply::Buffer`] each, or by [`Reply::Progress`] and [`Reply::Text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BufferCommand {
    /// List the buffers
    List {
        /// Print JSON
        #[arg(long)]
        #[serde(skip)]
        json: bool,
    },
    /// Create a buffer and assign it to a class
    Add {
        /// Its name
        name: String,
        /// The class that will use it
        #[arg(long)]
        class: String,
        /// Its file or block device [default: NAME.cyc]
        #[arg(long)]
        path: Option<String>,
        /// Its size [default: that of the file or device]
        #[arg(long, value_parser = units::parse_size)]
        size: Option<u64>,
        /// Articles begin at multiples of this many bytes: a power of two from 64 to 16384 [default: 64]
        #[arg(long, value_name = "BYTES")]
        block: Option<u32>,
    },
    /// Enlarge a buffer; everything in it stays where it is
    Grow {
        /// Its name
        name: String,
        /// Its new size
        #[arg(value_parser = units::parse_size)]
        size: u64,
    },
    /// Make a buffer accept no more articles; those it holds stay readable
    Retire {
        /// Its name
        name: String,
    },
    /// Make a retired buffer accept articles again
    Use {
        /// Its name
        name: String,
    },
    /// Move a buffer to another file or block device
    Move {
        /// Its name
        name: String,
        /// The new file or block device
        path: String,
    },
    /// Remove a retired buffer from the spool; its file is not deleted
    Remove {
        /// Its name
        name: String,
        /// Even if it still holds articles, which are then lost
        #[arg(long)]
        articles: bool,
    },
}

/// Format of history files that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum HistoryForm {
    /// INN 2: hashes of Message-IDs.
    Inn,
    /// C News: Message-IDs, with groups and numbers of stored articles.
    Cnews,
}

/// Result of [`Request::HistoryImport`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCounts {
    /// Message-IDs newly remembered.
    pub remembered: u64,
    /// Message-IDs that were known already.
    pub known: u64,
    /// Message-IDs older than the history here remembers.
    pub old: u64,
    /// Invalid lines.
    pub damaged: u64,
    /// The first invalid lines.
    pub quoted: Vec<String>,
}

/// A buffer in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRow {
    /// Name.
    pub name: String,
    /// Class that the buffer belongs to.
    pub class: String,
    /// File or device.
    pub path: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes for articles when the buffer is full.
    #[serde(default)]
    pub area_bytes: u64,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Bytes between the oldest article and the write position.
    pub used_bytes: u64,
    /// Whether the buffer accepts no more articles.
    pub retired: bool,
    /// Unix seconds of the arrival of the oldest article; absent if the buffer is empty, or the spool not
    /// open.
    pub oldest_arrival: Option<u64>,
    /// Whether the file is missing: its disk is not mounted, and the spool cannot be opened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
}

/// A group to add.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Name.
    pub name: String,
    /// `y`, `n`, `m`, `j`, `x` or `=other.name`.
    pub flag: String,
    /// Description in one line; empty if there is none.
    #[serde(default)]
    pub description: String,
    /// Number after which the first article comes; 0 unless the group comes from another server with its
    /// numbers.
    #[serde(default)]
    pub high: u64,
    /// Unix seconds of the creation elsewhere; 0 if created now.
    #[serde(default)]
    pub created: u64,
    /// Creator; empty for newsreel's operator.
    #[serde(default)]
    pub creator: String,
}

/// A change to a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSetting {
    /// Name.
    pub name: String,
    /// New flag, as in [`GroupEntry::flag`]; absent if unchanged.
    pub flag: Option<String>,
    /// New description; absent if unchanged.
    pub description: Option<String>,
}

/// One line of an answer; `{"kind": {...}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer to [`Request::Status`].
    Status(Box<Report>),
    /// The answer to [`Request::Ping`].
    Serving {
        /// Absolute path of the server's configuration.
        file: PathBuf,
    },
    /// A group.
    Group(GroupListRow),
    /// Result of a change to a group.
    Changed {
        /// Name of the group.
        name: String,
        /// Whether anything changed (adding a group that exists changes nothing).
        changed: bool,
        /// Reason why the change failed.
        error: Option<String>,
    },
    /// A buffer.
    Buffer(BufferRow),
    /// A line of explanation.
    Text(String),
    /// An article of [`Request::Articles`].
    Article(ArticleText),
    /// The progress of a long operation.
    Progress {
        /// Name of the work.
        what: String,
        /// Steps done.
        done: u64,
        /// Total number of steps.
        total: u64,
    },
    /// A problem found by `verify`.
    Problem(String),
    /// Repair of the problem reported before, done or planned.
    Repair {
        /// The repair; empty if there is none.
        what: String,
        /// Reason why the repair failed; absent if it was done, or the run is dry.
        error: Option<String>,
    },
    /// An archive.
    Archive(ArchiveStatus),
    /// A post that waits for a moderator here.
    Held(HeldRow),
    /// A post that waits for an upstream, or was refused by one.
    Post(PostRow),
    /// An article that a query has found.
    FoundArticle(FoundRow),
    /// A hidden article.
    Hidden(HiddenRow),
    /// A filter's finding.
    Review(ReviewRow),
    /// Result of [`Request::Purge`].
    Purged(PurgeRow),
    /// Part of the answer to [`Request::Expire`] with a file: effect of one section on its articles.
    WouldExpire(ExpirePreview),
    /// Fates of the articles of a parcel of [`Request::Rnews`], in order.
    Articles(Vec<BatchResult>),
    /// Result of [`Request::Pull`].
    Pulled {
        /// Counts of the run.
        counts: PullCounts,
        /// Duration in seconds.
        seconds: f64,
        /// Details besides the counts.
        #[serde(default)]
        details: PullDetails,
    },
    /// Result of [`Request::Send`].
    Sent {
        /// Counts of the articles.
        counts: SendCounts,
        /// Whether sending ended early for a reason that the same request cannot overcome later.
        #[serde(default)]
        is_final: bool,
    },
    /// Results of the articles of [`Request::Import`], in order.
    Imported(Vec<ImportResult>),
    /// The end of the answer to [`Request::Mount`].
    Mounted {
        /// Number of the mount.
        mount: u64,
    },
    /// A mount stands no longer.
    MountEnded {
        /// Reason of the failure; absent if it was unmounted.
        failure: Option<String>,
    },
    /// The answer to [`Request::CountLiving`].
    Count(u64),
    /// The answer to [`Request::HistoryImport`].
    HistoryImported(HistoryCounts),
    /// The end of the answer to [`Request::HistoryExport`].
    HistoryExported {
        /// Number of Message-IDs written.
        named: u64,
        /// Number of entries known only by this site's own hash.
        unnamed: u64,
    },
    /// The request was invalid or could not be carried out.
    Error(String),
    /// The last line of an answer.
    Done {
        /// Whether the request succeeded and no problem was found.
        ok: bool,
    },
}

/// A group with its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupListRow {
    /// Name.
    pub name: String,
    /// `y`, `n`, `m`, `j`, `x` or `=other.name`.
    pub flag: String,
    /// Low water mark.
    pub low: u64,
    /// High water mark.
    pub high: u64,
    /// Number of articles.
    pub count: u64,
    /// Description in one line; empty if there is none.
    pub description: String,
    /// Unix seconds of the creation.
    pub created: u64,
    /// Creator.
    pub creator: String,
}
