//! Logical rings: in a class with `ring`, what is overwritten follows from the articles filed in it alone,
//! and neither from compression nor from the number and size of its buffers (`docs/decisions/0125-rings.md`).
//!
//! Every article filed in the class counts, cancelled or not, by its size without compression
//! ([`ring_bytes`]). The residents have the count at the end of each article, so an article has left the ring
//! when what was filed after it is more than the ring's size, whichever buffer it lies in. Part of the folds:
//! article rows change the counts, checkpoints contain them.

use crate::index::residents::Resident;
use netnews::overview_row::{field, index};
use spool_base::codec::{ByteReader, put_bytes, put_sized, put_u64, put_varint};
use spool_base::config::{ClassConfig, SpoolConfig};
use spool_methods::cnfs::record;
use spool_methods::{Volume, VolumeTable};
use tracing::warn;

/// Unit of sizes in a ring, whatever the blocks of the buffers are.
const UNIT_BYTES: u64 = 64;

/// Returns the size of an article in a ring: the length that readers see, with its Xref line, and the frame
/// of its record, in whole units; `fields` are those of its row.
pub(crate) fn ring_bytes(fields: &[u8]) -> u64 {
    let text = field(fields, index::BYTES - index::SUBJECT).unwrap_or_default();
    let bytes = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or_default();
    let frame = record::HEADER_BYTES + record::END.len();
    (u64::from(bytes) + frame as u64).next_multiple_of(UNIT_BYTES)
}

/// A class with a ring, as it is configured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingClass<'a> {
    pub name: &'a str,
    pub size_bytes: u64,
    /// Names of its buffers, including retired ones.
    pub buffers: &'a [String],
}

impl<'a> RingClass<'a> {
    /// Returns the classes of a configuration that have a ring.
    pub fn all(config: &'a SpoolConfig) -> Vec<Self> {
        config.classes.iter().filter_map(|class| Self::of(class, &class.buffers)).collect()
    }

    /// Returns a class that writes to these buffers; `None` if it has no ring.
    pub fn of(class: &'a ClassConfig, buffers: &'a [String]) -> Option<Self> {
        Some(Self { name: &class.name, size_bytes: class.ring_bytes?, buffers })
    }
}

/// A buffer of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RingVolume {
    /// Number of the volume.
    id: u16,
    /// Place from which on its residents have counts of this ring.
    since: u64,
}

/// The ring of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Name of the class.
    class: String,
    size_bytes: u64,
    /// Bytes filed since the class has a ring.
    filed: u64,
    volumes: Vec<RingVolume>,
    /// Counts at the ends of articles that a buffer has overwritten since the ring last turned.
    overwritten: Vec<u64>,
    /// Articles that a buffer has overwritten since the start although they had not left the ring.
    early: u64,
}

impl Ring {
    /// Returns the bytes of the ring after an article in one of its volumes. What was there before the class
    /// had a ring counts as the oldest.
    fn distance(&self, volume: u16, resident: &Resident) -> u64 {
        let counts = |v: &RingVolume| v.id == volume && resident.place >= v.since;
        let end = if self.volumes.iter().any(counts) { resident.ring_end } else { 0 };
        self.filed.saturating_sub(end)
    }

    /// Reports whether an article in one of its volumes has left the ring.
    fn has_left(&self, volume: u16, resident: &Resident) -> bool {
        self.distance(volume, resident) > self.size_bytes
    }

    /// Returns the numbers of its volumes.
    fn volumes(&self) -> impl Iterator<Item = u16> + '_ {
        self.volumes.iter().map(|volume| volume.id)
    }

    /// Adds the class's buffers that are not in it yet; what they hold now has no count.
    fn take_in(&mut self, class: &RingClass<'_>, volumes: &VolumeTable, is_empty: bool) {
        for volume in class.buffers.iter().filter_map(|name| volumes.cycbuff(name)) {
            if self.volumes().all(|id| id != volume.id()) {
                let since = if is_empty { 0 } else { volume.head() };
                self.volumes.push(RingVolume { id: volume.id(), since });
            }
        }
    }
}

/// The rings of all classes that have one.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    rings: Vec<Ring>,
}

