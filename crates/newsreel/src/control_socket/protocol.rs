//! What is said on the control socket: the unix socket `control` in the spool's directory.
//!
//! A client sends one [`Request`] as a line of JSON; after [`Request::Rnews`] follow the articles, each as a
//! four-byte big-endian length and so many bytes of wire format (CRLF, dot-stuffed, without the final `.` line),
//! ended by a length of 0. The server answers with [`Reply`] lines, of which the last is [`Reply::Done`]. One
//! connection may carry many requests, one after the other. Spoken by `control_socket` and `cli::control`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// File name of the socket in the spool's directory.
pub const SOCKET_FILE_NAME: &str = "control";
/// Longest request or reply line, in bytes.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Whether the server lives; answered by nothing but [`Reply::Done`].
    Ping,
    /// How the server is; answered by one [`Reply::Status`].
    Status,
    /// Add groups; those that exist already are counted as unchanged. Answered by [`Reply::Changed`] each.
    GroupAdd {
        /// The groups.
        groups: Vec<GroupEntry>,
    },
    /// Remove groups; answered by [`Reply::Changed`] each.
    GroupRemove {
        /// Their names.
        names: Vec<String>,
    },
    /// Change flag or description of a group; answered by [`Reply::Changed`].
    GroupSet {
        /// Its name.
        name: String,
        /// New flag, as in [`GroupEntry::flag`]; absent: as before.
        flag: Option<String>,
        /// New description; absent: as before.
        description: Option<String>,
    },
    /// The groups whose names match; answered by [`Reply::Group`] each, in order of name.
    GroupList {
        /// A wildmat; absent: all.
        wildmat: Option<String>,
    },
    /// The buffers; answered by [`Reply::Buffer`] each, in the order of their making.
    BufferList,
    /// Change a buffer, and the configuration with it; answered by [`Reply::Progress`] and [`Reply::Text`] lines.
    BufferChange {
        /// Its name.
        name: String,
        /// What is to be done.
        change: BufferChange,
    },
    /// What is known of a token, Message-ID (`<...>`) or file; answered by [`Reply::Text`] lines.
    Explain {
        /// The token, Message-ID or path of a file.
        subject: String,
    },
    /// A group's name.map; answered by its lines, one [`Reply::Text`] each.
    NameMap {
        /// Its name.
        group: String,
    },
    /// Take articles away, or refuse those that are not here yet; answered by one [`Reply::Text`] each.
    Cancel {
        /// Their Message-IDs.
        message_ids: Vec<String>,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// Take all articles out of groups; answered by [`Reply::Progress`] and [`Reply::Text`].
    Purge {
        /// The groups, a wildmat.
        groups: String,
        /// Only say what would go.
        dry_run: bool,
    },
    /// Let go of articles that are due; answered by [`Reply::Text`].
    Expire {
        /// Only say what would go.
        dry_run: bool,
    },
    /// Check every record, row and number; answered by [`Reply::Progress`] and one [`Reply::Problem`] each.
    Verify,
    /// Read the configuration file again and take what it says; answered by [`Reply::Text`], or by [`Reply::Error`] if
    /// everything stays as it was.
    Reload,
    /// Say what a configuration file would change if it were reloaded; answered by [`Reply::Text`], or by
    /// [`Reply::Error`] with what stands against it.
    Compare {
        /// Its name, absolute: what relative paths start from.
        file: PathBuf,
        /// What it says.
        text: String,
    },
    /// As [`Request::Verify`], and mend what can be mended, unless it is a dry run; answered by [`Reply::Progress`], one
    /// [`Reply::Problem`] for each thing that is wrong and one [`Reply::Repair`] for what was or would be done about it.
    Repair {
        /// Only tell what would be done.
        dry_run: bool,
    },
    /// File articles, which follow; answered by one [`Reply::Article`] each, in order.
    Rnews,
    /// File articles of another server, which follow framed as for [`Request::Rnews`]; the bytes of each are its arrival
    /// (Unix seconds, four bytes, big-endian; 0: now), the length of its places (two bytes, big-endian), its places
    /// (`group:number` words with a space between, a number of 0 for a new one) and its wire format. Answered by one
    /// [`Reply::Imported`].
    Import,
    /// How many of the articles that were imported are still stored; answered by [`Reply::Count`].
    CountLiving {
        /// The tokens of [`ImportResult`].
        tokens: Vec<String>,
    },
    /// Let groups go on behind another server's numbers; answered by nothing but [`Reply::Done`].
    RaiseHigh {
        /// Names and high water marks.
        marks: Vec<(String, u64)>,
    },
}

