//! Files of mails below directories, and the groups derived from their names.
//!
//! `comp/lang/c.mbox` and `comp.lang.c` belong to the group comp.lang.c, and so does the folder
//! `.comp.lang.c` of a maildir. A zip file is treated as the files in it. Called by `cli::import`.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use netnews::newsgroups;

use super::zip::{self, ZipMember};
use site_base::printable;
use site_base::unpacking::unpacked_bytes_max;

/// Deepest tree walked.
const DEPTH_MAX: usize = 64;
/// Suffixes of files that are not part of a group's name.
const SUFFIXES: &[&str] =
    &["zip", "gz", "bz2", "zst", "xz", "Z", "mbox", "mbx", "mail", "rnews", "batch", "txt"];

/// Form of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailFormat {
    /// Many mails in each file.
    Mbox,
    /// One mail in each file, in `new` and `cur`.
    Maildir,
    /// One batch in each file.
    Rnews,
}

/// A file to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Last change in Unix seconds.
    pub changed: i64,
    /// Group derived from its name, or that of its directory.
    pub folder: Option<String>,
    part: FilePart,
}

/// Part of the file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FilePart {
    Whole,
    /// A file in a zip file.
    Member(ZipMember),
    /// A zip file whose members cannot be listed, with the reason.
    Unreadable(String),
}

impl MailFile {
    /// Opens the content for reading.
    pub fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match &self.part {
            FilePart::Whole => Ok(Box::new(File::open(&self.path)?)),
            FilePart::Member(member) => member.open(&self.path),
            FilePart::Unreadable(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why.clone())),
        }
    }
}

impl fmt::Display for MailFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.part {
            FilePart::Member(member) => write!(f, " ({})", printable::line(&member.name)),
            FilePart::Whole | FilePart::Unreadable(_) => Ok(()),
        }
    }
}

/// Returns all files of the given paths; directories are walked in order of name, maildirs in order of
/// arrival.
pub fn find(form: MailFormat, paths: &[PathBuf]) -> io::Result<Vec<MailFile>> {
    let mut found = Vec::new();
    for path in paths {
        let about = fs::metadata(path).map_err(|error| named(path, &error))?;
        let last = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if about.is_file() {
            add(form, source(path.clone(), &about, group(last.into_iter().collect())), &mut found);
        } else if about.is_dir() {
            walk(form, path, &mut FolderWalk { root: last, parts: Vec::new() }, &mut found)
                .map_err(|error| named(path, &error))?;
        }
    }
    Ok(found)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// State of a walk.
struct FolderWalk {
    /// Name of the directory given by the user.
    root: Option<String>,
    /// Directories below it.
    parts: Vec<String>,
}

fn walk(form: MailFormat, dir: &Path, at: &mut FolderWalk, found: &mut Vec<MailFile>) -> io::Result<()> {
    if form == MailFormat::Maildir && (dir.join("cur").is_dir() || dir.join("new").is_dir()) {
        let parts =
            if at.parts.is_empty() { at.root.clone().into_iter().collect() } else { at.parts.clone() };
        maildir(dir, &group(parts), found)?;
    }
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        let is_own = form == MailFormat::Maildir && ["cur", "new", "tmp"].contains(&name.as_str());
        at.parts.push(name);
        if kind.is_dir() && at.parts.len() < DEPTH_MAX && !is_own {
            walk(form, &entry.path(), at, found)?;
        } else if kind.is_file() && form != MailFormat::Maildir {
            add(form, source(entry.path(), &entry.metadata()?, group(at.parts.clone())), found);
        }
        at.parts.pop();
    }
    Ok(())
}

fn maildir(dir: &Path, group: &Option<String>, found: &mut Vec<MailFile>) -> io::Result<()> {
    let mut mails = Vec::new();
    for part in ["cur", "new"] {
        let entries = match fs::read_dir(dir.join(part)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Readers skip names that begin with a dot (maildir(5)), as those of network file systems.
            if entry.file_type()?.is_file() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
                mails.push(source(entry.path(), &entry.metadata()?, group.clone()));
            }
        }
    }
    mails.sort_by_cached_key(|mail| (delivered(&mail.path), mail.path.file_name().map(ToOwned::to_owned)));
    found.append(&mut mails);
    Ok(())
}

