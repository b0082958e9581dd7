//! Changing the configuration of an open spool: checked, prepared, and applied at one moment; or refused
//! without effect.
//!
//! Three steps. [`Reconfiguration::judge`] reports the obstacles and changes nothing.
//! [`Reconfiguration::prepare`] creates new files on disk (buffers, directories of classes), without effect
//! on anything else, and removes them if it is dropped. [`PreparedConfig::switch`] holds the writer, writes
//! the rows that record the change, and then cannot fail. The caller makes the configuration durable
//! beforehand, so a crash at any point leaves a spool that opens with it (`docs/states.md`).

use crate::care::buffers::{must_be_blank, new_residents, remove_residents};
use crate::index::fold::SharedIndexes;
use crate::index::groups::Group;
use crate::index::kept::KeptList;
use crate::index::residents::Residents;
use crate::index::rings::RingClass;
use crate::index::rules::{CLASSES_MAX, StorageRules};
use crate::open::paths::SpoolPaths;
use crate::open::recovery::{cannot_resize, indexes, marks, secret_of, trees};
use crate::write::commit::SpoolWriter;
use crate::write::floor::Floors;
use crate::write::locked::LockedWriter;
use crate::write::manager::Class;
use crate::write::policy::ExpiryPolicy;
use disk::clock::unix_secs;
use spool_base::config::{BufferConfig, ClassConfig, SpoolConfig};
use spool_base::error::{SpoolError, SpoolTrouble};
use spool_base::token::MethodKind;
use spool_journal::{JournalRow, VolumeRow};
use spool_methods::cnfs::Cycbuff;
use spool_methods::{Cyclic, MemoryVolume, Volume, VolumeTable, tree_header};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reason why a configuration cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigObjection {
    /// Subject of the objection.
    pub subject: ObjectionSubject,
    /// Problem and remedy, in a sentence without a full stop.
    pub text: String,
}

/// Subject of an objection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectionSubject {
    /// Buffer of this name.
    Buffer(String),
    /// Class of this name.
    Class(String),
    /// The configuration as a whole.
    Whole,
}

/// Changes of the configuration of an open spool; see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct Reconfiguration<'s> {
    shared: &'s SharedIndexes,
    writer: &'s LockedWriter,
}

/// A configuration ready to be applied; new files are removed if it is dropped instead.
#[derive(Debug)]
pub struct PreparedConfig<'s> {
    parts: Reconfiguration<'s>,
    config: SpoolConfig,
    rules: StorageRules,
    /// Group conditions of the rules that each group meets, by group id; `None`: the rules are unchanged.
    rule_bits: Option<Vec<u64>>,
    policy: Arc<ExpiryPolicy>,
    made: Vec<NewVolume>,
}

/// A new volume, not yet in use.
#[derive(Debug)]
struct NewVolume {
    volume: Arc<dyn Volume>,
    residents: Residents,
    kept: Option<KeptList>,
    /// Files that did not exist before.
    files: Vec<PathBuf>,
}

fn buffer_objection(buffer: &BufferConfig, text: impl Into<String>) -> ConfigObjection {
    ConfigObjection { subject: ObjectionSubject::Buffer(buffer.name.clone()), text: text.into() }
}

fn class_objection(class: &ClassConfig, text: impl Into<String>) -> ConfigObjection {
    ConfigObjection { subject: ObjectionSubject::Class(class.name.clone()), text: text.into() }
}

fn position<'c>(classes: &'c [ClassConfig]) -> impl Fn(&str) -> Option<usize> + 'c {
    |name| classes.iter().position(|class| class.name == name)
}

impl<'s> Reconfiguration<'s> {
    pub(crate) fn new(shared: &'s SharedIndexes, writer: &'s LockedWriter) -> Self {
        Self { shared, writer }
    }

