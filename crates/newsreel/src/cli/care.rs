//! `verify`, `rebuild`, `explain`.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use disk::RealDisk;
use netnews::article::{Article, Known};
use netnews::date;
use serde::Serialize;

use super::bar::Bar;
use super::control::{ControlClient, ControlSocketState};
use super::locate::SiteLocation;
use super::owner;
use super::reach;
use super::screen::{CliError, problem, say, say_json, unreadable};
use super::typed::TypedOperation;
use migrate::name_map::{BODY_START, LINE_BYTES, NameMapHead};
use operators::buffers::BufferCommand;
use operators::buffers::changed;
use operators::care::VerifyOperation;
use operators::explain::ExplainOperation;
use operators::reply::Reply;
use operators::report::Report;
use operators::status::StatusOperation;
use site_base::units;
use site_base::units::counted;
use site_config::edit::ConfigEdit;
use site_config::{Config, edit};
use spool::RestoreTarget;

/// Bytes of a file that are read to find an article's Message-ID.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Output of `verify --json`.
#[derive(Debug, Default, Serialize)]
struct VerifyOutput {
    ok: bool,
    problems: Vec<Problem>,
    summary: Vec<String>,
}

/// A problem and its repair.
#[derive(Debug, Default, Serialize)]
struct Problem {
    what: String,
    /// Action of `--repair`; absent if there is none or it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<String>,
    repaired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl TypedOperation for VerifyOperation {
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        let Self { repair, dry_run, json } = self;
        let mut findings = VerifyOutput::default();
        findings.ok = reach::ask(&at.load()?, self, &mut |reply| match reply {
            Reply::Problem(what) => findings.problems.push(Problem { what, ..Problem::default() }),
            Reply::Repair { what, error } => {
                if let Some(problem) = findings.problems.last_mut() {
                    problem.repaired = !dry_run && error.is_none();
                    problem.repair = Some(what).filter(|what| !what.is_empty());
                    problem.error = error;
                }
            }
            Reply::Text(text) => findings.summary.push(text),
            _ => {}
        })?;
        if json {
            say_json(&findings)?;
        } else {
            findings.problems.iter().try_for_each(|problem| say(told(problem, repair, dry_run)))?;
            findings.summary.iter().try_for_each(say)?;
        }
        if findings.ok { Ok(()) } else { Err(CliError::Told) }
    }
}

/// Returns a problem as printed: the problem, and below it the repair.
fn told(problem: &Problem, repair: bool, dry_run: bool) -> String {
    let done = match (&problem.repair, &problem.error) {
        _ if !repair => return problem.what.clone(),
        (None, _) => "no repair: see the manual, or put the file back from a backup".to_owned(),
        (Some(what), _) if dry_run => format!("would be repaired: {what}"),
        (Some(what), None) => format!("repaired: {what}"),
        (Some(what), Some(error)) => format!("NOT repaired ({error}): {what}"),
    };
    format!("{}\n  {done}", problem.what)
}

pub(super) fn rebuild(without: &[String], at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    stopped(&config, "rebuild")?;
    let disk = Arc::new(RealDisk::new());
    let mut missing = spool::away(&*disk, &config.spool_config())?;
    missing.retain(|name| without.contains(name));
    let remove = |name: &String| BufferCommand::Remove { name: name.clone(), articles: true };
    let left = missing.iter().fold(config.clone(), |config, name| changed(&config, &remove(name)));
    // Committed before the indexes, so that no opening creates a new file where the disk is to be mounted.
    let changes: Vec<ConfigEdit> =
        missing.iter().map(|name| ConfigEdit::Remove { name: name.clone() }).collect();
    let mut commit = || match changes.is_empty() {
        true => Ok(()),
        false => edit::apply(&config.file, &changes).map_err(Into::into),
    };
    let report = spool::rebuild_without(disk, left.spool_config(), without, &Bar::new(), &mut commit)?;
    let (articles, groups) = (counted(report.articles, "article"), counted(report.groups, "group"));
    say(format_args!("indexes rebuilt: {articles}, {groups}"))?;
    if !without.is_empty() {
        let about = if report.given_up.is_exact { "" } else { "about " };
        let gone = counted(report.given_up.articles, "article");
        say(format_args!("given up: {about}{gone} of {}", without.join(", ")))?;
    }
    for name in &missing {
        say(format_args!(
            "buffer {name} is out of the configuration, and no file was created in its place; if its file comes back, \
             put its section and its name in the class back and run newsreel rebuild: its articles come back"
        ))?;
    }
    Ok(())
}

