//! `export`: articles and name maps as files for other programs.
//!
//! Articles are written group by group, in the order in which the running server, or the spool opened here,
//! delivers them. A file gets its name when it is complete; no file is overwritten.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use disk::{Progress, RealDisk};
use netnews::{batch, mbox};
use spool::ArticleKey;

use super::args::{ExportCommand, ExportOptions};
use super::bar::Bar;
use super::locate::SiteLocation;
use super::output::{CommandOutput, make_dir};
use super::reach::{self, Reach};
use super::screen::{CliError, complain, say};
use migrate::mails::folders::MailFormat;
use operators::archive::{ArchiveCopy, maildir};
use operators::export::ArticlesOperation;
use operators::groups::GroupListOperation;
use operators::name_map::NameMapOperation;
use operators::reply::{ArticleText, GroupListRow, Reply};
use site_base::units::counted;

/// Sender in the line that begins a mail.
const SENDER: &str = "newsreel-export";
/// Mails of a maildir that are written in one batch.
const MAILS_AT_ONCE: usize = 1_000;
/// Size of such a batch, in bytes.
const MAIL_BYTES_AT_ONCE: usize = 16 << 20;

pub(super) fn export(command: ExportCommand, at: &SiteLocation) -> Result<(), CliError> {
    match command {
        ExportCommand::NameMap { group, out } => name_map(&group, out.as_deref(), at),
        ExportCommand::Mbox(options) => articles(MailFormat::Mbox, &options, at),
        ExportCommand::Maildir(options) => articles(MailFormat::Maildir, &options, at),
        ExportCommand::Rnews(options) => articles(MailFormat::Rnews, &options, at),
    }
}

fn name_map(group: &str, out: Option<&Path>, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let mut to = CommandOutput::open(out)?;
    let ok = reach::ask(&config, NameMapOperation { group: group.to_owned() }, &mut |reply| {
        if let Reply::Text(line) = reply {
            to.line(&line);
        }
    })?;
    to.finish()?;
    if ok { Ok(()) } else { Err(CliError::Told) }
}

fn articles(form: MailFormat, options: &ExportOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let mut reach = Reach::new(&config)?;
    let mut groups: Vec<GroupListRow> = Vec::new();
    let request = GroupListOperation { wildmat: Some(options.groups.clone()) };
    let mut ok = reach.ask(&config, request, &mut |reply| {
        if let Reply::Group(group) = reply {
            groups.push(group);
        }
    })?;
    groups.retain(|group| group.count > 0);
    make_dir(&options.out)?;
    let bar = Bar::new();
    bar.start("exporting", groups.iter().map(|group| group.count).sum());
    let mut written = 0;
    for group in &groups {
        let mut to = ExportWriter::new(form, &options.out, &group.name)?;
        let mut result = Ok(());
        ok &= reach.ask(&config, ArticlesOperation { group: group.name.clone() }, &mut |reply| {
            if let (Reply::Article(article), Ok(())) = (reply, &result) {
                result = to.article(&article);
                written += u64::from(result.is_ok());
                bar.step(written);
            }
        })?;
        let path = to.path.display().to_string();
        let cannot = |error| CliError::Problem(format!("cannot write {path}: {error}"));
        result.and_then(|()| to.finish()).map_err(cannot)?;
    }
    bar.finish();
    reach.close()?;
    say(format_args!(
        "{} of {} written",
        counted(written, "article"),
        counted(groups.len() as u64, "group")
    ))?;
    if groups.is_empty() {
        complain("newsreel: no group that matches has articles");
    }
    if ok && !groups.is_empty() { Ok(()) } else { Err(CliError::Told) }
}

/// State of writing the articles of a group.
struct ExportWriter {
    form: MailFormat,
    /// Path of the file or the maildir.
    path: PathBuf,
    /// Path of the file until it is complete.
    part: PathBuf,
    file: Option<BufWriter<File>>,
    bytes: Vec<u8>,
    mails: Vec<ArchiveCopy>,
    mail_bytes: usize,
}

impl ExportWriter {
    fn new(form: MailFormat, dir: &Path, group: &str) -> Result<Self, CliError> {
        let name = match form {
            MailFormat::Mbox => format!("{group}.mbox"),
            MailFormat::Rnews => format!("{group}.rnews"),
            MailFormat::Maildir => group.to_owned(),
        };
        let (path, part) = (dir.join(&name), dir.join(format!("{name}.part")));
        let mut writing =
            Self { form, path, part, file: None, bytes: Vec::new(), mails: Vec::new(), mail_bytes: 0 };
        if form == MailFormat::Maildir {
            make_dir(&writing.path)?;
            return Ok(writing);
        }
        if writing.path.exists() {
            let path = writing.path.display();
            return Err(CliError::Problem(format!(
                "{path} is there already; move it away, or name another --out"
            )));
        }
        let cannot = |error| CliError::Problem(format!("cannot write {}: {error}", writing.part.display()));
        writing.file = Some(BufWriter::with_capacity(1 << 20, File::create(&writing.part).map_err(cannot)?));
        Ok(writing)
    }

    fn article(&mut self, article: &ArticleText) -> io::Result<()> {
        let text = BASE64_STANDARD.decode(&article.text).map_err(io::Error::other)?;
        let arrived = i64::try_from(article.arrived).unwrap_or_default();
        self.bytes.clear();
        match self.form {
            MailFormat::Mbox => mbox::append_mail(SENDER, arrived, &text, &mut self.bytes),
            MailFormat::Rnews => {
                batch::append_rnews_line(text.len() as u64, &mut self.bytes);
                self.bytes.extend_from_slice(&text);
            }
            MailFormat::Maildir => {
                let key = ArticleKey(u128::from_str_radix(&article.key, 16).map_err(io::Error::other)?);
                self.mail_bytes += text.len();
                self.mails.push(ArchiveCopy { key, arrived: article.arrived, numbers: Vec::new(), text });
                if self.mails.len() >= MAILS_AT_ONCE || self.mail_bytes >= MAIL_BYTES_AT_ONCE {
                    self.put()?;
                }
            }
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&self.bytes))
    }

    fn put(&mut self) -> io::Result<()> {
        maildir::put(&RealDisk::new(), &self.path, &self.mails, true)?;
        self.mails.clear();
        self.mail_bytes = 0;
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        match self.file.take() {
            None => self.put(),
            Some(file) => {
                file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
                fs::rename(&self.part, &self.path)
            }
        }
    }
}