    /// Returns everything that prevents applying a configuration now; changes nothing.
    pub fn judge(&self, new: &SpoolConfig) -> Vec<ConfigObjection> {
        let mut writer = self.writer.lock();
        let mut objections = self.judge_held(&mut writer, new);
        let known = |buffer: &&BufferConfig| writer.buffers.iter().any(|b| b.name == buffer.name);
        let fresh: Vec<&BufferConfig> = new.buffers.iter().filter(|b| !known(b)).collect();
        drop(writer);
        for buffer in fresh {
            if let Err(error) = must_be_blank(&*self.shared.disk, &buffer.path) {
                objections.push(buffer_objection(buffer, error.to_string()));
            }
        }
        objections
    }

    /// Checks conditions that may have changed since the last check.
    fn judge_held(&self, writer: &mut SpoolWriter, new: &SpoolConfig) -> Vec<ConfigObjection> {
        let mut objections = Vec::new();
        let whole =
            |error: SpoolError| ConfigObjection { subject: ObjectionSubject::Whole, text: error.to_string() };
        if new.classes.len() > CLASSES_MAX {
            let text = format!("{} storage classes; at most {CLASSES_MAX} are possible", new.classes.len());
            objections.push(ConfigObjection { subject: ObjectionSubject::Whole, text });
        }
        objections.extend(StorageRules::new(&new.rules, position(&new.classes)).err().map(whole));
        objections.extend(ExpiryPolicy::new(new).err().map(whole));
        self.judge_buffers(writer, new, &mut objections);
        self.judge_classes(writer, new, &mut objections);
        objections
    }

    fn judge_buffers(
        &self,
        writer: &mut SpoolWriter,
        new: &SpoolConfig,
        objections: &mut Vec<ConfigObjection>,
    ) {
        let volumes = self.shared.volumes.load();
        for old in writer.buffers.clone() {
            let Some(buffer) = new.buffers.iter().find(|b| b.name == old.name) else {
                let index = volumes.all().iter().position(|v| is_buffer(&**v, &old.name));
                let held =
                    index.and_then(|index| writer.folds.residents.get_mut(index)).map(Residents::front);
                if held.is_some_and(|front| !matches!(front, Ok(None))) {
                    objections.push(buffer_objection(
                        &old,
                        format!(
                            "buffer \"{0}\" holds articles and cannot just be left out; `newsreel buffer \
                                retire {0}` lets \
                             it take no more, `newsreel buffer remove {0} --articles` takes it out with them",
                            old.name
                        ),
                    ));
                }
                continue;
            };
            if !is_same(&buffer.path, &old.path) {
                objections.push(buffer_objection(
                    buffer,
                    format!(
                        "buffer \"{0}\" lies in {1}; `newsreel buffer move {0} {2}` copies it there while \
                            serving",
                        old.name,
                        old.path.display(),
                        buffer.path.display()
                    ),
                ));
            }
            let Some(volume) = volumes.cycbuff(&old.name) else { continue };
            let has = volume.file_bytes();
            if u64::from(buffer.block_bytes) != volume.block() {
                let text = format!(
                    "the block of a buffer is fixed when it is made; this one has {}",
                    volume.block()
                );
                objections.push(buffer_objection(buffer, text));
            }
            if buffer.size_bytes > has && !volume.can_grow(buffer.size_bytes) {
                objections.push(buffer_objection(buffer, cannot_resize(buffer, has).to_string()));
            }
            if buffer.size_bytes > 0 && buffer.size_bytes < has {
                objections.push(buffer_objection(buffer, cannot_resize(buffer, has).to_string()));
            }
        }
        for buffer in &new.buffers {
            let other = |v: &&Arc<dyn Volume>| v.name() == buffer.name && v.method() != MethodKind::Cnfs;
            if let Some(other) = volumes.all().iter().find(other) {
                let text = format!("\"{}\" was a class of method {}", buffer.name, other.method().name());
                objections.push(buffer_objection(buffer, format!("{text}; choose another name, or restart")));
            }
        }
    }

