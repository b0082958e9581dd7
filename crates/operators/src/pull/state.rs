//! Durable progress of fetching from a server: a mark for each group, and articles that were set aside.
//!
//! One file for each server, replaced as a whole. A mark never passes an article that is neither filed,
//! decided about nor set aside, so articles lost in a crash are fetched again. A lock beside the file
//! prevents two simultaneous pulls from one server. Format: `docs/formats/pull.md`. Called by `pull::run`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{CheckedFile, Disk, FileAccess, durable_replace, read_or_set_aside};

use super::aside::{AsideArticle, FetchRefusal, RemoteArticle};
use site_base::summed::{text_without_sum, with_sum};

/// Directory below `site.data`.
const DIR: &str = "pull";
const FIRST_LINE: &str = "newsreel pull 2";
/// First line of files without articles that were set aside, as earlier versions wrote them.
const FIRST_LINE_BEFORE: &str = "newsreel pull 1";
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of articles of one server that are set aside.
const ASIDES_MAX: usize = 10_000;

/// Progress of fetching.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct PullProgress {
    /// Highest number done, by group.
    groups: BTreeMap<String, u64>,
    /// Time for the next NEWNEWS request by wildmat, in Unix seconds by the server's clock.
    newnews: BTreeMap<String, u64>,
    /// Articles that the server refuses to send.
    asides: BTreeMap<RemoteArticle, AsideArticle>,
}

/// Effect of a refusal on an article.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetAsideOutcome {
    /// Requested again on a later run; contains the number of refusals.
    Waits(u32),
    /// Refused for too long, this many times, and not requested any more.
    GivenUp(u32),
    /// More articles are refused than can wait.
    TooMany,
}

/// Marks of one server.
pub(super) struct PullMarks {
    disk: Arc<dyn Disk>,
    file: PathBuf,
    known: PullProgress,
    is_changed: bool,
    /// Held as long as the marks may be written.
    _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for PullMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullMarks").field("file", &self.file).finish_non_exhaustive()
    }
}

impl PullMarks {
    /// Opens the marks of the server at `address`, for a site whose spool is in `data`. A damaged file counts
    /// as empty, and the second value is true.
    pub fn open(disk: Arc<dyn Disk>, data: &Path, address: &str) -> io::Result<(Self, bool)> {
        let dir = data.join(DIR);
        disk.create_dir(&dir)?;
        let name = file_name(address);
        // Released with this value, even if a program being started has inherited the descriptor.
        let lock = disk.lock(&dir.join(format!("{name}.lock"))).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::WouldBlock, format!("another pull from {address} is running"))
            }
            _ => error,
        })?;
        let file = dir.join(format!("{name}.marks"));
        let costs = "what was fetched from this server is looked at again, and what is here is not fetched";
        let read = read_or_set_aside(&*disk, &file, FILE_BYTES_MAX, costs, parse)?;
        let is_damaged = matches!(read, CheckedFile::SetAside(_));
        let known = read.whole().unwrap_or_default();
        Ok((Self { disk, file, known, is_changed: false, _lock: lock }, is_damaged))
    }

    /// Returns the mark of a group; `None` if it was never fetched from.
    pub fn group(&self, name: &str) -> Option<u64> {
        self.known.groups.get(name).copied()
    }

    /// Records that everything up to `mark` is done.
    pub fn set_group(&mut self, name: &str, mark: u64) {
        self.is_changed |= self.known.groups.insert(name.to_owned(), mark) != Some(mark);
    }

    /// Returns the time for the next NEWNEWS request about these groups.
    pub fn newnews(&self, groups: &str) -> Option<u64> {
        self.known.newnews.get(groups).copied()
    }

    /// Records that everything that had arrived by `since` is done.
    pub fn set_newnews(&mut self, groups: &str, since: u64) {
        self.is_changed |= self.known.newnews.insert(groups.to_owned(), since) != Some(since);
    }

    /// Returns the refused articles that are to be requested again at `now` (Unix seconds), if they are given
    /// up after `give_up_secs`.
    pub fn due(&self, now: u64, give_up_secs: u64) -> Vec<RemoteArticle> {
        let due = |(_, aside): &(&RemoteArticle, &AsideArticle)| aside.is_due(now, give_up_secs);
        self.known.asides.iter().filter(due).map(|(article, _)| article.clone()).collect()
    }

    /// Returns the articles that were set aside.
    pub fn asides(&self) -> &BTreeMap<RemoteArticle, AsideArticle> {
        &self.known.asides
    }

    /// Records that the server refuses to send an article at `now` (Unix seconds); articles are given up
    /// after `give_up_secs`.
    pub fn set_aside(
        &mut self,
        article: &RemoteArticle,
        refusal: &FetchRefusal,
        now: u64,
        give_up_secs: u64,
    ) -> SetAsideOutcome {
        let asides = &mut self.known.asides;
        let before = asides.remove(article);
        if before.is_none() && asides.len() >= ASIDES_MAX {
            return SetAsideOutcome::TooMany;
        }
        self.is_changed = true;
        let (tries, first) = before.map_or((1, now), |before| (before.tries.saturating_add(1), before.first));
        let aside = AsideArticle { tries, first, last: now, refusal: refusal.clone() };
        if aside.is_given_up(give_up_secs) {
            return SetAsideOutcome::GivenUp(tries);
        }
        asides.insert(article.clone(), aside);
        SetAsideOutcome::Waits(tries)
    }

    /// Removes an article that was set aside and is now done.
    pub fn take_back(&mut self, article: &RemoteArticle) {
        self.is_changed |= self.known.asides.remove(article).is_some();
    }

    /// Writes the marks durably, if they have changed. The articles they cover must be durable already.
    pub fn save(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_changed) {
            let written =
                durable_replace(&*self.disk, &self.file, &[self.text().as_bytes()], FileAccess::Group);
            self.is_changed = written.is_err();
            written?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        let PullProgress { groups, newnews, asides } = &self.known;
        groups.iter().for_each(|(name, mark)| text.push_str(&format!("group {mark} {name}\n")));
        newnews.iter().for_each(|(groups, since)| text.push_str(&format!("newnews {since} {groups}\n")));
        for (article, aside) in asides {
            text.push_str(&format!("aside {}\n", aside.to_line(article)));
        }
        with_sum(text)
    }
}

