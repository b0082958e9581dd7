//! `post`: an article from a file or standard input, written as for a mail program.
//!
//! What a poster's program adds is added here, such as From and the charset; the rest, such as Date and
//! Message-ID, is the injecting agent's. Source: RFC 5537 section 3.4.1.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, say, unreadable};
use clap::Args;
use netnews::encoded_word::encode;
use operators::posting::PostOperation;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Headers that only mail programs or news servers write; they are left out.
const LEFT_OUT: [&str; 10] = [
    "bytes",
    "delivered-to",
    "lines",
    "nntp-posting-date",
    "nntp-posting-host",
    "path",
    "received",
    "return-path",
    "status",
    "xref",
];
/// Headers whose values are mailboxes.
const MAILBOXES: [&str; 3] = ["from", "reply-to", "sender"];

/// Arguments of `post`.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct PostOptions {
    /// The article; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The groups, in place of a Newsgroups header
    #[arg(long, value_name = "GROUP,...")]
    newsgroups: Option<String>,
    /// The subject, in place of a Subject header
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// The author, in place of a From header [default: the user who runs the command, at the site]
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Show the article, and post nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn post(options: &PostOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let text = read(&options.file, config.site.article_bytes_max)?;
    let user = ["LOGNAME", "USER"].iter().find_map(|name| std::env::var(name).ok());
    let author = format!("{}@{}", user.as_deref().unwrap_or("operator"), config.site.path_identity);
    let article = completed(&text, options, &author)?;
    match options.dry_run {
        true => say(article.trim_end()),
        false => reach::print(&config, PostOperation { article }),
    }
}

/// Reads a text of at most this many bytes.
fn read(file: &Path, bytes_max: u64) -> Result<String, CliError> {
    let mut text = Vec::new();
    let more = bytes_max.saturating_add(1);
    let read = match file == Path::new("-") {
        true => io::stdin().lock().take(more).read_to_end(&mut text),
        false => File::open(file).and_then(|file| file.take(more).read_to_end(&mut text)),
    };
    if read.map_err(unreadable(file))? as u64 > bytes_max {
        return Err(CliError::Usage(format!("{} is too long for an article", file.display())));
    }
    String::from_utf8(text).map_err(|_| {
        CliError::Usage(format!("{} is not UTF-8; newsreel rnews files articles as they are", file.display()))
    })
}

/// A header as written: its name, and its value with all its lines.
#[derive(Debug)]
struct WrittenHeader {
    name: String,
    value: String,
}

impl WrittenHeader {
    fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.is(name))
    }

    /// Returns the lines of the header; other text than ASCII is encoded.
    fn lines(&self) -> String {
        let value = match self.value.rfind('<').and_then(|at| self.value.split_at_checked(at)) {
            _ if self.value.is_ascii() => self.value.clone(),
            Some((name, address)) if self.is_one_of(&MAILBOXES) => {
                format!("{} {address}", encode(name.trim().trim_matches('"')))
            }
            _ => encode(&self.value.replace('\n', " ")),
        };
        format!("{}: {value}\n", self.name)
    }
}

/// Returns the headers of a text and its body; a text that does not begin with a header is all body.
fn taken_apart(text: &str) -> (Vec<WrittenHeader>, &str) {
    let mut headers: Vec<WrittenHeader> = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let line = line.trim_end_matches('\r');
        let is_more = line.starts_with([' ', '\t']);
        match (headers.last_mut(), line.split_once(':')) {
            (Some(_), _) if line.is_empty() => return (headers, after),
            (Some(last), _) if is_more => last.value.push_str(&format!("\n{line}")),
            // Before the article, as mboxes have it.
            (None, _) if line.starts_with("From ") => {}
            (_, Some((name, value))) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic()) => {
                headers.push(WrittenHeader::new(name, value.trim()));
            }
            _ => break,
        }
        rest = after;
    }
    (Vec::new(), text)
}

/// Returns the article that is posted: the text with the headers that the options name, and with those that
/// it lacks.
fn completed(text: &str, options: &PostOptions, author: &str) -> Result<String, CliError> {
    let (mut headers, body) = taken_apart(text);
    headers.retain(|header| !header.is_one_of(&LEFT_OUT));
    for (name, value) in
        [("From", &options.from), ("Newsgroups", &options.newsgroups), ("Subject", &options.subject)]
    {
        if let Some(value) = value {
            headers.retain(|header| !header.is(name));
            headers.push(WrittenHeader::new(name, value));
        }
    }
    let lacks = |headers: &[WrittenHeader], name: &str| !headers.iter().any(|header| header.is(name));
    for (name, option) in [("Newsgroups", "--newsgroups"), ("Subject", "--subject")] {
        if lacks(&headers, name) {
            return Err(CliError::Usage(format!(
                "the text has no {name} header: write one, before an empty line, or add {option}"
            )));
        }
    }
    let mut add = |name: &str, value: &str| {
        if lacks(&headers, name) {
            headers.push(WrittenHeader::new(name, value));
        }
    };
    add("From", author);
    add("User-Agent", concat!("newsreel/", env!("CARGO_PKG_VERSION")));
    if !body.is_ascii() {
        add("MIME-Version", "1.0");
        add("Content-Type", "text/plain; charset=utf-8");
        add("Content-Transfer-Encoding", "8bit");
    }
    let head: String = headers.iter().map(WrittenHeader::lines).collect();
    Ok(format!("{head}\n{body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, options: &PostOptions) -> String {
        completed(text, options, "me@news.example.org").unwrap()
    }

    #[test]
    fn a_mail_becomes_a_proto_article() {
        let mail = "From me Mon Jan  1 00:00:00 2026\nReceived: from x\n by y\nFrom: Jürgen <j@example.org>\n\
                    Newsgroups: local.test\nSubject: Grüße\n  aus\nReferences: <a@b>\n <c@d>\n\nGrüße\n";
        let article = of(mail, &PostOptions::default());
        let (head, body) = article.split_once("\n\n").unwrap();
        assert!(
            head.starts_with("From: =?utf-8?B?SsO8cmdlbg==?= <j@example.org>\nNewsgroups: local.test\n"),
            "{head}"
        );
        assert!(head.contains("\nReferences: <a@b>\n <c@d>\n") && !head.contains("Received"), "{head}");
        assert!(head.is_ascii() && head.contains("\nContent-Type: text/plain; charset=utf-8\n"), "{head}");
        assert_eq!(body, "Grüße\n");
    }

    #[test]
    fn a_text_without_headers_is_a_body() {
        let words = |text: &str| Some(text.to_owned());
        let options = PostOptions {
            newsgroups: words("local.test"),
            subject: words("Hello"),
            ..PostOptions::default()
        };
        let article = of("Hello, world.\nNote: not a header.\n", &options);
        assert!(
            article.starts_with("Newsgroups: local.test\nSubject: Hello\nFrom: me@news.example.org\n"),
            "{article}"
        );
        assert!(article.ends_with("\n\nHello, world.\nNote: not a header.\n"), "{article}");
        let asked = completed("Hello\n", &PostOptions::default(), "me@x").unwrap_err().to_string();
        assert!(
            asked.contains("no Newsgroups header: write one, before an empty line, or add --newsgroups"),
            "{asked}"
        );
    }
}
