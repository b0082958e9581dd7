//! Sources of the articles of an import: listing and reading.
//!
//! Reads other servers' files and writes nothing. Damaged articles are counted and skipped. Called by
//! `import::site` (listing) and `import::feed` (reading).

use spool::{ArticleKey, BufferApart, FetchedRecord, RecordApart, SpoolError};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::caf::{self, CafEntry, CafHeader};
use super::cnfs::{ARTICLE_HEADER_BYTES_MAX, ArticleHeader, BitmapLayout, CycbuffHeader, HEADER_BYTES};
use super::head;
use super::names::{self, SpoolFileKind};

/// Bytes of an article read at first for its head.
const HEAD_BYTES: usize = 4096;
/// Largest article read, in bytes; greater lengths count as damage.
pub const ARTICLE_BYTES_MAX: u32 = 256 << 20;

/// A source of articles.
#[derive(Debug)]
pub enum ImportSource {
    /// A buffer with many articles.
    Buffer(PathBuf, File),
    /// A timecaf file with some minutes' articles; opened to read, because a spool has thousands of them.
    Timecaf(PathBuf),
    /// Files with one article each.
    Files(ArticleFileSet),
    /// Records in a buffer of another newsreel, by their positions.
    Records(PathBuf, Box<BufferApart>, Vec<RecordApart>),
}

/// Files with one article each.
#[derive(Debug)]
pub struct ArticleFileSet {
    /// Directory that they are below.
    root: PathBuf,
    paths: Vec<PathBuf>,
    /// Other names of some of them.
    links: HashMap<PathBuf, Vec<PathBuf>>,
}

/// Location of one article.
#[derive(Debug, Clone, Copy)]
pub struct ArticleLocation {
    /// Index of its source.
    pub source: u32,
    /// Arrival in Unix seconds; 0 if unknown.
    pub arrived: u32,
    /// Byte offset, record position, or index of its file.
    pub at: u64,
    /// Length in bytes; 0 if unknown.
    pub bytes: u32,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct FoundArticles {
    /// Sources from which the articles are read.
    pub sources: Vec<ImportSource>,
    /// Locations of the articles, in the order found.
    pub items: Vec<ArticleLocation>,
    /// Articles given up while listing.
    pub damaged: u64,
    /// Articles left out because they are hidden on the other server.
    pub hidden: u64,
    /// Notes for the operator on files that were skipped.
    pub notes: Vec<String>,
}

impl FoundArticles {
    fn add_source(&mut self, source: ImportSource) -> io::Result<u32> {
        let number = u32::try_from(self.sources.len()).map_err(io::Error::other)?;
        self.sources.push(source);
        Ok(number)
    }

    /// Adds the articles of a CNFS buffer.
    pub fn add_buffer(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let mut begun = vec![0; HEADER_BYTES];
        let read = read_at_most(&file, 0, &mut begun)?;
        begun.truncate(read);
        let header = match CycbuffHeader::parse(&begun) {
            Ok(header) => header,
            Err(error) => {
                self.notes.push(format!("{} was passed over: {error}", path.display()));
                return Ok(());
            }
        };
        // Limited to the size of the file, whatever the header states.
        let there = file_bytes(&file)?.saturating_sub(HEADER_BYTES as u64);
        let mut bitmap = vec![0; usize::try_from(there).unwrap_or(usize::MAX).min(header.bitmap_bytes())];
        read_at_most(&file, HEADER_BYTES as u64, &mut bitmap)?;
        if bitmap.len() < header.bitmap_bytes() {
            self.notes.push(format!(
                "{} ends within its usage bitmap; everything after that is lost",
                path.display()
            ));
        }
        let items = buffer_items(&file, &header, &bitmap, &mut self.damaged)?;
        let source = self.add_source(ImportSource::Buffer(path.to_owned(), file))?;
        self.items.extend(items.into_iter().map(|item| ArticleLocation { source, ..item }));
        Ok(())
    }

