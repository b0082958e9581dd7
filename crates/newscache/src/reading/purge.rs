//! What operators drop from the cache: an article, or all of a group. It is fetched again when it is wanted.
//!
//! A large article is a file, which is removed. A small one is dropped from its group's index, and its file
//! is written again without it. Nothing else is lost: what else counts in that file is copied first.

use std::io;
use std::path::Path;
use std::sync::Arc;

use disk::ReadMode;

use crate::base::record::hash;
use crate::books::bookkeeping::CacheFile;
use crate::cache::{Cache, CacheInner};
use crate::index::cells::GroupCell;
use crate::index::ids::{ArticlePointer, EMPTY};
use crate::index::loaded::short;
use crate::reading::heads::name_of_head;

impl Cache {
    /// Drops the article with a Message-ID, and its header lines; returns whether they were cached.
    ///
    /// # Errors
    /// Errors of the disk, or no room to write a file again: the article may then come back at a restart.
    pub fn purge_article(&self, id: &[u8], now: u64) -> io::Result<bool> {
        let is_article = self.purge_named(id, now)?;
        let is_head = self.purge_named(&name_of_head(id), now)?;
        self.not_present(id);
        Ok(is_article || is_head)
    }

    /// Drops everything cached of the groups of this name, except articles that are stored with another
    /// group; returns the upstreams of these groups.
    ///
    /// # Errors
    /// Errors of the disk; nothing of a group is served after one.
    pub fn purge_group(&self, name: &[u8], now: u64) -> io::Result<Vec<Arc<str>>> {
        let origins: Vec<Arc<str>> = {
            let books = self.0.books.lock();
            let of_name = books.slots.iter().filter(|slot| *slot.name == *name);
            let cached = of_name.filter(|slot| slot.has_files() || slot.marks().is_some());
            cached.map(|slot| slot.origin.clone()).collect()
        };
        for origin in &origins {
            self.group(origin, name, now).begin_anew(now)?;
        }
        Ok(origins)
    }

    /// Drops what is stored under a Message-ID, or the name of header lines.
    fn purge_named(&self, name: &[u8], now: u64) -> io::Result<bool> {
        let hash = hash(&[name]);
        let mut is_found = false;
        if self.open_large(name, hash, ReadMode::Wait, now)?.is_some() {
            let mut books = self.0.books.lock();
            let gone = books.large(hash).and_then(|unit| Some((unit, books.remove(unit)?)));
            drop(books);
            self.0.discard_durably(gone)?;
            is_found = true;
        }
        let mut pointers: Vec<ArticlePointer> =
            self.0.ids.find(hash, ReadMode::Wait, &mut { EMPTY })?.collect();
        pointers.extend(self.0.recent.get(hash));
        for pointer in pointers {
            if let Some(cell) = self.0.cell_of_key(pointer.key, now) {
                is_found |= self.0.purge_small(&cell, pointer.number, name, short(hash))?;
            }
        }
        Ok(is_found)
    }
}

impl CacheInner {
    /// Drops the small article of a number, if it has this name, whose short hash this is.
    fn purge_small(&self, cell: &Arc<GroupCell>, number: u64, name: &[u8], short: u32) -> io::Result<bool> {
        let Some(located) = self.stored(cell, number, short, ReadMode::Wait)? else { return Ok(false) };
        let read = self.read(located, ReadMode::Wait)?;
        if read.is_none_or(|read| read.record().is_none_or(|record| record.id != name)) {
            return Ok(false);
        }
        self.with_index(cell, ReadMode::Wait, |loaded| {
            let entry = loaded.articles.get(number);
            let Some(entry) = entry.filter(|entry| !entry.is_link() && entry.id == short) else {
                return Ok(());
            };
            let seq = entry.place().seq;
            loaded.articles.remove(number);
            self.rewrite(cell, loaded, seq)?;
            match loaded.segment(seq) {
                None => Ok(()),
                Some(_) => Err(io::Error::other("a file of the cache cannot be written again without it")),
            }
        })?;
        sync_dir_of(self, located.file)?;
        Ok(true)
    }

    /// Removes a file that the books have dropped, so that it does not come back after a power cut.
    fn discard_durably(&self, gone: Option<(u32, CacheFile)>) -> io::Result<()> {
        let Some((unit, file)) = gone else { return Ok(()) };
        self.discard(&[(unit, file)]);
        sync_dir_of(self, file)
    }
}

fn sync_dir_of(inner: &CacheInner, file: CacheFile) -> io::Result<()> {
    inner.disk.sync_dir(file.path(&inner.dir).parent().unwrap_or(Path::new("")))
}
