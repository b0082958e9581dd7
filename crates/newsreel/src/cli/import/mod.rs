//! `import`: takes over the groups, articles and numbers of another server (INN or newsreel), or articles in
//! files, through the running server or into the spool; also takes over configurations.

mod copies;
mod expired;
mod feed;
mod groups;
mod mails;
mod room;
mod settings;
mod taken;
mod tally;
mod target;

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use disk::Progress;
use spool::Estimator;

use super::args::{ImportCommand, SiteOptions};
use super::bar::Bar;
use super::group;
use super::locate::SiteLocation;
use super::screen::{CliError, complain, say, say_json};
use copies::Copies;
use feed::ImportRun;
use migrate::mails::folders::MailFormat;
use migrate::plan::ImportPlan;
use migrate::site::OtherSite;
use room::ClassRoom;
pub(super) use settings::{InnSettingsOptions, SettingsOptions};
use site_config::{Config, NamePattern};
use taken::TakenArticles;
use tally::ImportTally;
use target::ImportTarget;

pub(super) fn import(command: ImportCommand, at: &SiteLocation) -> Result<(), CliError> {
    match command {
        ImportCommand::Inn(options) => site(&inn(&options.paths)?, &options.how, at),
        ImportCommand::Newsreel(options) => site(&newsreel(&options.paths)?, &options.how, at),
        ImportCommand::Mbox(options) => mails::mails(MailFormat::Mbox, &options, at),
        ImportCommand::Maildir(options) => mails::mails(MailFormat::Maildir, &options, at),
        ImportCommand::Rnews(options) => mails::mails(MailFormat::Rnews, &options, at),
        ImportCommand::InnConfig(options) => settings::inn(&options),
        ImportCommand::CnewsConfig(options) => settings::cnews(&options),
        ImportCommand::LeafnodeConfig(options) => settings::leafnode(&options),
        ImportCommand::DiabloConfig(options) => settings::diablo(&options),
    }
}

/// Imports the contents of another site.
fn site(other: &OtherSite, options: &SiteOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let wanted = wanted(options.groups.as_deref())?;
    if !options.json {
        other.told.iter().try_for_each(|line| say(format_args!("found {line}")))?;
    }
    other.found.notes.iter().for_each(|note| complain(format_args!("newsreel: {note}")));
    let bar = Bar::new();
    let estimator = Estimator::new(&config.spool_config())?;
    let mut target = ImportTarget::new(&config, options.dry_run)?;
    let mut known = |ids: &[String]| target.known(&config, ids);
    let plan = match ImportPlan::make(other, wanted.as_ref(), &estimator, &mut known, &bar) {
        Ok(plan) => plan,
        Err(failure) => {
            target.close()?;
            return Err(failure);
        }
    };
    let mut tally = ImportTally {
        dry_run: options.dry_run,
        damaged: other.found.damaged,
        passed_over: other.found.notes.len() as u64,
        unnumbered: plan.unnumbered.len() as u64,
        remembered_there: other.arrivals.remembered,
        copies: Copies::of((!options.dry_run).then_some(config.site.data.as_path())),
        taken: TakenArticles::of(&config.site.data, options.dry_run),
        ..ImportTally::default()
    };
    tally.leave_out("in no group that is wanted", plan.unwanted);
    tally.leave_out("expired there in all groups that are wanted", plan.expired.len() as u64);
    tally.leave_out("hidden there", other.found.hidden);
    tally.room = room::compare(&config, &room::planned(&config, &plan), &mut target)?;
    if !has_room(&tally.room, options.json)? && !options.dry_run && !options.yes {
        target.close()?;
        return refuse(&tally, options.json);
    }
    let began = Instant::now();
    let result = run(options, wanted.as_ref(), &config, other, &plan, &mut target, &mut tally);
    bar.finish();
    if result.is_ok() {
        count_what_stays(&config, &mut target, &mut tally)?;
    }
    target.close()?;
    tally.seconds = began.elapsed().as_secs_f64();
    if options.json {
        say_json(&tally)?;
    } else {
        tally.lines(began.elapsed()).iter().try_for_each(say)?;
    }
    if !options.dry_run {
        group::advise_on_moderators(&config)?;
    }
    // Not everything was imported, and the lines say so.
    result.and(if tally.lacks_some() { Err(CliError::Told) } else { Ok(()) })
}

