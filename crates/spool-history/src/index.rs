//! The index of the history log: shards in mapped files, one file per level; layout in
//! `docs/formats/history.md`.
//!
//! Nothing here is ever synced: after a boot it is built again (`rebuild`). Readers take no lock; all changes
//! of its structure go through a [`IndexGrowth`], which the history keeps behind its writer lock. New slots
//! of a large index are gathered in memory first ([`super::gathered`]). Invariants: a shard's bit in a file
//! is set only when the shard there is complete; the file of a shard's level is published before the level,
//! and removed only after no shard uses it; the files name the first record whose slot they may lack.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::gathered::{GatheredSlots, Gathering};
use super::record::invalid_data;
use super::shard::{BUCKET_SLOTS, BUCKET_WORDS, IndexShard, TAG_BITS, bound, number_of};
use disk::{Disk, Mapping, OpenMode, touch};
use spool_base::config::HistoryShape as Shape;
use spool_base::key::ArticleKey;

const PREFIX: &str = "index-";
const MAGIC: u64 = u64::from_le_bytes(*b"NRHISIX2");
const HEADER_WORDS: usize = 512;
const MAGIC_WORD: usize = 0;
const BOOT_ID_WORDS: [usize; 2] = [1, 2];
const SHAPE_WORD: usize = 3;
/// First record whose slot may not be in the files, in the form of a bucket's word 0.
const MISSING_WORD: usize = 4;
const BITS_WORD: usize = 8;
/// log2 of the maximum number of shards that the header has bits for.
pub(super) const SHARD_BITS_MAX: u32 = 14;

/// A shard grows when counting finds at least this share of its slots used.
const GROW_PERCENT: usize = 75;
/// A shard is counted before more than this share of its slots can be used. Between two counts, then, at
/// least as many records are inserted as a twentieth of its slots.
const COUNT_PERCENT: usize = 80;
/// Maximum share of used slots with which a rebuild chooses the level.
const REBUILD_PERCENT: u64 = 60;

/// Number of possible levels.
const LEVELS: usize = TAG_BITS as usize + 1;

/// The index as seen by readers.
#[derive(Debug)]
pub(super) struct HistoryIndex {
    shard_bits: u32,
    /// Level of the file that holds each shard.
    levels: Box<[AtomicU8]>,
    files: ArcSwap<LevelFiles>,
}

/// Mapped files by level, and what is not in them yet.
#[derive(Debug, Default)]
struct LevelFiles {
    maps: [Option<Arc<dyn Mapping>>; LEVELS],
    gathered: Option<Arc<GatheredSlots>>,
}

/// The index during some look-ups.
#[derive(Debug)]
pub(super) struct IndexReader<'i> {
    index: &'i HistoryIndex,
    files: Guard<Arc<LevelFiles>>,
}

/// State that the writer needs to enlarge shards.
#[derive(Debug)]
pub(super) struct IndexGrowth {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    shard_bits: u32,
    shape: Shape,
    files: Vec<LevelFile>,
    /// First record whose slot may not be in the files.
    missing: Option<u64>,
    gathering: Option<Gathering>,
    /// For each shard: number of inserts that certainly fit.
    room: Box<[usize]>,
    /// For each shard: inserts for which space was made and that have not happened yet.
    pending: Box<[usize]>,
}

/// One index file.
#[derive(Debug)]
struct LevelFile {
    level: u32,
    map: Arc<dyn Mapping>,
    /// Number of shards that readers look for here: a file without any is unused.
    used_by: usize,
}

impl HistoryIndex {
    /// Returns the shard of a key, and its tag there.
    pub fn place(&self, key: &ArticleKey) -> (usize, u32) {
        let tag = (key.0 << self.shard_bits >> (u128::BITS - TAG_BITS)) as u32;
        (self.shard_number(key), tag)
    }

    fn shard_number(&self, key: &ArticleKey) -> usize {
        // A shift by all 128 bits would overflow with a single shard.
        (key.0 >> 1 >> (u128::BITS - 1 - self.shard_bits)) as usize
    }