/// What is to be done with a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BufferChange {
    /// Make it.
    Add {
        /// Its file or device, as the configuration is to have it.
        path: String,
        /// Its size in bytes; absent: what the file or device has.
        size: Option<u64>,
        /// Its block in bytes; absent: the default.
        block: Option<u32>,
        /// The class that it is for.
        class: String,
    },
    /// Give it more room.
    Grow {
        /// Its new size in bytes.
        size: u64,
    },
    /// Let it take no more articles, or take them again.
    Retire {
        /// Which of the two.
        retired: bool,
    },
    /// Move it while serving goes on.
    Move {
        /// Its new file or device, as the configuration is to have it.
        path: String,
    },
    /// Take it out of the spool.
    Remove {
        /// Even if it still holds articles.
        articles: bool,
    },
}

/// A buffer, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRow {
    /// Its name.
    pub name: String,
    /// The class that it belongs to.
    pub class: String,
    /// Its file or device.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of it that hold articles when it is full.
    #[serde(default)]
    pub area_bytes: u64,
    /// Its block in bytes.
    pub block_bytes: u32,
    /// Bytes between its oldest article and its write position.
    pub used_bytes: u64,
    /// Whether it takes no more articles.
    pub retired: bool,
    /// Unix seconds of the arrival of its oldest article; absent: it is empty.
    pub oldest_arrival: Option<u64>,
}

/// A group, as it is added or listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// `y`, `n`, `m`, `j`, `x` or `=other.name`.
    pub flag: String,
    /// One line; empty: none.
    #[serde(default)]
    pub description: String,
    /// The number its first article comes after; 0 unless the group comes from another server with its numbers.
    #[serde(default)]
    pub high: u64,
    /// Unix seconds of its creation elsewhere; 0: it is made now.
    #[serde(default)]
    pub created: u64,
    /// Who created it; empty: newsreel's operator.
    #[serde(default)]
    pub creator: String,
}

/// One reply line; `{"kind": {...}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer to [`Request::Status`].
    Status(Box<StatusReport>),
    /// A group.
    Group(GroupRow),
    /// What became of a change to a group.
    Changed {
        /// The group.
        name: String,
        /// Whether anything changed (adding a group that exists changes nothing).
        changed: bool,
        /// Why it could not be done.
        error: Option<String>,
    },
    /// A buffer.
    Buffer(BufferRow),
    /// A line of explanation.
    Text(String),
    /// How far long work is.
    Progress {
        /// What is being done.
        what: String,
        /// Steps done.
        done: u64,
        /// Steps in all.
        total: u64,
    },
    /// Something wrong that `verify` found.
    Problem(String),
    /// What was done about the problem told before, or would be.
    Repair {
        /// What; empty: nothing can be done.
        what: String,
        /// Why it could not be done; absent: it was done, or the run is dry.
        error: Option<String>,
    },
    /// What became of an article of [`Request::Rnews`].
    Article {
        /// Its Message-ID, if it has one.
        message_id: String,
        /// What became of it.
        disposition: Disposition,
        /// Why, in words; empty if accepted.
        reason: String,
    },
    /// What became of the articles of [`Request::Import`], in order.
    Imported(Vec<ImportResult>),
    /// The answer to [`Request::CountLiving`].
    Count(u64),
    /// The request was not understood or could not be carried out.
    Error(String),
    /// The last line of an answer.
    Done {
        /// Whether all that was asked was done and nothing wrong was found.
        ok: bool,
    },
}

/// What became of an article of a batch: the three dispositions, and of the rejected ones what senders see often or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// It is stored.
    Accepted,
    /// It is not wanted; do not send it again.
    Rejected,
    /// It is not wanted, as its Message-ID is known.
    Duplicate,
    /// It is not wanted, as it is no article: damaged, or something else.
    Malformed,
    /// We are in trouble; send it again later.
    TryLater,
}

/// What became of an article of another server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportResult {
    /// What became of it.
    pub outcome: ImportOutcome,
    /// Where it is stored, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Why, in words, if it was rejected or is to be tried later.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What may become of an article of another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportOutcome {
    /// It is stored.
    Filed,
    /// Its Message-ID is known.
    Duplicate,
    /// A number it brings is not above all that its group has given out; it may come again and take a new one.
    NumberTaken,
    /// It is not taken.
    Rejected,
    /// We are in trouble.
    TryLater,
}

/// A group with its counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRow {
    /// Its name.
    pub name: String,
    /// `y`, `n`, `m`, `j`, `x` or `=other.name`.
    pub flag: String,
    /// Low water mark.
    pub low: u64,
    /// High water mark.
    pub high: u64,
    /// Articles it holds now.
    pub count: u64,
    /// One line; empty: none.
    pub description: String,
    /// Unix seconds of its creation.
    pub created: u64,
    /// Who created it.
    pub creator: String,
}