/// Reports how much room there is, before anything is filed; returns whether it suffices.
fn has_room(rooms: &[ClassRoom], json: bool) -> Result<bool, CliError> {
    if !json {
        rooms.iter().try_for_each(|room| say(room.line()))?;
    }
    let fits = rooms.iter().all(ClassRoom::fits);
    if !fits {
        complain(
            "newsreel: not everything has room; make room first (newsreel buffer grow, newsreel buffer add): \
             displaced articles count as known for a while, and are not imported again",
        );
    }
    Ok(fits)
}

/// Refuses an import that does not fit.
fn refuse(tally: &ImportTally, json: bool) -> Result<(), CliError> {
    if json {
        say_json(tally)?;
    }
    Err(CliError::Problem("nothing was imported; to import all the same, give --yes".into()))
}

/// Counts the imported articles that are still there; a dry run estimates them.
fn count_what_stays(
    config: &Config,
    target: &mut ImportTarget,
    tally: &mut ImportTally,
) -> Result<(), CliError> {
    let filed = std::mem::take(&mut tally.filed);
    let (filed, living) = match tally.dry_run {
        true => (tally.imported, tally.room.iter().map(|room| room.staying).sum()),
        false => (filed.len() as u64, room::count_living(config, &filed, target)?),
    };
    count_displaced(tally, filed, living);
    Ok(())
}

/// Records how many of the `filed` articles are still there, and the size of the older ones that are not.
fn count_displaced(tally: &mut ImportTally, filed: u64, living: u64) {
    tally.displaced = filed.saturating_sub(living).min(tally.imported);
    tally.still_there = tally.imported - tally.displaced;
    if tally.imported > 0 {
        tally.older_displaced_bytes = tally.room.iter().map(|room| room.older_displaced_bytes).sum();
    }
}

fn run(
    options: &SiteOptions,
    wanted: Option<&NamePattern>,
    config: &Config,
    other: &OtherSite,
    plan: &ImportPlan,
    target: &mut ImportTarget,
    tally: &mut ImportTally,
) -> Result<(), CliError> {
    groups::add(config, other, plan, wanted, target, tally)?;
    let keep = match options.new_numbers {
        true => vec![false; plan.groups.len()],
        false => groups::keep(config, other, plan, target)?,
    };
    tally.groups_kept = keep.iter().filter(|kept| **kept).count() as u64;
    tally.groups_renumbered = keep.len() as u64 - tally.groups_kept;
    let bar = Bar::new();
    bar.start("importing", (plan.order.len() + plan.unnumbered.len()) as u64);
    let mut feed = ImportRun { config, other, plan, keep: &keep, began: Instant::now(), done: 0 };
    let late = feed.run(&plan.order, target, tally, &bar)?;
    if !options.dry_run {
        // Articles with new numbers come after everything that the other server numbered.
        groups::raise(config, other, plan, &keep, wanted, target)?;
    }
    let none = vec![false; keep.len()];
    let mut feed = ImportRun { keep: &none, ..feed };
    feed.run(&late, target, tally, &bar)?;
    feed.run(&plan.unnumbered, target, tally, &bar)?;
    bar.finish();
    if !options.dry_run {
        expired::remember(config, other, plan, target)?;
    }
    taken::list_removed(config, other, plan, &keep, target, tally)?;
    Ok(())
}

fn inn(paths: &[PathBuf]) -> Result<OtherSite, CliError> {
    let advice = "nothing of an INN in {}; name the directory that has inn.conf (or etc/inn.conf), its \
        patharticles, or single CNFS buffers";
    something(OtherSite::inn(paths), advice, paths)
}

fn newsreel(paths: &[PathBuf]) -> Result<OtherSite, CliError> {
    let advice = "no buffer of a newsreel in {}; name the site's directory, its site.data, or single buffers";
    something(OtherSite::newsreel(paths), advice, paths)
}

/// Returns the contents found, or an error if there are none.
fn something(found: io::Result<OtherSite>, advice: &str, paths: &[PathBuf]) -> Result<OtherSite, CliError> {
    let other = found.map_err(|error| CliError::Usage(format!("cannot import from {error}")))?;
    if other.found.items.is_empty() && other.groups.is_empty() && other.found.notes.is_empty() {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(CliError::Usage(advice.replace("{}", &names.join(", "))));
    }
    Ok(other)
}

fn wanted(wildmat: Option<&str>) -> Result<Option<NamePattern>, CliError> {
    let parse = |text: &str| {
        NamePattern::parse(text)
            .map_err(|error| CliError::Usage(format!("`{text}` is not a wildmat: {error}")))
    };
    wildmat.map(parse).transpose()
}