    /// Returns a reader for some look-ups, not to be kept: it holds on to files.
    pub fn reader(&self) -> IndexReader<'_> {
        IndexReader { index: self, files: self.files.load() }
    }

    fn level(&self, shard: usize) -> Option<u32> {
        self.levels.get(shard).map(|level| u32::from(level.load(Ordering::Acquire)))
    }

    fn set_level(&self, shard: usize, to: u32) {
        if let Some(level) = self.levels.get(shard) {
            level.store(to as u8, Ordering::Release);
        }
    }
}

impl LevelFiles {
    fn of(files: &[LevelFile], gathering: Option<&Gathering>) -> Self {
        let gathered = gathering.map(|gathering| gathering.slots.clone());
        let mut all = Self { gathered, ..Self::default() };
        for file in files {
            if let Some(slot) = all.maps.get_mut(file.level as usize) {
                *slot = Some(file.map.clone());
            }
        }
        all
    }

    fn get(&self, level: u32) -> Option<&Arc<dyn Mapping>> {
        self.maps.get(level as usize)?.as_ref()
    }
}

impl IndexReader<'_> {
    /// Returns a shard at its current location.
    fn shard(&mut self, number: usize) -> Option<IndexShard<'_>> {
        let mut level = self.index.level(number)?;
        // If the shard has moved since the files were loaded, they are loaded again.
        for _ in 0..LEVELS {
            if self.files.get(level).is_some() {
                break;
            }
            self.files = self.index.files.load();
            level = self.index.level(number)?;
        }
        self.files.get(level).map(|map| shard_in(&**map, number, level))
    }

    /// See [`IndexShard::touch`].
    pub fn touch(&mut self, key: &ArticleKey) -> u64 {
        let (shard, tag) = self.index.place(key);
        let gathered = self.files.gathered.as_ref().map_or(0, |gathered| gathered.shard(shard).touch(tag));
        gathered ^ self.shard(shard).map_or(0, |shard| shard.touch(tag))
    }

    /// See [`IndexShard::find`].
    pub fn find<T>(
        &mut self,
        key: &ArticleKey,
        living: &Range<u64>,
        mut matches: impl FnMut(u64) -> Option<T>,
    ) -> Option<T> {
        let (shard, tag) = self.index.place(key);
        // In this order: slots move from memory to the files.
        if let Some(gathered) = &self.files.gathered
            && let Some(found) = gathered.find(shard, tag, living, &mut matches)
        {
            return Some(found);
        }
        self.shard(shard)?.find(tag, living, matches)
    }

    /// See [`IndexShard::check`]; covers all shards in the files, and reports shard and position.
    pub fn check(
        &mut self,
        living: &Range<u64>,
        place: &mut dyn FnMut(u64) -> Option<(usize, u32)>,
        found: &mut dyn FnMut(usize, usize),
    ) {
        for number in 0..self.index.levels.len() {
            let mut fits = |record, tag| place(record).is_none_or(|place| place == (number, tag));
            if let Some(shard) = self.shard(number) {
                shard.check(living, &mut fits, &mut |at| found(number, at));
            }
        }
    }

    /// See [`IndexShard::mend`]; `at` is the position in the shard.
    pub fn mend(
        &mut self,
        shard: usize,
        at: usize,
        living: &Range<u64>,
        place: &mut dyn FnMut(u64) -> Option<(usize, u32)>,
    ) {
        let mut fits = |record, tag| place(record).is_none_or(|place| place == (shard, tag));
        if let Some(shard) = self.shard(shard) {
            shard.mend(at, living, &mut fits);
        }
    }

    /// See [`IndexShard::insert`]; into the files, for callers that have made space.
    pub fn insert(&mut self, key: &ArticleKey, number: u64, living: &Range<u64>) -> bool {
        let (shard, tag) = self.index.place(key);
        self.shard(shard).is_some_and(|shard| shard.insert(tag, number, living))
    }
}

/// Removes the index files of a history: the next opening builds them again from the log.
pub(super) fn remove_files(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let names = disk.list(dir)?;
    names.iter().filter(|n| n.starts_with(PREFIX)).try_for_each(|name| disk.remove(&dir.join(name)))
}

