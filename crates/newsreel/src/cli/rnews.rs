//! `rnews`: files a batch, through the running server or into the spool itself.
//!
//! Every article of the batch has one fate: filed, rejected, already known, quarantined with the damage
//! around it, or kept in the site's directory of incoming batches until it can be filed. The batch is read in
//! parcels, and only those being filed are in memory. The exit code is for programs that run rnews for others
//! (uuxqt): 75 means that nothing is lost if the batch is given again, and that it should be.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::control::{ControlClient, Settle};
use super::locate::SiteLocation;
use super::reach::{self, Reach};
use super::screen::{CliError, complain, problem, say};
use disk::{Disk, RealDisk};
use ingest::batches::{BatchLedger, BatchParcel, BatchReader, IncomingDir, Quarantine, UnfiledPolicy};
use operators::operation::OperatedSite;
use site_base::units::counted;
use site_config::Config;

/// Longest article, in bytes, while the configuration, which has the limit, cannot be read.
const UNKNOWN_ARTICLE_BYTES_MAX: u64 = 64 << 20;
/// Parcels read ahead if the spool is open here.
const PARCELS_AHEAD: usize = 2;

/// Ways to file articles.
enum RnewsTarget {
    Server(ControlClient),
    Here(Box<Config>, Arc<spool::Spool>),
    /// Filing is not possible now: all articles are kept.
    Later,
}

/// The parts of a site that filing a batch needs.
struct RnewsSite {
    way: RnewsTarget,
    /// The spool's directory.
    data: PathBuf,
    /// Size limit of articles.
    article_bytes_max: u64,
    keep: UnfiledPolicy,
}

pub(super) fn rnews(file: Option<&Path>, at: &SiteLocation) -> Result<(), CliError> {
    let file = file.filter(|file| *file != Path::new("-"));
    let name = file.map_or("standard input".into(), |path| path.display().to_string());
    let source: Box<dyn Read + Send> = match file {
        None => Box::new(std::io::stdin()),
        Some(path) => {
            let cannot = |error| CliError::Usage(format!("cannot read {name}: {error}"));
            Box::new(fs::File::open(path).map_err(cannot)?)
        }
    };
    // After any failure the batch is complete, and articles already filed are duplicates the next time.
    file_batch(source, name, at).map_err(|failure| match failure {
        CliError::Told => CliError::Told,
        failure => CliError::TryLater(Box::new(failure)),
    })
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk::new())
}

fn file_batch(source: Box<dyn Read + Send>, name: String, at: &SiteLocation) -> Result<(), CliError> {
    let RnewsSite { way, data, article_bytes_max, keep } = site(at)?;
    let mut line = |line: std::fmt::Arguments<'_>| complain(line);
    let quarantine = Quarantine::of(&data, &disk());
    let mut ledger = BatchLedger::new(name.clone(), quarantine, keep, &mut line);
    let mut batch = BatchReader::new(source, article_bytes_max);
    let mut unread = None;
    let next = || {
        batch.next_parcel().unwrap_or_else(|error| {
            unread = Some(CliError::Problem(format!("cannot read {name}: {error}")));
            None
        })
    };
    let mut settle = |parcel: &BatchParcel, fates: &[_]| ledger.settle(parcel, fates).map_err(problem);
    match way {
        RnewsTarget::Server(control) => control.rnews(next, &mut settle)?,
        RnewsTarget::Here(config, spool) => file_here(*config, spool, next, &mut settle)?,
        RnewsTarget::Later => {
            let mut next = next;
            while let Some(parcel) = next() {
                settle(&parcel, &[])?;
            }
        }
    }
    unread.map_or(Ok(()), Err)?;
    if let Some(why) = batch.damage() {
        ledger.not_decompressed(why);
    }
    finish(ledger)
}

/// Reports the result of the batch.
fn finish(ledger: BatchLedger<'_>) -> Result<(), CliError> {
    let tally = ledger.tally;
    let kept = ledger.end();
    say(tally.summary())?;
    match kept {
        Ok(kept) if kept || tally.try_later == 0 => {
            if kept {
                let it = if tally.try_later == 1 { "it" } else { "them" };
                let count = counted(tally.try_later, "article");
                say(format_args!("{count} kept; the server files {it} as soon as it can"))?;
            }
            if tally.damaged == 0 { Ok(()) } else { Err(CliError::Told) }
        }
        Ok(_) => Err(CliError::TryLater(Box::new(CliError::Told))),
        Err(why) => {
            let text = format!("what cannot be filed now is not kept either: {why}");
            Err(CliError::TryLater(Box::new(CliError::Problem(text))))
        }
    }
}

/// Returns the running server, even if the configuration has a fault, or the spool; or neither, if the
/// articles can wait.
fn site(at: &SiteLocation) -> Result<RnewsSite, CliError> {
    let config = match at.load() {
        Ok(config) => config,
        Err(CliError::Config(fault)) => {
            let control = reach::server_despite(fault)?;
            let data = control.data().to_owned();
            let article_bytes_max = UNKNOWN_ARTICLE_BYTES_MAX;
            return Ok(RnewsSite {
                way: RnewsTarget::Server(control),
                data,
                article_bytes_max,
                keep: UnfiledPolicy::Not,
            });
        }
        Err(failure) => return Err(failure),
    };
    let article_bytes_max = config.site.article_bytes_max;
    let keep = UnfiledPolicy::In(IncomingDir::of(&config, &disk()), None);
    let data = config.site.data.clone();
    Ok(match Reach::new(&config) {
        Ok(Reach::Server(control)) => {
            let data = control.data().to_owned();
            RnewsSite { way: RnewsTarget::Server(control), data, article_bytes_max, keep }
        }
        Ok(Reach::Here(spool)) => {
            RnewsSite { way: RnewsTarget::Here(Box::new(config), spool), data, article_bytes_max, keep }
        }
        // The mount point of a disk that is not mounted is no place to keep anything.
        Err(failure) if reach::missing(&config)?.is_some() => return Err(failure),
        Err(failure) => {
            complain(failure);
            RnewsSite { way: RnewsTarget::Later, data, article_bytes_max, keep }
        }
    })
}

fn file_here(
    config: Config,
    spool: Arc<spool::Spool>,
    mut next: impl FnMut() -> Option<BatchParcel> + Send,
    settle: &mut Settle<'_>,
) -> Result<(), CliError> {
    let filer = OperatedSite::Stopped { spool: &spool, config: &config }.filer().map_err(problem)?;
    filer.start_filters();
    std::thread::scope(|scope| {
        let (parcels, ready) = sync_channel(PARCELS_AHEAD);
        scope.spawn(move || while next().is_some_and(|parcel| parcels.send(parcel).is_ok()) {});
        for parcel in ready {
            settle(&parcel, &filer.file_batch(&parcel.wires()))?;
        }
        Ok::<(), CliError>(())
    })?;
    filer.end_filters();
    drop(filer);
    spool.close()?;
    Ok(())
}
