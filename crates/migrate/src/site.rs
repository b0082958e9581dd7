//! Data to be imported: from the site of an INN, or from given files. (`newsreel` finds the data of another
//! newsreel.)
//!
//! In a directory, inn.conf is looked for (in it or in its `etc`); the paths in that file lead to
//! everything else. If these do not exist (a copy of another machine's disk), and without inn.conf, the
//! usual places below the directory are used. Called by `cli::import`. Sources: inn.conf(5),
//! storage.conf(5).

use netnews::control::group_info::lines_to_utf8;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::conf::{self, HistoryArrivals, OtherGroup};
use super::overview::{OverviewIndex, ShownNumbers};
use super::source::{ArticleLocation, FoundArticles};
use super::walk::SpoolTree;
use site_base::units::counted;

/// Longest configuration or group file read, in bytes.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// Most invalid lines of an active file that are reported.
const ODD_LINES_MAX: usize = 20;

/// Directory of posts that leafnode has not sent yet.
const LEAFNODE_OUTGOING: &str = "out.going";

/// Maximum number of unsent posts that are named.
const UNSENT_NAMED_MAX: usize = 10;

/// Data to be imported.
#[derive(Debug, Default)]
pub struct OtherSite {
    /// Groups of the active file; empty if there is none.
    pub groups: BTreeMap<String, OtherGroup>,
    /// Whether articles may be in groups missing from the list, as in leafnode's local ones.
    pub has_other_groups: bool,
    /// Numbers in its overview, by group, as far as that can be read.
    shown: HashMap<String, ShownNumbers>,
    /// Articles found in its spool.
    pub found: FoundArticles,
    /// History, if arrivals are not in the spool itself.
    pub arrivals: HistoryArrivals,
    /// Report of the data found, for display.
    pub told: Vec<String>,
}

impl OtherSite {
    /// Finds all data of an INN in the given directories and files.
    pub fn inn(paths: &[PathBuf]) -> io::Result<Self> {
        let mut inn = Self::default();
        for path in paths {
            let about = fs::metadata(path).map_err(|e| named(path, e))?;
            let result = if about.is_dir() { inn.directory(path) } else { inn.file(path) };
            result.map_err(|e| named(path, e))?;
        }
        Ok(inn)
    }

    fn directory(&mut self, dir: &Path) -> io::Result<()> {
        let conf = first([dir.join("inn.conf"), dir.join("etc/inn.conf")]);
        let conf = conf.map(|path| text(&path)).transpose()?.unwrap_or_default();
        let key = |name: &str| conf::inn_conf(&conf, name).map(PathBuf::from);
        let below = |names: &[&str]| names.iter().map(|name| dir.join(name)).collect::<Vec<_>>();
        let place = |name: &str, usual: &[&str]| first(key(name).into_iter().chain(below(usual)));
        let etc = place("pathetc", &["etc", "."]).unwrap_or_else(|| dir.to_owned());
        let db = place("pathdb", &["db", "."]).unwrap_or_else(|| dir.to_owned());
        let spool_dir = |key_name: &str, name: &str| {
            let spool = key("pathspool").map(|spool| spool.join(name));
            let usual = [dir.join("spool").join(name), dir.join(name)];
            first(key(key_name).into_iter().chain(spool).chain(usual))
        };
        let articles = spool_dir("patharticles", "articles");
        self.group_files(&db)?;
        let buffers = first([etc.join("cycbuff.conf"), dir.join("cycbuff.conf")]);
        let buffers = buffers
            .map(|path| text(&path))
            .transpose()?
            .map(|text| conf::cycbuffs(&text))
            .unwrap_or_default();
        // A cycbuff.conf may be present but unused.
        let storage = first([etc.join("storage.conf"), dir.join("storage.conf")]);
        let storage = storage.map(|path| text(&path)).transpose()?;
        let in_use = storage.is_none_or(|text| conf::uses_cnfs(&text));
        let mut seen = 0;
        for (name, path) in &buffers {
            let path = Path::new(path);
            let beside =
                path.file_name().into_iter().flat_map(|file| [dir.join("cnfs").join(file), dir.join(file)]);
            let Some(path) = first([path.to_owned()].into_iter().chain(beside)) else {
                if in_use {
                    self.found.notes.push(format!("buffer {name}: {} is not there", path.display()));
                }
                continue;
            };
            let before = (self.found.notes.len(), self.found.sources.len());
            self.found.add_buffer(&path).map_err(|e| named(&path, e))?;
            // If CNFS is not in use, a file that is not a buffer was never written to.
            if !in_use && self.found.sources.len() == before.1 {
                self.found.notes.truncate(before.0);
                continue;
            }
            seen += 1;
        }
        if seen > 0 {
            self.told.push(counted(seen as u64, "CNFS buffer"));
        }
        let tree = articles.or_else(|| (buffers.is_empty() && conf.is_empty()).then(|| dir.to_owned()));
        tree.map_or(Ok(()), |root| self.tree(&root, &db))?;
        // Read last: an article that is found is in the overview by now if its number is in `active`.
        let is_indexed = key("ovmethod").is_none_or(|method| method == Path::new("tradindexed"));
        let overview = spool_dir("pathoverview", "overview").filter(|_| is_indexed);
        overview.map_or(Ok(()), |root| self.overview(&root).map_err(|e| named(&root, e)))
    }

