//! Adding, growing, retiring, moving and removing buffers, while serving or not.
//!
//! The configuration defines the buffers, so each of these operations takes effect when the configuration
//! changes: the caller passes a function that changes it, which is called after everything that may fail
//! before. A crash before it leaves the spool as it was; after it, the next opening finds or completes the
//! new state (`docs/states.md`).

use crate::index::fold::SharedIndexes;
use crate::index::residents::{Residents, ResidentsState};
use crate::index::rings::RingClass;
use crate::open::paths::SpoolPaths;
use crate::open::recovery::{cannot_resize, marks, presence, secret_of};
use crate::open::space;
use crate::write::commit::SpoolWriter;
use crate::write::locked::LockedWriter;
use disk::Progress;
use disk::clock::unix_secs;
use spool_base::config::{BufferConfig, Commit};
use spool_base::error::SpoolError;
use spool_base::token::MethodKind;
use spool_journal::{JournalRow, VolumeRow};
use spool_methods::cnfs::{Cycbuff, FoundBuffer};
use spool_methods::{Cyclic, Volume, VolumeTable};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A buffer and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferUsage {
    /// Configuration, with the actual size.
    pub config: BufferConfig,
    /// Class that it belongs to.
    pub class: String,
    /// Capacity for articles, in bytes.
    pub area_bytes: u64,
    /// Bytes between its oldest living article and its write position; 0: it is empty.
    pub used_bytes: u64,
    /// Arrival of its oldest living article, Unix seconds.
    pub oldest_arrival: Option<u64>,
}

fn unfit(text: impl Into<String>) -> SpoolError {
    SpoolError::Unfit(text.into())
}

/// Maintenance of the buffers of an open spool; see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct Buffers<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
}

