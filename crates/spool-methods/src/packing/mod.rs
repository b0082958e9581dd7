//! Compressed articles (`compress = "zstd"`): each record by itself, with a dictionary trained from articles
//! of its class.
//!
//! Invariants: a record names the dictionary that it needs; a dictionary is durable, twice, before the first
//! record needs it; it is never removed. Compression takes place before the writer's lock is taken
//! ([`ArticlePacker::pack`]); reading restores the exact wire bytes ([`ArticlePacker::unpack`]). Layout:
//! `docs/formats/dictionary.md` and `cnfs.md`.

mod codec;
mod dictionary;
mod training;

use crate::cnfs::record::{END, HEADER_BYTES, RecordHeader};
use arc_swap::{ArcSwap, ArcSwapOption};
use codec::{PREFIX_BYTES, PackedPrefix, decompress};
pub use codec::{PackedArticle, put_frame, read_frame};
use dictionary::Dictionary;
use disk::Disk;
use spool_base::config::ClassConfig;
use spool_base::error::ReadError;
use spool_base::ordered::{Ordered, rank};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tracing::{info, warn};
use training::TrainingSamples;

/// Status of a dictionary that articles were compressed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DictionaryStatus {
    /// Id, as in records and in the file name.
    pub id: u32,
    /// Class that it was trained for.
    pub class: String,
    /// Time of the training, in Unix seconds.
    pub trained: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Dictionary that a class compresses with.
struct DictionaryEncoder {
    dictionary: Arc<Dictionary>,
    cdict: zstd::zstd_safe::CDict<'static>,
}

/// A class that compresses its articles.
struct PackedClass {
    name: String,
    level: i32,
    /// Number of articles that a dictionary is trained from.
    samples_wanted: u32,
    encoder: ArcSwapOption<DictionaryEncoder>,
    /// Articles to train from; `None` if a dictionary exists or is being trained.
    samples: Ordered<Option<TrainingSamples>, { rank::SAMPLES }>,
}

impl PackedClass {
    /// Creates a class with these settings; `None` if it does not compress.
    fn new(c: &ClassConfig, dictionaries: &HashMap<u32, Arc<Dictionary>>) -> Option<Arc<Self>> {
        let config = c.compress?;
        let own = dictionaries.values().filter(|d| d.class == c.name);
        let encoder =
            own.max_by_key(|d| (d.trained, d.id)).and_then(|d| DictionaryEncoder::new(d, config.level));
        let samples =
            encoder.is_none().then(|| TrainingSamples::new(config.samples)).filter(|s| !s.is_empty());
        Some(Arc::new(Self {
            name: c.name.clone(),
            level: config.level,
            samples_wanted: config.samples,
            encoder: ArcSwapOption::from(encoder.map(Arc::new)),
            samples: Ordered::new(samples),
        }))
    }
}

/// All dictionaries, and the classes that compress; shared with readers.
pub struct ArticlePacker {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    dictionaries: ArcSwap<HashMap<u32, Arc<Dictionary>>>,
    /// Classes by number.
    classes: ArcSwap<Vec<Option<Arc<PackedClass>>>>,
    training: Ordered<Vec<JoinHandle<()>>, { rank::TRAINING }>,
}

impl std::fmt::Debug for ArticlePacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packing").field("dir", &self.dir).finish()
    }
}

