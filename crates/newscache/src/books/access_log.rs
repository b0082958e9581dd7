//! The access log: a line for each request of a reader, written in blocks, to a file of bounded size.
//!
//! Format: `docs/formats/access-log.md`. A failed write loses lines, and affects nothing else. Called by
//! `cache`; read by `simulate`.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{Disk, DiskFile, OpenMode};

use crate::books::stats::{CacheAccess, RequestKind};

/// Size of the buffer for lines, in bytes.
const BUFFER_BYTES: usize = 32 << 10;
/// Maximum length of a line that is read.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct AccessLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    end: u64,
    bytes_max: u64,
    lines: String,
    failed: Option<io::Error>,
}

impl AccessLog {
    pub fn open(disk: Arc<dyn Disk>, path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::Create)?;
        let end = file.len()?;
        let lines = String::with_capacity(BUFFER_BYTES + LINE_BYTES_MAX);
        Ok(Self { disk, path: path.to_owned(), file, end, bytes_max, lines, failed: None })
    }

    pub fn add(&mut self, access: &CacheAccess<'_>) {
        put_line(access, &mut self.lines);
        if self.lines.len() >= BUFFER_BYTES
            && let Err(error) = self.write()
        {
            self.failed = Some(error);
        }
    }

    /// Writes the buffer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.failed.take().map_or(Ok(()), Err)
    }

    fn write(&mut self) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        if self.end > 0 && self.end + lines.len() as u64 > self.bytes_max {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            self.disk.rename(&self.path, Path::new(&old))?;
            self.file = self.disk.open(&self.path, OpenMode::Create)?;
            self.end = 0;
        }
        self.file.write_all_at(&[IoSlice::new(lines.as_bytes())], self.end)?;
        self.end += lines.len() as u64;
        self.lines = lines;
        self.lines.clear();
        Ok(())
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if let Err(error) = self.flush()
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!("cannot write the access log {}: {error}", self.path.display());
        }
    }
}

/// Appends a word without its blanks, cut at the maximum length.
fn put_word(word: &[u8], line: &mut String) {
    const WORD_BYTES_MAX: usize = 512;
    line.push(' ');
    if word.is_empty() {
        line.push('-');
    }
    for byte in word.iter().take(WORD_BYTES_MAX) {
        match byte {
            b'!'..=b'$' | b'&'..=b'~' => line.push(char::from(*byte)),
            other => _ = write!(line, "%{other:02X}"),
        }
    }
}

/// Appends the line of a request.
pub(crate) fn put_line(access: &CacheAccess<'_>, line: &mut String) {
    _ = write!(line, "{}", access.at);
    put_word(access.client.as_bytes(), line);
    put_word(access.kind.name().as_bytes(), line);
    put_word(access.upstream.as_bytes(), line);
    put_word(access.group, line);
    _ = write!(line, " {}", access.number);
    put_word(access.id, line);
    let hit = if access.is_hit { "hit" } else { "miss" };
    _ = writeln!(line, " {} {} {hit}", access.cache_bytes, access.upstream_bytes);
}

/// A line that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessLine<'a> {
    pub at: u64,
    pub client: &'a str,
    pub kind: RequestKind,
    /// Group as written: nothing is decoded.
    pub group: &'a str,
    pub number: u64,
    pub id: &'a str,
    pub bytes: u64,
    pub is_hit: bool,
}

/// Parses a line; `None` if it is invalid.
pub(crate) fn parse_line(line: &str) -> Option<AccessLine<'_>> {
    if line.len() > LINE_BYTES_MAX {
        return None;
    }
    let mut words = line.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let at = word()?.parse().ok()?;
    let client = word()?;
    let kind = word()?;
    let kind = RequestKind::ALL.into_iter().find(|known| known.name() == kind)?;
    let (_upstream, group) = (word()?, word()?);
    let number = word()?.parse().ok()?;
    let id = word()?;
    let cached: u64 = word()?.parse().ok()?;
    let bytes = cached.checked_add(word()?.parse().ok()?)?;
    let is_hit = match word()? {
        "hit" => true,
        "miss" => false,
        _ => return None,
    };
    words.next().is_none().then_some(AccessLine { at, client, kind, group, number, id, bytes, is_hit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{SimDisk, read_small};

    fn access(number: u64) -> CacheAccess<'static> {
        CacheAccess {
            at: 1_700_000_000,
            client: "192.0.2.1",
            kind: RequestKind::Article,
            upstream: "isp one",
            group: b"a.b\xff",
            number,
            id: b"<a%b@c>",
            cache_bytes: 0,
            upstream_bytes: 2350,
            is_hit: false,
        }
    }

    #[test]
    fn lines_are_read_back() {
        let mut text = String::new();
        put_line(&access(7), &mut text);
        assert_eq!(text, "1700000000 192.0.2.1 article isp%20one a.b%FF 7 <a%25b@c> 0 2350 miss\n");
        let line = parse_line(text.trim_end()).unwrap();
        assert_eq!((line.at, line.number, line.bytes, line.is_hit), (1_700_000_000, 7, 2350, false));
        assert_eq!((line.group, line.id, line.kind), ("a.b%FF", "<a%25b@c>", RequestKind::Article));
        for bad in
            ["", "x", "1 c article u g 7 i 0 1", "1 c article u g 7 i 0 1 hit x", "1 c art u g 7 i 0 1 hit"]
        {
            assert_eq!(parse_line(bad), None, "{bad}");
        }
    }

    #[test]
    fn log_is_bounded_and_keeps_the_newest_lines() {
        let disk = SimDisk::new();
        let path = Path::new("/access.log");
        let mut log = AccessLog::open(Arc::new(disk.clone()), path, 100 << 10).unwrap();
        (0..5000).for_each(|n| log.add(&access(n)));
        log.flush().unwrap();
        let read = |path: &str| read_small(&disk, Path::new(path), 1 << 20).unwrap().unwrap();
        let (new, old) = (read("/access.log"), read("/access.log.1"));
        assert!(new.len() <= 100 << 10 && old.len() <= 100 << 10);
        let last = String::from_utf8(new).unwrap();
        assert_eq!(parse_line(last.lines().last().unwrap()).unwrap().number, 4999);
        let first = parse_line(last.lines().next().unwrap()).unwrap().number;
        let old = String::from_utf8(old).unwrap();
        assert_eq!(parse_line(old.lines().last().unwrap()).unwrap().number + 1, first);
    }
}