    fn overview(&mut self, root: &Path) -> io::Result<()> {
        let Some(index) = OverviewIndex::read(root)? else { return Ok(()) };
        for name in self.groups.keys() {
            if let Some(shown) = index.shown(name)? {
                self.shown.insert(name.clone(), shown);
            }
        }
        let groups = counted(self.shown.len() as u64, "group");
        self.told.push(format!("overview of {groups} below {}", root.display()));
        Ok(())
    }

    /// Returns whether the other server still shows an article in a group of its Xref. Where its overview is
    /// not read, the low mark decides, and the file that an article in `tree` has in each of its groups.
    pub(super) fn shows(&self, tree: Option<&ArticleLocation>, name: &[u8], number: u64) -> bool {
        let Ok(name) = std::str::from_utf8(name) else { return true };
        let group = self.groups.get(name);
        match self.shown.get(name) {
            // Beyond the list of groups: the article has arrived since that was read.
            Some(shown) => group.is_none_or(|group| number > group.high) || shown.has(number),
            None => {
                group.is_none_or(|group| number >= group.low)
                    && tree.is_none_or(|item| !self.found.lacks_file(item, name, number))
            }
        }
    }

    fn group_files(&mut self, db: &Path) -> io::Result<()> {
        let Some(active) = first([db.join("active")]) else { return self.groupinfo(db) };
        let read = text(&active)?;
        let (mut groups, odd) = conf::active(&read);
        self.note_odd_lines(&active, &odd);
        if let Some(path) = first([db.join("newsgroups")]) {
            conf::descriptions(&text(&path)?, &mut groups);
        }
        if let Some(path) = first([db.join("active.times")]) {
            conf::times(&text(&path)?, &mut groups);
        }
        self.told.push(format!("{} with {}", active.display(), counted(groups.len() as u64, "group")));
        self.groups.append(&mut groups);
        Ok(())
    }

    /// Adds the groups of a leafnode's spool.
    fn groupinfo(&mut self, spool: &Path) -> io::Result<()> {
        let Some(path) = first([spool.join("leaf.node/groupinfo")]) else { return Ok(()) };
        let is_used = |name: &str| {
            let articles = spool.join(name.replace('.', "/"));
            spool.join("interesting.groups").join(name).exists() || has_numbered_file(&articles)
        };
        let mut groups = conf::groupinfo(&text(&path)?, is_used);
        self.told.push(format!(
            "{} with {} fetched before or read",
            path.display(),
            counted(groups.len() as u64, "group")
        ));
        self.groups.append(&mut groups);
        self.has_other_groups = true;
        Ok(())
    }

    fn note_odd_lines(&mut self, active: &Path, odd: &[(usize, &str)]) {
        let file = active.display();
        let named = odd.iter().take(ODD_LINES_MAX);
        self.found.notes.extend(named.map(|(at, line)| format!("{file}, line {at} makes no sense: {line}")));
        if let Some(more) = odd.len().checked_sub(ODD_LINES_MAX).filter(|more| *more > 0) {
            self.found.notes.push(format!("{file}: {} like that", counted(more as u64, "more line")));
        }
    }

    fn tree(&mut self, root: &Path, db: &Path) -> io::Result<()> {
        let root = &fs::canonicalize(root)?;
        let tree = SpoolTree::walk(root)?;
        for (count, what) in [
            (tree.trad.len(), "tradspool articles"),
            (tree.hashed.len(), "timehash articles"),
            (tree.cafs.len(), "timecaf files"),
        ] {
            if count > 0 {
                self.told.push(format!("{count} {what} below {}", root.display()));
            }
        }
        if let Some(history) = first([db.join("history")]) {
            // Only tradspool does not store the arrival elsewhere.
            self.history(&history, !tree.trad.is_empty())?;
        }
        self.found.add_files(root, tree.trad, tree.links)?;
        self.found.add_files(root, tree.hashed, HashMap::new())?;
        for path in &tree.cafs {
            self.found.add_caf(path).map_err(|e| named(path, e))?;
        }
        self.note_unsent(root);
        Ok(())
    }

