//! Values of keys in `[peer.send]`: words, the beginning of a feed, a part of all articles.

use netnews::article::ArticleTypes;
use site_base::units::day_text;
use std::fmt;
use std::path::Path;

words! {
    /// A condition on articles.
    pub enum FeedCondition {
        /// Articles in moderated groups; others do not count.
        Moderated = "moderated",
        /// Articles in groups that are not moderated; others do not count.
        Unmoderated = "unmoderated",
        /// Control messages.
        Control = "control",
        /// Articles except control messages.
        NoControl = "no-control",
        /// Articles posted here.
        Injected = "injected",
        /// Articles with a Distribution header.
        Distribution = "distribution",
    }
}

words! {
    /// The type of an article's content.
    pub enum ArticleType {
        /// None of the others.
        Plain = "plain",
        /// A control message.
        Control = "control",
        /// Data of any encoding.
        Binary = "binary",
        /// yEnc.
        Yenc = "yenc",
        /// uuencode.
        Uuencode = "uuencode",
        /// base64.
        Base64 = "base64",
        /// BinHex 4.0.
        Binhex = "binhex",
        /// One part of several.
        Partial = "partial",
        /// With MIME headers.
        Mime = "mime",
        /// With several parts inside.
        Multipart = "multipart",
        /// HTML.
        Html = "html",
        /// With a PGP message.
        Pgp = "pgp",
    }
}

impl ArticleType {
    /// Returns the corresponding type detected in articles.
    pub fn types(self) -> ArticleTypes {
        match self {
            Self::Plain => ArticleTypes::PLAIN,
            Self::Control => ArticleTypes::CONTROL,
            Self::Binary => ArticleTypes::BINARY,
            Self::Yenc => ArticleTypes::YENC,
            Self::Uuencode => ArticleTypes::UUENCODE,
            Self::Base64 => ArticleTypes::BASE64,
            Self::Binhex => ArticleTypes::BINHEX,
            Self::Partial => ArticleTypes::PARTIAL,
            Self::Mime => ArticleTypes::MIME,
            Self::Multipart => ArticleTypes::MULTIPART,
            Self::Html => ArticleTypes::HTML,
            Self::Pgp => ArticleTypes::PGP,
        }
    }
}

words! {
    /// The order in which waiting articles leave.
    pub enum FeedOrder {
        /// Oldest first.
        Oldest = "oldest",
        /// Newest first.
        Newest = "newest",
    }
}

words! {
    /// Compression of batches.
    pub enum BatchCompress {
        /// No compression.
        None = "none",
        /// compress(1): LZW.
        Compress = "compress",
        /// gzip.
        Gzip = "gzip",
        /// bzip2.
        Bzip2 = "bzip2",
        /// Zstandard.
        Zstd = "zstd",
    }
}

words! {
    /// An item in a line about an article.
    pub enum LineItem {
        /// The token, as `newsreel explain` takes it.
        Token = "token",
        /// The Message-ID.
        MessageId = "message-id",
        /// The path of the article's file, or its token if it has none of its own.
        Path = "path",
        /// The size in bytes as sent.
        Size = "size",
        /// Unix seconds of the arrival.
        Arrived = "arrived",
        /// The name of the peer that the line is for.
        Peer = "peer",
    }
}

/// The way in which articles leave for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedTransport<'a> {
    /// Over connections to the addresses in `to`.
    Connections,
    /// As batches in a directory.
    Batches(&'a Path),
    /// As lines in a file.
    File(&'a Path),
    /// As lines that a program reads.
    Program(&'a [String]),
}

/// The beginning of a new feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStart {
    /// With articles that arrive from now on.
    Now,
    /// With the oldest article in the journal.
    Oldest,
    /// With articles that arrived on this day or later, in days since 1970.
    Day(u32),
}

/// A text that is no beginning of a feed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither \"now\" nor \"oldest\" nor a date such as 2026-01-31")]
pub struct FeedStartError(String);

impl FeedStart {
    /// Parses `now`, `oldest` or `YYYY-MM-DD`.
    pub fn parse(text: &str) -> Result<Self, FeedStartError> {
        match text {
            "now" => Ok(Self::Now),
            "oldest" => Ok(Self::Oldest),
            _ => day(text).map(Self::Day).ok_or_else(|| FeedStartError(text.to_owned())),
        }
    }

    /// Returns the Unix seconds before which articles are left out.
    pub fn since(self) -> u64 {
        match self {
            Self::Day(day) => u64::from(day) * 86_400,
            Self::Now | Self::Oldest => 0,
        }
    }
}

impl fmt::Display for FeedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Oldest => f.write_str("oldest"),
            Self::Day(_) => f.write_str(&day_text(self.since() as i64)),
        }
    }
}