impl ArticlePacker {
    /// Reads the dictionaries in `dir`; if one of the two copies is damaged, it is rewritten.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, classes: &[ClassConfig]) -> io::Result<Self> {
        let dictionaries = dictionary::load_all(&**disk, dir, true)?;
        let class = |c: &ClassConfig| PackedClass::new(c, &dictionaries);
        Ok(Self {
            disk: disk.clone(),
            dir: dir.into(),
            classes: ArcSwap::from_pointee(classes.iter().map(class).collect()),
            dictionaries: ArcSwap::from_pointee(dictionaries),
            training: Ordered::default(),
        })
    }

    /// Reads the dictionaries in another server's `dir`, if it exists, without changing anything there. They
    /// are only used for decompression.
    pub fn read_only(disk: &Arc<dyn Disk>, dir: Option<&Path>) -> io::Result<Self> {
        let dictionaries = dir.map(|dir| dictionary::load_all(&**disk, dir, false)).transpose()?;
        Ok(Self {
            disk: disk.clone(),
            dir: dir.unwrap_or(Path::new("dictionaries")).into(),
            classes: ArcSwap::default(),
            dictionaries: ArcSwap::from_pointee(dictionaries.unwrap_or_default()),
            training: Ordered::default(),
        })
    }

    /// Switches to other classes; those with unchanged settings keep their state.
    pub fn configure(&self, classes: &[ClassConfig]) {
        let before = self.classes.load();
        let dictionaries = self.dictionaries.load();
        let class = |c: &ClassConfig| {
            let same = |old: &&Arc<PackedClass>| {
                c.compress.is_some_and(|new| old.name == c.name && old.level == new.level)
            };
            before.iter().flatten().find(same).cloned().or_else(|| PackedClass::new(c, &dictionaries))
        };
        self.classes.store(Arc::new(classes.iter().map(class).collect()));
    }

    /// Reports whether any class compresses.
    pub fn is_used(&self) -> bool {
        self.classes.load().iter().any(Option::is_some)
    }

    /// Compresses an article of a class; `None` if the class does not compress, or nothing is gained.
    /// `pieces` is the article in wire format, without Xref and final `.` line.
    pub fn pack(self: &Arc<Self>, class: usize, pieces: &[&[u8]]) -> Option<PackedArticle> {
        let classes = self.classes.load();
        let own = classes.get(class)?.as_ref()?;
        let encoder = own.encoder.load();
        if encoder.is_none() {
            self.sample(own, pieces);
        }
        let with = encoder.as_ref().map(|e| (e.dictionary.id, &e.cdict));
        codec::compress(class, pieces, with, own.level)
    }

    /// Keeps an article to train from; the last one needed starts the training, in a thread of its own.
    fn sample(self: &Arc<Self>, class: &Arc<PackedClass>, pieces: &[&[u8]]) {
        let mut samples = class.samples.lock();
        if !samples.as_mut().is_some_and(|s| s.add(pieces)) {
            return;
        }
        let Some(samples) = samples.take() else { return };
        let (packing, class) = (self.clone(), class.clone());
        let train = move || packing.train(&class, &samples);
        // Without a thread, the training is repeated after the next start.
        if let Ok(thread) = std::thread::Builder::new().name("spool-dictionary".into()).spawn(train) {
            self.training.lock().push(thread);
        }
    }

    fn train(&self, class: &PackedClass, samples: &TrainingSamples) {
        let Some(bytes) = samples.train() else { return };
        let dictionary = Dictionary::new(class.name.clone(), disk::clock::unix_secs(), bytes);
        let Some(dictionary) = dictionary.map(Arc::new) else { return };
        // A dictionary that cannot be written is removed and not used. Another one is trained from later
        // articles, when there may be space.
        if let Err(error) = dictionary.store(&*self.disk, &self.dir) {
            warn!(class = class.name, %error, "a trained dictionary cannot be written; another one follows");
            dictionary.remove(&*self.disk, &self.dir);
            *class.samples.lock() = Some(TrainingSamples::new(class.samples_wanted));
            return;
        }
        let mut all = HashMap::clone(&self.dictionaries.load());
        all.insert(dictionary.id, dictionary.clone());
        self.dictionaries.store(Arc::new(all));
        class.encoder.store(DictionaryEncoder::new(&dictionary, class.level).map(Arc::new));
        info!(
            class = class.name,
            dictionary = dictionary.id,
            "articles are compressed with a new dictionary"
        );
    }

    /// Waits for trainings in progress.
    pub fn finish(&self) {
        let threads = std::mem::take(&mut *self.training.lock());
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Turns a whole compressed record into its uncompressed form: header (its bytes are meaningless), Xref
    /// line, article, final `.` line. Consumes the contents of `raw`.
    pub fn unpack(
        &self,
        header: &RecordHeader,
        raw: &mut [u8],
        out: &mut Vec<u8>,
    ) -> Result<RecordHeader, ReadError> {
        let damaged = || {
            ReadError::damaged(format!("the compressed article at place {:x} makes no sense", header.place))
        };
        let data = raw.get_mut(HEADER_BYTES..).unwrap_or_default();
        let prefix = PackedPrefix::of(data).ok_or_else(damaged)?;
        let dictionary = match prefix.dictionary {
            0 => None,
            id => Some(self.dictionaries.load().get(&id).cloned().ok_or_else(|| self.missing(id))?),
        };
        out.clear();
        out.resize(HEADER_BYTES, 0);
        out.extend_from_slice(data.get(PREFIX_BYTES..prefix.xref_end).unwrap_or_default());
        if !decompress(data, prefix, dictionary.as_ref().map(|d| &d.ddict), out) {
            return Err(damaged());
        }
        out.extend_from_slice(END);
        let data_bytes = u32::try_from(out.len() - HEADER_BYTES).map_err(|_| damaged())?;
        (header.header_bytes <= data_bytes).then_some(()).ok_or_else(damaged)?;
        Ok(RecordHeader { data_bytes, packed: false, ..*header })
    }

    fn missing(&self, id: u32) -> ReadError {
        ReadError::damaged(format!(
            "the zstd dictionary {} is missing or damaged, and so is its copy: put it back from a backup to \
                read the articles \
             compressed with it; all others can be read",
            dictionary::path(&self.dir, id, dictionary::SUFFIX).display()
        ))
    }

    /// Returns the status of all dictionaries.
    pub fn status(&self) -> Vec<DictionaryStatus> {
        let mut all: Vec<_> = self.dictionaries.load().values().map(|d| d.status()).collect();
        all.sort_by_key(|d| (d.trained, d.id));
        all
    }

    /// Checks all copies on disk; calls `found` with each problem, and whether it can be repaired.
    pub fn verify(&self, found: &mut dyn FnMut(String, String, bool)) {
        dictionary::verify(&*self.disk, &self.dir, found);
    }

    /// Rewrites damaged or missing copies from memory; returns how many.
    pub fn mend(&self) -> io::Result<u64> {
        let all = self.dictionaries.load_full();
        all.values().try_fold(0, |n, d| Ok(n + d.mend(&*self.disk, &self.dir)?))
    }
}

/// Returns a compressed record's data from its Xref line on.
pub fn xref_line(data: &[u8]) -> &[u8] {
    data.get(PREFIX_BYTES..).unwrap_or_default()
}

impl DictionaryEncoder {
    fn new(dictionary: &Arc<Dictionary>, level: i32) -> Option<Self> {
        let cdict = zstd::zstd_safe::CDict::try_create(&dictionary.bytes, level)?;
        Some(Self { dictionary: dictionary.clone(), cdict })
    }
}