/// Returns whether a file of marks is whole.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    parse(bytes).is_some()
}

fn parse(text: &[u8]) -> Option<PullProgress> {
    let lines = text_without_sum(text)?;
    let mut lines = lines.lines();
    if !matches!(lines.next()?, FIRST_LINE | FIRST_LINE_BEFORE) {
        return None;
    }
    let mut known = PullProgress::default();
    for line in lines {
        let (kind, rest) = line.split_once(' ')?;
        if kind == "aside" {
            let (article, aside) = AsideArticle::of_line(rest)?;
            known.asides.insert(article, aside);
            continue;
        }
        let (number, name) = rest.split_once(' ')?;
        let number = number.parse().ok()?;
        match kind {
            "group" => known.groups.insert(name.to_owned(), number),
            "newnews" => known.newnews.insert(name.to_owned(), number),
            _ => return None,
        };
    }
    Some(known)
}

/// Converts `news.example.net:119` to a file name: characters other than letters, digits, `.` and `-` become
/// `_`.
fn file_name(address: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
    address.to_ascii_lowercase().chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashKind, RealDisk, SimDisk};
    use std::fs;

    const SERVER: &str = "News.example.net:119";

    fn opened(data: &Path, address: &str) -> io::Result<(PullMarks, bool)> {
        PullMarks::open(Arc::new(RealDisk::new()), data, address)
    }

    #[test]
    fn marks_are_read_back_and_locked_by_one_pull() {
        let data = tempfile::tempdir().unwrap();
        let (mut marks, is_damaged) = opened(data.path(), SERVER).unwrap();
        assert!(!is_damaged && marks.group("a.b").is_none());
        marks.set_group("a.b", 17);
        marks.set_newnews("a.*,!a.c", 1_000_000_000);
        marks.save().unwrap();
        assert_eq!(opened(data.path(), SERVER).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        opened(data.path(), "news.example.net:563").unwrap();
        drop(marks);
        let (marks, is_damaged) = opened(data.path(), SERVER).unwrap();
        assert_eq!((marks.group("a.b"), marks.newnews("a.*,!a.c")), (Some(17), Some(1_000_000_000)));
        assert!(!is_damaged && marks.file.ends_with("pull/news.example.net_119.marks"));
    }

    #[test]
    fn articles_set_aside_wait_until_given_up() {
        let data = tempfile::tempdir().unwrap();
        let (mut marks, _) = opened(data.path(), SERVER).unwrap();
        let article = RemoteArticle { group: "a.b".into(), number: 7, id: "<1@x>".into() };
        let other = RemoteArticle::of_id("<2@x>".into());
        let refusal = FetchRefusal::answer(451, b"removed");
        assert_eq!(marks.set_aside(&article, &refusal, 1_000, 1_000), SetAsideOutcome::Waits(1));
        assert_eq!(marks.set_aside(&other, &refusal, 1_000, 1_000), SetAsideOutcome::Waits(1));
        marks.save().unwrap();
        drop(marks);
        let (mut marks, _) = opened(data.path(), SERVER).unwrap();
        assert_eq!((marks.asides().len(), marks.due(1_009, 1_000).len()), (2, 0));
        assert_eq!(marks.due(1_010, 1_000), [other.clone(), article.clone()]);
        marks.take_back(&other);
        assert_eq!(marks.set_aside(&article, &refusal, 1_500, 1_000), SetAsideOutcome::Waits(2));
        assert_eq!(marks.set_aside(&article, &refusal, 2_000, 1_000), SetAsideOutcome::GivenUp(3));
        assert!(marks.asides().is_empty() && marks.is_changed);
        for number in 0..ASIDES_MAX as u64 {
            let article = RemoteArticle { number, ..article.clone() };
            assert_eq!(marks.set_aside(&article, &refusal, 1, 9), SetAsideOutcome::Waits(1));
        }
        assert_eq!(marks.set_aside(&other, &refusal, 1, 9), SetAsideOutcome::TooMany);
    }

    #[test]
    fn file_of_version_1_is_read() {
        let data = tempfile::tempdir().unwrap();
        let (marks, _) = opened(data.path(), SERVER).unwrap();
        let file = marks.file.clone();
        drop(marks);
        fs::write(&file, with_sum("newsreel pull 1\ngroup 17 a.b\nnewnews 5 a.*\n".into())).unwrap();
        let (marks, is_damaged) = opened(data.path(), SERVER).unwrap();
        assert!(!is_damaged);
        assert_eq!((marks.group("a.b"), marks.newnews("a.*")), (Some(17), Some(5)));
    }

    #[test]
    fn any_damage_to_the_file_is_noticed() {
        let data = tempfile::tempdir().unwrap();
        let (mut marks, _) = opened(data.path(), SERVER).unwrap();
        marks.set_group("a.b", 17);
        marks.save().unwrap();
        let file = marks.file.clone();
        drop(marks);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            for text in [&damaged[..], &whole[..at]] {
                fs::write(&file, text).unwrap();
                let (marks, is_damaged) = opened(data.path(), SERVER).unwrap();
                assert!(is_damaged && marks.group("a.b").is_none(), "{at}");
            }
        }
    }

    #[test]
    fn a_crash_at_any_write_leaves_the_marks_before_or_after_it() {
        for kind in [CrashKind::Kill, CrashKind::Power, CrashKind::Lost] {
            for step in 0.. {
                let sim = SimDisk::new();
                let open = |sim: &SimDisk| PullMarks::open(Arc::new(sim.clone()), Path::new("/site"), SERVER);
                let set = |mark| {
                    let mut marks = open(&sim)?.0;
                    marks.set_group("a.b", mark);
                    marks.save()
                };
                set(17).unwrap();
                sim.crash_at(sim.steps() + step, kind, step * 7919);
                let is_done = set(18).is_ok();
                let (marks, is_damaged) = open(&sim.image().unwrap()).unwrap();
                let mark = marks.group("a.b");
                let what = format!("{kind:?} at step {step}: {mark:?}");
                assert!(!is_damaged && (mark == Some(18) || mark == Some(17) && !is_done), "{what}");
                if !sim.crashed() {
                    assert!(step > 3, "nothing was tried");
                    break;
                }
            }
        }
    }
}