/// Parses `YYYY-MM-DD` into days since 1970.
fn day(text: &str) -> Option<u32> {
    let digits = text.replace('-', "");
    let is_date = text.len() == 10 && digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit());
    let secs = netnews::date::parse_nntp(digits.as_bytes(), b"000000", 0).filter(|_| is_date)?;
    let day = u32::try_from(secs / 86_400).ok()?;
    // Rejects dates like 31 February.
    (FeedStart::Day(day).to_string() == text).then_some(day)
}

/// A part of all articles, by a hash of their Message-IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashSplit {
    /// The first part of `of`, from 1.
    pub first: u32,
    /// The last part.
    pub last: u32,
    /// Number of parts.
    pub of: u32,
    /// Distance from the end of the MD5 digest to the end of the four bytes used.
    pub offset: u8,
}

/// Reason why a text is not a part of all articles; each holds the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashSplitError {
    /// Not of the form of a part.
    #[error("`{0}` is not a part such as 1-3/10 or 2/4:8")]
    NotAPart(String),
    /// A part is 0 or larger than the number of parts, or the higher one is first.
    #[error("`{text}`: parts count from 1 to {of}, the lower one first")]
    Order {
        /// The text.
        text: String,
        /// Number of parts.
        of: u32,
    },
    /// The offset is larger than 12.
    #[error("`{0}`: the offset is at most 12")]
    Offset(String),
}

impl HashSplit {
    /// Parses `N/M` or `N-M/M`, with `:OFFSET` (or INN's `_OFFSET`) after it.
    pub fn parse(text: &str) -> Result<Self, HashSplitError> {
        let wrong = || HashSplitError::NotAPart(text.to_owned());
        let (parts, offset) = text.split_once([':', '_']).unwrap_or((text, "0"));
        let (range, of) = parts.split_once('/').ok_or_else(wrong)?;
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
        let split = Self {
            first: number(first)?,
            last: number(last)?,
            of: number(of)?,
            offset: offset.parse().map_err(|_| wrong())?,
        };
        match split {
            Self { first, last, of, .. } if first == 0 || last < first || of < last => {
                Err(HashSplitError::Order { text: text.to_owned(), of })
            }
            Self { offset: 13.., .. } => Err(HashSplitError::Offset(text.to_owned())),
            split => Ok(split),
        }
    }
}

