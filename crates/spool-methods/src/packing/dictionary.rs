//! Dictionaries, each in two files (`docs/formats/dictionary.md`).

use super::DictionaryStatus;
use disk::{Disk, FileAccess, OpenMode, durable_replace};
use spool_base::codec::{ByteReader, put_bytes, put_u64};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zstd::zstd_safe::DDict;

const MAGIC: &[u8; 8] = b"NRZDict1";
/// Suffix of the first copy.
pub(super) const SUFFIX: &str = "dict";
const COPY_SUFFIX: &str = "copy";
/// Position of zstd's own id in the dictionary.
const OWN_ID: std::ops::Range<usize> = 4..8;
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A dictionary in use.
pub(super) struct Dictionary {
    pub id: u32,
    pub class: String,
    /// Time of the training, in Unix seconds.
    pub trained: u64,
    pub bytes: Vec<u8>,
    pub ddict: DDict<'static>,
}

impl Dictionary {
    /// Wraps the dictionary that zstd trained; `None` if zstd itself cannot use it.
    pub fn new(class: String, trained: u64, mut bytes: Vec<u8>) -> Option<Self> {
        bytes.get_mut(OWN_ID)?.fill(0);
        let id = id_of(&bytes)?;
        Some(Self { id, class, trained, ddict: DDict::try_create(&bytes)?, bytes })
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = self.id.to_le_bytes().to_vec();
        put_u64(self.trained, &mut body);
        put_bytes(self.class.as_bytes(), &mut body);
        body.extend_from_slice(&self.bytes);
        [MAGIC.as_slice(), &disk::crc::crc32c(&body).to_le_bytes(), &body].concat()
    }

    fn decode(file: &[u8]) -> Option<Self> {
        let mut r = ByteReader(file.strip_prefix(MAGIC)?);
        let crc = r.u32()?;
        if disk::crc::crc32c(r.0) != crc {
            return None;
        }
        let (id, trained, class) = (r.u32()?, r.u64()?, r.text()?);
        let bytes = r.0.to_vec();
        let sane = id_of(&bytes) == Some(id);
        let ddict = DDict::try_create(&bytes)?;
        sane.then_some(Self { id, class, trained, bytes, ddict })
    }

    /// Writes both copies and makes them durable.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk.create_dir(dir)?;
        let bytes = self.encode();
        [SUFFIX, COPY_SUFFIX].iter().try_for_each(|suffix| write(disk, dir, self.id, suffix, &bytes))
    }

    /// Removes both copies of a dictionary that no article was compressed with.
    pub fn remove(&self, disk: &dyn Disk, dir: &Path) {
        for suffix in [SUFFIX, COPY_SUFFIX] {
            // A copy may not exist; one that stays is harmless, and is only reported by `verify`.
            let _absent = disk.remove(&path(dir, self.id, suffix));
        }
        let _late = disk.sync_dir(dir);
    }

    /// Rewrites missing or damaged copies; returns how many.
    pub fn mend(&self, disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
        let bytes = self.encode();
        let mut mended = 0;
        for suffix in [SUFFIX, COPY_SUFFIX] {
            if read(disk, &path(dir, self.id, suffix)).ok().as_ref() != Some(&bytes) {
                write(disk, dir, self.id, suffix, &bytes)?;
                mended += 1;
            }
        }
        Ok(mended)
    }

    pub fn status(&self) -> DictionaryStatus {
        let bytes = self.bytes.len() as u64;
        DictionaryStatus { id: self.id, class: self.class.clone(), trained: self.trained, bytes }
    }
}

fn id_of(bytes: &[u8]) -> Option<u32> {
    Some(disk::crc::crc32c(bytes)).filter(|id| *id != 0)
}

/// Returns the path of a copy.
pub(super) fn path(dir: &Path, id: u32, suffix: &str) -> PathBuf {
    dir.join(format!("{id:08x}.{suffix}"))
}

fn write(disk: &dyn Disk, dir: &Path, id: u32, suffix: &str, bytes: &[u8]) -> io::Result<()> {
    durable_replace(disk, &path(dir, id, suffix), &[bytes], FileAccess::Group)
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()?.min(FILE_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Copies of each dictionary: the path, and the contents if it is whole.
type Copies = BTreeMap<u32, Vec<(PathBuf, Option<Dictionary>)>>;

/// Returns the copies of all dictionaries, by the id in the file name.
fn copies(disk: &dyn Disk, dir: &Path) -> io::Result<Copies> {
    let mut all = Copies::new();
    for name in disk.list(dir)? {
        let id = name.split_once('.').filter(|(_, s)| [SUFFIX, COPY_SUFFIX].contains(s));
        let Some(id) = id.and_then(|(id, _)| u32::from_str_radix(id, 16).ok()) else { continue };
        all.entry(id).or_default();
    }
    for (id, found) in &mut all {
        for suffix in [SUFFIX, COPY_SUFFIX] {
            let path = path(dir, *id, suffix);
            // An unreadable file is treated as damaged.
            let whole = read(disk, &path).ok().and_then(|bytes| Dictionary::decode(&bytes));
            found.push((path, whole.filter(|d| d.id == *id)));
        }
    }
    Ok(all)
}

/// Reads all dictionaries; with `mend`, rewrites a damaged copy from the good one.
pub(super) fn load_all(disk: &dyn Disk, dir: &Path, mend: bool) -> io::Result<HashMap<u32, Arc<Dictionary>>> {
    let mut loaded = HashMap::new();
    for (id, found) in copies(disk, dir)? {
        let damaged = found.iter().any(|(_, d)| d.is_none());
        let Some(dictionary) = found.into_iter().find_map(|(_, d)| d) else { continue };
        if mend && damaged {
            dictionary.mend(disk, dir)?;
        }
        loaded.insert(id, Arc::new(dictionary));
    }
    Ok(loaded)
}

/// Calls `found` for every copy that is not whole.
pub(super) fn verify(disk: &dyn Disk, dir: &Path, found: &mut dyn FnMut(String, String, bool)) {
    let all = match copies(disk, dir) {
        Ok(all) => all,
        Err(e) => return found(dir.display().to_string(), format!("cannot be read: {e}"), false),
    };
    for copies in all.values() {
        let lost = copies.iter().all(|(_, d)| d.is_none());
        for (path, _) in copies.iter().filter(|(_, d)| d.is_none()) {
            let what = if lost {
                "is damaged or missing, and so is the other copy: articles compressed with it cannot be read"
            } else {
                "is damaged or missing; the other copy is whole, so nothing is lost"
            };
            found(path.display().to_string(), what.to_owned(), !lost);
        }
    }
}
