//! Record of the articles that imports from another server have filed, and the list of those that the other
//! server has removed since.
//!
//! A site is imported while the other server runs, and again when that is stopped. What was cancelled there
//! in between is in none of its files, so the second import compares what it finds with the record of the
//! first. Only articles in the record are listed, and none is removed: decision 0170. Format of the record:
//! `docs/formats/imported.md`.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, DiskFile, FileAccess, OpenMode, RealDisk, durable_replace};

use super::super::screen::{CliError, complain, problem};
use super::tally::ImportTally;
use super::target::ImportTarget;
use migrate::plan::{ImportPlan, short_hash};
use migrate::site::OtherSite;
use operators::history::{HistoryExportOperation, HistoryForm};
use operators::reply::Reply;
use serde::Serialize;
use site_base::units::counted;
use site_config::Config;

/// Name of the record in `site.data`.
const RECORD: &str = "imported";
/// Name of the list in `site.data`.
const LIST: &str = "removed-there";
/// Size of the parts in which the record is read, in bytes.
const PART_BYTES: usize = 1 << 20;
/// First bytes of the record.
const MAGIC: [u8; 8] = *b"nrimprt1";

/// Articles that imports have filed.
#[derive(Default)]
pub(super) struct TakenArticles {
    /// Absent in a dry run.
    record: Option<TakenRecord>,
    /// Articles that earlier imports filed.
    before: HashSet<u64>,
}

/// The record, open for what is added.
struct TakenRecord {
    file: Arc<dyn DiskFile>,
    end: u64,
    /// Bytes to be written at the end.
    pending: Vec<u8>,
}

impl TakenArticles {
    /// Reads the record below `data`, and continues it unless `dry_run` is set. An import works without one.
    pub fn of(data: &Path, dry_run: bool) -> Self {
        Self::open(&RealDisk::new(), &data.join(RECORD), dry_run).unwrap_or_else(|error| {
            complain_of(&error);
            Self::default()
        })
    }

    fn open(disk: &dyn Disk, path: &Path, dry_run: bool) -> io::Result<Self> {
        let is_new = disk.about(path)?.is_none();
        if is_new && dry_run {
            return Ok(Self::default());
        }
        let file = disk.open(path, if dry_run { OpenMode::ReadOnly } else { OpenMode::Create })?;
        if is_new {
            // Root may run the command beside the server.
            disk.make_like(path, path, false)?;
        }
        let mut before = HashSet::new();
        let (mut end, mut bytes) = (0, vec![0; PART_BYTES]);
        loop {
            let read = file.read_at(&mut bytes, end)?;
            let (hashes, _torn) = bytes.get(..read).ok_or(io::ErrorKind::InvalidData)?.as_chunks::<8>();
            if hashes.is_empty() {
                break;
            }
            if end == 0 && hashes.first() != Some(&MAGIC) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not a record of imported articles"));
            }
            let magic = usize::from(end == 0);
            before.extend(hashes.iter().skip(magic).map(|hash| u64::from_be_bytes(*hash)));
            end += size_of_val(hashes) as u64;
        }
        let pending = if end == 0 { MAGIC.to_vec() } else { Vec::new() };
        let record = (!dry_run).then_some(TakenRecord { file, end, pending });
        Ok(Self { record, before })
    }

    /// Records an article.
    pub fn add(&mut self, hash: u64) {
        if let Some(record) = &mut self.record {
            record.pending.extend_from_slice(&hash.to_be_bytes());
        }
    }

    /// Writes what was recorded; ends the record if that fails.
    pub fn flush(&mut self) {
        let Some(record) = self.record.as_mut().filter(|record| !record.pending.is_empty()) else { return };
        if let Err(error) = record.file.write_all_at(&[IoSlice::new(&record.pending)], record.end) {
            complain_of(&error);
            self.record = None;
            return;
        }
        record.end += record.pending.len() as u64;
        record.pending.clear();
    }

    /// Returns those that earlier imports filed and that are not among `found`. If none of them is, the other
    /// server is another one than theirs, and nothing is known about it.
    fn missing(&self, found: &[u64]) -> HashSet<u64> {
        let mut missing = self.before.clone();
        for hash in found {
            missing.remove(hash);
        }
        if missing.len() == self.before.len() { HashSet::new() } else { missing }
    }
}