impl IndexGrowth {
    /// Opens the index files of this boot. `None` if some shard is in none of them.
    pub fn load(disk: &Arc<dyn Disk>, dir: &Path, shape: Shape) -> io::Result<Option<(HistoryIndex, Self)>> {
        let (mut growth, shard_bits) = (Self::new(disk, dir, shape), shape.shard_bits);
        for level in growth.levels_present()? {
            match growth.open_file(level)? {
                Some(file) => {
                    let missing = number_of(file.header(MISSING_WORD));
                    growth.missing = growth.missing.into_iter().chain(missing).min();
                    growth.files.push(file);
                }
                None => disk.remove(&growth.path(level))?,
            }
        }
        let mut levels = Vec::with_capacity(1 << shard_bits);
        for number in 0..1 << shard_bits {
            let newest = growth.files.iter_mut().rev().find(|file| file.has(number));
            let Some(file) = newest else { return Ok(None) };
            file.used_by += 1;
            levels.push(AtomicU8::new(file.level as u8));
        }
        let index = growth.index(levels.into());
        growth.remove_unused_files(&index)?;
        Ok(Some((index, growth)))
    }

    /// Removes all index files and creates an empty index with space for `living` records. A later
    /// [`IndexGrowth::load`] does not trust it before [`IndexGrowth::complete`].
    pub fn make(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        shape: Shape,
        living: u64,
    ) -> io::Result<(HistoryIndex, Self)> {
        let (mut growth, shard_bits) = (Self::new(disk, dir, shape), shape.shard_bits);
        for level in growth.levels_present()? {
            disk.remove(&growth.path(level))?;
        }
        let slots_at_level_0 = (BUCKET_SLOTS as u64) << shard_bits;
        let wanted = living.saturating_mul(100) / REBUILD_PERCENT;
        let level = (0..TAG_BITS).find(|level| slots_at_level_0 << level >= wanted).unwrap_or(TAG_BITS);
        let mut file = growth.make_file(level.max(LEVEL_MIN))?;
        file.used_by = 1 << shard_bits;
        let levels = (0..1 << shard_bits).map(|_| AtomicU8::new(file.level as u8)).collect();
        growth.files.push(file);
        Ok((growth.index(levels), growth))
    }

    /// Marks an index from [`IndexGrowth::make`] as complete.
    pub fn complete(&mut self) {
        let boot_id = self.disk.boot_id();
        for file in &self.files {
            (0..1 << self.shard_bits).for_each(|number| file.set(number));
            file.set_boot_id(boot_id);
        }
    }

    fn new(disk: &Arc<dyn Disk>, dir: &Path, shape: Shape) -> Self {
        let shard_bits = shape.shard_bits;
        let (room, pending) = (vec![0; 1 << shard_bits].into(), vec![0; 1 << shard_bits].into());
        let (disk, dir) = (disk.clone(), dir.to_path_buf());
        let (files, missing, gathering) = (Vec::new(), None, None);
        Self { disk, dir, shard_bits, shape, files, missing, gathering, room, pending }
    }

    /// Shows readers the present files and gathered slots.
    fn publish(&self, index: &HistoryIndex) {
        index.files.store(Arc::new(LevelFiles::of(&self.files, self.gathering.as_ref())));
    }

    /// Returns the first record whose slot may not be in the files.
    pub fn missing(&self) -> Option<u64> {
        self.missing
    }

    /// Notes in the files from which record on slots may be missing in them. Called before the first is
    /// missing, and after the others are there.
    pub fn set_missing(&mut self, missing: Option<u64>) {
        self.missing = missing;
        self.files.iter().for_each(|file| file.set_missing(missing));
    }

    fn index(&self, levels: Box<[AtomicU8]>) -> HistoryIndex {
        HistoryIndex {
            shard_bits: self.shard_bits,
            levels,
            files: ArcSwap::from_pointee(LevelFiles::of(&self.files, None)),
        }
    }

    fn file(&self, level: u32) -> Option<&LevelFile> {
        self.files.iter().find(|file| file.level == level)
    }