    fn judge_classes(
        &self,
        writer: &mut SpoolWriter,
        new: &SpoolConfig,
        objections: &mut Vec<ConfigObjection>,
    ) {
        let (current, volumes) = (self.shared.current.load_full(), self.shared.volumes.load());
        let known = |name: &str| current.classes.iter().chain(&writer.left).find(|class| class.name == name);
        for class in &new.classes {
            let Some(old) = known(&class.name) else {
                if class.method != MethodKind::Cnfs && volumes.named(&class.name).is_some() {
                    let text = format!("\"{}\" is the name of a buffer; choose another one", class.name);
                    objections.push(class_objection(class, text));
                }
                continue;
            };
            if old.method != class.method {
                objections.push(class_objection(
                    class,
                    format!(
                        "class \"{}\" has method {} until a restart; a class of another name can have \
                            another method now",
                        class.name,
                        old.method.name()
                    ),
                ));
            } else if class.method.keeps() && !is_same(&old.tree.path, &class.tree.path) {
                objections.push(class_objection(
                    class,
                    format!(
                        "class \"{}\" lies in {}; stop the server, move the directory and start it again",
                        class.name,
                        old.tree.path.display()
                    ),
                ));
            }
        }
        for old in current.classes.iter().filter(|old| old.method.keeps()) {
            let index = volumes.all().iter().position(|v| v.name() == old.name && v.method() == old.method);
            let kept = index.and_then(|index| writer.folds.kept.get(index)?.as_ref());
            let entries = kept.map_or(0, |kept| kept.entries);
            if !new.classes.iter().any(|class| class.name == old.name) && entries > 0 {
                let text = format!(
                    "class \"{}\" keeps {entries} articles and cannot just be left out; take its [[rule]] \
                        away, so that \
                     it gets no more, and remove it when they are due",
                    old.name
                );
                objections.push(class_objection(old, text));
            }
        }
    }

    /// Creates the missing files of a configuration, or returns all obstacles without doing anything.
    pub fn prepare(&self, config: SpoolConfig) -> Result<PreparedConfig<'s>, Vec<ConfigObjection>> {
        let objections = self.judge(&config);
        if !objections.is_empty() {
            return Err(objections);
        }
        let whole = |error: SpoolError| {
            vec![ConfigObjection { subject: ObjectionSubject::Whole, text: error.to_string() }]
        };
        let rules = StorageRules::new(&config.rules, position(&config.classes)).map_err(whole)?;
        let policy = Arc::new(ExpiryPolicy::new(&config).map_err(whole)?);
        let changed = self.shared.current.load().rules != config.rules;
        let rule_bits = changed.then(|| self.rule_bits(&rules));
        let mut prepared =
            PreparedConfig { parts: *self, config, rules, rule_bits, policy, made: Vec::new() };
        prepared.make().map(|()| prepared)
    }

    fn rule_bits(&self, rules: &StorageRules) -> Vec<u64> {
        let table = self.shared.groups.snapshot();
        let mut bits = Vec::new();
        for group in table.sorted().iter() {
            let at = group.id.0 as usize;
            if bits.len() <= at {
                bits.resize(at + 1, 0);
            }
            if let Some(place) = bits.get_mut(at) {
                *place = rules.group_bits(group.name.as_bytes());
            }
        }
        bits
    }
}

/// Reports whether two paths are the same, one of which may be relative.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || std::path::absolute(one).ok() == std::path::absolute(other).ok()
}

fn is_buffer(volume: &dyn Volume, name: &str) -> bool {
    volume.name() == name && volume.method() == MethodKind::Cnfs
}

