//! Articles of a test: LF files in a directory, and ways to feed them.

use std::fs;
use std::path::{Path, PathBuf};

use super::site::Site;
use crate::client::Client;

/// Groups of the small site.
pub const GROUPS: &str = "\
local.closed n No posting
local.general y Talk
misc.test y For trying things out
";

/// Articles that are sent before their responses are read.
const WINDOW: usize = 100;

/// An article as stored in a file: LF line ends, no dot-stuffing.
pub struct Text {
    pub bytes: Vec<u8>,
}

impl Text {
    pub fn header(&self, name: &str) -> String {
        let head = String::from_utf8_lossy(&self.bytes[..self.body_at()]).into_owned();
        let found = head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found.unwrap_or_default()
    }

    pub fn message_id(&self) -> String {
        self.header("Message-ID")
    }

    /// Returns the groups that the article names, each once.
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<_> =
            self.header("Newsgroups").split(',').map(|name| name.trim().to_owned()).collect();
        groups.sort();
        groups.dedup();
        groups
    }

    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_at()..]
    }

    fn body_at(&self) -> usize {
        self.bytes.windows(2).position(|two| two == b"\n\n").unwrap() + 2
    }

    /// Returns the article with CRLF, dot-stuffing and the final dot.
    fn wire(&self) -> Vec<u8> {
        let mut wire = Vec::new();
        for line in self.bytes.split_inclusive(|&byte| byte == b'\n') {
            if line.starts_with(b".") {
                wire.push(b'.');
            }
            wire.extend_from_slice(line.strip_suffix(b"\n").unwrap());
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b".\r\n");
        wire
    }
}

/// Reads the article files below a directory, in the order of their paths.
pub fn read(dir: &Path) -> Vec<Text> {
    files(dir).iter().map(|file| Text { bytes: fs::read(file).unwrap() }).collect()
}

/// Removes the file of `article` from `dir`.
pub fn remove(dir: &Path, article: &Text) {
    let file = files(dir).into_iter().find(|file| fs::read(file).unwrap() == article.bytes).unwrap();
    fs::remove_file(file).unwrap();
}

/// Returns every file below `dir`, in order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Sends the articles by TAKETHIS; returns the responses in order.
pub fn takethis(client: &mut Client, articles: &[Text]) -> Vec<String> {
    let mut answers = Vec::new();
    for window in articles.chunks(WINDOW) {
        let mut wire = Vec::new();
        for article in window {
            wire.extend_from_slice(format!("TAKETHIS {}\r\n", article.message_id()).as_bytes());
            wire.extend_from_slice(&article.wire());
        }
        client.send(wire);
        answers.extend(window.iter().map(|_| client.line()));
    }
    answers
}

/// Creates a small site with the small set of articles, and the directory of their files.
pub fn small_site() -> (Site, PathBuf) {
    small(Site::start(GROUPS))
}

/// Like [`small_site`], with passwords and TLS.
pub fn small_secured_site() -> (Site, PathBuf) {
    small(Site::start_secured(GROUPS))
}

/// Number of articles in `local.general` of the long sites.
pub const MANY: usize = 400;

/// Creates a site with [`MANY`] articles in `local.general`, all in threads of their own.
pub fn long_site() -> Site {
    long(Site::start(GROUPS))
}

/// Like [`long_site`], with passwords and TLS.
pub fn long_secured_site() -> Site {
    long(Site::start_secured(GROUPS))
}

fn long(site: Site) -> Site {
    let article = |number: usize| {
        Text {
        bytes: format!(
            "Path: far.example!not-for-mail\nFrom: writer@x.example (Writer)\nNewsgroups: local.general\n\
             Subject: Story {number:03}\nDate: 1 Apr 93 12:00:00 GMT\nMessage-ID: <long.{number}@x.example>\n\n\
             Text of {number}.\n"
        )
        .into_bytes(),
    }
    };
    let articles: Vec<_> = (1..=MANY).map(article).collect();
    let answers = takethis(&mut site.client(), &articles);
    assert!(answers.iter().all(|answer| answer.starts_with("239 ")), "{answers:?}");
    site
}

fn small(site: Site) -> (Site, PathBuf) {
    let dir = site.dir().join("articles");
    fs::create_dir(&dir).unwrap();
    for (i, (subject, parents, groups, body)) in SMALL.iter().enumerate() {
        let number = i + 1;
        let mut text = format!(
            "Path: far.example!near.example!not-for-mail\nFrom: writer{number}@x.example (Writer {number})\n\
             Newsgroups: {groups}\nSubject: {subject}\nDate: {number} Apr 93 12:00:00 GMT\n\
             Message-ID: <small.{number}@x.example>\n"
        )
        .into_bytes();
        if !parents.is_empty() {
            let ids: Vec<_> = parents.iter().map(|parent| format!("<small.{parent}@x.example>")).collect();
            text.extend_from_slice(format!("References: {}\n", ids.join("\n\t")).as_bytes());
        }
        text.push(b'\n');
        text.extend_from_slice(body);
        fs::write(dir.join(number.to_string()), text).unwrap();
    }
    let articles = read(&dir);
    let answers = takethis(&mut site.client(), &articles);
    assert!(answers.iter().all(|answer| answer.starts_with("239 ")), "{answers:?}");
    (site, dir)
}

/// Subject, parents, groups and body of each article of the small set.
const SMALL: &[(&str, &[usize], &str, &[u8])] = &[
    ("Hoppers in the rain", &[], "misc.test", b"Does anybody know\nwhy hoppers rust?\n"),
    ("Re: Hoppers in the rain", &[1], "misc.test", b"> why hoppers rust?\n\nWater, mostly.\n"),
    ("Re: Hoppers in the rain", &[1, 2], "misc.test,local.general", b"A crosspost.\n-- \nsignature\n"),
    ("Dots", &[], "misc.test", b".\n..\n...\n.leading\nmiddle.of\n.\n"),
    (
        "Octets \u{2713} in a\n folded subject",
        &[],
        "misc.test",
        b"Latin 1: \xE9\xFC\xA4\nUTF-8: \xC3\xA9\n\x01\x7F\t|\n",
    ),
    ("Nothing", &[], "misc.test", b""),
    ("Blank lines", &[], "misc.test", b"\n\nend\n\n\n"),
    ("Closed", &[], "local.closed", b"Only fed, never posted.\n"),
];