impl Rings {
    /// Creates the rings as of a checkpoint, and those that it does not have; `is_empty` if nothing is in the
    /// indexes yet.
    pub fn new(saved: Vec<Ring>, classes: &[RingClass<'_>], volumes: &VolumeTable, is_empty: bool) -> Self {
        let mut rings = Self { rings: saved };
        rings.add(classes, volumes, is_empty);
        rings
    }

    /// Returns whether no class has a ring.
    pub fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    /// Returns the rings.
    pub fn all(&self) -> &[Ring] {
        &self.rings
    }

    /// Returns how many articles of a class its buffers have overwritten since the start although they had
    /// not left the ring; `None`: it has no ring.
    pub fn early(&self, class: &str) -> Option<u64> {
        self.rings.iter().find(|ring| ring.class == class).map(|ring| ring.early)
    }

    /// Reports whether a volume belongs to a ring.
    pub fn has(&self, volume: u16) -> bool {
        self.rings.iter().any(|ring| ring.volumes().any(|id| id == volume))
    }

    /// Reports whether an article in a volume has left the ring of its class.
    pub fn has_left(&self, volume: u16, resident: &Resident) -> bool {
        self.rings.iter().any(|ring| ring.volumes().any(|id| id == volume) && ring.has_left(volume, resident))
    }

    /// Uses these classes from here on; returns whether that changes anything.
    pub fn configure(&mut self, classes: &[RingClass<'_>], volumes: &VolumeTable) -> bool {
        let before = self.rings.clone();
        self.rings.retain_mut(|ring| {
            let Some(class) = classes.iter().find(|class| class.name == ring.class) else { return false };
            ring.size_bytes = class.size_bytes;
            ring.volumes.retain(|volume| {
                let name = volumes.get(volume.id).map(|volume| volume.name());
                class.buffers.iter().any(|buffer| Some(buffer.as_str()) == name)
            });
            true
        });
        self.add(classes, volumes, false);
        self.rings != before
    }

    fn add(&mut self, classes: &[RingClass<'_>], volumes: &VolumeTable, is_empty: bool) {
        for class in classes {
            if self.rings.iter().all(|ring| ring.class != class.name) {
                let (class, size_bytes) = (class.name.to_owned(), class.size_bytes);
                self.rings.push(Ring { class, size_bytes, ..Ring::default() });
            }
            let own = self.rings.iter_mut().filter(|ring| ring.class == class.name);
            own.for_each(|ring| ring.take_in(class, volumes, is_empty));
        }
    }

    fn of(&mut self, volume: u16) -> Option<&mut Ring> {
        self.rings.iter_mut().find(|ring| ring.volumes().any(|id| id == volume))
    }

    /// Counts an article that is filed in a volume; returns the count at its end, 0 without a ring.
    pub fn file(&mut self, volume: u16, fields: &[u8]) -> u64 {
        let Some(ring) = self.of(volume) else { return 0 };
        ring.filed += ring_bytes(fields);
        ring.filed
    }

    /// Notes that a volume overwrites an article.
    pub fn overwrite(&mut self, volume: u16, resident: &Resident) {
        if let Some(ring) = self.of(volume) {
            let end = ring.filed - ring.distance(volume, resident);
            ring.overwritten.push(end);
        }
    }

    /// Counts the articles overwritten since the last turn that have not left their ring even now.
    pub fn count_early(&mut self) {
        for ring in self.rings.iter_mut().filter(|ring| !ring.overwritten.is_empty()) {
            let stays = |end: &&u64| ring.filed.saturating_sub(**end) <= ring.size_bytes;
            let early = ring.overwritten.iter().filter(stays).count() as u64;
            if early > 0 && ring.early == 0 {
                let class = &ring.class;
                warn!(
                    "class \"{class}\": its buffers are smaller than its ring: articles are overwritten that \
                     other machines with this ring still have; newsreel status counts them from here on"
                );
            }
            ring.early += early;
            ring.overwritten.clear();
        }
    }
}

/// Appends places by number of the volume.
pub(crate) fn put_places(places: &[(u16, u64)], out: &mut Vec<u8>) {
    put_varint(places.len() as u64, out);
    for (volume, place) in places {
        put_varint(u64::from(*volume), out);
        put_varint(*place, out);
    }
}

/// Reads what [`put_places`] wrote.
pub(crate) fn read_places(r: &mut ByteReader<'_>) -> Option<Vec<(u16, u64)>> {
    (0..r.count(2)?).map(|_| Some((u16::try_from(r.varint()?).ok()?, r.varint()?))).collect()
}

/// Appends rings to a checkpoint.
pub(crate) fn put_rings(rings: &[Ring], out: &mut Vec<u8>) {
    put_varint(rings.len() as u64, out);
    for ring in rings {
        put_sized(out, |out| {
            put_bytes(ring.class.as_bytes(), out);
            put_u64(ring.size_bytes, out);
            put_u64(ring.filed, out);
            put_varint(ring.volumes.len() as u64, out);
            for volume in &ring.volumes {
                put_varint(u64::from(volume.id), out);
                put_varint(volume.since, out);
            }
        });
    }
}

/// Reads what [`put_rings`] wrote.
pub(crate) fn read_rings(r: &mut ByteReader<'_>) -> Option<Vec<Ring>> {
    let count = r.count(4)?;
    (0..count).map(|_| read_ring(&mut r.sized()?)).collect()
}

fn read_ring(r: &mut ByteReader<'_>) -> Option<Ring> {
    let (class, size_bytes, filed) = (r.text()?, r.u64()?, r.u64()?);
    let mut ring = Ring { class, size_bytes, filed, ..Ring::default() };
    for _ in 0..r.count(2)? {
        ring.volumes.push(RingVolume { id: u16::try_from(r.varint()?).ok()?, since: r.varint()? });
    }
    Some(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_what_readers_see_and_the_frame_in_whole_units() {
        assert_eq!(ring_bytes(b"s\tf\td\t<a@b>\t\t125\t1"), 192);
        assert_eq!(ring_bytes(b"s\tf\td\t<a@b>\t\t126\t1\tX-More: a"), 256);
        assert_eq!(ring_bytes(b""), 128);
    }

    #[test]
    fn rings_round_trip() {
        let volumes = vec![RingVolume { id: 3, since: 1 << 40 }, RingVolume { id: 4, since: 0 }];
        let ring = Ring { class: "text".into(), size_bytes: 1 << 30, filed: 9, volumes, ..Ring::default() };
        let rings = [ring, Ring::default()];
        let mut out = Vec::new();
        put_rings(&rings, &mut out);
        assert_eq!(read_rings(&mut ByteReader(&out)).unwrap(), rings);
        assert!((0..out.len()).all(|cut| read_rings(&mut ByteReader(&out[..cut])).is_none()));
    }
}