    /// Adds the articles of a timecaf file.
    pub fn add_caf(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let mut begun = [0; caf::HEADER_BYTES];
        let read = read_at_most(&file, 0, &mut begun)?;
        let Some(header) = begun.get(..read).and_then(CafHeader::parse) else {
            self.notes.push(format!(
                "{} was passed over: its header is not that of a timecaf file",
                path.display()
            ));
            return Ok(());
        };
        // Limited to the size of the file, whatever the header states.
        let end = file_bytes(&file)?;
        let stated = header.entries as usize * caf::ENTRY_BYTES;
        let mut contents = vec![0; usize::try_from(end).unwrap_or(usize::MAX).min(stated)];
        let read = read_at_most(&file, header.contents_at, &mut contents)?;
        let source = self.add_source(ImportSource::Timecaf(path.to_owned()))?;
        for entry in contents.get(..read).unwrap_or_default().chunks_exact(caf::ENTRY_BYTES) {
            let Some(CafEntry { at, bytes, arrived }) = CafEntry::parse(entry) else { continue };
            if bytes <= ARTICLE_BYTES_MAX && at.checked_add(u64::from(bytes)).is_some_and(|to| to <= end) {
                self.items.push(ArticleLocation { source, arrived, at, bytes });
            } else {
                self.damaged += 1;
            }
        }
        Ok(())
    }

    /// Adds articles that have a file each, with their arrivals.
    pub fn add_files(
        &mut self,
        root: &Path,
        files: Vec<(PathBuf, u32)>,
        links: HashMap<PathBuf, Vec<PathBuf>>,
    ) -> io::Result<()> {
        let source = u32::try_from(self.sources.len()).map_err(io::Error::other)?;
        let items = files.iter().enumerate();
        self.items.extend(items.map(|(at, (_, arrived))| ArticleLocation {
            source,
            arrived: *arrived,
            at: at as u64,
            bytes: 0,
        }));
        let paths = files.into_iter().map(|(path, _)| path).collect();
        self.add_source(ImportSource::Files(ArticleFileSet { root: root.to_owned(), paths, links }))?;
        Ok(())
    }

    /// Adds the articles of a buffer of another newsreel.
    pub fn add_records(
        &mut self,
        path: &Path,
        buffer: BufferApart,
        hidden: &HashSet<ArticleKey>,
    ) -> Result<(), SpoolError> {
        let (mut records, left_out, damaged) = buffer.list(hidden)?;
        let all = records.len();
        records.retain(|record| record.data_bytes <= ARTICLE_BYTES_MAX);
        self.damaged += damaged + (all - records.len()) as u64;
        self.hidden += left_out;
        let source = u32::try_from(self.sources.len())
            .map_err(|_| SpoolError::Unfit("there are too many buffers".into()))?;
        self.items.extend(records.iter().map(|record| ArticleLocation {
            source,
            arrived: record.arrived,
            at: record.place,
            bytes: if record.is_packed { 0 } else { record.data_bytes },
        }));
        self.sources.push(ImportSource::Records(path.to_owned(), Box::new(buffer), records));
        Ok(())
    }

    fn source_of(&self, item: &ArticleLocation) -> Option<&ImportSource> {
        self.sources.get(item.source as usize)
    }

    /// Reads an article as it is stored; shorter than it should be if its file is. Returns false if it no
    /// longer exists.
    pub fn read(&self, item: &ArticleLocation, out: &mut Vec<u8>) -> io::Result<bool> {
        out.clear();
        match self.source_of(item) {
            Some(ImportSource::Buffer(_, file)) => read_part(file, item, out)?,
            Some(ImportSource::Timecaf(path)) => read_part(&File::open(path)?, item, out)?,
            Some(ImportSource::Files(files)) => {
                let path = files.paths.get(item.at as usize).ok_or(io::ErrorKind::NotFound)?;
                io::Read::read_to_end(
                    &mut io::Read::take(File::open(path)?, u64::from(ARTICLE_BYTES_MAX)),
                    out,
                )?;
            }
            Some(ImportSource::Records(_, buffer, records)) => {
                return read_record(buffer, records, item.at, out);
            }
            None => {}
        }
        Ok(true)
    }

    /// Reads the beginning of an article that has its head; otherwise like [`FoundArticles::read`].
    pub fn read_head(&self, item: &ArticleLocation, out: &mut Vec<u8>) -> io::Result<bool> {
        let is_record = matches!(self.source_of(item), Some(ImportSource::Records(..)));
        if item.bytes == 0 || is_record {
            return self.read(item, out);
        }
        let begun = ArticleLocation { bytes: item.bytes.min(HEAD_BYTES as u32), ..*item };
        self.read(&begun, out)?;
        if begun.bytes < item.bytes && !head::is_whole(out) { self.read(item, out) } else { Ok(true) }
    }