fn complain_of(error: &io::Error) {
    complain(format_args!(
        "newsreel: the file `{RECORD}` in site.data: {error}; a later import will not know all that was filed"
    ));
}

/// Articles here that the other server has removed since they were imported.
#[derive(Default, Serialize)]
pub(super) struct RemovedArticles {
    /// Number of articles that were cancelled there, as older ones of the group are still there.
    pub cancelled: u64,
    /// Number of articles that were cancelled there or have expired there.
    pub unclear: u64,
    /// List of both; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<PathBuf>,
    /// Command that cancels what is in the list.
    #[serde(skip)]
    command: String,
}

impl RemovedArticles {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cancelled + self.unclear == 0
    }

    /// Returns the lines of the summary, for people.
    pub fn lines(&self) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        let articles = counted(self.cancelled + self.unclear, "article");
        let mut lines = vec![format!("removed there since they were imported: {articles}, still here")];
        if self.unclear > 0 {
            lines.push(format!("  {:>9} of these may merely have expired there", self.unclear));
        }
        if let Some(list) = &self.list {
            lines.push(format!("  listed in {}; to cancel all of them here:", list.display()));
            lines.push(format!("  {}", self.command));
        }
        lines
    }
}

/// Lists the articles that earlier imports filed and that the other server has removed since. `keep` says
/// which groups of the plan keep its numbers.
pub(super) fn list_removed(
    config: &Config,
    other: &OtherSite,
    plan: &ImportPlan,
    keep: &[bool],
    target: &mut ImportTarget,
    tally: &mut ImportTally,
) -> Result<(), CliError> {
    let missing = tally.taken.missing(&plan.hashes);
    if missing.is_empty() {
        return Ok(());
    }
    let lists = plan.numbered.by_group();
    let groups = plan.groups.iter().zip(keep).zip(&lists);
    let removal = RemovalJudge {
        other,
        lowest: groups
            .map(|((name, kept), list)| (name.as_str(), list.first().map(|(low, _)| *low).filter(|_| *kept)))
            .collect(),
    };
    let (mut cancelled, mut unclear) = (Vec::new(), Vec::new());
    target.ask(config, HistoryExportOperation { form: HistoryForm::Cnews }, &mut |reply| {
        let Reply::Text(lines) = reply else { return };
        for line in lines.lines() {
            let mut fields = line.split('\t');
            let (Some(id), Some(places)) = (fields.next(), fields.nth(1)) else { continue };
            if !missing.contains(&short_hash(id.as_bytes())) {
                continue;
            }
            match removal.judge(places) {
                RemovalCause::Cancelled => cancelled.push(id.to_owned()),
                RemovalCause::Unclear => unclear.push(id.to_owned()),
                RemovalCause::Expired => {}
            }
        }
    })?;
    let mut removed = RemovedArticles {
        cancelled: cancelled.len() as u64,
        unclear: unclear.len() as u64,
        ..RemovedArticles::default()
    };
    if !tally.dry_run && !removed.is_empty() {
        let list = config.site.data.join(LIST);
        removed.command = format!(
            "grep '^<' {} | xargs -d '\\n' newsreel cancel --config {}",
            list.display(),
            config.file.display()
        );
        let text = listed(&removed.command, &cancelled, &unclear);
        durable_replace(&RealDisk::new(), &list, &[text.as_bytes()], FileAccess::Group).map_err(problem)?;
        removed.list = Some(list);
    }
    tally.removed_there = removed;
    Ok(())
}

/// Returns the text of the list.
fn listed(command: &str, cancelled: &[String], unclear: &[String]) -> String {
    let mut text = format!("# To cancel all of these: {command}\n");
    for (ids, about) in [
        (cancelled, "Cancelled there: it still has older articles of the group."),
        (unclear, "Cancelled there, or expired: it has no older articles of the group."),
    ] {
        if !ids.is_empty() {
            text.push_str(&format!("# {about}\n"));
        }
        ids.iter().for_each(|id| text.push_str(&format!("{id}\n")));
    }
    text
}

