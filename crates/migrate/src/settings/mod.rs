//! Conversion of another server's configuration: files of INN, C News, leafnode or Diablo in, a
//! newsreel.toml out.
//!
//! Pure: the texts of the files are the input, and the new files are the output. One module reads each form
//! of file, and every line of it becomes a key, with a note that names the line, or a remark, which `sheet`
//! ensures. Files are found, read and written by `cli::import`. INN's terms and ours: `docs/from-inn.md`.
//! Sources: the manual pages of INN 2.7, named in each module.

mod blocks;
mod cnews;
mod control;
mod diablo;
mod expire;
mod feeds;
mod flags;
mod incoming;
mod inn_conf;
mod inn_keys;
mod keys;
mod leafnode;
mod moderators;
mod newsfeeds;
#[cfg(test)]
mod odd_files;
mod patterns;
mod peers;
mod readers;
mod sheet;
mod storage;
#[cfg(test)]
mod tests;
mod text;
mod trial;

use std::collections::BTreeMap;

pub use patterns::ResolveHost;
pub use text::FILE_BYTES_MAX;

use inn_conf::InnConf;
use peers::PasswordFiles;
use sheet::ConfigDraft;

/// Files of INN that are read, in the order in which they are reported.
pub const INN_FILES: [&str; 13] = [
    "inn.conf",
    "storage.conf",
    "cycbuff.conf",
    "expire.ctl",
    "incoming.conf",
    "newsfeeds",
    "innfeed.conf",
    "nntpsend.ctl",
    "passwd.nntp",
    "readers.conf",
    "moderators",
    "control.ctl",
    "control.ctl.local",
];

/// Texts for readers: INN's file name, and ours.
pub const INN_LISTS: [(&str, &str); 5] = [
    ("motd.nnrpd", "motd"),
    ("motd", "motd"),
    ("subscriptions", "subscriptions"),
    ("distrib.pats", "distrib.pats"),
    ("distributions", "distributions"),
];

/// Files of C News that are read.
pub const CNEWS_FILES: [&str; 8] =
    ["whoami", "mailname", "organization", "explist", "sys", "batchparms", "mailpaths", "controlperm"];

/// Files of leafnode that are read.
pub const LEAFNODE_FILES: [&str; 2] = ["config", "local.groups"];

/// Files of Diablo that are read.
pub const DIABLO_FILES: [&str; 2] = ["dnewsfeeds", "dnntpspool.ctl"];

/// Input of a conversion.
#[derive(Debug, Default)]
pub struct OldConfiguration {
    /// Directory of the other server, for display.
    pub dir: String,
    /// Texts of [`INN_FILES`], by name.
    pub files: BTreeMap<&'static str, String>,
    /// Whether the new site is tried beside the old server, which keeps running.
    pub is_trial: bool,
}

/// Result of a conversion.
#[derive(Debug)]
pub struct ConvertedConfiguration {
    /// Text of the configuration.
    pub text: String,
    /// Error of the configuration's parser that remains.
    pub refused: Option<String>,
    /// Files with passwords, by their path beside the configuration.
    pub secrets: BTreeMap<String, String>,
    /// Numbers of sections of some kinds: name and number.
    pub counts: Vec<(&'static str, usize)>,
    /// Number of lines without an exact equivalent.
    pub remarks: usize,
}

/// Converts the configuration of an INN.
pub fn from_inn(old: &OldConfiguration, resolve: ResolveHost<'_>) -> ConvertedConfiguration {
    let file = |name: &str| old.files.get(name).map(String::as_str);
    let text = |name: &str| file(name).unwrap_or_default();
    let conf = InnConf::parse(text("inn.conf"));
    let mut sheet = ConfigDraft::default();
    let mut secrets = PasswordFiles::default();
    inn_conf::convert(&conf, &mut sheet);
    let cycbuffs = storage::Cycbuffs::parse(text("cycbuff.conf"));
    let classes = storage::convert(file("storage.conf"), &cycbuffs, conf.is("wireformat", true), &mut sheet);
    let age_max = match conf.get("artcutoff").map(|setting| setting.value.parse::<u64>()) {
        Some(Ok(0)) => None,
        Some(Ok(days)) => Some(days.min(36_000)),
        _ => Some(10),
    };
    let by_group = conf.is("groupbaseexpiry", true);
    expire::convert(text("expire.ctl"), by_group, age_max, &classes, &mut sheet);
    let outgoing = feeds::OutgoingTexts {
        newsfeeds: text("newsfeeds"),
        innfeed: text("innfeed.conf"),
        nntpsend: text("nntpsend.ctl"),
        passwords: text("passwd.nntp"),
    };
    let files = peers::PeerTexts { incoming: text("incoming.conf"), outgoing };
    peers::convert(&files, &conf, resolve, &mut secrets, &mut sheet);
    readers::convert(text("readers.conf"), &conf, resolve, &mut sheet);
    moderators::convert(text("moderators"), &mut sheet);
    let controls = [("control.ctl", text("control.ctl")), ("control.ctl.local", text("control.ctl.local"))];
    let mail_to = format!("usenet@{}", conf.path_identity());
    control::convert(&controls, conf.is("pgpverify", false), &mail_to, &mut sheet);
    if old.is_trial {
        trial::convert(&conf, &mut sheet);
    }
    finished(sheet, old, &INN, secrets)
}

/// Converts the configuration of a C News.
pub fn from_cnews(old: &OldConfiguration) -> ConvertedConfiguration {
    let mut sheet = ConfigDraft::default();
    let text = |name: &str| old.files.get(name).map(String::as_str).unwrap_or_default();
    cnews::convert(text, &mut sheet);
    finished(sheet, old, &C_NEWS, PasswordFiles::default())
}

/// Converts the configuration of a leafnode.
pub fn from_leafnode(old: &OldConfiguration) -> ConvertedConfiguration {
    let (mut sheet, mut secrets) = (ConfigDraft::default(), PasswordFiles::default());
    let text = |name: &str| old.files.get(name).map(String::as_str).unwrap_or_default();
    leafnode::convert(text("config"), text("local.groups"), &mut secrets, &mut sheet);
    finished(sheet, old, &LEAFNODE, secrets)
}

/// Converts the feeds of a Diablo.
pub fn from_diablo(old: &OldConfiguration, resolve: ResolveHost<'_>) -> ConvertedConfiguration {
    let mut sheet = ConfigDraft::default();
    let text = |name: &str| old.files.get(name).map(String::as_str).unwrap_or_default();
    storage::convert(None, &storage::Cycbuffs::default(), true, &mut sheet);
    diablo::convert(text("dnewsfeeds"), text("dnntpspool.ctl"), resolve, &mut sheet);
    finished(sheet, old, &DIABLO, PasswordFiles::default())
}

/// A kind of server whose configuration is converted.
struct OtherServer {
    name: &'static str,
    /// Subcommand of `newsreel import` for it.
    command: &'static str,
    /// Files that are read, in the order in which they are reported.
    files: &'static [&'static str],
}

