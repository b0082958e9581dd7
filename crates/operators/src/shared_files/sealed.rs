//! Small files as notes of the site: sealed, in pieces, each under the hash of its name.
//!
//! A file counts once all pieces of one writing are there; until then, and if another member has written
//! pieces in between, it is as it was. Format: `docs/formats/notes.md`.

use access::sealing::{ClusterKey, NAME_HASH_BYTES};
use access::users::sha256;
use site_base::clock::unix_secs;
use spool::{Change, NoteKind, Spool};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

/// Bytes of a piece; with its head it is no longer than a note may be.
const PIECE_BYTES: usize = 16_000;
/// Longest file that is shared, in bytes.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 20;
/// Octets before a piece: number of the writing (8), number of the piece (2), number of all pieces (2).
const HEAD_BYTES: usize = 12;
/// Notes that are left free, so that the oldest are never displaced by what several members write at once.
const NOTES_SPARE: usize = 4_096;

/// Hash of a file's content.
pub(crate) type ContentHash = [u8; 32];
type NameHash = [u8; NAME_HASH_BYTES];

/// A note that is to be made or removed.
#[derive(Debug)]
pub(crate) struct SealedNote {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl SealedNote {
    /// Returns the change that makes or removes it.
    pub fn change(&self) -> Change<'_> {
        let value = self.value.as_deref();
        Change::Note { kind: NoteKind::SharedFile, key: &self.key, value, since: unix_secs() }
    }
}

/// A file as its pieces are.
#[derive(Debug, Default)]
struct PiecesOfFile {
    /// Value of each note of the file, by the number of the piece in its key.
    values: BTreeMap<u16, Arc<[u8]>>,
}

impl PiecesOfFile {
    /// Returns the number of the writing and the sealed file, if all pieces are of one writing.
    fn whole(&self) -> Option<(u64, Vec<u8>)> {
        let head = |value: &Arc<[u8]>| -> Option<(u64, u16, u16)> {
            let (writing, rest) = value.split_first_chunk::<8>()?;
            let (number, rest) = rest.split_first_chunk::<2>()?;
            let (of, _) = rest.split_first_chunk::<2>()?;
            Some((u64::from_le_bytes(*writing), u16::from_le_bytes(*number), u16::from_le_bytes(*of)))
        };
        let (writing, _, of) = self.values.get(&0).and_then(head)?;
        let mut sealed = Vec::new();
        for number in 0..of {
            let value = self.values.get(&number)?;
            (head(value)? == (writing, number, of)).then_some(())?;
            sealed.extend_from_slice(value.get(HEAD_BYTES..)?);
        }
        Some((writing, sealed))
    }
}

/// The shared files, as the site's notes have them.
#[derive(Debug)]
pub(crate) struct SealedFiles {
    key: ClusterKey,
    /// Number of changes of notes when they were last read.
    seen: Option<u64>,
    /// Writing and name of each file, by the hash of its name; `None`: it cannot be opened.
    known: HashMap<NameHash, (u64, Option<(String, ContentHash)>)>,
}

impl SealedFiles {
    /// Creates those under a key.
    pub fn under(key: ClusterKey) -> Self {
        Self { key, seen: None, known: HashMap::new() }
    }

    /// Reads the notes again if they have changed. Returns how many files cannot be opened.
    pub fn refresh(&mut self, spool: &Spool) -> usize {
        let changes = spool.note_changes(NoteKind::SharedFile);
        if self.seen != Some(changes) {
            let mut files: HashMap<NameHash, PiecesOfFile> = HashMap::new();
            for (key, note) in spool.notes(NoteKind::SharedFile) {
                let Some((hash, number)) = parts_of(&key) else { continue };
                files.entry(hash).or_default().values.insert(number, note.value);
            }
            self.known.retain(|hash, _| files.contains_key(hash));
            for (hash, pieces) in files {
                let Some((writing, sealed)) = pieces.whole() else { continue };
                if self.known.get(&hash).is_none_or(|(known, _)| *known != writing) {
                    let opened = self.key.open(hash, &sealed);
                    let opened = opened.map(|(name, content)| (name, sha256(&content)));
                    self.known.insert(hash, (writing, opened));
                }
            }
            self.seen = Some(changes);
        }
        self.known.values().filter(|(_, opened)| opened.is_none()).count()
    }

    /// Returns the files as last read.
    pub fn all(&self) -> BTreeMap<&str, ContentHash> {
        let opened = self.known.values().filter_map(|(_, opened)| opened.as_ref());
        opened.map(|(name, hash)| (name.as_str(), *hash)).collect()
    }

    /// Returns the content of a file; `None` if there is no whole one.
    pub fn content(&self, spool: &Spool, name: &str) -> Option<Vec<u8>> {
        let hash = self.key.hash_of(name);
        let mut pieces = PiecesOfFile::default();
        for number in 0..=u16::MAX {
            let Some(note) = spool.note_of(NoteKind::SharedFile, &key_of(hash, number)) else { break };
            pieces.values.insert(number, note.value);
        }
        let (_, sealed) = pieces.whole()?;
        self.key.open(hash, &sealed).map(|(_, content)| content)
    }

    /// Returns the notes by which a file gets this content, or is removed.
    pub fn notes_of(&self, spool: &Spool, name: &str, content: Option<&[u8]>) -> io::Result<Vec<SealedNote>> {
        let hash = self.key.hash_of(name);
        let sealed = content.map(|content| self.key.seal(name, content)).transpose()?;
        let pieces: Vec<&[u8]> =
            sealed.as_deref().map(|s| s.chunks(PIECE_BYTES).collect()).unwrap_or_default();
        if spool.note_count(NoteKind::SharedFile) + pieces.len() + NOTES_SPARE
            > NoteKind::SharedFile.notes_max()
        {
            return Err(io::Error::other("as many files are shared already as can be"));
        }
        let of = u16::try_from(pieces.len()).map_err(io::Error::other)?;
        // Random: the beginning of what was sealed.
        let writing =
            sealed.as_deref().and_then(|sealed| sealed.first_chunk::<8>().copied()).unwrap_or_default();
        let mut notes = Vec::with_capacity(pieces.len());
        for (number, piece) in (0..of).zip(pieces) {
            let head = [&writing[..], &number.to_le_bytes(), &of.to_le_bytes()].concat();
            notes.push(SealedNote { key: key_of(hash, number), value: Some([&head, piece].concat()) });
        }
        let is_there = |key: &Vec<u8>| spool.note_of(NoteKind::SharedFile, key).is_some();
        let left_over = (of..=u16::MAX).map(|number| key_of(hash, number)).take_while(is_there);
        notes.extend(left_over.map(|key| SealedNote { key, value: None }));
        Ok(notes)
    }
}

/// Returns the key of the note with a piece of a file.
fn key_of(hash: NameHash, number: u16) -> Vec<u8> {
    [&hash[..], &number.to_le_bytes()].concat()
}

fn parts_of(key: &[u8]) -> Option<(NameHash, u16)> {
    let (hash, number) = key.split_first_chunk::<NAME_HASH_BYTES>()?;
    Some((*hash, u16::from_le_bytes(number.try_into().ok()?)))
}
