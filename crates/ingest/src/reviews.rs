//! Findings of filters, for review by the operator, and the operator's releases.
//!
//! Findings are lines in a file below `site.data`; when it is full it becomes the old file and a new one is
//! begun, so that the newest are kept and the space is bounded. Releases are lines of another file, which
//! commands write as well, so it is read again whenever a filter finds something. Called by `filters`,
//! `ingest` and `operators::filter`. Format: `docs/formats/filter-log.md`.

use disk::{AppendLog, Disk, FileAccess, LogLine, OpenMode, RollingFiles, RollingLog};
use hashbrown::HashMap;
use netnews::{Article, Known};
use site_base::lock::Leaf;
use site_base::printable;
use spool::ArticleKey;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;

/// Names of the files below `site.data`.
const FILE_NAME: &str = "filter-log";
const RELEASED_NAME: &str = "filter-released";
/// Most bytes of each file of findings; there are two.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of the file of releases, and how many releases count: the newest.
const RELEASED_BYTES_MAX: u64 = 4 << 20;
const RELEASED_MAX: usize = 10_000;
/// Longest header value kept, in bytes.
const VALUE_BYTES_MAX: usize = 300;

/// Action of a filter on an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterAction {
    /// The article was refused.
    Refused,
    /// The article was filed and hidden.
    Hidden,
    /// The article was set aside in a group for the operator.
    Aside,
    /// The filter would have refused the article.
    Shadow,
}

impl FilterAction {
    const ALL: [Self; 4] = [Self::Refused, Self::Hidden, Self::Aside, Self::Shadow];

    /// Returns the word for it in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Hidden => "hidden",
            Self::Aside => "set aside",
            Self::Shadow => "would refuse",
        }
    }

    /// Returns whether the article is in the spool after this.
    pub fn is_filed(self) -> bool {
        self != Self::Refused
    }
}

/// Finding of a filter for an article of a batch.
#[derive(Debug)]
pub struct FilterFinding {
    /// Index of the article in the batch.
    pub at: usize,
    /// Name of the filter.
    pub filter: String,
    /// Action of the filter.
    pub finding: FilterAction,
    /// Reason stated by the filter.
    pub reason: String,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReview {
    /// Time of the finding, in Unix seconds.
    pub at: i64,
    /// Name of the filter.
    pub filter: String,
    /// Action of the filter.
    pub finding: FilterAction,
    /// Message-ID of the article.
    pub message_id: String,
    /// Value of its Newsgroups header, shortened.
    pub groups: String,
    /// Value of its Subject header, shortened.
    pub subject: String,
    /// Reason stated by the filter, in one line.
    pub reason: String,
}

impl FilterReview {
    /// Returns the review for a finding in this article.
    pub fn of(found: &FilterFinding, article: &Article<'_>, at: i64) -> Self {
        let value = |known| {
            let value = String::from_utf8_lossy(article.header(known).unwrap_or_default());
            let mut shown = String::new();
            for word in value.split_whitespace() {
                if !shown.is_empty() {
                    shown.push(' ');
                }
                shown.push_str(&printable::line(word));
                if shown.len() > VALUE_BYTES_MAX {
                    break;
                }
            }
            shown.truncate(shown.floor_char_boundary(VALUE_BYTES_MAX));
            shown
        };
        Self {
            at,
            filter: found.filter.clone(),
            finding: found.finding,
            message_id: value(Known::MessageId),
            groups: value(Known::Newsgroups),
            subject: value(Known::Subject),
            reason: printable::line(&found.reason).into_owned(),
        }
    }

    fn text(&self) -> String {
        let Self { at, filter, finding, message_id, groups, subject, reason } = self;
        let finding = finding.word();
        format!("{at}\t{finding}\t{filter}\t{message_id}\t{groups}\t{reason}\t{subject}")
    }