    /// Returns the file of an article.
    pub fn path(&self, item: &ArticleLocation) -> Option<&Path> {
        match self.source_of(item)? {
            ImportSource::Buffer(path, _) | ImportSource::Timecaf(path) | ImportSource::Records(path, ..) => {
                Some(path)
            }
            ImportSource::Files(files) => files.paths.get(item.at as usize).map(PathBuf::as_path),
        }
    }

    /// Returns the groups and numbers in the names of an article's file; empty if it is not of tradspool.
    pub fn places(&self, item: &ArticleLocation) -> Vec<(String, u64)> {
        let (Some(ImportSource::Files(files)), Some(path)) = (self.source_of(item), self.path(item)) else {
            return Vec::new();
        };
        let others = files.links.get(path).into_iter().flatten().map(PathBuf::as_path);
        let place = |path: &Path| {
            let parts = path.strip_prefix(&files.root).ok()?.iter().map(|part| part.to_str());
            match names::named(&parts.collect::<Option<Vec<_>>>()?) {
                SpoolFileKind::Trad { group, number } => Some((group, number)),
                _ => None,
            }
        };
        std::iter::once(path).chain(others).filter_map(place).collect()
    }

    /// Returns whether the tree of an article has a directory of this group without a file of this number:
    /// leafnode and C News remove a crossposted article from one group after the other.
    pub(super) fn lacks_file(&self, item: &ArticleLocation, group: &str, number: u64) -> bool {
        let Some(ImportSource::Files(files)) = self.source_of(item) else { return false };
        let dir = files.root.join(group.replace('.', "/"));
        dir.is_dir() && fs::symlink_metadata(dir.join(number.to_string())).is_err()
    }
}

/// Reads the record at a position; damage is an error.
fn read_record(
    buffer: &BufferApart,
    records: &[RecordApart],
    place: u64,
    out: &mut Vec<u8>,
) -> io::Result<bool> {
    let at = records.binary_search_by_key(&place, |record| record.place);
    let record = at.ok().and_then(|at| records.get(at)).ok_or(io::ErrorKind::NotFound)?;
    match buffer.read(record, out)? {
        FetchedRecord::Whole => Ok(true),
        FetchedRecord::Gone => Ok(false),
        FetchedRecord::Damaged(what) => Err(io::Error::new(io::ErrorKind::InvalidData, what)),
    }
}

/// Returns the articles whose bits are set. One that reaches into the next is damaged.
fn buffer_items(
    file: &File,
    header: &CycbuffHeader,
    bitmap: &[u8],
    damaged: &mut u64,
) -> io::Result<Vec<ArticleLocation>> {
    let end = header.len.min(file_bytes(file)?);
    let mut begun = [0; ARTICLE_HEADER_BYTES_MAX + 1];
    let words = BitmapLayout::detect(header, end, bitmap, |block| {
        let read = read_at_most(file, block * header.block, &mut begun)?;
        Ok(ArticleHeader::begins(begun.get(..read).unwrap_or_default()))
    })?;
    let mut items: Vec<ArticleLocation> = Vec::new();
    for block in header.blocks(end).filter(|block| words.is_set(bitmap, *block)) {
        let start = block * header.block;
        let read = read_at_most(file, start, &mut begun)?;
        let article =
            begun.get(..read).filter(|begun| ArticleHeader::begins(begun)).and_then(ArticleHeader::parse);
        let Some(article) = article.filter(|a| a.bytes <= ARTICLE_BYTES_MAX) else {
            *damaged += 1;
            continue;
        };
        let at = start + article.header_bytes as u64;
        if items.last().is_some_and(|last| last.at < at && last.at + u64::from(last.bytes) > start) {
            items.pop();
            *damaged += 1;
        }
        if at + u64::from(article.bytes) > end {
            *damaged += 1;
            continue;
        }
        items.push(ArticleLocation { source: 0, arrived: article.arrived, at, bytes: article.bytes });
    }
    Ok(items)
}

/// Returns the length of a file or block device.
fn file_bytes(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

/// Reads an article of a file with many; a part of it where the file ends.
fn read_part(file: &File, item: &ArticleLocation, out: &mut Vec<u8>) -> io::Result<()> {
    out.resize(item.bytes as usize, 0);
    let read = read_at_most(file, item.at, out)?;
    out.truncate(read);
    Ok(())
}

fn read_at_most(file: &File, at: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
