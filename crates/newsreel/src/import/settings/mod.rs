//! The configuration of another server becomes ours: the files of INN, C News, leafnode or Diablo in, a
//! newsreel.toml out.
//!
//! Pure: the texts of the files go in, and what is to be written comes out. One module reads each form of
//! file, and every line of it ends in a key, with a note that names the line, or in a remark: `sheet` sees to
//! that. Files are found, read and written by `cli::import`. How INN's words are called here:
//! `docs/from-inn.md`. Sources: the manual pages of INN 2.7, named in each module.

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

pub use patterns::Resolve;
pub use text::FILE_BYTES_MAX;

use inn_conf::InnConf;
use peers::Secrets;
use sheet::Sheet;

/// The files of INN that are read, in the order in which they are spoken of.
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

/// The texts for readers: INN's name, and ours.
pub const INN_LISTS: [(&str, &str); 5] = [
    ("motd.nnrpd", "motd"),
    ("motd", "motd"),
    ("subscriptions", "subscriptions"),
    ("distrib.pats", "distrib.pats"),
    ("distributions", "distributions"),
];

/// The files of C News that are read.
pub const CNEWS_FILES: [&str; 8] =
    ["whoami", "mailname", "organization", "explist", "sys", "batchparms", "mailpaths", "controlperm"];

/// The files of leafnode that are read.
pub const LEAFNODE_FILES: [&str; 2] = ["config", "local.groups"];

/// The files of Diablo that are read.
pub const DIABLO_FILES: [&str; 2] = ["dnewsfeeds", "dnntpspool.ctl"];

/// What there is of the other server.
#[derive(Debug, Default)]
pub struct Old {
    /// Its directory, for people.
    pub dir: String,
    /// Texts of [`INN_FILES`], by name.
    pub files: BTreeMap<&'static str, String>,
    /// The new site is tried beside the old server, which goes on.
    pub is_trial: bool,
}

/// What is to be written.
#[derive(Debug)]
pub struct New {
    /// The configuration.
    pub text: String,
    /// What its reader still says of it.
    pub refused: Option<String>,
    /// Files with passwords, by their path beside the configuration.
    pub secrets: BTreeMap<String, String>,
    /// How many sections of some kinds there are: name and number.
    pub counts: Vec<(&'static str, usize)>,
    /// How many lines have no equal, or one that differs.
    pub remarks: usize,
}

/// The configuration of an INN as ours.
pub fn from_inn(old: &Old, resolve: Resolve<'_>) -> New {
    let file = |name: &str| old.files.get(name).map(String::as_str);
    let text = |name: &str| file(name).unwrap_or_default();
    let conf = InnConf::parse(text("inn.conf"));
    let mut sheet = Sheet::default();
    let mut secrets = Secrets::default();
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
    let outgoing = feeds::Outgoing {
        newsfeeds: text("newsfeeds"),
        innfeed: text("innfeed.conf"),
        nntpsend: text("nntpsend.ctl"),
        passwords: text("passwd.nntp"),
    };
    let files = peers::Files { incoming: text("incoming.conf"), outgoing };
    peers::convert(&files, &conf, resolve, &mut secrets, &mut sheet);
    readers::convert(text("readers.conf"), &conf, resolve, &mut sheet);
    moderators::convert(text("moderators"), &mut sheet);
    let controls = [("control.ctl", text("control.ctl")), ("control.ctl.local", text("control.ctl.local"))];
    let mail_to = format!("usenet@{}", conf.path_identity());
    control::convert(&controls, conf.is("pgpverify", false), &mail_to, &mut sheet);
    if old.is_trial {
        trial::convert(&conf, &mut sheet);
    }
    finished(sheet, (old, "INN", "inn-config"), secrets, &INN_FILES)
}

/// The configuration of a C News as ours.
pub fn from_cnews(old: &Old) -> New {
    let mut sheet = Sheet::default();
    let text = |name: &str| old.files.get(name).map(String::as_str).unwrap_or_default();
    cnews::convert(text, &mut sheet);
    finished(sheet, (old, "C News", "cnews-config"), Secrets::default(), &CNEWS_FILES)
}

/// The configuration of a leafnode as ours.
pub fn from_leafnode(old: &Old) -> New {
    let (mut sheet, mut secrets) = (Sheet::default(), Secrets::default());
    let text = |name: &str| old.files.get(name).map(String::as_str).unwrap_or_default();
    leafnode::convert(text("config"), text("local.groups"), &mut secrets, &mut sheet);
    finished(sheet, (old, "leafnode", "leafnode-config"), secrets, &LEAFNODE_FILES)
}

/// The feeds of a Diablo as ours.
pub fn from_diablo(old: &Old, resolve: Resolve<'_>) -> New {
    let mut sheet = Sheet::default();
    let text = |name: &str| old.files.get(name).map(String::as_str).unwrap_or_default();
    storage::convert(None, &storage::Cycbuffs::default(), true, &mut sheet);
    diablo::convert(text("dnewsfeeds"), text("dnntpspool.ctl"), resolve, &mut sheet);
    finished(sheet, (old, "Diablo", "diablo-config"), Secrets::default(), &DIABLO_FILES)
}

/// Whatever comes out is complete, and is taken by our reader.
fn finished(
    mut sheet: Sheet,
    (old, server, command): (&Old, &str, &str),
    secrets: Secrets,
    order: &[&str],
) -> New {
    sheet.complete(&old.files, order);
    advise(&mut sheet, &secrets, old.is_trial);
    let head = format!(
        "The configuration of this server, made from that of {server} in {} by newsreel import\n\
         {command}. After each key stands the line that it comes from; what has no equal here, or one\n\
         that differs, is said by a comment in its section or, line by line, after them. docs/from-inn.md\n\
         has the words of both, and newsreel explain-config KEY says what a key means.",
        text::quoted(&old.dir)
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
    New { text, refused, secrets: secrets.files, counts, remarks: sheet.remarks() }
}

/// What an operator must do before the first start.
fn advise(sheet: &mut Sheet, secrets: &Secrets, is_trial: bool) {
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