    fn shard(&self, index: &HistoryIndex, number: usize) -> Option<IndexShard<'_>> {
        let level = index.level(number)?;
        self.file(level).map(|file| shard_in(&*file.map, number, level))
    }

    fn path(&self, level: u32) -> PathBuf {
        self.dir.join(format!("{PREFIX}{level:02}"))
    }

    fn levels_present(&self) -> io::Result<Vec<u32>> {
        let names = self.disk.list(&self.dir)?;
        let mut levels: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect();
        levels.retain(|&level| level <= TAG_BITS);
        levels.sort_unstable();
        Ok(levels)
    }

    fn file_words(&self, level: u32) -> usize {
        HEADER_WORDS + (BUCKET_WORDS << (self.shard_bits + level))
    }

    /// Opens an index file of this boot and shape.
    fn open_file(&self, level: u32) -> io::Result<Option<LevelFile>> {
        let file = self.disk.open(&self.path(level), OpenMode::Existing)?;
        let words = self.file_words(level);
        if file.len()? != words as u64 * 8 {
            return Ok(None);
        }
        let file = LevelFile { level, map: file.map_words(0, words)?, used_by: 0 };
        let ours = file.header(MAGIC_WORD) == MAGIC
            && file.header(SHAPE_WORD) == shape(level, self.shard_bits)
            && file.boot_id() == self.disk.boot_id()
            && file.is_missing_right()
            && file.is_rest_zero(self.shard_bits);
        Ok(ours.then_some(file))
    }

    /// Creates an index file without shards and without boot id.
    fn make_file(&self, level: u32) -> io::Result<LevelFile> {
        let path = self.path(level);
        match self.disk.remove(&path) {
            // Left by an attempt that ran out of space.
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let file = self.disk.open(&path, OpenMode::CreateNew)?;
        let words = self.file_words(level);
        file.allocate(words as u64 * 8)?;
        let file = LevelFile { level, map: file.map_words(0, words)?, used_by: 0 };
        file.set_header(SHAPE_WORD, shape(level, self.shard_bits));
        file.set_header(MAGIC_WORD, MAGIC);
        Ok(file)
    }

    /// Ensures that one more record with this key has a slot, moving its shard to the next level if
    /// necessary.
    pub fn make_room(
        &mut self,
        index: &HistoryIndex,
        key: &ArticleKey,
        living: &Range<u64>,
    ) -> io::Result<()> {
        let number = index.shard_number(key);
        let missing = || invalid_data("no such history shard");
        let pending = self.pending.get(number).copied().unwrap_or(0);
        let room = self.room.get_mut(number).ok_or_else(missing)?;
        if *room > 0 {
            *room -= 1;
            self.expect(number);
            return Ok(());
        }
        let mut moved = false;
        loop {
            let shard = self.shard(index, number).ok_or_else(missing)?;
            let gathered = self.gathering.as_ref().map_or(0, |gathering| gathering.count(number));
            let (level, slots, used) =
                (shard.level(), shard.slots(), shard.count_used(living.start) + pending + gathered);
            if used * 100 < slots * GROW_PERCENT {
                if let Some(room) = self.room.get_mut(number) {
                    *room = (slots * COUNT_PERCENT / 100).saturating_sub(used + 1);
                }
                break;
            }
            self.move_up(index, number, level + 1, living)?;
            moved = true;
        }
        self.expect(number);
        if moved { self.remove_unused_files(index) } else { Ok(()) }
    }

    fn expect(&mut self, shard: usize) {
        if let Some(pending) = self.pending.get_mut(shard) {
            *pending += 1;
        }
    }

    /// Cancels the inserts for which space was made.
    pub fn release(&mut self) {
        self.pending.fill(0);
    }

    /// Enters the newest record, for which [`IndexGrowth::make_room`] has made space: into a shard
    /// ([`IndexShard::insert`]), or first into memory. Returns false if a shard is full.
    pub fn insert(
        &mut self,
        index: &HistoryIndex,
        key: &ArticleKey,
        number: u64,
        living: &Range<u64>,
    ) -> bool {
        let (shard, tag) = index.place(key);
        if let Some(pending) = self.pending.get_mut(shard) {
            *pending = pending.saturating_sub(1);
        }
        if self.gathering.is_none()
            && let Some(level) = self.gathered_level()
        {
            self.gathering = Some(Gathering::new(self.shard_bits, level, number));
            self.set_missing(Some(number));
            self.publish(index);
        }
        let gathers =
            self.gathering.as_mut().is_some_and(|gathering| gathering.insert(shard, tag, number, living));
        if !gathers && !self.insert_in_file(index, key, number, living) {
            return false;
        }
        self.gathering.is_none() || self.move_gathered(index, &(living.start..number + 1))
    }

    /// See [`IndexShard::insert`]; into the files at once.
    pub fn insert_in_file(
        &self,
        index: &HistoryIndex,
        key: &ArticleKey,
        number: u64,
        living: &Range<u64>,
    ) -> bool {
        let (shard, tag) = index.place(key);
        self.shard(index, shard).is_some_and(|shard| shard.insert(tag, number, living))
    }

    /// Returns the level of gathered slots; `None` if the index is so small that it has few pages.
    fn gathered_level(&self) -> Option<u32> {
        let level = self.files.iter().map(|file| file.level).max()?.checked_sub(self.shape.gathered_shift)?;
        Some(level).filter(|level| *level >= self.shape.gathered_level_min)
    }

    /// Moves some gathered slots to the files. Returns false if they do not fit.
    fn move_gathered(&mut self, index: &HistoryIndex, living: &Range<u64>) -> bool {
        let Some(mut gathering) = self.gathering.take() else { return true };
        let moved = gathering.move_some(living, |number| self.shard(index, number));
        let is_new_round = moved == Some(true);
        let is_over = is_new_round && gathering.is_closed();
        if is_new_round && !is_over {
            let level = self.gathered_level();
            self.set_missing(Some(gathering.begin_round(living.end, level)));
        }
        if !is_over {
            self.gathering = Some(gathering);
            return moved.is_some();
        }
        self.set_missing(None);
        self.publish(index);
        true
    }

    /// Moves all gathered slots to the files, unless they do not fit.
    pub fn move_all_gathered(&mut self, index: &HistoryIndex, living: &Range<u64>) {
        if let Some(gathering) = &mut self.gathering {
            gathering.close();
        }
        while self.gathering.is_some() && self.move_gathered(index, living) {}
    }

    /// Moves a shard to this level, the next after its own.
    fn move_up(
        &mut self,
        index: &HistoryIndex,
        number: usize,
        level: u32,
        living: &Range<u64>,
    ) -> io::Result<()> {
        if level > TAG_BITS {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the history index cannot grow further"));
        }
        if self.file(level).is_none() {
            let file = self.make_file(level)?;
            file.set_missing(self.missing);
            file.set_boot_id(self.disk.boot_id());
            self.files.push(file);
            self.publish(index);
        }
        let (Some(shard), Some(file)) = (self.shard(index, number), self.file(level)) else {
            return Err(invalid_data("no such history index file"));
        };
        let larger = shard_in(&*file.map, number, level);
        larger.clear();
        if !shard.copy_into(&larger, living) {
            return Err(invalid_data("a history shard does not fit into twice its size"));
        }
        file.set(number);
        index.set_level(number, level);
        for file in &mut self.files {
            file.used_by += usize::from(file.level == level);
            file.used_by -= usize::from(file.level + 1 == level);
        }
        Ok(())
    }

    fn remove_unused_files(&mut self, index: &HistoryIndex) -> io::Result<()> {
        let unused = |file: &LevelFile| file.used_by == 0;
        let paths: Vec<PathBuf> =
            self.files.iter().filter(|file| unused(file)).map(|file| self.path(file.level)).collect();
        if paths.is_empty() {
            return Ok(());
        }
        self.files.retain(|file| !unused(file));
        self.publish(index);
        paths.iter().try_for_each(|path| self.disk.remove(path))
    }

    /// Reports whether a page of the index could not be read.
    pub fn has_lost_pages(&self) -> bool {
        self.files.iter().any(|file| !file.map.lost().is_empty())
    }

    /// Writes the lost pages, whose slots are now empty. Returns how many there were, and the shards with
    /// missing slots.
    pub fn restore_lost_pages(&mut self, index: &HistoryIndex) -> io::Result<(u64, BTreeSet<usize>)> {
        let (mut pages, mut shards) = (0, BTreeSet::new());
        let boot_id = self.disk.boot_id();
        for file in &self.files {
            let (level, lost) = (file.level, file.map.lost());
            pages += lost.len() as u64;
            if lost.iter().any(|words| words.start < HEADER_WORDS) {
                file.set_header(SHAPE_WORD, shape(level, self.shard_bits));
                file.set_boot_id(boot_id);
                file.set_missing(self.missing);
                (0..1 << self.shard_bits)
                    .filter(|n| index.level(*n) == Some(level))
                    .for_each(|n| file.set(n));
                file.set_header(MAGIC_WORD, MAGIC);
            }
            for words in lost.into_iter().filter(|words| words.end > HEADER_WORDS) {
                let shard = |word: usize| word.saturating_sub(HEADER_WORDS) / (BUCKET_WORDS << level);
                shards.extend(shard(words.start)..=shard(words.end - 1));
            }
            file.map.restore()?;
        }
        for shard in &shards {
            if let Some(room) = self.room.get_mut(*shard) {
                *room = 0;
            }
        }
        Ok((pages, shards))
    }

    /// Reads the whole index.
    pub fn touch_maps(&self) {
        self.files.iter().for_each(|file| touch(&*file.map));
    }

    /// Returns the total size of all index files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.map.words().len() as u64 * 8).sum()
    }
}