impl PreparedConfig<'_> {
    /// Creates missing buffers and directories, and reserves space for buffers that grow.
    fn make(&mut self) -> Result<(), Vec<ConfigObjection>> {
        let volumes = self.parts.shared.volumes.load();
        for buffer in self.config.buffers.clone() {
            let made = match volumes.cycbuff(&buffer.name) {
                Some(volume) if buffer.size_bytes > volume.file_bytes() => volume
                    .reserve(buffer.size_bytes)
                    .map_err(SpoolError::io("reserve space for buffer", &buffer.path)),
                Some(_) => Ok(()),
                None => self.make_buffer(&buffer),
            };
            made.map_err(|error| vec![buffer_objection(&buffer, error.to_string())])?;
        }
        for class in self.config.classes.clone() {
            let there = volumes.all().iter().any(|v| v.name() == class.name && v.method() == class.method);
            if !there && !matches!(class.method, MethodKind::Cnfs | MethodKind::Trash) {
                let made = self.make_class(&class);
                made.map_err(|error| vec![class_objection(&class, error.to_string())])?;
            }
        }
        Ok(())
    }

    /// Returns the number of a new volume; numbers are never reused.
    fn next_id(&self) -> Result<u16, SpoolError> {
        let mut writer = self.parts.writer.accepting()?;
        let id = writer.folds.next_volume;
        let next = id.checked_add(1).ok_or_else(|| SpoolError::Unfit("there were 65,535 volumes".into()))?;
        writer.folds.next_volume = next;
        Ok(id)
    }

    fn make_buffer(&mut self, buffer: &BufferConfig) -> Result<(), SpoolError> {
        let shared = self.parts.shared;
        let was_there = must_be_blank(&*shared.disk, &buffer.path)?.is_some();
        let secret = secret_of(&*shared.disk, &shared.config.dir)?;
        let files = if was_there { Vec::new() } else { vec![buffer.path.clone()] };
        let made = Cycbuff::create(&*shared.disk, buffer, self.next_id()?, &secret);
        match made.and_then(|made| self.add(Arc::new(made), files.clone())) {
            Ok(()) => Ok(()),
            Err(error) => {
                unmake(shared, &files);
                Err(error)
            }
        }
    }

    fn make_class(&mut self, class: &ClassConfig) -> Result<(), SpoolError> {
        let shared = self.parts.shared;
        let id = self.next_id()?;
        if class.method == MethodKind::Memory {
            return self
                .add(Arc::new(MemoryVolume::new(id, &class.name, class.size_bytes, None)), Vec::new());
        }
        let secret = secret_of(&*shared.disk, &shared.config.dir)?;
        let dir = &class.tree.path;
        let files =
            if tree_header::is_blank(&*shared.disk, dir)? { tree_header::files(dir) } else { Vec::new() };
        let known = trees::TreeInfo { head: None, id, secret: &secret, used: false };
        let names = self.parts.writer.lock().folds.names.clone();
        let made = trees::open(&shared.disk, &names, class, known).and_then(|volume| {
            let taken = shared.volumes.load().get(volume.id()).is_some();
            let taken = taken || self.made.iter().any(|made| made.volume.id() == volume.id());
            let text = || format!("{} belongs to a volume that is in use", dir.display());
            if taken { Err(SpoolError::Unfit(text())) } else { self.add(volume, files.clone()) }
        });
        made.inspect_err(|_| unmake(shared, &files))
    }

    fn add(&mut self, volume: Arc<dyn Volume>, files: Vec<PathBuf>) -> Result<(), SpoolError> {
        let shared = self.parts.shared;
        let residents = new_residents(shared, volume.id())?;
        let parent = SpoolPaths::new(&shared.config.dir).kept;
        let dir = || parent.join(format!("{:05}", volume.id()));
        let kept = volume.retained().map(|_| KeptList::open(&shared.disk, dir(), &Vec::new()));
        let kept = kept.transpose().map_err(SpoolError::io("open residents in", &parent))?;
        self.made.push(NewVolume { volume, residents, kept, files });
        Ok(())
    }

    /// Applies the configuration. An error leaves the spool as it was, except for buffers that have already
    /// grown.
    pub fn switch(mut self) -> Result<(), SpoolError> {
        let Reconfiguration { shared, writer } = self.parts;
        let mut writer = writer.accepting()?;
        if let Some(objection) = self.parts.judge_held(&mut writer, &self.config).into_iter().next() {
            return Err(SpoolError::Unfit(objection.text));
        }
        let grown = grow(shared, &mut writer, &self.config)?;
        let headers = shared.row_headers.add(&*shared.disk, &self.config.overview_headers);
        headers.map_err(SpoolError::io("note the further headers of overview in", &self.config.dir))?;
        let old = shared.current.load_full();
        if let Err(trouble) = self.write_rows(&mut writer, &old) {
            writer.journal.discard();
            return Err(SpoolError::no_changes(&trouble));
        }
        // Nothing can fail from here on.
        let made = std::mem::take(&mut self.made);
        let is_new = !made.is_empty();
        made.into_iter().for_each(|new| writer.folds.add_volume(new.volume, new.residents, new.kept));
        let removed = take_buffers(shared, &mut writer, &self.config);
        let is_turned = self.apply(&mut writer, &old);
        let smaller = self.config.article_bytes_max < old.article_bytes_max;
        if grown || is_new || smaller || is_turned || !removed.is_empty() {
            // The next opening must begin with the current volumes and rings, and read unsynced data as it is
            // now.
            let _trouble_is_known = writer.sync.await_checkpoint();
            writer.checkpoint_unless_pending();
        }
        for volume in removed {
            // A file still marked as the buffer would only be refused by the next use of its path.
            let _stays = writer.sync.await_checkpoint().map(|()| remove_residents(shared, volume.id()));
            let _stays = volume.cycbuff().map(|buffer| buffer.retract("removed"));
        }
        Ok(())
    }

    fn write_rows(&self, writer: &mut SpoolWriter, old: &SpoolConfig) -> Result<(), SpoolTrouble> {
        if self.made.is_empty() && self.config.path_identity == old.path_identity {
            return Ok(());
        }
        writer.accepting()?;
        if self.config.path_identity != old.path_identity {
            writer.journal.push(&JournalRow::Identity(self.config.path_identity.clone()));
        }
        for NewVolume { volume: v, .. } in &self.made {
            let row =
                VolumeRow { id: v.id(), method: v.method() as u8, name: v.name().into(), head: v.head() };
            writer.journal.push(&JournalRow::Volume(row));
        }
        writer.write_now()
    }

    /// Uses the configuration; returns whether rings have changed.
    fn apply(&mut self, writer: &mut SpoolWriter, old: &SpoolConfig) -> bool {
        let shared = self.parts.shared;
        let config = std::mem::replace(&mut self.config, SpoolConfig::new(PathBuf::new()));
        let volumes = shared.volumes.load();
        for class in config.classes.iter().filter(|class| class.method.keeps()) {
            let own = volumes.retained().filter(|v| v.name() == class.name && v.method() == class.method);
            own.for_each(|volume| volume.configure(&class.tree));
        }
        let gone = old.classes.iter().filter(|old| !config.classes.iter().any(|new| new.name == old.name));
        writer.left.retain(|left| !config.classes.iter().any(|new| new.name == left.name));
        writer.left.extend(gone.cloned());
        writer.classes = classes(writer, &old.classes, &config, &volumes);
        writer.buffers.clone_from(&config.buffers);
        writer.folds.rules = std::mem::take(&mut self.rules);
        if let Some(bits) = &self.rule_bits {
            let table = shared.groups.snapshot();
            table.sorted().iter().for_each(|group| set_rule_bits(writer, group, bits));
        }
        writer.policy = self.policy.clone();
        writer.folds.kept.iter_mut().flatten().for_each(|list| list.forget_quiet());
        writer.floors = Floors::default();
        writer.folds.identity.clone_from(&config.path_identity);
        writer.folds.overview_headers.clone_from(&config.overview_headers);
        writer.generation += 1;
        shared.packing.configure(&config.classes);
        if config.durability != old.durability {
            writer.sync.set_durability(config.durability);
        }
        writer.behind.set_bytes(config.hot_memory.bytes);
        marks::set(&*shared.disk, &config, &config.buffers);
        let is_turned = writer.folds.rings.configure(&RingClass::all(&config), &volumes);
        shared.current.store(Arc::new(config));
        is_turned
    }
}