/// Earliest delivery that the name of a mail can tell, in Unix seconds (1973): a smaller number counts mails.
const DELIVERED_MIN: i64 = 100_000_000;

/// Returns when a mail of a maildir was delivered, which is the beginning of its name.
pub fn delivered(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?;
    let digits = name.split(['.', ':']).next()?;
    digits.parse().ok().filter(|secs| (DELIVERED_MIN..=i64::from(u32::MAX)).contains(secs))
}

fn source(path: PathBuf, about: &fs::Metadata, folder: Option<String>) -> MailFile {
    let changed = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let changed = changed.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    MailFile { path, bytes: about.len(), changed, folder, part: FilePart::Whole }
}

/// Adds a file, or the files in a zip file.
fn add(form: MailFormat, file: MailFile, found: &mut Vec<MailFile>) {
    // An unreadable file is reported when it is processed.
    if form == MailFormat::Maildir || !zip::is_zip(&file.path).unwrap_or(false) {
        return found.push(file);
    }
    match zip::members(&file.path) {
        Ok(members) => found.extend(members.into_iter().map(|member| MailFile {
            path: file.path.clone(),
            bytes: member.bytes.min(unpacked_bytes_max(member.packed_bytes)),
            changed: file.changed,
            folder: member_folder(&member.name, file.folder.as_deref()),
            part: FilePart::Member(member),
        })),
        Err(error) => found.push(MailFile { part: FilePart::Unreadable(error.to_string()), ..file }),
    }
}

/// Returns the group for a file in a zip file: the last part of its name if that has a dot, otherwise the
/// zip file's own.
fn member_folder(name: &str, archive: Option<&str>) -> Option<String> {
    let last = group(name.rsplit('/').next().map(str::to_owned).into_iter().collect());
    last.filter(|group| group.contains('.')).or_else(|| archive.map(str::to_owned))
}

/// Returns the group derived from the names of directories and a file.
fn group(mut parts: Vec<String>) -> Option<String> {
    if let Some(last) = parts.last_mut() {
        while let Some((stem, suffix)) = last.rsplit_once('.')
            && SUFFIXES.contains(&suffix)
        {
            *last = stem.to_owned();
        }
    }
    let name = parts.join(".").trim_matches('.').replace("..", ".");
    newsgroups::valid_name(name.as_bytes()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::TempDir::new().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }

    fn folders(form: MailFormat, paths: &[PathBuf]) -> Vec<(String, Option<String>)> {
        let name = |source: &MailFile| source.path.file_name().unwrap().to_string_lossy().into_owned();
        find(form, paths).unwrap().iter().map(|source| (name(source), source.folder.clone())).collect()
    }

    fn row(name: &str, folder: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(folder.to_owned()).filter(|folder| !folder.is_empty()))
    }

    #[test]
    fn groups_are_derived_from_file_names() {
        let dir = tree(&["comp/lang/c.mbox", "comp.lang.ada.mbox.gz", "odd name", "misc.test"]);
        let found = folders(MailFormat::Mbox, &[dir.path().to_owned(), dir.path().join("misc.test")]);
        assert_eq!(
            found,
            [
                row("c.mbox", "comp.lang.c"),
                row("comp.lang.ada.mbox.gz", "comp.lang.ada"),
                row("misc.test", "misc.test"),
                row("odd name", ""),
                row("misc.test", "misc.test"),
            ]
        );
        assert!(find(MailFormat::Mbox, &[dir.path().join("none")]).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn groups_are_derived_from_maildir_folders() {
        let dir = tree(&[
            "box/cur/700000000.b:2,S",
            "box/new/500000000.a",
            "box/new/.nfs0001",
            "box/tmp/x",
            "box/.comp.lang.c/new/900000000.c",
            "box/notes",
        ]);
        let found = folders(MailFormat::Maildir, &[dir.path().join("box")]);
        assert_eq!(
            found,
            [row("500000000.a", "box"), row("700000000.b:2,S", "box"), row("900000000.c", "comp.lang.c")]
        );
        let times = ["a/1795810979.b:2,S", "a/x.7", "a/1"].map(|name| delivered(Path::new(name)));
        assert_eq!(times, [Some(1_795_810_979), None, None]);
    }
}
