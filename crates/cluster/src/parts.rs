//! Parts of large articles, in files beside the spool until their article comes (`docs/formats/log.md`).
//!
//! Which uploads are open is part of the position, so all members drop the same ones. Files are written
//! durably before the position names them, and removed after the position without them is durable.

use crate::entry::PartEntry;
use crate::position::{LogPosition, OpenUpload, UPLOADS_MAX};
use disk::{Disk, FileAccess, durable_replace, read_small};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum length of the open uploads of one member.
const MEMBER_BYTES_MAX: u64 = 64 << 20;
/// Number of messages after which an upload that is not used is dropped.
const MESSAGES_MAX: u64 = 10_000;

/// The files of parts.
#[derive(Debug)]
pub(crate) struct PartFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Files that the position no longer names.
    unused: Vec<PathBuf>,
}

impl PartFiles {
    /// Opens the directory and removes what the position does not name.
    pub fn open(disk: &Arc<dyn Disk>, dir: PathBuf, position: &LogPosition) -> io::Result<Self> {
        disk.create_dir(&dir)?;
        let mut files = Self { disk: disk.clone(), dir, unused: Vec::new() };
        let named: Vec<String> = position.uploads.iter().flat_map(names).collect();
        for name in disk.list(&files.dir)?.into_iter().filter(|name| !named.contains(name)) {
            files.unused.push(files.dir.join(name));
        }
        files.remove_unused()?;
        Ok(files)
    }

    /// Keeps a part, and drops uploads that there is no room for any more.
    pub fn put(
        &mut self,
        position: &mut LogPosition,
        member: u16,
        sequence: u64,
        part: &PartEntry<'_>,
    ) -> io::Result<()> {
        let is_same = |upload: &&mut OpenUpload| (upload.member, upload.upload) == (member, part.upload);
        let known = position.uploads.iter_mut().find(is_same);
        if known.as_ref().is_some_and(|known| known.of != part.of || known.seen >> part.number & 1 == 1) {
            return Ok(());
        }
        let path = self.dir.join(name(member, part.upload, part.number));
        durable_replace(&*self.disk, &path, &[part.bytes], FileAccess::Owner)?;
        let (bit, bytes) = (1 << part.number, part.bytes.len() as u64);
        match known {
            Some(known) => {
                known.seen |= bit;
                known.bytes += bytes;
            }
            None => position.uploads.push(OpenUpload {
                member,
                upload: part.upload,
                of: part.of,
                seen: bit,
                bytes,
                begun: sequence,
            }),
        }
        let bytes_of_member = |position: &LogPosition| {
            position
                .uploads
                .iter()
                .filter(|upload| upload.member == member)
                .map(|upload| upload.bytes)
                .sum::<u64>()
        };
        while bytes_of_member(position) > MEMBER_BYTES_MAX {
            let oldest = position.uploads.iter().position(|upload| upload.member == member);
            oldest.into_iter().for_each(|at| self.drop_upload(position, at));
        }
        if position.uploads.len() > UPLOADS_MAX {
            self.drop_upload(position, 0);
        }
        Ok(())
    }

    /// Drops the uploads that were begun too many messages ago.
    pub fn drop_old(&mut self, position: &mut LogPosition, sequence: u64) {
        while position.uploads.first().is_some_and(|upload| sequence - upload.begun > MESSAGES_MAX) {
            self.drop_upload(position, 0);
        }
    }

    fn drop_upload(&mut self, position: &mut LogPosition, at: usize) {
        let upload = position.uploads.remove(at);
        self.unused.extend(names(&upload).map(|name| self.dir.join(name)));
    }

    /// Returns the article of an upload, which is closed; `None` if parts are missing.
    pub fn take(
        &mut self,
        position: &mut LogPosition,
        member: u16,
        upload: u64,
        bytes: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        let is_it = |open: &OpenUpload| (open.member, open.upload) == (member, upload);
        let Some(at) = position.uploads.iter().position(is_it) else { return Ok(None) };
        let open = position.uploads.get(at).copied().filter(OpenUpload::is_whole);
        let Some(open) = open.filter(|open| open.bytes == bytes as u64) else { return Ok(None) };
        let mut article = Vec::with_capacity(bytes);
        for name in names(&open) {
            let part = read_small(&*self.disk, &self.dir.join(&name), MEMBER_BYTES_MAX)?;
            article.extend(part.ok_or_else(|| io::Error::other(format!("the part {name} is missing")))?);
        }
        self.drop_upload(position, at);
        Ok(Some(article))
    }

    /// Reports whether files wait to be removed.
    pub fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    /// Removes the files that no durable position names.
    pub fn remove_unused(&mut self) -> io::Result<()> {
        while let Some(path) = self.unused.pop() {
            match self.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn name(member: u16, upload: u64, number: u32) -> String {
    format!("{member:05}-{upload:016x}-{number:02}")
}

/// Returns the names of the files of the parts that were seen.
fn names(upload: &OpenUpload) -> impl Iterator<Item = String> + use<> {
    let OpenUpload { member, upload, of, seen, .. } = *upload;
    (0..of).filter(move |number| seen >> number & 1 == 1).map(move |number| name(member, upload, number))
}