impl fmt::Display for HashSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, of, offset } = self;
        let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let offset = if *offset == 0 { String::new() } else { format!(":{offset}") };
        write!(f, "{range}/{of}{offset}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ConfigError, parse};
    use std::time::Duration;

    const REST: &str = "[[class]]\nname = \"c\"\nmethod = \"trash\"\n[[rule]]\nclass = \"c\"\n";

    fn read(text: &str) -> Result<Config, ConfigError> {
        parse(&format!("{text}\n{REST}"), Path::new("/etc/newsreel.toml"))
    }

    fn faults(text: &str) -> Vec<String> {
        read(text).err().map(|e| e.faults().iter().map(|f| f.message.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn a_peer_has_its_own_keys_first_and_those_of_its_template_then() {
        let text = "[[peer]]\nname = \"a\"\n[peer.send]\nto = \"a.example:119\"\ntemplate = \"leaf\"\nsize_max = 10\n\
                    [[peer]]\nname = \"b\"\naddresses = \"::1\"\n\
                    [[send_template]]\nname = \"leaf\"\ngroups = \"comp.*\"\nsize_max = 20\nhash = \"1/2\"\n";
        let config = read(text).map_err(|e| e.to_string()).unwrap();
        let send = config.peers[0].send.as_ref().unwrap();
        assert_eq!((send.groups.as_str(), send.size_max), ("comp.*", Some(10)));
        assert_eq!(send.hash, Some(HashSplit { first: 1, last: 1, of: 2, offset: 0 }));
        assert_eq!((send.connections, send.retry_longest), (4, Duration::from_secs(600)));
        assert!(config.peers[1].send.is_none());
        let shown = config.to_toml();
        assert_eq!(parse(&shown, &config.file).map_err(|e| e.to_string()).unwrap(), config, "{shown}");
        assert!(shown.contains("\n[peer.send]\nto = [\"a.example:119\"]\n"), "{shown}");
    }

    #[test]
    fn faults_are_reported_at_their_place() {
        let send = |keys: &str| format!("[[peer]]\nname = \"p\"\n[peer.send]\n{keys}\n");
        let to = "to = \"h:119\"\n";
        for (text, fault) in [
            (send(""), "peer `p` has no way out: to, batch, file or program"),
            (
                send(&format!("{to}batch = \"out\"")),
                "peer `p` has several ways out: to, batch, file or program",
            ),
            (send(&format!("{to}after_batch = [\"/bin/true\"]")), "peer `p`: after_batch without batch"),
            (send("file = \"f\"\norder = \"newest\""), "peer `p`: order = \"newest\" without to"),
            (send(&format!("{to}ihave = true")), "peer `p`: ihave without batch"),
            (send("file = \"f\"\nlines = []"), "peer `p`: lines would be empty"),
            (
                send("batch = \"out/a\"") + "[[peer]]\nname = \"q\"\n[peer.send]\nfile = \"./out/a\"\n",
                "peers `p` and `q` would both write to `out/a`",
            ),
            (
                "[batches]\nincoming = \"in\"\n".to_owned() + &send("batch = \"in\""),
                "peer `p` would write its batches to batches.incoming",
            ),
            (send("to = \"h\""), "peer.send.to: `h` lacks a port; write HOST:PORT"),
            (send(&format!("{to}grups = \"*\"")), "[peer.send] has no key `grups`"),
            (send(&format!("{to}template = \"x\"")), "there is no send_template `x`"),
            (
                send(&format!("{to}hash = \"3/2\"")),
                "peer.send.hash: `3/2`: parts count from 1 to 2, the lower one first",
            ),
            (
                send(&format!("{to}from = \"2026-02-31\"")),
                "peer.send.from: `2026-02-31` is neither \"now\" nor \"oldest\" nor a date such as 2026-01-31",
            ),
            (
                send(&format!("{to}size_min = 3\nsize_max = 2")),
                "peer `p` is sent nothing: size_min is above size_max",
            ),
            (
                send(&format!("{to}retry_first = \"2 s\"\nretry_longest = \"1 s\"")),
                "peer `p`: retry_first is longer than retry_longest",
            ),
            (send(&format!("{to}user = \"x\"")), "peer `p` has only one of user and password_file"),
            (
                "[[peer]]\nname = \"a b\"\n[peer.send]\nto = \"h:119\"\n".into(),
                "peer `a b` is sent articles, so its name names a file too",
            ),
            (
                "[[send_template]]\nname = \"t\"\nsize_max = true\n".into(),
                "peer.send.size_max must be a size, not true or false",
            ),
            (
                "[[send_template]]\nname = \"t\"\ntemplate = \"u\"\n".into(),
                "[[send_template]] has no key `template`",
            ),
        ] {
            assert_eq!(faults(&text), [fault], "{text}");
        }
    }

    #[test]
    fn dates_and_parts_are_written_as_they_are_read() {
        for text in ["now", "oldest", "1999-12-31", "2024-02-29"] {
            assert_eq!(FeedStart::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(FeedStart::parse("1970-01-02").unwrap().since(), 86_400);
        for text in ["2023-02-29", "1999-1-1", "19991231", ""] {
            assert!(FeedStart::parse(text).is_err(), "{text}");
        }
        for text in ["1/2", "1-3/10:4", "10/10:12"] {
            assert_eq!(HashSplit::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(HashSplit::parse("2/4_8"), HashSplit::parse("2/4:8"));
        for text in ["0/2", "1", "1/0", "3-2/4", "1/2:13", "1/2:", "-1/2", "a/2"] {
            assert!(HashSplit::parse(text).is_err(), "{text}");
        }
    }
}
