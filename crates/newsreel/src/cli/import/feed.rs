//! Reading articles and filing them, on two threads, parcel by parcel.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use disk::Progress;

use super::super::bar::Bar;
use super::super::screen::{CliError, complain};
use super::tally::ImportTally;
use super::target::{ImportParcel, ImportTarget, ParcelArticle};
use ingest::ImportOutcome;
use migrate::head;
use migrate::plan::ImportPlan;
use migrate::site::OtherSite;
use operators::control_socket::import::{BATCH_ARTICLES_MAX, BATCH_BYTES_MAX};
use site_base::units::grouped;
use site_config::Config;

/// Size of a parcel that is sent without waiting for more, in bytes.
const PARCEL_BYTES: usize = 1 << 20;
/// Parcels read ahead.
const PARCELS_AHEAD: usize = 2;
/// Longest list of placements sent, in bytes; an article with a longer one is filed by its Newsgroups header.
const PLACES_BYTES_MAX: usize = u16::MAX as usize;

const _: () = assert!(PARCEL_BYTES < BATCH_BYTES_MAX);

/// Source, selection and numbering of an import.
pub(super) struct ImportRun<'a> {
    pub config: &'a Config,
    pub other: &'a OtherSite,
    pub plan: &'a ImportPlan,
    /// Whether each of the plan's groups keeps its numbers.
    pub keep: &'a [bool],
    /// When the import began, and how much of it is done.
    pub began: Instant,
    pub done: u64,
}

/// Unit that the reading thread hands over.
#[derive(Default)]
struct ImportLoad {
    parcel: ImportParcel,
    damaged: Vec<u32>,
    unreadable: Vec<(u32, String)>,
    /// Number of articles that no longer exist.
    gone: u64,
}

impl ImportRun<'_> {
    /// Files the articles of `list` in order; returns those whose numbers are taken.
    pub fn run(
        &mut self,
        list: &[u32],
        target: &mut ImportTarget,
        tally: &mut ImportTally,
        bar: &Bar,
    ) -> Result<Vec<u32>, CliError> {
        let mut late = Vec::new();
        let (other, plan, keep) = (self.other, self.plan, self.keep);
        std::thread::scope(|scope| {
            let (sender, loads) = sync_channel(PARCELS_AHEAD);
            scope.spawn(move || read(other, plan, keep, list, &sender));
            for load in loads {
                self.file(load, target, tally, &mut late)?;
                bar.step(self.done);
                let rate = self.done as f64 / self.began.elapsed().as_secs_f64().max(0.001);
                bar.note(&format!("{} articles a second", grouped(rate as u64)));
            }
            Ok(late)
        })
    }

    fn file(
        &mut self,
        load: ImportLoad,
        target: &mut ImportTarget,
        tally: &mut ImportTally,
        late: &mut Vec<u32>,
    ) -> Result<(), CliError> {
        let name = |article: u32| {
            let item = self.other.found.items.get(article as usize);
            let path =
                item.and_then(|item| self.other.found.path(item)).map(|path| path.display().to_string());
            format!("{} at {}", path.unwrap_or_default(), item.map_or(0, |item| item.at))
        };
        tally.damaged += load.damaged.len() as u64;
        for (article, error) in &load.unreadable {
            tally.damaged += 1;
            complain(format_args!("{}: cannot be read: {error}", name(*article)));
        }
        let results = target.file(self.config, &load.parcel)?;
        for (packed, result) in load.parcel.articles.iter().zip(&results) {
            if result.is_trouble() {
                return Err(CliError::Problem(format!(
                    "the spool stopped accepting: {}; once that is repaired, run the import again to continue where this one ended",
                    result.reason
                )));
            }
            let new = self.plan.is_renumbered(packed.article, |group| kept(self.keep, group));
            let wire = load.parcel.wire(packed);
            if tally.count(result, new, wire, &|| name(packed.article)) {
                late.push(packed.article);
            }
            let hash = self.plan.hashes.get(packed.article as usize);
            if let (ImportOutcome::Filed, Some(hash)) = (result.outcome, hash) {
                tally.taken.add(*hash);
            }
        }
        tally.taken.flush();
        tally.skip("overwritten or withdrawn there meanwhile", load.gone);
        self.done += (results.len() + load.damaged.len() + load.unreadable.len()) as u64 + load.gone;
        Ok(())
    }
}

fn kept(keep: &[bool], group: u32) -> bool {
    keep.get(group as usize).copied().unwrap_or(false)
}

/// Reads `list` and sends it in parcels; ends when nothing receives them any more.
fn read(other: &OtherSite, plan: &ImportPlan, keep: &[bool], list: &[u32], loads: &SyncSender<ImportLoad>) {
    let mut load = ImportLoad::default();
    let (mut stored, mut wire) = (Vec::new(), Vec::new());
    for article in list {
        let Some(item) = other.found.items.get(*article as usize) else { continue };
        match other.found.read(item, &mut stored) {
            Ok(true) => {}
            Ok(false) => {
                load.gone += 1;
                continue;
            }
            Err(error) => {
                load.unreadable.push((*article, error.to_string()));
                continue;
            }
        }
        if head::to_wire(&stored, &mut wire).is_err() {
            load.damaged.push(*article);
            continue;
        }
        let full = load.parcel.bytes.len() + wire.len() > PARCEL_BYTES;
        if !load.parcel.articles.is_empty()
            && (full || load.parcel.articles.len() >= BATCH_ARTICLES_MAX)
            && loads.send(std::mem::take(&mut load)).is_err()
        {
            return;
        }
        let bytes = &mut load.parcel.bytes;
        let start = bytes.len();
        bytes.extend_from_slice(&wire);
        let places = bytes.len();
        plan.places(*article, |group| kept(keep, group), bytes);
        if bytes.len() - places > PLACES_BYTES_MAX {
            bytes.truncate(places);
        }
        let arrived = plan.numbered.arrived.get(*article as usize).copied().unwrap_or(0);
        load.parcel.articles.push(ParcelArticle {
            article: *article,
            arrived,
            wire: start..places,
            places: places..bytes.len(),
        });
    }
    // Nothing receives it after a failure, which has been reported.
    let _unheard = loads.send(load);
}