/// Makes a site of a snapshot.
pub(super) fn restore(file: &Path, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    stopped(&config, "restore")?;
    let (disk, spool) = (Arc::new(RealDisk::new()), config.spool_config());
    let report = spool::restore(disk, spool, file, RestoreTarget::New, &Bar::new())?;
    let (articles, ids) = (counted(report.articles, "article"), counted(report.ids, "Message-ID"));
    say(format_args!("restored: {articles}, {ids} without an article"))?;
    if report.known > 0 {
        say(format_args!("{} had been restored before", counted(report.known, "article")))?;
    }
    for (count, why) in [
        (
            report.unfit,
            "no class takes them; those that are in no group any more need one with buffers. Their Message-IDs \
             stay known",
        ),
        (report.taken, "another article has one of their numbers; their Message-IDs stay known"),
        (report.displaced, "buffers or rings are too small for them, or a rule sends them to trash"),
    ] {
        if count > 0 {
            say(format_args!("{} left out: {why}", counted(count, "article")))?;
        }
    }
    if !report.in_memory.is_empty() {
        return Err(CliError::Problem(format!(
            "what class {} took was in memory, and is gone with this command; choose another method for it",
            report.in_memory.join(", ")
        )));
    }
    match (report.is_same, report.digest) {
        (Some(true), Some(digest)) => say(format_args!("the site is the same as before: digest {digest}")),
        (None, _) if report.unfit + report.taken + report.displaced == 0 => {
            say("the snapshot has no digest, so the site was not compared with the one before")
        }
        _ => Err(CliError::Problem("the site is not the same as before".into())),
    }
}

pub(super) fn stopped(config: &Config, command: &str) -> Result<(), CliError> {
    match ControlClient::find(&config.site.data)? {
        ControlSocketState::Silent | ControlSocketState::Nobody => {
            owner::refuse_root(config).map_err(problem)
        }
        ControlSocketState::Server(_) => {
            Err(CliError::Problem(format!("the server runs; stop it before {command}")))
        }
    }
}

impl TypedOperation for ExplainOperation {
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        let config = at.load()?;
        let file = Path::new(&self.subject);
        if self.subject.starts_with('<') || !file.is_file() {
            reach::print(&config, self)
        } else if let Some(text) = buffer_file(&config, file)? {
            say(text)
        } else if let Some(lines) = map_file(file)? {
            lines.iter().try_for_each(say)
        } else {
            reach::print(&config, Self { subject: message_id_of(file)? })
        }
    }
}

/// Returns an explanation of a file that is a group's name.map.
fn map_file(file: &Path) -> Result<Option<Vec<String>>, CliError> {
    let cannot = unreadable(file);
    let mut begun = Vec::new();
    fs::File::open(file).map_err(cannot)?.take(BODY_START).read_to_end(&mut begun).map_err(cannot)?;
    let Some(head) = NameMapHead::parse(&begun) else { return Ok(None) };
    let map = fs::read(file).map_err(cannot)?;
    let lines = (map.len() as u64).saturating_sub(BODY_START) / LINE_BYTES as u64;
    let end = head.low.saturating_add(lines);
    let tokens: Vec<(u64, &str)> =
        (head.low..end).filter_map(|number| Some((number, head.token(&map, number)?))).collect();
    let mut made = Vec::new();
    date::format_rfc5322(i64::try_from(head.rewritten).unwrap_or_default(), &mut made);
    let mut said = vec![
        format!("name.map of {lines} article numbers from {} on; {} have a token", head.low, tokens.len()),
        format!("written        {}", String::from_utf8_lossy(&made)),
    ];
    let pruned = (head.body_start - BODY_START) / LINE_BYTES as u64;
    if pruned > 0 {
        said.push(format!("pruned         {} at its front", counted(pruned, "line")));
    }
    if map.len() % LINE_BYTES != 0 {
        said.push("DAMAGED        it does not end with a whole line of 34 bytes".into());
    }
    let ends =
        tokens.first().map(|token| ("first", token)).into_iter().chain(tokens.last().map(|t| ("last", t)));
    said.extend(ends.map(|(which, (number, token))| format!("{which:<14} {number}: {token}")));
    Ok(Some(said))
}

/// Returns an explanation of a file that is a buffer of the configuration.
fn buffer_file(config: &Config, file: &Path) -> Result<Option<String>, CliError> {
    let same =
        |path: &Path| matches!((fs::canonicalize(path), fs::canonicalize(file)), (Ok(a), Ok(b)) if a == b);
    let Some(buffer) = config.buffers.iter().find(|buffer| same(&buffer.path)) else { return Ok(None) };
    let reports: Vec<Box<Report>> = reach::rows(config, StatusOperation::default())?;
    let mut buffers = reports.iter().flat_map(|report| &report.spool.buffers);
    Ok(buffers.find(|found| found.name == buffer.name).map(|found| {
        format!(
            "cyclic buffer {}: {} for articles, {} used, cycle {}, blocks of {} bytes",
            found.name,
            units::about_size(found.size_bytes),
            units::about_size(found.used_bytes),
            found.cycle,
            buffer.block
        )
    }))
}

fn message_id_of(file: &Path) -> Result<String, CliError> {
    let cannot = unreadable(file);
    let mut text = Vec::new();
    fs::File::open(file).map_err(cannot)?.take(HEAD_BYTES_MAX).read_to_end(&mut text).map_err(cannot)?;
    let mut wire = Vec::new();
    netnews::nntp::wire::dot_stuff(&text, &mut wire);
    let article = Article::parse(&wire).ok();
    let value = article.as_ref().and_then(|article| article.header(Known::MessageId));
    let message_id = value.and_then(netnews::message_id::MessageId::from_header);
    match message_id {
        Some(id) => Ok(String::from_utf8_lossy(id.as_bytes()).into_owned()),
        None => Err(CliError::Problem(format!(
            "{} is neither an article nor a file of the spool",
            file.display()
        ))),
    }
}