impl Drop for PreparedConfig<'_> {
    fn drop(&mut self) {
        for made in std::mem::take(&mut self.made) {
            drop(made.volume);
            unmake(self.parts.shared, &made.files);
        }
    }
}

/// Removes new files that are not used; failing to remove them is harmless.
fn unmake(shared: &SharedIndexes, files: &[PathBuf]) {
    for file in files {
        let _stays = shared.disk.remove(file);
    }
}

/// Grows buffers to their configured sizes; returns whether any grew.
fn grow(shared: &SharedIndexes, writer: &mut SpoolWriter, config: &SpoolConfig) -> Result<bool, SpoolError> {
    let mut any = false;
    for buffer in &config.buffers {
        let volumes = shared.volumes.load();
        let Some(volume) = volumes.cycbuff(&buffer.name) else { continue };
        if buffer.size_bytes <= volume.file_bytes() {
            continue;
        }
        let grown = volume.grow(buffer.size_bytes, unix_secs());
        let grown = grown.map_err(SpoolError::io("enlarge buffer", &buffer.path))?;
        let grown = grown.ok_or_else(|| cannot_resize(buffer, volume.file_bytes()))?;
        shared.volumes.put(Arc::new(grown));
        if let Some(known) = writer.buffers.iter_mut().find(|b| b.name == buffer.name) {
            known.size_bytes = buffer.size_bytes;
        }
        any = true;
    }
    Ok(any)
}