    /// Reports posts that a leafnode has accepted and not sent to its servers.
    fn note_unsent(&mut self, root: &Path) {
        let dir = root.join(LEAFNODE_OUTGOING);
        let Ok(entries) = fs::read_dir(&dir) else { return };
        let files = entries.filter_map(Result::ok).filter(|entry| entry.path().is_file());
        let mut names: Vec<String> =
            files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        if names.is_empty() {
            return;
        }
        names.sort_unstable();
        let posts = counted(names.len() as u64, "post");
        let more = if names.len() > UNSENT_NAMED_MAX { ", ..." } else { "" };
        names.truncate(UNSENT_NAMED_MAX);
        self.found.notes.push(format!(
            "{}: {posts} not sent yet, and not imported ({}{more}); send with fetchnews first, or post with: \
             newsreel post FILE",
            dir.display(),
            names.join(", ")
        ));
    }

    fn history(&mut self, path: &Path, arrivals: bool) -> io::Result<()> {
        let mut lines = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut line = Vec::new();
        let mut all = HistoryArrivals::default();
        while lines.by_ref().take(1 << 16).read_until(b'\n', &mut line)? > 0 {
            conf::history_line(line.trim_ascii_end(), &mut all);
            if !arrivals {
                all.by_hash.clear();
            }
            line.clear();
        }
        self.arrivals.remembered += all.remembered;
        self.arrivals.by_hash.extend(all.by_hash);
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let mut begun = Vec::new();
        File::open(path)?.take(8).read_to_end(&mut begun)?;
        if begun.starts_with(b"CRMT") {
            self.told.push(format!("timecaf file {}", path.display()));
            return self.found.add_caf(path);
        }
        if begun.starts_with(b"CBuf") || begun.starts_with(b"Cycbuff") {
            self.told.push(format!("CNFS buffer {}", path.display()));
            return self.found.add_buffer(path);
        }
        let read = text(path)?;
        let (mut groups, odd) = conf::active(&read);
        if groups.is_empty() {
            let advice = "neither a CNFS buffer, nor a timecaf file, nor an active file";
            return Err(io::Error::new(io::ErrorKind::InvalidData, advice));
        }
        self.note_odd_lines(path, &odd);
        self.told.push(format!("{} with {}", path.display(), counted(groups.len() as u64, "group")));
        self.groups.append(&mut groups);
        Ok(())
    }
}

/// Returns whether a directory has a file whose name is a number, as an article's.
fn has_numbered_file(dir: &Path) -> bool {
    let is_article = |entry: fs::DirEntry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)
    };
    fs::read_dir(dir).into_iter().flatten().flatten().any(is_article)
}

fn first(paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    paths.into_iter().find(|path| path.exists())
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|e| named(path, e))?;
    Ok(lines_to_utf8(&bytes))
}

pub(super) fn named(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    let name = path.display().to_string();
    if text.contains(&name) { error } else { io::Error::new(error.kind(), format!("{name}: {text}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_leafnode_with_articles_or_readers_are_taken_and_others_are_not() {
        let spool = tempfile::tempdir().unwrap();
        for dir in ["leaf.node", "interesting.groups", "sci/one", "sci/none/sub"] {
            fs::create_dir_all(spool.path().join(dir)).unwrap();
        }
        let groups =
            ["sci.one", "sci.none", "sci.read", "sci.more"].map(|name| format!("{name} 1 1 0 -x-\n"));
        fs::write(spool.path().join("leaf.node/groupinfo"), groups.concat()).unwrap();
        fs::write(spool.path().join("interesting.groups/sci.read"), "").unwrap();
        fs::write(spool.path().join("sci/one/1"), "Newsgroups: sci.one\n\nx\n").unwrap();
        fs::write(spool.path().join("sci/none/.overview"), "").unwrap();
        let site = OtherSite::inn(&[spool.path().to_owned()]).unwrap();
        assert_eq!(site.groups.keys().collect::<Vec<_>>(), ["sci.one", "sci.read"]);
    }

    #[test]
    fn unsent_posts_of_a_leafnode_are_counted_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let outgoing = dir.path().join(LEAFNODE_OUTGOING);
        fs::create_dir(&outgoing).unwrap();
        let notes = || OtherSite::inn(&[dir.path().to_owned()]).unwrap().found.notes;
        assert_eq!(notes(), Vec::<String>::new());
        for name in ["1764000000-12", "1764000001-13"] {
            fs::write(outgoing.join(name), "Newsgroups: a.b\n\nunsent\n").unwrap();
        }
        let notes = notes();
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(note.contains("2 posts not sent yet"), "{note}");
        assert!(note.contains("1764000000-12, 1764000001-13"), "{note}");
    }
}