    fn parsed(line: &str) -> Option<Self> {
        let mut fields = line.splitn(7, '\t');
        let at = fields.next()?.parse().ok()?;
        let word = fields.next()?;
        let finding = FilterAction::ALL.into_iter().find(|finding| finding.word() == word)?;
        let mut field = || fields.next().map(str::to_owned);
        let (filter, message_id, groups) = (field()?, field()?, field()?);
        let (reason, subject) = (field()?, field()?);
        Some(Self { at, filter, finding, message_id, groups, subject, reason })
    }
}

/// Returns whether a line of the findings is complete.
pub fn is_whole(line: LogLine<'_>) -> bool {
    line.text().and_then(FilterReview::parsed).is_some()
}

/// Returns whether a line of the releases is complete.
pub fn is_release_whole(line: LogLine<'_>) -> bool {
    line.text().and_then(released).is_some()
}

/// Returns the key and the filter in a line of the releases.
fn released(line: &str) -> Option<(u128, String)> {
    let (key, filter) = line.split_once(' ')?;
    Some((u128::from_str_radix(key, 16).ok()?, filter.to_owned()))
}

/// Released keys, each with the filters that no longer judge it, as of a length of the file.
#[derive(Debug, Default)]
struct ReleasedKeys {
    bytes: u64,
    filters: HashMap<u128, Vec<String>>,
}

/// The findings of a site.
#[derive(Debug)]
pub struct FilterReviews {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    files: RollingFiles,
    log: Leaf<RollingLog>,
    released: Leaf<ReleasedKeys>,
    /// Held while a release is written, as several commands may run at once.
    releasing: Leaf<()>,
    /// Whether the last finding could not be written; logged once.
    is_failing: AtomicBool,
}

impl FilterReviews {
    /// Returns the findings of the site in `data`.
    pub fn of(disk: Arc<dyn Disk>, data: &Path) -> Self {
        let files = RollingFiles::at(disk.clone(), data.join(FILE_NAME), FileAccess::Group, FILE_BYTES_MAX);
        Self {
            disk,
            dir: data.to_owned(),
            log: Leaf::new(RollingLog::new(files.clone())),
            files,
            released: Leaf::default(),
            releasing: Leaf::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Adds findings; durable with the next [`FilterReviews::sync`]. Failed writes are logged, and delay no
    /// article.
    pub fn add(&self, reviews: impl Iterator<Item = FilterReview>) {
        let texts: Vec<String> = reviews.map(|review| review.text()).collect();
        match self.log.lock().append_all(&texts) {
            Ok(()) => self.is_failing.store(false, Ordering::Relaxed),
            Err(error) => {
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    warn!(%error, "what filters find cannot be written to {FILE_NAME}");
                }
            }
        }
    }

    /// Makes additions durable.
    pub fn sync(&self) {
        if let Err(error) = self.log.lock().sync() {
            warn!(%error, "what filters found may be lost ({FILE_NAME})");
        }
    }

    /// Returns all findings kept, oldest first.
    pub fn all(&self) -> io::Result<Vec<FilterReview>> {
        let mut all = Vec::new();
        self.files.read(|line| {
            let review = line.text().and_then(FilterReview::parsed);
            let is_one = review.is_some();
            all.extend(review);
            is_one
        })?;
        Ok(all)
    }

    /// Returns whether the filter no longer judges the article with this key.
    pub fn is_released(&self, key: ArticleKey, filter: &str) -> bool {
        let bytes = match self.disk.open(&self.dir.join(RELEASED_NAME), OpenMode::ReadOnly) {
            Ok(file) => file.len().unwrap_or_default(),
            Err(_) => return false,
        };
        let mut released = self.released.lock();
        if released.bytes != bytes {
            released.filters.clear();
            // One that cannot be read releases nothing.
            for (key, filter) in self.read_released().map(|(_, all)| all).unwrap_or_default() {
                released.filters.entry(key).or_default().push(filter);
            }
            released.bytes = bytes;
        }
        released.filters.get(&key.0).is_some_and(|of| of.iter().any(|of| of == filter))
    }

    fn read_released(&self) -> io::Result<(AppendLog, Vec<(u128, String)>)> {
        let mut all = Vec::new();
        let (disk, path) = (self.disk.clone(), self.dir.join(RELEASED_NAME));
        let log = AppendLog::open(disk, path, FileAccess::Group, RELEASED_BYTES_MAX, |line| {
            let release = line.text().and_then(released);
            let is_one = release.is_some();
            all.extend(release);
            is_one
        })?;
        let old = all.len().saturating_sub(RELEASED_MAX);
        all.drain(..old);
        Ok((log, all))
    }

    /// Exempts the article with this key from the filter; durable on return.
    pub fn release(&self, key: ArticleKey, filter: &str) -> io::Result<()> {
        let _releasing = self.releasing.lock();
        let (mut log, mut all) = self.read_released()?;
        if all.iter().any(|(known, of)| *known == key.0 && of == filter) {
            return Ok(());
        }
        let line = format!("{:032x} {filter}", key.0);
        match log.append(&line) {
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                // Keeps the newest half.
                all.drain(..all.len() / 2);
                all.push((key.0, filter.to_owned()));
                let texts: Vec<String> = all.iter().map(|(key, of)| format!("{key:032x} {of}")).collect();
                log.replace(texts.iter().map(String::as_str))
            }
            appended => appended.and_then(|()| log.sync()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, SimDisk};

    fn open(sim: &SimDisk) -> FilterReviews {
        FilterReviews::of(Arc::new(sim.clone()), Path::new("/d"))
    }

    fn disk() -> SimDisk {
        let sim = SimDisk::new();
        sim.create_dir(Path::new("/d")).unwrap();
        sim
    }

    fn review(n: i64) -> FilterReview {
        let found = FilterFinding {
            at: 0,
            filter: "spam".into(),
            finding: FilterAction::Hidden,
            reason: "too\tmuch".into(),
        };
        let wire = format!("Message-ID: <{n}@x>\r\nSubject: a\tb\r\n c\r\nNewsgroups: a.b,c.d\r\n\r\nb\r\n");
        FilterReview::of(&found, &Article::parse(wire.as_bytes()).unwrap(), n)
    }

    #[test]
    fn findings_are_read_back_as_written() {
        let sim = disk();
        let reviews = open(&sim);
        assert!(reviews.all().unwrap().is_empty());
        reviews.add([review(1), review(2)].into_iter());
        for reviews in [reviews, open(&sim)] {
            assert_eq!(reviews.all().unwrap(), [review(1), review(2)]);
        }
        assert_eq!((&*review(1).subject, &*review(1).reason), ("a b c", "too\\u{9}much"));
    }

    #[test]
    fn the_newest_findings_are_kept() {
        let sim = disk();
        let reviews = open(&sim);
        let long = FilterReview { reason: "x".repeat(50_000), ..review(0) };
        for n in 0..500 {
            reviews.add(std::iter::once(FilterReview { at: n, ..long.clone() }));
        }
        let all = reviews.all().unwrap();
        assert_eq!(all.last().unwrap().at, 499);
        assert!(all.is_sorted_by_key(|review| review.at) && (160..340).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn releases_take_effect_at_once_and_are_bounded() {
        let sim = disk();
        let (server, command) = (open(&sim), open(&sim));
        assert!(!server.is_released(ArticleKey(1), "spam"));
        command.release(ArticleKey(1), "spam").unwrap();
        command.release(ArticleKey(1), "spam").unwrap();
        assert!(server.is_released(ArticleKey(1), "spam") && !server.is_released(ArticleKey(1), "other"));
        assert!(!server.is_released(ArticleKey(2), "spam"));
        let name = "f".repeat(2_000);
        let (mut log, _) = command.read_released().unwrap();
        let last = (10..).find(|n| log.append(&format!("{n:032x} {name}")).is_err()).unwrap();
        drop(log);
        command.release(ArticleKey(last), &name).unwrap();
        assert!(
            server.is_released(ArticleKey(last), &name) && server.is_released(ArticleKey(last - 1), &name)
        );
        assert!(!server.is_released(ArticleKey(1), "spam") && !server.is_released(ArticleKey(10), &name));
    }

    #[test]
    fn a_crash_at_any_step_loses_nothing_that_was_synced() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = disk();
                // A full log, so that the next finding begins another file.
                let full = FilterReview { reason: "x".repeat(FILE_BYTES_MAX as usize - 150), ..review(0) };
                open(&sim).add([full.clone(), review(1)].into_iter());
                let reviews = open(&sim);
                reviews.add(std::iter::once(review(1)));
                reviews.sync();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let mut synced = 1;
                for n in 2..4 {
                    reviews.add(std::iter::once(review(n)));
                    reviews.sync();
                    let released = reviews.release(ArticleKey(n as u128), "spam").is_ok();
                    if released && !sim.crashed() {
                        synced = n;
                    }
                }
                let image = open(&sim.image().unwrap());
                let what = format!("{kind:?} at step {step}");
                let all = image.all().unwrap();
                for n in 1..=synced {
                    assert!(all.contains(&review(n)), "{what}: {n}");
                    assert!(n == 1 || image.is_released(ArticleKey(n as u128), "spam"), "{what}: {n}");
                }
                image.add(std::iter::once(review(9)));
                assert!(image.all().unwrap().contains(&review(9)), "{what}");
                if !sim.crashed() {
                    assert!(step > 5, "nothing was tried");
                    break;
                }
            }
        }
    }
}