/// Removes the buffers that are no longer in the configuration; they are empty.
fn take_buffers(
    shared: &SharedIndexes,
    writer: &mut SpoolWriter,
    config: &SpoolConfig,
) -> Vec<Arc<dyn Volume>> {
    let left_out = |old: &&BufferConfig| !config.buffers.iter().any(|new| new.name == old.name);
    let volumes = shared.volumes.load_full();
    let volume = |old: &BufferConfig| volumes.all().iter().find(|v| is_buffer(&***v, &old.name)).cloned();
    let removed: Vec<_> = writer.buffers.iter().filter(left_out).filter_map(volume).collect();
    removed.iter().for_each(|volume| writer.folds.remove_volume(volume.id()));
    removed
}

/// Returns the classes of a configuration; existing ones continue where they are.
fn classes(
    writer: &SpoolWriter,
    before: &[ClassConfig],
    config: &SpoolConfig,
    volumes: &VolumeTable,
) -> Vec<Class> {
    let retired: Vec<String> = config.buffers.iter().filter(|b| b.retired).map(|b| b.name.clone()).collect();
    let new = |class: &ClassConfig| {
        let mut new = Class::new(class, indexes(class, volumes), volumes, position(&config.classes));
        new.use_buffers(volumes, &retired);
        let old = before.iter().position(|old| old.name == class.name).and_then(|at| writer.classes.get(at));
        if let Some(old) = old {
            (new.spilled, new.turned_away) = (old.spilled, old.turned_away);
        }
        new
    };
    config.classes.iter().map(new).collect()
}

fn set_rule_bits(writer: &mut SpoolWriter, group: &Group, bits: &[u64]) {
    let at = group.id.0 as usize;
    // A group that was added after the others were read.
    let bits = bits.get(at).copied().filter(|bits| *bits > 0);
    let bits = bits.unwrap_or_else(|| writer.folds.rules.group_bits(group.name.as_bytes()));
    if let Some(numbers) = writer.folds.numbers.get_mut(at) {
        numbers.rule_bits = bits;
    }
}
