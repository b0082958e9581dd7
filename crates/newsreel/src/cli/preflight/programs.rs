//! Checks that the programs that the server runs exist: authenticators, filters, feed programs of peers, and
//! sendmail for moderated groups and for links to accounts.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use rustix::fs::{Access, access};

use super::Findings;
use site::moderation;
use site::moderation::SubmissionTarget;
use site_config::{Config, FilterStage, SignUpMode};

pub(super) fn look(config: &Config, groups: &[(String, String)], found: &mut Findings) {
    for (at, authenticator) in config.authenticators.iter().enumerate() {
        let Some(program) = authenticator.program.first() else { continue };
        if let Err(why) = runnable(program) {
            found.problem(format!(
                "the program of [[authenticator]] {} cannot be run: {why}; nobody could log in by it",
                at + 1
            ));
        }
    }
    for peer in &config.peers {
        let Some(send) = &peer.send else { continue };
        for (key, words) in [("after_batch", &send.after_batch), ("program", &send.program)] {
            if let Some(program) = words.as_ref().and_then(|words| words.first())
                && let Err(why) = runnable(program)
            {
                let name = &peer.name;
                found
                    .problem(format!("{key} of peer {name} cannot be run: {why}; nothing could leave by it"));
            }
        }
    }
    for filter in &config.filters {
        let name = &filter.name;
        if let Some(Err(why)) = filter.program.first().map(|program| runnable(program)) {
            found.problem(format!(
                "the program of filter {name} cannot be run: {why}; it would judge nothing"
            ));
        }
        let aside = &filter.aside;
        if filter.judges(FilterStage::Feed) && !groups.iter().any(|(name, _)| name == aside) {
            found.warning(format!(
                "there is no group {aside}: filter {name} cannot set articles aside; newsreel group add {aside}"
            ));
        }
    }
    for moderator in &config.moderators {
        let program = moderator.sign.as_ref().and_then(|words| words.first());
        if let Some(Err(why)) = program.map(|program| runnable(program)) {
            found.problem(format!(
                "the program that signs for the moderator of {} cannot be run: {why}; nothing could be approved",
                moderator.groups.as_str()
            ));
        }
    }
    let is_mailed = |name: &&str| moderation::submission(config, name) != Ok(SubmissionTarget::Here);
    let moderated = groups.iter().filter(|(_, flag)| flag == "m").map(|(name, _)| name.as_str());
    let mut moderated = moderated.filter(is_mailed);
    let program = config.moderation.sendmail.split_whitespace().next().unwrap_or_default();
    let mails_links = config.web.sign_up == SignUpMode::Mail || config.web.reset_by_mail;
    if mails_links
        && config.moderation.smtp.is_none()
        && let Err(why) = runnable(program)
    {
        found.problem(format!(
            "links to accounts and passwords ([web]) cannot be mailed: {why}; set smtp = \"HOST:25\" or sendmail in \
             [moderation]"
        ));
    }
    if let (Some(group), None) = (moderated.next(), &config.moderation.smtp)
        && let Err(why) = runnable(program)
    {
        found.problem(format!(
            "posts to the moderated group {group} cannot be mailed: {why}; install a mail server, or set \
             smtp = \"HOST:25\" \
             or sendmail in [moderation]"
        ));
    }
}

/// Reason why a program cannot be run.
#[derive(Debug, thiserror::Error)]
enum ProgramFault {
    /// It is a directory.
    #[error("{0} is a directory")]
    Directory(PathBuf),
    /// The file may not be executed.
    #[error("{0} may not be executed (chmod +x)")]
    NotExecutable(PathBuf),
    /// There is no such file.
    #[error("there is no {0}")]
    Missing(String),
    /// No directory of PATH has it.
    #[error("there is no {program} in {}", .path.to_string_lossy())]
    NotInPath { program: String, path: OsString },
}

/// Checks whether a program can be run, named by its path or by its file name in a directory of PATH.
fn runnable(program: &str) -> Result<(), ProgramFault> {
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<PathBuf> = match program.contains('/') {
        true => vec![PathBuf::from(program)],
        false => env::split_paths(&path).map(|dir| dir.join(program)).collect(),
    };
    let can_run = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if candidates.iter().any(can_run) {
        return Ok(());
    }
    match candidates.iter().find(|file| file.exists()) {
        Some(file) if file.is_dir() => Err(ProgramFault::Directory(file.clone())),
        Some(file) => Err(ProgramFault::NotExecutable(file.clone())),
        None if program.contains('/') => Err(ProgramFault::Missing(program.to_owned())),
        None => Err(ProgramFault::NotInPath { program: program.to_owned(), path }),
    }
}
