//! What an archive asks of the spool: to hear of kept articles before they expire, and to read those of
//! cyclic volumes before they are overwritten.

use super::Spool;
use crate::base::error::ReadError;
use crate::base::key::Key;
use crate::base::leaving::MayLeave;
use crate::base::token::Token;
use crate::base::xref::pairs_of_line;
use crate::read::article::ArticleBuf;
use disk::Patience;
use std::sync::Arc;

/// Copies articles that leave the spool.
pub trait Archivist: MayLeave {
    /// Copies the articles that it has held back since it was last asked. Whether a pass may remove
    /// something now that the last one could not.
    fn archive_held(&self, spool: &Spool) -> bool;
}

/// A volume that overwrites its oldest articles; all in its own places, which only grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CyclicVolume {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// The oldest place that may hold an article.
    pub tail: u64,
    /// Where the next article goes.
    pub head: u64,
    /// Bytes that it holds.
    pub area_bytes: u64,
}

/// A living article of a cyclic volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArticle {
    /// Its place.
    pub place: u64,
    /// Hash of its Message-ID.
    pub key: Key,
    /// Its groups and numbers, by its Xref line.
    pub numbers: Vec<(String, u64)>,
    /// Nobody is shown it.
    pub is_hidden: bool,
}

/// What a reader of cyclic volumes missed, since it was overwritten first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overwritten {
    /// How many articles.
    pub articles: u64,
    /// The groups and numbers of the first ones.
    pub numbers: Vec<Vec<(String, u64)>>,
}

impl Spool {
    /// Lets an archivist hear of articles before expiry removes them, or nobody.
    pub fn set_archivist(&self, archivist: Option<Arc<dyn Archivist>>) {
        *self.archivist.lock() = archivist;
    }

    /// Who hears of articles before expiry removes them.
    pub(crate) fn archivist(&self) -> Option<Arc<dyn Archivist>> {
        self.archivist.lock().clone()
    }

    /// The volumes that overwrite their oldest articles.
    pub fn cyclic_volumes(&self) -> Vec<CyclicVolume> {
        let volumes = self.shared.volumes.load();
        let cyclic = |volume: &Arc<dyn crate::method::Volume>| {
            let own = volume.cyclic()?;
            let (id, name, head) = (volume.id(), volume.name().to_owned(), volume.head());
            Some(CyclicVolume { id, name, tail: own.tail(), head, area_bytes: own.area() })
        };
        volumes.all().iter().filter_map(cyclic).collect()
    }

    /// Reads the first living article of a cyclic volume from one place on and before another. With an error
    /// comes the place of the article that cannot be read.
    pub fn read_next(
        &self,
        volume: u16,
        (from, to): (u64, u64),
        out: &mut ArticleBuf,
    ) -> Result<Option<StoredArticle>, (u64, ReadError)> {
        let mut from = from;
        loop {
            let place = {
                let volumes = self.shared.volumes.load();
                volumes.get(volume).and_then(|volume| volume.cyclic()?.next_living(from))
            };
            let Some(place) = place.filter(|place| *place < to) else { return Ok(None) };
            let method = self.shared.volumes.load().get(volume).map(|volume| volume.method());
            let Some(method) = method else { return Ok(None) };
            // Reading goes by method, volume and place alone.
            let token = Token { method, class: 0, volume, place };
            let is_read = self.shared.read(&token, None, Patience::Wait, out);
            if is_read.map_err(|error| (place, error))?
                && let Some(header) = out.header
            {
                let number =
                    |(name, number): (&[u8], u64)| Some((std::str::from_utf8(name).ok()?.to_owned(), number));
                let numbers = pairs_of_line(out.article()).filter_map(number).collect();
                let is_hidden = self.shared.hidden.get(&header.key).is_some();
                return Ok(Some(StoredArticle { place, key: header.key, numbers, is_hidden }));
            }
            from = place + 1;
        }
    }

    /// `reader` has read the articles of a cyclic volume before a place: what is overwritten from there on is
    /// counted for it from now on.
    pub fn watch_overwriting(&self, reader: &str, volume: u16, read_to: u64) {
        self.shared.overtaken.watch(reader, volume, read_to);
    }

    /// Readers that are not among these watch no volume any more.
    pub fn end_watching_but(&self, is_kept: &dyn Fn(&str) -> bool) {
        self.shared.overtaken.keep(is_kept);
    }

    /// What `reader` missed since it last asked.
    pub fn overwritten_unread(&self, reader: &str) -> Overwritten {
        let missed = self.shared.overtaken.take(reader);
        let table = self.shared.groups.snapshot();
        let named = |numbers: Vec<_>| {
            let name = |(id, number)| Some((table.get(id)?.name.to_string(), number));
            numbers.into_iter().filter_map(name).collect()
        };
        Overwritten { articles: missed.articles, numbers: missed.numbers.into_iter().map(named).collect() }
    }
}