/// How the server is. Fields that only a running server knows are absent when `newsreel status` reads the spool
/// itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// newsreel's version.
    pub version: String,
    /// Our name in Path.
    pub path_identity: String,
    /// The running server; absent: none runs.
    pub server: Option<ServerStatus>,
    /// The spool.
    pub spool: SpoolStatus,
}

/// What a running server knows of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its process number.
    pub pid: u32,
    /// Seconds since it began to listen.
    pub uptime_secs: u64,
    /// The addresses it listens on, ports resolved.
    pub listen: Vec<String>,
    /// Connections open now.
    pub connections: u64,
    /// Connections of readers served since the start.
    pub readers_served: u64,
    /// The peers of the configuration, in its order.
    pub peers: Vec<PeerStatus>,
    /// Articles accepted since the start, from anyone.
    pub accepted: u64,
    /// Articles rejected since the start, from anyone.
    pub rejected: u64,
    /// Answers "try later" since the start.
    pub try_later: u64,
}

/// What one peer did since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its connections now.
    pub connections: u64,
    /// Message-IDs it offered (IHAVE, CHECK, and TAKETHIS without CHECK).
    pub offered: u64,
    /// Articles accepted from it.
    pub accepted: u64,
    /// Articles it sent that were rejected.
    pub rejected: u64,
}

/// How the spool is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpoolStatus {
    /// Its directory.
    pub dir: String,
    /// When an article counts as safely stored, as the configuration writes it.
    pub durability: String,
    /// Why it stopped accepting articles; absent: it accepts.
    pub stopped: Option<String>,
    /// Articles that can be read now.
    pub articles: u64,
    /// Groups.
    pub groups: u64,
    /// Message-IDs in history.
    pub history_entries: u64,
    /// Bytes of journal.
    pub journal_bytes: u64,
    /// Bytes on disk for each article beyond its own; absent: there are too few articles to tell.
    pub overhead: Option<Overhead>,
    /// The classes.
    pub classes: Vec<ClassStatus>,
    /// The buffers.
    pub buffers: Vec<BufferStatus>,
}

/// Bytes on disk for each article beyond its own, on average.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Header, padding and usage bits of its record.
    pub record_bytes: u64,
    /// What is kept of the journal.
    pub journal_bytes: u64,
    /// History.
    pub history_bytes: u64,
    /// Overview.
    pub overview_bytes: u64,
    /// Residents.
    pub residents_bytes: u64,
    /// Both copies of the checkpoint: living numbers, and overview that is in no file of its own yet.
    pub checkpoint_bytes: u64,
}

impl Overhead {
    /// All of it.
    pub fn sum(&self) -> u64 {
        let Self {
            record_bytes,
            journal_bytes,
            history_bytes,
            overview_bytes,
            residents_bytes,
            checkpoint_bytes,
        } = self;
        record_bytes + journal_bytes + history_bytes + overview_bytes + residents_bytes + checkpoint_bytes
    }
}

/// How a class is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its method.
    pub method: String,
    /// Unix seconds of the arrival of its oldest article; absent: it has none.
    pub oldest_arrival: Option<u64>,
    /// Bytes written in a second, over the last hour.
    pub hour_bytes_per_sec: f64,
    /// The same over the last day.
    pub day_bytes_per_sec: f64,
    /// So many seconds an article stays at the last day's rate; absent: nothing was written, or not for an hour yet.
    pub stays_secs: Option<u64>,
    /// How long articles should stay, in seconds.
    pub keep_target_secs: Option<u64>,
    /// How long they are promised to stay, in seconds.
    pub keep_at_least_secs: Option<u64>,
    /// Articles that went to its overflow since the start.
    pub spilled: u64,
    /// Articles rejected since the start, as only what is promised to stay could have made room.
    pub turned_away: u64,
}

impl ClassStatus {
    /// Whether its articles are thrown away.
    pub fn keeps_nothing(&self) -> bool {
        self.method == "trash"
    }

    /// Whether its articles will not stay as long as they should.
    pub fn is_below_target(&self) -> bool {
        self.stays_secs.zip(self.keep_target_secs).is_some_and(|(stays, target)| stays < target)
    }
}

/// How a buffer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferStatus {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of it that hold articles.
    pub used_bytes: u64,
    /// Its cycle number: 1 until it wraps for the first time.
    pub cycle: u64,
    /// Unix seconds of the arrival of its oldest article; absent: it is empty.
    pub oldest_arrival: Option<u64>,
}