const INN: OtherServer = OtherServer { name: "INN", command: "inn-config", files: &INN_FILES };
const C_NEWS: OtherServer = OtherServer { name: "C News", command: "cnews-config", files: &CNEWS_FILES };
const LEAFNODE: OtherServer =
    OtherServer { name: "leafnode", command: "leafnode-config", files: &LEAFNODE_FILES };
const DIABLO: OtherServer = OtherServer { name: "Diablo", command: "diablo-config", files: &DIABLO_FILES };

/// Completes the configuration, and makes sure that our parser accepts it.
fn finished(
    mut sheet: ConfigDraft,
    old: &OldConfiguration,
    server: &OtherServer,
    secrets: PasswordFiles,
) -> ConvertedConfiguration {
    sheet.complete(&old.files, server.files);
    advise(&mut sheet, &secrets, old.is_trial);
    let head = format!(
        "The configuration of this server, made from that of {} in {} by newsreel import\n\
         {}. After each key stands the line that it comes from; what has no equivalent here, or one\n\
         that differs, is said by a comment in its section or, line by line, after them. docs/from-inn.md\n\
         has the words of both, and newsreel explain-config KEY says what a key means.",
        server.name,
        text::quoted(&old.dir),
        server.command
    );
    let (text, refused) = sheet.settle(&head);
    let kinds = [
        "buffer",
        "class",
        "rule",
        "expire",
        "peer",
        "pull",
        "access",
        "authenticator",
        "moderator",
        "control",
    ];
    let counts = kinds.into_iter().map(|name| (name, sheet.count(name))).filter(|(_, count)| *count > 0);
    let counts = counts.collect();
    ConvertedConfiguration { text, refused, secrets: secrets.files, counts, remarks: sheet.remarks() }
}

/// Adds the steps an operator must take before the first start.
fn advise(sheet: &mut ConfigDraft, secrets: &PasswordFiles, is_trial: bool) {
    let mut advice = Vec::new();
    if is_trial {
        advice.push(trial::ADVICE.to_owned());
    }
    advice.extend([
        "newsreel init --dir DIR --groups /dev/null makes the spool in the directory of this file, which must be \
         called newsreel.toml, without groups of our own."
            .to_owned(),
        "newsreel check says what is wrong with the site.".to_owned(),
        "newsreel import inn brings groups, articles and their numbers, from the spools of C News and leafnode too."
            .to_owned(),
    ]);
    if sheet.count("peer") > 0 && !is_trial {
        advice.push(
            "Look at the addresses of the peers: newsreel knows clients by address, not by name.".to_owned(),
        );
    }
    if !secrets.files.is_empty() {
        advice.push(
            "passwords/ has the passwords of peers, each in a file that only its owner may read.".to_owned(),
        );
    }
    if sheet.count("control") > 0 {
        advice.push(
            "[[control]] with signed_by needs keys: newsreel keys import, newsreel keys trust.".to_owned(),
        );
    }
    sheet.advice = advice;
}