impl<'s> Buffers<'s> {
    pub(crate) fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter) -> Self {
        Self { shared, writer }
    }

    /// Returns all buffers, in the order of their creation.
    pub fn list(&self) -> std::io::Result<Vec<BufferUsage>> {
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        let (volumes, current) = (self.shared.volumes.load(), self.shared.current.load());
        let mut all = Vec::new();
        for config in &writer.buffers {
            let Some(index) = volumes.all().iter().position(|v| v.name() == config.name) else { continue };
            let v = volumes.all().get(index).and_then(|v| v.cycbuff());
            let Some((v, residents)) = v.zip(writer.folds.residents.get_mut(index)) else {
                continue;
            };
            let oldest = residents.front()?;
            let class = writer.classes.iter().position(|c| c.buffers.contains(&config.name));
            let class = class.and_then(|c| current.classes.get(c)).map(|c| c.name.clone());
            all.push(BufferUsage {
                config: BufferConfig { size_bytes: v.file_bytes(), ..config.clone() },
                class: class.unwrap_or_default(),
                area_bytes: v.area(),
                used_bytes: oldest.map_or(0, |r| v.head().saturating_sub(r.place)),
                oldest_arrival: oldest.map(|r| u64::from(r.arrived)),
            });
        }
        Ok(all)
    }

    /// Creates a buffer and assigns it to a class.
    pub fn add(&self, config: &BufferConfig, class: &str, commit: Commit<'_>) -> Result<(), SpoolError> {
        let number = self.shared.current.load().classes.iter().position(|c| c.name == class);
        let number = number.ok_or_else(|| unfit(format!("there is no class \"{class}\"")))?;
        let id = {
            let mut writer = self.writer.accepting()?;
            if writer.buffers.iter().any(|b| b.name == config.name) {
                return Err(unfit(format!(
                    "there is a buffer \"{}\" already; choose another name",
                    config.name
                )));
            }
            if writer.classes.get(number).is_none_or(|c| c.buffers.is_empty()) {
                return Err(unfit(format!("class \"{class}\" is not one of cyclic buffers")));
            }
            let id = writer.folds.next_volume;
            writer.folds.next_volume = id.checked_add(1).ok_or_else(|| unfit("there were 65,535 buffers"))?;
            id
        };
        let disk = &*self.shared.disk;
        let blank = must_be_blank(disk, &config.path)?;
        presence::check_dir(disk, config)?;
        space::check(disk, &[space::of_buffer(disk, config, None)])?;
        let secret = secret_of(disk, &self.shared.config.dir)?;
        let made = Cycbuff::create(disk, config, id, &secret).and_then(|buffer| {
            let buffer: Arc<dyn Volume> = Arc::new(buffer);
            self.take_into_use(config, number, &buffer, commit)
        });
        if made.is_err() && blank.is_none() && self.shared.volumes.load().named(&config.name).is_none() {
            // The new file is not used; failing to remove it is harmless.
            let _stays = disk.remove(&config.path);
        }
        made
    }

    fn take_into_use(
        &self,
        config: &BufferConfig,
        class: usize,
        buffer: &Arc<dyn Volume>,
        commit: Commit<'_>,
    ) -> Result<(), SpoolError> {
        let residents = new_residents(self.shared, buffer.id())?;
        let mut writer = self.writer.accepting()?;
        commit().map_err(SpoolError::Config)?;
        writer.folds.add_volume(buffer.clone(), residents, None);
        writer.buffers.push(config.clone());
        if let Some(class) = writer.classes.get_mut(class) {
            class.buffers.push(config.name.clone());
        }
        let (method, name) = (buffer.method() as u8, buffer.name().to_owned());
        let row = JournalRow::Volume(VolumeRow { id: buffer.id(), method, name, head: buffer.head() });
        self.changed(&mut writer, Some(&row))
    }

    /// Grows a buffer. Its contents stay where they are, and the new space is used at once.
    pub fn grow(&self, name: &str, size_bytes: u64, commit: Commit<'_>) -> Result<(), SpoolError> {
        let (config, volumes) = self.buffer(name)?;
        let volume = buffer_in(&volumes, name)?;
        let wanted = BufferConfig { size_bytes, ..config };
        if !volume.can_grow(size_bytes) {
            return Err(cannot_resize(&wanted, volume.file_bytes()));
        }
        let more = size_bytes.saturating_sub(volume.file_bytes());
        let demand = space::SpaceDemand {
            what: format!("growing buffer \"{name}\" by"),
            path: &wanted.path,
            bytes: more,
        };
        space::check(&*self.shared.disk, &[demand])?;
        volume.reserve(size_bytes).map_err(SpoolError::io("reserve space for buffer", &wanted.path))?;
        let mut writer = self.writer.accepting()?;
        commit().map_err(SpoolError::Config)?;
        let grown = volume.grow(size_bytes, unix_secs()).map_err(|e| {
            unfit(format!(
                "the configuration has the new size of buffer \"{name}\", but it could not be made: {e}; it \
                    will be at the next start"
            ))
        })?;
        let grown = grown.ok_or_else(|| cannot_resize(&wanted, volume.file_bytes()))?;
        self.shared.volumes.put(Arc::new(grown));
        if let Some(known) = writer.buffers.iter_mut().find(|b| b.name == name) {
            known.size_bytes = size_bytes;
        }
        self.changed(&mut writer, None)
    }

    /// Makes a buffer accept no more articles (`retired`), or accept them again. Its articles stay readable.
    pub fn retire(&self, name: &str, retired: bool, commit: Commit<'_>) -> Result<(), SpoolError> {
        self.buffer(name)?;
        let mut writer = self.writer.accepting()?;
        let retired_ones = writer.buffers.iter().filter(|b| b.retired || b.name == name);
        let retired_ones: Vec<String> = retired_ones.map(|b| b.name.clone()).collect();
        let class = writer.classes.iter().find(|c| c.buffers.iter().any(|b| b == name));
        if retired && class.is_some_and(|c| c.buffers.iter().all(|b| retired_ones.contains(b))) {
            return Err(unfit(format!(
                "\"{name}\" is the last buffer of its class that takes articles; add another one first"
            )));
        }
        commit().map_err(SpoolError::Config)?;
        if let Some(known) = writer.buffers.iter_mut().find(|b| b.name == name) {
            known.retired = retired;
        }
        self.changed(&mut writer, None)
    }

    /// Moves a buffer to another file or device while it serves.
    pub fn move_to(
        &self,
        name: &str,
        path: &Path,
        progress: &dyn Progress,
        commit: Commit<'_>,
    ) -> Result<(), SpoolError> {
        let (config, volumes) = self.buffer(name)?;
        let from = buffer_in(&volumes, name)?;
        let disk = &*self.shared.disk;
        let blank = must_be_blank(disk, path)?;
        let new = BufferConfig { path: path.into(), size_bytes: from.file_bytes(), ..config.clone() };
        presence::check_dir(disk, &new)?;
        space::check(disk, &[space::of_buffer(disk, &new, None)])?;
        let moved = self.copy_and_switch(from, path, progress, commit);
        match moved {
            Ok(()) => from
                .retract(&format!("moved to {}", path.display()))
                .map_err(SpoolError::io("mark as moved", &config.path)),
            Err(error) => {
                from.stop_copying();
                let unused = self.buffer(name).is_ok_and(|(now, _)| now.path != path);
                if unused && blank.is_none() {
                    // The new file is not used; failing to remove it is harmless.
                    let _stays = disk.remove(path);
                }
                Err(error)
            }
        }
    }

    fn copy_and_switch(
        &self,
        from: &Cycbuff,
        path: &Path,
        progress: &dyn Progress,
        commit: Commit<'_>,
    ) -> Result<(), SpoolError> {
        let disk = &*self.shared.disk;
        let io = || SpoolError::io("copy the buffer to", path);
        let copying = from.copy_to(disk, path, progress).map_err(io())?;
        let mut writer = self.writer.accepting()?;
        let moved = from.finish_copy(disk, copying, unix_secs()).map_err(io())?;
        if let Err(error) = commit() {
            // The copy is complete, and must not be mistaken for the buffer later.
            moved.retract("a copy that was given up").map_err(io())?;
            return Err(SpoolError::Config(error));
        }
        if let Some(known) = writer.buffers.iter_mut().find(|b| b.name == from.name()) {
            known.path = path.into();
        }
        self.shared.volumes.put(Arc::new(moved));
        self.changed(&mut writer, None)
    }

    /// Removes a retired buffer from the spool. If it still holds articles, `articles` must be true: they are
    /// removed with it.
    pub fn remove(&self, name: &str, articles: bool, commit: Commit<'_>) -> Result<(), SpoolError> {
        let (config, volumes) = self.buffer(name)?;
        let volume = buffer_in(&volumes, name)?;
        if !config.retired {
            return Err(unfit(format!("buffer \"{name}\" takes articles; retire it first")));
        }
        let io = |doing: &'static str| SpoolError::io(doing, config.path.clone());
        let mut writer = self.writer.accepting()?;
        let index = self.shared.volumes.load().all().iter().position(|v| v.id() == volume.id());
        let index = index.ok_or_else(|| unfit(format!("buffer \"{name}\" is not there")))?;
        let front = writer.folds.residents.get_mut(index).map(Residents::front);
        let oldest = front.transpose().map_err(io("read residents of"))?.flatten().map(|r| r.place);
        if let Some(oldest) = oldest.filter(|_| !articles) {
            return Err(unfit(format!(
                "buffer \"{name}\" still holds {} bytes of articles; say --articles to remove them with it",
                volume.head().saturating_sub(oldest)
            )));
        }
        // The indexes must forget its articles before the buffer is removed.
        let head = volume.next_cycle(volume.next_cycle(volume.head()));
        writer
            .commit_now(&JournalRow::Skip { volume: volume.id(), head })
            .map_err(|t| SpoolError::no_changes(&t))?;
        writer.folds.displace(index, head).map_err(io("read residents of"))?;
        volume
            .write_header(unix_secs())
            .and_then(|()| volume.sync())
            .map_err(io("write header of buffer"))?;
        writer.folds.remove_volume(volume.id());
        writer.floors = Default::default();
        let known = writer.buffers.iter().position(|b| b.name == name).map(|at| writer.buffers.remove(at));
        let cnfs = writer.classes.iter_mut().filter(|c| c.method == MethodKind::Cnfs);
        cnfs.for_each(|c| c.buffers.retain(|b| b != name));
        self.changed(&mut writer, None)?;
        writer.sync.await_checkpoint()?;
        if let Err(error) = commit() {
            return Err(unfit(format!(
                "buffer \"{name}\" is no longer used, but {error}; take it out of the configuration by hand"
            )));
        }
        drop((writer, known));
        remove_residents(self.shared, volume.id()).map_err(io("remove residents of"))?;
        volume.retract("removed").map_err(io("mark as removed"))
    }

    /// Returns the configuration of a buffer, and the volumes, of which it is one.
    fn buffer(&self, name: &str) -> Result<(BufferConfig, Arc<VolumeTable>), SpoolError> {
        let writer = self.writer.lock();
        let config = writer.buffers.iter().find(|b| b.name == name).cloned();
        config.map(|config| (config, self.shared.volumes.load_full())).ok_or_else(|| {
            let names: Vec<&str> = writer.buffers.iter().map(|b| b.name.as_str()).collect();
            unfit(format!("there is no buffer \"{name}\"; there are: {}", names.join(", ")))
        })
    }

    /// Makes classes use the current buffers, records that in the journal, and takes a checkpoint.
    fn changed(&self, writer: &mut SpoolWriter, row: Option<&JournalRow<'_>>) -> Result<(), SpoolError> {
        let volumes: arc_swap::Guard<Arc<VolumeTable>> = self.shared.volumes.load();
        let retired: Vec<String> =
            writer.buffers.iter().filter(|b| b.retired).map(|b| b.name.clone()).collect();
        for class in writer.classes.iter_mut().filter(|c| !c.buffers.is_empty()) {
            class.use_buffers(&volumes, &retired);
        }
        let current = self.shared.current.load();
        let classes = current.classes.iter().zip(&writer.classes);
        let rings: Vec<_> =
            classes.filter_map(|(config, class)| RingClass::of(config, &class.buffers)).collect();
        writer.folds.rings.configure(&rings, &volumes);
        if let Some(row) = row {
            writer.commit_now(row).map_err(|t| SpoolError::no_changes(&t))?;
        }
        marks::set(&*self.shared.disk, &self.shared.current.load(), &writer.buffers);
        // The next opening must begin with the current buffers.
        writer.sync.await_checkpoint()?;
        let dir = &self.shared.config.dir;
        writer.checkpoint().map_err(SpoolError::io("take a checkpoint in", dir))
    }
}