/// Way in which an article may have left the other server.
#[derive(Debug, PartialEq, Eq)]
enum RemovalCause {
    Cancelled,
    Expired,
    Unclear,
}

/// Decides how articles have left the other server. Expiry takes the oldest articles of a group first.
struct RemovalJudge<'a> {
    other: &'a OtherSite,
    /// Lowest number of each group there; `None` if its numbers differ from those here.
    lowest: HashMap<&'a str, Option<u64>>,
}

impl RemovalJudge<'_> {
    /// Judges an article by its places here, `group/number` words.
    fn judge(&self, places: &str) -> RemovalCause {
        let mut removal = RemovalCause::Expired;
        for (group, number) in places.split(' ').filter_map(|place| place.rsplit_once('/')) {
            let Ok(number) = number.parse::<u64>() else { continue };
            let lowest = self.lowest.get(group).copied();
            if lowest.flatten().is_some_and(|lowest| lowest < number) {
                return RemovalCause::Cancelled;
            }
            // Below the low mark it has expired; without one the oldest articles are taken as expired.
            let low = self.other.groups.get(group).map_or(0, |group| group.low);
            let is_compared = lowest.is_none_or(|lowest| lowest.is_some());
            if low > 0 && (number >= low || !is_compared) {
                removal = RemovalCause::Unclear;
            }
        }
        removal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use migrate::conf::OtherGroup;

    #[test]
    fn recorded_articles_are_read_back_and_a_torn_end_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, path) = (RealDisk::new(), dir.path().join(RECORD));
        let dry = TakenArticles::open(&disk, &path, true).unwrap();
        assert!(dry.before.is_empty() && !path.exists());
        for (hashes, before) in [(&[7, 9][..], 0), (&[11], 2), (&[], 3)] {
            let mut taken = TakenArticles::open(&disk, &path, false).unwrap();
            assert_eq!(taken.before.len(), before);
            hashes.iter().for_each(|hash| taken.add(*hash));
            taken.flush();
            let mut bytes = fs::read(&path).unwrap();
            bytes.truncate(8 * (1 + before + hashes.len()));
            bytes.extend_from_slice(b"torn");
            fs::write(&path, bytes).unwrap();
        }
        let taken = TakenArticles::open(&disk, &path, true).unwrap();
        assert_eq!(taken.missing(&[9, 500]), HashSet::from([7, 11]));
        assert!(taken.missing(&[500]).is_empty(), "another server has none of them");
        fs::write(&path, b"something else").unwrap();
        assert!(TakenArticles::open(&disk, &path, false).is_err());
    }

    #[test]
    fn articles_between_those_still_there_were_cancelled_and_the_oldest_may_have_expired() {
        let mut other = OtherSite::default();
        for (name, low) in [("a.b", 3), ("c.d", 1), ("empty", 8), ("renumbered", 2), ("no.mark", 0)] {
            other.groups.insert(name.into(), OtherGroup { low, ..OtherGroup::default() });
        }
        let lowest = HashMap::from([("a.b", Some(5)), ("c.d", Some(1)), ("renumbered", None)]);
        let judge = RemovalJudge { other: &other, lowest };
        for (places, removal) in [
            ("a.b/6", RemovalCause::Cancelled),
            ("a.b/4", RemovalCause::Unclear),
            ("a.b/2", RemovalCause::Expired),
            ("a.b/2 c.d/7", RemovalCause::Cancelled),
            ("empty/7", RemovalCause::Expired),
            ("empty/8", RemovalCause::Unclear),
            ("renumbered/1", RemovalCause::Unclear),
            ("no.mark/5", RemovalCause::Expired),
            ("not.there/5", RemovalCause::Expired),
        ] {
            assert_eq!(judge.judge(places), removal, "{places}");
        }
    }
}
