//! Interface for archives, which copy the articles of cyclic volumes before they are overwritten.

use crate::index::fold::SharedIndexes;
use crate::read::article::ArticleBuf;
use disk::ReadMode;
use spool_base::error::ReadError;
use spool_base::key::ArticleKey;
use spool_base::token::Token;
use spool_base::xref::pairs_of_line;
use std::ops::Range;
use std::sync::Arc;

/// A volume that overwrites its oldest articles; positions are places, which only grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CyclicVolume {
    /// Number of the volume.
    pub id: u16,
    /// Name of the volume.
    pub name: String,
    /// Oldest place that may hold an article.
    pub tail: u64,
    /// Place of the next article.
    pub head: u64,
    /// Capacity in bytes.
    pub area_bytes: u64,
}

/// A living article of a cyclic volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArticle {
    /// Place of the article.
    pub place: u64,
    /// Hash of the Message-ID.
    pub key: ArticleKey,
    /// Groups and numbers according to its Xref line.
    pub numbers: Vec<(String, u64)>,
    /// Whether the article is hidden.
    pub is_hidden: bool,
}

/// Articles of cyclic volumes that were overwritten before a reader had read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverwrittenArticles {
    /// Number of articles.
    pub articles: u64,
    /// Groups and numbers of the first articles.
    pub numbers: Vec<Vec<(String, u64)>>,
}

/// The articles of volumes that overwrite them, for archives that copy them before that.
#[derive(Debug, Clone, Copy)]
pub struct CyclicArticles<'s> {
    shared: &'s SharedIndexes,
}

impl<'s> CyclicArticles<'s> {
    pub(crate) fn new(shared: &'s SharedIndexes) -> Self {
        Self { shared }
    }

    /// Returns the volumes that overwrite their oldest articles.
    pub fn volumes(&self) -> Vec<CyclicVolume> {
        let volumes = self.shared.volumes.load();
        let cyclic = |volume: &Arc<dyn spool_methods::Volume>| {
            let own = volume.cyclic()?;
            let (id, name, head) = (volume.id(), volume.name().to_owned(), volume.head());
            Some(CyclicVolume { id, name, tail: own.tail(), head, area_bytes: own.area() })
        };
        volumes.all().iter().filter_map(cyclic).collect()
    }

    /// Reads the first living article of a cyclic volume in a range of places. An error comes with the place
    /// of the unreadable article.
    pub fn read_next(
        &self,
        volume: u16,
        places: Range<u64>,
        out: &mut ArticleBuf,
    ) -> Result<Option<StoredArticle>, (u64, ReadError)> {
        let mut from = places.start;
        loop {
            let place = {
                let volumes = self.shared.volumes.load();
                volumes.get(volume).and_then(|volume| volume.cyclic()?.next_living(from))
            };
            let Some(place) = place.filter(|place| *place < places.end) else { return Ok(None) };
            let method = self.shared.volumes.load().get(volume).map(|volume| volume.method());
            let Some(method) = method else { return Ok(None) };
            // Reading depends on method, volume and place only.
            let token = Token { method, class: 0, volume, place };
            let is_read = self.shared.read(&token, None, ReadMode::Wait, out);
            if is_read.map_err(|error| (place, error))?
                && let Some(header) = out.header
            {
                let numbers = pairs_of_line(out.article())
                    .filter_map(|(name, number)| Some((std::str::from_utf8(name).ok()?.to_owned(), number)))
                    .collect();
                let is_hidden = self.shared.hidden.get(&header.key).is_some();
                return Ok(Some(StoredArticle { place, key: header.key, numbers, is_hidden }));
            }
            from = place + 1;
        }
    }

    /// Records that `reader` has read the articles of a cyclic volume before a place: from now on,
    /// overwritten articles from there on are counted for it.
    pub fn watch(&self, reader: &str, volume: u16, read_to: u64) {
        self.shared.overtaken.watch(reader, volume, read_to);
    }

    /// Ends the watches of all readers that `is_kept` rejects.
    pub fn end_watches_but(&self, is_kept: &dyn Fn(&str) -> bool) {
        self.shared.overtaken.keep(is_kept);
    }

    /// Returns the articles that `reader` missed since the last call.
    pub fn overwritten_unread(&self, reader: &str) -> OverwrittenArticles {
        let missed = self.shared.overtaken.take(reader);
        let table = self.shared.groups.snapshot();
        let named = |numbers: Vec<_>| {
            let name = |(id, number)| Some((table.get(id)?.name.to_string(), number));
            numbers.into_iter().filter_map(name).collect()
        };
        OverwrittenArticles {
            articles: missed.articles,
            numbers: missed.numbers.into_iter().map(named).collect(),
        }
    }
}