/// Creates the list of residents of a new volume.
pub(super) fn new_residents(shared: &SharedIndexes, id: u16) -> Result<Residents, SpoolError> {
    let dir = residents_dir(shared, id);
    Residents::open(&shared.disk, dir.clone(), ResidentsState::default())
        .map_err(SpoolError::io("open residents in", dir))
}

/// Removes index files to which no checkpoint refers any more.
pub(super) fn remove_residents(shared: &SharedIndexes, id: u16) -> std::io::Result<()> {
    let dir = residents_dir(shared, id);
    shared.disk.list(&dir)?.iter().try_for_each(|name| shared.disk.remove(&dir.join(name)))
}

fn residents_dir(shared: &SharedIndexes, id: u16) -> PathBuf {
    SpoolPaths::new(&shared.config.dir).residents.join(format!("{id:05}"))
}

fn buffer_in<'v>(volumes: &'v VolumeTable, name: &str) -> Result<&'v Cycbuff, SpoolError> {
    volumes.cycbuff(name).ok_or_else(|| unfit(format!("\"{name}\" is not a cyclic buffer")))
}

/// Refuses a path that is in use; returns `Some` if there is a blank file or device.
pub(super) fn must_be_blank(disk: &dyn disk::Disk, path: &Path) -> Result<Option<()>, SpoolError> {
    match FoundBuffer::open(disk, path)? {
        Some(found) => Err(unfit(format!(
            "{} is a newsreel buffer already ({}); name another path, or empty it first",
            path.display(),
            found.header.map_or("with damaged headers".to_owned(), |h| format!("\"{}\"", h.name))
        ))),
        None => {
            let there = disk.open(path, disk::OpenMode::ReadOnly);
            Ok(there.ok().map(|_| ()))
        }
    }
}