/// Level of a new index: 1 MiB with 1,024 shards, for some 86,000 records.
const LEVEL_MIN: u32 = 4;

fn shape(level: u32, shard_bits: u32) -> u64 {
    u64::from(level) | u64::from(shard_bits) << 32
}

impl LevelFile {
    fn header(&self, word: usize) -> u64 {
        self.map.words().get(word).map_or(0, |w| u64::from_le(w.load(Ordering::Acquire)))
    }

    fn set_header(&self, word: usize, value: u64) {
        if let Some(w) = self.map.words().get(word) {
            w.store(value.to_le(), Ordering::Release);
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        let [low, high] = BOOT_ID_WORDS.map(|word| self.header(word));
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    fn set_boot_id(&self, boot_id: [u8; 16]) {
        let id = u128::from_le_bytes(boot_id);
        for (word, half) in BOOT_ID_WORDS.into_iter().zip([id as u64, (id >> 64) as u64]) {
            self.set_header(word, half);
        }
    }

    fn set_missing(&self, missing: Option<u64>) {
        self.set_header(MISSING_WORD, missing.map_or(0, bound));
    }

    /// Reports whether the first missing record is named as it was written.
    fn is_missing_right(&self) -> bool {
        let word = self.header(MISSING_WORD);
        word == number_of(word).map_or(0, bound)
    }

    fn has(&self, shard: usize) -> bool {
        self.header(BITS_WORD + shard / 64) >> (shard % 64) & 1 == 1
    }

    fn set(&self, shard: usize) {
        let word = BITS_WORD + shard / 64;
        self.set_header(word, self.header(word) | 1 << (shard % 64));
    }

    /// Reports whether the unused part of the header is zero, as it was created; otherwise it has been
    /// damaged.
    fn is_rest_zero(&self, shard_bits: u32) -> bool {
        let shards = 1usize << shard_bits;
        let bits_end = BITS_WORD + shards.div_ceil(64);
        let beyond = if shards < 64 { self.header(BITS_WORD) >> shards } else { 0 };
        beyond == 0
            && (MISSING_WORD + 1..BITS_WORD).chain(bits_end..HEADER_WORDS).all(|w| self.header(w) == 0)
    }
}

fn shard_in(map: &dyn Mapping, number: usize, level: u32) -> IndexShard<'_> {
    IndexShard::new(map.words(), HEADER_WORDS + number * (BUCKET_WORDS << level), level)
}
